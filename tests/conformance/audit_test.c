/* The record of acts: each act is one row, inserted in its own transaction. */
#include <stdlib.h>

#include "conformance/scene.h"
#include "store/complete.h"
#include "store/driver.h"

/* The acts that match, newest first. The caller releases the page. */
static json_t *acts_of(struct scene *scene, const struct list_options *options)
{
    json_t *page = NULL;
    struct list_options wanted = *options;
    wanted.kind = LIST_AUDIT;
    scene_ok(scene, store_list(scene->store, &wanted, &page, &scene->error));
    return page;
}

static size_t count_acts(struct scene *scene, const struct list_options *options)
{
    json_t *page = acts_of(scene, options);
    size_t count = json_array_size(json_object_get(page, "items"));
    json_decref(page);
    return count;
}

static void assert_json(const json_t *value, const char *expected)
{
    json_t *wanted = expected == NULL ? json_null() : json_loads(expected, 0, NULL);
    assert_non_null(wanted);
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS);
    if (!json_equal((json_t *)value, wanted)) {
        fail_msg("%s is not %s", text, expected == NULL ? "null" : expected);
    }
    free(text);
    json_decref(wanted);
}

/* The newest act is this one, ordered by ann because of "because"; `before`, `after`: JSON, NULL = none. */
static void assert_newest(struct scene *scene, const char *act, const char *subject, const char *before, const char *after,
                          int64_t affected)
{
    json_t *page = acts_of(scene, &(struct list_options){.limit = 1});
    const json_t *row = json_array_get(json_object_get(page, "items"), 0);
    assert_non_null(row);
    assert_string_equal(json_text_at(row, "act"), act);
    assert_string_equal(json_text_at(row, "subject"), subject);
    assert_string_equal(json_text_at(row, "actor"), "ann");
    assert_string_equal(json_text_at(row, "reason"), "because");
    assert_non_null(json_text_at(row, "at"));
    assert_json(json_object_get(row, "before"), before);
    assert_json(json_object_get(row, "after"), after);
    assert_int_equal(json_number_at(row, "affected"), affected);
    json_decref(page);
}

#define PAUSED "{\"paused\": true}"
#define OPEN "{\"paused\": false}"

static void a_pause_is_on_record(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
    assert_newest(scene, "pause", "queue", OPEN, PAUSED, 0);
    scene_ok(scene, store_set_paused(scene->store, NULL, false, &scene->error));
    assert_newest(scene, "resume", "queue", PAUSED, OPEN, 0);
    scene_ok(scene, store_set_paused(scene->store, "default", true, &scene->error));
    assert_newest(scene, "pause", "group default", OPEN, PAUSED, 0);
    assert_int_equal(store_set_paused(scene->store, "no-such-group", true, &scene->error), WEIR_NOT_FOUND);
    assert_int_equal(count_acts(scene, &(struct list_options){.limit = 10}), 3); /* a refused act leaves no row */
}

static void a_plan_is_on_record_from_what_to_what(void **state)
{
    struct scene *scene = *state;
    json_t *before = NULL;
    json_t *after = NULL;
    struct plan_change change = {.name = "pro", .max_concurrent = 7};
    scene_ok(scene, store_set_plan(scene->store, &change, &scene->error));
    assert_newest(scene, "plan set", "pro", "{\"max_concurrent\": 5, \"weight\": 1, \"max_pending\": 0}",
                  "{\"max_concurrent\": 7, \"weight\": 1, \"max_pending\": 0}", 0);
    store_last_change(scene->store, &before, &after);
    assert_json(before, "{\"max_concurrent\": 5, \"weight\": 1, \"max_pending\": 0}");
    assert_json(after, "{\"max_concurrent\": 7, \"weight\": 1, \"max_pending\": 0}");
    json_decref(before);
    json_decref(after);
    change = (struct plan_change){.name = "gold", .max_concurrent = 9, .weight = 3};
    scene_ok(scene, store_set_plan(scene->store, &change, &scene->error));
    assert_newest(scene, "plan set", "gold", NULL, "{\"max_concurrent\": 9, \"weight\": 3, \"max_pending\": 0}", 0);
}

