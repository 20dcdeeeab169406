/* A transaction that stays open while work goes on: the server keeps every row version that dies meanwhile, and every index
 * its entry. What a round, a fold and an inbox read must not grow with them. Index entries are counted, never time. */
#include <stdio.h>
#include <stdlib.h>

#include "unit/store/postgres/scene.h"

/* In the scene, a is in a transaction that has an id, and b counts. */
enum { SNAPSHOT_SIZE = 400, ROUNDS = 60, CAP = 1000, FEW = 12 };

static int open_scene(void **state)
{
    (void)scene_open_with(state, CAP);
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN; SELECT pg_current_xact_id()");
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "ROLLBACK");
    return scene_close(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

/* Each claim loads, assigns, and folds the news. */
static void run_rounds(struct scene *scene)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct claimed_item item = claim_one(scene, enqueue_for(scene, "acme", NULL));
        assert_int_equal(record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    }
}

/* Entries of an index that one statement reads, undone. */
static long entries_read(struct scene *scene, const char *index, const char *sql)
{
    char count[SQL_SIZE];
    (void)snprintf(count, sizeof count, "SELECT pg_stat_get_xact_tuples_returned('weir.%s'::regclass)", index);
    (void)run(scene->b, "BEGIN");
    long before = strtol(run(scene->b, "%s", count), NULL, 10);
    (void)run(scene->b, "%s", sql);
    long after = strtol(run(scene->b, "%s", count), NULL, 10);
    (void)run(scene->b, "ROLLBACK");
    return after - before;
}

static int64_t take_epoch(struct scene *scene)
{
    int64_t epoch = 0;
    ok(take_role(scene->store, scene->node, &epoch, &scene->error));
    return epoch;
}

/* A round that reads one lane behind a rank; `seen` as SQL. */
static const char *round_sql(struct scene *scene, const char *seen, const char *rank)
{
    static char sql[SQL_SIZE];
    (void)snprintf(
        sql, sizeof sql,
        "SELECT count(*) FROM weir.schedule(%lld, (SELECT epoch FROM weir.scheduler), 0, false, %s, weir.timeline(), NULL, "
        "'0', 0, '{}', '{}', '{}', false, ARRAY[weir.lane_id(1, 1, 0)], ARRAY[%s]::bigint[], "
        "ARRAY['00000000-0000-0000-0000-000000000000'::uuid], ARRAY[5], 0, '{}', '{1000,500,1000}')",
        (long long)scene->node, seen, rank);
    return sql;
}

/* --- the news --- */

static void news_that_was_read_is_not_visited_again(void **state)
{
    struct scene *scene = *state;
    char seen[SNAPSHOT_SIZE];
    run_rounds(scene);
    (void)take_epoch(scene);
    (void)snprintf(seen, sizeof seen, "'%s'", run(scene->b, "SELECT pg_current_snapshot()"));
    (void)enqueue_for(scene, "acme", NULL);
    assert_true(entries_read(scene, "news_pkey", round_sql(scene, "'1:1:'", "0")) >= ROUNDS); /* all are there still */
    assert_in_range(entries_read(scene, "news_pkey", round_sql(scene, seen, "0")), 1, FEW);
}

static void news_of_a_transaction_that_runs_is_not_visited(void **state)
{
    struct scene *scene = *state;
    char seen[SNAPSHOT_SIZE];
    (void)run(scene->a, "INSERT INTO weir.news (at, kind, workspaces) SELECT 1, 7, '{}' FROM generate_series(1, 300)");
    (void)take_epoch(scene);
    (void)snprintf(seen, sizeof seen, "'%s'", run(scene->b, "SELECT pg_current_snapshot()"));
    for (int i = 0; i < 3; i++) {
        assert_in_range(entries_read(scene, "news_pkey", round_sql(scene, seen, "0")), 0, FEW);
        (void)enqueue_for(scene, "acme", NULL);
    }
}

