/* Each fault of a server, a proxy or the way to them, and the outcome that it must have. */
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/grpc_fixture.h"
#include "support/test.h"

enum { SECOND = 1000000, PROTOCOL_ERROR = 1, REFUSED_STREAM = 7, RESET_CODES = 14 };

/* After a fault the client must still be of use, on this connection or the next. */
static void check_recovery(struct grpc_fixture *fixture)
{
    fixture->script = (struct frontend_answer){.response = "fine", .response_length = 4};
    fixture->now_us += 2 * GRPC_BACKOFF_MAX_US;
    struct grpc_ended *ended = grpc_fixture_run(fixture);
    assert_int_equal(ended->outcome, GRPC_STATUS);
    assert_int_equal(ended->code, GRPC_OK);
}

static void run_fault(const char *name, const struct frontend_answer *script, enum grpc_outcome outcome,
                      enum grpc_cause cause, int code)
{
    struct grpc_fixture fixture;
    struct grpc_client_options options = {.response_bytes_max = 1000};
    grpc_fixture_open(&fixture, NULL, &options);
    fixture.script = *script;
    struct grpc_ended *ended = grpc_fixture_run(&fixture);
    if (ended->outcome != outcome || ended->cause != cause || ended->code != code) {
        fail_msg("%s: %s, %s, code %d; wanted %s, %s, code %d", name, grpc_fixture_outcome(ended->outcome),
                 grpc_cause_name(ended->cause), ended->code, grpc_fixture_outcome(outcome), grpc_cause_name(cause), code);
    }
    if (outcome != GRPC_REFUSED) {
        assert_int_equal(fixture.calls_handled, 1); /* a call that may have been carried out is never sent twice */
        assert_int_equal(ended->resends, 0);
    }
    check_recovery(&fixture);
    grpc_fixture_close(&fixture);
}

static void answers_that_break_the_rules_are_unknown_and_proper_ones_are_not(void **state)
{
    (void)state;
    static char large[1001];
    static const struct {
        const char *name;
        struct frontend_answer script;
        enum grpc_outcome outcome;
        enum grpc_cause cause;
        int code;
    } rows[] = {
        {"answer lost after processing", {.fate = FATE_CUT}, GRPC_UNKNOWN, GRPC_CAUSE_CONNECTION_LOST, 0},
        {"connection closed after processing", {.fate = FATE_CLOSE}, GRPC_UNKNOWN, GRPC_CAUSE_CONNECTION_LOST, 0},
        {"no trailers",
         {.fate = FATE_NO_TRAILERS, .response = "x", .response_length = 1},
         GRPC_UNKNOWN,
         GRPC_CAUSE_NO_STATUS,
         0},
        {"headers only", {.fate = FATE_HEADERS_ONLY}, GRPC_UNKNOWN, GRPC_CAUSE_NO_STATUS, 0},
        {"refused after headers",
         {.fate = FATE_HEADERS_THEN_RESET, .reset_code = REFUSED_STREAM},
         GRPC_UNKNOWN,
         GRPC_CAUSE_STREAM_RESET,
         0},
        {"status that is no number", {.status_text = "abc"}, GRPC_UNKNOWN, GRPC_CAUSE_BAD_ANSWER, 0},
        {"status of no code", {.status_text = "17"}, GRPC_UNKNOWN, GRPC_CAUSE_BAD_ANSWER, 0},
        {"negative status", {.status_text = "-1", .code = 5}, GRPC_UNKNOWN, GRPC_CAUSE_BAD_ANSWER, 0},
        {"OK without a message", {.status_text = "0", .code = 5}, GRPC_UNKNOWN, GRPC_CAUSE_BAD_ANSWER, 0},
        {"proxy's 503",
         {.fate = FATE_HEADERS_ONLY, .http_status = 503, .content_type = "text/html"},
         GRPC_UNKNOWN,
         GRPC_CAUSE_HTTP_STATUS,
         0},
        {"proxy's 404 in gRPC's clothes",
         {.fate = FATE_HEADERS_ONLY, .http_status = 404},
         GRPC_UNKNOWN,
         GRPC_CAUSE_HTTP_STATUS,
         0},
        {"415 with a status", {.code = 3, .http_status = 415}, GRPC_STATUS, GRPC_CAUSE_NONE, 3},
        {"OK with a 500", {.http_status = 500}, GRPC_UNKNOWN, GRPC_CAUSE_HTTP_STATUS, 0},
        {"text", {.content_type = "text/plain"}, GRPC_UNKNOWN, GRPC_CAUSE_BAD_ANSWER, 0},
        {"grpc-web", {.content_type = "application/grpc-web"}, GRPC_UNKNOWN, GRPC_CAUSE_BAD_ANSWER, 0},
        {"grpc+proto", {.content_type = "application/grpc+proto"}, GRPC_STATUS, GRPC_CAUSE_NONE, 0},
        {"compressed", {.compressed = true, .response = "x", .response_length = 1}, GRPC_UNKNOWN, GRPC_CAUSE_BAD_ANSWER, 0},
        {"shorter than announced", {.announce_more = 1}, GRPC_UNKNOWN, GRPC_CAUSE_BAD_ANSWER, 0},
        {"longer than announced", {.extra_bytes = 1}, GRPC_UNKNOWN, GRPC_CAUSE_BAD_ANSWER, 0},
        {"two messages", {.twice = true, .response = "x", .response_length = 1}, GRPC_UNKNOWN, GRPC_CAUSE_BAD_ANSWER, 0},
        {"too large", {.response = large, .response_length = 1001}, GRPC_UNKNOWN, GRPC_CAUSE_ANSWER_TOO_LARGE, 0},
        {"as large as allowed", {.response = large, .response_length = 1000}, GRPC_STATUS, GRPC_CAUSE_NONE, 0},
        {"announced too large", {.announce_more = 0xfffffff0}, GRPC_UNKNOWN, GRPC_CAUSE_ANSWER_TOO_LARGE, 0},
        {"unavailable", {.code = 14, .message = "stopping"}, GRPC_STATUS, GRPC_CAUSE_NONE, 14},
        {"unavailable in full", {.code = 14, .in_full = true}, GRPC_STATUS, GRPC_CAUSE_NONE, 14},
        {"details that are no base64", {.code = 8, .details = "%%%"}, GRPC_STATUS, GRPC_CAUSE_NONE, 8},
        {"slow bytes, one at a time",
         {.drip = true, .response = large, .response_length = 500},
         GRPC_STATUS,
         GRPC_CAUSE_NONE,
         0},
        {"GOAWAY, then the answer", {.fate = FATE_GOAWAY_THEN_ANSWER}, GRPC_STATUS, GRPC_CAUSE_NONE, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        run_fault(rows[i].name, &rows[i].script, rows[i].outcome, rows[i].cause, rows[i].code);
    }
}

static void every_reset_but_a_refusal_is_unknown(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < RESET_CODES; code++) {
        char name[32];
        struct frontend_answer script = {.fate = FATE_RESET, .reset_code = code};
        (void)snprintf(name, sizeof name, "reset %u", code);
        if (code == REFUSED_STREAM) {
            run_fault(name, &script, GRPC_REFUSED, GRPC_CAUSE_STREAM_REFUSED, 0);
        } else {
            run_fault(name, &script, GRPC_UNKNOWN, GRPC_CAUSE_STREAM_RESET, 0);
        }
    }
}

