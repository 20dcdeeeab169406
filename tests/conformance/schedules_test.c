/* Schedules: what is accepted, when a schedule is due, which firings the overlap policies let through, and what becomes of
 * them. */
#include "conformance/scene.h"
#include "store/driver.h"

#define EVERY_US SECONDS(10)

static struct schedule_request schedule_named(const char *name)
{
    static const char *const workspaces[] = {"pro-co"};
    return (struct schedule_request){
        .name = name, .when.every_us = EVERY_US, .workflow = "hello", .workspaces = workspaces, .workspace_count = 1};
}

static void set_schedule(struct scene *scene, const struct schedule_request *request)
{
    scene_ok(scene, store_schedule_set(scene->store, request, NULL, &scene->error));
}

static void refuses(struct scene *scene, const struct schedule_request *request, enum weir_status wanted)
{
    assert_int_equal(store_schedule_set(scene->store, request, NULL, &scene->error), wanted);
}

static struct due_schedules read_due(struct scene *scene)
{
    struct due_schedules due = {.count = 0};
    scene_ok(scene, store_read_due_schedules(scene->store, &scene->arena, &due, &scene->error));
    return due;
}

static struct schedule_firings read_firings(struct scene *scene)
{
    struct schedule_firings firings = {.count = 0};
    scene_ok(scene, store_read_schedule_firings(scene->store, &scene->arena, &firings, &scene->error));
    return firings;
}

/* The row of LIST_SCHEDULES; the caller releases it. */
static json_t *row_of(struct scene *scene, const char *name)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_SCHEDULES, .name = name};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
    json_t *row = json_incref(json_array_get(json_object_get(page, "items"), 0));
    json_decref(page);
    return row;
}

static json_int_t number_of(struct scene *scene, const char *name, const char *key)
{
    json_t *row = row_of(scene, name);
    json_int_t number = json_number_at(row, key);
    json_decref(row);
    return number;
}

/* Lets time pass until the schedule is due. */
static struct due_schedule await_due(struct scene *scene)
{
    struct due_schedules due = read_due(scene);
    if (due.count == 0) {
        assert_int_not_equal(due.next_due_us, TIME_NEVER);
        scene_pass(scene, due.next_due_us - due.now_us);
        scene_beat(scene, scene->node);
        due = read_due(scene);
    }
    assert_int_equal(due.count, 1);
    return due.schedules[0];
}

/* An advance in which no time fires. */
static struct schedule_advance advance_of(const struct due_schedule *due, int64_t next_us)
{
    return (struct schedule_advance){
        .id = due->id, .due_us = due->due_us, .continues_us = due->expands_us, .next_us = next_us};
}

/* Fires the due time, as the duty does. `fires_us` lives until the next call. */
static struct schedule_advance fire(struct scene *scene)
{
    static int64_t fires_us;
    struct due_schedule due = await_due(scene);
    struct schedule_advance advance = advance_of(&due, due.due_us + EVERY_US);
    fires_us = due.due_us;
    advance.fires_us = &fires_us;
    advance.fire_count = 1;
    scene_ok(scene, store_advance_schedule(scene->store, &advance, &scene->error));
    assert_true(advance.is_done);
    return advance;
}

static void settle(struct scene *scene, const struct schedule_firing *firing, const char *execution_id)
{
    struct schedule_outcome outcome = {.schedule_id = firing->schedule_id,
                                       .workspace_id = firing->workspace_id,
                                       .due_us = firing->due_us,
                                       .execution_id = execution_id,
                                       .error_code = execution_id == NULL ? "workflow_not_found" : NULL,
                                       .error = execution_id == NULL ? "there is no such workflow" : NULL};
    scene_ok(scene, store_settle_schedule_firings(scene->store, &outcome, 1, &scene->error));
}

/* Enqueues the only firing that may start. */
static const char *start(struct scene *scene)
{
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 1);
    assert_string_equal(firings.firings[0].cancels_id, "");
    const char *id = scene_enqueue(scene, firings.firings[0].workspace);
    settle(scene, &firings.firings[0], id);
    return id;
}

static void end_running(struct scene *scene)
{
    struct claim_result claim = scene_claim(scene, 10);
    assert_int_not_equal(claim.count, 0);
    scene_complete(scene, &claim);
}

/* --- set --- */

