/* A gRPC client and its server in one thread.
 *
 * One turn steps the client and then the server, and waits a moment for bytes. The clock stands still unless a test moves
 * it, so deadlines never depend on the machine. Each call ends exactly once; a second end fails the test.
 */
#include "support/grpc_fixture.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "base/text.h"
#include "support/test.h"

enum { PATIENCE_S = 60 };

static int64_t read_clock(void *context)
{
    return ((struct grpc_fixture *)context)->now_us;
}

static void handle(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    (void)call;
    struct grpc_fixture *fixture = context;
    fixture->calls_handled++;
    *answer = fixture->script;
}

static void note_event(void *context, const struct grpc_event *event)
{
    struct grpc_fixture *fixture = context;
    fixture->events[event->kind]++;
    if (event->error != NULL) {
        fixture->last_event_error = *event->error;
    }
}

void grpc_fixture_open(struct grpc_fixture *fixture, const struct frontend_options *frontend_options,
                       const struct grpc_client_options *client_options)
{
    struct frontend_options served = frontend_options != NULL ? *frontend_options : (struct frontend_options){.port = 0};
    struct grpc_client_options options =
        client_options != NULL ? *client_options : (struct grpc_client_options){.targets = NULL};
    struct weir_error error = {.status = WEIR_OK};
    *fixture = (struct grpc_fixture){.now_us = 1000 * MICROSECONDS_PER_SECOND};
    fixture->clock = (struct clock){.wall_us = read_clock, .boot_us = read_clock, .context = fixture};
    fixture->ended = calloc(GRPC_OUTCOMES_MAX, sizeof *fixture->ended);
    assert_non_null(fixture->ended);
    if (served.handler == NULL) {
        served.handler = handle;
        served.context = fixture;
    }
    fixture->frontend = frontend_open(&served);
    assert_non_null(fixture->frontend);
    options.targets = options.targets != NULL ? options.targets : frontend_address(fixture->frontend);
    options.event = note_event;
    options.event_context = fixture;
    options.seed = 7;
    if (grpc_client_open(&options, &fixture->clock, &fixture->client, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
}

void grpc_fixture_close(struct grpc_fixture *fixture)
{
    grpc_client_close(fixture->client);
    frontend_close(fixture->frontend);
    for (size_t i = 0; i < fixture->calls; i++) {
        assert_int_equal(fixture->ended[i].times, 1);
        free(fixture->ended[i].response);
    }
    free(fixture->ended);
}

struct told {
    struct grpc_fixture *fixture;
    struct grpc_ended *ended;
};

static void note_result(void *context, const struct grpc_result *result)
{
    struct told *told = context;
    struct grpc_ended *ended = told->ended;
    told->fixture->told++;
    free(told);
    ended->times++;
    ended->outcome = result->outcome;
    ended->cause = result->cause;
    ended->code = result->code;
    ended->http_status = result->http_status;
    ended->resends = result->resends;
    ended->sent_us = result->sent_us;
    text_copy(ended->message, sizeof ended->message, result->message);
    if (result->outcome == GRPC_STATUS) {
        assert_null(result->error);
        assert_int_equal(result->cause, GRPC_CAUSE_NONE);
    } else {
        /* A reader must learn the outcome from it. */
        assert_non_null(result->error);
        assert_int_not_equal(result->cause, GRPC_CAUSE_NONE);
        assert_string_not_equal(result->error->message, "");
        ended->error = *result->error;
    }
    if (result->details != NULL && result->details_length < sizeof ended->details) {
        memcpy(ended->details, result->details, result->details_length);
        ended->details_length = result->details_length;
    }
    if (result->response != NULL) {
        ended->response = malloc(result->response_length + 1);
        assert_non_null(ended->response);
        memcpy(ended->response, result->response, result->response_length);
        ended->response_length = result->response_length;
    }
}

struct grpc_ended *grpc_fixture_request(struct grpc_fixture *fixture, struct grpc_request request)
{
    struct weir_error error = {.status = WEIR_OK};
    struct told *told = malloc(sizeof *told);
    assert_non_null(told);
    assert_true(fixture->calls < GRPC_OUTCOMES_MAX);
    struct grpc_ended *ended = &fixture->ended[fixture->calls++];
    *told = (struct told){.fixture = fixture, .ended = ended};
    request.path = request.path != NULL ? request.path : GRPC_TEST_PATH;
    request.timeout_us = request.timeout_us != 0 ? request.timeout_us : 10 * MICROSECONDS_PER_SECOND;
    request.done = note_result;
    request.context = told;
    if (grpc_client_call(fixture->client, &request, &ended->id, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    return ended;
}

struct grpc_ended *grpc_fixture_call(struct grpc_fixture *fixture, const void *message, size_t length)
{
    return grpc_fixture_request(fixture, (struct grpc_request){.message = message, .message_length = length});
}

void grpc_fixture_turn(struct grpc_fixture *fixture)
{
    struct pollfd polled = {.fd = grpc_client_fd(fixture->client), .events = POLLIN};
    (void)grpc_client_step(fixture->client);
    frontend_step(fixture->frontend, 0);
    /* Bytes of the frontend arrive at once on loopback. Otherwise a thread of a lookup may need the core. */
    (void)poll(&polled, 1, 1);
}

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void grpc_fixture_until(struct grpc_fixture *fixture, bool (*holds)(struct grpc_fixture *fixture))
{
    double until = seconds() + PATIENCE_S;
    while (!holds(fixture)) {
        grpc_fixture_turn(fixture);
        if (seconds() > until) {
            fail_msg("the awaited condition did not hold in time");
        }
    }
}

void grpc_fixture_wait(struct grpc_fixture *fixture, const struct grpc_ended *ended)
{
    double until = seconds() + PATIENCE_S;
    while (ended->times == 0) {
        grpc_fixture_turn(fixture);
        if (seconds() > until) {
            fail_msg("a call did not end");
        }
    }
}

static bool all_told(struct grpc_fixture *fixture)
{
    return fixture->told == fixture->calls;
}

void grpc_fixture_wait_all(struct grpc_fixture *fixture)
{
    grpc_fixture_until(fixture, all_told);
}

struct grpc_ended *grpc_fixture_run(struct grpc_fixture *fixture)
{
    struct grpc_ended *ended = grpc_fixture_call(fixture, "ping", 4);
    grpc_fixture_wait(fixture, ended);
    return ended;
}

struct grpc_client_facts grpc_fixture_facts(const struct grpc_fixture *fixture)
{
    struct grpc_client_facts facts;
    grpc_client_read_facts(fixture->client, &facts);
    return facts;
}

const char *grpc_fixture_outcome(enum grpc_outcome outcome)
{
    static const char *const names[] = {"not_sent", "refused", "status", "unknown"};
    return (unsigned)outcome < sizeof names / sizeof names[0] ? names[outcome] : "?";
}
