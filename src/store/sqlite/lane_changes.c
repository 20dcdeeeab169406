#include "store/sqlite/lane_changes.h"

void lane_changes_init(struct lane_changes *changes)
{
    changes->lane_count = 0;
    changes->workspace_count = 0;
    changes->slots_freed = 0;
    changes->last_lane = 0;
    changes->last_workspace = 0;
}

struct lane_change *lane_changes_lane(struct lane_changes *changes, struct connection *connection, int64_t lane_id,
                                      enum weir_status *ret_status, struct weir_error *error)
{
    for (size_t i = 0; i < changes->lane_count; i++) {
        size_t at = (changes->last_lane + i) % changes->lane_count;
        if (changes->lanes[at].id == lane_id) {
            changes->last_lane = at;
            return &changes->lanes[at];
        }
    }
    if (changes->lane_count == LANE_CHANGES_MAX) {
        enum weir_status status = lane_changes_write(changes, connection, error);
        *ret_status = *ret_status == WEIR_OK ? status : *ret_status;
    }
    changes->last_lane = changes->lane_count;
    struct lane_change *lane = &changes->lanes[changes->lane_count++];
    *lane = (struct lane_change){.id = lane_id};
    return lane;
}

struct workspace_counts *lane_changes_slots(struct lane_changes *changes, struct connection *connection,
                                            int64_t workspace_id, enum weir_status *ret_status, struct weir_error *error)
{
    for (size_t i = 0; i < changes->workspace_count; i++) {
        size_t at = (changes->last_workspace + i) % changes->workspace_count;
        if (changes->workspaces[at].id == workspace_id) {
            changes->last_workspace = at;
            return &changes->workspaces[at];
        }
    }
    if (changes->workspace_count == LANE_CHANGES_MAX) {
        enum weir_status status = lane_changes_write(changes, connection, error);
        *ret_status = *ret_status == WEIR_OK ? status : *ret_status;
    }
    changes->last_workspace = changes->workspace_count;
    struct workspace_counts *workspace = &changes->workspaces[changes->workspace_count++];
    *workspace = (struct workspace_counts){.id = workspace_id};
    return workspace;
}

struct workspace_counts *lane_changes_workspace(struct lane_changes *changes, struct connection *connection,
                                                int64_t workspace_id, enum weir_status *ret_status,
                                                struct weir_error *error)
{
    struct workspace_counts *counts = lane_changes_slots(changes, connection, workspace_id, ret_status, error);
    counts->look = true;
    return counts;
}

/* Writes the counters; tells whether the workspace was full before and is now (a paused one counts as full). */
static enum weir_status change_workspace(struct connection *connection, const struct workspace_counts *counts,
                                         bool *ret_was_full, bool *ret_is_full, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_SLOTS, "i", counts->id);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(connection, statement, &status, error)) {
        return status;
    }
    int64_t used = sqlite3_column_int64(statement, 0);
    int64_t most = sqlite3_column_int64(statement, 1);
    bool paused = sqlite3_column_int(statement, 2) != 0;
    (void)sqlite3_reset(statement);
    *ret_was_full = paused || used >= most;
    *ret_is_full = paused || used + counts->slots >= most;
    return connection_run(connection, error, NULL, QUERY_CHANGE_WORKSPACE, "iiiiii", counts->id, counts->slots,
                          counts->pending, counts->completed, counts->failed, counts->cancelled);
}

static enum weir_status write_workspace(struct lane_changes *changes, struct connection *connection,
                                        const struct workspace_counts *counts, struct weir_error *error)
{
    bool was_full = false;
    bool is_full = false;
    enum weir_status status = change_workspace(connection, counts, &was_full, &is_full, error);
    changes->slots_freed += counts->slots < 0 ? -counts->slots : 0;
    if (status == WEIR_OK && (counts->look || (is_full && !was_full))) {
        status = connection_run(connection, error, NULL, QUERY_CLOSE_LANES, "i", counts->id);
    }
    if (status == WEIR_OK && (counts->look || (was_full && !is_full))) {
        status = connection_run(connection, error, NULL, QUERY_OPEN_LANES, "i", counts->id);
    }
    return status;
}

enum weir_status lane_changes_write(struct lane_changes *changes, struct connection *connection, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < changes->lane_count && status == WEIR_OK; i++) {
        const struct lane_change *lane = &changes->lanes[i];
        if (lane->runnable != 0 || lane->waiting != 0) {
            status =
                connection_run(connection, error, NULL, QUERY_CHANGE_LANE, "iii", lane->id, lane->runnable, lane->waiting);
        }
    }
    for (size_t i = 0; i < changes->workspace_count && status == WEIR_OK; i++) {
        status = write_workspace(changes, connection, &changes->workspaces[i], error);
    }
    changes->lane_count = 0;
    changes->workspace_count = 0;
    changes->last_lane = 0;
    changes->last_workspace = 0;
    return status;
}
