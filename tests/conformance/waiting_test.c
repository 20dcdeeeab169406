/* WAITING executions: parked by their node, without a slot, until they are due; then they queue by their first rank. */
#include "conformance/scene.h"
#include "queue/suspicion.h"
#include "store/reading.h"

#define AN_HOUR SECONDS(3600)

/* Parks a claimed item as an engine does: it runs, a step of it waits on record, and then it waits itself. */
static void park(struct scene *scene, const struct claimed_item *item, enum wait_kind kind, int64_t delay_us)
{
    struct step_record step = {.step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = delay_us};
    struct record started = scene_record_of(RECORD_DISPATCHED, item);
    struct record waits = scene_record_of(RECORD_STEP, item);
    struct record parked = scene_record_of(RECORD_PARKED, item);
    waits.step = &step;
    parked.delay_us = delay_us;
    parked.waiting_for = kind;
    struct record records[] = {started, waits, parked};
    struct record_summary summary;
    scene_ok(scene, store_record(scene->store, scene->node, records, 3, &summary, &scene->error));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(records[i].status, WEIR_OK);
        assert_false(records[i].is_cancelled);
    }
    assert_int_equal(summary.slots_freed, 1);
}

static struct claimed_item enqueue_and_park(struct scene *scene, const char *workspace, int64_t delay_us)
{
    (void)scene_enqueue(scene, workspace);
    struct claimed_item item = scene_claim_one(scene);
    park(scene, &item, WAIT_SLEEP, delay_us);
    return item;
}

static json_t *why_of(struct scene *scene, const char *id)
{
    json_t *why = NULL;
    scene_ok(scene, store_why(scene->store, id, &why, &scene->error));
    return why;
}

static struct bulk_result act(struct scene *scene, enum bulk_act act, const char *id)
{
    struct bulk_result result = {0};
    struct execution_filter filter = {.id = id};
    scene_ok(scene, store_bulk(scene->store, act, &filter, "", 10, &result, &scene->error));
    return result;
}

static void a_parked_execution_uses_no_slot(void **state)
{
    struct scene *scene = *state; /* free-co has one slot */
    struct claimed_item sleeper = enqueue_and_park(scene, "free-co", AN_HOUR);
    assert_string_equal(scene_status_of(scene, sleeper.id), "WAITING");
    assert_int_equal(scene_held(scene, "free-co"), 0);
    const char *second = scene_enqueue(scene, "free-co");
    struct claimed_item other = scene_claim_one(scene);
    assert_string_equal(other.id, second);
    assert_int_equal(scene_usage(scene, "free-co", "waiting"), 1);
    assert_int_equal(scene_usage(scene, "free-co", "slots_used"), 1);
    assert_int_equal(scene_usage(scene, "free-co", "pending"), 0);
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    assert_int_equal(json_number_at(status, "waiting"), 1);
    assert_int_equal(json_number_at(status, "pending"), 0);
    assert_int_equal(json_number_at(status, "oldest_pending_age_us"), 0);
    assert_int_equal(json_number_at(json_object_get(status, "pending_reasons"), "scheduled"), 0);
    assert_int_equal(json_number_at(json_object_get(status, "pending_reasons"), "backing_off"), 0);
    json_decref(status);
}

static void it_starts_again_when_it_is_due_and_not_before(void **state)
{
    struct scene *scene = *state;
    struct claimed_item sleeper = enqueue_and_park(scene, "free-co", AN_HOUR);
    scene_pass(scene, AN_HOUR - SECONDS(1));
    scene_beat(scene, scene->node);
    struct work_ahead work = scene_look(scene);
    assert_false(work.ready);
    assert_int_equal(work.due_in_us, SECONDS(1));
    assert_int_equal(scene_claim(scene, 10).count, 0);
    scene_pass(scene, SECONDS(1));
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.id, sleeper.id);
    assert_true(again.fence > sleeper.fence);
    assert_int_equal(again.step_count, 1);
    assert_string_equal(again.steps[0].step, "nap");
    assert_int_equal(again.steps[0].state, STEP_WAITING);
    assert_int_equal(again.steps[0].due_in_us, 0);
    assert_int_equal(again.interruptions, 1);
    assert_int_equal(again.interruptions_at_park, 1);
    assert_true(claimed_item_since_us(&again) >= sleeper.claimed_at_us + AN_HOUR); /* it could not run while it waited */
    assert_false(again.handed_over);
    assert_false(again.is_suspect || again.lost_a_node);
    assert_true(again.assigned_before);
    assert_int_equal(again.running_for_us, AN_HOUR); /* its own timeout counts the wait */
    assert_int_equal(again.starts_refused + again.deferrals, 0);
    assert_int_equal(scene_number(scene, "SELECT handovers FROM executions WHERE id = '%s'", again.id), 0);
    assert_int_equal(scene_usage(scene, "free-co", "waiting"), 0);
}

