/* Ends of executions that slept once, on PostgreSQL: record_sleep_ends() leaves the row of the sleep as it is, and the
 * views show of it what they show of a row that record_steps() has written. Only plain sleeps take that way. */
#include "unit/store/postgres/scene.h"

enum { PAIRS = 4, ITEMS = 2 * PAIRS };
#define HOUR_US (3600 * MICROSECONDS_PER_SECOND)

static const struct step_record asleep = {
    .step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = HOUR_US};
static const struct step_record slept = {.step = "nap", .state = STEP_COMPLETED, .attempt = 1, .exit_code = -1};
static const struct step_record work = {.step = "work", .state = STEP_COMPLETED, .attempt = 1, .exit_code = 0};

static void record_all(struct scene *scene, struct record *records, size_t count)
{
    struct record_summary summary;
    ok(store_record(scene->store, scene->node, records, count, &summary, &scene->error));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(records[i].status, WEIR_OK);
    }
}

/* Claims and parks `count` executions, ends their waits, and claims them again. */
static struct claim_result claim_behind_a_sleep(struct scene *scene, size_t count)
{
    struct record records[ITEMS];
    add_workspace(scene, "acme", 100);
    for (size_t i = 0; i < count; i++) {
        (void)enqueue_for(scene, "acme", NULL);
    }
    struct claim_result held = claim(scene, count);
    assert_int_equal(held.count, count);
    for (size_t i = 0; i < count; i++) {
        records[i] = record_of(RECORD_PARKED, &held.items[i]);
        records[i].dispatched_first = true;
        records[i].step = &asleep;
        records[i].waiting_for = WAIT_SLEEP;
        records[i].delay_us = HOUR_US;
    }
    record_all(scene, records, count);
    (void)run(scene->a, "SELECT p.lanes FROM weir.promote_due(weir.store_time() + 7200000000, 1000) p");
    held = claim(scene, count);
    assert_int_equal(held.count, count);
    return held;
}

/* The end of the sleep and of the execution, as a node reports them in one set. */
static void make_end(const struct claimed_item *item, struct record *records)
{
    records[0] = record_of(RECORD_STEP, item);
    records[0].step = &slept;
    records[1] = record_of(RECORD_COMPLETED, item);
    records[1].step = &work;
    records[0].taken_over = records[1].taken_over = true;
}

/* All that the views have of an execution, without its id; `times` are differences that do not depend on the moment. */
static const char *story(struct scene *scene, const char *id)
{
    return run(
        scene->a,
        "SELECT (SELECT jsonb_agg(to_jsonb(s) - ARRAY['execution_id', 'started_at', 'finished_at', 'fence', 'start_fence']"
        " || jsonb_build_object('fence', s.fence = h.fence, 'start_fence', s.start_fence = h.fence,"
        " 'ended', s.finished_at = h.finished_at, 'at_claim', s.finished_at = h.claimed_at,"
        " 'parked', s.start_fence = h.parked_fence) ORDER BY s.step)"
        " FROM weir.execution_steps s WHERE s.execution_id = h.id)::text"
        " || (SELECT string_agg(concat_ws(' ', e.event, e.node, e.reason, e.detail, e.attempt), ', ')"
        "     FROM (SELECT * FROM weir.execution_events v WHERE v.execution_id = h.id AND v.event <> 'park') e)"
        " || (to_jsonb(h) - ARRAY['id', 'fence', 'run_at', 'created_at', 'claimed_at', 'dispatched_at', 'finished_at',"
        "     'step_started_at', 'woken_at', 'parked_fence', 'restarted_at', 'slept_until'])::text"
        " || concat_ws(' ', h.restarted_at IS NULL, h.restarted_at = h.claimed_at, h.restarted_at = h.finished_at)"
        " FROM weir.workflow_executions h WHERE h.id = '%s'",
        id);
}

