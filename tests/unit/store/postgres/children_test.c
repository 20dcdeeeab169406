/* The duty of children beside transactions that hold rows: it waits for none, does the rest, and comes back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
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

/* A held parent whose step has this plan, which no duty has looked at. */
static struct claimed_item record_plan(struct scene *scene, char *plan)
{
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
    return parent;
}

/* A held parent with one child, which the duty has started. */
static struct claimed_item begin_parent(struct scene *scene)
{
    char plan[] = "{\"workflow\":\"hello\",\"executor_group\":null,\"priority\":null,\"is_single\":1,\"waits_for_all\":1,"
                  "\"wanted\":1,\"max_parallel\":1,\"leaves\":0,\"children\":[{}]}";
    struct claimed_item parent = record_plan(scene, plan);
    assert_int_equal(advance(scene).started, 1);
    return parent;
}

static const char *child_of(struct scene *scene, const struct claimed_item *parent)
{
    return run(scene->b, "SELECT child_id FROM weir.children WHERE parent_id = '%s' AND position = 0", parent->id);
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

#define TWO_CHILDREN                                                                                                       \
    "{\"workflow\":\"hello\",\"executor_group\":null,\"priority\":null,\"is_single\":0,\"waits_for_all\":1,\"wanted\":2,"  \
    "\"max_parallel\":2,\"leaves\":1,"

#define KEYS "\"keys\":[\"free\",\"held\"],"

/* A held parent with two children, which no duty has looked at. */
static void plan_two(struct scene *scene, const char *keys)
{
    char plan[512];
    (void)snprintf(plan, sizeof plan, TWO_CHILDREN "%s\"children\":[{},{}]}", keys);
    (void)record_plan(scene, plan);
}

/* A program may hold its key for as long as its transaction is open. */
static void a_key_that_a_program_holds_delays_its_children_alone(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN; SELECT weir.enqueue('acme', 'hello', idempotency_key => 'held')");
    plan_two(scene, KEYS);
    plan_two(scene, KEYS);
    plan_two(scene, "");
    struct children_advance held = advance(scene);
    assert_int_equal(held.started, 3); /* "free", and two without keys. The other parent with keys is not tried */
    assert_true(held.waits);
    assert_false(held.again);
    (void)run(scene->a, "COMMIT");
    (void)advance(scene);
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.children WHERE key IS NOT NULL"), "0");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.children WHERE is_adopted"), "3");
}

/* An end that is not committed yet does not see the child, and the duty does not see the end. */
static void an_execution_of_a_key_that_ends_meanwhile_is_not_missed(void **state)
{
    struct scene *scene = *state;
    plan_two(scene, KEYS);
    (void)run(scene->b, "SELECT weir.enqueue('acme', 'hello', idempotency_key => 'held')");
    (void)run(scene->a, "BEGIN; SELECT weir.cancel(id) FROM weir.executions WHERE idempotency_key = 'held'");
    struct children_advance held = advance(scene);
    assert_int_equal(held.started, 1);
    assert_true(held.waits);
    (void)run(scene->a, "COMMIT");
    (void)advance(scene);
    assert_string_equal(
        run(scene->b, "SELECT string_agg(coalesce(status, 'OPEN'), ',' ORDER BY position) FROM weir.children"),
        "OPEN,CANCELLED");
}

/* One transaction at a time enqueues children with keys. The other children do not wait for it. */
static void a_duty_that_enqueues_keys_holds_up_no_other(void **state)
{
    struct scene *scene = *state;
    plan_two(scene, KEYS);
    (void)run(scene->a, "BEGIN; SELECT started FROM weir.advance_children(200, 1000, 500)");
    plan_two(scene, "\"keys\":[\"one\",\"two\"],");
    plan_two(scene, "");
    struct children_advance held = advance(scene);
    assert_int_equal(held.started, 2);
    assert_true(held.waits);
    (void)run(scene->a, "COMMIT");
    assert_int_equal(advance(scene).started, 2);
}

/* Two nodes that do the duty at once take different notes. */
static void notes_that_another_node_has_taken_are_passed_over(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin_parent(scene);
    char child[UUID_TEXT_MAX];
    (void)snprintf(child, sizeof child, "%s", child_of(scene, &parent));
    end_child(scene, child);
    (void)run(scene->a, "BEGIN; SELECT settled FROM weir.advance_children(200, 1000, 500)");
    assert_int_equal(advance(scene).settled, 0);
    (void)run(scene->a, "COMMIT");
    assert_int_equal(advance(scene).settled, 0);
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.signals"), "1");
}

