/* The months of the archive: made and dropped by roles that own nothing, beside readers and callers with open transactions.
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/postgres/postgres.h"
#include "unit/store/postgres/scene.h"

/* UUIDv7 of 15 January 2024, 15 February 2024, and 31 January 2024 23:59:59.999. */
#define JANUARY "018d0a6a-fc00-7000-8000-000000000001"
#define FEBRUARY "018daa10-2000-7000-8000-000000000001"
#define LAST_OF_JANUARY "018d61f7-17ff-7000-8000-000000000001"
#define LATER "run_at => now() + interval '1 hour'" /* no claim of the test gets it */
#define MONTHS_SQL                                                                                                         \
    "SELECT coalesce(string_agg(c.relname, ' ' ORDER BY c.relname), '') FROM pg_inherits i JOIN pg_class c ON c.oid = "    \
    "i.inhrelid WHERE i.inhparent = 'weir.archived_steps'::regclass"

static const char *ended_as(struct scene *scene, const char *id)
{
    char output[] = "{\"said\":\"hello\"}";
    struct enqueue_request request = {.workspace = "acme",
                                      .workflow = "hello",
                                      .id = id,
                                      .params = "{\"n\":1}",
                                      .params_length = strlen("{\"n\":1}"),
                                      .idempotency_key = id};
    struct enqueue_result result = {0};
    struct step_record step = {.step = "only", .state = STEP_COMPLETED, .attempt = 1, .output = output};
    struct record end;
    struct record_summary summary;
    ok(store_enqueue(scene->store, &request, 1, &result, &scene->error));
    assert_int_equal(result.status, WEIR_OK);
    struct claimed_item item = claim_one(scene, id);
    step.output_length = strlen(output);
    assert_int_equal(record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    end = record_of(RECORD_COMPLETED, &item);
    end.step = &step;
    ok(store_record(scene->store, scene->node, &end, 1, &summary, &scene->error));
    assert_int_equal(end.status, WEIR_OK);
    return id;
}

static struct archive_result archive(struct scene *scene)
{
    struct archive_order order = {.limit = ARCHIVE_BATCH, .is_whole = true};
    struct archive_result result;
    ok(store_time(scene->store, &order.ended_before_us, &scene->error));
    order.ended_before_us += MICROSECONDS_PER_SECOND;
    ok(store_archive(scene->store, &order, &result, &scene->error));
    return result;
}

static void purge(struct scene *scene, const char *id)
{
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    ok(store_bulk(scene->store, BULK_PURGE, &filter, "", 1, &result, &scene->error));
    assert_int_equal(result.changed, 1);
}

static void a_month_has_its_tables_until_its_last_execution_is_purged(void **state)
{
    struct scene *scene = *state;
    (void)ended_as(scene, JANUARY);
    (void)ended_as(scene, LAST_OF_JANUARY);
    (void)ended_as(scene, FEBRUARY);
    struct archive_result result = archive(scene);
    assert_int_equal(result.moved, 3);
    assert_int_equal(result.dropped, 0);
    assert_string_equal(run(scene->a, MONTHS_SQL), "archived_steps_202401 archived_steps_202402");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.archived_steps_202401"), "2");
    purge(scene, JANUARY);
    assert_int_equal(archive(scene).dropped, 0);
    purge(scene, LAST_OF_JANUARY);
    assert_int_equal(archive(scene).dropped, 1);
    assert_string_equal(run(scene->a, MONTHS_SQL), "archived_steps_202402");
    (void)ended_as(scene, JANUARY); /* one that is enqueued late, or whose end is late */
    assert_int_equal(archive(scene).moved, 1);
    assert_string_equal(run(scene->a, MONTHS_SQL), "archived_steps_202401 archived_steps_202402");
    purge(scene, JANUARY);
    purge(scene, FEBRUARY);
    assert_int_equal(archive(scene).dropped, 2);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM pg_class WHERE relname ~ '^archived_.*_2024'"), "0");
}

/* A tenant gives ids of any time. Tables of their own for each month since 1970 would slow down all readers. */
static void ids_of_before_the_first_month_make_no_tables(void **state)
{
    struct scene *scene = *state;
    static const char *const old[] = {"00000000-0001-7000-8000-000000000001", "00dc6acf-ac00-7000-8000-000000000001",
                                      "018cc251-f3ff-7000-8000-000000000001", JANUARY};
    enum { OLD = sizeof old / sizeof old[0] };
    for (size_t i = 0; i < OLD; i++) {
        (void)ended_as(scene, old[i]);
    }
    assert_int_equal(archive(scene).moved, OLD);
    assert_string_equal(run(scene->a, MONTHS_SQL), "archived_steps_202401");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.archived_steps_202401"), "4");
    for (size_t i = 0; i < OLD; i++) {
        assert_string_equal(run(scene->a, "SELECT weir.result('%s')->>'said'", old[i]), "hello");
        assert_int_equal(archive(scene).dropped, 0);
        purge(scene, old[i]);
    }
    assert_int_equal(archive(scene).dropped, 1);
}

/* A dump may read for hours. The removal of a month neither waits for it nor holds up readers behind itself. */
static void a_long_reader_keeps_a_month_and_no_other_caller_waits(void **state)
{
    struct scene *scene = *state;
    (void)ended_as(scene, JANUARY);
    assert_int_equal(archive(scene).moved, 1);
    purge(scene, JANUARY);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT count(*) FROM weir.execution_steps");
    assert_int_equal(archive(scene).dropped, 0);
    (void)run(scene->b, "SET statement_timeout = '60s'");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.execution_steps"), "0");
    (void)run(scene->b, "SELECT weir.enqueue('acme', 'hello', '{}', " LATER ")");
    (void)ended_as(scene, FEBRUARY); /* a new month is made beside the reader, too */
    assert_int_equal(archive(scene).moved, 1);
    (void)run(scene->a, "COMMIT");
    assert_int_equal(archive(scene).dropped, 1);
    assert_string_equal(run(scene->a, MONTHS_SQL), "archived_steps_202402");
}

/* The snapshot of the caller is older than the months that were made and removed since. */
static void a_caller_with_an_old_snapshot_enqueues_beside_new_and_removed_months(void **state)
{
    struct scene *scene = *state;
    (void)ended_as(scene, JANUARY);
    assert_int_equal(archive(scene).moved, 1);
    for (int is_serializable = 0; is_serializable < 2; is_serializable++) {
        (void)run(scene->a, "BEGIN ISOLATION LEVEL %s", is_serializable ? "SERIALIZABLE" : "REPEATABLE READ");
        (void)run(scene->a, "SELECT count(*) FROM weir.plans");
        (void)ended_as(scene, FEBRUARY);
        assert_int_equal(archive(scene).moved, 1);
        (void)run(scene->a, "SELECT weir.enqueue('beta', 'hello', '{}', 'new-%d', " LATER ")", is_serializable);
        assert_string_equal(run(scene->a, "SELECT weir.enqueue('acme', 'hello', '{\"n\":1}', '%s')", JANUARY), JANUARY);
        purge(scene, FEBRUARY);
        (void)archive(scene);
        (void)run(scene->a, "SELECT weir.enqueue('beta', 'hello', '{}', 'newer-%d', " LATER ")", is_serializable);
        assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.execution_steps"), "1");
        (void)run(scene->a, "COMMIT");
    }
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_execution_queue"), "4");
}

/* The other one is a move that has not committed. */
static void a_second_move_leaves_the_rows_to_the_first(void **state)
{
    struct scene *scene = *state;
    (void)ended_as(scene, JANUARY);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a,
                            "SELECT moved FROM weir.archive_items(9223372036854775807, "
                            "'00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 10, 10)"),
                        "1");
    assert_int_equal(archive(scene).moved, 0);
    (void)run(scene->a, "COMMIT");
    assert_int_equal(archive(scene).moved, 0);
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.archived_steps"), "1");
}

