/* A transaction that somebody keeps open while work goes on: the server keeps every row version that dies meanwhile, and
 * every index its entry. What nodes look at must not grow with them. Entries that a look reads are counted, never time.
 * Rows are found by the places of their newest versions for that, so one that is changed between look and update is met
 * here as well, in a forced order. */
#include <stdio.h>
#include <stdlib.h>

#include "unit/store/postgres/scene.h"

/* In the scene, a is in a transaction that has written, and b looks on. */
enum { ROUNDS = 60, MANY = 60, VERSIONS = 300, CAP = 20 };

static PGconn *many[MANY]; /* of one test */

static int open_scene(void **state)
{
    return scene_open_with(state, CAP);
}

static int close_scene(void **state)
{
    for (int i = 0; i < MANY; i++) {
        PQfinish(many[i]); /* takes NULL */
        many[i] = NULL;
    }
    return scene_close(state);
}

static void enqueue(struct scene *scene)
{
    (void)enqueue_for(scene, "acme", NULL);
}

static size_t claim_and_end(struct scene *scene)
{
    struct claim_result result = claim(scene, 10);
    for (size_t i = 0; i < result.count; i++) {
        assert_int_equal(record(scene, RECORD_COMPLETED, &result.items[i]), WEIR_OK);
    }
    return result.count;
}

