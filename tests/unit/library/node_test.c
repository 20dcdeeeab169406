/* The public interface with a node: handlers in C, with threads and stepped by hand. Links the shared library alone. */
#include <math.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <time.h>
#include <weir/weir.h>

#include "support/folder.h"
#include "support/test.h"

#define SECOND_US ((int64_t)1000000)

static struct folder folder;
static struct weir *weir;
static struct weir_node *node;
static struct weir_error error;
static atomic_int calls;
static atomic_int cancelled_calls;
static atomic_bool may_end;
static atomic_int running;
static atomic_int running_most;

static const char workflow[] = "name: work\nsteps:\n"
                               "  first: {handler: echo, input: \"${.input.say}\"}\n"
                               "  second: {needs: [first], handler: echo, input: \"${.steps.first.output}\"}\n";
static const char slow_workflow[] = "name: slow\nsteps:\n  only: {handler: slow}\n";
static const char silent_workflow[] = "name: silent\nsteps:\n  only: {handler: silent, retry: {attempts: 1}}\n";
static const char later_workflow[] = "name: later\nsteps:\n  only: {handler: later}\n";
static const char stubborn_workflow[] = "name: stubborn\nsteps:\n"
                                        "  only: {handler: stubborn, retry: {attempts: 3, backoff: 1ms}}\n";

static void echo(struct weir_call *call, void *context)
{
    assert_ptr_equal(context, &folder);
    assert_string_equal(weir_call_workspace(call), "acme");
    assert_int_equal(strlen(weir_call_execution_id(call)), WEIR_ID_SIZE - 1);
    assert_true(weir_call_fence(call) > 0);
    calls++;
    weir_done(call, weir_call_input(call));
}

