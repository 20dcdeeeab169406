/* One node, stepped by hand on a virtual clock, over a real SQLite store and the scripted engine. The simulation does this
 * with whole fleets and at random; here each promise of the node has a test of its own. */
#include "dispatch/node.h"

#include <stdatomic.h>
#include <time.h>

#include "base/error.h"
#include "unit/dispatch/bench.h"

/* --- starting --- */

static void a_freed_slot_starts_the_next_item_without_a_poll(void **state)
{
    struct bench *bench = *state;
    char first[UUID_TEXT_MAX];
    char second[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.run_us = 5 * SECOND});
    start_node(bench);
    enqueue(bench, "solo", first);
    enqueue(bench, "solo", second);
    pass(bench, SECOND);
    assert_int_equal(runs_begun(bench, first), 1);
    assert_int_equal(runs_begun(bench, second), 0);
    assert_string_equal(text_of(bench, second, "pending_reason"), "workspace_at_capacity");
    pass(bench, 4 * SECOND + SECOND / 20);
    assert_string_equal(text_of(bench, first, "status"), "COMPLETED");
    assert_int_equal(runs_begun(bench, second), 1);
}

static void a_claim_never_exceeds_the_engines_room(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    for (int i = 0; i < 10; i++) {
        push(bench, (struct scripted_outcome){.run_us = (i + 1) * SECOND});
        enqueue(bench, "many", id);
    }
    for (int i = 0; i < 200; i++) {
        pass(bench, SECOND / 10);
        assert_true(scripted_world_open_runs(bench->world, NULL) <= ROOM);
        json_t *status = NULL;
        assert_int_equal(store_status(bench->store, 10, &status, NULL), WEIR_OK);
        assert_true(json_integer_value(json_object_get(status, "slots_used")) <= ROOM);
        json_decref(status);
    }
    assert_int_equal(bench->counts[EVENT_EXECUTION_COMPLETED], 10);
}

static void a_future_item_starts_at_its_time_without_a_poll(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    enqueue_at(bench, "solo", "plain", bench_wall(bench) + 10 * SECOND, id);
    node_wake(bench->node);
    pass(bench, 10 * SECOND - SECOND / 20);
    assert_int_equal(runs_begun(bench, id), 0);
    assert_string_equal(text_of(bench, id, "pending_reason"), "scheduled");
    pass(bench, SECOND / 10);
    assert_int_equal(runs_begun(bench, id), 1);
}

static void an_exclusive_node_waits_for_its_lock(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    struct lock_request riven = {.name = "processExecutionQueue", .holder = "riven", .at_most_us = MINUTE};
    bench->settings.exclusive = true;
    assert_int_equal(store_lock(bench->store, &riven, NULL), WEIR_OK);
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, 30 * SECOND);
    assert_int_equal(runs_begun(bench, id), 0);
    assert_string_equal(text_of(bench, id, "pending_reason"), "no_scheduler");
    pass(bench, 35 * SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
    assert_int_equal(store_lock(bench->store, &riven, NULL), WEIR_CONFLICT);
}

/* --- answers --- */

static void an_unanswered_start_is_sent_again_and_runs_once(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.answer = SCRIPTED_LOSE_ANSWER, .run_us = 10 * MINUTE});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, MINUTE);
    const struct scripted_entry *entry = scripted_world_entry(bench->world, id);
    assert_non_null(entry);
    assert_true(entry->starts_requested >= 2);
    assert_int_equal(entry->runs_begun, 1);
    assert_string_equal(text_of(bench, id, "status"), "DISPATCHED");
    assert_true(bench->counts[EVENT_START_UNKNOWN] >= 1);
}

static void a_refused_start_is_tried_exactly_three_times(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    for (int i = 0; i < 6; i++) {
        push(bench, (struct scripted_outcome){.answer = SCRIPTED_REFUSE});
    }
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, 10 * MINUTE);
    assert_int_equal(scripted_world_entry(bench->world, id)->starts_requested, STARTS_MAX_DEFAULT);
    assert_string_equal(text_of(bench, id, "status"), "FAILED");
    assert_int_equal(bench->counts[EVENT_EXECUTION_RETRYING], STARTS_MAX_DEFAULT - 1);
    assert_int_equal(bench->counts[EVENT_DISPATCH_FAILED], 1);
}

