/* A loop whose call of the store failed pauses, or ends its node.
 *
 * Each loop has pauses of its own, from 50 ms to 1 s, doubling with each failure in a row. A failure that no pause can help
 * (a corrupt store, a schema of a newer version, an error in the program) marks the node unhealthy. The loop goes on all
 * the same; the owner reads node_is_healthy() and ends the process.
 *
 * A failure of another loop requests a heartbeat: the store may be a new server without this node's latest beat, and the
 * node should report there soon that it lives. Failures in a row of the dispatch loop and of the record loop are kept for
 * the heartbeats. While they last, nothing is scheduled or recorded here, and `weir why` shows them. Each loop calls these
 * functions for itself, in its own thread.
 */
#include "dispatch/loop.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "dispatch/wake_up.h"

bool loop_is_backing_off(struct node *node, enum loop loop, int64_t now_us, int64_t *ret_until_us)
{
    INVARIANT(node != NULL && loop < LOOP_COUNT && ret_until_us != NULL);
    *ret_until_us = node->threads.loops[loop].retry_us;
    return now_us < node->threads.loops[loop].retry_us;
}

enum { PASS_PART = 100 };
#define PASS_PAUSE_MOST_US (600 * MICROSECONDS_PER_SECOND)

/* No pause can help: the node reports it, and its process should end. */
static bool is_hopeless(enum weir_status status)
{
    return status == WEIR_STORE_CORRUPT || status == WEIR_STORE_NOT_WEIR || status == WEIR_SCHEMA_NEWER ||
           status == WEIR_SCHEMA_MISSING || weir_status_kind(status) == WEIR_KIND_PROGRAMMER;
}

static void mark_unhealthy(struct node *node, enum loop loop, enum weir_status status, const struct weir_error *error)
{
    static const char *const names[] = {"dispatch", "record", "heartbeat", "duties"};
    struct event event = {.type = EVENT_LOOP_FAILED,
                          .reason = names[loop],
                          .code = weir_status_name(status),
                          .error = error->message,
                          .node = node->name};
    pthread_mutex_lock(&node->shared.lock);
    if (!node->shared.unhealthy) {
        node->shared.unhealthy = true;
        node->shared.failure = *error;
        error_prefix(&node->shared.failure, "the %s loop of node %s", names[loop], node->name);
    }
    pthread_mutex_unlock(&node->shared.lock);
    event_emit(node->events, &event);
}

/* --- failures in a row --- */

enum { CODE_ROOM = 48 }; /* for " (code)" behind the message */

static void note_failure(struct node *node, struct loop_failure *failure, int64_t now_us, enum weir_status status,
                         const char *message)
{
    pthread_mutex_lock(&node->shared.lock);
    if (failure->since_boot_us == 0) {
        failure->since_boot_us = now_us;
    }
    text_copy(failure->error, sizeof failure->error - CODE_ROOM, message);
    size_t length = strlen(failure->error);
    (void)snprintf(failure->error + length, sizeof failure->error - length, " (%s)", weir_status_name(status));
    pthread_mutex_unlock(&node->shared.lock);
}

static void end_failure(struct node *node, struct loop_failure *failure)
{
    pthread_mutex_lock(&node->shared.lock);
    bool is_reported = failure->is_reported;
    failure->since_boot_us = 0;
    failure->is_reported = false;
    pthread_mutex_unlock(&node->shared.lock);
    if (is_reported) {
        loop_request_heartbeat(node);
    }
}

void loop_note_refusal(struct node *node, int64_t now_us, const char *refusal)
{
    INVARIANT(node != NULL && refusal != NULL);
    note_failure(node, &node->record_failure, now_us, WEIR_FAILED, refusal);
}

/* Only the record loop changes the time, so it may read it without the lock. */
void loop_end_refusals(struct node *node)
{
    INVARIANT(node != NULL);
    if (node->record_failure.since_boot_us != 0) {
        end_failure(node, &node->record_failure);
    }
}

int64_t loop_read_failure(struct node *node, struct loop_failure *failure, char error[WEIR_ERROR_MESSAGE_MAX])
{
    INVARIANT(node != NULL && failure != NULL && error != NULL);
    int64_t now_us = node_now(node);
    pthread_mutex_lock(&node->shared.lock);
    int64_t lasted_us = failure->since_boot_us == 0 ? 0 : now_us - failure->since_boot_us;
    failure->is_reported = lasted_us >= LOOP_FAILS_LEAST_US;
    text_copy(error, WEIR_ERROR_MESSAGE_MAX, failure->is_reported ? failure->error : "");
    lasted_us = failure->is_reported ? lasted_us : 0;
    pthread_mutex_unlock(&node->shared.lock);
    return lasted_us;
}

/* --- the pauses --- */

int64_t loop_failed(struct node *node, enum loop loop, int64_t now_us, enum weir_status status,
                    const struct weir_error *error)
{
    INVARIANT(node != NULL && loop < LOOP_COUNT && status != WEIR_OK && error != NULL);
    struct node_loop *own = &node->threads.loops[loop];
    if (is_hopeless(status)) {
        mark_unhealthy(node, loop, status, error);
    }
    if (loop == LOOP_DISPATCH || loop == LOOP_RECORD) {
        struct loop_failure *failure = loop == LOOP_RECORD ? &node->record_failure : &node->dispatch_failure;
        note_failure(node, failure, now_us, status, error->message);
    }
    if (loop != LOOP_HEARTBEAT) {
        loop_request_heartbeat(node);
    }
    int64_t backoff_us = own->backoff_us == 0 ? LOOP_RETRY_FIRST_US : own->backoff_us;
    own->backoff_us = earlier(backoff_us * 2, LOOP_RETRY_MOST_US);
    own->retry_us = time_add(now_us, backoff_us);
    return own->retry_us;
}

void loop_succeeded(struct node *node, enum loop loop)
{
    INVARIANT(node != NULL && loop < LOOP_COUNT);
    struct node_loop *own = &node->threads.loops[loop];
    bool had_failed = own->backoff_us != 0;
    own->retry_us = 0;
    own->backoff_us = 0;
    if (loop == LOOP_DISPATCH && had_failed) {
        end_failure(node, &node->dispatch_failure);
    }
}

int64_t loop_pass_pause_us(int64_t age_us)
{
    int64_t pause_us = age_us / PASS_PART;
    return pause_us < LOOP_PASS_LEAST_US ? LOOP_PASS_LEAST_US : earlier(pause_us, PASS_PAUSE_MOST_US);
}