static void it_queues_by_its_first_rank_before_newer_work(void **state)
{
    struct scene *scene = *state;
    struct claimed_item sleeper = enqueue_and_park(scene, "free-co", AN_HOUR);
    scene_pass(scene, SECONDS(1));
    scene_enqueue(scene, "free-co");
    struct claimed_item holder = scene_claim_one(scene);
    scene_pass(scene, SECONDS(1));
    const char *newer = scene_enqueue(scene, "free-co");
    scene_pass(scene, AN_HOUR);
    scene_beat(scene, scene->node);
    assert_int_equal(scene_claim(scene, 10).count, 0); /* due, but the slot is taken */
    assert_string_equal(scene_status_of(scene, sleeper.id), "PENDING");
    assert_string_equal(scene_reason_of(scene, sleeper.id), "workspace_at_capacity");
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &holder), WEIR_OK);
    assert_string_equal(scene_claim_one(scene).id, sleeper.id);
    assert_string_equal(scene_status_of(scene, newer), "PENDING");
}

static void only_a_running_execution_is_parked(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    /* Without its start. */
    assert_int_equal(scene_record_full(scene, scene->node, scene_record_of(RECORD_PARKED, &item)), WEIR_ILLEGAL_STATE);
    assert_string_equal(scene_status_of(scene, item.id), "CLAIMED");
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    struct claimed_item stale = item;
    stale.fence--;
    assert_int_equal(scene_record(scene, RECORD_PARKED, &stale), WEIR_STALE_FENCE);
    assert_string_equal(scene_status_of(scene, item.id), "DISPATCHED");
}

/* A node that got no answer records the park again, also when the wait was over in between. */
static void a_park_that_is_recorded_again_changes_nothing(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = enqueue_and_park(scene, "pro-co", SECONDS(5));
    struct record again = scene_record_of(RECORD_PARKED, &item);
    again.delay_us = AN_HOUR;
    assert_int_equal(scene_record_full(scene, scene->node, again), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_ILLEGAL_STATE);
    scene_pass(scene, SECONDS(5));
    (void)scene_look(scene);
    assert_string_equal(scene_status_of(scene, item.id), "PENDING");
    assert_int_equal(scene_record_full(scene, scene->node, again), WEIR_OK);
    struct claimed_item next = scene_claim_one(scene);
    assert_string_equal(next.id, item.id);
    assert_int_equal(scene_record_full(scene, scene->node, again), WEIR_STALE_FENCE);
    assert_int_equal(next.interruptions_at_park, 1);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &next), WEIR_OK);
}

static void a_cancel_ends_a_waiting_execution_and_its_steps_at_once(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = enqueue_and_park(scene, "free-co", AN_HOUR);
    scene_pass(scene, SECONDS(1));
    struct bulk_result result = act(scene, BULK_CANCEL, item.id);
    assert_int_equal(result.changed, 1);
    assert_int_equal(result.requested, 0);
    assert_string_equal(scene_status_of(scene, item.id), "CANCELLED");
    assert_string_equal(
        scene_text(scene, "SELECT status FROM execution_steps WHERE execution_id = '%s' AND step = 'nap'", item.id),
        "CANCELLED");
    assert_int_equal(scene_usage(scene, "free-co", "waiting"), 0);
    assert_int_equal(scene_usage(scene, "free-co", "cancelled"), 1);
    scene_assert_events(scene, item.id, "enqueue claim dispatch step_start park cancel step_end cancelled");
}

/* The cancel was requested while the node was about to park it. */
static void a_park_of_an_execution_to_be_cancelled_ends_it(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    struct step_record step = {.step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = AN_HOUR};
    struct record waits = scene_record_of(RECORD_STEP, &item);
    waits.step = &step;
    assert_int_equal(scene_record_full(scene, scene->node, waits), WEIR_OK);
    assert_int_equal(act(scene, BULK_CANCEL, item.id).requested, 1);
    struct record parked = scene_record_of(RECORD_PARKED, &item);
    struct record_summary summary;
    scene_ok(scene, store_record(scene->store, scene->node, &parked, 1, &summary, &scene->error));
    assert_int_equal(parked.status, WEIR_OK);
    assert_true(parked.is_cancelled);
    assert_int_equal(summary.changed, 1);
    assert_int_equal(summary.slots_freed, 1);
    assert_string_equal(scene_status_of(scene, item.id), "CANCELLED");
    assert_string_equal(
        scene_text(scene, "SELECT status FROM execution_steps WHERE execution_id = '%s' AND step = 'nap'", item.id),
        "CANCELLED");
    assert_int_equal(scene_held(scene, "free-co"), 0);
}

