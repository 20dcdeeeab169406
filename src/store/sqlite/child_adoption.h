/* Children with an idempotency key that is known. Threads: those of the transaction. */
#ifndef WEIR_STORE_SQLITE_CHILD_ADOPTION_H
#define WEIR_STORE_SQLITE_CHILD_ADOPTION_H

#include "store/sqlite/sqlite_store.h"

/* A request to start a child of `parent` in `workspace`; its key is known there. */
struct adoption {
    const char *parent;
    const char *workspace;
    const char *workflow;
    const char *key;
    bool is_elsewhere; /* the step names the workspace */
};

/* How it is answered. */
struct adopted {
    char id[UUID_TEXT_MAX]; /* of the execution that the child becomes */
    bool has_ended;
    bool is_completed;
};

/* Finds the execution of the key, or its newest retry, or leaves a refusal in `result`. Content that was archived is
 * brought back, because the parent reads the output. */
WEIR_MUST_CHECK enum weir_status child_adopt(struct write *write, const struct adoption *adoption,
                                             struct adopted *ret_adopted, struct enqueue_result *result,
                                             struct weir_error *error);

#endif
