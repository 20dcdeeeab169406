/* The gRPC client against the scripted frontend, which has a thread (and, where there are two, a core) of its own. What
 * counts is the client's CPU for each call: building, sending and reading it. Calls per second are bounded by both.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "grpc/grpc_client.h"
#include "support/certificates.h"
#include "support/frontend.h"

enum { REQUEST_BYTES = 361, RESPONSE_BYTES = 44, CALLS = 200000, CALLS_QUICK = 2000, LONG_POLLS = 1000, DAY_S = 86400 };

/* The fields that a call of a real service carries beside the protocol's own headers. */
static const struct grpc_header headers[] = {{.name = "client-name", .value = "weir"},
                                             {.name = "client-version", .value = "0.1.0"},
                                             {.name = "temporal-namespace", .value = "default"}};

struct load {
    struct grpc_client *client;
    int left;
    int under_way;
    int fine;
};

static void answer(void *context, const struct frontend_call *call, struct frontend_answer *ret_answer)
{
    static const uint8_t response[RESPONSE_BYTES];
    (void)context;
    if (strstr(call->path, "Poll") != NULL) {
        ret_answer->fate = FATE_HOLD;
    }
    ret_answer->response = response;
    ret_answer->response_length = sizeof response;
}

static void call_one(struct load *load);

static void count(void *context, const struct grpc_result *result)
{
    struct load *load = context;
    load->under_way--;
    load->fine += result->outcome == GRPC_STATUS && result->code == GRPC_OK && result->response_length == RESPONSE_BYTES;
    if (load->left > 0) {
        call_one(load);
    }
}

static void ignore(void *context, const struct grpc_result *result)
{
    (void)context;
    (void)result;
}

static void call_one(struct load *load)
{
    static const uint8_t message[REQUEST_BYTES];
    struct grpc_request request = {.path = "/temporal.api.workflowservice.v1.WorkflowService/StartWorkflowExecution",
                                   .message = message,
                                   .message_length = sizeof message,
                                   .timeout_us = 60 * MICROSECONDS_PER_SECOND,
                                   .headers = headers,
                                   .header_count = sizeof headers / sizeof headers[0],
                                   .done = count,
                                   .context = load};
    struct weir_error error;
    BENCH_OK(grpc_client_call(load->client, &request, NULL, &error), &error);
    load->left--;
    load->under_way++;
}

static void wait_for(struct grpc_client *client, int64_t due_us)
{
    struct pollfd polled = {.fd = grpc_client_fd(client), .events = POLLIN};
    int64_t wait_us = due_us == TIME_NEVER ? MICROSECONDS_PER_SECOND : due_us - clock_boot(clock_system());
    if (wait_us > 0) {
        (void)poll(&polled, 1, wait_us < MICROSECONDS_PER_SECOND ? (int)(wait_us / MICROSECONDS_PER_MS) + 1 : 1000);
    }
}

static void run_load(struct load *load, int calls, int width)
{
    load->left = calls;
    load->fine = 0;
    while (load->left > 0 && load->under_way < width) {
        call_one(load);
    }
    while (load->under_way > 0) {
        int64_t due_us = grpc_client_step(load->client);
        if (load->under_way > 0) {
            wait_for(load->client, due_us);
        }
    }
    BENCH_CHECK(load->fine == calls);
}

static void open_polls(struct load *load, struct frontend *frontend, int calls_before)
{
    struct weir_error error;
    for (int i = 0; i < LONG_POLLS; i++) {
        struct grpc_request request = {.path = "/temporal.api.workflowservice.v1.WorkflowService/PollHistory",
                                       .class = GRPC_LONG_POLL,
                                       .timeout_us = 600 * MICROSECONDS_PER_SECOND,
                                       .done = ignore};
        BENCH_OK(grpc_client_call(load->client, &request, NULL, &error), &error);
    }
    while (frontend_counts(frontend).calls < calls_before + LONG_POLLS) {
        wait_for(load->client, grpc_client_step(load->client));
    }
}

static void measure(struct bench *bench, const char *name, int width, bool polls, const struct frontend_options *served,
                    const struct grpc_client_options *wanted)
{
    int calls = bench->quick ? CALLS_QUICK : CALLS;
    char figure[FIGURE_NAME_MAX];
    struct weir_error error;
    struct grpc_client_options options = *wanted;
    struct load load = {.left = 0};
    struct frontend *frontend = frontend_open(served);
    BENCH_CHECK(frontend != NULL && frontend_run(frontend) == 0);
    options.targets = frontend_address(frontend);
    BENCH_OK(grpc_client_open(&options, clock_system(), &load.client, &error), &error);
    run_load(&load, width, width); /* connects, and fills the caches of header compression */
    if (polls) {
        open_polls(&load, frontend, width);
    }
    double began = bench_now();
    double cpu_us = bench_thread_cpu_us();
    run_load(&load, calls, width);
    cpu_us = bench_thread_cpu_us() - cpu_us;
    double passed = bench_now() - began;
    (void)snprintf(figure, sizeof figure, "grpc, %s: client CPU per call", name);
    bench_report(bench, figure, cpu_us / calls, "us", 0, VALUE_AT_MOST, 15);
    (void)snprintf(figure, sizeof figure, "grpc, %s: calls", name);
    bench_note(bench, figure, calls / passed, "/s");
    grpc_client_close(load.client);
    frontend_close(frontend);
}

void bench_grpc(struct bench *bench)
{
    char authority[BENCH_PATH_MAX + 16];
    char certificate[BENCH_PATH_MAX + 16];
    char key[BENCH_PATH_MAX + 16];
    struct certificate_request request = {
        .folder = bench->folder, .name = "authority", .valid_from_s = -DAY_S, .valid_until_s = DAY_S};
    BENCH_CHECK(certificate_make(&request) == 0);
    request.signer = request.name;
    request.name = "server";
    request.alternative = "IP:127.0.0.1";
    BENCH_CHECK(certificate_make(&request) == 0);
    (void)snprintf(authority, sizeof authority, "%s/authority.pem", bench->folder);
    (void)snprintf(certificate, sizeof certificate, "%s/server.pem", bench->folder);
    (void)snprintf(key, sizeof key, "%s/server.key", bench->folder);
    struct frontend_options plain = {.handler = answer};
    struct frontend_options tls = {.handler = answer, .certificate_file = certificate, .key_file = key};
    struct grpc_client_options plain_client = {.calls_max = 8192};
    struct grpc_client_options tls_client = {.calls_max = 8192, .ca_file = authority};
    measure(bench, "10 in flight", 10, false, &plain, &plain_client);
    measure(bench, "64 in flight", 64, false, &plain, &plain_client);
    measure(bench, "500 in flight", 500, false, &plain, &plain_client);
    measure(bench, "64 in flight, TLS", 64, false, &tls, &tls_client);
    measure(bench, "64 in flight, TLS, 1,000 polls", 64, true, &tls, &tls_client);
}
