/* States: one record saves state, variables, action and plans; a person moves what no node holds. */
#include "base/json.h"
#include "conformance/scene.h"

#define STATES_TEST(name) cmocka_unit_test_setup_teardown(name, open_states, scene_close)

static const char definition[] =
    "{\"name\":\"credit\",\"states\":{\"request\":{\"type\":\"normal\"},\"review\":{\"type\":\"manual\"},"
    "\"grant\":{\"type\":\"normal\"},\"done\":{\"type\":\"end\"}},\"initial\":\"request\","
    "\"variables\":{\"limit\":{\"type\":\"integer\",\"initial\":10},\"owner\":{\"type\":\"string\"},"
    "\"any\":{\"type\":\"any\"}},\"signals\":[\"paid\"]}";

static int open_states(void **state)
{
    int failed = scene_open(state);
    struct scene *scene = *state;
    struct published published = {0};
    if (failed == 0) {
        scene_ok(scene, store_publish(scene->store, "credit", NULL, definition, NULL, &published, &scene->error));
    }
    return failed;
}

static const char *enqueue_credit(struct scene *scene)
{
    return scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "credit"});
}

static struct claimed_item claim_dispatched(struct scene *scene)
{
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    return item;
}

/* The record borrows the texts. */
static struct step_record machine_step(int attempt, const char *variables, const char *action)
{
    struct step_record step = {.state = STEP_WAITING,
                               .attempt = attempt,
                               .exit_code = -1,
                               .variables = (char *)(uintptr_t)variables,
                               .action = (char *)(uintptr_t)action};
    text_copy(step.step, sizeof step.step, "state");
    return step;
}

static enum weir_status record_machine(struct scene *scene, const struct claimed_item *item, const struct step_record *step)
{
    struct record record = scene_record_of(RECORD_STEP, item);
    record.step = step;
    return scene_record_full(scene, scene->node, record);
}

#define IN_REVIEW "{\"state\":\"review\",\"variables\":{\"limit\":20}}"
#define TO_REVIEW                                                                                                          \
    "{\"action\":1,\"state\":\"request\",\"outcome\":\"next\",\"next\":\"review\",\"code\":null,\"error\":null,\"ran_"     \
    "us\":5,"                                                                                                              \
    "\"variables\":{\"limit\":20}}"

static void park_as(struct scene *scene, const struct claimed_item *item, enum wait_kind kind)
{
    struct record parked = scene_record_of(RECORD_PARKED, item);
    parked.delay_us = TIME_NEVER;
    parked.waiting_for = kind;
    parked.signals_seen = item->signals_seen;
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
}

/* A new execution that waits for a person. */
static struct claimed_item begin_review(struct scene *scene)
{
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    struct step_record step = machine_step(1, IN_REVIEW, TO_REVIEW);
    step.due_in_us = TIME_NEVER;
    text_copy(step.signal, sizeof step.signal, "manual:state");
    assert_int_equal(record_machine(scene, &item, &step), WEIR_OK);
    park_as(scene, &item, WAIT_MANUAL);
    return item;
}

static json_t *show(struct scene *scene, const char *id)
{
    json_t *execution = NULL;
    scene_ok(scene, store_show(scene->store, id, &execution, &scene->error));
    return execution;
}

static void assert_json(const json_t *value, const char *expected)
{
    char *text = value == NULL ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
    assert_string_equal(text == NULL ? "nothing" : text, expected);
    free(text);
}

static void update_ok(struct scene *scene, const char *id, const char *to, const char *variables)
{
    struct updated_state updated = {.action = 0};
    const struct state_update update = {.state = to, .variables = variables};
    scene_ok(scene, store_update_state(scene->store, id, &update, &updated, &scene->error));
    assert_string_equal(updated.id, id);
    assert_true(updated.action > 0);
}

static void refuse_update(struct scene *scene, const char *id, const char *to, const char *variables,
                          enum weir_status expected, const char *words)
{
    struct updated_state updated = {.action = 0};
    const struct state_update update = {.state = to, .variables = variables};
    assert_int_equal(store_update_state(scene->store, id, &update, &updated, &scene->error), expected);
    if (strstr(scene->error.message, words) == NULL) {
        fail_msg("\"%s\" has not the words \"%s\"", scene->error.message, words);
    }
}

