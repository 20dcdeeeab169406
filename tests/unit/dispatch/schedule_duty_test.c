/* The duty of schedules: the acts of a node at a due time, after an outage, and when it dies in between. */
#include "unit/dispatch/schedule_bench.h"

/* The clock begins at 2027-01-15T08:01:00Z. */
static void a_due_time_becomes_an_execution_with_its_time(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    pass(bench, 5 * SECOND);
    struct schedule_request request = schedule_named("often", 10 * MINUTE);
    set_schedule(bench, &request);
    pass(bench, 8 * MINUTE + 54 * SECOND);
    assert_int_equal(count_executions(bench, "many"), 0);
    pass(bench, 2 * SECOND);
    assert_int_equal(count_executions(bench, "many"), 1);
    assert_newest(bench, "often", "2027-01-15T08:10:00.000000Z");
    json_t *items = executions_of(bench, "many");
    json_t *shown = NULL;
    const char *id = json_string_value(json_object_get(json_array_get(items, 0), "id"));
    assert_int_equal(store_show(bench->store, id, &shown, NULL), WEIR_OK);
    const json_t *params = json_object_get(shown, "params");
    assert_string_equal(json_string_value(json_object_get(params, "scheduled_for")), "2027-01-15T08:10:00.000000Z");
    assert_string_equal(json_string_value(json_object_get(params, "schedule")), "often");
    assert_true(json_is_true(json_object_get(params, "deep")));
    json_decref(shown);
    json_decref(items);
    pass(bench, 10 * MINUTE);
    assert_newest(bench, "often", "2027-01-15T08:20:00.000000Z");
    assert_int_equal(number_of(bench, "often", "fired"), 2);
    assert_int_equal(bench->counts[EVENT_SCHEDULE_FIRED], 2);
}

static void without_schedules_nothing_is_asked(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    pass(bench, 30 * SECOND);
    int before = looks;
    pass(bench, 60 * MINUTE);
    assert_int_equal(looks, before);
    struct schedule_request request = schedule_named("daily", 24 * 60 * MINUTE);
    set_schedule(bench, &request);
    pass(bench, 5 * SECOND);
    before = looks;
    assert_true(before > 0);
    pass(bench, 60 * MINUTE);
    assert_in_range(looks - before, 50, 70); /* once a minute: the clock of the store may be set */
}

/* 2027-03-28: at 02:00 the clocks in Berlin go to 03:00. */
static void a_time_that_the_clocks_skip_fires_at_the_change(void **state)
{
    struct bench *bench = *state;
    bench->now_us += (int64_t)71 * 24 * 60 * MINUTE; /* 2027-03-27T08:02Z */
    start_node(bench);
    pass(bench, 5 * SECOND);
    struct schedule_request request = schedule_named("nightly", 0);
    request.when = (struct recurrence_text){.cron = "30 2 * * *", .zone = "Europe/Berlin"};
    set_schedule(bench, &request);
    json_t *row = row_of(bench, "nightly");
    assert_string_equal(json_string_value(json_object_get(row, "next_at")), "2027-03-28T01:00:00.000000Z");
    json_decref(row);
    pass(bench, 18 * 60 * MINUTE);
    assert_newest(bench, "nightly", "2027-03-28T01:00:00.000000Z");
    row = row_of(bench, "nightly");
    assert_string_equal(json_string_value(json_object_get(row, "next_at")), "2027-03-29T00:30:00.000000Z");
    json_decref(row);
}

/* No node runs from 08:01 to 13:01, so the times from 12:10 to 13:00 are in the window, and those from 08:10 to 12:00 are
 * not. Without overlap the policy decides only which of them fire. */
static void assert_after_an_outage(struct bench *bench, struct schedule_request request, int64_t first_us, size_t count)
{
    set_schedule(bench, &request);
    bench->now_us += 5 * 60 * MINUTE;
    start_node(bench);
    pass(bench, 30 * SECOND);
    assert_int_equal(number_of(bench, "often", "dropped"), 24);
    assert_int_equal(bench->counts[EVENT_SCHEDULE_DROPPED], 1);
    for (int i = 0; i < 200 && count_executions(bench, "many") < count; i++) {
        pass(bench, SECOND);
    }
    assert_times(bench, "often", first_us, 10 * MINUTE, count);
    assert_int_equal(number_of(bench, "often", "skipped"), 6 - (json_int_t)count);
    assert_int_equal(number_of(bench, "often", "fired"), (json_int_t)count);
}

