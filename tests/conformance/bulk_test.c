/* store_bulk: cancel, retry, release, purge - by one id, by filter, in chunks. */
#include "conformance/scene.h"
#include "store/bulk_act.h"
#include "store/failure_groups.h"

static struct bulk_result act_on(struct scene *scene, enum bulk_act act, const struct execution_filter *filter,
                                 const char *after, size_t limit)
{
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, act, filter, after, limit, &result, &scene->error));
    return result;
}

static struct bulk_result act_on_one(struct scene *scene, enum bulk_act act, const char *id)
{
    struct execution_filter filter = {.id = id};
    return act_on(scene, act, &filter, "", 10);
}

/* An execution that ended in the given way. */
static const char *ended(struct scene *scene, const char *workspace, enum record_kind end)
{
    const char *id = scene_enqueue(scene, workspace);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_STEP, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, end, &item), WEIR_OK);
    return id;
}

static void acts_have_names(void **state)
{
    (void)state;
    assert_string_equal(bulk_act_name(BULK_CANCEL), "cancel");
    assert_string_equal(bulk_act_name(BULK_RETRY), "retry");
    assert_string_equal(bulk_act_name(BULK_RELEASE), "release");
    assert_string_equal(bulk_act_name(BULK_PURGE), "purge");
}

static void a_cancelled_pending_item_never_starts(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    const char *scheduled = scene_enqueue_request(
        scene,
        &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .run_at_us = scene_now(scene) + SECONDS(60)});
    struct bulk_result cancel = act_on_one(scene, BULK_CANCEL, id);
    assert_int_equal(cancel.changed, 1);
    assert_int_equal(cancel.requested, 0); /* it has ended */
    assert_int_equal(act_on_one(scene, BULK_CANCEL, scheduled).changed, 1);
    assert_string_equal(scene_status_of(scene, id), "CANCELLED");
    assert_string_equal(scene_status_of(scene, scheduled), "CANCELLED");
    scene_pass(scene, SECONDS(61));
    assert_int_equal(scene_claim(scene, 10).count, 0);
    assert_int_equal(
        scene_number(scene, "SELECT count(*) FROM execution_events WHERE execution_id = '%s' AND event = 'cancel'", id), 1);
}

static void a_running_item_keeps_its_slot_until_its_engine_stopped_it(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    struct bulk_result cancel = act_on_one(scene, BULK_CANCEL, id);
    assert_int_equal(cancel.changed, 1);
    assert_int_equal(cancel.requested, 1); /* its node ends it */
    assert_string_equal(scene_status_of(scene, id), "DISPATCHED");
    assert_int_equal(scene_claim(scene, 10).count, 0);
    assert_int_equal(scene_record(scene, RECORD_CANCELLED, &item), WEIR_OK);
    assert_int_equal(scene_claim(scene, 10).count, 1);
}

/* By show, list and the view; NULL: none of them tells one. */
static void assert_error_of(struct scene *scene, const char *id, const char *code)
{
    json_t *shown = NULL;
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.id = id}};
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    const json_t *listed = json_array_get(json_object_get(page, "items"), 0);
    const char *told[] = {json_string_value(json_object_get(shown, "error_code")),
                          json_string_value(json_object_get(listed, "error_code")),
                          scene_text(scene, "SELECT error_code FROM executions WHERE id = '%s'", id),
                          json_string_value(json_object_get(shown, "error")),
                          json_string_value(json_object_get(listed, "error")),
                          scene_text(scene, "SELECT error FROM executions WHERE id = '%s'", id)};
    assert_string_equal(json_text_at(listed, "id"), id);
    assert_string_equal(json_text_at(shown, "status"), "CANCELLED");
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        if (code == NULL) {
            assert_null(told[i]);
        } else {
            assert_string_equal(told[i], i < 3 ? code : "it was refused");
        }
    }
    json_decref(shown);
    json_decref(page);
}

/* The error is of the last failure, if there was one, and a cancel is none. */
static void a_cancel_is_no_failure_whenever_it_comes(void **state)
{
    struct scene *scene = *state;
    for (int failures = 0; failures < 2; failures++) {
        for (int when = 0; when < 3; when++) { /* while it waits, while it is claimed, while it runs */
            const char *id = scene_enqueue(scene, "free-co");
            for (int i = 0; i < failures; i++) {
                struct claimed_item refused = scene_claim_one(scene);
                struct record record = scene_record_of(RECORD_RETRY, &refused);
                record.error_code = "engine_busy";
                record.error = "it was refused";
                assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
            }
            struct claimed_item item = {.fence = 0};
            if (when > 0) {
                item = scene_claim_one(scene);
            }
            if (when > 1) {
                assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
            }
            assert_int_equal(act_on_one(scene, BULK_CANCEL, id).changed, 1);
            if (when > 0) {
                struct record end = scene_record_of(RECORD_CANCELLED, &item);
                end.error_code = end.error = NULL;
                assert_int_equal(scene_record_full(scene, scene->node, end), WEIR_OK);
            }
            assert_error_of(scene, id, failures > 0 ? "engine_busy" : NULL);
        }
    }
}

