/* One connection to PostgreSQL, with a deadline of our own on everything.
 *
 * libpq's blocking calls wait for ever on a half-open link, so none of them is used. The socket is non-blocking, and
 * every wait is a poll() that ends at the deadline of the running call. Then the connection is dropped, never reused.
 *
 * The meaning of a failure is decided here, once (store.h):
 *   - A connection that is lost before anything was sent, or inside an open transaction, is TRANSIENT. Nothing was
 *     changed (WEIR_STORE_UNREACHABLE, WEIR_STORE_BUSY).
 *   - One that is lost after a write or a COMMIT was sent is WEIR_COMMIT_UNKNOWN. The verb may be repeated.
 * Serialization failures and deadlocks (40001, 40P01) are repeated here for single statements and by
 * link_transaction(); the rest after LINK_TRIES_MOST is WEIR_STORE_BUSY. So are calls whose functions were replaced on the
 * way; the rest of them is WEIR_SCHEMA_MISSING.
 *
 * A link connects on first use and again after a loss: at once for the first time, then with growing, jittered pauses.
 * A call inside of a pause fails at once. A statement on its own is a transaction of its own: the cheapest verb is one
 * link_write(). Several statements: link_transaction(), or begin/commit/rollback. Never BEGIN through a pipeline.
 *
 * SQL is schema-qualified (:schema.table, see address.h); the search path is pg_catalog, behind a pooler it is unknown.
 * Prepared on first use per connection; behind a pooler each statement is sent with its text.
 *
 * Threads: a link is used by one thread at a time. Results belong to the caller: PQclear(), which takes NULL.
 */
#ifndef WEIR_STORE_POSTGRES_LINK_LINK_H
#define WEIR_STORE_POSTGRES_LINK_LINK_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "store/postgres/link/address.h"

/* --- parameters --- */

/* A value with a length, for the arrays B and X. NULL data = SQL NULL. */
struct link_bytes {
    const char *data;
    size_t length;
};

enum {
    LINK_PARAMETERS_MOST = 48, /* of one statement */
    LINK_TRIES_MOST = 6,       /* of a statement or transaction that lost against another */
    LINK_SERVER_OLDEST = 130000
};

/* Every function with `types, ...` takes one letter per parameter $1, $2 ... The parameter's type is fixed by the letter,
 * so no cast is needed in SQL unless another type is wanted ($1::jsonb).
 *
 *   t  text           const char *            NULL = SQL NULL
 *   x  text           const char *, size_t    with a length
 *   u  uuid           const char *            its text; NULL = SQL NULL
 *   i  bigint         int64_t
 *   p  bigint         const int64_t *         NULL = SQL NULL
 *   d  integer        int
 *   o  boolean        int
 *   b  bytea          const char *, size_t    NULL = SQL NULL
 *
 * Capitals are arrays, each two arguments, a pointer and the count (size_t); the SQL takes them apart with unnest().
 *
 *   T  text[]         const char *const *     NULL elements = SQL NULL
 *   X  text[]         const struct link_bytes *
 *   U  uuid[]         const char *const *     their texts; NULL elements = SQL NULL
 *   V  uuid[]         const uint8_t *         16 bytes each
 *   I  bigint[]       const int64_t *
 *   D  integer[]      const int *
 *   O  boolean[]      const bool *
 *   B  bytea[]        const struct link_bytes *
 *
 * A uuid that is none is WEIR_INVALID_ARGUMENT. Nothing is kept after the call returns. */

/* --- life --- */

struct link {
    struct address *address;
    PGconn *connection; /* NULL = not connected */
    const char *application_name;
    int64_t deadline_us;      /* of every call */
    int64_t lock_wait_us;     /* of each statement for a lock, from the next connection on; 0 = a part of the deadline */
    int64_t deadline_boot_us; /* of the call that runs now */
    unsigned drops; /* the number of dropped connections; facts about a connection are stored with it, and end with it */
    bool in_transaction;
    bool keeps_session;         /* a lost connection is an error of the next statement: it goes to no other connection */
    bool prepared[QUERY_COUNT]; /* on this connection */
    char sqlstate[6];           /* of the last failure that the server reported, "" = none */
    bool failed_in_function;    /* that failure came from within a function */
    struct text scratch;        /* the encoded parameters of one statement */
    struct random random;
    int failures;              /* attempts to connect since the last success */
    int64_t failed_us;         /* boot time of the last attempt, when it failed */
    int64_t pause_until_us;    /* no attempt before (boot time), unless another link connects */
    struct weir_error why_not; /* the result of the last attempt */
};

