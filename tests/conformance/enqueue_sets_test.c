/* The answers to a set of requests, of which the store takes some. */
#include "conformance/scene.h"

static void a_new_request_beside_a_refused_one_is_no_duplicate(void **state)
{
    struct scene *scene = *state;
    const struct enqueue_request requests[] = {{.workspace = "pro-co", .workflow = "hello"},
                                               {.workspace = "no-co", .workflow = "hello"},
                                               {.workspace = "big-co", .workflow = "hello"}};
    struct enqueue_result results[3];
    scene_ok(scene, store_enqueue(scene->store, requests, 3, results, &scene->error));
    assert_int_equal(results[1].status, WEIR_WORKSPACE_NOT_FOUND);
    for (size_t i = 0; i < 3; i += 2) {
        assert_int_equal(results[i].status, WEIR_OK);
        assert_false(results[i].duplicate);
        assert_string_equal(scene_status_of(scene, results[i].id), "PENDING");
    }
}

static void an_id_that_comes_twice_in_a_set_is_new_once(void **state)
{
    struct scene *scene = *state;
    static const char id[] = "0198c2f1-0000-7000-8000-000000000001";
    const struct enqueue_request requests[] = {{.workspace = "pro-co", .workflow = "hello", .id = id},
                                               {.workspace = "pro-co", .workflow = "hello", .id = id}};
    struct enqueue_result results[2];
    scene_ok(scene, store_enqueue(scene->store, requests, 2, results, &scene->error));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(results[i].status, WEIR_OK);
        assert_string_equal(results[i].id, id);
        assert_int_equal(results[i].duplicate, i > 0);
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_new_request_beside_a_refused_one_is_no_duplicate),
        SCENE_TEST(an_id_that_comes_twice_in_a_set_is_new_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
