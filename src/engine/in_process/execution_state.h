/* The state of one execution and of its steps inside the node: data without functions.
 *
 * The engine begins a step when all steps in its `needs` are final. A skipped step counts as finished, with null as its
 * output. The phases of one attempt:
 *
 *     IDLE --> EVALUATING --> AWAITING_PLACE --> RECORDING_START --> QUEUED --> RUNNING --> RECORDING_END --> DONE
 *                  (jq)            (exec)        (exec, handed over)  (exec)       |
 *                                   next attempt <-- SLEEPING <-- RECORDING_WAIT <-+
 *
 * In a RECORDING phase the step waits until its report is durable. No step that depends on it begins before that.
 *
 * An execution that stops before all its steps are done has an `ending`. A stronger ending replaces a weaker one. A failed
 * step lets the running steps beside it finish; every other ending stops them. When no step is in flight, the engine
 * reports the end.
 *
 * Threads: the loop's, from execution_admit() on. Owner: the execution table. Memory: one block for the execution, its
 * steps and its strings.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_EXECUTION_STATE_H
#define WEIR_ENGINE_IN_PROCESS_EXECUTION_STATE_H

#include <jansson.h>

#include "base/traceparent.h"
#include "base/uuid.h"
#include "engine/engine.h"
#include "engine/in_process/command_queue.h"
#include "engine/in_process/definition_cache.h"
#include "engine/in_process/loop.h"
#include "queue/fair_queue.h"
#include "weir/handler.h"

enum step_phase {
    PHASE_IDLE,
    PHASE_EVALUATING,
    PHASE_AWAITING_PLACE, /* exec: nothing is on record of this attempt until there is a place for its process */
    PHASE_RECORDING_START,
    PHASE_QUEUED, /* exec: on record; its process starts when few others are starting */
    PHASE_RUNNING,
    PHASE_RECORDING_WAIT,
    PHASE_SLEEPING,
    PHASE_RECORDING_END,
    PHASE_DONE
};

/* Why the engine stopped a running step. It decides the meaning of the step's end. */
enum step_stop { STOP_NONE, STOP_TIMEOUT, STOP_ENDING };

/* In rising strength. */
enum ending {
    ENDING_NONE,
    ENDING_FAILED,     /* a step failed for good */
    ENDING_GIVEN_BACK, /* the node stops, or the execution may have killed the keeper */
    ENDING_TIMED_OUT,  /* the execution's own timeout */
    ENDING_CANCELLED,
    ENDING_ABANDONED /* the node has lost the claim: stop the steps without a report */
};

/* The part of the definition whose steps may run; execution_stage.h. The first four are those of enum step_section. */
enum execution_stage { STAGE_STEPS, STAGE_UNDO, STAGE_ON_FAILURE, STAGE_FINALLY, STAGE_OVER };

/* More than every time of a store: the order of the steps that finished under this claim begins here. */
#define FINISHED_HERE (INT64_MAX / 2)

struct execution;
struct kept_signal;
struct step_callback;
struct step_inputs;
struct state_machine;
struct step_secrets;
struct process;
struct runner;
struct tenant;
struct weir_call;

enum { WORKERS_LOST_FREE = 2 }; /* in one claim: no failures of the step */

