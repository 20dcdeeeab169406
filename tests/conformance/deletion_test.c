/* store_delete_workspace, store_set_workflow_state: refused while executions live, or complete. */
#include "conformance/scene.h"
#include "observe/event.h"
#include "store/driver.h"

static enum weir_status delete_workspace(struct scene *scene, const char *name, bool fails_waiting, bool erases,
                                         struct deletion_result *ret_result)
{
    struct workspace_deletion deletion = {.name = name, .fails_waiting = fails_waiting, .erases = erases};
    scene_ok(scene, store_act_as(scene->store, "ann", "left us", &scene->error));
    *ret_result = (struct deletion_result){.failed = 0};
    return store_delete_workspace(scene->store, &deletion, ret_result, &scene->error);
}

static int64_t workspaces_named(struct scene *scene, const char *name)
{
    return scene_number(scene, "SELECT count(*) FROM workspaces WHERE name = '%s'", name);
}

static enum weir_status try_workflow(struct scene *scene, const char *workspace, const char *workflow)
{
    struct enqueue_result result =
        scene_try(scene, &(struct enqueue_request){.workspace = workspace, .workflow = workflow});
    scene->error = result.error;
    return result.status;
}

/* An execution with a step, params and a key that has ended. */
static const char *ended(struct scene *scene, const char *workspace, enum record_kind end)
{
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = workspace,
                                                                            .workflow = "hello",
                                                                            .params = "{\"name\":\"Ann\"}",
                                                                            .params_length = 14,
                                                                            .idempotency_key = "order-1"});
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_STEP, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, end, &item), WEIR_OK);
    return id;
}

/* --- workspaces --- */

static void a_workspace_without_executions_is_deleted(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    (void)ended(scene, "pro-co", RECORD_COMPLETED);
    scene_ok(scene, delete_workspace(scene, "pro-co", false, false, &result));
    assert_int_equal(result.failed, 0);
    assert_int_equal(workspaces_named(scene, "pro-co"), 0);
    assert_int_equal(try_workflow(scene, "pro-co", "hello"), WEIR_WORKSPACE_NOT_FOUND);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'workspace delete' AND actor = 'ann'"
                                         " AND subject = 'pro-co' AND reason = 'left us' AND after IS NULL"),
                     1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM deleted_workspaces WHERE name = 'pro-co'"
                                         " AND deleted_at > 0 AND erased_at IS NULL"),
                     1);
    assert_int_equal(delete_workspace(scene, "pro-co", false, false, &result), WEIR_WORKSPACE_NOT_FOUND);
    scene_enqueue_many(scene, "big-co", 2);
    assert_int_equal(scene_claim(scene, 10).count, 2);
}

static void an_unknown_workspace_is_not_deleted(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    assert_int_equal(delete_workspace(scene, "pro-c", true, true, &result), WEIR_WORKSPACE_NOT_FOUND);
    assert_non_null(strstr(scene->error.hint, "pro-co"));
    assert_int_equal(delete_workspace(scene, "", true, true, &result), WEIR_INVALID_ARGUMENT);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workspaces"), 3);
}

static void a_workspace_with_waiting_executions_is_not_deleted_by_mistake(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    scene_enqueue_many(scene, "pro-co", 2);
    (void)scene_enqueue_request(
        scene,
        &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .run_at_us = scene_now(scene) + SECONDS(60)});
    assert_int_equal(delete_workspace(scene, "pro-co", false, true, &result), WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(scene->error.message, "3 waiting and 0 running"));
    assert_non_null(strstr(scene->error.hint, "--fail-waiting"));
    assert_int_equal(scene_claim(scene, 10).count, 2);
}

