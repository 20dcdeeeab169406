/* Seeing that runs have ended: waiting calls for some, a list of what closed lately for all, and a look at each now and
 * then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/temporal/parts.h"

/* --- waiting calls --- */

static struct polled_workspace **polled_place(struct temporal *engine, const char *name)
{
    uint32_t hash = 2166136261u;
    for (const char *at = name; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    }
    struct polled_workspace **place = &engine->polled[hash % POLLED_BUCKETS];
    while (*place != NULL && strcmp((*place)->name, name) != 0) {
        place = &(*place)->next;
    }
    return place;
}

static void count_poll(struct temporal *engine, const char *name)
{
    struct polled_workspace **place = polled_place(engine, name);
    if (*place == NULL) {
        size_t length = strlen(name) + 1;
        *place = calloc(1, sizeof **place + length);
        if (*place == NULL) {
            return; /* it only decides who is waited for next */
        }
        memcpy((*place)->name, name, length);
    }
    (*place)->polls++;
}

static void uncount_poll(struct temporal *engine, const char *name)
{
    struct polled_workspace **place = polled_place(engine, name);
    struct polled_workspace *found = *place;
    if (found != NULL && --found->polls == 0) {
        *place = found->next;
        free(found);
    }
}

static void queue_poll(struct temporal *engine, struct run *run)
{
    if (run->poll_link == NULL) {
        run->poll_next = NULL;
        run->poll_link = engine->poll_queue_end;
        *run->poll_link = run;
        engine->poll_queue_end = &run->poll_next;
    }
}

static void leave_poll_queue(struct temporal *engine, struct run *run)
{
    *run->poll_link = run->poll_next;
    if (run->poll_next != NULL) {
        run->poll_next->poll_link = run->poll_link;
    } else {
        engine->poll_queue_end = run->poll_link;
    }
    run->poll_next = NULL;
    run->poll_link = NULL;
}

static void stop_polling(struct temporal *engine, const struct run *run)
{
    engine->polls--;
    uncount_poll(engine, run->workspace);
}

static void poll_run(struct temporal *engine, struct run *run, struct bytes token);

static void poll_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct closing closing = {.kind = CLOSING_NONE};
    if (run == NULL) {
        return;
    }
    stop_polling(engine, run);
    enum look_kind look = look_of(result);
    if (look == LOOK_OK && answer_close_event(result->response, result->response_length, &closing) == WEIR_OK) {
        if (closing.kind == CLOSING_NONE) {
            poll_run(engine, run, closing.token);
            closing_close(&closing);
        } else {
            end_take(engine, run, &closing);
        }
        return;
    }
    if (look == LOOK_THROTTLED) {
        engine->polls_now_max = engine->polls / 2 + 1;
        engine->polls_fewer_until_us = time_add(temporal_now(engine), 60 * MICROSECONDS_PER_SECOND);
    } else if (look == LOOK_NOT_FOUND) {
        start_ask(engine, run);
    }
    engine->polls_pause_until_us = time_add(temporal_now(engine), MICROSECONDS_PER_SECOND);
    queue_poll(engine, run);
}

static void poll_run(struct temporal *engine, struct run *run, struct bytes token)
{
    char name[WORKFLOW_ID_MAX];
    (void)snprintf(name, sizeof name, WORKFLOW_ID_PREFIX "%s", run->id);
    if (call_send_own(engine, run, &run->poll, METHOD_HISTORY,
                      message_close_event(engine->namespace_name, name, run->run_id, true, token), POLL_TIMEOUT_US,
                      poll_done)) {
        engine->polls++;
        count_poll(engine, run->workspace);
    } else {
        engine->polls_pause_until_us = time_add(temporal_now(engine), MICROSECONDS_PER_SECOND);
        queue_poll(engine, run);
    }
}

enum { POLL_SEARCH_MAX = 256 };

/* The first of the queue whose workspace has no run that is waited for: a workspace with one slot is the one that loses
 * most by a late end. Half of the places are kept for these; the others go to whoever comes first. NULL: nobody gets one
 * now. */
