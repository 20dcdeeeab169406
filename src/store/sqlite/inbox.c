/* The inbox of a node: the assignments of the scheduler to it, and whether any node schedules.
 *
 * The position holds the number of a row, in decimal digits: within one fence, items are delivered in the order of
 * enqueueing. A position that a caller has made of an item's id is understood too. The read asks for one row more than
 * the limit, and so knows whether more are left. Definitions are read by their id; they never change, so that callers
 * may cache them.
 *
 * Reading the inbox never writes, so that polling nodes do not compete for the writer. The dispatch thread of a node
 * runs it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/refusal.h"
#include "store/sqlite/claimed.h"

/* Row numbers of the node behind the position, in the order of fence and number. */
static enum weir_status read_numbers(struct connection *connection, int64_t node_id, const struct inbox_position *position,
                                     size_t limit, int64_t *numbers, size_t *ret_count, struct weir_error *error)
{
    size_t count = 0;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_INBOX_ITEMS, "iiti", node_id, position->fence,
                                              position->id, (int64_t)limit);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (count < limit && connection_step(connection, statement, &status, error)) {
        numbers[count++] = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_reset(statement);
    *ret_count = count;
    return status;
}

/* Reads the items of the inbox and moves the position behind the last one. */
static enum weir_status read_items(struct claimed *claimed, int64_t node_id, struct inbox_position *position, size_t limit,
                                   struct inbox *inbox, struct weir_error *error)
{
    size_t count = 0;
    int64_t *numbers = arena_allocate(claimed->arena, (limit + 1) * sizeof *numbers);
    struct claimed_item *items = arena_allocate(claimed->arena, (limit + 1) * sizeof *items);
    if (numbers == NULL || items == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = read_numbers(claimed->connection, node_id, position, limit + 1, numbers, &count, error);
    inbox->more = count > limit;
    count = inbox->more ? limit : count;
    if (status == WEIR_OK) {
        status = claimed_read(claimed, numbers, count, items, error);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        inbox->claimed.handed_over += items[i].handed_over;
    }
    if (status == WEIR_OK && count > 0) {
        position->fence = items[count - 1].fence;
        memcpy(position->id, items[count - 1].id, sizeof position->id);
    }
    inbox->claimed.items = items;
    inbox->claimed.count = count;
    return status;
}

/* Items, requests and the role, from one snapshot. */
static enum weir_status read_inbox(struct connection *connection, int64_t node_id, struct inbox_position *position,
                                   size_t limit, struct arena *arena, struct inbox *inbox, struct weir_error *error)
{
    int64_t requests = 0;
    struct claimed claimed = {.connection = connection, .arena = arena};
    enum weir_status status = connection_store_time(connection, &claimed.now_us, error);
    inbox->claimed.now_us = claimed.now_us;
    if (status == WEIR_OK && limit > 0) {
        status = read_items(&claimed, node_id, position, limit, inbox, error);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &requests, QUERY_HAS_REQUESTS, "i", node_id);
    }
    inbox->requests = requests != 0;
    return status == WEIR_OK ? role_read(connection, claimed.now_us, &inbox->role, error) : status;
}

enum weir_status sqlite_inbox(struct store *store, int64_t node_id, struct inbox_position *position, size_t limit,
                              struct arena *arena, struct inbox *ret_inbox, struct weir_error *error)
{
    INVARIANT(node_id > 0 && position != NULL && arena != NULL && limit <= CLAIM_BATCH_MOST);
    struct connection *connection;
    struct inbox inbox = {0};
    struct inbox_position moved = *position;
    enum weir_status status = snapshot_begin(store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = read_inbox(connection, node_id, &moved, limit, arena, &inbox, error);
    snapshot_end(connection);
    if (status == WEIR_OK) {
        *position = moved;
        *ret_inbox = inbox;
    }
    return status;
}

enum weir_status sqlite_read_definition(struct store *store, int64_t definition_id, struct arena *arena,
                                        struct definition_text *ret_definition, struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_definition != NULL);
    struct connection *connection;
    enum weir_status status = store_reader(store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_DEFINITION, "i", definition_id);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(connection, statement, &status, error)) {
        return status != WEIR_OK ? status : refusal_definition_missing(definition_id, error);
    }
    bool failed = false;
    struct definition_text definition = {
        .id = definition_id,
        .name = column_copy(statement, 1, arena, &failed),
        .text = column_copy(statement, 2, arena, &failed),
        .version = sqlite3_column_int(statement, 3),
        .workspace = column_copy(statement, 4, arena, &failed),
    };
    (void)sqlite3_reset(statement);
    if (failed) {
        return error_out_of_memory(error);
    }
    *ret_definition = definition;
    return WEIR_OK;
}
