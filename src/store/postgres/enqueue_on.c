/* Enqueues inside the caller's open transaction, on the caller's connection.
 *
 * 1. The connection must have an open transaction that has not failed, no pipeline, and UTF-8. Anything else is refused
 *    before a byte is sent.
 * 2. One call of try_enqueue() inserts the row and its news. A refusal is a row of the answer and not an error of the
 * server, because an error would end the caller's transaction.
 * 3. The commit of the caller makes the item visible and wakes the scheduler. A rollback leaves nothing.
 *
 * This file never begins, commits or rolls back, never keeps the connection, and waits at most ENQUEUE_ON_DEADLINE_US.
 * A transaction of another session may hold the same idempotency key. It runs in the thread of the caller. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/failure.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/name_suggestions.h"
#include "store/postgres/postgres_store.h"

/* The parts of the messages of failure.c. */
static const char DOING[] = "enqueue";
static const char SHOWN[] = "of this connection";

/* --- the connection --- */

static enum weir_status check_connection(PGconn *connection, struct weir_error *error)
{
    if (PQstatus(connection) != CONNECTION_OK) {
        return error_set(error, WEIR_STORE_UNREACHABLE, "the connection is not open");
    }
    if (PQpipelineStatus(connection) != PQ_PIPELINE_OFF) {
        error_set(error, WEIR_MISUSE, "the connection is in pipeline mode");
        error_hint(error, "call PQexitPipelineMode() before you enqueue");
        return WEIR_MISUSE;
    }
    if (PQtransactionStatus(connection) != PQTRANS_INTRANS) {
        error_set(error, WEIR_MISUSE, "there is no open transaction on this connection, or it has failed");
        error_hint(error, "send BEGIN, enqueue, do your own writes, then send COMMIT");
        return WEIR_MISUSE;
    }
    const char *encoding = PQparameterStatus(connection, "client_encoding");
    if (encoding == NULL || strcmp(encoding, "UTF8") != 0) {
        error_set(error, WEIR_MISUSE, "the connection's client_encoding is %s", encoding == NULL ? "unknown" : encoding);
        error_hint(error, "weir's text is UTF-8: PQsetClientEncoding(connection, \"UTF8\")");
        return WEIR_MISUSE;
    }
    return WEIR_OK;
}

/* Waits until the socket can be read, or written to if `sends`. False at the deadline. */
static bool wait_for_socket(PGconn *connection, bool sends, int64_t deadline_boot_us)
{
    struct pollfd fd = {.fd = PQsocket(connection), .events = (short)(sends ? POLLIN | POLLOUT : POLLIN)};
    for (;;) {
        int64_t left_us = deadline_boot_us - clock_boot(clock_system());
        int ready = left_us <= 0 ? 0 : poll(&fd, 1, time_to_poll_ms(left_us));
        if (ready >= 0 || errno != EINTR) {
            return ready > 0;
        }
    }
}

/* The answer to the statement; NULL: none came before the deadline, or the connection is lost. */
static PGresult *await_last_answer(PGconn *connection, int64_t deadline_boot_us)
{
    int unsent;
    while ((unsent = PQflush(connection)) == 1) {
        if (!wait_for_socket(connection, true, deadline_boot_us) || PQconsumeInput(connection) == 0) {
            return NULL;
        }
    }
    PGresult *answer = NULL;
    for (;;) {
        while (PQisBusy(connection) == 1) {
            if (unsent != 0 || !wait_for_socket(connection, false, deadline_boot_us) || PQconsumeInput(connection) == 0) {
                PQclear(answer);
                return NULL;
            }
        }
        PGresult *next = PQgetResult(connection);
        if (next == NULL) {
            return answer;
        }
        PQclear(answer);
        answer = next;
    }
}

