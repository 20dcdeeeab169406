/* The file of the archive: its name, its making, and the proof that it belongs to the store (archive_file.h).
 *
 * How the file is made, and why a crash at any point is harmless:
 *
 *   1. The caller has the write lock of the store, so one process makes the file at a time.
 *   2. The empty file is made with the mode of the store's file. SQLite gives its log the same mode.
 *   3. Tables, the id of the store and the number of this making are committed in one transaction. A crash before leaves an
 *      empty file, and the next move goes on with step 3.
 *   4. archive_state gets the number in the transaction of the move. If that one is lost, the next move reads the number
 *      from the file.
 *
 * A file that is missing although archive_state has its number was removed by somebody: a new one is made, and lost_at
 * keeps the time for `weir doctor`.
 *
 * The path follows the real name of the store's file, so a store that is opened through a symbolic link has one archive.
 * The archive itself may be a symbolic link, to a larger disk.
 */
#include "store/sqlite/archive_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum {
    ARCHIVE_APPLICATION_ID = 0x77656961, /* "weia": no command takes the file for a store */
    ARCHIVE_SQL_MAX = 96,
    ARCHIVE_BUSY_MS = 5000
};

const struct archive_table archive_tables[ARCHIVE_TABLES] = {
    {"execution_params", QUERY_READ_PARAMS_TO_ARCHIVE, QUERY_COUNT, QUERY_PUT_PARAMS, QUERY_PURGE_PARAMS, "id"},
    {"workflow_node_executions", QUERY_READ_STEPS_TO_ARCHIVE, QUERY_READ_LAST_STEP_TO_ARCHIVE, QUERY_PUT_STEPS,
     QUERY_PURGE_STEPS, "execution_id"},
    {"workflow_node_attempts", QUERY_READ_ATTEMPTS_TO_ARCHIVE, QUERY_COUNT, QUERY_PUT_ATTEMPTS, QUERY_PURGE_ATTEMPTS,
     "execution_id"},
    {"workflow_actions", QUERY_READ_ACTIONS_TO_ARCHIVE, QUERY_COUNT, QUERY_PUT_ACTIONS, QUERY_PURGE_ACTIONS,
     "execution_id"},
    {"workflow_execution_events", QUERY_READ_EVENTS_TO_ARCHIVE, QUERY_COUNT, QUERY_PUT_EVENTS, QUERY_PURGE_EVENTS,
     "execution_id"},
};

bool archive_path_of(const char *store_path, char to[ARCHIVE_PATH_MAX])
{
    INVARIANT(to != NULL);
    static const char ending[] = ".db";
    size_t length = store_path == NULL ? 0 : strlen(store_path);
    if (length == 0) {
        return false;
    }
    size_t stem = length > sizeof ending - 1 && strcmp(store_path + length - (sizeof ending - 1), ending) == 0
                      ? length - (sizeof ending - 1)
                      : length;
    int written = snprintf(to, ARCHIVE_PATH_MAX, "%.*s-archive.db", (int)stem, store_path);
    return written > 0 && written < ARCHIVE_PATH_MAX;
}

enum weir_status archive_failure(sqlite3 *archive, const char *doing, struct weir_error *error)
{
    enum weir_status status = connection_failure(&(struct connection){.database = archive}, doing, error);
    const char *path = sqlite3_db_filename(archive, "main");
    error_prefix(error, "archive %s", path == NULL ? "" : path);
    return status;
}

enum weir_status archive_read_state(struct connection *connection, struct archive_state *ret_state,
                                    struct weir_error *error)
{
    INVARIANT(connection != NULL && ret_state != NULL);
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_ARCHIVE_STATE, "");
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(connection, statement, &status, error)) {
        return status == WEIR_OK ? error_set(error, WEIR_STORE_CORRUPT, "the row of archive_state is missing") : status;
    }
    text_copy(ret_state->store_id, sizeof ret_state->store_id, column_text(statement, 0));
    ret_state->made = sqlite3_column_int64(statement, 1);
    ret_state->moved = sqlite3_column_int64(statement, 2);
    ret_state->moved_at_us = sqlite3_column_int64(statement, 3);
    ret_state->lost_at_us = sqlite3_column_int64(statement, 4);
    (void)sqlite3_reset(statement);
    return WEIR_OK;
}

