/* One execution as the in-process engine runs it: a state machine over the graph of its definition.
 *
 * A step is begun when all its needs are final; a skipped step counts as finished, with null as its output. Its phases:
 *
 *   IDLE -> EVALUATING -> RECORDING_START -> QUEUED -> RUNNING -> RECORDING_END -> DONE
 *             (jq)      (exec; handed over)  (exec)      |            ^
 *                                                        +-> RECORDING_WAIT -> SLEEPING -> (next attempt, or done)
 *
 * A step in a RECORDING phase waits for the store; nothing that depends on it begins before. What ends an execution before
 * its steps are all done is its `ending`; a stronger one replaces a weaker one. A failed step lets its running siblings
 * finish; every other ending stops them. When nothing is in flight any more, the end is reported.
 *
 * Threads: execution_new() in the caller of engine_start(); everything else in the loop. Owner: the runner's table, until
 * execution_free(). Memory: one block for the execution with its steps and strings.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_EXECUTION_H
#define WEIR_ENGINE_IN_PROCESS_EXECUTION_H

#include "engine/engine.h"
#include "engine/in_process/definition_cache.h"
#include "engine/in_process/in_process_internal.h"
#include "engine/in_process/loop.h"

enum step_phase {
    PHASE_IDLE,
    PHASE_EVALUATING,
    PHASE_AWAITING_ROOM, /* exec: nothing is on record of this attempt until there is room for its process */
    PHASE_RECORDING_START,
    PHASE_QUEUED, /* exec: on record, and its process is about to start */
    PHASE_RUNNING,
    PHASE_RECORDING_WAIT,
    PHASE_SLEEPING,
    PHASE_RECORDING_END,
    PHASE_DONE
};

/* Why a running step was stopped: decides what its end means. */
enum step_stop { STOP_NONE, STOP_TIMEOUT, STOP_ENDING };

/* In rising strength. */
enum ending {
    ENDING_NONE,
    ENDING_FAILED,     /* a step failed for good */
    ENDING_GIVEN_BACK, /* the node stops, or it may have killed the keeper */
    ENDING_TIMED_OUT,  /* the execution's own timeout */
    ENDING_CANCELLED,
    ENDING_ABANDONED /* it is not ours any more: stop, and say nothing */
};

struct execution;
struct preparation;
struct process;

struct step_run {
    struct execution *execution;
    enum step_phase phase;
    enum step_state state; /* what the last report said; final in PHASE_DONE */
    enum step_stop stop;
    bool on_record;     /* the store has a row of it that is not final */
    bool condition_met; /* `when` was true; it is asked once */
    bool killed;        /* its process got KILL, not only TERM */
    bool refused;       /* the store refused its result once */
    int attempt;        /* the last one begun */
    int failures;
    int keepers_lost; /* while it ran under this claim */
    int shortages;    /* in a row: its attempts that could not be started, or whose output found no memory */
    int exit_code;
    int64_t resume_us;  /* SLEEPING: boot clock */
    json_t *output;     /* for `.steps`, when another step may ask */
    struct timer timer; /* its timeout, or the end of its sleep */
    struct preparation *preparation;
    struct process *process;
    struct weir_call *call;
    bool is_starting;             /* it counts among the starts under way of its workspace */
    struct fair_entry turn;       /* AWAITING_ROOM */
    struct step_run *next_queued; /* QUEUED */
};

struct execution {
    struct command command; /* brings it to the loop */
    struct execution *next; /* in its bucket */
    struct runner *runner;
    struct definition_entry *definition;
    struct tenant *tenant; /* its workspace; NULL until it is admitted */
    char id[UUID_TEXT_MAX];
    int64_t fence;
    int start_attempt;
    int interruptions;
    int version;
    const char *workspace;
    int weight; /* of the workspace */
    const char *workflow;
    const char *params;
    size_t params_length;
    int64_t running_for_us; /* at started_us */
    int64_t store_ahead_us; /* of the boot clock */
    int64_t started_us;
    enum ending ending;
    bool in_table;
    bool cancel_requested;
    bool end_reported; /* ENDED or GIVEN_BACK is with the recorder */
    bool room_is_free; /* its place in room() was given back already */
    bool settling;     /* execution_settle() is on the stack */
    bool settle_again;
    enum weir_status refusal;    /* the definition could not be read */
    struct execution *successor; /* the same id with a higher fence, waiting for our processes to die */
    struct timer timeout;
    json_t *input;                       /* params, read when an expression needs it */
    json_t *about;                       /* `.execution` */
    char error_code[ERROR_CODE_MAX + 1]; /* of the first failure */
    char *error;
    const char *given_back_for; /* code of the report GIVEN_BACK; NULL = the node stops */
    size_t in_flight;           /* steps that are neither IDLE nor DONE */
    size_t parallel;            /* those of them that neither sleep nor wait: at most runner->max_parallel_steps */
    size_t done;
    size_t step_count;
    struct step_run steps[];
};

/* Copies what it needs of `start` and reads the definition (or notes why not, for execution_admit() to refuse it).
 * WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status execution_new(struct runner *runner, const struct engine_start *start,
                                               struct execution **ret_execution, struct weir_error *error);
/* The rest is the loop's. Takes it in: reports STARTED and begins, or refuses and frees it. */
void execution_admit(struct execution *execution);
/* Begins what can begin, ends what has ended; may free the execution. */
void execution_settle(struct execution *execution);
/* Stops it for this reason, unless a stronger one is under way; may free the execution. */
void execution_end(struct execution *execution, enum ending ending);
/* What became of a report; may free the execution. */
void execution_recorded(struct execution *execution, const struct recorded *recorded);
/* Notes the first failure. `error` may be NULL. */
void execution_set_error(struct execution *execution, const char *code, const char *error);
/* Frees everything but does not touch the runner's table or counters. Takes NULL. */
void execution_free(struct execution *execution);

/* --- for the steps (step_run.c, step_exec.c, step_handler.c) --- */

/* Notes that the end is reported, and fills the report, if there was memory for one, with it. */
void execution_fill_end(struct execution *execution, struct report *report);

static inline size_t step_run_index(const struct step_run *run)
{
    return (size_t)(run - run->execution->steps);
}

static inline const struct step *step_run_step(const struct step_run *run)
{
    return &run->execution->definition->definition->steps[step_run_index(run)];
}

#endif