static void a_schedule_is_listed_with_all_that_was_set(void **state)
{
    struct scene *scene = *state;
    const char *const workspaces[] = {"pro-co", "big-co"};
    bool is_new = false;
    struct schedule_request request = {.name = "nightly",
                                       .when = {.cron = "30 4 * * mon-fri", .zone = "Europe/Berlin"},
                                       .jitter_us = SECONDS(300),
                                       .workflow = "hello",
                                       .params = "{\"deep\":true}",
                                       .workspaces = workspaces,
                                       .workspace_count = 2,
                                       .overlap = OVERLAP_QUEUE_ONE};
    scene_ok(scene, store_schedule_set(scene->store, &request, &is_new, &scene->error));
    assert_true(is_new);
    json_t *row = row_of(scene, "nightly");
    assert_string_equal(json_text_at(row, "cron"), "30 4 * * mon-fri");
    assert_string_equal(json_text_at(row, "zone"), "Europe/Berlin");
    assert_true(json_is_null(json_object_get(row, "every_us")));
    assert_int_equal(json_number_at(row, "jitter_us"), SECONDS(300));
    assert_int_equal(json_number_at(row, "catch_up_us"), SECONDS(3600));
    assert_string_equal(json_text_at(row, "workflow"), "hello");
    assert_true(json_is_true(json_object_get(json_object_get(row, "params"), "deep")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(row, "workspaces"), 1)), "big-co");
    assert_string_equal(json_text_at(row, "overlap"), "queue_one");
    assert_true(json_is_false(json_object_get(row, "paused")));
    assert_true(json_is_false(json_object_get(row, "is_refused")));
    assert_non_null(json_text_at(row, "next_at"));
    assert_true(json_is_null(json_object_get(row, "last_at")));
    json_decref(row);
    request = (struct schedule_request){
        .name = "nightly", .when.every_us = EVERY_US, .workflow = "hello", .plan = "pro", .overlap = OVERLAP_SKIP};
    scene_ok(scene, store_schedule_set(scene->store, &request, &is_new, &scene->error));
    assert_false(is_new);
    row = row_of(scene, "nightly");
    assert_int_equal(json_number_at(row, "every_us"), EVERY_US);
    assert_string_equal(json_text_at(row, "plan"), "pro");
    assert_true(json_is_null(json_object_get(row, "cron")) && json_is_null(json_object_get(row, "workspaces")));
    json_decref(row);
}

static void wrong_requests_are_refused_and_change_nothing(void **state)
{
    struct scene *scene = *state;
    static const char *const unknown[] = {"pro-co", "nobody"};
    static const char *const twice[] = {"pro-co", "pro-co"};
    static const char *const bad_names[] = {"", "-a", "A", "a b", "a/", "/a", "a/b/c", "a/-b"};
    struct schedule_request good = schedule_named("good");
    struct schedule_request bad = good;
    for (size_t i = 0; i < sizeof bad_names / sizeof bad_names[0]; i++) {
        bad.name = bad_names[i];
        refuses(scene, &bad, WEIR_INVALID_ARGUMENT);
    }
    bad = good, bad.when.cron = "* * * * *";
    refuses(scene, &bad, WEIR_INVALID_ARGUMENT);
    bad = good, bad.when = (struct recurrence_text){.cron = "61 * * * *"};
    refuses(scene, &bad, WEIR_INVALID_ARGUMENT);
    bad = good, bad.when = (struct recurrence_text){.cron = "* * * * *", .zone = "Mars/Olympus"};
    refuses(scene, &bad, WEIR_INVALID_ARGUMENT);
    bad = good, bad.when.every_us = 1;
    refuses(scene, &bad, WEIR_INVALID_ARGUMENT);
    bad = good, bad.when.until_us = SECONDS(1);
    refuses(scene, &bad, WEIR_INVALID_ARGUMENT);
    bad = good, bad.jitter_us = -1;
    refuses(scene, &bad, WEIR_INVALID_ARGUMENT);
    bad = good, bad.catch_up_us = SECONDS(1);
    refuses(scene, &bad, WEIR_INVALID_ARGUMENT);
    bad = good, bad.params = "{\"scheduled_for\":1}";
    refuses(scene, &bad, WEIR_INVALID_PARAMS);
    bad = good, bad.params = "[]";
    refuses(scene, &bad, WEIR_INVALID_PARAMS);
    bad = good, bad.plan = "pro";
    refuses(scene, &bad, WEIR_INVALID_ARGUMENT);
    bad = good, bad.workspaces = NULL, bad.workspace_count = 0;
    refuses(scene, &bad, WEIR_INVALID_ARGUMENT);
    bad.plan = "none";
    refuses(scene, &bad, WEIR_PLAN_NOT_FOUND);
    bad = good, bad.workspaces = twice, bad.workspace_count = 2;
    refuses(scene, &bad, WEIR_INVALID_ARGUMENT);
    bad = good, bad.workspaces = unknown, bad.workspace_count = 2;
    refuses(scene, &bad, WEIR_WORKSPACE_NOT_FOUND);
    assert_non_null(strstr(scene->error.message, "nobody"));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedules"), 0);
}

static void acts_on_an_unknown_schedule_name_the_nearest(void **state)
{
    struct scene *scene = *state;
    struct schedule_counts counts;
    struct schedule_request request = schedule_named("nightly");
    set_schedule(scene, &request);
    assert_int_equal(store_schedule_pause(scene->store, "nighty", true, &scene->error), WEIR_NOT_FOUND);
    assert_non_null(strstr(scene->error.hint, "nightly"));
    assert_int_equal(store_schedule_delete(scene->store, "nighty", &scene->error), WEIR_NOT_FOUND);
    assert_int_equal(store_schedule_trigger(scene->store, "nighty", &counts, &scene->error), WEIR_NOT_FOUND);
}

