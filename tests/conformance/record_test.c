/* store_record: every kind from every state, sets, counters, fences. What is legal comes from item_moves(). */
#include "conformance/scene.h"
#include "store/complete.h"

/* An item in the wanted state, with the fence under which it was last held. */
static struct claimed_item item_in_state(struct scene *scene, enum item_state wanted)
{
    (void)scene_enqueue(scene, "big-co");
    struct claimed_item item = scene_claim_one(scene);
    struct record delayed = scene_record_of(wanted == ITEM_WAITING ? RECORD_PARKED : RECORD_RETRY, &item);
    delayed.delay_us = SECONDS(3600);
    if (wanted == ITEM_DISPATCHED || wanted == ITEM_WAITING) {
        assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    }
    switch (wanted) {
    case ITEM_PENDING:
    case ITEM_WAITING: /* for an hour, so that no later claim of this scene takes it */
        assert_int_equal(scene_record_full(scene, scene->node, delayed), WEIR_OK);
        break;
    case ITEM_COMPLETED:
        assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
        break;
    case ITEM_FAILED:
        assert_int_equal(scene_record(scene, RECORD_FAILED, &item), WEIR_OK);
        break;
    case ITEM_CANCELLED:
        assert_int_equal(scene_record(scene, RECORD_CANCELLED, &item), WEIR_OK);
        break;
    default:
        break;
    }
    assert_string_equal(scene_status_of(scene, item.id), item_state_name(wanted));
    return item;
}

static json_t *row_of(struct scene *scene, const char *id)
{
    char sql[200];
    (void)snprintf(sql, sizeof sql, "SELECT * FROM executions WHERE id = '%s'", id);
    return scene_rows(scene, sql);
}

static json_t *events_of(struct scene *scene, const char *id)
{
    char sql[200];
    (void)snprintf(sql, sizeof sql, "SELECT * FROM execution_events WHERE execution_id = '%s'", id);
    return scene_rows(scene, sql);
}

/* The only step of an execution, as the list of steps shows it. */
static json_t *only_step(struct scene *scene, const char *id)
{
    struct list_options options = {.kind = LIST_STEPS, .filter = {.id = id}};
    json_t *page = NULL;
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
    json_t *step = json_incref(json_array_get(json_object_get(page, "items"), 0));
    json_decref(page);
    return step;
}

static void assert_step(struct scene *scene, const char *id, const char *status, int exit_code)
{
    json_t *step = only_step(scene, id);
    assert_string_equal(json_text_at(step, "step"), "one");
    assert_string_equal(json_text_at(step, "status"), status);
    assert_int_equal(json_number_at(step, "exit_code"), exit_code);
    json_decref(step);
}

static bool is_end_or_step(enum record_kind kind)
{
    return kind == RECORD_STEP || kind == RECORD_GIVEN_BACK;
}

/* The state that a legal record leads to; the same state when it moves nothing. */
static bool is_legal(enum item_state from, enum record_kind kind, enum item_state *ret_to)
{
    const struct item_move *move = scene_find_move(from, record_kind_name(kind));
    if (is_end_or_step(kind)) {
        *ret_to = kind == RECORD_STEP ? from : ITEM_CLAIMED;
        return from == ITEM_CLAIMED || from == ITEM_DISPATCHED;
    }
    *ret_to = move == NULL ? from : move->to;
    /* No node holds a PENDING or WAITING item, so none may record anything about it. */
    return move != NULL && from != ITEM_PENDING && from != ITEM_WAITING;
}

static void assert_refused(enum item_state from, enum record_kind kind, enum weir_status status)
{
    bool fine = status == WEIR_ILLEGAL_STATE || status == WEIR_STALE_FENCE || status == WEIR_EXECUTION_NOT_FOUND;
    bool repeated = status == WEIR_OK && ((from == ITEM_DISPATCHED && kind == RECORD_DISPATCHED) || from == ITEM_PENDING ||
                                          (from == ITEM_WAITING && kind == RECORD_PARKED) || item_is_terminal(from));
    if (!fine && !repeated) {
        fail_msg("%s of a %s item was answered %s", record_kind_name(kind), item_state_name(from),
                 weir_status_name(status));
    }
    if (from == ITEM_DISPATCHED && kind != RECORD_DISPATCHED) {
        assert_int_equal(status, WEIR_ILLEGAL_STATE);
    }
}

