/* Hooks: which ends make events, what an event contains, and what becomes of it. */
#include "conformance/scene.h"
#include "queue/suspicion.h"
#include "store/driver.h"

static struct hook_request hook_on_all(const char *name)
{
    return (struct hook_request){.name = name,
                                 .on = {ITEM_COMPLETED, ITEM_FAILED, ITEM_CANCELLED},
                                 .on_count = 3,
                                 .start_workspace = "big-co",
                                 .start_workflow = "alert"};
}

static void set_hook(struct scene *scene, const struct hook_request *request)
{
    scene_ok(scene, store_hook_set(scene->store, request, NULL, &scene->error));
}

static struct hook_events read_events(struct scene *scene)
{
    struct hook_events events = {.count = 0};
    scene_ok(scene, store_read_hook_events(scene->store, &scene->arena, &events, &scene->error));
    return events;
}

/* The row of LIST_HOOKS; the caller releases it. */
static json_t *row_of(struct scene *scene, const char *name)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_HOOKS, .name = name};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
    json_t *row = json_incref(json_array_get(json_object_get(page, "items"), 0));
    json_decref(page);
    return row;
}

static int64_t count_rows(struct scene *scene)
{
    return scene_number(scene, "SELECT count(*) FROM hook_outbox");
}

/* Each ended execution has one event with its status, and no living one has any. */
static void assert_events_are_those_of_the_history(struct scene *scene, int64_t expected)
{
    struct hook_events events = read_events(scene);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_executions"), expected);
    assert_int_equal(events.count, expected);
    for (size_t i = 0; i < events.count; i++) {
        json_t *params = json_loads(events.events[i].params, 0, NULL);
        assert_non_null(params);
        assert_string_equal(json_text_at(params, "id"), events.events[i].id);
        assert_string_equal(json_text_at(params, "status"), scene_status_of(scene, events.events[i].id));
        json_decref(params);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(events.events[i].id, events.events[j].id);
        }
    }
}

static void act(struct scene *scene, enum bulk_act act, struct execution_filter filter, int64_t changed)
{
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, act, &filter, "", 100, &result, &scene->error));
    assert_int_equal(result.changed, changed);
}

static void end_one(struct scene *scene, const char *workspace, enum record_kind kind)
{
    (void)scene_enqueue(scene, workspace);
    struct claimed_item item = scene_claim_one(scene);
    if (kind != RECORD_REFUSED) {
        assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    }
    assert_int_equal(scene_record(scene, kind, &item), WEIR_OK);
}

/* --- which ends --- */

static void without_a_hook_nothing_is_written(void **state)
{
    struct scene *scene = *state;
    end_one(scene, "pro-co", RECORD_COMPLETED);
    assert_int_equal(count_rows(scene), 0);
    assert_false(read_events(scene).has_events);
}

static void every_recorded_end_makes_one_event(void **state)
{
    struct scene *scene = *state;
    set_hook(scene, &(struct hook_request){.name = "other",
                                           .on = {ITEM_FAILED},
                                           .on_count = 1,
                                           .workflow = "none",
                                           .start_workspace = "big-co",
                                           .start_workflow = "alert"});
    struct hook_request hook = hook_on_all("all");
    set_hook(scene, &hook);
    end_one(scene, "pro-co", RECORD_COMPLETED);
    end_one(scene, "pro-co", RECORD_FAILED);
    end_one(scene, "pro-co", RECORD_CANCELLED);
    end_one(scene, "pro-co", RECORD_REFUSED);
    assert_events_are_those_of_the_history(scene, 4);
    scene_enqueue_many(scene, "pro-co", 3); /* a set */
    struct claim_result claim = scene_claim(scene, 3);
    scene_complete(scene, &claim);
    assert_events_are_those_of_the_history(scene, 7);
    struct claimed_item again = claim.items[0];
    (void)scene_record(scene, RECORD_COMPLETED, &again);
    assert_events_are_those_of_the_history(scene, 7);
}

