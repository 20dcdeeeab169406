/* The end of an execution: which run closed, how, and the report.
 *
 * Three parts find ends, and each of them covers the gaps of the others:
 *
 *   part            finds                                       gap
 *   long_polls.c    the end of a polled run, at once            there are fewer places than runs; a call may hang or fail
 *   close_sweep.c   by the list, each run that closed lately    the list may fail, lag, or lack a workflow
 *   close_sweep.c   by a description of each followed run       it is slow: each run comes up once in half a minute or more
 *
 * None is missed. Every followed run has a due time in the heap. So it is described again and again until its end is
 * recorded, even if no long poll and no list shows it.
 *
 * A long poll brings the close event itself. The list and the description only cause this file to read it. From there on
 * the steps are the same:
 *
 * 1. Read the close event of the run (state CLOSING). Only this event has the result and the reason of the end.
 * 2. If it names a next run (continued as new, retry, cron), follow that run: the chain is the execution.
 * 3. After a termination, describe the workflow: a reset terminates the run and goes on in another one, and the event does
 *    not name it.
 * 4. Let the codec decode the result, at most for CODEC_PATIENCE_US, because the slot is free in truth.
 * 5. Report the end (state ENDED). The run stays in the table until the store has recorded it.
 *
 * This file must never report an end without a close event, but for a workflow that the service no longer has.
 *
 * It runs in the engine's loop. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "engine/temporal/temporal_internal.h"

enum { NOTE_BYTES_MAX = 200 };

/* --- the report --- */

/* weir terminates a workflow only after the cancel is on record, so this is a cancel even if the order has not reached this
 * node yet. */
static enum end_state choose_end_state(const struct run *run, const struct close_event *closing)
{
    switch (closing->kind) {
    case CLOSE_COMPLETED:
        return END_COMPLETED;
    case CLOSE_CANCELED:
        return END_CANCELLED;
    case CLOSE_TERMINATED:
        return run->cancel_wanted || closing->by_weir ? END_CANCELLED : END_FAILED;
    default:
        return END_FAILED;
    }
}

/* The execution has one step as the store sees it; it ends with the execution. */
static void fill_end_step(const struct temporal *engine, const struct run *run, struct report *report)
{
    static const enum step_state states[] = {
        [END_COMPLETED] = STEP_COMPLETED, [END_FAILED] = STEP_FAILED, [END_CANCELLED] = STEP_CANCELLED};
    struct step_record *step = &report->step;
    report->has_step = true;
    report->step.ran_us = -1;
    text_copy(step->step, sizeof step->step, TEMPORAL_STEP);
    step->state = states[report->end_state];
    step->attempt = 1;
    step->failures = report->end_state == END_FAILED ? 1 : 0;
    step->variables = run_write_ids(engine, run);
    memcpy(step->error_code, report->error_code, sizeof step->error_code);
    step->error = report->error == NULL ? NULL : strdup(report->error);
}

/* Takes the contents of `closing`. */
static void fill_end_report(const struct temporal *engine, const struct run *run, struct report *report,
                            struct close_event *closing)
{
    report->end_state = choose_end_state(run, closing);
    if (report->end_state != END_COMPLETED) {
        memcpy(report->error_code, closing->error_code, sizeof report->error_code);
        report->error = closing->error;
        closing->error = NULL;
    }
    fill_end_step(engine, run, report);
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
        (void)snprintf(note, sizeof note, "the result has %zu bytes, and weir stores at most %d: read it in the service",
                       closing->result_bytes, STEP_OUTPUT_BYTES_MAX);
        text_copy(report->step.error_code, sizeof report->step.error_code, "result_too_large");
        free(report->step.error);
        report->step.error = strdup(note);
    }
}

/* Step 5. Takes the contents of `closing`. */
static void report_run_end(struct temporal *engine, struct run *run, struct close_event *closing)
{
    struct report *report = run_new_report(engine, run, REPORT_ENDED);
    if (report != NULL) {
        fill_end_report(engine, run, report, closing);
    }
    close_event_close(closing);
    long_poll_remove_run(engine, run);
    run_release_start(engine, run);
    if (!run->started) {
        run->started = true;
        atomic_fetch_add(&engine->followed, 1);
    }
    call_detach(run->call, false);
    run_set_due(engine, run, TIME_NEVER);
    run->state = RUN_ENDED; /* also when the report was lost: the node gives the claim up */
    run_send_report(engine, report);
}

void closing_handle_recorded(struct temporal *engine, struct run *run, enum weir_status status)
{
    INVARIANT(run != NULL);
    if (status == WEIR_INVALID_ARGUMENT && run->state == RUN_ENDED) {
        /* The store refuses this result: the end is reported again without it. */
        struct close_event closing = {.kind = CLOSE_FAILED};
        text_copy(closing.error_code, sizeof closing.error_code, "result_refused");
        closing.error = strdup("the store refused the result or the failure of the workflow; the service still has it");
        report_run_end(engine, run, &closing);
        return;
    }
    run_remove(engine, run);
}

