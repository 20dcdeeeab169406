/* One connection to PostgreSQL: sends statements, waits with a deadline, and decides what a failure means.
 *
 * A statement, step by step (run_statement()):
 * 1. Outside a transaction, a connection that the server has closed is replaced (require_connection()). Nothing was sent
 *    yet, so this is always safe. connect.c tries every host of the URL, so a failover needs no other code.
 * 2. The statement is sent, and every wait is a poll() that ends at the deadline of the call. If the connection breaks
 *    before the whole statement was sent, the server did nothing: the statement is sent once more on a new connection.
 * 3. If it breaks later, a statement that may write has an unknown outcome: WEIR_COMMIT_UNKNOWN, and no repetition here.
 *    The verb above has ids or fences that make its repetition harmless. A statement that only reads is sent once more.
 *    Inside a transaction the server has rolled back: WEIR_STORE_UNREACHABLE, nothing was changed.
 * 4. If the server refuses it because another transaction won (40001, 40P01), the statement is repeated after a pause that
 *    doubles with each try, at most LINK_TRIES_MOST times. Inside a transaction link_transaction() repeats all of it. A
 *    function that one of our functions did not find (42883) counts as such: a migration has replaced both on the way.
 * 5. If the refusal shows a pooler or an outdated plan, the statement is repeated without a prepared statement, or on a new
 *    connection.
 *
 * This file never uses a call of libpq that waits, never reuses a connection after a missed deadline, and never repeats a
 * write with an unknown outcome. It runs in the thread that has the link. */
#include "store/postgres/link/link.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "store/postgres/link/connect.h"
#include "store/postgres/link/failure.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/link/parameters.h"

#define CONNECT_DEADLINE_LEAST_US (2500 * MICROSECONDS_PER_MS) /* a wrong address is reported within 3 s */
#define PAUSE_FIRST_US (50 * MICROSECONDS_PER_MS)
#define PAUSE_MOST_US (2 * MICROSECONDS_PER_SECOND)
#define RACE_PAUSE_US (2 * MICROSECONDS_PER_MS) /* doubled with each try */

enum { SCRATCH_MAX = 512 * 1024 * 1024, SCRATCH_KEPT = 1024 * 1024, PENDING_READS_MOST = 8, TEXT_OF_PREPARED = 0 };

/* --- life --- */

void link_init(struct link *link, struct address *address, int64_t deadline_us, const char *application_name)
{
    INVARIANT(link != NULL && address != NULL && deadline_us > 0 && application_name != NULL);
    memset(link, 0, sizeof *link);
    link->address = address_share(address);
    link->deadline_us = deadline_us;
    link->application_name = application_name;
    link->scratch.max = SCRATCH_MAX;
    random_seed_from_system(&link->random);
}

void link_drop(struct link *link)
{
    INVARIANT(link != NULL);
    if (link->connection != NULL) {
        /* PQfinish() would wait until the server has read the bytes that libpq still buffers. */
        if (PQsocket(link->connection) >= 0 && PQtransactionStatus(link->connection) != PQTRANS_IDLE) {
            (void)shutdown(PQsocket(link->connection), SHUT_RDWR);
        }
        PQfinish(link->connection);
        link->connection = NULL;
        link->drops++;
    }
    link->in_transaction = false;
    memset(link->prepared, 0, sizeof link->prepared);
}

void link_close(struct link *link)
{
    link_drop(link);
    text_close(&link->scratch);
    address_release(link->address);
    link->address = NULL;
}

void link_start(struct link *link)
{
    link_start_long(link, link->deadline_us);
}

void link_start_long(struct link *link, int64_t deadline_us)
{
    INVARIANT(deadline_us > 0);
    link->deadline_boot_us = time_add(clock_boot(clock_system()), deadline_us);
}

/* --- connecting --- */

/* Between half and one and a half of `us`: many nodes that lost one server do not come back at the same moment. */
static int64_t add_jitter(struct link *link, int64_t us)
{
    return us / 2 + (int64_t)random_below(&link->random, (uint64_t)us);
}

/* Doubles the pause after each failure in a row. Until it is over, or another link has reached the server, calls fail with
 * the same error at once. */
static void delay_next_connect(struct link *link, int64_t now_us, const struct weir_error *why)
{
    int64_t pause_us = PAUSE_FIRST_US << (link->failures < 6 ? link->failures : 6);
    pause_us = pause_us > PAUSE_MOST_US ? PAUSE_MOST_US : pause_us;
    link->failures++;
    link->failed_us = now_us;
    link->pause_until_us = now_us + add_jitter(link, pause_us);
    link->why_not = *why;
}

