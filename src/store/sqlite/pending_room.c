/* The room of a workspace for PENDING executions: max_pending of its plan or its own.
 *
 * A counter that each enqueue writes would be one more row per set, and each claim would have to write it, too. So the rows
 * are counted by index, at most as many as the limit, and seldom:
 *
 *   1. A count holds until the end of its transaction, exactly, because a writer is alone.
 *   2. It then lets the handle enqueue the 64th part of the free places without another count, for about a second, by
 *      transactions that need no further place. So several handles together may pass the limit by one 64th each.
 *   3. A count of many rows holds longer, so that counting stays a small part of the work.
 *   4. So does a count of many rows that found the workspace full: refusals for a moment need no other one. Each count
 *      keeps the writer, so a program that enqueues in a loop would delay all workspaces.
 *
 * It reads the queue alone, so the limit holds where no node runs. It never writes. Runs in the caller's thread.
 */
#include "store/sqlite/pending_room.h"

#include "base/error.h"

enum { ROOM_PARTS = 64 };
#define ROOM_US (1 * MICROSECONDS_PER_SECOND)
#define ROOM_ROW_US 10           /* longer, for each row that was counted */
enum { FULL_ROWS_LEAST = 1000 }; /* fewer are counted for each refusal */
#define FULL_ROW_US 4            /* about twenty times as long as the count takes */
#define FULL_MOST_US ROOM_US

static bool is_counted(const struct pending_room *room, const struct pending_count *count, int64_t workspace_id)
{
    return room->workspace_id == workspace_id && room->most == count->most;
}

/* Places that the handle has left of an earlier count, or none. A transaction that needs more of them counts first. */
static bool take_kept(struct pending_room *room, struct pending_count *count, int64_t workspace_id, int64_t now_us)
{
    bool is_known = is_counted(room, count, workspace_id) && now_us < room->until_us;
    count->uses_kept = is_known && room->left > 0 && (count->uses_kept || room->left >= count->wanted);
    room->left -= count->uses_kept;
    return count->uses_kept;
}

enum weir_status pending_room_take(struct connection *connection, struct pending_room *rooms, struct pending_count *count,
                                   int64_t workspace_id, int64_t now_us, struct weir_error *error)
{
    INVARIANT(connection != NULL && rooms != NULL && count != NULL && workspace_id > 0);
    struct pending_room *room = &rooms[(uint64_t)workspace_id % PENDING_ROOMS];
    if (count->most == 0 || (count->left < 0 && take_kept(room, count, workspace_id, now_us))) {
        return WEIR_OK;
    }
    if (count->left < 0 && is_counted(room, count, workspace_id) && now_us < room->full_until_us) {
        return WEIR_QUEUE_FULL;
    }
    if (count->left < 0) {
        int64_t pending = 0;
        enum weir_status status =
            connection_read_integer(connection, error, &pending, QUERY_COUNT_PENDING, "ii", workspace_id, count->most);
        if (status != WEIR_OK) {
            return status;
        }
        count->left = count->most - pending;
        *room = (struct pending_room){.workspace_id = workspace_id,
                                      .most = count->most,
                                      .until_us = time_add(now_us, ROOM_US + pending * ROOM_ROW_US)};
    }
    if (count->left == 0) {
        if (is_counted(room, count, workspace_id) && count->most >= FULL_ROWS_LEAST) {
            int64_t keep_us = count->most * FULL_ROW_US;
            room->full_until_us = time_add(now_us, keep_us < FULL_MOST_US ? keep_us : FULL_MOST_US);
        }
        return WEIR_QUEUE_FULL;
    }
    count->left--;
    if (room->workspace_id == workspace_id) {
        room->left = count->left / ROOM_PARTS;
    }
    return WEIR_OK;
}