static void waiting_executions_end_failed_with_their_workspace(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    const char *runnable = scene_enqueue(scene, "pro-co");
    const char *scheduled = scene_enqueue_request(
        scene,
        &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .run_at_us = scene_now(scene) + SECONDS(60)});
    const char *other = scene_enqueue(scene, "big-co");
    scene_ok(scene, delete_workspace(scene, "pro-co", true, false, &result));
    assert_int_equal(result.failed, 2);
    assert_int_equal(workspaces_named(scene, "pro-co"), 0);
    const char *const ids[] = {runnable, scheduled};
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(scene_status_of(scene, ids[i]), "FAILED");
        assert_string_equal(scene_text(scene, "SELECT error_code FROM executions WHERE id = '%s'", ids[i]),
                            "workspace_deleted");
        assert_string_equal(scene_text(scene, "SELECT error FROM executions WHERE id = '%s'", ids[i]),
                            "its workspace was deleted by ann: left us");
    }
    scene_pass(scene, SECONDS(61));
    scene_beat(scene, scene->node);
    assert_string_equal(scene_claim_one(scene).id, other);
}

static void a_running_execution_keeps_its_workspace(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    scene_enqueue_many(scene, "pro-co", 7);
    struct claim_result claim = scene_claim(scene, 10);
    assert_int_equal(claim.count, 5);
    assert_int_equal(delete_workspace(scene, "pro-co", true, true, &result), WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(scene->error.message, "2 waiting and 5 running"));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'PENDING'"), 2);
    scene_complete(scene, &claim);
    scene_ok(scene, delete_workspace(scene, "pro-co", true, false, &result));
    assert_int_equal(result.failed, 2);
}

static void more_waiting_executions_than_a_batch_are_ended_all(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    scene_enqueue_many(scene, "pro-co", 2 * DELETION_BATCH + 1);
    scene_ok(scene, delete_workspace(scene, "pro-co", true, false, &result));
    assert_int_equal(result.failed, 2 * DELETION_BATCH + 1);
    assert_int_equal(workspaces_named(scene, "pro-co"), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE error_code = 'workspace_deleted'"),
                     2 * DELETION_BATCH + 1);
}

/* All that are runnable, a few at a time because a workspace has slots. */
static void park_all(struct scene *scene, int64_t delay_us)
{
    struct claim_result claimed = scene_claim(scene, CLAIM_BATCH_MOST);
    while (claimed.count > 0) {
        for (size_t i = 0; i < claimed.count; i++) {
            struct record parked = scene_record_of(RECORD_PARKED, &claimed.items[i]);
            parked.dispatched_first = true;
            parked.delay_us = delay_us;
            parked.waiting_for = WAIT_SLEEP;
            assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
        }
        claimed = scene_claim(scene, CLAIM_BATCH_MOST);
    }
}

static void parked_executions_end_failed_with_their_workspace(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    const char *other = scene_enqueue(scene, "free-co");
    park_all(scene, SECONDS(1000));
    scene_enqueue_many(scene, "pro-co", DELETION_BATCH + 20);
    park_all(scene, SECONDS(2000));
    (void)scene_enqueue(scene, "pro-co");
    park_all(scene, TIME_NEVER);
    const char *pending = scene_enqueue(scene, "pro-co");
    assert_int_equal(delete_workspace(scene, "pro-co", false, false, &result), WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(scene->error.message, "522"));
    scene_ok(scene, delete_workspace(scene, "pro-co", true, false, &result));
    assert_int_equal(result.failed, DELETION_BATCH + 22);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_executions WHERE error_code = 'workspace_deleted'"),
                     DELETION_BATCH + 22);
    assert_string_equal(scene_status_of(scene, pending), "FAILED");
    assert_string_equal(scene_status_of(scene, other), "WAITING");
    scene_check(scene);
}