static void slow(struct weir_call *call, void *context)
{
    (void)context;
    int now = ++running;
    int most = running_most;
    while (now > most && !atomic_compare_exchange_weak(&running_most, &most, now)) {
    }
    calls++;
    while (!may_end && !weir_call_cancelled(call)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    if (may_end) {
        weir_done(call, NULL);
    } else {
        cancelled_calls++;
        weir_retry(call, "interrupted", NULL);
    }
    running--;
}

static void silent(struct weir_call *call, void *context)
{
    (void)call;
    (void)context;
}

static void stubborn(struct weir_call *call, void *context)
{
    (void)context;
    calls++;
    if (weir_call_attempt(call) < 3) {
        weir_retry(call, "not_yet", "come back later");
    } else {
        weir_fail(call, "never", "no \"way\"");
    }
}

static struct weir_call *deferred;

static void later(struct weir_call *call, void *context)
{
    (void)context;
    weir_call_defer(call);
    deferred = call;
    calls++;
}

static const struct weir_handler handlers[] = {{"echo", echo, &folder},
                                               {"slow", slow, NULL},
                                               {"silent", silent, NULL},
                                               {"stubborn", stubborn, NULL},
                                               {"later", later, NULL}};

static int set_up(void **state)
{
    (void)state;
    static const char *const workflows[] = {workflow, slow_workflow, silent_workflow, stubborn_workflow, later_workflow};
    char path[300];
    calls = 0;
    cancelled_calls = 0;
    may_end = false;
    running = 0;
    running_most = 0;
    node = NULL;
    if (folder_make(&folder) != 0) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/weir.db", folder.path);
    if (weir_migrate(path, NULL, &error) != WEIR_OK || weir_open(path, NULL, &weir, &error) != WEIR_OK ||
        weir_set_workspace(weir, "acme", "pro", 0, &error) != WEIR_OK) {
        return -1;
    }
    for (size_t i = 0; i < sizeof workflows / sizeof workflows[0]; i++) {
        if (weir_publish_workflow(weir, workflows[i], 0, NULL, NULL, &error) != WEIR_OK) {
            return -1;
        }
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_node_close(node);
    weir_close(weir);
    folder_remove(&folder);
    return 0;
}

static void open_node_with(size_t handler_threads)
{
    struct weir_node_options options = {.handlers = handlers, .handler_count = 5, .name = "tested"};
    options.handler_threads = handler_threads;
    options.poll_interval_us = 3600 * SECOND_US; /* what starts in a test was started by a wake-up */
    enum weir_status status = weir_node_open(weir, &options, &node, &error);
    if (status != WEIR_OK) {
        fail_msg("weir_node_open: %s", error.message);
    }
}

static void open_node(void)
{
    open_node_with(4);
}

static void enqueue(const char *name, char id[WEIR_ID_SIZE])
{
    struct weir_request request = {.workspace = "acme", .workflow = name, .params = "{\"say\":[1,\"two\"]}"};
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_OK);
}

static void await(const char *id, enum weir_end expected, char **ret_json)
{
    enum weir_end end;
    enum weir_status status = weir_wait(weir, id, 90 * SECOND_US, &end, ret_json, &error);
    if (status != WEIR_OK) {
        fail_msg("weir_wait: %s", error.message);
    }
    assert_int_equal(end, expected);
}

static void await_calls(int expected)
{
    for (int i = 0; i < 90000 && calls < expected; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    assert_int_equal(calls, expected);
}

static void handlers_run_on_the_nodes_threads(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    char *json = NULL;
    bool graceful = false;
    int64_t wait_us;
    open_node();
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    assert_int_equal(weir_node_start(node, &error), WEIR_MISUSE);
    assert_int_equal(weir_node_step(node, &wait_us, &error), WEIR_MISUSE);
    assert_int_equal(weir_node_health(node, &error), WEIR_OK);
    enqueue("work", id);
    await(id, WEIR_END_COMPLETED, &json);
    assert_non_null(strstr(json, "\"output\":[1,\"two\"]"));
    weir_free(json);
    assert_int_equal(calls, 2);
    assert_int_equal(weir_node_stop(node, 90 * SECOND_US, &graceful, &error), WEIR_OK);
    assert_true(graceful);
    assert_true(weir_node_is_stopped(node));
}

/* The setting executor.handler_threads. All four have started when the view shows them so, and two of them wait for a
 * thread. */
static void no_more_handlers_run_at_once_than_there_are_threads(void **state)
{
    (void)state;
    char ids[4][WEIR_ID_SIZE];
    char *json = NULL;
    open_node_with(2);
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    for (int i = 0; i < 4; i++) {
        enqueue("slow", ids[i]);
    }
    for (int i = 0; i < 4; i++) {
        bool is_started = false;
        for (int turn = 0; turn < 90000 && !is_started; turn++) {
            assert_int_equal(weir_show(weir, ids[i], &json, &error), WEIR_OK);
            is_started = strstr(json, "\"status\":\"DISPATCHED\"") != NULL;
            weir_free(json);
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
        }
        assert_true(is_started);
    }
    await_calls(2);
    may_end = true;
    for (int i = 0; i < 4; i++) {
        await(ids[i], WEIR_END_COMPLETED, NULL);
    }
    assert_int_equal(calls, 4);
    assert_int_equal(running_most, 2);
}

static void step_until_ended(const char *id)
{
    int64_t wait_us = 0;
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(weir_node_step(node, &wait_us, &error), WEIR_OK);
        if (weir_wait(weir, id, 0, NULL, NULL, NULL) == WEIR_OK) {
            return;
        }
        struct pollfd ready = {.fd = weir_node_fd(node), .events = POLLIN};
        assert_true(ready.fd >= 0);
        (void)poll(&ready, 1, wait_us < 0 || wait_us > 50000 ? 50 : (int)(wait_us / 1000) + 1);
    }
    fail_msg("the execution did not end");
}

static void a_node_can_be_stepped_in_the_callers_loop(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    bool graceful = false;
    open_node();
    enqueue("work", id);
    step_until_ended(id);
    assert_int_equal(calls, 2);
    assert_int_equal(weir_node_stop(node, 90 * SECOND_US, &graceful, &error), WEIR_OK);
    assert_true(graceful);
}

static void an_idle_stepped_node_asks_for_rest(void **state)
{
    (void)state;
    int rests = 0;
    open_node();
    for (int i = 0; i < 100; i++) {
        int64_t wait_us = 0;
        assert_int_equal(weir_node_step(node, &wait_us, &error), WEIR_OK);
        rests += wait_us < 0 || wait_us > 10000;
    }
    assert_true(rests >= 25); /* not always: its next heartbeat may be near */
}

/* The stop waits ten seconds for the call after it was cancelled. */
static void the_stop_of_a_stepped_node_reports_a_call_that_goes_on(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    bool graceful = true;
    int64_t wait_us = 0;
    open_node();
    enqueue("later", id);
    while (calls == 0) {
        assert_int_equal(weir_node_step(node, &wait_us, &error), WEIR_OK);
    }
    enum weir_status status = weir_node_stop(node, 0, &graceful, &error);
    weir_done(deferred, NULL); /* weir_node_close() waits for it */
    assert_int_equal(status, WEIR_TIMED_OUT);
    assert_non_null(strstr(error.message, "go on after their cancellation"));
}

static void run_sql(sqlite3 *database, const char *sql)
{
    assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* The node polls once an hour and has run an execution before: only the commit can wake it. */
static void a_commit_in_the_callers_transaction_wakes_the_node(void **state)
{
    (void)state;
    const struct weir_request request = {.workspace = "acme", .workflow = "work", .params = "{\"say\":1}"};
    char path[300];
    char id[WEIR_ID_SIZE];
    sqlite3 *database = NULL;
    open_node();
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    enqueue("work", id);
    await(id, WEIR_END_COMPLETED, NULL);
    (void)snprintf(path, sizeof path, "%s/weir.db", folder.path);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(database, 30000), SQLITE_OK); /* the node writes too */
    run_sql(database, "CREATE TABLE orders (id INTEGER); BEGIN IMMEDIATE; INSERT INTO orders VALUES (1)");
    assert_int_equal(weir_enqueue_sqlite(database, &request, id, &error), WEIR_OK);
    assert_int_equal(weir_wait(weir, id, 0, NULL, NULL, &error), WEIR_EXECUTION_NOT_FOUND);
    run_sql(database, "COMMIT");
    await(id, WEIR_END_COMPLETED, NULL);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
}

static void the_answer_of_a_handler_is_on_record(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    char *json = NULL;
    open_node();
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    enqueue("silent", id);
    await(id, WEIR_END_FAILED, &json);
    assert_non_null(strstr(json, "handler_no_result"));
    weir_free(json);
    enqueue("stubborn", id);
    await(id, WEIR_END_FAILED, &json);
    assert_non_null(strstr(json, "\"error_code\":\"never\""));
    assert_non_null(strstr(json, "no \\\"way\\\""));
    assert_int_equal(calls, 3);
    weir_free(json);
}

static void an_unknown_handler_waits_and_is_visible(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    char *why = NULL;
    static const char unknown[] = "name: unknown\nsteps:\n  a: {handler: nobody_registered_me}\n";
    assert_int_equal(weir_publish_workflow(weir, unknown, 0, NULL, NULL, &error), WEIR_OK);
    open_node();
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    enqueue("unknown", id);
    bool is_seen = false;
    for (int i = 0; i < 9000 && !is_seen; i++) {
        assert_int_equal(weir_why(weir, id, &why, &error), WEIR_OK);
        is_seen = strstr(why, "\"pending_reason\":\"no_worker\"") != NULL && strstr(why, "nobody_registered_me") != NULL;
        weir_free(why);
        (void)nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    }
    assert_true(is_seen);
}

static void a_running_execution_is_cancelled(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    open_node();
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    enqueue("slow", id);
    await_calls(1);
    assert_int_equal(weir_cancel(weir, id, NULL, &error), WEIR_OK);
    await(id, WEIR_END_CANCELLED, NULL);
    assert_int_equal(cancelled_calls, 1);
}

/* Each with an engine of its own, of which each has a keeper. */
static void a_program_may_have_nodes_of_several_groups(void **state)
{
    (void)state;
    static const char *const groups[] = {"left", "right"};
    static const char *const workflows[] = {
        "{name: to-left, executor_group: left, steps: {s: {handler: echo}, t: {exec: ['true']}}}",
        "{name: to-right, executor_group: right, steps: {s: {handler: echo}, t: {exec: ['true']}}}"};
    struct weir_node *nodes[2];
    char ids[2][WEIR_ID_SIZE];
    for (size_t i = 0; i < 2; i++) {
        struct weir_node_options options = {
            .handlers = handlers, .handler_count = 4, .group = groups[i], .allow_exec = true, .name = NULL};
        assert_int_equal(weir_node_open(weir, &options, &nodes[i], &error), WEIR_OK);
        assert_int_equal(weir_publish_workflow(weir, workflows[i], 0, NULL, NULL, &error), WEIR_OK);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(weir_node_start(nodes[i], &error), WEIR_OK);
    }
    enqueue("to-left", ids[0]);
    enqueue("to-right", ids[1]);
    for (size_t i = 0; i < 2; i++) {
        char *json = NULL;
        char name[32];
        (void)snprintf(name, sizeof name, "-%ld-%s\",", (long)getpid(), groups[i]);
        await(ids[i], WEIR_END_COMPLETED, &json);
        assert_non_null(strstr(json, name)); /* the node's */
        weir_free(json);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(weir_node_stop(nodes[i], 90 * SECOND_US, NULL, &error), WEIR_OK);
        weir_node_close(nodes[i]);
    }
}

static void a_paused_node_claims_nothing(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    open_node();
    weir_node_pause(node);
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    enqueue("work", id);
    assert_int_equal(weir_wait(weir, id, SECOND_US / 4, NULL, NULL, &error), WEIR_TIMED_OUT);
    assert_int_equal(calls, 0);
    weir_node_resume(node);
    await(id, WEIR_END_COMPLETED, NULL);
}

static void a_graceful_stop_waits_for_what_runs(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    bool graceful = false;
    open_node();
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    enqueue("slow", id);
    await_calls(1);
    weir_node_begin_stop(node, false);
    assert_false(weir_node_is_stopped(node));
    may_end = true;
    assert_int_equal(weir_node_stop(node, 90 * SECOND_US, &graceful, &error), WEIR_OK);
    assert_true(graceful);
    assert_int_equal(weir_wait(weir, id, 0, NULL, NULL, &error), WEIR_OK);
}

static void a_stop_without_patience_gives_work_back(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    bool graceful = true;
    open_node();
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    enqueue("slow", id);
    await_calls(1);
    assert_int_equal(weir_node_stop(node, 10000, &graceful, &error), WEIR_OK);
    assert_false(graceful);
    weir_node_close(node);
    node = NULL;
    may_end = true;
    open_node(); /* another one takes over, at once */
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    await(id, WEIR_END_COMPLETED, NULL);
    assert_int_equal(calls, 2);
}

static void wrong_handlers_are_refused(void **state)
{
    (void)state;
    const struct weir_handler twice[] = {{"a", silent, NULL}, {"a", silent, NULL}};
    struct weir_node_options options = {.handlers = twice, .handler_count = 2};
    assert_int_equal(weir_node_open(weir, &options, &node, &error), WEIR_INVALID_ARGUMENT);
    assert_null(node);
    assert_int_equal(weir_node_open(NULL, NULL, &node, &error), WEIR_MISUSE);
}

/* A group that was cut to its room would be another one, and the node would take that one's work. */
static void a_name_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    char text[130];
    memset(text, 'g', sizeof text);
    text[129] = '\0';
    const struct weir_node_options wrong[] = {{.name = text},       {.name = ""},  {.name = "\xC3"},
                                              {.group = text + 64}, {.group = ""}, {.group = "a\xFF"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(weir_node_open(weir, &wrong[i], &node, &error), WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, wrong[i].name != NULL ? "name" : "group"));
        assert_null(node);
    }
    const struct weir_node_options longest = {.name = text + 1, .group = text + 65};
    assert_int_equal(weir_node_open(weir, &longest, &node, &error), WEIR_OK);
}

