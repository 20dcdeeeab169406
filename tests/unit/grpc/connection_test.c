/* Where the line between "sent" and "not sent" runs: at the byte that the socket has taken. */
#include "grpc/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "support/frontend.h"
#include "support/test.h"

enum { CALLS = 12, VALUE = 7 * 1024, HEADERS = 4 };

static void note(void *context, const struct grpc_result *result)
{
    *(int *)context += result->outcome == GRPC_UNKNOWN && result->cause == GRPC_CAUSE_CONNECTION_LOST;
}

static size_t drain(int fd)
{
    static char bytes[64 * 1024];
    size_t total = 0;
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        total += (size_t)got;
    }
    return total;
}

static void take_calls(struct call_table *table, int *unknown)
{
    static char value[VALUE + 1];
    struct grpc_header headers[HEADERS];
    memset(value, 'v', VALUE);
    for (int i = 0; i < HEADERS; i++) {
        headers[i] = (struct grpc_header){.name = "x-large", .value = value, .secret = true};
    }
    for (int i = 0; i < CALLS; i++) {
        struct grpc_request request = {.path = "/a.B/C",
                                       .timeout_us = 1000000,
                                       .headers = headers,
                                       .header_count = HEADERS,
                                       .done = note,
                                       .context = unknown};
        assert_int_equal(grpc_call_table_take(table, &request, 1, NULL, NULL), WEIR_OK);
    }
}

/* How many calls were made ready for the socket, which took none of their bytes. */
static int run_with_buffer(int buffer_bytes)
{
    static const struct connection_settings settings = {.user_agent = "test",
                                                        .connect_timeout_us = GRPC_CONNECT_TIMEOUT_US,
                                                        .keepalive_us = GRPC_KEEPALIVE_US,
                                                        .keepalive_timeout_us = GRPC_KEEPALIVE_TIMEOUT_US};
    const struct answer_limits limits = {.message_bytes_max = 1000, .arriving_bytes_max = 1000};
    struct call_table table;
    struct weir_error error;
    uint8_t greeting[9];
    uint64_t written_at[CALLS];
    int fds[2];
    int unknown = 0;
    assert_int_equal(grpc_call_table_open(&table, CALLS, 10000000, &limits, NULL), WEIR_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes), 0);
    struct connection *connection = grpc_connection_adopt(&settings, &table, GRPC_SHORT_CALL, fds[0], 1);
    assert_non_null(connection);
    size_t length = frontend_frame(greeting, 4, 0, 0, NULL, 0);
    assert_int_equal(send(fds[1], greeting, length, 0), (ssize_t)length);
    grpc_connection_step(connection, 2);
    assert_int_equal(connection->state, CONNECTION_OPEN);
    take_calls(&table, &unknown);
    struct call *calls[CALLS];
    for (int i = 0; i < CALLS; i++) {
        calls[i] = table.waiting[GRPC_SHORT_CALL].first;
        assert_true(grpc_connection_begin_call(connection, calls[i]));
    }
    grpc_connection_flush(connection, 3);
    assert_true(grpc_connection_wants_write(connection)); /* the socket is full */
    for (int i = 0; i < CALLS; i++) {
        written_at[i] = calls[i]->written_at;
    }
    (void)error_set(&error, WEIR_ENGINE_UNREACHABLE, "cut");
    grpc_connection_end(connection, GRPC_CAUSE_CONNECTION_LOST, &error);
    size_t received = drain(fds[1]);
    int expected_unknown = 0;
    int made_but_not_sent = 0;
    for (int i = 0; i < CALLS; i++) {
        bool left = written_at[i] < received;
        expected_unknown += left;
        made_but_not_sent += !left && written_at[i] != CALL_NOT_WRITTEN;
        assert_int_equal(calls[i]->state, left ? CALL_FINISHED : CALL_WAITING);
    }
    assert_in_range(expected_unknown, 1, CALLS - 1);
    while (table.waiting[GRPC_SHORT_CALL].first != NULL) {
        grpc_call_finish_unsent(&table, table.waiting[GRPC_SHORT_CALL].first, GRPC_CAUSE_CLOSED, &error);
    }
    while (grpc_call_table_report_next(&table)) {
    }
    assert_int_equal(unknown, expected_unknown);
    grpc_connection_free(connection);
    grpc_call_table_close(&table);
    (void)close(fds[1]);
    return made_but_not_sent;
}

static void a_call_is_unknown_from_its_first_byte_on_and_not_before(void **state)
{
    (void)state;
    int made_but_not_sent = 0;
    for (int buffer_bytes = 8 * 1024; buffer_bytes <= 64 * 1024; buffer_bytes += 2 * 1024) {
        made_but_not_sent += run_with_buffer(buffer_bytes);
    }
    assert_true(made_but_not_sent > 0); /* else this test proves nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_unknown_from_its_first_byte_on_and_not_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
