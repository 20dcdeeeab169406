/* What the kinds of steps need of step_run.c, which leads each from attempt to attempt: for step_exec.c and step_handler.c.
 *
 * Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_INTERNAL_H
#define WEIR_ENGINE_IN_PROCESS_STEP_INTERNAL_H

#include "engine/in_process/execution.h"

/* How one attempt ended. Strings are borrowed, but for `output`, which is taken over. */
struct step_outcome {
    bool is_done;
    bool is_final;  /* never retried, whatever the policy says */
    bool has_delay; /* the next attempt comes after delay_us, in place of the policy's delay */
    int64_t delay_us;
    const char *code;
    const char *error;
    char *output;
    size_t output_length;
};

/* --- on the way --- */

void step_run_set_phase(struct step_run *run, enum step_phase phase);
void step_run_set_timer(struct step_run *run, int64_t due_us);
void step_run_clear_timer(struct step_run *run);
void step_run_drop_preparation(struct step_run *run);
/* Its process runs: another start of its workspace may be asked for. */
void step_run_note_started(struct step_run *run);
/* Puts the attempt on record as running; goes on in step_run_recorded(). */
void step_run_report_start(struct step_run *run);

/* --- ends of an attempt: each drops what was prepared, and says what comes next --- */

/* By its outcome: done, tried again or failed, as the step's policy and the execution's ending say. */
void step_run_finish(struct step_run *run, struct step_outcome *outcome);
/* The same for a failure. */
void step_run_fail(struct step_run *run, const char *code, const char *error, bool is_final);
/* The machine has not what the start takes (an errno): no failure of the step. Its next attempt is asked for when there may
 * be more. */
void step_run_wait_for_more(struct step_run *run, int native);
/* The step will not go on: says so when the store knows of it, else nobody ever hears of it. */
void step_run_put_away(struct step_run *run);
/* The next attempt, at once. */
void step_run_attempt(struct step_run *run);

#endif
