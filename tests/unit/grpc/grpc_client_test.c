/* The client against a server that behaves. */
#include "grpc/grpc_client.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/grpc_fixture.h"
#include "support/test.h"

enum { SECOND = 1000000 };

static void answers_carry_the_response_byte_for_byte(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    fixture.script = (struct frontend_answer){.response = "\0\1\2pong", .response_length = 7};
    struct grpc_ended *ended = grpc_fixture_run(&fixture);
    assert_int_equal(ended->outcome, GRPC_STATUS);
    assert_int_equal(ended->code, GRPC_OK);
    assert_int_equal(ended->http_status, 200);
    assert_int_equal(ended->response_length, 7);
    assert_memory_equal(ended->response, "\0\1\2pong", 7);
    assert_int_equal(ended->sent_us, fixture.now_us);
    assert_int_equal(fixture.events[GRPC_EVENT_CONNECTED], 1);
    grpc_fixture_close(&fixture);
}

static void errors_carry_message_and_details(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    for (int in_full = 0; in_full < 2; in_full++) {
        fixture.script = (struct frontend_answer){
            .code = 6, .message = "already %C3%BC 100%25", .details = "CAYSA2FiYw", .in_full = in_full == 1};
        struct grpc_ended *ended = grpc_fixture_run(&fixture);
        assert_int_equal(ended->outcome, GRPC_STATUS);
        assert_int_equal(ended->code, GRPC_ALREADY_EXISTS);
        assert_string_equal(ended->message, "already \xc3\xbc 100%");
        assert_int_equal(ended->details_length, 7);
        assert_memory_equal(ended->details,
                            "\x08\x06\x12\x03"
                            "abc",
                            7);
        assert_null(ended->response);
    }
    grpc_fixture_close(&fixture);
}

static void check_request(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    (void)answer;
    int *seen = context;
    assert_string_equal(call->path, GRPC_TEST_PATH);
    assert_string_equal(frontend_header(call, ":method"), "POST");
    assert_string_equal(frontend_header(call, ":scheme"), "http");
    assert_string_equal(frontend_header(call, ":authority"), "example.test:1");
    assert_string_equal(frontend_header(call, "te"), "trailers");
    assert_string_equal(frontend_header(call, "content-type"), "application/grpc");
    assert_string_equal(frontend_header(call, "user-agent"), "weir/" WEIR_VERSION);
    assert_string_equal(frontend_header(call, "grpc-timeout"), "2500000u");
    assert_string_equal(frontend_header(call, "client-name"), "weir");
    assert_string_equal(frontend_header(call, "temporal-namespace"), "default");
    assert_null(frontend_header(call, "authorization"));
    assert_int_equal(call->message_length, 5);
    assert_memory_equal(call->message, "a\0b\0c", 5);
    (*seen)++;
}

static void requests_are_as_grpc_wants_them(void **state)
{
    (void)state;
    int seen = 0;
    struct grpc_fixture fixture;
    struct frontend_options served = {.handler = check_request, .context = &seen};
    struct grpc_header of_client = {.name = "client-name", .value = "weir"};
    struct grpc_header of_call = {.name = "temporal-namespace", .value = "default"};
    struct grpc_client_options options = {.authority = "example.test:1", .headers = &of_client, .header_count = 1};
    grpc_fixture_open(&fixture, &served, &options);
    (void)grpc_fixture_request(
        &fixture,
        (struct grpc_request){
            .message = "a\0b\0c", .message_length = 5, .timeout_us = 2500000, .headers = &of_call, .header_count = 1});
    grpc_fixture_wait_all(&fixture);
    assert_int_equal(seen, 1);
    grpc_fixture_close(&fixture);
}

static void empty_and_large_messages_arrive(void **state)
{
    (void)state;
    enum { LARGE = 3 * 1024 * 1024 };
    struct grpc_fixture fixture;
    uint8_t *large = malloc(LARGE);
    assert_non_null(large);
    for (int i = 0; i < LARGE; i++) {
        large[i] = (uint8_t)(i * 7 / 3);
    }
    grpc_fixture_open(&fixture, NULL, NULL);
    struct grpc_ended *empty = grpc_fixture_call(&fixture, NULL, 0);
    grpc_fixture_wait_all(&fixture);
    assert_int_equal(empty->code, GRPC_OK);
    assert_int_equal(empty->response_length, 0);
    assert_non_null(empty->response);
    fixture.script = (struct frontend_answer){.response = large, .response_length = LARGE};
    struct grpc_ended *ended = grpc_fixture_call(&fixture, large, LARGE);
    grpc_fixture_wait_all(&fixture);
    assert_int_equal(ended->outcome, GRPC_STATUS);
    assert_int_equal(ended->response_length, LARGE);
    assert_memory_equal(ended->response, large, LARGE);
    free(large);
    grpc_fixture_close(&fixture);
}

