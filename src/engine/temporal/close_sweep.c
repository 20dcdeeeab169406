/* The list of workflows that closed lately, and the description of each followed run now and then.
 *
 * While something is followed, a list is requested each second:
 *
 * 1. The first list reads only the latest close time that the service has. All times are the server's own, so no clock of a
 *    node takes part.
 * 2. Each later list covers the workflows that closed since the latest close time less an overlap. The list of a busy
 *    server lags, and its rows come out of order. Every 15th list reaches back further.
 * 3. A row of a followed run causes closing.c to read the close event. A row proves nothing by itself: the chain may go on.
 * 4. The list is judged. It is impaired when it fails three times in a row while the service is up: by rights, a rate
 *    limit, the visibility store. It is impaired, too, when an end that was found by other means does not appear in it.
 *
 * While the list is impaired the node gets REPORT_ENGINE_IMPAIRED and all places for long polls are used. The runs are
 * described so often that their ends are found within 5 s. Otherwise descriptions are rare: they only cover a workflow
 * that the list does not show, as one that was deleted.
 *
 * This file must never end an execution by a row of the list alone, nor request more calls than the rates in its header.
 *
 * It runs in the engine's loop. */
#include "engine/temporal/close_sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

/* --- each run --- */

/* While the service throttles, descriptions leave its calls to starts and ends. */
static double describes_per_second(const struct temporal *engine)
{
    double limit = engine->starts.limits.rate;
    double polls = POLLS_PER_SECOND * (double)engine->long_polls.count;
    double rest = (FOLLOW_CALLS_PER_SECOND - 1.0 - polls) / DESCRIBES_MARGIN;
    double rate = engine->sweep.is_impaired         ? DESCRIBES_PER_SECOND_ALONE
                  : rest > DESCRIBES_PER_SECOND     ? DESCRIBES_PER_SECOND
                  : rest > DESCRIBES_PER_SECOND_MIN ? rest
                                                    : DESCRIBES_PER_SECOND_MIN;
    return limit > 0 && limit / DESCRIBES_SHARE < rate ? limit / DESCRIBES_SHARE : rate;
}

int64_t close_sweep_next_describe(struct temporal *engine)
{
    int64_t least_us = engine->sweep.is_impaired ? DESCRIBE_ALONE_INTERVAL_US : DESCRIBE_INTERVAL_US;
    double all_seconds = (double)engine->long_polls.unpolled / describes_per_second(engine);
    int64_t all_us = (int64_t)(all_seconds * (double)MICROSECONDS_PER_SECOND);
    int64_t interval_us = all_us > least_us ? all_us : least_us;
    int64_t jitter_us = (int64_t)random_below(&engine->random, (uint64_t)interval_us / 4 + 1);
    return time_add(temporal_now(engine), interval_us - jitter_us);
}

/* The list shows no ends any more: runs without a long poll are described soon. */
static void bring_describes_forward(struct temporal *engine)
{
    for (size_t i = 0; i < engine->runs.bucket_count; i++) {
        for (struct run *run = engine->runs.buckets[i]; run != NULL; run = run->next) {
            int64_t next_us = run->state == RUN_FOLLOWED ? close_sweep_next_describe(engine) : TIME_NEVER;
            if (run->call == NULL && next_us < run->due_us) {
                run->has_describe_turn = false;
                run_set_due(engine, run, next_us);
            }
        }
    }
}

/* No list is requested for a run that has a long poll and ends within a second. Called for the first followed run after a
 * time without any. */
static void delay_first_sweep(struct temporal *engine)
{
    struct close_sweep *sweep = &engine->sweep;
    if (engine->long_polls.count + engine->long_polls.unpolled == 0) {
        int64_t now_us = temporal_now(engine);
        bool is_calm = sweep->is_anchored && now_us < time_add(sweep->last_us, SWEEP_INTERVAL_MAX_US);
        sweep->calm_until_us = is_calm ? time_add(now_us, SWEEP_INTERVAL_US) : now_us;
    }
}

void close_sweep_follow_run(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL && run->state != RUN_ENDED);
    run->state = RUN_FOLLOWED;
    run->has_describe_turn = false;
    bool cancels = run->cancel_wanted && !run->cancel_sent && run->cancel == NULL;
    int64_t describe_us = close_sweep_next_describe(engine);
    int64_t record_us = starts_record_due_us(run);
    run_set_due(engine, run, cancels ? temporal_now(engine) : record_us < describe_us ? record_us : describe_us);
    delay_first_sweep(engine);
    long_poll_add_run(engine, run);
}

/* The times of descriptions have jitter, so many may fall together: then each gets a turn. The turns are shorter than the
 * rate demands, because the jitter shortens intervals. */