static void run_rounds(struct scene *scene)
{
    for (int i = 0; i < ROUNDS; i++) {
        enqueue(scene);
        assert_int_equal(claim_and_end(scene), 1);
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

/* --- claims --- */

static void wake_ups_that_died_are_not_looked_at_again(void **state)
{
    struct scene *scene = *state;
    char sql[SQL_SIZE];
    (void)run(scene->a, "BEGIN; SELECT pg_current_xact_id()");
    run_rounds(scene);
    const char *seen = arena_copy_string(&scene->arena, run(scene->b, "SELECT seen FROM weir.freshen_lanes('0', 1000)"));
    enqueue(scene);
    (void)snprintf(sql, sizeof sql, "SELECT weir.freshen_lanes('0', 1000)");
    assert_true(entries_read(scene, "lane_wakeups_pkey", sql) >= ROUNDS); /* they are all there still */
    (void)snprintf(sql, sizeof sql, "SELECT weir.freshen_lanes('%s', 1000)", seen);
    assert_in_range(entries_read(scene, "lane_wakeups_pkey", sql), 1, 10);
    (void)snprintf(sql, sizeof sql, "SELECT weir.look(%lld, 'default', '%s', 0)", (long long)scene->node, seen);
    assert_in_range(entries_read(scene, "lane_wakeups_pkey", sql), 1, 10);
    assert_int_equal(claim_and_end(scene), 1);
}

/* A look that began before it ended has to come back to it; until then there is nothing to be seen. */
static void wake_ups_of_a_transaction_that_runs_are_not_looked_at(void **state)
{
    struct scene *scene = *state;
    char looks[4][SQL_SIZE];
    enqueue(scene);
    (void)run(scene->a, "BEGIN; INSERT INTO weir.lane_wakeups (lane_id) SELECT 1 FROM generate_series(1, 300)");
    assert_int_equal(claim_and_end(scene), 1); /* so that others began after it */
    const char *seen = arena_copy_string(&scene->arena, run(scene->b, "SELECT pg_current_snapshot()"));
    (void)snprintf(looks[0], sizeof looks[0], "SELECT weir.look(%lld, 'default', '%s', 0)", (long long)scene->node, seen);
    (void)snprintf(looks[1], sizeof looks[1], "SELECT weir.freshen_lanes('%s', 1000)", seen);
    (void)snprintf(looks[2], sizeof looks[2], "SELECT weir.fold_wakeups('%s', 1000)", seen);
    (void)snprintf(looks[3], sizeof looks[3], "SELECT weir.claim_fresh(%lld, 'default', '%s', 0, 1000)",
                   (long long)scene->node, seen);
    for (int i = 0; i < 4; i++) {
        assert_in_range(entries_read(scene, "lane_wakeups_pkey", looks[i]), 0, 10);
    }
    (void)run(scene->a, "COMMIT");
    assert_true(entries_read(scene, "lane_wakeups_pkey", looks[2]) >= 300);
    (void)run(scene->b, "DELETE FROM weir.lane_wakeups");
}

/* As many as stand in one round, none at the place of another: what was opened later stands behind what was served. */
static void lanes_that_had_their_turn_are_not_looked_at(void **state)
{
    struct scene *scene = *state;
    char sql[SQL_SIZE];
    char name[32];
    (void)run(scene->a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < ROUNDS; i++) {
            (void)snprintf(name, sizeof name, "w%02d", i);
            if (round == 0) {
                add_workspace(scene, name, 1);
            }
            (void)enqueue_for(scene, name, NULL);
            if (i % 2 == 1) {
                assert_int_equal(claim_and_end(scene), 2);
            }
        }
    }
    const char *pass = arena_copy_string(&scene->arena, run(scene->b, "SELECT pass FROM weir.executor_groups"));
    enqueue(scene);
    (void)enqueue_for(scene, "w00", NULL);
    (void)run(scene->b, "SELECT weir.freshen_lanes('0', 1000)");
    (void)snprintf(sql, sizeof sql, "SELECT weir.claim(%lld, 'default', 10, '0', -1)", (long long)scene->node);
    assert_true(entries_read(scene, "lanes_ready", sql) > ROUNDS); /* they are all there still */
    (void)snprintf(sql, sizeof sql, "SELECT weir.claim(%lld, 'default', 10, '0', %s)", (long long)scene->node, pass);
    assert_in_range(entries_read(scene, "lanes_ready", sql), 1, 10);
    assert_int_equal(claim_and_end(scene), 2);
}

static void versions_of_a_lane_that_died_are_not_looked_at(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    run_rounds(scene);
    enqueue(scene);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.lanes"), "0"); /* as it was when this one began */
    assert_in_range(entries_read(scene, "lanes_newest", "SELECT weir.freshen_lanes('0', 1000)"), 1, 20);
    assert_int_equal(claim_and_end(scene), 1);
}

static void what_an_old_transaction_enqueued_is_found_when_it_commits(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN; SELECT weir.enqueue(workspace => 'acme', workflow => 'hello')");
    (void)run(scene->b, "BEGIN; SELECT weir.enqueue(workspace => 'acme', workflow => 'hello')");
    run_rounds(scene);
    (void)run(scene->b, "COMMIT");
    assert_int_equal(claim_and_end(scene), 1);
    run_rounds(scene);
    (void)run(scene->a, "COMMIT");
    struct next_work next = {0};
    ok(store_next_work(scene->store, scene->node, "default", &next, &scene->error));
    assert_true(next.ready);
    assert_int_equal(claim_and_end(scene), 1);
}

/* A node remembers 48 of them; of more, the oldest stands for all. */
static void many_open_transactions_are_seen_as_well(void **state)
{
    struct scene *scene = *state;
    static const char remembered[] = "WITH s AS (SELECT '1:100:' || string_agg(n::text, ',' ORDER BY n) AS list FROM "
                                     "generate_series(1, %d) n) SELECT weir.snapshot_text(list::pg_snapshot) = %s FROM s";
    char sql[SQL_SIZE];
    (void)snprintf(sql, sizeof sql, remembered, 48, "list");
    assert_string_equal(run(scene->b, "%s", sql), "t");
    (void)snprintf(sql, sizeof sql, remembered, 49, "'1:1:'");
    assert_string_equal(run(scene->b, "%s", sql), "t");
    for (int i = 0; i < MANY; i++) {
        many[i] = postgres_server_connect(&server);
        (void)run(many[i], "BEGIN; SELECT weir.enqueue(workspace => 'acme', workflow => 'hello')");
    }
    run_rounds(scene);
    for (int i = MANY - 1; i >= 0; i--) {
        (void)run(many[i], "COMMIT");
        assert_int_equal(claim_and_end(scene), 1);
    }
}

/* --- lanes --- */

/* Nothing but make_lanes() keeps a lane from having two rows. */
static void two_that_make_one_lane_make_one_row(void **state)
{
    struct scene *scene = *state;
    const char *make =
        "SELECT weir.make_lanes(ARRAY[weir.lane_id(g.id, w.id)], true) FROM weir.executor_groups g, weir.workspaces w "
        "WHERE w.name = 'acme'";
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "%s", make);
    run_into(scene->b, "%s", make);
    (void)run(scene->a, "COMMIT");
    (void)answer(scene->b);
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.lanes"), "1");
}