/* Refuses the first `refusals` calls. */
struct refuser {
    int refusals;
    int seen;
    enum fate fate;
};

static void refuse_some(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    (void)call;
    struct refuser *refuser = context;
    if (refuser->seen++ < refuser->refusals) {
        answer->fate = refuser->fate;
        answer->reset_code = refuser->fate == FATE_RESET ? REFUSED_STREAM : 0;
    }
}

static void refused_calls_are_sent_again_within_a_limit(void **state)
{
    (void)state;
    for (int refusals = 1; refusals <= GRPC_RESENDS_MAX + 1; refusals++) {
        struct grpc_fixture fixture;
        struct refuser refuser = {.refusals = refusals, .fate = FATE_RESET};
        struct frontend_options served = {.handler = refuse_some, .context = &refuser};
        grpc_fixture_open(&fixture, &served, NULL);
        struct grpc_ended *ended = grpc_fixture_run(&fixture);
        assert_int_equal(ended->outcome, refusals <= GRPC_RESENDS_MAX ? GRPC_STATUS : GRPC_REFUSED);
        assert_int_equal(ended->resends, refusals <= GRPC_RESENDS_MAX ? refusals : GRPC_RESENDS_MAX);
        assert_int_equal(ended->sent_us, fixture.now_us);
        grpc_fixture_close(&fixture);
    }
}

static void a_call_above_a_goaways_last_stream_is_sent_again_elsewhere(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct refuser refuser = {.refusals = 0, .fate = FATE_GOAWAY_BELOW};
    struct frontend_options served = {.handler = refuse_some, .context = &refuser};
    grpc_fixture_open(&fixture, &served, NULL);
    (void)grpc_fixture_run(&fixture); /* the connection has been of use */
    refuser.refusals = refuser.seen + 1;
    struct grpc_ended *ended = grpc_fixture_run(&fixture);
    assert_int_equal(ended->outcome, GRPC_STATUS);
    assert_int_equal(ended->resends, 1);
    assert_int_equal(frontend_counts(fixture.frontend).connections, 2);
    grpc_fixture_close(&fixture);
}