static void keys_of_schedules_are_reserved(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {.workspace = "pro-co", .workflow = "hello", .idempotency_key = "schedule/x/1"};
    struct enqueue_result result = scene_try(scene, &request);
    assert_int_equal(result.status, WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(result.error.message, "schedules"));
    request.has_reserved_key = true;
    assert_int_equal(scene_try(scene, &request).status, WEIR_OK);
}

static void acts_go_on_record(void **state)
{
    struct scene *scene = *state;
    struct schedule_counts counts;
    struct schedule_request request = schedule_named("nightly");
    scene_ok(scene, store_act_as(scene->store, "ann", "season", &scene->error));
    set_schedule(scene, &request);
    scene_ok(scene, store_schedule_pause(scene->store, "nightly", true, &scene->error));
    scene_ok(scene, store_schedule_trigger(scene->store, "nightly", &counts, &scene->error));
    scene_ok(scene, store_schedule_pause(scene->store, "nightly", false, &scene->error));
    scene_ok(scene, store_schedule_delete(scene->store, "nightly", &scene->error));
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_AUDIT, .limit = 10};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    static const char *const acts[] = {"schedule delete", "schedule resume", "schedule trigger", "schedule pause",
                                       "schedule set"};
    json_t *items = json_object_get(page, "items");
    assert_int_equal(json_array_size(items), 5);
    for (size_t i = 0; i < 5; i++) {
        json_t *act = json_array_get(items, i);
        assert_string_equal(json_text_at(act, "act"), acts[i]);
        assert_string_equal(json_text_at(act, "subject"), "nightly");
    }
    json_t *after = json_object_get(json_array_get(items, 4), "after");
    assert_int_equal(json_number_at(after, "every_us"), EVERY_US);
    assert_string_equal(json_text_at(after, "params"), "{}");
    json_decref(page);
}

/* --- due times --- */

static void only_due_schedules_are_read_and_the_next_time_is_named(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(read_due(scene).next_due_us, TIME_NEVER);
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    struct due_schedules due = read_due(scene);
    assert_int_equal(due.count, 0);
    assert_true(due.next_due_us > due.now_us && due.next_due_us <= due.now_us + EVERY_US);
    assert_int_equal(due.next_due_us % EVERY_US, 0);
    scene_pass(scene, due.next_due_us - due.now_us - 1);
    assert_int_equal(read_due(scene).count, 0);
    scene_pass(scene, 1);
    assert_int_equal(read_due(scene).count, 1);
    assert_string_equal(read_due(scene).schedules[0].name, "often");
    assert_int_equal(read_due(scene).schedules[0].when.every_us, EVERY_US);
}

static void a_due_time_fires_once_whoever_advances_it(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    struct schedule_advance advance = fire(scene);
    assert_int_equal(advance.counts.firings, 1);
    struct schedule_advance late = advance;
    late.is_done = false;
    scene_ok(scene, store_advance_schedule(scene->store, &late, &scene->error));
    assert_false(late.is_done);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_firings"), 1);
    assert_true(read_due(scene).firings_wait);
    const char *id = start(scene);
    assert_false(read_due(scene).firings_wait);
    json_t *row = row_of(scene, "often");
    assert_int_equal(json_number_at(row, "fired"), 1);
    assert_string_equal(json_text_at(row, "last_execution_id"), id);
    assert_non_null(json_text_at(row, "last_at"));
    json_decref(row);
}

static void the_last_time_leaves_none(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    struct due_schedule due = await_due(scene);
    struct schedule_advance advance = advance_of(&due, TIME_NEVER);
    advance.dropped = 7;
    scene_ok(scene, store_advance_schedule(scene->store, &advance, &scene->error));
    assert_int_equal(read_due(scene).next_due_us, TIME_NEVER);
    assert_int_equal(number_of(scene, "often", "dropped"), 7);
    assert_false(read_due(scene).firings_wait);
}

static void a_paused_schedule_is_not_due_and_resumes_behind_the_pause(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    scene_ok(scene, store_schedule_pause(scene->store, "often", true, &scene->error));
    scene_pass(scene, 10 * EVERY_US);
    assert_int_equal(read_due(scene).count, 0);
    assert_int_equal(read_due(scene).next_due_us, TIME_NEVER);
    set_schedule(scene, &request); /* stays paused */
    assert_int_equal(read_due(scene).count, 0);
    scene_ok(scene, store_schedule_pause(scene->store, "often", false, &scene->error));
    assert_int_equal(read_due(scene).count, 1);
    assert_true(read_due(scene).schedules[0].due_us >= read_due(scene).now_us - SECONDS(1));
    scene_ok(scene, store_schedule_pause(scene->store, "often", false, &scene->error)); /* of one that is not paused */
    int64_t due_us = read_due(scene).schedules[0].due_us;
    scene_pass(scene, EVERY_US);
    scene_ok(scene, store_schedule_pause(scene->store, "often", false, &scene->error));
    assert_int_equal(read_due(scene).schedules[0].due_us, due_us);
}