static void a_workspace_is_on_record_from_what_to_what(void **state)
{
    struct scene *scene = *state;
    struct workspace_change change = {.name = "free-co", .plan = "pro", .max_concurrent = 3, .paused = -1};
    scene_ok(scene, store_set_workspace(scene->store, &change, &scene->error));
    assert_newest(scene, "workspace set", "free-co",
                  "{\"plan\": \"free\", \"max_concurrent\": null, \"paused\": false, \"max_pending\": null}",
                  "{\"plan\": \"pro\", \"max_concurrent\": 3, \"paused\": false, \"max_pending\": null}", 0);
    scene_pause_workspace(scene, "free-co", true);
    assert_newest(scene, "workspace pause", "free-co",
                  "{\"plan\": \"pro\", \"max_concurrent\": 3, \"paused\": false, \"max_pending\": null}",
                  "{\"plan\": \"pro\", \"max_concurrent\": 3, \"paused\": true, \"max_pending\": null}", 0);
    scene_pause_workspace(scene, "free-co", false);
    assert_newest(scene, "workspace resume", "free-co",
                  "{\"plan\": \"pro\", \"max_concurrent\": 3, \"paused\": true, \"max_pending\": null}",
                  "{\"plan\": \"pro\", \"max_concurrent\": 3, \"paused\": false, \"max_pending\": null}", 0);
    change = (struct workspace_change){.name = "new-co", .paused = -1, .create = true};
    scene_ok(scene, store_set_workspace(scene->store, &change, &scene->error));
    assert_newest(scene, "workspace set", "new-co", NULL,
                  "{\"plan\": \"free\", \"max_concurrent\": null, \"paused\": false, \"max_pending\": null}", 0);
}

static void the_deletion_of_a_workspace_is_on_record(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    struct workspace_deletion deletion = {.name = "pro-co", .fails_waiting = true, .erases = true};
    scene_enqueue_many(scene, "pro-co", 3);
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &result, &scene->error));
    assert_newest(scene, "workspace erase", "pro-co", NULL, NULL, 0);
    json_t *page = acts_of(scene, &(struct list_options){.act = "workspace delete"});
    const json_t *row = json_array_get(json_object_get(page, "items"), 0);
    assert_int_equal(json_number_at(row, "affected"), 3);
    assert_json(json_object_get(row, "before"),
                "{\"plan\": \"pro\", \"max_concurrent\": null, \"paused\": false, \"max_pending\": null}");
    assert_json(json_object_get(row, "after"), NULL);
    json_decref(page);
    page = acts_of(scene, &(struct list_options){.act = "workspace erase"});
    int64_t erased = 0;
    size_t i;
    json_array_foreach(json_object_get(page, "items"), i, row)
    {
        erased += json_number_at(row, "affected");
    }
    assert_int_equal(erased, 3);
    json_decref(page);
}

static void a_workflow_is_on_record(void **state)
{
    struct scene *scene = *state;
    struct published published;
    const char *text = "{\"name\":\"bill\",\"steps\":{\"a\":{\"sleep\":\"1s\"}}}";
    scene_ok(scene, store_publish(scene->store, "bill", "pro-co", text, NULL, &published, &scene->error));
    assert_newest(scene, "workflow apply", "pro-co/bill", NULL, "{\"version\": 1, \"state\": \"published\"}", 0);
    scene_ok(scene, store_publish(scene->store, "bill", "pro-co", text, NULL, &published, &scene->error));
    assert_true(published.unchanged);
    assert_int_equal(count_acts(scene, &(struct list_options){.act = "workflow"}), 1);
    scene_ok(scene, store_set_workflow_state(scene->store, "bill", "pro-co", WORKFLOW_DISABLED, &scene->error));
    assert_newest(scene, "workflow disable", "pro-co/bill", "{\"version\": 1, \"state\": \"published\"}",
                  "{\"version\": 1, \"state\": \"disabled\"}", 0);
    scene_ok(scene, store_set_workflow_state(scene->store, "bill", "pro-co", WORKFLOW_PUBLISHED, &scene->error));
    assert_newest(scene, "workflow enable", "pro-co/bill", "{\"version\": 1, \"state\": \"disabled\"}",
                  "{\"version\": 1, \"state\": \"published\"}", 0);
    scene_ok(scene, store_set_workflow_state(scene->store, "hello", NULL, WORKFLOW_DELETED, &scene->error));
    assert_newest(scene, "workflow delete", "hello", "{\"version\": 1, \"state\": \"published\"}",
                  "{\"version\": 1, \"state\": \"deleted\"}", 0);
}

