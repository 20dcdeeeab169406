/* Modes of idempotency keys: replace, debounce, one_active. */
#include "conformance/scene.h"

static struct enqueue_request keyed(enum key_mode mode, const char *params)
{
    return (struct enqueue_request){.workspace = "pro-co",
                                    .workflow = "hello",
                                    .params = params,
                                    .params_length = strlen(params),
                                    .idempotency_key = "doc-1",
                                    .key_mode = mode,
                                    .debounce_us = mode == KEY_DEBOUNCE ? SECONDS(10) : 0};
}

static struct enqueue_result accepted(struct scene *scene, const struct enqueue_request *request)
{
    struct enqueue_result result = scene_try(scene, request);
    scene_ok(scene, result.status);
    return result;
}

/* The clock of a server goes on between the enqueue and this call. */
static void assert_waits(struct scene *scene, const char *id, int64_t duration_us)
{
    json_t *execution = NULL;
    int64_t at_us = 0;
    scene_ok(scene, store_show(scene->store, id, &execution, &scene->error));
    scene_ok(scene, time_parse(json_text_at(execution, "run_at"), 0, &at_us, &scene->error));
    json_decref(execution);
    assert_in_range(duration_us - (at_us - scene_now(scene)) + SECONDS(1) / 1000, 0, SECONDS(1));
}

static void start_one(struct scene *scene, const char *id)
{
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, id);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
}

static void a_newer_request_replaces_one_that_has_not_started(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, store_act_as(scene->store, "ada", NULL, &scene->error));
    struct enqueue_request request = keyed(KEY_REPLACE, "{\"n\":1}");
    struct enqueue_result first = accepted(scene, &request);
    assert_false(first.replaced || first.duplicate);
    request = keyed(KEY_REPLACE, "{\"n\":2}");
    struct enqueue_result second = accepted(scene, &request);
    assert_true(second.replaced);
    assert_false(second.duplicate);
    assert_string_not_equal(first.id, second.id);
    assert_string_equal(scene_status_of(scene, first.id), "CANCELLED");
    assert_string_equal(scene_status_of(scene, second.id), "PENDING");
    assert_string_equal(
        scene_text(scene, "SELECT detail FROM execution_events WHERE execution_id = '%s' AND event = 'cancel'", first.id),
        second.id);
    assert_string_equal(
        scene_text(scene, "SELECT actor FROM execution_events WHERE execution_id = '%s' AND event = 'cancel'", first.id),
        "ada");
    /* A retry of all that a person has cancelled by mistake can leave it out. */
    assert_string_equal(scene_text(scene, "SELECT error_code FROM executions WHERE id = '%s'", first.id), "replaced");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE idempotency_key = 'doc-1'"), 2);
    start_one(scene, second.id);
    scene_check(scene);
}

static void a_running_one_is_left_alone(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = keyed(KEY_REPLACE, "{\"n\":1}");
    struct enqueue_result first = accepted(scene, &request);
    start_one(scene, first.id);
    request = keyed(KEY_REPLACE, "{\"n\":2}");
    struct enqueue_result second = accepted(scene, &request);
    assert_false(second.replaced || second.duplicate);
    assert_string_equal(scene_status_of(scene, first.id), "DISPATCHED");
    assert_string_equal(scene_status_of(scene, second.id), "PENDING");
    /* The key is that of the second one by now. */
    struct enqueue_result third = accepted(scene, &request);
    assert_true(third.replaced);
    assert_string_equal(scene_status_of(scene, second.id), "CANCELLED");
    scene_check(scene);
}

static void a_waiting_one_is_left_alone(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = keyed(KEY_REPLACE, "{\"n\":1}");
    struct enqueue_result first = accepted(scene, &request);
    struct claimed_item item = scene_claim_one(scene);
    struct step_record step = {
        .step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = SECONDS(60)};
    struct record records[] = {scene_record_of(RECORD_DISPATCHED, &item), scene_record_of(RECORD_STEP, &item),
                               scene_record_of(RECORD_PARKED, &item)};
    records[1].step = &step;
    records[2].delay_us = SECONDS(60);
    records[2].waiting_for = WAIT_SLEEP;
    struct record_summary summary;
    scene_ok(scene, store_record(scene->store, scene->node, records, 3, &summary, &scene->error));
    assert_string_equal(scene_status_of(scene, first.id), "WAITING");
    struct enqueue_result second = accepted(scene, &request);
    assert_false(second.replaced || second.duplicate);
    assert_string_equal(scene_status_of(scene, first.id), "WAITING");
    request.key_mode = KEY_ONE_ACTIVE;
    assert_string_equal(accepted(scene, &request).id, second.id);
    scene_check(scene);
}

