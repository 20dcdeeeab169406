/* The start of an execution on the service, and the question whether a start has arrived.
 *
 * The start, with an answer that may be lost:
 *
 * 1. The message is encoded once for a claim, with the execution id as the request id and the workflow id of the execution.
 *    The reason: the service answers a second start with the same request id with the run of the first one.
 * 2. The codec encodes the payloads, once. The result replaces the message, because a codec may give other bytes each time.
 * 3. The start waits for a token of the rate (start_rate.c), then leaves.
 * 4. A certain answer ends it: the run is followed; or the start is refused for good; or no byte has left, and the item
 *    goes back into the queue.
 * 5. After an uncertain answer (time-out, lost connection, unreadable bytes) the workflow may run. The run is marked
 *    `may_run`, the node gets REPORT_UNKNOWN, the item keeps its slot, and the same message is sent again.
 * 6. "The workflow id is taken" is either the own start of step 5 or the workflow of another program. The request id of the
 *    answer, else the memo of the first run of the chain, decides. So the service is asked for a description.
 * 7. A refusal after step 5 counts only when the description finds no workflow, because the first start may have arrived.
 * 8. A start that is older than the retention of the namespace is not sent again: the service may have forgotten a workflow
 *    that has ended, and would start it anew. The workflow is described; if the service does not find it, the execution
 *    fails with `start_forgotten`.
 * 9. An execution with a run on record is never started, only described: the record proves that the service had it.
 *
 * This file must never refuse, release or end an execution while a start of it may have arrived.
 *
 * It runs in the engine's loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "engine/temporal/temporal_internal.h"

/* The service may have forgotten a run that was started and has ended: the same start could begin a second one. */
static bool may_be_forgotten(const struct temporal *engine, const struct run *run)
{
    int64_t window_us = engine->retention.us - engine->retention.us / RETENTION_MARGIN_PART;
    return temporal_now(engine) - run->first_us >= window_us;
}

/* For engine_free_capacity() in other threads. */
static void publish_window(struct temporal *engine)
{
    atomic_store(&engine->starts.window, start_rate_window(&engine->starts.limits));
}

/* --- reports --- */

/* NULL when out of memory: see run_new_report(). */
static struct report *new_error_report(struct temporal *engine, const struct run *run, enum report_kind kind,
                                       const char *code, const char *text)
{
    struct report *report = run_new_report(engine, run, kind);
    if (report != NULL) {
        text_copy(report->error_code, sizeof report->error_code, code);
        report->error = strdup(text);
    }
    return report;
}

static struct report *new_permanent_refusal(struct temporal *engine, const struct run *run, const char *code,
                                            const char *text)
{
    struct report *report = new_error_report(engine, run, REPORT_REFUSED, code, text);
    if (report != NULL) {
        report->permanent = true;
        report->spends_start = true;
    }
    return report;
}

/* The last report of a run that needs no end. */
static void report_and_remove(struct temporal *engine, struct run *run, struct report *report)
{
    run_remove(engine, run);
    run_send_report(engine, report);
}

static void refuse_permanently(struct temporal *engine, struct run *run, const char *code, const char *text)
{
    report_and_remove(engine, run, new_permanent_refusal(engine, run, code, text));
}

static void report_refusal(struct temporal *engine, struct run *run)
{
    struct report *report = run->refusal;
    run->refusal = NULL;
    report_and_remove(engine, run, report);
}

/* The call failed without a fault of the execution. A run that may have started stays, and the call is repeated. */
static void report_unreachable(struct temporal *engine, struct run *run, const char *code, const char *text)
{
    struct report *report = new_error_report(engine, run, REPORT_UNREACHABLE, code, text);
    bool may_run = run->may_run || run->known;
    if (report != NULL) {
        report->may_run = may_run;
    }
    if (may_run) {
        run_set_due(engine, run, run_back_off(engine, run));
    } else {
        run_remove(engine, run);
    }
    run_send_report(engine, report);
}

static struct report *new_step_report(struct temporal *engine, struct run *run)
{
    struct report *report = run_new_report(engine, run, REPORT_STEP);
    if (report == NULL) {
        return NULL;
    }
    report->has_step = true;
    report->step.ran_us = -1;
    text_copy(report->step.step, sizeof report->step.step, TEMPORAL_STEP);
    report->step.state = STEP_RUNNING;
    report->step.attempt = 1;
    report->step.variables = run_write_ids(engine, run);
    memcpy(run->recorded_run_id, run->run_id, sizeof run->recorded_run_id);
    run->recorded_run_us = temporal_now(engine);
    return report;
}