static enum weir_status refuse_archive(sqlite3 *archive, const char *what, struct weir_error *error)
{
    error_set(error, WEIR_STORE_NOT_WEIR, "the archive %s %s", sqlite3_db_filename(archive, "main"), what);
    error_hint(error, "move it away, and put the archive of this store in its place; the file was not changed");
    return WEIR_STORE_NOT_WEIR;
}

/* The first column of the first row as text and the second as a number; SQLITE_DONE without a row. */
static int read_pair(sqlite3 *archive, const char *sql, char *to, size_t size, int64_t *ret_number)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(archive, sql, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
        const char *text = code == SQLITE_ROW ? column_text(statement, 0) : NULL;
        text_copy(to, size, text == NULL ? "" : text);
        *ret_number = code == SQLITE_ROW ? sqlite3_column_int64(statement, 1) : 0;
    }
    (void)sqlite3_finalize(statement);
    return code;
}

/* Whether the open database is the archive of that store; WEIR_NOT_FOUND: it is an empty file. */
static enum weir_status verify_archive(sqlite3 *archive, const char *store_id, int64_t *ret_made, struct weir_error *error)
{
    char text[ARCHIVE_STORE_ID_MAX] = "";
    int64_t tables = 0;
    int code = read_pair(archive, "SELECT '', count(*) FROM sqlite_schema", text, sizeof text, &tables);
    if ((code & 0xFF) == SQLITE_NOTADB) {
        return refuse_archive(archive, "is no SQLite database", error);
    }
    if (code == SQLITE_ROW && tables == 0) {
        return WEIR_NOT_FOUND;
    }
    if (code == SQLITE_ROW) {
        code = read_pair(archive, sqlite_queries[QUERY_READ_ARCHIVE_STATE].sql, text, sizeof text, ret_made);
    }
    if (code == SQLITE_ERROR || code == SQLITE_DONE) {
        return refuse_archive(archive, "is the database of another application", error);
    }
    if (code != SQLITE_ROW) {
        return archive_failure(archive, "cannot read it", error);
    }
    return strcmp(text, store_id) == 0 ? WEIR_OK : refuse_archive(archive, "belongs to another store", error);
}

/* Step 2 of the file comment. */
static enum weir_status make_empty_file(const char *path, const char *store_path, struct weir_error *error)
{
    struct stat facts;
    mode_t mode = stat(store_path, &facts) == 0 ? facts.st_mode & 0666 : 0600;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, mode);
    if (file < 0) {
        int native = errno;
        error_set_native(error, native == ENOSPC || native == EDQUOT ? WEIR_STORE_FULL : WEIR_STORE_UNREACHABLE, native,
                         "cannot make the archive %s: %s", path, strerror(native));
        error_hint(error, "this user must be allowed to write to the folder of the store, and its disk needs room");
        return error == NULL ? WEIR_STORE_UNREACHABLE : error->status;
    }
    (void)fchmod(file, mode); /* a stricter umask would keep out the other users of the store */
    (void)close(file);
    return WEIR_OK;
}

static enum weir_status run_sql(sqlite3 *archive, const char *sql, struct weir_error *error)
{
    return sqlite3_exec(archive, sql, NULL, NULL, NULL) == SQLITE_OK ? WEIR_OK
                                                                     : archive_failure(archive, "cannot be written", error);
}

/* The tables are made with the texts of those of the store, so their columns agree. */
static enum weir_status make_table(struct connection *connection, sqlite3 *archive, const char *name,
                                   struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_TABLE_TO_ARCHIVE, "t", name);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        status = run_sql(archive, column_text(statement, 0), error);
        (void)sqlite3_reset(statement);
    }
    return status;
}

static enum weir_status insert_state(sqlite3 *archive, const struct archive_state *state, struct weir_error *error)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(archive, sqlite_queries[QUERY_INSERT_ARCHIVE_STATE].sql, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        (void)sqlite3_bind_text(statement, 1, state->store_id, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(statement, 2, state->made + 1);
        code = sqlite3_step(statement);
    }
    enum weir_status status = code == SQLITE_DONE ? WEIR_OK : archive_failure(archive, "cannot be written", error);
    (void)sqlite3_finalize(statement);
    return status;
}

