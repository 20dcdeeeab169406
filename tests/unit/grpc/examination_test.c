/* Connections are examined before they carry calls, against a server that can be another one for each call. */
#include "grpc/grpc_client.h"

#include <string.h>

#include "base/error.h"
#include "support/grpc_fixture.h"
#include "support/test.h"

enum { SECOND = 1000000, CONNECTIONS_MAX = 64 };

#define WHO_PATH "/weir.test.Service/Who"

/* Which server answers, and which calls each connection carried. */
struct servers {
    struct grpc_fixture fixture;
    const char *name; /* of the one that answers; NULL: it does not say */
    bool holds;       /* the question who it is gets no answer for now */
    int questions;
    int calls[2]; /* of the expected one, and of another one */
    bool was_asked[CONNECTIONS_MAX];
    int unasked; /* calls on a connection that had not been examined */
    int judged;
};

static void handle(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    struct servers *servers = context;
    assert_in_range(call->connection, 1, CONNECTIONS_MAX - 1);
    *answer = (struct frontend_answer){.response = "", .response_length = 0};
    if (strcmp(call->path, WHO_PATH) == 0) {
        assert_int_equal(call->message_length, 3);
        servers->questions++;
        servers->was_asked[call->connection] = true;
        if (servers->name == NULL) {
            answer->code = GRPC_UNAVAILABLE;
        } else {
            answer->response = servers->name;
            answer->response_length = strlen(servers->name);
        }
        answer->fate = servers->holds ? FATE_HOLD : FATE_ANSWER;
        return;
    }
    servers->unasked += !servers->was_asked[call->connection];
    servers->calls[servers->name != NULL && strcmp(servers->name, "expected") == 0 ? 0 : 1]++;
}

static bool accepts(void *context, const struct grpc_result *result, struct weir_error *error)
{
    struct servers *servers = context;
    servers->judged++;
    if (result->outcome == GRPC_STATUS && result->code == GRPC_OK && result->response_length == strlen("expected") &&
        memcmp(result->response, "expected", strlen("expected")) == 0) {
        return true;
    }
    (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "another server answers");
    return false;
}

static void order_examination(struct servers *servers)
{
    struct grpc_examination examination = {.path = WHO_PATH,
                                           .message = "who",
                                           .message_length = 3,
                                           .timeout_us = 5 * SECOND,
                                           .accepts = accepts,
                                           .context = servers};
    assert_int_equal(grpc_client_examine(servers->fixture.client, &examination, NULL), WEIR_OK);
}

static void open_servers(struct servers *servers, const char *name)
{
    struct frontend_options served = {.handler = handle, .context = servers};
    memset(servers, 0, sizeof *servers);
    servers->name = name;
    grpc_fixture_open(&servers->fixture, &served, NULL);
}

static bool a_question_has_come(struct grpc_fixture *fixture)
{
    return ((struct servers *)(void *)fixture)->questions > 0;
}

static void a_connection_carries_calls_only_after_it_has_passed(void **state)
{
    (void)state;
    struct servers servers;
    open_servers(&servers, "expected");
    order_examination(&servers);
    servers.holds = true;
    struct grpc_ended *ended = grpc_fixture_call(&servers.fixture, "x", 1);
    grpc_fixture_until(&servers.fixture, a_question_has_come);
    for (int i = 0; i < 20; i++) {
        grpc_fixture_turn(&servers.fixture);
    }
    assert_int_equal(ended->times, 0);
    assert_int_equal(servers.calls[0], 0);
    servers.holds = false;
    servers.fixture.now_us += 6 * SECOND; /* it does not answer in time: the next one is asked */
    grpc_fixture_wait(&servers.fixture, ended);
    assert_int_equal(ended->outcome, GRPC_NOT_SENT);
    assert_string_equal(ended->error.message, "another server answers");
    servers.fixture.now_us += SECOND;
    assert_int_equal(grpc_fixture_run(&servers.fixture)->outcome, GRPC_STATUS);
    assert_int_equal(servers.calls[0], 1);
    assert_int_equal(servers.unasked, 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(grpc_fixture_run(&servers.fixture)->outcome, GRPC_STATUS);
    }
    assert_int_equal(servers.questions, 2); /* once for each connection */
    grpc_fixture_close(&servers.fixture);
}

static void another_server_sees_no_call(void **state)
{
    static const char *const others[] = {"another", "", NULL};
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct servers servers;
        open_servers(&servers, others[i]);
        order_examination(&servers);
        for (int k = 0; k < 10; k++) {
            struct grpc_ended *ended = grpc_fixture_run(&servers.fixture);
            assert_int_equal(ended->outcome, GRPC_NOT_SENT);
            assert_int_equal(ended->cause, GRPC_CAUSE_NOT_EXPECTED);
            assert_string_equal(ended->error.message, "another server answers");
            servers.fixture.now_us += SECOND;
        }
        assert_int_equal(servers.calls[0] + servers.calls[1], 0);
        assert_in_range(servers.questions, 2, 12); /* it is dialled again with a distance, not in a loop */
        servers.name = "expected";
        servers.fixture.now_us += SECOND;
        assert_int_equal(grpc_fixture_run(&servers.fixture)->outcome, GRPC_STATUS);
        grpc_fixture_close(&servers.fixture);
    }
}

/* The address leads to another server after the connection was lost. */
static void a_server_that_takes_its_place_sees_no_call(void **state)
{
    (void)state;
    struct servers servers;
    open_servers(&servers, "expected");
    assert_int_equal(grpc_fixture_run(&servers.fixture)->outcome, GRPC_STATUS);
    order_examination(&servers); /* of a connection that is open */
    assert_int_equal(grpc_fixture_run(&servers.fixture)->outcome, GRPC_STATUS);
    assert_int_equal(servers.questions, 1);
    servers.name = "another";
    grpc_client_examine_again(servers.fixture.client);
    for (int k = 0; k < 5; k++) {
        assert_int_equal(grpc_fixture_run(&servers.fixture)->outcome, GRPC_NOT_SENT);
        servers.fixture.now_us += SECOND;
    }
    servers.name = "expected";
    servers.fixture.now_us += SECOND;
    assert_int_equal(grpc_fixture_run(&servers.fixture)->outcome, GRPC_STATUS);
    assert_int_equal(servers.calls[0], 3);
    assert_int_equal(servers.calls[1], 0);
    grpc_fixture_close(&servers.fixture);
}

/* The call of an examination never goes on another connection, and a client may be closed at any time. */
static void a_client_is_closed_during_an_examination(void **state)
{
    (void)state;
    struct servers servers;
    open_servers(&servers, "expected");
    order_examination(&servers);
    servers.holds = true;
    struct grpc_ended *ended = grpc_fixture_call(&servers.fixture, "x", 1);
    grpc_fixture_until(&servers.fixture, a_question_has_come);
    grpc_client_examine_again(servers.fixture.client);
    grpc_fixture_turn(&servers.fixture);
    grpc_client_close(servers.fixture.client);
    servers.fixture.client = NULL;
    assert_int_equal(ended->outcome, GRPC_NOT_SENT);
    assert_int_equal(servers.judged, 0);
    grpc_fixture_close(&servers.fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_carries_calls_only_after_it_has_passed),
        cmocka_unit_test(another_server_sees_no_call),
        cmocka_unit_test(a_server_that_takes_its_place_sees_no_call),
        cmocka_unit_test(a_client_is_closed_during_an_examination),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
