#include "engine/in_process/step_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "engine/in_process/step_exec.h"
#include "engine/in_process/step_handler.h"
#include "engine/in_process/step_inputs.h"
#include "engine/in_process/step_internal.h"
#include "queue/retry.h"

/* --- phases --- */

static bool is_in_flight(enum step_phase phase)
{
    return phase != PHASE_IDLE && phase != PHASE_DONE;
}

/* It uses something, or is about to: it neither sleeps nor waits for its next attempt. */
static bool is_parallel(enum step_phase phase)
{
    return is_in_flight(phase) && phase != PHASE_RECORDING_WAIT && phase != PHASE_SLEEPING;
}

/* From when its start is reported until its process runs. */
static bool has_reserved(const struct step_run *run)
{
    return step_run_step(run)->kind == STEP_EXEC && (run->phase == PHASE_RECORDING_START || run->phase == PHASE_QUEUED);
}

/* One of its workspace's places among the processes. */
static bool has_place(const struct step_run *run)
{
    return has_reserved(run) || (step_run_step(run)->kind == STEP_EXEC && run->phase == PHASE_RUNNING);
}

void step_run_note_started(struct step_run *run)
{
    if (run->is_starting) {
        run->is_starting = false;
        run->execution->tenant->processes.starting--;
    }
}

void step_run_set_phase(struct step_run *run, enum step_phase phase)
{
    struct execution *execution = run->execution;
    struct runner *runner = execution->runner;
    bool had_place =
        has_place(run); /* else none is touched: a restored step is set up by the thread that starts the execution */
    if (has_reserved(run)) {
        runner->reserved--;
    }
    execution->in_flight -= is_in_flight(run->phase);
    execution->in_flight += is_in_flight(phase);
    execution->parallel -= is_parallel(run->phase);
    execution->parallel += is_parallel(phase);
    execution->done -= run->phase == PHASE_DONE;
    execution->done += phase == PHASE_DONE;
    run->phase = phase;
    if (has_reserved(run)) {
        runner->reserved++;
    }
    if (has_place(run) && !had_place) {
        fair_queue_hold(&runner->processes_queue, &execution->tenant->processes);
        run->is_starting = true;
        execution->tenant->processes.starting++;
    } else if (had_place && !has_place(run)) {
        step_run_note_started(run);
        fair_queue_release(&runner->processes_queue, &execution->tenant->processes);
    }
}

void step_run_set_timer(struct step_run *run, int64_t due_us)
{
    loop_set_timer(&run->execution->runner->loop, &run->timer, due_us);
}

void step_run_clear_timer(struct step_run *run)
{
    loop_clear_timer(&run->execution->runner->loop, &run->timer);
}

void step_run_drop_preparation(struct step_run *run)
{
    preparation_free(run->preparation);
    run->preparation = NULL;
}

/* --- reports --- */

/* NULL when out of memory: then the step waits for an answer that never comes, until its execution is abandoned. */
static struct report *make_report(struct step_run *run, enum report_kind kind, enum step_state state)
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
    return report;
}

static void send(const struct step_run *run, struct report *report)
{
    if (report != NULL) {
        engine_report(&run->execution->runner->base, report);
    }
}

static void put_error(struct report *report, const char *code, const char *error)
{
    if (report == NULL) {
        return;
    }
    text_copy(report->step.error_code, sizeof report->step.error_code, code);
    report->step.error = error != NULL ? strdup(error) : NULL;
}

/* True when the end of this step is the end of the execution, so that one report can say both. */
static bool is_last(const struct step_run *run)
{
    const struct execution *execution = run->execution;
    if (execution->in_flight != 1 || execution->ending == ENDING_GIVEN_BACK) {
        return false;
    }
    if (execution->ending == ENDING_NONE) {
        return execution->done + 1 == execution->step_count;
    }
    for (size_t i = 0; i < execution->step_count; i++) {
        if (execution->steps[i].phase == PHASE_IDLE && execution->steps[i].on_record) {
            return false; /* from before a handover: its end has to be told first */
        }
    }
    return true;
}