static void what_has_ended_is_not_cancelled(void **state)
{
    struct scene *scene = *state;
    static const enum record_kind ends[] = {RECORD_COMPLETED, RECORD_FAILED, RECORD_CANCELLED};
    for (size_t i = 0; i < 3; i++) {
        const char *id = ended(scene, "pro-co", ends[i]);
        const char *before = scene_status_of(scene, id);
        struct bulk_result result = act_on_one(scene, BULK_CANCEL, id);
        assert_int_equal(result.matched, 1);
        assert_int_equal(result.changed, 0);
        assert_int_equal(result.refused, 1);
        assert_int_equal(result.first_refusal, WEIR_ILLEGAL_STATE);
        assert_true(strlen(result.refusal.message) > 0);
        assert_string_equal(scene_status_of(scene, id), before);
    }
}

static void a_retry_is_a_new_execution_of_the_same_request(void **state)
{
    struct scene *scene = *state;
    static const char params[] = "{\"n\": 1.50}";
    struct enqueue_request request = {.workspace = "pro-co",
                                      .workflow = "hello",
                                      .params = params,
                                      .params_length = sizeof params - 1,
                                      .priority = 3,
                                      .idempotency_key = "key-1"};
    const char *id = scene_enqueue_request(scene, &request);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_RETRY, &item), WEIR_OK);
    item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_STEP, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_FAILED, &item), WEIR_OK);
    char sql[200];
    (void)snprintf(sql, sizeof sql, "SELECT * FROM executions WHERE id = '%s'", id);
    json_t *before = scene_rows(scene, sql);
    struct bulk_result result = act_on_one(scene, BULK_RETRY, id);
    assert_int_equal(result.changed, 1);
    assert_true(uuid_is_valid(result.new_id));
    assert_string_not_equal(result.new_id, id);
    json_t *after = scene_rows(scene, sql);
    assert_true(json_equal(before, after)); /* terminal rows are never rewritten */
    json_decref(before);
    json_decref(after);
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.id, result.new_id);
    assert_int_equal(again.starts_refused, 0);
    assert_int_equal(again.step_count, 0);
    assert_int_equal(again.params_length, sizeof params - 1);
    assert_memory_equal(again.params, params, sizeof params - 1);
    assert_int_equal(scene_number(scene, "SELECT priority FROM executions WHERE id = '%s'", result.new_id), 3);
    struct enqueue_result known = scene_try(scene, &request);
    assert_true(known.duplicate); /* the key goes on to mean one request */
}

static void a_second_retry_is_refused(void **state)
{
    struct scene *scene = *state;
    const char *id = ended(scene, "pro-co", RECORD_FAILED);
    struct bulk_result first = act_on_one(scene, BULK_RETRY, id);
    assert_int_equal(first.changed, 1);
    for (int i = 0; i < 2; i++) {
        struct bulk_result second = act_on_one(scene, BULK_RETRY, id);
        assert_int_equal(second.changed, 0);
        assert_int_equal(second.refused, 1);
        if (i == 0) { /* also when the new execution has ended */
            struct claimed_item item = scene_claim_one(scene);
            assert_int_equal(scene_record(scene, RECORD_FAILED, &item), WEIR_OK);
        }
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 2);
    assert_int_equal(act_on_one(scene, BULK_RETRY, first.new_id).changed, 1);
}

/* --- retries that keep finished steps --- */

static void record_end_of_step(struct scene *scene, const struct claimed_item *item, const char *name, enum step_state as,
                               const char *output)
{
    struct step_record step = {.state = as, .attempt = 2, .failures = 1, .exit_code = 0};
    struct record record = scene_record_of(RECORD_STEP, item);
    text_copy(step.step, sizeof step.step, name);
    step.output = (char *)(uintptr_t)output;
    step.output_length = output == NULL ? 0 : strlen(output);
    if (as == STEP_FAILED) {
        static char text[] = "no luck";
        text_copy(step.error_code, sizeof step.error_code, "exit_1");
        step.error = text;
    }
    record.step = &step;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
}