/* Half of the deadline of a call: a user who allows more time per call, for a slow network, allows more for connecting too.
 */
static int64_t connect_deadline_us(const struct link *link)
{
    int64_t half_us = link->deadline_us / 2;
    return half_us > CONNECT_DEADLINE_LEAST_US ? half_us : CONNECT_DEADLINE_LEAST_US;
}

enum weir_status link_connect(struct link *link, struct weir_error *error)
{
    INVARIANT(link->address != NULL);
    if (link->connection != NULL) {
        return WEIR_OK;
    }
    int64_t now_us = clock_boot(clock_system());
    if (now_us < link->pause_until_us && atomic_load(&link->address->reached_us) <= link->failed_us) {
        if (error != NULL) {
            *error = link->why_not;
        }
        return link->why_not.status;
    }
    struct weir_error why = {.status = WEIR_OK};
    int64_t until_us = time_add(now_us, connect_deadline_us(link));
    until_us = until_us > link->deadline_boot_us ? link->deadline_boot_us : until_us;
    enum weir_status status = connect_open(link, until_us, &link->connection, &why);
    if (status == WEIR_OK) {
        link->failures = 0;
        link->pause_until_us = 0;
        atomic_store(&link->address->reached_us, clock_boot(clock_system()));
        return WEIR_OK;
    }
    delay_next_connect(link, clock_boot(clock_system()), &why);
    if (error != NULL) {
        *error = why;
    }
    return status;
}

bool link_has_tls(const struct link *link)
{
    return link->connection != NULL && PQsslInUse(link->connection) != 0;
}

/* Whether the server has closed the connection since the last call. Before anything is sent, a loss changes nothing, and
 * the statement goes to a new connection. */
static bool has_hung_up(struct link *link)
{
    for (int i = 0; i < PENDING_READS_MOST; i++) {
        struct pollfd socket = {.fd = PQsocket(link->connection), .events = POLLIN};
        if (poll(&socket, 1, 0) <= 0) {
            return PQstatus(link->connection) != CONNECTION_OK;
        }
        if (PQconsumeInput(link->connection) == 0) {
            return true;
        }
        PQfreemem(PQnotifies(link->connection));
    }
    return PQstatus(link->connection) != CONNECTION_OK;
}

/* --- one statement, once --- */

struct statement {
    const char *name; /* for messages */
    const char *text;
    const char *prepared_name;           /* in the server's table of prepared statements */
    bool *prepared;                      /* NULL = sent with its text each time */
    const struct parameters *parameters; /* NULL = simple protocol: several statements may be in the text */
    bool only_reads;
};

enum reply {
    REPLY_FINE,
    REPLY_REFUSED, /* by the server; `ret_result` has the message */
    REPLY_NOT_SENT,
    REPLY_LOST, /* the connection broke, or there was no answer in time, after it was sent */
};

/* Sends the bytes that libpq buffers. False: the deadline is over, or the connection is lost. */
static bool flush_output(struct link *link)
{
    for (;;) {
        int left = PQflush(link->connection);
        if (left <= 0) {
            return left == 0;
        }
        short events = 0;
        if (!connect_wait(link->connection, POLLOUT | POLLIN, link->deadline_boot_us, &events)) {
            return false;
        }
        /* A server that cannot send its answer stops reading, so the answer must be read here. */
        if ((events & POLLIN) != 0 && PQconsumeInput(link->connection) == 0) {
            return false;
        }
    }
}

/* Reads until the server is ready for the next statement. A commit is certain only then: it follows the answer to its
 * statement. Of several results the first refusal counts, else the last one. */
static enum reply await_answer(struct link *link, PGresult **ret_result)
{
    PGresult *kept = NULL;
    if (!flush_output(link)) {
        return REPLY_LOST;
    }
    for (;;) {
        while (PQisBusy(link->connection) != 0) {
            if (!connect_wait(link->connection, POLLIN, link->deadline_boot_us, NULL) ||
                PQconsumeInput(link->connection) == 0) {
                PQclear(kept);
                return REPLY_LOST;
            }
        }
        PGresult *next = PQgetResult(link->connection);
        if (next == NULL) {
            break;
        }
        if (kept != NULL && PQresultStatus(kept) == PGRES_FATAL_ERROR) {
            PQclear(next);
        } else {
            PQclear(kept);
            kept = next;
        }
    }
    if (PQstatus(link->connection) != CONNECTION_OK || kept == NULL) {
        PQclear(kept);
        return REPLY_LOST;
    }
    ExecStatusType status = PQresultStatus(kept);
    *ret_result = kept;
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY ? REPLY_FINE
                                                                                                  : REPLY_REFUSED;
}

