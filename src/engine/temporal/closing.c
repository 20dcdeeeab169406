/* The end: the close event, what it says, and its report. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "engine/temporal/temporal_internal.h"

enum { NOTE_BYTES_MAX = 200 };

/* --- the report --- */

/* A termination through weir comes after its cancel is on record; that this node was not told of the cancel yet changes
 * nothing. */
static enum end_state end_state_of(const struct run *run, const struct closing *closing)
{
    switch (closing->kind) {
    case CLOSING_COMPLETED:
        return END_COMPLETED;
    case CLOSING_CANCELED:
        return END_CANCELLED;
    case CLOSING_TERMINATED:
        return run->cancel_wanted || closing->by_weir ? END_CANCELLED : END_FAILED;
    default:
        return END_FAILED;
    }
}

static void add_step(const struct temporal *engine, const struct run *run, struct report *report)
{
    static const enum step_state states[] = {
        [END_COMPLETED] = STEP_COMPLETED, [END_FAILED] = STEP_FAILED, [END_CANCELLED] = STEP_CANCELLED};
    struct step_record *step = &report->step;
    report->has_step = true;
    text_copy(step->step, sizeof step->step, TEMPORAL_STEP);
    step->state = states[report->end_state];
    step->attempt = 1;
    step->failures = report->end_state == END_FAILED ? 1 : 0;
    step->variables = run_facts(engine, run);
    memcpy(step->error_code, report->error_code, sizeof step->error_code);
    step->error = report->error == NULL ? NULL : strdup(report->error);
}

/* Takes what `closing` holds. */
static void fill_end(const struct temporal *engine, const struct run *run, struct report *report, struct closing *closing)
{
    report->end_state = end_state_of(run, closing);
    if (report->end_state != END_COMPLETED) {
        memcpy(report->error_code, closing->error_code, sizeof report->error_code);
        report->error = closing->error;
        closing->error = NULL;
    }
    add_step(engine, run, report);
    report->step.output = closing->result;
    report->step.output_length = closing->result_length;
    closing->result = NULL;
    if (report->end_state == END_COMPLETED && closing->error != NULL) {
        memcpy(report->step.error_code, closing->error_code, sizeof report->step.error_code);
        free(report->step.error);
        report->step.error = closing->error;
        closing->error = NULL;
    }
    if (report->step.output == NULL && closing->result_bytes > 0) {
        char note[NOTE_BYTES_MAX];
        (void)snprintf(note, sizeof note, "the result of %zu bytes is larger than %d and stays in the service",
                       closing->result_bytes, STEP_OUTPUT_BYTES_MAX);
        text_copy(report->step.error_code, sizeof report->step.error_code, "result_too_large");
        free(report->step.error);
        report->step.error = strdup(note);
    }
}

/* The execution has ended; `closing` is used up. */
static void report_end(struct temporal *engine, struct run *run, struct closing *closing)
{
    struct report *report = run_report(engine, run, REPORT_ENDED);
    if (report != NULL) {
        fill_end(engine, run, report, closing);
    }
    closing_close(closing);
    follow_end(engine, run);
    run_start_is_over(engine, run);
    if (!run->started) {
        run->started = true;
        atomic_fetch_add(&engine->followed, 1);
    }
    call_forget(run->call, false);
    run_due(engine, run, TIME_NEVER);
    run->state = RUN_ENDED; /* also when nobody could be told: it waits for the node to give it up */
    run_say(engine, report);
}

void end_recorded(struct temporal *engine, struct run *run, enum weir_status status)
{
    if (status == WEIR_INVALID_ARGUMENT && run->state == RUN_ENDED) {
        /* The store does not take this result. What happened is said without it. */
        struct closing closing = {.kind = CLOSING_FAILED};
        text_copy(closing.error_code, sizeof closing.error_code, "result_refused");
        closing.error = strdup("the store did not take the workflow's result or failure; the service has it");
        report_end(engine, run, &closing);
        return;
    }
    run_remove(engine, run);
}

