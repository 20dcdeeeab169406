/* Executions are examined in windows (store/reading.h): a match behind one is found, and no call passes more than one. */
#include "conformance/scene.h"

#define RARE "free-co"
#define FREQUENT "pro-co"

/* Not in one millisecond: a window ends with one. */
static void enqueue_frequent(struct scene *scene, size_t count)
{
    for (size_t done = 0; done < count; done += 500) {
        scene_pass(scene, SECONDS(1) / 100);
        scene_enqueue_many(scene, FREQUENT, 500);
    }
    scene_pass(scene, SECONDS(1) / 100);
}

/* One execution of the rare workspace, and more behind it than a window has. */
static const char *fill(struct scene *scene)
{
    const char *rare = scene_enqueue(scene, RARE);
    enqueue_frequent(scene, WINDOW_ROWS + 500);
    return rare;
}

static json_t *list(struct scene *scene, const struct list_options *options)
{
    json_t *page = NULL;
    scene_ok(scene, store_list(scene->store, options, &page, &scene->error));
    return page;
}

static const char *next_of(const json_t *page)
{
    return json_string_value(json_object_get(page, "next_cursor"));
}

static size_t items_of(const json_t *page)
{
    return json_array_size(json_object_get(page, "items"));
}

/* The list of the rare workspace: at once, and window by window. `matches`: 0 or 1. */
static void assert_listed(struct scene *scene, struct execution_filter filter, const char *id, size_t matches)
{
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = filter, .limit = 10, .count = true};
    json_t *page = list(scene, &options);
    assert_int_equal(items_of(page), matches);
    assert_null(next_of(page));
    assert_int_equal(json_number_at(page, "count"), matches);
    assert_true(json_is_true(json_object_get(page, "count_is_exact")));
    if (matches == 1) {
        assert_string_equal(json_text_at(json_array_get(json_object_get(page, "items"), 0), "id"), id);
    }
    json_decref(page);
    options.windows_most = 1;
    page = list(scene, &options);
    assert_int_equal(items_of(page), 0);
    assert_non_null(next_of(page));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE id = '%s'", next_of(page)),
                     0); /* of nobody */
    assert_int_equal(json_number_at(page, "count"), 0);
    assert_false(json_is_true(json_object_get(page, "count_is_exact")));
    json_decref(page);
    options.counts_all = true;
    page = list(scene, &options);
    assert_int_equal(json_number_at(page, "count"), matches);
    assert_true(json_is_true(json_object_get(page, "count_is_exact")));
    json_decref(page);
    options.windows_most = LIST_WINDOWS_MOST;
    page = list(scene, &options);
    assert_int_equal(items_of(page), matches);
    assert_null(next_of(page));
    json_decref(page);
    options.windows_most = 1;
    page = list(scene, &options);
    options.cursor = next_of(page);
    json_t *rest = list(scene, &options);
    assert_int_equal(items_of(rest), matches);
    assert_null(next_of(rest));
    json_decref(rest);
    json_decref(page);
}

static void act_on_all_of(struct scene *scene, const char *workspace, enum bulk_act act, size_t expected)
{
    const struct execution_filter filter = {.workspace = workspace};
    struct bulk_result result = {.more = true};
    char after[UUID_TEXT_MAX] = "";
    size_t changed = 0;
    while (result.more) {
        scene_ok(scene, store_bulk(scene->store, act, &filter, after, LIST_LIMIT_MOST, &result, &scene->error));
        memcpy(after, result.last_id, sizeof after);
        changed += result.changed;
    }
    assert_int_equal(changed, expected);
}