/* An execution of a -> b, c; b -> d: `a` and `c` are completed, `b` is skipped, and `d` has failed with the execution. */
static const char *failed_at_the_last_step(struct scene *scene)
{
    static const char text[] =
        "{\"name\":\"chain\",\"steps\":{\"a\":{\"exec\":[\"true\"]},"
        "\"b\":{\"needs\":[\"a\"],\"exec\":[\"true\"]},\"c\":{\"needs\":[\"a\"],\"exec\":[\"true\"]},"
        "\"d\":{\"needs\":[\"b\"],\"exec\":[\"true\"]}}}";
    struct published published = {0};
    scene_ok(scene, store_publish(scene->store, "chain", NULL, text, NULL, &published, &scene->error));
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "chain"});
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    record_end_of_step(scene, &item, "a", STEP_COMPLETED, "[1.50]");
    record_end_of_step(scene, &item, "b", STEP_SKIPPED, NULL);
    record_end_of_step(scene, &item, "c", STEP_COMPLETED, "2");
    struct step_record last = {.step = "d", .state = STEP_FAILED, .attempt = 1, .failures = 1, .exit_code = 3};
    struct record record = scene_record_of(RECORD_FAILED, &item);
    record.step = &last;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    return id;
}

static struct claimed_item claim_retry_from(struct scene *scene, const char *id, const char *from)
{
    struct bulk_result result = {0};
    const struct execution_filter filter = {.id = id};
    const struct act_order order = {.keeps_finished = true, .from = from};
    scene_ok(scene, store_bulk_ordered(scene->store, BULK_RETRY, &order, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, result.new_id);
    return item;
}

static const struct step_record *kept_step(const struct claimed_item *item, const char *name)
{
    for (size_t i = 0; i < item->step_count; i++) {
        if (strcmp(item->steps[i].step, name) == 0) {
            return &item->steps[i];
        }
    }
    return NULL;
}

static void a_retry_may_keep_the_finished_steps(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_retry_from(scene, failed_at_the_last_step(scene), NULL);
    assert_int_equal(item.step_count, 3);
    const struct step_record *first = kept_step(&item, "a");
    assert_non_null(first);
    assert_int_equal(first->state, STEP_COMPLETED);
    assert_int_equal(first->attempt, 2);
    assert_int_equal(first->output_length, 6);
    assert_memory_equal(first->output, "[1.50]", 6);
    assert_int_equal(kept_step(&item, "b")->state, STEP_SKIPPED);
    assert_null(kept_step(&item, "d"));
    /* It is a first claim: no run of it may be without a record, and no node has lost it. */
    assert_int_equal(item.interruptions, item.interruptions_at_park);
    assert_false(item.handed_over || item.lost_a_node || item.is_suspect);
    /* Steps that it ends itself are kept by its own retry, too. */
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_CANCELLED, &item), WEIR_OK);
    struct claimed_item again = claim_retry_from(scene, item.id, NULL);
    assert_int_equal(again.step_count, 3);
}

static void a_retry_from_a_step_runs_all_that_need_it_again(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_retry_from(scene, failed_at_the_last_step(scene), "b");
    assert_int_equal(item.step_count, 2);
    assert_non_null(kept_step(&item, "a"));
    assert_non_null(kept_step(&item, "c"));
    item = claim_retry_from(scene, failed_at_the_last_step(scene), "a");
    assert_int_equal(item.step_count, 0);
}

/* A saga: `a` and `b` have completed and `b` was undone, `soft` failed as it may, `d` failed, and `clean` ran at the end.
 */
static const char *failed_with_an_undo(struct scene *scene)
{
    static const char text[] =
        "{\"name\":\"saga\",\"steps\":{\"a\":{\"exec\":[\"true\"],\"undo\":{\"exec\":[\"true\"]}},"
        "\"soft\":{\"exec\":[\"true\"],\"continue_on_error\":true},"
        "\"b\":{\"exec\":[\"true\"],\"undo\":{\"exec\":[\"true\"]}},\"c\":{\"needs\":[\"b\"],\"exec\":[\"true\"]},"
        "\"d\":{\"needs\":[\"c\"],\"exec\":[\"true\"]}},\"finally\":{\"clean\":{\"exec\":[\"true\"]}}}";
    struct published published = {0};
    scene_ok(scene, store_publish(scene->store, "saga", NULL, text, NULL, &published, &scene->error));
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "saga"});
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    record_end_of_step(scene, &item, "a", STEP_COMPLETED, "1");
    record_end_of_step(scene, &item, "soft", STEP_FAILED, NULL);
    record_end_of_step(scene, &item, "b", STEP_COMPLETED, "2");
    record_end_of_step(scene, &item, "c", STEP_COMPLETED, "3");
    record_end_of_step(scene, &item, "d", STEP_FAILED, NULL);
    record_end_of_step(scene, &item, "b.undo", STEP_FAILED, NULL);
    record_end_of_step(scene, &item, "a.undo", STEP_SKIPPED, NULL);
    record_end_of_step(scene, &item, "clean", STEP_COMPLETED, NULL);
    assert_int_equal(scene_record(scene, RECORD_FAILED, &item), WEIR_OK);
    return id;
}

