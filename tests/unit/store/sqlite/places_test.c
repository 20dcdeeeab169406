/* The places of runnable items in their lanes on SQLite (table queue_runnable): an assignment leaves its entry, and the
 * books delete it. The order of a lane itself is tested for every driver in tests/conformance. */
#include "conformance/scene.h"
#include "store/sqlite/facts.h"

enum { PLACES_MOST = 8 };

/* A scheduler that has loaded. */
struct rounds {
    struct scene *scene;
    int64_t epoch;
    int64_t lane_id;
    struct schedule_answer answer;
};

static void run_round(struct rounds *rounds, struct schedule_call call)
{
    call.node_id = rounds->scene->node;
    call.epoch = rounds->epoch;
    rounds->answer = (struct schedule_answer){.assigned = 0};
    scene_ok(rounds->scene,
             store_schedule(rounds->scene->store, &call, &rounds->scene->arena, &rounds->answer, &rounds->scene->error));
}

static struct rounds rounds_of(struct scene *scene)
{
    struct rounds rounds = {.scene = scene};
    rounds.lane_id = lane_id_of(1, scene_number(scene, "SELECT id FROM workspaces WHERE name = 'pro-co'"));
    scene_ok(scene, take_role(scene->store, scene->node, &rounds.epoch, &scene->error));
    run_round(&rounds, (struct schedule_call){.load = true});
    return rounds;
}

/* The first items of the lane, as assignments to the node. */
static size_t read_lane(struct rounds *rounds, struct assignment *assignments)
{
    struct lane_read read = {.lane_id = rounds->lane_id, .after_rank = INT64_MIN, .most = PLACES_MOST};
    run_round(rounds, (struct schedule_call){.reads = &read, .read_count = 1});
    for (size_t i = 0; i < read.count; i++) {
        assignments[i] =
            (struct assignment){.rank = read.heads[i].rank, .lane_id = rounds->lane_id, .node_id = rounds->scene->node};
        memcpy(assignments[i].id, read.heads[i].id, SCHEDULER_ID_BYTES);
    }
    return read.count;
}

/* Assigns the first items of the lane. */
static struct claim_result assign_first(struct rounds *rounds, size_t count)
{
    struct assignment assignments[PLACES_MOST];
    assert_true(read_lane(rounds, assignments) >= count);
    run_round(rounds, (struct schedule_call){.assignments = assignments, .assignment_count = count});
    assert_int_equal(rounds->answer.assigned, count);
    return rounds->answer.claimed;
}

static void publish_books(struct rounds *rounds)
{
    bool more = false;
    run_round(rounds, (struct schedule_call){.needs = 0});
    scene_ok(rounds->scene, store_publish_books(rounds->scene->store, rounds->scene->node, rounds->epoch, NULL, 0, &more,
                                                &rounds->scene->error));
    assert_false(more);
}

static int64_t count_entries(struct scene *scene)
{
    return scene_number(scene, "SELECT count(*) FROM queue_runnable");
}

static void an_assignment_leaves_its_entry_to_the_books(void **state)
{
    struct scene *scene = *state;
    struct assignment heads[PLACES_MOST];
    scene_enqueue_many(scene, "pro-co", 3);
    struct rounds rounds = rounds_of(scene);
    (void)assign_first(&rounds, 2);
    assert_int_equal(count_entries(scene), 3);
    assert_int_equal(read_lane(&rounds, heads), 1); /* an entry without a runnable item is no head */
    publish_books(&rounds);
    assert_int_equal(count_entries(scene), 1);
    assert_int_equal(read_lane(&rounds, heads), 1);
}

static void the_last_item_of_a_lane_leaves_no_entry(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 3);
    struct rounds rounds = rounds_of(scene);
    struct claim_result claimed = assign_first(&rounds, 3);
    scene_complete(scene, &claimed);
    publish_books(&rounds);
    assert_int_equal(count_entries(scene), 0);
}