static void after_an_outage_queue_all_fires_all_times_of_the_window(void **state)
{
    struct schedule_request request = schedule_named("often", 10 * MINUTE);
    request.overlap = OVERLAP_QUEUE_ALL;
    assert_after_an_outage(*state, request, at_minute(12, 10), 6);
}

static void after_an_outage_skip_fires_the_newest_time(void **state)
{
    assert_after_an_outage(*state, schedule_named("often", 10 * MINUTE), at_minute(13, 0), 1);
}

static void after_an_outage_queue_one_fires_the_newest_time(void **state)
{
    struct schedule_request request = schedule_named("often", 0);
    request.when.cron = "*/10 * * * *";
    request.overlap = OVERLAP_QUEUE_ONE;
    assert_after_an_outage(*state, request, at_minute(13, 0), 1);
}

static void after_an_outage_cancel_running_fires_the_newest_time(void **state)
{
    struct schedule_request request = schedule_named("often", 0);
    request.when.cron = "*/10 * * * *";
    request.overlap = OVERLAP_CANCEL_RUNNING;
    assert_after_an_outage(*state, request, at_minute(13, 0), 1);
}

/* 150 schedules have 900 times to catch up with; another one is due. */
static void schedules_in_arrears_do_not_hold_up_one_that_is_due(void **state)
{
    struct bench *bench = *state;
    static const char *const solo[] = {"solo"};
    struct schedule_request request;
    for (int i = 0; i < 150; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "late-%d", i);
        request = schedule_named(name, SECOND);
        request.workspaces = solo;
        request.overlap = i % 10 == 0 ? OVERLAP_QUEUE_ALL : OVERLAP_SKIP;
        set_schedule(bench, &request);
    }
    bench->now_us += 900 * SECOND;
    request = schedule_named("often", SECOND);
    set_schedule(bench, &request);
    bench->now_us += SECOND;
    watched_id = 151;
    start_node(bench);
    pass(bench, 5 * SECOND);
    assert_in_range(watched_look, 1, 2);
}

static void a_lost_settlement_makes_no_second_execution(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    struct schedule_request request = schedule_named("often", 10 * MINUTE);
    set_schedule(bench, &request);
    settlements_lost = 3;
    pass(bench, 12 * MINUTE);
    assert_int_equal(settlements_lost, 0);
    assert_int_equal(count_executions(bench, "many"), 1);
    assert_int_equal(number_of(bench, "often", "fired"), 1);
    assert_int_equal(number_of(bench, "often", "waiting"), 0);
}

static void a_refusal_is_shown_and_others_go_on(void **state)
{
    struct bench *bench = *state;
    static const char *const both[] = {"solo", "many"};
    struct published published;
    start_node(bench);
    assert_int_equal(store_publish(bench->store, "own", "many", "{\"name\":\"own\"}", NULL, &published, NULL), WEIR_OK);
    struct schedule_request request = schedule_named("half", 10 * MINUTE);
    request.workflow = "own"; /* not for solo */
    request.workspaces = both;
    request.workspace_count = 2;
    set_schedule(bench, &request);
    request = schedule_named("fine", 10 * MINUTE);
    set_schedule(bench, &request);
    pass(bench, 10 * MINUTE);
    assert_int_equal(count_executions(bench, "many"), 2);
    json_t *row = row_of(bench, "half");
    assert_int_equal(json_integer_value(json_object_get(row, "refused")), 1);
    assert_int_equal(json_integer_value(json_object_get(row, "fired")), 1);
    assert_string_equal(json_string_value(json_object_get(row, "error_code")), "workflow_of_another_workspace");
    assert_true(json_is_true(json_object_get(row, "is_refused")));
    json_decref(row);
    assert_int_equal(bench->counts[EVENT_SCHEDULE_REFUSED], 1);
    assert_int_equal(number_of(bench, "fine", "refused"), 0);
    pass(bench, 10 * MINUTE);
    assert_int_equal(number_of(bench, "half", "refused"), 2);
    assert_int_equal(number_of(bench, "half", "fired"), 2);
}