static void a_server_that_only_says_goaway_is_not_hammered(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct refuser refuser = {.refusals = 1000, .fate = FATE_GOAWAY_BELOW};
    struct frontend_options served = {.handler = refuse_some, .context = &refuser};
    grpc_fixture_open(&fixture, &served, NULL);
    for (int i = 0; i < 50; i++) {
        struct grpc_ended *ended = grpc_fixture_run(&fixture);
        assert_true(ended->outcome == GRPC_REFUSED || ended->outcome == GRPC_NOT_SENT);
    }
    assert_int_equal(frontend_counts(fixture.frontend).connections, 1); /* the clock stands still: no second dial is due */
    grpc_fixture_close(&fixture);
}

static bool one_came(struct grpc_fixture *fixture)
{
    return frontend_counts(fixture->frontend).calls >= 1;
}

static void a_frozen_server_is_noticed_by_its_silence(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    fixture.script.fate = FATE_FREEZE;
    struct grpc_ended *ended = grpc_fixture_request(&fixture, (struct grpc_request){.timeout_us = 1000 * (int64_t)SECOND});
    grpc_fixture_until(&fixture, one_came);
    fixture.now_us += GRPC_KEEPALIVE_US;
    grpc_fixture_turn(&fixture);
    fixture.now_us += GRPC_KEEPALIVE_TIMEOUT_US - 1;
    grpc_fixture_turn(&fixture);
    assert_int_equal(ended->times, 0);
    fixture.now_us += 1;
    grpc_fixture_turn(&fixture);
    assert_int_equal(ended->outcome, GRPC_UNKNOWN);
    assert_int_equal(ended->cause, GRPC_CAUSE_SILENT);
    assert_int_equal(fixture.events[GRPC_EVENT_CONNECTION_LOST], 1);
    check_recovery(&fixture);
    grpc_fixture_close(&fixture);
}

/* --- never reached --- */

static void expect_unreachable(struct grpc_fixture *fixture, enum grpc_cause cause, const char *message, const char *hint)
{
    struct grpc_ended *ended = grpc_fixture_run(fixture);
    assert_int_equal(ended->outcome, GRPC_NOT_SENT);
    if (ended->cause != cause || strstr(ended->error.message, message) == NULL || strstr(ended->error.hint, hint) == NULL) {
        fail_msg("%s: %s (%s)", grpc_cause_name(ended->cause), ended->error.message, ended->error.hint);
    }
    assert_int_equal(ended->error.status, WEIR_ENGINE_UNREACHABLE);
    assert_int_equal(ended->sent_us, TIME_NEVER);
    struct grpc_client_facts facts = grpc_fixture_facts(fixture);
    assert_int_equal(facts.unreachable_since_us, fixture->now_us);
    assert_int_equal(facts.unreachable_cause, cause);
}

static void a_port_where_nobody_listens_is_not_sent(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    frontend_listen(fixture.frontend, false);
    expect_unreachable(&fixture, GRPC_CAUSE_CONNECT, "refused", "nothing listens there");
    assert_int_equal(fixture.events[GRPC_EVENT_CONNECT_FAILED], 1);
    for (int i = 0; i < 20; i++) { /* reported once, tried again all the time */
        fixture.now_us += GRPC_BACKOFF_MAX_US * 13 / 10;
        (void)grpc_fixture_run(&fixture);
    }
    assert_int_equal(fixture.events[GRPC_EVENT_CONNECT_FAILED], 1);
    assert_int_equal(grpc_fixture_facts(&fixture).connects_failed, 21);
    frontend_listen(fixture.frontend, true);
    check_recovery(&fixture);
    assert_int_equal(grpc_fixture_facts(&fixture).unreachable_since_us, TIME_NEVER);
    grpc_fixture_close(&fixture);
}

