/* Rows that another program has altered, constraints and all: each verb that reads them answers, and none ends the process.
 */
#include <stdio.h>
#include <string.h>

#include "unit/store/postgres/scene.h"

/* As the owner of the schema may do. */
static void drop_checks(struct scene *scene)
{
    (void)run(scene->a, "DO $$ DECLARE c record; BEGIN FOR c IN SELECT conname, conrelid::regclass AS t FROM pg_constraint"
                        " WHERE contype = 'c' AND connamespace = 'weir'::regnamespace"
                        " LOOP EXECUTE format('ALTER TABLE %%s DROP CONSTRAINT %%I', c.t, c.conname); END LOOP; END $$");
}

static void expect_answer(struct scene *scene, const char *change, const char *verb, enum weir_status status)
{
    if (status != WEIR_OK && scene->error.message[0] == '\0') {
        fail_msg("%s, %s: %s without a message", change, verb, weir_status_name(status));
    }
}

static size_t read_all(struct scene *scene, const char *change, const struct claimed_item *item)
{
    json_t *answer = NULL;
    struct execution_filter filter = {.id = item->id};
    struct bulk_result result = {0};
    struct list_options options = {.kind = LIST_EXECUTIONS, .limit = 10};
    struct claim_request request = {.node_id = scene->node, .group = "default", .limit = 10};
    struct claim_result claimed = {0};
    ok(store_check(scene->store, &answer, &scene->error));
    size_t problems = json_array_size(answer);
    json_decref(answer);
    answer = NULL;
    expect_answer(scene, change, "list", store_list(scene->store, &options, &answer, &scene->error));
    json_decref(answer);
    answer = NULL;
    expect_answer(scene, change, "show", store_show(scene->store, item->id, &answer, &scene->error));
    json_decref(answer);
    answer = NULL;
    expect_answer(scene, change, "why", store_why(scene->store, item->id, &answer, &scene->error));
    json_decref(answer);
    answer = NULL;
    expect_answer(scene, change, "status", store_status(scene->store, 10, &answer, &scene->error));
    json_decref(answer);
    (void)!record(scene, RECORD_DISPATCHED, item);
    expect_answer(scene, change, "bulk", store_bulk(scene->store, BULK_CANCEL, &filter, "", 1, &result, &scene->error));
    expect_answer(scene, change, "claim",
                  claim_through_scheduler(scene->store, &request, &scene->arena, &claimed, &scene->error));
    return problems;
}

static void an_altered_item_ends_no_process(void **state)
{
    static const char *const changes[] = {"status = 'SLEEPING'", "lane_id = 0", "lane_id = -1", "definition_id = 0",
                                          "status = 'PENDING'"};
    struct scene *scene = *state;
    struct claimed_item item = claim_one(scene, enqueue_for(scene, "acme", NULL));
    drop_checks(scene);
    (void)run(scene->a, "CREATE TABLE kept AS SELECT * FROM weir.workflow_execution_queue");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        (void)run(scene->a, "UPDATE weir.workflow_execution_queue SET %s", changes[i]);
        size_t problems = read_all(scene, changes[i], &item);
        if (problems == 0 && strstr(changes[i], "definition") == NULL) { /* which may be deleted under its executions */
            fail_msg("%s: the check of the store finds nothing", changes[i]);
        }
        (void)run(scene->a, "DELETE FROM weir.workflow_execution_queue");
        (void)run(scene->a, "DELETE FROM weir.workflow_executions");
        (void)run(scene->a, "INSERT INTO weir.workflow_execution_queue SELECT * FROM kept");
    }
}

/* The scheduler uses news without reading the rows. */
static void altered_news_ends_no_process(void **state)
{
    static const char *const changes[] = {"lanes = '{}'",
                                          "lanes = NULL",
                                          "lanes = '{NULL,NULL,7}'",
                                          "runnable = '{1,2,3}'",
                                          "runnable = '{NULL}'",
                                          "least_rank = '{}'",
                                          "runnable = '{}', least_rank = '{}'",
                                          "kind = 99",
                                          "workspaces = '{NULL,0,-1}'",
                                          "lanes = '{-1}'",
                                          "runnable = '{2147483647}'"};
    struct scene *scene = *state;
    drop_checks(scene);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct claimer *claimer = NULL;
        struct claim_result claimed = {0};
        ok(claimer_open(scene->store, scene->node, &claimer, &scene->error));
        (void)!claimer_claim(claimer, 10, &scene->arena, &claimed, &scene->error);
        (void)enqueue_for(scene, "acme", NULL);
        (void)run(scene->a, "UPDATE weir.news SET %s", changes[i]);
        expect_answer(scene, changes[i], "claim", claimer_claim(claimer, 10, &scene->arena, &claimed, &scene->error));
        expect_answer(scene, changes[i], "publish", claimer_publish(claimer, &scene->error));
        claimer_close(claimer);
    }
}

/* The rows do not become right again, so the store is not checked at the end. */
static int close_altered(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "DELETE FROM weir.workflow_execution_queue");
    (void)run(scene->a, "DELETE FROM weir.workflow_executions");
    (void)run(scene->a, "DELETE FROM weir.execution_params");
    (void)run(scene->a, "DELETE FROM weir.claims");
    (void)run(scene->a, "DELETE FROM weir.news");
    (void)run(scene->a, "DELETE FROM weir.books");
    (void)run(scene->a, "DROP TABLE IF EXISTS kept");
    return scene_close(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_altered_item_ends_no_process, scene_open, close_altered),
        cmocka_unit_test_setup_teardown(altered_news_ends_no_process, scene_open, close_altered),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
