/* First parks of executions with one waiting step, on PostgreSQL: record_plain_parks() writes the rows that record_parks()
 * and record_steps() write, and takes no other parks. Sets of several kinds of records keep their short statements. */
#include "unit/store/postgres/scene.h"

#define HOUR_US (3600 * MICROSECONDS_PER_SECOND)

#define WAITS .state = STEP_WAITING, .attempt = 1, .exit_code = -1
static const struct step_record asleep = {.step = "nap", WAITS, .due_in_us = HOUR_US};
static const struct step_record asks = {.step = "ask", WAITS, .due_in_us = TIME_NEVER, .signal = "go"};
static const struct step_record asks_for_an_hour = {.step = "ask", WAITS, .due_in_us = HOUR_US, .signal = "go"};
static const struct step_record slept = {.step = "nap", .state = STEP_COMPLETED, .attempt = 1, .exit_code = -1};
static const struct step_record work = {.step = "work", .state = STEP_COMPLETED, .attempt = 1, .exit_code = 0};

static void record_all(struct scene *scene, struct record *records, size_t count)
{
    struct record_summary summary;
    ok(store_record(scene->store, scene->node, records, count, &summary, &scene->error));
    assert_string_equal(summary.refusal, "");
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(records[i].status, WEIR_OK);
    }
}

static struct claim_result claim_new(struct scene *scene, size_t count)
{
    add_workspace(scene, "acme", 100);
    for (size_t i = 0; i < count; i++) {
        (void)enqueue_for(scene, "acme", NULL);
    }
    struct claim_result held = claim(scene, count);
    assert_int_equal(held.count, count);
    return held;
}

static struct record park_of(const struct claimed_item *item, const struct step_record *step)
{
    struct record record = record_of(RECORD_PARKED, item);
    record.dispatched_first = true;
    record.step = step;
    record.waiting_for = step->signal[0] == '\0' ? WAIT_SLEEP : WAIT_SIGNAL;
    record.delay_us = step->due_in_us;
    return record;
}

/* From now on a set that needs this function fails. */
static void forbid(struct scene *scene, const char *function)
{
    (void)run(scene->a,
              "DO $$ BEGIN EXECUTE (SELECT regexp_replace(pg_get_functiondef('weir.%s'::regproc), '\\mBEGIN\\M',"
              " 'BEGIN RAISE EXCEPTION ''%s is not wanted'';')); END $$",
              function, function);
}

/* The step of another claim that keeps an execution from the short statement. */
static void put_other_step(struct scene *scene, const char *id)
{
    (void)run(scene->a,
              "INSERT INTO weir.workflow_node_executions (execution_id, step, status, attempt, failures, started_at,"
              " finished_at, node_id, fence) VALUES ('%s', 'other', 'COMPLETED', 1, 0, 1, 1, 1, 1)",
              id);
}

/* The rows of an execution, without what is not the park's. */
static const char *row_of(struct scene *scene, const char *id)
{
    return run(scene->a,
               "SELECT jsonb_strip_nulls(to_jsonb(q) - ARRAY['id', 'created_at', 'run_at', 'rank'])"
               " FROM weir.workflow_execution_queue q WHERE q.id = '%s'",
               id);
}

static const char *steps_of(struct scene *scene, const char *id)
{
    return run(scene->a,
               "SELECT jsonb_agg(to_jsonb(s) - 'execution_id') FROM weir.workflow_node_executions s"
               " WHERE s.step <> 'other' AND s.execution_id = '%s'",
               id);
}

static const char *events_of(struct scene *scene, const char *id)
{
    return run(scene->a,
               "SELECT jsonb_agg(to_jsonb(e) - ARRAY['execution_id', 'seq'] ORDER BY e.seq)"
               " FROM weir.workflow_execution_events e WHERE e.execution_id = '%s'",
               id);
}

typedef const char *story(struct scene *scene, const char *id);

static void assert_same_story(struct scene *scene, story *tell, const char *id, const char *other_id)
{
    char one[SQL_SIZE];
    text_copy(one, sizeof one, tell(scene, id));
    assert_in_range(strlen(one), 100, SQL_SIZE - 2); /* whole, and of a row */
    assert_string_equal(one, tell(scene, other_id));
}

struct park_case {
    const struct step_record *step;
    int64_t started_ago_us;
    int64_t step_began_ago_us;
    int64_t step_reported_ago_us;
    const char *change; /* of the row, before */
    bool is_woken;      /* by a signal that its engine has not got */
};