/* Sends the statement without blocking, and gives the connection its blocking mode back. */
static PGresult *send_and_await(PGconn *connection, const char *sql, const struct enqueue_request *request,
                                const char *params)
{
    enum { TEXT = 25, INTEGER = 23, BIGINT = 20, UUID = 2950, JSONB = 3802, PARAMETERS = 14 };
    static const Oid types[PARAMETERS] = {TEXT, TEXT, TEXT, TEXT,  INTEGER, BIGINT, TEXT,
                                          UUID, TEXT, TEXT, JSONB, TEXT,    BIGINT, BIGINT};
    char priority[16];
    char run_at[24];
    char window[24];
    char longest[24];
    (void)snprintf(priority, sizeof priority, "%d", request->priority);
    (void)snprintf(run_at, sizeof run_at, "%lld", (long long)request->run_at_us);
    (void)snprintf(window, sizeof window, "%lld", (long long)request->debounce_us);
    (void)snprintf(longest, sizeof longest, "%lld", (long long)request->debounce_most_us);
    const char *values[PARAMETERS] = {request->workspace,
                                      request->workflow,
                                      params,
                                      request->idempotency_key,
                                      priority,
                                      run_at,
                                      request->group,
                                      request->id,
                                      request->traceparent,
                                      request->business_key,
                                      request->labels,
                                      key_mode_name(request->key_mode),
                                      window,
                                      longest};
    bool blocking = PQisnonblocking(connection) == 0;
    if (blocking && PQsetnonblocking(connection, 1) != 0) {
        return NULL;
    }
    int64_t deadline_boot_us = clock_boot(clock_system()) + ENQUEUE_ON_DEADLINE_US;
    PGresult *answer = PQsendQueryParams(connection, sql, PARAMETERS, types, values, NULL, NULL, 0) == 1
                           ? await_last_answer(connection, deadline_boot_us)
                           : NULL;
    if (blocking && (answer != NULL || PQstatus(connection) != CONNECTION_OK)) {
        (void)PQsetnonblocking(connection, 0); /* with unsent bytes this call would wait */
    }
    return answer;
}

/* --- the request --- */

/* The text of the statement for this schema. The name goes into SQL, so only plain names are accepted. */
static enum weir_status fill_statement(const char *schema, char **ret_sql, struct weir_error *error)
{
    struct address address = {.schema = "weir"};
    size_t length = schema == NULL ? 0 : strspn(schema, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (schema != NULL && (length == 0 || schema[length] != '\0' || length >= sizeof address.schema ||
                           (schema[0] >= '0' && schema[0] <= '9'))) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not the name of a store's schema", schema);
        error_hint(error, "a name has small letters, digits and _, and begins with a letter or _");
        return WEIR_INVALID_ARGUMENT;
    }
    if (schema != NULL) {
        text_copy(address.schema, sizeof address.schema, schema);
    }
    *ret_sql = address_fill(&address, postgres_queries[QUERY_TRY_ENQUEUE].sql);
    return *ret_sql == NULL ? error_out_of_memory(error) : WEIR_OK;
}

static void read_enqueue_answer(const PGresult *answer, struct enqueue_result *result)
{
    const char *id = result_text(answer, 0, 1);
    const char *hint = result_text(answer, 0, 4);
    result->status = status_parse_name(result_text(answer, 0, 0));
    result->duplicate = result_bool(answer, 0, 2);
    if (result->status == WEIR_OK) {
        text_copy(result->id, sizeof result->id, id);
        return;
    }
    error_set(&result->error, result->status, "%s", result_text(answer, 0, 3));
    if (hint != NULL) {
        error_hint(&result->error, "%s", hint);
    }
}

static enum weir_status enqueue_on_connection(PGconn *connection, const char *sql, const struct enqueue_request *request,
                                              struct enqueue_result *result, struct weir_error *error)
{
    char *params = enqueue_has_no_params(request) ? NULL : strndup(request->params, request->params_length);
    if (params == NULL && !enqueue_has_no_params(request)) {
        return error_out_of_memory(error);
    }
    PGresult *answer = send_and_await(connection, sql, request, params);
    enum weir_status status = WEIR_OK;
    if (answer != NULL && PQresultStatus(answer) == PGRES_TUPLES_OK) {
        read_enqueue_answer(answer, result);
    } else if (answer != NULL && PQstatus(connection) == CONNECTION_OK) {
        status = failure_of_answer(answer, SHOWN, DOING, error);
    } else if (PQstatus(connection) != CONNECTION_OK) {
        status = error_set(error, WEIR_STORE_UNREACHABLE, "the connection was lost; its transaction is undone");
    } else {
        status = error_set(error, WEIR_TIMED_OUT, "the server did not answer within 30 s");
        error_hint(error, "close the connection; another session may hold the same idempotency key in an open transaction");
    }
    PQclear(answer);
    free(params);
    return status;
}

enum weir_status postgres_store_enqueue_on(struct pg_conn *connection, const char *schema,
                                           const struct enqueue_request *request, struct enqueue_result *ret_result,
                                           struct weir_error *error)
{
    INVARIANT(request != NULL && ret_result != NULL);
    char *sql = NULL;
    struct enqueue_result result = {.status = WEIR_OK};
    enum weir_status status = libpq_load(error);
    status = status == WEIR_OK ? check_connection(connection, error) : status;
    if (status == WEIR_OK) {
        status = fill_statement(schema, &sql, error);
    }
    if (status == WEIR_OK) {
        result.status = enqueue_request_check(request, &result.error);
        if (result.status == WEIR_OK) {
            status = enqueue_on_connection(connection, sql, request, &result, error);
        }
    }
    free(sql);
    if (status == WEIR_OK) {
        *ret_result = result;
    }
    return status;
}
