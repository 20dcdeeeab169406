/* Wakes: acts that end the wait of a step before its time, once, wherever its execution is. */
#include "conformance/scene.h"

#define AN_HOUR SECONDS(3600)

#define WAKE_TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, scene_close)

static int open_scene(void **state)
{
    int failed = scene_open(state);
    struct scene *scene = *state;
    if (failed == 0) {
        scene_ok(scene, store_act_as(scene->store, "ann", "because", &scene->error));
    }
    return failed;
}

/* A step on record that sleeps; with a code it waits for its next attempt, with a name for a signal. */
static struct step_record waiting_step(const char *step, const char *code, const char *signal, int64_t due_in_us)
{
    struct step_record record = {.state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = due_in_us};
    text_copy(record.step, sizeof record.step, step);
    text_copy(record.error_code, sizeof record.error_code, code);
    text_copy(record.signal, sizeof record.signal, signal);
    return record;
}

static struct claimed_item claim_and_wait(struct scene *scene, const struct step_record *step)
{
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, id);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    struct record waits = scene_record_of(RECORD_STEP, &item);
    waits.step = step;
    assert_int_equal(scene_record_full(scene, scene->node, waits), WEIR_OK);
    return item;
}

static void park(struct scene *scene, const struct claimed_item *item, enum wait_kind kind, int64_t delay_us)
{
    struct record parked = scene_record_of(RECORD_PARKED, item);
    parked.delay_us = delay_us;
    parked.waiting_for = kind;
    parked.signals_seen = item->signals_seen;
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
}

static struct claimed_item park_sleeping(struct scene *scene)
{
    struct step_record nap = waiting_step("nap", "", "", AN_HOUR);
    struct claimed_item item = claim_and_wait(scene, &nap);
    park(scene, &item, WAIT_SLEEP, AN_HOUR);
    return item;
}

static struct bulk_result wake_as(struct scene *scene, const char *id, const char *waits_for)
{
    struct bulk_result result = {0};
    const struct execution_filter filter = {.id = id};
    const struct act_order order = {.waits_for = waits_for};
    scene_ok(scene, store_bulk_ordered(scene->store, BULK_WAKE, &order, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.matched, 1);
    assert_int_equal(result.changed + result.refused, 1);
    return result;
}

static void assert_woken(struct scene *scene, const char *id, const char *waits_for)
{
    struct bulk_result result = wake_as(scene, id, waits_for);
    if (result.changed != 1) {
        fail_msg("%s", result.refusal.message);
    }
}

static void refuse_wake(struct scene *scene, const char *id, const char *waits_for, const char *words)
{
    struct bulk_result result = wake_as(scene, id, waits_for);
    assert_int_equal(result.refused, 1);
    assert_int_equal(result.first_refusal, WEIR_ILLEGAL_STATE);
    if (strstr(result.refusal.message, words) == NULL) {
        fail_msg("\"%s\" has not the words \"%s\"", result.refusal.message, words);
    }
}

static enum weir_status end_step(struct scene *scene, const struct claimed_item *item, const char *step, int64_t seq)
{
    struct step_record ended = {.state = STEP_COMPLETED, .attempt = 1, .exit_code = -1, .signal_seq = seq};
    text_copy(ended.step, sizeof ended.step, step);
    struct record record = scene_record_of(RECORD_STEP, item);
    record.step = &ended;
    return scene_record_full(scene, scene->node, record);
}

static void a_sleep_ends_before_its_time(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = park_sleeping(scene);
    assert_int_equal(scene_usage(scene, "free-co", "waiting"), 1);
    assert_woken(scene, item.id, NULL);
    assert_string_equal(scene_status_of(scene, item.id), "PENDING");
    assert_int_equal(scene_usage(scene, "free-co", "waiting"), 0);
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.id, item.id);
    assert_int_equal(again.signal_count, 1);
    assert_string_equal(again.signals[0].name, "wake:nap");
    assert_string_equal(again.signals[0].data, "1"); /* the attempt */
    assert_int_equal(end_step(scene, &again, "nap", again.signals[0].seq), WEIR_OK);
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, item.id, &shown, &scene->error));
    const json_t *signal = json_array_get(json_object_get(shown, "signals"), 0);
    assert_string_equal(json_text_at(signal, "actor"), "ann");
    assert_string_equal(json_text_at(signal, "step"), "nap");
    assert_non_null(json_text_at(signal, "consumed_at"));
    json_decref(shown);
    scene_check(scene);
}