static const struct park_case park_cases[] = {
    {&asleep, 0, -1, 0, NULL, false},
    {&asleep, HOUR_US, -1, 5000, NULL, false},
    {&asleep, 1, 0, 0, "starts_refused = 2, deferrals = 3, error_code = 'x', error = 'y', stuck_at = 1", false},
    {&asks, 0, HOUR_US, 0, "claimed_at = claimed_at", false},
    {&asks_for_an_hour, 0, 0, 7000, "signals = 1, signals_sent = 1", true},
};
enum { CASES = sizeof park_cases / sizeof park_cases[0] };

/* Each second execution has another row of a step until then, so its park takes the long way. */
static void a_plain_park_leaves_the_rows_of_any_park(void **state)
{
    struct scene *scene = *state;
    struct record records[2 * CASES];
    struct claim_result held = claim_new(scene, 2 * CASES);
    for (size_t i = 0; i < 2 * CASES; i++) {
        const struct park_case *park = &park_cases[i / 2];
        if (i % 2 == 1) {
            put_other_step(scene, held.items[i].id);
        }
        if (park->change != NULL) {
            (void)run(scene->a, "UPDATE weir.workflow_execution_queue SET %s WHERE id = '%s'", park->change,
                      held.items[i].id);
        }
        if (park->is_woken) {
            (void)run(scene->a,
                      "INSERT INTO weir.signals (execution_id, seq, name, data, sent_at) VALUES ('%s', 1, 'go', '1', 1)",
                      held.items[i].id);
        }
        records[i] = park_of(&held.items[i], park->step);
        records[i].started_ago_us = park->started_ago_us;
        records[i].step_began_ago_us = park->step_began_ago_us;
        records[i].step_reported_ago_us = park->step_reported_ago_us;
    }
    record_all(scene, records, 2 * CASES);
    assert_string_equal(run(scene->a, "SELECT string_agg(n.parked::text, ' ') FROM weir.news n WHERE n.kind = 3"),
                        "{5} {5}"); /* by two statements */
    for (size_t i = 0; i < 2 * CASES; i += 2) {
        bool is_woken = park_cases[i / 2].is_woken;
        assert_string_equal(
            run(scene->a, "SELECT status FROM weir.workflow_execution_queue WHERE id = '%s'", held.items[i].id),
            is_woken ? "PENDING" : "WAITING");
        assert_same_story(scene, row_of, held.items[i].id, held.items[i + 1].id);
        assert_same_story(scene, steps_of, held.items[i].id, held.items[i + 1].id);
        assert_same_story(scene, events_of, held.items[i].id, held.items[i + 1].id);
    }
}

static void a_set_of_plain_parks_needs_no_other_statement(void **state)
{
    struct scene *scene = *state;
    struct record records[3];
    struct claim_result held = claim_new(scene, 3);
    forbid(scene, "record_parks");
    forbid(scene, "record_steps");
    records[0] = park_of(&held.items[0], &asleep);
    records[1] = park_of(&held.items[1], &asks);
    records[2] = park_of(&held.items[2], &asks_for_an_hour);
    record_all(scene, records, 3);
    assert_string_equal(run(scene->a, "SELECT string_agg(concat_ws(' ', q.status, q.waiting_for, s.step, s.signal), ', '"
                                      " ORDER BY q.id) FROM weir.workflow_execution_queue q"
                                      " JOIN weir.workflow_node_executions s ON s.execution_id = q.id"),
                        "WAITING sleep nap, WAITING signal ask go, WAITING signal ask go");
    assert_string_equal(run(scene->a, "SELECT concat_ws(' ', n.node_id > 0, n.held, n.parked, cardinality(n.fences),"
                                      " n.left_fences) FROM weir.news n WHERE n.kind = 3"),
                        "t {-3} {3} 1 {3}");
}

