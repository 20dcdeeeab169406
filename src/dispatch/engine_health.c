/* The circuit breaker of a node, and the engine's reports about its own state.
 *
 * The recorder passes each report to engine_health_note() at its turn. Answers to starts move the breaker
 * (queue/breaker.h): three unreachable ones in a row open it, any definite answer closes it. An engine that knows its own
 * state reports it, and that opens or closes the breaker at once. A change is an event for the log, and requests a
 * heartbeat. The store must learn it, because `why` shows the reason engine_unreachable and the scheduler gives such a
 * node one probe at most.
 *
 * An impaired engine starts executions and detects their ends late. That holds no start back.
 *
 * All functions take shared.lock, and emit events after they have released it. They never call the store or the engine.
 */
#include "dispatch/engine_health.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "dispatch/node_internal.h"
#include "dispatch/wake_up.h"

static const char *text_of_report(const struct report *report)
{
    return report->error == NULL ? report->error_code : report->error;
}

/* Under shared.lock. A service may answer any bytes, and a store takes text only. */
static void keep_engine_error(struct node *node, const struct report *report)
{
    struct engine_health *health = &node->engine_health;
    if (health->breaker.state == BREAKER_CLOSED) {
        health->error[0] = '\0';
    } else if (report->kind == REPORT_UNREACHABLE || report->kind == REPORT_ENGINE_DOWN) {
        text_copy(health->error, sizeof health->error, text_of_report(report));
        text_make_safe(health->error);
    }
}

/* The engine was reached, or was not. Steps and ends are most reports, and move nothing. */
static bool shows_reachability(enum report_kind kind)
{
    return kind == REPORT_STARTED || kind == REPORT_REFUSED || kind == REPORT_UNREACHABLE || kind == REPORT_ENGINE_DOWN ||
           kind == REPORT_ENGINE_UP;
}

static void note_reachability(struct node *node, const struct report *report)
{
    struct breaker *breaker = &node->engine_health.breaker;
    struct event event = {.node = node->name, .error = report->error, .code = report->error_code};
    bool changed = false;
    pthread_mutex_lock(&node->shared.lock);
    int64_t now_us = node_now(node);
    if (report->kind == REPORT_UNREACHABLE) {
        event.type = EVENT_ENGINE_DOWN;
        changed = breaker_unreachable(breaker, now_us, &node->shared.random);
    } else if (report->kind == REPORT_ENGINE_DOWN) {
        event.type = EVENT_ENGINE_DOWN;
        changed = breaker_open(breaker, now_us);
    } else if (report->kind == REPORT_STARTED || report->kind == REPORT_REFUSED || report->kind == REPORT_ENGINE_UP) {
        event.type = EVENT_ENGINE_UP;
        event.duration_us = now_us - breaker->opened_at_us;
        changed = breaker_reached(breaker);
    }
    keep_engine_error(node, report);
    pthread_mutex_unlock(&node->shared.lock);
    if (changed) {
        event_emit(node->events, &event);
    }
    if (changed || report->kind == REPORT_ENGINE_UP) { /* an engine that is up may know its target now */
        loop_request_heartbeat(node);
    }
}

static void note_impairment(struct node *node, const struct report *report)
{
    struct engine_health *health = &node->engine_health;
    bool is_impaired = report->kind == REPORT_ENGINE_IMPAIRED;
    struct event event = {.type = is_impaired ? EVENT_ENGINE_IMPAIRED : EVENT_ENGINE_SOUND,
                          .node = node->name,
                          .code = report->error_code,
                          .error = report->error};
    pthread_mutex_lock(&node->shared.lock);
    bool was_impaired = health->impairment[0] != '\0';
    text_copy(health->impairment, sizeof health->impairment, is_impaired ? text_of_report(report) : "");
    text_make_safe(health->impairment);
    pthread_mutex_unlock(&node->shared.lock);
    if (was_impaired != is_impaired) {
        event_emit(node->events, &event);
        loop_request_heartbeat(node);
    }
}

void engine_health_note(struct node *node, const struct report *report)
{
    INVARIANT(node != NULL && report != NULL);
    if (shows_reachability(report->kind)) {
        note_reachability(node, report);
    }
    if (report->kind == REPORT_ENGINE_IMPAIRED || report->kind == REPORT_ENGINE_SOUND) {
        note_impairment(node, report);
    }
}

size_t engine_health_allowance(struct node *node, size_t wanted, int64_t now_us)
{
    INVARIANT(node != NULL);
    wanted = wanted < INT32_MAX ? wanted : INT32_MAX; /* max_running is a caller's number, and may be SIZE_MAX */
    pthread_mutex_lock(&node->shared.lock);
    int64_t allowed = breaker_peek_starts(&node->engine_health.breaker, (int64_t)wanted, now_us);
    pthread_mutex_unlock(&node->shared.lock);
    INVARIANT(allowed >= 0 && (size_t)allowed <= wanted);
    return (size_t)allowed;
}

bool engine_health_allows_start(struct node *node, int64_t now_us)
{
    return engine_health_allowance(node, 1, now_us) > 0;
}

int64_t engine_health_probe_us(struct node *node, int64_t now_us)
{
    INVARIANT(node != NULL);
    pthread_mutex_lock(&node->shared.lock);
    int64_t probe_us = breaker_next(&node->engine_health.breaker);
    pthread_mutex_unlock(&node->shared.lock);
    return probe_us > now_us ? probe_us : TIME_NEVER;
}

void engine_health_use(struct node *node, size_t starts, int64_t now_us)
{
    INVARIANT(node != NULL);
    pthread_mutex_lock(&node->shared.lock);
    (void)breaker_take_starts(&node->engine_health.breaker, (int64_t)starts, now_us);
    pthread_mutex_unlock(&node->shared.lock);
}

void engine_health_read(struct node *node, struct engine_condition *ret_condition)
{
    INVARIANT(node != NULL && ret_condition != NULL);
    const struct engine_health *health = &node->engine_health;
    pthread_mutex_lock(&node->shared.lock);
    ret_condition->is_reachable = health->breaker.state == BREAKER_CLOSED;
    ret_condition->is_impaired = ret_condition->is_reachable && health->impairment[0] != '\0';
    memcpy(ret_condition->error, ret_condition->is_impaired ? health->impairment : health->error,
           sizeof ret_condition->error);
    pthread_mutex_unlock(&node->shared.lock);
}

bool node_reaches_engine(struct node *node)
{
    struct engine_condition condition;
    engine_health_read(node, &condition);
    return condition.is_reachable;
}