/* Of a caller whose transaction is open: the execution stays for the next move. */
static void an_open_retry_keeps_its_execution(void **state)
{
    struct scene *scene = *state;
    (void)ended_as(scene, JANUARY);
    (void)run(scene->a, "UPDATE weir.workflow_executions SET status = 'FAILED'");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.retry('" JANUARY "', 'why')");
    assert_int_equal(archive(scene).moved, 0);
    (void)run(scene->a, "COMMIT");
    assert_int_equal(archive(scene).moved, 1);
    (void)run(scene->a, "UPDATE weir.workflow_executions SET status = 'COMPLETED'");
}

/* A node has no right to make or drop tables. */
static void a_role_that_owns_nothing_moves_and_drops(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "CREATE ROLE mover");
    ok(postgres_store_grant(scene->store, "mover", &scene->error));
    (void)ended_as(scene, JANUARY);
    (void)run(scene->a, "SET ROLE mover");
    assert_string_equal(run(scene->a,
                            "SELECT moved FROM weir.archive_items(9223372036854775807, "
                            "'00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 10, 10)"),
                        "1");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.execution_steps"), "1");
    assert_string_equal(run(scene->a, "SELECT outcome FROM weir.purge_items(ARRAY['" JANUARY "'::uuid])"), "changed");
    assert_string_equal(run(scene->a, "SELECT weir.drop_archive_months('" FEBRUARY "')"), "1");
    assert_string_equal(refusal(scene->a, "CREATE TABLE weir.mine ()"), "42501");
    (void)run(scene->a, "RESET ROLE");
    assert_string_equal(refusal(scene->a, "SET ROLE weir; CREATE ROLE other; SET ROLE other; "
                                          "SELECT weir.make_archive_months('{}')"),
                        "42501");
    (void)run(scene->a, "RESET ROLE");
    ok(postgres_store_grant(scene->store, "mover", &scene->error)); /* also the tables of months */
    (void)run(scene->a, "DROP OWNED BY mover; DROP ROLE mover");
}