static void every_kind_from_every_state_does_what_the_table_says(void **state)
{
    struct scene *scene = *state;
    scene_cap(scene, "big-co", 1000);
    for (int from = 0; from < ITEM_STATE_COUNT; from++) {
        for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
            struct claimed_item item = item_in_state(scene, (enum item_state)from);
            enum item_state to = (enum item_state)from;
            json_t *before = row_of(scene, item.id);
            json_t *events = events_of(scene, item.id);
            enum weir_status status = scene_record(scene, (enum record_kind)kind, &item);
            json_t *after = row_of(scene, item.id);
            json_t *more_events = events_of(scene, item.id);
            if (is_legal((enum item_state)from, (enum record_kind)kind, &to)) {
                assert_int_equal(status, WEIR_OK);
                assert_string_equal(scene_status_of(scene, item.id), item_state_name(to));
            } else {
                assert_refused((enum item_state)from, (enum record_kind)kind, status);
                assert_true(json_equal(before, after));
                assert_true(json_equal(events, more_events));
            }
            json_decref(before);
            json_decref(after);
            json_decref(events);
            json_decref(more_events);
            scene_check(scene);
            struct claim_result rest = scene_claim(scene, 100); /* what was put back or handed over */
            scene_complete(scene, &rest);
        }
    }
}

static void a_stale_fence_changes_nothing(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item old = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_PUT_BACK, &old), WEIR_OK);
    struct claimed_item held = scene_claim_one(scene);
    assert_true(held.fence > old.fence);
    json_t *before = row_of(scene, id);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        assert_int_equal(scene_record(scene, (enum record_kind)kind, &old), WEIR_STALE_FENCE);
    }
    struct claimed_item future = held;
    future.fence = held.fence + 1000;
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &future), WEIR_STALE_FENCE);
    json_t *after = row_of(scene, id);
    assert_true(json_equal(before, after));
    json_decref(before);
    json_decref(after);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_node_executions"), 0);
}

static void a_record_of_nothing_known_is_not_found(void **state)
{
    struct scene *scene = *state;
    struct claimed_item nobody = {.id = "0198c2f1-0000-7000-8000-000000000001", .fence = 1};
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        assert_int_equal(scene_record(scene, (enum record_kind)kind, &nobody), WEIR_EXECUTION_NOT_FOUND);
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_events"), 0);
}

static void the_same_record_again_is_fine_and_changes_nothing(void **state)
{
    struct scene *scene = *state;
    scene_cap(scene, "big-co", 100);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        struct claimed_item item = item_in_state(scene, kind == RECORD_PARKED ? ITEM_DISPATCHED : ITEM_CLAIMED);
        assert_int_equal(scene_record(scene, (enum record_kind)kind, &item), WEIR_OK);
        json_t *before = row_of(scene, item.id);
        json_t *events = events_of(scene, item.id);
        enum weir_status status = scene_record(scene, (enum record_kind)kind, &item);
        json_t *after = row_of(scene, item.id);
        json_t *more_events = events_of(scene, item.id);
        bool fine = status == WEIR_OK || status == WEIR_EXECUTION_NOT_FOUND ||
                    (kind == RECORD_GIVEN_BACK && status == WEIR_STALE_FENCE); /* giving back makes the fence grow */
        if (!fine) {
            fail_msg("%s again was answered %s", record_kind_name((enum record_kind)kind), weir_status_name(status));
        }
        assert_true(json_equal(before, after));
        assert_true(json_equal(events, more_events));
        json_decref(before);
        json_decref(after);
        json_decref(events);
        json_decref(more_events);
        struct claim_result rest = scene_claim(scene, 100);
        scene_complete(scene, &rest);
    }
}

static void only_what_took_effect_is_counted(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 3);
    struct claim_result claim = scene_claim(scene, 3);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &claim.items[0]), WEIR_OK);
    struct record records[4] = {
        scene_record_of(RECORD_DISPATCHED, &claim.items[0]), /* again */
        scene_record_of(RECORD_COMPLETED, &claim.items[1]),
        scene_record_of(RECORD_COMPLETED, &claim.items[1]), /* again */
        scene_record_of(RECORD_PUT_BACK, &claim.items[2]),
    };
    struct record_summary summary = {0};
    scene_ok(scene, store_record(scene->store, scene->node, records, 4, &summary, &scene->error));
    assert_int_equal(summary.changed, 2);
    assert_int_equal(summary.slots_freed, 2);
    assert_true(summary.work_waits);
}

/* Engines may report the end before the start is on record. */
static void an_end_before_the_dispatch_counts_as_dispatched(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    struct record record = scene_record_of(RECORD_COMPLETED, &item);
    record.dispatched_first = true;
    scene_pass(scene, SECONDS(1));
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_EXECUTION_NOT_FOUND);
    assert_string_equal(scene_status_of(scene, id), "COMPLETED");
    assert_non_null(scene_text(scene, "SELECT CAST(dispatched_at AS TEXT) FROM executions WHERE id = '%s'", id));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue"), 0);
}