static void two_wakes_end_one_wait(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = park_sleeping(scene);
    assert_woken(scene, item.id, NULL);
    refuse_wake(scene, item.id, NULL, "is PENDING: it was woken already");
    struct claimed_item again = scene_claim_one(scene);
    refuse_wake(scene, item.id, NULL, "is CLAIMED: it was woken already");
    assert_int_equal(again.signal_count, 1);
    assert_int_equal(end_step(scene, &again, "nap", again.signals[0].seq), WEIR_OK);
    refuse_wake(scene, item.id, NULL, "none of its steps sleeps");
}

/* The scheduler has made it runnable at the same moment: the wake finds it PENDING, and ends what is left of the wait. */
static void a_wake_and_a_due_time_meet(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = park_sleeping(scene);
    scene_pass(scene, AN_HOUR);
    scene_beat(scene, scene->node);
    (void)scene_look(scene);
    assert_string_equal(scene_status_of(scene, item.id), "PENDING");
    assert_woken(scene, item.id, NULL);
    refuse_wake(scene, item.id, NULL, "woken already");
    struct claim_result claim = scene_claim(scene, 10);
    assert_int_equal(claim.count, 1);
    assert_int_equal(claim.items[0].signal_count, 1);
    scene_check(scene);
}

static void only_a_wait_of_the_kind_ends(void **state)
{
    struct scene *scene = *state;
    struct step_record charge = waiting_step("charge", "timeout", "", AN_HOUR);
    struct claimed_item item = claim_and_wait(scene, &charge);
    park(scene, &item, WAIT_RETRY, AN_HOUR);
    refuse_wake(scene, item.id, "sleep", "none of its steps has a wait of this kind");
    refuse_wake(scene, item.id, "signal", "none of its steps has a wait of this kind");
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
    assert_woken(scene, item.id, "retry");
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.signals[0].name, "wake:charge");
    struct bulk_result result = {0};
    assert_int_equal(store_bulk_ordered(scene->store, BULK_WAKE, &(struct act_order){.waits_for = "nap"},
                                        &(struct execution_filter){.id = item.id}, "", 10, &result, &scene->error),
                     WEIR_INVALID_ARGUMENT);
}

static void a_wait_for_a_signal_ends_only_by_its_kind_and_with_a_timeout(void **state)
{
    struct scene *scene = *state;
    struct step_record ask = waiting_step("ask", "", "approved", AN_HOUR);
    struct claimed_item item = claim_and_wait(scene, &ask);
    park(scene, &item, WAIT_SIGNAL, AN_HOUR);
    refuse_wake(scene, item.id, NULL, "a wake does not bring them");
    assert_woken(scene, item.id, "signal");
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.signals[0].name, "wake:ask");
    assert_int_equal(scene_record(scene, RECORD_FAILED, &again), WEIR_OK);
    ask.due_in_us = TIME_NEVER;
    struct claimed_item other = claim_and_wait(scene, &ask);
    park(scene, &other, WAIT_SIGNAL, TIME_NEVER);
    refuse_wake(scene, other.id, "signal", "wait without a timeout");
    assert_string_equal(scene_status_of(scene, other.id), "WAITING");
}

static void a_node_that_holds_it_gets_the_wake_as_a_request(void **state)
{
    struct scene *scene = *state;
    struct step_record nap = waiting_step("nap", "", "", AN_HOUR);
    struct claimed_item item = claim_and_wait(scene, &nap);
    (void)scene_take_requests(scene, scene->node, 0);
    assert_woken(scene, item.id, NULL);
    struct node_request *requests = scene_take_requests(scene, scene->node, 1);
    assert_string_equal(requests[0].id, item.id);
    assert_int_equal(requests[0].fence, item.fence);
    assert_int_equal(requests[0].signal_count, 1);
    assert_string_equal(requests[0].signals[0].name, "wake:nap");
    assert_string_equal(scene_status_of(scene, item.id), "DISPATCHED");
    scene_check(scene);
}

