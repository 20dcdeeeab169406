/* Reports of functions to http steps: which attempt takes one, how often, and the way to the node. */
#include "base/callback_token.h"
#include "conformance/scene.h"

#define AN_HOUR SECONDS(3600)
#define CALLBACK_TEST(name) cmocka_unit_test_setup_teardown(name, scene_open, scene_close)

/* An attempt of the step `call`, and its token. */
struct attempt {
    struct claimed_item item;
    char token[CALLBACK_TOKEN_MAX + 1];
    char name[SIGNAL_KEPT_NAME_MAX + 1];
};

static void make_token(struct scene *scene, struct attempt *attempt, int number)
{
    char hash[CALLBACK_HASH_LENGTH + 1];
    scene_ok(scene, callback_token_make(attempt->item.id, attempt->token, hash, &scene->error));
    (void)snprintf(attempt->name, sizeof attempt->name, "callback:call:%d:%s", number, hash);
}

/* `code`: of the failed attempt that it waits after; NULL = of none. */
static enum weir_status record_attempt(struct scene *scene, const struct attempt *attempt, enum step_state state,
                                       int number, const char *code)
{
    struct step_record step = {
        .step = "call", .state = state, .attempt = number, .exit_code = -1, .failures = number - 1, .due_in_us = AN_HOUR};
    struct record record = scene_record_of(RECORD_STEP, &attempt->item);
    if (code == NULL && !step_state_is_final(state)) {
        text_copy(step.signal, sizeof step.signal, attempt->name);
    }
    text_copy(step.error_code, sizeof step.error_code, code == NULL ? "" : code);
    record.step = &step;
    return scene_record_full(scene, scene->node, record);
}

/* The first attempt runs. */
static struct attempt begin(struct scene *scene)
{
    struct attempt attempt = {.token = ""};
    (void)scene_enqueue(scene, "free-co");
    attempt.item = scene_claim_one(scene);
    make_token(scene, &attempt, 1);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &attempt.item), WEIR_OK);
    assert_int_equal(record_attempt(scene, &attempt, STEP_RUNNING, 1, NULL), WEIR_OK);
    return attempt;
}

static void park(struct scene *scene, const struct claimed_item *item)
{
    struct record parked = scene_record_of(RECORD_PARKED, item);
    parked.delay_us = AN_HOUR;
    parked.waiting_for = WAIT_CALLBACK;
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
}

static enum weir_status report(struct scene *scene, const char *token, const char *output, struct sent_signal *ret_sent)
{
    const struct callback callback = {.token = token, .output = output};
    scene->error = (struct weir_error){.status = WEIR_OK};
    return store_call_back(scene->store, &callback, ret_sent, &scene->error);
}

static void refuse(struct scene *scene, const char *token, const char *output, enum weir_status refusal)
{
    struct sent_signal sent = {.seq = -1};
    assert_int_equal(report(scene, token, output, &sent), refusal);
    assert_int_equal(sent.seq, -1);
}

static void a_report_wakes_a_parked_execution_once(void **state)
{
    struct scene *scene = *state;
    struct sent_signal sent = {.seq = 0};
    struct attempt attempt = begin(scene);
    assert_int_equal(record_attempt(scene, &attempt, STEP_WAITING, 1, NULL), WEIR_OK);
    park(scene, &attempt.item);
    assert_string_equal(scene_text(scene, "SELECT waiting_for FROM executions WHERE id = '%s'", attempt.item.id),
                        "callback");
    scene_ok(scene, report(scene, attempt.token, "{\"n\":1.50}", &sent));
    assert_true(sent.seq == 1 && !sent.duplicate);
    assert_string_equal(sent.id, attempt.item.id);
    struct claimed_item again = scene_claim_one(scene);
    assert_int_equal(again.signal_count, 1);
    assert_string_equal(again.signals[0].name, attempt.name);
    assert_string_equal(again.signals[0].data, "{\"output\":{\"n\":1.50}}");
    scene_ok(scene, report(scene, attempt.token, "{\"n\":1.50}", &sent));
    assert_true(sent.seq == 1 && sent.duplicate);
    refuse(scene, attempt.token, "{\"n\":2}", WEIR_CONFLICT);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'signal'"), 0);
    assert_int_equal(scene_number(scene,
                                  "SELECT count(*) FROM workflow_execution_events WHERE execution_id = '%s' AND event = "
                                  "'signal' AND detail = 'callback:call:1'",
                                  attempt.item.id),
                     1);
    scene_check(scene);
}

static void a_node_that_holds_it_gets_the_report(void **state)
{
    struct scene *scene = *state;
    struct sent_signal sent = {.seq = 0};
    struct attempt attempt = begin(scene);
    scene_ok(scene, report(scene, attempt.token, NULL, &sent)); /* before the answer to the request */
    struct node_request *requests = scene_take_requests(scene, scene->node, 1);
    assert_int_equal(requests[0].signal_count, 1);
    assert_string_equal(requests[0].signals[0].name, attempt.name);
    assert_string_equal(requests[0].signals[0].data, "{\"output\":null}");
}

static void a_report_that_meets_a_park_wakes_it(void **state)
{
    struct scene *scene = *state;
    struct sent_signal sent = {.seq = 0};
    struct attempt attempt = begin(scene);
    assert_int_equal(record_attempt(scene, &attempt, STEP_WAITING, 1, NULL), WEIR_OK);
    scene_ok(scene, report(scene, attempt.token, "1", &sent));
    park(scene, &attempt.item); /* its engine had got no signal */
    assert_int_equal(scene_claim_one(scene).signal_count, 1);
}