static void a_set_with_the_same_times_keeps_the_due_time(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    int64_t due_us = await_due(scene).due_us;
    request.workflow = "other";
    set_schedule(scene, &request);
    assert_int_equal(await_due(scene).due_us, due_us);
    request.when.every_us = 2 * EVERY_US;
    set_schedule(scene, &request);
    assert_int_equal(read_due(scene).count, 0);
}

static void an_error_of_the_times_is_shown(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    struct due_schedule due = await_due(scene);
    struct schedule_advance advance = advance_of(&due, due.due_us + SECONDS(60));
    advance.error_code = "failed";
    advance.error = "the time zone is missing";
    scene_ok(scene, store_advance_schedule(scene->store, &advance, &scene->error));
    json_t *row = row_of(scene, "often");
    assert_string_equal(json_text_at(row, "error"), "the time zone is missing");
    assert_true(json_is_true(json_object_get(row, "is_refused")));
    assert_int_equal(json_number_at(row, "refused"), 0);
    json_decref(row);
    set_schedule(scene, &request);
    row = row_of(scene, "often");
    assert_true(json_is_null(json_object_get(row, "error")));
    json_decref(row);
}

/* --- overlap --- */

static void skip_leaves_out_what_overlaps(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    assert_int_equal(fire(scene).counts.firings, 1);
    assert_int_equal(fire(scene).counts.skipped, 1); /* the first one waits to be enqueued */
    (void)start(scene);
    assert_int_equal(fire(scene).counts.skipped, 1); /* its execution lives */
    end_running(scene);
    struct schedule_advance advance = fire(scene);
    assert_int_equal(advance.counts.firings, 1);
    assert_int_equal(advance.counts.skipped, 0);
    (void)start(scene);
    assert_int_equal(number_of(scene, "often", "skipped"), 2);
    assert_int_equal(number_of(scene, "often", "fired"), 2);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_firings"), 1);
}

static void queue_one_waits_for_the_end_and_only_one_waits(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    request.overlap = OVERLAP_QUEUE_ONE;
    set_schedule(scene, &request);
    (void)fire(scene);
    (void)start(scene);
    assert_int_equal(fire(scene).counts.firings, 1);
    assert_int_equal(fire(scene).counts.skipped, 1);
    assert_int_equal(read_firings(scene).count, 0);
    assert_int_equal(number_of(scene, "often", "waiting"), 1);
    end_running(scene);
    (void)start(scene);
    assert_int_equal(read_firings(scene).count, 0);
    assert_int_equal(number_of(scene, "often", "waiting"), 0);
}

static void queue_all_goes_on_in_the_order_of_times(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    request.overlap = OVERLAP_QUEUE_ALL;
    set_schedule(scene, &request);
    int64_t times[3];
    for (int i = 0; i < 3; i++) {
        times[i] = *fire(scene).fires_us;
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read_firings(scene).firings[0].due_us, times[i]);
        (void)start(scene);
        assert_int_equal(read_firings(scene).count, 0);
        end_running(scene);
    }
    json_decref(scene_rows(scene, "DELETE FROM schedule_firings"));
    for (int i = 0; i < SCHEDULE_FIRINGS_MOST; i++) { /* the bound; triggers need no time to pass but a microsecond */
        struct schedule_counts counts = {0};
        scene_pass(scene, 1);
        scene_ok(scene, store_schedule_trigger(scene->store, "often", &counts, &scene->error));
        assert_int_equal(counts.firings, 1);
    }
    struct schedule_counts counts = {0};
    scene_pass(scene, 1);
    scene_ok(scene, store_schedule_trigger(scene->store, "often", &counts, &scene->error));
    assert_int_equal(counts.firings, 0);
    assert_int_equal(counts.skipped, 1);
}

static void cancel_running_names_the_execution_to_cancel_and_keeps_the_newest(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    request.overlap = OVERLAP_CANCEL_RUNNING;
    set_schedule(scene, &request);
    (void)fire(scene);
    const char *id = start(scene);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    (void)fire(scene);
    struct schedule_advance newest = fire(scene);
    assert_int_equal(newest.counts.firings, 1);
    assert_int_equal(newest.counts.skipped, 1);
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 1);
    assert_string_equal(firings.firings[0].cancels_id, id);
    assert_int_equal(firings.firings[0].due_us, *newest.fires_us);
    struct bulk_result result = {0};
    struct execution_filter filter = {.id = id};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 1, &result, &scene->error));
    assert_int_equal(read_firings(scene).count, 0); /* requested once */
    assert_int_equal(scene_record(scene, RECORD_CANCELLED, &item), WEIR_OK);
    (void)start(scene);
}

