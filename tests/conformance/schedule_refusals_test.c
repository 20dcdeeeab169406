/* Refused times of schedules, and the triggers that repeat them. */
#include <inttypes.h>

#include "conformance/schedule_scene.h"

static void delete_workspace(struct scene *scene, const char *name)
{
    struct deletion_result result;
    struct workspace_deletion deletion = {.name = name, .fails_waiting = true};
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &result, &scene->error));
}

/* A deletion leaves no firing, and no refusal that a set or a trigger could not end. */
static void a_deletion_takes_firings_and_refusals_of_the_workspace(void **state)
{
    struct scene *scene = *state;
    scene_workspace(scene, "pro-two", "pro");
    set_for_plan(scene, OVERLAP_QUEUE_ALL);
    (void)fire(scene);
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true(firings.firings[i].is_of_plan);
        if (strcmp(firings.firings[i].workspace, "pro-two") == 0) {
            settle(scene, &firings.firings[i], NULL);
        }
    }
    (void)fire(scene);
    json_t *row = row_of(scene, "all");
    assert_true(json_is_true(json_object_get(row, "is_refused")));
    assert_int_equal(json_number_at(row, "waiting"), 3);
    json_decref(row);
    delete_workspace(scene, "pro-two");
    row = row_of(scene, "all");
    assert_true(json_is_false(json_object_get(row, "is_refused")));
    assert_int_equal(json_number_at(row, "waiting"), 2);
    json_decref(row);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_firings"), 2);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_refusals"), 0);
}

/* As one that was inserted while another transaction deleted its workspace. */
static void a_firing_without_a_count_is_removed(void **state)
{
    struct scene *scene = *state;
    set_for_plan(scene, OVERLAP_SKIP);
    (void)fire(scene);
    struct schedule_firing firing = read_firings(scene).firings[0];
    struct schedule_outcome outcome = {
        .schedule_id = firing.schedule_id, .workspace_id = firing.workspace_id, .due_us = firing.due_us};
    scene_ok(scene, store_settle_schedule_firings(scene->store, &outcome, 1, &scene->error));
    json_t *row = row_of(scene, "all");
    assert_int_equal(json_number_at(row, "waiting"), 0);
    assert_int_equal(json_number_at(row, "refused"), 0);
    assert_int_equal(json_number_at(row, "dropped"), 0);
    assert_true(json_is_false(json_object_get(row, "is_refused")));
    json_decref(row);
}

static struct schedule_request schedule_of_two(void)
{
    static const char *const both[] = {"pro-co", "big-co"};
    struct schedule_request request = schedule_named("often");
    request.workspaces = both;
    request.workspace_count = 2;
    return request;
}

/* With the key of its time, as the duty does. */
static void start_firing(struct scene *scene, const struct schedule_firing *firing)
{
    char key[SCHEDULE_KEY_MAX];
    schedule_key(firing->schedule, firing->due_us, key);
    struct enqueue_request request = {.workspace = firing->workspace,
                                      .workflow = "hello",
                                      .idempotency_key = key,
                                      .has_reserved_key = true,
                                      .id = firing->planned_id};
    struct enqueue_result result = scene_try(scene, &request);
    assert_int_equal(result.status, WEIR_OK);
    settle(scene, firing, result.id);
}

/* Fires in both workspaces; big-co refuses. Returns the time. */
static int64_t refuse_in_big_co(struct scene *scene)
{
    int64_t due_us = fire(scene).due_us;
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 2);
    for (size_t i = 0; i < 2; i++) {
        if (strcmp(firings.firings[i].workspace, "big-co") == 0) {
            settle(scene, &firings.firings[i], NULL);
        } else {
            start_firing(scene, &firings.firings[i]);
        }
    }
    return due_us;
}

