/* The life of one step, from its first attempt to its end. One exec attempt:
 *
 *                    jq answers        place free         durable         few starting        process ends
 *   IDLE -> EVALUATING ----> AWAITING_PLACE --> RECORDING_START --> QUEUED ---------> RUNNING ------+
 *                                                                                                   |
 *                       DONE <--durable-- RECORDING_END <-------- success, or no attempt left ------+
 *              next attempt <--due-- SLEEPING <--durable-- RECORDING_WAIT <--- failure, retry ------+
 *
 *   1. Evaluate `when` and the inputs. This has no side effect, so the step may repeat it after any interruption.
 *   2. Wait for a place among the processes. The attempt is not on record yet: a step that can only wait does not run, and
 *      a cancel needs no record of it.
 *   3. Report RUNNING with the attempt's number, and wait for the durable record. It precedes the process, so the next node
 *      finds each process that may have run as an attempt on record, and gives the next one a higher number.
 *   4. Start the process at the end of a turn of the loop, when few others are starting. Workspaces take turns.
 *   5. The keeper reports the end only after every process of the step is gone. So two attempts never overlap.
 *   6. Report the end, and wait for its durable record (step_report.c). Only then do the steps begin that need this one.
 *
 * A signal step has one attempt that only waits: SLEEPING until a signal or its timeout (step_signal.c). So has a start
 * step, for the signal of the store that its children have ended (step_children.c).
 * An http step skips 2, and its request follows the record at once. A handler skips 2 to 4 as long as nothing has
 * interrupted its execution, which saves a transaction; `interruptions` keeps its numbers unique. After a lost worker it
 * does not. The loop's thread runs all of it. A function here must not use its step after it has settled the execution.
 */
#include "engine/in_process/step_run.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "engine/in_process/execution.h"
#include "engine/in_process/execution_outcome.h"
#include "engine/in_process/execution_stage.h"
#include "engine/in_process/result_file.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_callback.h"
#include "engine/in_process/step_children.h"
#include "engine/in_process/step_exec.h"
#include "engine/in_process/step_handler.h"
#include "engine/in_process/step_http.h"
#include "engine/in_process/step_inputs.h"
#include "engine/in_process/step_phase.h"
#include "engine/in_process/step_report.h"
#include "engine/in_process/step_signal.h"
#include "engine/in_process/step_states.h"

enum { RESTORED_COUNT_MAX = INT_MAX / 4 };

/* --- the way to an attempt --- */

/* After an interruption an attempt of a handler is on record before it begins, as those of exec steps always are. The
 * handler may have ended its node, and the next handover must show that it ran, also behind a park. So is an attempt
 * after an interrupted one: nothing else keeps its number from being used again. So is one that follows on a record of
 * STEP_NO_WORKER: while that record stands, no attempt of the step has begun. */
static void begin_handler(struct step_run *run)
{
    const struct execution *execution = run->execution;
    if (execution->interruptions > 0 || execution->lost_a_node || run->workers_lost > 0 || run->is_unserved) {
        step_run_report_start(run);
    } else {
        run->began_us = loop_now(&execution->runner->loop);
        step_handler_start(run);
    }
}

/* The token of the attempt is on record with its start. */
static void begin_http(struct step_run *run)
{
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status = step_may_call_back(run) ? step_callback_open(run, &error) : WEIR_OK;
    if (status != WEIR_OK) {
        step_run_wait_for_resources(run, status == WEIR_SYSTEM ? EAGAIN : ENOMEM);
    } else {
        step_run_report_start(run);
    }
}

/* All inputs are evaluated: begins the work of this kind of step. */
static void begin_work(struct step_run *run)
{
    switch (step_run_step(run)->kind) {
    case STEP_EXEC:
        step_exec_begin(run);
        break;
    case STEP_SLEEP: {
        int64_t delay_us = run->inputs->delay_us;
        run->shortages = 0;
        step_run_drop_inputs(run);
        step_run_report_pause(run, delay_us, NULL);
        break;
    }
    case STEP_HANDLER:
    case STEP_STATES:
        begin_handler(run);
        break;
    case STEP_HTTP:
        begin_http(run);
        break;
    case STEP_SIGNAL:
        run->shortages = 0;
        step_run_drop_inputs(run);
        if (!step_signal_consume(run)) {
            step_run_report_pause(run, step_signal_timeout(run), NULL);
        }
        break;
    case STEP_START:
        run->shortages = 0;
        step_children_begin(run);
        break;
    }
}