bool close_sweep_defers_describe(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL && run->state == RUN_FOLLOWED);
    int64_t now_us = temporal_now(engine);
    int64_t turn_us = (int64_t)((double)MICROSECONDS_PER_SECOND / (describes_per_second(engine) * DESCRIBES_MARGIN));
    bool waits = !run->has_describe_turn && engine->sweep.describe_turn_us > now_us;
    if (waits) {
        run_set_due(engine, run, engine->sweep.describe_turn_us);
    }
    if (!run->has_describe_turn) {
        engine->sweep.describe_turn_us = time_add(waits ? engine->sweep.describe_turn_us : now_us, turn_us);
    }
    run->has_describe_turn = waits;
    return waits;
}

/* --- the list of what closed lately --- */

/* The list under way is over; the next one comes at `next_us`. */
static void finish_sweep(struct temporal *engine, int64_t next_us)
{
    struct close_sweep *sweep = &engine->sweep;
    free(sweep->token.data);
    sweep->token = (struct bytes){NULL, 0};
    sweep->is_under_way = false;
    sweep->next_us = next_us;
    sweep->last_us = temporal_now(engine);
}

/* `text`: the reason; NULL: the list is sound again. */
static void report_impairment(struct temporal *engine, const char *text)
{
    struct report *report = report_new(text != NULL ? REPORT_ENGINE_IMPAIRED : REPORT_ENGINE_SOUND, "", 0);
    if (report == NULL) {
        return; /* IMPAIRED is reported again */
    }
    if (text != NULL) {
        char message[ERROR_TEXT_MAX];
        (void)snprintf(message, sizeof message, "the list of closed workflows is impaired: %.400s", text);
        text_copy(report->error_code, sizeof report->error_code, "ends_not_listed");
        report->error = strdup(message);
    }
    engine_report(&engine->base, report);
}

static void mark_impaired(struct temporal *engine, const char *text)
{
    bool is_new = !engine->sweep.is_impaired;
    engine->sweep.is_impaired = true;
    report_impairment(engine, text);
    if (is_new) {
        bring_describes_forward(engine);
    }
}

/* A list that fails while the service is down proves nothing of the list: service_health.c reports the outage. A time-out
 * counts twice, because it has taken long already. */
static void handle_list_failure(struct temporal *engine, const struct grpc_result *result, const char *text)
{
    bool was_slow =
        result->outcome == GRPC_STATUS ? result->code == GRPC_DEADLINE_EXCEEDED : result->cause == GRPC_CAUSE_DEADLINE;
    struct close_sweep *sweep = &engine->sweep;
    bool is_down = engine->health.failures >= HEALTH_FAILURES_MAX;
    finish_sweep(engine, time_add(temporal_now(engine), SWEEP_RETRY_US));
    sweep->failures = is_down ? 0 : sweep->failures < SWEEP_FAILURES_MAX ? sweep->failures + 1 + was_slow : sweep->failures;
    if (sweep->failures >= SWEEP_FAILURES_MAX) {
        mark_impaired(engine, text);
    }
}

void close_sweep_note_close(struct temporal *engine, int64_t close_us)
{
    struct close_sweep *sweep = &engine->sweep;
    if (close_us > sweep->latest_us && (sweep->missing_us == 0 || sweep->is_impaired)) {
        sweep->missing_us = close_us;
        sweep->missing_at_us = temporal_now(engine);
    }
}

/* Step 4, after the last page of a list. */
static void judge_complete_list(struct temporal *engine, int64_t now_us)
{
    struct close_sweep *sweep = &engine->sweep;
    bool is_missing = sweep->missing_us > time_add(sweep->latest_us, SWEEP_LAG_TOLERANCE_US);
    int64_t missing_for_us = now_us - sweep->missing_at_us;
    sweep->failures = 0;
    if (is_missing && missing_for_us >= SWEEP_LAG_US && missing_for_us < SWEEP_LAG_FORGOTTEN_US) {
        mark_impaired(engine, "it lags: an end that was found by other means does not appear in it");
    } else if (!is_missing || missing_for_us >= SWEEP_LAG_FORGOTTEN_US) {
        sweep->missing_us = 0;
        if (sweep->is_impaired) {
            sweep->is_impaired = false;
            if (!engine->health.is_unconfirmed) {
                report_impairment(engine, NULL);
            }
        }
    }
}

/* Step 3. */
static void inspect_row(void *context, const struct list_row *row)
{
    struct temporal *engine = context;
    if (!engine->sweep.is_anchored || !run_status_is_closed(row->status) || row->status == RUN_STATUS_CONTINUED_AS_NEW) {
        return;
    }
    struct run *run = run_find_followed(engine, row->workflow_id);
    /* The earlier runs of a chain come again in every list that reaches back to them. */
    if (run == NULL || row->close_us <= run->closed_us || strcmp(row->run_id, run->closed_run_id) == 0) {
        return;
    }
    if (run->has_own_id && strcmp(row->run_id, run->run_id) != 0) {
        starts_describe_run(engine, run); /* a later run of its chain, or the run of another program with the same id */
        return;
    }
    text_copy(run->run_id, sizeof run->run_id, row->run_id);
    closing_read_event(engine, run);
}

