/* store_rename_workspace: the workspace keeps its id and all that belongs to it, or nothing is changed. */
#include "conformance/scene.h"
#include "observe/event.h"
#include "store/driver.h"
#include "store/hooks.h"
#include "store/schedules.h"
#include "store/tokens.h"

static enum weir_status rename_workspace(struct scene *scene, const char *name, const char *new_name)
{
    scene_ok(scene, store_act_as(scene->store, "ann", "new brand", &scene->error));
    scene->error = (struct weir_error){.status = WEIR_OK};
    return store_rename_workspace(scene->store, name, new_name, &scene->error);
}

static int64_t id_of(struct scene *scene, const char *name)
{
    return scene_number(scene, "SELECT coalesce(max(id), 0) FROM workspaces WHERE name = '%s'", name);
}

static enum weir_status try_enqueue(struct scene *scene, const char *workspace, const char *key,
                                    struct enqueue_result *ret_result)
{
    *ret_result =
        scene_try(scene, &(struct enqueue_request){.workspace = workspace, .workflow = "hello", .idempotency_key = key});
    scene->error = ret_result->error;
    return ret_result->status;
}

static size_t listed_in(struct scene *scene, const char *workspace)
{
    json_t *page = NULL;
    struct execution_filter filter = {.workspace = workspace};
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = filter, .limit = 100};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    size_t count = json_array_size(json_object_get(page, "items"));
    json_decref(page);
    return count;
}

/* --- what follows the name --- */

static void a_renamed_workspace_keeps_its_settings(void **state)
{
    struct scene *scene = *state;
    int64_t id = id_of(scene, "pro-co");
    scene_cap(scene, "pro-co", 3);
    scene_pause_workspace(scene, "pro-co", true);
    scene_ok(scene, rename_workspace(scene, "pro-co", "pro & söhne"));
    assert_int_equal(id_of(scene, "pro & söhne"), id);
    assert_int_equal(id_of(scene, "pro-co"), 0);
    assert_int_equal(scene_usage(scene, "pro & söhne", "slots_max"), 3);
    (void)scene_enqueue(scene, "pro & söhne");
    assert_int_equal(scene_claim(scene, 10).count, 0);
    scene_pause_workspace(scene, "pro & söhne", false);
    assert_string_equal(scene_claim_one(scene).workspace, "pro & söhne");
}

static void executions_and_history_have_the_new_name(void **state)
{
    struct scene *scene = *state;
    const char *ended = scene_enqueue(scene, "pro-co");
    struct claim_result claim = scene_claim(scene, 10);
    scene_complete(scene, &claim);
    const char *waiting = scene_enqueue(scene, "pro-co");
    scene_ok(scene, rename_workspace(scene, "pro-co", "max-co"));
    assert_string_equal(scene_text(scene, "SELECT workspace FROM executions WHERE id = '%s'", ended), "max-co");
    assert_string_equal(scene_text(scene, "SELECT workspace FROM executions WHERE id = '%s'", waiting), "max-co");
    assert_int_equal(listed_in(scene, "max-co"), 2);
    assert_string_equal(scene_claim_one(scene).workspace, "max-co");
}

/* By name alone the second call would find the other workspace, or none. */
static void a_bulk_act_goes_on_over_a_rename(void **state)
{
    struct scene *scene = *state;
    struct execution_filter filter = {.workspace = "pro-co"};
    struct bulk_result first = {.matched = 0};
    struct bulk_result second = {.matched = 0};
    int64_t id = id_of(scene, "pro-co");
    scene_enqueue_many(scene, "pro-co", 3);
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 1, &first, &scene->error));
    assert_true(first.more);
    assert_int_equal(first.workspace_id, id);
    scene_ok(scene, rename_workspace(scene, "pro-co", "pro-eu"));
    struct workspace_change other = {.name = "pro-co", .plan = "pro", .paused = -1, .create = true};
    scene_ok(scene, store_set_workspace(scene->store, &other, &scene->error));
    const char *untouched = scene_enqueue(scene, "pro-co");
    filter.workspace_id = first.workspace_id;
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, first.last_id, 10, &second, &scene->error));
    assert_int_equal(second.changed, 2);
    assert_int_equal(second.workspace_id, id);
    assert_string_equal(scene_text(scene, "SELECT status FROM executions WHERE id = '%s'", untouched), "PENDING");
    filter = (struct execution_filter){.workspace = "pro-co", .workspace_id = 999999}; /* of one that was deleted */
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &second, &scene->error));
    assert_int_equal(second.matched, 0);
    assert_int_equal(second.workspace_id, 999999);
    filter = (struct execution_filter){.workspace = "nobody"};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &second, &scene->error));
    assert_int_equal(second.matched, 0);
    assert_int_equal(second.workspace_id, 0);
}

