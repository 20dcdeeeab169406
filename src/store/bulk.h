/* Operators' acts on executions: cancel, retry, release, wake, dismiss, purge, signal, migrate; of one by its id, or of
 * many by the conditions of a list.
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
#include "queue/limits.h"
#include "weir/status.h"

struct store;

enum filter_condition { CONDITION_ANY, CONDITION_YES, CONDITION_NO };

/* A label that an execution has (store/labels.h). */
struct label_condition {
    const char *name;
    const char *value; /* 1 to LABEL_VALUE_MAX bytes */
    bool is_prefix;    /* any value that begins so */
};

/* The conditions of a list, a count or a bulk act. NULL or 0 = no condition. Times in store time. */
struct execution_filter {
    const char *id; /* whole, or the first 6 or more characters when it is the only condition */
    const char *workspace;
    int64_t workspace_id; /* of a bulk act: in place of the name, that of the result before; 0 = that of the name */
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
    int64_t ids_before_us;    /* executions whose id has this time or a later one are not read; no condition of a user */
    const char *business_key; /* 1 to BUSINESS_KEY_MAX bytes */
    bool business_key_is_prefix;
    struct label_condition labels[LABEL_CONDITIONS_MAX]; /* it has all of them */
    size_t label_count;
    const char *node;       /* the name of the node that holds it, or that had it at its end */
    int version;            /* of its workflow */
    int64_t longer_than_us; /* from its first start to its end, or to as_of_us; one that never started has no duration */
    int64_t shorter_than_us;
    int64_t as_of_us;       /* store time; with longer_than_us or shorter_than_us */
    const char *error_text; /* a part of its error, in this case of letters */
};

enum bulk_act { BULK_CANCEL, BULK_RETRY, BULK_RELEASE, BULK_WAKE, BULK_DISMISS, BULK_PURGE, BULK_SIGNAL, BULK_MIGRATE };
const char *bulk_act_name(enum bulk_act act);

struct bulk_result {
    size_t matched;
    size_t changed;
    size_t requested;            /* BULK_CANCEL: of the changed ones, those that a node holds and ends later */
    size_t refused;              /* matched but not in a state that allows it */
    char last_id[UUID_TEXT_MAX]; /* where the next chunk goes on */
    int64_t workspace_id;        /* of the filter's workspace; 0: there is none, or a server that does not name it */
    char new_id[UUID_TEXT_MAX];  /* BULK_RETRY of one: the new execution's id */
    enum weir_status first_refusal;
    struct weir_error refusal;
    bool more;
};
/* Does `act` to the executions that match, at most `limit` per call, in the order of their ids, behind `after` ("" = from
 * the start). A next call with the workspace_id of the result goes on with the same workspace, which may have another name
 * meanwhile. cancel: pending ones never start, running ones are passed to their engine. retry: a FAILED or CANCELLED one
 * is enqueued again as a new execution, which begins anew (terminal rows are never rewritten). release: a pending one
 * starts now, before its run_at or the end of its backoff. wake: the steps of one that sleep or wait for their next
 * attempt go on now, also in the node that holds it. Each wait is ended once (docs/design/waiting.md). dismiss: a
 * FAILED one is dealt with, which only the filter `dismissed` and its events show; a repetition changes nothing. purge:
 * ended ones are removed with all that belongs to them. signal: a living one gets the signal of the order. migrate: a
 * PENDING or WAITING one goes on with another version of its workflow (docs/design/waiting.md). */
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
    /* BULK_SIGNAL */
    /* As in struct signal_request. An execution that has the name and the key already is matched
     * and not changed, so the same broadcast again sends nothing twice; therefore it needs a key. One that takes no such
     * signal is refused: no step of its workflow waits for the name, it has ended, it keeps too many, or it is on Temporal.
     */
    const char *signal_name;
    const char *signal_data; /* JSON text; NULL = null */
    const char *signal_key;
    /* BULK_MIGRATE */
    int to_version;   /* of the workflow of each execution, from 1 */
    bool only_checks; /* nothing is changed: `changed` counts those that would be. A handle for reading is enough */
};
/* store_bulk() with the options of its act; those of other acts are ignored. NULL = a retry begins anew, and a wake ends
 * sleeps and waits for the next attempt. A retry of a workflow without steps, or without this one, is refused with
 * WEIR_INVALID_ARGUMENT. A wake of an execution in which no such wait is on record, or is woken already, is refused
 * with WEIR_ILLEGAL_STATE. A migration to a version that the workflow has not is refused with WEIR_WORKFLOW_NOT_FOUND.
 * With WEIR_ILLEGAL_STATE: of an execution that a node holds, that is of Temporal, has this version or has ended. Also when
 * the version does not fit its steps on record; the text names these. By filter a migration needs the name of the workflow.
 */
WEIR_MUST_CHECK enum weir_status store_bulk_ordered(struct store *store, enum bulk_act act, const struct act_order *order,
                                                    const struct execution_filter *filter, const char *after, size_t limit,
                                                    struct bulk_result *ret_result, struct weir_error *error);

/* store_bulk_ordered() of the one execution filter->id, if the other conditions match
 * it. A refusal is the status: WEIR_EXECUTION_NOT_FOUND, WEIR_ILLEGAL_STATE, WEIR_CONFLICT. */
WEIR_MUST_CHECK enum weir_status store_bulk_one(struct store *store, enum bulk_act act, const struct act_order *order,
                                                const struct execution_filter *filter, struct bulk_result *ret_result,
                                                struct weir_error *error);

#endif