static void request_page(struct temporal *engine);

static void handle_page(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct close_sweep *sweep = &engine->sweep;
    struct list_answer answer = {.rows = 0};
    (void)run;
    int64_t now_us = temporal_now(engine);
    bool is_ok = outcome_classify_reply(result) == REPLY_OK && service_health_other(engine) == NULL;
    if (!is_ok || decode_list(result->response, result->response_length, inspect_row, engine, &answer) != WEIR_OK) {
        handle_list_failure(engine, result, is_ok ? "the answer of the service cannot be read" : outcome_text(result));
        return;
    }
    sweep->latest_us = answer.latest_close_us > sweep->latest_us ? answer.latest_close_us : sweep->latest_us;
    free(sweep->token.data);
    sweep->token = answer.token;
    if (!sweep->is_anchored) {
        sweep->is_anchored = true;
        finish_sweep(engine, now_us);
        judge_complete_list(engine, now_us);
    } else if (answer.token.length > 0 && answer.rows > 0 && ++sweep->pages < SWEEP_PAGES_MAX) {
        request_page(engine);
    } else {
        finish_sweep(engine, time_add(now_us, SWEEP_INTERVAL_US));
        judge_complete_list(engine, now_us);
    }
}

/* Steps 1 and 2. */
static void request_page(struct temporal *engine)
{
    INVARIANT(engine->sweep.pages < SWEEP_PAGES_MAX);
    struct close_sweep *sweep = &engine->sweep;
    char query[QUERY_BYTES_MAX];
    char since[TIME_TEXT_MAX];
    time_format(sweep->since_us, since);
    int length = snprintf(query, sizeof query, "%sExecutionStatus != 'Running' AND ExecutionStatus != 'ContinuedAsNew'",
                          sweep->has_own_ids ? "" : "WorkflowId STARTS_WITH '" WORKFLOW_ID_PREFIX "' AND ");
    if (sweep->is_anchored && sweep->since_us > 0) {
        (void)snprintf(query + length, sizeof query - (size_t)length, " AND CloseTime >= '%s'", since);
    }
    sweep->is_under_way = true;
    if (!call_send_and_free(
            engine, NULL, NULL, METHOD_LIST,
            encode_list(engine->namespace_name, query, sweep->is_anchored ? LIST_PAGE_SIZE : 1, sweep->token),
            CALL_TIMEOUT_US, handle_page)) {
        finish_sweep(engine, time_add(temporal_now(engine), SWEEP_RETRY_US));
    }
}

/* Every SWEEP_WIDE_EVERY lists one reaches back further, for rows that came very late. */
static void begin_sweep(struct temporal *engine)
{
    INVARIANT(!engine->sweep.is_under_way);
    struct close_sweep *sweep = &engine->sweep;
    bool is_wide = sweep->count++ % SWEEP_WIDE_EVERY == 0;
    int64_t overlap_us = is_wide ? SWEEP_WIDE_OVERLAP_US : SWEEP_OVERLAP_US;
    sweep->has_own_ids = engine->runs.named_count > 0;
    sweep->pages = 0;
    sweep->since_us = sweep->latest_us > overlap_us ? sweep->latest_us - overlap_us : 0;
    request_page(engine);
}

/* --- steps of the loop --- */

void close_sweep_resume(struct temporal *engine)
{
    int64_t now_us = temporal_now(engine);
    long_poll_restart_all(engine);
    if (!engine->sweep.is_under_way && engine->sweep.next_us > now_us) {
        engine->sweep.next_us = now_us;
    }
}

/* TIME_NEVER while nothing is followed. A list that failed is repeated until it is answered. */
static int64_t next_sweep_us(const struct temporal *engine)
{
    const struct close_sweep *sweep = &engine->sweep;
    bool must_repeat = sweep->failures > 0 || sweep->is_impaired;
    if (sweep->is_under_way || (atomic_load(&engine->followed) == 0 && !must_repeat)) {
        return TIME_NEVER;
    }
    bool is_calm = engine->long_polls.unpolled == 0 && !must_repeat && sweep->calm_until_us > sweep->next_us;
    return is_calm ? sweep->calm_until_us : sweep->next_us;
}

int64_t close_sweep_step(struct temporal *engine, int64_t now_us)
{
    INVARIANT(engine != NULL && now_us >= 0);
    if (service_health_other(engine) != NULL) {
        return TIME_NEVER; /* its times are not those of the expected service */
    }
    if (now_us >= next_sweep_us(engine)) {
        begin_sweep(engine);
    }
    return next_sweep_us(engine);
}

void close_sweep_close(struct temporal *engine)
{
    free(engine->sweep.token.data);
}