/* --- records --- */

static void a_record_saves_state_variables_and_action(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = begin_review(scene);
    json_t *shown = show(scene, item.id);
    assert_json(json_object_get(shown, "state"), "\"review\"");
    assert_json(json_object_get(shown, "variables"), "{\"limit\":20}");
    assert_json(json_object_get(shown, "failure"), "null");
    assert_json(json_object_get(shown, "waiting_for"), "\"manual\"");
    assert_json(json_object_get(shown, "earlier_actions"), "0");
    const json_t *action = json_array_get(json_object_get(shown, "actions"), 0);
    assert_int_equal(json_array_size(json_object_get(shown, "actions")), 1);
    assert_int_equal(json_number_at(action, "seq"), 1);
    assert_string_equal(json_text_at(action, "state"), "request");
    assert_string_equal(json_text_at(action, "next_state"), "review");
    assert_string_equal(json_text_at(action, "outcome"), "next");
    assert_string_equal(json_text_at(action, "node"), "node-1");
    assert_json(json_object_get(action, "variables"), "{\"limit\":20}");
    json_decref(shown);
}

static void the_same_record_again_adds_no_action(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    struct step_record step = machine_step(1, IN_REVIEW, TO_REVIEW);
    assert_int_equal(record_machine(scene, &item, &step), WEIR_OK);
    assert_int_equal(record_machine(scene, &item, &step), WEIR_OK);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_actions"), 1);
}

static void a_stale_fence_saves_nothing(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    struct step_record step = machine_step(1, IN_REVIEW, TO_REVIEW);
    item.fence--;
    assert_int_equal(record_machine(scene, &item, &step), WEIR_STALE_FENCE);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_actions"), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_node_executions"), 0);
}

/* The record of a node that has lost the execution, while the next one has it. */
static void after_a_handover_the_former_node_saves_nothing(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    struct step_record step = machine_step(1, IN_REVIEW, TO_REVIEW);
    int64_t other = scene_add_node(scene, "node-2", "default");
    struct recover_result recovered = {0};
    scene_pass(scene, SCENE_LEASE_US + SECONDS(1));
    scene_beat(scene, other);
    scene_recover(scene, &(struct recover_options){.limit = 10}, &recovered);
    struct claim_result claim = scene_claim_as(scene, other, "default", 1);
    assert_int_equal(claim.count, 1);
    assert_int_equal(record_machine(scene, &item, &step), WEIR_STALE_FENCE);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_actions"), 0);
    struct record record = scene_record_of(RECORD_STEP, &claim.items[0]);
    record.step = &step;
    assert_int_equal(scene_record_full(scene, other, record), WEIR_OK);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_actions"), 1);
}

static void end_with_machine(struct scene *scene, const struct claimed_item *item, int attempt, const char *action)
{
    struct step_record step = machine_step(attempt, "{\"state\":\"done\",\"variables\":{\"limit\":30}}", action);
    step.state = STEP_COMPLETED;
    struct record record = scene_record_of(RECORD_COMPLETED, item);
    record.step = &step;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
}

static void an_end_saves_its_action_too(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item first = claim_dispatched(scene);
    end_with_machine(scene, &first, 1, TO_REVIEW); /* its step is in the history row */
    (void)enqueue_credit(scene);
    struct claimed_item second = claim_dispatched(scene);
    struct step_record step = machine_step(1, IN_REVIEW, TO_REVIEW);
    assert_int_equal(record_machine(scene, &second, &step), WEIR_OK);
    end_with_machine(scene, &second, 2,
                     "{\"action\":2,\"state\":\"review\",\"outcome\":\"done\",\"next\":null,\"code\":null,\"error\":null,"
                     "\"ran_us\":0}");
    json_t *shown = show(scene, first.id);
    assert_json(json_object_get(shown, "state"), "\"done\"");
    assert_json(json_object_get(shown, "variables"), "{\"limit\":30}");
    assert_int_equal(json_array_size(json_object_get(shown, "actions")), 1);
    json_decref(shown);
    shown = show(scene, second.id);
    assert_json(json_object_get(shown, "state"), "\"done\"");
    assert_int_equal(json_array_size(json_object_get(shown, "actions")), 2);
    json_decref(shown);
    refuse_update(scene, second.id, "review", NULL, WEIR_ILLEGAL_STATE, "it has ended and takes no update");
}

