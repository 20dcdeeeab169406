/* Bytes as the server's side of a connection. The first byte says how much of the input the client sees at a time. Whatever
 * comes: every call gets one result, each result STATUS has all its parts, and nothing is left behind. */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "grpc/connection.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CALLS = 3, INPUT_MAX = 64 * 1024, TURNS_MAX = 4096 };

static void check_result(void *context, const struct grpc_result *result)
{
    int *told = context;
    (*told)++;
    INVARIANT(result->message != NULL);
    if (result->outcome == GRPC_STATUS) {
        INVARIANT(result->error == NULL && result->cause == GRPC_CAUSE_NONE);
        INVARIANT(result->code >= 0 && result->code < GRPC_CODE_COUNT);
        INVARIANT(result->code != GRPC_OK || result->response != NULL);
    } else {
        INVARIANT(result->error != NULL && result->error->message[0] != '\0' && result->cause != GRPC_CAUSE_NONE);
    }
}

static void begin_calls(struct connection *connection, struct call_table *table)
{
    while (grpc_connection_free_streams(connection) > 0 && table->waiting[GRPC_SHORT_CALL].first != NULL) {
        if (!grpc_connection_begin_call(connection, table->waiting[GRPC_SHORT_CALL].first)) {
            break;
        }
    }
}

/* Empties what the client has written, so that it never has to wait. */
static void drain(int fd)
{
    uint8_t bytes[16 * 1024];
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
}

static void play(struct connection *connection, struct call_table *table, int fd, const uint8_t *data, size_t size)
{
    size_t step = (size_t)data[0] * 16 + 1;
    size_t at = 1;
    int64_t now_us = 1;
    for (int turn = 0; turn < TURNS_MAX && connection->state != CONNECTION_DEAD; turn++) {
        if (at < size) {
            size_t length = size - at < step ? size - at : step;
            ssize_t sent = send(fd, data + at, length, MSG_NOSIGNAL | MSG_DONTWAIT);
            at += sent > 0 ? (size_t)sent : size - at;
        } else if (!connection->has_more) {
            (void)shutdown(fd, SHUT_WR);
        }
        grpc_connection_step(connection, now_us += 1000);
        (void)grpc_connection_tick(connection, now_us);
        begin_calls(connection, table);
        grpc_connection_flush(connection, now_us);
        drain(fd);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct connection_settings settings = {.user_agent = "fuzz",
                                                        .connect_timeout_us = GRPC_CONNECT_TIMEOUT_US,
                                                        .keepalive_us = GRPC_KEEPALIVE_US,
                                                        .keepalive_timeout_us = GRPC_KEEPALIVE_TIMEOUT_US};
    const struct answer_limits limits = {.message_bytes_max = 10000, .arriving_bytes_max = 20000};
    struct call_table table;
    struct weir_error error;
    int fds[2];
    int told = 0;
    if (size < 1 || size > INPUT_MAX) {
        return 0;
    }
    INVARIANT(grpc_call_table_open(&table, CALLS, INPUT_MAX, &limits, &error) == WEIR_OK);
    INVARIANT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    struct connection *connection = grpc_connection_adopt(&settings, &table, GRPC_SHORT_CALL, fds[0], 1);
    INVARIANT(connection != NULL);
    for (int i = 0; i < CALLS; i++) {
        struct grpc_request request = {.path = "/a.B/C",
                                       .message = "request",
                                       .message_length = 7,
                                       .timeout_us = 1000000,
                                       .done = check_result,
                                       .context = &told};
        INVARIANT(grpc_call_table_take(&table, &request, 1, NULL, &error) == WEIR_OK);
    }
    play(connection, &table, fds[1], data, size);
    (void)error_set(&error, WEIR_STOPPED, "the end of the input");
    grpc_connection_end(connection, GRPC_CAUSE_CLOSED, &error);
    while (table.waiting[GRPC_SHORT_CALL].first != NULL) {
        grpc_call_finish_unsent(&table, table.waiting[GRPC_SHORT_CALL].first, GRPC_CAUSE_CLOSED, &error);
    }
    while (grpc_call_table_report_next(&table)) {
    }
    INVARIANT(told == CALLS);
    INVARIANT(table.limits.arriving_bytes == 0 && table.request_bytes == 0 && table.under_way == 0);
    grpc_connection_free(connection);
    grpc_call_table_close(&table);
    (void)close(fds[1]);
    return 0;
}
