/* Approvals: who may decide for a step, once, and what the step gets. */
#include "base/json.h"
#include "conformance/scene.h"

#define AN_HOUR SECONDS(3600)
#define APPROVAL_TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, scene_close)

/* `pay` is decided by two actors, `open` by everybody. */
static int open_scene(void **state)
{
    static const char definition[] =
        "{\"name\":\"hello\",\"steps\":{\"pay\":{\"approve\":{\"by\":[\"token:ops\",\"cli:eve\"],"
        "\"timeout\":\"1h\",\"prompt\":\"Pay?\"}},\"open\":{\"approve\":{}},\"ask\":{\"signal\":\"go\"}}}";
    struct published published;
    int failed = scene_open(state);
    struct scene *scene = *state;
    if (failed == 0) {
        scene_ok(scene, store_publish(scene->store, "hello", NULL, definition, NULL, &published, &scene->error));
    }
    return failed;
}

static void act_as(struct scene *scene, const char *actor)
{
    scene_ok(scene, store_act_as(scene->store, actor, "because", &scene->error));
}

static enum weir_status record_wait(struct scene *scene, const struct claimed_item *item, const char *step)
{
    struct step_record waits = {.state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = AN_HOUR};
    struct record record = scene_record_of(RECORD_STEP, item);
    text_copy(waits.step, sizeof waits.step, step);
    (void)snprintf(waits.signal, sizeof waits.signal, "approve:%s", step);
    record.step = &waits;
    return scene_record_full(scene, scene->node, record);
}

static struct claimed_item claim_and_wait(struct scene *scene, const char *step)
{
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, id);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(record_wait(scene, &item, step), WEIR_OK);
    return item;
}

static void park(struct scene *scene, const struct claimed_item *item)
{
    struct record parked = scene_record_of(RECORD_PARKED, item);
    parked.delay_us = AN_HOUR;
    parked.waiting_for = WAIT_APPROVAL;
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
}

static enum weir_status decide(struct scene *scene, const char *id, const char *step, bool approved, const char *comment)
{
    struct sent_signal sent = {.seq = 0};
    const struct approval approval = {.step = step, .approved = approved, .comment = comment};
    scene->error = (struct weir_error){.status = WEIR_OK};
    enum weir_status status = store_approve(scene->store, id, &approval, &sent, &scene->error);
    assert_true((status == WEIR_OK) == (sent.seq > 0));
    return status;
}

static void refuse(struct scene *scene, const char *id, const char *step, enum weir_status refusal, const char *words)
{
    assert_int_equal(decide(scene, id, step, true, NULL), refusal);
    if (strstr(scene->error.message, words) == NULL && strstr(scene->error.hint, words) == NULL) {
        fail_msg("\"%s\" (%s) has not the words \"%s\"", scene->error.message, scene->error.hint, words);
    }
}

static void a_decision_wakes_and_is_the_data_of_the_step(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_wait(scene, "pay");
    json_t *data = NULL;
    park(scene, &item);
    assert_string_equal(scene_text(scene, "SELECT waiting_for FROM executions WHERE id = '%s'", item.id), "approval");
    act_as(scene, "cli:eve(1000)@host");
    scene_ok(scene, decide(scene, item.id, NULL, false, "too \"much\""));
    struct claimed_item again = scene_claim_one(scene);
    assert_int_equal(again.signal_count, 1);
    assert_string_equal(again.signals[0].name, "approve:pay");
    assert_int_equal(json_read(again.signals[0].data, again.signals[0].data_length, &data, NULL), WEIR_OK);
    assert_true(json_is_false(json_object_get(data, "approved")));
    assert_string_equal(json_text_at(data, "by"), "cli:eve(1000)@host");
    assert_string_equal(json_text_at(data, "comment"), "too \"much\"");
    assert_non_null(json_text_at(data, "at"));
    json_decref(data);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'reject' AND subject = '%s'", item.id), 1);
    assert_int_equal(scene_number(scene,
                                  "SELECT count(*) FROM workflow_execution_events WHERE execution_id = '%s' AND event = "
                                  "'reject' AND actor = 'cli:eve(1000)@host' AND reason = 'because' AND detail = 'pay'",
                                  item.id),
                     1);
    scene_check(scene);
}

static void a_node_that_holds_it_gets_the_decision(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_wait(scene, "open");
    act_as(scene, "anybody");
    scene_ok(scene, decide(scene, item.id, "open", true, NULL));
    struct node_request *requests = scene_take_requests(scene, scene->node, 1);
    assert_int_equal(requests[0].signal_count, 1);
    assert_string_equal(requests[0].signals[0].name, "approve:open");
}