static void echo(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    (void)context;
    answer->response = call->message;
    answer->response_length = call->message_length;
}

static void many_calls_share_a_connection_and_keep_their_answers(void **state)
{
    (void)state;
    enum { CALLS = 2000 };
    struct grpc_fixture fixture;
    struct frontend_options served = {.handler = echo};
    grpc_fixture_open(&fixture, &served, NULL);
    for (int i = 0; i < CALLS; i++) {
        char text[16];
        int length = snprintf(text, sizeof text, "%d", i);
        (void)grpc_fixture_call(&fixture, text, (size_t)length);
    }
    grpc_fixture_wait_all(&fixture);
    for (int i = 0; i < CALLS; i++) {
        char text[16];
        int length = snprintf(text, sizeof text, "%d", i);
        assert_int_equal(fixture.ended[i].outcome, GRPC_STATUS);
        assert_int_equal(fixture.ended[i].response_length, length);
        assert_memory_equal(fixture.ended[i].response, text, (size_t)length);
    }
    assert_int_equal(frontend_counts(fixture.frontend).connections, 1);
    grpc_fixture_close(&fixture);
}

/* Keeps each call until all that fit have come; notes how many were open at a time, and their order. */
struct keeper {
    uint64_t tokens[64];
    int order[64];
    int held;
    int most;
    int came;
};

static void keep(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    struct keeper *keeper = context;
    keeper->order[keeper->came++] = call->message[0];
    keeper->tokens[keeper->held++] = call->token;
    keeper->most = keeper->held > keeper->most ? keeper->held : keeper->most;
    answer->fate = FATE_HOLD;
}

static void the_servers_limit_of_streams_is_obeyed_in_order(void **state)
{
    (void)state;
    enum { CALLS = 50, LIMIT = 7 };
    struct keeper keeper = {.held = 0};
    struct grpc_fixture fixture;
    struct frontend_options served = {.handler = keep, .context = &keeper, .streams_max = LIMIT};
    grpc_fixture_open(&fixture, &served, NULL);
    for (uint8_t i = 0; i < CALLS; i++) {
        (void)grpc_fixture_call(&fixture, &i, 1);
    }
    while (fixture.told < CALLS) {
        struct frontend_answer fine = {.fate = FATE_ANSWER};
        grpc_fixture_turn(&fixture);
        assert_true(grpc_fixture_facts(&fixture).calls_under_way <= LIMIT); /* the rest is ours to keep, not nghttp2's */
        for (; keeper.held == LIMIT || (keeper.held > 0 && keeper.came == CALLS); keeper.held--) {
            assert_true(frontend_answer(fixture.frontend, keeper.tokens[keeper.held - 1], &fine));
        }
    }
    assert_int_equal(keeper.most, LIMIT);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(keeper.order[i], i);
        assert_int_equal(fixture.ended[i].resends, 0); /* never refused: never too many */
    }
    grpc_fixture_close(&fixture);
}

static bool one_came(struct grpc_fixture *fixture)
{
    return frontend_counts(fixture->frontend).calls >= 1;
}

static void a_deadline_under_way_leaves_the_outcome_unknown(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    fixture.script.fate = FATE_HOLD;
    struct grpc_ended *ended = grpc_fixture_call(&fixture, "x", 1);
    grpc_fixture_until(&fixture, one_came);
    fixture.now_us += 10 * (int64_t)SECOND - 1;
    (void)grpc_client_step(fixture.client);
    assert_int_equal(ended->times, 0);
    fixture.now_us += 1;
    (void)grpc_client_step(fixture.client);
    assert_int_equal(ended->times, 1);
    assert_int_equal(ended->outcome, GRPC_UNKNOWN);
    assert_int_equal(ended->cause, GRPC_CAUSE_DEADLINE);
    assert_int_equal(ended->error.status, WEIR_TIMED_OUT);
    fixture.script.fate = FATE_ANSWER;
    assert_int_equal(grpc_fixture_run(&fixture)->code, GRPC_OK); /* the connection lives on */
    assert_int_equal(frontend_counts(fixture.frontend).resets, 1);
    assert_int_equal(frontend_counts(fixture.frontend).connections, 1);
    grpc_fixture_close(&fixture);
}