static void a_key_holds_over_a_rename(void **state)
{
    struct scene *scene = *state;
    struct enqueue_result first;
    struct enqueue_result second;
    assert_int_equal(try_enqueue(scene, "pro-co", "order-1", &first), WEIR_OK);
    scene_ok(scene, rename_workspace(scene, "pro-co", "max-co"));
    assert_int_equal(try_enqueue(scene, "max-co", "order-1", &second), WEIR_OK);
    assert_true(second.duplicate);
    assert_string_equal(second.id, first.id);
}

/* Two of five slots are held over the rename, and the others are given out once. */
static void the_cap_is_exact_over_a_rename(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 2);
    struct claim_result held = scene_claim(scene, 10);
    assert_int_equal(held.count, 2);
    scene_ok(scene, rename_workspace(scene, "pro-co", "max-co"));
    assert_int_equal(scene_held(scene, "max-co"), 2);
    scene_enqueue_many(scene, "max-co", 8);
    struct claim_result rest = scene_claim(scene, 10);
    assert_int_equal(scene_count_of(&rest, "max-co"), 3);
    assert_int_equal(scene_usage(scene, "max-co", "slots_used"), 5);
    scene_complete(scene, &held);
    assert_int_equal(scene_claim(scene, 10).count, 2);
    scene_check(scene);
}

/* The claimer has the name in its cache, and another node reads its own with its inbox. */
static void each_later_assignment_has_the_new_name(void **state)
{
    struct scene *scene = *state;
    int64_t other = scene_add_node(scene, "other", "default");
    for (int round = 0; round < 2; round++) {
        static const char *const names[] = {"big-co", "huge-co"};
        (void)scene_enqueue(scene, names[round]);
        assert_string_equal(scene_claim_one(scene).workspace, names[round]);
        (void)scene_enqueue(scene, names[round]);
        struct claim_result claim = scene_claim_as(scene, other, "default", 10);
        assert_int_equal(claim.count, 1);
        assert_string_equal(claim.items[0].workspace, names[round]);
        struct inbox_position position = {.fence = 0};
        struct inbox inbox = {0};
        scene_ok(scene, store_inbox(scene->store, scene->node, &position, 10, &scene->arena, &inbox, &scene->error));
        assert_int_equal(inbox.claimed.count, round + 1);
        for (int i = 0; i <= round; i++) {
            assert_string_equal(inbox.claimed.items[i].workspace, names[round]);
        }
        if (round == 0) {
            scene_ok(scene, rename_workspace(scene, "big-co", "huge-co"));
        }
    }
}

static void a_parked_execution_goes_on_under_the_new_name(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    struct step_record nap = {
        .step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = SECONDS(60)};
    struct record waits = scene_record_of(RECORD_STEP, &item);
    waits.step = &nap;
    assert_int_equal(scene_record_full(scene, scene->node, waits), WEIR_OK);
    struct record parked = scene_record_of(RECORD_PARKED, &item);
    parked.delay_us = SECONDS(60);
    parked.waiting_for = WAIT_SLEEP;
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
    scene_ok(scene, rename_workspace(scene, "free-co", "paid-co"));
    assert_int_equal(scene_usage(scene, "paid-co", "waiting"), 1);
    scene_pass(scene, SECONDS(61));
    scene_beat(scene, scene->node);
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.id, item.id);
    assert_string_equal(again.workspace, "paid-co");
}