static void a_cancel_makes_one_event_when_it_ends_the_execution(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("all");
    set_hook(scene, &hook);
    const char *pending = scene_enqueue(scene, "pro-co");
    act(scene, BULK_CANCEL, (struct execution_filter){.id = pending}, 1);
    assert_events_are_those_of_the_history(scene, 1);
    const char *running = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    act(scene, BULK_CANCEL, (struct execution_filter){.id = running}, 1);
    assert_events_are_those_of_the_history(scene, 1); /* only requested */
    assert_int_equal(scene_record(scene, RECORD_RETRY, &item), WEIR_OK);
    assert_string_equal(scene_status_of(scene, running), "CANCELLED");
    assert_events_are_those_of_the_history(scene, 2);
    scene_enqueue_many(scene, "free-co", 5);
    act(scene, BULK_CANCEL, (struct execution_filter){.workspace = "free-co"}, 5);
    assert_events_are_those_of_the_history(scene, 7);
}

static void a_put_back_and_a_retry_make_no_event(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("all");
    set_hook(scene, &hook);
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_RETRY, &item), WEIR_OK);
    assert_int_equal(count_rows(scene), 0);
    act(scene, BULK_CANCEL, (struct execution_filter){.id = id}, 1);
    assert_int_equal(count_rows(scene), 1);
    act(scene, BULK_RETRY, (struct execution_filter){.id = id}, 1);
    assert_int_equal(count_rows(scene), 1);
    item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    assert_events_are_those_of_the_history(scene, 2);
    json_t *params = json_loads(read_events(scene).events[1].params, 0, NULL);
    assert_string_equal(json_text_at(params, "retry_of"), id);
    json_decref(params);
}

static void a_deleted_workspace_has_events_of_its_waiting_executions(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    struct hook_request hook = hook_on_all("all");
    set_hook(scene, &hook);
    scene_enqueue_many(scene, "pro-co", 2);
    struct workspace_deletion deletion = {.name = "pro-co", .fails_waiting = true};
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &result, &scene->error));
    assert_events_are_those_of_the_history(scene, 2);
    json_t *params = json_loads(read_events(scene).events[0].params, 0, NULL);
    assert_string_equal(json_text_at(params, "workspace"), "pro-co");
    assert_string_equal(json_text_at(params, "error_code"), "workspace_deleted");
    json_decref(params);
    scene_ok(scene, store_erase_workspace(scene->store, "pro-co", &(size_t){0}, &scene->error));
    assert_int_equal(count_rows(scene), 0);
}

static void an_execution_without_a_workspace_has_an_event(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("all");
    set_hook(scene, &hook);
    scene_enqueue_many(scene, "pro-co", 2);
    json_decref(scene_rows(scene, "DELETE FROM workspaces WHERE name = 'pro-co'"));
    assert_int_equal(scene_claim(scene, 10).count, 0);
    (void)scene_claim(scene, 10);
    assert_events_are_those_of_the_history(scene, 2);
}

static void poison_makes_one_event(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("all");
    set_hook(scene, &hook);
    (void)scene_enqueue(scene, "free-co");
    int64_t node = scene->node;
    for (int death = 1; death <= HANDOVERS_MAX; death++) {
        char name[16];
        struct recover_result result = {0};
        struct claim_result claim = scene_claim_as(scene, node, "default", 1);
        assert_int_equal(claim.count, 1);
        struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = death, .exit_code = -1};
        struct record record = scene_record_of(RECORD_STEP, &claim.items[0]);
        record.step = &step;
        assert_int_equal(scene_record_full(scene, node, record), WEIR_OK);
        assert_int_equal(count_rows(scene), 0);
        (void)snprintf(name, sizeof name, "node-%d", death + 1);
        scene_pass(scene, SECONDS(60));
        node = scene_add_node(scene, name, "default");
        struct recover_options options = {.node_id = node, .group = "default", .limit = 100};
        scene_recover(scene, &options, &result);
        scene_pass(scene, SECONDS(1)); /* the delay of suspicion_delay_us() */
        scene_beat(scene, node);
    }
    assert_events_are_those_of_the_history(scene, 1);
}