static void workspaces_do_not_wait_for_each_other(void **state)
{
    struct scene *scene = *state;
    static const char *const workspaces[] = {"pro-co", "big-co"};
    struct schedule_request request = schedule_named("often");
    request.workspaces = workspaces;
    request.workspace_count = 2;
    set_schedule(scene, &request);
    assert_int_equal(fire(scene).counts.firings, 2);
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 2);
    for (size_t i = 0; i < 2; i++) {
        settle(scene, &firings.firings[i], scene_enqueue(scene, firings.firings[i].workspace));
    }
    struct claimed_item item = {0};
    struct claim_result claim = scene_claim(scene, 10);
    for (size_t i = 0; i < claim.count; i++) {
        item = strcmp(claim.items[i].workspace, "big-co") == 0 ? claim.items[i] : item;
    }
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    struct schedule_advance advance = fire(scene);
    assert_int_equal(advance.counts.firings, 1);
    assert_int_equal(advance.counts.skipped, 1);
    assert_string_equal(read_firings(scene).firings[0].workspace, "big-co");
}

/* --- firings --- */

static void set_for_plan(struct scene *scene, enum schedule_overlap overlap)
{
    struct schedule_request request = schedule_named("all");
    request.workspaces = NULL;
    request.workspace_count = 0;
    request.plan = "pro";
    request.overlap = overlap;
    set_schedule(scene, &request);
}

static void a_plan_is_resolved_at_the_firing(void **state)
{
    struct scene *scene = *state;
    set_for_plan(scene, OVERLAP_QUEUE_ALL);
    assert_int_equal(fire(scene).counts.firings, 1);
    scene_workspace(scene, "pro-two", "pro");
    assert_int_equal(fire(scene).counts.firings, 2);
}

static void add_workspaces(struct scene *scene, int count)
{
    char sql[300];
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO workspaces (name, plan, slots_max, created_at) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL"
                   " SELECT i + 1 FROM n WHERE i < %d) SELECT 'more-' || i, 'pro', 5, 1 FROM n",
                   count);
    json_decref(scene_rows(scene, sql));
}

/* The second part is another node's: the store alone knows where the first one ended. */
static void a_large_plan_gets_its_firings_in_parts_and_each_workspace_one(void **state)
{
    struct scene *scene = *state;
    add_workspaces(scene, SCHEDULE_PART_MOST + 3); /* beside pro-co */
    set_for_plan(scene, OVERLAP_SKIP);
    struct schedule_advance first = fire(scene);
    assert_int_equal(first.counts.firings, SCHEDULE_PART_MOST);
    assert_int_equal(first.counts.rest, 4);
    struct due_schedules due = read_due(scene);
    assert_int_equal(due.count, 1);
    assert_int_equal(due.schedules[0].expands_us, first.due_us);
    struct schedule_advance stale = first;
    scene_ok(scene, store_advance_schedule(scene->store, &stale, &scene->error));
    assert_false(stale.is_done);
    struct schedule_advance failed = advance_of(&due.schedules[0], due.schedules[0].due_us);
    failed.retry_us = due.now_us + SECONDS(1);
    failed.error_code = "store_busy";
    failed.error = "the statement took too long";
    scene_ok(scene, store_advance_schedule(scene->store, &failed, &scene->error));
    assert_true(failed.is_done);
    assert_int_equal(read_due(scene).count, 0);
    assert_int_equal(read_due(scene).next_due_us, failed.retry_us);
    struct due_schedule again = await_due(scene);
    for (int i = 0; i < 2; i++) {
        struct schedule_advance second = advance_of(&again, again.due_us);
        scene_ok(scene, store_advance_schedule(scene->store, &second, &scene->error));
        assert_true(second.is_done == (i == 0)); /* a repetition finds nothing left */
        assert_int_equal(second.counts.firings, i == 0 ? 4 : 0);
        assert_int_equal(second.counts.rest, 0);
    }
    assert_int_equal(scene_number(scene, "SELECT count(DISTINCT workspace_id) FROM schedule_firings"),
                     SCHEDULE_PART_MOST + 4);
    assert_int_equal(number_of(scene, "all", "skipped"), 0);
    assert_int_equal(read_due(scene).next_due_us, first.due_us + EVERY_US);
}

