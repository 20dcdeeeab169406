/* A connection to the SQLite file, its prepared statements, and the store's time in it.
 *
 * Waiting for other processes ends at the call's deadline.
 *
 * Threads: a struct connection is used by one thread at a time. Statements are prepared on first use and kept.
 */
#ifndef WEIR_STORE_SQLITE_CONNECTION_H
#define WEIR_STORE_SQLITE_CONNECTION_H

#include <sqlite3.h>
#include <stdbool.h>

#include "base/clock.h"
#include "sqlite_queries.h"
#include "store/driver.h"
#include "store/sqlite/lane_counters.h"
#include "store/sqlite/parameter_rows.h"

enum {
    APPLICATION_ID = 0x77656972, /* "weir": marks our files */
    READER_CACHE_KIB = 1024,
    WRITER_CACHE_KIB = 6 * 1024,
    /* Pages of the log before a commit copies them to the database: 40 MB. The same pages are written again and again,
     * so a longer log is copied less often per page. A longer one than this would take too long to read after a
     * crash. */
    LOG_PAGES = 10000,
    FRAME_HEADER_BYTES = 24 /* before each page in the log */
};
#define CLOCK_MARK_US MICROSECONDS_PER_SECOND /* writes after the last mark are not older than this */

struct connection {
    sqlite3 *database;
    sqlite3_stmt *statements[QUERY_COUNT];
    const struct clock *clock;
    int64_t deadline_boot_us;             /* of the call that runs now; the busy handler obeys it */
    int64_t timed_boot_us;                /* the boot clock at the last read of the store time */
    int64_t clock_marked_us;              /* the last store time that this connection has noted in the file */
    int64_t clock_marking_us;             /* noted by the transaction that is open; 0 = not */
    int64_t log_bytes;                    /* of the writer: where the log ended at its last commit (wal_preallocate.h) */
    int64_t frame_bytes;                  /* of the writer: a page in the log */
    struct wal_guard *guard;              /* of the writer: copies and new beginnings of the log; else NULL */
    struct wal_copier *copier;            /* of the writer: copies the log; NULL = the commits do (wal_copier.h) */
    struct parameter_rows parameter_rows; /* the rows of the table `parameter_rows`, while a statement needs them */
    struct lane_counters lane_counters;   /* the sums that a verb keeps while its snapshot is open */
    bool borrowed;                        /* the caller's own database: never closed (borrowed_store.h) */
    bool is_own_transaction;              /* borrowed: the open transaction was begun by this call, not by the caller */
    sqlite3_stmt *snapshot;               /* borrowed: a read that stays open, so that a verb sees one state; or NULL */
    sqlite3 *archive;                     /* of the writer: open with a transaction of its own, or NULL (archive.h) */
    int64_t archive_made;                 /* of a reader: which making of the archive it has attached; 0 = none */
};

/* --- life --- */

struct connection_options {
    const char *path;
    bool create;
    bool read_only;
    int cache_kib;
    const struct clock *clock;
    struct event_bus *events; /* NULL = none */
};
/* Opens, sets WAL and synchronous=FULL and reads both back, refuses files that are not ours. */
enum weir_status connection_open(const struct connection_options *options, struct connection *connection,
                                 struct weir_error *error);
/* Prepared statements and, unless borrowed, the database. Takes a zeroed struct. */
void connection_close(struct connection *connection);

/* --- statements --- */

/* Prepares, binds and returns it ready to step. `types` has one letter per parameter: t text (const char *, NULL = NULL),
 * i int64_t, d int, b bytes (const char *, size_t), n NULL. */
sqlite3_stmt *connection_bind(struct connection *connection, struct weir_error *error, enum sqlite_query query,
                              const char *types, ...);
/* Runs a statement that returns no row of interest; `ret_changes` may be NULL. */
enum weir_status connection_run(struct connection *connection, struct weir_error *error, int64_t *ret_changes,
                                enum sqlite_query query, const char *types, ...);
/* Reads the first column of the first row; WEIR_NOT_FOUND without a row (then `error` is untouched). */
enum weir_status connection_read_integer(struct connection *connection, struct weir_error *error, int64_t *ret_value,
                                         enum sqlite_query query, const char *types, ...);
/* One step: true when there is a row. At the end or on failure the statement is reset; then *ret_status has the outcome. */
bool connection_step(struct connection *connection, sqlite3_stmt *statement, enum weir_status *ret_status,
                     struct weir_error *error);
/* QUERY_BEGIN_READ or QUERY_BEGIN_IMMEDIATE. A transaction that a failure has left open is ended first. */
enum weir_status connection_begin(struct connection *connection, enum sqlite_query begin, struct weir_error *error);
/* Ends the transaction, if there is one, without a change. Needs no memory. */
void connection_rollback(struct connection *connection);
/* Runs SQL text that is not in the tables (pragmas, migrations, transaction control). */
enum weir_status connection_execute(struct connection *connection, const char *sql, struct weir_error *error);
/* Turns the database's last failure into a status with a message and a hint. */
enum weir_status connection_failure(const struct connection *connection, const char *doing, struct weir_error *error);

/* The meaning of a NULL statement: the status that its preparation left in `error`. */
static inline enum weir_status statement_failure(const struct weir_error *error)
{
    return error != NULL && error->status != WEIR_OK ? error->status : WEIR_FAILED;
}

/* --- columns --- */

/* The text of a column (NULL stays NULL), valid until the next step. */
const char *column_text(sqlite3_stmt *statement, int column);
/* Copies into the arena; NULL stays NULL and sets no failure; out of memory sets *ret_failed. */
const char *column_copy(sqlite3_stmt *statement, int column, struct arena *arena, bool *ret_failed);

/* --- time --- */

/* Store time by the clock of the store (see the table store_state); inside or outside of a transaction. */
enum weir_status connection_store_time(struct connection *connection, int64_t *ret_now_us, struct weir_error *error);
/* Near the end of each write transaction: after a boot the first writer sets the clock. Once a second the time is noted
 * in the file, so that it does not go back over a boot with a wrong wall clock. */
enum weir_status connection_mark_clock(struct connection *connection, int64_t now_us, struct weir_error *error);
/* Sets the clock after a boot, inside a write transaction: wall time, but never below a time that was used before. */
enum weir_status connection_set_clock(struct connection *connection, bool force, struct weir_error *error);

#endif
