/* The timeline of a workspace's slots (store/slot_timeline.h). */
#include "conformance/scene.h"
#include "store/slot_timeline.h"

static json_t *timeline(struct scene *scene, const char *workspace, int64_t since_us, size_t limit)
{
    json_t *page = NULL;
    struct list_options options = {
        .kind = LIST_SLOT_TIMELINE, .name = workspace, .filter = {.created_since_us = since_us}, .limit = limit};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_true(json_is_null(json_object_get(page, "next_cursor")));
    assert_int_equal(json_number_at(page, "count"), json_array_size(json_object_get(page, "items")));
    return page;
}

/* "slot 0-5, wait 5-9, slot 9-": seconds since `from_us`. */
static const char *spans_of(struct scene *scene, const json_t *item, int64_t from_us)
{
    char text[2000] = "";
    const json_t *span;
    size_t i;
    json_array_foreach(json_object_get(item, "spans"), i, span)
    {
        size_t used = strlen(text);
        int64_t at_us = 0;
        scene_ok(scene, time_parse(json_text_at(span, "started_at"), 0, &at_us, &scene->error));
        (void)snprintf(text + used, sizeof text - used, "%s%s %lld-", i > 0 ? ", " : "",
                       json_is_true(json_object_get(span, "uses_slot")) ? "slot" : "wait",
                       (long long)((at_us - from_us) / MICROSECONDS_PER_SECOND));
        if (!json_is_null(json_object_get(span, "finished_at"))) {
            used = strlen(text);
            scene_ok(scene, time_parse(json_text_at(span, "finished_at"), 0, &at_us, &scene->error));
            (void)snprintf(text + used, sizeof text - used, "%lld",
                           (long long)((at_us - from_us) / MICROSECONDS_PER_SECOND));
        }
    }
    return arena_copy_string(&scene->arena, text);
}

/* The spans of the only item that the timeline has, or "" for none. */
static const char *only_spans(struct scene *scene, const char *workspace, int64_t since_us, int64_t from_us)
{
    json_t *page = timeline(scene, workspace, since_us, 10);
    const json_t *items = json_object_get(page, "items");
    assert_true(json_array_size(items) <= 1);
    assert_true(json_is_true(json_object_get(page, "count_is_exact")));
    assert_true(json_is_null(json_object_get(page, "examined_since")));
    const char *spans = json_array_size(items) == 0 ? "" : spans_of(scene, json_array_get(items, 0), from_us);
    json_decref(page);
    return spans;
}

static void park(struct scene *scene, const struct claimed_item *item, int64_t delay_us)
{
    struct record parked = scene_record_of(RECORD_PARKED, item);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, item), WEIR_OK);
    parked.delay_us = delay_us;
    parked.waiting_for = WAIT_SLEEP;
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
}

static void a_slot_is_used_from_the_claim_to_the_end(void **state)
{
    struct scene *scene = *state;
    int64_t from_us = scene_now(scene);
    (void)scene_enqueue(scene, "pro-co");
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "");
    scene_pass(scene, SECONDS(1));
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 1-");
    scene_pass(scene, SECONDS(2));
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 1-");
    scene_pass(scene, SECONDS(2));
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 1-5");
    assert_string_equal(only_spans(scene, "pro-co", from_us + SECONDS(5), from_us), "slot 1-5");
    assert_string_equal(only_spans(scene, "pro-co", from_us + SECONDS(6), from_us), "");
    assert_string_equal(only_spans(scene, "big-co", from_us, from_us), "");
    assert_string_equal(only_spans(scene, "no-such-workspace", from_us, from_us), "");
}

static void a_parked_execution_waits_without_a_slot(void **state)
{
    struct scene *scene = *state;
    int64_t from_us = scene_now(scene);
    (void)scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    scene_pass(scene, SECONDS(2));
    park(scene, &item, SECONDS(3));
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 0-2, wait 2-");
    scene_pass(scene, SECONDS(3));
    (void)scene_look(scene); /* it is PENDING again, and waits for its slot */
    scene_pass(scene, SECONDS(1));
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 0-2, wait 2-");
    item = scene_claim_one(scene);
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 0-2, wait 2-6, slot 6-");
    park(scene, &item, SECONDS(100)); /* at once: all at the same time */
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 0-2, wait 2-6, slot 6-6, wait 6-");
    scene_pass(scene, SECONDS(4));
    struct execution_filter filter = {.workspace = "pro-co"};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 0-2, wait 2-6, slot 6-6, wait 6-10");
    assert_string_equal(only_spans(scene, "pro-co", from_us + SECONDS(7), from_us), "wait 6-10");
}

static void retry_all(struct scene *scene)
{
    struct execution_filter filter = {.workspace = "pro-co"};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
}

/* A retry leaves the slot, and its backoff is no wait of the execution. */
static void a_refused_start_leaves_its_slot(void **state)
{
    struct scene *scene = *state;
    int64_t from_us = scene_now(scene);
    (void)scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    scene_pass(scene, SECONDS(2));
    struct record retry = scene_record_of(RECORD_RETRY, &item);
    retry.delay_us = SECONDS(5);
    assert_int_equal(scene_record_full(scene, scene->node, retry), WEIR_OK);
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 0-2");
    scene_pass(scene, SECONDS(6));
    item = scene_claim_one(scene);
    scene_pass(scene, SECONDS(1));
    assert_int_equal(scene_record(scene, RECORD_FAILED, &item), WEIR_OK);
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 0-2, slot 8-9");
    retry_all(scene);
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 0-2, slot 8-9");
}

