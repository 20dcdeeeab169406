/* Signals: data that a person or a program sends to an execution, for a step of the kind `signal`.
 *
 * The store keeps each signal with the execution until that is purged. A signal may come before the step that waits for
 * it. Each is consumed at most once. The record of the end of a step names the number of the signal. The store marks
 * the signal in the transaction of that record, under the fence of the claim. A signal wakes a WAITING execution if one
 * of its steps waits for this name. The node of a held one gets it by store_take_requests(). The node of any other gets
 * it with the claim. docs/design/signals.md has the reasons. store/store.h includes this file.
 */
#ifndef WEIR_STORE_SIGNALS_H
#define WEIR_STORE_SIGNALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/uuid.h"
#include "queue/signal.h"
#include "weir/status.h"

struct store;
struct callback;

struct state_update;

struct signal_request {
    const char *id;                    /* of the execution, or its first 6 or more characters */
    const char *name;                  /* that of a step of its definition; on Temporal any */
    const char *data;                  /* JSON text of at most SIGNAL_DATA_BYTES_MAX bytes; NULL = null */
    const struct approval *approval;   /* store_approve() sets it; the name, the data and the key are NULL then */
    const struct state_update *update; /* store_update_state() sets it, and nothing but the id beside it */
    const char *callback; /* store_call_back() sets it: the hash of the token (base/callback_token.h), without a name. The
                           * key is the digest of the data then */
    const struct callback *report; /* beside `callback`: as its function sent it, for a driver that passes it on */
    const char *key; /* of at most IDEMPOTENCY_KEY_MAX bytes: the same name and key again is the same signal; NULL = none */
};

/* The decision for a step of the kind `approve`. */
struct approval {
    const char *step; /* NULL = the one that waits for a decision */
    bool approved;
    const char *comment; /* of at most APPROVAL_COMMENT_MAX bytes; NULL = none */
};

struct sent_signal {
    char id[UUID_TEXT_MAX];     /* of the execution */
    char step[STEP_ID_MAX + 1]; /* of a decision: its step */
    int64_t seq;
    bool duplicate; /* `seq` is that of the first one with the key and this data; nothing was changed */
};
/* Sends a signal. An act on record, if the handle has an actor, and an event of the execution. Errors:
 *   - WEIR_EXECUTION_NOT_FOUND
 *   - WEIR_ILLEGAL_STATE: it has ended, or SIGNALS_KEPT_MOST signals of the name are not consumed, or their data would
 *     have more than signal_bytes_most() bytes
 *   - WEIR_INVALID_ARGUMENT: the name, the data or the key is wrong, or no step of its definition waits for the name
 *   - WEIR_IDEMPOTENCY_KEY_REUSED: the key is that of other data
 *   - WEIR_CONFLICT: the execution is of a workflow on Temporal, whose service gets the signal instead */
WEIR_MUST_CHECK enum weir_status store_signal(struct store *store, const struct signal_request *request,
                                              struct sent_signal *ret_sent, struct weir_error *error);

/* Decides for a step that waits for an approval on record. The actor of the handle must be one of `by` of the step, if it
 * has that; a refusal for this reason is an act on record ("approve refused"). Each step takes one decision, which is its
 * output: {"approved", "by", "comment", "at"}. ret_sent has the step and the number of its signal. Errors:
 * WEIR_EXECUTION_NOT_FOUND, WEIR_NOT_PERMITTED, WEIR_INVALID_ARGUMENT. WEIR_ILLEGAL_STATE: it has ended, no step waits
 * for an approval, several do, or it was decided already (the message has the first decision). */
WEIR_MUST_CHECK enum weir_status store_approve(struct store *store, const char *id, const struct approval *approval,
                                               struct sent_signal *ret_sent, struct weir_error *error);

/* The report of a function that an `http` step with `callback` has called. */
struct callback {
    const char *token;      /* of the header Weir-Callback of the request */
    const char *output;     /* JSON text of at most CALLBACK_OUTPUT_MAX bytes; NULL = null. Not for a failure */
    const char *error_code; /* of a failure, at most ERROR_CODE_MAX bytes; NULL = the step is done */
    const char *error;      /* its message, of at most CALLBACK_ERROR_MAX bytes; NULL = none */
    bool is_final;          /* the failure allows no further attempt */
};
enum { CALLBACK_OUTPUT_MAX = SIGNAL_DATA_BYTES_MAX - 1024, CALLBACK_ERROR_MAX = 4096 };

/* Keeps the report until its step ends by it. It counts for the attempt of the token while that is the last one on record.
 * It then runs, or waits for the report, and its time is not over. The same report again is no failure. No act on
 * record, as the end of any other step. ret_sent has the execution, and the number of the signal. A token of no step costs
 * reads alone: it waits for no lock. Its data is removed with the record that consumes it, because it may hold secrets of
 * the step. Errors: WEIR_NOT_FOUND: no such attempt, it is over, or the token is wrong. One answer stands for all, so that
 * a guess shows nothing. WEIR_CONFLICT: another report of the attempt came first; WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status store_call_back(struct store *store, const struct callback *callback,
                                                 struct sent_signal *ret_sent, struct weir_error *error);

/* The checks that need no store: WEIR_INVALID_ARGUMENT, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status signal_request_check(const struct signal_request *request, struct weir_error *error);

/* --- for the node that holds the execution --- */

struct node_request {
    char id[UUID_TEXT_MAX];
    int64_t fence;
    bool cancels;                        /* its cancel was requested, and not yet passed on */
    const struct signal_record *signals; /* not consumed, with those that were passed on before; in the arena */
    size_t signal_count;
};
enum { SIGNALLED_BATCH = 64 }; /* executions of one call with new signals */
/* Executions of this node with a requested cancel or a signal that was not yet passed on. Marks them as passed on. After an
 * answer that was lost they come again. *ret_more: more of them have signals, call again. */
WEIR_MUST_CHECK enum weir_status store_take_requests(struct store *store, int64_t node_id, struct arena *arena,
                                                     struct node_request **ret_requests, size_t *ret_count, bool *ret_more,
                                                     struct weir_error *error);

#endif