/* Every final state goes this way. */
static void report_final(struct step_run *run, enum step_state state, const struct step_outcome *outcome)
{
    struct execution *execution = run->execution;
    step_run_clear_timer(run);
    if (!is_in_flight(run->phase)) {
        step_run_set_phase(run, PHASE_RECORDING_END);
    }
    if (state == STEP_FAILED && execution->ending < ENDING_FAILED) {
        execution->ending = ENDING_FAILED; /* settling stops what has to be stopped */
    }
    bool last = is_last(run);
    struct report *report = make_report(run, last ? REPORT_ENDED : REPORT_STEP, state);
    if (outcome != NULL && report != NULL) {
        report->step.output = outcome->output;
        report->step.output_length = outcome->output_length;
    } else if (outcome != NULL) {
        free(outcome->output);
    }
    if (outcome != NULL && state == STEP_FAILED) {
        put_error(report, outcome->code, outcome->error);
        execution_set_error(execution, outcome->code, outcome->error);
    }
    if (last) {
        execution_fill_end(execution, report);
    }
    step_run_set_phase(run, PHASE_RECORDING_END);
    FAILPOINT("before_step_report");
    send(run, report);
}

void step_run_put_away(struct step_run *run)
{
    step_run_clear_timer(run);
    step_run_drop_preparation(run);
    if (run->execution->ending >= ENDING_ABANDONED || run->execution->ending == ENDING_GIVEN_BACK || !run->on_record) {
        step_run_set_phase(run, PHASE_IDLE);
    } else {
        report_final(run, STEP_CANCELLED, NULL);
    }
}

void step_run_report_start(struct step_run *run)
{
    step_run_set_phase(run, PHASE_RECORDING_START);
    send(run, make_report(run, REPORT_STEP, STEP_RUNNING));
}

static void report_waiting(struct step_run *run, int64_t delay_us, const struct step_outcome *outcome)
{
    struct report *report = make_report(run, REPORT_STEP, STEP_WAITING);
    if (report != NULL) {
        report->step.due_in_us = delay_us;
    }
    if (outcome != NULL) {
        put_error(report, outcome->code, outcome->error);
    }
    run->resume_us = time_add(loop_now(&run->execution->runner->loop), delay_us);
    step_run_set_phase(run, PHASE_RECORDING_WAIT);
    send(run, report);
}

/* --- ends of attempts --- */

static struct retry_policy policy_of(const struct step *step)
{
    return (struct retry_policy){.attempts_max = step->retry.attempts,
                                 .backoff_us = step->retry.backoff_us,
                                 .factor = step->retry.factor,
                                 .max_us = step->retry.max_us};
}

static bool is_not_on(const struct step *step, const char *code)
{
    for (size_t i = 0; i < step->retry.not_on_count; i++) {
        if (strcmp(step->retry.not_on[i], code) == 0) {
            return true;
        }
    }
    return false;
}

void step_run_finish(struct step_run *run, struct step_outcome *outcome)
{
    struct execution *execution = run->execution;
    const struct step *step = step_run_step(run);
    step_run_clear_timer(run);
    step_run_drop_preparation(run);
    if (execution->ending == ENDING_ABANDONED) {
        free(outcome->output);
        step_run_set_phase(run, PHASE_IDLE);
        return;
    }
    if (outcome->is_done) {
        report_final(run, STEP_COMPLETED, outcome);
        return;
    }
    free(outcome->output);
    outcome->output = NULL;
    outcome->output_length = 0;
    if (run->stop == STOP_ENDING) {
        if (execution->ending == ENDING_GIVEN_BACK && step->kind == STEP_HANDLER) {
            struct step_outcome interrupted = {.code = STEP_INTERRUPTED};
            report_waiting(run, 0, &interrupted); /* so that the next node does not use this attempt's number again */
        } else if (step->kind == STEP_HANDLER && execution->ending != ENDING_GIVEN_BACK) {
            report_final(run, STEP_CANCELLED, NULL);
        } else {
            step_run_put_away(run);
        }
        return;
    }
    run->failures++;
    struct retry_policy policy = policy_of(step);
    if (!outcome->is_final && !is_not_on(step, outcome->code) && retry_allows(&policy, run->failures) &&
        (execution->ending == ENDING_NONE || execution->ending == ENDING_GIVEN_BACK)) {
        int64_t delay_us =
            outcome->has_delay ? outcome->delay_us : retry_delay(&policy, run->failures, &execution->runner->random);
        report_waiting(run, delay_us, outcome);
    } else {
        report_final(run, STEP_FAILED, outcome);
    }
}

void step_run_fail(struct step_run *run, const char *code, const char *error, bool is_final)
{
    struct step_outcome outcome = {.is_final = is_final, .code = code, .error = error};
    step_run_finish(run, &outcome);
}

void step_run_wait_for_more(struct step_run *run, int native)
{
    step_run_clear_timer(run);
    step_run_drop_preparation(run);
    if (run->execution->ending != ENDING_NONE) {
        step_run_put_away(run);
        return;
    }
    int doublings = run->shortages < 5 ? run->shortages++ : 5;
    int64_t delay_us = STEP_SHORTAGE_FIRST_US << doublings;
    struct step_outcome outcome = {.code = STEP_NODE_SHORT, .error = process_shortage_text(native)};
    report_waiting(run, delay_us < STEP_SHORTAGE_MOST_US ? delay_us : STEP_SHORTAGE_MOST_US, &outcome);
}

