/* Seeing that runs have ended: a list of what closed lately, and a look at each now and then. Waiting calls are in
 * long_polls.c.
 *
 * A list is made each second while something is followed for longer. It also shows that the service is there. The list is
 * impaired when it fails three times in a row while the service is there (rights, a rate limit, the visibility store), or
 * when an end that was seen by other means does not appear in it. Then that is said until it is over, all places of waiting
 * calls are used, and the other runs are looked at so often that their ends are found within 5 s. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

/* --- each run --- */

/* Where the service throttles, looks leave its calls to starts and ends. */
static double looks_per_second(const struct temporal *engine)
{
    double limit = engine->pace.rate;
    double rest = FOLLOW_CALLS_PER_SECOND - 1.0 - POLLS_PER_SECOND * (double)engine->polls;
    double rate = engine->sweep.is_impaired       ? LOOKS_PER_SECOND_ALONE
                  : rest > LOOKS_PER_SECOND       ? LOOKS_PER_SECOND
                  : rest > LOOKS_PER_SECOND_LEAST ? rest
                                                  : LOOKS_PER_SECOND_LEAST;
    return limit > 0 && limit / LOOKS_SHARE < rate ? limit / LOOKS_SHARE : rate;
}

int64_t follow_next_look(struct temporal *engine)
{
    int64_t least_us = engine->sweep.is_impaired ? LOOK_ALONE_INTERVAL_US : LOOK_INTERVAL_US;
    double all_seconds = (double)engine->unpolled / looks_per_second(engine);
    int64_t all_us = (int64_t)(all_seconds * (double)MICROSECONDS_PER_SECOND);
    int64_t interval_us = all_us > least_us ? all_us : least_us;
    int64_t jitter_us = (int64_t)random_below(&engine->random, (uint64_t)interval_us / 4 + 1);
    return time_add(temporal_now(engine), interval_us - jitter_us);
}

/* The list does not see ends any more: those that no call waits for are looked at soon. */
static void look_sooner(struct temporal *engine)
{
    for (size_t i = 0; i < engine->bucket_count; i++) {
        for (struct run *run = engine->buckets[i]; run != NULL; run = run->next) {
            int64_t next_us = run->state == RUN_FOLLOWED ? follow_next_look(engine) : TIME_NEVER;
            if (run->call == NULL && next_us < run->due_us) {
                run->has_look_turn = false;
                run_due(engine, run, next_us);
            }
        }
    }
}

/* Of what has a waiting call and ends within a second no list is made. This is the first that is followed since there was
 * none. */
static void be_calm(struct temporal *engine)
{
    struct sweep *sweep = &engine->sweep;
    if (engine->polls + engine->unpolled == 0) {
        int64_t now_us = temporal_now(engine);
        bool is_calm = sweep->is_anchored && now_us < time_add(sweep->last_us, SWEEP_AT_LEAST_US);
        sweep->calm_until_us = is_calm ? time_add(now_us, SWEEP_INTERVAL_US) : now_us;
    }
}

void follow_begin(struct temporal *engine, struct run *run)
{
    run->state = RUN_FOLLOWED;
    run->has_look_turn = false;
    bool cancels = run->cancel_wanted && !run->cancel_asked && run->cancel == NULL;
    int64_t look_us = follow_next_look(engine);
    int64_t record_us = start_record_due(run);
    run_due(engine, run, cancels ? temporal_now(engine) : record_us < look_us ? record_us : look_us);
    be_calm(engine);
    waits_add(engine, run);
}

void follow_end(struct temporal *engine, struct run *run)
{
    waits_remove(engine, run);
}

/* The times of looks are drawn, so many may fall together: those take turns. A turn's length leaves room for what the
 * drawing takes off an interval. */
bool follow_waits_for_turn(struct temporal *engine, struct run *run)
{
    int64_t now_us = temporal_now(engine);
    int64_t turn_us = (int64_t)((double)MICROSECONDS_PER_SECOND / (looks_per_second(engine) * LOOKS_ROOM));
    bool waits = !run->has_look_turn && engine->look_turn_us > now_us;
    if (waits) {
        run_due(engine, run, engine->look_turn_us);
    }
    if (!run->has_look_turn) {
        engine->look_turn_us = time_add(waits ? engine->look_turn_us : now_us, turn_us);
    }
    run->has_look_turn = waits;
    return waits;
}

/* --- the list of what closed lately --- */

static void end_sweep(struct temporal *engine, int64_t next_us)
{
    struct sweep *sweep = &engine->sweep;
    free(sweep->token.data);
    sweep->token = (struct bytes){NULL, 0};
    sweep->is_under_way = false;
    sweep->next_us = next_us;
    sweep->last_us = temporal_now(engine);
}

