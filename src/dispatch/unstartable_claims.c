/* Assigned items that this node will not start go back to the queue at once: it has no memory for them, or it starts
 * nothing now (paused, draining, stopping, its engine away). Left alone they would hold their slots until the queue's
 * safety net finds them, minutes later. */
#include <string.h>

#include "base/error.h"
#include "dispatch/node_internal.h"

enum { GIVE_BACK_SET = 32 }; /* on the stack: there is no memory */

static const struct {
    const char *code;
    const char *text;
} reasons[] = {
    [UNKEPT_OUT_OF_MEMORY] = {"out_of_memory", "its node had no memory to start it"},
    [UNKEPT_NOT_STARTING] = {"node_not_starting", "its node starts nothing now"},
};

void unkept_add(struct node *node, int64_t node_id, struct claim_batch *batch, const struct claimed_item *items,
                size_t count, enum unkept_reason reason)
{
    INVARIANT(node->unkept.batch == NULL && count > 0);
    pthread_mutex_lock(&node->lock);
    batch->references++;
    pthread_mutex_unlock(&node->lock);
    node->unkept = (struct unkept){.batch = batch, .node_id = node_id, .items = items, .count = count, .reason = reason};
}

void unkept_drop(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    claim_batch_release(node->unkept.batch);
    pthread_mutex_unlock(&node->lock);
    node->unkept = (struct unkept){.batch = NULL};
}

/* What a dead node may have started keeps its slot and is handed over once more. */
static void plan(const struct node *node, const struct claimed_item *item, struct record *record)
{
    *record = (struct record){.kind = item_may_run_elsewhere(node, item) ? RECORD_GIVEN_BACK : RECORD_PUT_BACK,
                              .fence = item->fence,
                              .taken_over = item->interruptions > 0,
                              .error_code = reasons[node->unkept.reason].code,
                              .error = reasons[node->unkept.reason].text};
    memcpy(record->id, item->id, sizeof record->id);
}

/* A set that was left out in part is repeated as a whole: who is told twice changes nothing. */
static enum weir_status give_back_set(struct node *node, const struct claimed_item *items, size_t count,
                                      struct weir_error *error)
{
    struct record records[GIVE_BACK_SET];
    struct record_summary summary = {0};
    for (size_t i = 0; i < count; i++) {
        plan(node, &items[i], &records[i]);
    }
    enum weir_status status =
        store_record(node->stores[LOOP_DISPATCH], node->unkept.node_id, records, count, &summary, error);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        if (records[i].status == WEIR_STORE_BUSY) {
            status = error_set(error, WEIR_STORE_BUSY, "another transaction has locked %s", records[i].id);
        }
    }
    return status;
}

enum weir_status unkept_give_back(struct node *node, struct weir_error *error)
{
    struct unkept *unkept = &node->unkept;
    struct event event = {.type = EVENT_EXECUTION_DEFERRED,
                          .node = node->name,
                          .count = (int64_t)unkept->count,
                          .code = reasons[unkept->reason].code,
                          .error = reasons[unkept->reason].text};
    if (unkept->batch == NULL) {
        return WEIR_OK;
    }
    if (unkept->node_id != atomic_load(&node->id)) { /* the lease was lost meanwhile: others have it */
        unkept_drop(node);
        return WEIR_OK;
    }
    while (unkept->count > 0) {
        size_t count = unkept->count < GIVE_BACK_SET ? unkept->count : GIVE_BACK_SET;
        enum weir_status status = give_back_set(node, unkept->items, count, error);
        if (status != WEIR_OK) {
            return status;
        }
        unkept->items += count;
        unkept->count -= count;
    }
    unkept_drop(node);
    event_emit(node->events, &event);
    return WEIR_OK;
}