/* Step 3. */
static enum weir_status fill_empty_file(struct connection *connection, sqlite3 *archive, const struct archive_state *state,
                                        struct weir_error *error)
{
    char mark[ARCHIVE_SQL_MAX];
    (void)snprintf(mark, sizeof mark, "PRAGMA application_id=%d; COMMIT", (int)ARCHIVE_APPLICATION_ID);
    enum weir_status status = run_sql(archive, "BEGIN IMMEDIATE", error);
    for (size_t i = 0; i < ARCHIVE_TABLES && status == WEIR_OK; i++) {
        status = make_table(connection, archive, archive_tables[i].name, error);
    }
    if (status == WEIR_OK) {
        status = make_table(connection, archive, "archive_state", error);
    }
    if (status == WEIR_OK) {
        status = insert_state(archive, state, error);
    }
    return status == WEIR_OK ? run_sql(archive, mark, error) : status;
}

static enum weir_status open_database(const char *path, sqlite3 **ret_archive, struct weir_error *error)
{
    sqlite3 *archive = NULL;
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_READWRITE;
    enum weir_status status = WEIR_OK;
    if (sqlite3_open_v2(path, &archive, flags, NULL) != SQLITE_OK) {
        status = archive == NULL ? error_out_of_memory(error) : archive_failure(archive, "cannot be opened", error);
    } else {
        (void)sqlite3_busy_timeout(archive, ARCHIVE_BUSY_MS);
        (void)sqlite3_db_config(archive, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    }
    if (status == WEIR_OK) {
        status = run_sql(archive, "PRAGMA synchronous=FULL; PRAGMA trusted_schema=OFF", error);
    }
    if (status != WEIR_OK) {
        (void)sqlite3_close(archive);
        return status;
    }
    *ret_archive = archive;
    return WEIR_OK;
}

/* Verifies the open file, fills an empty one, and keeps archive_state up to date (steps 3 and 4). */
static enum weir_status adopt_file(struct connection *connection, sqlite3 *archive, bool makes, bool is_lost,
                                   struct archive_state *state, int64_t now_us, struct weir_error *error)
{
    int64_t made = 0;
    enum weir_status status = verify_archive(archive, state->store_id, &made, error);
    if (status == WEIR_NOT_FOUND && makes) {
        is_lost = is_lost || state->made > 0;
        status = run_sql(archive, "PRAGMA journal_mode=wal", error);
        if (status == WEIR_OK) {
            status = fill_empty_file(connection, archive, state, error);
        }
        made = state->made + 1;
    }
    if (status != WEIR_OK || !makes || made == state->made) {
        return status;
    }
    return connection_run(connection, error, NULL, QUERY_NOTE_ARCHIVE_MADE, "ii", made, is_lost ? now_us : (int64_t)0);
}

enum weir_status archive_open(struct connection *connection, bool makes, int64_t now_us, sqlite3 **ret_archive,
                              struct weir_error *error)
{
    INVARIANT(connection != NULL && ret_archive != NULL);
    char path[ARCHIVE_PATH_MAX];
    struct archive_state state;
    struct stat facts;
    const char *store_path = sqlite3_db_filename(connection->database, "main");
    *ret_archive = NULL;
    enum weir_status status = archive_read_state(connection, &state, error);
    if (status != WEIR_OK || !archive_path_of(store_path, path)) {
        return status;
    }
    bool is_there = stat(path, &facts) == 0;
    if (!is_there && !makes) {
        return WEIR_OK;
    }
    if (is_there && !S_ISREG(facts.st_mode)) {
        error_set(error, WEIR_STORE_NOT_WEIR, "the archive %s is %s, not a file", path,
                  S_ISDIR(facts.st_mode) ? "a folder" : "something else");
        error_hint(error, "move it away: the archive of the store has this name");
        return WEIR_STORE_NOT_WEIR;
    }
    sqlite3 *archive = NULL;
    status = is_there ? WEIR_OK : make_empty_file(path, store_path, error);
    if (status == WEIR_OK) {
        status = open_database(path, &archive, error);
    }
    if (status == WEIR_OK) {
        status = adopt_file(connection, archive, makes, !is_there && state.made > 0, &state, now_us, error);
    }
    if (status != WEIR_OK) {
        (void)sqlite3_close(archive);
        return status == WEIR_NOT_FOUND ? WEIR_OK : status; /* an empty file, which a move will fill */
    }
    *ret_archive = archive;
    return WEIR_OK;
}

bool archive_is_given_up(struct connection *connection)
{
    INVARIANT(connection != NULL);
    char path[ARCHIVE_PATH_MAX];
    struct stat facts;
    return archive_path_of(sqlite3_db_filename(connection->database, "main"), path) && stat(path, &facts) == 0 &&
           S_ISREG(facts.st_mode) && facts.st_size == 0;
}
