/* A gRPC client with a frontend in the same thread, and answers that are waited for by turns of both.
 *
 * The clock is the fixture's: it stands still until a test moves it, so that no deadline comes by itself.
 */
#ifndef WEIR_TESTS_SUPPORT_GRPC_FIXTURE_H
#define WEIR_TESTS_SUPPORT_GRPC_FIXTURE_H

#include "base/clock.h"
#include "grpc/grpc_client.h"
#include "support/frontend.h"

enum { GRPC_OUTCOMES_MAX = 4096 };

#define GRPC_TEST_PATH "/weir.test.Service/Method"

/* The outcome of one call: a copy of the result. */
struct grpc_ended {
    int times; /* how often `done` was called */
    enum grpc_outcome outcome;
    enum grpc_cause cause;
    int code;
    int http_status;
    int resends;
    int64_t sent_us;
    char message[256];
    char details[256];
    size_t details_length;
    uint8_t *response; /* freed with the fixture */
    size_t response_length;
    struct weir_error error; /* WEIR_OK with a status */
    grpc_call_id id;
};

struct grpc_fixture {
    struct clock clock;
    int64_t now_us;
    struct frontend *frontend;
    struct grpc_client *client;
    struct grpc_ended *ended; /* GRPC_OUTCOMES_MAX, in the order of the calls */
    size_t calls;
    size_t told;
    int events[GRPC_EVENT_COUNT];
    struct weir_error last_event_error;
    struct frontend_answer script; /* given for every call by the fixture's own handler */
    int calls_handled;
};

/* A frontend with these options (handler NULL: answers with `script`) and a client of it. `client_options` may lack
 * targets. Fails the test when either cannot be opened. */
void grpc_fixture_open(struct grpc_fixture *fixture, const struct frontend_options *frontend_options,
                       const struct grpc_client_options *client_options);
void grpc_fixture_close(struct grpc_fixture *fixture);

/* Takes a call of GRPC_TEST_PATH; the timeout is 10 s. */
struct grpc_ended *grpc_fixture_call(struct grpc_fixture *fixture, const void *message, size_t length);
/* The same with all to choose; `done` and `context` are the fixture's. */
struct grpc_ended *grpc_fixture_request(struct grpc_fixture *fixture, struct grpc_request request);
/* One turn of both. */
void grpc_fixture_turn(struct grpc_fixture *fixture);
/* Turns until the call has ended; fails the test after a generous time. */
void grpc_fixture_wait(struct grpc_fixture *fixture, const struct grpc_ended *ended);
/* Turns until everything that was called has ended. */
void grpc_fixture_wait_all(struct grpc_fixture *fixture);
/* Turns until the condition holds. */
void grpc_fixture_until(struct grpc_fixture *fixture, bool (*holds)(struct grpc_fixture *fixture));
/* A call, waited for. */
struct grpc_ended *grpc_fixture_run(struct grpc_fixture *fixture);
struct grpc_client_facts grpc_fixture_facts(const struct grpc_fixture *fixture);
/* "not_sent", "refused", "status", "unknown". */
const char *grpc_fixture_outcome(enum grpc_outcome outcome);

#endif