/* Between two transactions of a deletion nothing starts. */
static void a_deletion_that_is_interrupted_is_repeated(void **state)
{
    struct scene *scene = *state;
    struct deletion_step step = {.more = false};
    struct deletion_result result;
    struct workspace_deletion deletion = {.name = "pro-co", .fails_waiting = true};
    scene_enqueue_many(scene, "pro-co", DELETION_BATCH + 3);
    scene_ok(scene, scene->store->driver->delete_workspace(scene->store, &deletion, &step, &scene->error));
    assert_true(step.more);
    assert_int_equal(step.failed, DELETION_BATCH);
    assert_int_equal(scene_claim(scene, 10).count, 0);
    scene_ok(scene, delete_workspace(scene, "pro-co", true, false, &result));
    assert_int_equal(result.failed, 3);
}

static int64_t rows_of(struct scene *scene, const char *table, const char *column, const char *id)
{
    return scene_number(scene, "SELECT count(*) FROM %s WHERE %s = '%s'", table, column, id);
}

static void the_history_stays_without_the_name(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    const char *id = ended(scene, "pro-co", RECORD_FAILED);
    scene_ok(scene, delete_workspace(scene, "pro-co", false, false, &result));
    scene_workspace(scene, "pro-co", "pro");
    assert_string_equal(scene_status_of(scene, id), "FAILED");
    assert_null(scene_text(scene, "SELECT workspace FROM executions WHERE id = '%s'", id));
    assert_int_equal(rows_of(scene, "execution_params", "id", id), 1);
    json_t *execution = NULL;
    scene_ok(scene, store_show(scene->store, id, &execution, &scene->error));
    assert_true(json_is_null(json_object_get(execution, "workspace")));
    json_decref(execution);
    /* The new one has the name, and nothing of the old one. */
    const char *again = scene_enqueue_request(
        scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .idempotency_key = "order-1"});
    assert_string_not_equal(again, id);
    assert_string_equal(scene_claim_one(scene).workspace, "pro-co");
}

static void an_execution_of_a_deleted_workspace_is_not_retried(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    struct bulk_result bulk = {0};
    const char *id = ended(scene, "pro-co", RECORD_FAILED);
    scene_ok(scene, delete_workspace(scene, "pro-co", false, false, &result));
    scene_workspace(scene, "pro-co", "pro");
    struct execution_filter filter = {.id = id};
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &filter, "", 1, &bulk, &scene->error));
    assert_int_equal(bulk.changed, 0);
    assert_int_equal(bulk.first_refusal, WEIR_WORKSPACE_NOT_FOUND);
    assert_non_null(strstr(bulk.refusal.message, "its workspace is deleted"));
}

static void an_erasure_leaves_nothing_of_the_workspace(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    const char *other = ended(scene, "big-co", RECORD_COMPLETED);
    const char *id = ended(scene, "pro-co", RECORD_COMPLETED);
    (void)scene_publish(scene, "own", "pro-co");
    const char *waiting = scene_enqueue_request(
        scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "own", .idempotency_key = "order-2"});
    scene_ok(scene, delete_workspace(scene, "pro-co", true, true, &result));
    assert_int_equal(result.failed, 1);
    assert_int_equal(result.erased, 2);
    const char *const ids[] = {id, waiting};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(rows_of(scene, "workflow_executions", "id", ids[i]), 0);
        assert_int_equal(rows_of(scene, "execution_params", "id", ids[i]), 0);
        assert_int_equal(rows_of(scene, "idempotency_keys", "execution_id", ids[i]), 0);
        assert_int_equal(rows_of(scene, "workflow_node_executions", "execution_id", ids[i]), 0);
        assert_int_equal(rows_of(scene, "workflow_execution_events", "execution_id", ids[i]), 0);
    }
    assert_int_equal(rows_of(scene, "workflow_definitions", "name", "own"), 0);
    assert_int_equal(rows_of(scene, "idempotency_keys", "execution_id", other), 1);
    assert_string_equal(scene_status_of(scene, other), "COMPLETED");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM deleted_workspaces WHERE erased_at IS NOT NULL"), 1);
}