static void a_release_leaves_a_waiting_execution_alone(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = enqueue_and_park(scene, "free-co", AN_HOUR);
    struct bulk_result result = act(scene, BULK_RELEASE, item.id);
    assert_int_equal(result.changed, 0);
    assert_int_equal(result.refused, 1);
    assert_int_equal(result.first_refusal, WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(result.refusal.message, "is WAITING: only a PENDING one"));
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
    assert_int_equal(act(scene, BULK_RETRY, item.id).refused, 1);
    assert_int_equal(act(scene, BULK_PURGE, item.id).refused, 1);
}

static void why_and_the_row_say_what_it_waits_for(void **state)
{
    struct scene *scene = *state;
    struct claimed_item sleeper = enqueue_and_park(scene, "free-co", AN_HOUR);
    (void)scene_enqueue(scene, "pro-co");
    struct claimed_item retry = scene_claim_one(scene);
    park(scene, &retry, WAIT_RETRY, SECONDS(90));
    json_t *why = why_of(scene, sleeper.id);
    assert_string_equal(json_text_at(why, "status"), "WAITING");
    assert_true(json_is_null(json_object_get(why, "pending_reason")));
    assert_string_equal(json_text_at(why, "waiting_for"), "sleep");
    assert_string_equal(json_text_at(why, "because"), wait_kind_meaning(WAIT_SLEEP));
    assert_true(json_is_null(json_object_get(why, "node")));
    assert_int_equal(json_number_at(why, "slots_used"), 0);
    int64_t due_us = 0;
    scene_ok(scene, time_parse(json_text_at(why, "due_at"), 0, &due_us, &scene->error));
    assert_int_equal(due_us - scene_now(scene), AN_HOUR);
    const json_t *steps = json_object_get(why, "unfinished_steps");
    assert_string_equal(json_text_at(json_array_get(steps, 0), "step"), "nap");
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, retry.id, &shown, &scene->error));
    assert_string_equal(json_text_at(shown, "status"), "WAITING");
    assert_string_equal(json_text_at(shown, "waiting_for"), "retry");
    scene_ok(scene, time_parse(json_text_at(shown, "due_at"), 0, &due_us, &scene->error));
    assert_int_equal(due_us - scene_now(scene), SECONDS(90));
    json_decref(shown);
    json_decref(why);
    scene_pass(scene, SECONDS(90));
    scene_beat(scene, scene->node);
    (void)scene_look(scene);
    why = why_of(scene, retry.id);
    assert_string_equal(json_text_at(why, "status"), "PENDING");
    assert_string_equal(json_text_at(why, "pending_reason"), "ready");
    assert_true(json_is_null(json_object_get(why, "waiting_for")));
    json_decref(why);
}

static void lists_find_waiting_executions_by_their_status(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = enqueue_and_park(scene, "free-co", AN_HOUR);
    scene_enqueue_many(scene, "pro-co", 3);
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.states = 1U << ITEM_WAITING}, .count = true};
    json_t *page = NULL;
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_number_at(page, "count"), 1);
    assert_string_equal(json_text_at(json_array_get(json_object_get(page, "items"), 0), "id"), item.id);
    json_decref(page);
    options.filter = (struct execution_filter){.waiting_for = "retry"};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_number_at(page, "count"), 0);
    json_decref(page);
    options.filter.waiting_for = "sleep";
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_number_at(page, "count"), 1);
    assert_string_equal(json_text_at(json_array_get(json_object_get(page, "items"), 0), "id"), item.id);
    json_decref(page);
    options.filter = (struct execution_filter){.states = 1U << ITEM_DISPATCHED};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_number_at(page, "count"), 0);
    json_decref(page);
}

static void an_act_selects_by_the_wait(void **state)
{
    struct scene *scene = *state;
    struct claimed_item sleeper = enqueue_and_park(scene, "free-co", AN_HOUR);
    (void)scene_enqueue(scene, "pro-co");
    struct claimed_item retry = scene_claim_one(scene);
    park(scene, &retry, WAIT_RETRY, AN_HOUR);
    struct bulk_result result = {0};
    struct execution_filter filter = {.waiting_for = "retry"};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_string_equal(scene_status_of(scene, retry.id), "CANCELLED");
    assert_string_equal(scene_status_of(scene, sleeper.id), "WAITING");
}