struct plan {
    size_t count;
    size_t wanted; /* ALL_CHILDREN: all */
    size_t max_parallel;
    bool leaves;
};

enum { ALL_CHILDREN = CHILDREN_OF_STEP_MOST };

/* A held parent with so many children, which no duty has looked at. */
static struct claimed_item plan_many(struct scene *scene, struct plan is)
{
    struct text plan = {.max = 65536};
    ok(text_format(&plan,
                   "{\"workflow\":\"hello\",\"executor_group\":null,\"priority\":null,\"is_single\":0,"
                   "\"waits_for_all\":%d,\"wanted\":%zu,\"max_parallel\":%zu,\"leaves\":%d,\"children\":[{\"n\":0}",
                   is.wanted == ALL_CHILDREN, is.wanted, is.max_parallel, is.leaves));
    for (size_t i = 1; i < is.count; i++) {
        ok(text_format(&plan, ",{\"n\":%zu}", i));
    }
    ok(text_add_string(&plan, "]}"));
    struct claimed_item parent = record_plan(scene, plan.data);
    text_close(&plan);
    return parent;
}

/* A held parent with so many children, all of which the duty has started. */
static struct claimed_item begin_large_parent(struct scene *scene, size_t children)
{
    struct claimed_item parent =
        plan_many(scene, (struct plan){.count = children, .wanted = ALL_CHILDREN, .max_parallel = CHILDREN_OF_STEP_MOST});
    size_t started = 0;
    while (started < children) {
        started += advance(scene).started;
    }
    return parent;
}

static long blocks_of(struct scene *scene, const char *call)
{
    const char *plan =
        run(scene->b, "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON) SELECT * FROM weir.%s", call);
    const char *hit = strstr(plan, "\"Shared Hit Blocks\": ");
    assert_non_null(hit);
    return strtol(strpbrk(hit, "0123456789"), NULL, 10);
}

/* Ends the child at this position, and starts one more behind the last one. */
static long end_and_start(struct scene *scene, const char *parent, int position, int count)
{
    char child[UUID_TEXT_MAX];
    (void)snprintf(
        child, sizeof child, "%s",
        run(scene->b, "SELECT child_id FROM weir.children WHERE parent_id = '%s' AND position = %d", parent, position));
    end_child(scene, child);
    (void)run(scene->b, "UPDATE weir.child_steps SET count = count + 1, planned = planned + 1 WHERE parent_id = '%s'",
              parent);
    (void)run(scene->b,
              "INSERT INTO weir.children (parent_id, step, position, child_id, params) "
              "VALUES ('%s', 'go', %d, '00000000-0000-7000-8000-%012d', '{}')",
              parent, count, count);
    return blocks_of(scene, "advance_children(200, 1000, 500)");
}

/* Else each of the many calls for a large step would read all of its children. */
static void an_end_and_a_start_read_no_other_child_of_the_step(void **state)
{
    enum { CHILDREN = 6000, BLOCKS_MOST = 110 };
    struct scene *scene = *state;
    struct claimed_item parent = begin_large_parent(scene, CHILDREN);
    (void)end_and_start(scene, parent.id, 0, CHILDREN); /* the connection reads the catalog and makes its plans */
    long blocks = end_and_start(scene, parent.id, 1, CHILDREN + 1);
    if (blocks > BLOCKS_MOST) {
        fail_msg("the end of a child and a start read %ld blocks, at most %d are right", blocks, BLOCKS_MOST);
    }
    assert_string_equal(run(scene->b, "SELECT started FROM weir.child_steps WHERE parent_id = '%s'", parent.id), "6002");
    assert_string_equal(
        run(scene->b, "SELECT count(*) FROM weir.children WHERE parent_id = '%s' AND status = 'COMPLETED'", parent.id),
        "2");
}

/* Ends one set of records with the first `count` children of a parent. */
static void end_set(struct scene *scene, const char *parent, size_t count)
{
    enum { ENDS_MOST = 4 };
    struct record records[ENDS_MOST];
    struct claimed_item items[ENDS_MOST];
    struct record_summary summary;
    assert_true(count <= ENDS_MOST);
    for (size_t i = 0; i < count; i++) {
        char child[UUID_TEXT_MAX];
        (void)snprintf(
            child, sizeof child, "%s",
            run(scene->b, "SELECT child_id FROM weir.children WHERE parent_id = '%s' AND position = %zu", parent, i));
        items[i] = claim_one(scene, child);
        records[i] = record_of(RECORD_COMPLETED, &items[i]);
        records[i].dispatched_first = true;
    }
    ok(store_record(scene->store, scene->node, records, count, &summary, &scene->error));
    assert_int_equal(summary.changed, count);
}