/* A node and a schedule with cancel_running; the workspace is paused, so its executions wait. */
static void start_with_waiting(struct bench *bench, struct schedule_request *request)
{
    struct workspace_change pause = {.name = "many", .paused = 1};
    request->overlap = OVERLAP_CANCEL_RUNNING;
    start_node(bench);
    pass(bench, 5 * SECOND);
    assert_int_equal(store_set_workspace(bench->store, &pause, NULL), WEIR_OK);
    set_schedule(bench, request);
}

static void cancel_running_cancels_before_it_starts(void **state)
{
    struct bench *bench = *state;
    struct schedule_request request = schedule_named("often", 10 * MINUTE);
    start_with_waiting(bench, &request);
    pass(bench, 9 * MINUTE);
    assert_newest(bench, "often", "2027-01-15T08:10:00.000000Z");
    pass(bench, 10 * MINUTE);
    assert_newest(bench, "often", "2027-01-15T08:20:00.000000Z");
    json_t *items = executions_of(bench, "many");
    assert_int_equal(json_array_size(items), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(items, 0), "status")), "PENDING");
    assert_string_equal(json_string_value(json_object_get(json_array_get(items, 1), "status")), "CANCELLED");
    json_decref(items);
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_AUDIT, .limit = 10};
    assert_int_equal(store_list(bench->store, &options, &page, NULL), WEIR_OK);
    const json_t *act = json_array_get(json_object_get(page, "items"), 0);
    assert_string_equal(json_string_value(json_object_get(act, "act")), "cancel");
    assert_string_equal(json_string_value(json_object_get(act, "actor")), "schedule/often");
    assert_string_equal(json_string_value(json_object_get(act, "reason")), "overlap policy cancel_running");
    json_decref(page);
}

static void jitter_moves_the_time_of_the_execution(void **state)
{
    struct bench *bench = *state;
    struct schedule_request request = schedule_named("often", 10 * MINUTE);
    request.jitter_us = 5 * MINUTE;
    request.overlap = OVERLAP_QUEUE_ALL;
    start_node(bench);
    set_schedule(bench, &request);
    int64_t sum_us = 0;
    for (int i = 0; i < 6; i++) {
        pass(bench, 10 * MINUTE);
    }
    json_t *items = executions_of(bench, "many");
    assert_int_equal(json_array_size(items), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *item = json_array_get(items, i);
        const char *key = json_string_value(json_object_get(item, "idempotency_key"));
        int64_t due_us = 0;
        int64_t run_us = 0;
        assert_int_equal(time_parse(strrchr(key, '/') + 1, 0, &due_us, NULL), WEIR_OK);
        assert_int_equal(time_parse(json_string_value(json_object_get(item, "run_at")), 0, &run_us, NULL), WEIR_OK);
        assert_int_equal(due_us % (10 * MINUTE), 0);
        assert_in_range(run_us - due_us, 0, 5 * MINUTE);
        sum_us += run_us - due_us;
    }
    json_decref(items);
    assert_int_not_equal(sum_us, 0);
}

