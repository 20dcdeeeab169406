/* A connection to the SQLite file: opening, prepared statements, failures, and the clock of the store.
 *
 * The order of writes that makes a commit durable, and its reasons:
 *
 *   1. The file is opened in WAL mode with synchronous=FULL, and both are read back: a file system without shared
 *      memory would silently give another mode.
 *   2. A commit appends its pages to the log and syncs the log before it returns. Only then is it acknowledged.
 *   3. The database file is written by checkpoints alone, after the log is on disk. A crash between the two replays
 *      the log.
 *   4. The clock is noted at most once a second, inside a transaction that happens anyway, so that time does not go
 *      back over a boot.
 *
 * Waiting for another process's transaction ends at the deadline of the call. Failures become a status with a message
 * and a hint; a full disk is recognised also where SQLite reports a plain I/O error. It never prints, and never uses a
 * statement in two threads: a connection belongs to one thread at a time.
 */
#include "store/sqlite/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/shell_quote.h"
#include "store/sqlite/lane_counters.h"
#include "store/sqlite/wal_guard.h"

static sqlite3_stmt *connection_statement(struct connection *connection, enum sqlite_query query, struct weir_error *error);

enum { BUSY_FIRST_US = 100, BUSY_MOST_US = 5000, BOOT_ID_MAX = 64 };

/* --- errors --- */

/* The status of a result code of SQLite; the kind of failure decides whether a caller repeats. */
static enum weir_status status_of_code(int code)
{
    switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return WEIR_STORE_BUSY;
    case SQLITE_FULL:
        return WEIR_STORE_FULL;
    case SQLITE_NOTADB:
        return WEIR_STORE_NOT_WEIR;
    case SQLITE_CORRUPT:
        return WEIR_STORE_CORRUPT;
    case SQLITE_NOMEM:
        return WEIR_OUT_OF_MEMORY;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
    case SQLITE_IOERR:
        return WEIR_STORE_UNREACHABLE;
    case SQLITE_INTERRUPT:
        return WEIR_TIMED_OUT;
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
        return WEIR_INVALID_ARGUMENT;
    default:
        return WEIR_FAILED;
    }
}

/* The next step for a user whose file cannot be opened or written. */
static const char *hint_of_unreachable(int code)
{
    switch (code) {
    case SQLITE_READONLY:
        return "run as a user who may write the file and its folder: SQLite needs that to read, too";
    case SQLITE_CANTOPEN:
        return "its folder must be there, and this user must be allowed to write to it";
    default:
        return "look at the disk and the rights of the file and its folder";
    }
}

static const char *hint_of_status(enum weir_status status, int code)
{
    switch (status) {
    case WEIR_STORE_BUSY:
        return "another program holds the file's write lock for too long; end it, or raise --timeout";
    case WEIR_STORE_FULL:
        return "free some disk space; acknowledged work is stored";
    case WEIR_STORE_CORRUPT:
        return "stop all nodes, keep a copy of the file, then restore a backup (weir store backup makes them)";
    case WEIR_STORE_NOT_WEIR:
        return "this file is not a weir store; give another path to --store";
    case WEIR_STORE_UNREACHABLE:
        return hint_of_unreachable(code & 0xFF);
    case WEIR_SCHEMA_MISSING:
        return "the store has not been migrated, or was damaged: weir store migrate, then weir store check";
    default:
        return "";
    }
}

/* Whether the last write failed for want of room. SQLite reports some of these as a plain I/O error (a quota, a file
 * size limit). Only the file itself remembers why: the log in most cases, else the database. */
static bool is_disk_full(sqlite3 *database)
{
    int codes[3] = {sqlite3_system_errno(database), 0, 0};
    sqlite3_file *log = NULL;
    (void)sqlite3_file_control(database, "main", SQLITE_FCNTL_LAST_ERRNO, &codes[1]);
    if (sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK && log != NULL &&
        log->pMethods != NULL) {
        (void)log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &codes[2]);
    }
    for (int i = 0; i < 3; i++) {
        if (codes[i] == ENOSPC || codes[i] == EDQUOT || codes[i] == EFBIG) {
            return true;
        }
    }
    return false;
}

