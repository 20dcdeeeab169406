/* Schedules: the accepted ones, and their due times. */
#include "conformance/schedule_scene.h"

static void refuses(struct scene *scene, const struct schedule_request *request, enum weir_status wanted)
{
    assert_int_equal(store_schedule_set(scene->store, request, NULL, &scene->error), wanted);
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
    static const char *const bad_names[] = {"", "-a", "A", "a b", "a/", "/a", "a/b", "_a"};
    struct schedule_request good = schedule_named("good");
    struct schedule_request bad = good;
    for (size_t i = 0; i < sizeof bad_names / sizeof bad_names[0]; i++) {
        bad.name = bad_names[i];
        refuses(scene, &bad, WEIR_INVALID_ARGUMENT);
    }
    for (size_t i = 0; i < sizeof bad_names / sizeof bad_names[0]; i++) {
        bad = good, bad.workflow = bad_names[i];
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

/* The answer must not depend on the time of day: the shortest time between two of its times counts, also that over
 * midnight. */
static void jitter_is_shorter_than_the_time_between_any_two_times(void **state)
{
    static const char *const close[] = {"0 1,8,9 * * *", "0 8,20,21 * * *", "0 0,12,23 * * *", "0 1,23 * * 1,2",
                                        "*/30 8 1 * *"};
    static const char *const wide[] = {"0 1,23 * * mon", "0 1,23 * * mon,wed", "0 1,4 * * *", "0 0 29 2 *"};
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("jittery");
    request.jitter_us = SECONDS(2 * 3600);
    for (int quarter = 0; quarter < 4; quarter++) {
        for (size_t i = 0; i < sizeof close / sizeof close[0]; i++) {
            request.when = (struct recurrence_text){.cron = close[i]};
            refuses(scene, &request, WEIR_INVALID_ARGUMENT);
            assert_non_null(strstr(scene->error.message, "jitter"));
        }
        for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
            request.when = (struct recurrence_text){.cron = wide[i]};
            scene_ok(scene, store_schedule_set(scene->store, &request, NULL, &scene->error));
        }
        scene_pass(scene, SECONDS(6 * 3600));
    }
    request.when = (struct recurrence_text){.every_us = request.jitter_us};
    refuses(scene, &request, WEIR_INVALID_ARGUMENT);
    request.when.every_us += SECONDS(1);
    scene_ok(scene, store_schedule_set(scene->store, &request, NULL, &scene->error));
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
    assert_int_equal(
        store_schedule_trigger(scene->store, &(struct schedule_trigger){.name = "nighty"}, &counts, &scene->error),
        WEIR_NOT_FOUND);
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
    const struct schedule_trigger trigger = {.name = "nightly",
                                             .workspaces = (const char *const[]){"pro-co"},
                                             .workspace_count = 1,
                                             .at_us = scene_now(scene) - SECONDS(60)};
    scene_ok(scene, store_schedule_trigger(scene->store, &trigger, &counts, &scene->error));
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
    char time[TIME_TEXT_MAX];
    time_format(trigger.at_us, time);
    const json_t *triggered = json_array_get(items, 2);
    after = json_object_get(triggered, "after");
    assert_int_equal(json_number_at(triggered, "affected"), 1);
    assert_true(json_is_null(json_object_get(triggered, "before")));
    assert_string_equal(json_text_at(after, "at"), time);
    assert_string_equal(json_string_value(json_array_get(json_object_get(after, "workspaces"), 0)), "pro-co");
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
    assert_string_equal(json_text_at(row, "last_status"), "PENDING");
    char last[TIME_TEXT_MAX];
    time_format(advance.fires_us[0], last);
    assert_string_equal(json_text_at(row, "last_at"), last);
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
    advance.retry_us = due.due_us + SECONDS(60);
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

/* --- of definitions --- */

/* `schedules`: the section of the definition, NULL = it has none. *ret_version may be NULL; 0 = unchanged. */
static enum weir_status publish(struct scene *scene, const char *name, const char *workspace, const char *schedules,
                                int *ret_version)
{
    char text[1024];
    struct published published = {.version = 0};
    (void)snprintf(text, sizeof text, "{\"name\":\"%s\"%s%s,\"steps\":{\"a\":{\"exec\":[\"true\"]}}}", name,
                   schedules == NULL ? "" : ",\"schedules\":", schedules == NULL ? "" : schedules);
    enum weir_status status = store_publish(scene->store, name, workspace, text, NULL, &published, &scene->error);
    if (ret_version != NULL) {
        *ret_version = published.unchanged ? 0 : published.version;
    }
    return status;
}

#define EVERY "{\"every\":\"10s\",\"workspaces\":[\"pro-co\"]}"

static int64_t count_schedules(struct scene *scene, const char *name)
{
    return scene_number(scene, "SELECT count(*) FROM schedules WHERE name = '%s'", name);
}

static int64_t count_versions(struct scene *scene)
{
    return scene_number(scene, "SELECT count(*) FROM workflow_definitions");
}

static void each_version_of_a_definition_sets_its_schedules(void **state)
{
    struct scene *scene = *state;
    int version = 0;
    struct schedule_request mine = schedule_named("mine");
    mine.workflow = "report";
    set_schedule(scene, &mine);
    scene_ok(scene, store_act_as(scene->store, "token:ann", NULL, &scene->error));
    scene_ok(scene, publish(scene, "report", NULL,
                            "{\"a\":" EVERY ",\"b\":{\"cron\":\"30 4 * * *\",\"zone\":\"Europe/Berlin\",\"jitter\":\"5m\","
                            "\"plan\":\"pro\",\"params\":{\"deep\":true},\"overlap\":\"queue_one\",\"catch_up\":\"2h\"}}",
                            &version));
    json_t *row = row_of(scene, "b");
    assert_string_equal(json_text_at(row, "definition_name"), "report");
    assert_string_equal(json_text_at(row, "workflow"), "report");
    assert_string_equal(json_text_at(row, "zone"), "Europe/Berlin");
    assert_string_equal(json_text_at(row, "overlap"), "queue_one");
    assert_string_equal(json_text_at(row, "plan"), "pro");
    assert_int_equal(json_number_at(row, "jitter_us"), SECONDS(300));
    assert_int_equal(json_number_at(row, "catch_up_us"), SECONDS(7200));
    assert_true(json_is_true(json_object_get(json_object_get(row, "params"), "deep")));
    json_decref(row);
    row = row_of(scene, "mine");
    assert_true(json_is_null(json_object_get(row, "definition_name")));
    json_decref(row);
    scene_ok(scene, store_schedule_pause(scene->store, "b", true, &scene->error));
    const char *second = "{\"b\":{\"every\":\"20s\",\"plan\":\"pro\"},\"c\":" EVERY "}";
    scene_ok(scene, publish(scene, "report", NULL, second, &version));
    assert_int_equal(version, 2);
    assert_int_equal(count_schedules(scene, "a"), 0);
    row = row_of(scene, "b");
    assert_true(json_is_true(json_object_get(row, "paused")));
    assert_int_equal(json_number_at(row, "every_us"), SECONDS(20));
    json_decref(row);
    row = row_of(scene, "c");
    assert_non_null(json_text_at(row, "next_at"));
    json_decref(row);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE actor = 'token:ann' AND act = 'schedule set'"),
                     4);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'schedule delete' AND subject = 'a'"), 1);
    int64_t acts = scene_number(scene, "SELECT count(*) FROM audit");
    scene_ok(scene, publish(scene, "report", NULL, second, &version));
    assert_int_equal(version, 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit"), acts);
    scene_ok(scene, publish(scene, "report", NULL, NULL, NULL));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedules"), 1);
    assert_int_equal(count_schedules(scene, "mine"), 1);
}

/* "+a ~b -c": a is new, b has changed, c is gone. */
static const char *changes_of(struct scene *scene, const char *schedules, bool is_try)
{
    static char changes[400];
    char text[4096];
    struct published published = {.version = 0};
    (void)snprintf(text, sizeof text, "{\"name\":\"report\",\"schedules\":%s,\"steps\":{\"a\":{\"exec\":[\"true\"]}}}",
                   schedules);
    scene_ok(scene, (is_try ? store_try_publish : store_publish)(scene->store, "report", NULL, text, NULL, &published,
                                                                 &scene->error));
    changes[0] = '\0';
    for (enum published_change change = SCHEDULE_ADDED; change <= SCHEDULE_DELETED; change++) {
        for (size_t i = 0; i < published.schedule_count; i++) {
            if (published.schedules[i].change == change) {
                size_t used = strlen(changes);
                (void)snprintf(changes + used, sizeof changes - used, " %c%s", "+~-"[change], published.schedules[i].name);
            }
        }
    }
    return changes;
}

/* The number of a transaction that has written a row, or nothing. */
static int64_t last_writer(struct scene *scene, const char *name)
{
    bool has_writers = (store_features(scene->store) & STORE_SHARED) != 0;
    return has_writers ? scene_number(
                             scene, "SELECT xmin::text::bigint + xmax::text::bigint FROM schedules WHERE name = '%s'", name)
                       : 0;
}

static void a_publication_names_the_schedules_that_it_changes(void **state)
{
    struct scene *scene = *state;
    const char *first = "{\"a\":" EVERY ",\"b\":" EVERY ",\"c\":" EVERY "}";
    const char *second = "{\"a\":" EVERY ",\"b\":{\"every\":\"20s\",\"plan\":\"pro\"},\"d\":" EVERY "}";
    scene_ok(scene, store_act_as(scene->store, "token:ann", NULL, &scene->error));
    assert_string_equal(changes_of(scene, first, false), " +a +b +c");
    int64_t acts = scene_number(scene, "SELECT count(*) FROM audit");
    int64_t versions = count_versions(scene);
    int64_t news = scene_number(scene, "SELECT count(*) FROM news");
    assert_string_equal(changes_of(scene, second, true), " +d ~b -c");
    assert_int_equal(count_schedules(scene, "c"), 1);
    assert_int_equal(count_schedules(scene, "d"), 0);
    assert_int_equal(count_versions(scene), versions);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit"), acts);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM news"), news);
    assert_string_equal(changes_of(scene, second, false), " +d ~b -c");
    assert_string_equal(changes_of(scene, "{}", false), " -a -b -d");
}