static void a_trigger_and_a_resumption_are_noticed_at_once(void **state)
{
    struct bench *bench = *state;
    struct schedule_counts counts;
    struct schedule_request request = schedule_named("often", 10 * MINUTE);
    start_node(bench);
    set_schedule(bench, &request);
    assert_int_equal(store_schedule_pause(bench->store, "often", true, NULL), WEIR_OK);
    pass(bench, 60 * MINUTE);
    assert_int_equal(count_executions(bench, "many"), 0);
    assert_int_equal(store_schedule_trigger(bench->store, &(struct schedule_trigger){.name = "often"}, &counts, NULL),
                     WEIR_OK);
    wake(bench);
    pass(bench, 3 * SECOND);
    assert_int_equal(count_executions(bench, "many"), 1);
    assert_int_equal(store_schedule_pause(bench->store, "often", false, NULL), WEIR_OK);
    wake(bench);
    pass(bench, 3 * SECOND);
    json_t *row = row_of(bench, "often");
    assert_string_equal(json_string_value(json_object_get(row, "next_at")), "2027-01-15T09:10:00.000000Z");
    json_decref(row);
    assert_int_equal(count_executions(bench, "many"), 1);
    assert_int_equal(number_of(bench, "often", "dropped"), 0);
}

/* As another program would do it. */
static void change(struct bench *bench, const char *sql)
{
    sqlite3 *database = NULL;
    assert_int_equal(sqlite3_open(bench->url + strlen("sqlite:"), &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
}

static void assert_refused(struct bench *bench, const char *name, const char *code)
{
    json_t *row = row_of(bench, name);
    assert_string_equal(json_string_value(json_object_get(row, "error_code")), code);
    assert_true(json_is_true(json_object_get(row, "is_refused")));
    json_decref(row);
}

static void without_its_time_zone_a_schedule_waits_and_others_go_on(void **state)
{
    struct bench *bench = *state;
    struct schedule_request request = schedule_named("zoned", 0);
    request.when = (struct recurrence_text){.cron = "*/10 * * * *", .zone = "Europe/Berlin"};
    set_schedule(bench, &request);
    request = schedule_named("often", 10 * MINUTE);
    set_schedule(bench, &request);
    change(bench, "UPDATE schedules SET zone = 'No/Where' WHERE name = 'zoned'");
    start_node(bench);
    pass(bench, 10 * MINUTE);
    assert_refused(bench, "zoned", "invalid_argument");
    assert_int_equal(number_of(bench, "zoned", "fired"), 0);
    assert_int_equal(number_of(bench, "often", "fired"), 1);
    change(bench, "UPDATE schedules SET zone = 'Europe/Berlin' WHERE name = 'zoned'");
    pass(bench, 10 * MINUTE);
    assert_int_equal(number_of(bench, "zoned", "fired"), 2);
    json_t *row = row_of(bench, "zoned");
    assert_true(json_is_false(json_object_get(row, "is_refused")));
    json_decref(row);
}

static void a_deleted_workspace_and_a_backlog_refuse_a_time(void **state)
{
    struct bench *bench = *state;
    static const char *const solo[] = {"solo"};
    struct deletion_result result;
    struct workspace_deletion deletion = {.name = "solo", .fails_waiting = true};
    struct schedule_request request = schedule_named("gone", 10 * MINUTE);
    request.workspaces = solo;
    set_schedule(bench, &request);
    request = schedule_named("full", 10 * MINUTE);
    set_schedule(bench, &request);
    assert_int_equal(store_delete_workspace(bench->store, &deletion, &result, NULL), WEIR_OK);
    start_node(bench);
    pass(bench, 5 * MINUTE);
    change(bench, "INSERT INTO books (lane_id, workspace_id, group_id, runnable)"
                  " SELECT 99, id, 1, 10000 FROM workspaces WHERE name = 'many'");
    pass(bench, 5 * MINUTE);
    assert_refused(bench, "gone", "workspace_not_found");
    assert_refused(bench, "full", "queue_full");
    assert_int_equal(count_executions(bench, "many"), 0);
    change(bench, "DELETE FROM books WHERE lane_id = 99");
    pass(bench, 10 * MINUTE);
    assert_int_equal(count_executions(bench, "many"), 1);
}

static void a_full_workspace_refuses_a_time(void **state)
{
    struct bench *bench = *state;
    struct workspace_change limit = {.name = "many", .max_pending = 1, .paused = 1};
    struct schedule_request request = schedule_named("full", 10 * MINUTE);
    set_schedule(bench, &request);
    request = schedule_named("other", 10 * MINUTE);
    set_schedule(bench, &request);
    assert_int_equal(store_set_workspace(bench->store, &limit, NULL), WEIR_OK);
    start_node(bench);
    pass(bench, 11 * MINUTE);
    assert_int_equal(count_executions(bench, "many"), 1);
    assert_int_equal(number_of(bench, "full", "refused") + number_of(bench, "other", "refused"), 1);
    assert_refused(bench, number_of(bench, "full", "refused") == 1 ? "full" : "other", "queue_full");
}

/* One that was inserted while another transaction deleted its workspace: it is no loss. */
static void a_firing_of_a_plan_in_a_deleted_workspace_is_removed(void **state)
{
    struct bench *bench = *state;
    struct schedule_request request = schedule_named("all", 10 * MINUTE);
    request.workspaces = NULL;
    request.workspace_count = 0;
    request.plan = "enterprise";
    set_schedule(bench, &request);
    start_node(bench);
    pass(bench, 5 * SECOND);
    change(bench, "INSERT INTO schedule_firings (schedule_id, workspace_id, due_at, created_at, planned_id)"
                  " SELECT id, 999, due_at, due_at, '019b8d3e-0000-7000-8000-000000000001' FROM schedules");
    pass(bench, 10 * MINUTE);
    assert_int_equal(count_executions(bench, "many"), 1);
    assert_int_equal(number_of(bench, "all", "waiting"), 0);
    assert_int_equal(number_of(bench, "all", "refused"), 0);
    assert_int_equal(number_of(bench, "all", "dropped"), 0);
    assert_int_equal(bench->counts[EVENT_SCHEDULE_REFUSED], 0);
    assert_int_equal(bench->counts[EVENT_SCHEDULE_DROPPED], 0);
}

/* With cancel_running, too: the execution of the last time lives on. */
static void a_time_that_a_backlog_refuses_cancels_nothing(void **state)
{
    struct bench *bench = *state;
    struct schedule_request request = schedule_named("full", 10 * MINUTE);
    start_with_waiting(bench, &request);
    pass(bench, 11 * MINUTE);
    assert_int_equal(count_executions(bench, "many"), 1);
    change(bench, "INSERT INTO books (lane_id, workspace_id, group_id, runnable)"
                  " SELECT 99, id, 1, 10000 FROM workspaces WHERE name = 'many'");
    pass(bench, 10 * MINUTE);
    assert_refused(bench, "full", "queue_full");
    json_t *items = executions_of(bench, "many");
    assert_int_equal(json_array_size(items), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(items, 0), "status")), "PENDING");
    json_decref(items);
}

