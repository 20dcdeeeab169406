/* The rename of a workspace in a caller's own transaction, beside other acts on it. Each order is forced: the transaction
 * is held open by hand. */
#include "unit/store/postgres/scene.h"

/* The SQLSTATE of the one that waited, "" when it succeeds; static buffer. */
static const char *late_refusal(PGconn *connection)
{
    static char sqlstate[6];
    PGresult *result = PQgetResult(connection);
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    (void)snprintf(sqlstate, sizeof sqlstate, "%s", code == NULL ? "" : code);
    PQclear(result);
    assert_null(PQgetResult(connection));
    return sqlstate;
}

static void assert_named(struct scene *scene, const char *name, int count)
{
    assert_int_equal(number(run(scene->a, "SELECT count(*) FROM weir.workspaces WHERE name = '%s'", name)), count);
}

static void an_open_rename_holds_up_no_execution(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.rename_workspace('acme', 'acme-eu', 'moved')");
    struct claimed_item before = claim_one(scene, enqueue_for(scene, "acme", NULL));
    assert_string_equal(before.workspace, "acme");
    assert_int_equal(record(scene, RECORD_COMPLETED, &before), WEIR_OK);
    (void)claim_one(scene, enqueue_for(scene, "beta", NULL));
    (void)run(scene->a, "COMMIT");
    assert_string_equal(refusal(scene->a, "SELECT weir.enqueue('acme', 'hello')"), "WR008");
    assert_string_equal(claim_one(scene, enqueue_for(scene, "acme-eu", NULL)).workspace, "acme-eu");
}

static void a_rename_that_is_undone_changes_nothing(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.rename_workspace('acme', 'acme-eu')");
    (void)run(scene->a, "ROLLBACK");
    assert_named(scene, "acme", 1);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.audit WHERE act = 'workspace rename'"), "0");
    assert_string_equal(claim_one(scene, enqueue_for(scene, "acme", NULL)).workspace, "acme");
}

static void of_two_renames_to_one_name_the_later_one_is_refused(void **state)
{
    struct scene *scene = *state;
    for (int is_undone = 0; is_undone < 2; is_undone++) {
        (void)run(scene->a, "BEGIN");
        (void)run(scene->a, "SELECT weir.rename_workspace('acme', 'one')");
        run_into(scene->b, "SELECT weir.rename_workspace('beta', 'one')");
        (void)run(scene->a, is_undone == 1 ? "ROLLBACK" : "COMMIT");
        assert_string_equal(late_refusal(scene->b), is_undone == 1 ? "" : "WR013");
        assert_named(scene, "one", 1);
        assert_named(scene, "beta", 1 - is_undone);
        (void)run(scene->a, "SELECT weir.rename_workspace('one', '%s')", is_undone == 1 ? "beta" : "acme");
    }
}

static void of_two_renames_of_one_workspace_the_later_one_is_refused(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.rename_workspace('acme', 'one')");
    run_into(scene->b, "SELECT weir.rename_workspace('acme', 'two')");
    (void)run(scene->a, "COMMIT");
    assert_string_equal(late_refusal(scene->b), "WR008");
    assert_named(scene, "one", 1);
    assert_named(scene, "two", 0);
}

/* They wait for the row, and then find that it has another name. */
static void acts_that_waited_for_a_rename_find_no_workspace(void **state)
{
    static const char *const acts[] = {"SELECT weir.pause_workspace('acme')", "SELECT weir.delete_workspace('acme', true)"};
    struct scene *scene = *state;
    for (size_t i = 0; i < 2; i++) {
        (void)run(scene->a, "BEGIN");
        (void)run(scene->a, "SELECT weir.rename_workspace('acme', 'acme-eu')");
        run_into(scene->b, "%s", acts[i]);
        (void)run(scene->a, "COMMIT");
        assert_string_equal(late_refusal(scene->b), "WR008");
        assert_string_equal(run(scene->a, "SELECT paused FROM weir.workspaces WHERE name = 'acme-eu'"), "f");
        (void)run(scene->a, "SELECT weir.rename_workspace('acme-eu', 'acme')");
    }
}