void end_gone(struct temporal *engine, struct run *run)
{
    struct closing closing = {.kind = CLOSING_FAILED};
    text_copy(closing.error_code, sizeof closing.error_code, "workflow_gone");
    closing.error = strdup("the service no longer knows the workflow: it was deleted, or it ended longer ago than the "
                           "namespace's retention");
    report_end(engine, run, &closing);
}

void end_confirmed(struct temporal *engine, struct run *run)
{
    struct closing closing = run->closing;
    run->closing = (struct closing){.kind = CLOSING_NONE};
    run->has_closing = false;
    report_end(engine, run, &closing);
}

/* {"encoded": ...} in place of the result; `weir show` decodes it. A failure keeps its code. */
static void keep_as_it_is(struct closing *closing, const char *problem)
{
    struct text text = {.max = STEP_OUTPUT_BYTES_MAX};
    enum weir_status status = text_format(&text, "{\"" TEMPORAL_ENCODED_KEY "\":%s}", closing->encoded.data);
    free(closing->result);
    closing->result = status == WEIR_OK ? text.data : NULL;
    closing->result_length = status == WEIR_OK ? text.length : 0;
    closing->result_bytes = closing->encoded.length;
    if (status != WEIR_OK) {
        text_close(&text);
    } else if (closing->kind == CLOSING_COMPLETED) {
        text_copy(closing->error_code, sizeof closing->error_code, "result_encoded");
        closing->error = strdup(problem);
    }
}

/* --- the close event --- */

void end_take(struct temporal *engine, struct run *run, struct closing *closing)
{
    if (closing->kind == CLOSING_NONE) {
        closing_close(closing);
        follow_begin(engine, run); /* it is open after all */
        return;
    }
    memcpy(run->closed_run_id, run->run_id, sizeof run->closed_run_id);
    run->closed_us = closing->at_us;
    if (closing->kind != CLOSING_CONTINUED) { /* which the list does not ask for */
        follow_saw_close(engine, closing->at_us);
    }
    if (closing->next_run_id[0] != '\0') {
        memcpy(run->run_id, closing->next_run_id, sizeof run->run_id);
        closing_close(closing);
        start_report_run(engine, run);
        follow_begin(engine, run);
    } else if (closing->kind == CLOSING_TERMINATED) {
        /* A reset terminates the run and goes on in another one, which the event does not tell. */
        closing_close(&run->closing);
        run->closing = *closing;
        run->has_closing = true;
        *closing = (struct closing){.kind = CLOSING_NONE};
        follow_end(engine, run);
        run->state = RUN_CLOSING;
        start_ask(engine, run);
    } else if (!coding_decodes(engine, run, closing)) {
        report_end(engine, run, closing);
    }
}

void end_report_decoded(struct temporal *engine, struct run *run, const char *problem)
{
    struct closing closing = run->closing;
    run->closing = (struct closing){.kind = CLOSING_NONE};
    if (problem != NULL) {
        keep_as_it_is(&closing, problem);
    }
    report_end(engine, run, &closing);
}

static void history_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct closing closing;
    if (run == NULL || run->state != RUN_CLOSING) {
        return;
    }
    enum look_kind look = look_of(result);
    if (look == LOOK_OK && answer_close_event(result->response, result->response_length, &closing) == WEIR_OK) {
        coding_keep(engine, &closing, result);
        end_take(engine, run, &closing);
    } else if (look == LOOK_NOT_FOUND) {
        start_ask(engine, run);
    } else {
        run_due(engine, run, run_back_off(engine, run));
    }
}

void end_read(struct temporal *engine, struct run *run)
{
    follow_end(engine, run);
    run_due(engine, run, TIME_NEVER);
    run->state = RUN_CLOSING;
    call_forget(run->call, false);
    if (!call_send_own(
            engine, run, &run->call, METHOD_HISTORY,
            message_close_event(engine->namespace_name, run->workflow_id, run->run_id, false, (struct bytes){NULL, 0}),
            CALL_TIMEOUT_US, history_done)) {
        run_due(engine, run, run_back_off(engine, run));
    }
}