/* The zone is missing at the time, and there again two minutes later. */
static void assert_the_only_one_lives(struct bench *bench)
{
    json_t *items = executions_of(bench, "many");
    assert_int_equal(json_array_size(items), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(items, 0), "status")), "PENDING");
    json_decref(items);
}

static void a_time_that_the_workflow_refuses_cancels_nothing(void **state)
{
    struct bench *bench = *state;
    struct schedule_request request = schedule_named("often", 10 * MINUTE);
    start_with_waiting(bench, &request);
    pass(bench, 11 * MINUTE);
    assert_int_equal(store_set_workflow_state(bench->store, "plain", NULL, WORKFLOW_DISABLED, NULL), WEIR_OK);
    pass(bench, 10 * MINUTE);
    assert_refused(bench, "often", "workflow_disabled");
    assert_the_only_one_lives(bench);
    request.workflow = "missing";
    set_schedule(bench, &request);
    pass(bench, 10 * MINUTE);
    assert_int_equal(number_of(bench, "often", "refused"), 2);
    json_t *row = row_of(bench, "often");
    assert_string_equal(json_string_value(json_object_get(row, "error_code")), "workflow_not_found");
    json_decref(row);
    assert_the_only_one_lives(bench);
}

static void a_time_is_not_lost_while_its_time_zone_is_missing(void **state)
{
    struct bench *bench = *state;
    struct schedule_request request = schedule_named("zoned", 0);
    request.when = (struct recurrence_text){.cron = "10 9 * * *", .zone = "Europe/Berlin"};
    set_schedule(bench, &request);
    change(bench, "UPDATE schedules SET zone = 'No/Where'");
    start_node(bench);
    pass(bench, 11 * MINUTE);
    assert_refused(bench, "zoned", "invalid_argument");
    change(bench, "UPDATE schedules SET zone = 'Europe/Berlin'");
    pass(bench, 2 * MINUTE);
    assert_newest(bench, "zoned", "2027-01-15T08:10:00.000000Z");
    assert_int_equal(number_of(bench, "zoned", "fired"), 1);
}