/* A claim that was put back before its start is no attempt. */
static void one_that_was_put_back_is_replaced(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = keyed(KEY_REPLACE, "{\"n\":1}");
    struct enqueue_result first = accepted(scene, &request);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_PUT_BACK, &item), WEIR_OK);
    assert_string_equal(scene_status_of(scene, first.id), "PENDING");
    assert_true(accepted(scene, &request).replaced);
    assert_string_equal(scene_status_of(scene, first.id), "CANCELLED");
    scene_check(scene);
}

static void a_claimed_one_is_left_alone(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = keyed(KEY_REPLACE, "{\"n\":1}");
    struct enqueue_result first = accepted(scene, &request);
    (void)scene_claim_one(scene);
    assert_false(accepted(scene, &request).replaced);
    assert_string_equal(scene_status_of(scene, first.id), "CLAIMED");
    scene_check(scene);
}

static void the_new_one_takes_the_place_of_the_old_one(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = keyed(KEY_REPLACE, "{\"n\":1}");
    (void)accepted(scene, &request);
    scene_pass(scene, SECONDS(1));
    const char *other = scene_enqueue(scene, "pro-co");
    scene_pass(scene, SECONDS(1));
    struct enqueue_result second = accepted(scene, &request);
    assert_true(second.replaced);
    struct claim_result claim = scene_claim(scene, 1);
    assert_int_equal(claim.count, 1);
    assert_string_equal(claim.items[0].id, second.id);
    claim = scene_claim(scene, 1);
    assert_int_equal(claim.count, 1);
    assert_string_equal(claim.items[0].id, other);
    scene_check(scene);
}

static void a_debounce_takes_no_place_of_another_mode(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = keyed(KEY_ONCE, "{\"n\":1}");
    (void)accepted(scene, &request);
    scene_pass(scene, SECONDS(1));
    request = keyed(KEY_DEBOUNCE, "{\"n\":2}");
    struct enqueue_result second = accepted(scene, &request);
    assert_true(second.replaced);
    assert_waits(scene, second.id, SECONDS(10));
    scene_check(scene);
}

/* A program that may only enqueue must not end the work of another one, nor take its id for its own. */
static void a_key_of_another_workflow_is_refused(void **state)
{
    struct scene *scene = *state;
    (void)scene_publish(scene, "other", NULL);
    struct enqueue_request request = keyed(KEY_ONCE, "{\"n\":1}");
    struct enqueue_result first = accepted(scene, &request);
    for (int mode = KEY_REPLACE; mode <= KEY_ONE_ACTIVE; mode++) {
        struct enqueue_request foreign = keyed((enum key_mode)mode, "{\"n\":1}");
        foreign.workflow = "other";
        assert_int_equal(scene_try(scene, &foreign).status, WEIR_IDEMPOTENCY_KEY_REUSED);
    }
    assert_string_equal(scene_status_of(scene, first.id), "PENDING");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    struct enqueue_request next = keyed(KEY_ONE_ACTIVE, "{\"n\":1}");
    next.workflow = "other";
    assert_false(accepted(scene, &next).duplicate);
    scene_check(scene);
}

static void a_debounce_starts_after_the_last_request(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = keyed(KEY_DEBOUNCE, "{\"n\":1}");
    request.debounce_most_us = SECONDS(25);
    static const int64_t expected[] = {SECONDS(10), SECONDS(10), SECONDS(9), SECONDS(1)};
    struct enqueue_result last = {.status = WEIR_OK};
    for (size_t i = 0; i < 4; i++) {
        struct enqueue_result next = accepted(scene, &request);
        assert_waits(scene, next.id, expected[i]);
        assert_int_equal(next.replaced, i > 0);
        if (i > 0) {
            assert_string_equal(scene_status_of(scene, last.id), "CANCELLED");
        }
        last = next;
        scene_pass(scene, SECONDS(8));
    }
    /* It is due: one that comes before its start takes its place, and one after the start waits anew. */
    struct enqueue_result due = accepted(scene, &request);
    assert_true(due.replaced);
    start_one(scene, due.id);
    struct enqueue_result next = accepted(scene, &request);
    assert_false(next.replaced);
    assert_waits(scene, next.id, SECONDS(10));
    scene_check(scene);
}