/* No row of the history leads to the end of this erasure. */
static void an_erasure_of_an_empty_history_ends_and_keeps_its_time(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    (void)scene_publish(scene, "own", "pro-co");
    scene_ok(scene, delete_workspace(scene, "pro-co", false, true, &result));
    assert_int_equal(rows_of(scene, "workflow_definitions", "name", "own"), 0);
    int64_t erased_us = scene_number(scene, "SELECT coalesce(max(erased_at), 0) FROM deleted_workspaces");
    assert_true(erased_us > 0);
    scene_pass(scene, SECONDS(10));
    scene_ok(scene, delete_workspace(scene, "pro-co", false, true, &result));
    assert_int_equal(scene_number(scene, "SELECT max(erased_at) FROM deleted_workspaces"), erased_us);
}

static void a_history_is_erased_later_but_never_that_of_a_namesake(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    const char *old = ended(scene, "pro-co", RECORD_COMPLETED);
    scene_ok(scene, delete_workspace(scene, "pro-co", false, false, &result));
    scene_ok(scene, delete_workspace(scene, "pro-co", false, true, &result));
    assert_int_equal(result.erased, 1);
    assert_int_equal(rows_of(scene, "workflow_executions", "id", old), 0);
    scene_workspace(scene, "pro-co", "pro");
    const char *new = ended(scene, "pro-co", RECORD_COMPLETED);
    struct erasure_step step = {.more = true};
    while (step.more) {
        scene_ok(scene, scene->store->driver->erase_workspace(scene->store, "pro-co", &step, &scene->error));
    }
    assert_string_equal(scene_status_of(scene, new), "COMPLETED");
}

static void an_id_of_a_workspace_is_never_given_out_again(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    scene_workspace(scene, "last-co", "free");
    int64_t id = scene_number(scene, "SELECT id FROM workspaces WHERE name = 'last-co'");
    scene_ok(scene, delete_workspace(scene, "last-co", false, false, &result));
    scene_workspace(scene, "last-co", "free");
    assert_true(scene_number(scene, "SELECT id FROM workspaces WHERE name = 'last-co'") > id);
}

static void note_deletion(void *context, const struct event *event)
{
    if (event->type == EVENT_WORKSPACE_DELETED) {
        *(int64_t *)context = event->count;
        assert_string_equal(event->workspace, "pro-co");
        assert_string_equal(event->reason, "left us");
    }
}

static void a_deletion_is_an_event(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    int64_t count = -1;
    struct event_bus events = {.count = 0};
    struct event_bus *before = scene->store->events;
    (void)event_subscribe(&events, note_deletion, &count);
    (void)scene_enqueue(scene, "pro-co");
    scene->store->events = &events;
    enum weir_status refused = delete_workspace(scene, "pro-co", false, false, &result);
    int64_t after_refusal = count;
    enum weir_status status = delete_workspace(scene, "pro-co", true, false, &result);
    scene->store->events = before;
    assert_int_equal(refused, WEIR_ILLEGAL_STATE);
    assert_int_equal(after_refusal, -1);
    scene_ok(scene, status);
    assert_int_equal(count, 1);
}

/* --- workflows --- */

static enum weir_status set_state(struct scene *scene, const char *name, const char *workspace, enum workflow_state state)
{
    return store_set_workflow_state(scene->store, name, workspace, state, &scene->error);
}

static void a_disabled_workflow_takes_no_new_executions(void **state)
{
    struct scene *scene = *state;
    struct published published = {0};
    const char *waiting = scene_enqueue(scene, "pro-co");
    scene_ok(scene, set_state(scene, "hello", NULL, WORKFLOW_DISABLED));
    assert_int_equal(try_workflow(scene, "pro-co", "hello"), WEIR_WORKFLOW_DISABLED);
    assert_string_equal(scene->error.hint, "weir workflow enable hello");
    assert_string_equal(scene_claim_one(scene).id, waiting); /* what is in the queue goes on */
    static const char text[] = "{\"name\":\"hello\",\"steps\":{\"b\":{\"handler\":\"x\"}}}";
    scene_ok(scene, store_publish(scene->store, "hello", NULL, text, NULL, &published, &scene->error));
    assert_int_equal(published.version, 2);
    assert_int_equal(try_workflow(scene, "pro-co", "hello"), WEIR_WORKFLOW_DISABLED);
    scene_ok(scene, set_state(scene, "hello", NULL, WORKFLOW_DISABLED));
    scene_ok(scene, set_state(scene, "hello", NULL, WORKFLOW_PUBLISHED));
    assert_int_equal(try_workflow(scene, "pro-co", "hello"), WEIR_OK);
}