/* Each second execution has another row of a step until its end, so the row of its sleep is written again. */
static void a_sleep_that_is_not_written_again_shows_its_end(void **state)
{
    struct scene *scene = *state;
    struct record records[2 * ITEMS];
    struct claim_result held = claim_behind_a_sleep(scene, ITEMS);
    for (size_t i = 0; i < ITEMS; i++) {
        bool has_start = i / 2 % 2 == 1;
        if (i % 2 == 1) {
            (void)run(
                scene->a,
                "INSERT INTO weir.workflow_node_executions (execution_id, step, status, attempt, failures, started_at,"
                " finished_at, node_id, fence) VALUES ('%s', 'other', 'COMPLETED', 1, 0, 1, 1, 1, 1)",
                held.items[i].id);
        }
        if (has_start) {
            struct record start = record_of(RECORD_DISPATCHED, &held.items[i]);
            start.taken_over = true;
            record_all(scene, &start, 1);
        }
        make_end(&held.items[i], &records[2 * i]);
        records[2 * i].step_reported_ago_us = i / 4 == 0 ? 0 : HOUR_US;
        records[2 * i + 1].dispatched_first = !has_start;
        records[2 * i + 1].started_ago_us = has_start ? 0 : HOUR_US;
    }
    record_all(scene, records, 2 * ITEMS);
    (void)run(scene->a, "DELETE FROM weir.workflow_node_executions WHERE step = 'other'");
    assert_string_equal(run(scene->a, "SELECT string_agg(s.status || coalesce(' ' || s.due_at / s.due_at, ''), ', '"
                                      " ORDER BY s.execution_id) FROM weir.workflow_node_executions s"),
                        "WAITING 1, COMPLETED, WAITING 1, COMPLETED, WAITING 1, COMPLETED, WAITING 1, COMPLETED");
    for (size_t i = 0; i < ITEMS; i += 2) {
        char one[4096];
        text_copy(one, sizeof one, story(scene, held.items[i].id));
        assert_non_null(strstr(one, "step_end"));
        assert_string_equal(one, story(scene, held.items[i + 1].id));
    }
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.execution_steps s WHERE s.step = 'nap' AND"
                                      " s.status = 'COMPLETED' AND s.due_at IS NULL AND s.finished_at >= s.started_at"),
                        "8");
}

/* An end that another one of its set makes look at unfinished steps. Its sleep stays COMPLETED. */
static void a_stopped_step_beside_it_is_closed_alone(void **state)
{
    struct scene *scene = *state;
    struct record records[3];
    struct claim_result held = claim_behind_a_sleep(scene, 2);
    make_end(&held.items[0], records);
    records[2] = record_of(RECORD_FAILED, &held.items[1]);
    records[2].taken_over = true;
    record_all(scene, records, 3);
    assert_string_equal(run(scene->a, "SELECT string_agg(s.step || ' ' || s.status, ', ' ORDER BY s.execution_id, s.step)"
                                      " FROM weir.execution_steps s"),
                        "nap COMPLETED, work COMPLETED, nap CANCELLED");
}

struct sleep_case {
    enum record_kind kind;
    struct step_record step; /* the end of the sleep */
    struct step_record end;
    bool is_left; /* its row is left as it is */
};

static bool leaves_the_row(struct scene *scene, const struct claimed_item *item, const struct sleep_case *sleep)
{
    struct record records[2];
    make_end(item, records);
    records[1].kind = sleep->kind;
    records[0].step = &sleep->step;
    records[1].step = &sleep->end;
    record_all(scene, records, 2);
    const char *status = run(
        scene->a, "SELECT s.status FROM weir.execution_steps s WHERE s.step = 'nap' AND s.execution_id = '%s'", item->id);
    assert_string_equal(status, step_state_name(sleep->step.state));
    return number(run(scene->a, "SELECT count(h.slept_until) FROM weir.workflow_executions h WHERE h.id = '%s'",
                      item->id)) > 0;
}

#define NAP .step = "nap", .attempt = 1, .exit_code = -1
#define WORK .step = "work", .state = STEP_COMPLETED, .exit_code = 0

static void only_plain_sleeps_are_left(void **state)
{
    static char output[] = "{\"woken\":true}";
    static const struct sleep_case cases[] = {
        {RECORD_COMPLETED, {NAP, .state = STEP_COMPLETED}, {WORK, .attempt = 1}, true},
        {RECORD_FAILED, {NAP, .state = STEP_COMPLETED}, {WORK, .attempt = 1}, false},
        {RECORD_COMPLETED, {NAP, .state = STEP_COMPLETED}, {WORK, .attempt = 2}, false},
        {RECORD_COMPLETED, {NAP, .state = STEP_COMPLETED}, {WORK, .attempt = 1, .failures = 1}, false},
        {RECORD_COMPLETED, {NAP, .state = STEP_SKIPPED}, {WORK, .attempt = 1}, false},
        {RECORD_COMPLETED, {NAP, .state = STEP_COMPLETED, .failures = 1}, {WORK, .attempt = 1}, false},
        {RECORD_COMPLETED,
         {NAP, .state = STEP_COMPLETED, .output = output, .output_length = sizeof output - 1},
         {WORK, .attempt = 1},
         false},
    };
    struct scene *scene = *state;
    size_t count = sizeof cases / sizeof cases[0];
    struct claim_result held = claim_behind_a_sleep(scene, count);
    for (size_t i = 0; i < count; i++) {
        if (leaves_the_row(scene, &held.items[i], &cases[i]) != cases[i].is_left) {
            fail_msg("case %zu is not as it should be", i);
        }
    }
}

