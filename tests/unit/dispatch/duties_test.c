/* Duties of a node whose store refuses or counts a call: the settings that were left out, old claims, hooks, acts on
 * record, logs and books. */
#include "base/error.h"
#include "dispatch/hook_duty.h"
#include "dispatch/neighbours.h"
#include "dispatch/node_internal.h"
#include "dispatch/node_logs.h"
#include "dispatch/node_progress.h"
#include "dispatch/wake_up.h"
#include "unit/dispatch/bench.h"

static const struct store_driver *real_driver;
static struct store_driver counting_driver;
static bool reads_fail;       /* of hook events, and writes of logs and progress */
static bool looks_fail;       /* for old claims */
static int64_t found_none_us; /* the last look for old claims that found none */
static int full_recoveries;   /* at that time, or after a look that failed */
static int log_writes;
static int progress_writes;
static struct progress_record last_progress; /* of the last write */
static int publications;
static int settlements;

static enum weir_status count_events(struct store *store, struct arena *arena, struct hook_events *events,
                                     struct weir_error *error)
{
    return reads_fail ? error_set(error, WEIR_STORE_UNREACHABLE, "by the test")
                      : real_driver->read_hook_events(store, arena, events, error);
}

static enum weir_status count_log_writes(struct store *store, const struct log_chunk *chunks, size_t count,
                                         struct weir_error *error)
{
    log_writes++;
    return reads_fail ? error_set(error, WEIR_STORE_UNREACHABLE, "by the test")
                      : real_driver->write_logs(store, chunks, count, error);
}

static enum weir_status count_progress_writes(struct store *store, const struct progress_record *records, size_t count,
                                              struct weir_error *error)
{
    progress_writes++;
    assert_int_equal(count, 1);
    last_progress = records[0];
    last_progress.text = NULL;
    return reads_fail ? error_set(error, WEIR_STORE_UNREACHABLE, "by the test")
                      : real_driver->write_progress(store, records, count, error);
}

static enum weir_status count_recoveries(struct store *store, const struct recover_options *options,
                                         struct recover_result *result, struct weir_error *error)
{
    int64_t now_us = clock_boot(store->clock);
    if (options->look_only && looks_fail) {
        found_none_us = now_us;
        return error_set(error, WEIR_STORE_UNREACHABLE, "by the test");
    }
    enum weir_status status = real_driver->recover(store, options, result, error);
    if (options->look_only) {
        found_none_us = result->more ? found_none_us : now_us;
    } else {
        full_recoveries += now_us == found_none_us;
    }
    return status;
}

static enum weir_status count_publications(struct store *store, int64_t node_id, int64_t epoch,
                                           const struct lane_pass *passes, size_t count, bool *ret_more,
                                           struct weir_error *error)
{
    publications++;
    return real_driver->publish_books(store, node_id, epoch, passes, count, ret_more, error);
}

static enum weir_status count_settlements(struct store *store, struct schedule_outcome *outcomes, size_t count,
                                          struct weir_error *error)
{
    settlements++;
    return real_driver->settle_schedule_firings(store, outcomes, count, error);
}

static int open_counting(void **state)
{
    int result = open_bench(state);
    struct bench *bench = *state;
    real_driver = bench->store->driver;
    counting_driver = *real_driver;
    counting_driver.read_hook_events = count_events;
    counting_driver.write_logs = count_log_writes;
    counting_driver.write_progress = count_progress_writes;
    counting_driver.recover = count_recoveries;
    counting_driver.publish_books = count_publications;
    counting_driver.settle_schedule_firings = count_settlements;
    bench->store->driver = &counting_driver;
    reads_fail = false;
    looks_fail = false;
    found_none_us = 0;
    full_recoveries = 0;
    log_writes = 0;
    progress_writes = 0;
    publications = 0;
    settlements = 0;
    return result;
}

static void settings_that_are_left_out_have_their_defaults(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    const struct node_tuning *tuning = &bench->node->tuning;
    assert_int_equal(tuning->retention_us, RETENTION_US);
    assert_int_equal(tuning->log_retention_us, LOG_RETENTION_US);
    assert_int_equal(tuning->audit_retention_us, AUDIT_RETENTION_US);
    assert_int_equal(tuning->archive_after_us, 0);
    assert_int_equal(tuning->starts_max, STARTS_MAX_DEFAULT);
}

/* A node that keeps acts on record for ever has no time at which it removes some. */
static void acts_that_are_kept_for_ever_keep_no_node_awake(void **state)
{
    struct bench *bench = *state;
    bench->settings.audit_retention_us = -1;
    start_node(bench);
    pass(bench, SECOND);
    bench->now_us += 2 * 3600 * SECOND;
    for (int i = 0; i < 100; i++) {
        (void)node_step(bench->node);
    }
    assert_true(node_maintenance_step(bench->node) > bench->now_us);
}