static void one_advance_fires_several_times_as_many_as_fit(void **state)
{
    struct scene *scene = *state;
    struct due_schedule due;
    int64_t times[3];
    for (int i = 0; i < 2; i++) { /* for few workspaces, and for 2,002 */
        set_for_plan(scene, OVERLAP_QUEUE_ALL);
        due = await_due(scene);
        struct schedule_advance advance = advance_of(&due, due.due_us + 3 * EVERY_US);
        for (int k = 0; k < 3; k++) {
            times[k] = due.due_us + k * EVERY_US;
        }
        advance.fires_us = times;
        advance.fire_count = 3;
        scene_ok(scene, store_advance_schedule(scene->store, &advance, &scene->error));
        assert_int_equal(advance.counts.firings, i == 0 ? 3 : 2 * 2002);
        assert_int_equal(advance.counts.rest, 0);
        scene_pass(scene, 10 * EVERY_US);
        assert_int_equal(read_due(scene).schedules[0].due_us, i == 0 ? due.due_us + 3 * EVERY_US : times[2]);
        scene_ok(scene, store_schedule_delete(scene->store, "all", &scene->error));
        if (i == 0) {
            add_workspaces(scene, 2001);
        }
    }
}

static void passed_times_count_as_skipped_in_each_workspace(void **state)
{
    struct scene *scene = *state;
    scene_workspace(scene, "pro-two", "pro");
    set_for_plan(scene, OVERLAP_SKIP);
    struct due_schedule due = await_due(scene);
    struct schedule_advance advance = advance_of(&due, due.due_us + 10 * EVERY_US);
    advance.fires_us = &due.due_us;
    advance.fire_count = 1;
    advance.passed = 9;
    scene_ok(scene, store_advance_schedule(scene->store, &advance, &scene->error));
    assert_int_equal(advance.counts.firings, 2);
    assert_int_equal(advance.counts.skipped, 18);
    assert_int_equal(number_of(scene, "all", "skipped"), 18);
}

static void a_firing_in_a_deleted_workspace_has_no_workspace(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    struct workspace_deletion deletion = {.name = "pro-co", .fails_waiting = true};
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &result, &scene->error));
    (void)fire(scene);
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 1);
    assert_null(firings.firings[0].workspace);
    settle(scene, &firings.firings[0], NULL);
    json_t *row = row_of(scene, "often");
    assert_int_equal(json_number_at(row, "refused"), 1);
    assert_string_equal(json_text_at(row, "error_code"), "workflow_not_found");
    assert_true(json_is_true(json_object_get(row, "is_refused")));
    assert_non_null(json_text_at(row, "refused_at"));
    json_decref(row);
    assert_int_equal(read_firings(scene).count, 0);
    settle(scene, &firings.firings[0], NULL); /* a repetition */
    assert_int_equal(number_of(scene, "often", "refused"), 1);
}

static void a_settlement_is_counted_once(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    (void)fire(scene);
    struct schedule_firing firing = read_firings(scene).firings[0];
    const char *id = scene_enqueue(scene, "pro-co");
    settle(scene, &firing, id);
    settle(scene, &firing, id);
    assert_int_equal(number_of(scene, "often", "fired"), 1);
    settle(scene, &firing, NULL); /* an execution lives: no refusal removes it */
    assert_int_equal(number_of(scene, "often", "refused"), 0);
    assert_int_equal(fire(scene).counts.skipped, 1);
}

/* Enqueues the only firing that may start with its planned id, as a node whose settlement is lost. */
static struct schedule_firing start_without_settlement(struct scene *scene)
{
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 1);
    struct enqueue_request request = {
        .workspace = firings.firings[0].workspace, .workflow = "hello", .id = firings.firings[0].planned_id};
    struct enqueue_result result = scene_try(scene, &request);
    assert_int_equal(result.status, WEIR_OK);
    assert_string_equal(result.id, firings.firings[0].planned_id);
    return firings.firings[0];
}

static void a_refusal_of_a_firing_whose_execution_exists_settles_it(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    for (int i = 0; i < 2; i++) {
        (void)fire(scene);
        struct schedule_firing firing = start_without_settlement(scene);
        if (i == 1) {
            end_running(scene); /* the execution is in the history */
        }
        struct schedule_outcome outcome = {.schedule_id = firing.schedule_id,
                                           .workspace_id = firing.workspace_id,
                                           .due_us = firing.due_us,
                                           .error_code = "workflow_not_found",
                                           .error = "there is no such workflow"};
        scene_ok(scene, store_settle_schedule_firings(scene->store, &outcome, 1, &scene->error));
        assert_string_equal(outcome.settled_id, firing.planned_id);
        json_t *row = row_of(scene, "often");
        assert_int_equal(json_number_at(row, "fired"), i + 1);
        assert_int_equal(json_number_at(row, "refused"), 0);
        assert_string_equal(json_text_at(row, "last_execution_id"), firing.planned_id);
        json_decref(row);
        if (i == 0) {
            assert_int_equal(fire(scene).counts.skipped, 1);
            end_running(scene);
        }
    }
}

static void a_change_that_removes_firings_keeps_those_with_an_execution(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    request.overlap = OVERLAP_QUEUE_ALL;
    set_schedule(scene, &request);
    (void)fire(scene);
    struct schedule_firing firing = start_without_settlement(scene);
    (void)fire(scene);
    request.overlap = OVERLAP_CANCEL_RUNNING;
    set_schedule(scene, &request); /* would remove the older one */
    assert_int_equal(number_of(scene, "often", "fired"), 1);
    assert_string_equal(read_firings(scene).firings[0].cancels_id, firing.planned_id);
    assert_int_equal(fire(scene).counts.skipped, 1); /* the one that waited */
    assert_string_equal(read_firings(scene).firings[0].cancels_id, firing.planned_id);
}

