/* Reports of steps, and the decision about the next attempt.
 *
 * Why the end is recorded before the next step begins: the next step may see the output. If the node died between the two,
 * another node would run the first step again, and the second one would have seen an output that never counted.
 * So a final state goes to the store first (RECORDING_END), and only its durable record makes the step DONE. The end of a
 * sleep is the exception, unless an act ended it: it has no output, and another node ends it alike.
 *
 * The end of an attempt is decided in step_run_finish(), in this order:
 *
 *   1. The claim is lost: no report. The store would refuse it, and the new owner decides.
 *   2. The attempt succeeded: COMPLETED.
 *   3. The node stopped it because the execution ends: no failure of the step. If the execution is given back, a handler is
 *      put on record as WAITING, so that the next node does not use its attempt number again. An exec step is on record
 *      already. For any other ending the step is CANCELLED.
 *   4. It failed: WAITING when the policy allows another attempt and the execution goes on here or on another node, else
 *      FAILED.
 *
 * If memory for a report is missing, runner_report_new() makes the node give up its claims; the step just waits.
 * The loop's thread runs all of it. Nothing here starts an attempt: step_run.c does, after the store's answer.
 */
#include "engine/in_process/step_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "engine/in_process/execution_outcome.h"
#include "engine/in_process/execution_stage.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_callback.h"
#include "engine/in_process/step_phase.h"
#include "engine/in_process/step_signal.h"
#include "engine/in_process/step_states.h"
#include "queue/retry.h"

/* NULL when out of memory: the step then waits until the node abandons its execution. */
static struct report *make_step_report(struct step_run *run, enum report_kind kind, enum step_state state)
{
    struct execution *execution = run->execution;
    struct report *report = runner_report_new(execution->runner, kind, execution->id, execution->fence);
    run->state = state;
    if (report == NULL) {
        return NULL;
    }
    report->has_step = true;
    report->step_index = (int)step_run_index(run);
    text_copy(report->step.step, sizeof report->step.step, step_run_step(run)->id);
    report->step.state = state;
    report->step.attempt = run->attempt;
    report->step.failures = run->failures;
    report->step.exit_code = run->exit_code;
    if (step_run_awaits(run) != NULL && state == STEP_WAITING && !run->awaits_node) {
        text_copy(report->step.signal, sizeof report->step.signal, step_run_awaits(run));
    }
    if (run->callback != NULL && (state == STEP_RUNNING || (state == STEP_WAITING && run->awaits_callback))) {
        text_copy(report->step.signal, sizeof report->step.signal, run->callback->name);
    }
    report->step.signal_seq = state == STEP_CANCELLED ? 0 : run->signal_seq;
    run->signal_seq = step_state_is_final(state) ? run->signal_seq : 0; /* a refused end is reported again */
    report->step.ran_us = run->began_us == 0 ? 0 : loop_now(&execution->runner->loop) - run->began_us;
    if (run->machine != NULL && step_states_fill_report(run, report) != WEIR_OK) {
        report_free(report); /* the step waits until the node gives up its claim */
        engine_note_lost_report(&execution->runner->base);
        return NULL;
    }
    return report;
}

/* A step of a later stage: it may begin now, or with the end that is being recorded. */
static bool may_begin_soon(const struct step_run *run)
{
    const struct execution *execution = run->execution;
    for (size_t i = 0; i < execution->step_count; i++) {
        enum step_phase phase = execution->steps[i].phase;
        if (step_phase_is_in_flight(phase) && phase != PHASE_RECORDING_END) {
            return execution->stage != STAGE_UNDO && execution_stage_allows(execution, step_run_index(run));
        }
    }
    bool follows = execution->stage != STAGE_STEPS || execution->ending != ENDING_NONE;
    for (size_t i = 0; i < execution->definition->definition->main_count && !follows; i++) {
        if (execution->steps[i].phase == PHASE_IDLE) {
            return false;
        }
    }
    return (int)execution_following_stage(execution) == (int)step_run_step(run)->section;
}

/* When the step goes on: it sleeps, waits for a signal or for the report of its function, here or on record from an earlier
 * claim. 0 = it does something, is about to begin, or waits for its next attempt; TIME_NEVER: it needs no time. */
