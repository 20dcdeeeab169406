/* Seeing that runs have ended: a list of what closed lately for all, and a look at each now and then. Waiting calls, for
 * some, are in waits.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/temporal/parts.h"

/* --- each run --- */

/* Looks are a safety net: where the service throttles, they leave its calls to starts and ends. */
static double looks_per_second(const struct temporal *engine)
{
    double rate = engine->pace.rate;
    return rate > 0 && rate < LOOKS_PER_SECOND * LOOKS_SHARE ? rate / LOOKS_SHARE : LOOKS_PER_SECOND;
}

static int64_t next_look(struct temporal *engine)
{
    double all_seconds = (double)atomic_load(&engine->followed) / looks_per_second(engine);
    int64_t all_us = (int64_t)(all_seconds * (double)MICROSECONDS_PER_SECOND);
    int64_t interval_us = all_us > LOOK_INTERVAL_US ? all_us : LOOK_INTERVAL_US;
    int64_t jitter_us = (int64_t)random_below(&engine->random, (uint64_t)interval_us / 4 + 1);
    return time_add(temporal_now(engine), interval_us - jitter_us);
}

void follow_begin(struct temporal *engine, struct run *run)
{
    run->state = RUN_FOLLOWED;
    run->has_look_turn = false;
    bool cancels = run->cancel_wanted && !run->cancel_asked && run->cancel == NULL;
    run_due(engine, run, cancels ? temporal_now(engine) : next_look(engine));
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
    free(engine->sweep.token.data);
    engine->sweep.token = (struct bytes){NULL, 0};
    engine->sweep.is_under_way = false;
    engine->sweep.next_us = next_us;
}

static void look_at_row(void *context, const struct list_row *row)
{
    struct temporal *engine = context;
    static const size_t prefix = sizeof WORKFLOW_ID_PREFIX - 1;
    if (!engine->sweep.is_anchored || strncmp(row->workflow_id, WORKFLOW_ID_PREFIX, prefix) != 0 ||
        !run_status_is_closed(row->status) || row->status == RUN_STATUS_CONTINUED_AS_NEW) {
        return;
    }
    struct run *run = run_find(engine, row->workflow_id + prefix);
    /* The earlier runs of a chain come again in every list that reaches back to them. */
    if (run != NULL && run->state == RUN_FOLLOWED && row->close_us > run->closed_us &&
        strcmp(row->run_id, run->closed_run_id) != 0) {
        text_copy(run->run_id, sizeof run->run_id, row->run_id);
        end_read(engine, run);
    }
}

static void list_page(struct temporal *engine);

static void list_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct sweep *sweep = &engine->sweep;
    struct list_answer answer = {.rows = 0};
    (void)run;
    int64_t now_us = temporal_now(engine);
    if (look_of(result) != LOOK_OK ||
        answer_list(result->response, result->response_length, look_at_row, engine, &answer) != WEIR_OK) {
        end_sweep(engine, time_add(now_us, SWEEP_RETRY_US));
        return;
    }
    sweep->latest_us = answer.latest_close_us > sweep->latest_us ? answer.latest_close_us : sweep->latest_us;
    free(sweep->token.data);
    sweep->token = answer.token;
    if (!sweep->is_anchored) {
        sweep->is_anchored = true;
        end_sweep(engine, now_us);
    } else if (answer.token.length > 0 && answer.rows > 0 && ++sweep->pages < SWEEP_PAGES_MAX) {
        list_page(engine);
    } else {
        end_sweep(engine, time_add(now_us, SWEEP_INTERVAL_US));
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
    int length = snprintf(query, sizeof query,
                          "WorkflowId STARTS_WITH '" WORKFLOW_ID_PREFIX
                          "' AND ExecutionStatus != 'Running' AND ExecutionStatus != 'ContinuedAsNew'");
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

int64_t follow_step(struct temporal *engine, int64_t now_us)
{
    if (atomic_load(&engine->admitted) == 0) {
        return TIME_NEVER;
    }
    int64_t next_us = waits_step(engine, now_us);
    if (!engine->namespace_is_asked && now_us >= engine->namespace_due_us) {
        ask_namespace(engine, now_us);
    }
    if (!engine->namespace_is_asked && engine->namespace_due_us < next_us) {
        next_us = engine->namespace_due_us;
    }
    if (atomic_load(&engine->followed) == 0) {
        return next_us;
    }
    if (!engine->sweep.is_under_way && now_us >= engine->sweep.next_us) {
        begin_sweep(engine);
    }
    if (!engine->sweep.is_under_way && engine->sweep.next_us < next_us) {
        next_us = engine->sweep.next_us;
    }
    return next_us;
}

void follow_close(struct temporal *engine)
{
    free(engine->sweep.token.data);
}
