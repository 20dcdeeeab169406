/* The exporter of spans against a collector that answers as a test wants, and against none. */
#include "observe/span_exporter.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "observe/spans.h"
#include "support/test.h"

enum { HEAD_BYTES = 4096, DEADLINE_SECONDS = 60 };

/* One request after the other; each on a connection of its own. */
struct collector {
    int listener;
    int port;
    pthread_t thread;
    const int *statuses; /* 0 ends it */
    int requests;        /* read after the join */
    int spans;
    bool speaks_otlp;
};

/* The events that the bus saw. */
struct seen {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t exported;
    int64_t dropped;
    char reason[256];
};

static struct seen seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static struct event_bus bus;

static void note(void *context, const struct event *event)
{
    (void)context;
    (void)pthread_mutex_lock(&seen.lock);
    if (event->type == EVENT_SPANS_EXPORTED) {
        seen.exported += event->count;
    } else if (event->type == EVENT_SPANS_DROPPED) {
        seen.dropped += event->count;
        (void)snprintf(seen.reason, sizeof seen.reason, "%s", event->error);
    }
    (void)pthread_cond_broadcast(&seen.changed);
    (void)pthread_mutex_unlock(&seen.lock);
}

/* Waits until so many spans are exported or dropped. */
static void await_spans(int64_t count)
{
    struct timespec until;
    int failure = 0;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DEADLINE_SECONDS;
    (void)pthread_mutex_lock(&seen.lock);
    while (seen.exported + seen.dropped < count && failure == 0) {
        failure = pthread_cond_timedwait(&seen.changed, &seen.lock, &until);
    }
    int64_t came = seen.exported + seen.dropped;
    (void)pthread_mutex_unlock(&seen.lock);
    if (came < count) {
        fail_msg("%lld of %lld spans were exported or dropped", (long long)came, (long long)count);
    }
}

static int listen_on_loopback(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    *ret_port = ntohs(address.sin_port);
    return listener;
}

static int count_of(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        count++;
    }
    return count;
}

/* Reads a request and answers it. */
static void serve_request(struct collector *collector, int connection, int status)
{
    struct text request = {.max = SPANS_TEXT_BYTES_MAX + HEAD_BYTES};
    char piece[4096];
    const char *body = NULL;
    size_t wanted = 0;
    while (body == NULL || request.length - (size_t)(body - request.data) < wanted) {
        ssize_t got = read(connection, piece, sizeof piece);
        if (got <= 0 || text_add(&request, piece, (size_t)got) != WEIR_OK) {
            break;
        }
        const char *end = strstr(request.data, "\r\n\r\n");
        const char *length = strstr(request.data, "Content-Length: ");
        if (end != NULL && length != NULL) {
            body = end + 4;
            wanted = strtoul(length + strlen("Content-Length: "), NULL, 10);
        }
    }
    if (body != NULL) {
        collector->speaks_otlp = strncmp(request.data, "POST /v1/traces HTTP/1.1\r\n", 26) == 0 &&
                                 strstr(request.data, "Content-Type: application/json\r\n") != NULL;
        collector->spans += status == 200 ? count_of(body, "\"spanId\"") : 0;
    }
    (void)snprintf(piece, sizeof piece, "HTTP/1.1 %d X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", status);
    (void)!write(connection, piece, strlen(piece));
    text_close(&request);
}

static void *run_collector(void *context)
{
    struct collector *collector = context;
    for (; collector->statuses[collector->requests] != 0; collector->requests++) {
        int connection = accept(collector->listener, NULL, NULL);
        serve_request(collector, connection, collector->statuses[collector->requests]);
        (void)close(connection);
    }
    return NULL;
}

static void start_collector(struct collector *collector, const int *statuses)
{
    *collector = (struct collector){.statuses = statuses};
    collector->listener = listen_on_loopback(&collector->port);
    assert_int_equal(pthread_create(&collector->thread, NULL, run_collector, collector), 0);
}

static void join_collector(struct collector *collector)
{
    (void)pthread_join(collector->thread, NULL);
    (void)close(collector->listener);
}

/* It stands still unless a test lets it go on: no batch is cut in two, and no close runs out of time. */
static _Atomic int64_t test_now_us;

static int64_t read_test_clock(void *context)
{
    (void)context;
    return test_now_us;
}

static const struct clock test_clock = {.wall_us = read_test_clock, .boot_us = read_test_clock};

