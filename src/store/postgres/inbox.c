/* The inbox of a node: its assignments behind a position, and the state of the scheduler's role (functions/inbox.sql).
 *
 * One statement that only reads answers the poll of a node. The position is the fence and id of the last item that the node
 * has read. The node of the scheduler finds the assignments of a round with a lost answer in the same way.
 * If the items do not fit into the caller's memory, the next call reads half as many.
 *
 * This file never claims or releases an item. It runs in the dispatch thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

/* The columns of the query `inbox`. The last row has no item, but a request that waits and the state of the role. */
enum {
    ITEM_ID,
    ITEM_FENCE,
    ITEM_WORKSPACE,
    ITEM_DEFINITION,
    ITEM_PARAMS,
    ITEM_STARTS_REFUSED,
    ITEM_DEFERRALS,
    ITEM_INTERRUPTIONS,
    ITEM_HANDED_OVER,
    ITEM_CANCEL,
    ITEM_CREATED_AT,
    ITEM_RUN_AT,
    ITEM_DISPATCHED_AT,
    ITEM_CLAIMED_AT,
    ITEM_PRIORITY,
    ITEM_WEIGHT,
    ROLE_EPOCH,
    ROLE_NODE_ID,
    ROLE_NODE,
    ROLE_SINCE,
    ROLE_EXPIRES,
    ROLE_NOW,
    ROLE_FREE,
    ROLE_TAKEOVERS,
    ROLE_RENEWALS,
    ROLE_LEASE,
    ROLE_SERVER,
    ITEM_TRACEPARENT,
    ITEM_ASSIGNED_BEFORE,
    ITEM_INTERRUPTIONS_AT_PARK,
    ITEM_WOKEN_AT,
    ITEM_IS_SUSPECT,
    ITEM_LOST_A_NODE,
    ITEM_SIGNALS,
    ITEM_WORKSPACE_NAME
};

/* One item of the inbox, but its names. */
static void read_inbox_item(const PGresult *result, int row, struct arena *arena, struct claimed_item *item,
                            bool *ret_failed)
{
    int64_t dispatched_at_us = result_int(result, row, ITEM_DISPATCHED_AT);
    text_copy(item->id, sizeof item->id, result_text(result, row, ITEM_ID));
    item->fence = result_int(result, row, ITEM_FENCE);
    item->definition_id = result_int(result, row, ITEM_DEFINITION);
    item->starts_refused = (int)result_int(result, row, ITEM_STARTS_REFUSED);
    item->deferrals = (int)result_int(result, row, ITEM_DEFERRALS);
    item->interruptions = (int)result_int(result, row, ITEM_INTERRUPTIONS);
    item->interruptions_at_park = (int)result_int(result, row, ITEM_INTERRUPTIONS_AT_PARK);
    item->woken_at_us = result_int(result, row, ITEM_WOKEN_AT);
    item->is_suspect = result_bool(result, row, ITEM_IS_SUSPECT);
    item->lost_a_node = result_bool(result, row, ITEM_LOST_A_NODE);
    item->signals_seen = result_int(result, row, ITEM_SIGNALS);
    item->assigned_before = result_bool(result, row, ITEM_ASSIGNED_BEFORE);
    item->handed_over = result_bool(result, row, ITEM_HANDED_OVER);
    item->cancel_requested = result_bool(result, row, ITEM_CANCEL);
    item->created_at_us = result_int(result, row, ITEM_CREATED_AT);
    item->run_at_us = result_int(result, row, ITEM_RUN_AT);
    item->claimed_at_us = result_int(result, row, ITEM_CLAIMED_AT);
    item->priority = (int)result_int(result, row, ITEM_PRIORITY);
    item->traceparent = result_copy(result, row, ITEM_TRACEPARENT, arena, ret_failed);
    item->running_for_us = dispatched_at_us == 0 ? 0 : item->claimed_at_us - dispatched_at_us;
    claimed_set_params(item, result, row, ITEM_PARAMS, arena, ret_failed);
}

