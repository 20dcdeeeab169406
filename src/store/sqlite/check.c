/* `weir store check`: runs the queries of check.sql, each of which returns the violations of one invariant as texts.
 *
 * All queries read one snapshot, so that books, news and rows are compared at one commit. The file is checked as well:
 * SQLite's own integrity check, and copies of a damaged log beside the file (wal_damage.c). A progress handler lets
 * the caller draw and stop a long check. At most PROBLEMS_MOST problems are listed, because the first ones name the
 * cause.
 *
 * It only reads and repairs nothing. Runs in the caller's thread on the reading connection of the handle.
 */
#include <string.h>

#include "base/error.h"
#include "store/sqlite/sqlite_store.h"
#include "store/sqlite/wal_damage.h"

enum { PROBLEMS_MOST = 1000, CHECK_PROGRESS_STEPS = 1000000 }; /* some 10 ms of SQLite's machine */

struct check_progress {
    const struct store *store;
    int64_t done;
    int64_t total;
    bool stopped;
    struct weir_error *error;
};

/* While one check runs: the listener may draw again, or stop it. */
static int report_check_progress(void *context)
{
    struct check_progress *progress = context;
    progress->stopped = store_report_progress(progress->store, progress->done, progress->total, progress->error) != WEIR_OK;
    return progress->stopped;
}

/* Appends each row of one query as a problem. */
static enum weir_status run_check(struct connection *connection, enum sqlite_query query, json_t *problems,
                                  struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, query, "");
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(connection, statement, &status, error)) {
        const char *problem = column_text(statement, 0);
        if (problem != NULL && strcmp(problem, "ok") != 0 && json_array_size(problems) < PROBLEMS_MOST) {
            (void)json_array_append_new(problems, json_string(problem));
        }
    }
    return status;
}

/* Runs all checks, with a progress handler that may stop them. */
static enum weir_status check_all(const struct store *store, struct connection *connection, json_t *problems,
                                  struct weir_error *error)
{
    static const enum sqlite_query checks[] = {QUERY_CHECK_BOOKS,    QUERY_CHECK_COUNTS,  QUERY_CHECK_LIMITS,
                                               QUERY_CHECK_BOTH,     QUERY_CHECK_FENCES,  QUERY_CHECK_REFERENCES,
                                               QUERY_CHECK_ORPHANS,  QUERY_CHECK_PLACES,  QUERY_CHECK_SIGNALS,
                                               QUERY_CHECK_CHILDREN, QUERY_CHECK_ARCHIVE, QUERY_CHECK_INTEGRITY};
    struct check_progress progress = {.store = store, .total = sizeof checks / sizeof checks[0], .error = error};
    enum weir_status status = WEIR_OK;
    sqlite3_progress_handler(connection->database, CHECK_PROGRESS_STEPS, report_check_progress, &progress);
    while (status == WEIR_OK && progress.done < progress.total) {
        status = store_report_progress(store, progress.done, progress.total, error);
        if (status == WEIR_OK) {
            status = run_check(connection, checks[progress.done++], problems, error);
        }
    }
    sqlite3_progress_handler(connection->database, 0, NULL, NULL);
    if (progress.stopped) {
        return error_set(error, WEIR_INTERRUPTED, "interrupted: nothing was changed"); /* in SQLite's text before */
    }
    return status == WEIR_OK ? store_report_progress(store, progress.total, progress.total, error) : status;
}

enum weir_status sqlite_check(struct store *store, json_t **ret_problems, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_problems != NULL);
    struct connection *connection;
    json_t *problems = json_array();
    enum weir_status status = problems == NULL ? error_out_of_memory(error) : store_begin_read(store, &connection, error);
    if (status == WEIR_OK) {
        wal_damage_list(sqlite_of(store)->path, problems);
        status = check_all(store, connection, problems, error);
        connection_rollback(connection);
        if (status == WEIR_SCHEMA_MISSING && json_array_size(problems) > 0) {
            status = WEIR_OK; /* even the schema was in the log that is damaged; a migration would hide that */
        }
    }
    if (status != WEIR_OK) {
        json_decref(problems);
        return status;
    }
    *ret_problems = problems;
    return WEIR_OK;
}