/* The recorder may collect this report with others. Nothing depends on the record of a start, because a start that is
 * not on record is sent again with the same bytes. */
static void send_batched_report(struct temporal *engine, struct report *report, bool may_wait)
{
    if (report != NULL) {
        report->may_wait = may_wait;
    }
    run_send_report(engine, report);
}

/* Reports once that the run has started, with the ids of the run. */
static void report_started_run(struct temporal *engine, struct run *run)
{
    INVARIANT(run->state != RUN_ENDED);
    run->known = true;
    run->backoff_us = 0;
    report_free(run->refusal);
    run->refusal = NULL;
    run_release_start(engine, run);
    if (run->started) {
        return;
    }
    run->started = true;
    atomic_fetch_add(&engine->followed, 1);
    send_batched_report(engine, run_new_report(engine, run, REPORT_STARTED), true); /* the next report takes it along */
    send_batched_report(engine, new_step_report(engine, run), atomic_load(&engine->starts.under_way) > 0);
}

void starts_record_run(struct temporal *engine, struct run *run)
{
    if (starts_record_due_us(run) <= temporal_now(engine)) {
        send_batched_report(engine, new_step_report(engine, run), true);
    }
}

int64_t starts_record_due_us(const struct run *run)
{
    INVARIANT(run != NULL);
    bool is_new = run->started && strcmp(run->recorded_run_id, run->run_id) != 0;
    return is_new ? time_add(run->recorded_run_us, RECORD_RUN_INTERVAL_US) : TIME_NEVER;
}

/* The workflow is known. An open run is followed; of a closed one the close event is read. */
static void continue_by_status(struct temporal *engine, struct run *run, int status)
{
    report_started_run(engine, run);
    if (run_status_is_closed(status)) {
        closing_read_event(engine, run);
    } else {
        close_sweep_follow_run(engine, run);
    }
}

/* --- start --- */

static void schedule_resend(struct temporal *engine, struct run *run)
{
    run->state = RUN_WAITING;
    run_set_due(engine, run, run_back_off(engine, run));
}

/* Step 5 of the start. */
static void report_unknown_outcome(struct temporal *engine, struct run *run, const char *code, const char *text)
{
    run->may_run = true;
    schedule_resend(engine, run);
    run_send_report(engine, new_error_report(engine, run, REPORT_UNKNOWN, code, text));
}

/* The service has the workflow: by this start, or by an earlier one with the same request id. */
static void handle_accepted_start(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct start_answer answer;
    if (decode_start(result->response, result->response_length, &answer) != WEIR_OK) {
        report_unknown_outcome(engine, run, "start_unknown", "the answer to the start could not be read");
        return;
    }
    memcpy(run->run_id, answer.run_id, sizeof run->run_id);
    memcpy(run->first_run_id, answer.run_id, sizeof run->first_run_id);
    continue_by_status(engine, run, answer.status);
}

/* Step 6 of the start: the workflow id exists. The request id proves an own start; the description decides the rest. */
static void handle_taken_id(struct temporal *engine, struct run *run, const struct outcome *outcome)
{
    run->may_run = true;
    if (strcmp(outcome->detail.start_request_id, run->id) == 0) {
        text_copy(run->run_id, sizeof run->run_id, outcome->detail.run_id);
        report_started_run(engine, run);
    }
    starts_describe_run(engine, run);
}

/* The namespace has lost the attribute that weir adds by itself: the item goes back, and its next start leaves it out. */
static bool refuse_lost_attribute(struct temporal *engine, struct run *run, const char *text)
{
    if (!run->has_workspace || strstr(text, TEMPORAL_WORKSPACE_ATTRIBUTE) == NULL) {
        return false;
    }
    attributes_drop_workspace(engine);
    return run_make_refusal(run, "search_attribute_lost", false, text);
}

/* The message of the service names the attribute, not the command that adds it. */
static bool explain_missing_attribute(const char *text, char *to, size_t size)
{
    if (strstr(text, "search attribute") == NULL || strstr(text, "no mapping defined") == NULL) {
        return false;
    }
    (void)snprintf(to, size, "%s: add it with `temporal operator search-attribute create --name NAME --type Keyword`",
                   text);
    return true;
}

