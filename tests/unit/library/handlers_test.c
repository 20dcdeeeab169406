/* Handlers that come and go while nodes run, and nodes of one group with different handlers, on both stores. The nodes poll
 * once an hour, so each start in a test follows from news. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "support/folder.h"
#include "support/postgres_server.h"
#include "support/test.h"
#include "weir/weir.h"

#define DEADLINE_US (120 * MICROSECONDS_PER_SECOND)

static struct postgres_server server;
static struct folder folder;
static struct weir *weir;
static struct weir_node *first;
static struct weir_node *second;
static struct weir_error error;
static atomic_int early_calls, late_calls;
static struct weir_call *_Atomic open_call;

static void early(struct weir_call *call, void *context)
{
    (void)context;
    early_calls++;
    weir_done(call, "\"early\"");
}

static void late(struct weir_call *call, void *context)
{
    (void)context;
    late_calls++;
    weir_done(call, "\"late\"");
}

/* The test answers it. */
static void kept(struct weir_call *call, void *context)
{
    (void)context;
    weir_call_defer(call);
    atomic_store(&open_call, call);
}

static const struct weir_handler early_handler = {"early", early, NULL};
static const struct weir_handler late_handler = {"late", late, NULL};
static const struct weir_handler kept_handler = {"kept", kept, NULL};

static void expect_ok(enum weir_status status)
{
    if (status != WEIR_OK) {
        fail_msg("%s: %s", weir_status_name(status), error.message);
    }
}

static void publish(const char *name, const char *handlers)
{
    char text[300];
    (void)snprintf(text, sizeof text, "{\"name\": \"%s\", \"steps\": %s}", name, handlers);
    expect_ok(weir_publish_workflow(weir, text, 0, NULL, NULL, &error));
}

static int set_up(void **state)
{
    char url[300];
    early_calls = late_calls = 0;
    atomic_store(&open_call, NULL);
    first = second = NULL;
    assert_int_equal(folder_make(&folder), 0);
    if (*state == &server) {
        (void)postgres_server_ask(&server, "postgres", "DROP DATABASE IF EXISTS handlers WITH (FORCE)");
        (void)postgres_server_ask(&server, "postgres", "CREATE DATABASE handlers");
        postgres_server_url(&server, "handlers", url, sizeof url);
    } else {
        (void)snprintf(url, sizeof url, "%s/weir.db", folder.path);
    }
    expect_ok(weir_migrate(url, NULL, &error));
    expect_ok(weir_open(url, NULL, &weir, &error));
    expect_ok(weir_set_workspace(weir, "acme", "enterprise", 0, &error));
    publish("early", "{\"s\": {\"handler\": \"early\"}}");
    publish("late", "{\"s\": {\"handler\": \"late\"}}");
    publish("kept", "{\"s\": {\"handler\": \"kept\"}}");
    publish("both", "{\"s\": {\"handler\": \"early\"}, \"t\": {\"handler\": \"late\"}}");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_node_close(first);
    weir_node_close(second);
    weir_close(weir);
    folder_remove(&folder);
    return 0;
}

static struct weir_node *start_node(const char *name, const struct weir_handler *handlers, size_t count)
{
    struct weir_node *node = NULL;
    struct weir_node_options options = {.name = name,
                                        .handlers = handlers,
                                        .handler_count = count,
                                        .handler_threads = 2,
                                        .lease_us = DEADLINE_US, /* no busy machine ends it */
                                        .poll_interval_us = 3600 * MICROSECONDS_PER_SECOND};
    expect_ok(weir_node_open(weir, &options, &node, &error));
    expect_ok(weir_node_start(node, &error));
    return node;
}

static void enqueue(const char *workflow, char id[WEIR_ID_SIZE])
{
    struct weir_request request = {.workspace = "acme", .workflow = workflow};
    expect_ok(weir_enqueue(weir, &request, id, &error));
}

/* It ends well, and no node has put it back before. */
static void await_without_deferral(const char *id)
{
    enum weir_end end;
    char *json = NULL;
    expect_ok(weir_wait(weir, id, DEADLINE_US, &end, NULL, &error));
    assert_int_equal(end, WEIR_END_COMPLETED);
    expect_ok(weir_show(weir, id, &json, &error));
    if (strstr(json, "\"deferrals\":0") == NULL && strstr(json, "\"deferrals\": 0") == NULL) {
        fail_msg("%s", json);
    }
    weir_free(json);
}

/* Reads until the answer of why has the text. */
static void await_why(const char *id, const char *text)
{
    int64_t until_us = clock_boot(clock_system()) + DEADLINE_US;
    for (bool is_seen = false; !is_seen;) {
        char *why = NULL;
        expect_ok(weir_why(weir, id, &why, &error));
        is_seen = strstr(why, text) != NULL;
        if (!is_seen && clock_boot(clock_system()) > until_us) {
            fail_msg("no %s in %s", text, why);
        }
        weir_free(why);
    }
}

static struct weir_call *await_call(void)
{
    int64_t until_us = clock_boot(clock_system()) + DEADLINE_US;
    while (atomic_load(&open_call) == NULL) {
        assert_true(clock_boot(clock_system()) < until_us);
    }
    return atomic_exchange(&open_call, NULL);
}

/* --- nodes of one group with different handlers --- */

static void each_execution_starts_on_the_node_that_has_its_handlers(void **state)
{
    enum { ROUNDS = 20 };
    char ids[2 * ROUNDS][WEIR_ID_SIZE];
    (void)state;
    first = start_node("first", &early_handler, 1); /* it schedules */
    second = start_node("second", &late_handler, 1);
    for (size_t i = 0; i < ROUNDS; i++) {
        enqueue("late", ids[2 * i]);
        enqueue("early", ids[2 * i + 1]);
    }
    for (size_t i = 0; i < 2 * ROUNDS; i++) {
        await_without_deferral(ids[i]);
    }
    assert_int_equal(early_calls, ROUNDS);
    assert_int_equal(late_calls, ROUNDS);
}

