/* Firings of schedules: which ones the overlap policies let through, and what becomes of them. */
#include "conformance/schedule_scene.h"

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
        scene_ok(scene,
                 store_schedule_trigger(scene->store, &(struct schedule_trigger){.name = "often"}, &counts, &scene->error));
        assert_int_equal(counts.firings, 1);
    }
    /* Each id is planned in its microsecond, and ids order lists. */
    json_t *disordered = scene_rows(scene, "SELECT a.due_at FROM schedule_firings a JOIN schedule_firings b"
                                           " ON a.created_at < b.created_at AND a.planned_id >= b.planned_id");
    assert_int_equal(json_array_size(disordered), 0);
    json_decref(disordered);
    struct schedule_counts counts = {0};
    scene_pass(scene, 1);
    scene_ok(scene,
             store_schedule_trigger(scene->store, &(struct schedule_trigger){.name = "often"}, &counts, &scene->error));
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

/* The firings all name the one execution that lives. */
static void firings_that_need_a_cancel_hide_no_others(void **state)
{
    struct scene *scene = *state;
    char sql[200];
    add_workspaces(scene, SCHEDULE_FIRINGS_READ_MOST + 1);
    set_for_plan(scene, OVERLAP_CANCEL_RUNNING);
    (void)fire(scene);
    (void)snprintf(sql, sizeof sql, "UPDATE schedule_firings SET execution_id = '%s'", scene_enqueue(scene, "pro-co"));
    json_decref(scene_rows(scene, sql));
    (void)fire(scene);
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    scene_pass(scene, 1);
    struct schedule_counts counts = {0};
    scene_ok(scene,
             store_schedule_trigger(scene->store, &(struct schedule_trigger){.name = "often"}, &counts, &scene->error));
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, SCHEDULE_CANCELS_READ_MOST + 1);
    assert_string_equal(firings.firings[firings.count - 1].schedule, "often");
    assert_string_equal(firings.firings[firings.count - 1].cancels_id, "");
    assert_int_equal(firings.firings[0].workflow_state, WORKFLOW_PUBLISHED);
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

static void a_plan_is_resolved_at_the_firing(void **state)
{
    struct scene *scene = *state;
    set_for_plan(scene, OVERLAP_QUEUE_ALL);
    assert_int_equal(fire(scene).counts.firings, 1);
    scene_workspace(scene, "pro-two", "pro");
    assert_int_equal(fire(scene).counts.firings, 2);
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
    char refused[TIME_TEXT_MAX];
    time_format(scene_now(scene), refused);
    assert_string_equal(json_text_at(row, "refused_at"), refused);
    json_decref(row);
    assert_int_equal(read_firings(scene).count, 0);
    settle(scene, &firings.firings[0], NULL); /* a repetition */
    assert_int_equal(number_of(scene, "often", "refused"), 1);
}

static void deleted_workspaces_are_named_and_ends_are_shown(void **state)
{
    struct scene *scene = *state;
    static const char *const workspaces[] = {"pro-co", "gone", "big-co"};
    struct schedule_request request = schedule_named("often");
    struct workspace_deletion deletion = {.name = "gone"};
    struct deletion_result result;
    scene_workspace(scene, "gone", "pro");
    request.workspaces = workspaces;
    request.workspace_count = 3;
    set_schedule(scene, &request);
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &result, &scene->error));
    json_t *row = row_of(scene, "often");
    assert_int_equal(json_array_size(json_object_get(row, "workspaces")), 2);
    assert_int_equal(json_array_size(json_object_get(row, "workspaces_deleted")), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(row, "workspaces_deleted"), 0)), "gone");
    assert_true(json_is_null(json_object_get(row, "last_status")));
    json_decref(row);
    request = schedule_named("often");
    set_schedule(scene, &request);
    (void)fire(scene);
    (void)start(scene);
    end_running(scene);
    row = row_of(scene, "often");
    assert_int_equal(json_array_size(json_object_get(row, "workspaces_deleted")), 0);
    assert_string_equal(json_text_at(row, "last_status"), "COMPLETED");
    json_decref(row);
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

