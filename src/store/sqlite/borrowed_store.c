/* A store handle on a connection of the caller (borrowed_store.h).
 *
 * The handle has no file of its own, so no writer thread or mutex: SQLite's locks of the caller's connection are all there
 * is. Statements are prepared for one handle and finalized when it is closed, because an unfinalized statement would keep
 * the caller from closing the connection. It must never run COMMIT or ROLLBACK in a transaction that the caller has begun.
 *
 * Reads take place inside a statement of the caller, so BEGIN and COMMIT cannot enclose them: a COMMIT fails while a
 * statement that writes is running. A read that stays open has the same effect, because SQLite ends a read transaction with
 * its last statement. The calling `SELECT weir_show(...)` has no snapshot itself, as it reads no table.
 */
#include "store/sqlite/borrowed_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/sqlite/lane_counters.h"

enum { SQLITE_VERSION_LEAST = 3038000, PRAGMA_TEXT_MAX = 64 };

static enum weir_status read_text(struct connection *connection, const char *sql, char *to, size_t size,
                                  struct weir_error *error)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(connection->database, sql, -1, &statement, NULL) != SQLITE_OK) {
        return connection_failure(connection, "the connection cannot be read", error);
    }
    int code = sqlite3_step(statement);
    const unsigned char *text = code == SQLITE_ROW ? sqlite3_column_text(statement, 0) : NULL;
    text_copy(to, size, text == NULL ? "" : (const char *)text);
    enum weir_status status = code == SQLITE_ROW || code == SQLITE_DONE
                                  ? WEIR_OK
                                  : connection_failure(connection, "the connection cannot be read", error);
    (void)sqlite3_finalize(statement);
    return status;
}

/* A lock of another kind would not be seen by the nodes, and theirs not by this connection: both would write at once. */
static enum weir_status require_shared_locks(struct connection *connection, struct weir_error *error)
{
    char *vfs = NULL;
    char mode[PRAGMA_TEXT_MAX];
    (void)sqlite3_file_control(connection->database, "main", SQLITE_FCNTL_VFSNAME, &vfs);
    bool is_usual = vfs == NULL || strcmp(vfs, "unix") == 0;
    if (!is_usual) {
        (void)error_set(error, WEIR_NOT_PERMITTED, "this connection uses the file system layer \"%s\" of SQLite", vfs);
        error_hint(error, "open the store without vfs=: nodes lock the file by the layer \"unix\"");
    }
    sqlite3_free(vfs);
    if (!is_usual) {
        return WEIR_NOT_PERMITTED;
    }
    enum weir_status status = read_text(connection, "PRAGMA main.locking_mode", mode, sizeof mode, error);
    if (status == WEIR_OK && strcmp(mode, "normal") != 0) {
        status = error_set(error, WEIR_NOT_PERMITTED, "this connection keeps its locks (locking_mode is %s)", mode);
        error_hint(error, "use PRAGMA locking_mode=normal: no node could work beside it");
    }
    return status;
}

/* A trigger of the schema gives each runnable execution its place in its lane (queue_runnable). Without it no node would
 * ever start the execution. */
static enum weir_status require_triggers(const struct connection *connection, struct weir_error *error)
{
    int are_enabled = 1;
    (void)sqlite3_db_config(connection->database, SQLITE_DBCONFIG_ENABLE_TRIGGER, -1, &are_enabled);
    if (are_enabled != 0) {
        return WEIR_OK;
    }
    (void)error_set(error, WEIR_NOT_PERMITTED, "this connection runs no triggers (SQLITE_DBCONFIG_ENABLE_TRIGGER is off)");
    error_hint(error, "enable triggers on it: nodes find a new execution by what a trigger of the store writes");
    return WEIR_NOT_PERMITTED;
}

static enum weir_status require_store(struct connection *connection, struct weir_error *error)
{
    char text[PRAGMA_TEXT_MAX];
    if (sqlite3_libversion_number() < SQLITE_VERSION_LEAST) {
        (void)error_set(error, WEIR_NOT_PERMITTED, "this program has SQLite %s; weir needs 3.38 or later",
                        sqlite3_libversion());
        error_hint(error, "enqueue through weir itself, or through a program with a newer SQLite");
        return WEIR_NOT_PERMITTED;
    }
    /* First, because a connection that wants to keep its locks may wait for them at its first read. */
    enum weir_status status = require_shared_locks(connection, error);
    if (status == WEIR_OK) {
        status = require_triggers(connection, error);
    }
    if (status == WEIR_OK) {
        status = read_text(connection, "PRAGMA main.application_id", text, sizeof text, error);
    }
    if (status == WEIR_OK && strtol(text, NULL, 10) != APPLICATION_ID) {
        (void)error_set(error, WEIR_STORE_NOT_WEIR, "the main database of this connection is not a weir store");
        error_hint(error, "make the store in the file of your application with: weir store init --store FILE");
        return WEIR_STORE_NOT_WEIR;
    }
    return status;
}

enum weir_status borrowed_store_open(sqlite3 *database, struct store **ret_store, struct weir_error *error)
{
    INVARIANT(database != NULL && ret_store != NULL);
    struct sqlite_store *store = calloc(1, sizeof *store + 1);
    if (store == NULL) {
        return error_out_of_memory(error);
    }
    store->store.driver = &sqlite_store_driver;
    store->store.clock = clock_system();
    store->store.deadline_us = STORE_DEADLINE_US;
    const char *path = sqlite3_db_filename(database, "main");
    (void)snprintf(store->store.url, sizeof store->store.url, "sqlite:%s", path == NULL ? "" : path);
    store->reader = (struct connection){.database = database, .clock = store->store.clock, .borrowed = true};
    enum weir_status status = require_store(&store->reader, error);
    if (status == WEIR_OK && (lane_counters_register(database, &store->reader.lane_counters) != SQLITE_OK ||
                              parameter_rows_register(database, &store->reader.parameter_rows) != SQLITE_OK)) {
        status = connection_failure(&store->reader, "the tables of weir cannot be made", error);
    }
    if (status == WEIR_OK) {
        status = store_require_schema(&store->store, error);
    }
    if (status != WEIR_OK) {
        store_close(&store->store);
        return status;
    }
    *ret_store = &store->store;
    return WEIR_OK;
}