/* --- workspaces and groups --- */

/* Every update makes an entry. Those of others, made later, fill the page: then the server packs equal ones, if it is let.
 */
static void make_versions(struct scene *scene)
{
    char sql[SQL_SIZE];
    add_workspace(scene, "beta", 1);
    (void)run(scene->b, "INSERT INTO weir.executor_groups (name) VALUES ('batch')");
    (void)run(scene->b, "CREATE INDEX ON weir.workspaces (granted); CREATE INDEX ON weir.executor_groups (pass)");
    (void)snprintf(sql, sizeof sql,
                   "DO $$ BEGIN FOR i IN 1 .. %d LOOP UPDATE weir.workspaces SET granted = i WHERE (id = 1) = (i <= %d); "
                   "UPDATE weir.executor_groups SET pass = i WHERE (id = 1) = (i <= %d); END LOOP; END $$",
                   2 * VERSIONS, VERSIONS, VERSIONS);
    (void)run(scene->b, "%s", sql);
    (void)run(scene->b, "SET enable_seqscan = off");
    assert_true(entries_read(scene, "workspaces_pkey", "SELECT 1 FROM weir.workspaces WHERE id = 1") > VERSIONS);
    assert_true(entries_read(scene, "executor_groups_pkey", "SELECT 1 FROM weir.executor_groups WHERE id = 1") > VERSIONS);
    (void)run(scene->b, "RESET enable_seqscan");
}

static void versions_of_workspaces_and_groups_that_died_are_not_looked_at(void **state)
{
    struct scene *scene = *state;
    char claim[SQL_SIZE];
    const char *const fold = "SELECT weir.freshen_lanes('0', 1000)";
    const char *const add = "SELECT weir.enqueue(workspace => 'acme', workflow => 'hello')";
    const char *const give_back = "SELECT weir.free_slots(ARRAY[1], ARRAY['PENDING'])";
    (void)snprintf(claim, sizeof claim, "SELECT weir.claim(%lld, 'default', 10, '0', -1)", (long long)scene->node);
    add_workspace(scene, "acme", 2);
    (void)run(scene->a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    make_versions(scene);
    assert_in_range(entries_read(scene, "workspaces_name_key", add), 1, 3);
    assert_in_range(entries_read(scene, "executor_groups_name_key", add), 1, 3);
    enqueue(scene);
    (void)run(scene->b, "SELECT weir.make_lanes(ARRAY[weir.lane_id(1, 1)], false)");
    assert_in_range(entries_read(scene, "workspaces_pkey", fold), 1, 3);
    assert_in_range(entries_read(scene, "executor_groups_pkey", fold), 1, 3);
    assert_int_equal(claim_and_end(scene), 1);
    enqueue(scene);
    enqueue(scene);
    (void)run(scene->b, "%s", fold);
    assert_in_range(entries_read(scene, "workspaces_pkey", claim), 1, 5);
    assert_in_range(entries_read(scene, "executor_groups_pkey", claim), 1, 3); /* the lane's pass moves the group's */
    assert_in_range(entries_read(scene, "executor_groups_name_key", claim), 1, 5);
    (void)run(scene->b, "%s", claim);
    assert_in_range(entries_read(scene, "workspaces_pkey", give_back), 1, 3);
    assert_in_range(entries_read(scene, "executor_groups_pkey", give_back), 1, 5); /* the lane is opened */
    (void)run(scene->b, "UPDATE weir.lanes SET ready = true");
    assert_in_range(entries_read(scene, "workspaces_pkey", claim), 1, 7); /* it is closed again */
    (void)run(scene->b, "%s", claim);
    assert_string_equal(run(scene->b, "SELECT ready FROM weir.lanes"), "f");
}

/* --- a row that moves between look and update --- */

static const char *const slots_sql = "SELECT string_agg(slots_used::text, ' ' ORDER BY id) FROM weir.workspaces";
/* As an act of the last version did, or one on a plan: without the lanes, which the claim has. */
static const char *const lower_cap_sql = "UPDATE weir.workspaces SET max_concurrent = 2, slots_max = 2 WHERE name = 'acme'";

/* A claim that has looked at workspaces and waits for its fence, which the holder keeps from it. */
static void stop_a_claim(struct scene *scene)
{
    char sql[SQL_SIZE];
    (void)run(scene->b, "SELECT weir.freshen_lanes('0', 1000)");
    (void)run(scene->a, "BEGIN; ALTER SEQUENCE weir.fences INCREMENT 1");
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(id) || ' ' || bool_or(more AND id IS NULL) FROM weir.claim(%lld, 'default', 10, '0', -1)",
                   (long long)scene->node);
    run_into(scene->b, "%s", sql);
}