void closing_report_gone(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL && run->state != RUN_ENDED);
    struct close_event closing = {.kind = CLOSE_FAILED};
    text_copy(closing.error_code, sizeof closing.error_code, "workflow_gone");
    closing.error =
        strdup("the service no longer has the workflow: it was deleted, or it ended before the retention of the namespace");
    report_run_end(engine, run, &closing);
}

void closing_report_confirmed(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL && run->has_closing && run->closing.kind == CLOSE_TERMINATED);
    struct close_event closing = run->closing;
    run->closing = (struct close_event){.kind = CLOSE_NONE};
    run->has_closing = false;
    report_run_end(engine, run, &closing);
}

/* {"encoded": ...} in place of the result; `weir show` decodes it. A failure keeps its code. */
static void keep_encoded_result(struct close_event *closing, const char *problem)
{
    struct text text = {.max = STEP_OUTPUT_BYTES_MAX};
    enum weir_status status = text_format(&text, "{\"" TEMPORAL_ENCODED_KEY "\":%s}", closing->encoded.data);
    free(closing->result);
    closing->result = status == WEIR_OK ? text.data : NULL;
    closing->result_length = status == WEIR_OK ? text.length : 0;
    closing->result_bytes = closing->encoded.length;
    if (status != WEIR_OK) {
        text_close(&text);
    } else if (closing->kind == CLOSE_COMPLETED) {
        text_copy(closing->error_code, sizeof closing->error_code, "result_encoded");
        closing->error = strdup(problem);
    }
}

/* --- the close event --- */

void closing_take_event(struct temporal *engine, struct run *run, struct close_event *closing)
{
    INVARIANT(run != NULL && run->state != RUN_ENDED && closing != NULL);
    if (closing->kind == CLOSE_NONE) {
        close_event_close(closing);
        close_sweep_follow_run(engine, run); /* the run is open */
        return;
    }
    memcpy(run->closed_run_id, run->run_id, sizeof run->closed_run_id);
    run->closed_us = closing->at_us;
    if (closing->kind != CLOSE_CONTINUED) { /* the list leaves these out */
        close_sweep_note_close(engine, closing->at_us);
    }
    if (closing->next_run_id[0] != '\0') {
        memcpy(run->run_id, closing->next_run_id, sizeof run->run_id);
        close_event_close(closing);
        starts_record_run(engine, run);
        close_sweep_follow_run(engine, run);
    } else if (closing->kind == CLOSE_TERMINATED) {
        /* step 3 */
        close_event_close(&run->closing);
        run->closing = *closing;
        run->has_closing = true;
        *closing = (struct close_event){.kind = CLOSE_NONE};
        long_poll_remove_run(engine, run);
        run->state = RUN_CLOSING;
        starts_describe_run(engine, run);
    } else if (!coding_decode_end(engine, run, closing)) {
        report_run_end(engine, run, closing);
    }
}

void closing_report_decoded(struct temporal *engine, struct run *run, const char *problem)
{
    INVARIANT(run != NULL && run->state == RUN_CLOSING && run->closing.kind != CLOSE_NONE);
    struct close_event closing = run->closing;
    run->closing = (struct close_event){.kind = CLOSE_NONE};
    if (problem != NULL) {
        keep_encoded_result(&closing, problem);
    }
    report_run_end(engine, run, &closing);
}

static void handle_close_event(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct close_event closing;
    if (run == NULL || run->state != RUN_CLOSING) {
        return;
    }
    enum reply_kind reply = outcome_classify_reply(result);
    if (reply == REPLY_OK && decode_close_event(result->response, result->response_length, &closing) == WEIR_OK) {
        coding_keep_payloads(engine, &closing, result);
        closing_take_event(engine, run, &closing);
    } else if (reply == REPLY_NOT_FOUND) {
        starts_describe_run(engine, run);
    } else {
        run_set_due(engine, run, run_back_off(engine, run));
    }
}

void closing_read_event(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL && run->state != RUN_ENDED);
    long_poll_remove_run(engine, run);
    run_set_due(engine, run, TIME_NEVER);
    run->state = RUN_CLOSING;
    call_detach(run->call, false);
    if (!call_send_and_free(
            engine, run, &run->call, METHOD_HISTORY,
            encode_close_event(engine->namespace_name, run->workflow_id, run->run_id, false, (struct bytes){NULL, 0}),
            CALL_TIMEOUT_US, handle_close_event)) {
        run_set_due(engine, run, run_back_off(engine, run));
    }
}