static void strangers_are_recognised_and_get_no_call(void **state)
{
    (void)state;
    static const uint8_t noise[] = "\x05\x05SSH-2.0-nonsense and so on, more than a frame header";
    const struct {
        struct frontend_options served;
        enum grpc_cause cause;
        const char *message;
        const char *hint;
    } rows[] = {
        {{.kind = FRONTEND_HTTP1}, GRPC_CAUSE_NOT_HTTP2, "HTTP/1", "gRPC port"},
        {{.kind = FRONTEND_CLOSES}, GRPC_CAUSE_CONNECT, "without an answer", "TLS"},
        {{.kind = FRONTEND_RAW_GREETING, .greeting = noise, .greeting_length = sizeof noise},
         GRPC_CAUSE_NOT_HTTP2,
         "does not speak HTTP/2",
         "host and port"},
        {{.kind = FRONTEND_RAW_GREETING, .greeting = "\x15\x03\x03\0\2\2\x16 padding", .greeting_length = 15},
         GRPC_CAUSE_NOT_HTTP2,
         "requires TLS",
         "switch TLS on"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct grpc_fixture fixture;
        grpc_fixture_open(&fixture, &rows[i].served, NULL);
        expect_unreachable(&fixture, rows[i].cause, rows[i].message, rows[i].hint);
        grpc_fixture_close(&fixture);
    }
}

static bool is_dialling(struct grpc_fixture *fixture)
{
    return frontend_counts(fixture->frontend).connections == 1;
}

static void a_server_that_never_speaks_is_given_up(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct frontend_options served = {.kind = FRONTEND_SILENT};
    grpc_fixture_open(&fixture, &served, NULL);
    struct grpc_ended *ended = grpc_fixture_call(&fixture, "x", 1);
    grpc_fixture_until(&fixture, is_dialling);
    fixture.now_us += GRPC_CONNECT_TIMEOUT_US;
    grpc_fixture_turn(&fixture);
    assert_int_equal(ended->outcome, GRPC_NOT_SENT);
    assert_int_equal(ended->cause, GRPC_CAUSE_CONNECT);
    assert_non_null(strstr(ended->error.message, "within 5000 ms"));
    grpc_fixture_close(&fixture);
}

/* --- silence --- */

static void turns(struct grpc_fixture *fixture, int64_t passed_us)
{
    fixture->now_us += passed_us;
    for (int i = 0; i < 5; i++) {
        grpc_fixture_turn(fixture);
    }
}

static bool two_came(struct grpc_fixture *fixture)
{
    return frontend_counts(fixture->frontend).calls >= 2;
}

/* The network drops the packets of the calls under way, without a reset. */
static void a_silent_connection_is_replaced_within_two_seconds(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    (void)grpc_fixture_run(&fixture);
    fixture.script.fate = FATE_FREEZE;
    struct grpc_ended *lost = grpc_fixture_request(&fixture, (struct grpc_request){.timeout_us = 60 * (int64_t)SECOND});
    grpc_fixture_until(&fixture, two_came);
    fixture.script = (struct frontend_answer){.response = "fine", .response_length = 4};
    turns(&fixture, GRPC_UNHEARD_US - 1);
    assert_int_equal(grpc_client_step(fixture.client), fixture.now_us + 1); /* the PING */
    turns(&fixture, 1);
    turns(&fixture, GRPC_UNHEARD_US - 1);
    assert_int_equal(frontend_counts(fixture.frontend).connections, 1);
    assert_false(grpc_client_is_silent(fixture.client));
    fixture.now_us++;
    (void)grpc_client_step(fixture.client);
    assert_true(grpc_client_is_silent(fixture.client)); /* and nothing else is open */
    struct grpc_ended *next = grpc_fixture_run(&fixture);
    assert_int_equal(next->outcome, GRPC_STATUS);
    assert_int_equal(frontend_counts(fixture.frontend).connections, 2);
    assert_int_equal(lost->times, 0); /* its answer might still come */
    assert_false(grpc_client_is_silent(fixture.client));
    turns(&fixture, GRPC_SILENT_GRACE_US);
    assert_int_equal(lost->outcome, GRPC_UNKNOWN);
    assert_int_equal(lost->cause, GRPC_CAUSE_SILENT);
    grpc_fixture_close(&fixture);
}

/* From the moment at which the network swallows all connections to a call that is answered on a new one, and nothing waits
 * for the old ones any more. */
static int64_t time_to_replace(struct grpc_fixture *fixture)
{
    int64_t began_us = fixture->now_us;
    frontend_freeze_all(fixture->frontend);
    struct grpc_ended *lost = grpc_fixture_request(fixture, (struct grpc_request){.timeout_us = 60 * (int64_t)SECOND});
    while (lost->times == 0) {
        turns(fixture, SECOND / 10);
        assert_true(fixture->now_us - began_us < 60 * (int64_t)SECOND);
    }
    assert_int_equal(lost->outcome, GRPC_UNKNOWN);
    assert_int_equal(lost->cause, GRPC_CAUSE_SILENT);
    assert_int_equal(grpc_fixture_run(fixture)->outcome, GRPC_STATUS);
    return fixture->now_us - began_us;
}

#define REPLACED_US (2 * GRPC_UNHEARD_US + GRPC_SILENT_GRACE_US)

static void a_network_that_swallows_again_and_again_is_found_out_as_soon_each_time(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    (void)grpc_fixture_run(&fixture);
    for (int i = 0; i < 8; i++) {
        assert_in_range(time_to_replace(&fixture), REPLACED_US, REPLACED_US + SECOND / 2);
        turns(&fixture, SECOND);
    }
    grpc_fixture_close(&fixture);
}

/* A server with hardly any CPU: a connection that counted as silent answers later. */
static int64_t time_to_replace_a_slow_one(struct grpc_fixture *fixture)
{
    int64_t took_us = time_to_replace(fixture);
    frontend_thaw_all(fixture->frontend);
    turns(fixture, SECOND / 10);
    return took_us;
}

static void a_server_that_was_given_up_in_haste_is_given_more_time(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    (void)grpc_fixture_run(&fixture);
    assert_in_range(time_to_replace_a_slow_one(&fixture), REPLACED_US, REPLACED_US + SECOND / 2);
    assert_in_range(time_to_replace_a_slow_one(&fixture), REPLACED_US, REPLACED_US + SECOND / 2); /* it was there already */
    assert_in_range(time_to_replace_a_slow_one(&fixture), 2 * REPLACED_US, 2 * REPLACED_US + SECOND / 2);
    turns(&fixture, GRPC_HASTE_FORGOTTEN_US);
    (void)time_to_replace(&fixture); /* this connection is from before */
    turns(&fixture, GRPC_HASTE_FORGOTTEN_US);
    frontend_goaway(fixture.frontend, 0);
    turns(&fixture, SECOND);
    (void)grpc_fixture_run(&fixture);
    assert_in_range(time_to_replace(&fixture), REPLACED_US, REPLACED_US + SECOND / 2);
    grpc_fixture_close(&fixture);
}

static void a_quiet_connection_beside_a_silent_one_is_asked_and_replaced_too(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    fixture.script.fate = FATE_HOLD;
    struct grpc_ended *poll =
        grpc_fixture_request(&fixture, (struct grpc_request){.class = GRPC_LONG_POLL, .timeout_us = 60 * (int64_t)SECOND});
    grpc_fixture_until(&fixture, one_came);
    turns(&fixture, GRPC_UNHEARD_US); /* its PING is answered */
    assert_int_equal(frontend_counts(fixture.frontend).pings, 1);
    turns(&fixture, 2 * GRPC_KEEPALIVE_MIN_US);
    struct grpc_ended *call = grpc_fixture_request(&fixture, (struct grpc_request){.timeout_us = 60 * (int64_t)SECOND});
    grpc_fixture_until(&fixture, two_came);
    turns(&fixture, 1);
    frontend_freeze_all(fixture.frontend);
    (void)grpc_fixture_request(&fixture, (struct grpc_request){.timeout_us = 60 * (int64_t)SECOND});
    for (int64_t passed_us = 0; passed_us < 5 * GRPC_UNHEARD_US; passed_us += GRPC_SILENT_GRACE_US) {
        turns(&fixture, GRPC_SILENT_GRACE_US);
    }
    assert_int_equal(call->outcome, GRPC_UNKNOWN);
    assert_int_equal(call->cause, GRPC_CAUSE_SILENT);
    assert_int_equal(poll->outcome, GRPC_UNKNOWN);
    assert_int_equal(poll->cause, GRPC_CAUSE_SILENT);
    grpc_fixture_close(&fixture);
}

static void a_server_that_is_only_slow_keeps_its_connection(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    fixture.script.fate = FATE_HOLD;
    struct grpc_ended *slow = grpc_fixture_request(&fixture, (struct grpc_request){.timeout_us = 100 * (int64_t)SECOND});
    grpc_fixture_until(&fixture, one_came);
    for (int second = 0; second < 60; second++) {
        turns(&fixture, SECOND);
        if (second % 7 == 0) {
            (void)grpc_fixture_request(&fixture, (struct grpc_request){.timeout_us = 3 * (int64_t)SECOND});
        }
    }
    assert_int_equal(slow->times, 0);
    assert_int_equal(frontend_counts(fixture.frontend).connections, 1);
    assert_in_range(frontend_counts(fixture.frontend).pings, 2, 60 * (int64_t)SECOND / GRPC_KEEPALIVE_MIN_US + 1);
    grpc_fixture_close(&fixture);
}

/* --- names --- */

static int no_such_name(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_addresses)
{
    (void)host;
    (void)port;
    (void)hints;
    (void)ret_addresses;
    return EAI_NONAME;
}

static pthread_mutex_t slow_gate = PTHREAD_MUTEX_INITIALIZER;

/* Answers only when the test opens the gate. */
static int slow_name(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_addresses)
{
    (void)host;
    (void)pthread_mutex_lock(&slow_gate);
    (void)pthread_mutex_unlock(&slow_gate);
    return getaddrinfo("127.0.0.1", port, hints, ret_addresses);
}

static void a_name_without_an_address_is_not_sent(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct grpc_client_options options = {
        .targets = "nowhere.test:7233", .lookup = no_such_name, .lookup_free = freeaddrinfo};
    grpc_fixture_open(&fixture, NULL, &options);
    expect_unreachable(&fixture, GRPC_CAUSE_LOOKUP, "nowhere.test", "spelling");
    assert_int_equal(fixture.events[GRPC_EVENT_LOOKUP_FAILED], 1);
    grpc_fixture_close(&fixture);
}

static void a_slow_lookup_holds_up_nothing_and_is_used_in_the_end(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    char target[64];
    struct grpc_client_options options = {.targets = "slow.test:1", .lookup = slow_name, .lookup_free = freeaddrinfo};
    struct frontend_options served = {.handler = NULL};
    struct frontend *probe = frontend_open(&served);
    assert_non_null(probe);
    served.port = frontend_port(probe);
    frontend_close(probe);
    (void)snprintf(target, sizeof target, "slow.test:%d", served.port);
    options.targets = target;
    (void)pthread_mutex_lock(&slow_gate);
    grpc_fixture_open(&fixture, &served, &options);
    struct grpc_ended *first = grpc_fixture_call(&fixture, "x", 1);
    grpc_fixture_turn(&fixture);
    fixture.now_us += GRPC_LOOKUP_TIMEOUT_US;
    grpc_fixture_turn(&fixture);
    assert_int_equal(first->outcome, GRPC_NOT_SENT);
    assert_int_equal(first->cause, GRPC_CAUSE_LOOKUP);
    struct grpc_ended *patient = grpc_fixture_request(&fixture, (struct grpc_request){.wait_for_connection = true});
    grpc_fixture_turn(&fixture);
    assert_int_equal(patient->times, 0);
    (void)pthread_mutex_unlock(&slow_gate);
    grpc_fixture_wait(&fixture, patient);
    assert_int_equal(patient->outcome, GRPC_STATUS);
    grpc_fixture_close(&fixture);
}

static void closing_while_a_lookup_runs_is_safe(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct grpc_client_options options = {.targets = "slow.test:1", .lookup = slow_name, .lookup_free = freeaddrinfo};
    (void)pthread_mutex_lock(&slow_gate);
    grpc_fixture_open(&fixture, NULL, &options);
    struct grpc_ended *ended = grpc_fixture_call(&fixture, "x", 1);
    grpc_fixture_turn(&fixture);
    grpc_client_close(fixture.client);
    fixture.client = NULL;
    assert_int_equal(ended->outcome, GRPC_NOT_SENT);
    assert_int_equal(ended->cause, GRPC_CAUSE_CLOSED);
    (void)pthread_mutex_unlock(&slow_gate);
    grpc_fixture_close(&fixture);
}

/* --- coming back --- */

static void a_patient_call_waits_for_the_servers_return(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    frontend_listen(fixture.frontend, false);
    struct grpc_ended *patient = grpc_fixture_request(
        &fixture, (struct grpc_request){.wait_for_connection = true, .timeout_us = 100 * (int64_t)SECOND});
    for (int i = 0; i < 20; i++) {
        grpc_fixture_turn(&fixture);
        fixture.now_us += SECOND;
    }
    assert_int_equal(patient->times, 0);
    frontend_listen(fixture.frontend, true);
    /* However long it was away: the next dial is within 2 s. */
    fixture.now_us += 2 * SECOND;
    grpc_fixture_wait(&fixture, patient);
    assert_int_equal(patient->outcome, GRPC_STATUS);
    grpc_fixture_close(&fixture);
}

enum { TURN_US = 100000 };

static size_t dials(struct grpc_fixture *fixture)
{
    return (size_t)frontend_counts(fixture->frontend).connections + grpc_fixture_facts(fixture).connects_failed;
}

/* For any outcome of the dials: the next one begins at most a second later. No time is measured: the clock is the test's.
 */
static void expect_a_dial_each_second(struct grpc_fixture *fixture)
{
    int64_t last_us = fixture->now_us;
    size_t before = dials(fixture);
    (void)grpc_fixture_request(fixture,
                               (struct grpc_request){.wait_for_connection = true, .timeout_us = 300 * (int64_t)SECOND});
    for (int64_t end_us = fixture->now_us + 30 * (int64_t)SECOND; fixture->now_us < end_us;) {
        turns(fixture, TURN_US);
        if (dials(fixture) > before) {
            before = dials(fixture);
            last_us = fixture->now_us;
        }
        assert_true(fixture->now_us - last_us <= GRPC_DIAL_EVERY_US + 2 * TURN_US);
    }
    assert_true(before >= 25 && before <= 100);
}

static void whoever_comes_back_is_found_within_a_second(void **state)
{
    (void)state;
    struct frontend_options silent = {.kind = FRONTEND_SILENT};
    struct frontend_options closes = {.kind = FRONTEND_CLOSES};
    const struct frontend_options *rows[] = {NULL, &silent, &closes};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct grpc_fixture fixture;
        grpc_fixture_open(&fixture, rows[i], NULL);
        frontend_listen(fixture.frontend, rows[i] != NULL);
        expect_a_dial_each_second(&fixture);
        grpc_fixture_close(&fixture);
    }
}