static void an_end_without_a_dispatch_has_no_dispatch_time(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_REFUSED, &item), WEIR_OK);
    assert_null(scene_text(scene, "SELECT CAST(dispatched_at AS TEXT) FROM executions WHERE id = '%s'", id));
    assert_string_equal(scene_text(scene, "SELECT error_code FROM executions WHERE id = '%s'", id), "test_error");
    assert_string_equal(scene_text(scene, "SELECT error FROM executions WHERE id = '%s'", id), "it did not work");
    assert_int_equal(scene_number(scene, "SELECT starts_refused FROM executions WHERE id = '%s'", id), 1);
}

static void time_stamps_are_set_once_in_store_time(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    scene_pass(scene, SECONDS(1));
    struct claimed_item item = scene_claim_one(scene);
    scene_pass(scene, SECONDS(1));
    scene->driver.time.wall_us += SECONDS(600); /* the node's own clock is wrong */
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    scene_pass(scene, SECONDS(1));
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    int64_t times[4] = {0};
    static const char *const columns[4] = {"created_at", "claimed_at", "dispatched_at", "finished_at"};
    for (int i = 0; i < 4; i++) {
        scene_ok(scene, time_parse(json_text_at(shown, columns[i]), 0, &times[i], &scene->error));
        assert_true(i == 0 || times[i] == times[i - 1] + SECONDS(1));
    }
    json_decref(shown);
}

/* The execution's own timeout counts from its first dispatch, over all handovers. */
static void the_first_dispatch_counts_over_handovers(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "pro-co");
    for (int i = 0; i < 4; i++) {
        struct claimed_item item = scene_claim_one(scene);
        assert_int_equal(item.running_for_us, SECONDS(i));
        assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
        scene_pass(scene, SECONDS(1));
        assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &item), WEIR_OK);
    }
}

/* A record, its state and its counters afterwards. */
static void assert_put_back(struct scene *scene, enum record_kind kind, int attempts, int deferrals, const char *reason)
{
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    struct record record = scene_record_of(kind, &item);
    record.delay_us = kind == RECORD_PUT_BACK ? 0 : SECONDS(2);
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    assert_string_equal(scene_status_of(scene, id), "PENDING");
    assert_string_equal(scene_reason_of(scene, id), reason);
    assert_int_equal(scene_number(scene, "SELECT starts_refused FROM executions WHERE id = '%s'", id), attempts);
    assert_int_equal(scene_number(scene, "SELECT deferrals FROM executions WHERE id = '%s'", id), deferrals);
    assert_int_equal(scene_number(scene, "SELECT handovers FROM executions WHERE id = '%s'", id), 0);
    if (record.delay_us > 0) {
        assert_int_equal(scene_claim(scene, 10).count, 0);
        scene_pass(scene, record.delay_us);
    }
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.id, id);
    assert_int_equal(again.starts_refused, attempts);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &again), WEIR_OK);
}

static void each_way_back_spends_its_own_counter(void **state)
{
    struct scene *scene = *state;
    assert_put_back(scene, RECORD_RETRY, 1, 0, "backing_off");
    assert_put_back(scene, RECORD_DEFERRED, 0, 1, "backing_off");
    assert_put_back(scene, RECORD_PUT_BACK, 0, 0, "ready");
}

static void every_error_of_an_attempt_is_kept(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    for (int i = 1; i <= 3; i++) {
        char error[40];
        struct claimed_item item = scene_claim_one(scene);
        struct record record = scene_record_of(i < 3 ? RECORD_RETRY : RECORD_REFUSED, &item);
        (void)snprintf(error, sizeof error, "error number %d", i);
        record.error = error;
        assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    }
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    char *text = json_dumps(shown, 0);
    for (int i = 1; i <= 3; i++) {
        char error[40];
        (void)snprintf(error, sizeof error, "error number %d", i);
        assert_non_null(strstr(text, error));
    }
    free(text);
    json_decref(shown);
    assert_int_equal(scene_number(scene, "SELECT starts_refused FROM executions WHERE id = '%s'", id), 3);
}

static void one_bad_record_leaves_the_others_of_its_set_alone(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 6);
    struct claim_result claim = scene_claim(scene, 6);
    struct record records[6];
    struct record_summary summary = {0};
    char output[] = "\"\"";
    struct step_record too_large = {.step = "one", .output = output, .output_length = STEP_OUTPUT_BYTES_MAX + 1};
    for (size_t i = 0; i < 6; i++) {
        records[i] = scene_record_of(RECORD_COMPLETED, &claim.items[i]);
    }
    records[1].fence += 99;
    text_copy(records[3].id, sizeof records[3].id, "0198c2f1-0000-7000-8000-000000000001");
    records[4].kind = RECORD_STEP;
    records[4].step = &too_large;
    scene_ok(scene, store_record(scene->store, scene->node, records, 6, &summary, &scene->error));
    static const enum weir_status expected[] = {
        WEIR_OK, WEIR_STALE_FENCE, WEIR_OK, WEIR_EXECUTION_NOT_FOUND, WEIR_INVALID_ARGUMENT, WEIR_OK};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(records[i].status, expected[i]);
    }
    assert_int_equal(summary.changed, 3);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'COMPLETED'"), 3);
}

