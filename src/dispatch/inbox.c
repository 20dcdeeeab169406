/* The inbox: what the scheduler has assigned to this node, cancels that wait for it, and whether anybody schedules.
 *
 * A node that does not schedule reads its inbox when the store wakes it, when its engine has room again, and once a second
 * (SCHEDULER_WATCH_US), because the same answer shows a role that has become free. Where the store cannot wake it, it reads
 * every INBOX_POLL_FIRST_US, and less often while nothing comes. The scheduler's own node gets its items with each round
 * and reads its inbox only when it has taken the role: a round of an epoch before may have been committed while the
 * takeover waited for it.
 *
 * A node that may start nothing (paused, draining, stopping, its engine away) gives back what it finds: the slot would be
 * taken for nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "dispatch/node_internal.h"

enum { GIVE_BACK_MOST = 256 };

/* --- cancels --- */

static enum weir_status pass_requests(struct node *node, struct weir_error *error)
{
    struct arena arena;
    struct node_request *requests = NULL;
    size_t count = 0;
    arena_init(&arena, CLAIM_ARENA_BYTES);
    enum weir_status status =
        store_take_requests(node->stores[LOOP_DISPATCH], atomic_load(&node->id), &arena, &requests, &count, error);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        engine_cancel(node->engine, requests[i].id, requests[i].fence);
    }
    arena_close(&arena);
    if (status == WEIR_OK) {
        node->has_requests = false;
    }
    return status;
}

enum weir_status inbox_pass_requests(struct node *node, struct weir_error *error)
{
    return node->has_requests ? pass_requests(node, error) : WEIR_OK;
}

/* --- the position --- */

void inbox_passed(struct node *node, const struct claim_result *claimed)
{
    struct inbox_position *position = &node->inbox.position;
    for (size_t i = 0; i < claimed->count; i++) {
        if (claimed->items[i].fence >= position->fence) {
            /* A round brings all that it assigns to this node, under one fence. */
            *position = (struct inbox_position){.fence = claimed->items[i].fence + 1};
        }
    }
}

void inbox_reset(struct node *node)
{
    node->inbox = (struct node_inbox){.is_due = true, .poll_us = INBOX_POLL_FIRST_US};
    node->has_requests = false;
}

/* --- reading --- */

static void start_or_give_back(struct node *node, int64_t node_id, struct claim_batch *batch, const struct inbox *inbox,
                               bool may_start)
{
    if (inbox->claimed.count == 0) {
        return;
    }
    FAILPOINT("after_claim");
    if (may_start) {
        starter_start(node, node_id, batch, &inbox->claimed);
    } else {
        unkept_add(node, node_id, batch, inbox->claimed.items, inbox->claimed.count, UNKEPT_NOT_STARTING);
        atomic_store(&node->next_beat_us,
                     0); /* the scheduler takes this node for one that starts: one of the two is behind */
        loop_wake(node, LOOP_HEARTBEAT);
    }
}

/* When to read again without a wake. */
static int64_t next_read(struct node *node, int64_t now_us, const struct inbox *inbox)
{
    struct node_inbox *own = &node->inbox;
    if (inbox->claimed.count > 0) {
        own->poll_us = INBOX_POLL_FIRST_US;
    } else {
        own->poll_us = own->poll_us * 2 > SCHEDULER_WATCH_US ? SCHEDULER_WATCH_US : own->poll_us * 2;
    }
    bool is_woken = store_wake_fd(node->stores[LOOP_DISPATCH]) >= 0;
    return time_add(now_us, is_woken ? SCHEDULER_WATCH_US : own->poll_us);
}

static enum weir_status read_inbox(struct node *node, int64_t now_us, int64_t *ret_next_us, struct inbox *ret_inbox,
                                   struct weir_error *error)
{
    int64_t node_id = atomic_load(&node->id);
    bool may_start = dispatcher_may_start(node) && node_may_reach_engine(node, now_us);
    size_t limit = may_start ? dispatcher_room(node, now_us) : GIVE_BACK_MOST;
    struct claim_batch *batch = claim_batch_new();
    if (batch == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status =
        store_inbox(node->stores[LOOP_DISPATCH], node_id, &node->inbox.position, limit, &batch->arena, ret_inbox, error);
    if (status == WEIR_OK) {
        node->store_ahead_us = ret_inbox->role.now_us - now_us;
        node->has_requests = node->has_requests || ret_inbox->requests;
        start_or_give_back(node, node_id, batch, ret_inbox, may_start);
        *ret_next_us = earlier(*ret_next_us, ret_inbox->more && limit > 0 ? now_us : next_read(node, now_us, ret_inbox));
        if (limit == 0) {
            dispatcher_await_room(node, now_us, ret_next_us);
        }
        node->inbox.is_due = ret_inbox->more;
    }
    pthread_mutex_lock(&node->lock);
    claim_batch_release(batch);
    pthread_mutex_unlock(&node->lock);
    return status;
}

enum weir_status inbox_step(struct node *node, int64_t now_us, int64_t *ret_next_us, struct weir_error *error)
{
    struct inbox inbox = {.more = false};
    enum weir_status status = read_inbox(node, now_us, ret_next_us, &inbox, error);
    if (status == WEIR_OK && node->scheduling.epoch == 0) {
        status = scheduling_seek(node, &inbox.role, error);
        /* A round of a former epoch, whose answer was lost, may have been committed since: the takeover waited for it. */
        node->inbox.is_due = node->inbox.is_due || node->scheduling.epoch != 0;
    }
    return status;
}