/* --- the way to an attempt --- */

/* A handler that ended its node may do so again: from the second claim on its attempts are on record before they begin, as
 * those of exec steps are, so that the next handover counts. */
static void begin_call(struct step_run *run)
{
    if (run->execution->interruptions > 0) {
        step_run_report_start(run);
    } else {
        step_call_start(run);
    }
}

/* Everything is evaluated: what the kind of step does next. */
static void go_on(struct step_run *run)
{
    switch (step_run_step(run)->kind) {
    case STEP_EXEC:
        step_exec_begin(run);
        break;
    case STEP_SLEEP: {
        int64_t delay_us = run->preparation->delay_us;
        step_run_drop_preparation(run);
        report_waiting(run, delay_us, NULL);
        break;
    }
    case STEP_HANDLER:
        begin_call(run);
        break;
    }
}

static void prepare(struct step_run *run)
{
    struct preparation *preparation = run->preparation;
    switch (preparation_run(preparation)) {
    case PREPARATION_READY:
        go_on(run);
        break;
    case PREPARATION_SKIP:
        step_run_drop_preparation(run);
        report_final(run, STEP_SKIPPED, NULL);
        break;
    case PREPARATION_ASKED:
        break;
    case PREPARATION_SHORT:
        step_run_wait_for_more(run, ENOMEM);
        break;
    case PREPARATION_FAILED: {
        struct weir_error message = preparation->message;
        step_run_fail(run, preparation->code, message.message, true);
        break;
    }
    }
}

static void evaluation_answered(struct step_run *run)
{
    struct execution *execution = run->execution;
    prepare(run);
    execution_settle(execution);
}

void step_run_attempt(struct step_run *run)
{
    run->attempt++;
    run->exit_code = -1;
    run->stop = STOP_NONE;
    if (preparation_is_needless(run)) {
        begin_call(run);
        return;
    }
    step_run_set_phase(run, PHASE_EVALUATING);
    bool is_short = false;
    run->preparation = preparation_new(run, evaluation_answered, &is_short);
    if (is_short) {
        step_run_wait_for_more(run, ENOMEM);
        return;
    }
    if (run->preparation == NULL) {
        step_run_fail(run, EXPRESSION_ERROR_CODE, "the context of its expressions cannot be made", true);
        return;
    }
    prepare(run);
}

static void timer_fired(struct timer *timer)
{
    struct step_run *run = timer->owner;
    struct execution *execution = run->execution;
    if (run->phase == PHASE_SLEEPING) {
        if (step_run_step(run)->kind == STEP_SLEEP) {
            report_final(run, STEP_COMPLETED, NULL);
        } else if (execution->parallel >= execution->runner->max_parallel_steps) {
            step_run_set_phase(run, PHASE_IDLE); /* it begins when one of the others has left its place */
        } else {
            step_run_attempt(run);
        }
        execution_settle(execution);
    } else if (run->phase == PHASE_RUNNING && run->stop == STOP_NONE) {
        run->stop = STOP_TIMEOUT;
        if (run->process != NULL) {
            process_kill(run->process, KEEPER_GRACE_US);
        } else if (run->call != NULL) {
            handler_pool_cancel(run->call);
        }
    }
}

/* --- from outside --- */

void step_run_begin(struct step_run *run)
{
    run->timer.fire = timer_fired;
    run->timer.owner = run;
    if (run->state == STEP_WAITING && run->on_record) { /* from before a handover */
        step_run_set_phase(run, PHASE_SLEEPING);
        step_run_set_timer(run, run->resume_us);
        return;
    }
    step_run_attempt(run);
}