static void a_hook_takes_only_what_fits(void **state)
{
    struct scene *scene = *state;
    scene_publish(scene, "report", NULL);
    set_hook(
        scene,
        &(struct hook_request){
            .name = "failed", .on = {ITEM_FAILED}, .on_count = 1, .start_workspace = "big-co", .start_workflow = "alert"});
    set_hook(scene, &(struct hook_request){.name = "pro",
                                           .on = {ITEM_COMPLETED, ITEM_FAILED},
                                           .on_count = 2,
                                           .workspace = "pro-co",
                                           .start_workspace = "big-co",
                                           .start_workflow = "alert"});
    set_hook(scene, &(struct hook_request){.name = "report",
                                           .on = {ITEM_COMPLETED},
                                           .on_count = 1,
                                           .workflow = "report",
                                           .start_workspace = "big-co",
                                           .start_workflow = "alert"});
    end_one(scene, "pro-co", RECORD_COMPLETED);  /* pro */
    end_one(scene, "free-co", RECORD_COMPLETED); /* none */
    end_one(scene, "free-co", RECORD_FAILED);    /* failed */
    end_one(scene, "pro-co", RECORD_FAILED);     /* failed, pro */
    end_one(scene, "pro-co", RECORD_CANCELLED);  /* none */
    (void)scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "report"});
    struct claim_result claim = scene_claim(scene, 1);
    scene_complete(scene, &claim); /* report */
    struct hook_events events = read_events(scene);
    const char *expected[] = {"pro", "failed", "failed", "pro", "report"};
    assert_int_equal(events.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(events.events[i].hook, expected[i]);
    }
}

static void an_execution_that_a_hook_starts_makes_no_event(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("all");
    hook.start_workflow = "hello";
    set_hook(scene, &hook);
    end_one(scene, "pro-co", RECORD_FAILED); /* the same workflow, in another workspace */
    assert_int_equal(count_rows(scene), 1);
    end_one(scene, "big-co", RECORD_FAILED);
    end_one(scene, "big-co", RECORD_COMPLETED);
    act(scene, BULK_CANCEL, (struct execution_filter){.id = scene_enqueue(scene, "big-co")}, 1);
    assert_int_equal(count_rows(scene), 1);
}

