/* The heartbeat of a node goes on beside all other work of the node: a lease must not end because there is much to do. */
#include "dispatch/heartbeat.h"

#include <time.h>

#include "base/error.h"
#include "unit/dispatch/bench.h"

enum { LEASE_SECONDS = 6, BEATS_PER_LEASE = 3, JOIN_SECONDS = 60 };

static const struct store_driver *real_driver;
static struct store_driver watched_driver;
static struct bench *interrupted;         /* the bench of the next recovery */
static const struct store *beating_store; /* the handle of the last heartbeat */
static int beats;
static bool was_impaired;    /* by a heartbeat since watch() */
static struct bench *slowed; /* each record of handlers takes as long as a call may */
static int offers;

static enum weir_status count_beat(struct store *store, int64_t node, struct node_beat *beat, struct weir_error *error)
{
    beating_store = store;
    beats++;
    was_impaired = was_impaired || beat->engine_impaired;
    return real_driver->node_beat(store, node, beat, error);
}

static void watch(struct bench *bench)
{
    real_driver = bench->store->driver;
    watched_driver = *real_driver;
    watched_driver.node_beat = count_beat;
    bench->store->driver = &watched_driver;
    bench->settings.lease_us = LEASE_SECONDS * SECOND;
    interrupted = NULL;
    beats = 0;
    was_impaired = false;
}

static void a_heartbeat_reports_an_impaired_engine_and_no_sound_one(void **state)
{
    struct bench *bench = *state;
    watch(bench);
    start_node(bench);
    pass(bench, LEASE_SECONDS * SECOND);
    assert_true(beats > 0);
    assert_false(was_impaired);
    struct report *report = report_new(REPORT_ENGINE_IMPAIRED, "", 0);
    assert_non_null(report);
    text_copy(report->error_code, sizeof report->error_code, "list_failed");
    engine_report(bench->engine, report);
    pass(bench, LEASE_SECONDS * SECOND);
    assert_true(was_impaired);
}

static bool rounds_fail;

static enum weir_status fail_rounds(struct store *store, struct schedule_call *call, struct arena *arena,
                                    struct schedule_answer *ret_answer, struct weir_error *error)
{
    return rounds_fail ? error_set(error, WEIR_STORE_BUSY, "the queue refuses each change")
                       : real_driver->schedule(store, call, arena, ret_answer, error);
}

/* A short incident is no reason, a lasting one is, and it ends with the first round that succeeds. */
static void rounds_that_fail_are_the_reason_why_nothing_starts(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    watch(bench);
    watched_driver.schedule = fail_rounds;
    rounds_fail = false;
    start_node(bench);
    pass(bench, SECOND);
    rounds_fail = true;
    enqueue(bench, "solo", id);
    node_wake(bench->node);
    pass(bench, 2 * SECOND - SECOND / 2);
    assert_string_equal(text_of(bench, id, "pending_reason"), "ready");
    pass(bench, 3 * SECOND);
    assert_string_equal(text_of(bench, id, "pending_reason"), "no_scheduler");
    assert_string_equal(text_of(bench, id, "scheduler_why"), "its rounds fail");
    assert_string_equal(text_of(bench, id, "scheduler_error"), "the queue refuses each change (store_busy)");
    rounds_fail = false;
    pass(bench, 2 * SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
    json_t *status = NULL;
    assert_int_equal(store_status(bench->store, 1, &status, NULL), WEIR_OK);
    assert_true(json_is_null(json_object_get(json_object_get(status, "scheduler"), "failing_since")));
    json_decref(status);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST], 0);
}

static void heartbeats_go_on_with_a_full_engine(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    watch(bench);
    start_node(bench);
    for (int i = 0; i < 3 * ROOM; i++) {
        push(bench, (struct scripted_outcome){.run_us = 60 * MINUTE});
        enqueue(bench, "many", id);
    }
    pass(bench, SECOND);
    assert_int_equal(scripted_world_open_runs(bench->world, NULL), ROOM);
    beats = 0;
    pass(bench, 10 * LEASE_SECONDS * SECOND);
    assert_int_equal(scripted_world_open_runs(bench->world, NULL), ROOM);
    assert_true(beats >= 10 * BEATS_PER_LEASE - 1);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST] + bench->counts[EVENT_NODE_DEAD], 0);
}