/* Attempts that a dead node may have begun without a record (handlers) are skipped: no number is used twice. */
enum weir_status step_run_restore(struct step_run *run, const struct step_record *record)
{
    struct execution *execution = run->execution;
    bool may_be_unseen = step_run_step(run)->kind == STEP_HANDLER && (record == NULL || record->state != STEP_RUNNING);
    int unseen = may_be_unseen ? execution->interruptions : 0;
    run->attempt = (record != NULL ? record->attempt : 0) + unseen;
    run->exit_code = record != NULL ? record->exit_code : -1;
    if (record == NULL) {
        return WEIR_OK;
    }
    run->state = record->state;
    run->failures = record->failures;
    run->condition_met = true;
    if (!step_state_is_final(record->state)) {
        run->on_record = true;
        run->resume_us = time_add(loop_now(&execution->runner->loop), record->due_in_us);
        return WEIR_OK;
    }
    run->attempt = record->attempt;
    step_run_set_phase(run, PHASE_DONE);
    if (record->output != NULL && execution->step_count > 1 &&
        json_read(record->output, record->output_length, &run->output, NULL) == WEIR_OUT_OF_MEMORY) {
        return WEIR_OUT_OF_MEMORY; /* without it, those that need it would take it for null */
    }
    if (record->state == STEP_FAILED) {
        execution_set_error(execution, record->error_code, record->error);
        execution->ending = execution->ending < ENDING_FAILED ? ENDING_FAILED : execution->ending;
    } else if (record->state == STEP_CANCELLED && execution->ending == ENDING_NONE) {
        execution->ending = ENDING_CANCELLED;
    }
    return WEIR_OK;
}

static void stop_running(struct step_run *run)
{
    enum ending ending = run->execution->ending;
    if (ending == ENDING_FAILED) {
        return; /* siblings of a failed step finish */
    }
    bool is_first = run->stop == STOP_NONE;
    bool is_harder = ending == ENDING_ABANDONED && !run->killed;
    if (is_first) {
        run->stop = STOP_ENDING;
        step_run_clear_timer(run);
    }
    if (run->process != NULL && (is_first || is_harder)) {
        run->killed = ending == ENDING_ABANDONED;
        process_kill(run->process, run->killed ? 0 : KEEPER_GRACE_US);
    } else if (run->call != NULL) {
        handler_pool_cancel(run->call);
    }
}

void step_run_stop(struct step_run *run)
{
    bool is_abandoned = run->execution->ending == ENDING_ABANDONED;
    switch (run->phase) {
    case PHASE_IDLE:
        if (run->on_record && !is_abandoned && run->execution->ending != ENDING_GIVEN_BACK) {
            step_run_put_away(run); /* on record from before a handover, and never begun here */
        }
        break;
    case PHASE_AWAITING_ROOM:
    case PHASE_QUEUED:
        step_exec_leave_queue(run);
        step_run_put_away(run);
        break;
    case PHASE_EVALUATING:
    case PHASE_SLEEPING:
        step_run_put_away(run);
        break;
    case PHASE_RUNNING:
        stop_running(run);
        break;
    case PHASE_RECORDING_START:
    case PHASE_RECORDING_WAIT:
    case PHASE_RECORDING_END:
        if (is_abandoned) {
            step_run_put_away(run);
        }
        break;
    case PHASE_DONE:
        break;
    }
}

/* The store did not take the result: the step fails, and if even that is not taken, the execution goes on without. */
static void result_refused(struct step_run *run)
{
    json_decref(run->output);
    run->output = NULL;
    if (run->refused) {
        step_run_set_phase(run, PHASE_DONE);
        return;
    }
    run->refused = true;
    run->execution->end_reported = false;
    struct step_outcome outcome = {.code = "output_refused", .error = "the store did not take the result of the step"};
    run->failures++;
    report_final(run, STEP_FAILED, &outcome);
}

void step_run_recorded(struct step_run *run, enum weir_status status)
{
    bool is_fine = status == WEIR_OK;
    bool is_ending = run->execution->ending != ENDING_NONE;
    switch (run->phase) {
    case PHASE_RECORDING_START:
        run->on_record = run->on_record || is_fine;
        if (!is_fine) {
            result_refused(run);
        } else if (is_ending) {
            step_run_put_away(run);
        } else if (step_run_step(run)->kind == STEP_EXEC) {
            step_exec_queue(run);
        } else {
            step_call_start(run);
        }
        break;
    case PHASE_RECORDING_WAIT:
        run->on_record = run->on_record || is_fine;
        if (!is_fine) {
            result_refused(run);
        } else if (is_ending) {
            step_run_put_away(run);
        } else {
            step_run_set_phase(run, PHASE_SLEEPING);
            step_run_set_timer(run, run->resume_us);
        }
        break;
    case PHASE_RECORDING_END:
        if (is_fine) {
            run->on_record = false;
            step_run_set_phase(run, PHASE_DONE);
        } else {
            result_refused(run);
        }
        break;
    default:
        break; /* an answer that came twice */
    }
}

void step_run_close(struct step_run *run)
{
    step_run_clear_timer(run);
    (void)fair_queue_remove(&run->execution->runner->processes_queue, &run->turn);
    if (has_place(run)) {
        step_run_set_phase(run, PHASE_IDLE);
    }
    step_run_drop_preparation(run);
    json_decref(run->output);
    run->output = NULL;
}
