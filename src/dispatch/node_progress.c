/* Reports of progress on their way through the loops of a node.
 *
 *   1. The first report that is due sets the time of the next round of writes, PROGRESS_WRITE_US ahead, and wakes the
 * duties loop.
 *   2. The duties loop writes one set per step, and goes on at once until the round is over. The next round begins a second
 *      after its last set. So no step is written more than once a second.
 *   3. After a failure it waits PROGRESS_WRITE_AGAIN_US. A newer report takes the place of one that waits.
 */
#include "dispatch/node_progress.h"

#include "base/error.h"
#include "dispatch/wake_up.h"

void node_progress_init(struct node *node)
{
    INVARIANT(node != NULL);
    progress_buffer_init(&node->progress.buffer);
    atomic_store(&node->progress.due_us, TIME_NEVER);
}

void node_progress_close(struct node *node)
{
    INVARIANT(node != NULL);
    progress_buffer_close(&node->progress.buffer);
}

void node_progress_take(void *context, const struct engine_progress *progress)
{
    INVARIANT(context != NULL && progress != NULL);
    struct node *node = context;
    int64_t never = TIME_NEVER;
    bool is_first = progress->text != NULL ? progress_buffer_add(&node->progress.buffer, progress)
                                           : progress_buffer_end(&node->progress.buffer, progress);
    if (is_first &&
        atomic_compare_exchange_strong(&node->progress.due_us, &never, time_add(node_now(node), PROGRESS_WRITE_US))) {
        loop_wake(node, LOOP_MAINTENANCE);
    }
}

int64_t node_progress_next(struct node *node)
{
    INVARIANT(node != NULL);
    return atomic_load(&node->progress.due_us);
}

enum weir_status node_progress_step(struct node *node, int64_t now_us, struct weir_error *error)
{
    INVARIANT(node != NULL && error != NULL);
    struct weir_error reason = {.status = WEIR_OK};
    bool more = false;
    if (now_us < atomic_load(&node->progress.due_us)) {
        return WEIR_OK;
    }
    atomic_store(&node->progress.due_us, TIME_NEVER); /* before the write: reports may arrive meanwhile */
    enum weir_status status = progress_buffer_write(&node->progress.buffer, node->stores[LOOP_MAINTENANCE], &more, &reason);
    int64_t next_us = status != WEIR_OK ? time_add(now_us, PROGRESS_WRITE_AGAIN_US)
                      : more            ? now_us
                                        : time_add(now_us, PROGRESS_WRITE_US);
    if (progress_buffer_is_due(&node->progress.buffer)) {
        atomic_store(&node->progress.due_us, next_us);
    }
    return WEIR_OK;
}