/* Parks of both kinds, plain ends and ends behind a sleep. */
static void each_record_of_a_mixed_set_takes_its_own_statement(void **state)
{
    struct scene *scene = *state;
    struct record records[5];
    struct claim_result held = claim_new(scene, 1);
    records[0] = park_of(&held.items[0], &asleep);
    record_all(scene, records, 1);
    (void)run(scene->a, "SELECT p.lanes FROM weir.promote_due(weir.store_time() + 7200000000, 1000) p");
    for (size_t i = 0; i < 3; i++) {
        (void)enqueue_for(scene, "acme", NULL);
    }
    held = claim(scene, 4);
    assert_int_equal(held.count, 4);
    assert_int_equal(held.items[0].interruptions, 1);
    put_other_step(scene, held.items[3].id);
    forbid(scene, "record_ends");
    records[0] = record_of(RECORD_STEP, &held.items[0]);
    records[0].step = &slept;
    records[1] = record_of(RECORD_COMPLETED, &held.items[0]);
    records[1].dispatched_first = records[0].taken_over = records[1].taken_over = true;
    records[2] = record_of(RECORD_COMPLETED, &held.items[1]);
    records[2].dispatched_first = true;
    records[1].step = records[2].step = &work;
    records[3] = park_of(&held.items[2], &asks);
    records[4] = park_of(&held.items[3], &asleep);
    record_all(scene, records, 5);
    /* After an error each record would have been written in a transaction of its own. */
    assert_string_equal(run(scene->a, "SELECT string_agg(concat_ws(' ', n.kind, n.left_fences), ', ' ORDER BY n.seq)"
                                      " FROM weir.news n WHERE n.xid = (SELECT max(m.xid) FROM weir.news m)"),
                        "3 {1}, 3 {1}, 4 {1}, 4 {1}");
    assert_string_equal(run(scene->a,
                            "SELECT string_agg(concat_ws(' ', x.status, s.step, s.status), ', ' ORDER BY x.id, s.step)"
                            " FROM (SELECT q.id, q.status FROM weir.workflow_execution_queue q UNION ALL"
                            "       SELECT h.id, h.status FROM weir.workflow_executions h) x"
                            " JOIN weir.execution_steps s ON s.execution_id = x.id WHERE s.step <> 'other'"),
                        "COMPLETED nap COMPLETED, COMPLETED work COMPLETED, COMPLETED work COMPLETED, WAITING ask WAITING, "
                        "WAITING nap WAITING");
}

/* Several states of the steps of one execution come with its park. */
static void a_park_with_another_step_stores_both(void **state)
{
    struct scene *scene = *state;
    struct record records[4];
    struct claim_result held = claim_new(scene, 2);
    for (size_t i = 0; i < 2; i++) {
        records[2 * i] = record_of(RECORD_STEP, &held.items[i]);
        records[2 * i].step = &work;
        records[2 * i + 1] = park_of(&held.items[i], &asleep);
    }
    record_all(scene, records, 4);
    assert_string_equal(run(scene->a, "SELECT string_agg(s.step || ' ' || s.status, ', ' ORDER BY s.execution_id, s.step)"
                                      " FROM weir.workflow_node_executions s"),
                        "nap WAITING, work COMPLETED, nap WAITING, work COMPLETED");
}

/* --- the parks that it does not take --- */

/* The arguments of record_plain_parks() that a case changes. */
struct other_case {
    const char *change; /* SQL, before */
    const char *recorder;
    int other_fence;
    int kind;
    int start;
    const char *steps; /* places, names, states, attempts, failures, exit codes */
    const char *more;  /* outputs, variables, codes, errors, signals */
    bool is_plain;
};

#define NO_CHANGE "SELECT 1"
#define CHANGE(columns) "UPDATE weir.workflow_execution_queue SET " columns
#define OWN_STEP                                                                                                           \
    "INSERT INTO weir.workflow_node_executions (execution_id, step, status, attempt, failures, started_at, node_id, "      \
    "fence)"
#define RECORDER "n.id"
#define STEP "ARRAY[1], ARRAY['one'], ARRAY['WAITING'], ARRAY[1], ARRAY[0], ARRAY[-1]"
#define MORE "'{}', '{}', '{}', '{}', '{}'"

