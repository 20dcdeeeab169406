/* The list of a workspace's pending executions in the order in which they start (store/queue_order.h). */
#include "conformance/scene.h"
#include "store/queue_order.h"

enum { LISTED_MOST = 64 };

static struct list_options in_order(const char *workspace, size_t limit)
{
    return (struct list_options){.kind = LIST_EXECUTIONS,
                                 .order = ORDER_QUEUE,
                                 .filter = {.workspace = workspace, .states = 1U << ITEM_PENDING},
                                 .limit = limit};
}

static json_t *list(struct scene *scene, const struct list_options *options)
{
    json_t *page = NULL;
    scene_ok(scene, store_list(scene->store, options, &page, &scene->error));
    return page;
}

/* The ids and places (0: none) of all pages. Their number. */
static size_t list_all(struct scene *scene, const char *workspace, size_t limit, char (*ids)[UUID_TEXT_MAX],
                       json_int_t *places)
{
    struct list_options options = in_order(workspace, limit);
    char cursor[200] = "";
    size_t count = 0;
    do {
        const json_t *row;
        size_t i;
        options.cursor = cursor[0] == '\0' ? NULL : cursor;
        json_t *page = list(scene, &options);
        json_array_foreach(json_object_get(page, "items"), i, row)
        {
            assert_true(count < LISTED_MOST);
            text_copy(ids[count], UUID_TEXT_MAX, json_text_at(row, "id"));
            places[count++] = json_integer_value(json_object_get(row, "place"));
        }
        const char *next = json_string_value(json_object_get(page, "next_cursor"));
        assert_true(next == NULL || i == limit);
        text_copy(cursor, sizeof cursor, next == NULL ? "" : next);
        json_decref(page);
    } while (cursor[0] != '\0');
    return count;
}

static const char *enqueue_as(struct scene *scene, struct enqueue_request request)
{
    request.workspace = request.workspace == NULL ? "big-co" : request.workspace;
    request.workflow = "hello";
    return scene_enqueue_request(scene, &request);
}

