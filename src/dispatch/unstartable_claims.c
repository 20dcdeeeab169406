/* Gives assigned items back to the queue that this node will not start: it has no memory for them, or it starts nothing now
 * (paused, draining, stopping, its engine unreachable). Without this they would hold their slots until the queue's safety
 * net finds them, minutes later.
 *
 * The items stay in the memory of their batch until the store has recorded them, so that giving back needs no memory. A
 * failed call is repeated by the next step of the dispatch loop; a repeated record changes nothing.
 *
 * An item that may run already never goes back to PENDING: it keeps its slot and waits for its next node. Runs in the
 * dispatch loop.
 */
#include "dispatch/unstartable_claims.h"

#include <string.h>

#include "base/error.h"
#include "dispatch/record_events.h"

enum { GIVE_BACK_SET = 32 }; /* on the stack: there is no memory */

static const struct {
    const char *code;
    const char *text;
} reasons[] = {
    [UNSTARTABLE_OUT_OF_MEMORY] = {"out_of_memory", "its node had no memory to start it"},
    [UNSTARTABLE_NOT_STARTING] = {"node_not_starting", "its node starts nothing now"},
};

bool unstartable_is_empty(const struct node *node)
{
    INVARIANT(node != NULL);
    return node->dispatcher.unstartable.batch == NULL;
}

void unstartable_add(struct node *node, int64_t node_id, struct assignment_batch *batch, const struct claimed_item *items,
                     size_t count, enum unstartable_reason reason)
{
    INVARIANT(unstartable_is_empty(node) && batch != NULL && items != NULL && count > 0 && node_id != 0);
    pthread_mutex_lock(&node->shared.lock);
    batch->references++;
    pthread_mutex_unlock(&node->shared.lock);
    node->dispatcher.unstartable =
        (struct unstartable){.batch = batch, .node_id = node_id, .items = items, .count = count, .reason = reason};
}

void unstartable_drop(struct node *node)
{
    INVARIANT(node != NULL);
    pthread_mutex_lock(&node->shared.lock);
    assignment_batch_release(node->dispatcher.unstartable.batch);
    pthread_mutex_unlock(&node->shared.lock);
    node->dispatcher.unstartable = (struct unstartable){.batch = NULL};
}

/* An item that a dead node may have started keeps its slot and is handed over once more. */
static void plan_give_back(const struct node *node, const struct claimed_item *item, struct record *record)
{
    const struct unstartable *unstartable = &node->dispatcher.unstartable;
    *record = (struct record){.kind = claimed_item_may_run(item, node->engine) ? RECORD_GIVEN_BACK : RECORD_PUT_BACK,
                              .fence = item->fence,
                              .taken_over = item->interruptions > 0,
                              .error_code = reasons[unstartable->reason].code,
                              .error = reasons[unstartable->reason].text};
    memcpy(record->id, item->id, sizeof record->id);
}

/* A set of which the store left out a part is repeated as a whole: the second record of an item changes nothing. */
static enum weir_status give_back_part(struct node *node, const struct claimed_item *items, size_t count,
                                       struct weir_error *error)
{
    struct record records[GIVE_BACK_SET];
    struct record_summary summary = {0};
    for (size_t i = 0; i < count; i++) {
        plan_give_back(node, &items[i], &records[i]);
    }
    enum weir_status status =
        store_record(node->stores[LOOP_DISPATCH], node->dispatcher.unstartable.node_id, records, count, &summary, error);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        if (records[i].status == WEIR_STORE_BUSY) {
            status = error_set(error, WEIR_STORE_BUSY, "another transaction has locked %s", records[i].id);
        } else if (records[i].status == WEIR_FAILED) { /* left to claim.timeout, or it would keep all others here */
            record_events_emit_refused(node, &records[i], summary.refusal);
        }
    }
    return status;
}

enum weir_status unstartable_give_back(struct node *node, struct weir_error *error)
{
    INVARIANT(node != NULL);
    struct unstartable *unstartable = &node->dispatcher.unstartable;
    if (unstartable->batch == NULL) {
        return WEIR_OK;
    }
    if (unstartable->node_id != atomic_load(&node->shared.id)) { /* the lease was lost meanwhile: other nodes hold them */
        unstartable_drop(node);
        return WEIR_OK;
    }
    struct event event = {.type = EVENT_EXECUTION_DEFERRED,
                          .node = node->name,
                          .count = (int64_t)unstartable->count,
                          .code = reasons[unstartable->reason].code,
                          .error = reasons[unstartable->reason].text};
    while (unstartable->count > 0) {
        size_t count = unstartable->count < GIVE_BACK_SET ? unstartable->count : GIVE_BACK_SET;
        enum weir_status status = give_back_part(node, unstartable->items, count, error);
        if (status != WEIR_OK) {
            return status;
        }
        unstartable->items += count;
        unstartable->count -= count;
    }
    unstartable_drop(node);
    event_emit(node->events, &event);
    return WEIR_OK;
}