/* The setting starts.max, for a definition without `attempts`. */
static void a_refused_start_is_tried_as_often_as_the_setting_allows(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    for (int i = 0; i < 8; i++) {
        push(bench, (struct scripted_outcome){.answer = SCRIPTED_REFUSE});
    }
    bench->settings.starts_max = 5;
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, 60 * MINUTE);
    assert_int_equal(scripted_world_entry(bench->world, id)->starts_requested, 5);
    assert_string_equal(text_of(bench, id, "status"), "FAILED");
}

static void a_permanent_refusal_fails_at_once(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.answer = SCRIPTED_REFUSE_FOR_GOOD});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    assert_int_equal(scripted_world_entry(bench->world, id)->starts_requested, 1);
    assert_string_equal(text_of(bench, id, "status"), "FAILED");
}

static void an_engine_that_is_away_for_long_fails_nothing(void **state)
{
    struct bench *bench = *state;
    char ids[5][UUID_TEXT_MAX];
    scripted_world_cut(bench->world, bench->now_us + 30 * MINUTE);
    start_node(bench);
    for (int i = 0; i < 5; i++) {
        enqueue(bench, "many", ids[i]);
    }
    pass(bench, 10 * MINUTE);
    assert_int_equal(bench->counts[EVENT_ENGINE_DOWN], 1);
    assert_string_equal(text_of(bench, ids[4], "pending_reason"), "engine_unreachable");
    pass(bench, 20 * MINUTE + 6 * SECOND);
    assert_int_equal(bench->counts[EVENT_ENGINE_UP], 1);
    assert_int_equal(bench->counts[EVENT_EXECUTION_COMPLETED], 5);
    assert_int_equal(bench->counts[EVENT_DISPATCH_FAILED] + bench->counts[EVENT_EXECUTION_RETRYING], 0);
}

static void say(struct bench *bench, enum report_kind kind)
{
    struct report *report = report_new(kind, "", 0);
    assert_non_null(report);
    report->error = strdup("127.0.0.1:7233 refuses connections");
    engine_report(bench->engine, report);
}

static void an_engine_that_reports_an_outage_gets_no_start_until_its_end(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    pass(bench, SECOND);
    say(bench, REPORT_ENGINE_DOWN); /* there is nothing to start */
    pass(bench, SECOND);
    assert_int_equal(bench->counts[EVENT_ENGINE_DOWN], 1);
    enqueue(bench, "solo", id);
    say(bench, REPORT_ENGINE_DOWN);
    pass(bench, 2 * SECOND);
    assert_string_equal(text_of(bench, id, "pending_reason"), "engine_unreachable");
    assert_null(scripted_world_entry(bench->world, id)); /* never sent */
    say(bench, REPORT_ENGINE_UP);
    pass(bench, 2 * SECOND);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
    assert_int_equal(bench->counts[EVENT_ENGINE_DOWN], 1);
    assert_int_equal(bench->counts[EVENT_ENGINE_UP], 1);
}

/* It is promoted by a claim, and there is none while the engine is full: that must be waited for, not asked for. */
static void a_due_item_that_finds_no_room_makes_no_busy_loop(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    for (int i = 0; i < ROOM; i++) {
        push(bench, (struct scripted_outcome){.run_us = 2 * MINUTE});
        enqueue(bench, "many", id);
    }
    enqueue_at(bench, "many", "plain", START_WALL_US + bench->now_us + 5 * SECOND, id);
    pass(bench, 10 * SECOND);
    bench->steps = 0;
    pass(bench, MINUTE);
    assert_string_equal(text_of(bench, id, "status"), "PENDING");
    assert_true(bench->steps < 1000);
    pass(bench, MINUTE);
    assert_int_equal(runs_begun(bench, id), 1);
}

static void a_cancel_reaches_the_engine(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    struct bulk_result result;
    push(bench, (struct scripted_outcome){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    struct execution_filter filter = {.id = id};
    assert_int_equal(store_bulk(bench->store, BULK_CANCEL, &filter, "", 10, &result, NULL), WEIR_OK);
    node_wake(bench->node);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, id, "status"), "CANCELLED");
    assert_int_equal(scripted_world_open_runs(bench->world, NULL), 0);
}

/* --- watching --- */

/* The node's own setting counts for what runs inside of it. */
static void run_inside(struct bench *bench)
{
    static struct engine_operations inside;
    inside = *bench->engine->operations;
    inside.features |= ENGINE_DIES_WITH_NODE;
    bench->engine->operations = &inside;
}