/* A row for each end would cost as much as the end. */
static void the_ends_of_a_set_share_a_note(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin_large_parent(scene, 3);
    end_set(scene, parent.id, 2);
    assert_string_equal(run(scene->b, "SELECT string_agg(positions::text, ' ') FROM weir.child_notes"), "{0,1}");
    assert_int_equal(advance(scene).settled, 0);
    assert_string_equal(run(scene->b, "SELECT ended || ' ' || completed FROM weir.child_steps"), "2 2");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.child_notes"), "0");
}

/* The steps of these notes are gone. A call takes notes until it has a thousand ends. */
static void a_call_takes_a_bounded_number_of_ends(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin_parent(scene);
    (void)run(scene->b,
              "INSERT INTO weir.child_notes (parent_id, step, positions) SELECT '%s', 'gone', "
              "array_agg(p) FROM generate_series(1, 3) n, generate_series(1, 600) p GROUP BY n",
              parent.id);
    assert_true(advance(scene).again);
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.child_notes"), "1");
    assert_false(advance(scene).again);
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.child_notes"), "0");
}

/* The children of a step have one workspace and one workflow. */
static void equal_names_are_looked_up_once(void **state)
{
    enum { BLOCKS_MOST = 60 };
    static const char call[] = "resolve_names(array_fill('acme'::text, ARRAY[500]), array_fill('hello'::text, ARRAY[500]), "
                               "array_fill(NULL::text, ARRAY[500]), '{}', false)";
    struct scene *scene = *state;
    (void)blocks_of(scene, call); /* the connection reads the catalog */
    long blocks = blocks_of(scene, call);
    if (blocks > BLOCKS_MOST) {
        fail_msg("the names of 500 equal requests read %ld blocks, at most %d are right", blocks, BLOCKS_MOST);
    }
    const char *same =
        run(scene->b,
            "SELECT count(DISTINCT (a.workspace, a.definition, a.grp, a.demand)) || ' ' || count(a.definition) "
            "FROM (SELECT unnest(r.workspace_ids), unnest(r.definition_ids), unnest(r.group_ids), "
            "unnest(r.demands) FROM weir.resolve_names('{acme,acme,acme,acme}', '{hello,hello,hello,hello}', "
            "'{NULL,NULL,NULL,NULL}', '{default,default,default}', false) r "
            "UNION ALL SELECT unnest(r.workspace_ids), unnest(r.definition_ids), unnest(r.group_ids), "
            "unnest(r.demands) FROM weir.%s r) a (workspace, definition, grp, demand)",
            call);
    assert_string_equal(same, "1 504");
}

/* --- a plan that is read in parts --- */

static const char *rows_of(struct scene *scene, const char *parent)
{
    return run(
        scene->b,
        "SELECT s.planned || ' of ' || s.count || CASE WHEN s.rest IS NULL THEN '' ELSE ' with a rest' END || ', ' || "
        "(SELECT count(*) || ' ' || coalesce(max(position), -1) FROM weir.children c WHERE c.parent_id = s.parent_id) "
        "FROM weir.child_steps s WHERE s.parent_id = '%s'",
        parent);
}

static void the_first_children_begin_before_the_whole_plan_is_read(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = plan_many(scene, (struct plan){.count = 1200, .wanted = ALL_CHILDREN, .max_parallel = 3});
    struct children_advance first = advance(scene);
    assert_int_equal(first.started, 3);
    assert_true(first.again);
    assert_string_equal(rows_of(scene, parent.id), "500 of 1200 with a rest, 500 499");
    json_t *shown = NULL;
    ok(store_show(scene->store, parent.id, &shown, &scene->error));
    const json_t *row = json_array_get(json_object_get(shown, "children"), 0);
    assert_int_equal(json_integer_value(json_object_get(row, "count")), 1200);
    assert_int_equal(json_integer_value(json_object_get(row, "not_started")), 1197);
    json_decref(shown);
    assert_true(advance(scene).again);
    assert_string_equal(rows_of(scene, parent.id), "1000 of 1200 with a rest, 1000 999");
    assert_false(advance(scene).again);
    assert_string_equal(rows_of(scene, parent.id), "1200 of 1200, 1200 1199");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.children WHERE position >= 3 AND "
                                      "convert_from(params, 'UTF8')::json ->> 'n' = position::text"),
                        "1197");
}