static int64_t step_sleeps_until(const struct step_run *run)
{
    const struct execution *execution = run->execution;
    const struct step *step = step_run_step(run);
    bool is_delayed = step->kind == STEP_SLEEP || (run->machine != NULL && !run->machine->is_retry);
    bool may_sleep = ((is_delayed || step_run_awaits(run) != NULL) && !run->awaits_node) || run->awaits_callback;
    bool is_over = run->phase == PHASE_DONE || run->phase == PHASE_RECORDING_END;
    if (is_over) {
        return TIME_NEVER;
    }
    if (run->phase == PHASE_SLEEPING || run->phase == PHASE_RECORDING_WAIT ||
        (run->phase == PHASE_IDLE && run->on_record && run->state == STEP_WAITING)) {
        return may_sleep ? run->resume_us : 0;
    }
    if (run->phase == PHASE_IDLE && step->section != SECTION_STEPS && !may_begin_soon(run)) {
        return TIME_NEVER;
    }
    bool has_failed = execution->stage != STAGE_STEPS || execution->ending != ENDING_NONE;
    if (run->phase == PHASE_IDLE && step->section == SECTION_STEPS && has_failed && execution_has_stages(execution)) {
        return TIME_NEVER; /* it begins no more */
    }
    for (size_t i = 0; run->phase == PHASE_IDLE && i < step->needs_count; i++) {
        enum step_phase phase = execution->steps[step->needs[i]].phase;
        if (phase != PHASE_DONE && phase != PHASE_RECORDING_END) {
            return TIME_NEVER; /* it awaits another step */
        }
    }
    return 0;
}

int64_t execution_sleeps_us(const struct execution *execution)
{
    INVARIANT(execution != NULL);
    int64_t until_us = TIME_NEVER;
    for (size_t i = 0; i < execution->step_count; i++) {
        int64_t step_us = step_sleeps_until(&execution->steps[i]);
        until_us = step_us < until_us ? step_us : until_us;
    }
    if (until_us == 0 || until_us == TIME_NEVER) {
        return until_us;
    }
    int64_t now_us = loop_now(&execution->runner->loop);
    return until_us > now_us ? until_us - now_us : 0;
}

static void send_step_report(const struct step_run *run, struct report *report)
{
    if (report != NULL) {
        report->sleeps_us = execution_sleeps_us(run->execution);
        engine_report(&run->execution->runner->base, report);
    }
}

static void set_step_error(struct report *report, const char *code, const char *error)
{
    if (report == NULL) {
        return;
    }
    text_copy(report->step.error_code, sizeof report->step.error_code, code);
    report->step.error = error != NULL ? strdup(error) : NULL;
}

/* True when this step's end is also the execution's, so that one report carries both. */
static bool ends_execution(const struct step_run *run)
{
    const struct execution *execution = run->execution;
    if (execution->in_flight != 1 || execution->ending == ENDING_GIVEN_BACK) {
        return false;
    }
    if (execution->ending == ENDING_NONE) {
        return execution_completes_with(execution);
    }
    if (execution_has_stages(execution) && execution->ending < ENDING_CANCELLED) {
        return false; /* the steps of the later stages follow */
    }
    for (size_t i = 0; i < execution->step_count; i++) {
        if (execution->steps[i].phase == PHASE_IDLE && execution->steps[i].on_record) {
            return false; /* on record from an earlier claim: its end must be recorded first */
        }
    }
    return true;
}

enum weir_status step_run_keep_error(struct step_run *run, const char *code, const char *error)
{
    free(run->error_code);
    free(run->error);
    run->error_code = strdup(code != NULL ? code : "");
    run->error = error != NULL ? strdup(error) : NULL;
    return run->error_code == NULL || (error != NULL && run->error == NULL) ? WEIR_OUT_OF_MEMORY : WEIR_OK;
}

