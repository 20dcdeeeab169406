/* The duty of schedules: due times become firings, and firings become executions.
 *
 * The loop sleeps until the next due time, and looks after news, since a schedule may have changed or an execution that a
 * firing waits for may have ended. Beside that it looks every SCHEDULE_LOOK_US while there is a schedule with a next time,
 * because the clock of the store may be set, and while firings wait. So a fleet without schedules asks nothing.
 *
 * The clock of the store decides. A clock that is set back fires no time twice: due times only move on, and each key
 * contains its due time. After a clock was set forward, times become due early. Two nodes may do the duty at once, while
 * the scheduler changes. They advance a schedule once, and enqueue equal keys.
 */
#include "dispatch/schedule_duty.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "calendar/recurrence.h"
#include "dispatch/wake_up.h"

#define SCHEDULE_ROUND_US (1 * MICROSECONDS_PER_SECOND) /* at least, between two looks after news */
#define SCHEDULE_LOOK_US (60 * MICROSECONDS_PER_SECOND)
/* Times of cron that one look computes, of all schedules, so that a long outage does not hold up the other duties. */
enum { TIMES_MOST = 100000 };

enum {
    SCHEDULES_ARENA_BYTES = 128 * 1024 * 1024, /* the firings of one look, each with its params twice */
    REFUSALS_REPORTED_MOST = 100,              /* of one look, each with its workspace */
    CANCEL_FAILURES_MOST = 2                   /* of one look, each as long as the store waits for a lock */
};
_Static_assert((int)SCHEDULE_KEY_MAX <= (int)IDEMPOTENCY_KEY_MAX, "the key of a firing is an idempotency key");
_Static_assert(SCHEDULE_BACKLOG_MOST == 10000, "the refusal names this number");

static void report(struct node *node, enum event_type type, const char *schedule, int64_t count)
{
    struct event event = {.type = type, .reason = schedule, .count = count, .node = node->name};
    if (count > 0) {
        event_emit(node->events, &event);
    }
}

/* --- steps 1 and 2 --- */

/* The results for one schedule in a look. */
struct advance_plan {
    struct schedule_advance advance;
    struct weir_error error; /* that the advance may point to */
    int64_t fires_us;        /* the time that fires, of policies that fire one */
};

/* The time behind the times from at_us on that lie before `before_us`. Even steps are counted by division, so only times of
 * cron take from the budget. */
static int64_t pass_times(const struct recurrence *recurrence, int64_t at_us, int64_t before_us, int64_t *budget,
                          int64_t *ret_passed)
{
    at_us = recurrence_pass(recurrence, at_us, before_us, recurrence->is_cron ? *budget : INT64_MAX, ret_passed);
    *budget -= recurrence->is_cron ? *ret_passed : 0;
    return at_us;
}

/* The newest time until now fires, and those before it are passed. Returns the due time behind it. */
static int64_t choose_newest(const struct recurrence *recurrence, int64_t at_us, int64_t now_us, int64_t *budget,
                             struct advance_plan *plan)
{
    int64_t count = 0;
    if (!recurrence->is_cron) {
        int64_t next_us = pass_times(recurrence, at_us, now_us + 1, budget, &count);
        plan->fires_us = at_us + (count - 1) * recurrence->every_us;
        at_us = next_us;
    }
    while (recurrence->is_cron && at_us <= now_us && *budget > 0) {
        plan->fires_us = at_us;
        at_us = recurrence_next(recurrence, at_us);
        count++;
        --*budget;
    }
    bool is_newest = at_us > now_us; /* else the next look goes on */
    plan->advance.passed = is_newest ? count - 1 : count;
    plan->advance.fires_us = &plan->fires_us;
    plan->advance.fire_count = is_newest ? 1 : 0;
    return at_us;
}

/* All times until now fire, as many as one advance may have. `times` has room for them. Returns the due time behind them.
 */