/* SQLite reports no more than "unable to open database file"; the system knows whether it is for want of descriptors. */
static bool is_out_of_descriptors(sqlite3 *database, int code)
{
    int native = (code & 0xFF) == SQLITE_CANTOPEN ? sqlite3_system_errno(database) : 0;
    return native == EMFILE || native == ENFILE;
}

enum weir_status connection_failure(const struct connection *connection, const char *doing, struct weir_error *error)
{
    INVARIANT(connection != NULL);
    int code = sqlite3_extended_errcode(connection->database);
    enum weir_status status = status_of_code(code);
    bool wrote = code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_SHMSIZE || code == SQLITE_IOERR_TRUNCATE;
    if (wrote && is_disk_full(connection->database)) {
        status = WEIR_STORE_FULL;
    }
    if ((code & 0xFF) == SQLITE_ERROR && strncmp(sqlite3_errmsg(connection->database), "no such ", 8) == 0) {
        status = WEIR_SCHEMA_MISSING; /* a table, a view or a column that a migration makes */
    }
    error_set_native(error, status, code, "%s: %s", doing, sqlite3_errmsg(connection->database));
    error_hint(error, "%s", hint_of_status(status, code));
    if (is_out_of_descriptors(connection->database, code)) {
        error_prefix(error, "too many open files");
        error_hint(error, "raise the limit of open files (ulimit -n; LimitNOFILE= in a unit of systemd)");
    }
    return status;
}

/* --- life --- */

/* Waits for another process's transaction, a little longer each time, until the call's deadline. */
static int wait_while_busy(void *context, int tries)
{
    struct connection *connection = context;
    int64_t left_us = connection->deadline_boot_us - clock_boot(clock_system());
    if (left_us <= 0) {
        return 0;
    }
    int64_t pause_us = (int64_t)BUSY_FIRST_US << (tries < 6 ? tries : 6);
    pause_us = pause_us > BUSY_MOST_US ? BUSY_MOST_US : pause_us;
    pause_us = pause_us > left_us ? left_us : pause_us;
    struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)pause_us * 1000};
    (void)nanosleep(&pause, NULL);
    return 1;
}

static enum weir_status check_store_file(const struct connection_options *options, struct weir_error *error)
{
    struct stat facts;
    if (stat(options->path, &facts) != 0) {
        if (errno == ENOENT && options->create) {
            return WEIR_OK;
        }
        int native = errno;
        error_set_native(error, WEIR_STORE_UNREACHABLE, native, "cannot open the store %s: %s", options->path,
                         strerror(native));
        if (native == ENOENT) {
            char url[PATH_MAX + sizeof "sqlite:"];
            char word[SHELL_WORD_MAX];
            (void)snprintf(url, sizeof url, "sqlite:%s", options->path);
            error_hint(error, "make it with: weir store init --store %s (or start: weir dev)", shell_quote(url, word));
        } else if (native == EACCES) {
            error_hint(error,
                       "this user may not enter its folder: run weir as a user with this right, or give another path");
        } else {
            error_hint(error, "give the path of a file, for example sqlite:./weir.db");
        }
        return WEIR_STORE_UNREACHABLE;
    }
    if (!S_ISREG(facts.st_mode)) {
        error_set(error, WEIR_STORE_UNREACHABLE, "cannot open the store %s: it is %s, not a file", options->path,
                  S_ISDIR(facts.st_mode) ? "a folder" : "something else");
        error_hint(error, "give the path of a file, for example sqlite:%s/weir.db",
                   S_ISDIR(facts.st_mode) ? options->path : ".");
        return WEIR_STORE_UNREACHABLE;
    }
    return WEIR_OK;
}

/* The failure of an opening, with the path in its message. */
static enum weir_status opening_failure(const struct connection *connection, const char *path, struct weir_error *error)
{
    enum weir_status status = connection_failure(connection, "cannot open the store", error);
    error_prefix(error, "%s", path);
    return status;
}

