/* A workspace that is full by the count of many rows refuses for a moment without another count: each count keeps the
 * writer of the file, for which all workspaces wait. */
#include "conformance/scene.h"

enum { MANY = 1000, REFUSALS_LAST_US = 4 * MANY };

static void limit_plan(struct scene *scene, int64_t most)
{
    struct plan_change change = {.name = "free", .max_pending = most};
    scene_ok(scene, store_set_plan(scene->store, &change, &scene->error));
}

static enum weir_status try_enqueue(struct scene *scene)
{
    struct enqueue_request request = {.workspace = "free-co", .workflow = "hello"};
    return scene_try(scene, &request).status;
}

/* Limits the workspace to `count` and fills it up. */
static void fill(struct scene *scene, int64_t count)
{
    limit_plan(scene, count);
    scene_enqueue_many(scene, "free-co", (size_t)count);
    assert_int_equal(try_enqueue(scene), WEIR_QUEUE_FULL);
}

static void make_room(struct scene *scene)
{
    struct bulk_result result = {0};
    struct execution_filter filter = {.workspace = "free-co", .states = 1U << ITEM_PENDING};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 1, &result, &scene->error));
    assert_int_equal(result.changed, 1);
}

static void refusals_after_a_count_of_many_rows_count_none(void **state)
{
    struct scene *scene = *state;
    fill(scene, MANY);
    make_room(scene);
    assert_int_equal(try_enqueue(scene), WEIR_QUEUE_FULL);
    scene_pass(scene, REFUSALS_LAST_US - 1);
    assert_int_equal(try_enqueue(scene), WEIR_QUEUE_FULL);
    scene_pass(scene, 1);
    assert_int_equal(try_enqueue(scene), WEIR_OK);
    assert_int_equal(try_enqueue(scene), WEIR_QUEUE_FULL);
}

static void few_rows_are_counted_for_each_refusal(void **state)
{
    struct scene *scene = *state;
    fill(scene, MANY - 1);
    make_room(scene);
    assert_int_equal(try_enqueue(scene), WEIR_OK);
}

static void another_limit_holds_at_once(void **state)
{
    struct scene *scene = *state;
    fill(scene, MANY);
    limit_plan(scene, MANY + 1);
    assert_int_equal(try_enqueue(scene), WEIR_OK);
    assert_int_equal(try_enqueue(scene), WEIR_QUEUE_FULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(refusals_after_a_count_of_many_rows_count_none),
        SCENE_TEST(few_rows_are_counted_for_each_refusal),
        SCENE_TEST(another_limit_holds_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