static int64_t choose_all(const struct recurrence *recurrence, int64_t at_us, int64_t now_us, int64_t *times,
                          int64_t *budget, struct schedule_advance *advance)
{
    while (at_us <= now_us && *budget > 0 && advance->fire_count != SCHEDULE_FIRINGS_MOST) {
        times[advance->fire_count++] = at_us;
        at_us = recurrence_next(recurrence, at_us);
        --*budget;
    }
    advance->fires_us = times;
    return at_us;
}

/* Times before the window of catch-up are dropped. The due time itself need not be a time: after a resumption it is the
 * time of that act. Without the file of its zone a schedule is tried again later. `times`: room for those that fire; NULL:
 * of several ones the newest fires. */
static void plan_advance(const struct due_schedule *due, int64_t now_us, int64_t *times, int64_t *budget,
                         struct advance_plan *plan)
{
    struct recurrence recurrence = {.zone = NULL};
    struct schedule_advance *advance = &plan->advance;
    *advance = (struct schedule_advance){
        .id = due->id, .due_us = due->due_us, .continues_us = due->expands_us, .next_us = due->due_us};
    if (due->expands_us != TIME_NEVER) {
        return;
    }
    enum weir_status status = recurrence_open(&due->when, &recurrence, &plan->error);
    if (status != WEIR_OK) {
        advance->error_code = weir_status_name(status);
        advance->error = plan->error.message;
        advance->retry_us = time_add(now_us, SCHEDULE_LOOK_US); /* its time is then fired late, or dropped */
        return;
    }
    int64_t at_us = recurrence_next(&recurrence, due->due_us - 1);
    at_us = pass_times(&recurrence, at_us, now_us - due->catch_up_us, budget, &advance->dropped);
    if (at_us <= now_us && at_us >= now_us - due->catch_up_us) {
        at_us = times != NULL ? choose_all(&recurrence, at_us, now_us, times, budget, advance)
                              : choose_newest(&recurrence, at_us, now_us, budget, plan);
    }
    advance->next_us = at_us;
    recurrence_close(&recurrence);
}

static void report_advances(struct node *node, const struct due_schedules *due, const struct advance_plan *plans)
{
    for (size_t i = 0; i < due->count; i++) {
        const struct schedule_advance *advance = &plans[i].advance;
        if (!advance->is_done) {
            continue;
        }
        report(node, EVENT_SCHEDULE_SKIPPED, due->schedules[i].name, advance->counts.skipped);
        report(node, EVENT_SCHEDULE_DROPPED, due->schedules[i].name, advance->dropped);
        if (advance->error_code != NULL) {
            struct event event = {.type = EVENT_SCHEDULE_REFUSED,
                                  .reason = due->schedules[i].name,
                                  .code = advance->error_code,
                                  .error = advance->error,
                                  .count = 1};
            event_emit(node->events, &event);
        }
    }
}

/* A transaction of its own for each schedule, because one may have very many workspaces. One that fails is noted, and left
 * out for a while, so that the others go on. The look fails when not even that can be noted. */
static enum weir_status advance_schedule(struct node *node, struct advance_plan *plan, int64_t now_us,
                                         struct weir_error *error)
{
    struct store *store = node->stores[LOOP_MAINTENANCE];
    struct schedule_advance *advance = &plan->advance;
    struct schedule_advance wanted = *advance;
    struct weir_error detail = {.status = WEIR_OK};
    enum weir_status status = store_advance_schedule(store, advance, &detail);
    if (status == WEIR_OK || wanted.error_code != NULL) {
        *error = status == WEIR_OK ? *error : detail;
        return status;
    }
    plan->error = detail;
    *advance = (struct schedule_advance){.id = wanted.id,
                                         .due_us = wanted.due_us,
                                         .continues_us = wanted.continues_us,
                                         .next_us = wanted.due_us,
                                         .retry_us = time_add(now_us, SCHEDULE_LOOK_US),
                                         .error_code = weir_status_name(status),
                                         .error = plan->error.message};
    return store_advance_schedule(store, advance, error);
}