/* --- on Temporal; with a service: end_to_end/temporal_nodes_test --- */

static void a_node_on_temporal_without_its_service_says_so_and_disturbs_no_other(void **state)
{
    (void)state;
    struct weir_temporal service = {.address = "127.0.0.1:1", .task_queue = "q"}; /* nobody listens there */
    struct weir_node_options options = {.group = "outside", .temporal = &service};
    struct weir_node *other = NULL;
    char here[WEIR_ID_SIZE];
    char outside[WEIR_ID_SIZE];
    char *json = NULL;
    open_node();
    assert_int_equal(weir_node_open(weir, &options, &other, &error), WEIR_OK);
    assert_int_equal(
        weir_publish_workflow(weir, "{name: outside, executor_group: outside, temporal: {}}", 0, NULL, NULL, &error),
        WEIR_OK);
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    assert_int_equal(weir_node_start(other, &error), WEIR_OK);
    enqueue("outside", outside);
    enqueue("work", here);
    await(here, WEIR_END_COMPLETED, NULL);
    for (bool told = false; !told;) { /* it is told with a heartbeat; the test's own deadline is the limit */
        (void)nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
        assert_int_equal(weir_why(weir, outside, &json, &error), WEIR_OK);
        told = strstr(json, "engine_unreachable") != NULL && strstr(json, "127.0.0.1:1") != NULL;
        weir_free(json);
    }
    assert_int_equal(weir_node_stop(other, 90 * SECOND_US, NULL, &error), WEIR_OK);
    weir_node_close(other);
}