static void an_execution_that_no_node_can_run_waits_and_delays_no_other(void **state)
{
    char waiting[WEIR_ID_SIZE];
    char id[WEIR_ID_SIZE];
    (void)state;
    expect_ok(weir_set_workspace(weir, "acme", "free", 0, &error)); /* one slot */
    first = start_node("first", &early_handler, 1);
    second = start_node("second", &late_handler, 1);
    enqueue("both", waiting);
    enqueue("late", id);
    await_without_deferral(id);
    await_why(waiting, "no_worker");
    expect_ok(weir_node_register_handler(second, &early_handler, &error));
    await_without_deferral(waiting);
}

/* --- handlers that come and go --- */

static void a_registered_handler_starts_what_waits_for_it(void **state)
{
    char id[WEIR_ID_SIZE];
    (void)state;
    first = start_node("first", NULL, 0);
    enqueue("late", id);
    await_why(id, "no_worker");
    expect_ok(weir_node_register_handler(first, &late_handler, &error));
    await_without_deferral(id);
    assert_int_equal(late_calls, 1);
}

static void an_unregistered_handler_ends_its_calls_and_gets_no_more(void **state)
{
    char running[WEIR_ID_SIZE];
    char waiting[WEIR_ID_SIZE];
    enum weir_end end;
    (void)state;
    first = start_node("first", &kept_handler, 1);
    enqueue("kept", running);
    struct weir_call *call = await_call();
    expect_ok(weir_node_unregister_handler(first, "kept", &error));
    enqueue("kept", waiting);
    await_why(waiting, "no_worker");
    assert_null(atomic_load(&open_call));
    weir_done(call, NULL);
    expect_ok(weir_wait(weir, running, DEADLINE_US, &end, NULL, &error));
    assert_int_equal(end, WEIR_END_COMPLETED);
    expect_ok(weir_node_register_handler(first, &kept_handler, &error));
    weir_done(await_call(), NULL);
    expect_ok(weir_wait(weir, waiting, DEADLINE_US, &end, NULL, &error));
    assert_int_equal(end, WEIR_END_COMPLETED);
}

static void another_function_takes_the_place_of_an_unregistered_one(void **state)
{
    char id[WEIR_ID_SIZE];
    const struct weir_handler other = {"early", late, NULL};
    (void)state;
    first = start_node("first", &early_handler, 1);
    enqueue("early", id);
    await_without_deferral(id); /* the definition is in the node's cache */
    for (int i = 0; i < 3; i++) {
        expect_ok(weir_node_unregister_handler(first, "early", &error));
        expect_ok(weir_node_register_handler(first, i % 2 == 0 ? &other : &early_handler, &error));
    }
    enqueue("early", id);
    enum weir_end end;
    expect_ok(weir_wait(weir, id, DEADLINE_US, &end, NULL, &error));
    assert_int_equal(end, WEIR_END_COMPLETED);
    assert_int_equal(early_calls, 1);
    assert_int_equal(late_calls, 1);
}

static void wrong_registrations_are_refused(void **state)
{
    (void)state;
    first = start_node("first", &early_handler, 1);
    assert_int_equal(weir_node_register_handler(first, &early_handler, &error), WEIR_CONFLICT);
    assert_non_null(strstr(error.message, "\"early\""));
    assert_non_null(strstr(error.hint, "unregister"));
    const struct weir_handler wrong[] = {{NULL, late, NULL}, {"Late Mail", late, NULL}, {"late", NULL, NULL}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(weir_node_register_handler(first, &wrong[i], &error), WEIR_INVALID_ARGUMENT);
    }
    assert_int_equal(weir_node_register_handler(NULL, &late_handler, &error), WEIR_MISUSE);
    assert_int_equal(weir_node_register_handler(first, NULL, &error), WEIR_MISUSE);
    assert_int_equal(weir_node_unregister_handler(first, "late", &error), WEIR_NOT_FOUND);
    assert_non_null(strstr(error.message, "\"late\""));
    assert_int_equal(weir_node_unregister_handler(NULL, "late", &error), WEIR_MISUSE);
    assert_int_equal(weir_node_unregister_handler(first, NULL, &error), WEIR_MISUSE);
    const struct weir_temporal temporal = {.address = "127.0.0.1:1"};
    expect_ok(weir_node_open(weir, &(struct weir_node_options){.name = "second", .temporal = &temporal}, &second, &error));
    assert_int_equal(weir_node_register_handler(second, &late_handler, &error), WEIR_MISUSE);
    assert_int_equal(weir_node_unregister_handler(second, "late", &error), WEIR_MISUSE);
}

#define on_both_stores(name)                                                                                               \
    {#name " on SQLite", name, set_up, tear_down, NULL},                                                                   \
    {                                                                                                                      \
#name " on PostgreSQL", name, set_up, tear_down, &server                                                           \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_both_stores(each_execution_starts_on_the_node_that_has_its_handlers),
        on_both_stores(an_execution_that_no_node_can_run_waits_and_delays_no_other),
        on_both_stores(a_registered_handler_starts_what_waits_for_it),
        on_both_stores(an_unregistered_handler_ends_its_calls_and_gets_no_more),
        on_both_stores(another_function_takes_the_place_of_an_unregistered_one),
        on_both_stores(wrong_registrations_are_refused),
    };
    postgres_server_open(&server, "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n", false);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    postgres_server_close(&server);
    return failed;
}