static void a_schedule_that_is_published_again_is_not_written(void **state)
{
    struct scene *scene = *state;
    const char *schedules = "{\"a\":" EVERY ",\"b\":{\"cron\":\"30 4 * * *\",\"zone\":\"Europe/Berlin\",\"plan\":\"pro\"}}";
    assert_string_equal(changes_of(scene, schedules, false), " +a +b");
    int64_t news = scene_number(scene, "SELECT count(*) FROM news");
    int64_t writer = last_writer(scene, "a");
    assert_string_equal(changes_of(scene, schedules, false), "");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM news"), news);
    assert_int_equal(last_writer(scene, "a"), writer);
    scene_ok(scene, store_schedule_pause(scene->store, "a", true, &scene->error));
    assert_string_equal(changes_of(scene, schedules, false), ""); /* a pause is of operation */
}

/* The record of acts keeps no value above 2 KiB on SQLite, so the two values cannot be compared there. */
static void a_long_schedule_that_is_published_again_is_no_act(void **state)
{
    struct scene *scene = *state;
    char schedules[3200];
    scene_ok(scene, store_act_as(scene->store, "token:ann", NULL, &scene->error));
    (void)snprintf(schedules, sizeof schedules,
                   "{\"a\":{\"every\":\"10s\",\"workspaces\":[\"pro-co\"],\"params\":{\"text\":\"%0*d\"}}}", 3000, 0);
    assert_string_equal(changes_of(scene, schedules, false), " +a");
    int64_t acts = scene_number(scene, "SELECT count(*) FROM audit");
    assert_string_equal(changes_of(scene, schedules, false), "");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit"), acts);
}