static void an_event_names_its_execution(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("all");
    set_hook(scene, &hook);
    const char *id = scene_enqueue_request(
        scene, &(struct enqueue_request){.workspace = "pro-co",
                                         .workflow = "hello",
                                         .idempotency_key = "order \"1\"",
                                         .traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"});
    struct claimed_item item = scene_claim_one(scene);
    struct record record = scene_record_of(RECORD_FAILED, &item);
    record.error_code = "no_disk";
    record.error = "the \"disk\"\nis full";
    record.dispatched_first = true;
    scene_pass(scene, SECONDS(3));
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    struct hook_events events = read_events(scene);
    assert_true(events.has_events);
    assert_int_equal(events.count, 1);
    assert_string_equal(events.events[0].workspace, "big-co");
    assert_string_equal(events.events[0].workflow, "alert");
    assert_string_equal(events.events[0].hook, "all");
    assert_string_equal(events.events[0].traceparent, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    json_t *params = json_loads(events.events[0].params, 0, NULL);
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    static const char *const keys[] = {"id",    "workspace",  "workflow",    "status",          "error_code",
                                       "error", "created_at", "finished_at", "idempotency_key", "version"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_non_null(json_object_get(params, keys[i]));
        assert_true(json_equal(json_object_get(params, keys[i]), json_object_get(shown, keys[i])));
    }
    assert_string_equal(json_text_at(params, "hook"), "all");
    assert_string_equal(json_text_at(params, "error"), record.error);
    assert_true(json_is_null(json_object_get(params, "retry_of")));
    assert_int_equal(json_object_size(params), 12);
    json_decref(shown);
    json_decref(params);
}

/* --- the duty --- */

static void settle(struct scene *scene, const struct hook_event *event, const char *code)
{
    struct hook_outcome outcome = {
        .number = event->number, .hook_id = event->hook_id, .error_code = code, .error = code == NULL ? NULL : "why"};
    scene_ok(scene, store_settle_hook_events(scene->store, &outcome, 1, &scene->error));
}

static void a_settled_event_is_removed_and_a_refused_one_waits(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("all");
    struct hook_request other = hook_on_all("other");
    set_hook(scene, &hook);
    end_one(scene, "pro-co", RECORD_FAILED);
    end_one(scene, "pro-co", RECORD_FAILED);
    settle(scene, &read_events(scene).events[0], NULL);
    struct hook_events events = read_events(scene);
    assert_int_equal(events.count, 1);
    settle(scene, &events.events[0], "workflow_not_found");
    set_hook(scene, &other);
    end_one(scene, "pro-co", RECORD_FAILED);
    struct hook_events others = read_events(scene);
    assert_int_equal(others.count, 1); /* the first hook waits, and blocks no other one */
    assert_string_equal(others.events[0].hook, "other");
    json_t *row = row_of(scene, "all");
    assert_string_equal(json_text_at(row, "error_code"), "workflow_not_found");
    assert_string_equal(json_text_at(row, "error"), "why");
    assert_int_equal(json_number_at(row, "waiting"), 2);
    assert_int_equal(json_number_at(row, "dropped"), 0);
    json_decref(row);
    scene_pass(scene, HOOK_RETRY_US);
    assert_int_equal(read_events(scene).count, 3);
    settle(scene, &events.events[0], NULL);
    row = row_of(scene, "all");
    assert_true(json_is_null(json_object_get(row, "error_code")));
    assert_int_equal(json_number_at(row, "waiting"), 1);
    json_decref(row);
}

static void a_hook_with_mixed_outcomes_keeps_its_first_error(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("all");
    set_hook(scene, &hook);
    for (int i = 0; i < 4; i++) {
        end_one(scene, "pro-co", RECORD_FAILED);
    }
    struct hook_events events = read_events(scene);
    const char *const codes[] = {NULL, "workflow_disabled", "workflow_not_found", NULL};
    struct hook_outcome outcomes[4];
    assert_int_equal(events.count, 4);
    for (size_t i = 0; i < 4; i++) {
        outcomes[i] = (struct hook_outcome){.number = events.events[i].number,
                                            .hook_id = events.events[i].hook_id,
                                            .error_code = codes[i],
                                            .error = codes[i]};
    }
    scene_ok(scene, store_settle_hook_events(scene->store, outcomes, 4, &scene->error));
    json_t *row = row_of(scene, "all");
    assert_string_equal(json_text_at(row, "error_code"), "workflow_disabled");
    assert_int_equal(json_number_at(row, "waiting"), 2);
    json_decref(row);
    assert_int_equal(read_events(scene).count, 0); /* they wait */
}

static void a_dropped_event_is_removed_and_counted_once(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("all");
    set_hook(scene, &hook);
    end_one(scene, "pro-co", RECORD_FAILED);
    end_one(scene, "pro-co", RECORD_FAILED);
    struct hook_events events = read_events(scene);
    struct hook_outcome outcome = {
        .number = events.events[0].number, .hook_id = events.events[0].hook_id, .is_dropped = true};
    for (int i = 0; i < 2; i++) { /* two nodes at once */
        scene_ok(scene, store_settle_hook_events(scene->store, &outcome, 1, &scene->error));
    }
    json_t *row = row_of(scene, "all");
    assert_true(json_is_null(json_object_get(row, "error_code")));
    assert_int_equal(json_number_at(row, "waiting"), 1);
    assert_int_equal(json_number_at(row, "dropped"), 1);
    json_decref(row);
    assert_int_equal(read_events(scene).count, 1); /* the hook goes on */
}

static void an_event_shows_a_backlog_of_its_workspace(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("all");
    set_hook(scene, &hook);
    end_one(scene, "pro-co", RECORD_FAILED);
    json_decref(scene_rows(scene,
                           "INSERT INTO books (lane_id, workspace_id, group_id, runnable, waiting, parked)"
                           " SELECT n.n, (SELECT id FROM workspaces WHERE name = 'big-co'), 1, 5000, 2000, n.n + 2998"
                           " FROM (SELECT 1 AS n) n"));
    assert_false(read_events(scene).events[0].is_backlogged);
    json_decref(scene_rows(scene, "UPDATE books SET parked = parked + 1 WHERE lane_id = 1"));
    assert_true(read_events(scene).events[0].is_backlogged);
    json_decref(scene_rows(scene, "DELETE FROM books WHERE lane_id = 1")); /* the books are checked behind each test */
}

static void a_hook_of_a_deleted_workspace_is_listed_as_such(void **state)
{
    struct scene *scene = *state;
    struct deletion_result result;
    struct workspace_change again = {.name = "pro-co", .paused = -1, .create = true};
    struct hook_request of = hook_on_all("of");
    struct hook_request to = hook_on_all("to");
    struct hook_request other = hook_on_all("other");
    of.workspace = "pro-co";
    to.start_workspace = "pro-co";
    set_hook(scene, &of);
    set_hook(scene, &to);
    set_hook(scene, &other);
    scene_ok(scene,
             store_delete_workspace(scene->store, &(struct workspace_deletion){.name = "pro-co"}, &result, &scene->error));
    scene_ok(scene, store_set_workspace(scene->store, &again, &scene->error)); /* another one of the same name */
    set_hook(scene, &to);
    const char *const names[] = {"of", "to", "other"};
    for (size_t i = 0; i < 3; i++) {
        json_t *row = row_of(scene, names[i]);
        assert_int_equal(json_is_true(json_object_get(row, "workspace_deleted")), i == 0);
        assert_true(json_is_boolean(json_object_get(row, "workspace_deleted")));
        json_decref(row);
    }
    scene_ok(scene,
             store_delete_workspace(scene->store, &(struct workspace_deletion){.name = "pro-co"}, &result, &scene->error));
    json_t *row = row_of(scene, "to");
    assert_true(json_is_true(json_object_get(row, "workspace_deleted")));
    json_decref(row);
}

static void events_of_a_paused_hook_wait(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("all");
    set_hook(scene, &hook);
    scene_ok(scene, store_hook_pause(scene->store, "all", true, &scene->error));
    end_one(scene, "pro-co", RECORD_FAILED);
    assert_int_equal(read_events(scene).count, 0);
    set_hook(scene, &hook); /* stays paused */
    assert_int_equal(read_events(scene).count, 0);
    scene_ok(scene, store_hook_pause(scene->store, "all", false, &scene->error));
    assert_int_equal(read_events(scene).count, 1);
    scene_ok(scene, store_hook_delete(scene->store, "all", &scene->error));
    assert_false(read_events(scene).has_events);
}

static void a_call_reads_equal_shares_of_the_hooks(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("first");
    set_hook(scene, &hook);
    json_decref(scene_rows(scene,
                           "INSERT INTO hook_outbox (hook_id, execution_id, workspace_id, at, params)"
                           " WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1500)"
                           " SELECT (SELECT id FROM hooks), '00000000-0000-7000-8000-000000000000', 1, 1, '{}' FROM n"));
    assert_int_equal(read_events(scene).count, HOOK_EVENTS_READ_MOST);
    hook.name = "second";
    set_hook(scene, &hook);
    end_one(scene, "pro-co", RECORD_FAILED);
    struct hook_events events = read_events(scene);
    assert_int_equal(events.count, HOOK_EVENTS_READ_MOST / 2 + 1);
    assert_string_equal(events.events[HOOK_EVENTS_READ_MOST / 2].hook, "second");
}

static void old_and_superfluous_events_are_dropped_and_counted(void **state)
{
    struct scene *scene = *state;
    int64_t removed = -1;
    struct hook_request hook = hook_on_all("all");
    set_hook(scene, &hook);
    end_one(scene, "pro-co", RECORD_FAILED);
    scene_ok(scene, store_trim_hook_events(scene->store, &removed, &scene->error));
    assert_int_equal(removed, 0);
    scene_pass(scene, HOOK_EVENTS_KEEP_US + SECONDS(1));
    scene_ok(scene, store_trim_hook_events(scene->store, &removed, &scene->error));
    assert_int_equal(removed, 1);
    json_decref(scene_rows(scene, "INSERT INTO hook_outbox (hook_id, execution_id, workspace_id, at, params)"
                                  " WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10003)"
                                  " SELECT (SELECT id FROM hooks), '00000000-0000-7000-8000-000000000000', 1,"
                                  " 9000000000000000 + n, '{}' FROM n"));
    scene_ok(scene, store_trim_hook_events(scene->store, &removed, &scene->error));
    assert_int_equal(removed, 3);
    assert_int_equal(scene_number(scene, "SELECT min(at) FROM hook_outbox"), 9000000000000004);
    json_t *row = row_of(scene, "all");
    assert_int_equal(json_number_at(row, "dropped"), 4);
    assert_int_equal(json_number_at(row, "waiting"), HOOK_EVENTS_MOST);
    json_decref(row);
}

/* --- acts --- */

static void a_hook_is_listed_as_it_was_set_and_goes_on_record(void **state)
{
    struct scene *scene = *state;
    bool is_new = false;
    struct hook_request hook = hook_on_all("all");
    scene_ok(scene, store_act_as(scene->store, "ann", "try", &scene->error));
    scene_ok(scene, store_hook_set(scene->store, &hook, &is_new, &scene->error));
    assert_true(is_new);
    hook = (struct hook_request){.name = "all",
                                 .on = {ITEM_FAILED},
                                 .on_count = 1,
                                 .workspace = "pro-co",
                                 .workflow = "hello",
                                 .start_workspace = "free-co",
                                 .start_workflow = "mail"};
    scene_ok(scene, store_hook_set(scene->store, &hook, &is_new, &scene->error));
    assert_false(is_new);
    scene_ok(scene, store_hook_pause(scene->store, "all", true, &scene->error));
    json_t *row = row_of(scene, "all");
    assert_int_equal(json_array_size(json_object_get(row, "on")), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(row, "on"), 0)), "FAILED");
    assert_string_equal(json_text_at(row, "workspace"), "pro-co");
    assert_string_equal(json_text_at(row, "workflow"), "hello");
    assert_string_equal(json_text_at(row, "start_workspace"), "free-co");
    assert_string_equal(json_text_at(row, "start_workflow"), "mail");
    assert_true(json_is_true(json_object_get(row, "paused")));
    json_decref(row);
    scene_ok(scene, store_hook_pause(scene->store, "all", false, &scene->error));
    scene_ok(scene, store_hook_delete(scene->store, "all", &scene->error));
    json_t *acts = scene_rows(scene, "SELECT act, actor, subject, reason FROM audit ORDER BY seq");
    static const char *const expected[] = {"hook set", "hook set", "hook pause", "hook resume", "hook delete"};
    assert_int_equal(json_array_size(acts), 5);
    for (size_t i = 0; i < 5; i++) {
        const json_t *act = json_array_get(acts, i);
        assert_string_equal(json_text_at(act, "act"), expected[i]);
        assert_string_equal(json_text_at(act, "actor"), "ann");
        assert_string_equal(json_text_at(act, "subject"), "all");
        assert_string_equal(json_text_at(act, "reason"), "try");
    }
    json_decref(acts);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE before IS NULL"), 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE after IS NULL"), 1);
}