static void a_trigger_fires_at_once_also_when_paused(void **state)
{
    struct scene *scene = *state;
    struct schedule_counts counts = {0};
    struct schedule_request request = schedule_named("often");
    request.jitter_us = SECONDS(5);
    set_schedule(scene, &request);
    scene_ok(scene, store_schedule_pause(scene->store, "often", true, &scene->error));
    scene_ok(scene, store_schedule_trigger(scene->store, "often", &counts, &scene->error));
    assert_int_equal(counts.firings, 1);
    assert_int_equal(read_firings(scene).firings[0].jitter_us, 0);
    (void)start(scene);
    scene_pass(scene, 1);
    scene_ok(scene, store_schedule_trigger(scene->store, "often", &counts, &scene->error));
    assert_int_equal(counts.firings, 0);
    assert_int_equal(counts.skipped, 1);
    scene_ok(scene, store_schedule_pause(scene->store, "often", false, &scene->error));
    end_running(scene);
    (void)fire(scene);
    assert_int_equal(read_firings(scene).firings[0].jitter_us, SECONDS(5));
    scene_ok(scene, store_schedule_pause(scene->store, "often", true, &scene->error));
    assert_int_equal(read_firings(scene).count, 0); /* the firings of a paused schedule wait */
}

static void a_trigger_of_a_paused_schedule_passes_what_waits(void **state)
{
    struct scene *scene = *state;
    struct schedule_counts counts = {0};
    struct schedule_request request = schedule_named("often");
    request.overlap = OVERLAP_QUEUE_ONE;
    set_schedule(scene, &request);
    (void)fire(scene);
    (void)start(scene);
    (void)fire(scene); /* waits */
    scene_ok(scene, store_schedule_pause(scene->store, "often", true, &scene->error));
    end_running(scene);
    scene_pass(scene, 1); /* another time than that of the firing */
    scene_ok(scene, store_schedule_trigger(scene->store, "often", &counts, &scene->error));
    assert_int_equal(counts.firings, 1);
    (void)start(scene);
    assert_int_equal(read_firings(scene).count, 0);
}

static void a_set_with_another_policy_leaves_the_firing_that_it_lets_wait(void **state)
{
    struct scene *scene = *state;
    const enum schedule_overlap policies[] = {OVERLAP_CANCEL_RUNNING, OVERLAP_QUEUE_ONE};
    for (size_t i = 0; i < 2; i++) {
        struct schedule_request request = schedule_named(schedule_overlap_name(policies[i]));
        request.overlap = OVERLAP_QUEUE_ALL;
        set_schedule(scene, &request);
        int64_t oldest_us = *fire(scene).fires_us;
        (void)fire(scene);
        int64_t newest_us = *fire(scene).fires_us;
        assert_int_equal(number_of(scene, request.name, "waiting"), 3);
        request.overlap = policies[i];
        set_schedule(scene, &request);
        assert_int_equal(number_of(scene, request.name, "waiting"), 1);
        assert_int_equal(number_of(scene, request.name, "skipped"), 2);
        assert_int_equal(read_firings(scene).firings[0].due_us,
                         policies[i] == OVERLAP_CANCEL_RUNNING ? newest_us : oldest_us);
        scene_ok(scene, store_schedule_delete(scene->store, request.name, &scene->error));
    }
}

/* The due time went far ahead with a clock that was wrong for a moment. */
static void a_due_time_of_a_wrong_clock_ends_with_a_set_or_a_resumption(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    for (int i = 0; i < 2; i++) {
        struct due_schedule due = await_due(scene);
        struct schedule_advance advance = advance_of(&due, due.due_us + SECONDS(300000000));
        scene_ok(scene, store_advance_schedule(scene->store, &advance, &scene->error));
        assert_true(read_due(scene).next_due_us > due.due_us + EVERY_US);
        if (i == 0) {
            set_schedule(scene, &request);
        } else {
            scene_ok(scene, store_schedule_pause(scene->store, "often", true, &scene->error));
            scene_ok(scene, store_schedule_pause(scene->store, "often", false, &scene->error));
        }
        assert_true(await_due(scene).due_us <= due.due_us + 2 * EVERY_US);
    }
}

static void a_schedule_is_not_read_before_its_next_try(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    struct due_schedule due = await_due(scene);
    struct schedule_advance advance = advance_of(&due, due.due_us);
    advance.retry_us = due.due_us + SECONDS(60);
    advance.error_code = "failed";
    advance.error = "the time zone is missing";
    scene_ok(scene, store_advance_schedule(scene->store, &advance, &scene->error));
    assert_int_equal(read_due(scene).count, 0);
    assert_int_equal(read_due(scene).next_due_us, due.due_us + SECONDS(60));
    assert_int_equal(await_due(scene).due_us, due.due_us);
}