/* A search that finds no old claims, or fails, is all that there is to do for nodes that live. */
static void a_search_for_old_claims_that_finds_none_recovers_nothing(void **state)
{
    struct bench *bench = *state;
    bench->settings.stale_claim_us = SECOND;
    bench->settings.stale_check_us = 5 * SECOND;
    start_node(bench);
    pass(bench, MINUTE);
    assert_true(found_none_us > bench->now_us - 20 * SECOND);
    assert_int_equal(full_recoveries, 0);
    looks_fail = true;
    pass(bench, 20 * SECOND);
    assert_true(found_none_us > bench->now_us - 20 * SECOND);
    assert_int_equal(full_recoveries, 0);
    looks_fail = false;
}

static void an_event_of_a_hook_that_cannot_be_read_is_looked_for_again(void **state)
{
    struct bench *bench = *state;
    struct weir_error error = {.status = WEIR_OK};
    start_node(bench);
    pass(bench, SECOND);
    struct maintenance *m = &bench->node->maintenance;
    m->next_hooks_us = 0;
    m->next_hook_trim_us = 0;
    atomic_store(&bench->node->shared.hooks_due, true);
    assert_false(m->hook_events_wait);
    reads_fail = true;
    assert_int_equal(hook_duty_step(bench->node, bench->now_us, &error), WEIR_STORE_UNREACHABLE);
    assert_true(m->hook_events_wait);
    reads_fail = false;
    m->next_hooks_us = 0;
    assert_int_equal(hook_duty_step(bench->node, bench->now_us, &error), WEIR_OK);
    assert_false(m->hook_events_wait);
}

/* Of a machine whose time a test makes up, no process says anything. */
static void processes_are_looked_for_by_the_clock_of_the_machine_alone(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    struct node *node = bench->node;
    node->neighbours.count = 1;
    node->neighbours.nodes[0] = (struct node_neighbour){.id = 77, .is_here = true, .pid = 1 << 30};
    (void)snprintf(node->neighbours.nodes[0].life, sizeof node->neighbours.nodes[0].life, "weir-node-that-never-was");
    assert_false(neighbours_any_is_gone(node));
    node->neighbours.count = 0;
    const struct clock *before = node->clock;
    node->clock = clock_system();
    assert_false(neighbours_any_is_gone(node));
    node->clock = before;
}

/* A subscriber wakes the node in the middle of its step. */
static void wake_in_the_step(void *context, const struct event *event)
{
    struct bench *bench = context;
    if (event->type == EVENT_EXECUTION_COMPLETED) {
        node_wake(bench->node);
    }
}

static void a_wake_during_a_step_asks_for_the_next_one_at_once(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    assert_true(event_subscribe(&bench->events, wake_in_the_step, bench));
    start_node(bench);
    pass(bench, SECOND);
    enqueue(bench, "solo", id);
    for (int i = 0; i < 1000 && bench->counts[EVENT_EXECUTION_COMPLETED] == 0; i++) {
        (void)scripted_world_pass_time(bench->world);
        int64_t next_us = node_step(bench->node);
        assert_true(bench->counts[EVENT_EXECUTION_COMPLETED] == 0 || next_us == bench->now_us);
        bench->now_us += SECOND / 100;
    }
    assert_int_equal(bench->counts[EVENT_EXECUTION_COMPLETED], 1);
}

static void write_output(struct bench *bench, const char *id, const char *bytes)
{
    struct engine_output output = {.execution_id = id,
                                   .step = "a",
                                   .attempt = 1,
                                   .stream = LOG_STDOUT,
                                   .at_us = START_WALL_US + bench->now_us,
                                   .bytes = bytes,
                                   .length = strlen(bytes)};
    node_logs_take(bench->node, &output);
}

/* A store that is away is asked every five seconds; one that is there gets the output within a second. */
static void output_that_cannot_be_written_is_written_later(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    push(bench, (struct scripted_outcome){.run_us = 10 * MINUTE});
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    write_output(bench, id, "one");
    pass(bench, 2 * SECOND);
    assert_int_equal(log_writes, 1);
    reads_fail = true;
    write_output(bench, id, "two");
    pass(bench, 2 * SECOND);
    assert_int_equal(log_writes, 2);
    pass(bench, 2 * SECOND);
    assert_int_equal(log_writes, 2);
    reads_fail = false;
    pass(bench, 4 * SECOND);
    assert_int_equal(log_writes, 3);
}