static bool is_refused(struct scene *scene)
{
    json_t *row = row_of(scene, "often");
    bool refused = json_is_true(json_object_get(row, "is_refused"));
    assert_true(refused == !json_is_null(json_object_get(row, "refused_due_at")));
    json_decref(row);
    return refused;
}

static void a_set_ends_the_refusals_of_workspaces_that_it_removes(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_of_two();
    set_schedule(scene, &request);
    (void)refuse_in_big_co(scene);
    request = schedule_named("often");
    set_schedule(scene, &request); /* of pro-co alone */
    json_t *row = row_of(scene, "often");
    assert_true(json_is_false(json_object_get(row, "is_refused")));
    assert_true(json_is_null(json_object_get(row, "error_code")));
    json_decref(row);
}

static struct schedule_counts trigger_at(struct scene *scene, int64_t at_us, const char *const *workspaces, size_t count)
{
    struct schedule_counts counts = {0};
    struct schedule_trigger trigger = {.name = "often", .at_us = at_us, .workspaces = workspaces, .workspace_count = count};
    scene_ok(scene, store_schedule_trigger(scene->store, &trigger, &counts, &scene->error));
    return counts;
}

static void a_trigger_for_a_time_starts_where_it_was_refused(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_of_two();
    set_schedule(scene, &request);
    int64_t due_us = refuse_in_big_co(scene);
    assert_true(is_refused(scene));
    end_running(scene);
    json_decref(scene_rows(scene, "DELETE FROM schedule_firings")); /* the key alone remains of the execution */
    struct schedule_counts counts = trigger_at(scene, due_us, NULL, 0);
    assert_int_equal(counts.firings, 1);
    assert_int_equal(counts.existing, 0);
    assert_int_equal(counts.skipped, 0);
    counts = trigger_at(scene, due_us, NULL, 0); /* a repetition */
    assert_int_equal(counts.firings, 0);
    assert_int_equal(counts.existing, 1);
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 1);
    assert_string_equal(firings.firings[0].workspace, "big-co");
    assert_int_equal(firings.firings[0].due_us, due_us);
    assert_true(is_refused(scene));
    start_firing(scene, &firings.firings[0]);
    assert_false(is_refused(scene));
    counts = trigger_at(scene, due_us, NULL, 0); /* nothing is refused */
    assert_int_equal(counts.firings + counts.existing, 0);
    counts = trigger_at(scene, due_us, (const char *const[]){"pro-co", "big-co"}, 2);
    assert_int_equal(counts.firings, 0);
    assert_int_equal(counts.existing, 2);
}

/* Not one that was skipped at that time. */
static void a_trigger_for_a_time_leaves_out_what_was_not_refused(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_of_two();
    set_schedule(scene, &request);
    (void)refuse_in_big_co(scene);
    int64_t due_us = fire(scene).due_us; /* skipped in pro-co */
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 1);
    settle(scene, &firings.firings[0], NULL);
    end_running(scene);
    struct schedule_counts counts = trigger_at(scene, due_us, NULL, 0);
    assert_int_equal(counts.firings, 1);
    assert_int_equal(counts.existing, 0);
    assert_string_equal(read_firings(scene).firings[0].workspace, "big-co");
    counts = trigger_at(scene, due_us - SECONDS(3), NULL, 0); /* no time of the schedule */
    assert_int_equal(counts.firings, 0);
    counts = trigger_at(scene, due_us, (const char *const[]){"pro-co"}, 1); /* unless it is named */
    assert_int_equal(counts.firings, 1);
}

static void a_trigger_for_a_time_leaves_out_what_has_the_plan_since(void **state)
{
    struct scene *scene = *state;
    set_for_plan(scene, OVERLAP_SKIP);
    struct schedule_trigger trigger = {.name = "all", .at_us = fire(scene).due_us};
    struct schedule_counts counts = {0};
    settle(scene, &read_firings(scene).firings[0], NULL);
    scene_workspace(scene, "pro-two", "pro");
    scene_ok(scene, store_schedule_trigger(scene->store, &trigger, &counts, &scene->error));
    assert_int_equal(counts.firings, 1);
    assert_string_equal(read_firings(scene).firings[0].workspace, "pro-co");
}