static void say_impaired(struct temporal *engine, const char *text)
{
    struct report *report = report_new(text != NULL ? REPORT_ENGINE_IMPAIRED : REPORT_ENGINE_SOUND, "", 0);
    if (report == NULL) {
        return; /* IMPAIRED is said again */
    }
    if (text != NULL) {
        char words[ERROR_TEXT_MAX];
        (void)snprintf(words, sizeof words, "the list of closed workflows: %.400s", text);
        text_copy(report->error_code, sizeof report->error_code, "ends_not_listed");
        report->error = strdup(words);
    }
    engine_report(&engine->base, report);
}

static void list_is_impaired(struct temporal *engine, const char *text)
{
    bool is_new = !engine->sweep.is_impaired;
    engine->sweep.is_impaired = true;
    say_impaired(engine, text);
    if (is_new) {
        look_sooner(engine);
    }
}

/* That the whole service is away is told by others (service_health.c). One that is not answered in time has taken long
 * already. */
static void list_failed(struct temporal *engine, const struct grpc_result *result, const char *text)
{
    bool was_slow =
        result->outcome == GRPC_STATUS ? result->code == GRPC_DEADLINE_EXCEEDED : result->cause == GRPC_CAUSE_DEADLINE;
    struct sweep *sweep = &engine->sweep;
    bool is_away = engine->reach.failures >= REACH_FAILURES_MAX;
    end_sweep(engine, time_add(temporal_now(engine), SWEEP_RETRY_US));
    sweep->failures = is_away ? 0 : sweep->failures < SWEEP_FAILURES_MAX ? sweep->failures + 1 + was_slow : sweep->failures;
    if (sweep->failures >= SWEEP_FAILURES_MAX) {
        list_is_impaired(engine, text);
    }
}

void follow_saw_close(struct temporal *engine, int64_t close_us)
{
    struct sweep *sweep = &engine->sweep;
    if (close_us > sweep->latest_us && (sweep->missing_us == 0 || sweep->is_impaired)) {
        sweep->missing_us = close_us;
        sweep->missing_at_us = temporal_now(engine);
    }
}

/* A list has come whole. */
static void judge_list(struct temporal *engine, int64_t now_us)
{
    struct sweep *sweep = &engine->sweep;
    bool is_missing = sweep->missing_us > time_add(sweep->latest_us, SWEEP_LAG_TOLERANCE_US);
    int64_t missing_for_us = now_us - sweep->missing_at_us;
    sweep->failures = 0;
    if (is_missing && missing_for_us >= SWEEP_LAG_US && missing_for_us < SWEEP_LAG_FORGOTTEN_US) {
        list_is_impaired(engine, "it lags: an end that was seen otherwise does not appear in it");
    } else if (!is_missing || missing_for_us >= SWEEP_LAG_FORGOTTEN_US) {
        sweep->missing_us = 0;
        if (sweep->is_impaired) {
            sweep->is_impaired = false;
            say_impaired(engine, NULL);
        }
    }
}

static void look_at_row(void *context, const struct list_row *row)
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
        start_ask(engine, run); /* a later run of its chain, or somebody else's under the same id */
        return;
    }
    text_copy(run->run_id, sizeof run->run_id, row->run_id);
    end_read(engine, run);
}

static void list_page(struct temporal *engine);

static void list_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct sweep *sweep = &engine->sweep;
    struct list_answer answer = {.rows = 0};
    (void)run;
    int64_t now_us = temporal_now(engine);
    bool is_ok = look_of(result) == LOOK_OK;
    if (!is_ok || answer_list(result->response, result->response_length, look_at_row, engine, &answer) != WEIR_OK) {
        list_failed(engine, result, is_ok ? "its answer could not be read" : outcome_text(result));
        return;
    }
    sweep->latest_us = answer.latest_close_us > sweep->latest_us ? answer.latest_close_us : sweep->latest_us;
    free(sweep->token.data);
    sweep->token = answer.token;
    if (!sweep->is_anchored) {
        sweep->is_anchored = true;
        end_sweep(engine, now_us);
        judge_list(engine, now_us);
    } else if (answer.token.length > 0 && answer.rows > 0 && ++sweep->pages < SWEEP_PAGES_MAX) {
        list_page(engine);
    } else {
        end_sweep(engine, time_add(now_us, SWEEP_INTERVAL_US));
        judge_list(engine, now_us);
    }
}

/* Times are the server's own: no clock of a node takes part. The first list only learns what the latest close time is; from
 * then on each looks back a little further than the list may lag behind. */