/* Step 7 of the start. */
static void handle_refused_start(struct temporal *engine, struct run *run, const char *code, const char *text)
{
    char words[WEIR_ERROR_MESSAGE_MAX];
    report_free(run->refusal);
    run->refusal = NULL;
    if (!run->may_run && refuse_lost_attribute(engine, run, text)) {
        run->refusal->delay_us = RETRY_FIRST_US;
        report_refusal(engine, run);
        return;
    }
    bool lacks = explain_missing_attribute(text, words, sizeof words);
    run->refusal = new_permanent_refusal(engine, run, lacks ? "search_attribute_unknown" : code, lacks ? words : text);
    if (run->may_run) {
        starts_describe_run(engine, run);
    } else {
        report_refusal(engine, run);
    }
}

void starts_handle_not_encoded(struct temporal *engine, struct run *run, bool is_refused, const char *text)
{
    INVARIANT(run != NULL && run->state == RUN_WAITING && text != NULL);
    if (is_refused) {
        handle_refused_start(engine, run, "codec_refused", text);
    } else {
        report_unreachable(engine, run, "codec_unreachable", text);
    }
}

/* Throttling lowers the rate, a time-out the window; each other answer of the service raises them. */
static void adapt_start_rate(struct temporal *engine, const struct outcome *outcome)
{
    int64_t now_us = temporal_now(engine);
    if (outcome->kind == OUTCOME_OVERLOAD) {
        start_rate_note_throttled(&engine->starts.limits, now_us);
    } else if (outcome->slow) {
        start_rate_note_timeout(&engine->starts.limits, now_us);
    } else if (outcome->kind != OUTCOME_UNREACHABLE && outcome->kind != OUTCOME_UNKNOWN) {
        start_rate_note_accepted(&engine->starts.limits, now_us);
    }
    publish_window(engine);
}

/* Another service answers at the address, and may have given this answer: the start may have arrived at the expected one.
 */
static bool is_doubtful(const struct temporal *engine, const struct outcome *outcome)
{
    return service_health_other(engine) != NULL &&
           (outcome->kind == OUTCOME_OK || outcome->kind == OUTCOME_TAKEN || outcome->kind == OUTCOME_PERMANENT);
}

static void handle_start_answer(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct outcome outcome;
    FAILPOINT("after_start_answer");
    outcome_classify_start(result, &outcome);
    adapt_start_rate(engine, &outcome);
    if (run == NULL) {
        return;
    }
    run->state = RUN_WAITING;
    run->was_slow = outcome.slow;
    if (is_doubtful(engine, &outcome)) {
        report_unknown_outcome(engine, run, "another_service", service_health_other(engine));
        return;
    }
    switch (outcome.kind) {
    case OUTCOME_OK:
        handle_accepted_start(engine, run, result);
        break;
    case OUTCOME_TAKEN:
        handle_taken_id(engine, run, &outcome);
        break;
    case OUTCOME_PERMANENT:
        handle_refused_start(engine, run, outcome.code, outcome_text(result));
        break;
    case OUTCOME_UNREACHABLE:
        report_unreachable(engine, run, outcome.code, outcome_text(result));
        break;
    case OUTCOME_OVERLOAD:
        /* The code of throttling does not prove that the service refused the start before it executed it. */
        run->may_run = run->may_run || result->outcome == GRPC_STATUS;
        run->backoff_us = 0; /* the rate of all starts decides, not the failures of this one */
        schedule_resend(engine, run);
        break;
    case OUTCOME_UNKNOWN:
        report_unknown_outcome(engine, run, outcome.code, outcome_text(result));
        break;
    }
}

/* Steps 8, 2 and 3 of the start. */
static void send_run_start(struct temporal *engine, struct run *run)
{
    int64_t now_us = temporal_now(engine);
    if (service_health_other(engine) != NULL) {
        report_unreachable(engine, run, "another_service", service_health_other(engine));
        return;
    }
    if (run->may_run && may_be_forgotten(engine, run)) {
        if (engine->retention.is_answered) {
            starts_describe_run(engine, run);
        } else {
            run_set_due(engine, run, run_back_off(engine, run)); /* until the retention is known */
        }
        return;
    }
    if (coding_encode_start(engine, run)) {
        return;
    }
    if (!start_rate_take_token(&engine->starts.limits, now_us)) {
        run_set_due(engine, run, start_rate_next_token(&engine->starts.limits, now_us));
        return;
    }
    FAILPOINT("before_start_call");
    if (call_send(engine, run, &run->call, METHOD_START, run->message, TEMPORAL_START_TIMEOUT_US, handle_start_answer)) {
        run->was_sent_again = run->was_sent_again || run->may_run;
        run->state = RUN_STARTING;
    } else {
        run_set_due(engine, run, run_back_off(engine, run));
    }
}