static void a_match_behind_a_window_is_listed(void **state)
{
    struct scene *scene = *state;
    const char *rare = fill(scene);
    assert_listed(scene, (struct execution_filter){.workspace = RARE}, rare, 1);
    assert_listed(scene, (struct execution_filter){.workspace = RARE, .states = 1U << ITEM_PENDING}, rare, 1);
    assert_listed(scene, (struct execution_filter){.workspace = RARE, .error_code = "no_such_code"}, rare, 0);
    act_on_all_of(scene, RARE, BULK_CANCEL, 1);
    act_on_all_of(scene, FREQUENT, BULK_CANCEL, WINDOW_ROWS + 500);
    assert_listed(scene, (struct execution_filter){.workspace = RARE}, rare, 1);
    assert_listed(scene, (struct execution_filter){.workspace = RARE, .states = 1U << ITEM_COMPLETED}, rare, 0);
}

/* The order of an act is that of the ids, so the rare execution is made last here. */
static void an_act_ends_with_its_window_and_goes_on_behind_it(void **state)
{
    struct scene *scene = *state;
    const struct execution_filter filter = {.workspace = RARE};
    struct bulk_result result = {0};
    enqueue_frequent(scene, WINDOW_ROWS + 500);
    const char *rare = scene_enqueue(scene, RARE);
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.matched, 0);
    assert_true(result.more);
    char after[UUID_TEXT_MAX];
    memcpy(after, result.last_id, sizeof after);
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, after, 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_false(result.more);
    assert_string_equal(scene_status_of(scene, rare), "CANCELLED");
}

/* They are found by their index, so others between them cost nothing. */
static void failed_ones_need_no_window(void **state)
{
    struct scene *scene = *state;
    const char *failed = scene_enqueue(scene, RARE);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_FAILED, &item), WEIR_OK);
    enqueue_frequent(scene, WINDOW_ROWS + 500);
    act_on_all_of(scene, FREQUENT, BULK_CANCEL, WINDOW_ROWS + 500);
    struct list_options options = {
        .kind = LIST_EXECUTIONS, .filter = {.states = 1U << ITEM_FAILED}, .limit = 10, .count = true, .windows_most = 1};
    json_t *page = list(scene, &options);
    assert_int_equal(items_of(page), 1);
    assert_string_equal(json_text_at(json_array_get(json_object_get(page, "items"), 0), "id"), failed);
    assert_null(next_of(page));
    json_decref(page);
    const struct execution_filter filter = {.states = 1U << ITEM_FAILED};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_false(result.more);
}

/* Both tables have more than a window, and the rare executions of both are found once each, in both directions. */
static void both_tables_end_with_the_nearer_window(void **state)
{
    struct scene *scene = *state;
    enum { RARE_ONES = 6 };
    for (size_t i = 0; i < RARE_ONES; i++) {
        (void)scene_enqueue(scene, RARE);
        enqueue_frequent(scene, i < 2 ? 500 : 2 * WINDOW_ROWS / RARE_ONES);
        if (i % 2 == 0) {
            act_on_all_of(scene, RARE, BULK_CANCEL, i == 0 ? 1 : 2);
        }
    }
    struct bulk_result result = {.more = true};
    const struct execution_filter frequent = {.workspace = FREQUENT};
    char after[UUID_TEXT_MAX] = "";
    for (size_t chunk = 0; result.more; chunk++) { /* every other chunk of them ends */
        enum bulk_act act = chunk % 2 == 0 ? BULK_CANCEL : BULK_RELEASE;
        scene_ok(scene, store_bulk(scene->store, act, &frequent, after, 500, &result, &scene->error));
        memcpy(after, result.last_id, sizeof after);
    }
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.workspace = RARE}, .limit = 2, .windows_most = 1};
    char cursor[UUID_TEXT_MAX] = "";
    size_t found = 0;
    do {
        options.cursor = cursor;
        json_t *page = list(scene, &options);
        found += items_of(page);
        text_copy(cursor, sizeof cursor, next_of(page) == NULL ? "" : next_of(page));
        json_decref(page);
    } while (cursor[0] != '\0');
    assert_int_equal(found, RARE_ONES);
    act_on_all_of(scene, RARE, BULK_CANCEL, 1);
    act_on_all_of(scene, RARE, BULK_PURGE, RARE_ONES);
}