/* A role that is limited to a workspace. */
static void a_tenant_reads_its_archived_executions_and_no_others(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "CREATE ROLE tenant");
    (void)run(scene->a, "SELECT weir.grant_workspace('tenant', 'acme')");
    (void)run(scene->a, "CREATE ROLE other");
    (void)run(scene->a, "SELECT weir.grant_workspace('other', 'beta')");
    (void)ended_as(scene, JANUARY);
    assert_int_equal(archive(scene).moved, 1);
    (void)run(scene->a, "SET ROLE tenant");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.own_executions"), "1");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.own_execution_events WHERE event = 'step_end'"), "1");
    assert_string_equal(run(scene->a, "SELECT weir.result('" JANUARY "')->>'said'"), "hello");
    assert_string_equal(run(scene->a, "SELECT weir.enqueue('acme', 'hello', '{\"n\":1}', '" JANUARY "')"), JANUARY);
    assert_string_equal(refusal(scene->a, "SELECT count(*) FROM weir.archived_steps"), "42501");
    (void)run(scene->a, "SET ROLE other");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.own_executions"), "0");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.own_execution_events"), "0");
    (void)run(scene->a, "RESET ROLE");
    (void)run(scene->a, "DROP OWNED BY tenant, other; DROP ROLE tenant; DROP ROLE other");
    (void)run(scene->a, "DELETE FROM weir.workspace_grants");
}

static void the_check_finds_content_on_the_wrong_side(void **state)
{
    struct scene *scene = *state;
    json_t *problems = NULL;
    (void)ended_as(scene, JANUARY);
    assert_int_equal(archive(scene).moved, 1);
    ok(store_check(scene->store, &problems, &scene->error));
    assert_int_equal(json_array_size(problems), 0);
    json_decref(problems);
    (void)run(scene->a, "UPDATE weir.workflow_executions SET archived = false");
    ok(store_check(scene->store, &problems, &scene->error));
    assert_int_equal(json_array_size(problems), 2);
    json_decref(problems);
    (void)run(scene->a, "UPDATE weir.workflow_executions SET archived = true");
    (void)run(scene->a, "INSERT INTO weir.execution_params SELECT * FROM weir.archived_params");
    (void)run(scene->a, "DELETE FROM weir.archived_params");
    ok(store_check(scene->store, &problems, &scene->error));
    assert_int_equal(json_array_size(problems), 2);
    json_decref(problems);
    (void)run(scene->a, "INSERT INTO weir.archived_params SELECT * FROM weir.execution_params");
    (void)run(scene->a, "DELETE FROM weir.execution_params");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_month_has_its_tables_until_its_last_execution_is_purged),
        SCENE_TEST(ids_of_before_the_first_month_make_no_tables),
        SCENE_TEST(a_long_reader_keeps_a_month_and_no_other_caller_waits),
        SCENE_TEST(a_caller_with_an_old_snapshot_enqueues_beside_new_and_removed_months),
        SCENE_TEST(a_second_move_leaves_the_rows_to_the_first),
        SCENE_TEST(an_open_retry_keeps_its_execution),
        SCENE_TEST(a_role_that_owns_nothing_moves_and_drops),
        SCENE_TEST(a_tenant_reads_its_archived_executions_and_no_others),
        SCENE_TEST(the_check_finds_content_on_the_wrong_side),
    };
    return cmocka_run_group_tests_name("archive", tests, scene_open_server, scene_close_server);
}