static void the_state_of_a_node_is_on_record(void **state)
{
    static const struct {
        enum desired_state wanted;
        const char *act;
        const char *before;
        const char *after;
    } orders[] = {
        {NODE_PAUSE, "node pause", "{\"desired_state\": \"run\"}", "{\"desired_state\": \"pause\"}"},
        {NODE_DRAIN, "node drain", "{\"desired_state\": \"pause\"}", "{\"desired_state\": \"drain\"}"},
        {NODE_RUN, "node resume", "{\"desired_state\": \"drain\"}", "{\"desired_state\": \"run\"}"},
        {NODE_STOP, "node stop", "{\"desired_state\": \"run\"}", "{\"desired_state\": \"stop\"}"},
    };
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        scene_ok(scene, store_set_desired_state(scene->store, "node-1", orders[i].wanted, &scene->error));
        assert_newest(scene, orders[i].act, "node-1", orders[i].before, orders[i].after, 0);
    }
}

static void only_an_operators_release_of_a_lock_is_on_record(void **state)
{
    struct scene *scene = *state;
    struct lock_request request = {.name = "duty", .holder = "me", .at_most_us = 60 * MICROSECONDS_PER_SECOND};
    scene_ok(scene, store_lock(scene->store, &request, &scene->error));
    scene_ok(scene, store_unlock(scene->store, &request, &scene->error));
    assert_int_equal(count_acts(scene, &(struct list_options){.limit = 1}), 0);
    scene_ok(scene, store_lock(scene->store, &request, &scene->error));
    request.is_forced = true;
    scene_ok(scene, store_unlock(scene->store, &request, &scene->error));
    assert_newest(scene, "lock release", "duty", "{\"holder\": \"me\"}", NULL, 0);
}

static struct bulk_result act(struct scene *scene, enum bulk_act what, const struct execution_filter *filter)
{
    struct bulk_result result = {.matched = 0};
    scene_ok(scene, store_bulk(scene->store, what, filter, "", 100, &result, &scene->error));
    return result;
}

static void acts_on_executions_are_on_record_with_their_number(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    char prefix[14];
    text_copy(prefix, sizeof prefix, id);
    (void)act(scene, BULK_CANCEL, &(struct execution_filter){.id = prefix});
    assert_newest(scene, "cancel", id, NULL, NULL, 1);
    scene_enqueue_many(scene, "pro-co", 4);
    (void)act(scene, BULK_CANCEL, &(struct execution_filter){.workspace = "pro-co", .workflow = "hello"});
    assert_newest(scene, "cancel", "workspace=pro-co workflow=hello", NULL, NULL, 4);
    (void)act(scene, BULK_RETRY, &(struct execution_filter){.id = id});
    assert_newest(scene, "retry", id, NULL, NULL, 1);
    struct enqueue_request later = {
        .workspace = "big-co", .workflow = "hello", .run_at_us = scene_now(scene) + 3600 * MICROSECONDS_PER_SECOND};
    (void)scene_enqueue_request(scene, &later);
    (void)act(scene, BULK_RELEASE, &(struct execution_filter){.workspace = "big-co"});
    assert_newest(scene, "release", "workspace=big-co", NULL, NULL, 1);
    (void)act(scene, BULK_CANCEL,
              &(struct execution_filter){.states = 1U << ITEM_PENDING | 1U << ITEM_CLAIMED,
                                         .stuck = CONDITION_NO,
                                         .created_before_us = scene_now(scene) + 1000});
    json_t *page = acts_of(scene, &(struct list_options){.limit = 1});
    const char *subject = json_text_at(json_array_get(json_object_get(page, "items"), 0), "subject");
    assert_memory_equal(subject, "status=PENDING,CLAIMED stuck=no until=2",
                        strlen("status=PENDING,CLAIMED stuck=no until=2"));
    json_decref(page);
    (void)act(scene, BULK_PURGE, &(struct execution_filter){.states = 1U << ITEM_CANCELLED});
    assert_newest(scene, "purge", "status=CANCELLED", NULL, NULL, 7);
    (void)act(scene, BULK_PURGE, &(struct execution_filter){.states = 1U << ITEM_CANCELLED}); /* nothing is left */
    assert_int_equal(count_acts(scene, &(struct list_options){.act = "purge"}), 1);
}