/* The node has decided to park, and the wake comes before its record. */
static void a_park_finds_the_wake_that_came_before_it(void **state)
{
    struct scene *scene = *state;
    struct step_record nap = waiting_step("nap", "", "", AN_HOUR);
    struct claimed_item item = claim_and_wait(scene, &nap);
    assert_woken(scene, item.id, NULL);
    park(scene, &item, WAIT_SLEEP, AN_HOUR);
    assert_string_equal(scene_status_of(scene, item.id), "PENDING");
    assert_int_equal(scene_claim_one(scene).signal_count, 1);
    scene_check(scene);
}

static void the_wait_for_the_attempt_after_it_is_another_one(void **state)
{
    struct scene *scene = *state;
    struct step_record charge = waiting_step("charge", "timeout", "", AN_HOUR);
    struct claimed_item item = claim_and_wait(scene, &charge);
    assert_woken(scene, item.id, NULL);
    struct record waits = scene_record_of(RECORD_STEP, &item);
    charge.attempt = 2;
    charge.due_in_us = 2 * AN_HOUR;
    charge.signal_seq = 1;
    waits.step = &charge;
    assert_int_equal(scene_record_full(scene, scene->node, waits), WEIR_OK);
    assert_woken(scene, item.id, NULL);
    struct node_request *requests = scene_take_requests(scene, scene->node, 1);
    assert_int_equal(requests[0].signal_count, 1); /* the record of the next wait has consumed the first one */
    assert_int_equal(requests[0].signals[0].seq, 2);
    assert_string_equal(requests[0].signals[0].data, "2");
}

/* The attempt had begun by itself when the wake came, so no record names it. */
static void a_wake_that_came_too_late_is_of_no_wait(void **state)
{
    struct scene *scene = *state;
    struct step_record charge = waiting_step("charge", "timeout", "", AN_HOUR);
    struct claimed_item item = claim_and_wait(scene, &charge);
    json_t *shown = NULL;
    assert_woken(scene, item.id, NULL);
    struct record runs = scene_record_of(RECORD_STEP, &item);
    charge = (struct step_record){.step = "charge", .state = STEP_RUNNING, .attempt = 2, .exit_code = -1};
    runs.step = &charge;
    assert_int_equal(scene_record_full(scene, scene->node, runs), WEIR_OK);
    struct node_request *requests = scene_take_requests(scene, scene->node, 1);
    assert_int_equal(requests[0].signal_count, 0);
    (void)scene_take_requests(scene, scene->node, 0);
    charge = waiting_step("charge", "timeout", "", 2 * AN_HOUR);
    charge.attempt = 2;
    assert_int_equal(scene_record_full(scene, scene->node, runs), WEIR_OK);
    scene_ok(scene, store_show(scene->store, item.id, &shown, &scene->error));
    assert_int_equal(json_array_size(json_object_get(shown, "signals")), 0);
    json_decref(shown);
    assert_woken(scene, item.id, NULL); /* the next wait is another one */
    requests = scene_take_requests(scene, scene->node, 1);
    assert_int_equal(requests[0].signal_count, 1);
    assert_string_equal(requests[0].signals[0].data, "2");
}

static void an_execution_that_does_not_wait_is_refused(void **state)
{
    struct scene *scene = *state;
    struct bulk_result result = {0};
    const char *id = scene_enqueue(scene, "free-co");
    refuse_wake(scene, id, NULL, "is PENDING: none of its steps sleeps or waits for its next attempt");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    refuse_wake(scene, id, NULL, "is COMPLETED: it has ended");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit"), 0);
    const struct execution_filter missing = {.id = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79"};
    assert_int_equal(store_bulk_one(scene->store, BULK_WAKE, NULL, &missing, &result, &scene->error),
                     WEIR_EXECUTION_NOT_FOUND);
}

/* Its service keeps its timers, so the refusal names what reaches a workflow there. */
static void an_execution_on_temporal_has_no_wait_to_end(void **state)
{
    struct scene *scene = *state;
    static const char definition[] = "{\"name\":\"remote\",\"temporal\":{}}";
    struct published published;
    scene_ok(scene, store_publish(scene->store, "remote", NULL, definition, NULL, &published, &scene->error));
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "remote"});
    refuse_wake(scene, id, NULL, "is PENDING: its workflow is one of Temporal, which keeps its timers; `weir signal`");
    refuse_wake(scene, id, "sleep", "is PENDING: its workflow is one of Temporal");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'wake'"), 0);
}