static void a_disabled_workflow_refuses_its_part_of_a_set(void **state)
{
    struct scene *scene = *state;
    (void)scene_publish(scene, "other", NULL);
    scene_ok(scene, set_state(scene, "hello", NULL, WORKFLOW_DISABLED));
    struct enqueue_request requests[] = {{.workspace = "pro-co", .workflow = "hello"},
                                         {.workspace = "pro-co", .workflow = "other"},
                                         {.workspace = "pro-co", .workflow = "hello", .idempotency_key = "k"}};
    struct enqueue_result results[3];
    scene_ok(scene, store_enqueue(scene->store, requests, 3, results, &scene->error));
    assert_int_equal(results[0].status, WEIR_WORKFLOW_DISABLED);
    assert_int_equal(results[1].status, WEIR_OK);
    assert_int_equal(results[2].status, WEIR_WORKFLOW_DISABLED);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM idempotency_keys"), 0);
}

static void an_execution_of_a_disabled_workflow_is_not_retried(void **state)
{
    struct scene *scene = *state;
    struct bulk_result bulk = {0};
    const char *id = ended(scene, "pro-co", RECORD_FAILED);
    struct execution_filter filter = {.id = id};
    scene_ok(scene, set_state(scene, "hello", NULL, WORKFLOW_DISABLED));
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &filter, "", 1, &bulk, &scene->error));
    assert_int_equal(bulk.first_refusal, WEIR_WORKFLOW_DISABLED);
    scene_ok(scene, set_state(scene, "hello", NULL, WORKFLOW_PUBLISHED));
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &filter, "", 1, &bulk, &scene->error));
    assert_int_equal(bulk.changed, 1);
}

static void a_workflow_is_deleted_when_its_executions_have_ended(void **state)
{
    struct scene *scene = *state;
    struct published published = {0};
    const char *id = scene_enqueue(scene, "pro-co");
    assert_int_equal(set_state(scene, "hello", NULL, WORKFLOW_DELETED), WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(scene->error.message, "1 execution"));
    assert_int_equal(try_workflow(scene, "big-co", "hello"), WEIR_OK);
    struct claim_result claim = scene_claim(scene, 10);
    scene_complete(scene, &claim);
    scene_ok(scene, set_state(scene, "hello", NULL, WORKFLOW_DELETED));
    assert_int_equal(try_workflow(scene, "pro-co", "hello"), WEIR_WORKFLOW_NOT_FOUND);
    assert_string_equal(scene_text(scene, "SELECT workflow FROM executions WHERE id = '%s'", id), "hello");
    assert_int_equal(set_state(scene, "hello", NULL, WORKFLOW_PUBLISHED), WEIR_WORKFLOW_NOT_FOUND);
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_WORKFLOWS};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_array_size(json_object_get(page, "items")), 0);
    json_decref(page);
    static const char text[] = "{\"name\":\"hello\",\"steps\":{\"one\":{\"exec\":[\"true\"]}}}"; /* the same */
    scene_ok(scene, store_publish(scene->store, "hello", NULL, text, NULL, &published, &scene->error));
    assert_false(published.unchanged);
    assert_int_equal(published.version, 2);
    assert_int_equal(try_workflow(scene, "pro-co", "hello"), WEIR_OK);
}

