/* Output of attempts on its way through the loops of a node.
 *
 *   1. The first pending output sets the time of the next write, LOG_WRITE_US ahead, and wakes the duties loop.
 *   2. The duties loop writes one set per step, and goes on at once while more is pending. After a failure it waits
 *      LOG_WRITE_AGAIN_US. Its other duties go on: a failed write of logs is no failure of the loop.
 *   3. The record loop writes the logs of ended attempts before it records a set. After a failure it leaves them to the
 *      duties loop for a while, so that ends are delayed by one failed write at most.
 *   4. Lost output is counted, and an event reports the sum once a minute.
 *   5. Chunks past their retention are removed in small sets. Nodes that do this at once skip each other's rows.
 *
 * Nothing here changes the state of an execution.
 */
#include "dispatch/node_logs.h"

#include "base/error.h"
#include "dispatch/wake_up.h"

/* How often retention looks, when it has found nothing more. */
#define LOG_RETENTION_INTERVAL_US (600 * MICROSECONDS_PER_SECOND)

void node_logs_init(struct node *node)
{
    INVARIANT(node != NULL);
    log_buffer_init(&node->logs.buffer);
    atomic_store(&node->logs.due_us, TIME_NEVER);
}

void node_logs_close(struct node *node)
{
    INVARIANT(node != NULL);
    log_buffer_close(&node->logs.buffer);
}

void node_logs_set_bound(struct node *node, int64_t bytes_max)
{
    INVARIANT(node != NULL);
    int64_t bound = bytes_max == 0 ? LOG_ATTEMPT_BYTES_DEFAULT : bytes_max < 0 ? 0 : bytes_max;
    atomic_store(&node->logs.buffer.bytes_max, bound < LOG_ATTEMPT_BYTES_MOST ? bound : LOG_ATTEMPT_BYTES_MOST);
}

void node_logs_take(void *context, const struct engine_output *output)
{
    INVARIANT(context != NULL && output != NULL);
    struct node *node = context;
    if (output->bytes == NULL) {
        log_buffer_end(&node->logs.buffer, output->execution_id, output->step, output->attempt);
        return;
    }
    int64_t never = TIME_NEVER;
    if (log_buffer_add(&node->logs.buffer, output) &&
        atomic_compare_exchange_strong(&node->logs.due_us, &never, time_add(node_now(node), LOG_WRITE_US))) {
        loop_wake(node, LOOP_MAINTENANCE);
    }
}

/* --- writing --- */

void node_logs_write_ended(struct node *node, int64_t now_us)
{
    INVARIANT(node != NULL);
    struct weir_error error = {.status = WEIR_OK};
    bool more = now_us >= node->logs.again_us && log_buffer_has_ended(&node->logs.buffer);
    while (more) {
        if (log_buffer_write(&node->logs.buffer, node->stores[LOOP_RECORD], true, &more, &error) != WEIR_OK) {
            node->logs.again_us = time_add(now_us, LOG_WRITE_AGAIN_US);
            return;
        }
    }
}

static void write_pending(struct node *node, int64_t now_us)
{
    struct weir_error error = {.status = WEIR_OK};
    bool more = false;
    atomic_store(&node->logs.due_us, TIME_NEVER); /* before the write: output may arrive meanwhile */
    enum weir_status status = log_buffer_write(&node->logs.buffer, node->stores[LOOP_MAINTENANCE], false, &more, &error);
    int64_t next_us = status != WEIR_OK ? time_add(now_us, LOG_WRITE_AGAIN_US)
                      : more            ? now_us
                                        : time_add(now_us, LOG_WRITE_US);
    if (status != WEIR_OK || log_buffer_has_pending(&node->logs.buffer)) {
        atomic_store(&node->logs.due_us, next_us);
    }
}

/* Step 4. */
static void report_lost(struct node *node, int64_t now_us)
{
    node->logs.lost_bytes += log_buffer_take_lost(&node->logs.buffer);
    if (node->logs.lost_bytes == 0 || now_us < node->logs.next_notice_us) {
        return;
    }
    struct event event = {.type = EVENT_OUTPUT_LOST, .count = node->logs.lost_bytes, .node = node->name};
    event_emit(node->events, &event);
    node->logs.lost_bytes = 0;
    node->logs.next_notice_us = time_add(now_us, LOG_LOST_NOTICE_US);
}

/* --- retention --- */

static enum weir_status purge_old_logs(struct node *node, int64_t now_us, struct weir_error *error)
{
    struct store *store = node->stores[LOOP_MAINTENANCE];
    int64_t retention_us = node->tuning.log_retention_us; /* read once: node_tune() may change it */
    int64_t store_now_us = 0;
    int64_t removed = 0;
    enum weir_status status = store_time(store, &store_now_us, error);
    if (status == WEIR_OK && retention_us > 0 && store_now_us > retention_us) {
        status = store_purge_logs(store, store_now_us - retention_us, LOG_PURGE_MOST, &removed, error);
    }
    int64_t pause_us = earlier(retention_us > 0 ? retention_us : LOG_RETENTION_INTERVAL_US, LOG_RETENTION_INTERVAL_US);
    node->logs.next_retention_us = time_add(now_us, removed == LOG_PURGE_MOST ? 0 : pause_us);
    return status;
}

/* --- the duty --- */

int64_t node_logs_next(struct node *node)
{
    INVARIANT(node != NULL);
    int64_t next_us = atomic_load(&node->logs.due_us);
    return node->tuning.log_retention_us > 0 ? earlier(next_us, node->logs.next_retention_us) : next_us;
}

enum weir_status node_logs_step(struct node *node, int64_t now_us, struct weir_error *error)
{
    INVARIANT(node != NULL);
    if (now_us >= atomic_load(&node->logs.due_us)) {
        write_pending(node, now_us);
        report_lost(node, now_us);
    }
    if (node->tuning.log_retention_us > 0 && now_us >= node->logs.next_retention_us) {
        return purge_old_logs(node, now_us, error);
    }
    return WEIR_OK;
}
