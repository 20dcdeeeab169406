#include "store/postgres/link.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "store/postgres/connect.h"
#include "store/postgres/failure.h"
#include "store/postgres/libpq.h"
#include "store/postgres/parameters.h"

#define CONNECT_DEADLINE_LEAST_US (2500 * MICROSECONDS_PER_MS) /* a wrong address is reported within 3 s */
#define PAUSE_FIRST_US (50 * MICROSECONDS_PER_MS)
#define PAUSE_MOST_US (2 * MICROSECONDS_PER_SECOND)
#define RACE_PAUSE_US (2 * MICROSECONDS_PER_MS) /* doubled with each try */

enum { SCRATCH_MAX = 512 * 1024 * 1024, SCRATCH_KEPT = 1024 * 1024, PENDING_READS_MOST = 8, TEXT_OF_PREPARED = 0 };

/* --- life --- */

void link_init(struct link *link, struct address *address, int64_t deadline_us, const char *application_name)
{
    memset(link, 0, sizeof *link);
    link->address = address_share(address);
    link->deadline_us = deadline_us;
    link->application_name = application_name;
    link->scratch.max = SCRATCH_MAX;
    random_seed_from_system(&link->random);
}

void link_drop(struct link *link)
{
    if (link->connection != NULL) {
        /* Nothing that is still buffered shall be waited for. */
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
    link->deadline_boot_us = time_add(clock_boot(clock_system()), deadline_us);
}

/* --- connecting --- */

static int64_t jittered(struct link *link, int64_t us)
{
    return us / 2 + (int64_t)random_below(&link->random, (uint64_t)us);
}

static void note_failure(struct link *link, int64_t now_us, const struct weir_error *why)
{
    int64_t pause_us = PAUSE_FIRST_US << (link->failures < 6 ? link->failures : 6);
    pause_us = pause_us > PAUSE_MOST_US ? PAUSE_MOST_US : pause_us;
    link->failures++;
    link->pause_until_us = now_us + jittered(link, pause_us);
    link->why_not = *why;
}

/* Half of the deadline of a call, so that one which allows more, for a slow way or a busy server, connects there as well.
 */
static int64_t connect_deadline_us(const struct link *link)
{
    int64_t half_us = link->deadline_us / 2;
    return half_us > CONNECT_DEADLINE_LEAST_US ? half_us : CONNECT_DEADLINE_LEAST_US;
}

enum weir_status link_connect(struct link *link, struct weir_error *error)
{
    if (link->connection != NULL) {
        return WEIR_OK;
    }
    int64_t now_us = clock_boot(clock_system());
    if (now_us < link->pause_until_us) {
        if (error != NULL) {
            *error = link->why_not;
        }
        return link->why_not.status;
    }
    struct weir_error why = {.status = WEIR_OK};
    int64_t until_us = time_add(now_us, connect_deadline_us(link));
    until_us = until_us > link->deadline_boot_us ? link->deadline_boot_us : until_us;
    enum weir_status status = connecting_open(link, until_us, &link->connection, &why);
    if (status == WEIR_OK) {
        link->failures = 0;
        link->pause_until_us = 0;
        return WEIR_OK;
    }
    note_failure(link, clock_boot(clock_system()), &why);
    if (error != NULL) {
        *error = why;
    }
    return status;
}

bool link_has_tls(const struct link *link)
{
    return link->connection != NULL && PQsslInUse(link->connection) != 0;
}

/* Whether the server has hung up since the last call: found out before anything is sent, a loss costs nothing. */
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

static bool flush(struct link *link)
{
    for (;;) {
        int left = PQflush(link->connection);
        if (left <= 0) {
            return left == 0;
        }
        short events = 0;
        if (!connecting_wait(link->connection, POLLOUT | POLLIN, link->deadline_boot_us, &events)) {
            return false;
        }
        /* A server that cannot write its answer reads no more of the question. */
        if ((events & POLLIN) != 0 && PQconsumeInput(link->connection) == 0) {
            return false;
        }
    }
}

/* Everything until the server is ready again. A commit comes after the answer to its statement: only then it is
 * sure. Of several results the first refusal counts, else the last one. */
static enum reply await_answer(struct link *link, PGresult **ret_result)
{
    PGresult *kept = NULL;
    if (!flush(link)) {
        return REPLY_LOST;
    }
    for (;;) {
        while (PQisBusy(link->connection) != 0) {
            if (!connecting_wait(link->connection, POLLIN, link->deadline_boot_us, NULL) ||
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

static enum reply prepare(struct link *link, const struct statement *statement, PGresult **ret_result)
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

static enum reply run_once(struct link *link, const struct statement *statement, PGresult **ret_result)
{
    const struct parameters *parameters = statement->parameters;
    int sent;
    if (statement->prepared != NULL && !*statement->prepared) {
        enum reply reply = prepare(link, statement, ret_result);
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
    /* A failed send may have sent a part, but never the end: the server does nothing without that. */
    return sent == 1 ? await_answer(link, ret_result) : REPLY_NOT_SENT;
}

/* --- outcomes --- */

bool link_lost_a_race(const struct link *link)
{
    return strcmp(link->sqlstate, "40001") == 0 || strcmp(link->sqlstate, "40P01") == 0;
}

/* A pooler gave us another server connection than the one that knows our statement, or one that knows it already. */
static bool is_pooler_in_disguise(const struct link *link)
{
    return strcmp(link->sqlstate, "26000") == 0 || strcmp(link->sqlstate, "42P05") == 0;
}

/* A new connection may do what this one may not: it goes to the primary, or belongs to a role of the same name that was
 * made anew, while this one stays that of the role which was dropped. */
static bool is_of_connection(const struct link *link)
{
    return strcmp(link->sqlstate, "25006") == 0 || strcmp(link->sqlstate, "42501") == 0;
}

/* "cached plan must not change result type": a migration changed a table under a prepared statement. */
static bool is_outdated_plan(const struct link *link, const PGresult *result)
{
    const char *routine = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
    return strcmp(link->sqlstate, "0A000") == 0 && routine != NULL && strcmp(routine, "RevalidateCachedQuery") == 0;
}

static void pause_before_retry(struct link *link, int tries)
{
    int64_t pause_us = jittered(link, RACE_PAUSE_US << (tries < 5 ? tries : 5));
    struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)pause_us * 1000};
    (void)nanosleep(&pause, NULL);
}

static bool has_time(const struct link *link)
{
    return clock_boot(clock_system()) < link->deadline_boot_us;
}

static enum weir_status lost(struct link *link, const struct statement *statement, enum reply reply,
                             struct weir_error *error)
{
    bool late = !has_time(link);
    bool unknown = reply == REPLY_LOST && !link->in_transaction && !statement->only_reads;
    char words[200];
    text_copy(words, sizeof words, late ? "no answer in time" : PQerrorMessage(link->connection));
    words[strcspn(words, "\n")] = '\0';
    link_drop(link);
    link->sqlstate[0] = '\0';
    if (unknown) {
        error_set(error, WEIR_COMMIT_UNKNOWN, "%s: the store %s did not confirm it: %s", statement->name,
                  link->address->shown, words);
        error_hint(error, "it may or may not have been done; the same call may be repeated");
        return WEIR_COMMIT_UNKNOWN;
    }
    error_set(error, WEIR_STORE_UNREACHABLE, "%s: the store %s is away: %s", statement->name, link->address->shown, words);
    error_hint(error, "nothing was changed; look at the server, weir goes on as soon as it is back");
    return WEIR_STORE_UNREACHABLE;
}

enum verdict { VERDICT_FINAL, VERDICT_AGAIN };

/* A refusal, and whether the statement is worth another try. */
static enum verdict judge(struct link *link, const struct statement *statement, PGresult *result, int tries,
                          enum weir_status *ret_status, struct weir_error *error)
{
    *ret_status = failure_of_result(link, result, statement->name, error);
    bool disguised = is_pooler_in_disguise(link);
    bool outdated = is_outdated_plan(link, result);
    PQclear(result);
    if (disguised) {
        link->address->pooled = true;
        memset(link->prepared, 0, sizeof link->prepared);
    }
    if (link->in_transaction) {
        return VERDICT_FINAL;
    }
    if (outdated || is_of_connection(link)) {
        link_drop(link);
    }
    bool again = link_lost_a_race(link) || disguised || outdated;
    if (!again || tries >= LINK_TRIES_MOST || !has_time(link)) {
        return VERDICT_FINAL;
    }
    if (link_lost_a_race(link)) {
        pause_before_retry(link, tries);
    }
    return VERDICT_AGAIN;
}

static enum weir_status make_ready(struct link *link, struct weir_error *error)
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

static enum weir_status run(struct link *link, struct statement *statement, bool *prepared, PGresult **ret_result,
                            struct weir_error *error)
{
    bool was_lost = false;
    for (int tries = 1;; tries++) {
        PGresult *result = NULL;
        enum weir_status status = make_ready(link, error);
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
            if (judge(link, statement, result, tries, &status, error) == VERDICT_FINAL) {
                return status;
            }
            continue;
        }
        bool harmless = (reply == REPLY_NOT_SENT || statement->only_reads) && !link->in_transaction;
        bool again = harmless && !was_lost && has_time(link);
        status = lost(link, statement, reply, error);
        if (!again) {
            return status;
        }
        was_lost = true;
    }
}

static enum weir_status run_query(struct link *link, struct weir_error *error, PGresult **ret_result, bool only_reads,
                                  enum postgres_query query, const char *types, va_list values)
{
    struct parameters parameters;
    struct statement statement = {.name = postgres_queries[query].name,
                                  .text = link->address->texts[query],
                                  .prepared_name = link->address->prepared_names[query],
                                  .parameters = &parameters,
                                  .only_reads = only_reads};
    enum weir_status status = parameters_encode(&parameters, &link->scratch, types, values, error);
    if (status == WEIR_OK) {
        status = run(link, &statement, &link->prepared[query], ret_result, error);
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

enum weir_status link_execute(struct link *link, const char *sql, struct weir_error *error)
{
    PGresult *result = NULL;
    struct statement statement = {.name = "statements", .text = sql};
    enum weir_status status = run(link, &statement, NULL, &result, error);
    if (status == WEIR_OK) {
        PQclear(result);
    }
    return status;
}

/* --- transactions --- */

enum weir_status link_transaction_begin_with(struct link *link, enum postgres_query query, struct weir_error *error)
{
    PGresult *result = NULL;
    INVARIANT(!link->in_transaction);
    /* A beginning changes nothing, so it may be sent again on a new connection. */
    struct statement statement = {
        .name = postgres_queries[query].name, .text = link->address->texts[query], .only_reads = true};
    enum weir_status status = run(link, &statement, NULL, &result, error);
    if (status == WEIR_OK) {
        PQclear(result);
        link->in_transaction = true;
    } else if (link->connection != NULL && PQtransactionStatus(link->connection) != PQTRANS_IDLE) {
        link_drop(link); /* it began, and failed on the way */
    }
    return status;
}

enum weir_status link_transaction_begin(struct link *link, struct weir_error *error)
{
    return link_transaction_begin_with(link, QUERY_BEGIN, error);
}

enum weir_status link_transaction_commit(struct link *link, struct weir_error *error)
{
    bool rolled_back = false;
    if (link->connection == NULL || !link->in_transaction) {
        link->in_transaction = false;
        return error_set(error, WEIR_STORE_UNREACHABLE, "the transaction was lost before its end; nothing was changed");
    }
    FAILPOINT("before_commit");
    /* From here on a lost answer is an unknown one, and nothing may be sent again. */
    struct statement statement = {.name = "commit", .text = link->address->texts[QUERY_COMMIT]};
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
    return lost(link, &statement, reply, error);
}

void link_transaction_rollback(struct link *link)
{
    PGresult *result = NULL;
    if (!link->in_transaction) {
        return;
    }
    struct statement statement = {.name = "rollback", .text = link->address->texts[QUERY_ROLLBACK]};
    char sqlstate[sizeof link->sqlstate];
    memcpy(sqlstate, link->sqlstate, sizeof sqlstate); /* the cause of the rollback is asked afterwards */
    if (link->connection == NULL || is_of_connection(link) || run_once(link, &statement, &result) != REPLY_FINE) {
        link_drop(link);
    }
    PQclear(result);
    link->in_transaction = false;
    memcpy(link->sqlstate, sqlstate, sizeof sqlstate);
}

enum weir_status link_transaction(struct link *link, link_body body, void *context, struct weir_error *error)
{
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
        bool again = status != WEIR_OK && (link_lost_a_race(link) || is_pooler_in_disguise(link));
        if (!again || tries >= LINK_TRIES_MOST || !has_time(link)) {
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