static void a_stuck_execution_is_named_once_a_period(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    char patient[UUID_TEXT_MAX];
    run_inside(bench);
    push(bench, (struct scripted_outcome){.never_ends = true});
    push(bench, (struct scripted_outcome){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    enqueue_at(bench, "many", "patient", 0, patient);
    pass(bench, 59 * SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 0);
    assert_string_equal(text_of(bench, id, "stuck_since"), "");
    pass(bench, 3 * SECOND);
    assert_string_not_equal(text_of(bench, id, "stuck_since"), "");
    assert_string_equal(text_of(bench, patient, "stuck_since"), "");
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 1);
    assert_int_equal(bench->last[EVENT_EXECUTION_STUCK].count, 1);
    assert_int_equal(bench->last[EVENT_EXECUTION_STUCK].of, 2);
    assert_true(bench->last[EVENT_EXECUTION_STUCK].age_us >= 60 * SECOND);
    pass(bench, 30 * SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 1);
    pass(bench, 31 * SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 2);
    /* The definition of the other one has ten minutes. */
    pass(bench, 9 * MINUTE);
    assert_int_equal(bench->last[EVENT_EXECUTION_STUCK].count, 2);
}

/* Reports that the first step sleeps, or with a code that it waits for its next attempt. */
static void report_wait(struct bench *bench, const char *id, int64_t due_in_us, const char *code)
{
    struct report *report = report_new(REPORT_STEP, id, scripted_world_entry(bench->world, id)->fence_begun);
    assert_non_null(report);
    report->has_step = true;
    text_copy(report->step.step, sizeof report->step.step, "one");
    report->step.state = STEP_WAITING;
    report->step.attempt = 1;
    report->step.due_in_us = due_in_us;
    report->sleeps_us = code[0] == '\0' ? due_in_us : 0;
    text_copy(report->step.error_code, sizeof report->step.error_code, code);
    engine_report(bench->engine, report);
}

static void a_sleep_does_not_count_as_stuck_and_a_retry_does(void **state)
{
    struct bench *bench = *state;
    char sleeper[UUID_TEXT_MAX];
    char retries[UUID_TEXT_MAX];
    run_inside(bench);
    push(bench, (struct scripted_outcome){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", sleeper);
    pass(bench, SECOND);
    report_wait(bench, sleeper, 10 * MINUTE, "");
    pass(bench, 10 * MINUTE + 50 * SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 0);
    pass(bench, 15 * SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 1);
    assert_string_not_equal(text_of(bench, sleeper, "stuck_since"), "");
    report_wait(bench, sleeper, MINUTE, ""); /* it goes on, to its next sleep */
    pass(bench, 2 * SECOND);
    assert_string_equal(text_of(bench, sleeper, "stuck_since"), "");
    pass(bench, 2 * MINUTE);
    assert_string_not_equal(text_of(bench, sleeper, "stuck_since"), "");
    push(bench, (struct scripted_outcome){.never_ends = true});
    enqueue(bench, "many", retries);
    pass(bench, SECOND);
    report_wait(bench, retries, 10 * MINUTE, "exit_1");
    pass(bench, 62 * SECOND);
    assert_int_equal(bench->last[EVENT_EXECUTION_STUCK].count, 2);
}

/* All of it waits. It has left the engine. */
static void park(struct bench *bench, const char *id, int64_t fence, int64_t delay_us)
{
    report_wait(bench, id, delay_us, "");
    struct report *report = report_new(REPORT_PARKED, id, fence);
    assert_non_null(report);
    report->delay_us = delay_us;
    report->waiting_for = WAIT_SLEEP;
    engine_report(bench->engine, report);
    engine_abandon(bench->engine, id, fence);
}

/* The cancel was requested before the park was recorded: it ends the execution, and that is no park for a subscriber. */
static void a_cancel_in_the_place_of_a_park_is_an_end(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    struct bulk_result result;
    run_inside(bench);
    push(bench, (struct scripted_outcome){.never_ends = true, .cancel_us = TIME_NEVER});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    struct execution_filter filter = {.id = id};
    assert_int_equal(store_bulk(bench->store, BULK_CANCEL, &filter, "", 10, &result, NULL), WEIR_OK);
    park(bench, id, scripted_world_entry(bench->world, id)->fence_begun, 10 * MINUTE);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, id, "status"), "CANCELLED");
    assert_int_equal(bench->counts[EVENT_EXECUTION_CANCELLED], 1);
    assert_string_equal(bench->last[EVENT_EXECUTION_CANCELLED].execution_id, id);
    assert_true(bench->last[EVENT_EXECUTION_CANCELLED].duration_us >= SECOND);
}

/* Its duration and its span begin at the first start: the spans of its earlier steps lie within it. */
static void the_duration_of_an_execution_has_its_waits(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    run_inside(bench);
    push(bench, (struct scripted_outcome){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    int64_t fence = scripted_world_entry(bench->world, id)->fence_begun;
    park(bench, id, fence, 10 * MINUTE);
    pass(bench, MINUTE);
    assert_string_equal(text_of(bench, id, "status"), "WAITING");
    pass(bench, 9 * MINUTE + 10 * SECOND);
    assert_string_equal(text_of(bench, id, "status"), "DISPATCHED");
    struct report *report = report_new(REPORT_ENDED, id, bench->last[EVENT_EXECUTION_DISPATCHED].fence);
    assert_non_null(report);
    report->end_state = END_COMPLETED;
    engine_report(bench->engine, report);
    pass(bench, SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_COMPLETED], 1);
    const struct event *ended = &bench->last[EVENT_EXECUTION_COMPLETED];
    assert_true(ended->duration_us >= 10 * MINUTE && ended->duration_us < 11 * MINUTE);
    assert_true(ended->began_ago_us >= ended->duration_us);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 0);
}

static void cancel_stuck(void *context, const struct event *event)
{
    struct bench *bench = context;
    struct execution_filter filter = {.id = event->execution_id};
    struct bulk_result result;
    if (event->type == EVENT_EXECUTION_STUCK) {
        assert_true(event->age_us >= 60 * SECOND);
        assert_int_equal(store_bulk(bench->store, BULK_CANCEL, &filter, "", 10, &result, NULL), WEIR_OK);
        assert_int_equal(result.changed, 1);
    }
}

/* The warning does not wait for capacity of the engine, nor for the end of a pause. */
static void every_stuck_execution_is_named_with_a_full_engine_and_a_paused_node(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    run_inside(bench);
    bench->settings.stuck_after_us = 10 * SECOND;
    for (int i = 0; i < ROOM + 1; i++) {
        push(bench, (struct scripted_outcome){.never_ends = true, .run_us = MINUTE});
        enqueue_at(bench, "many", "plain", 0, id);
    }
    start_node(bench);
    pass(bench, SECOND);
    assert_int_equal(engine_free_capacity(bench->engine), 0);
    node_pause(bench->node);
    pass(bench, 8 * SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 0);
    pass(bench, 2 * SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], ROOM);
}