static void a_deadline_in_the_queue_means_not_sent(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct frontend_options served = {.streams_max = 1};
    grpc_fixture_open(&fixture, &served, NULL);
    fixture.script.fate = FATE_HOLD;
    (void)grpc_fixture_call(&fixture, "x", 1);
    grpc_fixture_until(&fixture, one_came);
    struct grpc_ended *second = grpc_fixture_request(&fixture, (struct grpc_request){.timeout_us = SECOND});
    grpc_fixture_turn(&fixture);
    fixture.now_us += SECOND;
    (void)grpc_client_step(fixture.client);
    assert_int_equal(second->outcome, GRPC_NOT_SENT);
    assert_int_equal(second->cause, GRPC_CAUSE_DEADLINE);
    assert_int_equal(second->sent_us, TIME_NEVER);
    grpc_fixture_close(&fixture);
    assert_int_equal(fixture.calls_handled, 1);
}

static void step_says_when_the_next_deadline_is(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    fixture.script.fate = FATE_HOLD;
    (void)grpc_fixture_call(&fixture, "x", 1);
    (void)grpc_fixture_request(&fixture, (struct grpc_request){.timeout_us = SECOND / 2});
    grpc_fixture_until(&fixture, one_came);
    assert_int_equal(grpc_client_step(fixture.client), fixture.now_us + SECOND / 2);
    grpc_fixture_close(&fixture);
}

static void cancelling_resets_the_stream_and_is_harmless_after_the_end(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    fixture.script.fate = FATE_HOLD;
    struct grpc_ended *sent = grpc_fixture_call(&fixture, "x", 1);
    grpc_fixture_until(&fixture, one_came);
    struct grpc_ended *waiting = grpc_fixture_call(&fixture, "y", 1);
    grpc_client_cancel(fixture.client, waiting->id);
    grpc_client_cancel(fixture.client, sent->id);
    assert_int_equal(sent->times + waiting->times, 0); /* reported in the step */
    (void)grpc_client_step(fixture.client);
    assert_int_equal(sent->outcome, GRPC_UNKNOWN);
    assert_int_equal(sent->cause, GRPC_CAUSE_CANCELLED);
    assert_int_equal(waiting->outcome, GRPC_NOT_SENT);
    grpc_client_cancel(fixture.client, sent->id);
    grpc_client_cancel(fixture.client, 0);
    grpc_client_cancel(fixture.client, UINT64_MAX);
    fixture.script.fate = FATE_ANSWER;
    struct grpc_ended *next = grpc_fixture_call(&fixture, "z", 1);
    grpc_client_cancel(fixture.client, sent->id); /* the slot is used again; the old id is not */
    grpc_fixture_wait(&fixture, next);
    assert_int_equal(next->outcome, GRPC_STATUS);
    assert_int_equal(frontend_counts(fixture.frontend).resets, 1);
    grpc_fixture_close(&fixture);
}

static void too_many_calls_are_refused_at_once(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct weir_error error;
    struct grpc_client_options options = {.calls_max = 3};
    struct grpc_request request = {
        .path = GRPC_TEST_PATH, .timeout_us = SECOND, .done = (grpc_done *)(void (*)(void))abort};
    grpc_fixture_open(&fixture, NULL, &options);
    for (int i = 0; i < 3; i++) {
        (void)grpc_fixture_call(&fixture, "x", 1);
    }
    assert_int_equal(grpc_client_call(fixture.client, &request, NULL, &error), WEIR_QUEUE_FULL);
    assert_string_not_equal(error.hint, "");
    grpc_fixture_wait_all(&fixture);
    (void)grpc_fixture_run(&fixture);
    grpc_fixture_close(&fixture);
}