static void a_workspace_that_was_changed_after_the_look_is_found_again(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 3; i++) {
        enqueue(scene);
    }
    stop_a_claim(scene);
    (void)postgres_server_ask(&server, "postgres", lower_cap_sql);
    (void)run(scene->a, "ROLLBACK");
    assert_string_equal(answer(scene->b), "2 false");
    assert_string_equal(run(scene->b, "%s", slots_sql), "2 0");
}

/* It has the slots of another one by then, so it must not wait. */
static void a_workspace_that_somebody_holds_by_then_is_left_to_the_next_claim(void **state)
{
    struct scene *scene = *state;
    add_workspace(scene, "beta", 5);
    for (int i = 0; i < 3; i++) {
        enqueue(scene);
    }
    (void)enqueue_for(scene, "beta", NULL);
    many[0] = postgres_server_connect(&server);
    stop_a_claim(scene);
    (void)run(many[0], "%s", lower_cap_sql);
    (void)run(many[0], "BEGIN; UPDATE weir.workspaces SET granted = 0 WHERE name = 'acme'");
    (void)run(scene->a, "ROLLBACK");
    assert_string_equal(answer(scene->b), "1 true");
    (void)run(many[0], "COMMIT");
    assert_string_equal(run(scene->b, "%s", slots_sql), "0 1");
    assert_int_equal(claim_and_end(scene), 2);
}

static void a_slot_is_given_back_when_the_claim_that_it_waited_for_is_there(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    (void)enqueue_for(scene, "acme", NULL);
    (void)run(scene->b, "SELECT weir.freshen_lanes('0', 1000)");
    struct claim_result first = claim(scene, 1);
    assert_int_equal(first.count, 1);
    let_records_wait(scene);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, CLAIM_SQL, (long long)scene->node, "default"), "1");
    run_into(scene->b, COMPLETE_SQL, (long long)scene->node, first.items[0].id, (long long)first.items[0].fence);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "done");
    assert_string_equal(run(scene->b, "%s", slots_sql), "1 0");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(wake_ups_that_died_are_not_looked_at_again),
        TEST(wake_ups_of_a_transaction_that_runs_are_not_looked_at),
        TEST(lanes_that_had_their_turn_are_not_looked_at),
        TEST(versions_of_a_lane_that_died_are_not_looked_at),
        TEST(what_an_old_transaction_enqueued_is_found_when_it_commits),
        TEST(many_open_transactions_are_seen_as_well),
        TEST(two_that_make_one_lane_make_one_row),
        TEST(versions_of_workspaces_and_groups_that_died_are_not_looked_at),
        TEST(a_workspace_that_was_changed_after_the_look_is_found_again),
        TEST(a_workspace_that_somebody_holds_by_then_is_left_to_the_next_claim),
        TEST(a_slot_is_given_back_when_the_claim_that_it_waited_for_is_there),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