/* Asks for a minute at most. */
static void await_shown(const char *id, const char *expected)
{
    bool is_shown = false;
    char *json = NULL;
    for (int i = 0; i < 1000 && !is_shown; i++) {
        weir_free(json);
        assert_int_equal(weir_show(weir, id, &json, &error), WEIR_OK);
        is_shown = strstr(json, expected) != NULL;
        (void)nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    }
    if (!is_shown) {
        fail_msg("without %s: %s", expected, json);
    }
    weir_free(json);
}

static void the_progress_of_a_handler_is_shown_while_its_attempt_runs(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    open_node();
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    enqueue("later", id);
    await_calls(1);
    await_shown(id, "\"progress\":[]");
    weir_call_progress(deferred, 0.1, "first");
    weir_call_progress(deferred, 0.25, "250 of \"1000\"");
    await_shown(id, "\"fraction\":0.25,\"text\":\"250 of \\\"1000\\\"\"");
    weir_call_progress(deferred, (double)NAN, NULL);
    await_shown(id, "\"fraction\":null,\"text\":null");
    weir_retry_after(deferred, 1000, "again", NULL);
    await_calls(2);
    await_shown(id, "\"progress\":[]");
    weir_call_progress(deferred, 0.5, NULL);
    await_shown(id, "\"attempt\":2,\"fraction\":0.5");
    weir_done(deferred, NULL);
    await(id, WEIR_END_COMPLETED, NULL);
    await_shown(id, "\"progress\":[]");
}