static void params_with_a_nul_reach_the_execution(void **state)
{
    struct bench *bench = *state;
    struct schedule_request request = schedule_named("often", 10 * MINUTE);
    request.params = "{\"sep\": \"a\\u0000b}\", \"few\": 0.1, \"many\": 1e20 } ";
    set_schedule(bench, &request);
    request = schedule_named("empty", 10 * MINUTE);
    request.params = " { } ";
    set_schedule(bench, &request);
    start_node(bench);
    pass(bench, 10 * MINUTE);
    assert_int_equal(number_of(bench, "empty", "fired"), 1);
    assert_int_equal(number_of(bench, "often", "fired"), 1);
    size_t kept = 0;
    json_t *items = executions_of(bench, "many");
    for (size_t i = 0; i < json_array_size(items); i++) {
        json_t *shown = NULL;
        const char *id = json_string_value(json_object_get(json_array_get(items, i), "id"));
        assert_int_equal(store_show(bench->store, id, &shown, NULL), WEIR_OK);
        const json_t *params = json_object_get(shown, "params");
        assert_non_null(json_object_get(params, "scheduled_for"));
        kept += json_string_length(json_object_get(params, "sep")) == 4 ? 1 : 0;
        json_decref(shown);
    }
    json_decref(items);
    assert_int_equal(kept, 1);
}

static void a_cancel_that_fails_holds_nothing_up(void **state)
{
    struct bench *bench = *state;
    struct schedule_request request = schedule_named("cancels", 10 * MINUTE);
    start_with_waiting(bench, &request);
    request = schedule_named("others", 10 * MINUTE);
    request.overlap = OVERLAP_QUEUE_ALL;
    request.workspaces = (const char *const[]){"solo"};
    set_schedule(bench, &request);
    pass(bench, 9 * MINUTE);
    cancels_fail = true;
    int before = looks;
    pass(bench, 10 * MINUTE);
    assert_in_range(looks - before, 10, 40); /* and not again and again until it succeeds */
    assert_int_equal(number_of(bench, "cancels", "fired"), 1);
    assert_int_equal(number_of(bench, "others", "fired"), 2);
    cancels_fail = false;
    pass(bench, 2 * MINUTE);
    assert_int_equal(number_of(bench, "cancels", "fired"), 2);
}

static void hooks_that_fail_stop_no_schedule(void **state)
{
    struct bench *bench = *state;
    struct schedule_request request = schedule_named("often", 10 * MINUTE);
    set_schedule(bench, &request);
    slow_hooks = bench;
    start_node(bench);
    pass(bench, 12 * MINUTE);
    assert_int_equal(number_of(bench, "often", "fired"), 1);
}

static void an_execution_that_is_held_does_not_keep_the_others_from_their_cancels(void **state)
{
    struct bench *bench = *state;
    static const char *const both[] = {"many", "solo"};
    struct workspace_change pause = {.name = "solo", .paused = 1};
    struct schedule_request request = schedule_named("often", 10 * MINUTE);
    request.workspaces = both;
    request.workspace_count = 2;
    assert_int_equal(store_set_workspace(bench->store, &pause, NULL), WEIR_OK);
    start_with_waiting(bench, &request);
    pass(bench, 9 * MINUTE);
    assert_int_equal(number_of(bench, "often", "fired"), 2);
    first_cancel_fails = true;
    pass(bench, 10 * MINUTE);
    assert_int_equal(number_of(bench, "often", "fired"), 3);
    first_cancel_fails = false;
    pass(bench, 2 * MINUTE);
    assert_int_equal(number_of(bench, "often", "fired"), 4);
}