static void a_retry_keeps_no_step_that_was_undone(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_retry_from(scene, failed_with_an_undo(scene), NULL);
    assert_int_equal(item.step_count, 2);
    assert_int_equal(kept_step(&item, "a")->state, STEP_COMPLETED); /* its undo was skipped */
    const struct step_record *soft = kept_step(&item, "soft");
    assert_non_null(soft);
    assert_int_equal(soft->state, STEP_FAILED);
    assert_string_equal(soft->error_code, "exit_1");
    assert_string_equal(soft->error, "no luck");
    assert_true(soft->finished_us > 0);
}

static void steps_after_a_failure_are_no_place_to_retry_from(void **state)
{
    struct scene *scene = *state;
    const char *id = failed_with_an_undo(scene);
    const struct execution_filter filter = {.id = id};
    static const char *const names[] = {"clean", "b.undo"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct bulk_result result = {0};
        const struct act_order order = {.keeps_finished = true, .from = names[i]};
        enum weir_status status =
            store_bulk_ordered(scene->store, BULK_RETRY, &order, &filter, "", 10, &result, &scene->error);
        assert_true(status == WEIR_INVALID_ARGUMENT || result.first_refusal == WEIR_INVALID_ARGUMENT);
        assert_int_equal(result.changed, 0);
    }
}

static void a_step_that_completed_with_its_execution_is_kept(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    struct step_record last = {.step = "one", .state = STEP_COMPLETED, .attempt = 1, .exit_code = 0};
    struct record record = scene_record_of(RECORD_CANCELLED, &item);
    record.step = &last;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    item = claim_retry_from(scene, id, NULL);
    assert_int_equal(item.step_count, 1);
    assert_int_equal(item.steps[0].state, STEP_COMPLETED);
}

static void a_retry_from_a_step_that_is_not_there_is_refused(void **state)
{
    struct scene *scene = *state;
    const char *id = failed_at_the_last_step(scene);
    struct bulk_result result = {0};
    const struct execution_filter filter = {.id = id};
    static const struct {
        const char *from;
        bool is_name;
    } cases[] = {{"e", true}, {"b\"", false}, {"", false}, {"B", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct act_order order = {.keeps_finished = true, .from = cases[i].from};
        enum weir_status status =
            store_bulk_ordered(scene->store, BULK_RETRY, &order, &filter, "", 10, &result, &scene->error);
        assert_int_equal(status, cases[i].is_name ? WEIR_OK : WEIR_INVALID_ARGUMENT);
        if (cases[i].is_name) {
            assert_int_equal(result.changed, 0);
            assert_int_equal(result.first_refusal, WEIR_INVALID_ARGUMENT);
            assert_non_null(strstr(result.refusal.message, "no such step"));
        }
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
    (void)claim_retry_from(scene, id, "d");
}

static void a_retry_on_temporal_keeps_no_steps(void **state)
{
    struct scene *scene = *state;
    static const char definition[] = "{\"name\":\"remote\",\"temporal\":{}}";
    static const char *const from[] = {NULL, "workflow"};
    struct published published;
    struct bulk_result result = {0};
    scene_ok(scene, store_publish(scene->store, "remote", NULL, definition, NULL, &published, &scene->error));
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "remote"});
    const struct execution_filter filter = {.id = id};
    scene_ok(scene, store_bulk_one(scene->store, BULK_CANCEL, NULL, &filter, &result, &scene->error));
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        const struct act_order order = {.keeps_finished = true, .from = from[i]};
        result = (struct bulk_result){0};
        scene_ok(scene, store_bulk_ordered(scene->store, BULK_RETRY, &order, &filter, "", 10, &result, &scene->error));
        assert_int_equal(result.first_refusal, WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(result.refusal.message, "one on Temporal has no steps"));
    }
    scene_ok(scene, store_bulk_one(scene->store, BULK_RETRY, NULL, &filter, &result, &scene->error)); /* as a whole */
}

/* --- dismissals --- */

