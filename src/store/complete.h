/* The end of an execution as its own worker reports it (complete.c). Threads: as in store.h. */
#ifndef WEIR_STORE_COMPLETE_H
#define WEIR_STORE_COMPLETE_H

#include "store/store.h"

/* The end of an execution as its own worker reports it, before the engine or instead of it. */
struct completion {
    const char *id;         /* or its first 6 or more characters; a workflow id `execution-<id>` too */
    enum record_kind kind;  /* RECORD_COMPLETED, _FAILED or _CANCELLED */
    const char *result;     /* JSON text, at most STEP_OUTPUT_BYTES_MAX bytes, or NULL: the output of the step `workflow` */
    const char *error_code; /* at most ERROR_CODE_MAX bytes, or NULL */
    const char *error;      /* or NULL */
    /* Of the caller's run, so that the end of another one is refused; the first or the newest of its chain. NULL = any */
    const char *run_id;
    int64_t fence; /* of the execution now; 0 = any */
};
/* Ends a claimed or running execution of a workflow with a `temporal:` section, also when its start is not on record yet;
 * its slot is free at once. Later reports of its node or the engine change nothing, and the same end again is WEIR_OK.
 * WEIR_STORE_BUSY: the run cannot be compared yet, because its start is not on record; repeat. WEIR_CONFLICT: it is another
 * run, or another fence.
 * Made of the other verbs. WEIR_EXECUTION_NOT_FOUND; WEIR_ILLEGAL_STATE (not started, ended otherwise, or run by a node);
 * WEIR_INVALID_ARGUMENT (the result or the error). */
WEIR_MUST_CHECK enum weir_status store_complete(struct store *store, const struct completion *completion,
                                                struct weir_error *error);
/* The present answer of store_complete(); changes nothing. *ret_has_ended: the execution has this end already, and telling
 * it again would change nothing either. */
WEIR_MUST_CHECK enum weir_status store_complete_rehearse(struct store *store, const struct completion *completion,
                                                         bool *ret_has_ended, struct weir_error *error);

#endif