/* A lost prepare changed nothing, so it counts as not sent. */
static enum reply prepare_statement(struct link *link, const struct statement *statement, PGresult **ret_result)
{
    if (PQsendPrepare(link->connection, statement->prepared_name, statement->text, statement->parameters->count,
                      statement->parameters->types) != 1) {
        return REPLY_NOT_SENT;
    }
    PGresult *result = NULL;
    enum reply reply = await_answer(link, &result);
    if (reply == REPLY_REFUSED) {
        *ret_result = result;
        return reply;
    }
    PQclear(result);
    *statement->prepared = reply == REPLY_FINE;
    return reply == REPLY_FINE ? REPLY_FINE : REPLY_NOT_SENT;
}

/* Sends a statement and reads its answer, without any repetition. */
static enum reply run_once(struct link *link, const struct statement *statement, PGresult **ret_result)
{
    const struct parameters *parameters = statement->parameters;
    int sent;
    if (statement->prepared != NULL && !*statement->prepared) {
        enum reply reply = prepare_statement(link, statement, ret_result);
        if (reply != REPLY_FINE) {
            return reply;
        }
    }
    if (parameters == NULL) {
        sent = PQsendQuery(link->connection, statement->text);
    } else if (statement->prepared != NULL) {
        sent = PQsendQueryPrepared(link->connection, statement->prepared_name, parameters->count, parameters->values,
                                   parameters->lengths, parameters->formats, TEXT_OF_PREPARED);
    } else {
        sent = PQsendQueryParams(link->connection, statement->text, parameters->count, parameters->types,
                                 parameters->values, parameters->lengths, parameters->formats, TEXT_OF_PREPARED);
    }
    /* A failed send may have sent a part, but never the end; without the end the server does nothing. */
    return sent == 1 ? await_answer(link, ret_result) : REPLY_NOT_SENT;
}

/* --- outcomes --- */

bool link_lost_a_race(const struct link *link)
{
    return strcmp(link->sqlstate, "40001") == 0 || strcmp(link->sqlstate, "40P01") == 0 ||
           (strcmp(link->sqlstate, "42883") == 0 && link->failed_in_function);
}

/* A pooler moved us to a server connection that does not have the prepared statement, or has it already. */
static bool is_unknown_pooler(const struct link *link)
{
    return strcmp(link->sqlstate, "26000") == 0 || strcmp(link->sqlstate, "42P05") == 0;
}

/* A refusal that a new connection may not get: this server became a standby, or the role of the connection was dropped and
 * made again under the same name. */
static bool is_of_this_connection(const struct link *link)
{
    return strcmp(link->sqlstate, "25006") == 0 || strcmp(link->sqlstate, "42501") == 0;
}

/* "cached plan must not change result type": a migration changed a table that a prepared statement reads. */
static bool is_outdated_plan(const struct link *link, const PGresult *result)
{
    const char *routine = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
    return strcmp(link->sqlstate, "0A000") == 0 && routine != NULL && strcmp(routine, "RevalidateCachedQuery") == 0;
}

static void pause_before_retry(struct link *link, int tries)
{
    int64_t pause_us = add_jitter(link, RACE_PAUSE_US << (tries < 5 ? tries : 5));
    struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)pause_us * 1000};
    (void)nanosleep(&pause, NULL);
}

static bool deadline_is_ahead(const struct link *link)
{
    return clock_boot(clock_system()) < link->deadline_boot_us;
}

/* Steps 2 and 3 of the file comment: the status of a connection that broke. Drops it. */
static enum weir_status report_loss(struct link *link, const struct statement *statement, enum reply reply,
                                    struct weir_error *error)
{
    bool late = !deadline_is_ahead(link);
    bool unknown = reply == REPLY_LOST && !link->in_transaction && !statement->only_reads;
    char reason[200];
    text_copy(reason, sizeof reason, late ? "no answer in time" : PQerrorMessage(link->connection));
    reason[strcspn(reason, "\n")] = '\0';
    link_drop(link);
    link->sqlstate[0] = '\0';
    if (unknown) {
        error_set(error, WEIR_COMMIT_UNKNOWN, "%s: the store %s did not confirm it: %s", statement->name,
                  link->address->shown, reason);
        error_hint(error, "it may or may not have been done; the same call may be repeated");
        return WEIR_COMMIT_UNKNOWN;
    }
    error_set(error, WEIR_STORE_UNREACHABLE, "%s: the store %s is unreachable: %s", statement->name, link->address->shown,
              reason);
    error_hint(error, "nothing was changed; check the server, weir continues as soon as it is back");
    return WEIR_STORE_UNREACHABLE;
}

