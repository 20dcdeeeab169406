/* The duty of hooks: events of the outbox become executions.
 *
 * Every end writes news, which the scheduler reads. So the store is asked for events after news, and while some of them
 * wait. It is also asked every HOOK_LOOK_US, because an event may outlive the node that knew of its news. The enqueue
 * is the ordinary one, so plans, fairness and retries hold for these executions as for all others. Two nodes that do
 * the duty at once, at a change of the scheduler, enqueue the same keys, and each key makes one execution.
 */
#include "dispatch/hook_duty.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/traceparent.h"
#include "dispatch/starter.h"
#include "dispatch/wake_up.h"

#define HOOK_ROUND_US (1 * MICROSECONDS_PER_SECOND)
#define HOOK_LOOK_US (60 * MICROSECONDS_PER_SECOND)
#define HOOK_TRIM_US (60 * MICROSECONDS_PER_SECOND)
#define HOOK_TRIM_MOST_US (MICROSECONDS_PER_SECOND / 2) /* of one step */
#define HOOK_NOTICE_US (60 * MICROSECONDS_PER_SECOND)   /* of refused enqueues of a hook */

_Static_assert(HOOK_BACKLOG_MOST == 10000, "the refusal names this number");
enum { HOOK_KEY_MAX = sizeof HOOK_KEY_PREFIX "/" + HOOK_NAME_MAX + UUID_TEXT_MAX, EVENTS_ARENA_BYTES = 64 * 1024 * 1024 };
_Static_assert((int)HOOK_KEY_MAX <= (int)IDEMPOTENCY_KEY_MAX, "the key of an event is an idempotency key");

/* A set while it is enqueued: each array has an element for each event. */
struct hook_set {
    struct enqueue_request *requests;
    struct enqueue_result *results;
    struct hook_outcome *outcomes;
    char (*keys)[HOOK_KEY_MAX];
    char (*contexts)[TRACEPARENT_SIZE];
};

static void hook_set_close(struct hook_set *set)
{
    free(set->requests);
    free(set->results);
    free(set->outcomes);
    free(set->keys);
    free(set->contexts);
}

/* A hook of a deleted workspace, or of one with a backlog, is refused without a request. */
static bool is_requested(const struct hook_event *event)
{
    return event->workspace != NULL && !event->is_backlogged;
}

/* An execution that a hook starts belongs to the trace of the execution that has ended. */
static void fill_requests(const struct node *node, struct hook_set *set, const struct hook_events *events,
                          size_t *ret_count)
{
    size_t count = 0;
    for (size_t i = 0; i < events->count; i++) {
        const struct hook_event *event = &events->events[i];
        if (!is_requested(event)) {
            continue;
        }
        (void)snprintf(set->keys[count], HOOK_KEY_MAX, HOOK_KEY_PREFIX "%s/%s", event->hook, event->id);
        set->requests[count] = (struct enqueue_request){
            .workspace = event->workspace,
            .workflow = event->workflow,
            .params = event->params,
            .params_length = strlen(event->params),
            .idempotency_key = set->keys[count],
            .has_reserved_key = true,
            .traceparent = choose_context_to_pass(node, event->id, event->traceparent, set->contexts[count])};
        count++;
    }
    *ret_count = count;
}

/* Notes a notice of the hook. False: it had one within HOOK_NOTICE_US. A hook that is new to the table takes the place of
 * the oldest notice; there is one for each hook that a store may have. */
static bool take_notice(struct node *node, int64_t hook_id, int64_t now_us)
{
    struct hook_notice *notices = node->maintenance.hook_notices;
    struct hook_notice *place = &notices[0];
    for (size_t i = 0; i < HOOKS_MOST; i++) {
        if (notices[i].hook_id == hook_id) {
            place = &notices[i];
            break;
        }
        place = notices[i].next_us < place->next_us ? &notices[i] : place;
    }
    if (place->hook_id == hook_id && now_us < place->next_us) {
        return false;
    }
    *place = (struct hook_notice){.hook_id = hook_id, .next_us = time_add(now_us, HOOK_NOTICE_US)};
    return true;
}

static void report_hook_refusal(struct node *node, const struct hook_event *event, const struct hook_outcome *outcome,
                                int64_t now_us)
{
    struct event refusal = {
        .type = EVENT_HOOK_REFUSED, .reason = event->hook, .code = outcome->error_code, .error = outcome->error};
    if (take_notice(node, event->hook_id, now_us)) {
        event_emit(node->events, &refusal);
    }
}

/* A key that was used for another request stays used, so a repetition would be refused for ever: the event is dropped. That
 * happens when a hook is set anew between the enqueue of an event and its removal. */