/* A node that dies in the middle of a part has made none of its rows, and the next one goes on where it began. */
static void a_part_that_is_undone_is_made_anew(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent =
        plan_many(scene, (struct plan){.count = 1200, .wanted = ALL_CHILDREN, .max_parallel = CHILDREN_OF_STEP_MOST});
    assert_int_equal(advance(scene).started, 500);
    (void)run(scene->a, "BEGIN; SELECT started FROM weir.advance_children(200, 1000, 1000); ROLLBACK");
    assert_string_equal(rows_of(scene, parent.id), "500 of 1200 with a rest, 500 499");
    assert_int_equal(advance(scene).started, 500);
    assert_int_equal(advance(scene).started, 200);
    assert_string_equal(rows_of(scene, parent.id), "1200 of 1200, 1200 1199");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.workflow_execution_queue WHERE phase = 0"), "1200");
}

static void a_wait_ends_when_all_children_have_rows(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = plan_many(scene, (struct plan){.count = 1200, .wanted = 1, .max_parallel = 1});
    assert_int_equal(advance(scene).started, 1);
    char child[UUID_TEXT_MAX];
    (void)snprintf(child, sizeof child, "%s",
                   run(scene->b, "SELECT child_id FROM weir.children WHERE parent_id = '%s' AND position = 0", parent.id));
    end_child(scene, child);
    assert_int_equal(advance(scene).settled, 0);
    assert_string_equal(run(scene->b, "SELECT completed || ' ' || planned FROM weir.child_steps"), "1 1000");
    assert_int_equal(advance(scene).settled, 1);
    assert_string_equal(run(scene->b, "SELECT json_array_length(data::json -> 'output') FROM weir.signals"), "1200");
}

/* Parts of two, two and four rows, and so on. */
static void make_parts_small(struct scene *scene)
{
    (void)run(scene->b, "CREATE OR REPLACE FUNCTION weir.child_part() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE "
                        "AS $$ SELECT 2 $$");
}

/* Its output lists all ids, too. */
static void a_wait_for_none_ends_when_all_children_have_rows(void **state)
{
    struct scene *scene = *state;
    make_parts_small(scene);
    struct claimed_item parent = plan_many(scene, (struct plan){.count = 7, .wanted = 0, .max_parallel = 1});
    static const char *const rows[] = {"2 of 7 with a rest, 2 1", "4 of 7 with a rest, 4 3", "7 of 7, 7 6"};
    for (size_t part = 0; part < 3; part++) {
        struct children_advance done = advance(scene);
        assert_int_equal(done.started, part == 0 ? 1 : 0);
        assert_int_equal(done.again, part < 2);
        assert_int_equal(done.settled, part < 2 ? 0 : 1);
        assert_string_equal(rows_of(scene, parent.id), rows[part]);
    }
    assert_string_equal(run(scene->b, "SELECT json_array_length(data::json -> 'output') FROM weir.signals"), "7");
}

/* The first child fails, and all of them were to complete. The parent fails behind the last row. */
static void a_wait_that_fails_early_ends_when_all_children_have_rows(void **state)
{
    struct scene *scene = *state;
    make_parts_small(scene);
    struct claimed_item parent = plan_many(scene, (struct plan){.count = 7, .wanted = 7, .max_parallel = 1});
    assert_int_equal(advance(scene).started, 1);
    struct claimed_item child = claim_one(scene, child_of(scene, &parent));
    assert_int_equal(record(scene, RECORD_FAILED, &child), WEIR_OK);
    assert_int_equal(advance(scene).settled, 0);
    assert_string_equal(rows_of(scene, parent.id), "4 of 7 with a rest, 4 3");
    assert_string_equal(run(scene->b, "SELECT ended - completed FROM weir.child_steps"), "1");
    assert_int_equal(advance(scene).settled, 1);
    assert_string_equal(rows_of(scene, parent.id), "7 of 7, 7 6");
    assert_string_equal(run(scene->b, "SELECT data::json ->> 'code' FROM weir.signals"), "child_failed");
    assert_int_equal(record(scene, RECORD_FAILED, &parent), WEIR_OK);
    (void)advance(scene);
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.workflow_execution_queue"), "0");
}