/* Records what is due. */
static enum weir_status advance_schedules(struct node *node, const struct due_schedules *due, struct arena *arena,
                                          struct weir_error *error)
{
    int64_t budget = TIMES_MOST;
    struct advance_plan *plans = calloc(due->count, sizeof *plans);
    enum weir_status status = plans == NULL ? error_out_of_memory(error) : WEIR_OK;
    for (size_t i = 0; i < due->count && status == WEIR_OK; i++) {
        bool fires_all = due->schedules[i].overlap == OVERLAP_QUEUE_ALL;
        int64_t *times = fires_all ? arena_allocate(arena, SCHEDULE_FIRINGS_MOST * sizeof *times) : NULL;
        if (fires_all && times == NULL) {
            status = error_out_of_memory(error);
            break;
        }
        plan_advance(&due->schedules[i], due->now_us, times, &budget, &plans[i]);
        status = advance_schedule(node, &plans[i], due->now_us, error);
    }
    if (status == WEIR_OK) {
        FAILPOINT("after_schedule_advance");
        report_advances(node, due, plans);
    }
    free(plans);
    return status;
}

/* --- steps 3 to 5 --- */

/* A set while it is enqueued: the arrays have an element for each firing. */
struct firing_set {
    struct enqueue_request *requests;
    struct enqueue_result *results;
    struct schedule_outcome *outcomes;
    bool *has_outcome; /* else the firing stays as it is */
    char (*keys)[SCHEDULE_KEY_MAX];
};

static void firing_set_close(struct firing_set *set)
{
    free(set->requests);
    free(set->results);
    free(set->outcomes);
    free(set->has_outcome);
    free(set->keys);
}

/* The params of the schedule with the time and the name; in the arena, NULL: out of memory. They are put into the text, so
 * that its numbers stay as they were written. The names of the two members, and their values, need no escape. A text of
 * another hand that is no object goes on as it is, and the enqueue refuses it. */
static const char *firing_params(const struct schedule_firing *firing, struct arena *arena)
{
    static const char blank[] = " \t\r\n";
    char time[TIME_TEXT_MAX];
    const char *end = strrchr(firing->params, '}');
    if (end == NULL) {
        return firing->params;
    }
    time_format(firing->due_us, time);
    const char *first = firing->params + strspn(firing->params, blank);
    bool is_empty = first < end && first + 1 + strspn(first + 1, blank) == end;
    size_t size = strlen(firing->params) + TIME_TEXT_MAX + SCHEDULE_NAME_MAX + 64;
    char *text = arena_allocate(arena, size);
    if (text != NULL) {
        (void)snprintf(text, size, "%.*s%s\"" SCHEDULE_TIME_MEMBER "\":\"%s\",\"" SCHEDULE_NAME_MEMBER "\":\"%s\"}",
                       (int)(end - firing->params), firing->params, is_empty ? "" : ",", time, firing->schedule);
    }
    return text;
}

/* The same at a repetition, and another one for each workspace, so that not all begin at once. */
static int64_t jitter_of(const struct schedule_firing *firing)
{
    uint64_t hash = text_hash(firing->workspace) ^ (uint64_t)firing->due_us * UINT64_C(0x9e3779b97f4a7c15);
    return firing->jitter_us <= 0 ? 0 : (int64_t)((hash >> 16) % (uint64_t)(firing->jitter_us + 1));
}

/* Its enqueue would be refused. The state of the workflow is known beside a cancel alone; else the enqueue finds it. */
static bool is_refused_here(const struct schedule_firing *firing)
{
    return firing->workspace == NULL || firing->is_backlogged || firing->workflow_state != WORKFLOW_PUBLISHED;
}

/* A firing that would be refused cancels nothing. */
static bool waits_for_cancel(const struct schedule_firing *firing)
{
    return firing->cancels_id[0] != '\0' && !is_refused_here(firing);
}

static bool firing_is_requested(const struct schedule_firing *firing)
{
    return !is_refused_here(firing) && !firing->is_late && !waits_for_cancel(firing);
}

