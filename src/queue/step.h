/* The states of a step, and one step of an execution as a store keeps it.
 *
 * An engine reports steps, the recorder writes them, and a node that takes over an execution reads them back. Plain data;
 * the holder of a record owns its texts and releases them with step_record_close().
 */
#ifndef WEIR_QUEUE_STEP_H
#define WEIR_QUEUE_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/limits.h"

/* X(enum, name in the store) */
#define STEP_STATE_LIST(X)                                                                                                 \
    X(STEP_RUNNING, "RUNNING")     /* this attempt is under way */                                                         \
    X(STEP_WAITING, "WAITING")     /* sleeps, or waits for its next attempt, until due */                                  \
    X(STEP_COMPLETED, "COMPLETED") /* final */                                                                             \
    X(STEP_FAILED, "FAILED")       /* final: no attempt left, or not to be retried */                                      \
    X(STEP_SKIPPED, "SKIPPED")     /* final: its `when` was false, or a need was skipped */                                \
    X(STEP_CANCELLED, "CANCELLED") /* final: stopped with its execution */

enum step_state {
#define STEP_STATE_ENUM(id, name) id,
    STEP_STATE_LIST(STEP_STATE_ENUM)
#undef STEP_STATE_ENUM
        STEP_STATE_COUNT
};
const char *step_state_name(enum step_state state);
/* False when `name` is none of the list. */
bool step_state_parse(const char *name, enum step_state *ret_state);
bool step_state_is_final(enum step_state state);

/* One step execution as the store keeps it: one row per (execution, step); `attempt` is its last.
 * Those before it are kept apart, when they failed or were interrupted. */
struct step_record {
    char step[STEP_ID_MAX + 1];
    enum step_state state;
    int attempt;       /* of the run that this is about, from 1; grows also over a handover */
    int failures;      /* failed attempts so far, for the comparison with `retry.attempts` */
    int exit_code;     /* of an exec step; -1 when there is none */
    int64_t due_us;    /* STEP_WAITING: store time at which it goes on; when reporting, see due_in_us */
    int64_t due_in_us; /* delay from the moment of recording (the store adds its own time), or of the claim; TIME_NEVER: it
                          waits for a signal without a timeout */
    int64_t finished_us; /* of a claim, a final state: store time of its record */
    int64_t ran_us;      /* report only: how long ago this attempt began; 0 = now; -1 = with the execution */
    char *output;        /* JSON text of the result, or NULL; malloc'ed, owned by the record's holder */
    size_t output_length;
    char *variables; /* JSON text of a handler's durable state, or NULL; owned likewise */
    char *action;    /* report only: JSON text of the action of a state that this record ends, or NULL; owned likewise */
    char signal[SIGNAL_KEPT_NAME_MAX +
                1];     /* the name of the signal that it waits for, or takes while it runs; "" = of none */
    int64_t signal_seq; /* report only, STEP_COMPLETED: the number of the signal that it consumes; 0 = none */
    char error_code[ERROR_CODE_MAX + 1];
    char *error; /* the message of the failure, or NULL; owned likewise */
};
void step_record_close(struct step_record *record);
/* The error code of a WAITING step after an attempt that its stopping node interrupted: no failure of the step. */
#define STEP_INTERRUPTED "interrupted"
/* That of one which no worker has: its node gave it back before a worker claimed it, or behind the end of its lease. */
#define STEP_NO_WORKER "no_worker"
#define STEP_WORKER_LOST "worker_lost" /* of an attempt whose workers were lost more than WORKERS_LOST_FREE times */
/* That of one which could not be started for want of file descriptors, memory or processes: likewise. */
#define STEP_NODE_SHORT "node_short"
/* That of one that waits for a secret which its node lacks: likewise. */
#define STEP_SECRET_MISSING "secret_missing"
/* Whether the code is one of the two above: the step waits for its node, whatever it does itself. */
bool step_code_is_of_node(const char *code);
/* The outcome of the attempt when the record marks its end and another one follows: "FAILED" or "INTERRUPTED". NULL
 * when it goes on, or was the last. */
const char *step_record_lost_attempt(const struct step_record *record);

#endif