/* Reads one value of a pragma as text. */
static enum weir_status read_pragma(struct connection *connection, const char *sql, char *to, size_t size,
                                    struct weir_error *error)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(connection->database, sql, -1, &statement, NULL) != SQLITE_OK) {
        return opening_failure(connection, sqlite3_db_filename(connection->database, "main"), error);
    }
    int code = sqlite3_step(statement);
    enum weir_status status = WEIR_OK;
    if (code == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        text_copy(to, size, text == NULL ? "" : text);
    } else if (code == SQLITE_DONE) {
        text_copy(to, size, "");
    } else {
        status = opening_failure(connection, sqlite3_db_filename(connection->database, "main"), error);
    }
    (void)sqlite3_finalize(statement);
    return status;
}

/* Ours, or an empty database that is about to become ours: making it writes a page before the first migration marks it. */
static enum weir_status check_identity(struct connection *connection, const struct connection_options *options,
                                       struct weir_error *error)
{
    char application[32];
    char tables[32];
    enum weir_status status = read_pragma(connection, "PRAGMA application_id", application, sizeof application, error);
    if (status == WEIR_OK) {
        status = read_pragma(connection, "SELECT count(*) FROM sqlite_schema", tables, sizeof tables, error);
    }
    if (status != WEIR_OK) {
        if (status == WEIR_STORE_NOT_WEIR) {
            error_set(error, status, "%s is not a weir store: it is no SQLite database", options->path);
            error_hint(error, "give another path to --store; this file was not touched");
        }
        return status;
    }
    long id = strtol(application, NULL, 10);
    if (id != APPLICATION_ID && (id != 0 || strtol(tables, NULL, 10) > 0)) {
        error_set(error, WEIR_STORE_NOT_WEIR, "%s is not a weir store: it is the database of another application",
                  options->path);
        error_hint(error, "give another path to --store; this file was not touched");
        return WEIR_STORE_NOT_WEIR;
    }
    return WEIR_OK;
}

/* Sets WAL, synchronous=FULL and the cache, and reads the first two back. */
static enum weir_status set_pragmas(struct connection *connection, const struct connection_options *options,
                                    struct weir_error *error)
{
    char answer[32];
    if (!options->read_only) {
        enum weir_status status = read_pragma(connection, "PRAGMA journal_mode=wal", answer, sizeof answer, error);
        if (status != WEIR_OK) {
            return status;
        }
        if (strcmp(answer, "wal") != 0) {
            error_set(error, WEIR_STORE_UNREACHABLE, "the store %s cannot use a write-ahead log (mode is %s)",
                      options->path, answer);
            error_hint(error, "put the file on a local disk; network and in-memory file systems cannot hold a store");
            return WEIR_STORE_UNREACHABLE;
        }
    }
    char cache[64];
    char log[64];
    (void)snprintf(cache, sizeof cache, "PRAGMA cache_size=-%d", options->cache_kib);
    (void)snprintf(log, sizeof log, "PRAGMA wal_autocheckpoint=%d", (int)LOG_PAGES);
    const char *const wanted[] = {"PRAGMA synchronous=FULL",
                                  "PRAGMA foreign_keys=OFF",
                                  "PRAGMA secure_delete=OFF",
                                  "PRAGMA trusted_schema=OFF",
                                  cache,
                                  log};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        enum weir_status status = connection_execute(connection, wanted[i], error);
        if (status != WEIR_OK) {
            return status;
        }
    }
    enum weir_status status = read_pragma(connection, "PRAGMA synchronous", answer, sizeof answer, error);
    if (status == WEIR_OK && strcmp(answer, "2") != 0) {
        return error_set(error, WEIR_STORE_UNREACHABLE, "the store %s does not accept synchronous=FULL", options->path);
    }
    return status;
}