static void users_trigger_and_pause_a_schedule_of_a_definition_and_change_nothing_else(void **state)
{
    struct scene *scene = *state;
    struct schedule_counts counts = {0};
    scene_ok(scene, publish(scene, "report", NULL, "{\"a\":" EVERY "}", NULL));
    struct schedule_request request = schedule_named("a");
    refuses(scene, &request, WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(scene->error.message, "definition of workflow \"report\""));
    assert_int_equal(store_schedule_check(scene->store, &request, &scene->error), WEIR_ILLEGAL_STATE);
    assert_int_equal(store_schedule_delete(scene->store, "a", &scene->error), WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(scene->error.message, "definition of workflow \"report\""));
    scene_ok(scene, store_schedule_pause(scene->store, "a", true, &scene->error));
    const struct schedule_trigger trigger = {.name = "a"};
    scene_ok(scene, store_schedule_trigger(scene->store, &trigger, &counts, &scene->error));
    assert_int_equal(counts.firings, 1);
    scene_ok(scene, store_schedule_pause(scene->store, "a", false, &scene->error));
    json_t *row = row_of(scene, "a");
    assert_string_equal(json_text_at(row, "workflow"), "report");
    json_decref(row);
}

/* Its only time was in 2018. */
#define OVER_BEFORE_ITS_END                                                                                                \
    "{\"every\":\"3650d\",\"from\":\"2018-01-01T00:00:00Z\",\"until\":\"2027-12-01T00:00:00Z\",\"plan\":\"pro\"}"