/* A program subscribes to execution.stuck and asks for the cancel through the store. */
static void a_subscriber_of_the_stuck_event_cancels_the_execution(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    run_inside(bench);
    assert_true(event_subscribe(&bench->events, cancel_stuck, bench));
    push(bench, (struct scripted_outcome){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, 65 * SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 1);
    assert_string_equal(text_of(bench, id, "status"), "CANCELLED");
}

/* --- pausing, stopping, dying --- */

static void a_paused_node_claims_nothing_and_keeps_its_lease(void **state)
{
    struct bench *bench = *state;
    char before[UUID_TEXT_MAX];
    char after[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.run_us = 10 * MINUTE});
    start_node(bench);
    enqueue(bench, "many", before);
    pass(bench, SECOND);
    node_pause(bench->node);
    enqueue(bench, "many", after);
    pass(bench, SECOND / 10); /* no heartbeat is due yet: it comes before its time */
    assert_string_equal(text_of(bench, after, "pending_reason"), "no_node_in_group");
    pass(bench, 5 * MINUTE);
    assert_int_equal(runs_begun(bench, after), 0);
    assert_string_equal(text_of(bench, before, "status"), "DISPATCHED");
    assert_int_equal(bench->counts[EVENT_LEASE_LOST] + bench->counts[EVENT_NODE_DEAD], 0);
    node_resume(bench->node);
    pass(bench, SECOND);
    assert_int_equal(runs_begun(bench, after), 1);
}

/* --- a lease that is lost while another thread of the node is at work --- */

static struct bench *interrupted; /* the bench of the calls below */
static const struct store_driver *real_driver;
static const struct engine_operations *real_operations;
static struct store_driver slow_driver;
static struct engine_operations slow_operations;