enum weir_status connection_open(const struct connection_options *options, struct connection *connection,
                                 struct weir_error *error)
{
    INVARIANT(options->path != NULL && options->clock != NULL);
    memset(connection, 0, sizeof *connection);
    connection->clock = options->clock;
    enum weir_status status = check_store_file(options, error);
    if (status != WEIR_OK) {
        return status;
    }
    int flags =
        SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
        (options->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | (options->create ? SQLITE_OPEN_CREATE : 0));
    if (sqlite3_open_v2(options->path, &connection->database, flags, NULL) != SQLITE_OK) {
        status =
            connection->database == NULL ? error_out_of_memory(error) : opening_failure(connection, options->path, error);
        connection_close(connection);
        return status;
    }
    connection->deadline_boot_us = time_add(clock_boot(clock_system()), STORE_DEADLINE_US);
    (void)sqlite3_busy_handler(connection->database, wait_while_busy, connection);
    (void)sqlite3_db_config(connection->database, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (lane_counters_register(connection->database, &connection->lane_counters) != SQLITE_OK ||
        parameter_rows_register(connection->database, &connection->parameter_rows) != SQLITE_OK) {
        status = opening_failure(connection, options->path, error);
        connection_close(connection);
        return status;
    }
    status = check_identity(connection, options, error);
    if (status == WEIR_OK) {
        status = set_pragmas(connection, options, error);
    }
    /* Prepared now, because the end of a transaction must not need memory then. */
    if (status == WEIR_OK && connection_statement(connection, QUERY_ROLLBACK, error) == NULL) {
        status = statement_failure(error);
    }
    if (status != WEIR_OK) {
        connection_close(connection);
    }
    return status;
}

void connection_close(struct connection *connection)
{
    wal_guard_close(connection->guard);
    connection->guard = NULL;
    for (int i = 0; i < QUERY_COUNT; i++) {
        (void)sqlite3_finalize(connection->statements[i]);
        connection->statements[i] = NULL;
    }
    if (connection->borrowed) {
        parameter_rows_unregister(connection->database);
        lane_counters_unregister(connection->database);
    } else if (connection->database != NULL) {
        (void)sqlite3_close_v2(connection->database);
    }
    connection->database = NULL;
}

/* --- statements --- */

/* Prepares on first use. NULL sets `error`. The statement is reset and has no bindings. */
static sqlite3_stmt *connection_statement(struct connection *connection, enum sqlite_query query, struct weir_error *error)
{
    sqlite3_stmt **statement = &connection->statements[query];
    if (*statement == NULL) {
        if (sqlite3_prepare_v3(connection->database, sqlite_queries[query].sql, -1, SQLITE_PREPARE_PERSISTENT, statement,
                               NULL) != SQLITE_OK) {
            (void)connection_failure(connection, sqlite_queries[query].name, error);
            return NULL;
        }
    } else {
        (void)sqlite3_reset(*statement);
        (void)sqlite3_clear_bindings(*statement);
    }
    return *statement;
}

/* Binds the arguments by their letters (connection.h). */
static void bind_values(sqlite3_stmt *statement, const char *types, va_list values)
{
    for (int i = 1; types[i - 1] != '\0'; i++) {
        switch (types[i - 1]) {
        case 't': {
            const char *text = va_arg(values, const char *);
            (void)(text == NULL ? sqlite3_bind_null(statement, i)
                                : sqlite3_bind_text(statement, i, text, -1, SQLITE_STATIC));
            break;
        }
        case 'i':
            (void)sqlite3_bind_int64(statement, i, va_arg(values, int64_t));
            break;
        case 'd':
            (void)sqlite3_bind_int(statement, i, va_arg(values, int));
            break;
        case 'b': {
            const char *bytes = va_arg(values, const char *);
            size_t length = va_arg(values, size_t);
            (void)(bytes == NULL ? sqlite3_bind_null(statement, i)
                                 : sqlite3_bind_blob64(statement, i, bytes, length, SQLITE_STATIC));
            break;
        }
        default:
            INVARIANT(types[i - 1] == 'n');
            (void)sqlite3_bind_null(statement, i);
        }
    }
}

sqlite3_stmt *connection_bind(struct connection *connection, struct weir_error *error, enum sqlite_query query,
                              const char *types, ...)
{
    INVARIANT(connection->database != NULL && (unsigned)query < QUERY_COUNT);
    sqlite3_stmt *statement = connection_statement(connection, query, error);
    if (statement != NULL) {
        INVARIANT((size_t)sqlite3_bind_parameter_count(statement) == strlen(types));
        va_list values;
        va_start(values, types);
        bind_values(statement, types, values);
        va_end(values);
    }
    return statement;
}

bool connection_step(struct connection *connection, sqlite3_stmt *statement, enum weir_status *ret_status,
                     struct weir_error *error)
{
    INVARIANT(connection != NULL && ret_status != NULL);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        return true;
    }
    *ret_status = code == SQLITE_DONE ? WEIR_OK : connection_failure(connection, "the store answered", error);
    (void)sqlite3_reset(statement);
    return false;
}