static void a_set_is_recorded_in_its_order(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    struct step_record running = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    struct step_record done = {.step = "one", .state = STEP_COMPLETED, .attempt = 1, .exit_code = 0};
    struct record records[4] = {scene_record_of(RECORD_DISPATCHED, &item), scene_record_of(RECORD_STEP, &item),
                                scene_record_of(RECORD_STEP, &item), scene_record_of(RECORD_COMPLETED, &item)};
    struct record_summary summary = {0};
    records[1].step = &running;
    records[2].step = &done;
    scene_ok(scene, store_record(scene->store, scene->node, records, 4, &summary, &scene->error));
    assert_int_equal(summary.changed, 4);
    assert_string_equal(scene_status_of(scene, id), "COMPLETED");
    assert_step(scene, id, "COMPLETED", 0);
}

static void an_empty_set_is_fine(void **state)
{
    struct scene *scene = *state;
    struct record_summary summary = {.changed = 5};
    scene_ok(scene, store_record(scene->store, scene->node, NULL, 0, &summary, &scene->error));
    assert_int_equal(summary.changed, 0);
    assert_int_equal(summary.slots_freed, 0);
}

/* --- steps --- */

static void a_step_keeps_output_variables_and_error_byte_for_byte(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue_request(
        scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "hello", .priority = -3});
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(item.priority, -3);
    char output[] = "{\"a\":\"\\u0000 '\\\" %s $1 \xE2\x80\xAE \xF0\x9F\x98\x80\"}";
    char variables[] = "{\"n\": 1}";
    char error[] = "it's \"odd\" \xF0\x9F\x98\x80";
    struct step_record step = {.step = "one",
                               .state = STEP_WAITING,
                               .attempt = 2,
                               .failures = 1,
                               .exit_code = 7,
                               .due_in_us = SECONDS(30),
                               .output = output,
                               .output_length = sizeof output - 1,
                               .variables = variables,
                               .error_code = "exit_code",
                               .error = error};
    struct record record = scene_record_of(RECORD_STEP, &item);
    record.step = &step;
    int64_t now_us = scene_now(scene);
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &item), WEIR_OK);
    scene_pass(scene, SECONDS(10));
    struct claimed_item again = scene_claim_one(scene);
    assert_int_equal(again.step_count, 1);
    const struct step_record *kept = &again.steps[0];
    assert_int_equal(kept->state, STEP_WAITING);
    assert_int_equal(kept->attempt, 2);
    assert_int_equal(kept->failures, 1);
    assert_int_equal(kept->exit_code, 7);
    assert_int_equal(kept->due_us, now_us + SECONDS(30));
    assert_int_equal(kept->output_length, sizeof output - 1);
    assert_memory_equal(kept->output, output, sizeof output - 1);
    assert_string_equal(kept->variables, variables);
    assert_int_equal(again.priority, -3);
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    const json_t *step_shown = json_array_get(json_object_get(shown, "steps"), 0);
    assert_int_equal(json_number_at(json_object_get(step_shown, "variables"), "n"), 1);
    json_decref(shown);
    assert_string_equal(kept->error_code, "exit_code");
    assert_string_equal(kept->error, error);
}

static void a_step_has_one_row_with_its_last_attempt(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    for (int attempt = 1; attempt <= 3; attempt++) {
        struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = attempt, .exit_code = -1};
        struct record record = scene_record_of(RECORD_STEP, &item);
        record.step = &step;
        assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_node_executions"), 1);
    assert_int_equal(scene_number(scene, "SELECT attempt FROM workflow_node_executions"), 3);
}

static void the_end_may_carry_the_last_step(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    char output[] = "[1,2]";
    struct step_record step = {
        .step = "one", .state = STEP_COMPLETED, .attempt = 1, .exit_code = 0, .output = output, .output_length = 5};
    struct record record = scene_record_of(RECORD_COMPLETED, &item);
    record.step = &step;
    record.dispatched_first = true;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, item.id, &shown, &scene->error));
    const json_t *kept = json_object_get(json_array_get(json_object_get(shown, "steps"), 0), "output");
    assert_int_equal(json_integer_value(json_array_get(kept, 1)), 2);
    json_decref(shown);
    record.fence += 1;
    step.exit_code = 9;
    assert_int_not_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    assert_step(scene, item.id, "COMPLETED", 0);
}