static void a_token_is_of_the_renamed_workspace(void **state)
{
    struct scene *scene = *state;
    static const char *const workspaces[] = {"free-co"};
    struct token_request request = {
        .name = "ci", .role = TOKEN_OPERATE, .workspaces = workspaces, .workspace_count = 1, .hash = {7}};
    int64_t id = 0;
    struct token_set set = {.tokens = NULL};
    scene_ok(scene, store_token_create(scene->store, &request, &id, &scene->error));
    scene_ok(scene, rename_workspace(scene, "free-co", "paid-co"));
    scene_workspace(scene, "free-co", "free"); /* another one, which is not the token's */
    scene_ok(scene, store_tokens_read(scene->store, &scene->arena, &set, &scene->error));
    assert_int_equal(set.count, 1);
    assert_int_equal(set.tokens[0].workspace_count, 1);
    assert_string_equal(set.tokens[0].workspaces[0], "paid-co");
    assert_int_equal(set.tokens[0].workspace_ids[0], id_of(scene, "paid-co"));
}

static void schedules_and_hooks_follow(void **state)
{
    struct scene *scene = *state;
    static const char *const workspaces[] = {"pro-co", "free-co"};
    struct schedule_request schedule = {
        .name = "nightly", .when.cron = "0 3 * * *", .workflow = "hello", .workspaces = workspaces, .workspace_count = 2};
    struct hook_request hook = {.name = "ends",
                                .on = {ITEM_COMPLETED},
                                .on_count = 1,
                                .workspace = "pro-co",
                                .start_workspace = "pro-co",
                                .start_workflow = "report"};
    struct schedule_counts counts = {0};
    struct hook_events events = {0};
    struct schedule_trigger trigger = {
        .name = "nightly", .workspaces = (const char *const[]){"max-co"}, .workspace_count = 1};
    scene_ok(scene, store_schedule_set(scene->store, &schedule, NULL, &scene->error));
    scene_ok(scene, store_hook_set(scene->store, &hook, NULL, &scene->error));
    (void)scene_enqueue(scene, "pro-co");
    struct claim_result claim = scene_claim(scene, 10);
    scene_ok(scene, rename_workspace(scene, "pro-co", "max-co"));
    scene_complete(scene, &claim);
    scene_ok(scene, store_read_hook_events(scene->store, &scene->arena, &events, &scene->error));
    assert_int_equal(events.count, 1);
    assert_string_equal(events.events[0].workspace, "max-co");
    assert_non_null(strstr(events.events[0].params, "\"max-co\""));
    scene_ok(scene, store_schedule_trigger(scene->store, &trigger, &counts, &scene->error));
    assert_int_equal(counts.firings, 1);
    trigger.workspaces = workspaces;
    assert_int_equal(store_schedule_trigger(scene->store, &trigger, &counts, &scene->error), WEIR_WORKSPACE_NOT_FOUND);
}

static void workflows_of_the_workspace_follow(void **state)
{
    struct scene *scene = *state;
    (void)scene_publish(scene, "own", "pro-co");
    scene_ok(scene, rename_workspace(scene, "pro-co", "max-co"));
    const struct enqueue_request request = {.workspace = "max-co", .workflow = "own"};
    assert_int_equal(scene_try(scene, &request).status, WEIR_OK);
    scene_ok(scene, store_set_workflow_state(scene->store, "own", "max-co", WORKFLOW_DISABLED, &scene->error));
    assert_int_equal(store_set_workflow_state(scene->store, "own", "pro-co", WORKFLOW_PUBLISHED, &scene->error),
                     WEIR_WORKSPACE_NOT_FOUND);
    assert_string_equal(scene->error.hint, "the workspace was renamed to \"max-co\"");
}

/* --- the old name --- */

static void the_old_name_is_refused_with_the_new_one(void **state)
{
    struct scene *scene = *state;
    struct enqueue_result result;
    scene_ok(scene, rename_workspace(scene, "pro-co", "max-co"));
    assert_int_equal(try_enqueue(scene, "pro-co", NULL, &result), WEIR_WORKSPACE_NOT_FOUND);
    assert_string_equal(scene->error.hint, "the workspace was renamed to \"max-co\"");
    scene_ok(scene, rename_workspace(scene, "max-co", "top-co"));
    assert_int_equal(try_enqueue(scene, "pro-co", NULL, &result), WEIR_WORKSPACE_NOT_FOUND);
    assert_string_equal(scene->error.hint, "the workspace was renamed to \"top-co\"");
    assert_int_equal(rename_workspace(scene, "pro-co", "best-co"), WEIR_WORKSPACE_NOT_FOUND);
    assert_string_equal(scene->error.hint, "the workspace was renamed to \"top-co\"");
    assert_int_equal(try_enqueue(scene, "to-co", NULL, &result), WEIR_WORKSPACE_NOT_FOUND);
    assert_string_equal(scene->error.hint, "did you mean \"top-co\"?");
}