static void read_role(struct postgres_store *self, const PGresult *result, int row, struct role_state *role)
{
    role->epoch = result_int(result, row, ROLE_EPOCH);
    role->node_id = result_int(result, row, ROLE_NODE_ID);
    text_copy(role->node, sizeof role->node, result_text(result, row, ROLE_NODE));
    role->since_us = result_int(result, row, ROLE_SINCE);
    role->expires_us = result_int(result, row, ROLE_EXPIRES);
    role->now_us = result_int(result, row, ROLE_NOW);
    role->is_free = result_bool(result, row, ROLE_FREE);
    role->takeovers_hour = result_int(result, row, ROLE_TAKEOVERS);
    text_copy(role->server, sizeof role->server, result_text(result, row, ROLE_SERVER));
    role_watch_note(self, role, result_int(result, row, ROLE_RENEWALS), result_int(result, row, ROLE_LEASE));
}

/* All but the names and weights. False when memory ran out. */
static bool read_inbox_rows(struct postgres_store *self, const PGresult *result, struct arena *arena, struct inbox *inbox,
                            int64_t **ret_workspace_ids)
{
    int last = PQntuples(result) - 1;
    bool failed = false;
    INVARIANT(last >= 0 && result_null(result, last, ITEM_ID));
    read_role(self, result, last, &inbox->role);
    inbox->requests = result_bool(result, last, ITEM_CANCEL);
    struct claim_result *claimed = &inbox->claimed;
    claimed->now_us = inbox->role.now_us;
    claimed->items = arena_allocate(arena, ((size_t)last + 1) * sizeof *claimed->items);
    int64_t *workspace_ids = arena_allocate(arena, ((size_t)last + 1) * sizeof *workspace_ids);
    if (claimed->items == NULL || workspace_ids == NULL) {
        return false;
    }
    *ret_workspace_ids = workspace_ids;
    for (int row = 0; row < last && !failed; row++) {
        workspace_ids[row] = result_int(result, row, ITEM_WORKSPACE);
        read_inbox_item(result, row, arena, &claimed->items[row], &failed);
        claimed->handed_over += claimed->items[row].handed_over;
        claimed->count++;
    }
    return !failed;
}

enum weir_status postgres_inbox(struct store *store, int64_t node_id, struct inbox_position *position, size_t limit,
                                struct arena *arena, struct inbox *ret_inbox, struct weir_error *error)
{
    INVARIANT(node_id > 0 && position != NULL && ret_inbox != NULL);
    struct postgres_store *self = postgres_of(store);
    struct link *link = link_of(store);
    struct inbox inbox = {.more = false};
    PGresult *result = NULL;
    limit = self->inbox_fits > 0 && self->inbox_fits < limit ? self->inbox_fits : limit;
    enum weir_status status = link_read(link, error, &result, QUERY_INBOX, "iiud", node_id, position->fence,
                                        position->id[0] == '\0' ? UUID_FIRST : position->id, (int)limit);
    if (status != WEIR_OK) {
        return status;
    }
    int64_t *workspace_ids = NULL;
    status = read_inbox_rows(self, result, arena, &inbox, &workspace_ids) ? WEIR_OK : error_out_of_memory(error);
    if (status == WEIR_OK) {
        status = item_names_set(&self->names, link, arena, inbox.claimed.items, workspace_ids, inbox.claimed.count, error);
    }
    bool failed = false;
    for (size_t i = 0; i < inbox.claimed.count && status == WEIR_OK; i++) { /* the cache may have older ones */
        struct claimed_item *item = &inbox.claimed.items[i];
        item->weight = (int)result_int(result, (int)i, ITEM_WEIGHT);
        if (!result_null(result, (int)i, ITEM_WORKSPACE_NAME)) {
            item->workspace = result_copy(result, (int)i, ITEM_WORKSPACE_NAME, arena, &failed);
        }
    }
    status = failed ? error_out_of_memory(error) : status;
    PQclear(result);
    if (status == WEIR_OK) {
        status = claimed_read_steps(link, arena, &inbox.claimed, error);
    }
    if (status == WEIR_OK) {
        status = claimed_read_signals(link, arena, &inbox.claimed, error);
    }
    self->inbox_fits = status == WEIR_OUT_OF_MEMORY ? (limit + 1) / 2 : 0;
    if (status != WEIR_OK) {
        return status;
    }
    inbox.more = limit > 0 && inbox.claimed.count == limit;
    inbox.requests = inbox.requests || self->requests_in_doubt;
    if (inbox.claimed.count > 0) {
        const struct claimed_item *last = &inbox.claimed.items[inbox.claimed.count - 1];
        position->fence = last->fence;
        memcpy(position->id, last->id, sizeof position->id);
    }
    *ret_inbox = inbox;
    return WEIR_OK;
}
