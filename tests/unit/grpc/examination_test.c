/* Connections are examined before they carry calls, against a server that can be another one for each call. */
#include "grpc/grpc_client.h"

#include <string.h>

#include "base/error.h"
#include "support/grpc_fixture.h"
#include "support/test.h"

enum { SECOND = 1000000, CONNECTIONS_MAX = 512, REFUSED_STREAM = 7 };

#define WHO_PATH "/weir.test.Service/Who"

/* Which server answers, and which calls each connection carried. */
struct servers {
    struct grpc_fixture fixture;
    const char *name; /* of the one that answers; NULL: it names none */
    int unclear;      /* so many further questions are throttled */
    bool holds;       /* the question who it is gets no answer for now */
    int holds_on;     /* only on this connection; 0: on all */
    bool cuts;        /* each call ends its connection */
    bool refuses;     /* the question is refused: REFUSED_STREAM */
    bool holds_calls; /* nor do calls */
    uint64_t held;    /* the last one of these */
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
        if (servers->name == NULL || servers->unclear > 0) {
            answer->code = servers->name == NULL ? GRPC_UNAVAILABLE : GRPC_RESOURCE_EXHAUSTED;
            servers->unclear -= servers->unclear > 0;
        } else {
            answer->response = servers->name;
            answer->response_length = strlen(servers->name);
        }
        bool holds = servers->holds && (servers->holds_on == 0 || servers->holds_on == call->connection);
        answer->fate = holds ? FATE_HOLD : servers->refuses ? FATE_RESET : FATE_ANSWER;
        answer->reset_code = REFUSED_STREAM;
        return;
    }
    servers->held = servers->holds_calls ? call->token : servers->held;
    answer->fate = servers->holds_calls ? FATE_HOLD : servers->cuts ? FATE_CUT : FATE_ANSWER;
    servers->unasked += !servers->was_asked[call->connection];
    servers->calls[servers->name != NULL && strcmp(servers->name, "expected") == 0 ? 0 : 1]++;
}

static enum grpc_verdict judge(void *context, const struct grpc_result *result, struct weir_error *error)
{
    struct servers *servers = context;
    servers->judged++;
    if (result->outcome != GRPC_STATUS || result->code != GRPC_OK) {
        (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "the server does not say who it is");
        return GRPC_VERDICT_UNCLEAR;
    }
    if (result->response_length == strlen("expected") && memcmp(result->response, "expected", strlen("expected")) == 0) {
        return GRPC_VERDICT_EXPECTED;
    }
    (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "another server answers");
    return GRPC_VERDICT_OTHER;
}