/* The place behind the firing whose cancel failed last. */
static size_t first_cancel(const struct maintenance *m, const struct schedule_firings *firings)
{
    for (size_t i = 0; i < firings->count; i++) {
        if (strcmp(firings->firings[i].cancels_id, m->failed_cancel) == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* An execution that has ended meanwhile, or that another program holds, is no failure of the look: its firing waits, and
 * the next look asks again. Each that has to be waited for takes a while, so a look ends at the second one, and the next
 * one begins behind it. Returns whether a cancel was requested. */
static bool request_cancels(struct node *node, const struct schedule_firings *firings)
{
    struct store *store = node->stores[LOOP_MAINTENANCE];
    struct maintenance *m = &node->maintenance;
    enum weir_status status = WEIR_OK;
    size_t first = m->failed_cancel[0] == '\0' ? 0 : first_cancel(m, firings);
    size_t failures = 0;
    bool is_requested = false;
    for (size_t k = 0; k < firings->count && failures < CANCEL_FAILURES_MOST; k++) {
        const struct schedule_firing *firing = &firings->firings[(first + k) % firings->count];
        if (waits_for_cancel(firing)) {
            char actor[ACTOR_MAX + 1];
            struct bulk_result result = {0};
            struct weir_error error = {.status = WEIR_OK};
            struct execution_filter filter = {.id = firing->cancels_id};
            (void)snprintf(actor, sizeof actor, SCHEDULE_KEY_PREFIX "%s", firing->schedule);
            status = store_act_as(store, actor, "overlap policy cancel_running", &error); /* on record, for the owner */
            status = status == WEIR_OK ? store_bulk(store, BULK_CANCEL, &filter, "", 1, &result, &error) : status;
            is_requested = is_requested || status == WEIR_OK;
            if (status != WEIR_OK && status != WEIR_NOT_FOUND) {
                failures++;
                text_copy(m->failed_cancel, sizeof m->failed_cancel, firing->cancels_id);
            }
        }
    }
    /* the other calls of the handle are those of the node again */
    status = store_act_for(store, node->stores[LOOP_DISPATCH], NULL, NULL);
    INVARIANT(status == WEIR_OK); /* texts that were checked before */
    return is_requested;
}

/* The time of an execution is its due time, so waits and the order of starts count from there. */
static enum weir_status fill_firing_requests(struct firing_set *set, const struct schedule_firings *firings,
                                             struct arena *arena, size_t *ret_count, struct weir_error *error)
{
    size_t count = 0;
    for (size_t i = 0; i < firings->count; i++) {
        const struct schedule_firing *firing = &firings->firings[i];
        if (!firing_is_requested(firing)) {
            continue;
        }
        const char *params = firing_params(firing, arena);
        if (params == NULL) {
            return error_out_of_memory(error);
        }
        schedule_key(firing->schedule, firing->due_us, set->keys[count]);
        set->requests[count] = (struct enqueue_request){.workspace = firing->workspace,
                                                        .workflow = firing->workflow,
                                                        .params = params,
                                                        .params_length = strlen(params),
                                                        .idempotency_key = set->keys[count],
                                                        .has_reserved_key = true,
                                                        .id = firing->planned_id,
                                                        .firing = firing,
                                                        .run_at_us = firing->due_us + jitter_of(firing)};
        count++;
    }
    *ret_count = count;
    return WEIR_OK;
}

/* It was removed between its read and its enqueue, or another node has settled it. So there is nothing to settle here, and
 * nothing to report. A firing of the same time may have been inserted anew. result: NULL = no request was made. */
static bool is_firing_gone(const struct enqueue_result *result)
{
    return result != NULL && result->status == WEIR_ILLEGAL_STATE;
}

/* result: NULL = no request was made. */
static struct schedule_outcome outcome_of(const struct schedule_firing *firing, const struct enqueue_result *result)
{
    struct schedule_outcome outcome = {
        .schedule_id = firing->schedule_id, .workspace_id = firing->workspace_id, .due_us = firing->due_us};
    if (firing->workspace == NULL && firing->is_of_plan) {
        return outcome; /* no loss: a plan is that of the living workspaces */
    }
    if (firing->is_late) {
        outcome.is_dropped = true;
    } else if (firing->workspace == NULL) {
        outcome.error_code = weir_status_name(WEIR_WORKSPACE_NOT_FOUND);
        outcome.error = "a workspace to start in was deleted; set the schedule again";
    } else if (firing->workflow_state == WORKFLOW_DISABLED) {
        outcome.error_code = weir_status_name(WEIR_WORKFLOW_DISABLED);
        outcome.error = "the workflow is disabled: it takes no new executions";
    } else if (firing->workflow_state != WORKFLOW_PUBLISHED) {
        outcome.error_code = weir_status_name(WEIR_WORKFLOW_NOT_FOUND);
        outcome.error = "there is no such workflow in the workspace to start in";
    } else if (result == NULL) {
        outcome.error_code = weir_status_name(WEIR_QUEUE_FULL);
        outcome.error = "the workspace to start in has as many pending executions as it may have, or 10000";
    } else if (result->status != WEIR_OK) {
        outcome.error_code = weir_status_name(result->status);
        outcome.error = result->error.message;
    } else {
        outcome.execution_id = result->id;
    }
    return outcome;
}

/* The refused firings behind the first ones of a look make one event for each schedule, with the first reason: a plan has
 * many workspaces. `rest` has those that are not reported yet; event NULL: report them. */
static void report_rest(struct node *node, struct event *rest, const struct event *event)
{
    if (rest->count > 0 && (event == NULL || strcmp(rest->reason, event->reason) != 0)) {
        event_emit(node->events, rest);
        rest->count = 0;
    }
    if (event != NULL) {
        int64_t count = rest->count + 1;
        *rest = count == 1 ? *event : *rest;
        rest->workspace = NULL;
        rest->count = count;
    }
}

static size_t fill_firing_outcomes(struct firing_set *set, const struct schedule_firings *firings)
{
    size_t next = 0;
    size_t count = 0;
    for (size_t i = 0; i < firings->count; i++) {
        const struct schedule_firing *firing = &firings->firings[i];
        const struct enqueue_result *result = firing_is_requested(firing) ? &set->results[next++] : NULL;
        set->has_outcome[i] = !waits_for_cancel(firing) && !is_firing_gone(result);
        if (set->has_outcome[i]) {
            set->outcomes[count++] = outcome_of(firing, result);
        }
    }
    return count;
}

/* After the settlement, which may find the execution of a refused firing. */
static void report_outcomes(struct node *node, const struct firing_set *set, const struct schedule_firings *firings)
{
    size_t next = 0;
    size_t reported = 0;
    struct event rest = {.count = 0};
    for (size_t i = 0; i < firings->count; i++) {
        const struct schedule_firing *firing = &firings->firings[i];
        if (!set->has_outcome[i]) {
            continue;
        }
        const struct schedule_outcome *outcome = &set->outcomes[next++];
        bool is_fired = outcome->settled_id[0] != '\0';
        if (!is_fired && outcome->error_code == NULL) {
            report(node, EVENT_SCHEDULE_DROPPED, firing->schedule, outcome->is_dropped ? 1 : 0);
            continue;
        }
        struct event event = {.type = is_fired ? EVENT_SCHEDULE_FIRED : EVENT_SCHEDULE_REFUSED,
                              .reason = firing->schedule,
                              .workspace = firing->workspace,
                              .execution_id = is_fired ? outcome->settled_id : NULL,
                              .code = is_fired ? NULL : outcome->error_code,
                              .error = is_fired ? NULL : outcome->error,
                              .count = 1};
        if (is_fired || reported++ < REFUSALS_REPORTED_MOST) {
            event_emit(node->events, &event);
        } else {
            report_rest(node, &rest, &event);
        }
    }
    report_rest(node, &rest, NULL);
}

static enum weir_status start_firings(struct node *node, const struct schedule_firings *firings, struct arena *arena,
                                      struct weir_error *error)
{
    struct store *store = node->stores[LOOP_MAINTENANCE];
    size_t count = 0;
    struct firing_set set = {.requests = calloc(firings->count, sizeof *set.requests),
                             .results = calloc(firings->count, sizeof *set.results),
                             .outcomes = calloc(firings->count, sizeof *set.outcomes),
                             .has_outcome = calloc(firings->count, sizeof *set.has_outcome),
                             .keys = calloc(firings->count, sizeof *set.keys)};
    if (set.requests == NULL || set.results == NULL || set.outcomes == NULL || set.has_outcome == NULL ||
        set.keys == NULL) {
        firing_set_close(&set);
        return error_out_of_memory(error);
    }
    enum weir_status status = fill_firing_requests(&set, firings, arena, &count, error);
    if (status == WEIR_OK && count > 0) {
        status = store_enqueue(store, set.requests, count, set.results, error);
    }
    if (status == WEIR_OK) {
        FAILPOINT("after_schedule_enqueue");
        loop_wake(node, LOOP_DISPATCH);
        count = fill_firing_outcomes(&set, firings);
        status = store_settle_schedule_firings(store, set.outcomes, count, error);
    }
    if (status == WEIR_OK) {
        report_outcomes(node, &set, firings);
    }
    firing_set_close(&set);
    return status;
}

static size_t count_cancels(const struct schedule_firings *firings)
{
    size_t count = 0;
    for (size_t i = 0; i < firings->count; i++) {
        count += waits_for_cancel(&firings->firings[i]) ? 1 : 0;
    }
    return count;
}

/* *ret_more: this look changed something, so another one may find more. */
static enum weir_status fire(struct node *node, const struct due_schedules *due, struct arena *arena, bool *ret_more,
                             struct weir_error *error)
{
    struct schedule_firings firings = {.count = 0};
    enum weir_status status = due->count > 0 ? advance_schedules(node, due, arena, error) : WEIR_OK;
    if (status == WEIR_OK && (due->count > 0 || due->firings_wait)) {
        status = store_read_schedule_firings(node->stores[LOOP_MAINTENANCE], arena, &firings, error);
    }
    size_t cancels = count_cancels(&firings);
    if (status == WEIR_OK && firings.count > cancels) {
        status = start_firings(node, &firings, arena, error);
    }
    bool is_requested = status == WEIR_OK && request_cancels(node, &firings);
    *ret_more = due->count > 0 || firings.count > cancels || is_requested;
    return status;
}

enum weir_status schedule_duty_step(struct node *node, int64_t now_us, struct weir_error *error)
{
    INVARIANT(node != NULL);
    struct maintenance *m = &node->maintenance;
    struct due_schedules due = {.next_due_us = TIME_NEVER};
    struct arena arena;
    bool is_more = false;
    bool is_role_new = !m->had_schedules_role;
    m->had_schedules_role = atomic_load(&node->shared.schedules);
    if (!m->had_schedules_role) {
        m->next_schedules_us = time_add(now_us, SCHEDULE_ROUND_US);
        return WEIR_OK;
    }
    bool is_news_due = now_us >= m->next_schedule_news_us && atomic_load(&node->shared.schedules_due);
    if (!is_role_new && !is_news_due && now_us < m->next_schedules_us) {
        return WEIR_OK;
    }
    atomic_store(&node->shared.schedules_due, false); /* before the read: later news asks again */
    m->next_schedule_news_us = time_add(now_us, SCHEDULE_ROUND_US);
    m->next_schedules_us = m->next_schedule_news_us; /* after a failure */
    arena_init(&arena, SCHEDULES_ARENA_BYTES);
    enum weir_status status = store_read_due_schedules(node->stores[LOOP_MAINTENANCE], &arena, &due, error);
    if (status == WEIR_OK) {
        status = fire(node, &due, &arena, &is_more, error);
    }
    arena_close(&arena);
    if (status == WEIR_OK) {
        int64_t wait_us = due.next_due_us == TIME_NEVER ? TIME_NEVER : due.next_due_us - due.now_us;
        wait_us = due.next_due_us != TIME_NEVER || due.firings_wait ? earlier(wait_us, SCHEDULE_LOOK_US) : TIME_NEVER;
        m->next_schedules_us = is_more ? now_us : time_add(now_us, wait_us);
    }
    return status;
}