static void assert_refused(struct scene *scene, struct list_options options)
{
    json_t *page = NULL;
    assert_int_equal(store_list(scene->store, &options, &page, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_null(page);
    assert_true(scene->error.hint[0] != '\0');
}

/* Ranks that differ, and ranks that are equal within a set and across two. */
static void the_list_has_the_order_in_which_a_scheduler_starts_them(void **state)
{
    struct scene *scene = *state;
    int64_t now_us = scene_now(scene);
    static const int priorities[] = {0, -1, 0, 5, 0, 100, -100, 0};
    static const int ago[] = {100, 500, 200, 100, 200, 1, 9, 100};
    for (size_t i = 0; i < sizeof ago / sizeof ago[0]; i++) {
        (void)enqueue_as(scene, (struct enqueue_request){.priority = priorities[i], .run_at_us = now_us - ago[i]});
    }
    scene_enqueue_many(scene, "big-co", 7);
    for (size_t limit = 1; limit <= 16; limit += limit == 1 ? 1 : 7) {
        char ids[LISTED_MOST][UUID_TEXT_MAX];
        json_int_t places[LISTED_MOST];
        assert_int_equal(list_all(scene, "big-co", limit, ids, places), 15);
        for (size_t i = 0; i < 15; i++) {
            assert_int_equal(places[i], i + 1);
            json_t *why = NULL;
            scene_ok(scene, store_why(scene->store, ids[i], &why, &scene->error));
            assert_int_equal(json_number_at(why, "place"), i + 1);
            json_decref(why);
        }
    }
    char ids[LISTED_MOST][UUID_TEXT_MAX];
    json_int_t places[LISTED_MOST];
    size_t count = list_all(scene, "big-co", 4, ids, places);
    for (size_t i = 0; i < count; i++) {
        struct claim_result claim = scene_claim(scene, 1);
        assert_int_equal(claim.count, 1);
        assert_string_equal(claim.items[0].id, ids[i]);
    }
}

/* One that a start has refused, one with a time of its own, and two of one time. The parked one is not pending. */
static void delayed_ones_come_last_by_their_due_time_and_have_no_place(void **state)
{
    struct scene *scene = *state;
    const char *refused = enqueue_as(scene, (struct enqueue_request){.priority = 100});
    struct claimed_item item = scene_claim_one(scene);
    struct record retry = scene_record_of(RECORD_RETRY, &item);
    retry.delay_us = SECONDS(30);
    assert_int_equal(scene_record_full(scene, scene->node, retry), WEIR_OK);
    const char *parked = enqueue_as(scene, (struct enqueue_request){.priority = 100});
    item = scene_claim_one(scene);
    assert_string_equal(item.id, parked);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    struct record park = scene_record_of(RECORD_PARKED, &item);
    park.delay_us = SECONDS(10);
    park.waiting_for = WAIT_SLEEP;
    assert_int_equal(scene_record_full(scene, scene->node, park), WEIR_OK);
    int64_t now_us = scene_now(scene);
    const char *later = enqueue_as(scene, (struct enqueue_request){.priority = 100, .run_at_us = now_us + SECONDS(60)});
    const char *first = enqueue_as(scene, (struct enqueue_request){.run_at_us = now_us + SECONDS(20)});
    const char *second = enqueue_as(scene, (struct enqueue_request){.run_at_us = now_us + SECONDS(20)});
    const char *runnable = enqueue_as(scene, (struct enqueue_request){.priority = -100});
    const char *expected[] = {runnable, first, second, refused, later};
    for (size_t limit = 1; limit <= 6; limit++) {
        char ids[LISTED_MOST][UUID_TEXT_MAX];
        json_int_t places[LISTED_MOST];
        assert_int_equal(list_all(scene, "big-co", limit, ids, places), 5);
        for (size_t i = 0; i < 5; i++) {
            assert_string_equal(ids[i], expected[i]);
            assert_int_equal(places[i], i == 0 ? 1 : 0);
        }
    }
}

/* A page goes on behind the last row of the one before, also when that row has started, and others came before it. */
static void pages_miss_and_repeat_nothing_while_rows_start_and_come(void **state)
{
    struct scene *scene = *state;
    char expected[LISTED_MOST][UUID_TEXT_MAX];
    char cursor[200] = "";
    json_int_t places[LISTED_MOST];
    size_t seen = 0;
    scene_enqueue_many(scene, "big-co", 24);
    size_t count = list_all(scene, "big-co", 24, expected, places);
    struct list_options options = in_order("big-co", 5);
    for (size_t round = 1; seen < count; round++) {
        options.cursor = cursor[0] == '\0' ? NULL : cursor;
        json_t *page = list(scene, &options);
        const json_t *items = json_object_get(page, "items");
        for (size_t i = 0; i < json_array_size(items); i++, seen++) {
            assert_true(seen < count);
            assert_string_equal(json_text_at(json_array_get(items, i), "id"), expected[seen]);
        }
        const char *next = json_string_value(json_object_get(page, "next_cursor"));
        text_copy(cursor, sizeof cursor, next == NULL ? "" : next);
        json_decref(page);
        assert_true(seen == count || cursor[0] != '\0');
        /* Those of the page start, and two come before all that wait. */
        assert_int_equal(scene_claim(scene, round == 1 ? 5 : 2).count, round == 1 ? 5 : 2);
        (void)enqueue_as(scene, (struct enqueue_request){.priority = 100});
        (void)enqueue_as(scene, (struct enqueue_request){.priority = 100});
    }
    assert_int_equal(seen, 24);
}

/* Each lane has places of its own, and the rows of all are merged by rank. */
static void the_lanes_of_a_workspace_are_merged_with_their_own_places(void **state)
{
    struct scene *scene = *state;
    int64_t now_us = scene_now(scene);
    scene_group(scene, "batch");
    const char *ids[6];
    for (size_t i = 0; i < 6; i++) {
        ids[i] = enqueue_as(
            scene, (struct enqueue_request){.group = i % 3 == 0 ? "batch" : NULL, .run_at_us = now_us - 1000 + (int64_t)i});
    }
    static const json_int_t own_places[] = {1, 1, 2, 2, 3, 4};
    for (size_t limit = 1; limit <= 7; limit++) {
        char listed[LISTED_MOST][UUID_TEXT_MAX];
        json_int_t places[LISTED_MOST];
        assert_int_equal(list_all(scene, "big-co", limit, listed, places), 6);
        for (size_t i = 0; i < 6; i++) {
            assert_string_equal(listed[i], ids[i]);
            assert_int_equal(places[i], own_places[i]);
        }
    }
}

static void only_the_pending_ones_of_the_workspace_are_listed_and_counted(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 4);
    assert_int_equal(scene_claim(scene, 1).count, 1);
    scene_enqueue_many(scene, "free-co", 3);
    struct list_options options = in_order("pro-co", 2);
    options.count = true;
    json_t *page = list(scene, &options);
    assert_int_equal(json_number_at(page, "count"), 3);
    assert_true(json_is_true(json_object_get(page, "count_is_exact")));
    json_decref(page);
    char ids[LISTED_MOST][UUID_TEXT_MAX];
    json_int_t places[LISTED_MOST];
    assert_int_equal(list_all(scene, "pro-co", 10, ids, places), 3);
    assert_int_equal(list_all(scene, "big-co", 10, ids, places), 0);
    assert_int_equal(list_all(scene, "no-such-workspace", 10, ids, places), 0);
}

static void a_place_is_counted_up_to_its_bound(void **state)
{
    struct scene *scene = *state;
    for (size_t done = 0; done < QUEUE_PLACE_MOST + 1000; done += 1000) {
        scene_enqueue_many(scene, "big-co", 1000);
    }
    struct list_options options = in_order("big-co", 999);
    char cursor[200] = "";
    for (size_t before = 0; before < QUEUE_PLACE_MOST + 500; before += options.limit) {
        options.cursor = cursor[0] == '\0' ? NULL : cursor;
        json_t *page = list(scene, &options);
        const json_t *items = json_object_get(page, "items");
        for (size_t i = 0; i < options.limit; i++) {
            json_int_t place = json_integer_value(json_object_get(json_array_get(items, i), "place"));
            assert_int_equal(place, before + i < QUEUE_PLACE_MOST ? before + i + 1 : 0);
        }
        text_copy(cursor, sizeof cursor, json_text_at(page, "next_cursor"));
        json_decref(page);
    }
}

static void other_filters_and_other_cursors_are_refused(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 3);
    struct list_options options = in_order(NULL, 10);
    assert_refused(scene, options);
    options = in_order("big-co", 10);
    options.filter.states = 0;
    assert_refused(scene, options);
    options.filter.states = 1U << ITEM_PENDING | 1U << ITEM_FAILED;
    assert_refused(scene, options);
    options = in_order("big-co", 10);
    options.filter.workflow = "hello";
    assert_refused(scene, options);
    options = in_order("big-co", 10);
    options.filter.reason = "ready";
    assert_refused(scene, options);
    static const char *const cursors[] = {"no cursor",
                                          "019f0000-0000-7000-8000-000000000000",
                                          "r",
                                          "r:",
                                          "r:1",
                                          "r::1",
                                          "r:1:",
                                          "r:1:x",
                                          "r:99999999999999999999:1",
                                          "x:1:1",
                                          "r:1:-1",
                                          "d:1:' OR 1=1 --"};
    options = in_order("big-co", 10);
    for (size_t i = 0; i < sizeof cursors / sizeof cursors[0]; i++) {
        options.cursor = cursors[i];
        assert_refused(scene, options);
    }
    options = in_order("big-co", 1);
    json_t *page = list(scene, &options);
    options.order = ORDER_NEWEST;
    options.cursor = json_text_at(page, "next_cursor");
    assert_refused(scene, options);
    json_decref(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(the_list_has_the_order_in_which_a_scheduler_starts_them),
        SCENE_TEST(delayed_ones_come_last_by_their_due_time_and_have_no_place),
        SCENE_TEST(pages_miss_and_repeat_nothing_while_rows_start_and_come),
        SCENE_TEST(the_lanes_of_a_workspace_are_merged_with_their_own_places),
        SCENE_TEST(only_the_pending_ones_of_the_workspace_are_listed_and_counted),
        SCENE_TEST(a_place_is_counted_up_to_its_bound),
        SCENE_TEST(other_filters_and_other_cursors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