enum verdict { VERDICT_FINAL, VERDICT_AGAIN };

/* Turns a refusal into a status, and decides whether the statement is sent again (steps 4 and 5 of the file comment). */
static enum verdict judge_refusal(struct link *link, const struct statement *statement, PGresult *result, int tries,
                                  enum weir_status *ret_status, struct weir_error *error)
{
    *ret_status = failure_of_result(link, result, statement->name, error);
    bool unknown_pooler = is_unknown_pooler(link);
    bool outdated = is_outdated_plan(link, result);
    PQclear(result);
    if (unknown_pooler) {
        link->address->pooled = true;
        memset(link->prepared, 0, sizeof link->prepared);
    }
    if (link->in_transaction) {
        return VERDICT_FINAL;
    }
    if (outdated || is_of_this_connection(link)) {
        link_drop(link);
    }
    bool again = link_lost_a_race(link) || unknown_pooler || outdated;
    if (!again || tries >= LINK_TRIES_MOST || !deadline_is_ahead(link)) {
        return VERDICT_FINAL;
    }
    if (link_lost_a_race(link)) {
        pause_before_retry(link, tries);
    }
    return VERDICT_AGAIN;
}

/* Within a transaction the connection must be the present one. Else a lost one is replaced before anything is sent. */
static enum weir_status require_connection(struct link *link, struct weir_error *error)
{
    if (link->in_transaction) {
        return WEIR_OK;
    }
    if (link->connection != NULL && has_hung_up(link)) {
        link_drop(link);
    }
    if (link->connection == NULL && link->keeps_session) {
        return error_set(error, WEIR_STORE_UNREACHABLE, "the connection to the store %s was lost", link->address->shown);
    }
    return link_connect(link, error);
}

/* Runs one statement with all repetitions that are safe. `prepared`: NULL = send it with its text. */
static enum weir_status run_statement(struct link *link, struct statement *statement, bool *prepared, PGresult **ret_result,
                                      struct weir_error *error)
{
    bool was_lost = false;
    for (int tries = 1;; tries++) {
        PGresult *result = NULL;
        enum weir_status status = require_connection(link, error);
        if (status != WEIR_OK) {
            return status;
        }
        statement->prepared = link->address->pooled ? NULL : prepared;
        enum reply reply = run_once(link, statement, &result);
        if (reply == REPLY_FINE) {
            link->sqlstate[0] = '\0';
            *ret_result = result;
            return WEIR_OK;
        }
        if (reply == REPLY_REFUSED) {
            if (judge_refusal(link, statement, result, tries, &status, error) == VERDICT_FINAL) {
                return status;
            }
            continue;
        }
        bool harmless = (reply == REPLY_NOT_SENT || statement->only_reads) && !link->in_transaction;
        bool again = harmless && !was_lost && deadline_is_ahead(link);
        status = report_loss(link, statement, reply, error);
        if (!again) {
            return status;
        }
        was_lost = true;
    }
}

/* Encodes the arguments of a named query, and runs it. */
static enum weir_status run_query(struct link *link, struct weir_error *error, PGresult **ret_result, bool only_reads,
                                  enum postgres_query query, const char *types, va_list values)
{
    struct parameters parameters;
    INVARIANT(query < QUERY_COUNT && ret_result != NULL && link->address != NULL);
    const struct address_query *filled = address_query(link->address, query);
    if (filled == NULL) {
        return error_out_of_memory(error);
    }
    struct statement statement = {.name = postgres_queries[query].name,
                                  .text = filled->text,
                                  .prepared_name = filled->prepared_name,
                                  .parameters = &parameters,
                                  .only_reads = only_reads};
    enum weir_status status = parameters_encode(&parameters, &link->scratch, types, values, error);
    if (status == WEIR_OK) {
        status = run_statement(link, &statement, &link->prepared[query], ret_result, error);
    }
    if (link->scratch.capacity > SCRATCH_KEPT) {
        text_close(&link->scratch);
        link->scratch = (struct text){.max = SCRATCH_MAX};
    }
    return status;
}

