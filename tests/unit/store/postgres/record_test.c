/* Records on PostgreSQL. Two transactions that record steps of one execution, each order forced: the second one is seen to
 * wait before the first one ends, and finds the result of the first one on record. Ends by record_plain_ends() and by
 * record_ends(): their rows are equal. */
#include "unit/store/postgres/scene.h"

#define STEP_SQL                                                                                                           \
    "SELECT coalesce(max(r.outcome), 'done') FROM weir.record(%lld, ARRAY['%s'::uuid], ARRAY[%lld], ARRAY[%d], ARRAY[0], " \
    "ARRAY[-1], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', ARRAY[1], ARRAY['one'], "          \
    "ARRAY['%s'], ARRAY[1], ARRAY[0], ARRAY[-1], ARRAY[0], ARRAY[-1], ARRAY[%s], '{}', '{}', '{}', '{}') r"
enum { A_STEP = 5, AN_END = 6 };

/* Both connections record the step "one" of an execution, the first one as running; the state that is left. */
static const char *record_both(struct scene *scene, int second_kind)
{
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result held = claim(scene, 10);
    assert_int_equal(held.count, 1);
    const char *id = held.items[0].id;
    long long fence = (long long)held.items[0].fence;
    let_records_wait(scene);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, STEP_SQL, (long long)scene->node, id, fence, A_STEP, "running", "false"), "done");
    run_into(scene->b, STEP_SQL, (long long)scene->node, id, fence, second_kind, "completed", "true");
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "done");
    return run(scene->a, "SELECT string_agg(s.step || ' ' || s.status, ', ') FROM weir.workflow_node_executions s");
}

/* A node repeats a record without an answer while the server still runs the first try. */
static void a_step_that_is_reported_twice_at_once_is_on_record_once(void **state)
{
    assert_string_equal(record_both(*state, A_STEP), "one completed");
}

static void an_end_waits_for_a_step_under_way_and_rewrites_it(void **state)
{
    struct scene *scene = *state;
    assert_string_equal(record_both(scene, AN_END), "one completed");
    assert_string_equal(run(scene->a, "SELECT status FROM weir.workflow_executions"), "COMPLETED");
}

/* One record with the start that is not on record yet. */
static void record_with_start(struct scene *scene, enum record_kind kind, const struct claimed_item *item)
{
    struct record_summary summary;
    struct record record = record_of(kind, item);
    record.dispatched_first = true;
    record.taken_over = item->interruptions > 0;
    assert_int_equal(store_record(scene->store, scene->node, &record, 1, &summary, &scene->error), WEIR_OK);
    assert_int_equal(record.status, WEIR_OK);
}

/* The claim, its start and the wake have their times in the row of the park, of the item, and of the history. */
static void a_wait_has_one_event_row(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    for (int parks = 0; parks < 2; parks++) {
        struct claimed_item item = claim_one(scene, id);
        assert_int_equal(item.interruptions, parks);
        record_with_start(scene, RECORD_PARKED, &item);
        (void)run(scene->a, "SELECT p.lanes FROM weir.promote_due(weir.store_time() + 7200000000, 1000) p");
        assert_string_equal(run(scene->a, "SELECT status FROM weir.workflow_execution_queue"), "PENDING");
    }
    struct claimed_item last = claim_one(scene, id);
    record_with_start(scene, RECORD_COMPLETED, &last);
    assert_string_equal(
        run(scene->a, "SELECT string_agg(e.event, ' ' ORDER BY e.seq) FROM weir.workflow_execution_events e"), "park park");
    assert_string_equal(run(scene->a, "SELECT string_agg(v.event, ' ' ORDER BY v.fence NULLS FIRST, array_position("
                                      "ARRAY['enqueue', 'claim', 'dispatch', 'park', 'wake', 'complete'], v.event))"
                                      " FROM weir.execution_events v"),
                        "enqueue claim dispatch park wake claim dispatch park wake claim dispatch complete");
}

#define STORY_SQL "SELECT string_agg(v.event, ' ') FROM (SELECT e.event FROM weir.execution_events e) v"

/* A clock with coarse steps gives the park and the end of the wait one time. */
static void a_wait_without_a_length_is_told_in_order(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    struct claimed_item item = claim_one(scene, id);
    record_with_start(scene, RECORD_PARKED, &item);
    (void)run(scene->a, "SELECT p.lanes FROM weir.promote_due(weir.store_time() + 7200000000, 1000) p");
    (void)run(scene->a, "UPDATE weir.workflow_execution_queue q SET woken_at = e.at FROM weir.workflow_execution_events e"
                        " WHERE e.event = 'park' AND e.execution_id = q.id");
    assert_string_equal(run(scene->a, STORY_SQL), "enqueue claim dispatch park wake");
    item = claim_one(scene, id);
    record_with_start(scene, RECORD_COMPLETED, &item);
    assert_string_equal(run(scene->a, STORY_SQL), "enqueue claim dispatch park wake claim dispatch complete");
}