/* --- handlers --- */

static enum weir_status refuse_handlers(struct store *store, int64_t node, const struct node_handlers *handlers, bool *more,
                                        struct weir_error *error)
{
    (void)store;
    (void)node;
    (void)handlers;
    (void)more;
    offers++;
    return error_set(error, WEIR_STORE_BUSY, "the handlers cannot be recorded");
}

/* There are always more items to wake. */
static enum weir_status record_handlers_slowly(struct store *store, int64_t node, const struct node_handlers *handlers,
                                               bool *more, struct weir_error *error)
{
    enum weir_status status = real_driver->node_handlers(store, node, handlers, more, error);
    offers++;
    slowed->now_us += 4 * SECOND;
    *more = true;
    return status;
}

static void offer_handlers_by(struct bench *bench,
                              enum weir_status (*function)(struct store *, int64_t, const struct node_handlers *, bool *,
                                                           struct weir_error *))
{
    watch(bench);
    watched_driver.node_handlers = function;
    bench->settings.handlers = "[\"send\"]";
    slowed = bench;
    offers = 0;
    start_node(bench);
}

static void heartbeats_go_on_while_handlers_cannot_be_recorded(void **state)
{
    struct bench *bench = *state;
    offer_handlers_by(bench, refuse_handlers);
    pass(bench, 10 * LEASE_SECONDS * SECOND);
    assert_true(offers > 1);
    assert_true(beats >= 10 * BEATS_PER_LEASE - 1);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST] + bench->counts[EVENT_NODE_DEAD], 0);
    watched_driver.node_handlers = real_driver->node_handlers;
    pass(bench, LEASE_SECONDS * SECOND);
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_NODES, .name = "node"};
    assert_int_equal(store_list(bench->store, &options, &page, NULL), WEIR_OK);
    const json_t *node = json_array_get(json_object_get(page, "items"), 0);
    assert_int_equal(json_array_size(json_object_get(node, "handlers")), 1);
    json_decref(page);
}

static void a_heartbeat_comes_between_two_slow_records_of_handlers(void **state)
{
    struct bench *bench = *state;
    offer_handlers_by(bench, record_handlers_slowly);
    pass(bench, 10 * LEASE_SECONDS * SECOND);
    assert_true(offers > 4);
    assert_true(beats >= offers - 1);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST] + bench->counts[EVENT_NODE_DEAD], 0);
}

static enum weir_status count_offer(struct store *store, int64_t node, const struct node_handlers *handlers, bool *more,
                                    struct weir_error *error)
{
    offers++;
    return real_driver->node_handlers(store, node, handlers, more, error);
}

/* The items would only go to the nodes that lack the handler. */
static void a_paused_node_makes_no_items_due(void **state)
{
    struct bench *bench = *state;
    offer_handlers_by(bench, count_offer);
    assert_int_equal(offers, 1);
    pass(bench, 2 * OFFER_AGAIN_US + SECOND);
    assert_int_equal(offers, 3);
    node_pause(bench->node);
    pass(bench, 10 * OFFER_AGAIN_US);
    assert_int_equal(offers, 3);
    node_resume(bench->node);
    pass(bench, LEASE_SECONDS * SECOND);
    assert_int_equal(offers, 4);
    assert_int_equal(store_set_desired_state(bench->store, "node", NODE_PAUSE, NULL), WEIR_OK);
    pass(bench, 10 * OFFER_AGAIN_US);
    assert_int_equal(offers, 4);
    assert_int_equal(store_set_desired_state(bench->store, "node", NODE_RUN, NULL), WEIR_OK);
    pass(bench, LEASE_SECONDS * SECOND);
    assert_int_equal(offers, 5);
}