/* It has no row of its own, and is shown like one that has. */
static void a_step_that_ends_with_its_execution_is_shown_without_a_row(void **state)
{
    static const enum record_kind ends[] = {RECORD_COMPLETED, RECORD_FAILED, RECORD_CANCELLED};
    struct scene *scene = *state;
    char output[] = "{\"n\":7}";
    char variables[] = "{\"v\":1}";
    char error[] = "it's \"odd\"";
    json_t *rows[2];
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        for (int has_row = 0; has_row < 2; has_row++) {
            const char *id = scene_enqueue(scene, "free-co");
            struct claimed_item item = scene_claim_one(scene);
            struct step_record running = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
            struct step_record last = {.step = "one",
                                       .state = i == 0   ? STEP_COMPLETED
                                                : i == 1 ? STEP_FAILED
                                                         : STEP_CANCELLED,
                                       .attempt = 1,
                                       .failures = i == 1,
                                       .exit_code = (int)i,
                                       .output = output,
                                       .output_length = sizeof output - 1,
                                       .variables = variables,
                                       .error_code = "exit_1",
                                       .error = error};
            struct record record = scene_record_of(RECORD_STEP, &item);
            record.step = &running;
            if (has_row) {
                assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
            }
            record = scene_record_of(ends[i], &item);
            record.step = &last;
            record.dispatched_first = true;
            assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
            assert_int_equal(
                scene_number(scene, "SELECT count(*) FROM workflow_node_executions WHERE execution_id = '%s'", id),
                has_row);
            assert_int_equal(scene_number(scene,
                                          "SELECT count(*) FROM execution_events WHERE execution_id = '%s'"
                                          " AND event IN ('step_start', 'step_end') AND node = 'node-1'",
                                          id),
                             2);
            rows[has_row] = only_step(scene, id);
            (void)json_object_del(rows[has_row], "fence");
        }
        if (!json_equal(rows[0], rows[1])) {
            fail_msg("without a row: %s\nwith a row: %s", json_dumps(rows[0], 0), json_dumps(rows[1], 0));
        }
        json_decref(rows[0]);
        json_decref(rows[1]);
    }
}

/* A node that asks again sends what was not acknowledged along with what came after. What a step said first stands. */
static void one_set_may_tell_the_end_of_a_step_twice(void **state)
{
    struct scene *scene = *state;
    static const enum record_kind ends[] = {RECORD_COMPLETED, RECORD_FAILED, RECORD_CANCELLED, RECORD_STEP,
                                            RECORD_GIVEN_BACK};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct record_summary summary = {0};
        struct step_record running = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
        struct step_record done = {.step = "one", .state = STEP_COMPLETED, .attempt = 1, .exit_code = 7};
        struct step_record again = {.step = "one", .state = STEP_COMPLETED, .attempt = 1, .exit_code = 8};
        const char *id = scene_enqueue(scene, "big-co");
        struct claimed_item item = scene_claim_one(scene);
        struct record records[4] = {scene_record_of(RECORD_DISPATCHED, &item), scene_record_of(RECORD_STEP, &item),
                                    scene_record_of(RECORD_STEP, &item), scene_record_of(ends[i], &item)};
        records[1].step = &running;
        records[2].step = &done;
        records[3].step = &again;
        scene_ok(scene, store_record(scene->store, scene->node, records, 4, &summary, &scene->error));
        assert_int_equal(summary.changed, 4);
        assert_step(scene, id, "COMPLETED", 7);
    }
}

static void a_step_output_that_is_too_large_is_refused_alone(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    char *output = malloc(STEP_OUTPUT_BYTES_MAX + 3);
    assert_non_null(output);
    memset(output, 'x', STEP_OUTPUT_BYTES_MAX + 2);
    output[0] = '"';
    output[STEP_OUTPUT_BYTES_MAX + 1] = '"';
    struct step_record step = {.step = "one",
                               .state = STEP_COMPLETED,
                               .attempt = 1,
                               .exit_code = 0,
                               .output = output,
                               .output_length = STEP_OUTPUT_BYTES_MAX + 2};
    struct record record = scene_record_of(RECORD_STEP, &item);
    record.step = &step;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_INVALID_ARGUMENT);
    free(output);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
}

static void a_long_error_is_cut_and_not_refused(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    char *error = malloc(70000);
    assert_non_null(error);
    for (size_t i = 0; i + 4 < 70000; i += 4) {
        memcpy(error + i, "\xF0\x9F\x98\x80", 5);
    }
    struct record record = scene_record_of(RECORD_FAILED, &item);
    record.error = error;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    const char *kept = scene_text(scene, "SELECT error FROM executions WHERE id = '%s'", id);
    assert_in_range(strlen(kept), 100, ERROR_TEXT_MAX);
    assert_true(text_is_utf8(kept, strlen(kept)));
    free(error);
}