/* The only way into a final state. */
void step_run_report_final(struct step_run *run, enum step_state state, const struct step_outcome *outcome)
{
    struct execution *execution = run->execution;
    INVARIANT(step_state_is_final(state) && run->phase != PHASE_DONE);
    step_run_clear_timer(run);
    execution->is_suspect = false;
    if (!step_phase_is_in_flight(run->phase)) {
        step_run_set_phase(run, PHASE_RECORDING_END);
    }
    bool is_failure = state == STEP_FAILED && execution_fails_by(execution, step_run_index(run));
    if (is_failure && execution->stage == STAGE_STEPS && execution->ending < ENDING_FAILED) {
        execution->ending = ENDING_FAILED; /* execution_settle() stops the steps that wait */
        execution->failed_step = (int)step_run_index(run);
    }
    bool is_last = ends_execution(run);
    struct report *report = make_step_report(run, is_last ? REPORT_ENDED : REPORT_STEP, state);
    if (outcome != NULL && report != NULL) {
        report->step.output = outcome->output;
        report->step.output_length = outcome->output_length;
    } else if (outcome != NULL) {
        free(outcome->output);
    }
    if (outcome != NULL && state == STEP_FAILED) {
        set_step_error(report, outcome->code, outcome->error);
        (void)step_run_keep_error(run, outcome->code, outcome->error); /* without memory an expression reads null */
    }
    if (is_failure && outcome != NULL) {
        execution_set_error(execution, outcome->code, outcome->error);
    }
    if (is_last) {
        execution_fill_end(execution, report);
    }
    step_run_set_phase(run, PHASE_RECORDING_END);
    FAILPOINT("before_step_report");
    bool goes_on = report != NULL && outcome != NULL && outcome->is_certain && !is_last && execution->ending == ENDING_NONE;
    if (goes_on) {
        report->may_wait = true; /* the next report of the execution takes it along */
    }
    send_step_report(run, report);
    if (goes_on) {
        run->on_record = false;
        step_run_set_phase(run, PHASE_DONE);
    }
}

void step_run_discontinue(struct step_run *run)
{
    INVARIANT(run->phase != PHASE_DONE);
    step_run_clear_timer(run);
    step_run_drop_inputs(run);
    if (run->execution->ending >= ENDING_ABANDONED || run->execution->ending == ENDING_GIVEN_BACK || !run->on_record) {
        step_run_set_phase(run, PHASE_IDLE);
    } else {
        step_run_report_final(run, STEP_CANCELLED, NULL);
    }
}

void step_run_report_start(struct step_run *run)
{
    INVARIANT(run->attempt > 0 && run->phase != PHASE_RECORDING_START && run->phase != PHASE_DONE);
    run->began_us = loop_now(&run->execution->runner->loop);
    step_run_set_phase(run, PHASE_RECORDING_START);
    send_step_report(run, make_step_report(run, REPORT_STEP, STEP_RUNNING));
}

static struct report *make_wait_report(struct step_run *run, int64_t delay_us, const struct step_outcome *outcome,
                                       char *plan)
{
    INVARIANT(run->phase != PHASE_DONE);
    run->awaits_node = outcome != NULL && step_code_is_of_node(outcome->code);
    run->awaits_callback = outcome == NULL && step_may_call_back(run);
    struct report *report = make_step_report(run, REPORT_STEP, STEP_WAITING);
    if (report != NULL) {
        INVARIANT(plan == NULL || report->step.variables == NULL);
        report->step.due_in_us = delay_us;
        report->step.variables = plan != NULL ? plan : report->step.variables;
        if (report->step.action != NULL && !run->machine->is_retry) {
            run->execution->is_suspect =
                false; /* the step of states ends with the execution: a change of state is its progress */
        }
    } else {
        free(plan);
    }
    if (outcome != NULL) {
        set_step_error(report, outcome->code, outcome->error);
    }
    run->waiting_attempt = run->attempt;
    run->resume_us = time_add(loop_now(&run->execution->runner->loop), delay_us);
    step_run_set_phase(run, PHASE_RECORDING_WAIT);
    if (run->machine != NULL) {
        FAILPOINT("before_step_report");
    }
    return report;
}

void step_run_report_waiting(struct step_run *run, int64_t delay_us, const struct step_outcome *outcome)
{
    send_step_report(run, make_wait_report(run, delay_us, outcome, NULL));
}

void step_run_report_pause(struct step_run *run, int64_t delay_us, const struct step_outcome *outcome)
{
    execution_send_wait(run->execution); /* of a step that began to wait before this one */
    run->execution->wait_report = make_wait_report(run, delay_us, outcome, NULL);
}

bool step_run_begins_to_wait(const struct step_run *run)
{
    INVARIANT(run != NULL);
    const struct report *report = run->execution->wait_report;
    return report != NULL && report->step_index == (int)step_run_index(run);
}

void execution_send_wait(struct execution *execution)
{
    struct report *report = execution->wait_report;
    execution->wait_report = NULL;
    if (report != NULL) {
        send_step_report(&execution->steps[report->step_index], report);
    }
}

void step_run_report_children(struct step_run *run, int64_t delay_us, char *plan)
{
    INVARIANT(plan != NULL);
    send_step_report(run, make_wait_report(run, delay_us, NULL, plan));
}

/* --- ends of attempts --- */