static void the_history_has_each_park_and_wake(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = enqueue_and_park(scene, "free-co", SECONDS(10));
    scene_pass(scene, SECONDS(10));
    item = scene_claim_one(scene);
    scene_pass(scene, SECONDS(1));
    struct record started = scene_record_of(RECORD_DISPATCHED, &item);
    started.taken_over = true;
    assert_int_equal(scene_record_full(scene, scene->node, started), WEIR_OK);
    struct record parked = scene_record_of(RECORD_PARKED, &item);
    parked.delay_us = SECONDS(20);
    parked.waiting_for = WAIT_RETRY;
    scene_pass(scene, SECONDS(1));
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
    scene_pass(scene, SECONDS(20));
    item = scene_claim_one(scene);
    assert_int_equal(item.interruptions_at_park, item.interruptions);
    scene_pass(scene, SECONDS(1));
    struct record end = scene_record_of(RECORD_COMPLETED, &item);
    end.taken_over = true;
    end.dispatched_first = true;
    assert_int_equal(scene_record_full(scene, scene->node, end), WEIR_OK);
    scene_assert_events(
        scene, item.id,
        "enqueue claim dispatch step_start park wake claim dispatch park wake claim dispatch step_end complete");
    assert_string_equal(scene_text(scene,
                                   "SELECT reason FROM workflow_execution_events WHERE execution_id = '%s'"
                                   " AND event = 'park' ORDER BY at DESC LIMIT 1",
                                   item.id),
                        "retry");
    const char *until = scene_text(scene,
                                   "SELECT detail FROM workflow_execution_events WHERE execution_id = '%s'"
                                   " AND event = 'park' ORDER BY at LIMIT 1",
                                   item.id);
    int64_t until_us = 0;
    scene_ok(scene, time_parse(until, 0, &until_us, &scene->error));
    assert_int_equal(scene_now(scene) - until_us, SECONDS(23));
}

/* As a node reports a wait that begins with its claim: the start, the step and the park in one record. */
static struct record park_with_start(const struct claimed_item *item, const struct step_record *step)
{
    struct record parked = scene_record_of(RECORD_PARKED, item);
    parked.dispatched_first = true;
    parked.started_ago_us = SECONDS(2);
    parked.step = step;
    parked.step_reported_ago_us = SECONDS(1);
    parked.delay_us = step->due_in_us - SECONDS(1);
    parked.waiting_for = WAIT_SLEEP;
    return parked;
}

static int64_t step_time(struct scene *scene, const char *column, const char *id)
{
    return scene_number(scene, "SELECT %s FROM workflow_node_executions WHERE execution_id = '%s' AND step = 'nap'", column,
                        id);
}

static void one_record_has_the_start_the_wait_and_the_park(void **state)
{
    struct scene *scene = *state;
    struct step_record nap = {
        .step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = SECONDS(10)};
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    scene_pass(scene, SECONDS(3));
    struct record parked = park_with_start(&item, &nap);
    int64_t now_us = scene_now(scene);
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK); /* a repetition */
    assert_string_equal(scene_status_of(scene, id), "WAITING");
    scene_assert_events(scene, id, "enqueue claim dispatch step_start park");
    int64_t started_us = scene_number(scene, "SELECT dispatched_at FROM workflow_execution_queue WHERE id = '%s'", id);
    assert_int_equal(now_us - started_us, SECONDS(2));
    assert_int_equal(step_time(scene, "due_at", id) - now_us, SECONDS(9)); /* counted from the report */
    scene_pass(scene, SECONDS(9));
    item = scene_claim_one(scene);
    assert_string_equal(item.id, id);
    scene_pass(scene, SECONDS(5));
    /* The end of the sleep comes with the end of the execution, with the time of its report. */
    nap.state = STEP_COMPLETED;
    struct record slept = scene_record_of(RECORD_STEP, &item);
    struct record end = scene_record_of(RECORD_COMPLETED, &item);
    slept.step = &nap;
    slept.step_reported_ago_us = SECONDS(3);
    end.started_ago_us = SECONDS(4);
    end.dispatched_first = true;
    slept.taken_over = end.taken_over = true;
    struct record records[] = {slept, end};
    struct record_summary summary;
    now_us = scene_now(scene);
    scene_ok(scene, store_record(scene->store, scene->node, records, 2, &summary, &scene->error));
    assert_int_equal(records[0].status, WEIR_OK);
    assert_int_equal(records[1].status, WEIR_OK);
    assert_int_equal(now_us - step_time(scene, "finished_at", id), SECONDS(3));
    scene_assert_events(scene, id, "enqueue claim dispatch step_start park wake claim dispatch step_end complete");
}