/* The network swallows what is open and lets nobody in, for a while, again and again. From its end on the clock of the test
 * says how long it takes until a call is answered, and until nothing waits any more for what was swallowed. */
static void outages_of_any_length_end_within_two_seconds(void **state)
{
    (void)state;
    static const int64_t lengths_us[] = {2 * SECOND, 3 * SECOND, 5 * SECOND, 8 * SECOND, 13 * SECOND, 30 * (int64_t)SECOND};
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    for (size_t i = 0; i < 3 * sizeof lengths_us / sizeof lengths_us[0]; i++) {
        (void)grpc_fixture_run(&fixture);
        frontend_freeze_all(fixture.frontend);
        frontend_listen(fixture.frontend, false);
        struct grpc_ended *lost = grpc_fixture_request(&fixture, (struct grpc_request){.timeout_us = 90 * (int64_t)SECOND});
        for (int64_t end_us = fixture.now_us + lengths_us[i / 3]; fixture.now_us < end_us;) {
            turns(&fixture, TURN_US);
        }
        frontend_listen(fixture.frontend, true);
        int64_t back_us = fixture.now_us;
        const struct grpc_request patient = {.wait_for_connection = true, .timeout_us = 90 * (int64_t)SECOND};
        struct grpc_ended *next = grpc_fixture_request(&fixture, patient);
        while (next->times == 0 || next->outcome != GRPC_STATUS || lost->times == 0) {
            turns(&fixture, TURN_US);
            assert_true(fixture.now_us - back_us <= 2 * (int64_t)SECOND);
            /* It may have gone to the silent one, too: then its owner sends it again. */
            next = next->times == 0 || next->outcome == GRPC_STATUS ? next : grpc_fixture_request(&fixture, patient);
        }
        assert_int_equal(lost->outcome, GRPC_UNKNOWN);
    }
    grpc_fixture_close(&fixture);
}