/* The caller's connection waits for a lock as long as the caller has told SQLite. */
static enum weir_status cannot_begin(const struct connection *connection, struct weir_error *error)
{
    enum weir_status status = connection_failure(connection, "the write cannot begin", error);
    if (status == WEIR_STORE_BUSY) {
        error_hint(error, "another connection writes: set a busy timeout, and begin your transaction with BEGIN IMMEDIATE");
    }
    return status;
}

static enum weir_status refuse_running_write(struct weir_error *error)
{
    (void)error_set(error, WEIR_MISUSE, "a statement that writes is running on this connection");
    error_hint(error, "call the function in a SELECT of its own, not inside an INSERT, UPDATE or trigger");
    return WEIR_MISUSE;
}

/* A write that changes nothing. A transaction of the caller that another one has overtaken fails here, with the right hint.
 * The statement stays prepared for borrowed_store_undo(): after an interrupt nothing can be prepared. */
static enum weir_status take_write_lock(struct connection *connection, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_RAISE_FENCE, "i", (int64_t)0);
    if (statement == NULL) {
        return statement_failure(error);
    }
    enum weir_status status = sqlite3_step(statement) == SQLITE_DONE ? WEIR_OK : cannot_begin(connection, error);
    (void)sqlite3_reset(statement);
    return status;
}

enum weir_status borrowed_store_begin(struct connection *connection, int64_t *ret_now_us, struct weir_error *error)
{
    INVARIANT(connection != NULL && ret_now_us != NULL);
    connection->is_own_transaction = sqlite3_get_autocommit(connection->database) != 0;
    /* IMMEDIATE: a transaction that reads first could not write any more once another has written. */
    const char *sql = connection->is_own_transaction ? "BEGIN IMMEDIATE" : "SAVEPOINT weir";
    int code = sqlite3_exec(connection->database, sql, NULL, NULL, NULL);
    if (code == SQLITE_BUSY && !connection->is_own_transaction) {
        return refuse_running_write(error);
    }
    if (code != SQLITE_OK) {
        return cannot_begin(connection, error);
    }
    enum weir_status status = take_write_lock(connection, error);
    if (status == WEIR_OK) {
        status = connection_store_time(connection, ret_now_us, error);
    }
    if (status != WEIR_OK) {
        borrowed_store_undo(connection);
    }
    return status;
}

/* The last pages may be in the log although the disk did not confirm them, as in write_commit(). */
static enum weir_status commit_failure(const struct connection *connection, enum weir_status status,
                                       struct weir_error *error)
{
    int code = sqlite3_extended_errcode(connection->database);
    if (status == WEIR_STORE_FULL || (code & 0xFF) != SQLITE_IOERR) {
        return status;
    }
    (void)error_set_native(error, WEIR_COMMIT_UNKNOWN, code, "the disk did not confirm a commit: %s",
                           sqlite3_errmsg(connection->database));
    error_hint(error, "check whether it was done before you repeat it, and check the disk");
    return WEIR_COMMIT_UNKNOWN;
}

enum weir_status borrowed_store_finish(struct connection *connection, struct weir_error *error)
{
    INVARIANT(connection != NULL);
    enum weir_status status =
        connection_execute(connection, connection->is_own_transaction ? "COMMIT" : "RELEASE weir", error);
    if (status != WEIR_OK) {
        status = connection->is_own_transaction ? commit_failure(connection, status, error) : status;
        borrowed_store_undo(connection);
    }
    /* The write lock was ours already: only a statement of the caller that writes can be in the way of the commit. */
    return status == WEIR_STORE_BUSY && connection->is_own_transaction ? refuse_running_write(error) : status;
}

void borrowed_store_undo(struct connection *connection)
{
    INVARIANT(connection != NULL);
    const char *sql = connection->is_own_transaction ? "ROLLBACK" : "ROLLBACK TO weir; RELEASE weir";
    sqlite3_stmt *prepared = connection->statements[QUERY_RAISE_FENCE];
    bool is_undone = sqlite3_exec(connection->database, sql, NULL, NULL, NULL) == SQLITE_OK;
    if (!is_undone && prepared != NULL && sqlite3_get_autocommit(connection->database) == 0) {
        /* The program has interrupted its statement: SQLite runs no ROLLBACK until that has ended. A statement that writes
         * is interrupted as well, and its interrupt rolls the transaction back. Uninterrupted it changes nothing. */
        (void)sqlite3_step(prepared);
        (void)sqlite3_reset(prepared);
    }
}

enum weir_status borrowed_store_begin_read(struct connection *connection, struct weir_error *error)
{
    INVARIANT(connection != NULL);
    static const char sql[] = "SELECT 1 FROM main.sqlite_schema"; /* it has rows, so that the step leaves it open */
    if (sqlite3_prepare_v2(connection->database, sql, -1, &connection->snapshot, NULL) == SQLITE_OK &&
        sqlite3_step(connection->snapshot) == SQLITE_ROW) {
        return WEIR_OK;
    }
    enum weir_status status = connection_failure(connection, "the store cannot be read", error);
    borrowed_store_end_read(connection);
    return status;
}

void borrowed_store_end_read(struct connection *connection)
{
    (void)sqlite3_finalize(connection->snapshot);
    connection->snapshot = NULL;
}