static const struct other_case other_cases[] = {
    {NO_CHANGE, RECORDER, 0, 10, 0, STEP, MORE, true},
    {NO_CHANGE, RECORDER, 0, 10, 0, STEP, "'{}', '{}', '{}', '{}', ARRAY['go']", true},
    {CHANGE("claimed_at = claimed_at + 1"), RECORDER, 0, 10, 0, STEP, MORE, false},
    {CHANGE("status = 'DISPATCHED'"), RECORDER, 0, 10, 0, STEP, MORE, false},
    {CHANGE("dispatched_at = claimed_at"), RECORDER, 0, 10, 0, STEP, MORE, false},
    {CHANGE("cancel_at = 1"), RECORDER, 0, 10, 0, STEP, MORE, false},
    {CHANGE("interruptions = 1"), RECORDER, 0, 10, 0, STEP, MORE, false},
    {CHANGE("parked_fence = 1"), RECORDER, 0, 10, 0, STEP, MORE, false},
    {CHANGE("node_id = node_id + 1"), RECORDER, 0, 10, 0, STEP, MORE, false},
    {"UPDATE weir.claims SET at = at + 1000000", RECORDER, 0, 10, 0, STEP, MORE, false},
    {OWN_STEP " SELECT q.id, 'two', 'COMPLETED', 1, 0, 1, 1, q.fence FROM weir.workflow_execution_queue q", RECORDER, 0, 10,
     0, STEP, MORE, false},
    {NO_CHANGE, "0", 0, 10, 0, STEP, MORE, false},
    {NO_CHANGE, RECORDER, 1, 10, 0, STEP, MORE, false},
    {NO_CHANGE, RECORDER, 0, 5, 0, STEP, MORE, false},
    {NO_CHANGE, RECORDER, 0, 10, -1, STEP, MORE, false},
    {NO_CHANGE, RECORDER, 0, 10, 0, "'{}', '{}', '{}', '{}', '{}', '{}'", MORE, false},
    {NO_CHANGE, RECORDER, 0, 10, 0, "ARRAY[1], ARRAY['one'], ARRAY['RUNNING'], ARRAY[1], ARRAY[0], ARRAY[-1]", MORE, false},
    {NO_CHANGE, RECORDER, 0, 10, 0, "ARRAY[1], ARRAY['one'], ARRAY['WAITING'], ARRAY[2], ARRAY[0], ARRAY[-1]", MORE, false},
    {NO_CHANGE, RECORDER, 0, 10, 0, "ARRAY[1], ARRAY['one'], ARRAY['WAITING'], ARRAY[1], ARRAY[1], ARRAY[-1]", MORE, false},
    {NO_CHANGE, RECORDER, 0, 10, 0, "ARRAY[1], ARRAY['one'], ARRAY['WAITING'], ARRAY[1], ARRAY[0], ARRAY[0]", MORE, false},
    {NO_CHANGE, RECORDER, 0, 10, 0,
     "ARRAY[1, 1], ARRAY['one', 'two'], ARRAY['WAITING', 'COMPLETED'], ARRAY[1, 1], ARRAY[0, 0], ARRAY[-1, 0]", MORE,
     false},
    {NO_CHANGE, RECORDER, 0, 10, 0,
     "ARRAY[1, 1], ARRAY['one', 'two'], ARRAY['COMPLETED', 'WAITING'], ARRAY[1, 1], ARRAY[0, 0], ARRAY[0, -1]", MORE,
     false},
    {NO_CHANGE, RECORDER, 0, 10, 0, STEP, "ARRAY['x'::bytea], '{}', '{}', '{}', '{}'", false},
    {NO_CHANGE, RECORDER, 0, 10, 0, STEP, "'{}', ARRAY['x'::bytea], '{}', '{}', '{}'", false},
    {NO_CHANGE, RECORDER, 0, 10, 0, STEP, "'{}', '{}', ARRAY['exit_1'], '{}', '{}'", false},
    {NO_CHANGE, RECORDER, 0, 10, 0, STEP, "'{}', '{}', '{}', ARRAY['x'], '{}'", false},
    {NO_CHANGE, RECORDER, 0, 10, 0, STEP, "'{}', '{}', '{}', '{}', ARRAY['children:one']", false},
};

/* Nothing is kept of it. */
static bool parks_plainly(struct scene *scene, const struct other_case *other)
{
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "%s", other->change);
    const char *answer =
        run(scene->a,
            "SELECT concat_ws(' ', p.places, p.written) FROM weir.workflow_execution_queue q, weir.nodes n,"
            " weir.record_plain_parks(%s, weir.store_time(), ARRAY[q.id], ARRAY[q.fence + %d], ARRAY[%d], ARRAY[1000],"
            " ARRAY['sleep'], ARRAY[0], ARRAY[%d], %s, ARRAY[-1, -1], ARRAY[1000, 1000], %s) p",
            other->recorder, other->other_fence, other->kind, other->start, other->steps, other->more);
    bool is_plain = strcmp(answer, "{1} {}") == 0;
    assert_true(is_plain || answer[0] == '{');
    assert_true(is_plain || strstr(answer, " ") == NULL);
    (void)run(scene->a, "ROLLBACK");
    return is_plain;
}

static void only_plain_parks_take_the_short_statement(void **state)
{
    struct scene *scene = *state;
    (void)claim_new(scene, 1);
    for (size_t i = 0; i < sizeof other_cases / sizeof other_cases[0]; i++) {
        if (parks_plainly(scene, &other_cases[i]) != other_cases[i].is_plain) {
            fail_msg("case %zu is not as it should be", i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_plain_park_leaves_the_rows_of_any_park),
        SCENE_TEST(a_set_of_plain_parks_needs_no_other_statement),
        SCENE_TEST(each_record_of_a_mixed_set_takes_its_own_statement),
        SCENE_TEST(a_park_with_another_step_stores_both),
        SCENE_TEST(only_plain_parks_take_the_short_statement),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
