/* The inbox of this node: items that the scheduler has assigned to it, and cancels and signals that wait for it.
 *
 * A node that does not schedule reads its inbox
 *
 *   - when the store wakes it, and when its engine has free capacity again;
 *   - once a second (SCHEDULER_WATCH_US), because the answer also shows a role that has become free, and when it becomes
 *     free because its holder is silent;
 *   - where the store cannot wake it, every INBOX_POLL_FIRST_US, and less often while nothing comes.
 *
 * The scheduler's own node gets its items with each round. It reads its inbox only after it has taken the role: a round
 * of an epoch before may have been committed while the takeover waited for it.
 *
 * A node that may start nothing (paused, draining, stopping, its engine unreachable) gives the items back, because they
 * hold slots. A read never goes past unread items: the position moves only behind items that this node has got. Runs in
 * the dispatch loop.
 */
#include "dispatch/inbox.h"

#include "base/error.h"
#include "base/failpoint.h"
#include "dispatch/capacity.h"
#include "dispatch/dispatcher.h"
#include "dispatch/engine_health.h"
#include "dispatch/node_internal.h"
#include "dispatch/starter.h"
#include "dispatch/unstartable_claims.h"
#include "dispatch/wake_up.h"

#define INBOX_POLL_FIRST_US ((int64_t)50000)
enum { GIVE_BACK_MOST = 256 }; /* items of one read by a node that starts nothing */

/* --- cancels and signals --- */

void inbox_note_requests(struct node *node, bool has_requests)
{
    INVARIANT(node != NULL);
    node->dispatcher.inbox.has_requests = node->dispatcher.inbox.has_requests || has_requests;
}

static void pass_request(struct node *node, const struct node_request *request)
{
    for (size_t i = 0; i < request->signal_count; i++) {
        engine_signal(node->engine, request->id, request->fence, &request->signals[i]);
    }
    if (request->cancels) {
        engine_cancel(node->engine, request->id, request->fence);
    }
}

static enum weir_status pass_requests(struct node *node, struct weir_error *error)
{
    struct arena arena;
    struct node_request *requests = NULL;
    size_t count = 0;
    bool more = false;
    arena_init(&arena, ASSIGNMENT_ARENA_BYTES);
    enum weir_status status = store_take_requests(node->stores[LOOP_DISPATCH], atomic_load(&node->shared.id), &arena,
                                                  &requests, &count, &more, error);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        pass_request(node, &requests[i]);
    }
    arena_close(&arena);
    if (status == WEIR_OK) {
        node->dispatcher.inbox.has_requests = more;
    }
    return status;
}

enum weir_status inbox_pass_requests(struct node *node, struct weir_error *error)
{
    INVARIANT(node != NULL);
    return node->dispatcher.inbox.has_requests ? pass_requests(node, error) : WEIR_OK;
}

/* --- the position --- */

void inbox_skip(struct node *node, const struct claim_result *claimed)
{
    INVARIANT(node != NULL && claimed != NULL);
    struct inbox_position *position = &node->dispatcher.inbox.position;
    for (size_t i = 0; i < claimed->count; i++) {
        if (claimed->items[i].fence >= position->fence) {
            /* A round brings all that it assigns to this node, under one fence. */
            *position = (struct inbox_position){.fence = claimed->items[i].fence + 1};
        }
    }
}

void inbox_make_due(struct node *node)
{
    INVARIANT(node != NULL);
    node->dispatcher.inbox.is_due = true;
}

void inbox_reset(struct node *node)
{
    INVARIANT(node != NULL);
    node->dispatcher.inbox = (struct node_inbox){.is_due = true, .poll_us = INBOX_POLL_FIRST_US};
}

/* --- reading --- */

static void start_or_give_back(struct node *node, int64_t node_id, struct assignment_batch *batch,
                               const struct inbox *inbox, bool may_start)
{
    if (inbox->claimed.count == 0) {
        return;
    }
    FAILPOINT("after_claim");
    if (may_start) {
        starter_start(node, node_id, batch, &inbox->claimed);
    } else {
        unstartable_add(node, node_id, batch, inbox->claimed.items, inbox->claimed.count, UNSTARTABLE_NOT_STARTING);
        loop_request_heartbeat(node); /* the scheduler does not know yet that this node starts nothing */
    }
}

/* When to read again without a wake. */
static int64_t next_inbox_read(struct node *node, int64_t now_us, const struct inbox *inbox)
{
    struct node_inbox *own = &node->dispatcher.inbox;
    own->poll_us = inbox->claimed.count > 0 ? INBOX_POLL_FIRST_US : earlier(own->poll_us * 2, SCHEDULER_WATCH_US);
    bool is_woken = store_wake_fd(node->stores[LOOP_DISPATCH]) >= 0;
    int64_t next_us = time_add(now_us, is_woken ? SCHEDULER_WATCH_US : own->poll_us);
    int64_t free_us = inbox->role.free_from_us;
    return free_us > now_us ? earlier(next_us, free_us) : next_us;
}

enum weir_status inbox_step(struct node *node, int64_t now_us, int64_t *ret_next_us, struct role_state *ret_role,
                            struct weir_error *error)
{
    INVARIANT(node != NULL && ret_next_us != NULL && ret_role != NULL && unstartable_is_empty(node));
    struct node_inbox *own = &node->dispatcher.inbox;
    struct inbox inbox = {.more = false};
    int64_t node_id = atomic_load(&node->shared.id);
    bool may_start = capacity_may_start(node) && engine_health_allows_start(node, now_us);
    size_t limit = may_start ? capacity_free(node, now_us) : GIVE_BACK_MOST;
    struct assignment_batch *batch = assignment_batch_new();
    if (batch == NULL) {
        return error_out_of_memory(error);
    }
    batch->began_us = now_us;
    enum weir_status status =
        store_inbox(node->stores[LOOP_DISPATCH], node_id, &own->position, limit, &batch->arena, &inbox, error);
    if (status == WEIR_OK) {
        *ret_role = inbox.role;
        dispatcher_learn_store_time(node, now_us, inbox.role.now_us);
        inbox_note_requests(node, inbox.requests);
        start_or_give_back(node, node_id, batch, &inbox, may_start);
        *ret_next_us = earlier(*ret_next_us, inbox.more && limit > 0 ? now_us : next_inbox_read(node, now_us, &inbox));
        if (limit == 0) {
            capacity_await(node, now_us, ret_next_us);
        }
        own->is_due = inbox.more;
    }
    pthread_mutex_lock(&node->shared.lock);
    assignment_batch_release(batch);
    pthread_mutex_unlock(&node->shared.lock);
    return status;
}