static void bad_calls_are_refused_at_once(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct weir_error error;
    struct grpc_header bad_name = {.name = "Upper", .value = "x"};
    struct grpc_header own_name = {.name = "grpc-timeout", .value = "1S"};
    struct grpc_header bad_value = {.name = "x", .value = "a\r\nb: c"};
    grpc_done *done = (grpc_done *)(void (*)(void))abort;
    const struct grpc_request bad[] = {
        {.path = "no/slash", .timeout_us = 1, .done = done},
        {.path = "/a", .timeout_us = 1, .done = done},
        {.path = "/a/b c", .timeout_us = 1, .done = done},
        {.path = NULL, .timeout_us = 1, .done = done},
        {.path = "/a/b", .timeout_us = 0, .done = done},
        {.path = "/a/b", .timeout_us = 1},
        {.path = "/a/b", .timeout_us = 1, .done = done, .class = GRPC_CLASS_COUNT},
        {.path = "/a/b", .timeout_us = 1, .done = done, .message_length = 1},
        {.path = "/a/b", .timeout_us = 1, .done = done, .message = "", .message_length = GRPC_REQUEST_BYTES_MAX + 1},
        {.path = "/a/b", .timeout_us = 1, .done = done, .headers = &bad_name, .header_count = 1},
        {.path = "/a/b", .timeout_us = 1, .done = done, .headers = &own_name, .header_count = 1},
        {.path = "/a/b", .timeout_us = 1, .done = done, .headers = &bad_value, .header_count = 1},
    };
    grpc_fixture_open(&fixture, NULL, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(grpc_client_call(fixture.client, &bad[i], NULL, &error), WEIR_INVALID_ARGUMENT);
    }
    grpc_fixture_close(&fixture);
}