/* A node that has not been heard of for longer than its lease: another one declares it dead, it finds that out, and stands
 * up again under a new id. */
static void lose_the_lease(struct bench *bench)
{
    struct recover_options options = {.limit = RECOVER_BATCH};
    struct recover_result result = {0};
    bench->now_us += MINUTE;
    enum weir_status status = store_recover(bench->store, &options, &result, NULL);
    INVARIANT(status == WEIR_OK && result.nodes == 1); /* also in a thread that is not the test's */
    (void)node_heartbeat_step(bench->node);
    (void)node_heartbeat_step(bench->node);
}

static enum weir_status schedule_and_wait(struct store *store, struct schedule_call *call, struct arena *arena,
                                          struct schedule_answer *ret_answer, struct weir_error *error)
{
    enum weir_status status = real_driver->schedule(store, call, arena, ret_answer, error);
    if (interrupted != NULL && status == WEIR_OK && ret_answer->claimed.count > 0) {
        struct bench *bench = interrupted;
        interrupted = NULL;
        lose_the_lease(bench);
    }
    return status;
}

/* Runs live and die with the node, as those of the in-process engine do. */
static void live_in_the_node(struct bench *bench)
{
    engine_close(bench->engine);
    scripted_world_close(bench->world);
    bench->world = scripted_world_open(SCRIPTED_IN_NODE, &bench->clock, NULL, 1);
    assert_non_null(bench->world);
    assert_int_equal(scripted_open(bench->world, ROOM, &bench->engine, NULL), WEIR_OK);
}

static void a_claim_whose_answer_comes_after_the_lease_is_lost_starts_nothing(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    real_driver = bench->store->driver;
    slow_driver = *real_driver;
    slow_driver.schedule = schedule_and_wait;
    bench->store->driver = &slow_driver;
    live_in_the_node(bench);
    start_node(bench);
    interrupted = bench;
    enqueue(bench, "solo", id);
    (void)node_dispatch_step(bench->node);
    assert_null(interrupted);
    node_pause(bench->node); /* so that nobody claims it again, and a start would be of the claim that is lost */
    pass(bench, MINUTE);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST], 1);
    assert_string_equal(text_of(bench, id, "pending_reason"), "handed_over");
    assert_int_equal(runs_begun(bench, id), 0);
}

/* --- starts that need no record of their own --- */

static size_t starts_recorded;

static enum weir_status count_starts(struct store *store, int64_t node_id, struct record *records, size_t count,
                                     struct record_summary *ret_summary, struct weir_error *error)
{
    for (size_t i = 0; i < count; i++) {
        starts_recorded += records[i].kind == RECORD_DISPATCHED;
    }
    return real_driver->record(store, node_id, records, count, ret_summary, error);
}

static void a_short_execution_is_recorded_by_its_end_alone(void **state)
{
    struct bench *bench = *state;
    char brief[UUID_TEXT_MAX];
    char longer[UUID_TEXT_MAX];
    real_driver = bench->store->driver;
    slow_driver = *real_driver;
    slow_driver.record = count_starts;
    bench->store->driver = &slow_driver;
    starts_recorded = 0;
    live_in_the_node(bench);
    start_node(bench);
    push(bench, (struct scripted_outcome){.run_us = SECOND / 1000});
    enqueue(bench, "solo", brief);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, brief, "status"), "COMPLETED");
    assert_int_equal(starts_recorded, 0);
    assert_int_equal(bench->counts[EVENT_EXECUTION_DISPATCHED], 1);
    push(bench, (struct scripted_outcome){.run_us = MINUTE});
    enqueue(bench, "solo", longer);
    pass(bench, SECOND / 10);
    assert_string_equal(text_of(bench, longer, "status"), "DISPATCHED");
    assert_int_equal(starts_recorded, 1);
    assert_int_equal(bench->counts[EVENT_EXECUTION_DISPATCHED], 2);
}

static atomic_bool other_thread_is_done;

static void *lose_the_lease_in_a_thread(void *context)
{
    lose_the_lease(context);
    atomic_store(&other_thread_is_done, true);
    return NULL;
}

/* The dispatcher has seen that the lease is valid, and is interrupted right there. Without a lock the other thread finishes
 * at once; with it, it waits for the start, which is why there is nothing better to wait for than a while. */