/* Another node has settled it, and then a newer one, which removed it because its execution had ended. */
static void a_settlement_behind_a_newer_one_is_not_counted_again(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    (void)fire(scene);
    struct schedule_firing slow = read_firings(scene).firings[0];
    char id[UUID_TEXT_MAX];
    text_copy(id, sizeof id, scene_enqueue(scene, "pro-co"));
    settle(scene, &slow, id);
    end_running(scene);
    (void)fire(scene);
    const char *newer = start(scene);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_firings"), 1);
    settle(scene, &slow, id);
    assert_int_equal(number_of(scene, "often", "fired"), 2);
    json_t *row = row_of(scene, "often");
    assert_string_equal(json_text_at(row, "last_execution_id"), newer);
    json_decref(row);
}

/* A clock that was set back, and an operator who resumed the schedule then, make an earlier time fire. */
static void a_settlement_keeps_the_firings_of_later_times(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    (void)fire(scene);
    struct schedule_firing early = read_firings(scene).firings[0];
    (void)start(scene);
    end_running(scene);
    early.due_us -= EVERY_US;
    settle(scene, &early, scene_enqueue(scene, "pro-co"));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_firings"), 2);
}

/* Ids of executions begin with their time, which orders lists and equal ranks. */
static void assert_id_has_the_time(struct scene *scene, const char *id)
{
    unsigned high = 0, low = 0;
    assert_int_equal(sscanf(id, "%8x-%4x-7", &high, &low), 2);
    int64_t ago_ms = scene_now(scene) / 1000 - ((int64_t)high << 16 | low);
    assert_in_range(ago_ms, 0, 24 * 3600 * 1000);
}

/* Enqueues the only firing that may start with its planned id, as a node whose settlement is lost. */
static struct schedule_firing start_without_settlement(struct scene *scene)
{
    struct schedule_firings firings = read_firings(scene);
    assert_int_equal(firings.count, 1);
    struct enqueue_request request = {.workspace = firings.firings[0].workspace,
                                      .workflow = "hello",
                                      .id = firings.firings[0].planned_id,
                                      .firing = &firings.firings[0]};
    struct enqueue_result result = scene_try(scene, &request);
    assert_int_equal(result.status, WEIR_OK);
    assert_string_equal(result.id, firings.firings[0].planned_id);
    assert_id_has_the_time(scene, result.id);
    return firings.firings[0];
}

/* A node reads a firing, and stands still until another one has done the duty. */
static void a_firing_that_was_removed_starts_nothing(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    request.overlap = OVERLAP_CANCEL_RUNNING;
    set_schedule(scene, &request);
    (void)fire(scene);
    struct schedule_firing slow = read_firings(scene).firings[0];
    struct enqueue_request late = {.workspace = "pro-co", .workflow = "hello", .id = slow.planned_id, .firing = &slow};
    struct enqueue_request other = {.workspace = "pro-co", .workflow = "hello"};
    struct enqueue_result results[2] = {{.status = WEIR_OK}};
    assert_int_equal(fire(scene).counts.skipped, 1);
    scene_ok(scene, store_enqueue(scene->store, (struct enqueue_request[]){late, other}, 2, results, &scene->error));
    assert_int_equal(results[0].status, WEIR_ILLEGAL_STATE);
    assert_string_equal(results[0].error.message, "the firing was removed, or another node has started it");
    assert_int_equal(results[1].status, WEIR_OK);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue"), 1);
    struct schedule_firing newest = start_without_settlement(scene);
    settle(scene, &newest, newest.planned_id);
    late.firing = &newest; /* settled by another node */
    late.id = newest.planned_id;
    (void)scene_try(scene, &late);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue"), 2);
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
    scene_ok(scene,
             store_schedule_trigger(scene->store, &(struct schedule_trigger){.name = "often"}, &counts, &scene->error));
    assert_int_equal(counts.firings, 1);
    assert_int_equal(read_firings(scene).firings[0].jitter_us, 0);
    (void)start(scene);
    scene_pass(scene, 1);
    scene_ok(scene,
             store_schedule_trigger(scene->store, &(struct schedule_trigger){.name = "often"}, &counts, &scene->error));
    assert_int_equal(counts.firings, 0);
    assert_int_equal(counts.skipped, 1);
    scene_ok(scene, store_schedule_pause(scene->store, "often", false, &scene->error));
    end_running(scene);
    (void)fire(scene);
    assert_int_equal(read_firings(scene).firings[0].jitter_us, SECONDS(5));
    scene_ok(scene, store_schedule_pause(scene->store, "often", true, &scene->error));
    assert_int_equal(number_of(scene, "often", "waiting"), 0); /* the firings of a paused schedule are removed */
    assert_int_equal(number_of(scene, "often", "skipped"), 2);
}