static size_t count_matching(struct scene *scene, const struct execution_filter *filter)
{
    struct bulk_matches matches = {.matched = 0};
    scene_ok(scene, bulk_act_count(scene->store, filter, &matches, &scene->error));
    return (size_t)matches.matched;
}

static json_t *failure_groups(struct scene *scene)
{
    json_t *page = NULL;
    scene_ok(scene, failure_groups_read(scene->store, &(struct execution_filter){.id = NULL}, &page, &scene->error));
    return page;
}

static void a_dismissed_failure_is_no_dead_letter(void **state)
{
    struct scene *scene = *state;
    const char *first = ended(scene, "pro-co", RECORD_FAILED);
    const char *second = ended(scene, "pro-co", RECORD_FAILED);
    (void)ended(scene, "pro-co", RECORD_COMPLETED);
    json_t *page = failure_groups(scene);
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
    const json_t *group = json_array_get(json_object_get(page, "items"), 0);
    assert_int_equal(json_integer_value(json_object_get(group, "count")), 2);
    assert_string_equal(json_text_at(group, "workspace"), "pro-co");
    assert_string_equal(json_text_at(group, "sample_id"), second);
    json_decref(page);
    assert_int_equal(act_on_one(scene, BULK_DISMISS, first).changed, 1);
    assert_int_equal(act_on_one(scene, BULK_DISMISS, first).changed, 1); /* a repetition */
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_events WHERE event = 'dismiss'"), 1);
    assert_int_equal(count_matching(scene, &(struct execution_filter){.dismissed = CONDITION_YES}), 1);
    assert_int_equal(count_matching(scene, &(struct execution_filter){.dismissed = CONDITION_NO}), 2);
    page = failure_groups(scene);
    group = json_array_get(json_object_get(page, "items"), 0);
    assert_int_equal(json_integer_value(json_object_get(group, "count")), 1);
    json_decref(page);
    assert_int_equal(act_on_one(scene, BULK_RETRY, second).changed, 1);
    page = failure_groups(scene);
    assert_int_equal(json_array_size(json_object_get(page, "items")), 0);
    json_decref(page);
    /* A bulk act by the filter finds none; the mark ends with its execution. */
    struct execution_filter rest = {.states = 1U << ITEM_FAILED, .dismissed = CONDITION_NO, .retried = CONDITION_NO};
    assert_int_equal(act_on(scene, BULK_DISMISS, &rest, "", 100).changed, 0);
    assert_int_equal(act_on_one(scene, BULK_PURGE, first).changed, 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM dismissals"), 0);
}

static void only_failed_ones_are_dismissed(void **state)
{
    struct scene *scene = *state;
    const char *pending = scene_enqueue(scene, "pro-co");
    struct bulk_result result = act_on_one(scene, BULK_DISMISS, pending);
    assert_int_equal(result.refused, 1);
    assert_int_equal(result.first_refusal, WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(result.refusal.message, "is PENDING: only a FAILED one can be dismissed"));
    assert_int_equal(act_on_one(scene, BULK_CANCEL, pending).changed, 1);
    result = act_on_one(scene, BULK_DISMISS, pending);
    assert_non_null(strstr(result.refusal.message, "is CANCELLED: only a FAILED one can be dismissed"));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM dismissals"), 0);
}

static void only_failed_and_cancelled_ones_are_retried(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(act_on_one(scene, BULK_RETRY, ended(scene, "pro-co", RECORD_COMPLETED)).refused, 1);
    const char *cancelled = ended(scene, "pro-co", RECORD_CANCELLED);
    assert_int_equal(act_on_one(scene, BULK_RETRY, cancelled).changed, 1);
    struct claimed_item item = scene_claim_one(scene);
    struct bulk_result claimed = act_on_one(scene, BULK_RETRY, item.id);
    assert_int_equal(claimed.changed, 0);
    assert_int_equal(claimed.first_refusal, WEIR_ILLEGAL_STATE);
    const char *pending = scene_enqueue(scene, "pro-co");
    assert_int_equal(act_on_one(scene, BULK_RETRY, pending).refused, 1);
}

static void a_release_starts_a_waiting_one_now(void **state)
{
    struct scene *scene = *state;
    const char *scheduled = scene_enqueue_request(
        scene, &(struct enqueue_request){
                   .workspace = "pro-co", .workflow = "hello", .run_at_us = scene_now(scene) + SECONDS(600)});
    assert_int_equal(scene_claim(scene, 10).count, 0);
    assert_int_equal(act_on_one(scene, BULK_RELEASE, scheduled).changed, 1);
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, scheduled);
    struct record record = scene_record_of(RECORD_RETRY, &item);
    record.delay_us = SECONDS(600);
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    assert_int_equal(scene_claim(scene, 10).count, 0);
    assert_int_equal(act_on_one(scene, BULK_RELEASE, scheduled).changed, 1);
    item = scene_claim_one(scene);
    assert_int_equal(item.starts_refused, 1);
    struct bulk_result result = act_on_one(scene, BULK_RELEASE, scheduled);
    assert_int_equal(result.changed, 0);
    assert_int_equal(result.refused, 1);
}