static void fill_outcomes(struct node *node, struct hook_set *set, const struct hook_events *events, int64_t now_us)
{
    size_t next = 0;
    for (size_t i = 0; i < events->count; i++) {
        const struct hook_event *event = &events->events[i];
        struct hook_outcome outcome = {.number = event->number, .hook_id = event->hook_id};
        const struct enqueue_result *result = is_requested(event) ? &set->results[next++] : NULL;
        if (event->workspace == NULL) {
            outcome.error_code = weir_status_name(WEIR_WORKSPACE_NOT_FOUND);
            outcome.error = "the workspace to start in was deleted; set the hook again";
        } else if (result == NULL) {
            outcome.error_code = weir_status_name(WEIR_QUEUE_FULL);
            outcome.error = "10000 executions wait in the workspace to start in; events wait until they are fewer";
        } else if (result->status != WEIR_OK) {
            outcome.error_code = weir_status_name(result->status);
            outcome.error = result->error.message;
        }
        if (outcome.error_code != NULL) {
            report_hook_refusal(node, event, &outcome, now_us);
        }
        if (result != NULL && result->status == WEIR_IDEMPOTENCY_KEY_REUSED) {
            outcome.error_code = NULL;
            outcome.error = NULL;
            outcome.is_dropped = true;
        }
        set->outcomes[i] = outcome;
    }
}

/* Steps 2 and 3. */
static enum weir_status start_executions(struct node *node, const struct hook_events *events, int64_t now_us,
                                         struct weir_error *error)
{
    struct store *store = node->stores[LOOP_MAINTENANCE];
    size_t count = 0;
    enum weir_status status = WEIR_OK;
    struct hook_set set = {.requests = calloc(events->count, sizeof *set.requests),
                           .results = calloc(events->count, sizeof *set.results),
                           .outcomes = calloc(events->count, sizeof *set.outcomes),
                           .keys = calloc(events->count, sizeof *set.keys),
                           .contexts = calloc(events->count, sizeof *set.contexts)};
    if (set.requests == NULL || set.results == NULL || set.outcomes == NULL || set.keys == NULL || set.contexts == NULL) {
        hook_set_close(&set);
        return error_out_of_memory(error);
    }
    fill_requests(node, &set, events, &count);
    if (count > 0) {
        status = store_enqueue(store, set.requests, count, set.results, error);
    }
    if (status == WEIR_OK) {
        FAILPOINT("after_hook_enqueue");
        loop_wake(node, LOOP_DISPATCH);
        fill_outcomes(node, &set, events, now_us);
        status = store_settle_hook_events(store, set.outcomes, events->count, error);
    }
    hook_set_close(&set);
    return status;
}

/* Several sets, because ends may insert events faster than one set a step. */
static enum weir_status drop_old_events(struct node *node, int64_t now_us, struct weir_error *error)
{
    int64_t removed = 0;
    int64_t end_us = time_add(node_now(node), HOOK_TRIM_MOST_US);
    enum weir_status status;
    do {
        status = store_trim_hook_events(node->stores[LOOP_MAINTENANCE], &removed, error);
    } while (status == WEIR_OK && removed >= HOOK_EVENTS_TRIM_MOST && node_now(node) < end_us);
    node->maintenance.next_hook_trim_us = time_add(now_us, removed >= HOOK_EVENTS_TRIM_MOST ? 0 : HOOK_TRIM_US);
    return status;
}

enum weir_status hook_duty_step(struct node *node, int64_t now_us, struct weir_error *error)
{
    INVARIANT(node != NULL);
    struct maintenance *m = &node->maintenance;
    struct hook_events events = {.count = 0};
    struct arena arena;
    if (now_us < m->next_hooks_us) {
        return WEIR_OK;
    }
    m->next_hooks_us = time_add(now_us, HOOK_ROUND_US);
    if (!atomic_load(&node->shared.schedules)) {
        return WEIR_OK;
    }
    bool had_news = atomic_exchange(&node->shared.hooks_due, false); /* before the read: later news asks again */
    if (!had_news && !m->hook_events_wait && now_us < m->next_hook_look_us) {
        return WEIR_OK;
    }
    m->next_hook_look_us = time_add(now_us, HOOK_LOOK_US);
    arena_init(&arena, EVENTS_ARENA_BYTES);
    enum weir_status status = store_read_hook_events(node->stores[LOOP_MAINTENANCE], &arena, &events, error);
    if (status == WEIR_OK && events.count > 0) {
        status = start_executions(node, &events, now_us, error);
        m->next_hooks_us = status == WEIR_OK ? now_us : m->next_hooks_us;
    }
    arena_close(&arena);
    if (status == WEIR_OK && events.has_events && now_us >= m->next_hook_trim_us) {
        status = drop_old_events(node, now_us, error);
    }
    m->hook_events_wait = status != WEIR_OK || events.has_events;
    return status;
}