/* --- what is on record --- */

static void what_the_time_stamps_cannot_tell_is_an_event(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    static const enum record_kind kinds[] = {RECORD_RETRY, RECORD_DEFERRED, RECORD_PUT_BACK, RECORD_GIVEN_BACK};
    for (size_t i = 0; i < 4; i++) {
        struct claimed_item item = scene_claim_one(scene);
        assert_int_equal(scene_record(scene, kinds[i], &item), WEIR_OK);
        assert_int_equal(scene_number(scene,
                                      "SELECT count(*) FROM execution_events WHERE execution_id = '%s' AND event = '%s'",
                                      id, record_kind_name(kinds[i])),
                         1);
    }
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    static const char *const told[] = {"enqueue", "claim", "dispatch", "complete"};
    for (size_t i = 0; i < 4; i++) {
        assert_true(scene_number(scene, "SELECT count(*) FROM execution_events WHERE execution_id = '%s' AND event = '%s'",
                                 id, told[i]) >= 1);
    }
}

static int64_t deferrals_told(struct scene *scene, const char *id)
{
    return scene_number(scene, "SELECT count(*) FROM execution_events WHERE execution_id = '%s' AND event = 'defer'", id);
}

/* An item that no node can run is put back for ever: its story must not grow with it. */
static void only_the_first_deferral_and_each_change_of_its_reason_are_events(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    static const char *const reasons[] = {"unknown_handler", "unknown_handler", "wrong_engine",   "wrong_engine",
                                          "wrong_engine",    "unknown_handler", "unknown_handler"};
    static const int told[] = {1, 1, 2, 2, 2, 3, 3};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        struct claimed_item item = scene_claim_one(scene);
        assert_int_equal(item.deferrals, i);
        struct record record = scene_record_of(RECORD_DEFERRED, &item);
        record.error_code = reasons[i];
        record.error = "no node can run it";
        assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
        assert_int_equal(deferrals_told(scene, id), told[i]);
        assert_int_equal(scene_number(scene, "SELECT deferrals FROM executions WHERE id = '%s'", id), i + 1);
        assert_string_equal(scene_text(scene, "SELECT error_code FROM executions WHERE id = '%s'", id), reasons[i]);
    }
}

static void one_row_while_it_lives_and_one_after_never_both(void **state)
{
    struct scene *scene = *state;
    static const enum record_kind ends[] = {RECORD_COMPLETED, RECORD_FAILED, RECORD_CANCELLED, RECORD_REFUSED};
    for (int i = 0; i < 4; i++) {
        (void)scene_enqueue(scene, "free-co");
        assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue"), 1);
        assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_executions"), i);
        struct claimed_item item = scene_claim_one(scene);
        assert_int_equal(scene_record(scene, ends[i], &item), WEIR_OK);
        assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue"), 0);
        assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_executions"), i + 1);
        assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), i + 1);
    }
}

/* --- the end as its worker tells it --- */

/* From then on the scene's node is the one that has it. */
static struct claimed_item claimed_outside(struct scene *scene)
{
    struct published published;
    struct enqueue_request request = {.workspace = "solo", .workflow = "outside"};
    scene_workspace(scene, "solo", "free");
    scene_cap(scene, "solo", 1);
    static const char text[] = "{\"name\":\"outside\",\"temporal\":{\"task_queue\":\"q\"}}";
    scene_ok(scene, store_publish(scene->store, "outside", NULL, text, NULL, &published, &scene->error));
    (void)scene_enqueue_request(scene, &request);
    scene->node = scene_add_node_with_engine(scene, "outside", "default", "temporal");
    return scene_claim_one(scene);
}

static enum weir_status complete(struct scene *scene, const char *id, enum record_kind kind, const char *result)
{
    struct completion completion = {.id = id, .kind = kind, .result = result};
    return store_complete(scene->store, &completion, &scene->error);
}

static const json_t *only_event(const json_t *execution, const char *name)
{
    const json_t *found = NULL;
    const json_t *event;
    size_t i;
    json_array_foreach(json_object_get(execution, "events"), i, event)
    {
        if (strcmp(json_text_at(event, "event"), name) == 0) {
            assert_null(found);
            found = event;
        }
    }
    assert_non_null(found);
    return found;
}