static void record_numbered(struct scene *scene, const struct claimed_item *item, int number)
{
    char action[200];
    (void)snprintf(action, sizeof action,
                   "{\"action\":%d,\"state\":\"request\",\"outcome\":\"next\",\"next\":\"request\",\"code\":null,"
                   "\"error\":null,\"ran_us\":0}",
                   number);
    struct step_record step = machine_step(number, IN_REVIEW, action);
    assert_int_equal(record_machine(scene, item, &step), WEIR_OK);
}

static void the_history_is_bounded_and_has_pages(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    static const int numbers[] = {1, 2, 3, 4, 5, ACTIONS_KEPT_MOST + 2};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        record_numbered(scene, &item, numbers[i]);
    }
    assert_int_equal(scene_number(scene, "SELECT min(action) FROM workflow_actions"), 3);
    struct list_options options = {.kind = LIST_ACTIONS, .filter = {.id = item.id}, .limit = 2};
    json_t *page = NULL;
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_array_size(json_object_get(page, "items")), 2);
    assert_string_equal(json_text_at(page, "next_cursor"), "4");
    json_t *next = NULL;
    options.cursor = json_text_at(page, "next_cursor");
    scene_ok(scene, store_list(scene->store, &options, &next, &scene->error));
    assert_int_equal(json_array_size(json_object_get(next, "items")), 2);
    assert_json(json_object_get(next, "next_cursor"), "null");
    json_decref(page);
    json_decref(next);
}

static void show_has_the_last_actions(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    for (int i = 1; i <= SHOW_ACTIONS_MOST + 2; i++) {
        record_numbered(scene, &item, i);
    }
    json_t *shown = show(scene, item.id);
    assert_int_equal(json_array_size(json_object_get(shown, "actions")), SHOW_ACTIONS_MOST);
    assert_int_equal(json_number_at(shown, "earlier_actions"), 2);
    assert_int_equal(json_number_at(json_array_get(json_object_get(shown, "actions"), 0), "seq"), 3);
    json_decref(shown);
}

static void a_purge_removes_the_actions(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    end_with_machine(scene, &item, 1, TO_REVIEW);
    struct bulk_result result = {0};
    const struct execution_filter filter = {.id = item.id};
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_actions"), 0);
}

/* --- children --- */

static struct children_advance advance_all(struct scene *scene)
{
    struct children_advance all = {.started = 0};
    struct children_advance part = {.again = true};
    while (part.again) {
        part = (struct children_advance){.again = false};
        scene_ok(scene, store_advance_children(scene->store, &part, &scene->error));
        all.started += part.started;
        all.settled += part.settled;
    }
    return all;
}

#define WITH_PLANS                                                                                                         \
    "{\"action\":1,\"state\":\"request\",\"outcome\":\"wait\",\"next\":\"grant\",\"code\":null,\"error\":null,\"ran_us\":" \
    "0,"                                                                                                                   \
    "\"plans\":[{\"workflow\":\"hello\",\"executor_group\":null,\"priority\":null,\"is_single\":0,\"waits_for_all\":0,"    \
    "\"wanted\":0,\"max_parallel\":1,\"leaves\":1,\"children\":[{\"mail\":1}]},"                                           \
    "{\"workflow\":\"hello\",\"executor_group\":null,\"priority\":null,\"is_single\":0,\"waits_for_all\":1,\"wanted\":1,"  \
    "\"max_parallel\":1,\"leaves\":0,\"children\":[{\"part\":1}]}]}"
#define IN_GRANT "{\"state\":\"grant\",\"variables\":{\"limit\":10}}"