/* Evaluates the inputs as far as the answers allow. */
static void evaluate_inputs(struct step_run *run)
{
    struct step_inputs *inputs = run->inputs;
    switch (step_inputs_evaluate(inputs)) {
    case INPUTS_READY:
        begin_work(run);
        break;
    case INPUTS_SKIP:
        step_run_drop_inputs(run);
        step_run_report_final(run, STEP_SKIPPED, NULL);
        break;
    case INPUTS_REQUESTED:
        break;
    case INPUTS_SHORT:
        step_run_wait_for_resources(run, ENOMEM);
        break;
    case INPUTS_FAILED: {
        struct weir_error message = inputs->message;
        step_run_fail(run, inputs->code, message.message, true);
        break;
    }
    }
}

static void evaluation_answered(struct step_run *run)
{
    struct execution *execution = run->execution;
    evaluate_inputs(run);
    execution_settle(execution);
}

void step_run_attempt(struct step_run *run)
{
    INVARIANT(run->process == NULL && run->call == NULL && run->inputs == NULL);
    INVARIANT(run->phase == PHASE_IDLE || run->phase == PHASE_SLEEPING || run->phase == PHASE_RUNNING);
    run->attempt++;
    run->exit_code = -1;
    run->stop = STOP_NONE;
    run->is_woken = false;
    run->awaits_callback = false;
    if (run->machine != NULL) {
        if (step_states_begin(run)) {
            begin_handler(run);
        }
        return;
    }
    if (step_inputs_are_ready(run)) {
        begin_handler(run);
        return;
    }
    step_run_set_phase(run, PHASE_EVALUATING);
    bool is_short = false;
    run->inputs = step_inputs_new(run, evaluation_answered, &is_short);
    if (is_short) {
        step_run_wait_for_resources(run, ENOMEM);
        return;
    }
    if (run->inputs == NULL) {
        step_run_fail(run, EXPRESSION_ERROR_CODE, "the context of its expressions cannot be made", true);
        return;
    }
    evaluate_inputs(run);
}

static void step_timer_fired(struct timer *timer)
{
    struct step_run *run = timer->owner;
    struct execution *execution = run->execution;
    if (run->phase == PHASE_SLEEPING) {
        enum step_kind kind = step_run_step(run)->kind;
        bool waits_itself = kind == STEP_SLEEP || kind == STEP_SIGNAL || kind == STEP_START;
        if (waits_itself && run->awaits_node) {
            step_run_attempt(run); /* its own wait begins only now */
        } else if (step_callback_consume(run)) {
            /* a report that waited for a secret of its step */
        } else if (kind == STEP_SLEEP) {
            step_sleep_end(run);
        } else if (kind == STEP_SIGNAL) {
            step_signal_time_out(run);
        } else if (kind == STEP_START) {
            step_children_time_out(run);
        } else if (run->awaits_callback) {
            step_callback_time_out(run);
        } else if (execution->parallel >= execution->runner->options.max_parallel_steps) {
            step_run_set_phase(run, PHASE_IDLE); /* execution_settle() begins it when another step ends */
        } else {
            step_run_attempt(run);
        }
        execution_settle(execution);
    } else if (run->phase == PHASE_RUNNING && run->stop == STOP_NONE) {
        run->stop = STOP_TIMEOUT;
        if (run->process != NULL) {
            process_kill(run->process, KEEPER_GRACE_US);
        } else if (run->call != NULL) {
            handler_pool_cancel(run->call, false);
        }
    }
}

/* Sleeps until the step goes on, unless its signal is there already. One that was woken goes on at once. */
static void sleep_on_record(struct step_run *run)
{
    if (run->machine != NULL) {
        step_states_sleep(run);
        step_run_set_phase(run, PHASE_SLEEPING);
        step_run_set_timer(run, run->resume_us);
        return;
    }
    if (step_run_awaits(run) != NULL && !run->awaits_node && step_signal_consume(run)) {
        return;
    }
    if (!run->awaits_node && step_callback_consume(run)) {
        return;
    }
    (void)step_wake_take(run);
    int64_t due_us = step_callback_due(run);
    step_run_set_phase(run, PHASE_SLEEPING);
    step_run_set_timer(run, due_us);
}

/* --- from outside --- */