static void a_handover_keeps_the_slot(void **state)
{
    struct scene *scene = *state;
    int64_t from_us = scene_now(scene);
    (void)scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    scene_pass(scene, SCENE_LEASE_US + SECONDS(10));
    int64_t heir = scene_add_node(scene, "heir", "default");
    struct recover_result recovered = {0};
    scene_recover(scene, &(struct recover_options){.node_id = heir, .group = "default", .limit = 10}, &recovered);
    assert_int_equal(recovered.handed_over, 1);
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 0-");
    struct claim_result claim = scene_claim_as(scene, heir, "default", 1);
    assert_int_equal(claim.handed_over, 1);
    scene_pass(scene, SECONDS(10));
    assert_int_equal(scene_record_full(scene, heir, scene_record_of(RECORD_FAILED, &claim.items[0])), WEIR_OK);
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 0-70");
    retry_all(scene); /* the act of a person has the name of a move, and is none */
    assert_string_equal(only_spans(scene, "pro-co", from_us, from_us), "slot 0-70");
}

/* Those that hold a slot come first, and the answer reports that some are left out. */
static void the_limit_keeps_those_that_hold_a_slot(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "big-co");
    struct claimed_item held = scene_claim_one(scene);
    for (int i = 0; i < 3; i++) {
        scene_enqueue_many(scene, "big-co", 4);
        struct claim_result claim = scene_claim(scene, 4);
        scene_complete(scene, &claim);
    }
    for (size_t limit = 1; limit <= 14; limit++) {
        json_t *page = timeline(scene, "big-co", 1, limit);
        const json_t *items = json_object_get(page, "items");
        assert_int_equal(json_array_size(items), limit < 13 ? limit : 13);
        assert_string_equal(json_text_at(json_array_get(items, 0), "id"), held.id);
        assert_int_equal(json_is_true(json_object_get(page, "count_is_exact")), limit >= 13);
        json_decref(page);
    }
}

/* Waiting ones leave room for those that ended. */
static void waiting_executions_have_a_share_of_the_limit(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 2);
    struct claim_result ended = scene_claim(scene, 2);
    scene_complete(scene, &ended);
    for (int i = 0; i < SLOT_TIMELINE_WAITING_MOST + 2; i++) {
        (void)scene_enqueue(scene, "big-co");
        struct claimed_item item = scene_claim_one(scene);
        park(scene, &item, SECONDS(1000));
    }
    json_t *page = timeline(scene, "big-co", 1, 200);
    assert_int_equal(json_number_at(page, "count"), SLOT_TIMELINE_WAITING_MOST + 2);
    assert_false(json_is_true(json_object_get(page, "count_is_exact")));
    json_decref(page);
}

/* Of an execution with more moves, and more events, than are read, the last ones are shown. */
static void the_last_moves_of_a_long_execution_are_shown(void **state)
{
    struct scene *scene = *state;
    int64_t parked_us = 0, shown_us = 0;
    (void)scene_enqueue(scene, "pro-co");
    while (scene_number(scene, "SELECT count(*) FROM execution_events") <= SLOT_EVENTS_MOST + 20) {
        struct claimed_item item = scene_claim_one(scene);
        parked_us = scene_now(scene);
        park(scene, &item, SECONDS(1));
        scene_pass(scene, SECONDS(1));
        scene_beat(scene, scene->node);
        (void)scene_look(scene);
    }
    json_t *page = timeline(scene, "pro-co", 1, 10);
    const json_t *spans = json_object_get(json_array_get(json_object_get(page, "items"), 0), "spans");
    assert_int_equal(json_array_size(spans), SLOT_MOVES_MOST);
    assert_false(json_is_true(json_object_get(page, "count_is_exact")));
    const json_t *last = json_array_get(spans, SLOT_MOVES_MOST - 1);
    assert_false(json_is_true(json_object_get(last, "uses_slot")));
    scene_ok(scene, time_parse(json_text_at(last, "started_at"), 0, &shown_us, &scene->error));
    assert_int_equal(shown_us / MICROSECONDS_PER_SECOND, parked_us / MICROSECONDS_PER_SECOND);
    json_decref(page);
}

/* An execution that is older than the windows is shown while it holds a slot, and the answer has the time from which on
 * all were examined. */
static void a_held_execution_is_shown_whatever_its_age(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    int64_t from_us = scene_now(scene);
    for (size_t done = 0; done < WINDOW_ROWS + 500; done += 500) {
        scene_pass(scene, SECONDS(1) / 100);
        scene_enqueue_many(scene, "big-co", 500);
    }
    json_t *page = timeline(scene, "free-co", scene_now(scene), 10);
    int64_t examined_us = 0;
    assert_int_equal(json_number_at(page, "count"), 1);
    scene_ok(scene, time_parse(json_text_at(page, "examined_since"), 0, &examined_us, &scene->error));
    assert_true(examined_us > from_us && examined_us <= scene_now(scene));
    json_decref(page);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    page = timeline(scene, "free-co", scene_now(scene), 10);
    assert_int_equal(json_number_at(page, "count"), 0);
    json_decref(page);
    page = timeline(scene, "free-co", from_us, 10); /* more windows, up to that time */
    assert_int_equal(json_number_at(page, "count"), 1);
    assert_true(json_is_null(json_object_get(page, "examined_since")));
    json_decref(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* The first one: ids of a process never go back, though the clock of the next test does. */
        SCENE_TEST(a_held_execution_is_shown_whatever_its_age),
        SCENE_TEST(a_slot_is_used_from_the_claim_to_the_end),
        SCENE_TEST(a_parked_execution_waits_without_a_slot),
        SCENE_TEST(a_refused_start_leaves_its_slot),
        SCENE_TEST(a_handover_keeps_the_slot),
        SCENE_TEST(the_limit_keeps_those_that_hold_a_slot),
        SCENE_TEST(waiting_executions_have_a_share_of_the_limit),
        SCENE_TEST(the_last_moves_of_a_long_execution_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