static void the_end_of_a_sleep_is_not_before_its_claim(void **state)
{
    struct scene *scene = *state;
    struct step_record nap = {
        .step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = SECONDS(10)};
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record_full(scene, scene->node, park_with_start(&item, &nap)), WEIR_OK);
    scene_pass(scene, SECONDS(10));
    item = scene_claim_one(scene);
    int64_t claimed_us = scene_now(scene);
    scene_pass(scene, SECONDS(1));
    nap.state = STEP_COMPLETED;
    struct record slept = scene_record_of(RECORD_STEP, &item);
    slept.step = &nap;
    slept.step_reported_ago_us = AN_HOUR;
    slept.taken_over = true;
    assert_int_equal(scene_record_full(scene, scene->node, slept), WEIR_OK);
    assert_true(step_time(scene, "finished_at", id) >= claimed_us - SECONDS(1));
    assert_true(step_time(scene, "finished_at", id) <= claimed_us + SECONDS(1));
}

/* The cancel ends it in the place of the park, with the step that the park brings. */
/* Records of different executions may be written together. Those of one take effect in the order of the set. */
static void a_set_takes_effect_in_the_order_of_each_execution(void **state)
{
    struct scene *scene = *state;
    struct record_summary summary;
    scene_enqueue_many(scene, "pro-co", 3);
    struct claim_result claimed = scene_claim(scene, 3);
    assert_int_equal(claimed.count, 3);
    const struct claimed_item *ends = &claimed.items[0];
    const struct claimed_item *parks = &claimed.items[1];
    const struct claimed_item *starts = &claimed.items[2];
    struct step_record runs = {.step = "work", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    struct step_record nap = {.step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = AN_HOUR};
    struct record records[] = {
        scene_record_of(RECORD_STEP, ends),       park_with_start(parks, &nap),
        scene_record_of(RECORD_COMPLETED, ends),  scene_record_of(RECORD_STEP, ends),
        scene_record_of(RECORD_COMPLETED, parks), scene_record_of(RECORD_DISPATCHED, starts),
        scene_record_of(RECORD_PARKED, starts),   scene_record_of(RECORD_STEP, starts),
    };
    const enum weir_status expected[] = {WEIR_OK, WEIR_OK, WEIR_OK,           WEIR_EXECUTION_NOT_FOUND, WEIR_ILLEGAL_STATE,
                                         WEIR_OK, WEIR_OK, WEIR_ILLEGAL_STATE};
    records[0].step = records[3].step = records[7].step = &runs;
    records[2].dispatched_first = true;
    records[6].delay_us = AN_HOUR;
    records[6].waiting_for = WAIT_SLEEP;
    scene_ok(scene, store_record(scene->store, scene->node, records, 8, &summary, &scene->error));
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(records[i].status, expected[i]);
    }
    assert_int_equal(summary.changed, 5);
    assert_int_equal(summary.slots_freed, 3);
    assert_string_equal(scene_status_of(scene, ends->id), "COMPLETED");
    scene_assert_events(scene, parks->id, "enqueue claim dispatch step_start park");
    scene_assert_events(scene, starts->id, "enqueue claim dispatch park");
    scene_check(scene);
}

static void a_cancel_ends_one_that_parks_with_its_start(void **state)
{
    struct scene *scene = *state;
    struct step_record nap = {
        .step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = SECONDS(10)};
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    (void)act(scene, BULK_CANCEL, id);
    struct record records[] = {park_with_start(&item, &nap)};
    struct record_summary summary;
    scene_ok(scene, store_record(scene->store, scene->node, records, 1, &summary, &scene->error));
    assert_int_equal(records[0].status, WEIR_OK);
    assert_true(records[0].is_cancelled);
    assert_string_equal(scene_status_of(scene, id), "CANCELLED");
    assert_string_equal(
        scene_text(scene, "SELECT status FROM workflow_node_executions WHERE execution_id = '%s' AND step = 'nap'", id),
        "CANCELLED");
}

static void the_stream_has_the_park_and_the_wake(void **state)
{
    struct scene *scene = *state;
    struct stream_batch batch = {.count = 0};
    struct stream_position begin = {.since_us = 0};
    scene_ok(scene, store_read_stream(scene->store, &begin, STREAM_READ_MOST, &scene->arena, &batch, &scene->error));
    begin = batch.position;
    struct claimed_item item = enqueue_and_park(scene, "free-co", SECONDS(10));
    scene_pass(scene, SECONDS(10));
    (void)scene_look(scene);
    scene_ok(scene, store_read_stream(scene->store, &begin, STREAM_READ_MOST, &scene->arena, &batch, &scene->error));
    assert_int_equal(batch.count, 5);
    static const char *const kinds[] = {"enqueue", "claim", "dispatch", "park", "wake"};
    static const char *const states[] = {"PENDING", "CLAIMED", "DISPATCHED", "WAITING", "PENDING"};
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(batch.entries[i].id, item.id);
        assert_string_equal(stream_kind_name(batch.entries[i].kind), kinds[i]);
        assert_string_equal(item_state_name(stream_kind_state(batch.entries[i].kind)), states[i]);
    }
}