static void a_release_never_passes_the_cap(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    (void)scene_claim_one(scene);
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "free-co",
                                                                            .workflow = "hello",
                                                                            .run_at_us = scene_now(scene) + SECONDS(600)});
    assert_int_equal(act_on_one(scene, BULK_RELEASE, id).changed, 1);
    assert_int_equal(scene_claim(scene, 10).count, 0);
    assert_string_equal(scene_reason_of(scene, id), "workspace_at_capacity");
}

static int64_t belongs_to(struct scene *scene, const char *id)
{
    return scene_number(scene,
                        "SELECT (SELECT count(*) FROM workflow_executions WHERE id = '%s')"
                        " + (SELECT count(*) FROM workflow_node_executions WHERE execution_id = '%s')"
                        " + (SELECT count(*) FROM workflow_execution_events WHERE execution_id = '%s')"
                        " + (SELECT count(*) FROM execution_params WHERE id = '%s')"
                        " + (SELECT count(*) FROM idempotency_keys WHERE execution_id = '%s')",
                        id, id, id, id, id);
}

static const char *full_failure(struct scene *scene, const char *key)
{
    struct enqueue_request request = {
        .workspace = "pro-co", .workflow = "hello", .params = "{\"a\":1}", .params_length = 7, .idempotency_key = key};
    const char *id = scene_enqueue_request(scene, &request);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_RETRY, &item), WEIR_OK);
    item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_STEP, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_FAILED, &item), WEIR_OK);
    return id;
}

static void a_purge_removes_all_that_belongs_to_it_and_nothing_else(void **state)
{
    struct scene *scene = *state;
    const char *kept = full_failure(scene, "key-kept");
    const char *purged = full_failure(scene, "key-purged");
    const char *pending = scene_enqueue(scene, "pro-co");
    int64_t kept_rows = belongs_to(scene, kept);
    assert_true(kept_rows >= 5);
    assert_int_equal(belongs_to(scene, purged), kept_rows);
    assert_int_equal(act_on_one(scene, BULK_PURGE, purged).changed, 1);
    assert_int_equal(belongs_to(scene, purged), 0);
    assert_int_equal(belongs_to(scene, kept), kept_rows);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE id = '%s'", purged), 0);
    struct bulk_result result = act_on_one(scene, BULK_PURGE, pending);
    assert_int_equal(result.changed, 0);
    assert_int_equal(result.refused, 1);
    assert_string_equal(scene_status_of(scene, pending), "PENDING");
    struct enqueue_request again = {.workspace = "pro-co", .workflow = "hello", .idempotency_key = "key-purged"};
    assert_false(scene_try(scene, &again).duplicate);
}

static void a_purge_by_age_never_touches_what_waits_or_runs(void **state)
{
    struct scene *scene = *state;
    const char *old = ended(scene, "pro-co", RECORD_COMPLETED);
    const char *running_one = scene_enqueue(scene, "pro-co");
    struct claimed_item running = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &running), WEIR_OK);
    const char *parked = scene_enqueue_request(
        scene, &(struct enqueue_request){
                   .workspace = "big-co", .workflow = "hello", .run_at_us = scene_now(scene) + 90 * RETENTION_US});
    scene_pass(scene, 46 * 86400 * MICROSECONDS_PER_SECOND); /* nFlow's maintenance takes parked ones after 45 days */
    scene->node = scene_add_node(scene, "node-2", "default");
    const char *young = ended(scene, "big-co", RECORD_COMPLETED);
    struct execution_filter filter = {.finished_before_us = scene_now(scene) - SECONDS(60)};
    struct bulk_result result = act_on(scene, BULK_PURGE, &filter, "", 100);
    assert_int_equal(result.changed, 1);
    assert_false(result.more);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE id = '%s'", old), 0);
    assert_string_equal(scene_status_of(scene, running_one), "DISPATCHED");
    assert_string_equal(scene_status_of(scene, parked), "PENDING");
    assert_string_equal(scene_status_of(scene, young), "COMPLETED");
}

