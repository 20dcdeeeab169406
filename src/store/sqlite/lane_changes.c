#include "store/sqlite/lane_changes.h"

#include <string.h>

#include "base/error.h"

static void empty_tables(struct lane_changes *changes)
{
    if (changes->lane_count > 0) {
        memset(changes->lane_slots, 0, sizeof changes->lane_slots);
    }
    if (changes->workspace_count > 0) {
        memset(changes->workspace_slots, 0, sizeof changes->workspace_slots);
    }
    changes->lane_count = 0;
    changes->workspace_count = 0;
}

void lane_changes_init(struct lane_changes *changes)
{
    memset(changes->lane_slots, 0, sizeof changes->lane_slots);
    memset(changes->workspace_slots, 0, sizeof changes->workspace_slots);
    changes->lane_count = 0;
    changes->workspace_count = 0;
    changes->slots_freed = 0;
}

/* Ids are small numbers in a row: they fill the table without meeting each other. */
static size_t slot_of(int64_t id, size_t tries)
{
    return ((size_t)id + tries) % LANE_CHANGES_SLOTS;
}

struct lane_change *lane_changes_lane(struct lane_changes *changes, struct connection *connection, int64_t lane_id,
                                      enum weir_status *ret_status, struct weir_error *error)
{
    if (changes->lane_count == LANE_CHANGES_MAX) {
        enum weir_status status = lane_changes_write(changes, connection, error);
        *ret_status = *ret_status == WEIR_OK ? status : *ret_status;
    }
    for (size_t tries = 0;; tries++) {
        uint16_t *slot = &changes->lane_slots[slot_of(lane_id, tries)];
        if (*slot == 0) {
            struct lane_change *lane = &changes->lanes[changes->lane_count++];
            *slot = (uint16_t)changes->lane_count;
            *lane = (struct lane_change){.id = lane_id};
            return lane;
        }
        if (changes->lanes[*slot - 1].id == lane_id) {
            return &changes->lanes[*slot - 1];
        }
    }
}

struct workspace_counts *lane_changes_workspace(struct lane_changes *changes, struct connection *connection,
                                                int64_t workspace_id, enum lane_look look, enum weir_status *ret_status,
                                                struct weir_error *error)
{
    if (changes->workspace_count == LANE_CHANGES_MAX) {
        enum weir_status status = lane_changes_write(changes, connection, error);
        *ret_status = *ret_status == WEIR_OK ? status : *ret_status;
    }
    struct workspace_counts *workspace = NULL;
    for (size_t tries = 0; workspace == NULL; tries++) {
        uint16_t *slot = &changes->workspace_slots[slot_of(workspace_id, tries)];
        if (*slot == 0) {
            workspace = &changes->workspaces[changes->workspace_count++];
            *slot = (uint16_t)changes->workspace_count;
            *workspace = (struct workspace_counts){.id = workspace_id};
        } else if (changes->workspaces[*slot - 1].id == workspace_id) {
            workspace = &changes->workspaces[*slot - 1];
        }
    }
    workspace->look = look > workspace->look ? look : workspace->look;
    return workspace;
}

/* Whether the workspace is full before the change, and will be after it (a paused one counts as full). */
static enum weir_status read_fullness(struct connection *connection, const struct workspace_counts *counts,
                                      bool *ret_was_full, bool *ret_is_full, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_SLOTS, "i", counts->id);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(connection, statement, &status, error)) {
        return status == WEIR_OK ? error_set(error, WEIR_STORE_CORRUPT, "a workspace of the set is missing") : status;
    }
    int64_t used = sqlite3_column_int64(statement, 0);
    int64_t most = sqlite3_column_int64(statement, 1);
    bool paused = sqlite3_column_int(statement, 2) != 0;
    (void)sqlite3_reset(statement);
    *ret_was_full = paused || used >= most;
    *ret_is_full = paused || used + counts->slots >= most;
    return WEIR_OK;
}

static enum weir_status write_workspace(struct lane_changes *changes, struct connection *connection,
                                        const struct workspace_counts *counts, struct weir_error *error)
{
    bool was_full = false;
    bool is_full = false;
    enum weir_status status = WEIR_OK;
    if (counts->look != LOOK_NEVER) {
        status = read_fullness(connection, counts, &was_full, &is_full, error);
    }
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_CHANGE_WORKSPACE, "iiiiii", counts->id, counts->slots,
                                counts->pending, counts->completed, counts->failed, counts->cancelled);
    }
    changes->slots_freed += counts->slots < 0 ? -counts->slots : 0;
    if (status == WEIR_OK && (counts->look == LOOK_ALWAYS || (is_full && !was_full))) {
        status = connection_run(connection, error, NULL, QUERY_CLOSE_LANES, "id", counts->id, is_full ? 1 : 0);
    }
    if (status == WEIR_OK && !is_full && (counts->look >= LOOK_TO_OPEN || was_full)) {
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
    empty_tables(changes);
    return status;
}