/* A node that dies or stops takes nothing from a parked execution, and any node may take it up. */
static void it_survives_its_node_and_wakes_on_another(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = enqueue_and_park(scene, "free-co", AN_HOUR);
    scene_ok(scene, store_node_stop(scene->store, scene->node, true, &scene->error));
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
    assert_int_equal(scene_number(scene, "SELECT fence FROM executions WHERE id = '%s'", item.id), item.fence);
    int64_t other = scene_add_node(scene, "other", "default");
    scene_pass(scene, AN_HOUR);
    scene_beat(scene, other);
    struct claim_result claim = scene_claim_as(scene, other, "default", 10);
    assert_int_equal(claim.count, 1);
    assert_string_equal(claim.items[0].id, item.id);
    assert_int_equal(claim.items[0].step_count, 1);
}

static void deleting_its_workspace_ends_it(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = enqueue_and_park(scene, "free-co", AN_HOUR);
    struct workspace_deletion deletion = {.name = "free-co"};
    struct deletion_result result = {.failed = 0};
    assert_int_equal(store_delete_workspace(scene->store, &deletion, &result, &scene->error), WEIR_ILLEGAL_STATE);
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
    deletion.fails_waiting = true;
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &result, &scene->error));
    assert_int_equal(result.failed, 1);
    assert_string_equal(scene_status_of(scene, item.id), "FAILED");
    assert_string_equal(scene_text(scene, "SELECT error_code FROM executions WHERE id = '%s'", item.id),
                        "workspace_deleted");
}

/* The node has these handlers from now on. */
static void offer(struct scene *scene, const char *names)
{
    bool more = true;
    struct node_handlers handlers = {.names = names};
    scene_ok(scene, store_node_handlers(scene->store, scene->node, &handlers, &more, &scene->error));
    assert_false(more);
}

/* An error of a start before the park is over: no node must take the item for one that waits for a handler. */
static void an_earlier_refused_start_leaves_no_error(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    struct record deferred = scene_record_of(RECORD_DEFERRED, &item);
    deferred.error_code = "unknown_handler";
    deferred.error = "no handler";
    assert_int_equal(scene_record_full(scene, scene->node, deferred), WEIR_OK);
    item = scene_claim_one(scene);
    park(scene, &item, WAIT_SLEEP, AN_HOUR);
    offer(scene, "[]");
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
    assert_null(scene_text(scene, "SELECT error_code FROM executions WHERE id = '%s'", item.id));
    assert_int_equal(scene_number(scene, "SELECT deferrals FROM executions WHERE id = '%s'", item.id), 0);
}

/* Parks so many of a workspace in sets. */
static void park_many(struct scene *scene, const char *workspace, size_t many, int64_t delay_us)
{
    scene_cap(scene, workspace, (int64_t)many);
    scene_enqueue_many(scene, workspace, many);
    struct claim_result claim = scene_claim(scene, many);
    assert_int_equal(claim.count, many);
    struct record *records = calloc(2 * many, sizeof *records);
    assert_non_null(records);
    for (size_t i = 0; i < many; i++) {
        records[i] = scene_record_of(RECORD_DISPATCHED, &claim.items[i]);
        records[many + i] = scene_record_of(RECORD_PARKED, &claim.items[i]);
        records[many + i].delay_us = delay_us;
    }
    for (size_t i = 0; i < 2 * many; i += RECORD_BATCH_MOST) {
        struct record_summary summary;
        size_t count = 2 * many - i < RECORD_BATCH_MOST ? 2 * many - i : RECORD_BATCH_MOST;
        scene_ok(scene, store_record(scene->store, scene->node, records + i, count, &summary, &scene->error));
        assert_int_equal(summary.changed, count);
    }
    free(records);
    assert_int_equal(scene_usage(scene, workspace, "waiting"), many);
    scene_check(scene);
}

