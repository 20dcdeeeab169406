/* The rows of the timeline of slots (store/slot_timeline.h).
 *
 * A window ends where the nearer one of two ends: that of the queue and that of the history, as for a list of executions.
 * The events of each execution are read along the primary key of the events.
 *
 * Never writes. */
#include "store/sqlite/slot_timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/slot_timeline.h"
#include "store/sqlite/filter_query.h"
#include "store/sqlite/row_json.h"

/* Adds the ids of a bound statement, up to the most. */
static enum weir_status sqlite_add_slot_ids(struct connection *connection, sqlite3_stmt *statement, struct slot_ids *ids,
                                            struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (ids->count < ids->most && connection_step(connection, statement, &status, error)) {
        const char *id = column_text(statement, 0);
        text_copy(ids->ids[ids->count++], UUID_TEXT_MAX, id == NULL ? "" : id);
    }
    (void)sqlite3_reset(statement);
    return status;
}

/* struct slot_timeline_rows, read_held. */
static enum weir_status sqlite_read_held(void *context, const char *workspace, struct slot_ids *held,
                                         struct weir_error *error)
{
    return sqlite_add_slot_ids(
        context, connection_bind(context, error, QUERY_SLOT_TIMELINE_HELD, "ti", workspace, (int64_t)held->most), held,
        error);
}

/* struct slot_timeline_rows, read_window. */
static enum weir_status sqlite_read_window(void *context, const char *workspace, const char *below, int64_t since_us,
                                           struct slot_ids *waiting, struct slot_ids *ended, char ret_end[UUID_TEXT_MAX],
                                           struct weir_error *error)
{
    struct connection *connection = context;
    ret_end[0] = '\0';
    enum weir_status status = filter_end_window(connection, QUERY_LIVE_WINDOW_DESCENDING, below, true, ret_end, error);
    if (status == WEIR_OK) {
        status = filter_end_window(connection, QUERY_ENDED_WINDOW_DESCENDING, below, true, ret_end, error);
    }
    if (status == WEIR_OK) {
        status = sqlite_add_slot_ids(connection,
                                     connection_bind(connection, error, QUERY_SLOT_TIMELINE_WAITING, "ttti", below, ret_end,
                                                     workspace, (int64_t)(waiting->most - waiting->count)),
                                     waiting, error);
    }
    if (status == WEIR_OK) {
        status = sqlite_add_slot_ids(connection,
                                     connection_bind(connection, error, QUERY_SLOT_TIMELINE_ENDED, "tttii", below, ret_end,
                                                     workspace, (int64_t)(ended->most - ended->count), since_us),
                                     ended, error);
    }
    return status;
}

/* The moves of one execution, which come newest first and are turned round. */
static enum weir_status read_moves_of(struct connection *connection, const char *id, size_t execution,
                                      struct slot_move *moves, size_t *count, struct weir_error *error)
{
    size_t first = *count;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_SLOT_MOVES, "tii", id, (int64_t)SLOT_EVENTS_MOST,
                                              (int64_t)SLOT_MOVES_MOST);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (*count < first + SLOT_MOVES_MOST && connection_step(connection, statement, &status, error)) {
        struct slot_move move = {.execution = execution, .at_us = sqlite3_column_int64(statement, 0)};
        if (slot_move_parse(column_text(statement, 1), &move.kind)) {
            moves[(*count)++] = move;
        }
    }
    (void)sqlite3_reset(statement);
    for (size_t a = first, b = *count; a + 1 < b; a++) {
        struct slot_move last = moves[--b];
        moves[b] = moves[a];
        moves[a] = last;
    }
    return status;
}

/* struct slot_timeline_rows, read_moves. */
static enum weir_status sqlite_read_moves(void *context, const char *const *ids, size_t count, struct slot_move **ret_moves,
                                          size_t *ret_count, struct weir_error *error)
{
    struct slot_move *moves = calloc(count * SLOT_MOVES_MOST + 1, sizeof *moves);
    enum weir_status status = moves == NULL ? error_out_of_memory(error) : WEIR_OK;
    *ret_count = 0;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = read_moves_of(context, ids[i], i, moves, ret_count, error);
    }
    *ret_moves = moves;
    return status;
}

enum weir_status sqlite_list_slot_timeline(struct connection *connection, const struct list_options *options,
                                           json_t **ret_page, struct weir_error *error)
{
    INVARIANT(connection != NULL && options != NULL && options->name != NULL && ret_page != NULL);
    const struct slot_timeline_rows rows = {.read_held = sqlite_read_held,
                                            .read_window = sqlite_read_window,
                                            .show = row_json_executions,
                                            .read_moves = sqlite_read_moves,
                                            .context = connection,
                                            .newest_bound = ID_BOUND_NEWEST};
    return slot_timeline_list(&rows, options, ret_page, error);
}