void step_run_begin(struct step_run *run)
{
    INVARIANT(run->phase == PHASE_IDLE && run->execution->ending == ENDING_NONE);
    run->timer.fire = step_timer_fired;
    run->timer.owner = run;
    if (run->state == STEP_WAITING && run->on_record) { /* on record from an earlier claim */
        sleep_on_record(run);
    } else if (!run->on_record || !step_callback_consume(run)) { /* a report of the attempt of a former node counts */
        step_run_attempt(run);
    }
}

/* A count from a row, which may have been altered. The counts grow from here, and must not pass the limits of an int. */
static int restored_count(int count)
{
    return count < 0 ? 0 : count < RESTORED_COUNT_MAX ? count : RESTORED_COUNT_MAX;
}

/* The last attempt that had ended when the record was written. One that runs, and one that its node gave back, may be in a
 * program outside of the former node. */
static int ended_attempt_of(const struct step_record *record)
{
    bool may_run = record->state == STEP_RUNNING ||
                   (record->state == STEP_WAITING && strcmp(record->error_code, STEP_INTERRUPTED) == 0);
    int attempt = restored_count(record->attempt);
    return may_run && attempt > 0 ? attempt - 1 : attempt;
}

/* Skips the numbers of attempts that a dead node may have begun without a record (handlers): no number is used twice. */
enum weir_status step_run_restore(struct step_run *run, const struct step_record *record)
{
    struct execution *execution = run->execution;
    INVARIANT(run->phase == PHASE_IDLE && !execution->in_table);
    bool is_handler = step_run_step(run)->kind == STEP_HANDLER || step_run_step(run)->kind == STEP_STATES;
    run->is_unserved = record != NULL && record->state == STEP_WAITING && strcmp(record->error_code, STEP_NO_WORKER) == 0;
    bool may_be_unrecorded = is_handler && (record == NULL || record->state != STEP_RUNNING) && !run->is_unserved;
    int unrecorded = may_be_unrecorded ? restored_count(execution->interruptions) : 0;
    run->attempt = (record != NULL ? restored_count(record->attempt) : 0) + unrecorded;
    run->exit_code = record != NULL ? record->exit_code : -1;
    run->waiting_attempt = record != NULL ? record->attempt : 0;
    if (record == NULL) {
        return WEIR_OK;
    }
    run->state = record->state;
    run->ended_attempt = ended_attempt_of(record);
    run->failures = restored_count(record->failures);
    run->workers_lost = strcmp(record->error_code, STEP_WORKER_LOST) == 0 ? WORKERS_LOST_FREE : 0; /* as before its wait */
    run->awaits_node = record->state == STEP_WAITING && step_code_is_of_node(record->error_code);
    run->awaits_callback = step_may_call_back(run) && record->state == STEP_WAITING && record->error_code[0] == '\0';
    run->condition_met = !run->awaits_node || record->failures > 0; /* its memory may have run out before that was known */
    if (!step_state_is_final(record->state)) {
        run->on_record = true;
        run->resume_us = time_add(loop_now(&execution->runner->loop), record->due_in_us);
        return WEIR_OK;
    }
    run->attempt = restored_count(record->attempt);
    run->finished = record->finished_us > 0 ? record->finished_us : 1;
    step_run_set_phase(run, PHASE_DONE);
    if (record->state == STEP_FAILED && step_run_keep_error(run, record->error_code, record->error) != WEIR_OK) {
        return WEIR_OUT_OF_MEMORY;
    }
    /* Without the output of a step, those that need it would read null. */
    bool has_output = record->output != NULL && execution->step_count > 1;
    enum weir_status status = has_output ? json_read(record->output, record->output_length, &run->output, NULL) : WEIR_OK;
    if (status == WEIR_OUT_OF_MEMORY) {
        return status;
    }
    if (status != WEIR_OK && step_run_step(run)->section == SECTION_STEPS) {
        execution_set_error(execution, "output_invalid",
                            "the output on record of a step is no JSON that this node can read");
        execution->ending = ENDING_FAILED;
    }
    return WEIR_OK; /* execution_restore_ending() looks at the states of all steps */
}

static void stop_running(struct step_run *run)
{
    enum ending ending = run->execution->ending;
    if (ending == ENDING_FAILED) {
        return; /* siblings of a failed step finish */
    }
    bool is_first = run->stop == STOP_NONE;
    bool is_harder = ending == ENDING_ABANDONED && !run->is_killed;
    if (is_first) {
        run->stop = STOP_ENDING;
        step_run_clear_timer(run);
    }
    if (run->process != NULL && (is_first || is_harder)) {
        run->is_killed = ending == ENDING_ABANDONED;
        process_kill(run->process, run->is_killed ? 0 : KEEPER_GRACE_US);
    } else if (run->call != NULL) {
        handler_pool_cancel(run->call, ending == ENDING_GIVEN_BACK || ending == ENDING_ABANDONED);
    }
}