static void *beat_in_a_thread(void *context)
{
    struct bench *bench = context;
    (void)node_heartbeat_step(bench->node);
    return NULL;
}

/* The recovery stands still here until a heartbeat has come and gone: were they one loop, one handle or under one lock, it
 * could not come. */
static enum weir_status recover_during_a_heartbeat(struct store *store, const struct recover_options *options,
                                                   struct recover_result *ret_result, struct weir_error *error)
{
    struct bench *bench = interrupted;
    if (bench != NULL && !options->look_only) {
        struct timespec until;
        pthread_t thread;
        int before = beats;
        interrupted = NULL;
        assert_ptr_not_equal(store, beating_store);
        bench->now_us += LEASE_SECONDS * SECOND / BEATS_PER_LEASE;
        assert_int_equal(pthread_create(&thread, NULL, beat_in_a_thread, bench), 0);
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += JOIN_SECONDS;
        assert_int_equal(pthread_timedjoin_np(thread, NULL, &until), 0);
        assert_int_equal(beats, before + 1);
    }
    return real_driver->recover(store, options, ret_result, error);
}

static void a_heartbeat_does_not_wait_for_a_recovery(void **state)
{
    struct bench *bench = *state;
    watch(bench);
    watched_driver.recover = recover_during_a_heartbeat;
    start_node(bench);
    pass(bench, LEASE_SECONDS * SECOND);
    assert_true(beats > 0);
    interrupted = bench;
    pass(bench, MINUTE);
    assert_null(interrupted); /* there was one */
    assert_int_equal(bench->counts[EVENT_LEASE_LOST] + bench->counts[EVENT_NODE_DEAD], 0);
}

static int recoveries;

static enum weir_status find_all_held(struct store *store, const struct recover_options *options,
                                      struct recover_result *ret_result, struct weir_error *error)
{
    (void)store;
    (void)error;
    recoveries += !options->look_only;
    *ret_result = (struct recover_result){.more = true};
    return WEIR_OK;
}

/* On PostgreSQL a caller's transaction may hold an execution of a dead node for long. */
static void a_recovery_that_cannot_go_on_is_not_repeated_at_once(void **state)
{
    struct bench *bench = *state;
    watch(bench);
    watched_driver.recover = find_all_held;
    start_node(bench);
    pass(bench, SECOND);
    recoveries = 0;
    pass(bench, SECOND);
    assert_in_range(recoveries, 2, 25);
}

static size_t taken_for_dead;

static enum weir_status count_dead(struct store *store, const struct recover_options *options,
                                   struct recover_result *ret_result, struct weir_error *error)
{
    enum weir_status status = real_driver->recover(store, options, ret_result, error);
    taken_for_dead += status == WEIR_OK ? ret_result->nodes : 0;
    return status;
}

static bool round_fails;

static enum weir_status fail_a_round(struct store *store, struct schedule_call *call, struct arena *arena,
                                     struct schedule_answer *ret_answer, struct weir_error *error)
{
    if (round_fails) {
        round_fails = false;
        return error_set(error, WEIR_STORE_UNREACHABLE, "the connection was lost");
    }
    return real_driver->schedule(store, call, arena, ret_answer, error);
}

/* The server may have been restored: it assigns nothing before it has heard of all nodes. */
static void a_lost_connection_is_followed_by_a_heartbeat(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    watch(bench);
    watched_driver.schedule = fail_a_round;
    start_node(bench);
    pass(bench, SECOND);
    for (beats = 0; beats == 0;) {
        pass(bench, SECOND / 10);
    }
    beats = 0;
    round_fails = true;
    enqueue(bench, "many", id);
    pass(bench, SECOND / 2);
    assert_false(round_fails);
    assert_true(beats > 0);
}