/* Whether the connection is encrypted. */
bool link_has_tls(const struct link *link);
/* Does not connect. `application_name` must outlive it. Shares the address. */
void link_init(struct link *link, struct address *address, int64_t deadline_us, const char *application_name);
/* Takes a zeroed struct. */
void link_close(struct link *link);
/* Starts the clock of a call: everything until the next link_start() ends within link->deadline_us. */
void link_start(struct link *link);
/* The same with another length, for migrations. */
void link_start_long(struct link *link, int64_t deadline_us);
/* Connects if need be; everything else does that by itself. WEIR_STORE_UNREACHABLE, WEIR_STORE_BUSY (too many
 * connections), WEIR_NOT_PERMITTED (password, role), WEIR_STORE_NOT_WEIR (server too old). */
WEIR_MUST_CHECK enum weir_status link_connect(struct link *link, struct weir_error *error);
/* Drops the connection at once. A running transaction is rolled back by the server. */
void link_drop(struct link *link);

/* --- statements --- */

/* Only reads: repeated on a new connection when the old one was lost on the way (outside of a transaction). */
WEIR_MUST_CHECK enum weir_status link_read(struct link *link, struct weir_error *error, PGresult **ret_result,
                                           enum postgres_query query, const char *types, ...);
/* May write: WEIR_COMMIT_UNKNOWN when the answer was lost (outside of a transaction). */
WEIR_MUST_CHECK enum weir_status link_write(struct link *link, struct weir_error *error, PGresult **ret_result,
                                            enum postgres_query query, const char *types, ...);
/* link_write() for a statement without rows of interest; `ret_changes` (rows affected) may be NULL. */
WEIR_MUST_CHECK enum weir_status link_run(struct link *link, struct weir_error *error, int64_t *ret_changes,
                                          enum postgres_query query, const char *types, ...);
/* link_read() for the first column of the first row; WEIR_NOT_FOUND without a row or with NULL (then `error` is untouched).
 */
WEIR_MUST_CHECK enum weir_status link_read_integer(struct link *link, struct weir_error *error, int64_t *ret_value,
                                                   enum postgres_query query, const char *types, ...);
/* link_read() for a text that is in no table, because the tables that it reads are another system's. The schema must be in
 * place. `name` for messages. */
WEIR_MUST_CHECK enum weir_status link_read_text(struct link *link, struct weir_error *error, PGresult **ret_result,
                                                const char *name, const char *sql, const char *types, ...);
/* SQL text that is in no table (migrations): several statements, no parameters, :schema in place. */
WEIR_MUST_CHECK enum weir_status link_execute(struct link *link, const char *sql, struct weir_error *error);

/* --- transactions of several statements (READ COMMITTED) --- */

WEIR_MUST_CHECK enum weir_status link_transaction_begin(struct link *link, struct weir_error *error);
/* The same by another query that begins one (of several statements: nothing may be kept of it when it fails). */
WEIR_MUST_CHECK enum weir_status link_transaction_begin_with(struct link *link, enum postgres_query query,
                                                             struct weir_error *error);
/* Ended in any case. WEIR_COMMIT_UNKNOWN: the answer was lost. */
WEIR_MUST_CHECK enum weir_status link_transaction_commit(struct link *link, struct weir_error *error);
/* Ended in any case, by dropping the connection if need be. Without a transaction it does nothing. */
void link_transaction_rollback(struct link *link);

/* Begins, calls `body`, commits when it answers WEIR_OK, else rolls back. `body` is called again when the transaction lost
 * against another one, so it must set its outputs anew each time. */
typedef enum weir_status (*link_body)(struct link *link, void *context, struct weir_error *error);
WEIR_MUST_CHECK enum weir_status link_transaction(struct link *link, link_body body, void *context,
                                                  struct weir_error *error);
/* Whether the last failure is one of those that link_transaction() repeats. */
bool link_lost_a_race(const struct link *link);

/* --- results; rows and columns count from 0 --- */

/* NULL for SQL NULL; lives as long as the result. */
const char *result_text(const PGresult *result, int row, int column);
/* 0 for SQL NULL. */
int64_t result_int(const PGresult *result, int row, int column);
/* false for SQL NULL. */
bool result_bool(const PGresult *result, int row, int column);
bool result_null(const PGresult *result, int row, int column);
/* Copies text into the arena; NULL stays NULL and sets no failure; out of memory sets *ret_failed. */
const char *result_copy(const PGresult *result, int row, int column, struct arena *arena, bool *ret_failed);
/* The same for bytea; NUL-terminated, `ret_length` may be NULL. */
const char *result_bytes(const PGresult *result, int row, int column, struct arena *arena, size_t *ret_length,
                         bool *ret_failed);

#endif
