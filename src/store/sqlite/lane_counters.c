/* The virtual table lane_counters: the counters of each lane as books + news, for lists, status and checks.
 *
 *   1. A query opens a cursor. The sums start with the rows of books, all of them or one lane (the index ONE_LANE).
 *   2. The cursor adds the lanes of every row of the news. Books and news are read in the transaction of the query, so
 *      that rows which are moved from one table to the other are counted once.
 *   3. The cursor then walks over the sums in memory.
 *
 * A verb may keep the sums of all lanes for the statements of one snapshot (struct lane_counters). To add them up takes
 * longer than each of these statements.
 *
 * The table is computed at each use, because a stored counter would have to be written by every change of the queue.
 * It never writes. Runs in the thread of the connection.
 */
#include "store/sqlite/lane_counters.h"

#include <stdlib.h>

#include "base/error.h"
#include "queue/scheduler.h"
#include "store/sqlite/lane_sums.h"

enum { ALL_LANES = 0, ONE_LANE = 1 };

struct counters_table {
    sqlite3_vtab base; /* first */
    sqlite3 *database;
    struct lane_counters *counters;
};

struct counters_cursor {
    sqlite3_vtab_cursor base;      /* first */
    struct lane_sums sums;         /* of this cursor alone */
    const struct lane_sums *shown; /* these, or the kept ones */
    size_t at;
    size_t end;
};

/* A status as a result code of SQLite. */
static int sqlite_code_of(enum weir_status status)
{
    return status == WEIR_OK ? SQLITE_OK : status == WEIR_OUT_OF_MEMORY ? SQLITE_NOMEM : SQLITE_CORRUPT;
}

/* Declares the columns; `context`: the struct lane_counters of the connection. */
static int counters_connect(sqlite3 *database, void *context, int count, const char *const *arguments,
                            sqlite3_vtab **ret_table, char **ret_message)
{
    (void)count;
    (void)arguments;
    (void)ret_message;
    int code = sqlite3_declare_vtab(database, sqlite_queries[QUERY_DECLARE_LANE_COUNTERS].sql);
    struct counters_table *table = code == SQLITE_OK ? sqlite3_malloc(sizeof *table) : NULL;
    if (table == NULL) {
        return code == SQLITE_OK ? SQLITE_NOMEM : code;
    }
    *table = (struct counters_table){.database = database, .counters = context};
    *ret_table = &table->base;
    return SQLITE_OK;
}

static int counters_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

/* ONE_LANE when the query names the lane, else ALL_LANES. */
static int counters_choose_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    enum { COLUMN_LANE_ID = 0 };
    (void)table;
    info->idxNum = ALL_LANES;
    info->estimatedCost = 100000;
    info->estimatedRows = 1000;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
        if (constraint->usable && constraint->op == SQLITE_INDEX_CONSTRAINT_EQ && constraint->iColumn == COLUMN_LANE_ID) {
            info->idxNum = ONE_LANE;
            info->estimatedCost = 1000;
            info->estimatedRows = 1;
            info->aConstraintUsage[i].argvIndex = 1;
            break;
        }
    }
    return SQLITE_OK;
}

static int counters_open_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **ret_cursor)
{
    (void)table;
    struct counters_cursor *cursor = calloc(1, sizeof *cursor);
    if (cursor == NULL) {
        return SQLITE_NOMEM;
    }
    *ret_cursor = &cursor->base;
    return SQLITE_OK;
}

static int counters_close_cursor(sqlite3_vtab_cursor *base)
{
    struct counters_cursor *cursor = (struct counters_cursor *)base;
    lane_sums_close(&cursor->sums);
    free(cursor);
    return SQLITE_OK;
}