static enum weir_status wait_and_start(struct engine *engine, const struct engine_start *start, struct weir_error *error)
{
    struct bench *bench = interrupted;
    interrupted = NULL;
    if (bench == NULL) {
        return real_operations->start(engine, start, error);
    }
    assert_int_equal(pthread_create(&bench->thread, NULL, lose_the_lease_in_a_thread, bench), 0);
    for (int i = 0; i < 300 && !atomic_load(&other_thread_is_done); i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    return real_operations->start(engine, start, error);
}

static size_t none(struct engine *engine)
{
    (void)engine;
    return 0;
}

static size_t some(struct engine *engine)
{
    (void)engine;
    return 10;
}

static void a_start_that_was_still_allowed_ends_with_the_lease(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    live_in_the_node(bench);
    push(bench, (struct scripted_outcome){.run_us = 10 * SECOND});
    start_node(bench);
    real_operations = bench->engine->operations;
    slow_operations = *real_operations;
    slow_operations.start = wait_and_start;
    slow_operations.running = none; /* the scripted engine has no lock of its own */
    slow_operations.free_capacity = some;
    bench->engine->operations = &slow_operations;
    interrupted = bench;
    enqueue(bench, "solo", id);
    (void)node_dispatch_step(bench->node);
    assert_int_equal(pthread_join(bench->thread, NULL), 0);
    bench->now_us += SECOND;
    (void)engine_step(bench->engine);
    assert_int_equal(scripted_world_open_runs(bench->world, NULL), 0);
    pass(bench, MINUTE);
    assert_int_equal(runs_begun(bench, id), 1);
    assert_null(scripted_world_broken(bench->world));
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED"); /* taken over under a new claim */
}

static size_t unlimited(struct engine *engine)
{
    (void)engine;
    return SIZE_MAX;
}

/* A program may set max_running to SIZE_MAX. */
static void a_node_with_an_unlimited_engine_starts_items(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    slow_operations = *bench->engine->operations;
    slow_operations.free_capacity = unlimited;
    bench->engine->operations = &slow_operations;
    start_node(bench);
    enqueue(bench, "many", id);
    pass(bench, 2 * SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
}

static void an_engine_may_report_after_its_node_was_closed(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    push(bench, (struct scripted_outcome){.run_us = MINUTE});
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    node_close(bench->node);
    bench->node = NULL;
    assert_null(bench->engine->sink.report); /* it was the node's */
    engine_report(bench->engine, report_new(REPORT_ENDED, id, 1));
    assert_string_equal(text_of(bench, id, "status"), "DISPATCHED"); /* another node will hear of it */
}

static void an_operators_order_reaches_the_node(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    assert_int_equal(store_set_desired_state(bench->store, "node", NODE_PAUSE, NULL), WEIR_OK);
    pass(bench, 3 * SECOND);
    assert_int_equal(bench->counts[EVENT_NODE_PAUSED], 1);
    enqueue(bench, "solo", id);
    pass(bench, 3 * SECOND);
    assert_int_equal(runs_begun(bench, id), 0);
    assert_int_equal(store_set_desired_state(bench->store, "node", NODE_RUN, NULL), WEIR_OK);
    pass(bench, 3 * SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
}

static void a_node_that_slept_past_its_lease_comes_back_under_a_new_id(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    struct recover_options options = {.limit = 10};
    struct recover_result result;
    push(bench, (struct scripted_outcome){.run_us = 10 * MINUTE});
    start_node(bench);
    int64_t old_id = node_id(bench->node);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    bench->now_us += MINUTE;
    assert_int_equal(store_recover(bench->store, &options, &result, NULL), WEIR_OK);
    assert_int_equal(result.handed_over, 1);
    pass(bench, 10 * SECOND);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST], 1);
    assert_true(node_id(bench->node) > old_id);
    assert_string_equal(text_of(bench, id, "status"), "DISPATCHED");
    assert_int_equal(scripted_world_entry(bench->world, id)->runs_begun, 1);
}

/* For want of memory: then it and the recorder no longer agree on what runs. */
static void an_engine_that_lost_a_report_gives_up_its_claims_and_the_node_goes_on(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    live_in_the_node(bench);
    push(bench, (struct scripted_outcome){.run_us = 10 * SECOND});
    start_node(bench);
    int64_t old_id = node_id(bench->node);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, id, "status"), "DISPATCHED");
    engine_note_lost_report(bench->engine);
    pass(bench, 4 * MINUTE);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST], 1);
    assert_true(node_id(bench->node) > old_id);
    assert_true(node_is_healthy(bench->node, NULL));
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
}

