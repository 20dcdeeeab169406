/* The nodes of a process of the command line: shared by serve, dev and demo. There is one, or one for each entry of
 * `nodes` in the settings. Each is a whole node with an engine, a lease and threads of its own, so an engine that is
 * down does not delay the other nodes. They start and stop together; one that cannot continue ends the process.
 *
 *     node_runner_open() -> node_runner_start() -> (until a signal or a failure) -> node_runner_stop() ->
 * node_runner_close()
 *
 * The order inside matters: the engines come first, because their keepers are forked and must be forked while the process
 * has one thread and no open store. (Each keeper closes the files that it inherits of the rest.) Threads: one; the nodes
 * have their own. */
#ifndef WEIR_CLI_NODE_RUNNER_H
#define WEIR_CLI_NODE_RUNNER_H

#include "cli/arguments/invocation.h"
#include "dispatch/node.h"
#include "engine/engine.h"
#include "observe/event.h"
#include "observe/log.h"
#include "observe/span_exporter.h"
#include "server/api.h"
#include "server/http_server.h"
#include "store/store.h"

struct running_node {
    struct settings settings;
    struct engine *engine;
    struct node *node;
};

struct node_runner {
    const struct invocation *invocation;
    const struct settings *settings; /* those of the start, or of the last reload */
    struct settings reloaded;
    struct arena reload_arenas[2]; /* of the last reload, and for the next one */
    struct event_bus events;
    struct log log;
    bool has_log;
    struct store *store;
    struct running_node nodes[SETTINGS_NODES_MAX];
    size_t count;
    struct http_server *server;           /* NULL without http.listen */
    char no_http[WEIR_ERROR_MESSAGE_MAX]; /* why the offered address is not served; "" = it is, or none was offered */
    struct api api;
    struct span_exporter *exporter; /* NULL without otel.endpoint */
};

struct node_runner_options {
    const char *store_url;
    bool create_store; /* make and migrate it */
    bool open_exec;    /* beside exec.allow; opens http steps too, unless http_step.allow is set */
    bool is_anonymous; /* beside http.anonymous */
    bool one_node;     /* beside `nodes` */
    bool opens_http;   /* at HTTP_LISTEN_DEFAULT without http.listen, if that is free */
    const char *group; /* of `nodes` only the one of this group; NULL = all */
    int log_fd;        /* -1 = no log */
};

/* Everything but the nodes themselves, so that the caller can prepare the store. node_runner_close() undoes a half of it
 * too. */
WEIR_MUST_CHECK enum weir_status node_runner_open(struct node_runner *runner, const struct invocation *invocation,
                                                  const struct node_runner_options *options, struct weir_error *error);
/* Prints the addresses of HTTP, or why there is none; after the start. */
void node_runner_report_http(const struct node_runner *runner);
/* Registers the nodes and runs their threads. */
WEIR_MUST_CHECK enum weir_status node_runner_start(struct node_runner *runner, struct weir_error *error);
/* Waits for a signal (WEIR_OK), until operators have stopped every node (WEIR_OK), or until one is not healthy (its
 * status). Meanwhile a SIGHUP reads the settings again (reload.h), if signals_catch_reload() was called. */
WEIR_MUST_CHECK enum weir_status node_runner_await(struct node_runner *runner, struct weir_error *error);
/* Stops: waits for running executions and prints that; a further signal interrupts it (WEIR_INTERRUPTED); so does the end
 * of stop.grace (WEIR_FAILED, with the message). */
WEIR_MUST_CHECK enum weir_status node_runner_stop(struct node_runner *runner, struct weir_error *error);
/* Whether all nodes can continue; `error` has the reason when one cannot. */
bool node_runner_is_healthy(const struct node_runner *runner, struct weir_error *error);
/* Takes a zeroed one. */
void node_runner_close(struct node_runner *runner);

#endif