/* --- description --- */

/* Proofs: an earlier report, the first run, the memo of this run, or a run id of an own start. */
static bool is_own_chain(const struct run *run, const struct describe_answer *answer)
{
    return run->started || run->is_ours || strcmp(answer->memo_execution, run->id) == 0 ||
           (run->run_id[0] != '\0' &&
            (strcmp(run->run_id, answer->run_id) == 0 || strcmp(run->run_id, answer->first_run_id) == 0));
}

static void report_not_described(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    run->may_run = true; /* the reason for the description */
    report_unreachable(engine, run, result->outcome == GRPC_STATUS ? "not_described" : "engine_unreachable",
                       outcome_text(result));
}

/* `holder`: the first run of the chain that has the id. */
static void refuse_taken_id(struct temporal *engine, struct run *run, const struct describe_answer *holder)
{
    char text[WEIR_ERROR_MESSAGE_MAX];
    if (holder->memo_execution[0] != '\0') {
        (void)snprintf(
            text, sizeof text,
            "execution %.40s already uses the workflow id '%.255s', and an id is used once while the namespace remembers "
            "it: enqueue the workflow with params that give another `workflow_id`",
            holder->memo_execution, run->workflow_id);
    } else {
        (void)snprintf(
            text, sizeof text, "a workflow that weir did not start has the workflow id '%.255s' of this execution%s",
            run->workflow_id, run->has_own_id ? ": enqueue the workflow with params that give another `workflow_id`" : "");
    }
    refuse_permanently(engine, run, "workflow_id_taken", text);
}

/* Another program used the workflow id again after the own chain had closed. Only where the definition names the id. */
static bool is_other_chain(const struct run *run, const struct describe_answer *answer)
{
    return run->has_own_id && run->known && run->first_run_id[0] != '\0' && answer->first_run_id[0] != '\0' &&
           strcmp(run->first_run_id, answer->first_run_id) != 0 && strcmp(run->run_id, answer->run_id) != 0 &&
           strcmp(answer->memo_execution, run->id) != 0;
}

/* An answer "not found" alone proves nothing: another service may have given it. `absent_us` has the time of the first one.
 * False: it does not count yet. */
static bool is_absence_proved(struct temporal *engine, int64_t *absent_us)
{
    int64_t now_us = temporal_now(engine);
    if (*absent_us == 0 || *absent_us <= engine->health.other_us) {
        *absent_us = now_us;
        (void)service_health_confirm(engine, now_us);
        return false;
    }
    return service_health_confirm(engine, *absent_us);
}

/* When to ask again about an absence that is not proved: the confirmation may not come for long. */
static int64_t absence_due_us(struct temporal *engine, struct run *run)
{
    int64_t least_us = run->known ? NOT_FOUND_RETRY_US : ABSENCE_RETRY_US;
    return time_later(time_add(temporal_now(engine), least_us), run_back_off(engine, run));
}

/* The newest workflow of the id is of another chain, so the own chain has closed. The history of its last known run has the
 * close event. */
static void read_end_of_own_chain(struct temporal *engine, struct run *run)
{
    int64_t backoff_us = run->backoff_us;
    report_started_run(engine, run);
    run->backoff_us = backoff_us;
    if (run->has_closing) {
        closing_report_confirmed(engine, run);
    } else if (++run->not_found <= 2) {
        closing_read_event(engine, run);
    } else if (is_absence_proved(engine, &run->absent_us)) {
        closing_report_gone(engine, run);
    } else {
        run->state = RUN_CLOSING; /* the event is read again */
        run_set_due(engine, run, absence_due_us(engine, run));
    }
}

/* Another service may have given the answer. */
static void describe_later(struct temporal *engine, struct run *run)
{
    if (run->started) {
        run_set_due(engine, run, run_back_off(engine, run));
    } else {
        run->may_run = true;
        report_unreachable(engine, run, "another_service", service_health_other(engine));
    }
}