static void a_schedule_that_cannot_be_advanced_holds_nothing_up(void **state)
{
    struct bench *bench = *state;
    struct schedule_request request = schedule_named("large", 10 * MINUTE);
    set_schedule(bench, &request);
    request = schedule_named("small", 10 * MINUTE);
    set_schedule(bench, &request);
    failing_id = 1;
    start_node(bench);
    pass(bench, 10 * MINUTE);
    assert_refused(bench, "large", "store_busy");
    assert_int_equal(number_of(bench, "large", "fired"), 0);
    assert_int_equal(number_of(bench, "small", "fired"), 1);
    failing_id = 0;
    pass(bench, 2 * MINUTE);
    assert_int_equal(number_of(bench, "large", "fired"), 1);
}

/* The execution of 08:10 lives, and its firing waits, because settlements are lost. */
static void lose_the_settlement_of_the_first_time(struct bench *bench)
{
    struct schedule_request request = schedule_named("often", 10 * MINUTE);
    start_node(bench);
    pass(bench, 5 * SECOND);
    struct workspace_change pause = {.name = "many", .paused = 1}; /* executions wait */
    assert_int_equal(store_set_workspace(bench->store, &pause, NULL), WEIR_OK);
    set_schedule(bench, &request);
    settlements_lost = 1000;
    pass(bench, 10 * MINUTE);
    assert_int_equal(count_executions(bench, "many"), 1);
    assert_int_equal(number_of(bench, "often", "fired"), 0);
    settlements_lost = 0;
}

/* The repeated enqueue was refused. The execution wins, and the next time overlaps it. */
static void assert_the_execution_wins(struct bench *bench)
{
    pass(bench, 10 * MINUTE);
    assert_int_equal(count_executions(bench, "many"), 1);
    assert_int_equal(number_of(bench, "often", "fired"), 1);
    assert_int_equal(number_of(bench, "often", "skipped"), 1);
    assert_int_equal(number_of(bench, "often", "refused"), 0);
    assert_int_equal(bench->counts[EVENT_SCHEDULE_REFUSED], 0);
}

static void an_execution_wins_over_a_refusal_for_other_params(void **state)
{
    struct bench *bench = *state;
    lose_the_settlement_of_the_first_time(bench);
    struct schedule_request request = schedule_named("often", 10 * MINUTE);
    request.params = "{\"deep\":false}";
    set_schedule(bench, &request);
    assert_the_execution_wins(bench);
}

static void an_execution_wins_over_a_refusal_for_a_disabled_workflow(void **state)
{
    struct bench *bench = *state;
    lose_the_settlement_of_the_first_time(bench);
    assert_int_equal(store_set_workflow_state(bench->store, "plain", NULL, WORKFLOW_DISABLED, NULL), WEIR_OK);
    assert_the_execution_wins(bench);
}

static void an_execution_wins_over_a_refusal_for_a_backlog(void **state)
{
    struct bench *bench = *state;
    lose_the_settlement_of_the_first_time(bench);
    change(bench, "INSERT INTO books (lane_id, workspace_id, group_id, runnable)"
                  " SELECT 99, id, 1, 10000 FROM workspaces WHERE name = 'many'");
    assert_the_execution_wins(bench);
}

/* The firing of 08:10 is durable when the node dies. No node runs for three days. */
static void a_firing_behind_the_window_is_dropped(void **state)
{
    struct bench *bench = *state;
    struct due_schedules due = {.count = 0};
    struct arena arena;
    struct schedule_request request = schedule_named("often", 0);
    request.when.cron = "10 8 * * *";
    set_schedule(bench, &request);
    bench->now_us += 10 * MINUTE;
    arena_init(&arena, 1024 * 1024);
    assert_int_equal(store_read_due_schedules(bench->store, &arena, &due, NULL), WEIR_OK);
    struct schedule_advance advance = {.id = due.schedules[0].id,
                                       .due_us = due.schedules[0].due_us,
                                       .continues_us = TIME_NEVER,
                                       .fires_us = &due.schedules[0].due_us,
                                       .fire_count = 1,
                                       .next_us = due.schedules[0].due_us + (int64_t)24 * 60 * MINUTE};
    assert_int_equal(store_advance_schedule(bench->store, &advance, NULL), WEIR_OK);
    assert_int_equal(advance.counts.firings, 1);
    arena_close(&arena);
    bench->now_us += (int64_t)(3 * 24 - 2) * 60 * MINUTE;
    start_node(bench);
    pass(bench, 30 * SECOND);
    assert_int_equal(count_executions(bench, "many"), 0);
    assert_int_equal(number_of(bench, "often", "waiting"), 0);
    assert_int_equal(number_of(bench, "often", "dropped"), 3); /* and two later times */
    assert_int_equal(bench->counts[EVENT_SCHEDULE_DROPPED], 2);
}