static void children_start_once_with_the_record(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    struct step_record step = machine_step(1, IN_GRANT, WITH_PLANS);
    step.due_in_us = TIME_NEVER;
    text_copy(step.signal, sizeof step.signal, "children:state.1.1");
    assert_int_equal(record_machine(scene, &item, &step), WEIR_OK);
    assert_int_equal(record_machine(scene, &item, &step), WEIR_OK);
    park_as(scene, &item, WAIT_CHILD);
    assert_int_equal(advance_all(scene).started, 2);
    assert_int_equal(advance_all(scene).started, 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue"), 3);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals"), 0); /* nothing waits for the mail */
    for (int i = 0; i < 2; i++) {
        struct claim_result claim = scene_claim(scene, 1);
        assert_int_equal(claim.count, 1);
        scene_complete(scene, &claim);
    }
    assert_int_equal(advance_all(scene).settled, 1);
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.id, item.id);
    assert_int_equal(again.signal_count, 1);
    assert_string_equal(again.signals[0].name, "children:state.1.1");
    assert_string_equal(again.steps[0].variables, IN_GRANT);
}

/* The wait has ended by its time before the children did. */
static void children_that_no_state_awaits_send_no_signal(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    struct step_record step = machine_step(1, IN_GRANT, WITH_PLANS);
    step.due_in_us = TIME_NEVER;
    text_copy(step.signal, sizeof step.signal, "children:state.1.1");
    assert_int_equal(record_machine(scene, &item, &step), WEIR_OK);
    park_as(scene, &item, WAIT_CHILD);
    assert_int_equal(advance_all(scene).started, 2);
    update_ok(scene, item.id, "review", NULL);
    for (int i = 0; i < 2; i++) {
        struct claim_result claim = scene_claim(scene, 1);
        assert_int_equal(claim.count, 1);
        scene_complete(scene, &claim);
    }
    (void)advance_all(scene);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals"), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM child_steps WHERE NOT is_settled"), 0);
}

/* Without the signal the state would wait for ever. */
static void a_plan_that_cannot_be_read_ends_the_wait(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    struct step_record step = machine_step(
        1, IN_GRANT,
        "{\"action\":1,\"state\":\"request\",\"outcome\":\"wait\",\"next\":\"grant\",\"ran_us\":0,\"plans\":[{\"workflow\":"
        "\"hello\","
        "\"waits_for_all\":1,\"wanted\":1,\"max_parallel\":1,\"leaves\":0,\"is_single\":0,\"children\":null}]}");
    step.due_in_us = TIME_NEVER;
    text_copy(step.signal, sizeof step.signal, "children:state.1.0");
    assert_int_equal(record_machine(scene, &item, &step), WEIR_OK);
    park_as(scene, &item, WAIT_CHILD);
    assert_int_equal(advance_all(scene).settled, 1);
    struct claimed_item again = scene_claim_one(scene);
    assert_int_equal(again.signal_count, 1);
    assert_non_null(strstr(again.signals[0].data, "children_invalid"));
}

static void record_with_plans(struct scene *scene, const struct claimed_item *item, int number)
{
    char action[600];
    (void)snprintf(
        action, sizeof action,
        "{\"action\":%d,\"state\":\"grant\",\"outcome\":\"next\",\"next\":\"grant\",\"ran_us\":0,\"plans\":[{\"workflow\":"
        "\"hello\",\"waits_for_all\":0,\"wanted\":0,\"max_parallel\":1,\"leaves\":1,\"is_single\":0,\"children\":[{}]}]}",
        number);
    struct step_record step = machine_step(number, IN_GRANT, action);
    assert_int_equal(record_machine(scene, item, &step), WEIR_OK);
    (void)advance_all(scene);
}

static void children_of_old_actions_go(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    record_with_plans(scene, &item, 1);
    record_with_plans(scene, &item, 2);
    record_with_plans(scene, &item, ACTIONS_KEPT_MOST + 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM child_steps"), 2);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM children WHERE step = 'state.1.0'"), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue"), 4); /* they live on */
}

static void children_of_the_last_action_start_behind_the_end(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    end_with_machine(scene, &item, 1, WITH_PLANS);
    assert_int_equal(advance_all(scene).started, 1); /* the other one would have ended with its parent */
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue"), 1);
}

/* --- updates --- */