static void a_filter_acts_only_on_what_it_names(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 3);
    scene_enqueue_many(scene, "big-co", 3);
    struct execution_filter filter = {.workspace = "pro-co", .states = 1U << ITEM_PENDING};
    struct bulk_result result = act_on(scene, BULK_CANCEL, &filter, "", 100);
    assert_int_equal(result.matched, 3);
    assert_int_equal(result.changed, 3);
    assert_int_equal(
        scene_number(scene, "SELECT count(*) FROM executions WHERE workspace = 'pro-co' AND status = 'CANCELLED'"), 3);
    assert_int_equal(
        scene_number(scene, "SELECT count(*) FROM executions WHERE workspace = 'big-co' AND status = 'PENDING'"), 3);
}

static void failed_ones_are_retried_by_their_error_code(void **state)
{
    struct scene *scene = *state;
    const char *other = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    struct record record = scene_record_of(RECORD_FAILED, &item);
    record.error_code = "other_error";
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    (void)ended(scene, "pro-co", RECORD_FAILED);
    (void)ended(scene, "pro-co", RECORD_FAILED);
    struct execution_filter filter = {.error_code = "test_error", .states = 1U << ITEM_FAILED};
    struct bulk_result result = act_on(scene, BULK_RETRY, &filter, "", 100);
    assert_int_equal(result.matched, 2);
    assert_int_equal(result.changed, 2);
    assert_int_equal(act_on_one(scene, BULK_RETRY, other).changed, 1);
    assert_int_equal(scene_claim(scene, 100).count, 3);
}

static size_t count_failed(struct scene *scene, enum filter_condition retried)
{
    struct list_options options = {
        .kind = LIST_EXECUTIONS, .filter = {.states = 1U << ITEM_FAILED, .retried = retried}, .count = true};
    json_t *page = NULL;
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    size_t count = json_array_size(json_object_get(page, "items"));
    assert_int_equal(json_number_at(page, "count"), count);
    json_decref(page);
    return count;
}

/* A failed one that was retried is settled: a retry of all others leaves it out. */
static void a_filter_tells_retried_executions_from_others(void **state)
{
    struct scene *scene = *state;
    const char *first = ended(scene, "pro-co", RECORD_FAILED);
    (void)ended(scene, "pro-co", RECORD_FAILED);
    (void)ended(scene, "pro-co", RECORD_FAILED);
    struct bulk_result retried = act_on_one(scene, BULK_RETRY, first);
    assert_int_equal(count_failed(scene, CONDITION_ANY), 3);
    assert_int_equal(count_failed(scene, CONDITION_YES), 1);
    assert_int_equal(count_failed(scene, CONDITION_NO), 2);
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.id, retried.new_id);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &again), WEIR_OK); /* also after the end of the new one */
    assert_int_equal(count_failed(scene, CONDITION_YES), 1);
    struct execution_filter filter = {.states = 1U << ITEM_FAILED, .retried = CONDITION_NO};
    struct bulk_result result = act_on(scene, BULK_RETRY, &filter, "", 100);
    assert_int_equal(result.matched, 2);
    assert_int_equal(result.changed, 2);
    assert_int_equal(result.refused, 0);
    assert_int_equal(count_failed(scene, CONDITION_NO), 0);
    assert_int_equal(act_on_one(scene, BULK_PURGE, retried.new_id).changed, 1);
    assert_int_equal(count_failed(scene, CONDITION_NO), 1); /* the new one is not on record any more */
}

static void chunks_go_on_where_the_last_one_ended(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 25);
    struct execution_filter filter = {.workspace = "pro-co", .states = 1U << ITEM_PENDING};
    char after[UUID_TEXT_MAX] = "";
    size_t changed = 0;
    int chunks = 0;
    struct bulk_result result;
    do {
        result = act_on(scene, BULK_CANCEL, &filter, after, 10);
        assert_true(strcmp(after, result.last_id) < 0 || result.matched == 0);
        text_copy(after, sizeof after, result.last_id);
        changed += result.changed;
        scene_check(scene);
        assert_true(++chunks <= 4);
    } while (result.more);
    assert_int_equal(changed, 25);
}

static void a_retry_of_many_does_not_retry_its_own_results(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 7; i++) {
        (void)ended(scene, "pro-co", RECORD_FAILED);
    }
    struct execution_filter filter = {.workspace = "pro-co"};
    char after[UUID_TEXT_MAX] = "";
    size_t changed = 0;
    struct bulk_result result;
    int chunks = 0;
    do {
        result = act_on(scene, BULK_RETRY, &filter, after, 3);
        text_copy(after, sizeof after, result.last_id);
        changed += result.changed;
        assert_true(++chunks < 10);
    } while (result.more);
    assert_int_equal(changed, 7);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'PENDING'"), 7);
}