static void the_reported_end_of_an_execution_is_on_record(void **state)
{
    struct scene *scene = *state;
    struct published published;
    const char *text = "{\"name\":\"outside\",\"temporal\":{\"task_queue\":\"q\"}}";
    scene_ok(scene, store_publish(scene->store, "outside", NULL, text, NULL, &published, &scene->error));
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "outside"});
    scene->node = scene_add_node_with_engine(scene, "outside", "default", "temporal");
    (void)scene_claim_one(scene);
    struct completion completion = {.id = id, .kind = RECORD_COMPLETED};
    scene_ok(scene, store_complete(scene->store, &completion, &scene->error));
    assert_newest(scene, "complete", id, NULL, "{\"status\": \"COMPLETED\"}", 1);
}

static void an_act_without_a_row_is_noted(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, store_note_act(scene->store, "signal", "an-id", "approve", &scene->error));
    assert_newest(scene, "signal", "an-id", NULL, "{\"detail\": \"approve\"}", 0);
}

static void a_noted_act_has_no_name_of_the_stores_acts(void **state)
{
    struct scene *scene = *state;
    static const char *const wrong[] = {"cancel", "token create", "workspace delete", "store migrate", "", "sig\xff"};
    char text[ACT_NAME_MAX + 2];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(store_note_act(scene->store, text, "ci", NULL, &scene->error), WEIR_INVALID_ARGUMENT);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(store_note_act(scene->store, wrong[i], "ci", NULL, &scene->error), WEIR_INVALID_ARGUMENT);
    }
    assert_int_equal(count_acts(scene, &(struct list_options){.name = "ci"}), 0);
    scene_ok(scene, store_note_act(scene->store, text + 1, "ci", NULL, &scene->error));
    scene_ok(scene, store_note_act(scene->store, "tokens", "ci", NULL, &scene->error));
    assert_newest(scene, "tokens", "ci", NULL, NULL, 0);
}

static void a_migration_is_on_record(void **state)
{
    struct driver_under_test driver;
    struct weir_error error = {.status = WEIR_OK};
    json_t *page = NULL;
    (void)state;
    driver_make(&driver);
    struct store *store = driver_open(&driver, NULL);
    assert_int_equal(store_act_as(store, "ann", "first", &error), WEIR_OK);
    assert_int_equal(store_migrate(store, NULL, &error), WEIR_OK);
    assert_int_equal(store_migrate(store, NULL, &error), WEIR_OK);
    struct list_options options = {.kind = LIST_AUDIT, .act = "store migrate", .actor = "ann"};
    assert_int_equal(store_list(store, &options, &page, &error), WEIR_OK);
    const json_t *items = json_object_get(page, "items");
    assert_int_equal(json_array_size(items), 2); /* the schema, and the views with the functions */
    assert_string_equal(json_text_at(json_array_get(items, 1), "subject"), "0001_initial");
    assert_string_equal(json_text_at(json_array_get(items, 1), "reason"), "first");
    json_decref(page);
    store_close(store);
    driver_remove(&driver);
}

static void a_handle_without_an_actor_records_nothing(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, store_act_as(scene->store, NULL, NULL, &scene->error));
    scene_enqueue_many(scene, "pro-co", 2);
    scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
    scene_ok(scene, store_set_paused(scene->store, NULL, false, &scene->error));
    scene_ok(scene, store_set_desired_state(scene->store, "node-1", NODE_PAUSE, &scene->error));
    (void)act(scene, BULK_CANCEL, &(struct execution_filter){.workspace = "pro-co"});
    (void)act(scene, BULK_PURGE, &(struct execution_filter){.workspace = "pro-co"});
    scene_ok(scene, store_note_act(scene->store, "signal", "an-id", NULL, &scene->error));
    assert_int_equal(count_acts(scene, &(struct list_options){.limit = 1}), 0);
}