static void one_is_active_at_a_time(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = keyed(KEY_ONE_ACTIVE, "{\"n\":1}");
    struct enqueue_request other = keyed(KEY_ONE_ACTIVE, "{\"n\":2}");
    struct enqueue_result first = accepted(scene, &request);
    struct enqueue_result pending = accepted(scene, &other);
    assert_true(pending.duplicate);
    assert_string_equal(pending.id, first.id);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    struct enqueue_result running = accepted(scene, &other);
    assert_true(running.duplicate);
    assert_string_equal(running.id, first.id);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    struct enqueue_result second = accepted(scene, &other);
    assert_false(second.duplicate || second.replaced);
    assert_string_not_equal(second.id, first.id);
    assert_string_equal(scene_status_of(scene, second.id), "PENDING");
    scene_check(scene);
}

static void a_retry_is_active_and_is_not_replaced(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = keyed(KEY_ONE_ACTIVE, "{\"n\":1}");
    struct enqueue_result first = accepted(scene, &request);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_FAILED, &item), WEIR_OK);
    struct execution_filter filter = {.id = first.id};
    struct bulk_result retried = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &filter, "", 10, &retried, &scene->error));
    assert_int_equal(retried.changed, 1);
    struct enqueue_result again = accepted(scene, &request);
    assert_true(again.duplicate);
    assert_string_equal(again.id, retried.new_id);
    request.key_mode = KEY_REPLACE;
    assert_false(accepted(scene, &request).replaced);
    assert_string_equal(scene_status_of(scene, retried.new_id), "PENDING");
    scene_check(scene);
}

static void a_purge_of_a_replaced_one_keeps_the_key(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = keyed(KEY_REPLACE, "{\"n\":1}");
    struct enqueue_result first = accepted(scene, &request);
    struct enqueue_result second = accepted(scene, &request);
    struct execution_filter filter = {.id = first.id};
    struct bulk_result purged = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filter, "", 10, &purged, &scene->error));
    assert_int_equal(purged.changed, 1);
    request.key_mode = KEY_ONCE;
    struct enqueue_result known = accepted(scene, &request);
    assert_true(known.duplicate);
    assert_string_equal(known.id, second.id);
    scene_check(scene);
}

static void a_set_handles_equal_keys_in_its_order(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request requests[4] = {keyed(KEY_REPLACE, "{\"n\":1}"),
                                          {.workspace = "pro-co", .workflow = "hello"},
                                          keyed(KEY_REPLACE, "{\"n\":2}"),
                                          keyed(KEY_ONE_ACTIVE, "{\"n\":3}")};
    struct enqueue_result results[4];
    scene_ok(scene, store_enqueue(scene->store, requests, 4, results, &scene->error));
    for (size_t i = 0; i < 4; i++) {
        scene_ok(scene, results[i].status);
    }
    assert_string_equal(scene_status_of(scene, results[0].id), "CANCELLED");
    assert_string_equal(scene_status_of(scene, results[1].id), "PENDING");
    assert_string_equal(scene_status_of(scene, results[2].id), "PENDING");
    assert_true(results[2].replaced && results[3].duplicate);
    assert_string_equal(results[3].id, results[2].id);
    scene_check(scene);
}

static void a_repeated_request_with_its_id_replaces_nothing(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = keyed(KEY_REPLACE, "{\"n\":1}");
    request.id = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79";
    struct enqueue_result first = accepted(scene, &request);
    for (int i = 0; i < 2; i++) {
        struct enqueue_result again = accepted(scene, &request);
        assert_true(again.duplicate);
        assert_false(again.replaced);
        assert_string_equal(again.id, first.id);
        struct enqueue_request newer = keyed(KEY_REPLACE, "{\"n\":2}");
        assert_int_equal(accepted(scene, &newer).replaced, true);
    }
    assert_string_equal(scene_status_of(scene, first.id), "CANCELLED");
    scene_check(scene);
}

