/* A filter by labels examines a bounded number of entries for each statement (LABEL_WINDOW_ROWS), whatever else it has. */
#include "conformance/scene.h"

#define COUNT (LABEL_WINDOW_ROWS + 500)
#define GOLD                                                                                                               \
    {                                                                                                                      \
        .name = "tier", .value = "gold"                                                                                    \
    }

/* COUNT executions of order-00000 and so on, not in one millisecond: a window may end with one. */
static void fill_labelled(struct scene *scene, const char *workspace)
{
    enum { SET = 500 };
    static char keys[SET][16];
    static struct enqueue_request requests[SET];
    static struct enqueue_result results[SET];
    for (int done = 0; done < COUNT; done += SET) {
        for (int i = 0; i < SET; i++) {
            (void)snprintf(keys[i], sizeof keys[i], "order-%05d", done + i);
            requests[i] = (struct enqueue_request){
                .workspace = workspace, .workflow = "hello", .business_key = keys[i], .labels = "{\"tier\":\"gold\"}"};
        }
        scene_pass(scene, SECONDS(1) / 100);
        scene_ok(scene, store_enqueue(scene->store, requests, SET, results, &scene->error));
    }
    scene_pass(scene, SECONDS(1) / 100);
}

static const char *enqueue_rare(struct scene *scene, const char *key)
{
    return scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "pro-co",
                                                                  .workflow = "hello",
                                                                  .business_key = key,
                                                                  .idempotency_key = key,
                                                                  .labels = "{\"tier\":\"gold\"}"});
}

/* Items of a list that may examine so many windows, 0 = any number. *ret_more: it continues. */
static size_t list_windows(struct scene *scene, const struct execution_filter *filter, size_t windows, bool *ret_more)
{
    struct list_options options = {
        .kind = LIST_EXECUTIONS, .filter = *filter, .limit = LIST_LIMIT_MOST, .windows_most = windows};
    json_t *page = NULL;
    char cursor[UUID_TEXT_MAX] = "";
    char last[UUID_TEXT_MAX] = "~";
    size_t count = 0;
    do {
        options.cursor = cursor;
        scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
        size_t i;
        json_t *row;
        json_array_foreach(json_object_get(page, "items"), i, row)
        {
            assert_true(strcmp(json_text_at(row, "id"), last) < 0); /* newest first, none twice */
            text_copy(last, sizeof last, json_text_at(row, "id"));
            count++;
        }
        const char *next = json_string_value(json_object_get(page, "next_cursor"));
        *ret_more = next != NULL;
        text_copy(cursor, sizeof cursor, next == NULL ? "" : next);
        json_decref(page);
    } while (*ret_more && windows == 0);
    return count;
}

/* How many calls an act needs, and how many executions it changes. */
static size_t act_in_calls(struct scene *scene, enum bulk_act act, const struct execution_filter *filter, size_t limit,
                           size_t *ret_changed)
{
    struct bulk_result result = {.more = true};
    char after[UUID_TEXT_MAX] = "";
    size_t calls = 0;
    *ret_changed = 0;
    while (result.more) {
        scene_ok(scene, store_bulk(scene->store, act, filter, after, limit, &result, &scene->error));
        assert_true(!result.more || strcmp(after, result.last_id) < 0);
        memcpy(after, result.last_id, sizeof after);
        *ret_changed += result.changed;
        calls++;
    }
    return calls;
}

static void an_act_by_a_frequent_label_goes_on_behind_its_window(void **state)
{
    struct scene *scene = *state;
    size_t changed = 0;
    bool more = false;
    fill_labelled(scene, "pro-co");
    (void)enqueue_rare(scene, "rare");
    struct execution_filter filter = {.workspace = "pro-co", .labels = {GOLD}, .label_count = 1, .idempotency_key = "rare"};
    assert_int_equal(act_in_calls(scene, BULK_CANCEL, &filter, 10, &changed), 2);
    assert_int_equal(changed, 1);
    filter.idempotency_key = NULL;
    filter.error_code = "no_such_code";
    assert_int_equal(list_windows(scene, &filter, 1, &more), 0);
    assert_true(more);
    assert_int_equal(list_windows(scene, &filter, 2, &more), 0);
    assert_false(more);
}

static void all_ways_find_the_same_executions(void **state)
{
    struct scene *scene = *state;
    bool more = false;
    size_t changed = 0;
    fill_labelled(scene, "pro-co");
    fill_labelled(scene, "free-co");
    struct execution_filter one = {.workspace = "pro-co", .labels = {GOLD}, .label_count = 1};
    assert_int_equal(list_windows(scene, &one, 0, &more), COUNT);
    struct execution_filter beginning = {.workspace = "pro-co", .business_key = "order-", .business_key_is_prefix = true};
    assert_int_equal(list_windows(scene, &beginning, 0, &more), COUNT); /* along all labels */
    beginning.business_key = "order-0012";
    assert_int_equal(list_windows(scene, &beginning, 0, &more), 10); /* sorted */
    beginning.workspace = NULL;
    assert_int_equal(list_windows(scene, &beginning, 0, &more), 20);
    beginning.business_key = "order-";
    assert_int_equal(list_windows(scene, &beginning, 0, &more), 2 * COUNT);
    beginning.workspace = "free-co";
    (void)act_in_calls(scene, BULK_CANCEL, &beginning, LIST_LIMIT_MOST, &changed);
    assert_int_equal(changed, COUNT);
    beginning.workspace = NULL;
    beginning.states = 1U << ITEM_CANCELLED;
    assert_int_equal(list_windows(scene, &beginning, 0, &more), COUNT);
}

static void the_rarest_label_is_walked_along(void **state)
{
    struct scene *scene = *state;
    bool more = false;
    (void)enqueue_rare(scene, "seldom-1");
    fill_labelled(scene, "pro-co");
    struct execution_filter filter = {.workspace = "pro-co",
                                      .labels = {GOLD},
                                      .label_count = 1,
                                      .business_key = "seldom",
                                      .business_key_is_prefix = true};
    assert_int_equal(list_windows(scene, &filter, 1, &more), 1);
    assert_false(more);
}

static void living_ones_are_found_behind_no_history(void **state)
{
    struct scene *scene = *state;
    bool more = false;
    size_t changed = 0;
    fill_labelled(scene, "pro-co");
    struct execution_filter filter = {.workspace = "pro-co", .labels = {GOLD}, .label_count = 1};
    (void)act_in_calls(scene, BULK_CANCEL, &filter, LIST_LIMIT_MOST, &changed);
    assert_int_equal(changed, COUNT);
    filter.states = 1U << ITEM_PENDING;
    assert_int_equal(act_in_calls(scene, BULK_CANCEL, &filter, 10, &changed), 1);
    (void)enqueue_rare(scene, "rare");
    assert_int_equal(list_windows(scene, &filter, 1, &more), 1);
    assert_false(more);
    assert_int_equal(act_in_calls(scene, BULK_CANCEL, &filter, 10, &changed), 1);
    assert_int_equal(changed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_act_by_a_frequent_label_goes_on_behind_its_window),
        SCENE_TEST(all_ways_find_the_same_executions),
        SCENE_TEST(the_rarest_label_is_walked_along),
        SCENE_TEST(living_ones_are_found_behind_no_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