/* --- ends by either statement --- */

enum { STARTS = 4, CASES = STARTS * 3 * 2 };
#define HOUR_US (3600 * MICROSECONDS_PER_SECOND)

/* An end of each kind of times, with and without an output. `steps` has room for each. */
static void make_ends(const struct claim_result *held, size_t from, struct step_record *steps, struct record *records)
{
    static const int64_t began[] = {-1, 0, HOUR_US};
    static char output[] = "{\"n\":7}";
    for (size_t i = 0; i < CASES; i++) {
        bool has_output = i % 2 == 1;
        steps[i] = (struct step_record){.step = "one",
                                        .state = STEP_COMPLETED,
                                        .attempt = 1,
                                        .exit_code = has_output ? 0 : -1,
                                        .output = has_output ? output : NULL,
                                        .output_length = has_output ? sizeof output - 1 : 0,
                                        .variables = has_output ? output : NULL};
        records[i] = record_of(RECORD_COMPLETED, &held->items[from + i]);
        records[i].step = &steps[i];
        records[i].step_began_ago_us = began[i / 2 % 3];
        records[i].dispatched_first = i / 6 >= 2; /* the others have a start on record, or none */
        records[i].started_ago_us = i / 6 == 3 ? HOUR_US : 0;
    }
}

static void record_all(struct scene *scene, struct record *records, size_t count)
{
    struct record_summary summary;
    ok(store_record(scene->store, scene->node, records, count, &summary, &scene->error));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(records[i].status, WEIR_OK);
    }
    assert_int_equal(summary.slots_freed, count);
}

/* The rows of both in the history differ in nothing but ids and times, and the times are as far from each other. */
static void assert_same_end(struct scene *scene, size_t place, const char *one, const char *other)
{
    static const char sql[] =
        "SELECT count(DISTINCT to_jsonb(h) - ARRAY['id', 'fence', 'run_at', 'created_at', 'claimed_at', 'dispatched_at',"
        " 'finished_at', 'step_started_at'] || jsonb_build_object('claimed', h.dispatched_at = h.claimed_at,"
        " 'dispatched', h.dispatched_at = h.finished_at, 'began', h.step_started_at = h.dispatched_at,"
        " 'ended', h.step_started_at = h.finished_at, 'step', h.step_started_at = h.claimed_at))"
        " FROM weir.workflow_executions h WHERE h.id IN ('%s', '%s')";
    if (strcmp(run(scene->a, sql, one, other), "1") != 0) {
        fail_msg("case %zu: %s and %s differ", place, one, other);
    }
}

/* The set with a failed step beside them is not plain. */
static void a_plain_end_leaves_the_row_of_any_end(void **state)
{
    struct scene *scene = *state;
    struct step_record steps[CASES];
    struct record records[CASES + 1];
    struct step_record failed = {
        .step = "one", .state = STEP_FAILED, .attempt = 1, .failures = 1, .exit_code = -1, .error_code = "exit_1"};
    add_workspace(scene, "acme", 100);
    for (size_t i = 0; i < 2 * CASES + 1; i++) {
        (void)enqueue_for(scene, "acme", NULL);
    }
    struct claim_result held = claim(scene, 2 * CASES + 1);
    assert_int_equal(held.count, 2 * CASES + 1);
    for (size_t i = 0; i < 2 * CASES; i++) {
        if (i % CASES / 6 == 1) {
            assert_int_equal(record(scene, RECORD_DISPATCHED, &held.items[i]), WEIR_OK);
        }
    }
    make_ends(&held, 0, steps, records);
    record_all(scene, records, CASES);
    make_ends(&held, CASES, steps, records);
    records[CASES] = record_of(RECORD_FAILED, &held.items[2 * CASES]);
    records[CASES].step = &failed;
    record_all(scene, records, CASES + 1);
    for (size_t i = 0; i < CASES; i++) {
        assert_same_end(scene, i, held.items[i].id, held.items[CASES + i].id);
    }
    assert_string_equal(run(scene->a, "SELECT count(DISTINCT (n.node_id, n.held, n.left_fences)) FROM weir.news n"
                                      " WHERE n.kind = 4 AND n.failed IS NULL"),
                        "1");
}