static void the_old_name_is_free_for_another_workspace(void **state)
{
    struct scene *scene = *state;
    struct enqueue_result result;
    scene_ok(scene, rename_workspace(scene, "pro-co", "max-co"));
    scene_workspace(scene, "pro-co", "free");
    assert_true(id_of(scene, "pro-co") > id_of(scene, "max-co"));
    assert_int_equal(try_enqueue(scene, "pro-co", NULL, &result), WEIR_OK);
    assert_int_equal(listed_in(scene, "max-co"), 0);
    scene_ok(scene, rename_workspace(scene, "pro-co", "small-co"));
    scene_ok(scene, rename_workspace(scene, "max-co", "pro-co")); /* and back */
    assert_int_equal(listed_in(scene, "small-co"), 1);
}

static void the_name_of_a_deleted_workspace_is_free(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    size_t erased = 0;
    (void)scene_enqueue(scene, "free-co");
    struct claim_result claim = scene_claim(scene, 10);
    scene_complete(scene, &claim);
    const struct workspace_deletion deletion = {.name = "free-co"};
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &result, &scene->error));
    (void)scene_enqueue(scene, "pro-co");
    claim = scene_claim(scene, 10);
    scene_complete(scene, &claim);
    scene_ok(scene, rename_workspace(scene, "pro-co", "free-co"));
    assert_int_equal(listed_in(scene, "free-co"), 1);
    scene_ok(scene, store_erase_workspace(scene->store, "free-co", &erased, &scene->error));
    assert_int_equal(erased, 1); /* of the deleted one */
    assert_int_equal(listed_in(scene, "free-co"), 1);
}

static void a_deletion_after_a_rename_has_the_new_name(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    struct workspace_deletion deletion = {.name = "pro-co", .erases = true};
    scene_ok(scene, rename_workspace(scene, "pro-co", "max-co"));
    assert_int_equal(store_delete_workspace(scene->store, &deletion, &result, &scene->error), WEIR_WORKSPACE_NOT_FOUND);
    deletion.name = "max-co";
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &result, &scene->error));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM deleted_workspaces WHERE name = 'max-co'"), 1);
    struct enqueue_result enqueued;
    assert_int_equal(try_enqueue(scene, "pro-co", NULL, &enqueued), WEIR_WORKSPACE_NOT_FOUND);
    assert_null(strstr(scene->error.hint, "renamed"));
}

/* --- refusals --- */

static void a_wrong_name_changes_nothing(void **state)
{
    struct scene *scene = *state;
    char long_name[WORKSPACE_NAME_MAX + 2];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const char *const wrong[] = {"", ".", "..", " ", "tab\tco", "\xff", long_name, "pro-co", NULL};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(rename_workspace(scene, "pro-co", wrong[i]), WEIR_INVALID_ARGUMENT);
    }
    assert_int_equal(rename_workspace(scene, "", "max-co"), WEIR_INVALID_ARGUMENT);
    assert_int_equal(rename_workspace(scene, "pro-c", "max-co"), WEIR_WORKSPACE_NOT_FOUND);
    assert_string_equal(scene->error.hint, "did you mean \"pro-co\"?");
    assert_int_equal(rename_workspace(scene, "pro-co", "free-co"), WEIR_CONFLICT);
    assert_non_null(strstr(scene->error.message, "a workspace \"free-co\" exists already"));
    assert_true(id_of(scene, "pro-co") > 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'workspace rename'"), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workspaces"), 3);
}