static void news_that_was_folded_is_not_visited_by_the_next_fold(void **state)
{
    struct scene *scene = *state;
    char folded[SNAPSHOT_SIZE];
    char sql[SQL_SIZE];
    run_rounds(scene);
    int64_t epoch = take_epoch(scene);
    (void)snprintf(folded, sizeof folded, "'%s'", run(scene->b, "SELECT pg_current_snapshot()"));
    (void)enqueue_for(scene, "acme", NULL);
    for (int i = 0; i < 2; i++) {
        const char *since = i == 0 ? "NULL" : folded;
        (void)snprintf(sql, sizeof sql,
                       "SELECT folded FROM weir.publish_books(%lld, %lld, %s, pg_current_snapshot()::text, '0', 0, 10000, "
                       "'{}', '{}')",
                       (long long)scene->node, (long long)epoch, since);
        long entries = entries_read(scene, "news_pkey", sql);
        assert_true(i == 0 ? entries >= ROUNDS : entries <= FEW);
    }
}

/* --- the queue --- */

static void items_that_were_assigned_are_not_visited_behind_them(void **state)
{
    struct scene *scene = *state;
    char rank[SNAPSHOT_SIZE];
    run_rounds(scene);
    text_copy(rank, sizeof rank, run(scene->b, "SELECT max(run_at) FROM weir.workflow_executions"));
    const char *id = enqueue_for(scene, "acme", NULL);
    assert_non_null(id);
    (void)take_epoch(scene);
    assert_true(entries_read(scene, "queue_runnable", round_sql(scene, "pg_current_snapshot()::text", "0")) >= ROUNDS);
    assert_in_range(entries_read(scene, "queue_runnable", round_sql(scene, "pg_current_snapshot()::text", rank)), 1, FEW);
}

static void an_inbox_does_not_visit_items_that_were_read_and_have_ended(void **state)
{
    struct scene *scene = *state;
    char sql[SQL_SIZE];
    run_rounds(scene);
    struct claimed_item last = claim_one(scene, enqueue_for(scene, "acme", NULL));
    for (int i = 0; i < 2; i++) {
        (void)snprintf(sql, sizeof sql,
                       "SELECT count(*) FROM weir.inbox(%lld, %lld, '00000000-0000-0000-0000-000000000000', 10)",
                       (long long)scene->node, i == 0 ? 0LL : (long long)last.fence);
        long entries = entries_read(scene, "claims_pkey", sql);
        assert_true(i == 0 ? entries >= ROUNDS : entries <= FEW);
    }
}

/* --- rows that every round reads --- */

static void versions_of_the_scheduler_and_of_nodes_that_died_are_not_visited(void **state)
{
    enum { VERSIONS = 2000 };
    struct scene *scene = *state;
    char sql[SQL_SIZE];
    int64_t epoch = take_epoch(scene);
    const char *id = enqueue_for(scene, "acme", NULL);
    (void)run(scene->b,
              "DO $$ BEGIN FOR i IN 1..%d LOOP UPDATE weir.scheduler SET expires_at = expires_at + 1; "
              "UPDATE weir.nodes SET expires_at = expires_at + 1; COMMIT; END LOOP; END $$",
              VERSIONS);
    (void)snprintf(sql, sizeof sql, ASSIGN_SQL, (long long)scene->node, (long long)epoch, id, (long long)scene->node);
    static const char *const indexes[] = {"scheduler_pkey", "nodes_unrecovered", "nodes_pkey"};
    for (size_t i = 0; i < sizeof indexes / sizeof indexes[0]; i++) {
        assert_in_range(entries_read(scene, indexes[i], sql), 0, FEW);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(news_that_was_read_is_not_visited_again),
        TEST(news_of_a_transaction_that_runs_is_not_visited),
        TEST(news_that_was_folded_is_not_visited_by_the_next_fold),
        TEST(items_that_were_assigned_are_not_visited_behind_them),
        TEST(an_inbox_does_not_visit_items_that_were_read_and_have_ended),
        TEST(versions_of_the_scheduler_and_of_nodes_that_died_are_not_visited),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
