/* A worker over HTTP (docs/workers.md): claims tasks from servers, has their handlers run by an engine, and reports the
 * results. A node of the public interface on a store `http://...` is one.
 *
 * Its one thread waits for the servers, for the ends of handlers and for the ends of leases, all at once. It runs no
 * handler, so neither a handler nor a server delays the end of a lease.
 *
 * Owner: worker_open() .. worker_close(). The engine must outlive the worker. Threads: any, but for open, run and close.
 */
#ifndef WEIR_WORKER_WORKER_H
#define WEIR_WORKER_WORKER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "observe/event.h"
#include "weir/status.h"

struct worker;

enum {
    WORKER_NAME_MAX = 128,
    WORKER_GROUP_MAX = 64,
    WORKER_HANDLERS_MAX = 64, /* a claim names no more */
    WORKER_TASKS_MAX = 1000,  /* a claim takes no more */
    WORKER_TASKS_DEFAULT = 64
};

struct worker_options {
    const char *url;       /* of one server or several, with the token of the environment (remote/client.h) */
    const char *name;      /* NULL = host, process id and a random number */
    const char *group;     /* executor group of the node; NULL = the first node of the server */
    size_t tasks_max;      /* at once; 0 = WORKER_TASKS_DEFAULT; more than WORKER_TASKS_MAX counts as that */
    struct engine *engine; /* has the handlers; the worker becomes its sink */
    struct event_bus *events;
};

/* Makes no connection. WEIR_INVALID_ARGUMENT: URL, name or group; WEIR_INVALID_CONFIG: there is no libcurl;
 * WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status worker_open(const struct worker_options *options, struct worker **ret_worker,
                                             struct weir_error *error);
/* Begins to work. WEIR_SYSTEM: there is no thread. */
WEIR_MUST_CHECK enum weir_status worker_run_thread(struct worker *worker, struct weir_error *error);
/* The tasks that it claims from now on: a JSON array of names, copied; an empty one claims none. WEIR_INVALID_ARGUMENT:
 * more than WORKER_HANDLERS_MAX; WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status worker_name_handlers(struct worker *worker, const json_t *names, struct weir_error *error);
/* Claims nothing until it is resumed. */
void worker_pause(struct worker *worker, bool paused);
/* WEIR_OK, or the last refusal of a claim that no repetition mends: a wrong token, for example. The worker tries again all
 * the same. */
WEIR_MUST_CHECK enum weir_status worker_health(struct worker *worker, struct weir_error *error);

/* Claims nothing more, and awaits the tasks that it has. `interrupt`: asks the handlers that run to end. Then the worker
 * leaves its servers: a task without a result is run by another worker at once. */
void worker_begin_stop(struct worker *worker, bool interrupt);
/* True: after worker_begin_stop(), no task is left. */
bool worker_is_stopped(struct worker *worker);
/* WEIR_TIMED_OUT after `deadline_us`; the stop goes on. `ret_graceful` (may be NULL): nothing was interrupted. */
WEIR_MUST_CHECK enum weir_status worker_await_stop(struct worker *worker, int64_t deadline_us, bool *ret_graceful,
                                                   struct weir_error *error);
/* Leaves the servers, if no stop has done so, and ends the thread and all requests. Tasks that still run are left to their
 * leases; their handlers are the engine's. Takes NULL. */
void worker_close(struct worker *worker);

#endif
