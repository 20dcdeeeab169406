/* The rows of the timeline of slots (store/slot_timeline.h).
 *
 * A window ends as that of a list of executions does. One statement has the moves of all executions of an answer; the
 * server reads the events of each along their primary key, in the archive, too.
 *
 * Never writes. */
#include "store/postgres/slot_timeline.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/uuid.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/read.h"
#include "store/slot_timeline.h"

static void postgres_add_slot_id(struct slot_ids *ids, const PGresult *result, int row)
{
    INVARIANT(ids->count < ids->most); /* the LIMIT of the query */
    text_copy(ids->ids[ids->count++], UUID_TEXT_MAX, result_text(result, row, 0));
}

/* struct slot_timeline_rows, read_held. */
static enum weir_status postgres_read_held(void *context, const char *workspace, struct slot_ids *held,
                                           struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status =
        link_read(context, error, &result, QUERY_SLOT_TIMELINE_HELD, "ti", workspace, (int64_t)held->most);
    for (int row = 0; status == WEIR_OK && row < PQntuples(result); row++) {
        postgres_add_slot_id(held, result, row);
    }
    PQclear(result);
    return status;
}

/* struct slot_timeline_rows, read_window. */
static enum weir_status postgres_read_window(void *context, const char *workspace, const char *below, int64_t since_us,
                                             struct slot_ids *waiting, struct slot_ids *ended, char ret_end[UUID_TEXT_MAX],
                                             struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status =
        postgres_find_window_end(context, QUERY_WINDOW_DESCENDING, below, ITEM_STATES_ALL, ret_end, error);
    if (status == WEIR_OK) {
        status = link_read(context, error, &result, QUERY_SLOT_TIMELINE_WINDOW, "uutiii", below,
                           ret_end[0] == '\0' ? UUID_FIRST : ret_end, workspace, (int64_t)(waiting->most - waiting->count),
                           (int64_t)(ended->most - ended->count), since_us);
    }
    for (int row = 0; status == WEIR_OK && row < PQntuples(result); row++) {
        postgres_add_slot_id(PQgetvalue(result, row, 1)[0] == 't' ? ended : waiting, result, row);
    }
    PQclear(result);
    return status;
}

/* struct slot_timeline_rows, read_moves. */
static enum weir_status postgres_read_moves(void *context, const char *const *ids, size_t count,
                                            struct slot_move **ret_moves, size_t *ret_count, struct weir_error *error)
{
    PGresult *result = NULL;
    size_t used = 0;
    enum weir_status status = link_read(context, error, &result, QUERY_SLOT_MOVES, "Uii", ids, count,
                                        (int64_t)SLOT_EVENTS_MOST, (int64_t)SLOT_MOVES_MOST);
    if (status != WEIR_OK) {
        return status;
    }
    int rows = PQntuples(result);
    struct slot_move *moves = calloc((size_t)rows + 1, sizeof *moves);
    for (int row = 0; moves != NULL && row < rows; row++) {
        struct slot_move move = {.execution = (size_t)result_int(result, row, 0), .at_us = result_int(result, row, 1)};
        if (slot_move_parse(result_text(result, row, 2), &move.kind)) {
            moves[used++] = move;
        }
    }
    PQclear(result);
    if (moves == NULL) {
        return error_out_of_memory(error);
    }
    *ret_moves = moves;
    *ret_count = used;
    return WEIR_OK;
}

enum weir_status postgres_list_slot_timeline(struct link *link, const void *request, json_t **ret_page,
                                             struct weir_error *error)
{
    INVARIANT(link != NULL && request != NULL && ret_page != NULL);
    const struct slot_timeline_rows rows = {.read_held = postgres_read_held,
                                            .read_window = postgres_read_window,
                                            .show = postgres_show_executions,
                                            .read_moves = postgres_read_moves,
                                            .context = link,
                                            .newest_bound = UUID_LAST};
    return slot_timeline_list(&rows, request, ret_page, error);
}