static void a_refused_request_replaces_nothing(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = keyed(KEY_REPLACE, "{\"n\":1}");
    struct enqueue_result first = accepted(scene, &request);
    for (int mode = KEY_REPLACE; mode <= KEY_ONE_ACTIVE; mode++) {
        struct enqueue_request refused = keyed((enum key_mode)mode, "{\"n\":1}");
        refused.workflow = "missing";
        assert_int_equal(scene_try(scene, &refused).status, WEIR_WORKFLOW_NOT_FOUND);
        refused.idempotency_key = "doc-2";
        assert_int_equal(scene_try(scene, &refused).status, WEIR_WORKFLOW_NOT_FOUND);
        refused = keyed((enum key_mode)mode, "{\"n\":1}");
        refused.group = "missing";
        assert_int_equal(scene_try(scene, &refused).status, WEIR_NOT_FOUND);
        refused.workspace = "nobody";
        assert_int_equal(scene_try(scene, &refused).status, WEIR_WORKSPACE_NOT_FOUND);
    }
    assert_string_equal(scene_status_of(scene, first.id), "PENDING");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM idempotency_keys"), 1);
    /* A key of another workspace is another key. */
    request.workspace = "free-co";
    assert_false(accepted(scene, &request).replaced);
    assert_string_equal(scene_status_of(scene, first.id), "PENDING");
    scene_check(scene);
}

/* A repeated id with another key is the same execution, and takes no key from it. */
static void an_id_keeps_the_key_of_its_first_request(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {.workspace = "pro-co",
                                      .workflow = "hello",
                                      .id = "0198c2f1-0000-7000-8000-000000000001",
                                      .idempotency_key = "first"};
    assert_int_equal(scene_try(scene, &request).status, WEIR_OK);
    struct enqueue_request other = request;
    other.idempotency_key = "later";
    (void)scene_try(scene, &other);
    struct enqueue_request again = request;
    again.id = NULL;
    struct enqueue_result result = scene_try(scene, &again);
    assert_int_equal(result.status, WEIR_OK);
    assert_true(result.duplicate);
    assert_string_equal(result.id, request.id);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
}

static void wrong_modes_are_refused(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request wrong[6];
    for (size_t i = 0; i < 6; i++) {
        wrong[i] = keyed(KEY_DEBOUNCE, "{}");
    }
    wrong[0].idempotency_key = NULL;
    wrong[1].debounce_us = 0;
    wrong[2].debounce_us = DEBOUNCE_MOST_US + 1;
    wrong[3].debounce_most_us = wrong[3].debounce_us - 1;
    wrong[4].run_at_us = scene_now(scene);
    wrong[5].key_mode = KEY_ONCE;
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(scene_try(scene, &wrong[i]).status, WEIR_INVALID_ARGUMENT);
    }
    enum key_mode mode;
    assert_int_equal(key_mode_parse("replac", &mode, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(scene->error.hint, "replace"));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_newer_request_replaces_one_that_has_not_started),
        SCENE_TEST(a_running_one_is_left_alone),
        SCENE_TEST(a_waiting_one_is_left_alone),
        SCENE_TEST(one_that_was_put_back_is_replaced),
        SCENE_TEST(a_claimed_one_is_left_alone),
        SCENE_TEST(the_new_one_takes_the_place_of_the_old_one),
        SCENE_TEST(a_debounce_takes_no_place_of_another_mode),
        SCENE_TEST(a_key_of_another_workflow_is_refused),
        SCENE_TEST(a_debounce_starts_after_the_last_request),
        SCENE_TEST(one_is_active_at_a_time),
        SCENE_TEST(a_retry_is_active_and_is_not_replaced),
        SCENE_TEST(a_purge_of_a_replaced_one_keeps_the_key),
        SCENE_TEST(a_set_handles_equal_keys_in_its_order),
        SCENE_TEST(a_repeated_request_with_its_id_replaces_nothing),
        SCENE_TEST(a_refused_request_replaces_nothing),
        SCENE_TEST(an_id_keeps_the_key_of_its_first_request),
        SCENE_TEST(wrong_modes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