struct step_run {
    struct execution *execution;
    enum step_phase phase;
    enum step_state state; /* of the last report; final in PHASE_DONE */
    enum step_stop stop;
    bool on_record;       /* the store has a row of it that is not final */
    bool awaits_node;     /* WAITING for something that its node lacks: its own wait has not begun */
    bool is_unserved;     /* a handler: WAITING for a worker, so that no earlier attempt of it can run */
    bool awaits_callback; /* http: WAITING for the report of its function */
    bool condition_met;   /* `when` was true; the engine evaluates it once */
    bool is_killed;       /* its process got KILL, not only TERM */
    bool is_refused;      /* the store refused its result once */
    int attempt;          /* the last one begun */
    int ended_attempt;    /* of a handler: the last one known to have ended; 0 = none. Any later one may still run */
    int failures;
    int keepers_lost; /* while it ran under this claim */
    int workers_lost; /* likewise: weir_interrupted(); at most WORKERS_LOST_FREE from an earlier claim */
    int shortages; /* in a row: attempts without the resources or the secrets for a start, or without memory for the output
                    */
    int exit_code;
    int waiting_attempt; /* on record as WAITING: the attempt of that record */
    bool is_woken;       /* an act ended its wait before its time */
    int64_t signal_seq;  /* the signal that ends it or its wait, for the next report; 0 = none */
    int64_t began_us;    /* the attempt; boot clock, 0 = not by this runner */
    int64_t resume_us;   /* SLEEPING: boot clock; TIME_NEVER: only a signal ends the wait */
    int64_t finished;    /* orders the ends of steps: store time of an earlier claim, or from FINISHED_HERE; 0 = not DONE */
    char *error_code;    /* of a FAILED step, for `.steps`; NULL: it has not failed */
    char *error;         /* its message, or NULL */
    json_t *output;      /* for `.steps`, when another step may read it */
    struct timer timer;  /* its timeout, or the end of its sleep or of its wait for a signal */
    struct step_inputs *inputs;
    struct process *process;
    char *result_path;              /* of its process: result_file.h */
    struct step_secrets *secrets;   /* of the process that runs */
    struct state_machine *machine;  /* states: the present one, or NULL */
    struct step_callback *callback; /* http: of the attempt that this node has begun, or NULL */
    struct weir_call *call;
    weir_recorded_function *on_recorded; /* of the last call, until its end is on record or dropped */
    void *recorded_context;
    bool is_starting;       /* it counts among the starts under way of its workspace */
    bool is_spawning;       /* it holds a place among the starts of processes */
    struct timer spawn_end; /* returns that place */
    struct fair_entry turn; /* AWAITING_PLACE, QUEUED */
};

struct execution {
    struct command command; /* first: brings the execution to the loop */
    size_t bytes;           /* of its memory, for pool_free() */
    struct execution *next; /* in its bucket */
    struct runner *runner;
    struct definition_entry *definition;
    struct tenant *tenant; /* its workspace; NULL until it is admitted */
    char id[UUID_TEXT_MAX];
    int64_t fence;
    int start_number;
    int interruptions;
    bool is_suspect;  /* and no step has ended here */
    bool lost_a_node; /* see struct engine_start */
    int version;
    const char *node; /* the name of this node */
    const char *workspace;
    int weight; /* of the workspace */
    const char *workflow;
    const char *params;
    size_t params_length;
    int64_t running_for_us; /* at started_us */
    int64_t store_ahead_us; /* of the boot clock */
    int64_t started_us;
    enum ending ending;
    enum execution_stage stage;
    bool has_failed; /* in STAGE_STEPS: `.failure` is not null */
    bool in_table;
    char traceparent[TRACEPARENT_SIZE]; /* "" = none */
    bool has_step_spans;                /* see struct engine_start */
    bool cancel_requested;
    bool end_reported;     /* ENDED, GIVEN_BACK or PARKED is with the recorder */
    bool capacity_is_free; /* the verb `recorded` has already lowered `admitted` for it */
    bool is_settling;      /* execution_settle() is on the stack */
    bool settle_again;
    enum weir_status refusal;    /* why its definition cannot be read, or WEIR_OK */
    struct execution *successor; /* the same id with a higher fence; waits for the end of our processes */
    struct timer timeout;
    json_t *input;                       /* params, parsed when an expression needs them */
    json_t *about;                       /* `.execution` */
    char error_code[ERROR_CODE_MAX + 1]; /* of the first failure */
    char *error;
    int failed_step;       /* index of the step that it is the error of; -1 = of none */
    int64_t finished_here; /* steps that became DONE under this claim */
    bool is_parked;        /* given back to wait without a slot: GIVEN_BACK in all, but for the report */
    bool lacks_worker;     /* a step of it has no worker on this node: it leaves */
    enum wait_kind waiting_for;
    int64_t parked_until_us;     /* boot clock; TIME_NEVER = without a time */
    struct report *wait_report;  /* of the step that begins to wait in this turn: execution_settle() sends it */
    struct kept_signal *signals; /* those that no step has consumed, in the order of their numbers */
    int64_t signals_seen;        /* the number of the last one */
    const char *given_back_for;  /* code of the report GIVEN_BACK; NULL = the node stops */
    size_t in_flight;            /* steps that are neither IDLE nor DONE */
    size_t parallel;             /* those of them that neither sleep nor wait: at most options.max_parallel_steps */
    size_t done;
    size_t step_count;
    struct step_run steps[];
};

static inline size_t step_run_index(const struct step_run *run)
{
    return (size_t)(run - run->execution->steps);
}

/* The step in the definition. */
static inline const struct step *step_run_step(const struct step_run *run)
{
    return &run->execution->definition->definition->steps[step_run_index(run)];
}

#endif