static void a_worker_ends_what_runs_and_nothing_said_later_changes_it(void **state)
{
    static const enum record_kind late[] = {RECORD_DISPATCHED, RECORD_STEP, RECORD_FAILED, RECORD_COMPLETED,
                                            RECORD_PUT_BACK};
    struct scene *scene = *state;
    for (int before_the_start = 0; before_the_start < 2; before_the_start++) {
        struct claimed_item item = claimed_outside(scene);
        if (!before_the_start) {
            assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
        }
        assert_int_equal(complete(scene, item.id, RECORD_COMPLETED, "{\"invoice\":7}"), WEIR_OK);
        for (size_t i = 0; i < sizeof late / sizeof late[0]; i++) {
            assert_int_equal(scene_record(scene, late[i], &item), WEIR_EXECUTION_NOT_FOUND);
        }
        assert_int_equal(complete(scene, item.id, RECORD_COMPLETED, "8"), WEIR_OK);
        assert_int_equal(complete(scene, item.id, RECORD_FAILED, NULL), WEIR_ILLEGAL_STATE);
        json_t *execution = NULL;
        scene_ok(scene, store_show(scene->store, item.id, &execution, &scene->error));
        assert_string_equal(json_text_at(execution, "status"), "COMPLETED");
        assert_true(json_is_string(json_object_get(execution, "dispatched_at")));
        const json_t *step = json_array_get(json_object_get(execution, "steps"), 0);
        assert_string_equal(json_text_at(step, "step"), "workflow");
        assert_int_equal(json_number_at(json_object_get(step, "output"), "invoice"), 7);
        const json_t *told = only_event(execution, "report_end"); /* of the one that took effect */
        assert_string_equal(json_text_at(told, "actor"), "ann");
        assert_string_equal(json_text_at(told, "detail"), "COMPLETED");
        json_decref(execution);
        scene_check(scene);
    } /* the second one was claimed: the only slot was free */
}

/* A rehearsal answers as the act would, and changes nothing. */
static void the_end_of_a_worker_can_be_rehearsed(void **state)
{
    struct scene *scene = *state;
    bool has_ended = true;
    struct claimed_item own = item_in_state(scene, ITEM_DISPATCHED);
    struct claimed_item item = claimed_outside(scene);
    struct completion end = {.id = item.id, .kind = RECORD_COMPLETED, .result = "7"};
    struct completion wrong = {.id = item.id, .kind = RECORD_COMPLETED, .result = "{oops"};
    struct completion inside = {.id = own.id, .kind = RECORD_COMPLETED};
    scene_ok(scene, store_complete_rehearse(scene->store, &end, &has_ended, &scene->error));
    assert_false(has_ended);
    json_t *rows = row_of(scene, item.id);
    assert_string_equal(json_text_at(json_array_get(rows, 0), "status"), "CLAIMED");
    json_decref(rows);
    assert_int_equal(store_complete_rehearse(scene->store, &wrong, &has_ended, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(store_complete_rehearse(scene->store, &inside, &has_ended, &scene->error), WEIR_ILLEGAL_STATE);
    scene_ok(scene, store_complete(scene->store, &end, &scene->error));
    scene_ok(scene, store_complete_rehearse(scene->store, &end, &has_ended, &scene->error));
    assert_true(has_ended);
    end.kind = RECORD_FAILED;
    assert_int_equal(store_complete_rehearse(scene->store, &end, &has_ended, &scene->error), WEIR_ILLEGAL_STATE);
    end.id = "01a00000-0000-7000-8000-000000000000";
    assert_int_equal(store_complete_rehearse(scene->store, &end, &has_ended, &scene->error), WEIR_EXECUTION_NOT_FOUND);
}

static void a_worker_ends_its_own_run_and_no_other(void **state)
{
    struct scene *scene = *state;
    struct claimed_item own = item_in_state(scene, ITEM_DISPATCHED);
    struct claimed_item item = claimed_outside(scene);
    char workflow_id[UUID_TEXT_MAX + sizeof "execution-"];
    char variables[] = "{\"run_id\":\"now\",\"first_run_id\":\"first\"}";
    struct step_record step = {
        .step = "workflow", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1, .variables = variables};
    struct record noted = scene_record_of(RECORD_STEP, &item);
    (void)snprintf(workflow_id, sizeof workflow_id, "execution-%s", item.id);
    struct completion end = {.id = workflow_id, .kind = RECORD_COMPLETED, .run_id = "now"};
    struct completion inside = {.id = own.id, .kind = RECORD_COMPLETED, .run_id = "now"};
    assert_int_equal(store_complete(scene->store, &inside, &scene->error),
                     WEIR_ILLEGAL_STATE);                                                 /* repeating does not help */
    assert_int_equal(store_complete(scene->store, &end, &scene->error), WEIR_STORE_BUSY); /* its run is not on record */
    noted.step = &step;
    assert_int_equal(scene_record_full(scene, scene->node, noted), WEIR_OK);
    end.run_id = "another";
    assert_int_equal(store_complete(scene->store, &end, &scene->error), WEIR_CONFLICT);
    end.run_id = "first";
    end.fence = item.fence + 1;
    assert_int_equal(store_complete(scene->store, &end, &scene->error), WEIR_CONFLICT);
    end.fence = item.fence;
    scene_ok(scene, store_complete(scene->store, &end, &scene->error));
    end.run_id = "now";
    scene_ok(scene, store_complete(scene->store, &end, &scene->error)); /* the same end again */
    end.run_id = "another";
    assert_int_equal(store_complete(scene->store, &end, &scene->error), WEIR_CONFLICT);
}

static void a_worker_ends_what_was_handed_over(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claimed_outside(scene);
    struct completion failed = {.id = item.id, .kind = RECORD_FAILED, .error_code = "CardDeclined", .error = "declined"};
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &item), WEIR_OK);
    scene_ok(scene, store_complete(scene->store, &failed, &scene->error));
    json_t *rows = row_of(scene, item.id);
    assert_string_equal(json_text_at(json_array_get(rows, 0), "status"), "FAILED");
    assert_string_equal(json_text_at(json_array_get(rows, 0), "error_code"), "CardDeclined");
    json_decref(rows);
}

