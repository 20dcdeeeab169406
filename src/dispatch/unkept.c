/* What was claimed and found no room in memory goes back at once: the queue's safety net would see to it after minutes. */
#include <string.h>

#include "base/error.h"
#include "dispatch/node_parts.h"

enum { GIVE_BACK_SET = 32 }; /* on the stack: there is no memory */

static const char code[] = "out_of_memory";
static const char reason[] = "its node had no memory to start it";

void unkept_add(struct node *node, int64_t node_id, struct claim_batch *batch, const struct claimed_item *items,
                size_t count)
{
    INVARIANT(node->unkept.batch == NULL && count > 0);
    pthread_mutex_lock(&node->lock);
    batch->references++;
    pthread_mutex_unlock(&node->lock);
    node->unkept = (struct unkept){.batch = batch, .node_id = node_id, .items = items, .count = count};
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
    *record = (struct record){.kind = item_may_run_elsewhere(node, item) ? RECORD_GIVEN_BACK : RECORD_RELEASED,
                              .fence = item->fence,
                              .taken_over = item->handovers > 0,
                              .error_code = code,
                              .error = reason};
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
            status = error_set(error, WEIR_STORE_BUSY, "%s is held by somebody", records[i].id);
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
                          .code = code,
                          .error = reason};
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