static struct span_exporter *open_exporter_with(int port, const struct clock *clock)
{
    char endpoint[64];
    struct weir_error error = {.message = ""};
    struct span_exporter *exporter = NULL;
    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", port);
    struct span_exporter_options options = {.endpoint = endpoint, .ratio = 1, .events = &bus, .clock = clock};
    seen.exported = 0;
    seen.dropped = 0;
    seen.reason[0] = '\0';
    bus = (struct event_bus){.count = 0};
    assert_true(event_subscribe(&bus, note, NULL));
    if (span_exporter_open(&options, &exporter, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    return exporter;
}

static struct span_exporter *open_exporter(int port)
{
    return open_exporter_with(port, NULL);
}

/* Two spans each. */
static void emit_ends(int count)
{
    struct event event = {.type = EVENT_EXECUTION_COMPLETED,
                          .execution_id = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79",
                          .workspace = "acme",
                          .workflow = "hello"};
    for (int i = 0; i < count; i++) {
        event_emit(&bus, &event);
    }
}

static void spans_arrive_in_batches(void **state)
{
    (void)state;
    static const int fine[] = {200, 200, 0};
    struct collector collector;
    start_collector(&collector, fine);
    struct span_exporter *exporter = open_exporter_with(collector.port, &test_clock);
    emit_ends(SPANS_BATCH_MAX / 2);
    await_spans(SPANS_BATCH_MAX);
    emit_ends(3); /* less than a batch: by time */
    test_now_us += SPANS_WAIT_US;
    await_spans(SPANS_BATCH_MAX + 6);
    join_collector(&collector);
    span_exporter_close(exporter);
    assert_true(collector.speaks_otlp);
    assert_int_equal(collector.requests, 2);
    assert_int_equal(collector.spans, SPANS_BATCH_MAX + 6);
    assert_int_equal(seen.exported, SPANS_BATCH_MAX + 6);
    assert_int_equal(seen.dropped, 0);
}

static void a_collector_that_is_busy_gets_the_batch_again(void **state)
{
    (void)state;
    static const int busy[] = {503, 429, 200, 0};
    struct collector collector;
    start_collector(&collector, busy);
    struct span_exporter *exporter = open_exporter(collector.port);
    emit_ends(5);
    await_spans(10);
    join_collector(&collector);
    span_exporter_close(exporter);
    assert_int_equal(collector.requests, 3);
    assert_int_equal(seen.exported, 10);
    assert_int_equal(seen.dropped, 0);
}

static void a_batch_that_the_collector_refuses_is_dropped_and_counted(void **state)
{
    (void)state;
    static const int refused[] = {400, 200, 0};
    struct collector collector;
    start_collector(&collector, refused);
    struct span_exporter *exporter = open_exporter_with(collector.port, &test_clock);
    emit_ends(5);
    test_now_us += SPANS_WAIT_US;
    await_spans(10);
    assert_int_equal(seen.dropped, 10);
    assert_string_equal(seen.reason, "the collector answered with status 400");
    emit_ends(1);
    test_now_us += SPANS_WAIT_US;
    await_spans(12);
    join_collector(&collector);
    span_exporter_close(exporter);
    assert_int_equal(seen.exported, 2);
}

/* The emitter fills the queue and goes on; each span is counted once. */
static void without_a_collector_spans_are_dropped_and_counted(void **state)
{
    (void)state;
    int port = 0;
    int reserved = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* bound and not listening: every connect is refused */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    assert_int_equal(bind(reserved, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(reserved, (struct sockaddr *)&address, &length), 0);
    port = ntohs(address.sin_port);
    struct span_exporter *exporter = open_exporter(port);
    emit_ends(3 * SPANS_QUEUED_MAX);
    await_spans(1);
    span_exporter_close(exporter);
    (void)close(reserved);
    assert_int_equal(seen.exported, 0);
    assert_int_equal(seen.dropped, 6 * SPANS_QUEUED_MAX);
    assert_non_null(strstr(seen.reason, "the collector: "));
}

/* It accepts and never answers: the close ends the request. */
static void a_close_does_not_wait_for_a_silent_collector(void **state)
{
    (void)state;
    int port = 0;
    int listener = listen_on_loopback(&port);
    struct span_exporter *exporter = open_exporter(port);
    emit_ends(1);
    int connection = accept(listener, NULL, NULL);
    assert_true(connection >= 0);
    span_exporter_close(exporter);
    (void)close(connection);
    (void)close(listener);
    assert_int_equal(seen.exported, 0);
    assert_int_equal(seen.dropped, 2);
}

static void a_close_sends_what_waits(void **state)
{
    (void)state;
    static const int fine[] = {200, 0};
    struct collector collector;
    start_collector(&collector, fine);
    struct span_exporter *exporter = open_exporter_with(collector.port, &test_clock);
    emit_ends(2);
    span_exporter_close(exporter);
    join_collector(&collector);
    assert_int_equal(seen.exported, 4);
    assert_int_equal(seen.dropped, 0);
}

static void an_endpoint_that_is_no_url_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "127.0.0.1:4318", "ftp://x", "http://a b", "http://x?y", "http://x#y"};
    struct span_exporter *exporter = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct weir_error error = {.message = ""};
        struct span_exporter_options options = {.endpoint = wrong[i], .ratio = 1, .events = &bus};
        assert_int_equal(span_exporter_open(&options, &exporter, &error), WEIR_INVALID_CONFIG);
        assert_non_null(strstr(error.message, "otel.endpoint"));
        assert_non_null(strstr(error.hint, "http://127.0.0.1:4318"));
    }
    span_exporter_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_arrive_in_batches),
        cmocka_unit_test(a_collector_that_is_busy_gets_the_batch_again),
        cmocka_unit_test(a_batch_that_the_collector_refuses_is_dropped_and_counted),
        cmocka_unit_test(without_a_collector_spans_are_dropped_and_counted),
        cmocka_unit_test(a_close_does_not_wait_for_a_silent_collector),
        cmocka_unit_test(a_close_sends_what_waits),
        cmocka_unit_test(an_endpoint_that_is_no_url_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