/* 103 workspaces of a plan have no such workflow. */
static void each_refused_workspace_is_reported_up_to_a_bound(void **state)
{
    struct bench *bench = *state;
    struct schedule_request request = schedule_named("all", 10 * MINUTE);
    struct plan_change plan = {.name = "fleet", .max_concurrent = 1};
    assert_int_equal(store_set_plan(bench->store, &plan, NULL), WEIR_OK);
    change(bench, "INSERT INTO workspaces (name, plan, slots_max, created_at) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL"
                  " SELECT i + 1 FROM n WHERE i < 103) SELECT 'more-' || i, 'fleet', 1, 1 FROM n");
    request.workspaces = NULL;
    request.workspace_count = 0;
    request.plan = "fleet";
    request.workflow = "none";
    set_schedule(bench, &request);
    start_node(bench);
    pass(bench, 10 * MINUTE);
    assert_int_equal(number_of(bench, "all", "refused"), 103);
    assert_int_equal(bench->counts[EVENT_SCHEDULE_REFUSED], 101); /* the last one has the count of three */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_counting, close_bench)
    const struct CMUnitTest tests[] = {
        TEST(a_due_time_becomes_an_execution_with_its_time),
        TEST(without_schedules_nothing_is_asked),
        TEST(a_time_that_the_clocks_skip_fires_at_the_change),
        TEST(after_an_outage_queue_all_fires_all_times_of_the_window),
        TEST(after_an_outage_skip_fires_the_newest_time),
        TEST(after_an_outage_queue_one_fires_the_newest_time),
        TEST(after_an_outage_cancel_running_fires_the_newest_time),
        TEST(schedules_in_arrears_do_not_hold_up_one_that_is_due),
        TEST(a_lost_settlement_makes_no_second_execution),
        TEST(a_refusal_is_shown_and_others_go_on),
        TEST(cancel_running_cancels_before_it_starts),
        TEST(jitter_moves_the_time_of_the_execution),
        TEST(without_its_time_zone_a_schedule_waits_and_others_go_on),
        TEST(a_deleted_workspace_and_a_backlog_refuse_a_time),
        TEST(a_full_workspace_refuses_a_time),
        TEST(a_firing_of_a_plan_in_a_deleted_workspace_is_removed),
        TEST(a_time_that_a_backlog_refuses_cancels_nothing),
        TEST(a_time_that_the_workflow_refuses_cancels_nothing),
        TEST(a_trigger_and_a_resumption_are_noticed_at_once),
        TEST(a_time_is_not_lost_while_its_time_zone_is_missing),
        TEST(params_with_a_nul_reach_the_execution),
        TEST(a_cancel_that_fails_holds_nothing_up),
        TEST(hooks_that_fail_stop_no_schedule),
        TEST(an_execution_that_is_held_does_not_keep_the_others_from_their_cancels),
        TEST(a_schedule_that_cannot_be_advanced_holds_nothing_up),
        TEST(an_execution_wins_over_a_refusal_for_other_params),
        TEST(an_execution_wins_over_a_refusal_for_a_disabled_workflow),
        TEST(an_execution_wins_over_a_refusal_for_a_backlog),
        TEST(a_firing_behind_the_window_is_dropped),
        TEST(each_refused_workspace_is_reported_up_to_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