static void a_worker_ends_neither_what_waits_nor_what_a_node_runs(void **state)
{
    struct scene *scene = *state;
    struct claimed_item own = item_in_state(scene, ITEM_DISPATCHED);
    struct claimed_item item = claimed_outside(scene);
    struct enqueue_request request = {.workspace = "solo", .workflow = "outside"};
    struct completion waiting = {.id = scene_enqueue_request(scene, &request), .kind = RECORD_COMPLETED, .run_id = "now"};
    assert_int_equal(complete(scene, own.id, RECORD_COMPLETED, NULL), WEIR_ILLEGAL_STATE);
    assert_int_equal(complete(scene, waiting.id, RECORD_COMPLETED, NULL), WEIR_ILLEGAL_STATE);
    assert_int_equal(store_complete(scene->store, &waiting, &scene->error), WEIR_ILLEGAL_STATE);
    assert_int_equal(complete(scene, item.id, RECORD_COMPLETED, "{oops"), WEIR_INVALID_ARGUMENT);
    assert_int_equal(complete(scene, "01a00000-0000-7000-8000-000000000000", RECORD_COMPLETED, NULL),
                     WEIR_EXECUTION_NOT_FOUND);
    assert_string_equal(scene_status_of(scene, own.id), "DISPATCHED");
    assert_string_equal(scene_status_of(scene, waiting.id), "PENDING");
    assert_string_equal(scene_status_of(scene, item.id), "CLAIMED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(every_kind_from_every_state_does_what_the_table_says),
        SCENE_TEST(a_stale_fence_changes_nothing),
        SCENE_TEST(a_record_of_nothing_known_is_not_found),
        SCENE_TEST(the_same_record_again_is_fine_and_changes_nothing),
        SCENE_TEST(only_what_took_effect_is_counted),
        SCENE_TEST(an_end_before_the_dispatch_counts_as_dispatched),
        SCENE_TEST(an_end_without_a_dispatch_has_no_dispatch_time),
        SCENE_TEST(time_stamps_are_set_once_in_store_time),
        SCENE_TEST(the_first_dispatch_counts_over_handovers),
        SCENE_TEST(each_way_back_spends_its_own_counter),
        SCENE_TEST(every_error_of_an_attempt_is_kept),
        SCENE_TEST(one_bad_record_leaves_the_others_of_its_set_alone),
        SCENE_TEST(a_set_is_recorded_in_its_order),
        SCENE_TEST(an_empty_set_is_fine),
        SCENE_TEST(a_step_keeps_output_variables_and_error_byte_for_byte),
        SCENE_TEST(a_step_has_one_row_with_its_last_attempt),
        SCENE_TEST(the_end_may_carry_the_last_step),
        SCENE_TEST(a_step_that_ends_with_its_execution_is_shown_without_a_row),
        SCENE_TEST(one_set_may_tell_the_end_of_a_step_twice),
        SCENE_TEST(a_step_output_that_is_too_large_is_refused_alone),
        SCENE_TEST(a_long_error_is_cut_and_not_refused),
        SCENE_TEST(what_the_time_stamps_cannot_tell_is_an_event),
        SCENE_TEST(only_the_first_deferral_and_each_change_of_its_reason_are_events),
        SCENE_TEST(one_row_while_it_lives_and_one_after_never_both),
        SCENE_TEST(a_worker_ends_what_runs_and_nothing_said_later_changes_it),
        SCENE_TEST(the_end_of_a_worker_can_be_rehearsed),
        SCENE_TEST(a_worker_ends_its_own_run_and_no_other),
        SCENE_TEST(a_worker_ends_what_was_handed_over),
        SCENE_TEST(a_worker_ends_neither_what_waits_nor_what_a_node_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