/* Steps a statement to its end and resets it. */
static enum weir_status finish_statement(struct connection *connection, sqlite3_stmt *statement, int64_t *ret_changes,
                                         struct weir_error *error)
{
    enum weir_status status;
    if (connection_step(connection, statement, &status, error)) {
        (void)sqlite3_reset(statement);
        status = WEIR_OK;
    }
    if (status == WEIR_OK && ret_changes != NULL) {
        *ret_changes = sqlite3_changes64(connection->database);
    }
    return status;
}

enum weir_status connection_run(struct connection *connection, struct weir_error *error, int64_t *ret_changes,
                                enum sqlite_query query, const char *types, ...)
{
    struct weir_error local = {.status = WEIR_FAILED};
    struct weir_error *detail = error == NULL ? &local : error;
    sqlite3_stmt *statement = connection_statement(connection, query, detail);
    if (statement == NULL) {
        return detail->status;
    }
    INVARIANT((size_t)sqlite3_bind_parameter_count(statement) == strlen(types));
    va_list values;
    va_start(values, types);
    bind_values(statement, types, values);
    va_end(values);
    return finish_statement(connection, statement, ret_changes, error);
}

enum weir_status connection_read_integer(struct connection *connection, struct weir_error *error, int64_t *ret_value,
                                         enum sqlite_query query, const char *types, ...)
{
    INVARIANT(connection != NULL && ret_value != NULL);
    struct weir_error local = {.status = WEIR_FAILED};
    struct weir_error *detail = error == NULL ? &local : error;
    sqlite3_stmt *statement = connection_statement(connection, query, detail);
    if (statement == NULL) {
        return detail->status;
    }
    va_list values;
    va_start(values, types);
    bind_values(statement, types, values);
    va_end(values);
    enum weir_status status = WEIR_OK;
    if (!connection_step(connection, statement, &status, error)) {
        return status == WEIR_OK ? WEIR_NOT_FOUND : status;
    }
    *ret_value = sqlite3_column_int64(statement, 0);
    (void)sqlite3_reset(statement);
    return WEIR_OK;
}

enum weir_status connection_execute(struct connection *connection, const char *sql, struct weir_error *error)
{
    if (sqlite3_exec(connection->database, sql, NULL, NULL, NULL) != SQLITE_OK) {
        return connection_failure(connection, "the store answered", error);
    }
    return WEIR_OK;
}

void connection_rollback(struct connection *connection)
{
    if (sqlite3_get_autocommit(connection->database) == 0) {
        (void)connection_run(connection, NULL, NULL, QUERY_ROLLBACK, "");
    }
}

enum weir_status connection_begin(struct connection *connection, enum sqlite_query begin, struct weir_error *error)
{
    INVARIANT(begin == QUERY_BEGIN_READ || begin == QUERY_BEGIN_IMMEDIATE);
    connection_rollback(connection);
    return connection_run(connection, error, NULL, begin, "");
}

const char *column_text(sqlite3_stmt *statement, int column)
{
    return (const char *)sqlite3_column_text(statement, column);
}