static void an_update_moves_a_parked_execution(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = begin_review(scene);
    update_ok(scene, item.id, "grant", "{\"owner\":\"eve\"}");
    assert_string_equal(scene_status_of(scene, item.id), "PENDING");
    json_t *shown = show(scene, item.id);
    assert_json(json_object_get(shown, "state"), "\"grant\"");
    assert_json(json_object_get(shown, "variables"), "{\"limit\":20,\"owner\":\"eve\"}");
    const json_t *action = json_array_get(json_object_get(shown, "actions"), 1);
    assert_string_equal(json_text_at(action, "outcome"), "update");
    assert_string_equal(json_text_at(action, "state"), "review");
    assert_string_equal(json_text_at(action, "next_state"), "grant");
    assert_string_equal(json_text_at(action, "actor"), "ann");
    assert_json(json_object_get(action, "variables"), "{\"owner\":\"eve\"}");
    json_decref(shown);
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.id, item.id);
    assert_int_equal(again.step_count, 1);
    assert_int_equal(again.steps[0].attempt, 2);
    assert_int_equal(again.steps[0].state, STEP_WAITING);
    assert_string_equal(again.steps[0].signal, "");
    assert_non_null(strstr(again.steps[0].variables, "\"eve\""));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'update'"), 1);
    scene_assert_events(scene, item.id, "enqueue claim dispatch step_start park update wake claim");
}

static void variables_alone_leave_the_wait(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = begin_review(scene);
    update_ok(scene, item.id, NULL, "{\"limit\":5}");
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
    json_t *shown = show(scene, item.id);
    assert_json(json_object_get(shown, "state"), "\"review\"");
    assert_json(json_object_get(shown, "waiting_for"), "\"manual\"");
    assert_json(json_object_get(shown, "variables"), "{\"limit\":5}");
    json_decref(shown);
}

static void a_manual_state_keeps_it_parked(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    struct step_record step = machine_step(1, IN_GRANT, TO_REVIEW);
    step.due_in_us = SECONDS(3600);
    assert_int_equal(record_machine(scene, &item, &step), WEIR_OK);
    struct record parked = scene_record_of(RECORD_PARKED, &item);
    parked.delay_us = SECONDS(3600);
    parked.waiting_for = WAIT_SLEEP;
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
    update_ok(scene, item.id, "review", NULL);
    assert_string_equal(scene_text(scene, "SELECT waiting_for FROM executions WHERE id = '%s'", item.id), "manual");
    scene_pass(scene, SECONDS(7200));
    scene_beat(scene, scene->node);
    assert_int_equal(scene_claim(scene, 1).count, 0);
    update_ok(scene, item.id, "done", NULL);
    assert_int_equal(scene_claim(scene, 1).count, 1);
}

static void an_update_before_the_first_claim_counts(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_credit(scene);
    update_ok(scene, id, NULL, "{\"limit\":7}");
    assert_int_equal(scene_number(scene, "SELECT fence FROM workflow_node_executions WHERE execution_id = '%s'", id), 0);
    update_ok(scene, id, "grant", NULL);
    json_t *shown = show(scene, id);
    assert_json(json_object_get(shown, "state"), "\"grant\"");
    assert_json(json_object_get(shown, "variables"), "{\"limit\":7}");
    json_decref(shown);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(item.step_count, 1);
    assert_int_equal(item.steps[0].attempt, 2);
}

/* Two persons decide, or one request is sent twice. */
static void an_update_of_another_state_is_refused(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_credit(scene);
    struct updated_state updated = {.action = 0};
    const struct state_update first = {.state = "grant", .variables = "{\"limit\":7}", .if_state = "request"};
    const struct state_update odd = {.state = "grant", .if_state = "No State"};
    scene_ok(scene, store_update_state(scene->store, id, &first, &updated, &scene->error));
    assert_int_equal(store_update_state(scene->store, id, &first, &updated, &scene->error), WEIR_CONFLICT);
    assert_non_null(strstr(scene->error.message, "is in the state \"grant\""));
    assert_int_equal(store_update_state(scene->store, id, &odd, &updated, &scene->error), WEIR_INVALID_ARGUMENT);
    const struct state_update values = {.variables = "{\"limit\":8}", .if_state = "grant"};
    scene_ok(scene, store_update_state(scene->store, id, &values, &updated, &scene->error));
    json_t *shown = show(scene, id);
    assert_json(json_object_get(shown, "variables"), "{\"limit\":8}");
    json_decref(shown);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_actions"), 2);
}