static void a_refused_hook_changes_nothing(void **state)
{
    struct scene *scene = *state;
    struct hook_request hook = hook_on_all("all");
    hook.start_workspace = "big-cp";
    assert_int_equal(store_hook_set(scene->store, &hook, NULL, &scene->error), WEIR_WORKSPACE_NOT_FOUND);
    assert_non_null(strstr(scene->error.hint, "big-co"));
    hook = hook_on_all("all");
    hook.workspace = "nobody";
    assert_int_equal(store_hook_set(scene->store, &hook, NULL, &scene->error), WEIR_WORKSPACE_NOT_FOUND);
    hook = hook_on_all("All");
    assert_int_equal(store_hook_set(scene->store, &hook, NULL, &scene->error), WEIR_INVALID_ARGUMENT);
    hook = hook_on_all("all");
    hook.on[1] = ITEM_COMPLETED;
    assert_int_equal(store_hook_set(scene->store, &hook, NULL, &scene->error), WEIR_INVALID_ARGUMENT);
    hook.on[1] = ITEM_PENDING;
    assert_int_equal(store_hook_set(scene->store, &hook, NULL, &scene->error), WEIR_INVALID_ARGUMENT);
    hook.on_count = 0;
    assert_int_equal(store_hook_set(scene->store, &hook, NULL, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(store_hook_pause(scene->store, "all", true, &scene->error), WEIR_NOT_FOUND);
    assert_int_equal(store_hook_delete(scene->store, "all", &scene->error), WEIR_NOT_FOUND);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM hooks"), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act LIKE 'hook%%'"), 0);
}