/* With cancel_running the newest time counts, whether it waits or runs. */
static void a_trigger_for_a_time_replaces_no_later_one(void **state)
{
    static const char *const only[] = {"pro-co"};
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    request.overlap = OVERLAP_CANCEL_RUNNING;
    set_schedule(scene, &request);
    int64_t due_us = fire(scene).due_us;
    settle(scene, &read_firings(scene).firings[0], NULL);
    int64_t later_us = fire(scene).due_us;
    for (int i = 0; i < 2; i++) {
        struct schedule_counts counts = trigger_at(scene, due_us, only, 1);
        assert_int_equal(counts.firings, 0);
        assert_int_equal(counts.skipped, 1);
        struct schedule_firings firings = read_firings(scene);
        assert_int_equal(firings.count, i == 0 ? 1 : 0);
        if (i == 0) {
            assert_int_equal(firings.firings[0].due_us, later_us);
            (void)start(scene);
        }
    }
}

/* With the planned id, as a node whose settlement is lost. */
static void start_without_settlement(struct scene *scene)
{
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 1);
    struct enqueue_request request = {
        .workspace = firings.firings[0].workspace, .workflow = "hello", .id = firings.firings[0].planned_id};
    assert_int_equal(scene_try(scene, &request).status, WEIR_OK);
}

/* A change finds the executions of lost settlements. They end a refusal as a settlement does. */
static void an_execution_with_a_lost_settlement_ends_the_refusal(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    for (int later = 0; later < 2; later++) {
        struct schedule_advance refused = fire(scene);
        int64_t due_us = refused.due_us;
        settle(scene, &read_firings(scene).firings[0], NULL);
        if (later == 0) {
            assert_int_equal(trigger_at(scene, due_us, NULL, 0).firings, 1);
        } else {
            (void)fire(scene);
        }
        start_without_settlement(scene);
        assert_true(is_refused(scene));
        scene_ok(scene, store_schedule_pause(scene->store, "often", true, &scene->error));
        assert_false(is_refused(scene));
        scene_ok(scene, store_schedule_pause(scene->store, "often", false, &scene->error));
        end_running(scene);
        scene_pass(scene, 1);
        struct due_schedule due = await_due(scene);
        struct schedule_advance advance = advance_of(&due, due.due_us + EVERY_US);
        scene_ok(scene, store_advance_schedule(scene->store, &advance, &scene->error));
    }
}

static void a_refusal_stays_until_a_later_time_has_settled_everywhere(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_of_two();
    set_schedule(scene, &request);
    int64_t due_us = refuse_in_big_co(scene);
    set_schedule(scene, &request); /* mends nothing by itself */
    assert_true(is_refused(scene));
    end_running(scene);
    (void)refuse_in_big_co(scene); /* the other workspace succeeds */
    assert_true(is_refused(scene));
    end_running(scene);
    scene_pass(scene, 1);
    (void)trigger_at(scene, 0, (const char *const[]){"pro-co"}, 1); /* no time of the schedule */
    (void)start(scene);
    assert_true(is_refused(scene));
    end_running(scene);
    (void)fire(scene);
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 2);
    start_firing(scene, &firings.firings[0]);
    assert_true(is_refused(scene));
    start_firing(scene, &firings.firings[1]);
    assert_false(is_refused(scene));
    assert_int_equal(number_of(scene, "often", "refused"), 2);
    assert_int_equal(trigger_at(scene, due_us, (const char *const[]){"pro-co"}, 1).existing, 1);
    scene_ok(scene, store_schedule_delete(scene->store, "often", &scene->error));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_refusals"), 0);
}