static void params_of_any_kind_are_listed(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    request.params = "{\"sep\":\"a\\u0000b\",\"many\":1e20,\"few\":0.1}";
    set_schedule(scene, &request);
    json_t *row = row_of(scene, "often");
    const json_t *params = json_object_get(row, "params");
    assert_int_equal(json_string_length(json_object_get(params, "sep")), 3);
    assert_true(json_real_value(json_object_get(params, "many")) > 9e19);
    json_decref(row);
    (void)fire(scene);
    assert_string_equal(read_firings(scene).firings[0].params, request.params);
}

static void a_deleted_schedule_leaves_no_firing(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    (void)fire(scene);
    struct schedule_firing firing = read_firings(scene).firings[0];
    scene_ok(scene, store_schedule_delete(scene->store, "often", &scene->error));
    assert_int_equal(read_firings(scene).count, 0);
    settle(scene, &firing, scene_enqueue(scene, "pro-co")); /* of a node that had read it */
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_firings"), 0);
}

static void a_backlog_is_reported(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    (void)fire(scene);
    assert_false(read_firings(scene).firings[0].is_backlogged);
    json_decref(scene_rows(scene, "INSERT INTO books (lane_id, workspace_id, group_id, runnable)"
                                  " SELECT 99, id, 1, 10000 FROM workspaces WHERE name = 'pro-co'"));
    assert_true(read_firings(scene).firings[0].is_backlogged);
    json_decref(scene_rows(scene, "DELETE FROM books WHERE lane_id = 99"));
}

static void a_store_has_a_bounded_number_of_schedules(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("one");
    set_schedule(scene, &request);
    json_decref(scene_rows(scene,
                           "INSERT INTO schedules (name, every, jitter, workflow, params, plan, overlap, catch_up,"
                           " created_at) WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)"
                           " SELECT 'more-' || i, 10000000, 0, 'hello', '{}', 'pro', 'skip', 10000000, 1 FROM n"));
    set_schedule(scene, &request); /* a changed one is no further one */
    request.name = "two";
    refuses(scene, &request, WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(scene->error.message, "10000 schedules"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_schedule_is_listed_with_all_that_was_set),
        SCENE_TEST(wrong_requests_are_refused_and_change_nothing),
        SCENE_TEST(acts_on_an_unknown_schedule_name_the_nearest),
        SCENE_TEST(keys_of_schedules_are_reserved),
        SCENE_TEST(acts_go_on_record),
        SCENE_TEST(only_due_schedules_are_read_and_the_next_time_is_named),
        SCENE_TEST(a_due_time_fires_once_whoever_advances_it),
        SCENE_TEST(the_last_time_leaves_none),
        SCENE_TEST(a_paused_schedule_is_not_due_and_resumes_behind_the_pause),
        SCENE_TEST(a_set_with_the_same_times_keeps_the_due_time),
        SCENE_TEST(an_error_of_the_times_is_shown),
        SCENE_TEST(skip_leaves_out_what_overlaps),
        SCENE_TEST(queue_one_waits_for_the_end_and_only_one_waits),
        SCENE_TEST(queue_all_goes_on_in_the_order_of_times),
        SCENE_TEST(cancel_running_names_the_execution_to_cancel_and_keeps_the_newest),
        SCENE_TEST(workspaces_do_not_wait_for_each_other),
        SCENE_TEST(a_plan_is_resolved_at_the_firing),
        SCENE_TEST(a_large_plan_gets_its_firings_in_parts_and_each_workspace_one),
        SCENE_TEST(one_advance_fires_several_times_as_many_as_fit),
        SCENE_TEST(passed_times_count_as_skipped_in_each_workspace),
        SCENE_TEST(a_firing_in_a_deleted_workspace_has_no_workspace),
        SCENE_TEST(a_settlement_is_counted_once),
        SCENE_TEST(a_refusal_of_a_firing_whose_execution_exists_settles_it),
        SCENE_TEST(a_change_that_removes_firings_keeps_those_with_an_execution),
        SCENE_TEST(a_trigger_fires_at_once_also_when_paused),
        SCENE_TEST(a_trigger_of_a_paused_schedule_passes_what_waits),
        SCENE_TEST(a_set_with_another_policy_leaves_the_firing_that_it_lets_wait),
        SCENE_TEST(a_due_time_of_a_wrong_clock_ends_with_a_set_or_a_resumption),
        SCENE_TEST(a_schedule_is_not_read_before_its_next_try),
        SCENE_TEST(params_of_any_kind_are_listed),
        SCENE_TEST(a_deleted_schedule_leaves_no_firing),
        SCENE_TEST(a_backlog_is_reported),
        SCENE_TEST(a_store_has_a_bounded_number_of_schedules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
