/* Stores, workspaces and work to measure with. */
#ifndef WEIR_BENCH_FIXTURE_H
#define WEIR_BENCH_FIXTURE_H

#include "bench.h"
#include "dispatch/node.h"
#include "engine/engine.h"
#include "weir/handler.h"

enum { FIXTURE_BATCH = 1000 };

/* A new, migrated store `name`.db in the run's folder with the workflow "noop" (one step, handler "noop"). */
struct store *fixture_store(struct bench *bench, const char *name);
/* The same at a URL of any driver. */
struct store *fixture_store_at(const char *url);
/* Path of the store's file, from its URL. */
const char *fixture_path(const struct store *store);
/* "w00000" ... by number; the text is overwritten by the eighth call after it. */
const char *fixture_workspace(size_t number);
/* Makes workspaces `first` ... `first + count - 1`. Plan NULL: of ten, seven are free, two pro, one enterprise. */
void fixture_workspaces(struct store *store, size_t first, size_t count, const char *plan);
/* Enqueues `count` in sets, workspace by workspace in turn, beginning with `first`. */
void fixture_fill(struct store *store, size_t first, size_t workspaces, size_t count);
void fixture_fill_with(struct store *store, const char *workflow, size_t first, size_t workspaces, size_t count);
/* Publishes a workflow for everybody. */
void fixture_publish(struct store *store, const char *name, const char *source);
/* While filling: commits need not reach the disk. Ends with everything in the main file. Only SQLite hurries. */
void fixture_hurry(struct store *store, bool hurry);

/* A node of the real kind: in-process engine with `handler` behind the name "noop", threads running. */
struct fixture_node {
    struct engine *engine;
    struct node *node;
};
/* The node has the handlers of the definitions here, for a node without fixture_engine(). */
void fixture_offer_handlers(struct store *store, int64_t node_id);
/* Forks the keeper, so it must come before anything that starts threads. */
void fixture_engine(struct fixture_node *node, weir_handler_function *handler, void *context);
void fixture_start(struct fixture_node *node, struct store *store);
void fixture_stop(struct fixture_node *node);

/* Executions that have ended COMPLETED, on SQLite. */
#define FIXTURE_COMPLETED "SELECT coalesce(sum(completed), 0) FROM lane_counters"
/* An integer that one SQL statement gives, read on a connection of its own. */
int64_t fixture_count(const struct store *store, const char *sql);
/* The work of this process's writer since the last call. */
struct writer_counts {
    int64_t pages_written; /* to the log */
    int64_t vm_steps;
    int64_t statements;
};
struct writer_counts fixture_writer_counts(struct store *store);
/* store_check() must find nothing. */
void fixture_check(struct store *store);
void fixture_no_op(struct weir_call *call, void *context);

#endif
