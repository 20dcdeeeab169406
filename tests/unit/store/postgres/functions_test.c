/* Functions in SQL that answer for themselves: distances of names, labels, sets of requests, and the role of a session. */
#include <stdio.h>

#include "base/text.h"
#include "unit/store/postgres/scene.h"

static void a_distance_counts_edits_and_swaps(void **state)
{
    static const struct {
        const char *names;
        const char *edits;
    } cases[] = {{"'hello', 'hello', 3", "0"}, {"'hello', 'helo', 3", "1"},    {"'abc', 'acb', 3", "1"},
                 {"'xab', 'yab', 3", "1"},     {"'a', 'b', 3", "1"},           {"'', 'ab', 3", "2"},
                 {"'abab', 'ab', 3", "2"},     {"'kitten', 'sitting', 4", "3"}};
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(run(scene->a, "SELECT weir.edit_distance(%s)", cases[i].names), cases[i].edits);
    }
}

static void each_fault_of_a_label_is_named(void **state)
{
    static const struct {
        const char *labels;
        const char *problem;
    } cases[] = {{"{\"a\": 5}", "the value of the label a is not a text"},
                 {"{\"a\": \"\"}", "the value of the label a is empty"},
                 {"{\"a\": \"x\\ty\"}", "the value of the label a is a text with a control character"},
                 {"{\"A\": \"x\"}", "\"A\" is not the name of a label"},
                 {"{\"a\": \"x\"}", ""}};
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(
            run(scene->a, "SELECT coalesce(p.message, '') FROM weir.labels_problem('%s') p", cases[i].labels),
            cases[i].problem);
    }
}

static void enqueue_two(struct scene *scene, const struct enqueue_request *requests, struct enqueue_result *results)
{
    struct weir_error error;
    assert_int_equal(store_enqueue(scene->store, requests, 2, results, &error), WEIR_OK);
}

/* The group that a node or a definition has by default is made; one that a request names must be there. */
static void a_set_makes_default_groups_alone(void **state)
{
    struct scene *scene = *state;
    struct enqueue_result results[2];
    add_workspace(scene, "wide", 10);
    const struct enqueue_request requests[] = {{.workspace = "wide", .workflow = "hello", .default_group = "fresh"},
                                               {.workspace = "wide", .workflow = "hello", .group = "unknown"}};
    (void)run(scene->a, "DELETE FROM weir.news WHERE kind = 8");
    enqueue_two(scene, requests, results);
    assert_int_equal(results[0].status, WEIR_OK);
    assert_false(results[0].duplicate);
    assert_int_not_equal(results[1].status, WEIR_OK);
    assert_string_equal(run(scene->a, "SELECT string_agg(name, ' ' ORDER BY name) FROM weir.executor_groups"
                                      " WHERE name IN ('fresh', 'unknown')"),
                        "fresh");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.news WHERE kind = 8"),
                        "1"); /* it concerns the scheduler */
}

static void what_a_set_accepts_is_no_duplicate(void **state)
{
    struct scene *scene = *state;
    struct enqueue_result results[2];
    add_workspace(scene, "wide", 10);
    const struct enqueue_request requests[] = {{.workspace = "wide", .workflow = "hello"},
                                               {.workspace = "wide", .workflow = "missing"}};
    enqueue_two(scene, requests, results);
    assert_int_equal(results[0].status, WEIR_OK);
    assert_false(results[0].duplicate);
    assert_int_equal(results[1].status, WEIR_WORKFLOW_NOT_FOUND);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_execution_queue WHERE id = '%s'", results[0].id),
                        "1");
}