/* No node reached the store: the first one that reaches it again does not know yet which nodes live. */
static void a_node_that_was_cut_off_declares_no_other_dead_within_a_lease(void **state)
{
    struct bench *bench = *state;
    struct node_options options = {.name = "other",
                                   .group = "default",
                                   .host = "host",
                                   .boot_id = "other",
                                   .pid = 1,
                                   .version = "test",
                                   .engine = "none",
                                   .lease_us = LEASE_SECONDS * SECOND};
    struct node_beat beat = {.engine_reachable = true};
    int64_t other = 0;
    watch(bench);
    watched_driver.recover = count_dead;
    taken_for_dead = 0;
    start_node(bench);
    pass(bench, SECOND);
    assert_int_equal(store_node_start(bench->store, &options, &other, NULL), WEIR_OK);
    bench->now_us += 2 * LEASE_SECONDS * SECOND;
    pass(bench, LEASE_SECONDS * SECOND / 2);
    assert_int_equal(taken_for_dead, 0);
    assert_int_equal(store_node_beat(bench->store, other, &beat, NULL), WEIR_OK);
    pass(bench, LEASE_SECONDS * SECOND - SECOND);
    assert_int_equal(taken_for_dead, 0);
    pass(bench, LEASE_SECONDS * SECOND); /* and now it is silent, alone */
    assert_int_equal(taken_for_dead, 1);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST], 0);
}

static struct bench *leaving; /* the bench that loses its engine during the next heartbeat */
static int64_t went_us;
static int64_t told_us;

/* The facts of this heartbeat were read before, and its answer is still on its way. */
static enum weir_status beat_while_the_engine_goes(struct store *store, int64_t node, struct node_beat *beat,
                                                   struct weir_error *error)
{
    enum weir_status status = count_beat(store, node, beat, error);
    struct bench *bench = leaving;
    if (bench != NULL && beat->engine_reachable) {
        struct report *report = report_new(REPORT_ENGINE_DOWN, "", 0);
        assert_non_null(report);
        leaving = NULL;
        went_us = bench->now_us;
        engine_report(bench->engine, report);
        (void)node_record_step(bench->node);
        assert_int_equal(bench->counts[EVENT_ENGINE_DOWN], 1);
    } else if (!beat->engine_reachable && told_us == 0) {
        told_us = clock_boot(&interrupted->clock);
    }
    return status;
}

static void a_change_during_a_heartbeat_is_reported_by_the_next_at_once(void **state)
{
    struct bench *bench = *state;
    watch(bench);
    watched_driver.node_beat = beat_while_the_engine_goes;
    start_node(bench);
    pass(bench, SECOND);
    leaving = interrupted = bench;
    told_us = 0;
    pass(bench, LEASE_SECONDS * SECOND);
    assert_null(leaving);
    assert_in_range(told_us - went_us, 0, SECOND / 100);
}

static int64_t told_away; /* the node that last reported its engine as unreachable */

static enum weir_status note_away(struct store *store, int64_t node, struct node_beat *beat, struct weir_error *error)
{
    told_away = beat->engine_reachable ? told_away : node;
    return count_beat(store, node, beat, error);
}

/* Its new row shows the engine as reachable, until a heartbeat reports otherwise. */
static void a_node_that_registers_again_without_its_engine_reports_it_at_once(void **state)
{
    struct bench *bench = *state;
    struct recover_options options = {.limit = 10};
    struct recover_result result;
    watch(bench);
    watched_driver.node_beat = note_away;
    start_node(bench);
    engine_report(bench->engine, report_new(REPORT_ENGINE_DOWN, "", 0));
    pass(bench, SECOND);
    int64_t before = node_id(bench->node);
    assert_int_equal(told_away, before);
    bench->now_us += 2 * LEASE_SECONDS * SECOND;
    assert_int_equal(store_recover(bench->store, &options, &result, NULL), WEIR_OK);
    assert_int_equal(result.nodes, 1);
    pass(bench, SECOND / 10);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST], 1);
    assert_true(node_id(bench->node) > before);
    assert_int_equal(told_away, node_id(bench->node));
}

/* --- the target --- */

static const char *service; /* that the engine reaches; NULL: it does not know yet */