const char *column_copy(sqlite3_stmt *statement, int column, struct arena *arena, bool *ret_failed)
{
    INVARIANT(statement != NULL && arena != NULL && ret_failed != NULL);
    const char *bytes = (const char *)sqlite3_column_blob(statement, column);
    if (sqlite3_column_type(statement, column) == SQLITE_NULL) {
        return NULL;
    }
    char *copy = arena_copy(arena, bytes == NULL ? "" : bytes, (size_t)sqlite3_column_bytes(statement, column));
    *ret_failed = *ret_failed || copy == NULL;
    return copy;
}

/* --- time --- */

/* The id of this boot of the machine; "simulated" when the clock is not the machine's. */
static const char *connection_boot_id(const struct clock *clock)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char boot_id[BOOT_ID_MAX];
    if (clock != clock_system()) {
        return clock->boot_id == NULL ? "simulated" : clock->boot_id;
    }
    (void)pthread_mutex_lock(&lock);
    if (boot_id[0] == '\0') {
        int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        ssize_t got = file < 0 ? -1 : read(file, boot_id, sizeof boot_id - 1);
        if (got <= 0) {
            text_copy(boot_id, sizeof boot_id, "unknown");
        } else {
            boot_id[strcspn(boot_id, "\n")] = '\0';
        }
        if (file >= 0) {
            (void)close(file);
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return boot_id;
}

enum weir_status connection_store_time(struct connection *connection, int64_t *ret_now_us, struct weir_error *error)
{
    INVARIANT(ret_now_us != NULL && connection->clock != NULL);
    struct weir_error local = {.status = WEIR_FAILED};
    struct weir_error *detail = error == NULL ? &local : error;
    sqlite3_stmt *statement = connection_bind(connection, detail, QUERY_READ_CLOCK, "");
    if (statement == NULL) {
        return detail->status;
    }
    enum weir_status status = WEIR_OK;
    if (!connection_step(connection, statement, &status, error)) {
        return status == WEIR_OK ? error_set(error, WEIR_STORE_CORRUPT, "the row of store_state is missing") : status;
    }
    const char *boot_id = column_text(statement, 0);
    bool same_boot = boot_id != NULL && strcmp(boot_id, connection_boot_id(connection->clock)) == 0;
    int64_t high_us = sqlite3_column_int64(statement, 2);
    if (!same_boot && high_us > 0) {
        high_us += CLOCK_MARK_US; /* the last mark may be that old */
    }
    connection->timed_boot_us = clock_boot(connection->clock);
    int64_t now_us =
        same_boot ? connection->timed_boot_us + sqlite3_column_int64(statement, 1) : clock_wall(connection->clock);
    *ret_now_us = now_us > high_us ? now_us : high_us;
    (void)sqlite3_reset(statement);
    return WEIR_OK;
}

enum weir_status connection_set_clock(struct connection *connection, bool force, struct weir_error *error)
{
    INVARIANT(connection != NULL);
    int64_t now_us;
    enum weir_status status = connection_store_time(connection, &now_us, error);
    if (status != WEIR_OK) {
        return status;
    }
    int64_t wall_us = clock_wall(connection->clock);
    int64_t start_us = force && wall_us > now_us ? wall_us : now_us;
    return connection_run(connection, error, NULL, force ? QUERY_FORCE_CLOCK : QUERY_SET_CLOCK, "tiii",
                          connection_boot_id(connection->clock), start_us - clock_boot(connection->clock), start_us,
                          start_us - wall_us);
}

enum weir_status connection_mark_clock(struct connection *connection, int64_t now_us, struct weir_error *error)
{
    INVARIANT(connection != NULL);
    if (now_us - connection->clock_marked_us < CLOCK_MARK_US && now_us >= connection->clock_marked_us) {
        return WEIR_OK;
    }
    enum weir_status status = connection_set_clock(connection, false, error);
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_RAISE_CLOCK, "ii", now_us,
                                now_us - clock_wall(connection->clock));
    }
    connection->clock_marking_us = now_us;
    return status;
}