static void a_trigger_in_one_workspace_leaves_the_others_alone(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_of_two();
    request.overlap = OVERLAP_CANCEL_RUNNING;
    set_schedule(scene, &request);
    int64_t due_us = fire(scene).due_us;
    scene_pass(scene, 1);
    struct schedule_counts counts = trigger_at(scene, 0, (const char *const[]){"big-co"}, 1);
    assert_int_equal(counts.firings, 1);
    assert_int_equal(counts.skipped, 1); /* the one that waited there */
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true((firings.firings[i].due_us == due_us) == (strcmp(firings.firings[i].workspace, "pro-co") == 0));
    }
}

static void refuses_trigger(struct scene *scene, const struct schedule_trigger *trigger, enum weir_status wanted)
{
    struct schedule_counts counts;
    if (wanted != WEIR_ILLEGAL_STATE) { /* which ends by itself */
        assert_int_equal(store_schedule_trigger_check(scene->store, trigger, &scene->error), wanted);
    }
    assert_int_equal(store_schedule_trigger(scene->store, trigger, &counts, &scene->error), wanted);
    assert_true(scene->error.hint[0] != '\0' || wanted == WEIR_INVALID_ARGUMENT);
}

static void wrong_triggers_are_refused_and_change_nothing(void **state)
{
    struct scene *scene = *state;
    const char *names[SCHEDULE_WORKSPACES_MOST + 1];
    for (size_t i = 0; i <= SCHEDULE_WORKSPACES_MOST; i++) {
        names[i] = "pro-co";
    }
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    struct schedule_trigger trigger = {.name = "often", .workspaces = names, .workspace_count = 2};
    refuses_trigger(scene, &trigger, WEIR_INVALID_ARGUMENT);
    trigger.workspace_count = SCHEDULE_WORKSPACES_MOST + 1;
    refuses_trigger(scene, &trigger, WEIR_INVALID_ARGUMENT);
    trigger.workspace_count = 1;
    names[0] = "nobody";
    refuses_trigger(scene, &trigger, WEIR_WORKSPACE_NOT_FOUND);
    names[1] = "missing";
    trigger.workspace_count = 2;
    refuses_trigger(scene, &trigger, WEIR_WORKSPACE_NOT_FOUND);
    assert_non_null(strstr(scene->error.message, "nobody")); /* the first of two */
    trigger.workspace_count = 1;
    names[0] = "big-co";
    refuses_trigger(scene, &trigger, WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(scene->error.message, "big-co"));
    trigger = (struct schedule_trigger){.name = "often", .at_us = await_due(scene).due_us + SECONDS(100)};
    refuses_trigger(scene, &trigger, WEIR_INVALID_ARGUMENT);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_firings"), 0);
    set_for_plan(scene, OVERLAP_SKIP);
    trigger = (struct schedule_trigger){.name = "all", .workspaces = names, .workspace_count = 1};
    refuses_trigger(scene, &trigger, WEIR_INVALID_ARGUMENT); /* it has another plan */
    names[0] = "pro-co";
    scene_ok(scene, store_schedule_trigger_check(scene->store, &trigger, &scene->error));
    trigger.name = "none";
    refuses_trigger(scene, &trigger, WEIR_NOT_FOUND);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_firings"), 0);
}