/* Temporal would start it a second time, under the workflow id of the new name. */
static void a_workflow_id_of_the_name_refuses_a_rename(void **state)
{
    struct scene *scene = *state;
    struct published published;
    static const char by_name[] = "{\"name\":\"remote\",\"temporal\":{\"workflow_id\":"
                                  "\"${ .execution.workspace }-${ .execution.id }\"}}";
    static const char by_id[] = "{\"name\":\"plain\",\"temporal\":{}}";
    scene_ok(scene, store_publish(scene->store, "remote", NULL, by_name, NULL, &published, &scene->error));
    scene_ok(scene, store_publish(scene->store, "plain", NULL, by_id, NULL, &published, &scene->error));
    int64_t node = scene_add_node_with_engine(scene, "outside", "default", "temporal");
    (void)scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "plain"});
    assert_int_equal(scene_claim_as(scene, node, "default", 10).count, 1);
    scene_ok(scene, rename_workspace(scene, "pro-co", "max-co"));
    (void)scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "max-co", .workflow = "remote"});
    scene_ok(scene, rename_workspace(scene, "max-co", "pro-co")); /* it was never started */
    struct claim_result claim = scene_claim_as(scene, node, "default", 10);
    assert_int_equal(claim.count, 1);
    assert_int_equal(rename_workspace(scene, "pro-co", "max-co"), WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(scene->error.message, "1 running execution of workspace \"pro-co\" on Temporal"));
    scene_ok(scene, rename_workspace(scene, "free-co", "paid-co")); /* it has none of them */
    assert_int_equal(scene_record_full(scene, node, scene_record_of(RECORD_DISPATCHED, &claim.items[0])), WEIR_OK);
    assert_int_equal(scene_record_full(scene, node, scene_record_of(RECORD_COMPLETED, &claim.items[0])), WEIR_OK);
    scene_ok(scene, rename_workspace(scene, "pro-co", "max-co"));
}

/* --- the record --- */

static void a_rename_is_on_record_under_the_old_name(void **state)
{
    struct scene *scene = *state;
    json_t *before = NULL;
    json_t *after = NULL;
    scene_ok(scene, rename_workspace(scene, "pro-co", "\"max\" co"));
    store_last_change(scene->store, &before, &after);
    assert_string_equal(json_text_at(before, "name"), "pro-co");
    assert_string_equal(json_text_at(after, "name"), "\"max\" co");
    assert_true(json_equal(json_object_get(before, "id"), json_object_get(after, "id")));
    json_decref(before);
    json_decref(after);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'workspace rename' AND actor = 'ann'"
                                         " AND subject = 'pro-co' AND reason = 'new brand' AND affected = 0"),
                     1);
    const char *stored = scene_text(scene, "SELECT CAST(after AS text) FROM audit WHERE act = 'workspace rename'");
    assert_non_null(strstr(stored, "\\\"max\\\" co"));
}

static void note_rename(void *context, const struct event *event)
{
    if (event->type == EVENT_WORKSPACE_RENAMED) {
        *(int *)context += 1;
        assert_string_equal(event->workspace, "max-co");
        assert_string_equal(event->reason, "pro-co -> max-co");
    }
}

static void a_rename_is_an_event(void **state)
{
    struct scene *scene = *state;
    int count = 0;
    struct event_bus events = {.count = 0};
    struct event_bus *before = scene->store->events;
    (void)event_subscribe(&events, note_rename, &count);
    scene->store->events = &events;
    enum weir_status refused = rename_workspace(scene, "pro-co", "free-co");
    enum weir_status status = rename_workspace(scene, "pro-co", "max-co");
    scene->store->events = before;
    assert_int_equal(refused, WEIR_CONFLICT);
    scene_ok(scene, status);
    assert_int_equal(count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_renamed_workspace_keeps_its_settings),
        SCENE_TEST(executions_and_history_have_the_new_name),
        SCENE_TEST(a_bulk_act_goes_on_over_a_rename),
        SCENE_TEST(a_key_holds_over_a_rename),
        SCENE_TEST(the_cap_is_exact_over_a_rename),
        SCENE_TEST(each_later_assignment_has_the_new_name),
        SCENE_TEST(a_parked_execution_goes_on_under_the_new_name),
        SCENE_TEST(a_token_is_of_the_renamed_workspace),
        SCENE_TEST(schedules_and_hooks_follow),
        SCENE_TEST(workflows_of_the_workspace_follow),
        SCENE_TEST(the_old_name_is_refused_with_the_new_one),
        SCENE_TEST(the_old_name_is_free_for_another_workspace),
        SCENE_TEST(the_name_of_a_deleted_workspace_is_free),
        SCENE_TEST(a_deletion_after_a_rename_has_the_new_name),
        SCENE_TEST(a_wrong_name_changes_nothing),
        SCENE_TEST(a_workflow_id_of_the_name_refuses_a_rename),
        SCENE_TEST(a_rename_is_on_record_under_the_old_name),
        SCENE_TEST(a_rename_is_an_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