/* More parked rows are due before it than rows that back off are counted. */
static void parked_ones_hide_none_that_lacks_a_worker(void **state)
{
    struct scene *scene = *state;
    static const char definition[] = "{\"name\":\"mail\",\"steps\":{\"send\":{\"handler\":\"send-mail\"}}}";
    struct published published;
    scene_ok(scene, store_publish(scene->store, "mail", NULL, definition, NULL, &published, &scene->error));
    park_many(scene, "big-co", BACKING_OFF_COUNT_MOST + 1, SECONDS(60));
    (void)scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "mail"});
    offer(scene, "[\"send-mail\"]");
    struct claimed_item item = scene_claim_one(scene);
    offer(scene, "[]");
    struct record deferred = scene_record_of(RECORD_DEFERRED, &item);
    deferred.error_code = "unknown_handler";
    deferred.error = "no handler";
    deferred.delay_us = AN_HOUR;
    assert_int_equal(scene_record_full(scene, scene->node, deferred), WEIR_OK);
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    assert_int_equal(json_number_at(json_object_get(status, "pending_reasons"), "no_worker"), 1);
    assert_int_equal(json_array_size(json_object_get(status, "no_worker")), 1);
    json_decref(status);
}

/* More than one call of the scheduler makes runnable at once. */
static void many_that_are_due_together_all_wake(void **state)
{
    enum { MANY = 1500 };
    struct scene *scene = *state;
    park_many(scene, "big-co", MANY, SECONDS(10));
    scene_pass(scene, SECONDS(10));
    scene_beat(scene, scene->node);
    size_t woken = 0;
    for (int calls = 0; woken < MANY && calls < 20; calls++) {
        woken += scene_claim(scene, MANY).count;
    }
    assert_int_equal(woken, MANY);
    assert_int_equal(scene_usage(scene, "big-co", "waiting"), 0);
}

/* The detail of the only cancel of an execution. */
static const char *cancel_detail(struct scene *scene, const char *id)
{
    return scene_text(scene, "SELECT detail FROM execution_events WHERE execution_id = '%s' AND event = 'cancel'", id);
}

static void a_cancel_tells_a_woken_one_from_one_that_never_ran(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = enqueue_and_park(scene, "free-co", SECONDS(5));
    scene_pass(scene, SECONDS(5));
    (void)scene_look(scene);
    assert_string_equal(scene_status_of(scene, item.id), "PENDING");
    assert_int_equal(act(scene, BULK_CANCEL, item.id).changed, 1);
    assert_string_equal(cancel_detail(scene, item.id), "it was waiting");
    const char *id = scene_enqueue(scene, "free-co");
    assert_int_equal(act(scene, BULK_CANCEL, id).changed, 1);
    assert_string_equal(cancel_detail(scene, id), "it had not started");
}

/* Its node has claimed it after the wait, and has not started it yet. The wait is no running time. */
static void why_counts_from_the_wake(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_and_park(scene, "free-co", AN_HOUR);
    scene_pass(scene, AN_HOUR);
    scene_beat(scene, scene->node);
    struct claimed_item item = scene_claim_one(scene);
    scene_pass(scene, SECONDS(2));
    json_t *why = why_of(scene, item.id);
    assert_string_equal(json_text_at(why, "because"), "its node has claimed it and starts it");
    json_decref(why);
    why = why_of(scene, scene_enqueue(scene, "free-co"));
    const json_t *holder = json_array_get(json_object_get(why, "slot_holders"), 0);
    assert_string_equal(json_text_at(holder, "id"), item.id);
    assert_true(json_number_at(holder, "running_us") >= SECONDS(2));
    assert_true(json_number_at(holder, "running_us") < AN_HOUR);
    json_decref(why);
}

/* As an item that has just been enqueued. */
static void the_wait_is_no_age_of_a_pending_one(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_and_park(scene, "free-co", AN_HOUR);
    scene_pass(scene, AN_HOUR);
    scene_beat(scene, scene->node);
    (void)scene_look(scene);
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    assert_int_equal(json_number_at(status, "pending"), 1);
    assert_true(json_number_at(status, "oldest_pending_age_us") < AN_HOUR);
    json_decref(status);
}

/* Loses the keeper of the steps, while one runs. Afterwards what is in quarantine has waited long enough. */
static void lose_keeper(struct scene *scene, int64_t node, const struct claimed_item *item)
{
    struct record record = scene_record_of(RECORD_DISPATCHED, item);
    assert_int_equal(scene_record_full(scene, node, record), WEIR_OK);
    struct step_record running = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    record = scene_record_of(RECORD_STEP, item);
    record.step = &running;
    assert_int_equal(scene_record_full(scene, node, record), WEIR_OK);
    record = scene_record_of(RECORD_GIVEN_BACK, item);
    record.error_code = SUSPICION_KEEPER_LOST;
    assert_int_equal(scene_record_full(scene, node, record), WEIR_OK);
    for (int64_t passed_us = 0; passed_us < SECONDS(60); passed_us += SCENE_LEASE_US / 2) {
        scene_pass(scene, SCENE_LEASE_US / 2);
        scene_beat(scene, node);
    }
}