/* --- statements --- */

enum weir_status link_read(struct link *link, struct weir_error *error, PGresult **ret_result, enum postgres_query query,
                           const char *types, ...)
{
    va_list values;
    va_start(values, types);
    enum weir_status status = run_query(link, error, ret_result, true, query, types, values);
    va_end(values);
    return status;
}

enum weir_status link_write(struct link *link, struct weir_error *error, PGresult **ret_result, enum postgres_query query,
                            const char *types, ...)
{
    INVARIANT(link != NULL);
    va_list values;
    if (!link->in_transaction) {
        FAILPOINT("before_commit");
    }
    va_start(values, types);
    enum weir_status status = run_query(link, error, ret_result, false, query, types, values);
    va_end(values);
    if (!link->in_transaction && status == WEIR_OK) {
        FAILPOINT("after_commit");
    }
    return status;
}

enum weir_status link_run(struct link *link, struct weir_error *error, int64_t *ret_changes, enum postgres_query query,
                          const char *types, ...)
{
    INVARIANT(link != NULL);
    va_list values;
    PGresult *result = NULL;
    if (!link->in_transaction) {
        FAILPOINT("before_commit");
    }
    va_start(values, types);
    enum weir_status status = run_query(link, error, &result, false, query, types, values);
    va_end(values);
    if (status != WEIR_OK) {
        return status;
    }
    if (!link->in_transaction) {
        FAILPOINT("after_commit");
    }
    if (ret_changes != NULL) {
        *ret_changes = strtoll(PQcmdTuples(result), NULL, 10);
    }
    PQclear(result);
    return WEIR_OK;
}

enum weir_status link_read_integer(struct link *link, struct weir_error *error, int64_t *ret_value,
                                   enum postgres_query query, const char *types, ...)
{
    INVARIANT(link != NULL && ret_value != NULL);
    va_list values;
    PGresult *result = NULL;
    va_start(values, types);
    enum weir_status status = run_query(link, error, &result, true, query, types, values);
    va_end(values);
    if (status != WEIR_OK) {
        return status;
    }
    if (PQntuples(result) == 0 || result_null(result, 0, 0)) {
        status = WEIR_NOT_FOUND;
    } else {
        *ret_value = result_int(result, 0, 0);
    }
    PQclear(result);
    return status;
}

enum weir_status link_read_text(struct link *link, struct weir_error *error, PGresult **ret_result, const char *name,
                                const char *sql, const char *types, ...)
{
    INVARIANT(link != NULL && ret_result != NULL && sql != NULL);
    struct parameters parameters;
    struct statement statement = {.name = name, .text = sql, .parameters = &parameters, .only_reads = true};
    va_list values;
    va_start(values, types);
    enum weir_status status = parameters_encode(&parameters, &link->scratch, types, values, error);
    va_end(values);
    return status == WEIR_OK ? run_statement(link, &statement, NULL, ret_result, error) : status;
}

enum weir_status link_execute(struct link *link, const char *sql, struct weir_error *error)
{
    INVARIANT(sql != NULL);
    PGresult *result = NULL;
    struct statement statement = {.name = "statements", .text = sql};
    enum weir_status status = run_statement(link, &statement, NULL, &result, error);
    if (status == WEIR_OK) {
        PQclear(result);
    }
    return status;
}

/* --- transactions --- */

enum weir_status link_transaction_begin_with(struct link *link, enum postgres_query query, struct weir_error *error)
{
    PGresult *result = NULL;
    INVARIANT(!link->in_transaction && query < QUERY_COUNT);
    /* BEGIN changes nothing, so it may be sent again on a new connection. */
    const struct address_query *filled = address_query(link->address, query);
    if (filled == NULL) {
        return error_out_of_memory(error);
    }
    struct statement statement = {.name = postgres_queries[query].name, .text = filled->text, .only_reads = true};
    enum weir_status status = run_statement(link, &statement, NULL, &result, error);
    if (status == WEIR_OK) {
        PQclear(result);
        link->in_transaction = true;
    } else if (link->connection != NULL && PQtransactionStatus(link->connection) != PQTRANS_IDLE) {
        link_drop(link); /* a later statement of the query failed inside the transaction */
    }
    return status;
}

