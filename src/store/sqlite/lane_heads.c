/* The first runnable items of a lane, and the limits of its workspace, as a read of the scheduler. */
#include "store/sqlite/lane_heads.h"

#include "base/error.h"
#include "store/sqlite/facts.h"

/* Reads the limits of the workspace of a lane. */
static enum weir_status read_limits(struct connection *connection, struct lane_read *read, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_WORKSPACE_LIMITS, "i", lane_workspace_id(read->lane_id));
    if (statement == NULL) {
        return statement_failure(error);
    }
    read->workspace_exists = connection_step(connection, statement, &status, error);
    if (read->workspace_exists) {
        read->slots_max = sqlite3_column_int64(statement, 0);
        read->weight = sqlite3_column_int(statement, 1);
        read->workspace_paused = sqlite3_column_int(statement, 2) != 0;
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* Reads the first runnable items of a lane behind the given rank. */
static enum weir_status read_heads(struct connection *connection, struct arena *arena, struct lane_read *read,
                                   struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    struct schedule_head *heads = arena_allocate(arena, (read->most + 1) * sizeof *heads);
    if (heads == NULL) {
        return error_out_of_memory(error);
    }
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_LANE_HEADS, "iiii", read->lane_id, read->after_rank,
                                              facts_read_id(read->after_id), (int64_t)read->most + 1);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (count <= read->most && connection_step(connection, statement, &status, error)) {
        heads[count].rank = sqlite3_column_int64(statement, 0);
        facts_write_id(sqlite3_column_int64(statement, 1), heads[count].id);
        count++;
    }
    (void)sqlite3_reset(statement);
    read->heads = heads;
    read->is_all = count <= read->most;
    read->count = read->is_all ? count : read->most;
    return status;
}

enum weir_status lane_heads_read(struct connection *connection, struct arena *arena, struct lane_read *read,
                                 struct weir_error *error)
{
    INVARIANT(connection != NULL && arena != NULL && read != NULL);
    enum weir_status status = read_limits(connection, read, error);
    return status == WEIR_OK ? read_heads(connection, arena, read, error) : status;
}