static void a_held_execution_is_left_to_its_handler(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    refuse_update(scene, id, "review", NULL, WEIR_CONFLICT, "a node holds execution");
    struct step_record step = machine_step(1, IN_REVIEW, TO_REVIEW);
    assert_int_equal(record_machine(scene, &item, &step), WEIR_OK);
    refuse_update(scene, id, "review", NULL, WEIR_CONFLICT, "a node holds execution");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_actions"), 1);
}

static void an_update_has_the_names_and_types_of_the_definition(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = begin_review(scene);
    const char *hello = scene_enqueue(scene, "pro-co");
    refuse_update(scene, item.id, NULL, NULL, WEIR_INVALID_ARGUMENT, "needs a state or variables");
    refuse_update(scene, item.id, "nowhere", NULL, WEIR_INVALID_ARGUMENT, "has no state \"nowhere\"");
    assert_non_null(strstr(scene->error.hint, "request, review, grant, done"));
    refuse_update(scene, item.id, "No State", NULL, WEIR_INVALID_ARGUMENT, "is not the name of a state");
    refuse_update(scene, item.id, "grant", "{\"other\":1}", WEIR_INVALID_ARGUMENT, "has no variable \"other\"");
    refuse_update(scene, item.id, "grant", "{\"limit\":\"1\"}", WEIR_INVALID_ARGUMENT, "must be of the type integer");
    refuse_update(scene, item.id, "grant", "{\"limit\":1.5}", WEIR_INVALID_ARGUMENT, "must be of the type integer");
    refuse_update(scene, item.id, "grant", "[1]", WEIR_INVALID_ARGUMENT, "must be a JSON object");
    refuse_update(scene, item.id, "grant", "{", WEIR_INVALID_ARGUMENT, "");
    refuse_update(scene, hello, "grant", NULL, WEIR_ILLEGAL_STATE, "has no states");
    refuse_update(scene, "00000000-0000-7000-8000-000000000000", "grant", NULL, WEIR_EXECUTION_NOT_FOUND, "");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_actions"), 1);
    update_ok(scene, item.id, NULL, "{\"any\":[1,{\"a\":\"\\u00e4\\\"'\"}],\"limit\":null}");
}

/* {"NAME":"0123..."} of so many bytes in the text. */
static char *variable_of(const char *name, int bytes)
{
    char *text = malloc((size_t)bytes + 100);
    assert_non_null(text);
    int head = snprintf(text, 100, "{\"%s\":\"", name);
    memset(text + head, 'x', (size_t)bytes);
    memcpy(text + head + bytes, "\"}", 3);
    return text;
}

static void variables_are_bounded(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = begin_review(scene);
    char *large = variable_of("any", STATE_VARIABLE_BYTES_MAX);
    refuse_update(scene, item.id, NULL, large, WEIR_INVALID_ARGUMENT, "too long");
    free(large);
}

/* Each is short enough, and a node could not write all of them again. */
static void all_variables_are_bounded(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct scene *scene = *state;
    struct published published = {0};
    scene_ok(
        scene,
        store_publish(scene->store, "many", NULL,
                      "{\"name\":\"many\",\"states\":{\"wait\":{\"type\":\"manual\"}},\"initial\":\"wait\",\"variables\":{"
                      "\"a\":{\"type\":\"any\"},\"b\":{\"type\":\"any\"},\"c\":{\"type\":\"any\"},\"d\":{\"type\":\"any\"},"
                      "\"e\":{\"type\":\"any\"}}}",
                      NULL, &published, &scene->error));
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "many"});
    for (int i = 0; i < 5; i++) {
        char *text = variable_of(names[i], 32700);
        if (i < 4) {
            update_ok(scene, id, NULL, text);
        } else {
            refuse_update(scene, id, NULL, text, WEIR_INVALID_ARGUMENT, "too long");
        }
        free(text);
    }
}