enum weir_status link_transaction_begin(struct link *link, struct weir_error *error)
{
    return link_transaction_begin_with(link, QUERY_BEGIN, error);
}

enum weir_status link_transaction_commit(struct link *link, struct weir_error *error)
{
    INVARIANT(link != NULL);
    bool rolled_back = false;
    if (link->connection == NULL || !link->in_transaction) {
        link->in_transaction = false;
        return error_set(error, WEIR_STORE_UNREACHABLE, "the transaction was lost before its end; nothing was changed");
    }
    FAILPOINT("before_commit");
    /* From here on a lost answer leaves the outcome unknown, so nothing is sent again (step 3 of the file comment). */
    struct statement statement = {.name = "commit", .text = address_query(link->address, QUERY_COMMIT)->text};
    PGresult *result = NULL;
    enum reply reply = run_once(link, &statement, &result);
    link->in_transaction = false;
    if (reply == REPLY_FINE) {
        FAILPOINT("after_commit");
        rolled_back = strcmp(PQcmdStatus(result), "ROLLBACK") == 0;
        PQclear(result);
        return rolled_back ? error_set(error, WEIR_FAILED, "the transaction had failed before its end; it was undone")
                           : WEIR_OK;
    }
    if (reply == REPLY_REFUSED) {
        enum weir_status status = failure_of_result(link, result, "commit", error);
        PQclear(result);
        return status;
    }
    return report_loss(link, &statement, reply, error);
}

void link_transaction_rollback(struct link *link)
{
    INVARIANT(link != NULL);
    PGresult *result = NULL;
    if (!link->in_transaction) {
        return;
    }
    struct statement statement = {.name = "rollback", .text = address_query(link->address, QUERY_ROLLBACK)->text};
    char sqlstate[sizeof link->sqlstate];
    memcpy(sqlstate, link->sqlstate, sizeof sqlstate); /* the caller reads the cause of the rollback afterwards */
    if (link->connection == NULL || is_of_this_connection(link) || run_once(link, &statement, &result) != REPLY_FINE) {
        link_drop(link);
    }
    PQclear(result);
    link->in_transaction = false;
    memcpy(link->sqlstate, sqlstate, sizeof sqlstate);
}

enum weir_status link_transaction(struct link *link, link_body body, void *context, struct weir_error *error)
{
    INVARIANT(body != NULL);
    for (int tries = 1;; tries++) {
        enum weir_status status = link_transaction_begin(link, error);
        if (status != WEIR_OK) {
            return status;
        }
        status = body(link, context, error);
        if (status == WEIR_OK) {
            status = link_transaction_commit(link, error);
        } else {
            link_transaction_rollback(link);
        }
        bool again = status != WEIR_OK && (link_lost_a_race(link) || is_unknown_pooler(link));
        if (!again || tries >= LINK_TRIES_MOST || !deadline_is_ahead(link)) {
            return status;
        }
        pause_before_retry(link, tries);
    }
}

/* --- results --- */

const char *result_text(const PGresult *result, int row, int column)
{
    return PQgetisnull(result, row, column) != 0 ? NULL : PQgetvalue(result, row, column);
}

int64_t result_int(const PGresult *result, int row, int column)
{
    return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

bool result_bool(const PGresult *result, int row, int column)
{
    return PQgetvalue(result, row, column)[0] == 't';
}

bool result_null(const PGresult *result, int row, int column)
{
    return PQgetisnull(result, row, column) != 0;
}

const char *result_copy(const PGresult *result, int row, int column, struct arena *arena, bool *ret_failed)
{
    if (result_null(result, row, column)) {
        return NULL;
    }
    char *copy = arena_copy(arena, PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column));
    *ret_failed = *ret_failed || copy == NULL;
    return copy;
}

const char *result_bytes(const PGresult *result, int row, int column, struct arena *arena, size_t *ret_length,
                         bool *ret_failed)
{
    INVARIANT(result != NULL && arena != NULL && ret_failed != NULL);
    if (result_null(result, row, column)) {
        return NULL;
    }
    size_t length = 0;
    unsigned char *decoded = PQunescapeBytea((const unsigned char *)PQgetvalue(result, row, column), &length);
    char *bytes = decoded == NULL ? NULL : arena_copy(arena, (const char *)decoded, length);
    PQfreemem(decoded);
    if (bytes == NULL) {
        *ret_failed = true;
        return NULL;
    }
    if (ret_length != NULL) {
        *ret_length = length;
    }
    return bytes;
}
