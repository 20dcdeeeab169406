/* Starting, and asking what became of a start. The order of every function: what is certain is said; what is not is asked
 * again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "engine/temporal/temporal_internal.h"

/* The service may have forgotten a run that was started and has ended: sending the start again could begin a second one. */
static bool is_too_old(const struct temporal *engine, const struct run *run)
{
    int64_t window_us = engine->retention_us - engine->retention_us / RETENTION_MARGIN_PART;
    return temporal_now(engine) - run->first_us >= window_us;
}

static void export_window(struct temporal *engine)
{
    atomic_store(&engine->window, pace_window(&engine->pace));
}

/* --- what is said --- */

/* NULL when out of memory: the node was told (run_report()). */
static struct report *report_with_error(struct temporal *engine, const struct run *run, enum report_kind kind,
                                        const char *code, const char *text)
{
    struct report *report = run_report(engine, run, kind);
    if (report != NULL) {
        text_copy(report->error_code, sizeof report->error_code, code);
        report->error = strdup(text);
    }
    return report;
}

static struct report *refusal_for_good(struct temporal *engine, const struct run *run, const char *code, const char *text)
{
    struct report *report = report_with_error(engine, run, REPORT_REFUSED, code, text);
    if (report != NULL) {
        report->permanent = true;
        report->spends_attempt = true;
    }
    return report;
}

/* The run is forgotten; it needs no end by its own engine any more. */
static void say_last(struct temporal *engine, struct run *run, struct report *report)
{
    run_remove(engine, run);
    run_say(engine, report);
}

static void refuse_for_good(struct temporal *engine, struct run *run, const char *code, const char *text)
{
    say_last(engine, run, refusal_for_good(engine, run, code, text));
}

static void say_refusal(struct temporal *engine, struct run *run)
{
    struct report *report = run->refusal;
    run->refusal = NULL;
    say_last(engine, run, report);
}

/* Nothing came of this call and it is not this execution's fault. What may be running is kept and tried again. */
static void say_unreachable(struct temporal *engine, struct run *run, const char *code, const char *text)
{
    struct report *report = report_with_error(engine, run, REPORT_UNREACHABLE, code, text);
    bool may_run = run->may_run || run->known;
    if (report != NULL) {
        report->may_run = may_run;
    }
    if (may_run) {
        run_due(engine, run, run_back_off(engine, run));
    } else {
        run_remove(engine, run);
    }
    run_say(engine, report);
}

static struct report *step_report(struct temporal *engine, struct run *run)
{
    struct report *report = run_report(engine, run, REPORT_STEP);
    if (report == NULL) {
        return NULL;
    }
    report->has_step = true;
    text_copy(report->step.step, sizeof report->step.step, TEMPORAL_STEP);
    report->step.state = STEP_RUNNING;
    report->step.attempt = 1;
    report->step.variables = run_facts(engine, run);
    memcpy(run->told_run_id, run->run_id, sizeof run->told_run_id);
    run->told_run_us = temporal_now(engine);
    return report;
}

/* Nothing depends on the record of a start: what is not on record is sent again, the same bytes. So it waits for those of
 * other starts, as long as there are any. */
static void say_patiently(struct temporal *engine, struct report *report, bool may_wait)
{
    if (report != NULL) {
        report->may_wait = may_wait;
    }
    run_say(engine, report);
}

/* Reports once that the run has started, and remembers which run it is. */
static void start_report(struct temporal *engine, struct run *run)
{
    run->known = true;
    run->backoff_us = 0;
    report_free(run->refusal);
    run->refusal = NULL;
    run_start_is_over(engine, run);
    if (run->started) {
        return;
    }
    run->started = true;
    atomic_fetch_add(&engine->followed, 1);
    say_patiently(engine, run_report(engine, run, REPORT_STARTED), true); /* the step takes it along */
    say_patiently(engine, step_report(engine, run), atomic_load(&engine->starting) > 0);
}

void start_report_run(struct temporal *engine, struct run *run)
{
    if (start_record_due(run) <= temporal_now(engine)) {
        say_patiently(engine, step_report(engine, run), true);
    }
}