/* A node must be able to read what an update leaves. */
static void values_stay_as_they_were_written(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    struct step_record step =
        machine_step(1, "{\"state\":\"review\",\"variables\":{\"limit\":20,\"any\":[1e20,1.50,{}]}}", TO_REVIEW);
    step.due_in_us = TIME_NEVER;
    text_copy(step.signal, sizeof step.signal, "manual:state");
    assert_int_equal(record_machine(scene, &item, &step), WEIR_OK);
    park_as(scene, &item, WAIT_MANUAL);
    refuse_update(scene, item.id, "grant", "{\"limit\":1e20}", WEIR_INVALID_ARGUMENT, "must be of the type integer");
    refuse_update(scene, item.id, "grant", "{\"owner\":\"a\\u0000b\"}", WEIR_INVALID_ARGUMENT, "the character U+0000");
    update_ok(scene, item.id, "grant", "{\"owner\":\"\\u00e4\"}");
    json_t *shown = show(scene, item.id);
    assert_json(json_object_get(json_object_get(shown, "variables"), "any"), "[1e20,1.5,{}]");
    json_decref(shown);
    struct claimed_item again = scene_claim_one(scene);
    json_t *machine = NULL;
    scene_ok(scene, json_read(again.steps[0].variables, strlen(again.steps[0].variables), &machine, &scene->error));
    assert_json(json_object_get(machine, "state"), "\"grant\"");
    json_decref(machine);
}