static void refuses_publication(struct scene *scene, const char *schedules, enum weir_status wanted, const char *begins)
{
    assert_int_equal(publish(scene, "other", NULL, schedules, NULL), wanted);
    assert_int_equal(strncmp(scene->error.message, begins, strlen(begins)), 0);
}

static void a_refused_schedule_publishes_nothing(void **state)
{
    struct scene *scene = *state;
    struct schedule_request mine = schedule_named("mine");
    set_schedule(scene, &mine);
    scene_ok(scene, publish(scene, "report", NULL, "{\"a\":" EVERY "}", NULL));
    scene_ok(scene, publish(scene, "other", NULL, "{\"z\":" EVERY "}", NULL));
    int64_t versions = count_versions(scene);
    refuses_publication(scene, "{\"x\":" EVERY ",\"mine\":" EVERY "}", WEIR_CONFLICT, "schedule \"mine\" exists");
    refuses_publication(scene, "{\"x\":" EVERY ",\"a\":" EVERY "}", WEIR_CONFLICT, "schedule \"a\" exists");
    assert_non_null(strstr(scene->error.message, "\"report\""));
    refuses_publication(scene, "{\"x\":{\"every\":\"10s\",\"workspaces\":[\"nobody\"]}}", WEIR_WORKSPACE_NOT_FOUND,
                        "schedule \"x\": ");
    refuses_publication(scene, "{\"x\":{\"every\":\"10s\",\"plan\":\"none\"}}", WEIR_PLAN_NOT_FOUND, "schedule \"x\": ");
    refuses_publication(scene, "{\"x\":{\"every\":\"10s\",\"jitter\":\"10s\",\"plan\":\"pro\"}}", WEIR_INVALID_ARGUMENT,
                        "schedule \"x\": ");
    refuses_publication(scene, "{\"x\":{\"cron\":\"0 0 30 2 *\",\"plan\":\"pro\"}}", WEIR_INVALID_ARGUMENT,
                        "schedule \"x\"");
    assert_int_equal(count_versions(scene), versions);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedules"), 3);
    assert_int_equal(count_schedules(scene, "z"), 1);
    /* a file is published again and again, also behind the last time */
    scene_ok(scene, publish(scene, "other", NULL,
                            "{\"z\":{\"every\":\"10s\",\"until\":\"2001-01-01T00:00:00Z\",\"plan\":\"pro\"}}", NULL));
    json_t *row = row_of(scene, "z");
    assert_true(json_is_null(json_object_get(row, "next_at")));
    json_decref(row);
    /* and when the end is still to come; a schedule that never had a time is a mistake */
    scene_ok(scene, publish(scene, "other", NULL, "{\"z\":" OVER_BEFORE_ITS_END "}", NULL));
    refuses_publication(scene,
                        "{\"x\":{\"cron\":\"0 0 1 1 *\",\"from\":\"2990-02-01T00:00:00Z\",\"until\":"
                        "\"2990-03-01T00:00:00Z\",\"plan\":\"pro\"}}",
                        WEIR_INVALID_ARGUMENT, "schedule \"x\" would have no time");
}