static void bad_options_are_refused_with_a_reason(void **state)
{
    (void)state;
    const struct grpc_client_options bad[] = {
        {.targets = NULL},
        {.targets = ""},
        {.targets = "host"},
        {.targets = "http://host:1"},
        {.targets = "h:1", .keepalive_us = 1000000},
        {.targets = "h:1", .connect_timeout_us = -1},
        {.targets = "h:1", .authority = ""},
        {.targets = "h:1", .server_name = ""},
        {.targets = "h:1", .user_agent = "a\nb"},
        {.targets = "h:1", .header_count = GRPC_HEADERS_MAX + 1},
        {.targets = "h:1", .certificate_file = "x"},
        {.targets = "h:1", .api_key_file = "x"},
        {.targets = "h:1", .ca_file = "/nonexistent/ca.pem"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct grpc_client *client = NULL;
        struct weir_error error = {.status = WEIR_OK};
        assert_int_equal(grpc_client_open(&bad[i], clock_system(), &client, &error), WEIR_INVALID_CONFIG);
        assert_null(client);
        assert_string_not_equal(error.message, "");
    }
}

static bool has_pinged(struct grpc_fixture *fixture)
{
    return frontend_counts(fixture->frontend).pings >= 1;
}

static void a_quiet_connection_is_pinged_and_kept(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    (void)grpc_fixture_run(&fixture);
    fixture.now_us += GRPC_KEEPALIVE_US - 1;
    for (int i = 0; i < 5; i++) {
        grpc_fixture_turn(&fixture);
    }
    assert_int_equal(frontend_counts(fixture.frontend).pings, 0);
    fixture.now_us += 1;
    grpc_fixture_until(&fixture, has_pinged);
    grpc_fixture_turn(&fixture);
    fixture.now_us += GRPC_KEEPALIVE_TIMEOUT_US;
    for (int i = 0; i < 5; i++) {
        grpc_fixture_turn(&fixture);
    }
    assert_int_equal(frontend_counts(fixture.frontend).pings, 1);
    assert_int_equal(grpc_fixture_facts(&fixture).connections, 1);
    grpc_fixture_close(&fixture);
}

static void a_server_that_complains_is_pinged_half_as_often(void **state)
{
    (void)state;
    enum { ENHANCE_YOUR_CALM = 11 };
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    (void)grpc_fixture_run(&fixture);
    frontend_goaway(fixture.frontend, ENHANCE_YOUR_CALM);
    for (int i = 0; i < 5; i++) {
        grpc_fixture_turn(&fixture);
    }
    (void)grpc_fixture_run(&fixture); /* on a new connection */
    fixture.now_us += 2 * GRPC_KEEPALIVE_US - 1;
    for (int i = 0; i < 5; i++) {
        grpc_fixture_turn(&fixture);
    }
    assert_int_equal(frontend_counts(fixture.frontend).pings, 0);
    fixture.now_us += 1;
    grpc_fixture_until(&fixture, has_pinged);
    grpc_fixture_close(&fixture);
}

static bool has_two_connections(struct grpc_fixture *fixture)
{
    return fixture->events[GRPC_EVENT_CONNECTED] >= 2;
}

static bool one_has_ended(struct grpc_fixture *fixture)
{
    return fixture->events[GRPC_EVENT_CONNECTION_ENDED] >= 1;
}

static void an_aged_connection_is_replaced_before_it_ends(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct keeper keeper = {.held = 0};
    struct frontend_options served = {.handler = keep, .context = &keeper};
    struct frontend_answer fine = {.fate = FATE_ANSWER};
    grpc_fixture_open(&fixture, &served, NULL);
    struct grpc_ended *old = grpc_fixture_request(
        &fixture, (struct grpc_request){.message = "o", .message_length = 1, .timeout_us = 1000 * (int64_t)SECOND});
    grpc_fixture_until(&fixture, one_came);
    for (int64_t passed = 0; passed < GRPC_CONNECTION_AGE_US * 8 / 10; passed += 10 * (int64_t)SECOND) {
        fixture.now_us += 10 * (int64_t)SECOND;
        grpc_fixture_turn(&fixture);
        grpc_fixture_turn(&fixture);
    }
    assert_int_equal(frontend_counts(fixture.frontend).connections, 1);
    fixture.now_us += GRPC_CONNECTION_AGE_US * 2 / 10;
    struct grpc_ended *new = grpc_fixture_call(&fixture, "n", 1);
    grpc_fixture_until(&fixture, has_two_connections);
    assert_int_equal(old->times, 0);
    while (keeper.held < 2) {
        grpc_fixture_turn(&fixture);
    }
    assert_true(frontend_answer(fixture.frontend, keeper.tokens[0], &fine));
    assert_true(frontend_answer(fixture.frontend, keeper.tokens[1], &fine));
    grpc_fixture_wait_all(&fixture);
    assert_int_equal(old->outcome, GRPC_STATUS);
    assert_int_equal(new->outcome, GRPC_STATUS);
    grpc_fixture_until(&fixture, one_has_ended);
    assert_int_equal(fixture.events[GRPC_EVENT_CONNECTION_LOST], 0);
    assert_int_equal(grpc_fixture_facts(&fixture).connections, 1);
    grpc_fixture_close(&fixture);
}

static void after_a_goaway_running_calls_end_and_new_ones_go_elsewhere(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct keeper keeper = {.held = 0};
    struct frontend_options served = {.handler = keep, .context = &keeper};
    struct frontend_answer fine = {.fate = FATE_ANSWER};
    grpc_fixture_open(&fixture, &served, NULL);
    struct grpc_ended *old = grpc_fixture_call(&fixture, "o", 1);
    grpc_fixture_until(&fixture, one_came);
    frontend_goaway(fixture.frontend, 0);
    for (int i = 0; i < 10; i++) {
        grpc_fixture_turn(&fixture);
    }
    struct grpc_ended *new = grpc_fixture_call(&fixture, "n", 1);
    /* It was of no use so far, so the next dial keeps a distance. */
    fixture.now_us += GRPC_BACKOFF_MAX_US;
    while (keeper.held < 2) {
        if (new->times > 0) { /* within the distance calls end at once and do not wait */
            assert_int_equal(new->outcome, GRPC_NOT_SENT);
            new = grpc_fixture_call(&fixture, "n", 1);
            fixture.now_us += GRPC_BACKOFF_MAX_US;
        }
        grpc_fixture_turn(&fixture);
    }
    assert_true(frontend_answer(fixture.frontend, keeper.tokens[0], &fine));
    assert_true(frontend_answer(fixture.frontend, keeper.tokens[1], &fine));
    grpc_fixture_wait_all(&fixture);
    assert_int_equal(old->outcome, GRPC_STATUS);
    assert_int_equal(new->outcome, GRPC_STATUS);
    assert_int_equal(frontend_counts(fixture.frontend).connections, 2);
    assert_int_equal(grpc_fixture_facts(&fixture).goaways, 1);
    grpc_fixture_close(&fixture);
}

static void a_useful_connection_is_replaced_at_once_after_its_goaway(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(grpc_fixture_run(&fixture)->outcome, GRPC_STATUS);
        frontend_goaway(fixture.frontend, 0);
        for (int k = 0; k < 10; k++) {
            grpc_fixture_turn(&fixture);
        }
    }
    assert_in_range(frontend_counts(fixture.frontend).connections, 20, 21);
    grpc_fixture_close(&fixture);
}