/* A workflow that continues as new may give its next run another memo, but the first run has the memo of its start. If the
 * service has forgotten the first run, nothing proves that another program started it: the execution keeps its slot. */
static void handle_first_run(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct describe_answer answer;
    if (run == NULL || run->state == RUN_ENDED) {
        return;
    }
    enum reply_kind reply = outcome_classify_reply(result);
    bool is_read = reply == REPLY_OK && decode_describe(result->response, result->response_length, &answer) == WEIR_OK;
    if (service_health_other(engine) != NULL) {
        describe_later(engine, run);
    } else if (is_read && strcmp(answer.memo_execution, run->id) != 0) {
        refuse_taken_id(engine, run, &answer);
    } else if (reply == REPLY_NOT_FOUND && !is_absence_proved(engine, &run->first_absent_us)) {
        run_set_due(engine, run, absence_due_us(engine, run));
    } else if (is_read || reply == REPLY_NOT_FOUND) {
        run->is_ours = true;
        starts_describe_run(engine, run);
    } else {
        report_not_described(engine, run, result);
    }
}

static void request_first_run(struct temporal *engine, struct run *run, const char *first_run_id)
{
    if (!call_send_and_free(engine, run, &run->call, METHOD_DESCRIBE,
                            encode_describe(engine->namespace_name, run->workflow_id, first_run_id), CALL_TIMEOUT_US,
                            handle_first_run)) {
        run_set_due(engine, run, run_back_off(engine, run));
    }
}

/* The newest run of the workflow id: of another chain, of an unknown origin, or the own run, which may have changed. */
static void handle_described_run(struct temporal *engine, struct run *run, const struct describe_answer *answer)
{
    if (is_other_chain(run, answer)) {
        read_end_of_own_chain(engine, run);
        return;
    }
    run->not_found = 0;
    run->absent_us = 0;
    if (!is_own_chain(run, answer) && answer->first_run_id[0] != '\0' &&
        strcmp(answer->first_run_id, answer->run_id) != 0) {
        request_first_run(engine, run, answer->first_run_id);
        return;
    }
    if (!is_own_chain(run, answer)) {
        refuse_taken_id(engine, run, answer);
        return;
    }
    bool was_reset = strcmp(answer->run_id, run->closed_run_id) != 0;
    if (strcmp(answer->run_id, run->run_id) != 0) {
        long_poll_remove_run(engine, run); /* a late answer of its long poll must not end the new run */
    }
    memcpy(run->run_id, answer->run_id, sizeof run->run_id);
    if (answer->first_run_id[0] != '\0') {
        memcpy(run->first_run_id, answer->first_run_id, sizeof run->first_run_id);
    }
    if (run->has_closing && !was_reset) {
        closing_report_confirmed(engine, run);
        return;
    }
    close_event_close(&run->closing);
    run->has_closing = false;
    continue_by_status(engine, run, answer->status);
    starts_record_run(engine, run);
}

/* The service has no workflow of this id. The cases, in this order: the first answer of this kind, which proves
 * nothing; the confirmation of a termination; a workflow that was deleted or forgotten. Then a refusal of step 7; step
 * 8; a start that never arrived. */
static void handle_unknown_workflow(struct temporal *engine, struct run *run)
{
    run->not_found++;
    if (!is_absence_proved(engine, &run->absent_us)) {
        run_set_due(engine, run, absence_due_us(engine, run));
    } else if (run->has_closing) {
        closing_report_confirmed(engine, run);
    } else if (run->known) {
        closing_report_gone(engine, run);
    } else if (run->refusal != NULL) {
        report_refusal(engine, run);
    } else if (may_be_forgotten(engine, run) && engine->retention.is_answered) {
        refuse_permanently(
            engine, run, "start_forgotten",
            "the start got no answer, and the service may have forgotten the workflow: check there whether it ran, "
            "then retry the execution");
    } else {
        run->not_found = 0;
        run->absent_us = 0;
        schedule_resend(engine, run);
    }
}

