/* Parks of a set: CLAIMED or DISPATCHED items become WAITING.
 *
 *   1. Reckon the start of each execution, when the park records it, and the time until which it waits.
 *   2. Write the steps that wait.
 *   3. Insert one event for each item. It has the times of the claim that ends, because the row of the queue loses them.
 *      Before it insert the wake that ended the wait before this one, if only the row has it.
 *   4. Update the rows of the queue.
 *   5. Note each park in the news and in the stream. An item with a signal that its engine had not got when it reported
 *      the park wakes at once.
 *
 * Each of the steps 2 to 4 is one statement over the virtual table parameter_rows. Runs inside the caller's write
 * transaction; it never commits.
 */
#include "store/sqlite/parks.h"

#include "base/error.h"
#include "store/sqlite/signals.h"
#include "store/sqlite/stream.h"

/* Step 1. The start is never before the claim, and not after the first step of the claim. The row keeps the first start of
 * the execution, and the event has that of this claim. */
static void reckon(const struct write *write, struct held_item *item)
{
    const struct record *record = item->record;
    int64_t started_us = time_later(write->now_us - record->started_ago_us, item->claimed_us);
    bool is_first = item->dispatched_us == 0;
    if (is_first) {
        item->dispatched_us = time_earlier(started_us, item->first_step_us);
    }
    item->started_us = item->is_claimed && item->was_interrupted ? started_us : item->dispatched_us;
    if (item->has_dispatch_event) {
        item->started_us = 0;
    }
    item->due_us = time_add(write->asked_us, record->delay_us);
    time_format(item->due_us, item->until);
}

static struct parameter_row row_of_park(const struct held_item *item)
{
    const struct record *record = item->record;
    return (struct parameter_row){.id = record->id,
                                  .fence = record->fence,
                                  .number = item->number,
                                  .node_id = item->node_id,
                                  .status = wait_kind_name(record->waiting_for),
                                  .error = item->due_us == TIME_NEVER ? NULL : item->until,
                                  .claimed_us = item->claimed_us,
                                  .dispatched_us = item->dispatched_us,
                                  .started_us = item->started_us,
                                  .due_us = item->due_us};
}

/* Step 5. */
static enum weir_status note_park(struct write *write, const struct held_item *item, struct weir_error *error)
{
    const struct record *record = item->record;
    int64_t workspace_id = lane_workspace_id(item->lane_id);
    enum weir_status status = WEIR_OK;
    struct lane_delta *delta =
        news_lane(&write->news, write->connection, NEWS_PUT_BACK, item->node_id, item->lane_id, &status, error);
    delta->held--;
    news_add_parked(&write->news, delta, item->due_us);
    if (status == WEIR_OK && item->is_claimed) {
        status = stream_add(&write->news, write->connection, STREAM_DISPATCH, record->id, workspace_id, error);
    }
    if (status == WEIR_OK) {
        status = stream_add(&write->news, write->connection, STREAM_PARK, record->id, workspace_id, error);
    }
    struct waking waking = {.id = record->id, .lane_id = item->lane_id, .rank = item->rank, .fence = record->fence};
    return status == WEIR_OK && item->signals > record->signals_seen ? item_wake(write, &waking, error) : status;
}

enum weir_status parks_move(struct held_items *parks, struct write *write, int64_t node_id, struct weir_error *error)
{
    INVARIANT(parks != NULL && write->connection != NULL);
    struct connection *connection = write->connection;
    size_t count = 0;
    bool any_wake = false;
    for (size_t i = 0; i < parks->count; i++) {
        if (parks->items[i].number > 0) {
            any_wake |= parks->items[i].has_wake;
            reckon(write, &parks->items[i]);
        }
    }
    enum weir_status status = held_write_steps(parks, write, node_id, error);
    for (size_t i = 0; i < parks->count; i++) {
        if (parks->items[i].number > 0) {
            parks->rows[count++] = row_of_park(&parks->items[i]);
        }
    }
    connection->parameter_rows = (struct parameter_rows){.rows = parks->rows, .count = count};
    if (status == WEIR_OK && any_wake) {
        status = connection_run(connection, error, NULL, QUERY_ADD_WAKE_EVENTS, "");
    }
    if (status == WEIR_OK && count > 0) {
        status = connection_run(connection, error, NULL, QUERY_ADD_PARK_EVENTS, "i", write->now_us);
    }
    if (status == WEIR_OK && count > 0) {
        status = connection_run(connection, error, NULL, QUERY_PARK_ITEMS, "");
    }
    connection->parameter_rows = (struct parameter_rows){.count = 0};
    for (size_t i = 0; i < parks->count && status == WEIR_OK; i++) {
        if (parks->items[i].number > 0) {
            status = note_park(write, &parks->items[i], error);
        }
    }
    return status;
}