static void another_actor_is_refused_on_record(void **state)
{
    static const char *const others[] = {"token:op", "token:ops2", "cli:ev", "cli:eve2(1000)@host", "token:", "x", "eve"};
    struct scene *scene = *state;
    struct claimed_item item = claim_and_wait(scene, "pay");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        act_as(scene, others[i]);
        refuse(scene, item.id, NULL, WEIR_NOT_PERMITTED, "these may: token:ops, cli:eve");
        assert_int_equal(scene_number(scene,
                                      "SELECT count(*) FROM audit WHERE act = 'approve refused' AND subject = '%s' "
                                      "AND actor = '%s'",
                                      item.id, others[i]),
                         1);
    }
    (void)scene_take_requests(scene, scene->node, 0);
    act_as(scene, "token:ops");
    scene_ok(scene, decide(scene, item.id, NULL, true, NULL));
}

static void the_second_decision_names_the_first(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_wait(scene, "pay");
    act_as(scene, "token:ops");
    scene_ok(scene, decide(scene, item.id, NULL, true, NULL));
    refuse(scene, item.id, NULL, WEIR_ILLEGAL_STATE, "was approved already, by token:ops at ");
    refuse(scene, item.id, "pay", WEIR_ILLEGAL_STATE, "was approved already, by token:ops at ");
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    refuse(scene, item.id, "pay", WEIR_ILLEGAL_STATE, "was approved already, by token:ops at ");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals"), 1);
}

static void only_a_step_that_waits_takes_a_decision(void **state)
{
    struct scene *scene = *state;
    act_as(scene, "token:ops");
    const char *id = scene_enqueue(scene, "free-co");
    refuse(scene, id, NULL, WEIR_ILLEGAL_STATE, "no such step");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(record_wait(scene, &item, "pay"), WEIR_OK);
    assert_int_equal(record_wait(scene, &item, "open"), WEIR_OK);
    refuse(scene, id, NULL, WEIR_ILLEGAL_STATE, "name one of them: open, pay");
    refuse(scene, id, "ask", WEIR_ILLEGAL_STATE, "no such step");
    refuse(scene, id, "a\"b", WEIR_INVALID_ARGUMENT, "is not the name of a step");
    scene_ok(scene, decide(scene, id, "open", true, NULL));
    refuse(scene, id, NULL, WEIR_ILLEGAL_STATE, "step open of execution"); /* the caller may repeat the first command */
    refuse(scene, id, NULL, WEIR_ILLEGAL_STATE, "if another step is meant, name it: pay");
    scene_ok(scene, decide(scene, id, "pay", true, NULL));
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    const char *other = scene_enqueue(scene, "free-co");
    struct claimed_item ended = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &ended), WEIR_OK);
    refuse(scene, other, NULL, WEIR_ILLEGAL_STATE, "COMPLETED");
    refuse(scene, "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79", NULL, WEIR_EXECUTION_NOT_FOUND, "no execution");
}

static enum weir_status end_step(struct scene *scene, const struct claimed_item *item, const char *step, int64_t seq)
{
    struct step_record ended = {.state = STEP_FAILED, .attempt = 1, .exit_code = -1, .signal_seq = seq};
    text_copy(ended.step, sizeof ended.step, step);
    text_copy(ended.error_code, sizeof ended.error_code, "approval_timeout");
    struct record record = scene_record_of(RECORD_STEP, item);
    record.step = &ended;
    return scene_record_full(scene, scene->node, record);
}

/* The node has had its timer, and has not recorded that yet. */
/* Its worker waits in its own code, so the refusal names what reaches a workflow there. */
static void an_execution_on_temporal_takes_no_decision(void **state)
{
    struct scene *scene = *state;
    static const char definition[] = "{\"name\":\"remote\",\"temporal\":{}}";
    struct published published;
    scene_ok(scene, store_publish(scene->store, "remote", NULL, definition, NULL, &published, &scene->error));
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "remote"});
    refuse(scene, id, NULL, WEIR_ILLEGAL_STATE, "is of a workflow on Temporal, which has no steps to approve");
    refuse(scene, id, "pay", WEIR_ILLEGAL_STATE, "`weir temporal update");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE subject = '%s'", id), 0);
    struct bulk_result result = {0};
    const struct execution_filter filter = {.id = id};
    scene_ok(scene, store_bulk_one(scene->store, BULK_CANCEL, NULL, &filter, &result, &scene->error));
    refuse(scene, id, "pay", WEIR_ILLEGAL_STATE, "is CANCELLED: it has ended");
}