static struct run *next_to_poll(struct temporal *engine)
{
    struct run *run = engine->poll_queue;
    for (int i = 0; i < POLL_SEARCH_MAX && run != NULL; i++, run = run->poll_next) {
        if (*polled_place(engine, run->workspace) == NULL) {
            return run;
        }
    }
    return engine->polls < (engine->polls_now_max + 1) / 2 ? engine->poll_queue : NULL;
}

static int64_t fill_polls(struct temporal *engine, int64_t now_us)
{
    if (engine->polls_now_max < engine->polls_max && now_us >= engine->polls_fewer_until_us) {
        engine->polls_now_max = engine->polls_max;
    }
    if (now_us < engine->polls_pause_until_us) {
        return engine->poll_queue == NULL ? TIME_NEVER : engine->polls_pause_until_us;
    }
    while (engine->poll_queue != NULL && engine->polls < engine->polls_now_max && engine->polls_pause_until_us <= now_us) {
        struct run *run = next_to_poll(engine);
        if (run == NULL) {
            break;
        }
        leave_poll_queue(engine, run);
        poll_run(engine, run, (struct bytes){NULL, 0});
    }
    return TIME_NEVER;
}

/* --- each run --- */

/* Looks are a safety net: where the service throttles, they leave its calls to starts and ends. */
static int64_t next_look(struct temporal *engine)
{
    double rate = engine->pace.rate;
    double per_second = rate > 0 && rate < LOOKS_PER_SECOND * LOOKS_SHARE ? rate / LOOKS_SHARE : LOOKS_PER_SECOND;
    int64_t all_us = (int64_t)((double)atomic_load(&engine->followed) / per_second * (double)MICROSECONDS_PER_SECOND);
    int64_t interval_us = all_us > LOOK_INTERVAL_US ? all_us : LOOK_INTERVAL_US;
    int64_t jitter_us = (int64_t)random_below(&engine->random, (uint64_t)interval_us / 4 + 1);
    return time_add(temporal_now(engine), interval_us - jitter_us);
}

void follow_begin(struct temporal *engine, struct run *run)
{
    run->state = RUN_FOLLOWED;
    bool cancels = run->cancel_wanted && !run->cancel_asked && run->cancel == NULL;
    run_due(engine, run, cancels ? temporal_now(engine) : next_look(engine));
    if (run->poll == NULL) {
        queue_poll(engine, run);
    }
}

void follow_end(struct temporal *engine, struct run *run)
{
    if (run->poll != NULL) {
        stop_polling(engine, run);
        call_forget(run->poll, true);
    }
    if (run->poll_link != NULL) {
        leave_poll_queue(engine, run);
    }
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

/* Waiting calls from before the outage may wait on a connection that nobody hears of any more. */
static void wait_anew(struct temporal *engine)
{
    for (size_t i = 0; i < engine->bucket_count; i++) {
        for (struct run *run = engine->buckets[i]; run != NULL; run = run->next) {
            if (run->poll != NULL) {
                stop_polling(engine, run);
                call_forget(run->poll, true);
                queue_poll(engine, run);
            }
        }
    }
}

void follow_hurry(struct temporal *engine)
{
    int64_t now_us = temporal_now(engine);
    wait_anew(engine);
    engine->polls_pause_until_us = now_us;
    if (!engine->sweep.is_under_way && engine->sweep.next_us > now_us) {
        engine->sweep.next_us = now_us;
    }
}

int64_t follow_step(struct temporal *engine, int64_t now_us)
{
    if (atomic_load(&engine->admitted) == 0) {
        return TIME_NEVER;
    }
    int64_t next_us = fill_polls(engine, now_us);
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
    for (size_t i = 0; i < POLLED_BUCKETS; i++) {
        while (engine->polled[i] != NULL) {
            struct polled_workspace *next = engine->polled[i]->next;
            free(engine->polled[i]);
            engine->polled[i] = next;
        }
    }
}