static void list_page(struct temporal *engine)
{
    struct sweep *sweep = &engine->sweep;
    char query[QUERY_BYTES_MAX];
    char since[TIME_TEXT_MAX];
    time_format(sweep->since_us, since);
    int length = snprintf(query, sizeof query, "%sExecutionStatus != 'Running' AND ExecutionStatus != 'ContinuedAsNew'",
                          sweep->has_own_ids ? "" : "WorkflowId STARTS_WITH '" WORKFLOW_ID_PREFIX "' AND ");
    if (sweep->is_anchored && sweep->since_us > 0) {
        (void)snprintf(query + length, sizeof query - (size_t)length, " AND CloseTime >= '%s'", since);
    }
    sweep->is_under_way = true;
    if (!call_send_own(engine, NULL, NULL, METHOD_LIST,
                       message_list(engine->namespace_name, query, sweep->is_anchored ? LIST_PAGE_SIZE : 1, sweep->token),
                       CALL_TIMEOUT_US, list_done)) {
        end_sweep(engine, time_add(temporal_now(engine), SWEEP_RETRY_US));
    }
}

static void begin_sweep(struct temporal *engine)
{
    struct sweep *sweep = &engine->sweep;
    bool is_wide = sweep->count++ % SWEEP_WIDE_EVERY == 0;
    int64_t overlap_us = is_wide ? SWEEP_WIDE_OVERLAP_US : SWEEP_OVERLAP_US;
    sweep->has_own_ids = engine->named > 0;
    sweep->pages = 0;
    sweep->since_us = sweep->latest_us > overlap_us ? sweep->latest_us - overlap_us : 0;
    list_page(engine);
}

/* --- the namespace --- */

static void namespace_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct namespace_answer answer;
    (void)run;
    engine->namespace_is_asked = false;
    bool is_known = look_of(result) == LOOK_OK &&
                    answer_describe_namespace(result->response, result->response_length, &answer) == WEIR_OK;
    if (is_known && answer.retention_us > 0) {
        engine->retention_us = answer.retention_us;
    }
    if (result->outcome == GRPC_STATUS && look_of(result) != LOOK_THROTTLED) {
        engine->retention_is_asked = true;
    }
    engine->namespace_due_us = time_add(temporal_now(engine), is_known ? NAMESPACE_INTERVAL_US : NAMESPACE_RETRY_US);
}

static void ask_namespace(struct temporal *engine, int64_t now_us)
{
    if (atomic_load(&engine->attributes.was_asked)) { /* else target.c asks for them */
        attributes_ask(engine);
    }
    engine->namespace_is_asked =
        call_send_own(engine, NULL, NULL, METHOD_DESCRIBE_NAMESPACE, message_describe_namespace(engine->namespace_name),
                      CALL_TIMEOUT_US, namespace_done);
    if (!engine->namespace_is_asked) {
        engine->namespace_due_us = time_add(now_us, NAMESPACE_RETRY_US);
    }
}

/* --- the loop's part --- */

void follow_hurry(struct temporal *engine)
{
    int64_t now_us = temporal_now(engine);
    waits_begin_anew(engine);
    if (!engine->sweep.is_under_way && engine->sweep.next_us > now_us) {
        engine->sweep.next_us = now_us;
    }
}

/* TIME_NEVER while nothing is followed; but a list that failed is asked until it answers. */
static int64_t next_sweep(const struct temporal *engine)
{
    const struct sweep *sweep = &engine->sweep;
    bool insists = sweep->failures > 0 || sweep->is_impaired;
    if (sweep->is_under_way || (atomic_load(&engine->followed) == 0 && !insists)) {
        return TIME_NEVER;
    }
    bool is_calm = engine->unpolled == 0 && !insists && sweep->calm_until_us > sweep->next_us;
    return is_calm ? sweep->calm_until_us : sweep->next_us;
}

int64_t follow_step(struct temporal *engine, int64_t now_us)
{
    int64_t next_us = TIME_NEVER;
    if (atomic_load(&engine->admitted) > 0) {
        next_us = waits_step(engine, now_us);
        if (!engine->namespace_is_asked && now_us >= engine->namespace_due_us) {
            ask_namespace(engine, now_us);
        }
        if (!engine->namespace_is_asked && engine->namespace_due_us < next_us) {
            next_us = engine->namespace_due_us;
        }
    }
    if (now_us >= next_sweep(engine)) {
        begin_sweep(engine);
    }
    int64_t sweep_us = next_sweep(engine);
    return sweep_us < next_us ? sweep_us : next_us;
}

void follow_close(struct temporal *engine)
{
    free(engine->sweep.token.data);
}