int64_t start_record_due(const struct run *run)
{
    bool is_new = run->started && strcmp(run->told_run_id, run->run_id) != 0;
    return is_new ? time_add(run->told_run_us, TELL_RUN_EVERY_US) : TIME_NEVER;
}

/* It runs or has run, and `status` says which. */
static void go_on_with(struct temporal *engine, struct run *run, int status)
{
    start_report(engine, run);
    if (run_status_is_closed(status)) {
        end_read(engine, run);
    } else {
        follow_begin(engine, run);
    }
}

/* --- start --- */

static void wait_and_send_again(struct temporal *engine, struct run *run)
{
    run->state = RUN_WAITS;
    run_due(engine, run, run_back_off(engine, run));
}

static void unknown_outcome(struct temporal *engine, struct run *run, const char *code, const char *text)
{
    run->may_run = true;
    wait_and_send_again(engine, run);
    run_say(engine, report_with_error(engine, run, REPORT_UNKNOWN, code, text));
}

static void started(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct start_answer answer;
    if (answer_start(result->response, result->response_length, &answer) != WEIR_OK) {
        unknown_outcome(engine, run, "start_unknown", "the answer to the start could not be read");
        return;
    }
    memcpy(run->run_id, answer.run_id, sizeof run->run_id);
    memcpy(run->first_run_id, answer.run_id, sizeof run->first_run_id);
    go_on_with(engine, run, answer.status);
}

/* The workflow id exists. Ours when it began with our request id, or when the memo of its first run says so. */
static void taken(struct temporal *engine, struct run *run, const struct outcome *outcome)
{
    run->may_run = true;
    if (strcmp(outcome->detail.start_request_id, run->id) == 0) {
        text_copy(run->run_id, sizeof run->run_id, outcome->detail.run_id);
        start_report(engine, run);
    }
    start_ask(engine, run);
}

/* The namespace lost the attribute that weir adds by itself: not the execution's fault. It comes again without it. */
static bool lost_workspace_attribute(struct temporal *engine, struct run *run, const char *text)
{
    if (!run->has_workspace || strstr(text, TEMPORAL_WORKSPACE_ATTRIBUTE) == NULL) {
        return false;
    }
    attributes_drop_workspace(engine);
    return run_refuse(run, "search_attribute_lost", false, text);
}

/* The service's words name the attribute, not the way to add it. */
static bool lacks_attribute(const char *text, char *to, size_t size)
{
    if (strstr(text, "search attribute") == NULL || strstr(text, "no mapping defined") == NULL) {
        return false;
    }
    (void)snprintf(to, size, "%s: `temporal operator search-attribute create --name NAME --type Keyword` adds one", text);
    return true;
}

static void refused(struct temporal *engine, struct run *run, const char *code, const char *text)
{
    char words[WEIR_ERROR_MESSAGE_MAX];
    report_free(run->refusal);
    run->refusal = NULL;
    if (!run->may_run && lost_workspace_attribute(engine, run, text)) {
        run->refusal->delay_us = RETRY_FIRST_US;
        say_refusal(engine, run);
        return;
    }
    bool lacks = lacks_attribute(text, words, sizeof words);
    run->refusal = refusal_for_good(engine, run, lacks ? "search_attribute_unknown" : code, lacks ? words : text);
    if (run->may_run) {
        start_ask(engine, run);
    } else {
        say_refusal(engine, run);
    }
}

void start_not_encoded(struct temporal *engine, struct run *run, bool is_refused, const char *text)
{
    if (is_refused) {
        refused(engine, run, "codec_refused", text);
    } else {
        say_unreachable(engine, run, "codec_unreachable", text);
    }
}

static void note_pace(struct temporal *engine, const struct outcome *outcome)
{
    int64_t now_us = temporal_now(engine);
    if (outcome->kind == OUTCOME_OVERLOAD) {
        pace_throttled(&engine->pace, now_us);
    } else if (outcome->slow) {
        pace_timed_out(&engine->pace, now_us);
    } else if (outcome->kind != OUTCOME_UNREACHABLE && outcome->kind != OUTCOME_UNKNOWN) {
        pace_accepted(&engine->pace, now_us);
    }
    export_window(engine);
}