static void an_item_that_is_put_back_has_its_place_whenever_the_books_are_published(void **state)
{
    struct scene *scene = *state;
    struct assignment heads[PLACES_MOST];
    scene_enqueue_many(scene, "pro-co", 2);
    struct rounds rounds = rounds_of(scene);
    for (int published = 0; published < 2; published++) {
        struct claim_result claimed = assign_first(&rounds, 1);
        if (published != 0) {
            publish_books(&rounds);
            assert_int_equal(count_entries(scene), 1);
        }
        assert_int_equal(scene_record(scene, RECORD_PUT_BACK, &claimed.items[0]), WEIR_OK);
        assert_int_equal(count_entries(scene), 2);
        publish_books(&rounds);
        assert_int_equal(read_lane(&rounds, heads), 2);
        assert_int_equal(
            facts_read_id(heads[0].id),
            scene_number(scene, "SELECT number FROM workflow_execution_queue WHERE id = '%s'", claimed.items[0].id));
    }
}

static void an_item_that_is_due_has_a_place(void **state)
{
    struct scene *scene = *state;
    struct assignment heads[PLACES_MOST];
    struct enqueue_request later = {.workspace = "pro-co", .workflow = "hello", .run_at_us = scene_now(scene) + SECONDS(5)};
    (void)scene_enqueue_request(scene, &later);
    struct rounds rounds = rounds_of(scene);
    assert_int_equal(count_entries(scene), 0);
    scene_pass(scene, SECONDS(6));
    run_round(&rounds, (struct schedule_call){.needs = NEED_DUE});
    assert_int_equal(count_entries(scene), 1);
    assert_int_equal(read_lane(&rounds, heads), 1);
}

static void an_end_while_runnable_deletes_the_entry(void **state)
{
    struct scene *scene = *state;
    struct bulk_result cancelled;
    struct execution_filter filter = {.workspace = "pro-co"};
    scene_enqueue_many(scene, "pro-co", 3);
    (void)scene_enqueue(scene, "big-co");
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &cancelled, &scene->error));
    assert_int_equal(count_entries(scene), 1);
}

/* It must not be found by the entry of an earlier item with its number. */
static void an_entry_counts_only_with_its_own_row(void **state)
{
    struct scene *scene = *state;
    struct assignment heads[PLACES_MOST];
    (void)scene_enqueue(scene, "pro-co");
    struct rounds rounds = rounds_of(scene);
    struct claim_result claimed = assign_first(&rounds, 1);
    scene_complete(scene, &claimed);
    scene_pass(scene, SECONDS(1));
    (void)scene_enqueue(scene, "pro-co");
    assert_int_equal(scene_number(scene, "SELECT count(DISTINCT number) FROM queue_runnable"), 1);
    assert_int_equal(count_entries(scene), 2);
    assert_int_equal(read_lane(&rounds, heads), 1);
    assert_int_equal(heads[0].rank, scene_number(scene, "SELECT rank FROM workflow_execution_queue"));
    (void)assign_first(&rounds, 1);
}

static void a_check_names_a_runnable_item_without_a_place(void **state)
{
    struct scene *scene = *state;
    json_t *problems = NULL;
    const char *id = scene_enqueue(scene, "pro-co");
    json_decref(scene_rows(scene, "DELETE FROM queue_runnable"));
    scene_ok(scene, store_check(scene->store, &problems, &scene->error));
    assert_int_equal(json_array_size(problems), 1);
    const char *problem = json_string_value(json_array_get(problems, 0));
    assert_non_null(strstr(problem, id));
    assert_non_null(strstr(problem, "has no place in its lane"));
    json_decref(problems);
    json_decref(scene_rows(scene, "UPDATE workflow_execution_queue SET rank = rank")); /* the trigger gives it one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_assignment_leaves_its_entry_to_the_books),
        SCENE_TEST(the_last_item_of_a_lane_leaves_no_entry),
        SCENE_TEST(an_item_that_is_put_back_has_its_place_whenever_the_books_are_published),
        SCENE_TEST(an_item_that_is_due_has_a_place),
        SCENE_TEST(an_end_while_runnable_deletes_the_entry),
        SCENE_TEST(an_entry_counts_only_with_its_own_row),
        SCENE_TEST(a_check_names_a_runnable_item_without_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