static void a_failure_that_no_pause_can_end_makes_the_node_unhealthy(void **state)
{
    struct bench *bench = *state;
    struct weir_error error = {.status = WEIR_OK};
    sqlite3 *database = NULL;
    start_node(bench);
    pass(bench, SECOND);
    assert_true(node_is_healthy(bench->node, &error));
    assert_int_equal(sqlite3_open(bench->url + strlen("sqlite:"), &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, "ALTER TABLE nodes RENAME TO was_nodes", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    pass(bench, 10 * SECOND);
    assert_false(node_is_healthy(bench->node, &error));
    assert_int_equal(error.status, WEIR_SCHEMA_MISSING);
    assert_true(bench->counts[EVENT_LOOP_FAILED] >= 1);
}

static void ended_executions_are_purged_after_their_time(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    json_t *answer = NULL;
    bench->settings.retention_us = 3600 * SECOND;
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
    bench->now_us += 3700 * SECOND;
    pass(bench, 3 * MINUTE);
    assert_int_equal(store_why(bench->store, id, &answer, NULL), WEIR_EXECUTION_NOT_FOUND);
    assert_true(bench->counts[EVENT_RETENTION_PURGED] >= 1);
}

static void a_full_workspace_is_noticed_once_a_minute(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    enqueue(bench, "solo", id);
    pass(bench, 3 * MINUTE + SECOND);
    assert_int_equal(bench->counts[EVENT_WORKSPACE_AT_CAPACITY], 3);
    assert_int_equal(bench->last[EVENT_WORKSPACE_AT_CAPACITY].slots_used, 1);
    assert_int_equal(bench->last[EVENT_WORKSPACE_AT_CAPACITY].slots_max, 1);
    json_t *status = node_status(bench->node);
    assert_int_equal(json_integer_value(json_object_get(status, "running")), 1);
    assert_string_equal(json_string_value(json_object_get(status, "state")), "running");
    json_decref(status);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)
    const struct CMUnitTest tests[] = {
        TEST(a_freed_slot_starts_the_next_item_without_a_poll),
        TEST(a_claim_never_exceeds_the_engines_room),
        TEST(a_future_item_starts_at_its_time_without_a_poll),
        TEST(an_exclusive_node_waits_for_its_lock),
        TEST(an_unanswered_start_is_sent_again_and_runs_once),
        TEST(a_refused_start_is_tried_exactly_three_times),
        TEST(a_refused_start_is_tried_as_often_as_the_setting_allows),
        TEST(a_permanent_refusal_fails_at_once),
        TEST(an_engine_that_is_away_for_long_fails_nothing),
        TEST(an_engine_that_reports_an_outage_gets_no_start_until_its_end),
        TEST(a_due_item_that_finds_no_room_makes_no_busy_loop),
        TEST(a_cancel_reaches_the_engine),
        TEST(a_stuck_execution_is_named_once_a_period),
        TEST(a_sleep_does_not_count_as_stuck_and_a_retry_does),
        TEST(a_cancel_in_the_place_of_a_park_is_an_end),
        TEST(the_duration_of_an_execution_has_its_waits),
        TEST(every_stuck_execution_is_named_with_a_full_engine_and_a_paused_node),
        TEST(a_subscriber_of_the_stuck_event_cancels_the_execution),
        TEST(a_paused_node_claims_nothing_and_keeps_its_lease),
        TEST(a_claim_whose_answer_comes_after_the_lease_is_lost_starts_nothing),
        TEST(a_short_execution_is_recorded_by_its_end_alone),
        TEST(a_start_that_was_still_allowed_ends_with_the_lease),
        TEST(a_node_with_an_unlimited_engine_starts_items),
        TEST(an_engine_may_report_after_its_node_was_closed),
        TEST(an_operators_order_reaches_the_node),
        TEST(a_node_that_slept_past_its_lease_comes_back_under_a_new_id),
        TEST(an_engine_that_lost_a_report_gives_up_its_claims_and_the_node_goes_on),
        TEST(a_failure_that_no_pause_can_end_makes_the_node_unhealthy),
        TEST(ended_executions_are_purged_after_their_time),
        TEST(a_full_workspace_is_noticed_once_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