static void a_store_has_a_bounded_number_of_hooks(void **state)
{
    struct scene *scene = *state;
    char name[16];
    for (int i = 0; i < HOOKS_MOST; i++) {
        (void)snprintf(name, sizeof name, "hook-%d", i);
        struct hook_request hook = hook_on_all(name);
        set_hook(scene, &hook);
    }
    struct hook_request hook = hook_on_all("one-more");
    assert_int_equal(store_hook_set(scene->store, &hook, NULL, &scene->error), WEIR_ILLEGAL_STATE);
    hook.name = "hook-7";
    set_hook(scene, &hook);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM hooks"), HOOKS_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(without_a_hook_nothing_is_written),
        SCENE_TEST(every_recorded_end_makes_one_event),
        SCENE_TEST(a_cancel_makes_one_event_when_it_ends_the_execution),
        SCENE_TEST(a_put_back_and_a_retry_make_no_event),
        SCENE_TEST(a_deleted_workspace_has_events_of_its_waiting_executions),
        SCENE_TEST(an_execution_without_a_workspace_has_an_event),
        SCENE_TEST(poison_makes_one_event),
        SCENE_TEST(a_hook_takes_only_what_fits),
        SCENE_TEST(an_execution_that_a_hook_starts_makes_no_event),
        SCENE_TEST(an_event_names_its_execution),
        SCENE_TEST(a_settled_event_is_removed_and_a_refused_one_waits),
        SCENE_TEST(a_hook_with_mixed_outcomes_keeps_its_first_error),
        SCENE_TEST(a_dropped_event_is_removed_and_counted_once),
        SCENE_TEST(an_event_shows_a_backlog_of_its_workspace),
        SCENE_TEST(a_hook_of_a_deleted_workspace_is_listed_as_such),
        SCENE_TEST(events_of_a_paused_hook_wait),
        SCENE_TEST(a_call_reads_equal_shares_of_the_hooks),
        SCENE_TEST(old_and_superfluous_events_are_dropped_and_counted),
        SCENE_TEST(a_hook_is_listed_as_it_was_set_and_goes_on_record),
        SCENE_TEST(a_refused_hook_changes_nothing),
        SCENE_TEST(a_store_has_a_bounded_number_of_hooks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