/* It makes a workspace of the old name, as it would have behind the rename. */
static void a_setting_that_waited_for_a_rename_makes_another_workspace(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.rename_workspace('acme', 'acme-eu')");
    run_into(scene->b, "SELECT (weir.change_workspace('acme', NULL, 7, NULL, true)).status");
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "ok");
    assert_string_equal(run(scene->a, "SELECT slots_max FROM weir.workspaces WHERE name = 'acme-eu'"), "1");
    assert_string_equal(run(scene->a, "SELECT slots_max FROM weir.workspaces WHERE name = 'acme'"), "7");
}

static void a_rename_that_waited_for_a_deletion_finds_no_workspace(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.delete_workspace('acme')");
    run_into(scene->b, "SELECT weir.rename_workspace('acme', 'acme-eu')");
    (void)run(scene->a, "COMMIT");
    assert_string_equal(late_refusal(scene->b), "WR008");
    assert_named(scene, "acme-eu", 0);
}

/* Rounds are stopped only where a definition makes workflow ids of the name. */
static void rounds_wait_for_a_rename_of_a_name_in_workflow_ids(void **state)
{
    static const char *const locked = "SELECT count(*) FROM pg_locks WHERE relation = 'weir.act_gate'::regclass"
                                      " AND mode = 'ExclusiveLock' AND pid = pg_backend_pid()";
    static const char text[] = "{\"name\":\"remote\",\"temporal\":{\"workflow_id\":"
                               "\"${ .execution.workspace }-${ .execution.id }\"}}";
    struct scene *scene = *state;
    struct published published;
    for (int by_name = 0; by_name < 2; by_name++) {
        (void)run(scene->a, "BEGIN");
        (void)run(scene->a, "SELECT weir.rename_workspace('acme', 'acme-eu')");
        assert_int_equal(number(run(scene->a, "%s", locked)), by_name);
        (void)run(scene->a, "ROLLBACK");
        ok(store_publish(scene->store, "remote", NULL, text, NULL, &published, &scene->error));
    }
}

static void wrong_names_are_refused_in_sql(void **state)
{
    static const char *const wrong[] = {
        "NULL", "''", "'.'", "'..'", "' '", "E'tab\\tx'", "U&'\\00A0\\2003'", "U&'a\\202Eb'", "repeat('n', 129)", "'acme'"};
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_string_equal(refusal(scene->a, "SELECT weir.rename_workspace('acme', %s)", wrong[i]), "WR002");
    }
    assert_string_equal(refusal(scene->a, "SELECT weir.rename_workspace(NULL, 'x')"), "WR002");
    assert_string_equal(refusal(scene->a, "SELECT weir.rename_workspace('acme', 'x', repeat('r', 2049))"), "WR002");
    (void)run(scene->a, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_string_equal(refusal(scene->a, "SELECT weir.rename_workspace('acme', 'x')"), "WR014");
    (void)run(scene->a, "ROLLBACK");
    assert_named(scene, "acme", 1);
    static const char *const right[] = {".a", "...", "-", "a b", "größe", "🙂"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        (void)run(scene->a, "SELECT weir.rename_workspace('%s', '%s')", i == 0 ? "acme" : right[i - 1], right[i]);
        assert_named(scene, right[i], 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_open_rename_holds_up_no_execution),
        SCENE_TEST(a_rename_that_is_undone_changes_nothing),
        SCENE_TEST(of_two_renames_to_one_name_the_later_one_is_refused),
        SCENE_TEST(of_two_renames_of_one_workspace_the_later_one_is_refused),
        SCENE_TEST(acts_that_waited_for_a_rename_find_no_workspace),
        SCENE_TEST(a_setting_that_waited_for_a_rename_makes_another_workspace),
        SCENE_TEST(a_rename_that_waited_for_a_deletion_finds_no_workspace),
        SCENE_TEST(rounds_wait_for_a_rename_of_a_name_in_workflow_ids),
        SCENE_TEST(wrong_names_are_refused_in_sql),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