/* The wake names the attempt that waits, and each wait is woken once. */
static void a_wake_outlives_an_update_of_variables(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    struct step_record step = machine_step(1, IN_GRANT, TO_REVIEW);
    struct bulk_result result = {0};
    step.due_in_us = SECONDS(3600);
    assert_int_equal(record_machine(scene, &item, &step), WEIR_OK);
    struct record parked = scene_record_of(RECORD_PARKED, &item);
    parked.delay_us = SECONDS(3600);
    parked.waiting_for = WAIT_SLEEP;
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
    const struct execution_filter filter = {.id = item.id};
    scene_ok(scene, store_bulk(scene->store, BULK_WAKE, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    update_ok(scene, item.id, NULL, "{\"limit\":6}");
    struct claimed_item again = scene_claim_one(scene);
    char attempt[16];
    (void)snprintf(attempt, sizeof attempt, "%d", again.steps[0].attempt);
    assert_int_equal(again.steps[0].attempt, 2);
    assert_int_equal(again.signal_count, 1);
    assert_string_equal(again.signals[0].name, "wake:state");
    assert_string_equal(again.signals[0].data, attempt);
}

/* A node alone knows when the execution times out. */
static void a_manual_state_of_an_execution_with_a_timeout_is_parked_by_a_node(void **state)
{
    struct scene *scene = *state;
    struct published published = {0};
    scene_ok(scene,
             store_publish(scene->store, "credit", NULL,
                           "{\"name\":\"credit\",\"timeout\":\"1h\",\"states\":{\"request\":{\"type\":\"normal\"},"
                           "\"review\":{\"type\":\"manual\"}},\"initial\":\"request\",\"variables\":{\"limit\":{\"type\":"
                           "\"integer\"}}}",
                           NULL, &published, &scene->error));
    struct claimed_item item = begin_review(scene);
    update_ok(scene, item.id, "review", NULL);
    assert_string_equal(scene_status_of(scene, item.id), "PENDING");
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.steps[0].signal, "manual:state");
}

/* --- signals --- */

/* A new execution in grant, which waits for "paid". */
static struct claimed_item begin_grant(struct scene *scene)
{
    (void)enqueue_credit(scene);
    struct claimed_item item = claim_dispatched(scene);
    struct step_record step = machine_step(1, IN_GRANT, TO_REVIEW);
    step.due_in_us = TIME_NEVER;
    text_copy(step.signal, sizeof step.signal, "paid");
    assert_int_equal(record_machine(scene, &item, &step), WEIR_OK);
    return item;
}

#define FROM_GRANT "{\"action\":2,\"state\":\"grant\",\"outcome\":\"next\",\"next\":\"review\",\"ran_us\":0}"

static void a_listed_signal_wakes_the_state_that_waits(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = begin_grant(scene);
    struct sent_signal sent = {.seq = 0};
    park_as(scene, &item, WAIT_SIGNAL);
    struct signal_request request = {.id = item.id, .name = "other", .data = "1"};
    assert_int_equal(store_signal(scene->store, &request, &sent, &scene->error), WEIR_INVALID_ARGUMENT);
    request.name = "paid";
    scene_ok(scene, store_signal(scene->store, &request, &sent, &scene->error));
    struct claimed_item again = claim_dispatched(scene);
    struct step_record next = machine_step(2, IN_REVIEW, FROM_GRANT);
    next.signal_seq = 1;
    assert_int_equal(record_machine(scene, &again, &next), WEIR_OK);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals WHERE consumed_at IS NOT NULL"), 1);
}

/* The answer of a state that a signal has woken, and the begin of the next state before it is on record. */
static void a_signal_is_consumed_though_the_next_state_begins_in_the_same_set(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = begin_grant(scene);
    struct sent_signal sent = {.seq = 0};
    const struct signal_request request = {.id = item.id, .name = "paid", .data = "1"};
    scene_ok(scene, store_signal(scene->store, &request, &sent, &scene->error));
    struct step_record answer = machine_step(2, IN_REVIEW, FROM_GRANT);
    answer.signal_seq = sent.seq;
    struct step_record begin = machine_step(3, IN_REVIEW, NULL);
    begin.state = STEP_RUNNING;
    struct record records[] = {scene_record_of(RECORD_STEP, &item), scene_record_of(RECORD_STEP, &item)};
    records[0].step = &answer;
    records[1].step = &begin;
    struct record_summary summary;
    scene_ok(scene, store_record(scene->store, scene->node, records, 2, &summary, &scene->error));
    assert_int_equal(summary.changed, 2);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals WHERE consumed_at IS NOT NULL"), 1);
}

static void a_wake_does_not_end_a_manual_state(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = begin_review(scene);
    struct bulk_result result = {0};
    const struct execution_filter filter = {.id = item.id};
    scene_ok(scene, store_bulk(scene->store, BULK_WAKE, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.refused, 1);
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
}

static void why_names_the_state(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = begin_review(scene);
    json_t *why = NULL;
    scene_ok(scene, store_why(scene->store, item.id, &why, &scene->error));
    assert_non_null(strstr(json_text_at(why, "because"), "waits for a person"));
    const json_t *step = json_array_get(json_object_get(why, "unfinished_steps"), 0);
    assert_string_equal(json_text_at(step, "state"), "review");
    json_decref(why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STATES_TEST(a_record_saves_state_variables_and_action),
        STATES_TEST(the_same_record_again_adds_no_action),
        STATES_TEST(a_stale_fence_saves_nothing),
        STATES_TEST(after_a_handover_the_former_node_saves_nothing),
        STATES_TEST(an_end_saves_its_action_too),
        STATES_TEST(the_history_is_bounded_and_has_pages),
        STATES_TEST(show_has_the_last_actions),
        STATES_TEST(a_purge_removes_the_actions),
        STATES_TEST(children_start_once_with_the_record),
        STATES_TEST(children_that_no_state_awaits_send_no_signal),
        STATES_TEST(a_plan_that_cannot_be_read_ends_the_wait),
        STATES_TEST(children_of_old_actions_go),
        STATES_TEST(children_of_the_last_action_start_behind_the_end),
        STATES_TEST(an_update_moves_a_parked_execution),
        STATES_TEST(variables_alone_leave_the_wait),
        STATES_TEST(a_manual_state_keeps_it_parked),
        STATES_TEST(an_update_before_the_first_claim_counts),
        STATES_TEST(an_update_of_another_state_is_refused),
        STATES_TEST(a_held_execution_is_left_to_its_handler),
        STATES_TEST(an_update_has_the_names_and_types_of_the_definition),
        STATES_TEST(variables_are_bounded),
        STATES_TEST(all_variables_are_bounded),
        STATES_TEST(values_stay_as_they_were_written),
        STATES_TEST(a_wake_outlives_an_update_of_variables),
        STATES_TEST(a_manual_state_of_an_execution_with_a_timeout_is_parked_by_a_node),
        STATES_TEST(a_listed_signal_wakes_the_state_that_waits),
        STATES_TEST(a_signal_is_consumed_though_the_next_state_begins_in_the_same_set),
        STATES_TEST(a_wake_does_not_end_a_manual_state),
        STATES_TEST(why_names_the_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