/* Adds the rows of books to the sums. */
static int counters_add_books(struct lane_sums *sums, sqlite3 *database)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(database, sqlite_queries[QUERY_READ_BOOKS].sql, -1, &statement, NULL);
    if (code == SQLITE_OK && sums->only_lane != 0) {
        code = sqlite3_bind_int64(statement, 1, sums->only_lane);
    }
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct lane_delta lane = {.lane_id = sqlite3_column_int64(statement, 0),
                                  .runnable = sqlite3_column_int64(statement, 1),
                                  .waiting = sqlite3_column_int64(statement, 2),
                                  .held = sqlite3_column_int64(statement, 3),
                                  .completed = sqlite3_column_int64(statement, 4),
                                  .failed = sqlite3_column_int64(statement, 5),
                                  .cancelled = sqlite3_column_int64(statement, 6),
                                  .parked = sqlite3_column_int64(statement, 7)};
        code = sqlite_code_of(lane_sums_add(sums, &lane));
    }
    (void)sqlite3_finalize(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Adds the lanes of every row of the news to the sums. */
static int counters_add_news(struct lane_sums *sums, sqlite3 *database)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(database, sqlite_queries[QUERY_ALL_NEWS].sql, -1, &statement, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        code = sqlite_code_of(lane_sums_add_text(sums, (const char *)sqlite3_column_text(statement, 0)));
    }
    (void)sqlite3_finalize(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int counters_add_all(struct lane_sums *sums, sqlite3 *database)
{
    int code = counters_add_books(sums, database);
    return code == SQLITE_OK ? counters_add_news(sums, database) : code;
}

/* Makes the kept sums at their first use. */
static int counters_fill(struct lane_counters *counters, sqlite3 *database)
{
    if (counters->sums != NULL) {
        return SQLITE_OK;
    }
    struct lane_sums *sums = calloc(1, sizeof *sums);
    int code = sums == NULL ? SQLITE_NOMEM : counters_add_all(sums, database);
    if (code == SQLITE_OK) {
        lane_sums_sort(sums);
        counters->sums = sums;
        return SQLITE_OK;
    }
    if (sums != NULL) {
        lane_sums_close(sums);
        free(sums);
    }
    return code;
}

static int counters_show_kept(struct counters_cursor *cursor, const struct counters_table *table)
{
    int code = counters_fill(table->counters, table->database);
    if (code == SQLITE_OK) {
        cursor->shown = table->counters->sums;
        cursor->end = cursor->shown->count;
    }
    return code;
}

/* Sums books and news for the query. */
static int counters_rewind(sqlite3_vtab_cursor *base, int index, const char *name, int count, sqlite3_value **values)
{
    struct counters_cursor *cursor = (struct counters_cursor *)base;
    const struct counters_table *table = (const struct counters_table *)base->pVtab;
    (void)name;
    lane_sums_close(&cursor->sums);
    cursor->shown = &cursor->sums;
    cursor->at = 0;
    cursor->end = 0;
    if (index == ONE_LANE) {
        INVARIANT(count == 1);
        cursor->sums.only_lane = sqlite3_value_int64(values[0]);
        if (cursor->sums.only_lane <= 0) {
            return SQLITE_OK; /* no such lane */
        }
    } else if (table->counters != NULL && table->counters->is_kept) {
        return counters_show_kept(cursor, table);
    }
    int code = counters_add_all(&cursor->sums, table->database);
    cursor->end = cursor->sums.count;
    return code;
}

static int counters_next_row(sqlite3_vtab_cursor *base)
{
    ((struct counters_cursor *)base)->at++;
    return SQLITE_OK;
}

static int counters_is_at_end(sqlite3_vtab_cursor *base)
{
    const struct counters_cursor *cursor = (const struct counters_cursor *)base;
    return cursor->at >= cursor->end;
}

static int counters_read_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct counters_cursor *cursor = (const struct counters_cursor *)base;
    const struct lane_delta *lane = &cursor->shown->items[cursor->at];
    const int64_t values[] = {lane->lane_id,
                              lane_workspace_id(lane->lane_id),
                              lane_group_id(lane->lane_id),
                              lane->runnable,
                              lane->waiting,
                              lane->held,
                              lane->completed,
                              lane->failed,
                              lane->cancelled,
                              lane->parked};
    INVARIANT(column >= 0 && (size_t)column < sizeof values / sizeof values[0]);
    sqlite3_result_int64(context, values[column]);
    return SQLITE_OK;
}

static int counters_read_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_rowid)
{
    const struct counters_cursor *cursor = (const struct counters_cursor *)base;
    *ret_rowid = cursor->shown->items[cursor->at].lane_id;
    return SQLITE_OK;
}

int lane_counters_read(struct lane_counters *counters, sqlite3 *database, const struct lane_sums **ret_sums)
{
    INVARIANT(counters != NULL && counters->is_kept && ret_sums != NULL);
    int code = counters_fill(counters, database);
    *ret_sums = counters->sums;
    return code;
}

void lane_counters_keep(struct lane_counters *counters)
{
    counters->is_kept = true;
}

void lane_counters_forget(struct lane_counters *counters)
{
    if (counters->sums != NULL) {
        lane_sums_close(counters->sums);
        free(counters->sums);
    }
    *counters = (struct lane_counters){.is_kept = false};
}

int lane_counters_register(sqlite3 *database, struct lane_counters *counters)
{
    INVARIANT(database != NULL);
    static const sqlite3_module module = {.xConnect = counters_connect,
                                          .xBestIndex = counters_choose_index,
                                          .xDisconnect = counters_disconnect,
                                          .xOpen = counters_open_cursor,
                                          .xClose = counters_close_cursor,
                                          .xFilter = counters_rewind,
                                          .xNext = counters_next_row,
                                          .xEof = counters_is_at_end,
                                          .xColumn = counters_read_column,
                                          .xRowid = counters_read_rowid};
    return sqlite3_create_module(database, "lane_counters", &module, counters);
}

void lane_counters_unregister(sqlite3 *database)
{
    (void)sqlite3_create_module(database, "lane_counters", NULL, NULL);
}