static void a_decision_after_the_timeout_is_refused(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_wait(scene, "pay");
    act_as(scene, "token:ops");
    scene_pass(scene, AN_HOUR);
    refuse(scene, item.id, "pay", WEIR_ILLEGAL_STATE, "the timeout of step pay");
    refuse(scene, item.id, NULL, WEIR_ILLEGAL_STATE, "the timeout of step pay");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals"), 0);
}

static void a_decision_that_did_not_count_is_told(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_wait(scene, "pay");
    act_as(scene, "token:ops");
    scene_ok(scene, decide(scene, item.id, "pay", true, NULL));
    assert_int_equal(end_step(scene, &item, "pay", 0), WEIR_OK);
    refuse(scene, item.id, "pay", WEIR_ILLEGAL_STATE, "not counted: the step had ended before");
    assert_null(strstr(scene->error.message, "COMPLETED"));
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    refuse(scene, item.id, "pay", WEIR_ILLEGAL_STATE, "the execution is COMPLETED");
    item = claim_and_wait(scene, "pay");
    scene_ok(scene, decide(scene, item.id, "pay", true, NULL));
    assert_int_equal(end_step(scene, &item, "pay", 1), WEIR_OK);
    refuse(scene, item.id, "pay", WEIR_ILLEGAL_STATE, "was approved already");
    assert_null(strstr(scene->error.message, "not counted"));
}

static void a_signal_is_no_decision(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_wait(scene, "pay");
    struct sent_signal sent;
    struct signal_request request = {.id = item.id, .name = "approve:pay", .data = "{\"approved\":true}"};
    assert_int_equal(store_signal(scene->store, &request, &sent, &scene->error), WEIR_INVALID_ARGUMENT);
    (void)scene_take_requests(scene, scene->node, 0);
}

static void why_names_who_may_decide(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_wait(scene, "pay");
    json_t *why = NULL;
    park(scene, &item);
    scene_ok(scene, store_why(scene->store, item.id, &why, &scene->error));
    assert_string_equal(json_text_at(why, "waiting_for"), "approval");
    assert_string_equal(json_text_at(why, "because"), "a step of it waits for an approval; it uses no slot meanwhile");
    const json_t *step = json_array_get(json_object_get(why, "unfinished_steps"), 0);
    assert_string_equal(json_text_at(step, "approvers"), "token:ops, cli:eve");
    assert_string_equal(json_text_at(step, "prompt"), "Pay?");
    json_decref(why);
}

/* With `default: approve` it would be an approval by an actor that `by` forbids. */
static void no_wake_ends_the_wait_for_a_decision(void **state)
{
    static const char *const kinds[] = {"signal", NULL, "sleep", "retry"};
    struct scene *scene = *state;
    struct claimed_item item = claim_and_wait(scene, "pay");
    struct bulk_result result = {0};
    const struct execution_filter filter = {.id = item.id};
    park(scene, &item);
    act_as(scene, "ann");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        scene_ok(scene, store_bulk_ordered(scene->store, BULK_WAKE, &(struct act_order){.waits_for = kinds[i]}, &filter, "",
                                           1, &result, &scene->error));
        assert_int_equal(result.refused, 1);
    }
    scene->error = (struct weir_error){.status = WEIR_OK};
    assert_int_equal(store_bulk_ordered(scene->store, BULK_WAKE, &(struct act_order){.waits_for = "approval"}, &filter, "",
                                        1, &result, &scene->error),
                     WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(scene->error.hint, "weir approve"));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals"), 0);
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        APPROVAL_TEST(a_decision_wakes_and_is_the_data_of_the_step),
        APPROVAL_TEST(a_node_that_holds_it_gets_the_decision),
        APPROVAL_TEST(another_actor_is_refused_on_record),
        APPROVAL_TEST(the_second_decision_names_the_first),
        APPROVAL_TEST(only_a_step_that_waits_takes_a_decision),
        APPROVAL_TEST(an_execution_on_temporal_takes_no_decision),
        APPROVAL_TEST(a_decision_after_the_timeout_is_refused),
        APPROVAL_TEST(a_decision_that_did_not_count_is_told),
        APPROVAL_TEST(a_signal_is_no_decision),
        APPROVAL_TEST(why_names_who_may_decide),
        APPROVAL_TEST(no_wake_ends_the_wait_for_a_decision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