static void start_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct outcome outcome;
    FAILPOINT("after_start_answer");
    outcome_of_start(result, &outcome);
    note_pace(engine, &outcome);
    if (run == NULL) {
        return;
    }
    run->state = RUN_WAITS;
    run->was_slow = outcome.slow;
    switch (outcome.kind) {
    case OUTCOME_OK:
        started(engine, run, result);
        break;
    case OUTCOME_TAKEN:
        taken(engine, run, &outcome);
        break;
    case OUTCOME_PERMANENT:
        refused(engine, run, outcome.code, outcome_text(result));
        break;
    case OUTCOME_UNREACHABLE:
        say_unreachable(engine, run, outcome.code, outcome_text(result));
        break;
    case OUTCOME_OVERLOAD:
        /* The code of throttling alone does not prove that it was said before the start was looked at. */
        run->may_run = run->may_run || result->outcome == GRPC_STATUS;
        run->backoff_us = 0; /* the pace of all starts says when, not this one's bad luck */
        wait_and_send_again(engine, run);
        break;
    case OUTCOME_UNKNOWN:
        unknown_outcome(engine, run, outcome.code, outcome_text(result));
        break;
    }
}

static void send_start(struct temporal *engine, struct run *run)
{
    int64_t now_us = temporal_now(engine);
    if (run->may_run && is_too_old(engine, run)) {
        if (engine->retention_is_asked) {
            start_ask(engine, run);
        } else {
            run_due(engine, run, run_back_off(engine, run)); /* what is too old is known in a moment */
        }
        return;
    }
    if (coding_encodes(engine, run)) {
        return;
    }
    if (!pace_take(&engine->pace, now_us)) {
        run_due(engine, run, pace_next(&engine->pace, now_us));
        return;
    }
    FAILPOINT("before_start_call");
    if (call_send(engine, run, &run->call, METHOD_START, run->message, TEMPORAL_START_TIMEOUT_US, start_done)) {
        run->was_sent_again = run->was_sent_again || run->may_run;
        run->state = RUN_STARTING;
    } else {
        run_due(engine, run, run_back_off(engine, run));
    }
}

/* --- asking --- */

static bool is_ours(const struct run *run, const struct describe_answer *answer)
{
    return run->started || run->is_ours || strcmp(answer->memo_execution, run->id) == 0 ||
           (run->run_id[0] != '\0' &&
            (strcmp(run->run_id, answer->run_id) == 0 || strcmp(run->run_id, answer->first_run_id) == 0));
}

static void not_described(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    run->may_run = true; /* it was asked because that is possible */
    say_unreachable(engine, run, result->outcome == GRPC_STATUS ? "not_described" : "engine_unreachable",
                    outcome_text(result));
}

/* `holder`: of the first run of the chain that has the id. */
static void refuse_taken(struct temporal *engine, struct run *run, const struct describe_answer *holder)
{
    char text[WEIR_ERROR_MESSAGE_MAX];
    if (holder->memo_execution[0] != '\0') {
        (void)snprintf(
            text, sizeof text,
            "the workflow id '%.255s' is that of execution %.40s: an id is used once while the namespace remembers "
            "it; enqueue it with params that give another `workflow_id`",
            run->workflow_id, holder->memo_execution);
    } else {
        (void)snprintf(text, sizeof text, "a workflow that weir did not start has this execution's workflow id '%.255s'%s",
                       run->workflow_id, run->has_own_id ? ": enqueue it with params that give another `workflow_id`" : "");
    }
    refuse_for_good(engine, run, "workflow_id_taken", text);
}