/* Behind a pooler the session belongs to other nodes as well: its end says nothing of the scheduler. */
static void a_session_behind_a_pooler_is_not_that_of_the_scheduler(void **state)
{
    struct scene *scene = *state;
    for (int is_pooled = 0; is_pooled < 2; is_pooled++) {
        (void)run(scene->a, "UPDATE weir.scheduler SET node_id = 0");
        assert_string_equal(run(scene->a,
                                "SELECT outcome FROM weir.role('take', %lld, 0, 10000000, 0, 'test', %s, 0, 0,"
                                " weir.server_identity(), 100000000)",
                                (long long)scene->node, is_pooled ? "true" : "false"),
                            "ok");
        assert_string_equal(run(scene->a, "SELECT backend_pid IS NULL FROM weir.scheduler"), is_pooled ? "t" : "f");
    }
}

/* One condition of the table has all four rules of a row of the queue. Of 100 combinations five are allowed. */
static void a_row_of_the_queue_has_the_state_of_its_phase(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "CREATE TEMP TABLE allowed (row text)");
    (void)run(
        scene->a,
        "DO $$ DECLARE c record; BEGIN"
        " FOR c IN SELECT * FROM unnest('{PENDING,CLAIMED,DISPATCHED,WAITING,OTHER}'::text[]) s (status),"
        " generate_series(0, 4) p (phase), unnest('{NULL,5}'::bigint[]) d (due), unnest('{NULL,sleep}'::text[]) w (wait)"
        " LOOP BEGIN UPDATE weir.workflow_execution_queue"
        " SET status = c.status, phase = c.phase, due_at = c.due, waiting_for = c.wait WHERE id = '%s';"
        " INSERT INTO allowed VALUES (concat_ws(' ', c.phase, c.status, c.due, c.wait));"
        " EXCEPTION WHEN check_violation THEN NULL; END; END LOOP; END $$",
        id);
    assert_string_equal(run(scene->a, "SELECT string_agg(row, ', ' ORDER BY row) FROM allowed"),
                        "0 PENDING, 1 PENDING 5, 2 CLAIMED, 2 DISPATCHED, 3 WAITING 5 sleep");
    (void)run(scene->a, "ROLLBACK");
}

/* The held items that the scheduler reads of such entries. */
static const char *read_helds(struct scene *scene, const char *entries)
{
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "DELETE FROM weir.news");
    (void)run(scene->a, "INSERT INTO weir.news (at, kind, node_id, lanes, held) VALUES %s", entries);
    static char text[256];
    text_copy(text, sizeof text,
              run(scene->a, "SELECT coalesce(string_agg(h.fact, ' ' ORDER BY h.fact), '') FROM (SELECT concat_ws(':', "
                            "f.n1, u.lane, u.items)"
                            " AS fact FROM weir.news_facts(ARRAY(SELECT n FROM weir.news n)) f,"
                            " unnest(f.list1, f.list2) u (lane, items) WHERE f.tag = 'helds') h"));
    (void)run(scene->a, "ROLLBACK");
    return text;
}

static void each_lane_of_the_news_is_one_fact(void **state)
{
    struct scene *scene = *state;
    assert_string_equal(read_helds(scene, "(1, 4, 7, '{11,12}', '{-1,-2}')"), "7:11:-1 7:12:-2");
    assert_string_equal(read_helds(scene, "(1, 4, 7, '{11,12}', '{0,-2}')"), "7:12:-2");
    assert_string_equal(
        read_helds(scene, "(1, 4, 7, '{11,12}', '{-1,-2}'), (1, 3, 7, '{12}', '{-1}'), (1, 4, 8, '{11}', '{-4}')"),
        "7:11:-1 7:12:-3 8:11:-4");
    assert_string_equal(read_helds(scene, "(1, 4, 7, '{11}', '{-1}'), (1, 4, 7, '{11}', NULL)"), "7:11:-1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_distance_counts_edits_and_swaps),
        SCENE_TEST(each_fault_of_a_label_is_named),
        SCENE_TEST(a_set_makes_default_groups_alone),
        SCENE_TEST(what_a_set_accepts_is_no_duplicate),
        SCENE_TEST(a_session_behind_a_pooler_is_not_that_of_the_scheduler),
        SCENE_TEST(a_row_of_the_queue_has_the_state_of_its_phase),
        SCENE_TEST(each_lane_of_the_news_is_one_fact),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
