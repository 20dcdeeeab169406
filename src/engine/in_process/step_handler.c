/* Steps that call a handler of the host's program.
 *
 * The step fills a call with its ids and its input and gives it to the handler pool. A thread of the pool runs the
 * function. The answer may come later, from any thread of the host (handler_pool.c). The pool hands the call back to the
 * loop, which takes the result here. A handler cannot be killed. A timeout or a cancel only asks it to stop, and the step
 * stays RUNNING until it returns; the result of a handler that passed its timeout is dropped. The call borrows strings of
 * its execution, so an execution must not be freed while it has a call. An http step has a call too, which its client
 * answers (step_http.c).
 */
#include "engine/in_process/step_handler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/in_process/execution.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_callback.h"
#include "engine/in_process/step_inputs.h"
#include "engine/in_process/step_phase.h"
#include "engine/in_process/step_report.h"
#include "engine/in_process/step_run.h"
#include "engine/in_process/step_secrets.h"
#include "engine/in_process/step_states.h"

enum weir_status step_call_new(struct step_run *run, struct weir_call **ret_call, struct weir_error *error)
{
    INVARIANT(run->call == NULL && run->attempt > 0);
    struct execution *execution = run->execution;
    const struct step *step = step_run_step(run);
    struct step_secrets *secrets = NULL;
    enum weir_status status = step_secrets_read(execution, step, &secrets, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct weir_call *call = weir_call_new();
    if (call == NULL) {
        step_secrets_free(secrets);
        return error_out_of_memory(error);
    }
    call->execution_id = execution->id;
    call->workspace = execution->workspace;
    call->step = step->id;
    call->attempt = run->attempt;
    call->ended_attempt = run->ended_attempt;
    call->fence = execution->fence;
    step_write_traceparent(run, call->traceparent);
    call->owner = run;
    call->engine = &execution->runner->base;
    call->store_ahead_us = execution->store_ahead_us;
    call->taken_over_us = execution->interruptions > 0 && !run->is_unserved ? execution->started_us : TIME_NEVER;
    call->secrets = secrets;
    *ret_call = call;
    return WEIR_OK;
}

void step_handler_start(struct step_run *run)
{
    INVARIANT(run != NULL);
    struct execution *execution = run->execution;
    struct weir_error error = {.message = ""};
    struct weir_call *call = NULL;
    enum weir_status status = step_call_new(run, &call, &error);
    if (status != WEIR_OK) {
        step_run_wait_for_secret(run, status, error.message);
        return;
    }
    if (run->machine != NULL && step_states_fill_call(run, call) != WEIR_OK) {
        weir_call_free(call);
        step_run_wait_for_resources(run, ENOMEM);
        return;
    }
    call->handler = run->machine != NULL ? step_states_handler(run) : execution->definition->handlers[step_run_index(run)];
    int64_t timeout_us = run->machine != NULL ? step_states_timeout(run) : step_run_step(run)->timeout_us;
    call->lane = &execution->tenant->calls;
    call->weight = execution->weight;
    call->input = execution->params;
    if (run->inputs != NULL && run->inputs->has_input) {
        call->own_input = run->inputs->input.data;
        call->input = call->own_input;
        run->inputs->input = (struct text){.max = 0};
    }
    step_run_drop_inputs(run);
    run->call = call;
    run->stop = STOP_NONE;
    step_run_set_phase(run, PHASE_RUNNING);
    if (timeout_us > 0) {
        call->timeout_us = time_add(loop_now(&execution->runner->loop), timeout_us);
        step_run_set_timer(run, call->timeout_us);
    }
    handler_pool_submit(&execution->runner->handlers, call);
}

/* No failure of the step, unless it has lost several workers: then it may be the cause. A worker that has left in order is
 * none of these. */
static void repeat_after_worker_loss(struct step_run *run, const struct weir_call *call)
{
    if (run->stop != STOP_ENDING && run->execution->ending == ENDING_NONE &&
        (call->result == CALL_LEFT || ++run->workers_lost <= WORKERS_LOST_FREE)) {
        step_run_attempt(run);
    } else {
        step_run_fail(run, call->code, call->error, false);
    }
}

/* Stops the execution here. The step waits on record for the next node. */
static void give_execution_back(struct step_run *run)
{
    struct execution *execution = run->execution;
    if (execution->ending == ENDING_NONE) {
        execution->ending = ENDING_GIVEN_BACK; /* execution_settle() stops the other steps */
    }
    run->stop = STOP_ENDING;
    step_run_fail(run, STEP_INTERRUPTED, NULL, false);
}

/* The node has no worker for the step. If nothing else of the execution is under way, it waits without a slot until a node
 * has one. That is a park which is due at once, and the same record has the step. Else the execution is handed over. */
static void leave_for_worker(struct step_run *run)
{
    struct execution *execution = run->execution;
    struct step_outcome outcome = {.code = STEP_NO_WORKER};
    if (execution->ending == ENDING_NONE && run->machine == NULL && run->stop != STOP_ENDING) {
        execution->lacks_worker = true;
        step_run_report_pause(run, 0, &outcome);
        return;
    }
    if (execution->ending == ENDING_NONE) {
        execution->ending = ENDING_GIVEN_BACK;
    }
    run->stop = STOP_ENDING;
    step_run_finish(run, &outcome);
}

/* Translates the answer of the handler into the outcome of the attempt. */
static void take_call_result(struct step_run *run, struct weir_call *call)
{
    struct step_outcome outcome = {.code = call->code, .error = call->error};
    run->shortages = call->result == CALL_STARVED ? run->shortages : 0; /* else the node had the resources for it */
    if (run->stop == STOP_TIMEOUT) {
        step_run_fail(run, "timeout", "its handler did not end within the timeout", false);
        return;
    }
    if (run->machine != NULL && step_states_take_answer(run, call)) {
        return;
    }
    if (call->result == CALL_ACCEPTED) {
        step_callback_wait(run);
        return;
    }
    if (call->result != CALL_DONE && step_callback_consume(run)) {
        return; /* the answer to the request was lost, the result was not */
    }
    switch (call->result) {
    case CALL_ACCEPTED:
    case CALL_NEXT:
        INVARIANT(call->result == CALL_NEXT && run->execution->ending == ENDING_ABANDONED); /* the rest is above */
        outcome.is_final = true;
        break;
    case CALL_DONE:
        outcome.is_done = true;
        outcome.output = call->output;
        outcome.output_length = call->output != NULL ? strlen(call->output) : 0;
        call->output = NULL;
        if (run->execution->step_count > 1) {
            json_decref(run->output);
            run->output = call->value;
            call->value = NULL;
        }
        break;
    case CALL_RETRY:
        outcome.has_delay = call->retry_delay_us >= 0;
        outcome.delay_us = call->retry_delay_us;
        break;
    case CALL_FAILED:
        outcome.is_final = true;
        break;
    case CALL_BAD_OUTPUT:
        outcome.is_final = true;
        outcome.code = step_run_step(run)->kind == STEP_HTTP ? "output_too_large" : "handler_bad_output";
        break;
    case CALL_STARVED: /* no memory for its output */
        step_run_wait_for_resources(run, ENOMEM);
        return;
    case CALL_INTERRUPTED:
    case CALL_LEFT:
        repeat_after_worker_loss(run, call);
        return;
    case CALL_GIVEN_BACK:
        give_execution_back(run);
        return;
    case CALL_UNSERVED:
        leave_for_worker(run);
        return;
    case CALL_NOTHING:
        outcome.is_final = true;
        outcome.code = "handler_no_result";
        outcome.error = "the handler returned without an answer: weir_done(), weir_retry() or weir_fail()";
        break;
    }
    step_run_finish(run, &outcome);
}

void step_handler_finish(struct weir_call *call)
{
    struct step_run *run = call->owner;
    INVARIANT(run != NULL && run->call == call && run->phase == PHASE_RUNNING);
    struct execution *execution = run->execution;
    struct engine_output end = {.execution_id = call->execution_id, .step = call->step, .attempt = call->attempt};
    run->call = NULL;
    run->ended_attempt = run->attempt;
    run->on_recorded = call->on_recorded;
    run->recorded_context = call->recorded_context;
    step_run_clear_timer(run);
    engine_output(call->engine, &end);
    handler_pool_end_progress(call);
    take_call_result(run, call);
    weir_call_free(call);
    if (run->phase != PHASE_RECORDING_WAIT && run->phase != PHASE_RECORDING_END) {
        step_run_note_recorded(run, false); /* the answer has no record */
    }
    execution_settle(execution);
}
