/* The end of a node, by hand on a virtual clock: what runs is awaited, what is left is given back, and the node is gone. */
#include "dispatch/node.h"

#include <stdatomic.h>
#include <time.h>

#include "base/error.h"
#include "unit/dispatch/bench.h"

static int64_t number_of_node(struct bench *bench, const char *key)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_NODES};
    assert_int_equal(store_list(bench->store, &options, &page, NULL), WEIR_OK);
    const json_t *value = json_object_get(json_array_get(json_object_get(page, "items"), 0), key);
    int64_t number = json_is_boolean(value) ? json_boolean_value(value) : json_integer_value(value);
    json_decref(page);
    return number;
}

static void a_graceful_stop_awaits_what_runs(void **state)
{
    struct bench *bench = *state;
    char running[UUID_TEXT_MAX];
    char waiting[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.run_us = 10 * SECOND});
    start_node(bench);
    enqueue(bench, "solo", running);
    enqueue(bench, "solo", waiting);
    pass(bench, SECOND);
    node_begin_stop(bench->node, NODE_STOP_GRACEFUL);
    node_begin_stop(bench->node, NODE_STOP_GRACEFUL);
    pass(bench, SECOND / 10);
    assert_string_equal(text_of(bench, waiting, "pending_reason"), "no_node_in_group");
    pass(bench, 5 * SECOND);
    assert_false(node_is_stopped(bench->node));
    pass(bench, 5 * SECOND - SECOND / 10);
    assert_true(node_is_stopped(bench->node));
    assert_string_equal(text_of(bench, running, "status"), "COMPLETED");
    assert_int_equal(runs_begun(bench, waiting), 0);
    assert_int_equal(number_of_node(bench, "graceful"), 1);
}

