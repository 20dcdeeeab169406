/* The reports of a step to the store, and the decision after the end of an attempt: done, another attempt, or failed.
 *
 * Each function that reports sets a RECORDING phase. The step goes on in step_run_recorded(), after the store's answer.
 *
 * Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_REPORT_H
#define WEIR_ENGINE_IN_PROCESS_STEP_REPORT_H

#include "engine/in_process/execution_state.h"

/* A step that cannot start because the machine is short of file descriptors, memory or processes waits so long, then twice
 * that, up to the maximum. */
#define STEP_SHORTAGE_FIRST_US (1 * MICROSECONDS_PER_SECOND)
#define STEP_SHORTAGE_MOST_US (30 * MICROSECONDS_PER_SECOND)

struct call_states;

/* How one attempt ended. Strings are borrowed, except `output`, which the callee takes over. */
struct step_outcome {
    bool is_done;
    bool is_final;   /* never retried, in spite of the policy */
    bool is_certain; /* COMPLETED: any node would end it alike, so what follows does not wait for its record */
    bool has_delay;  /* the next attempt comes after delay_us, in place of the policy's delay */
    int64_t delay_us;
    const char *code;
    const char *error;
    char *output;
    size_t output_length;
    const struct call_states *states; /* of an answer of a state, or NULL */
};

/* For how long all steps that have begun sleep or wait for a signal: struct report, sleeps_us. */
int64_t execution_sleeps_us(const struct execution *execution);

/* --- on the way --- */

/* The attempt runs: on record before its process or its handler starts. */
void step_run_report_start(struct step_run *run);
/* The step sleeps, or waits for its next attempt. `outcome`: of the attempt that failed, or NULL. */
void step_run_report_waiting(struct step_run *run, int64_t delay_us, const struct step_outcome *outcome);
/* The step begins to sleep or to wait for a signal or, with the `outcome` of its attempt, for a worker. execution_settle()
 * must follow in this turn of the loop: it sends the report with the park, or alone. */
void step_run_report_pause(struct step_run *run, int64_t delay_us, const struct step_outcome *outcome);
/* The step waits for children that its plan names: JSON text, whose owner is the report. */
void step_run_report_children(struct step_run *run, int64_t delay_us, char *plan);

/* Whether the report that the step waits is still to be sent. */
bool step_run_begins_to_wait(const struct step_run *run);
/* Sends the report of the step that began to wait, if there is one. */
void execution_send_wait(struct execution *execution);

/* --- ends --- */

/* Keeps the failure of the step for `.steps` of others. WEIR_OUT_OF_MEMORY: a part of it is missing. */
enum weir_status step_run_keep_error(struct step_run *run, const char *code, const char *error);
/* The step has ended in this final state. One report carries the end of the last step and of the execution. */
void step_run_report_final(struct step_run *run, enum step_state state, const struct step_outcome *outcome);
/* Decides by the outcome: done, tried again or failed, from the step's policy and the execution's ending. */
void step_run_finish(struct step_run *run, struct step_outcome *outcome);
/* The same for a failure. */
void step_run_fail(struct step_run *run, const char *code, const char *error, bool is_final);
/* The machine lacks a resource for the start (`native`, an errno): no failure of the step. It waits and tries again. */
void step_run_wait_for_resources(struct step_run *run, int native);
/* A secret of the step could not be read (`status` of step_secrets_read(), `error` its message): no failure of the step. It
 * waits and tries again. */
void step_run_wait_for_secret(struct step_run *run, enum weir_status status, const char *error);
/* The execution ends and the step stops. Reports CANCELLED if the store has a row of the step, else nothing. */
void step_run_discontinue(struct step_run *run);

#endif