/* Somebody used the workflow id again, after our chain had closed. Only where the definition names the id. */
static bool is_other_chain(const struct run *run, const struct describe_answer *answer)
{
    return run->has_own_id && run->known && run->first_run_id[0] != '\0' && answer->first_run_id[0] != '\0' &&
           strcmp(run->first_run_id, answer->first_run_id) != 0 && strcmp(run->run_id, answer->run_id) != 0 &&
           strcmp(answer->memo_execution, run->id) != 0;
}

/* The newest workflow of the id is not ours, so ours has closed: how is in the history of its last run that we know. */
static void read_own_end(struct temporal *engine, struct run *run)
{
    start_report(engine, run);
    if (run->has_closing) {
        end_confirmed(engine, run);
    } else if (++run->not_found > 2) {
        end_gone(engine, run);
    } else {
        end_read(engine, run);
    }
}

/* A workflow that continues as new may give its next run a memo of its own, but the first run has the one of its start. A
 * first run that the service has forgotten proves nothing against weir: then the execution keeps its slot. */
static void first_run_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct describe_answer answer;
    if (run == NULL || run->state == RUN_ENDED) {
        return;
    }
    enum look_kind look = look_of(result);
    bool is_read = look == LOOK_OK && answer_describe(result->response, result->response_length, &answer) == WEIR_OK;
    if (is_read && strcmp(answer.memo_execution, run->id) != 0) {
        refuse_taken(engine, run, &answer);
    } else if (is_read || look == LOOK_NOT_FOUND) {
        run->is_ours = true;
        start_ask(engine, run);
    } else {
        not_described(engine, run, result);
    }
}

static void ask_first_run(struct temporal *engine, struct run *run, const char *first_run_id)
{
    if (!call_send_own(engine, run, &run->call, METHOD_DESCRIBE,
                       message_describe(engine->namespace_name, run->workflow_id, first_run_id), CALL_TIMEOUT_US,
                       first_run_done)) {
        run_due(engine, run, run_back_off(engine, run));
    }
}

static void found(struct temporal *engine, struct run *run, const struct describe_answer *answer)
{
    if (is_other_chain(run, answer)) {
        read_own_end(engine, run);
        return;
    }
    run->not_found = 0;
    if (!is_ours(run, answer) && answer->first_run_id[0] != '\0' && strcmp(answer->first_run_id, answer->run_id) != 0) {
        ask_first_run(engine, run, answer->first_run_id);
        return;
    }
    if (!is_ours(run, answer)) {
        refuse_taken(engine, run, answer);
        return;
    }
    bool was_reset = strcmp(answer->run_id, run->closed_run_id) != 0;
    if (strcmp(answer->run_id, run->run_id) != 0) {
        follow_end(engine, run); /* who waits for the run before must not take its end for that of this one */
    }
    memcpy(run->run_id, answer->run_id, sizeof run->run_id);
    if (answer->first_run_id[0] != '\0') {
        memcpy(run->first_run_id, answer->first_run_id, sizeof run->first_run_id);
    }
    if (run->has_closing && !was_reset) {
        end_confirmed(engine, run);
        return;
    }
    closing_close(&run->closing);
    run->has_closing = false;
    go_on_with(engine, run, answer->status);
    start_report_run(engine, run);
}

static void not_found(struct temporal *engine, struct run *run)
{
    if (run->is_asked && !run->started) {
        say_last(engine, run, run_report(engine, run, REPORT_ABSENT));
    } else if (run->has_closing) {
        end_confirmed(engine, run);
    } else if (run->known) {
        if (++run->not_found < 2) {
            run_due(engine, run, time_add(temporal_now(engine), GONE_AGAIN_US));
        } else {
            end_gone(engine, run);
        }
    } else if (run->refusal != NULL) {
        say_refusal(engine, run);
    } else if (is_too_old(engine, run) && engine->retention_is_asked) {
        refuse_for_good(engine, run, "start_forgotten",
                        "whether it was started is not known, and the service may have forgotten it: look for it there, "
                        "then retry it");
    } else {
        wait_and_send_again(engine, run);
    }
}