static void schedules_go_with_their_definition(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    struct workspace_deletion deletion = {.name = "pro-co", .fails_waiting = true};
    struct store *store = scene->store;
    scene_ok(scene,
             publish(scene, "report", NULL, "{\"a\":{\"every\":\"10s\",\"workspaces\":[\"pro-co\",\"big-co\"]}}", NULL));
    scene_ok(scene, publish(scene, "report", "pro-co", "{\"own\":{\"every\":\"10s\"}}", NULL));
    json_t *row = row_of(scene, "own");
    assert_string_equal(json_text_at(row, "definition_name"), "pro-co/report");
    assert_string_equal(json_string_value(json_array_get(json_object_get(row, "workspaces"), 0)), "pro-co");
    json_decref(row);
    scene_ok(scene, store_set_workflow_state(store, "report", NULL, WORKFLOW_DISABLED, &scene->error));
    assert_int_equal(count_schedules(scene, "a"), 1);
    scene_ok(scene, store_delete_workspace(store, &deletion, &result, &scene->error));
    assert_int_equal(count_schedules(scene, "own"), 0);
    scene_workspace(scene, "pro-co", "pro");
    int version = 1;
    scene_ok(scene, publish(scene, "report", NULL, "{\"a\":{\"every\":\"10s\",\"workspaces\":[\"pro-co\",\"big-co\"]}}",
                            &version));
    assert_int_equal(version, 0); /* the text is the same, and its workspace another one */
    row = row_of(scene, "a");
    assert_int_equal(json_array_size(json_object_get(row, "workspaces_deleted")), 0);
    assert_int_equal(json_array_size(json_object_get(row, "workspaces")), 2);
    json_decref(row);
    (void)fire(scene);
    scene_ok(scene, store_act_as(store, "token:ann", NULL, &scene->error));
    scene_ok(scene, store_set_workflow_state(store, "report", NULL, WORKFLOW_DELETED, &scene->error));
    assert_int_equal(count_schedules(scene, "a"), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_firings"), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'schedule delete' AND subject = 'a'"), 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'workflow delete'"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_schedule_is_listed_with_all_that_was_set),
        SCENE_TEST(wrong_requests_are_refused_and_change_nothing),
        SCENE_TEST(jitter_is_shorter_than_the_time_between_any_two_times),
        SCENE_TEST(acts_on_an_unknown_schedule_name_the_nearest),
        SCENE_TEST(keys_of_schedules_are_reserved),
        SCENE_TEST(acts_go_on_record),
        SCENE_TEST(only_due_schedules_are_read_and_the_next_time_is_named),
        SCENE_TEST(a_due_time_fires_once_whoever_advances_it),
        SCENE_TEST(the_last_time_leaves_none),
        SCENE_TEST(a_paused_schedule_is_not_due_and_resumes_behind_the_pause),
        SCENE_TEST(a_set_with_the_same_times_keeps_the_due_time),
        SCENE_TEST(an_error_of_the_times_is_shown),
        SCENE_TEST(a_due_time_of_a_wrong_clock_ends_with_a_set_or_a_resumption),
        SCENE_TEST(a_schedule_is_not_read_before_its_next_try),
        SCENE_TEST(params_of_any_kind_are_listed),
        SCENE_TEST(a_store_has_a_bounded_number_of_schedules),
        SCENE_TEST(each_version_of_a_definition_sets_its_schedules),
        SCENE_TEST(a_publication_names_the_schedules_that_it_changes),
        SCENE_TEST(a_schedule_that_is_published_again_is_not_written),
        SCENE_TEST(a_long_schedule_that_is_published_again_is_no_act),
        SCENE_TEST(users_trigger_and_pause_a_schedule_of_a_definition_and_change_nothing_else),
        SCENE_TEST(a_refused_schedule_publishes_nothing),
        SCENE_TEST(schedules_go_with_their_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