static void a_workflow_is_named_with_its_owner(void **state)
{
    struct scene *scene = *state;
    (void)scene_publish(scene, "hello", "pro-co");
    assert_int_equal(try_workflow(scene, "pro-co", "hello"), WEIR_OK);
    assert_int_equal(set_state(scene, "hello", "pro-co", WORKFLOW_DELETED), WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(scene->error.hint, "weir workflow disable hello -w pro-co"));
    struct claim_result claim = scene_claim(scene, 10);
    scene_complete(scene, &claim);
    scene_ok(scene, set_state(scene, "hello", "pro-co", WORKFLOW_DISABLED));
    assert_int_equal(try_workflow(scene, "pro-co", "hello"), WEIR_WORKFLOW_DISABLED);
    assert_string_equal(scene->error.hint, "weir workflow enable hello -w pro-co");
    assert_int_equal(try_workflow(scene, "big-co", "hello"), WEIR_OK);
    scene_ok(scene, set_state(scene, "hello", "pro-co", WORKFLOW_DELETED));
    assert_int_equal(try_workflow(scene, "pro-co", "hello"), WEIR_OK); /* that of all workspaces */
    assert_int_equal(set_state(scene, "hello", "big-co", WORKFLOW_DISABLED), WEIR_WORKFLOW_NOT_FOUND);
    assert_int_equal(set_state(scene, "helo", NULL, WORKFLOW_DISABLED), WEIR_WORKFLOW_NOT_FOUND);
    assert_non_null(strstr(scene->error.hint, "hello"));
    assert_int_equal(set_state(scene, "hello", "big-c", WORKFLOW_DISABLED), WEIR_WORKSPACE_NOT_FOUND);
    assert_int_equal(set_state(scene, "", NULL, WORKFLOW_DISABLED), WEIR_INVALID_ARGUMENT);
}

static void a_refused_purge_names_the_state(void **state)
{
    struct scene *scene = *state;
    char expected[128];
    const char *id = scene_enqueue(scene, "pro-co");
    struct bulk_result result = {0};
    struct execution_filter filter = {.id = id};
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filter, "", 1, &result, &scene->error));
    assert_int_equal(result.first_refusal, WEIR_ILLEGAL_STATE);
    (void)snprintf(expected, sizeof expected, "execution %s is PENDING: only ended executions can be purged", id);
    assert_string_equal(result.refusal.message, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_refused_purge_names_the_state),
        SCENE_TEST(a_workspace_without_executions_is_deleted),
        SCENE_TEST(an_unknown_workspace_is_not_deleted),
        SCENE_TEST(a_workspace_with_waiting_executions_is_not_deleted_by_mistake),
        SCENE_TEST(waiting_executions_end_failed_with_their_workspace),
        SCENE_TEST(a_running_execution_keeps_its_workspace),
        SCENE_TEST(more_waiting_executions_than_a_batch_are_ended_all),
        SCENE_TEST(parked_executions_end_failed_with_their_workspace),
        SCENE_TEST(a_deletion_that_is_interrupted_is_repeated),
        SCENE_TEST(the_history_stays_without_the_name),
        SCENE_TEST(an_execution_of_a_deleted_workspace_is_not_retried),
        SCENE_TEST(an_erasure_leaves_nothing_of_the_workspace),
        SCENE_TEST(an_erasure_of_an_empty_history_ends_and_keeps_its_time),
        SCENE_TEST(a_history_is_erased_later_but_never_that_of_a_namesake),
        SCENE_TEST(an_id_of_a_workspace_is_never_given_out_again),
        SCENE_TEST(a_deletion_is_an_event),
        SCENE_TEST(a_disabled_workflow_takes_no_new_executions),
        SCENE_TEST(a_disabled_workflow_refuses_its_part_of_a_set),
        SCENE_TEST(an_execution_of_a_disabled_workflow_is_not_retried),
        SCENE_TEST(a_workflow_is_deleted_when_its_executions_have_ended),
        SCENE_TEST(a_workflow_is_named_with_its_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