static void order_examination(struct servers *servers)
{
    struct grpc_examination examination = {.path = WHO_PATH,
                                           .message = "who",
                                           .message_length = 3,
                                           .timeout_us = 5 * SECOND,
                                           .judge = judge,
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
    servers.fixture.now_us += 6 * SECOND; /* it does not answer in time: it is asked again */
    while (ended->times == 0) {
        servers.fixture.now_us += SECOND / 10;
        grpc_fixture_turn(&servers.fixture);
    }
    assert_int_equal(ended->outcome, GRPC_STATUS);
    assert_int_equal(servers.calls[0], 1);
    assert_int_equal(servers.unasked, 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(grpc_fixture_run(&servers.fixture)->outcome, GRPC_STATUS);
    }
    assert_in_range(servers.questions, 2, 3); /* not once for each call */
    grpc_fixture_close(&servers.fixture);
}

/* Lets time pass in small parts until the call has ended. */
static void let_end(struct servers *servers, const struct grpc_ended *ended)
{
    for (int i = 0; i < 500 && ended->times == 0; i++) {
        servers->fixture.now_us += SECOND / 50;
        for (int turn = 0; turn < 3; turn++) {
            grpc_fixture_turn(&servers->fixture);
        }
    }
    assert_int_equal(ended->times, 1);
}

/* A server that throttles or is busy is not another one. */
static void a_server_that_does_not_say_is_asked_again(void **state)
{
    (void)state;
    struct servers servers;
    open_servers(&servers, "expected");
    order_examination(&servers);
    servers.unclear = 2;
    struct grpc_ended *ended = grpc_fixture_call(&servers.fixture, "x", 1);
    let_end(&servers, ended);
    assert_int_equal(ended->outcome, GRPC_STATUS);
    assert_int_equal(servers.questions, 3);
    assert_int_equal(servers.unasked, 0);
    assert_int_equal(frontend_counts(servers.fixture.frontend).connections, 1);
    grpc_fixture_close(&servers.fixture);
}

static bool a_call_is_held(struct grpc_fixture *fixture)
{
    return ((struct servers *)(void *)fixture)->held != 0;
}

/* Calls that wait end after a while, those under way on a connection that has passed once do not. */
static void calls_under_way_outlive_an_examination_without_an_answer(void **state)
{
    (void)state;
    struct servers servers;
    open_servers(&servers, "expected");
    order_examination(&servers);
    servers.holds_calls = true;
    struct grpc_ended *under_way = grpc_fixture_call(&servers.fixture, "x", 1);
    grpc_fixture_until(&servers.fixture, a_call_is_held);
    servers.unclear = 1000;
    servers.holds_calls = false;
    grpc_client_examine_again(servers.fixture.client);
    struct grpc_ended *waiting = grpc_fixture_call(&servers.fixture, "x", 1);
    let_end(&servers, waiting);
    assert_int_equal(waiting->outcome, GRPC_NOT_SENT);
    assert_int_equal(waiting->cause, GRPC_CAUSE_NOT_EXPECTED);
    assert_string_equal(waiting->error.message, "the server does not say who it is");
    assert_int_equal(under_way->times, 0);
    assert_true(frontend_answer(servers.fixture.frontend, servers.held, &(struct frontend_answer){.response = ""}));
    grpc_fixture_wait(&servers.fixture, under_way);
    assert_int_equal(under_way->outcome, GRPC_STATUS);
    servers.unclear = 0;
    let_end(&servers, grpc_fixture_call(&servers.fixture, "x", 1));
    assert_int_equal(servers.calls[0], 2);
    assert_int_equal(servers.unasked, 0);
    grpc_fixture_close(&servers.fixture);
}

static void another_server_sees_no_call(void **state)
{
    static const char *const others[] = {"another", ""};
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

/* To be examined is no use of a connection: a server that ends each one at its first call is not dialled in a loop. */
static void a_server_that_cuts_each_call_is_dialled_with_a_distance(void **state)
{
    (void)state;
    struct servers servers;
    open_servers(&servers, "expected");
    order_examination(&servers);
    servers.cuts = true;
    for (int i = 0; i < 200; i++) { /* 2 s */
        struct grpc_ended *ended = grpc_fixture_call(&servers.fixture, "x", 1);
        for (int turn = 0; turn < 100 && ended->times == 0; turn++) {
            grpc_fixture_turn(&servers.fixture);
        }
        servers.fixture.now_us += SECOND / 100;
    }
    assert_in_range(servers.questions, 2, 20);
    servers.cuts = false;
    servers.fixture.now_us += SECOND;
    assert_int_equal(grpc_fixture_run(&servers.fixture)->outcome, GRPC_STATUS);
    grpc_fixture_close(&servers.fixture);
}

static void an_examination_that_hangs_blocks_one_connection(void **state)
{
    (void)state;
    struct servers servers;
    open_servers(&servers, "expected");
    order_examination(&servers);
    servers.holds = true;
    servers.holds_on = 1;
    int64_t began_us = servers.fixture.now_us;
    struct grpc_ended *ended = grpc_fixture_call(&servers.fixture, "x", 1);
    grpc_fixture_until(&servers.fixture, a_question_has_come);
    let_end(&servers, ended);
    assert_int_equal(ended->outcome, GRPC_STATUS);
    assert_true(servers.fixture.now_us - began_us < 2 * SECOND);
    assert_int_equal(servers.unasked, 0);
    assert_int_equal(frontend_counts(servers.fixture.frontend).connections, 2);
    grpc_fixture_close(&servers.fixture);
}

/* The question is not queued again among the calls that wait. It is asked again after a distance. */
static void a_refused_examination_is_not_sent_again_at_once(void **state)
{
    (void)state;
    struct servers servers;
    open_servers(&servers, "expected");
    order_examination(&servers);
    servers.refuses = true;
    struct grpc_ended *ended = grpc_fixture_call(&servers.fixture, "x", 1);
    grpc_fixture_until(&servers.fixture, a_question_has_come);
    for (int i = 0; i < 50; i++) {
        grpc_fixture_turn(&servers.fixture);
    }
    assert_int_equal(servers.questions, 1);
    assert_int_equal(servers.judged, 1);
    assert_int_equal(grpc_fixture_facts(&servers.fixture).calls_resent, 0);
    servers.refuses = false;
    let_end(&servers, ended);
    assert_int_equal(ended->outcome, GRPC_STATUS);
    grpc_fixture_close(&servers.fixture);
}

/* A connection that never passed was never connected for the operator. */
static void another_server_counts_as_a_failure_to_connect(void **state)
{
    (void)state;
    struct servers servers;
    open_servers(&servers, "another");
    order_examination(&servers);
    for (int k = 0; k < 5; k++) {
        assert_int_equal(grpc_fixture_run(&servers.fixture)->outcome, GRPC_NOT_SENT);
        servers.fixture.now_us += SECOND;
    }
    struct grpc_client_facts facts = grpc_fixture_facts(&servers.fixture);
    assert_int_equal(facts.connections_lost, 0);
    assert_int_equal(facts.connects, 0);
    assert_in_range(facts.connects_failed, 2, 12);
    assert_int_equal(servers.fixture.events[GRPC_EVENT_CONNECTION_LOST], 0);
    assert_int_equal(servers.fixture.events[GRPC_EVENT_CONNECT_FAILED], 1);
    grpc_fixture_close(&servers.fixture);
}

/* A connection that never answers the examination ends, and so do the calls that wait for it. */
static void a_server_that_never_says_sees_no_call(void **state)
{
    (void)state;
    struct servers servers;
    open_servers(&servers, NULL);
    order_examination(&servers);
    for (int k = 0; k < 5; k++) {
        struct grpc_ended *ended = grpc_fixture_call(&servers.fixture, "x", 1);
        let_end(&servers, ended);
        assert_int_equal(ended->outcome, GRPC_NOT_SENT);
        assert_int_equal(ended->cause, GRPC_CAUSE_NOT_EXPECTED);
        assert_string_equal(ended->error.message, "the server does not say who it is");
    }
    assert_int_equal(servers.calls[0] + servers.calls[1], 0);
    servers.name = "expected";
    servers.fixture.now_us += SECOND;
    struct grpc_ended *ended = grpc_fixture_call(&servers.fixture, "x", 1);
    let_end(&servers, ended);
    assert_int_equal(ended->outcome, GRPC_STATUS);
    grpc_fixture_close(&servers.fixture);
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
        cmocka_unit_test(a_server_that_does_not_say_is_asked_again),
        cmocka_unit_test(calls_under_way_outlive_an_examination_without_an_answer),
        cmocka_unit_test(a_server_that_cuts_each_call_is_dialled_with_a_distance),
        cmocka_unit_test(an_examination_that_hangs_blocks_one_connection),
        cmocka_unit_test(a_refused_examination_is_not_sent_again_at_once),
        cmocka_unit_test(another_server_counts_as_a_failure_to_connect),
        cmocka_unit_test(a_server_that_never_says_sees_no_call),
        cmocka_unit_test(another_server_sees_no_call),
        cmocka_unit_test(a_server_that_takes_its_place_sees_no_call),
        cmocka_unit_test(a_client_is_closed_during_an_examination),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