static void drop(struct scene *scene, const struct schedule_firing *firing)
{
    struct schedule_outcome outcome = {.schedule_id = firing->schedule_id,
                                       .workspace_id = firing->workspace_id,
                                       .due_us = firing->due_us,
                                       .is_dropped = true};
    scene_ok(scene, store_settle_schedule_firings(scene->store, &outcome, 1, &scene->error));
}

static void let_pass(struct scene *scene, int64_t duration_us)
{
    scene_pass(scene, duration_us);
    scene_beat(scene, scene->node);
}

static void a_firing_that_waits_for_nothing_is_late_behind_the_window(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    request.overlap = OVERLAP_QUEUE_ONE;
    request.catch_up_us = SECONDS(600);
    set_schedule(scene, &request);
    (void)fire(scene);
    (void)start(scene);
    (void)fire(scene); /* waits for the first one, which takes longer than the window */
    let_pass(scene, SECONDS(900));
    end_running(scene);
    assert_false(read_firings(scene).firings[0].is_late);
    let_pass(scene, SECONDS(599));
    assert_false(read_firings(scene).firings[0].is_late);
    let_pass(scene, SECONDS(2));
    struct schedule_firing firing = read_firings(scene).firings[0];
    assert_true(firing.is_late);
    drop(scene, &firing);
    drop(scene, &firing);
    assert_int_equal(number_of(scene, "often", "dropped"), 1);
    assert_int_equal(number_of(scene, "often", "refused"), 0);
    assert_int_equal(number_of(scene, "often", "waiting"), 0);
}

/* It was inserted late, but in the window, and then had to wait for its turn. */
static void the_age_of_a_firing_counts_from_its_insertion(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    request.catch_up_us = SECONDS(600);
    set_schedule(scene, &request);
    (void)await_due(scene);
    let_pass(scene, SECONDS(500));
    (void)fire(scene);
    let_pass(scene, SECONDS(599));
    assert_false(read_firings(scene).firings[0].is_late);
    let_pass(scene, SECONDS(2));
    assert_true(read_firings(scene).firings[0].is_late);
}

static void a_late_firing_with_an_execution_is_not_dropped(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    (void)fire(scene);
    struct schedule_firing firing = start_without_settlement(scene);
    drop(scene, &firing);
    assert_int_equal(number_of(scene, "often", "dropped"), 0);
    assert_int_equal(number_of(scene, "often", "fired"), 1);
}

static void a_triggered_firing_is_never_late(void **state)
{
    struct scene *scene = *state;
    struct schedule_counts counts = {0};
    struct schedule_request request = schedule_named("often");
    set_schedule(scene, &request);
    scene_ok(scene,
             store_schedule_trigger(scene->store, &(struct schedule_trigger){.name = "often"}, &counts, &scene->error));
    let_pass(scene, SECONDS(100000));
    assert_false(read_firings(scene).firings[0].is_late);
}

static void a_pause_removes_what_waits_and_keeps_executions(void **state)
{
    struct scene *scene = *state;
    struct schedule_request request = schedule_named("often");
    request.overlap = OVERLAP_QUEUE_ALL;
    set_schedule(scene, &request);
    (void)fire(scene);
    (void)fire(scene);
    struct schedule_firing firing = read_firings(scene).firings[0];
    struct enqueue_request enqueue = {.workspace = "pro-co", .workflow = "hello", .id = firing.planned_id};
    assert_int_equal(scene_try(scene, &enqueue).status, WEIR_OK); /* and its settlement is lost */
    scene_ok(scene, store_schedule_pause(scene->store, "often", true, &scene->error));
    assert_int_equal(number_of(scene, "often", "waiting"), 0);
    assert_int_equal(number_of(scene, "often", "fired"), 1);
    assert_int_equal(number_of(scene, "often", "skipped"), 1);
    scene_ok(scene, store_schedule_pause(scene->store, "often", false, &scene->error));
    assert_int_equal(read_firings(scene).count, 0); /* no second execution, also when the first one is purged */
}

