/* The history on PostgreSQL: a table of at most HISTORY_ROWS_MOST rows (queries/history.sql).
 *
 * A row is one statement, which also removes what the table no longer keeps. It touches no row of the queue and waits only
 * for another node that removes the same rows. The duties thread of a node writes; any thread with a handle reads.
 */
#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

enum weir_status postgres_sample_history(struct store *store, struct arena *arena, struct history_sample *ret_sample,
                                         struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_sample != NULL);
    PGresult *result = NULL;
    enum weir_status status =
        link_read(link_of(store), error, &result, QUERY_SAMPLE_HISTORY, "d", (int)HISTORY_WORKSPACES_MOST);
    if (status != WEIR_OK) {
        return status;
    }
    size_t rows = (size_t)PQntuples(result);
    struct history_sample sample = {.now_us = result_int(result, 0, 4),
                                    .completed = result_int(result, 0, 1),
                                    .failed = result_int(result, 0, 2),
                                    .cancelled = result_int(result, 0, 3),
                                    .workspaces = arena_allocate(arena, rows * sizeof *sample.workspaces)};
    for (size_t i = 1; i < rows && sample.workspaces != NULL; i++) {
        sample.workspaces[sample.workspace_count++] =
            (struct history_workspace){.id = result_int(result, (int)i, 0),
                                       .slots_used = result_int(result, (int)i, 1),
                                       .slots_max = result_int(result, (int)i, 2),
                                       .pending = result_int(result, (int)i, 3)};
    }
    PQclear(result);
    if (sample.workspaces == NULL) {
        return error_out_of_memory(error);
    }
    *ret_sample = sample;
    return WEIR_OK;
}

enum weir_status postgres_write_history(struct store *store, const struct history_row *row, int64_t folds_from_us,
                                        struct weir_error *error)
{
    INVARIANT(row != NULL);
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    return link_run(link_of(store), error, NULL, QUERY_WRITE_HISTORY, "iiobiiid", row->at_us, row->span_us,
                    row->is_folded ? 1 : 0, row->facts, row->length, folds_from_us, (int64_t)HISTORY_KEEP_US,
                    (int64_t)HISTORY_AHEAD_US, (int)HISTORY_ROWS_MOST);
}

static enum weir_status find_workspace_of_history(struct link *link, const char *name, int64_t *ret_id,
                                                  struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status = link_read(link, error, &result, QUERY_WORKSPACE_OF_HISTORY, "t", name);
    if (status != WEIR_OK) {
        return status;
    }
    bool is_found = PQntuples(result) == 1;
    *ret_id = is_found ? result_int(result, 0, 0) : 0;
    PQclear(result);
    return is_found ? WEIR_OK : error_set(error, WEIR_WORKSPACE_NOT_FOUND, "there is no workspace \"%s\"", name);
}

enum weir_status postgres_read_history(struct store *store, const struct history_query *query, struct arena *arena,
                                       struct history_rows *ret_rows, struct weir_error *error)
{
    INVARIANT(query != NULL && arena != NULL && ret_rows != NULL);
    PGresult *result = NULL;
    struct history_rows rows = {.count = 0};
    enum weir_status status = WEIR_OK;
    if (query->workspace != NULL) {
        status = find_workspace_of_history(link_of(store), query->workspace, &rows.workspace_id, error);
    }
    if (status == WEIR_OK) {
        status = link_read(link_of(store), error, &result, QUERY_READ_HISTORY, "iiod", query->since_us, query->until_us,
                           query->not_folded ? 1 : 0, (int)query->most);
    }
    if (status != WEIR_OK) {
        return status;
    }
    rows.count = (size_t)PQntuples(result);
    rows.rows = arena_allocate(arena, (rows.count + 1) * sizeof *rows.rows);
    bool failed = rows.rows == NULL;
    for (size_t i = 0; i < rows.count && !failed; i++) {
        struct history_row *row = &rows.rows[i];
        *row = (struct history_row){.at_us = result_int(result, (int)i, 0),
                                    .span_us = result_int(result, (int)i, 1),
                                    .is_folded = result_bool(result, (int)i, 2)};
        row->facts = result_bytes(result, (int)i, 3, arena, &row->length, &failed);
    }
    PQclear(result);
    *ret_rows = failed ? *ret_rows : rows;
    return failed ? error_out_of_memory(error) : WEIR_OK;
}