static void a_row_with_more_than_a_sleep_is_written(void **state)
{
    static const char *const changes[] = {"attempt = 2",  "failures = 1",          "signal = 'go'",      "variables = '{}'",
                                          "output = '1'", "error_code = 'exit_1'", "status = 'RUNNING'", "exit_code = 0"};
    struct scene *scene = *state;
    struct claim_result held = claim_behind_a_sleep(scene, 8);
    for (size_t i = 0; i < 8; i++) {
        struct record records[2];
        (void)run(scene->a, "UPDATE weir.workflow_node_executions SET %s WHERE execution_id = '%s'", changes[i],
                  held.items[i].id);
        make_end(&held.items[i], records);
        record_all(scene, records, 2);
        if (strcmp(run(scene->a, "SELECT count(h.slept_until) FROM weir.workflow_executions h"), "0") != 0) {
            fail_msg("%s: the row was not written", changes[i]);
        }
    }
}

/* A record of a lost fence ends nothing, and one that is repeated finds nothing. */
static void a_record_of_another_claim_changes_nothing(void **state)
{
    struct scene *scene = *state;
    struct record records[2];
    struct record_summary summary;
    struct claim_result held = claim_behind_a_sleep(scene, 1);
    make_end(&held.items[0], records);
    records[0].fence = records[1].fence = held.items[0].fence - 1;
    ok(store_record(scene->store, scene->node, records, 2, &summary, &scene->error));
    assert_int_equal(records[1].status, WEIR_STALE_FENCE);
    assert_string_equal(run(scene->a, "SELECT status FROM weir.workflow_execution_queue"), "CLAIMED");
    make_end(&held.items[0], records);
    record_all(scene, records, 2);
    make_end(&held.items[0], records);
    ok(store_record(scene->store, scene->node, records, 2, &summary, &scene->error));
    assert_int_equal(records[1].status, WEIR_EXECUTION_NOT_FOUND);
    assert_string_equal(run(scene->a, "SELECT string_agg(s.step || ' ' || s.status, ', ' ORDER BY s.step)"
                                      " FROM weir.execution_steps s"),
                        "nap COMPLETED, work COMPLETED");
}

static void enqueue_for_later(struct scene *scene, const char *workspace)
{
    struct enqueue_request request = {
        .workspace = workspace, .workflow = "hello", .run_at_us = 4000000000 * MICROSECONDS_PER_SECOND};
    struct enqueue_result result;
    ok(store_enqueue(scene->store, &request, 1, &result, &scene->error));
}

/* The look for the next one would read the entries of the whole set again. */
static void a_full_set_of_due_items_is_due_again_at_once(void **state)
{
    static const char promote[] =
        "SELECT concat_ws(' ', cardinality(p.lanes), cardinality(p.ranks), cardinality(p.ids), p.due_us) "
        "FROM weir.promote_due(7000000000000000, 2) p";
    struct scene *scene = *state;
    add_workspace(scene, "acme", 100);
    for (int i = 0; i < 3; i++) {
        enqueue_for_later(scene, "acme");
    }
    assert_string_equal(run(scene->a, promote), "2 2 2 7000000000000000");
    assert_string_equal(run(scene->a, promote), "1 1 1");
    assert_string_equal(run(scene->a, promote), "");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_execution_queue WHERE phase = 0"), "3");
}

/* A larger row would be compressed and stored outside of its page. */
static void news_of_due_items_have_few_lanes_in_a_row(void **state)
{
    enum { LANES = 257 };
    struct scene *scene = *state;
    char name[16];
    for (int i = 0; i < LANES; i++) {
        (void)snprintf(name, sizeof name, "acme-%d", i);
        add_workspace(scene, name, 1);
        enqueue_for_later(scene, name);
    }
    assert_string_equal(run(scene->a, "SELECT cardinality(p.lanes) FROM weir.promote_due(7000000000000000, 1000) p"),
                        "257");
    assert_string_equal(run(scene->a, "SELECT string_agg(concat_ws(' ', cardinality(n.lanes), cardinality(n.runnable), "
                                      "cardinality(n.waiting), cardinality(n.parked)), ', ' ORDER BY n.seq) "
                                      "FROM weir.news n WHERE n.kind = 6"),
                        "256 256 256, 1 1 1");
    assert_string_equal(run(scene->a, "SELECT sum(w) FROM weir.news n CROSS JOIN LATERAL unnest(n.waiting) w "
                                      "WHERE n.kind = 6"),
                        "-257");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_sleep_that_is_not_written_again_shows_its_end),
        SCENE_TEST(a_stopped_step_beside_it_is_closed_alone),
        SCENE_TEST(only_plain_sleeps_are_left),
        SCENE_TEST(a_row_with_more_than_a_sleep_is_written),
        SCENE_TEST(a_record_of_another_claim_changes_nothing),
        SCENE_TEST(a_full_set_of_due_items_is_due_again_at_once),
        SCENE_TEST(news_of_due_items_have_few_lanes_in_a_row),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
