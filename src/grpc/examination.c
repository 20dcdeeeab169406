/* The examination of connections.
 *
 * The address of a server may lead to another one while the client lives. The cause may be DNS, a load balancer, or a
 * namespace of the server that was removed and made again. A call that was meant for the first server must not reach
 * the second, and an answer of the second proves nothing about the first. One TCP connection leads to one server, so:
 *
 *   1. Each connection that opens first carries the call of the examination, and no other one.
 *   2. The owner judges its result. A connection that passes carries calls.
 *   3. A connection to another server ends. The pool dials again with growing distances, and each new connection is
 *      examined.
 *   4. A result may not say which server answers: the server throttles, or answers too late. That is no reason to lose the
 *      calls under way, so the connection is asked again with growing distances. After GRPC_UNCLEAR_MAX tries the calls
 * that wait end. A connection that never carried a call ends, too: another way may lead to a server that answers.
 *   5. A proxy may pass calls of one connection to different servers. So the owner can order a new examination of all
 *      connections when an answer shows a change; until they pass it they take no call.
 *
 * The call of an examination is pinned: it must never go on another connection than the one that it examines. */
#include "grpc/examination.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The table of calls is full: the examination is tried again. */
#define EXAMINATION_RETRY_US (100 * MICROSECONDS_PER_MS)

/* The context of its call. */
struct examination_call {
    struct grpc_client *client;
    struct connection *connection; /* NULL: it was freed */
    unsigned round;
};

bool grpc_examination_is_passed(const struct connection *connection)
{
    return connection->examined_round == connection->settings->examination_round;
}

/* Step 4. */
static void handle_unclear_server(struct grpc_client *client, struct connection *connection, const struct weir_error *error)
{
    struct pool *pool = &client->pools[connection->class];
    connection->unclear++;
    connection->examine_us =
        time_add(client->now_us, grpc_client_backoff(client, connection->unclear, client->backoff_max_us));
    if (connection->unclear < GRPC_UNCLEAR_MAX) {
        return;
    }
    if (!connection->was_noted) {
        grpc_connection_end(connection, GRPC_CAUSE_NOT_EXPECTED, error);
        return;
    }
    connection->unclear = GRPC_UNCLEAR_MAX; /* the longest distance */
    pool->gave_up = true;
    pool->cause = GRPC_CAUSE_NOT_EXPECTED;
    pool->error = *error;
}

/* Steps 2 to 4. A connection that takes no calls any more needs no judgement. */
static void handle_examination(void *context, const struct grpc_result *result)
{
    struct examination_call *own = context;
    struct grpc_client *client = own->client;
    struct connection *connection = own->connection;
    struct weir_error error = {.status = WEIR_OK};
    unsigned round = own->round;
    free(own);
    if (connection == NULL) {
        return;
    }
    connection->examination = NULL;
    if (connection->state != CONNECTION_OPEN || round != client->settings.examination_round) {
        return;
    }
    switch (client->examination.judge(client->examination.context, result, &error)) {
    case GRPC_VERDICT_EXPECTED:
        connection->examined_round = round;
        connection->unclear = 0;
        break;
    case GRPC_VERDICT_OTHER:
        grpc_connection_end(connection, GRPC_CAUSE_NOT_EXPECTED, &error);
        break;
    case GRPC_VERDICT_UNCLEAR:
        handle_unclear_server(client, connection, &error);
        break;
    }
}

int64_t grpc_examination_step(struct grpc_client *client, struct connection *connection)
{
    INVARIANT(client != NULL);
    if (connection == NULL || connection->state != CONNECTION_OPEN || connection->examination != NULL ||
        grpc_examination_is_passed(connection)) {
        return TIME_NEVER;
    }
    if (client->now_us < connection->examine_us) {
        return connection->examine_us;
    }
    const struct grpc_examination *examination = &client->examination;
    struct examination_call *own = malloc(sizeof *own);
    struct grpc_request request = {.path = examination->path,
                                   .message = examination->message,
                                   .message_length = examination->message_length,
                                   .timeout_us = examination->timeout_us,
                                   .class = connection->class,
                                   .done = handle_examination,
                                   .context = own};
    struct weir_error error;
    grpc_call_id id = 0;
    if (own == NULL || grpc_call_table_take(&client->table, &request, client->now_us, &id, &error) != WEIR_OK) {
        free(own);
        return time_add(client->now_us, EXAMINATION_RETRY_US);
    }
    *own =
        (struct examination_call){.client = client, .connection = connection, .round = client->settings.examination_round};
    connection->examination = own;
    connection->asked_us = connection->unclear == 0 ? client->now_us : connection->asked_us;
    struct call *call = grpc_call_table_find(&client->table, id);
    call->is_pinned = true;
    connection->now_us = client->now_us;
    if (!grpc_connection_begin_call(connection, call)) {
        (void)error_set(&error, WEIR_ENGINE_UNREACHABLE, "the connection takes no more calls");
        grpc_call_finish_unsent(&client->table, call, GRPC_CAUSE_CONNECTION_LOST, &error);
    }
    return TIME_NEVER;
}

void grpc_examination_detach(struct connection *connection)
{
    if (connection->examination != NULL) {
        connection->examination->connection = NULL;
        connection->examination = NULL;
    }
}

enum weir_status grpc_client_examine(struct grpc_client *client, const struct grpc_examination *examination,
                                     struct weir_error *error)
{
    INVARIANT(client != NULL && examination != NULL && examination->judge != NULL && examination->timeout_us > 0);
    INVARIANT(client->settings.examination_round == 0);
    char *path = strdup(examination->path);
    void *message = malloc(examination->message_length + 1);
    if (path == NULL || message == NULL) {
        free(path);
        free(message);
        return error_out_of_memory(error);
    }
    if (examination->message_length > 0) {
        memcpy(message, examination->message, examination->message_length);
    }
    client->examination = *examination;
    client->examination.path = path;
    client->examination.message = message;
    client->settings.examination_round = 1;
    return WEIR_OK;
}

/* 0 is left out when the count begins again: it means that no examination was ordered. */
void grpc_client_examine_again(struct grpc_client *client)
{
    INVARIANT(client != NULL);
    unsigned *round = &client->settings.examination_round;
    if (*round != 0) {
        *round = *round + 1 == 0 ? 1 : *round + 1;
    }
}

void grpc_examination_close(struct grpc_client *client)
{
    free((char *)(uintptr_t)client->examination.path);
    free((void *)(uintptr_t)client->examination.message);
}