static void a_pause_ends_a_time_with_firings_in_parts(void **state)
{
    struct scene *scene = *state;
    add_workspaces(scene, SCHEDULE_PART_MOST + 3); /* beside pro-co */
    set_for_plan(scene, OVERLAP_SKIP);
    assert_int_equal(fire(scene).counts.rest, 4);
    struct schedule_request other = schedule_named("other");
    set_schedule(scene, &other);
    scene_ok(scene, store_schedule_pause(scene->store, "other", true, &scene->error)); /* of another schedule */
    assert_int_equal(read_due(scene).count, 1);
    scene_ok(scene, store_schedule_pause(scene->store, "all", true, &scene->error));
    assert_int_equal(read_due(scene).count, 0);
    assert_int_equal(number_of(scene, "all", "waiting"), 0);
    assert_int_equal(number_of(scene, "all", "skipped"), SCHEDULE_PART_MOST + 4);
}

/* The node has read the due time before the trigger, and fires it after it: the workspaces that wait for the trigger's part
 * get their firing of the trigger, then that of the due time. */
static void a_due_time_waits_until_a_trigger_has_all_its_parts(void **state)
{
    struct scene *scene = *state;
    struct schedule_counts counts = {0};
    add_workspaces(scene, SCHEDULE_PART_MOST + 3); /* beside pro-co */
    set_for_plan(scene, OVERLAP_QUEUE_ALL);
    struct due_schedule due = await_due(scene);
    scene_pass(scene, 1);
    struct schedule_trigger trigger = {.name = "all"};
    scene_ok(scene, store_schedule_trigger(scene->store, &trigger, &counts, &scene->error));
    assert_int_equal(counts.rest, 4);
    struct schedule_advance late = advance_of(&due, due.due_us + EVERY_US);
    late.fires_us = &due.due_us;
    late.fire_count = 1;
    scene_ok(scene, store_advance_schedule(scene->store, &late, &scene->error));
    assert_false(late.is_done);
    struct due_schedule again = await_due(scene);
    struct schedule_advance second = advance_of(&again, again.due_us);
    scene_ok(scene, store_advance_schedule(scene->store, &second, &scene->error));
    assert_true(second.is_done);
    assert_int_equal(second.counts.firings, 4);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_firings"), SCHEDULE_PART_MOST + 4);
    assert_int_equal(await_due(scene).due_us, due.due_us);
    assert_int_equal(fire(scene).counts.firings, SCHEDULE_PART_MOST);
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
    scene_ok(scene,
             store_schedule_trigger(scene->store, &(struct schedule_trigger){.name = "often"}, &counts, &scene->error));
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
    struct workspace_change limit = {.name = "pro-co", .max_pending = 20, .paused = -1};
    json_decref(scene_rows(scene, "UPDATE books SET runnable = 20 WHERE lane_id = 99"));
    assert_false(read_firings(scene).firings[0].is_backlogged);
    scene_ok(scene, store_set_workspace(scene->store, &limit, &scene->error));
    assert_true(read_firings(scene).firings[0].is_backlogged);
    json_decref(scene_rows(scene, "UPDATE books SET runnable = 19 WHERE lane_id = 99"));
    assert_false(read_firings(scene).firings[0].is_backlogged);
    json_decref(scene_rows(scene, "DELETE FROM books WHERE lane_id = 99"));
}

