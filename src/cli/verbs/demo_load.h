/* The workflows of `weir demo`, and its load behind the first executions: waves of work while a page is open.
 *
 * A workspace that is idle for a while gets a few times as many executions as it has slots, each of some seconds. The
 * pauses differ, so that slots fill and empty at different times, and a killed node nearly always has work.
 *
 * Threads: one. */
#ifndef WEIR_CLI_VERBS_DEMO_LOAD_H
#define WEIR_CLI_VERBS_DEMO_LOAD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

enum {
    DEMO_LOAD_WORKSPACES_MAX = 8,
    DEMO_LOAD_MOST = 20000 /* a page may stay open for days, and the audit reads all records */
};

struct demo_load {
    int64_t idle_since_us[DEMO_LOAD_WORKSPACES_MAX]; /* boot clock; 0 = it has work */
    int64_t enqueued;
    bool is_published;
};

/* Publishes the text of a workflow; `file` is its name in messages. Errors of definition_read() and store_publish(). */
WEIR_MUST_CHECK enum weir_status demo_publish(struct store *store, const char *text, size_t length, const char *file,
                                              struct weir_error *error);

/* Enqueues a wave if one is due. `row`: of the workspace in store_status(); NULL = the user has deleted it. `place`: the
 * same number for the same workspace. Errors of demo_publish() and store_enqueue(). */
WEIR_MUST_CHECK enum weir_status demo_load_step(struct demo_load *load, struct store *store, size_t place,
                                                const json_t *row, struct weir_error *error);

#endif