static void report_progress(struct bench *bench, const char *id, int64_t fence, int parts, const char *text)
{
    struct engine_progress progress = {
        .execution_id = id, .step = "only", .attempt = 1, .fence = fence, .at_us = 1, .parts = parts, .text = text};
    node_progress_take(bench->node, &progress);
}

/* Reads the fraction that the store shows; -1 = it shows no report. *ret_fence: of the claim. */
static double shown_fraction(struct bench *bench, const char *id, int64_t *ret_fence)
{
    struct weir_error error = {.status = WEIR_OK};
    json_t *shown = NULL;
    assert_int_equal(store_show(bench->store, id, &shown, &error), WEIR_OK);
    const json_t *report = json_array_get(json_object_get(shown, "progress"), 0);
    double fraction = report == NULL ? -1 : json_number_value(json_object_get(report, "fraction"));
    *ret_fence = json_integer_value(json_object_get(shown, "fence"));
    json_decref(shown);
    return fraction;
}

static void the_newest_progress_is_written_once_a_second_until_the_attempt_ends(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    int64_t fence = 0;
    start_node(bench);
    push(bench, (struct scripted_outcome){.run_us = 10 * MINUTE});
    enqueue(bench, "solo", id);
    pass(bench, 5 * SECOND);
    assert_true(shown_fraction(bench, id, &fence) < 0);
    assert_int_equal(progress_writes, 0);
    for (int i = 1; i <= 100; i++) {
        report_progress(bench, id, fence, i, "x");
        pass(bench, SECOND / 10);
    }
    assert_in_range(progress_writes, 9, 10);
    pass(bench, SECOND);
    assert_in_range(progress_writes, 10, 11);
    assert_true(shown_fraction(bench, id, &fence) == 0.01);
    int before = progress_writes;
    pass(bench, MINUTE);
    assert_int_equal(progress_writes, before);
    report_progress(bench, id, fence - 1, 5000, "of a lost claim");
    report_progress(bench, id, fence, -1, NULL);
    pass(bench, 2 * SECOND);
    assert_int_equal(progress_writes, before + 1);
    assert_true(last_progress.is_over);
    assert_true(shown_fraction(bench, id, &fence) < 0);
}

static void progress_that_cannot_be_written_waits_for_five_seconds(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    int64_t fence = 0;
    start_node(bench);
    push(bench, (struct scripted_outcome){.run_us = 10 * MINUTE});
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    (void)shown_fraction(bench, id, &fence);
    reads_fail = true;
    report_progress(bench, id, fence, 1000, "x");
    pass(bench, 2 * SECOND);
    assert_int_equal(progress_writes, 1);
    report_progress(bench, id, fence, 2000, "x");
    pass(bench, 2 * SECOND);
    assert_int_equal(progress_writes, 1);
    reads_fail = false;
    pass(bench, 4 * SECOND);
    assert_int_equal(progress_writes, 2);
    assert_true(shown_fraction(bench, id, &fence) == 0.2);
}

static void lost_output_is_reported_once_a_minute(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    push(bench, (struct scripted_outcome){.run_us = 10 * MINUTE});
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    bench->node->logs.buffer.lost_bytes = 70;
    write_output(bench, id, "one");
    pass(bench, 2 * SECOND);
    assert_int_equal(bench->counts[EVENT_OUTPUT_LOST], 1);
    assert_int_equal(bench->last[EVENT_OUTPUT_LOST].count, 70);
    bench->node->logs.buffer.lost_bytes = 5;
    write_output(bench, id, "two");
    pass(bench, 30 * SECOND);
    assert_int_equal(bench->counts[EVENT_OUTPUT_LOST], 1);
    pass(bench, 40 * SECOND);
    write_output(bench, id, "three");
    pass(bench, 2 * SECOND);
    assert_int_equal(bench->counts[EVENT_OUTPUT_LOST], 2);
    assert_int_equal(bench->last[EVENT_OUTPUT_LOST].count, 5);
}

/* However often items come, their counts are written once a second. */
static void books_are_published_once_a_second(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    pass(bench, 5 * SECOND);
    int before = publications;
    for (int i = 0; i < 50; i++) {
        enqueue(bench, "many", id);
        pass(bench, SECOND / 10);
    }
    assert_in_range(publications - before, 1, 8);
}

/* Its news is not read with the round that assigns, and it is not the last thing that an idle scheduler does. */
static void the_books_contain_a_last_assignment_after_seconds(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    json_t *status = NULL;
    start_node(bench);
    pass(bench, 5 * SECOND);
    push(bench, (struct scripted_outcome){.run_us = 60 * MINUTE});
    enqueue(bench, "many", id);
    pass(bench, 3 * SECOND);
    assert_int_equal(store_status(bench->store, 0, &status, NULL), WEIR_OK);
    assert_int_equal(json_integer_value(json_object_get(status, "slots_used")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(status, "scheduler"), "lag_us")), 0);
    json_decref(status);
    int before = publications;
    pass(bench, 30 * SECOND);
    assert_int_equal(publications, before);
}