static void long_polls_have_connections_of_their_own(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct frontend_options served = {.streams_max = 2};
    grpc_fixture_open(&fixture, &served, NULL);
    fixture.script.fate = FATE_HOLD;
    for (int i = 0; i < 5; i++) {
        (void)grpc_fixture_request(&fixture, (struct grpc_request){.class = GRPC_LONG_POLL, .timeout_us = SECOND});
    }
    grpc_fixture_until(&fixture, one_came);
    fixture.script.fate = FATE_ANSWER;
    assert_int_equal(grpc_fixture_run(&fixture)->outcome, GRPC_STATUS);
    assert_int_equal(frontend_counts(fixture.frontend).connections, 2);
    fixture.now_us += SECOND;
    grpc_fixture_wait_all(&fixture);
    grpc_fixture_close(&fixture);
}

/* 127.0.0.1 and 127.0.0.2 on one port: only the first is listened on. */
static int two_addresses(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_addresses)
{
    struct addrinfo *second = NULL;
    assert_string_equal(host, "two.test");
    int failure = getaddrinfo("127.0.0.2", port, hints, ret_addresses);
    if (failure == 0) {
        failure = getaddrinfo("127.0.0.1", port, hints, &second);
        (*ret_addresses)->ai_next = second;
    }
    return failure;
}

static void free_addresses(struct addrinfo *addresses)
{
    struct addrinfo *next = addresses->ai_next;
    addresses->ai_next = NULL;
    freeaddrinfo(addresses);
    if (next != NULL) {
        freeaddrinfo(next);
    }
}

static void a_dead_address_beside_a_live_one_costs_no_call(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct frontend_options served = {.handler = NULL};
    struct grpc_client_options options = {.lookup = two_addresses, .lookup_free = free_addresses};
    char targets[64];
    struct frontend *probe = frontend_open(&served);
    assert_non_null(probe);
    served.port = frontend_port(probe);
    frontend_close(probe);
    (void)snprintf(targets, sizeof targets, "two.test:%d", served.port);
    options.targets = targets;
    grpc_fixture_open(&fixture, &served, &options);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(grpc_fixture_run(&fixture)->outcome, GRPC_STATUS);
    }
    assert_int_equal(fixture.events[GRPC_EVENT_CONNECT_FAILED], 1);
    assert_int_equal(grpc_fixture_facts(&fixture).unreachable_since_us, TIME_NEVER);
    grpc_fixture_close(&fixture);
}

static void call_again(void *context, const struct grpc_result *result)
{
    struct grpc_fixture *fixture = context;
    assert_int_equal(result->outcome, GRPC_STATUS);
    (void)grpc_fixture_call(fixture, "again", 5);
}

static void calls_may_be_made_from_inside_done(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct grpc_request request = {.path = GRPC_TEST_PATH, .timeout_us = SECOND, .done = call_again, .context = &fixture};
    grpc_fixture_open(&fixture, NULL, NULL);
    assert_int_equal(grpc_client_call(fixture.client, &request, NULL, NULL), WEIR_OK);
    while (fixture.calls == 0 || fixture.told < fixture.calls) {
        grpc_fixture_turn(&fixture);
    }
    assert_int_equal(fixture.calls_handled, 2);
    grpc_fixture_close(&fixture);
}

