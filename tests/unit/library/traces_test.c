/* Traces through the public interface: the context of a request in its handler, and the export of spans. Links the shared
 * library alone. */
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <weir/weir.h>

#include "support/folder.h"
#include "support/test.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define CALLER "00-" TRACE "-00f067aa0ba902b7-01"

static struct folder folder;
static char path[300];
static char passed_on[64];
static atomic_long dropped;

static void note_trace(struct weir_call *call, void *context)
{
    const char *traceparent = weir_call_traceparent(call);
    (void)context;
    (void)snprintf(passed_on, sizeof passed_on, "%s", traceparent == NULL ? "none" : traceparent);
    weir_done(call, NULL);
}

static void note_event(void *context, const struct weir_event *event)
{
    (void)context;
    if (strcmp(event->name, "spans.dropped") == 0) {
        dropped += (long)event->count;
    }
}

static int set_up(void **state)
{
    static const char workflow[] = "name: work\nsteps:\n  only: {handler: note-trace}\n";
    struct weir_error error;
    struct weir *weir = NULL;
    (void)state;
    dropped = 0;
    if (folder_make(&folder) != 0) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/weir.db", folder.path);
    bool is_fine = weir_migrate(path, NULL, &error) == WEIR_OK && weir_open(path, NULL, &weir, &error) == WEIR_OK &&
                   weir_set_workspace(weir, "acme", "free", 0, &error) == WEIR_OK &&
                   weir_publish_workflow(weir, workflow, 0, NULL, NULL, &error) == WEIR_OK;
    weir_close(weir);
    return is_fine ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    folder_remove(&folder);
    return 0;
}

/* Runs one execution to its end, on a handle and a node of its own. */
static void run_one(const char *otel_endpoint, const char *traceparent)
{
    static const struct weir_handler handlers[] = {{"note-trace", note_trace, NULL}};
    const struct weir_options options = {.on_event = note_event, .otel_endpoint = otel_endpoint};
    const struct weir_node_options node_options = {.handlers = handlers, .handler_count = 1};
    const struct weir_request request = {.workspace = "acme", .workflow = "work", .traceparent = traceparent};
    struct weir_error error = {.message = ""};
    struct weir *weir = NULL;
    struct weir_node *node = NULL;
    char id[WEIR_ID_SIZE];
    if (weir_open(path, &options, &weir, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(weir_node_open(weir, &node_options, &node, &error), WEIR_OK);
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_OK);
    assert_int_equal(weir_wait(weir, id, 60000000, NULL, NULL, &error), WEIR_OK);
    assert_int_equal(weir_node_stop(node, 0, NULL, &error), WEIR_OK);
    weir_node_close(node);
    weir_close(weir);
}

static void a_handler_reads_the_context_of_its_request(void **state)
{
    (void)state;
    run_one(NULL, CALLER);
    assert_string_equal(passed_on, CALLER);
    run_one(NULL, NULL);
    assert_string_equal(passed_on, "none");
    assert_int_equal(dropped, 0);
}

/* A port that is bound and not listening refuses each connection. */
static void a_handle_with_a_collector_makes_spans_and_never_waits_for_it(void **state)
{
    (void)state;
    char endpoint[64];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int reserved = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(reserved, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(reserved, (struct sockaddr *)&address, &length), 0);
    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", ntohs(address.sin_port));
    run_one(endpoint, CALLER);
    (void)close(reserved);
    assert_non_null(strstr(passed_on, "00-" TRACE "-"));
    assert_string_not_equal(passed_on, CALLER); /* the span of the step is the parent */
    assert_true(dropped > 0);
}

static void an_endpoint_that_is_no_url_is_refused(void **state)
{
    (void)state;
    const struct weir_options options = {.otel_endpoint = "collector:4318"};
    struct weir_error error = {.message = ""};
    struct weir *weir = NULL;
    assert_int_equal(weir_open(path, &options, &weir, &error), WEIR_INVALID_CONFIG);
    assert_non_null(strstr(error.message, "collector:4318"));
    assert_null(weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_handler_reads_the_context_of_its_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_handle_with_a_collector_makes_spans_and_never_waits_for_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_endpoint_that_is_no_url_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