static void handle_describe_answer(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct describe_answer answer;
    if (run == NULL || run->state == RUN_ENDED) {
        return;
    }
    enum reply_kind reply = outcome_classify_reply(result);
    if (service_health_other(engine) != NULL) {
        describe_later(engine, run);
    } else if (reply == REPLY_OK && decode_describe(result->response, result->response_length, &answer) == WEIR_OK) {
        handle_described_run(engine, run, &answer);
    } else if (reply == REPLY_NOT_FOUND) {
        handle_unknown_workflow(engine, run);
    } else if (run->started) {
        run_set_due(engine, run, run_back_off(engine, run));
    } else {
        report_not_described(engine, run, result);
    }
}

void starts_describe_run(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL && run->state != RUN_ENDED);
    if (run->state != RUN_FOLLOWED && run->state != RUN_CLOSING) {
        run->state = RUN_DESCRIBING;
    }
    call_detach(run->call, false);
    if (!call_send_and_free(engine, run, &run->call, METHOD_DESCRIBE,
                            encode_describe(engine->namespace_name, run->workflow_id, NULL), CALL_TIMEOUT_US,
                            handle_describe_answer)) {
        run_set_due(engine, run, run_back_off(engine, run));
    }
}

/* --- cancel --- */

static void handle_cancel_answer(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    if (run == NULL || run->state == RUN_ENDED) {
        return;
    }
    enum reply_kind reply = outcome_classify_reply(result);
    if (reply == REPLY_OK) {
        run->cancel_sent = true;
        run->backoff_us = 0;
    } else if (run->state == RUN_FOLLOWED) {
        run_set_due(engine, run, run_back_off(engine, run));
    }
    if (reply == REPLY_NOT_FOUND && run->state == RUN_FOLLOWED) {
        starts_describe_run(engine, run);
    }
}

static void request_cancel(struct temporal *engine, struct run *run)
{
    struct workflow_name workflow = run_workflow_name(run);
    if (run->cancel != NULL) {
        return;
    }
    if (!call_send_and_free(
            engine, run, &run->cancel, METHOD_CANCEL,
            encode_cancel(engine->namespace_name, &workflow, run->id, engine->identity, "asked for in weir"),
            CALL_TIMEOUT_US, handle_cancel_answer)) {
        run_set_due(engine, run, run_back_off(engine, run));
    }
}

void starts_cancel_run(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL);
    run->cancel_wanted = true;
    if (run->state == RUN_WAITING && !run->may_run && !run->known) {
        /* The store has the cancel on record, and ends the execution as cancelled. */
        report_and_remove(engine, run,
                          new_error_report(engine, run, REPORT_REFUSED, "cancelled", "cancelled before it was started"));
    } else if (run->state == RUN_FOLLOWED && !run->cancel_sent) {
        request_cancel(engine, run);
    }
}

/* --- by state --- */

void starts_take_claim(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL && run->call == NULL);
    if (run->refusal != NULL && !run->may_run && !run->known) {
        report_refusal(engine, run);
        return;
    }
    if (run->cancel_wanted && !run->may_run && !run->known) {
        run->state = RUN_WAITING;
        starts_cancel_run(engine, run);
        return;
    }
    /* Step 9 of the start: a run on record is described. When the service does not have it, that is its end. */
    run->state = run->known || run->refusal != NULL ? RUN_DESCRIBING : RUN_WAITING;
    run_set_due(engine, run, temporal_now(engine));
}

void starts_do_due(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL && run->heap_place == 0);
    switch (run->state) {
    case RUN_WAITING:
        send_run_start(engine, run);
        break;
    case RUN_DESCRIBING:
        starts_describe_run(engine, run);
        break;
    case RUN_FOLLOWED:
        if (run->cancel_wanted && !run->cancel_sent) {
            request_cancel(engine, run);
        }
        if (starts_record_due_us(run) <= temporal_now(engine)) {
            starts_record_run(engine, run);
            run_set_due(engine, run, close_sweep_next_describe(engine));
        } else if (run->poll != NULL && run->not_found == 0) {
            run_set_due(engine, run, close_sweep_next_describe(engine)); /* its long poll reports the end */
        } else if (run->not_found > 0 || !close_sweep_defers_describe(engine, run)) {
            starts_describe_run(engine, run);
        }
        break;
    case RUN_CLOSING:
        if (run->has_closing) {
            starts_describe_run(engine, run);
        } else {
            closing_read_event(engine, run);
        }
        break;
    case RUN_STARTING:
    case RUN_ENDED:
        break;
    }
}