static void a_slow_greeting_is_waited_for_beside_the_other_dials(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    struct grpc_ended *ended = grpc_fixture_call(&fixture, "x", 1);
    for (int i = 0; i < 8; i++) {
        fixture.now_us += SECOND / 2;
        (void)grpc_client_step(fixture.client); /* the server does nothing meanwhile */
    }
    assert_int_equal(grpc_fixture_facts(&fixture).dialling, 2);
    grpc_fixture_wait(&fixture, ended);
    assert_int_equal(ended->outcome, GRPC_STATUS);
    turns(&fixture, 0);
    assert_int_equal(grpc_fixture_facts(&fixture).dialling, 0);
    assert_int_equal(grpc_fixture_facts(&fixture).connections, 1);
    grpc_fixture_close(&fixture);
}

static void hold_ten(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    (void)call;
    int *seen = context;
    answer->fate = (*seen)++ < 10 ? FATE_HOLD : FATE_ANSWER;
}

static bool ten_came(struct grpc_fixture *fixture)
{
    return frontend_counts(fixture->frontend).calls == 10;
}

static void a_cut_makes_sent_calls_unknown_and_unsent_calls_go_on(void **state)
{
    (void)state;
    int seen = 0;
    struct grpc_fixture fixture;
    struct frontend_options served = {.handler = hold_ten, .context = &seen, .streams_max = 10};
    grpc_fixture_open(&fixture, &served, NULL);
    for (int i = 0; i < 30; i++) {
        (void)grpc_fixture_request(&fixture, (struct grpc_request){.wait_for_connection = true});
    }
    grpc_fixture_until(&fixture, ten_came);
    frontend_cut_all(fixture.frontend);
    while (fixture.told < 30) {
        grpc_fixture_turn(&fixture);
        fixture.now_us += 10000;
    }
    for (int i = 0; i < 30; i++) {
        assert_int_equal(fixture.ended[i].outcome, i < 10 ? GRPC_UNKNOWN : GRPC_STATUS);
    }
    assert_int_equal(seen, 30); /* each came once */
    grpc_fixture_close(&fixture);
}

