/* Operators' acts on executions: cancel, retry, release, wake, purge; of one by its id, or of many by the conditions of a
 * list.
 *
 * An act is a transaction for each chunk, and the caller goes on behind the last id of the chunk before. A refusal of one
 * execution is counted and ends nothing. Each act is on record with its actor and reason (store_act_as()).
 *
 * Threads: that of the handle. Source of the rules: docs/design/scheduler.md and docs/glossary.md (act, retry).
 */
#ifndef WEIR_STORE_BULK_H
#define WEIR_STORE_BULK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/uuid.h"
#include "weir/status.h"

struct store;

enum filter_condition { CONDITION_ANY, CONDITION_YES, CONDITION_NO };

/* The conditions of a list, a count or a bulk act. NULL or 0 = no condition. Times in store time. */
struct execution_filter {
    const char *id; /* whole, or the first 6 or more characters when it is the only condition */
    const char *workspace;
    const char *workflow;
    const char *group;
    unsigned states;         /* bit 1 << enum item_state; 0 = all */
    const char *reason;      /* pending_reason */
    const char *waiting_for; /* the name of a wait_kind */
    const char *parent;      /* whole id: its children */
    const char *error_code;
    const char *idempotency_key;
    enum filter_condition retried;   /* another execution, which is still on record, repeats it */
    enum filter_condition dismissed; /* BULK_DISMISS was done to it */
    enum filter_condition stuck;     /* its node has marked it: store_mark_stuck() */
    int64_t created_since_us;
    int64_t created_before_us;
    int64_t finished_before_us;
    int64_t ids_before_us; /* executions whose id has this time or a later one are not read; no condition of a user */
};

enum bulk_act { BULK_CANCEL, BULK_RETRY, BULK_RELEASE, BULK_WAKE, BULK_DISMISS, BULK_PURGE };
const char *bulk_act_name(enum bulk_act act);

struct bulk_result {
    size_t matched;
    size_t changed;
    size_t requested;            /* BULK_CANCEL: of the changed ones, those that a node holds and ends later */
    size_t refused;              /* matched but not in a state that allows it */
    char last_id[UUID_TEXT_MAX]; /* where the next chunk goes on */
    char new_id[UUID_TEXT_MAX];  /* BULK_RETRY of one: the new execution's id */
    enum weir_status first_refusal;
    struct weir_error refusal;
    bool more;
};
/* Does `act` to the executions that match, at most `limit` per call, in the order of their ids, behind `after` ("" = from
 * the start). cancel: pending ones never start, running ones are passed to their engine. retry: a FAILED or CANCELLED one
 * is enqueued again as a new execution, which begins anew (terminal rows are never rewritten). release: a pending one
 * starts now, before its run_at or the end of its backoff. wake: the steps of one that sleep or wait for their next
 * attempt go on now, also in the node that holds it. Each wait is ended once (docs/design/waiting.md). dismiss: a
 * FAILED one is dealt with, which only the filter `dismissed` and its events show; a repetition changes nothing. purge:
 * ended ones are removed with all that belongs to them. */
WEIR_MUST_CHECK enum weir_status store_bulk(struct store *store, enum bulk_act act, const struct execution_filter *filter,
                                            const char *after, size_t limit, struct bulk_result *ret_result,
                                            struct weir_error *error);

/* The options of an act. */
struct act_order {
    /* BULK_RETRY */
    bool keeps_finished; /* the finished steps of the ended execution are kept with their outputs, and the others run */
    const char *from;    /* of the finished steps, this one and all that need it run again; NULL = none of them */
    /* BULK_WAKE */
    /* Only waits of this kind, the name of a wait_kind; NULL = sleeps and waits for the next attempt. Waits for a signal
     * are ended only if they have a timeout, as if that had come. */
    const char *waits_for;
};
/* store_bulk() with the options of its act; those of other acts are ignored. NULL = a retry begins anew, and a wake ends
 * sleeps and waits for the next attempt. A retry of a workflow without steps, or without this one, is refused with
 * WEIR_INVALID_ARGUMENT. A wake of an execution in which no such wait is on record, or is woken already, is refused
 * with WEIR_ILLEGAL_STATE. */
WEIR_MUST_CHECK enum weir_status store_bulk_ordered(struct store *store, enum bulk_act act, const struct act_order *order,
                                                    const struct execution_filter *filter, const char *after, size_t limit,
                                                    struct bulk_result *ret_result, struct weir_error *error);

/* store_bulk_ordered() of the one execution filter->id, if the other conditions match
 * it. A refusal is the status: WEIR_EXECUTION_NOT_FOUND, WEIR_ILLEGAL_STATE, WEIR_CONFLICT. */
WEIR_MUST_CHECK enum weir_status store_bulk_one(struct store *store, enum bulk_act act, const struct act_order *order,
                                                const struct execution_filter *filter, struct bulk_result *ret_result,
                                                struct weir_error *error);

#endif