static void describe_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct describe_answer answer;
    if (run == NULL || run->state == RUN_ENDED) {
        return;
    }
    enum look_kind look = look_of(result);
    if (look == LOOK_OK && answer_describe(result->response, result->response_length, &answer) == WEIR_OK) {
        found(engine, run, &answer);
    } else if (look == LOOK_NOT_FOUND) {
        not_found(engine, run);
    } else if (run->started) {
        run_due(engine, run, run_back_off(engine, run));
    } else {
        not_described(engine, run, result);
    }
}

void start_ask(struct temporal *engine, struct run *run)
{
    if (run->state != RUN_FOLLOWED && run->state != RUN_CLOSING) {
        run->state = RUN_ASKING;
    }
    call_forget(run->call, false);
    if (!call_send_own(engine, run, &run->call, METHOD_DESCRIBE,
                       message_describe(engine->namespace_name, run->workflow_id, NULL), CALL_TIMEOUT_US, describe_done)) {
        run_due(engine, run, run_back_off(engine, run));
    }
}

/* --- cancel --- */

static void cancel_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    if (run == NULL || run->state == RUN_ENDED) {
        return;
    }
    enum look_kind look = look_of(result);
    if (look == LOOK_OK) {
        run->cancel_asked = true;
        run->backoff_us = 0;
    } else if (run->state == RUN_FOLLOWED) {
        run_due(engine, run, run_back_off(engine, run));
    }
    if (look == LOOK_NOT_FOUND && run->state == RUN_FOLLOWED) {
        start_ask(engine, run);
    }
}

static void ask_for_cancel(struct temporal *engine, struct run *run)
{
    struct workflow_name workflow = run_workflow(run);
    if (run->cancel != NULL) {
        return;
    }
    if (!call_send_own(engine, run, &run->cancel, METHOD_CANCEL,
                       message_cancel(engine->namespace_name, &workflow, run->id, engine->identity, "asked for in weir"),
                       CALL_TIMEOUT_US, cancel_done)) {
        run_due(engine, run, run_back_off(engine, run));
    }
}

void start_cancel(struct temporal *engine, struct run *run)
{
    run->cancel_wanted = true;
    if (run->state == RUN_WAITS && !run->may_run && !run->known) {
        /* The store knows of the cancel and ends it so. */
        say_last(engine, run,
                 report_with_error(engine, run, REPORT_REFUSED, "cancelled", "cancelled before it was started"));
    } else if (run->state == RUN_FOLLOWED && !run->cancel_asked) {
        ask_for_cancel(engine, run);
    }
}

/* --- by state --- */

void start_take(struct temporal *engine, struct run *run)
{
    if (run->refusal != NULL && !run->may_run && !run->known) {
        say_refusal(engine, run);
        return;
    }
    if (run->cancel_wanted && !run->may_run && !run->known) {
        run->state = RUN_WAITS;
        start_cancel(engine, run);
        return;
    }
    /* What was on record as running is never sent again: it is asked for, and when it is gone, that is its end. */
    run->state = run->known || run->refusal != NULL || run->is_asked ? RUN_ASKING : RUN_WAITS;
    run_due(engine, run, temporal_now(engine));
}

void start_due(struct temporal *engine, struct run *run)
{
    switch (run->state) {
    case RUN_WAITS:
        send_start(engine, run);
        break;
    case RUN_ASKING:
        start_ask(engine, run);
        break;
    case RUN_FOLLOWED:
        if (run->cancel_wanted && !run->cancel_asked) {
            ask_for_cancel(engine, run);
        }
        if (start_record_due(run) <= temporal_now(engine)) {
            start_report_run(engine, run);
            run_due(engine, run, follow_next_look(engine));
        } else if (run->poll != NULL && run->not_found == 0) {
            run_due(engine, run, follow_next_look(engine)); /* its waiting call tells */
        } else if (run->not_found > 0 || !follow_waits_for_turn(engine, run)) {
            start_ask(engine, run);
        }
        break;
    case RUN_CLOSING:
        if (run->has_closing) {
            start_ask(engine, run);
        } else {
            end_read(engine, run);
        }
        break;
    case RUN_STARTING:
    case RUN_ENDED:
        break;
    }
}