static struct retry_policy retry_policy_of_step(const struct step *step)
{
    return (struct retry_policy){.attempts_max = step->retry.attempts,
                                 .backoff_us = step->retry.backoff_us,
                                 .factor = step->retry.factor,
                                 .max_us = step->retry.max_us};
}

/* True when the policy excludes this error code from retries. */
static bool excludes_retry_on(const struct step *step, const char *code)
{
    for (size_t i = 0; i < step->retry.not_on_count; i++) {
        if (strcmp(step->retry.not_on[i], code) == 0) {
            return true;
        }
    }
    return false;
}

/* The attempt ended because its execution ends: it is no failure of the step. */
static void finish_stopped(struct step_run *run, const char *code)
{
    const struct execution *execution = run->execution;
    bool is_handler = step_run_step(run)->kind == STEP_HANDLER || run->machine != NULL;
    if (execution->ending == ENDING_GIVEN_BACK && is_handler) {
        bool is_unserved = strcmp(code, STEP_NO_WORKER) == 0;
        struct step_outcome interrupted = {.code = is_unserved ? STEP_NO_WORKER : STEP_INTERRUPTED};
        step_run_report_waiting(run, 0, &interrupted); /* the next node must not use this attempt's number again */
    } else if (is_handler && execution->ending != ENDING_GIVEN_BACK) {
        step_run_report_final(run, STEP_CANCELLED, NULL);
    } else {
        step_run_discontinue(run);
    }
}

void step_run_finish(struct step_run *run, struct step_outcome *outcome)
{
    struct execution *execution = run->execution;
    const struct step *step = step_run_step(run);
    INVARIANT(outcome->is_done || outcome->code != NULL);
    step_run_clear_timer(run);
    step_run_drop_inputs(run);
    if (execution->ending == ENDING_ABANDONED) {
        free(outcome->output);
        step_run_set_phase(run, PHASE_IDLE);
        return;
    }
    if (outcome->is_done) {
        step_run_report_final(run, STEP_COMPLETED, outcome);
        return;
    }
    free(outcome->output);
    outcome->output = NULL;
    outcome->output_length = 0;
    if (run->stop == STOP_ENDING) {
        finish_stopped(run, outcome->code);
        return;
    }
    run->failures++;
    if (run->machine != NULL) {
        step_states_fail(run, outcome);
        return;
    }
    struct retry_policy policy = retry_policy_of_step(step);
    if (!outcome->is_final && !excludes_retry_on(step, outcome->code) && retry_allows(&policy, run->failures) &&
        (execution->ending == ENDING_NONE || execution->ending == ENDING_GIVEN_BACK)) {
        int64_t delay_us =
            outcome->has_delay ? outcome->delay_us : retry_delay(&policy, run->failures, &execution->runner->random);
        step_run_report_waiting(run, delay_us, outcome);
    } else {
        step_run_report_final(run, STEP_FAILED, outcome);
    }
}

void step_run_fail(struct step_run *run, const char *code, const char *error, bool is_final)
{
    INVARIANT(code != NULL);
    struct step_outcome outcome = {.is_final = is_final, .code = code, .error = error};
    step_run_finish(run, &outcome);
}

/* The step waits for something that the node lacks. */
static void wait_for_node(struct step_run *run, const char *code, const char *error)
{
    INVARIANT(run->phase != PHASE_DONE && run->process == NULL && run->call == NULL);
    step_run_clear_timer(run);
    step_run_drop_inputs(run);
    if (run->execution->ending != ENDING_NONE) {
        step_run_discontinue(run);
        return;
    }
    int doublings = run->shortages < 5 ? run->shortages++ : 5;
    int64_t delay_us = STEP_SHORTAGE_FIRST_US << doublings;
    struct step_outcome outcome = {.code = code, .error = error};
    step_run_report_waiting(run, delay_us < STEP_SHORTAGE_MOST_US ? delay_us : STEP_SHORTAGE_MOST_US, &outcome);
}

void step_run_wait_for_resources(struct step_run *run, int native)
{
    wait_for_node(run, STEP_NODE_SHORT, shortage_text(native));
}

void step_run_wait_for_secret(struct step_run *run, enum weir_status status, const char *error)
{
    INVARIANT(status != WEIR_OK && error != NULL);
    if (status == WEIR_OUT_OF_MEMORY) {
        step_run_wait_for_resources(run, ENOMEM);
    } else {
        wait_for_node(run, STEP_SECRET_MISSING, error);
    }
}