static void a_failure_has_its_code(void **state)
{
    struct scene *scene = *state;
    struct sent_signal sent = {.seq = 0};
    struct attempt attempt = begin(scene);
    const struct callback callback = {
        .token = attempt.token, .error_code = "disk_full", .error = "no \"room\"", .is_final = true};
    scene_ok(scene, store_call_back(scene->store, &callback, &sent, &scene->error));
    struct node_request *requests = scene_take_requests(scene, scene->node, 1);
    assert_string_equal(requests[0].signals[0].data,
                        "{\"error_code\":\"disk_full\",\"error\":\"no \\\"room\\\"\",\"retry\":false}");
    scene_ok(scene, store_call_back(scene->store, &callback, &sent, &scene->error)); /* after a lost answer */
    assert_true(sent.seq == 1 && sent.duplicate);
    refuse(scene, attempt.token, "1", WEIR_CONFLICT);
}

static void only_the_attempt_on_record_takes_a_report(void **state)
{
    struct scene *scene = *state;
    struct sent_signal sent = {.seq = 0};
    struct attempt first = begin(scene);
    struct attempt second = first;
    assert_int_equal(record_attempt(scene, &first, STEP_WAITING, 1, "http_500"), WEIR_OK);
    refuse(scene, first.token, "1", WEIR_NOT_FOUND); /* the request has failed */
    make_token(scene, &second, 2);
    refuse(scene, second.token, "1", WEIR_NOT_FOUND); /* its start is not on record */
    assert_int_equal(record_attempt(scene, &second, STEP_RUNNING, 2, NULL), WEIR_OK);
    refuse(scene, first.token, "1", WEIR_NOT_FOUND);
    scene_ok(scene, report(scene, second.token, "2", &sent));
    assert_int_equal(record_attempt(scene, &second, STEP_COMPLETED, 2, NULL), WEIR_OK);
    scene_ok(scene, report(scene, second.token, "2", &sent)); /* a repetition after a lost answer */
    assert_true(sent.duplicate);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &first.item), WEIR_OK);
    scene_ok(scene, report(scene, second.token, "2", &sent));
    assert_true(sent.duplicate);
    refuse(scene, first.token, "1", WEIR_NOT_FOUND);
    scene_check(scene);
}

/* With a record of a result, or of an attempt that has failed. */
static void consume(struct scene *scene, const struct attempt *attempt, int64_t seq)
{
    struct step_record step = {.step = "call", .state = STEP_COMPLETED, .attempt = 1, .exit_code = -1, .signal_seq = seq};
    struct record record = scene_record_of(RECORD_STEP, &attempt->item);
    record.step = &step;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
}

/* The function may have written a secret into it, which only the node can hide. */
static void a_report_that_is_consumed_keeps_no_data(void **state)
{
    struct scene *scene = *state;
    struct sent_signal sent = {.seq = 0};
    struct attempt attempt = begin(scene);
    scene_ok(scene, report(scene, attempt.token, "\"s3cret\"", &sent));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals WHERE data LIKE '%%s3cret%%'"), 1);
    consume(scene, &attempt, 1);
    assert_string_equal(scene_text(scene, "SELECT data FROM signals"), "null");
    assert_string_equal(scene_text(scene, "SELECT step FROM signals"), "call");
    scene_ok(scene, report(scene, attempt.token, "\"s3cret\"", &sent));
    assert_true(sent.seq == 1 && sent.duplicate);
    refuse(scene, attempt.token, "null", WEIR_CONFLICT);
}

static void no_report_counts_after_its_time(void **state)
{
    struct scene *scene = *state;
    struct sent_signal sent = {.seq = 0};
    struct attempt attempt = begin(scene);
    assert_int_equal(record_attempt(scene, &attempt, STEP_WAITING, 1, NULL), WEIR_OK);
    park(scene, &attempt.item);
    struct attempt other = begin(scene);
    assert_int_equal(record_attempt(scene, &other, STEP_WAITING, 1, NULL), WEIR_OK);
    park(scene, &other.item);
    scene_pass(scene, AN_HOUR - SECONDS(1));
    scene_ok(scene, report(scene, attempt.token, "1", &sent));
    scene_pass(scene, SECONDS(2));
    refuse(scene, other.token, "1", WEIR_NOT_FOUND);
    scene_ok(scene, report(scene, attempt.token, "1", &sent));
    assert_true(sent.duplicate);
}

static void a_wrong_token_is_that_of_no_step(void **state)
{
    struct scene *scene = *state;
    struct attempt attempt = begin(scene);
    struct attempt other = attempt;
    char token[CALLBACK_TOKEN_MAX + 1];
    make_token(scene, &other, 1);
    refuse(scene, other.token, "1", WEIR_NOT_FOUND); /* another secret */
    text_copy(token, sizeof token, attempt.token);
    text_copy(token, UUID_TEXT_MAX, "01a21bc5-32bd-7000-9d9b-d362ece426e6"); /* another execution */
    token[UUID_TEXT_MAX - 1] = '.';
    refuse(scene, token, "1", WEIR_NOT_FOUND);
    refuse(scene, attempt.name, "1", WEIR_NOT_FOUND); /* each reader of the execution knows it */
    refuse(scene, "", "1", WEIR_NOT_FOUND);
    refuse(scene, attempt.token, "{", WEIR_INVALID_ARGUMENT);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CALLBACK_TEST(a_report_wakes_a_parked_execution_once),    CALLBACK_TEST(a_node_that_holds_it_gets_the_report),
        CALLBACK_TEST(a_report_that_meets_a_park_wakes_it),       CALLBACK_TEST(a_failure_has_its_code),
        CALLBACK_TEST(a_report_that_is_consumed_keeps_no_data),   CALLBACK_TEST(no_report_counts_after_its_time),
        CALLBACK_TEST(only_the_attempt_on_record_takes_a_report), CALLBACK_TEST(a_wrong_token_is_that_of_no_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