/* Both statements move ends of one set. The ends without a step are not plain. */
static void a_set_of_plain_and_other_ends_takes_effect_whole(void **state)
{
    struct scene *scene = *state;
    struct step_record step = {.step = "one", .state = STEP_COMPLETED, .attempt = 1, .exit_code = -1};
    struct record records[3];
    add_workspace(scene, "acme", 100);
    for (size_t i = 0; i < 3; i++) {
        (void)enqueue_for(scene, "acme", NULL);
    }
    struct claim_result held = claim(scene, 3);
    assert_int_equal(held.count, 3);
    for (size_t i = 0; i < 3; i++) {
        records[i] = record_of(i == 2 ? RECORD_CANCELLED : RECORD_COMPLETED, &held.items[i]);
    }
    records[1].step = &step;
    record_all(scene, records, 3);
    assert_string_equal(run(scene->a, "SELECT string_agg(h.status || coalesce(' ' || h.step, ''), ', ' ORDER BY h.id)"
                                      " FROM weir.workflow_executions h"),
                        "COMPLETED, COMPLETED one, CANCELLED");
    assert_string_equal(run(scene->a, "SELECT string_agg(n.left_fences::text, ' ' ORDER BY n.seq) FROM weir.news n"
                                      " WHERE n.kind = 4"),
                        "{1} {2}");
}

/* The arguments of record_plain_ends() that a case changes. */
struct plain_case {
    const char *change; /* of the row, before */
    int other_node;
    int other_fence;
    int kind;
    const char *end; /* step, state, attempts, failures */
    const char *codes;
    int moved;
};

/* Nothing is kept of it. */
static int moved_plainly(struct scene *scene, const struct claimed_item *item, const struct plain_case *plain)
{
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "UPDATE weir.workflow_execution_queue SET %s WHERE id = '%s'", plain->change, item->id);
    int moved = (int)number(
        run(scene->a,
            "SELECT coalesce(cardinality(p.places), 0) FROM weir.record_plain_ends(%lld, weir.store_time(), "
            "ARRAY['%s'::uuid], ARRAY[%lld], ARRAY[%d], ARRAY[0], %s, ARRAY[-1], ARRAY[-1], '{}', '{}', %s, '{}') p",
            (long long)scene->node + plain->other_node, item->id, (long long)item->fence + plain->other_fence, plain->kind,
            plain->end, plain->codes));
    (void)run(scene->a, "ROLLBACK");
    return moved;
}

#define PLAIN_END "ARRAY['one'], ARRAY['COMPLETED'], ARRAY[1], ARRAY[0]"

static void only_plain_ends_take_the_short_statement(void **state)
{
    static const struct plain_case cases[] = {
        {"stuck_at = NULL", 0, 0, RECORD_COMPLETED, PLAIN_END, "'{}'", 1},
        {"stuck_at = NULL", 1, 0, RECORD_COMPLETED, PLAIN_END, "'{}'", 0},
        {"stuck_at = NULL", 0, 1, RECORD_COMPLETED, PLAIN_END, "'{}'", 0},
        {"stuck_at = NULL", 0, 0, RECORD_FAILED, PLAIN_END, "'{}'", 0},
        {"stuck_at = NULL", 0, 0, RECORD_CANCELLED, PLAIN_END, "'{}'", 0},
        {"stuck_at = NULL", 0, 0, RECORD_DISPATCHED, PLAIN_END, "'{}'", 0},
        {"interruptions = 1", 0, 0, RECORD_COMPLETED, PLAIN_END, "'{}'", 0},
        {"phase = 0, status = 'PENDING'", 0, 0, RECORD_COMPLETED, PLAIN_END, "'{}'", 0},
        {"stuck_at = NULL", 0, 0, RECORD_COMPLETED, "ARRAY['one'], ARRAY['FAILED'], ARRAY[1], ARRAY[0]", "'{}'", 0},
        {"stuck_at = NULL", 0, 0, RECORD_COMPLETED, "ARRAY['one'], ARRAY['COMPLETED'], ARRAY[2], ARRAY[0]", "'{}'", 0},
        {"stuck_at = NULL", 0, 0, RECORD_COMPLETED, "ARRAY['one'], ARRAY['COMPLETED'], ARRAY[1], ARRAY[1]", "'{}'", 0},
        {"stuck_at = NULL", 0, 0, RECORD_COMPLETED, "ARRAY[NULL], ARRAY[NULL], ARRAY[0], ARRAY[0]", "'{}'", 0},
        {"stuck_at = NULL", 0, 0, RECORD_COMPLETED, PLAIN_END, "ARRAY['exit_1']", 0},
    };
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    struct claimed_item item = claim_one(scene, id);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (moved_plainly(scene, &item, &cases[i]) != cases[i].moved) {
            fail_msg("case %zu is not as it should be", i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_step_that_is_reported_twice_at_once_is_on_record_once),
        SCENE_TEST(an_end_waits_for_a_step_under_way_and_rewrites_it),
        SCENE_TEST(a_wait_has_one_event_row),
        SCENE_TEST(a_wait_without_a_length_is_told_in_order),
        SCENE_TEST(a_plain_end_leaves_the_row_of_any_end),
        SCENE_TEST(a_set_of_plain_and_other_ends_takes_effect_whole),
        SCENE_TEST(only_plain_ends_take_the_short_statement),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