static void a_cancel_reaches_what_a_stop_awaits(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    struct bulk_result result = {.matched = 0};
    bench->settings.stop_grace_us = 60 * SECOND;
    push(bench, (struct scripted_outcome){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    node_begin_stop(bench->node, NODE_STOP_GRACEFUL);
    pass(bench, SECOND);
    const struct execution_filter one = {.id = id};
    assert_int_equal(store_bulk_one(bench->store, BULK_CANCEL, NULL, &one, &result, NULL), WEIR_OK);
    pass(bench, 3 * SECOND);
    assert_true(node_is_stopped(bench->node));
    assert_string_equal(text_of(bench, id, "status"), "CANCELLED");
    assert_int_equal(number_of_node(bench, "graceful"), 1);
}

static void a_stop_that_waited_long_enough_gives_back_what_runs(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    bench->settings.stop_grace_us = 5 * SECOND;
    push(bench, (struct scripted_outcome){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    node_begin_stop(bench->node, NODE_STOP_GRACEFUL);
    pass(bench, 4 * SECOND);
    assert_false(node_is_stopped(bench->node));
    pass(bench, 20 * SECOND);
    assert_true(node_is_stopped(bench->node));
    assert_int_equal(number_of_node(bench, "graceful"), 0);
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
    assert_string_equal(text_of(bench, id, "pending_reason"), "handed_over");
}

/* --- the store is away --- */

static const struct store_driver *real_driver;
static struct store_driver slow_driver;
static bool store_is_away;
static int stops_told;

static enum weir_status record_when_there(struct store *store, int64_t node, struct record *records, size_t count,
                                          struct record_summary *ret_summary, struct weir_error *error)
{
    return store_is_away ? error_set(error, WEIR_STORE_UNREACHABLE, "it is away")
                         : real_driver->record(store, node, records, count, ret_summary, error);
}

static enum weir_status node_stop_when_there(struct store *store, int64_t node, bool graceful, struct weir_error *error)
{
    stops_told++;
    return store_is_away ? error_set(error, WEIR_STORE_UNREACHABLE, "it is away")
                         : real_driver->node_stop(store, node, graceful, error);
}

static int requests_read;

static enum weir_status count_requests(struct store *store, int64_t node, struct arena *arena,
                                       struct node_request **ret_requests, size_t *ret_count, bool *ret_more,
                                       struct weir_error *error)
{
    requests_read++;
    return real_driver->take_requests(store, node, arena, ret_requests, ret_count, ret_more, error);
}

/* Each call of a store that is away makes the stop longer by a deadline. */
static void a_stop_of_an_idle_node_reads_no_cancels(void **state)
{
    struct bench *bench = *state;
    real_driver = bench->store->driver;
    slow_driver = *real_driver;
    slow_driver.take_requests = count_requests;
    bench->store->driver = &slow_driver;
    start_node(bench);
    pass(bench, SECOND);
    requests_read = 0;
    node_begin_stop(bench->node, NODE_STOP_GRACEFUL);
    pass(bench, SECOND);
    assert_true(node_is_stopped(bench->node));
    assert_int_equal(requests_read, 0);
}

/* A node with one execution that never ends, told to stop, and a second before it interrupts. */
static void stop_without_store(struct bench *bench, char id[UUID_TEXT_MAX])
{
    real_driver = bench->store->driver;
    slow_driver = *real_driver;
    slow_driver.record = record_when_there;
    slow_driver.node_stop = node_stop_when_there;
    bench->store->driver = &slow_driver;
    store_is_away = false;
    stops_told = 0;
    bench->settings.stop_grace_us = 5 * SECOND;
    push(bench, (struct scripted_outcome){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, id, "status"), "DISPATCHED");
    store_is_away = true;
    node_begin_stop(bench->node, NODE_STOP_GRACEFUL);
    pass(bench, 4 * SECOND);
    assert_false(node_is_stopped(bench->node));
}

static void a_stop_without_its_store_ends_soon_and_counts_what_it_leaves(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    stop_without_store(bench, id);
    pass(bench, 5 * SECOND);
    assert_true(node_is_stopped(bench->node));
    assert_int_equal(node_left_behind(bench->node), 1);
    assert_int_equal(stops_told, 0);
    assert_int_equal(bench->counts[EVENT_NODE_STOPPED], 1);
    assert_string_equal(text_of(bench, id, "status"), "DISPATCHED");
}

static void a_stop_whose_store_comes_back_leaves_nothing(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    stop_without_store(bench, id);
    pass(bench, 2 * SECOND); /* it was interrupted, and the store has refused since then */
    assert_false(node_is_stopped(bench->node));
    store_is_away = false;
    pass(bench, 2 * SECOND);
    assert_true(node_is_stopped(bench->node));
    assert_int_equal(node_left_behind(bench->node), 0);
    assert_string_equal(text_of(bench, id, "pending_reason"), "handed_over");
}

/* --- the heartbeat meets the stop --- */

static struct bench *interrupted; /* the bench of the calls below */

/* On record as neither stopped nor taken over. */
static size_t nodes_alive(struct bench *bench)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_NODES};
    size_t alive = 0;
    size_t i;
    const json_t *node;
    assert_int_equal(store_list(bench->store, &options, &page, NULL), WEIR_OK);
    json_array_foreach(json_object_get(page, "items"), i, node)
    {
        alive +=
            !json_is_string(json_object_get(node, "stopped_at")) && !json_is_string(json_object_get(node, "recovered_at"));
    }
    json_decref(page);
    return alive;
}

static enum weir_status node_stop_and_beat(struct store *store, int64_t node, bool graceful, struct weir_error *error)
{
    enum weir_status status = real_driver->node_stop(store, node, graceful, error);
    interrupted->now_us += 11 * SECOND; /* the next heartbeat is due, and finds no lease */
    (void)node_heartbeat_step(interrupted->node);
    (void)node_heartbeat_step(interrupted->node);
    return status;
}

static void a_heartbeat_after_the_stop_registers_nothing(void **state)
{
    struct bench *bench = *state;
    real_driver = bench->store->driver;
    slow_driver = *real_driver;
    slow_driver.node_stop = node_stop_and_beat;
    bench->store->driver = &slow_driver;
    interrupted = bench;
    start_node(bench);
    pass(bench, SECOND);
    assert_int_equal(nodes_alive(bench), 1);
    node_begin_stop(bench->node, NODE_STOP_GRACEFUL);
    pass(bench, SECOND);
    assert_true(node_is_stopped(bench->node));
    assert_int_equal(bench->counts[EVENT_LEASE_LOST], 0);
    assert_int_equal(nodes_alive(bench), 0);
}

static atomic_bool other_thread_is_done;

static void *stop_in_a_thread(void *context)
{
    struct bench *bench = context;
    (void)node_dispatch_step(bench->node);
    atomic_store(&other_thread_is_done, true);
    return NULL;
}

/* The node's lease was lost, and it is about to register again when its stop comes to the end. Without a lock the stop is
 * over at once; with it, it waits for the registration, which is why there is nothing better to wait for than a while. */
static enum weir_status wait_and_register(struct store *store, const struct node_options *options, int64_t *ret_node_id,
                                          struct weir_error *error)
{
    struct bench *bench = interrupted;
    interrupted = NULL;
    if (bench != NULL) {
        assert_int_equal(pthread_create(&bench->thread, NULL, stop_in_a_thread, bench), 0);
        for (int i = 0; i < 300 && !atomic_load(&other_thread_is_done); i++) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
        }
    }
    return real_driver->node_start(store, options, ret_node_id, error);
}

static void a_node_that_stops_while_it_registers_again_leaves_nothing(void **state)
{
    struct bench *bench = *state;
    struct recover_options options = {.limit = RECOVER_BATCH};
    struct recover_result result = {0};
    real_driver = bench->store->driver;
    slow_driver = *real_driver;
    slow_driver.node_start = wait_and_register;
    bench->store->driver = &slow_driver;
    interrupted = NULL;
    start_node(bench);
    pass(bench, SECOND);
    bench->now_us += MINUTE;
    assert_int_equal(store_recover(bench->store, &options, &result, NULL), WEIR_OK);
    assert_int_equal(result.nodes, 1);
    (void)node_heartbeat_step(bench->node);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST], 1);
    node_begin_stop(bench->node, NODE_STOP_GRACEFUL);
    interrupted = bench;
    atomic_store(&other_thread_is_done, false);
    (void)node_heartbeat_step(bench->node);
    assert_int_equal(pthread_join(bench->thread, NULL), 0);
    pass(bench, SECOND);
    assert_true(node_is_stopped(bench->node));
    assert_int_equal(nodes_alive(bench), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)
    const struct CMUnitTest tests[] = {
        TEST(a_graceful_stop_awaits_what_runs),
        TEST(a_cancel_reaches_what_a_stop_awaits),
        TEST(a_stop_of_an_idle_node_reads_no_cancels),
        TEST(a_stop_that_waited_long_enough_gives_back_what_runs),
        TEST(a_stop_without_its_store_ends_soon_and_counts_what_it_leaves),
        TEST(a_stop_whose_store_comes_back_leaves_nothing),
        TEST(a_heartbeat_after_the_stop_registers_nothing),
        TEST(a_node_that_stops_while_it_registers_again_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