static bool tell_service(struct engine *engine, struct engine_target *ret_target)
{
    (void)engine;
    if (service == NULL) {
        return false;
    }
    *ret_target = (struct engine_target){.engine = "scripted", .namespace_name = "default", .address = "here"};
    text_copy(ret_target->service, sizeof ret_target->service, service);
    return true;
}

static void reach(struct bench *bench, const char *name)
{
    static struct engine_operations operations;
    if (bench->engine->operations != &operations) {
        operations = *bench->engine->operations;
        operations.target = tell_service;
        bench->engine->operations = &operations;
    }
    service = name;
}

static json_t *why_of(struct bench *bench, const char *id)
{
    json_t *why = NULL;
    assert_int_equal(store_why(bench->store, id, &why, NULL), WEIR_OK);
    return why;
}

static void a_node_gets_nothing_before_its_engine_knows_which_service_it_reaches(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    watch(bench);
    reach(bench, NULL);
    start_node(bench);
    push(bench, (struct scripted_outcome){.run_us = MINUTE});
    enqueue(bench, "many", id);
    pass(bench, 10 * SECOND);
    assert_null(scripted_world_entry(bench->world, id));
    json_t *why = why_of(bench, id);
    assert_string_equal(json_string_value(json_object_get(why, "status")), "PENDING");
    json_decref(why);
    reach(bench, "one");
    engine_report(bench->engine, report_new(REPORT_ENGINE_UP, "", 0));
    pass(bench, SECOND);
    assert_int_equal(scripted_world_open_runs(bench->world, NULL), 1);
    why = why_of(bench, id);
    assert_string_equal(json_string_value(json_object_get(why, "target")), "scripted, namespace default (one) at here");
    json_decref(why);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST], 0);
}

static void a_node_whose_engine_reaches_another_service_gives_up_what_it_holds(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    watch(bench);
    reach(bench, "one");
    start_node(bench);
    push(bench, (struct scripted_outcome){.run_us = 60 * MINUTE});
    enqueue(bench, "many", id);
    pass(bench, SECOND);
    int64_t before = node_id(bench->node);
    assert_int_equal(scripted_world_entry(bench->world, id)->starts_requested, 1);
    reach(bench, "two");
    engine_report(bench->engine, report_new(REPORT_ENGINE_UP, "", 0));
    pass(bench, MINUTE);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST], 1);
    assert_true(node_id(bench->node) > before);
    assert_int_equal(scripted_world_entry(bench->world, id)->starts_requested, 1); /* nobody else may ask for it */
    json_t *why = why_of(bench, id);
    assert_string_equal(json_string_value(json_object_get(why, "pending_reason")), "no_node_for_engine");
    json_decref(why);
    reach(bench, "one");
    engine_report(bench->engine, report_new(REPORT_ENGINE_UP, "", 0));
    pass(bench, MINUTE);
    assert_int_equal(scripted_world_entry(bench->world, id)->starts_requested, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_heartbeat_reports_an_impaired_engine_and_no_sound_one),
        TEST(rounds_that_fail_are_the_reason_why_nothing_starts),
        TEST(heartbeats_go_on_with_a_full_engine),
        TEST(heartbeats_go_on_while_handlers_cannot_be_recorded),
        TEST(a_heartbeat_comes_between_two_slow_records_of_handlers),
        TEST(a_paused_node_makes_no_items_due),
        TEST(a_heartbeat_does_not_wait_for_a_recovery),
        TEST(a_recovery_that_cannot_go_on_is_not_repeated_at_once),
        TEST(a_lost_connection_is_followed_by_a_heartbeat),
        TEST(a_node_that_was_cut_off_declares_no_other_dead_within_a_lease),
        TEST(a_change_during_a_heartbeat_is_reported_by_the_next_at_once),
        TEST(a_node_that_registers_again_without_its_engine_reports_it_at_once),
        TEST(a_node_gets_nothing_before_its_engine_knows_which_service_it_reaches),
        TEST(a_node_whose_engine_reaches_another_service_gives_up_what_it_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
