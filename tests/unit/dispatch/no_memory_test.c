/* A node that finds no memory for what it has claimed. */
#include "dispatch/hook_duty.h"
#include "dispatch/in_flight.h"
#include "dispatch/node_internal.h"
#include "unit/dispatch/bench.h"

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_pool_allocate(size_t bytes);
void *__wrap_pool_allocate(size_t bytes);

/* How many of the items that are claimed next find room; -1 = all of them. */
static int room_for = -1;
static int items_left = -1; /* the same from the claim on */
static int left = -1;       /* so many other allocations succeed before the next one fails */

static bool runs_out(int *allocations)
{
    bool is_last = *allocations == 0;
    *allocations -= *allocations >= 0;
    return is_last;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return runs_out(&left) ? NULL : __real_calloc(count, size);
}

/* Of the dispatcher the items in flight alone come from the pool. */
void *__wrap_pool_allocate(size_t bytes)
{
    return runs_out(&items_left) ? NULL : __real_pool_allocate(bytes);
}

/* Somebody else's transaction, which keeps every writer away. */
static sqlite3 *other;

static void hold_store(const struct bench *bench)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/weir.db", bench->folder);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
}

static void let_go_of_store(void)
{
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    other = NULL;
}

static bool holds_then;

static void run_short(void *context, const struct event *event)
{
    if (event->type == EVENT_BATCH_CLAIMED && room_for >= 0) {
        items_left = room_for;
        room_for = -1;
        if (holds_then) {
            hold_store(context);
        }
        holds_then = false;
    }
}

static void start_short_node(struct bench *bench, int room)
{
    assert_true(event_subscribe(&bench->events, run_short, bench));
    bench->store->events = &bench->events; /* the handles of the node's loops are copies */
    bench->store->deadline_us = SECOND / 50;
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    room_for = room;
}

static int64_t slots_used(struct bench *bench)
{
    json_t *status = NULL;
    assert_int_equal(store_status(bench->store, 10, &status, NULL), WEIR_OK);
    int64_t used = json_integer_value(json_object_get(status, "slots_used"));
    json_decref(status);
    return used;
}

static void claims_without_room_in_memory_are_given_back_at_once(void **state)
{
    struct bench *bench = *state;
    char ids[3][UUID_TEXT_MAX];
    start_short_node(bench, 1);
    for (int i = 0; i < 3; i++) {
        push(bench, (struct scripted_outcome){.run_us = MINUTE});
        enqueue(bench, "many", ids[i]);
    }
    int64_t again_us = node_dispatch_step(bench->node);
    assert_string_equal(text_of(bench, ids[0], "status"), "CLAIMED");
    for (int i = 1; i < 3; i++) {
        assert_string_equal(text_of(bench, ids[i], "status"), "PENDING");
        assert_string_equal(text_of(bench, ids[i], "error_code"), "out_of_memory");
    }
    assert_int_equal(slots_used(bench), 1);
    assert_int_equal(bench->counts[EVENT_EXECUTION_DEFERRED], 1);
    assert_int_equal(bench->last[EVENT_EXECUTION_DEFERRED].count, 2);
    /* The next claim is not at once, for there may still be no memory, but soon. */
    assert_true(again_us > bench->now_us && again_us <= bench->now_us + SECOND);
    pass(bench, SECOND);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(runs_begun(bench, ids[i]), 1);
    }
}

