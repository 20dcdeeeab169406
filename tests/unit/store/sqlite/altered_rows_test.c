/* Rows of a SQLite store that another program has altered: they are errors of a call, and never the end of a node. */
#include <sqlite3.h>

#include "conformance/scene.h"

static void an_altered_row_is_named(void **state)
{
    static const struct {
        const char *change;
        enum record_kind kind;
    } cases[] = {{"status = 'SLEEPING'", RECORD_DISPATCHED},
                 {"lane_id = 0", RECORD_PUT_BACK},
                 {"lane_id = 0", RECORD_COMPLETED},
                 {"lane_id = -7", RECORD_REFUSED}};
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    int64_t lane_id = lane_id_of(1, scene_number(scene, "SELECT id FROM workspaces WHERE name = 'pro-co'"));
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(scene->driver.url + strlen("sqlite:"), &other), SQLITE_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct record record = {.kind = cases[i].kind, .fence = item.fence, .dispatched_first = true};
        struct record_summary summary = {0};
        char sql[200];
        memcpy(record.id, item.id, sizeof record.id);
        (void)snprintf(sql, sizeof sql, "PRAGMA ignore_check_constraints = 1; UPDATE workflow_execution_queue SET %s",
                       cases[i].change);
        assert_int_equal(sqlite3_exec(other, sql, NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(store_record(scene->store, scene->node, &record, 1, &summary, &scene->error), WEIR_STORE_CORRUPT);
        assert_non_null(strstr(scene->error.message, id));
        if (i == 0) {
            assert_int_equal(store_bulk(scene->store, BULK_CANCEL, &filter, "", 1, &result, &scene->error),
                             WEIR_STORE_CORRUPT);
            assert_non_null(strstr(scene->error.message, id));
        }
        (void)snprintf(sql, sizeof sql, "UPDATE workflow_execution_queue SET status = 'CLAIMED', lane_id = %lld",
                       (long long)lane_id);
        assert_int_equal(sqlite3_exec(other, sql, NULL, NULL, NULL), SQLITE_OK);
    }
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
}

static void a_due_item_with_an_altered_lane_ends_no_node(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {
        .workspace = "pro-co", .workflow = "hello", .run_at_us = scene_now(scene) + SECONDS(5)};
    struct schedule_call call = {.node_id = scene->node, .load = true};
    struct schedule_answer answer;
    sqlite3 *other = NULL;
    scene_ok(scene, take_role(scene->store, scene->node, &call.epoch, &scene->error));
    scene_ok(scene, store_schedule(scene->store, &call, &scene->arena, &answer, &scene->error));
    (void)scene_enqueue_request(scene, &request);
    assert_int_equal(sqlite3_open(scene->driver.url + strlen("sqlite:"), &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "UPDATE workflow_execution_queue SET lane_id = 0", NULL, NULL, NULL), SQLITE_OK);
    scene_pass(scene, SECONDS(6));
    call.load = false;
    call.needs = NEED_DUE;
    assert_int_equal(store_schedule(scene->store, &call, &scene->arena, &answer, &scene->error), WEIR_STORE_CORRUPT);
    (void)sqlite3_exec(other, "DELETE FROM workflow_execution_queue; DELETE FROM news", NULL, NULL, NULL);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_altered_row_is_named),
        SCENE_TEST(a_due_item_with_an_altered_lane_ends_no_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