/* A time that is skipped starts nothing, and there is nothing to settle. */
static void a_time_that_starts_nothing_settles_nothing(void **state)
{
    struct bench *bench = *state;
    static const char *const workspaces[] = {"many"};
    struct schedule_request request = {.name = "often",
                                       .when.every_us = MINUTE,
                                       .overlap = OVERLAP_SKIP,
                                       .workflow = "plain",
                                       .workspaces = workspaces,
                                       .workspace_count = 1};
    start_node(bench);
    push(bench, (struct scripted_outcome){.run_us = 60 * MINUTE});
    assert_int_equal(store_schedule_set(bench->store, &request, NULL, NULL), WEIR_OK);
    pass(bench, 10 * MINUTE);
    assert_int_equal(bench->counts[EVENT_SCHEDULE_FIRED], 1);
    assert_int_equal(settlements, 1);
}

/* A claim that another node has by now: its end is no news of this node, which forgets the execution. */
static void a_report_of_a_lost_claim_is_counted_and_forgotten(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.run_us = 5 * SECOND});
    start_node(bench);
    pass(bench, SECOND);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, id, "status"), "DISPATCHED");
    sqlite3 *database = NULL; /* what a handover does, and all that counts here */
    assert_int_equal(sqlite3_open(bench->url + strlen("sqlite:"), &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, "UPDATE workflow_execution_queue SET fence = fence + 1", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    pass(bench, 10 * SECOND);
    assert_int_equal(bench->counts[EVENT_STALE_WRITE_REFUSED], 1);
    assert_int_equal(bench->counts[EVENT_EXECUTION_COMPLETED], 0);
}

static void step_until_completed(struct bench *bench)
{
    for (int i = 0; i < 1000 && bench->counts[EVENT_EXECUTION_COMPLETED] == 0; i++) {
        bench->now_us += SECOND / 100;
        (void)scripted_world_pass_time(bench->world);
        (void)node_step(bench->node);
    }
    assert_int_equal(bench->counts[EVENT_EXECUTION_COMPLETED], 1);
}

/* A record that is written is no longer under way: a stop has nothing to wait for. */
static void a_recorded_set_is_no_longer_under_way(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    enqueue(bench, "solo", id);
    step_until_completed(bench);
    assert_false(atomic_load(&bench->node->recorder.is_recording));
}

static char seen_trace[64];

static void note_trace(void *context, const struct event *event)
{
    (void)context;
    if (event->type == EVENT_EXECUTION_COMPLETED && event->traceparent != NULL) {
        (void)snprintf(seen_trace, sizeof seen_trace, "%s", event->traceparent);
    }
}

static void the_end_of_an_execution_has_the_trace_of_its_request(void **state)
{
    struct bench *bench = *state;
    struct enqueue_request request = {
        .workspace = "solo", .workflow = "plain", .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"};
    struct enqueue_result result;
    seen_trace[0] = '\0';
    assert_true(event_subscribe(&bench->events, note_trace, NULL));
    start_node(bench);
    assert_int_equal(store_enqueue(bench->store, &request, 1, &result, NULL), WEIR_OK);
    step_until_completed(bench);
    assert_string_equal(seen_trace, request.traceparent);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_counting, close_bench)
    const struct CMUnitTest tests[] = {
        TEST(settings_that_are_left_out_have_their_defaults),
        TEST(acts_that_are_kept_for_ever_keep_no_node_awake),
        TEST(a_search_for_old_claims_that_finds_none_recovers_nothing),
        TEST(an_event_of_a_hook_that_cannot_be_read_is_looked_for_again),
        TEST(processes_are_looked_for_by_the_clock_of_the_machine_alone),
        TEST(a_wake_during_a_step_asks_for_the_next_one_at_once),
        TEST(output_that_cannot_be_written_is_written_later),
        TEST(the_newest_progress_is_written_once_a_second_until_the_attempt_ends),
        TEST(progress_that_cannot_be_written_waits_for_five_seconds),
        TEST(lost_output_is_reported_once_a_minute),
        TEST(books_are_published_once_a_second),
        TEST(the_books_contain_a_last_assignment_after_seconds),
        TEST(a_time_that_starts_nothing_settles_nothing),
        TEST(a_report_of_a_lost_claim_is_counted_and_forgotten),
        TEST(a_recorded_set_is_no_longer_under_way),
        TEST(the_end_of_an_execution_has_the_trace_of_its_request),
    };
#undef TEST
    return cmocka_run_group_tests_name("duties", tests, NULL, NULL);
}