static void texts_of_an_act_are_bounded(void **state)
{
    struct scene *scene = *state;
    char text[REASON_MAX + 2];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(store_act_as(scene->store, "ann", text, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(scene->error.hint, "2048 bytes"));
    assert_int_equal(store_act_as(scene->store, text, NULL, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(store_act_as(scene->store, "ann\xff", NULL, &scene->error), WEIR_INVALID_ARGUMENT);
    scene_ok(scene, store_act_as(scene->store, "ann", text + 1, &scene->error));
    scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
    struct bulk_result result;
    struct execution_filter filter = {.workspace = text + 1}; /* the subject is cut */
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 1, &result, &scene->error));
    assert_int_equal(store_note_act(scene->store, "signal", text, NULL, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(count_acts(scene, &(struct list_options){.limit = 10}), 1);
}

static void acts_are_filtered_and_paged(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
    scene_pass(scene, 10 * MICROSECONDS_PER_SECOND);
    int64_t later_us = scene_now(scene);
    scene_ok(scene, store_act_as(scene->store, "eve", NULL, &scene->error));
    scene_pause_workspace(scene, "pro-co", true);
    scene_ok(scene, store_set_paused(scene->store, NULL, false, &scene->error));
    assert_int_equal(count_acts(scene, &(struct list_options){.actor = "v"}), 2);
    assert_int_equal(count_acts(scene, &(struct list_options){.actor = "%"}), 0);
    assert_int_equal(count_acts(scene, &(struct list_options){.act = "workspace"}), 1);
    assert_int_equal(count_acts(scene, &(struct list_options){.act = "work"}), 0);
    assert_int_equal(count_acts(scene, &(struct list_options){.name = "queue"}), 2);
    assert_int_equal(count_acts(scene, &(struct list_options){.filter.created_since_us = later_us}), 2);
    json_t *page = acts_of(scene, &(struct list_options){.limit = 2});
    const char *cursor = json_string_value(json_object_get(page, "next_cursor"));
    assert_non_null(cursor);
    assert_string_equal(json_text_at(json_array_get(json_object_get(page, "items"), 0), "act"), "resume");
    json_t *last = acts_of(scene, &(struct list_options){.limit = 2, .cursor = cursor});
    assert_int_equal(json_array_size(json_object_get(last, "items")), 1);
    assert_string_equal(json_text_at(json_array_get(json_object_get(last, "items"), 0), "act"), "pause");
    assert_true(json_is_null(json_object_get(last, "next_cursor")));
    json_decref(last);
    json_decref(page);
    struct list_options wrong = {.kind = LIST_AUDIT, .cursor = "x"};
    assert_int_equal(store_list(scene->store, &wrong, &page, &scene->error), WEIR_INVALID_ARGUMENT);
}

static void retention_keeps_the_pause_that_holds(void **state)
{
    struct scene *scene = *state;
    int64_t removed = 0;
    scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
    scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
    scene_pause_workspace(scene, "pro-co", true);
    scene_pause_workspace(scene, "pro-co", false);
    scene_pass(scene, 10 * MICROSECONDS_PER_SECOND);
    int64_t now_us = scene_now(scene);
    scene_ok(scene, store_purge_audit(scene->store, now_us, 1, &removed, &scene->error));
    assert_int_equal(removed, 1);
    scene_ok(scene, store_purge_audit(scene->store, now_us, 10, &removed, &scene->error));
    assert_int_equal(removed, 2);
    assert_newest(scene, "pause", "queue", PAUSED, PAUSED, 0);
    assert_int_equal(count_acts(scene, &(struct list_options){.limit = 10}), 1);
    assert_int_equal(store_purge_audit(scene->store, now_us, 0, &removed, &scene->error), WEIR_MISUSE);
    scene_ok(scene, store_set_paused(scene->store, NULL, false, &scene->error));
    scene_ok(scene, store_purge_audit(scene->store, now_us, 10, &removed, &scene->error));
    assert_int_equal(removed, 1); /* the queue is open: only the younger act is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_pause_is_on_record),
        SCENE_TEST(a_plan_is_on_record_from_what_to_what),
        SCENE_TEST(a_workspace_is_on_record_from_what_to_what),
        SCENE_TEST(the_deletion_of_a_workspace_is_on_record),
        SCENE_TEST(a_workflow_is_on_record),
        SCENE_TEST(the_state_of_a_node_is_on_record),
        SCENE_TEST(only_an_operators_release_of_a_lock_is_on_record),
        SCENE_TEST(acts_on_executions_are_on_record_with_their_number),
        SCENE_TEST(the_reported_end_of_an_execution_is_on_record),
        SCENE_TEST(an_act_without_a_row_is_noted),
        SCENE_TEST(a_noted_act_has_no_name_of_the_stores_acts),
        cmocka_unit_test(a_migration_is_on_record),
        SCENE_TEST(a_handle_without_an_actor_records_nothing),
        SCENE_TEST(texts_of_an_act_are_bounded),
        SCENE_TEST(acts_are_filtered_and_paged),
        SCENE_TEST(retention_keeps_the_pause_that_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
