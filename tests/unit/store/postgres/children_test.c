/* The duty of children beside transactions that hold rows: it waits for none, does the rest, and comes back. */
#include <stdio.h>
#include <stdlib.h>

#include "unit/store/postgres/scene.h"

enum { CAP = 10 };

static int open_scene(void **state)
{
    return scene_open_with(state, CAP);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, scene_close)

static struct children_advance advance(struct scene *scene)
{
    struct children_advance done = {.again = false};
    ok(store_advance_children(scene->store, &done, &scene->error));
    return done;
}

/* A held parent with one child, which the duty has started. */
static struct claimed_item begin_parent(struct scene *scene)
{
    char plan[] = "{\"workflow\":\"hello\",\"executor_group\":null,\"priority\":null,\"is_single\":1,\"waits_for_all\":1,"
                  "\"wanted\":1,\"max_parallel\":1,\"leaves\":0,\"children\":[{}]}";
    struct step_record step = {.step = "go",
                               .state = STEP_WAITING,
                               .attempt = 1,
                               .exit_code = -1,
                               .due_in_us = TIME_NEVER,
                               .variables = plan,
                               .signal = "children:go"};
    struct claimed_item parent = claim_one(scene, enqueue_for(scene, "acme", NULL));
    struct record record = record_of(RECORD_STEP, &parent);
    struct record_summary summary;
    record.step = &step;
    ok(store_record(scene->store, scene->node, &record, 1, &summary, &scene->error));
    assert_int_equal(record.status, WEIR_OK);
    assert_int_equal(advance(scene).started, 1);
    return parent;
}

static const char *child_of(struct scene *scene, const struct claimed_item *parent)
{
    return run(scene->b, "SELECT child_id FROM weir.children WHERE parent_id = '%s'", parent->id);
}

static void end_child(struct scene *scene, const char *child)
{
    struct claimed_item item = claim_one(scene, child);
    assert_int_equal(record(scene, RECORD_COMPLETED, &item), WEIR_OK);
}

static void a_locked_parent_waits_alone(void **state)
{
    struct scene *scene = *state;
    char child[UUID_TEXT_MAX];
    struct claimed_item locked = begin_parent(scene);
    (void)snprintf(child, sizeof child, "%s", child_of(scene, &locked));
    end_child(scene, child);
    struct claimed_item other = begin_parent(scene); /* the duty ends the wait of the first one here, too */
    assert_string_equal(run(scene->b, "SELECT signals FROM weir.workflow_execution_queue WHERE id = '%s'", locked.id), "1");
    (void)snprintf(child, sizeof child, "%s", child_of(scene, &other));
    end_child(scene, child);
    (void)run(scene->a, "BEGIN; SELECT 1 FROM weir.workflow_execution_queue WHERE id = '%s' FOR UPDATE", other.id);
    for (int i = 0; i < 2; i++) {
        struct children_advance held = advance(scene);
        assert_int_equal(held.settled, 0);
        assert_true(held.waits);
        assert_false(held.again);
    }
    struct claimed_item third = begin_parent(scene);
    (void)third;
    (void)run(scene->a, "ROLLBACK");
    struct children_advance freed = advance(scene);
    assert_int_equal(freed.settled, 1);
    assert_false(freed.waits);
}

static void a_locked_child_is_cancelled_later(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin_parent(scene);
    char child[UUID_TEXT_MAX];
    (void)snprintf(child, sizeof child, "%s", child_of(scene, &parent));
    assert_int_equal(record(scene, RECORD_FAILED, &parent), WEIR_OK);
    (void)run(scene->a, "BEGIN; SELECT 1 FROM weir.workflow_execution_queue WHERE id = '%s' FOR UPDATE", child);
    struct children_advance held = advance(scene);
    assert_int_equal(held.cancelled, 0);
    assert_true(held.waits);
    (void)run(scene->a, "ROLLBACK");
    assert_int_equal(advance(scene).cancelled, 1);
    assert_string_equal(run(scene->b, "SELECT status FROM weir.workflow_executions WHERE id = '%s'", child), "CANCELLED");
}

/* The problem of a plan is known only while the plan is there, and the row of the parent may be locked then. */
static void a_plan_beyond_the_limits_waits_for_its_locked_parent(void **state)
{
    struct scene *scene = *state;
    char plan[] =
        "{\"workflow\":\"hello\",\"is_single\":1,\"waits_for_all\":1,\"wanted\":1,\"max_parallel\":1,\"leaves\":0,"
        "\"children\":[{}]}";
    struct step_record step = {.step = "more",
                               .state = STEP_WAITING,
                               .attempt = 1,
                               .exit_code = -1,
                               .due_in_us = TIME_NEVER,
                               .variables = plan,
                               .signal = "children:more"};
    struct claimed_item parent = begin_parent(scene);
    struct record record = record_of(RECORD_STEP, &parent);
    struct record_summary summary;
    record.step = &step;
    ok(store_record(scene->store, scene->node, &record, 1, &summary, &scene->error));
    assert_int_equal(record.status, WEIR_OK);
    (void)run(scene->b, "UPDATE weir.child_steps SET depth = 1, count = 100000 WHERE parent_id = '%s' AND step = 'go'",
              parent.id);
    (void)run(scene->a, "BEGIN; SELECT 1 FROM weir.workflow_execution_queue WHERE id = '%s' FOR NO KEY UPDATE", parent.id);
    struct children_advance held = advance(scene);
    assert_int_equal(held.settled, 0);
    assert_true(held.waits);
    (void)run(scene->a, "ROLLBACK");
    assert_int_equal(advance(scene).settled, 1);
    assert_string_equal(
        run(scene->b, "SELECT data::json ->> 'code' FROM weir.signals WHERE execution_id = '%s'", parent.id),
        "children_too_many");
}

/* Two nodes that do the duty at once take different notes. */
static void notes_that_another_node_has_taken_are_passed_over(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin_parent(scene);
    char child[UUID_TEXT_MAX];
    (void)snprintf(child, sizeof child, "%s", child_of(scene, &parent));
    end_child(scene, child);
    (void)run(scene->a, "BEGIN; SELECT settled FROM weir.advance_children(200, 500)");
    assert_int_equal(advance(scene).settled, 0);
    (void)run(scene->a, "COMMIT");
    assert_int_equal(advance(scene).settled, 0);
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.signals"), "1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_locked_parent_waits_alone), TEST(a_locked_child_is_cancelled_later),
                                       TEST(notes_that_another_node_has_taken_are_passed_over),
                                       TEST(a_plan_beyond_the_limits_waits_for_its_locked_parent)};
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