static void a_wake_is_on_record_with_its_actor(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = park_sleeping(scene);
    struct step_record nap = waiting_step("nap", "", "", AN_HOUR);
    struct claimed_item held = claim_and_wait(scene, &nap);
    assert_woken(scene, item.id, NULL);
    assert_woken(scene, held.id, NULL);
    const char *const ids[] = {item.id, held.id};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(
            scene_number(scene,
                         "SELECT count(*) FROM workflow_execution_events WHERE execution_id = '%s' AND event = "
                         "'wake' AND actor = 'ann' AND reason = 'because'",
                         ids[i]),
            1);
        assert_int_equal(scene_number(scene,
                                      "SELECT count(*) FROM audit WHERE act = 'wake' AND subject = '%s' AND actor = 'ann' "
                                      "AND reason = 'because' AND affected = 1",
                                      ids[i]),
                         1);
    }
}

static void a_filter_wakes_many(void **state)
{
    struct scene *scene = *state;
    struct bulk_result result = {0};
    for (int i = 0; i < 3; i++) {
        (void)park_sleeping(scene);
    }
    const struct execution_filter filter = {.waiting_for = "sleep"};
    scene_ok(scene, store_bulk(scene->store, BULK_WAKE, &filter, "", 2, &result, &scene->error));
    assert_int_equal(result.changed, 2);
    assert_true(result.more);
    char after[UUID_TEXT_MAX];
    memcpy(after, result.last_id, sizeof after);
    scene_ok(scene, store_bulk(scene->store, BULK_WAKE, &filter, after, 2, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue WHERE phase = 3"), 0);
    scene_check(scene);
}

static void the_stream_has_the_wake(void **state)
{
    struct scene *scene = *state;
    struct stream_batch batch = {.count = 0};
    struct stream_position begin = {.since_us = 0};
    scene_ok(scene, store_read_stream(scene->store, &begin, STREAM_READ_MOST, &scene->arena, &batch, &scene->error));
    struct claimed_item item = park_sleeping(scene);
    begin = batch.position;
    assert_woken(scene, item.id, NULL);
    scene_ok(scene, store_read_stream(scene->store, &begin, STREAM_READ_MOST, &scene->arena, &batch, &scene->error));
    assert_true(batch.count > 0);
    const struct stream_entry *last = &batch.entries[batch.count - 1];
    assert_string_equal(last->id, item.id);
    assert_string_equal(stream_kind_name(last->kind), "wake");
}

/* No caller may send what a wake is made of. */
static void a_signal_cannot_have_the_name_of_a_wake(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = park_sleeping(scene);
    struct sent_signal sent;
    struct signal_request request = {.id = item.id, .name = "wake:nap", .data = "1"};
    assert_int_equal(store_signal(scene->store, &request, &sent, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WAKE_TEST(a_sleep_ends_before_its_time),
        WAKE_TEST(two_wakes_end_one_wait),
        WAKE_TEST(a_wake_and_a_due_time_meet),
        WAKE_TEST(only_a_wait_of_the_kind_ends),
        WAKE_TEST(a_wait_for_a_signal_ends_only_by_its_kind_and_with_a_timeout),
        WAKE_TEST(a_node_that_holds_it_gets_the_wake_as_a_request),
        WAKE_TEST(a_park_finds_the_wake_that_came_before_it),
        WAKE_TEST(the_wait_for_the_attempt_after_it_is_another_one),
        WAKE_TEST(a_wake_that_came_too_late_is_of_no_wait),
        WAKE_TEST(an_execution_that_does_not_wait_is_refused),
        WAKE_TEST(an_execution_on_temporal_has_no_wait_to_end),
        WAKE_TEST(a_wake_is_on_record_with_its_actor),
        WAKE_TEST(a_filter_wakes_many),
        WAKE_TEST(the_stream_has_the_wake),
        WAKE_TEST(a_signal_cannot_have_the_name_of_a_wake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
