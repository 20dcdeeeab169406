/* How readers see the archive: temporary views over both files, and the line of `weir status`.
 *
 * A reading connection attaches the file of the archive and makes views with the names of the archived tables. SQLite looks
 * for a name among temporary objects first, so each query of the driver reads both files as one table. The views of the
 * file itself (execution_steps, execution_events) read tables of their own file alone, so they are made again as temporary
 * ones. A row of the archive counts only where its execution is marked as archived.
 *
 * 1. The snapshot of the store is open before the archive is read, and the archive has the content before the store says
 * so. So a reader sees the content on one side at least.
 * 2. SQLite cannot attach in a transaction, so it is begun again behind that. A connection that has attached an older
 * making is opened anew.
 * 3. An archive that is missing, foreign or unreadable is left out. Reads go on without it, and archive_add_status() names
 *    the problem.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "store/sqlite/archive.h"

/* The text that makes a view of the store, for a temporary one. */
static int make_temporary(sqlite3 *database, const char *sql)
{
    static const char word[] = "\nCREATE ";
    const char *at = strstr(sql, word);
    INVARIANT(at != NULL);
    char *text = sqlite3_mprintf("CREATE TEMP %s", at + sizeof word - 1);
    int code = text == NULL ? SQLITE_NOMEM : sqlite3_exec(database, text, NULL, NULL, NULL);
    sqlite3_free(text);
    return code;
}

/* The view of both files that has the name of the table. */
static int make_view_of(sqlite3 *database, const struct archive_table *table)
{
    char *text = sqlite3_mprintf(sqlite_queries[QUERY_VIEW_OF_TABLE].sql, table->name, table->name, table->name, table->id);
    int code = text == NULL ? SQLITE_NOMEM : sqlite3_exec(database, text, NULL, NULL, NULL);
    sqlite3_free(text);
    return code;
}

static int make_temporary_views(sqlite3 *database)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < ARCHIVE_TABLES && code == SQLITE_OK; i++) {
        code = make_view_of(database, &archive_tables[i]);
    }
    for (int i = 0; i < SQLITE_VIEW_COUNT && code == SQLITE_OK; i++) {
        code = make_temporary(database, sqlite_views[i].sql);
    }
    return code;
}

/* Attaches the file that archive_open() has verified. */
static enum weir_status attach_file(struct connection *reader, const char *path, int64_t made, struct weir_error *error)
{
    enum weir_status status = connection_run(reader, error, NULL, QUERY_ATTACH_ARCHIVE, "t", path);
    if (status == WEIR_OK && make_temporary_views(reader->database) != SQLITE_OK) {
        status = connection_failure(reader, "the archive cannot be read", error);
    }
    if (status == WEIR_OK) {
        reader->archive_made = made;
    }
    return status;
}

enum weir_status archive_attach(struct connection *reader, bool *ret_is_old, struct weir_error *error)
{
    INVARIANT(reader != NULL && ret_is_old != NULL && !reader->borrowed);
    struct archive_state state;
    sqlite3 *archive = NULL;
    char path[ARCHIVE_PATH_MAX];
    *ret_is_old = false;
    enum weir_status status = archive_read_state(reader, &state, error);
    if (status != WEIR_OK || state.made == reader->archive_made) {
        return status;
    }
    if (reader->archive_made != 0) {
        *ret_is_old = true;
        return WEIR_OK;
    }
    if (archive_open(reader, false, 0, &archive, NULL) != WEIR_OK || archive == NULL) {
        return WEIR_OK; /* step 3 */
    }
    text_copy(path, sizeof path, sqlite3_db_filename(archive, "main"));
    archive_close(archive);
    connection_rollback(reader);
    status = attach_file(reader, path, state.made, error);
    return status == WEIR_OK ? connection_begin(reader, QUERY_BEGIN_READ, error) : status;
}

/* The problem of the archive in words, "" = none. */
static void describe_problem(struct connection *connection, const struct archive_state *state, const char *path,
                             struct weir_error *ret_problem)
{
    sqlite3 *archive = NULL;
    if (state->made == 0 || archive_open(connection, false, 0, &archive, ret_problem) != WEIR_OK) {
        return;
    }
    if (archive == NULL) {
        (void)error_set(ret_problem, WEIR_STORE_UNREACHABLE,
                        "the archive %s is missing: the steps and params of archived executions are not shown", path);
    } else if (state->lost_at_us > 0) {
        char at[TIME_TEXT_MAX];
        time_format(state->lost_at_us, at);
        (void)error_set(ret_problem, WEIR_STORE_UNREACHABLE,
                        "the archive %s was missing at %s and was made again: older content is lost", path, at);
    }
    archive_close(archive);
}

enum weir_status archive_add_status(struct connection *connection, json_t *status_json, struct weir_error *error)
{
    INVARIANT(connection != NULL && status_json != NULL);
    struct archive_state state;
    struct weir_error problem = {.status = WEIR_OK};
    struct stat facts = {.st_size = 0};
    char path[ARCHIVE_PATH_MAX] = "";
    char at[TIME_TEXT_MAX];
    enum weir_status status = archive_read_state(connection, &state, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (archive_path_of(sqlite3_db_filename(connection->database, "main"), path) && stat(path, &facts) != 0) {
        facts.st_size = 0;
    }
    describe_problem(connection, &state, path, &problem);
    time_format(state.moved_at_us, at);
    json_t *archive = json_pack("{s:I, s:o, s:I, s:o}", "moved", (json_int_t)state.moved, "moved_at",
                                state.moved_at_us == 0 ? json_null() : json_string(at), "bytes", (json_int_t)facts.st_size,
                                "problem", problem.status == WEIR_OK ? json_null() : json_string(problem.message));
    return json_object_set_new(status_json, "archive", archive) == 0 ? WEIR_OK : error_out_of_memory(error);
}