/* A reason is computed for one execution after the other. */
static void a_bounded_list_computes_few_reasons(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, FREQUENT, REASONS_MOST + 500);
    struct list_options options = {
        .kind = LIST_EXECUTIONS, .filter = {.reason = "workspace_paused"}, .limit = 100, .count = true, .windows_most = 1};
    json_t *page = list(scene, &options);
    assert_int_equal(items_of(page), 0);
    assert_non_null(next_of(page));
    assert_int_equal(json_number_at(page, "count"), 0);
    assert_false(json_is_true(json_object_get(page, "count_is_exact")));
    options.cursor = next_of(page);
    json_t *rest = list(scene, &options);
    assert_int_equal(items_of(rest), 0);
    assert_null(next_of(rest));
    json_decref(rest);
    json_decref(page);
    scene_pause_workspace(scene, FREQUENT, true);
    options = (struct list_options){.kind = LIST_EXECUTIONS, .filter = options.filter, .limit = 100, .count = true};
    page = list(scene, &options);
    assert_int_equal(items_of(page), 100);
    assert_int_equal(json_number_at(page, "count"), REASONS_MOST + 500);
    json_decref(page);
}

/* Of a look for old executions: it ends where the ids are too new. */
static void a_bound_of_ids_ends_an_act(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, RARE);
    struct execution_filter filter = {.finished_before_us = INT64_MAX, .ids_before_us = scene_now(scene)};
    struct bulk_result result = {0};
    act_on_all_of(scene, RARE, BULK_CANCEL, 1);
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.matched, 0);
    assert_false(result.more);
    filter.ids_before_us = scene_now(scene) + SECONDS(1);
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE id = '%s'", id), 0);
}

/* Lists begin with the newest ids and read a bounded part of them, so ids of years to come would hide the executions of all
 * other workspaces. */
static void an_id_of_a_time_to_come_is_refused(void **state)
{
    struct scene *scene = *state;
    char ids[4][UUID_TEXT_MAX];
    struct enqueue_request requests[4] = {{.workspace = NULL}};
    struct enqueue_result results[4];
    struct uuid_source source = {.seeded = true, .random_state = 1};
    uuid_make_from(&source, scene_now(scene) + SECONDS(23 * 3600), ids[0]);
    uuid_make_from(&source, scene_now(scene) + SECONDS(26 * 3600), ids[1]);
    text_copy(ids[2], UUID_TEXT_MAX, "FFFFFFFF-FFFF-7000-8000-000000000001");
    text_copy(ids[3], UUID_TEXT_MAX, "ffffffff-ffff-7000-8000-000000000001");
    for (size_t i = 0; i < 4; i++) {
        requests[i] = (struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .id = ids[i]};
    }
    requests[3].idempotency_key = "k";
    requests[3].key_mode = KEY_REPLACE;
    scene_ok(scene, store_enqueue(scene->store, requests, 4, results, &scene->error));
    assert_int_equal(results[0].status, WEIR_OK);
    for (size_t i = 1; i < 4; i++) {
        assert_int_equal(results[i].status, WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(results[i].error.message, "ahead of the store's clock"));
    }
    assert_int_equal(scene_try(scene, &requests[1]).status, WEIR_INVALID_ARGUMENT);
    assert_int_equal(store_enqueue_all(scene->store, requests, 2, results, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_match_behind_a_window_is_listed),   SCENE_TEST(an_act_ends_with_its_window_and_goes_on_behind_it),
        SCENE_TEST(failed_ones_need_no_window),          SCENE_TEST(both_tables_end_with_the_nearer_window),
        SCENE_TEST(a_bounded_list_computes_few_reasons), SCENE_TEST(a_bound_of_ids_ends_an_act),
        SCENE_TEST(an_id_of_a_time_to_come_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