/* Its node does not park a suspect: a woken one starts beside any others. A step that ends makes it an ordinary one. */
static void a_claim_tells_a_suspect(void **state)
{
    struct scene *scene = *state;
    int64_t other = scene_add_node(scene, "node-2", "default");
    const int64_t nodes[] = {scene->node, other}; /* by the answer of a round, and by an inbox */
    for (size_t i = 0; i < 2; i++) {
        int64_t node = nodes[i];
        const char *id = scene_enqueue(scene, "free-co");
        scene_beat(scene, node);
        for (int death = 1; death <= 2; death++) {
            struct claim_result claim = scene_claim_as(scene, node, "default", 10);
            assert_int_equal(claim.count, 1);
            assert_string_equal(claim.items[0].id, id);
            assert_false(claim.items[0].is_suspect);
            lose_keeper(scene, node, &claim.items[0]);
        }
        struct claim_result claim = scene_claim_as(scene, node, "default", 10);
        assert_int_equal(claim.count, 1);
        assert_true(claim.items[0].is_suspect);
        struct step_record ended = {.step = "one", .state = STEP_COMPLETED, .attempt = 3};
        struct record record = scene_record_of(RECORD_STEP, &claim.items[0]);
        record.step = &ended;
        assert_int_equal(scene_record_full(scene, node, record), WEIR_OK);
        record = scene_record_of(RECORD_GIVEN_BACK, &claim.items[0]);
        assert_int_equal(scene_record_full(scene, node, record), WEIR_OK);
        claim = scene_claim_as(scene, node, "default", 10);
        assert_int_equal(claim.count, 1);
        assert_false(claim.items[0].is_suspect);
        assert_int_equal(claim.items[0].interruptions, 3);
        record = scene_record_of(RECORD_COMPLETED, &claim.items[0]);
        record.dispatched_first = true;
        assert_int_equal(scene_record_full(scene, node, record), WEIR_OK);
    }
}

/* No attempt is under way at a park: what interrupted earlier ones is past. */
static void a_park_settles_earlier_interruptions(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    lose_keeper(scene, scene->node, &item);
    item = scene_claim_one(scene);
    assert_true(item.handed_over);
    assert_int_equal(item.interruptions - item.interruptions_at_park, 1);
    park(scene, &item, WAIT_RETRY, SECONDS(5));
    scene_pass(scene, SECONDS(5));
    item = scene_claim_one(scene);
    assert_false(item.handed_over);
    assert_true(item.lost_a_node); /* attempts are on record before they begin */
    assert_int_equal(item.interruptions, 2);
    assert_int_equal(item.interruptions_at_park, 2);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        SCENE_TEST(a_parked_execution_uses_no_slot),
        SCENE_TEST(it_starts_again_when_it_is_due_and_not_before),
        SCENE_TEST(it_queues_by_its_first_rank_before_newer_work),
        SCENE_TEST(only_a_running_execution_is_parked),
        SCENE_TEST(a_park_that_is_recorded_again_changes_nothing),
        SCENE_TEST(a_cancel_ends_a_waiting_execution_and_its_steps_at_once),
        SCENE_TEST(a_park_of_an_execution_to_be_cancelled_ends_it),
        SCENE_TEST(a_release_leaves_a_waiting_execution_alone),
        SCENE_TEST(why_and_the_row_say_what_it_waits_for),
        SCENE_TEST(lists_find_waiting_executions_by_their_status),
        SCENE_TEST(an_act_selects_by_the_wait),
        SCENE_TEST(the_history_has_each_park_and_wake),
        SCENE_TEST(one_record_has_the_start_the_wait_and_the_park),
        SCENE_TEST(the_end_of_a_sleep_is_not_before_its_claim),
        SCENE_TEST(a_set_takes_effect_in_the_order_of_each_execution),
        SCENE_TEST(a_cancel_ends_one_that_parks_with_its_start),
        SCENE_TEST(the_stream_has_the_park_and_the_wake),
        SCENE_TEST(it_survives_its_node_and_wakes_on_another),
        SCENE_TEST(deleting_its_workspace_ends_it),
        SCENE_TEST(an_earlier_refused_start_leaves_no_error),
        SCENE_TEST(parked_ones_hide_none_that_lacks_a_worker),
        SCENE_TEST(many_that_are_due_together_all_wake),
        SCENE_TEST(a_cancel_tells_a_woken_one_from_one_that_never_ran),
        SCENE_TEST(why_counts_from_the_wake),
        SCENE_TEST(the_wait_is_no_age_of_a_pending_one),
        SCENE_TEST(a_claim_tells_a_suspect),
        SCENE_TEST(a_park_settles_earlier_interruptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
