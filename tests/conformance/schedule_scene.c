/* The duty of a node, done by hand. */
#include "conformance/schedule_scene.h"

struct schedule_request schedule_named(const char *name)
{
    static const char *const workspaces[] = {"pro-co"};
    return (struct schedule_request){
        .name = name, .when.every_us = EVERY_US, .workflow = "hello", .workspaces = workspaces, .workspace_count = 1};
}

void set_schedule(struct scene *scene, const struct schedule_request *request)
{
    scene_ok(scene, store_schedule_set(scene->store, request, NULL, &scene->error));
}

struct due_schedules read_due(struct scene *scene)
{
    struct due_schedules due = {.count = 0};
    scene_ok(scene, store_read_due_schedules(scene->store, &scene->arena, &due, &scene->error));
    return due;
}

struct schedule_firings read_firings(struct scene *scene)
{
    struct schedule_firings firings = {.count = 0};
    scene_ok(scene, store_read_schedule_firings(scene->store, &scene->arena, &firings, &scene->error));
    return firings;
}

json_t *row_of(struct scene *scene, const char *name)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_SCHEDULES, .name = name};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
    json_t *row = json_incref(json_array_get(json_object_get(page, "items"), 0));
    json_decref(page);
    return row;
}

json_int_t number_of(struct scene *scene, const char *name, const char *key)
{
    json_t *row = row_of(scene, name);
    json_int_t number = json_number_at(row, key);
    json_decref(row);
    return number;
}

struct due_schedule await_due(struct scene *scene)
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

struct schedule_advance advance_of(const struct due_schedule *due, int64_t next_us)
{
    return (struct schedule_advance){
        .id = due->id, .due_us = due->due_us, .continues_us = due->expands_us, .next_us = next_us};
}

struct schedule_advance fire(struct scene *scene)
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

void settle(struct scene *scene, const struct schedule_firing *firing, const char *execution_id)
{
    struct schedule_outcome outcome = {.schedule_id = firing->schedule_id,
                                       .workspace_id = firing->workspace_id,
                                       .due_us = firing->due_us,
                                       .execution_id = execution_id,
                                       .error_code = execution_id == NULL ? "workflow_not_found" : NULL,
                                       .error = execution_id == NULL ? "there is no such workflow" : NULL};
    scene_ok(scene, store_settle_schedule_firings(scene->store, &outcome, 1, &scene->error));
}

const char *start(struct scene *scene)
{
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 1);
    assert_string_equal(firings.firings[0].cancels_id, "");
    const char *id = scene_enqueue(scene, firings.firings[0].workspace);
    settle(scene, &firings.firings[0], id);
    return id;
}

void end_running(struct scene *scene)
{
    struct claim_result claim = scene_claim(scene, 10);
    assert_int_not_equal(claim.count, 0);
    scene_complete(scene, &claim);
}

void set_for_plan(struct scene *scene, enum schedule_overlap overlap)
{
    struct schedule_request request = schedule_named("all");
    request.workspaces = NULL;
    request.workspace_count = 0;
    request.plan = "pro";
    request.overlap = overlap;
    set_schedule(scene, &request);
}

void add_workspaces(struct scene *scene, int count)
{
    char sql[300];
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO workspaces (name, plan, slots_max, created_at) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL"
                   " SELECT i + 1 FROM n WHERE i < %d) SELECT 'more-' || i, 'pro', 5, 1 FROM n",
                   count);
    json_decref(scene_rows(scene, sql));
}