/* Two schedules of one plan. The times of both have firings in parts. */
static void the_last_part_of_a_schedule_ends_no_other_schedules_parts(void **state)
{
    struct scene *scene = *state;
    static const char *const names[] = {"all", "second"};
    struct schedule_counts counts = {0};
    add_workspaces(scene, SCHEDULE_PART_MOST + 3); /* beside pro-co */
    for (size_t i = 0; i < 2; i++) {
        struct schedule_request request = schedule_named(names[i]);
        request.workspaces = NULL;
        request.workspace_count = 0;
        request.plan = "pro";
        set_schedule(scene, &request);
        struct schedule_trigger trigger = {.name = names[i]};
        scene_ok(scene, store_schedule_trigger(scene->store, &trigger, &counts, &scene->error));
        assert_int_equal(counts.rest, 4);
    }
    for (size_t left = 2; left > 0; left--) {
        struct due_schedules due = read_due(scene);
        assert_int_equal(due.count, left);
        struct schedule_advance advance = advance_of(&due.schedules[0], due.schedules[0].due_us);
        scene_ok(scene, store_advance_schedule(scene->store, &advance, &scene->error));
        assert_true(advance.is_done);
        assert_int_equal(advance.counts.firings, 4);
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM schedule_firings"), 2 * (SCHEDULE_PART_MOST + 4));
}

/* Ids order executions of one millisecond, too: a quarter of it is 1024 of 4096. */
static void a_planned_id_has_the_time_below_its_millisecond(void **state)
{
    struct scene *scene = *state;
    struct schedule_counts counts = {0};
    struct schedule_request request = schedule_named("often");
    request.overlap = OVERLAP_QUEUE_ALL;
    set_schedule(scene, &request);
    scene_pass(scene, 1000 - scene_now(scene) % 1000);
    for (unsigned quarter = 1; quarter < 4; quarter++) {
        struct schedule_trigger trigger = {.name = "often"};
        unsigned part = 0;
        scene_pass(scene, 250);
        scene_ok(scene, store_schedule_trigger(scene->store, &trigger, &counts, &scene->error));
        const char *id = scene_text(scene, "SELECT planned_id FROM schedule_firings ORDER BY due_at DESC LIMIT 1");
        assert_int_equal(sscanf(id, "%*8x-%*4x-7%3x", &part), 1);
        assert_in_range(part, quarter * 1024, quarter * 1024 + 1);
    }
}

/* --- refusals and triggers --- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(skip_leaves_out_what_overlaps),
        SCENE_TEST(queue_one_waits_for_the_end_and_only_one_waits),
        SCENE_TEST(queue_all_goes_on_in_the_order_of_times),
        SCENE_TEST(cancel_running_names_the_execution_to_cancel_and_keeps_the_newest),
        SCENE_TEST(firings_that_need_a_cancel_hide_no_others),
        SCENE_TEST(workspaces_do_not_wait_for_each_other),
        SCENE_TEST(a_plan_is_resolved_at_the_firing),
        SCENE_TEST(a_large_plan_gets_its_firings_in_parts_and_each_workspace_one),
        SCENE_TEST(one_advance_fires_several_times_as_many_as_fit),
        SCENE_TEST(passed_times_count_as_skipped_in_each_workspace),
        SCENE_TEST(a_firing_in_a_deleted_workspace_has_no_workspace),
        SCENE_TEST(deleted_workspaces_are_named_and_ends_are_shown),
        SCENE_TEST(a_settlement_is_counted_once),
        SCENE_TEST(a_settlement_behind_a_newer_one_is_not_counted_again),
        SCENE_TEST(a_settlement_keeps_the_firings_of_later_times),
        SCENE_TEST(a_firing_that_was_removed_starts_nothing),
        SCENE_TEST(a_refusal_of_a_firing_whose_execution_exists_settles_it),
        SCENE_TEST(a_change_that_removes_firings_keeps_those_with_an_execution),
        SCENE_TEST(a_trigger_fires_at_once_also_when_paused),
        SCENE_TEST(a_firing_that_waits_for_nothing_is_late_behind_the_window),
        SCENE_TEST(the_age_of_a_firing_counts_from_its_insertion),
        SCENE_TEST(a_late_firing_with_an_execution_is_not_dropped),
        SCENE_TEST(a_triggered_firing_is_never_late),
        SCENE_TEST(a_pause_removes_what_waits_and_keeps_executions),
        SCENE_TEST(a_pause_ends_a_time_with_firings_in_parts),
        SCENE_TEST(a_due_time_waits_until_a_trigger_has_all_its_parts),
        SCENE_TEST(a_trigger_of_a_paused_schedule_passes_what_waits),
        SCENE_TEST(a_set_with_another_policy_leaves_the_firing_that_it_lets_wait),
        SCENE_TEST(a_deleted_schedule_leaves_no_firing),
        SCENE_TEST(a_backlog_is_reported),
        SCENE_TEST(the_last_part_of_a_schedule_ends_no_other_schedules_parts),
        SCENE_TEST(a_planned_id_has_the_time_below_its_millisecond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