static void one_that_is_not_there_is_said_so(void **state)
{
    struct scene *scene = *state;
    struct execution_filter filter = {.id = "0198c2f1-0000-7000-8000-000000000001"};
    for (int act = BULK_CANCEL; act <= BULK_PURGE; act++) {
        struct bulk_result result = {0};
        enum weir_status status = store_bulk(scene->store, (enum bulk_act)act, &filter, "", 10, &result, &scene->error);
        assert_true(status == WEIR_EXECUTION_NOT_FOUND || (status == WEIR_OK && result.matched == 0));
    }
}

static void an_id_may_be_its_beginning_when_it_is_unique(void **state)
{
    struct scene *scene = *state;
    char prefix[UUID_TEXT_MAX];
    const char *id = scene_enqueue(scene, "pro-co");
    text_copy(prefix, 24, id);
    assert_int_equal(act_on_one(scene, BULK_CANCEL, prefix).changed, 1);
    assert_string_equal(scene_status_of(scene, id), "CANCELLED");
}

/* Two executions share the beginning of their ids: an act on "one" must not hit both, nor guess. */
static void a_beginning_of_two_ids_acts_on_neither(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {
        .workspace = "pro-co", .workflow = "hello", .id = "0198c2f1-0000-7000-8000-000000000001"};
    (void)scene_enqueue_request(scene, &request);
    request.id = "0198c2f1-0000-7000-8000-000000000002";
    (void)scene_enqueue_request(scene, &request);
    struct execution_filter filter = {.id = "0198c2f1"};
    struct bulk_result result = {0};
    enum weir_status status = store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error);
    assert_int_not_equal(status, WEIR_OK);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'PENDING'"), 2);
}

static void who_did_it_and_why_is_on_record(void **state)
{
    struct scene *scene = *state;
    const char *failed = ended(scene, "pro-co", RECORD_FAILED);
    struct bulk_result retried = act_on_one(scene, BULK_RETRY, failed);
    assert_int_equal(act_on_one(scene, BULK_CANCEL, retried.new_id).changed, 1);
    assert_int_equal(scene_number(scene,
                                  "SELECT count(*) FROM execution_events WHERE execution_id = '%s' AND event = 'cancel'"
                                  " AND actor = 'ann' AND reason = 'because'",
                                  retried.new_id),
                     1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(acts_have_names),
        SCENE_TEST(a_cancelled_pending_item_never_starts),
        SCENE_TEST(a_running_item_keeps_its_slot_until_its_engine_stopped_it),
        SCENE_TEST(a_cancel_is_no_failure_whenever_it_comes),
        SCENE_TEST(what_has_ended_is_not_cancelled),
        SCENE_TEST(a_retry_is_a_new_execution_of_the_same_request),
        SCENE_TEST(a_second_retry_is_refused),
        SCENE_TEST(a_retry_may_keep_the_finished_steps),
        SCENE_TEST(a_dismissed_failure_is_no_dead_letter),
        SCENE_TEST(only_failed_ones_are_dismissed),
        SCENE_TEST(a_retry_keeps_no_step_that_was_undone),
        SCENE_TEST(steps_after_a_failure_are_no_place_to_retry_from),
        SCENE_TEST(a_retry_from_a_step_runs_all_that_need_it_again),
        SCENE_TEST(a_step_that_completed_with_its_execution_is_kept),
        SCENE_TEST(a_retry_from_a_step_that_is_not_there_is_refused),
        SCENE_TEST(a_retry_on_temporal_keeps_no_steps),
        SCENE_TEST(only_failed_and_cancelled_ones_are_retried),
        SCENE_TEST(a_release_starts_a_waiting_one_now),
        SCENE_TEST(a_release_never_passes_the_cap),
        SCENE_TEST(a_purge_removes_all_that_belongs_to_it_and_nothing_else),
        SCENE_TEST(a_purge_by_age_never_touches_what_waits_or_runs),
        SCENE_TEST(a_filter_acts_only_on_what_it_names),
        SCENE_TEST(failed_ones_are_retried_by_their_error_code),
        SCENE_TEST(a_filter_tells_retried_executions_from_others),
        SCENE_TEST(chunks_go_on_where_the_last_one_ended),
        SCENE_TEST(a_retry_of_many_does_not_retry_its_own_results),
        SCENE_TEST(one_that_is_not_there_is_said_so),
        SCENE_TEST(an_id_may_be_its_beginning_when_it_is_unique),
        SCENE_TEST(a_beginning_of_two_ids_acts_on_neither),
        SCENE_TEST(who_did_it_and_why_is_on_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