/* A plan that no call has read by then gets its first rows all the same, as on a store that reads it at once. */
static void a_plan_whose_parent_ended_first_has_its_first_part(void **state)
{
    struct scene *scene = *state;
    make_parts_small(scene);
    struct claimed_item parent = plan_many(scene, (struct plan){.count = 7, .wanted = 1, .max_parallel = 1});
    struct record parked = record_of(RECORD_PARKED, &parent);
    struct record_summary summary;
    parked.dispatched_first = true;
    parked.delay_us = TIME_NEVER;
    parked.waiting_for = WAIT_CHILD;
    ok(store_record(scene->store, scene->node, &parked, 1, &summary, &scene->error));
    assert_int_equal(parked.status, WEIR_OK);
    (void)run(scene->b, "SELECT weir.cancel('%s')", parent.id);
    struct children_advance done = advance(scene);
    assert_int_equal(done.started, 0);
    assert_false(done.again);
    assert_string_equal(rows_of(scene, parent.id), "2 of 7, 2 1");
}

static void the_end_of_a_parent_ends_its_plan(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = plan_many(scene, (struct plan){.count = 1200, .wanted = ALL_CHILDREN, .max_parallel = 2});
    assert_int_equal(advance(scene).started, 2);
    assert_int_equal(record(scene, RECORD_FAILED, &parent), WEIR_OK);
    assert_int_equal(advance(scene).cancelled, 2);
    assert_false(advance(scene).again);
    assert_string_equal(rows_of(scene, parent.id), "500 of 1200, 500 499");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.workflow_execution_queue"), "0");
}

static void children_that_are_left_begin_behind_the_end_of_their_parent(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent =
        plan_many(scene, (struct plan){.count = 1200, .wanted = 1, .max_parallel = CHILDREN_OF_STEP_MOST, .leaves = true});
    assert_int_equal(advance(scene).started, 500);
    assert_int_equal(record(scene, RECORD_FAILED, &parent), WEIR_OK);
    assert_int_equal(advance(scene).started, 500);
    assert_int_equal(advance(scene).started, 200);
    assert_string_equal(rows_of(scene, parent.id), "1200 of 1200, 1200 1199");
}

/* The children that have begun go on, and so does the other step. */
static void an_altered_plan_stops_its_step_alone(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = plan_many(scene, (struct plan){.count = 600, .wanted = ALL_CHILDREN, .max_parallel = 1});
    assert_int_equal(advance(scene).started, 1);
    (void)claim_one(scene, child_of(scene, &parent)); /* so that the next claim is that of the other parent */
    (void)run(scene->b, "UPDATE weir.child_steps SET rest = '{\"children\":[{}]}' WHERE parent_id = '%s'", parent.id);
    plan_two(scene, "");
    struct children_advance done = advance(scene);
    assert_int_equal(done.started, 2);
    assert_int_equal(done.faults, 1);
    assert_non_null(strstr(done.fault, "the plan has no children 500 to 599"));
    assert_non_null(strstr(done.fault, parent.id));
    assert_string_equal(rows_of(scene, parent.id), "500 of 600 with a rest, 500 499");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(an_end_and_a_start_read_no_other_child_of_the_step),
                                       TEST(a_locked_parent_waits_alone),
                                       TEST(a_locked_child_is_cancelled_later),
                                       TEST(a_key_that_a_program_holds_delays_its_children_alone),
                                       TEST(an_execution_of_a_key_that_ends_meanwhile_is_not_missed),
                                       TEST(a_duty_that_enqueues_keys_holds_up_no_other),
                                       TEST(notes_that_another_node_has_taken_are_passed_over),
                                       TEST(a_plan_beyond_the_limits_waits_for_its_locked_parent),
                                       TEST(the_ends_of_a_set_share_a_note),
                                       TEST(a_call_takes_a_bounded_number_of_ends),
                                       TEST(equal_names_are_looked_up_once),
                                       TEST(the_first_children_begin_before_the_whole_plan_is_read),
                                       TEST(a_part_that_is_undone_is_made_anew),
                                       TEST(a_wait_ends_when_all_children_have_rows),
                                       TEST(a_wait_for_none_ends_when_all_children_have_rows),
                                       TEST(a_wait_that_fails_early_ends_when_all_children_have_rows),
                                       TEST(a_plan_whose_parent_ended_first_has_its_first_part),
                                       TEST(the_end_of_a_parent_ends_its_plan),
                                       TEST(children_that_are_left_begin_behind_the_end_of_their_parent),
                                       TEST(an_altered_plan_stops_its_step_alone)};
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