static void a_trigger_of_a_large_plan_comes_in_parts(void **state)
{
    struct scene *scene = *state;
    struct schedule_counts counts = {0};
    const struct schedule_trigger trigger = {.name = "all"};
    add_workspaces(scene, SCHEDULE_PART_MOST + 3); /* beside pro-co */
    set_for_plan(scene, OVERLAP_SKIP);
    scene_ok(scene, store_schedule_pause(scene->store, "all", true, &scene->error));
    scene_ok(scene, store_schedule_trigger(scene->store, &trigger, &counts, &scene->error));
    assert_int_equal(counts.firings, SCHEDULE_PART_MOST);
    assert_int_equal(counts.rest, 4);
    refuses_trigger(scene, &trigger, WEIR_ILLEGAL_STATE);
    scene_ok(scene, store_schedule_pause(scene->store, "all", true, &scene->error)); /* does not end a trigger */
    struct due_schedules due = read_due(scene);
    assert_int_equal(due.count, 1);
    struct schedule_advance advance = advance_of(&due.schedules[0], due.schedules[0].due_us);
    scene_ok(scene, store_advance_schedule(scene->store, &advance, &scene->error));
    assert_int_equal(advance.counts.firings, 4);
    assert_int_equal(read_due(scene).count, 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_firings"), SCHEDULE_PART_MOST + 4);
}

/* All of them were refused. Also in its further parts a workspace with an execution of the time is left out. */
static void a_repeated_trigger_of_a_large_plan_starts_nothing_twice(void **state)
{
    struct scene *scene = *state;
    struct schedule_counts counts = {0};
    char key[IDEMPOTENCY_KEY_MAX];
    char time[TIME_TEXT_MAX];
    char last[32];
    char sql[256];
    const struct schedule_trigger trigger = {.name = "all", .at_us = scene_now(scene) - SECONDS(60)};
    add_workspaces(scene, SCHEDULE_PART_MOST + 3); /* beside pro-co */
    (void)snprintf(last, sizeof last, "more-%d", SCHEDULE_PART_MOST + 3);
    set_for_plan(scene, OVERLAP_SKIP);
    time_format(trigger.at_us, time);
    (void)snprintf(key, sizeof key, "schedule/all/%s", time);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO schedule_refusals (schedule_id, due_at, workspace_id) SELECT s.id, %" PRId64
                   ", w.id FROM schedules s JOIN workspaces w ON w.plan = s.plan",
                   trigger.at_us);
    json_decref(scene_rows(scene, sql));
    scene_workspace(scene, "pro-two", "pro"); /* behind all of them, and it was not refused */
    struct enqueue_request request = {
        .workspace = last, .workflow = "hello", .idempotency_key = key, .has_reserved_key = true};
    (void)scene_enqueue_request(scene, &request);
    scene_ok(scene, store_schedule_trigger(scene->store, &trigger, &counts, &scene->error));
    assert_int_equal(counts.firings, SCHEDULE_PART_MOST);
    assert_int_equal(counts.rest, 4);
    struct due_schedules due = read_due(scene);
    assert_int_equal(due.count, 1);
    struct schedule_advance advance = advance_of(&due.schedules[0], due.schedules[0].due_us);
    scene_ok(scene, store_advance_schedule(scene->store, &advance, &scene->error));
    assert_int_equal(advance.counts.firings, 3);
    assert_int_equal(advance.counts.rest, 0);
    assert_int_equal(advance.counts.skipped, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_deletion_takes_firings_and_refusals_of_the_workspace),
        SCENE_TEST(a_firing_without_a_count_is_removed),
        SCENE_TEST(a_set_ends_the_refusals_of_workspaces_that_it_removes),
        SCENE_TEST(a_trigger_for_a_time_starts_where_it_was_refused),
        SCENE_TEST(a_trigger_for_a_time_leaves_out_what_was_not_refused),
        SCENE_TEST(a_trigger_for_a_time_leaves_out_what_has_the_plan_since),
        SCENE_TEST(a_trigger_for_a_time_replaces_no_later_one),
        SCENE_TEST(an_execution_with_a_lost_settlement_ends_the_refusal),
        SCENE_TEST(a_refusal_stays_until_a_later_time_has_settled_everywhere),
        SCENE_TEST(a_trigger_in_one_workspace_leaves_the_others_alone),
        SCENE_TEST(wrong_triggers_are_refused_and_change_nothing),
        SCENE_TEST(a_trigger_of_a_large_plan_comes_in_parts),
        SCENE_TEST(a_repeated_trigger_of_a_large_plan_starts_nothing_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