/* Freezes the connection of the first call; counts how often each other call came. */
struct census {
    int calls;
    int came[1000];
};

static void freeze_first(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    struct census *census = context;
    if (census->calls++ == 0) {
        answer->fate = FATE_FREEZE;
        return;
    }
    int number = 0;
    assert_int_equal(call->message_length, sizeof number);
    memcpy(&number, call->message, sizeof number);
    census->came[number]++;
}

static void an_unsent_call_of_a_broken_connection_leaves_on_the_next(void **state)
{
    (void)state;
    enum { CALLS = 800, VALUE = 7 * 1024, HEADERS = 4 };
    static char value[VALUE + 1];
    static struct census census;
    struct grpc_fixture fixture;
    struct frontend_options served = {.handler = freeze_first, .context = &census};
    struct grpc_header headers[HEADERS];
    memset(value, 'v', VALUE);
    for (int i = 0; i < HEADERS; i++) {
        headers[i] = (struct grpc_header){.name = "x-large", .value = value, .secret = true};
    }
    grpc_fixture_open(&fixture, &served, NULL);
    struct grpc_ended *frozen = grpc_fixture_call(&fixture, "f", 1);
    grpc_fixture_until(&fixture, one_came);
    /* 22 MB of headers, which no flow control holds up: more than the kernel takes for a peer that does not read. */
    for (int i = 0; i < CALLS; i++) {
        (void)grpc_fixture_request(&fixture, (struct grpc_request){.message = &i,
                                                                   .message_length = sizeof i,
                                                                   .headers = headers,
                                                                   .header_count = HEADERS,
                                                                   .wait_for_connection = true});
    }
    for (int i = 0; i < 50; i++) {
        grpc_fixture_turn(&fixture);
    }
    frontend_cut_all(fixture.frontend);
    while (fixture.told < fixture.calls) {
        grpc_fixture_turn(&fixture);
        fixture.now_us += 1000;
    }
    int unknown = 0;
    assert_int_equal(frozen->outcome, GRPC_UNKNOWN);
    for (int i = 0; i < CALLS; i++) {
        enum grpc_outcome outcome = fixture.ended[i + 1].outcome;
        unknown += outcome == GRPC_UNKNOWN;
        assert_true(outcome == GRPC_UNKNOWN || outcome == GRPC_STATUS);
        assert_int_equal(census.came[i], outcome == GRPC_STATUS);
    }
    assert_in_range(unknown, 1, CALLS - 1);
    grpc_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_that_break_the_rules_are_unknown_and_proper_ones_are_not),
        cmocka_unit_test(every_reset_but_a_refusal_is_unknown),
        cmocka_unit_test(refused_calls_are_sent_again_within_a_limit),
        cmocka_unit_test(a_call_above_a_goaways_last_stream_is_sent_again_elsewhere),
        cmocka_unit_test(a_server_that_only_says_goaway_is_not_hammered),
        cmocka_unit_test(a_frozen_server_is_noticed_by_its_silence),
        cmocka_unit_test(a_silent_connection_is_replaced_within_two_seconds),
        cmocka_unit_test(a_network_that_swallows_again_and_again_is_found_out_as_soon_each_time),
        cmocka_unit_test(a_server_that_was_given_up_in_haste_is_given_more_time),
        cmocka_unit_test(outages_of_any_length_end_within_two_seconds),
        cmocka_unit_test(a_quiet_connection_beside_a_silent_one_is_asked_and_replaced_too),
        cmocka_unit_test(a_server_that_is_only_slow_keeps_its_connection),
        cmocka_unit_test(a_port_where_nobody_listens_is_not_sent),
        cmocka_unit_test(strangers_are_recognised_and_get_no_call),
        cmocka_unit_test(a_server_that_never_speaks_is_given_up),
        cmocka_unit_test(a_name_without_an_address_is_not_sent),
        cmocka_unit_test(a_slow_lookup_holds_up_nothing_and_is_used_in_the_end),
        cmocka_unit_test(closing_while_a_lookup_runs_is_safe),
        cmocka_unit_test(a_patient_call_waits_for_the_servers_return),
        cmocka_unit_test(whoever_comes_back_is_found_within_a_second),
        cmocka_unit_test(a_slow_greeting_is_waited_for_beside_the_other_dials),
        cmocka_unit_test(an_unsent_call_of_a_broken_connection_leaves_on_the_next),
        cmocka_unit_test(a_cut_makes_sent_calls_unknown_and_unsent_calls_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