static void closing_reports_every_call(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct frontend_options served = {.streams_max = 1};
    grpc_fixture_open(&fixture, &served, NULL);
    fixture.script.fate = FATE_HOLD;
    struct grpc_ended *sent = grpc_fixture_call(&fixture, "x", 1);
    struct grpc_ended *waiting = grpc_fixture_call(&fixture, "y", 1);
    grpc_fixture_until(&fixture, one_came);
    grpc_client_close(fixture.client);
    fixture.client = NULL;
    assert_int_equal(sent->outcome, GRPC_UNKNOWN);
    assert_int_equal(sent->cause, GRPC_CAUSE_CLOSED);
    assert_int_equal(waiting->outcome, GRPC_NOT_SENT);
    frontend_step(fixture.frontend, 100);
    assert_int_equal(frontend_counts(fixture.frontend).goaways, 1); /* and the server hears a goodbye */
    grpc_fixture_close(&fixture);
}

/* As in a real program: the frontend in a thread, the machine's clock, a name to look up, and poll() on the client's fd. */
static void a_loop_of_poll_and_step_is_all_it_needs(void **state)
{
    (void)state;
    enum { CALLS = 500 };
    struct frontend_options served = {.handler = echo};
    struct frontend *frontend = frontend_open(&served);
    struct grpc_fixture fixture = {.calls = 0};
    char target[32];
    assert_non_null(frontend);
    assert_int_equal(frontend_run(frontend), 0);
    (void)snprintf(target, sizeof target, "localhost:%d", frontend_port(frontend));
    struct grpc_client_options options = {.targets = target};
    fixture.ended = calloc(GRPC_OUTCOMES_MAX, sizeof *fixture.ended);
    assert_non_null(fixture.ended);
    assert_int_equal(grpc_client_open(&options, clock_system(), &fixture.client, NULL), WEIR_OK);
    while (fixture.told < CALLS) {
        while (fixture.calls < CALLS && fixture.calls - fixture.told < 20) {
            (void)grpc_fixture_request(
                &fixture, (struct grpc_request){.message = "x", .message_length = 1, .timeout_us = 60 * (int64_t)SECOND});
        }
        int64_t due_us = grpc_client_step(fixture.client);
        int64_t wait_us = due_us == TIME_NEVER ? INT32_MAX : due_us - clock_boot(clock_system());
        struct pollfd polled = {.fd = grpc_client_fd(fixture.client), .events = POLLIN};
        if (fixture.told < CALLS && (fixture.calls - fixture.told == 20 || fixture.calls == CALLS)) {
            (void)poll(&polled, 1, wait_us <= 0 ? 0 : (int)(wait_us / 1000) + 1);
        }
    }
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(fixture.ended[i].outcome, GRPC_STATUS);
        free(fixture.ended[i].response);
    }
    free(fixture.ended);
    grpc_client_close(fixture.client);
    frontend_close(frontend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_carry_the_response_byte_for_byte),
        cmocka_unit_test(errors_carry_message_and_details),
        cmocka_unit_test(requests_are_as_grpc_wants_them),
        cmocka_unit_test(empty_and_large_messages_arrive),
        cmocka_unit_test(many_calls_share_a_connection_and_keep_their_answers),
        cmocka_unit_test(the_servers_limit_of_streams_is_obeyed_in_order),
        cmocka_unit_test(a_deadline_under_way_leaves_the_outcome_unknown),
        cmocka_unit_test(a_deadline_in_the_queue_means_not_sent),
        cmocka_unit_test(step_says_when_the_next_deadline_is),
        cmocka_unit_test(cancelling_resets_the_stream_and_is_harmless_after_the_end),
        cmocka_unit_test(too_many_calls_are_refused_at_once),
        cmocka_unit_test(bad_calls_are_refused_at_once),
        cmocka_unit_test(bad_options_are_refused_with_a_reason),
        cmocka_unit_test(a_quiet_connection_is_pinged_and_kept),
        cmocka_unit_test(a_server_that_complains_is_pinged_half_as_often),
        cmocka_unit_test(an_aged_connection_is_replaced_before_it_ends),
        cmocka_unit_test(after_a_goaway_running_calls_end_and_new_ones_go_elsewhere),
        cmocka_unit_test(a_useful_connection_is_replaced_at_once_after_its_goaway),
        cmocka_unit_test(long_polls_have_connections_of_their_own),
        cmocka_unit_test(a_dead_address_beside_a_live_one_costs_no_call),
        cmocka_unit_test(calls_may_be_made_from_inside_done),
        cmocka_unit_test(closing_reports_every_call),
        cmocka_unit_test(a_loop_of_poll_and_step_is_all_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