static void a_refused_give_back_is_repeated(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_short_node(bench, 0);
    enqueue(bench, "many", id);
    holds_then = true;
    for (int i = 0; i < 3; i++) {
        int64_t again_us = node_dispatch_step(bench->node);
        assert_true(again_us > bench->now_us && again_us <= bench->now_us + SECOND);
        bench->now_us = again_us;
        assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
    }
    assert_int_equal(bench->counts[EVENT_EXECUTION_DEFERRED], 0);
    let_go_of_store();
    (void)node_dispatch_step(bench->node);
    assert_int_equal(bench->counts[EVENT_EXECUTION_DEFERRED], 1);
    pass(bench, SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
}

/* Of what a dead node may have started the slot is not free. */
static void what_may_run_keeps_its_slot(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.run_us = 10 * MINUTE});
    start_node(bench);
    enqueue(bench, "many", id);
    pass(bench, SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
    node_close(bench->node);
    bench->node = NULL;
    engine_close(bench->engine);
    assert_int_equal(scripted_open(bench->world, ROOM, &bench->engine, NULL), WEIR_OK);
    pass(bench, MINUTE);
    start_short_node(bench, 0);
    while (room_for == 0) {
        assert_true(bench->now_us < 4 * MINUTE);
        bench->now_us += SECOND / 10;
        (void)node_step(bench->node);
    }
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
    assert_int_equal(bench->counts[EVENT_EXECUTION_DEFERRED], 1);
    assert_int_equal(slots_used(bench), 1);
    pass(bench, 10 * SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
    assert_string_equal(text_of(bench, id, "status"), "DISPATCHED");
}

/* Items that it could not give back before its lease was over belong to other nodes, and to itself under another id. */
static void an_item_that_could_not_be_given_back_ends_with_the_lease(void **state)
{
    struct bench *bench = *state;
    struct recover_options options = {.limit = 10};
    struct recover_result result;
    char id[UUID_TEXT_MAX];
    start_short_node(bench, 0);
    enqueue(bench, "many", id);
    holds_then = true;
    (void)node_dispatch_step(bench->node);
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
    let_go_of_store();
    int64_t before = node_id(bench->node);
    bench->now_us += MINUTE; /* asleep beyond its lease */
    assert_int_equal(store_recover(bench->store, &options, &result, NULL), WEIR_OK);
    assert_int_equal(result.handed_over, 1);
    pass(bench, 30 * SECOND);
    assert_int_not_equal(node_id(bench->node), before);
    assert_int_equal(bench->counts[EVENT_EXECUTION_DEFERRED], 0);
    assert_int_equal(runs_begun(bench, id), 1);
}

/* Each allocation fails once. */
static void a_node_opens_whole_or_not_at_all(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    int failures = 0;
    for (bool failed = true; failed; failures += failed) {
        left = failures;
        enum weir_status status =
            node_open(bench->store, bench->engine, &bench->events, &bench->settings, &bench->node, NULL);
        failed = left < 0;
        left = -1;
        assert_int_equal(status, failed ? WEIR_OUT_OF_MEMORY : WEIR_OK);
    }
    assert_true(failures > 4);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
}

static size_t executions_of(struct bench *bench, const char *workspace)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.workspace = workspace}};
    assert_int_equal(store_list(bench->store, &options, &page, NULL), WEIR_OK);
    size_t count = json_array_size(json_object_get(page, "items"));
    json_decref(page);
    return count;
}

static void an_event_of_a_hook_waits_for_memory(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    struct hook_request hook = {.name = "next",
                                .on = {ITEM_CANCELLED},
                                .on_count = 1,
                                .workspace = "solo",
                                .start_workspace = "many",
                                .start_workflow = "plain"};
    start_node(bench);
    pass(bench, SECOND);
    assert_int_equal(store_hook_set(bench->store, &hook, NULL, NULL), WEIR_OK);
    enqueue_at(bench, "solo", "plain", START_WALL_US + 10 * MINUTE, id);
    struct execution_filter one = {.id = id};
    struct bulk_result cancelled = {0};
    assert_int_equal(store_bulk(bench->store, BULK_CANCEL, &one, "", 1, &cancelled, NULL), WEIR_OK);
    int failures = 0;
    for (bool failed = true; failed; failures += failed) {
        assert_int_equal(executions_of(bench, "many"), 0);
        bench->node->maintenance.next_hooks_us = 0;
        bench->node->maintenance.hook_events_wait = true;
        left = failures;
        enum weir_status status = hook_duty_step(bench->node, bench->now_us, NULL);
        failed = left < 0;
        left = -1;
        assert_int_equal(status, failed ? WEIR_OUT_OF_MEMORY : WEIR_OK);
    }
    assert_true(failures >= 5);
    assert_int_equal(executions_of(bench, "many"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(claims_without_room_in_memory_are_given_back_at_once),
        TEST(a_refused_give_back_is_repeated),
        TEST(what_may_run_keeps_its_slot),
        TEST(an_item_that_could_not_be_given_back_ends_with_the_lease),
        TEST(a_node_opens_whole_or_not_at_all),
        TEST(an_event_of_a_hook_waits_for_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