void step_run_stop(struct step_run *run)
{
    INVARIANT(run->execution->ending != ENDING_NONE);
    if (execution_spares_step(run->execution, step_run_index(run))) {
        return;
    }
    bool is_abandoned = run->execution->ending == ENDING_ABANDONED;
    switch (run->phase) {
    case PHASE_IDLE:
        if (run->on_record && !is_abandoned && run->execution->ending != ENDING_GIVEN_BACK &&
            !step_callback_consume_at_end(run)) {
            step_run_discontinue(run); /* on record from an earlier claim, and not begun here */
        }
        break;
    case PHASE_AWAITING_PLACE:
    case PHASE_QUEUED:
        step_exec_leave_queue(run);
        step_run_discontinue(run);
        break;
    case PHASE_EVALUATING:
    case PHASE_SLEEPING:
        if (!step_callback_consume_at_end(run)) {
            step_run_discontinue(run);
        }
        break;
    case PHASE_RUNNING:
        stop_running(run);
        break;
    case PHASE_RECORDING_START:
    case PHASE_RECORDING_WAIT:
    case PHASE_RECORDING_END:
        if (is_abandoned) {
            step_run_discontinue(run);
        }
        break;
    case PHASE_DONE:
        break;
    }
}

/* The store refused the result: the step fails. If the store refuses that too, the execution goes on without a record. The
 * refused report may have carried the end of the execution, which is then still to be reported. */
static void handle_refused_result(struct step_run *run)
{
    json_decref(run->output);
    run->output = NULL;
    run->execution->end_reported = false;
    if (run->is_refused) {
        step_run_set_phase(run, PHASE_DONE);
        return;
    }
    run->is_refused = true;
    struct step_outcome outcome = {.code = "output_refused", .error = "the store refused the result of the step"};
    run->failures++;
    step_run_report_final(run, STEP_FAILED, &outcome);
}

/* The execution ends, and the step has done nothing since its record. */
static void stop_recorded(struct step_run *run)
{
    if (!step_callback_consume_at_end(run)) {
        step_run_discontinue(run);
    }
}

void step_run_recorded(struct step_run *run, enum weir_status status)
{
    INVARIANT(run->execution->in_table);
    bool is_fine = status == WEIR_OK;
    bool is_ending = run->execution->ending != ENDING_NONE;
    switch (run->phase) {
    case PHASE_RECORDING_START:
        run->on_record = run->on_record || is_fine;
        if (!is_fine) {
            handle_refused_result(run);
        } else if (is_ending) {
            stop_recorded(run);
        } else if (step_callback_consume(run)) {
            break; /* of an earlier attempt: its work is done, so no request is sent */
        } else if (step_run_step(run)->kind == STEP_EXEC) {
            step_exec_queue(run);
        } else if (step_run_step(run)->kind == STEP_HTTP) {
            step_http_start(run);
        } else {
            step_handler_start(run);
        }
        break;
    case PHASE_RECORDING_WAIT:
        run->on_record = run->on_record || is_fine;
        if (!is_fine) {
            handle_refused_result(run);
        } else if (is_ending) {
            stop_recorded(run);
        } else {
            sleep_on_record(run);
        }
        break;
    case PHASE_RECORDING_END:
        if (is_fine) {
            run->on_record = false;
            step_run_set_phase(run, PHASE_DONE);
        } else {
            handle_refused_result(run);
        }
        break;
    default:
        break; /* the second answer to one report */
    }
}

void step_run_close(struct step_run *run)
{
    INVARIANT(run != NULL);
    step_run_note_recorded(run, false);
    step_run_clear_timer(run);
    if (run->turn.lane != NULL) {
        step_exec_leave_queue(run);
    }
    if (step_run_has_place(run)) {
        step_run_set_phase(run, PHASE_IDLE);
    }
    step_run_drop_inputs(run);
    result_file_remove(&run->result_path);
    step_run_drop_secrets(run);
    step_callback_free(run->callback);
    step_states_close(run);
    json_decref(run->output);
    run->output = NULL;
    free(run->error_code);
    free(run->error);
}