static void wrong_settings_of_temporal_are_refused(void **state)
{
    (void)state;
    char long_name[300];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const struct weir_temporal wrong[] = {
        {.address = "nowhere"},
        {.namespace_name = long_name},
        {.task_queue = long_name},
        {.task_queue = "\xff"},
        {.encoding = "\xff"},
        {.ca_file = "/nowhere/ca.pem"},
        {.api_key_file = "/nowhere/key"},
        {.certificate_file = "/nowhere/certificate.pem"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct weir_node_options options = {.temporal = &wrong[i]};
        assert_int_equal(weir_node_open(weir, &options, &node, &error), WEIR_INVALID_CONFIG);
        assert_null(node);
        assert_string_not_equal(error.message, "");
    }
    const struct weir_temporal right = {.address = NULL};
    struct weir_node_options options = {.temporal = &right, .handlers = handlers, .handler_count = 4};
    assert_int_equal(weir_node_open(weir, &options, &node, &error), WEIR_INVALID_ARGUMENT);
    options = (struct weir_node_options){.temporal = &right, .allow_exec = true};
    assert_int_equal(weir_node_open(weir, &options, &node, &error), WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.hint, "second node"));
    assert_null(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(handlers_run_on_the_nodes_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_more_handlers_run_at_once_than_there_are_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_can_be_stepped_in_the_callers_loop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_stop_of_a_stepped_node_reports_a_call_that_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_idle_stepped_node_asks_for_rest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_commit_in_the_callers_transaction_wakes_the_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_answer_of_a_handler_is_on_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unknown_handler_waits_and_is_visible, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_running_execution_is_cancelled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_program_may_have_nodes_of_several_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_paused_node_claims_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_graceful_stop_waits_for_what_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stop_without_patience_gives_work_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_handlers_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_that_does_not_fit_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_on_temporal_without_its_service_says_so_and_disturbs_no_other, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_progress_of_a_handler_is_shown_while_its_attempt_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_settings_of_temporal_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
