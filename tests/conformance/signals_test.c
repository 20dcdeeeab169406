/* Signals: kept until a step consumes them, once; by the claim, by the requests of a node, and out of a wait. */
#include "base/json.h"
#include "conformance/scene.h"

#define AN_HOUR SECONDS(3600)

/* The workflow of scene_enqueue() waits for these names. */
static int open_scene(void **state)
{
    static const char definition[] =
        "{\"name\":\"hello\",\"steps\":{\"a\":{\"signal\":\"approved\"},\"b\":{\"signal\":{\"name\":\"refused\","
        "\"timeout\":\"1h\"}},"
        "\"c\":{\"signal\":\"tick\"},\"d\":{\"signal\":\"stop\"},\"e\":{\"signal\":\"go\"},\"f\":{\"signal\":\"go\"}}}";
    struct published published;
    int failed = scene_open(state);
    struct scene *scene = *state;
    if (failed == 0) {
        scene_ok(scene, store_publish(scene->store, "hello", NULL, definition, NULL, &published, &scene->error));
    }
    return failed;
}

#define SIGNAL_TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, scene_close)

static enum weir_status try_signal(struct scene *scene, const struct signal_request *request, struct sent_signal *ret_sent)
{
    scene->error = (struct weir_error){.status = WEIR_OK};
    return store_signal(scene->store, request, ret_sent, &scene->error);
}

/* NULL for null, and for no member at all. */
static const char *text_or_null(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* Returns its number. */
static int64_t send_as(struct scene *scene, const char *id, const char *name, const char *data, const char *key)
{
    struct sent_signal sent = {.seq = -1};
    struct signal_request request = {.id = id, .name = name, .data = data, .key = key};
    scene_ok(scene, try_signal(scene, &request, &sent));
    assert_string_equal(sent.id, id);
    return sent.seq;
}

static int64_t send_signal(struct scene *scene, const char *id, const char *name)
{
    return send_as(scene, id, name, "true", NULL);
}

static void refuse_signal(struct scene *scene, struct signal_request request, enum weir_status refusal, const char *words)
{
    struct sent_signal sent = {.seq = -1};
    assert_int_equal(try_signal(scene, &request, &sent), refusal);
    assert_int_equal(sent.seq, -1);
    if (strstr(scene->error.message, words) == NULL) {
        fail_msg("\"%s\" has not the words \"%s\"", scene->error.message, words);
    }
}

/* The record of a step that waits for the name, or was ended by the signal `seq`. */
static struct step_record waiting_step(const char *step, const char *name, int64_t due_in_us)
{
    struct step_record record = {.state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = due_in_us};
    text_copy(record.step, sizeof record.step, step);
    text_copy(record.signal, sizeof record.signal, name);
    return record;
}

static struct step_record ended_step(const char *step, int64_t seq)
{
    struct step_record record = {.state = STEP_COMPLETED, .attempt = 1, .exit_code = -1, .signal_seq = seq};
    text_copy(record.step, sizeof record.step, step);
    return record;
}

static enum weir_status record_step(struct scene *scene, const struct claimed_item *item, const struct step_record *step)
{
    struct record record = scene_record_of(RECORD_STEP, item);
    record.step = step;
    return scene_record_full(scene, scene->node, record);
}

/* Parks an item with a step "ask" that waits for the name. */
static void park(struct scene *scene, const struct claimed_item *item, const char *name, int64_t delay_us, int64_t seen)
{
    struct step_record step = waiting_step("ask", name, delay_us);
    struct record records[] = {scene_record_of(RECORD_DISPATCHED, item), scene_record_of(RECORD_STEP, item),
                               scene_record_of(RECORD_PARKED, item)};
    struct record_summary summary;
    records[1].step = &step;
    records[2].delay_us = delay_us;
    records[2].waiting_for = WAIT_SIGNAL;
    records[2].signals_seen = seen;
    scene_ok(scene, store_record(scene->store, scene->node, records, 3, &summary, &scene->error));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(records[i].status, WEIR_OK);
    }
    assert_int_equal(summary.slots_freed, 1);
}

static struct claimed_item claim_new(struct scene *scene)
{
    (void)scene_enqueue(scene, "free-co");
    return scene_claim_one(scene);
}

static struct claimed_item claim_and_park(struct scene *scene, const char *name, int64_t delay_us)
{
    struct claimed_item item = claim_new(scene);
    park(scene, &item, name, delay_us, item.signals_seen);
    return item;
}

/* The signals of one execution, as "1:name:data>step ...". */
static void assert_signals(struct scene *scene, const char *id, const char *expected)
{
    char text[600] = "";
    json_t *shown = NULL;
    json_t *signal;
    size_t i;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    json_array_foreach(json_object_get(shown, "signals"), i, signal)
    {
        struct text data = {.max = 100};
        size_t used = strlen(text);
        const char *step = text_or_null(signal, "step");
        assert_int_equal(json_write(json_object_get(signal, "data"), &data, NULL), WEIR_OK);
        (void)snprintf(text + used, sizeof text - used, "%s%d:%s:%s%s%s", i == 0 ? "" : " ",
                       (int)json_number_at(signal, "seq"), json_text_at(signal, "name"), data.data, step == NULL ? "" : ">",
                       step == NULL ? "" : step);
        assert_true((step == NULL) == (text_or_null(signal, "consumed_at") == NULL));
        text_close(&data);
    }
    json_decref(shown);
    assert_string_equal(text, expected);
}

static bool requests_wait(struct scene *scene, int64_t node)
{
    struct inbox inbox;
    struct inbox_position position = {.fence = INT64_MAX};
    scene_ok(scene, store_inbox(scene->store, node, &position, 0, &scene->arena, &inbox, &scene->error));
    return inbox.requests;
}

static void a_signal_before_the_start_comes_with_the_claim(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    assert_int_equal(send_as(scene, id, "approved", "{\"by\":\"eve\"}", NULL), 1);
    assert_int_equal(send_signal(scene, id, "stop"), 2);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(item.signals_seen, 2);
    assert_int_equal(item.signal_count, 2);
    assert_int_equal(item.signals[0].seq, 1);
    assert_string_equal(item.signals[0].name, "approved");
    json_t *data = NULL;
    assert_int_equal(json_read(item.signals[0].data, item.signals[0].data_length, &data, NULL), WEIR_OK);
    assert_string_equal(json_text_at(data, "by"), "eve");
    json_decref(data);
    assert_string_equal(item.signals[1].name, "stop");
    assert_false(requests_wait(scene, scene->node)); /* they came with the claim */
    assert_int_equal(item.interruptions, 0);
}

static void a_node_that_holds_it_gets_a_signal_as_a_request(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_new(scene);
    assert_false(requests_wait(scene, scene->node));
    (void)send_signal(scene, item.id, "approved");
    assert_true(requests_wait(scene, scene->node));
    struct node_request *requests = scene_take_requests(scene, scene->node, 1);
    assert_string_equal(requests[0].id, item.id);
    assert_int_equal(requests[0].fence, item.fence);
    assert_false(requests[0].cancels);
    assert_int_equal(requests[0].signal_count, 1);
    assert_string_equal(requests[0].signals[0].name, "approved");
    assert_string_equal(requests[0].signals[0].data, "true");
    assert_false(requests_wait(scene, scene->node));
    (void)scene_take_requests(scene, scene->node, 0);
    (void)send_signal(scene, item.id, "stop");
    requests = scene_take_requests(scene, scene->node, 1);
    assert_int_equal(requests[0].signal_count, 2); /* with the one that was not consumed */
    assert_int_equal(requests[0].signals[1].seq, 2);
}

static void many_signalled_executions_are_passed_on_in_parts(void **state)
{
    struct scene *scene = *state;
    enum { MANY = SIGNALLED_BATCH + 1 };
    struct node_request *requests = NULL;
    size_t count = 0;
    bool more = false;
    scene_cap(scene, "big-co", MANY);
    scene_enqueue_many(scene, "big-co", MANY);
    struct claim_result claim = scene_claim(scene, MANY);
    assert_int_equal(claim.count, MANY);
    for (size_t i = 0; i < MANY; i++) {
        (void)send_signal(scene, claim.items[i].id, "go");
    }
    scene_ok(scene, store_take_requests(scene->store, scene->node, &scene->arena, &requests, &count, &more, &scene->error));
    assert_int_equal(count, SIGNALLED_BATCH);
    assert_true(more);
    (void)scene_take_requests(scene, scene->node, 1);
}

static void a_cancel_comes_behind_the_signals(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_new(scene);
    struct bulk_result result = {0};
    struct execution_filter filter = {.id = item.id};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    (void)send_signal(scene, item.id, "approved");
    struct node_request *requests = scene_take_requests(scene, scene->node, 2);
    assert_false(requests[0].cancels);
    assert_int_equal(requests[0].signal_count, 1);
    assert_true(requests[1].cancels);
    assert_int_equal(requests[1].signal_count, 0);
}

static void a_key_makes_a_repetition_the_same_signal(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct sent_signal sent;
    struct signal_request request = {.id = id, .name = "approved", .data = "1", .key = "mail-7"};
    assert_int_equal(send_as(scene, id, "approved", "1", "mail-7"), 1);
    scene_ok(scene, try_signal(scene, &request, &sent));
    assert_int_equal(sent.seq, 1);
    assert_true(sent.duplicate);
    request.data = "2";
    refuse_signal(scene, request, WEIR_IDEMPOTENCY_KEY_REUSED, "has other data");
    request.name = "refused"; /* a key counts for its name */
    scene_ok(scene, try_signal(scene, &request, &sent));
    assert_int_equal(sent.seq, 2);
    assert_false(sent.duplicate);
    assert_signals(scene, id, "1:approved:1 2:refused:2");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    scene_ok(scene, try_signal(scene, &request, &sent)); /* the caller that repeats does not know of the end */
    assert_true(sent.duplicate);
}

static void an_ended_execution_takes_none(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_new(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    refuse_signal(scene, (struct signal_request){.id = item.id, .name = "late"}, WEIR_ILLEGAL_STATE, "COMPLETED");
    assert_signals(scene, item.id, "");
    refuse_signal(scene, (struct signal_request){.id = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79", .name = "x"},
                  WEIR_EXECUTION_NOT_FOUND, "no execution");
}

static void steps_behind_a_failure_wait_for_signals_too(void **state)
{
    static const char definition[] =
        "{\"name\":\"ends\",\"steps\":{\"a\":{\"signal\":\"go\"}},\"on_failure\":{\"b\":{\"signal\":\"sorry\"}},"
        "\"finally\":{\"c\":{\"signal\":{\"name\":\"bye\",\"timeout\":\"1h\"}}}}";
    struct scene *scene = *state;
    struct published published;
    scene_ok(scene, store_publish(scene->store, "ends", NULL, definition, NULL, &published, &scene->error));
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "ends"});
    assert_int_equal(send_as(scene, id, "sorry", "1", NULL), 1);
    assert_int_equal(send_as(scene, id, "bye", "2", NULL), 2);
    refuse_signal(scene, (struct signal_request){.id = id, .name = "by"}, WEIR_INVALID_ARGUMENT,
                  "waits for a signal \"by\"");
    assert_string_equal(scene->error.hint, "its steps wait for: bye, go, sorry");
}

static void a_wrong_signal_is_refused(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    char *data = malloc(SIGNAL_DATA_BYTES_MAX + 2);
    char key[IDEMPOTENCY_KEY_MAX + 2];
    assert_non_null(data);
    memset(data, '1', SIGNAL_DATA_BYTES_MAX + 1);
    data[0] = '"';
    data[SIGNAL_DATA_BYTES_MAX] = '"';
    data[SIGNAL_DATA_BYTES_MAX + 1] = '\0';
    memset(key, 'k', sizeof key);
    key[IDEMPOTENCY_KEY_MAX + 1] = '\0';
    refuse_signal(scene, (struct signal_request){.id = id, .name = "aproved"}, WEIR_INVALID_ARGUMENT,
                  "waits for a signal \"aproved\"");
    assert_string_equal(scene->error.hint, "its steps wait for: approved, go, refused, stop, tick");
    refuse_signal(scene, (struct signal_request){.id = id, .name = ""}, WEIR_INVALID_ARGUMENT, "is missing");
    refuse_signal(scene, (struct signal_request){.id = id, .name = "go", .data = "{"}, WEIR_INVALID_ARGUMENT, "the data");
    refuse_signal(scene, (struct signal_request){.id = id, .name = "go", .data = data}, WEIR_INVALID_ARGUMENT,
                  "the limit is");
    refuse_signal(scene, (struct signal_request){.id = id, .name = "go", .key = ""}, WEIR_INVALID_ARGUMENT, "is empty");
    refuse_signal(scene, (struct signal_request){.id = id, .name = "go", .key = key}, WEIR_INVALID_ARGUMENT, "too long");
    refuse_signal(scene, (struct signal_request){.id = id, .name = "go", .key = "\xff"}, WEIR_INVALID_ARGUMENT, "UTF-8");
    assert_signals(scene, id, "");
    data[SIGNAL_DATA_BYTES_MAX - 1] = '"';
    data[SIGNAL_DATA_BYTES_MAX] = '\0';
    assert_int_equal(send_as(scene, id, "go", data, NULL), 1);
    free(data);
}

/* One of Temporal is the matter of its service. */
static void an_execution_on_temporal_takes_none(void **state)
{
    struct scene *scene = *state;
    static const char definition[] = "{\"name\":\"remote\",\"temporal\":{}}";
    struct published published;
    scene_ok(scene, store_publish(scene->store, "remote", NULL, definition, NULL, &published, &scene->error));
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "remote"});
    refuse_signal(scene, (struct signal_request){.id = id, .name = "Approved"}, WEIR_CONFLICT, "Temporal");
}

static void what_an_execution_keeps_is_bounded(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    for (int i = 0; i < SIGNALS_KEPT_MOST; i++) {
        assert_int_equal(send_signal(scene, id, "tick"), i + 1);
    }
    refuse_signal(scene, (struct signal_request){.id = id, .name = "tick"}, WEIR_ILLEGAL_STATE, "1000 signals");
    assert_int_equal(send_signal(scene, id, "approved"), SIGNALS_KEPT_MOST + 1); /* another name has room of its own */
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(item.signal_count, SIGNALS_KEPT_MOST + 1);
    struct step_record ended = ended_step("first", 1);
    assert_int_equal(record_step(scene, &item, &ended), WEIR_OK);
    assert_int_equal(send_signal(scene, id, "tick"), SIGNALS_KEPT_MOST + 2); /* there is room again */
}

static void the_data_of_an_execution_is_bounded(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    char *data = malloc(SIGNAL_DATA_BYTES_MAX + 1);
    assert_non_null(data);
    memset(data, 'x', SIGNAL_DATA_BYTES_MAX);
    data[0] = '"';
    data[SIGNAL_DATA_BYTES_MAX - 1] = '"';
    data[SIGNAL_DATA_BYTES_MAX] = '\0';
    /* The five names of the workflow share 1 MiB, so each has room for three. */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(send_as(scene, id, "tick", data, NULL), i + 1);
    }
    refuse_signal(scene, (struct signal_request){.id = id, .name = "tick", .data = data}, WEIR_ILLEGAL_STATE,
                  "196608 bytes");
    assert_int_equal(send_as(scene, id, "approved", data, NULL), 4);
    free(data);
}

static void a_step_consumes_its_signal_once(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_new(scene);
    (void)send_as(scene, item.id, "approved", "1", NULL);
    (void)send_as(scene, item.id, "approved", "2", NULL);
    struct step_record ended = ended_step("ask", 1);
    assert_int_equal(record_step(scene, &item, &ended), WEIR_OK);
    assert_signals(scene, item.id, "1:approved:1>ask 2:approved:2");
    assert_int_equal(record_step(scene, &item, &ended), WEIR_OK); /* a repetition */
    struct step_record other = ended_step("other", 1);
    assert_int_equal(record_step(scene, &item, &other), WEIR_OK);
    assert_signals(scene, item.id, "1:approved:1>ask 2:approved:2"); /* the first one has it */
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &item), WEIR_OK);
    struct claimed_item again = scene_claim_one(scene);
    assert_int_equal(again.signals_seen, 2);
    assert_int_equal(again.signal_count, 1); /* what is left */
    assert_int_equal(again.signals[0].seq, 2);
    struct step_record late = ended_step("late", 2);
    assert_int_equal(record_step(scene, &item, &late), WEIR_STALE_FENCE);
    assert_signals(scene, item.id, "1:approved:1>ask 2:approved:2");
}

static void the_end_consumes_the_signal_of_its_last_step(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_new(scene);
    (void)send_signal(scene, item.id, "approved");
    struct step_record ended = ended_step("ask", 1);
    struct record end = scene_record_of(RECORD_COMPLETED, &item);
    end.step = &ended;
    assert_int_equal(scene_record_full(scene, scene->node, end), WEIR_OK);
    assert_signals(scene, item.id, "1:approved:true>ask");
    item = claim_and_park(scene, "approved", TIME_NEVER);
    (void)send_signal(scene, item.id, "approved");
    item = scene_claim_one(scene);
    end = scene_record_of(RECORD_COMPLETED, &item);
    end.step = &ended; /* which has a row of its own */
    assert_int_equal(scene_record_full(scene, scene->node, end), WEIR_OK);
    assert_signals(scene, item.id, "1:approved:true>ask");
}

/* The transaction of the signal ends the step as its node would, so the claim finds the step on record as ended. */
static void a_signal_ends_the_wait_of_a_parked_execution(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_park(scene, "approved", AN_HOUR);
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
    assert_int_equal(scene_held(scene, "free-co"), 0);
    (void)send_as(scene, item.id, "approved", "{\"by\":\"eve\"}", NULL);
    assert_string_equal(scene_status_of(scene, item.id), "PENDING");
    assert_signals(scene, item.id, "1:approved:{\"by\":\"eve\"}>ask");
    scene_assert_events(scene, item.id, "enqueue claim dispatch step_start park signal wake step_end");
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.id, item.id);
    assert_int_equal(again.signal_count, 0);
    assert_int_equal(again.signals_seen, 1);
    assert_int_equal(again.step_count, 1);
    const struct step_record *step = &again.steps[0];
    assert_int_equal(step->state, STEP_COMPLETED);
    assert_int_equal(step->attempt, 1);
    assert_int_equal(step->failures, 0);
    assert_int_equal(step->exit_code, -1);
    assert_string_equal(step->signal, "");
    assert_int_equal(step->output_length, strlen("{\"by\":\"eve\"}"));
    assert_memory_equal(step->output, "{\"by\":\"eve\"}", step->output_length);
    assert_true(again.woken_at_us > 0);
    assert_true(step->finished_us == again.woken_at_us);
    assert_false(requests_wait(scene, scene->node));
    struct step_record late = ended_step("ask", 1);
    assert_int_equal(record_step(scene, &item, &late), WEIR_STALE_FENCE);
    assert_null(scene_text(scene, "SELECT signal FROM execution_steps WHERE execution_id = '%s'", item.id));
}

/* The step began at its node, and it ended without one. */
static void a_step_that_a_signal_has_ended_has_no_node(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_park(scene, "approved", TIME_NEVER);
    json_t *shown = NULL;
    (void)send_signal(scene, item.id, "approved");
    scene_ok(scene, store_show(scene->store, item.id, &shown, &scene->error));
    const json_t *step = json_array_get(json_object_get(shown, "steps"), 0);
    assert_string_equal(json_text_at(step, "status"), "COMPLETED");
    assert_null(text_or_null(step, "node"));
    assert_null(text_or_null(step, "due_at"));
    assert_null(text_or_null(step, "error_code"));
    assert_int_equal(json_number_at(step, "fence"), item.fence);
    json_decref(shown);
    assert_int_equal(scene_number(scene,
                                  "SELECT count(*) FROM execution_events WHERE execution_id = '%s' AND event = 'step_start'"
                                  " AND node IS NOT NULL",
                                  item.id),
                     1);
}

/* The same call of it behind the end of the wait, with the key and without. */
static void a_repeated_signal_ends_no_second_wait(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_park(scene, "approved", TIME_NEVER);
    assert_int_equal(send_as(scene, item.id, "approved", "1", "mail-7"), 1);
    assert_int_equal(send_as(scene, item.id, "approved", "1", "mail-7"), 1);
    assert_int_equal(send_as(scene, item.id, "approved", "2", NULL), 2);
    assert_signals(scene, item.id, "1:approved:1>ask 2:approved:2");
    struct claimed_item again = scene_claim_one(scene);
    assert_int_equal(again.signal_count, 1);
    assert_int_equal(again.signals[0].seq, 2);
    assert_string_equal(again.steps[0].output, "1");
}

/* The state of the step `ask` at the next claim, which brings `signals` signals. */
static void assert_still_waits(struct scene *scene, const struct claimed_item *item, const char *name, size_t signals)
{
    assert_string_equal(scene_status_of(scene, item->id), "PENDING");
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.id, item->id);
    assert_int_equal(again.signal_count, signals);
    for (size_t i = 0; i < again.step_count; i++) {
        assert_int_equal(again.steps[i].state, STEP_WAITING);
        assert_string_equal(again.steps[i].signal, name);
    }
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &again), WEIR_OK);
}

/* The definition decides which of two steps gets the signal, and the node reads it. */
static void a_node_chooses_among_steps_that_wait_for_one_name(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_new(scene);
    struct step_record other = waiting_step("other", "go", TIME_NEVER);
    assert_int_equal(record_step(scene, &item, &other), WEIR_OK);
    park(scene, &item, "go", TIME_NEVER, 0);
    (void)send_signal(scene, item.id, "go");
    assert_still_waits(scene, &item, "go", 1);
}

/* The time of the wait, or of the execution, is over: its node decides, and knows both. */
static void a_node_decides_about_a_wait_that_is_due(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_park(scene, "approved", AN_HOUR);
    scene_pass(scene, AN_HOUR);
    scene_beat(scene, scene->node);
    (void)send_signal(scene, item.id, "approved");
    assert_still_waits(scene, &item, "approved", 1);
}

/* One that its engine has got and has not consumed, for want of memory, is the first. */
static void a_node_ends_a_wait_by_the_oldest_signal(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_new(scene);
    (void)send_as(scene, item.id, "approved", "1", NULL);
    park(scene, &item, "approved", AN_HOUR, 1);
    (void)send_as(scene, item.id, "approved", "2", NULL);
    assert_signals(scene, item.id, "1:approved:1 2:approved:2");
    assert_still_waits(scene, &item, "approved", 2);
}

/* The handler of the next state gets the signal. */
static void a_node_ends_the_wait_of_a_state(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_new(scene);
    struct step_record machine = waiting_step("state", "approved", TIME_NEVER);
    char variables[] = "{\"state\":\"a\",\"variables\":{}}";
    machine.variables = variables;
    struct record records[] = {scene_record_of(RECORD_DISPATCHED, &item), scene_record_of(RECORD_STEP, &item),
                               scene_record_of(RECORD_PARKED, &item)};
    struct record_summary summary;
    records[1].step = &machine;
    records[2].delay_us = TIME_NEVER;
    records[2].waiting_for = WAIT_SIGNAL;
    scene_ok(scene, store_record(scene->store, scene->node, records, 3, &summary, &scene->error));
    (void)send_signal(scene, item.id, "approved");
    assert_still_waits(scene, &item, "approved", 1);
}

static const char *step_status(struct scene *scene, const char *id, const char *step)
{
    return scene_text(scene, "SELECT status FROM execution_steps WHERE execution_id = '%s' AND step = '%s'", id, step);
}

/* Its end stays: the execution is cancelled before its next claim. */
static void a_cancel_keeps_the_step_that_a_signal_has_ended(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_new(scene);
    struct step_record other = waiting_step("other", "refused", TIME_NEVER);
    struct bulk_result result = {0};
    struct execution_filter filter = {.id = item.id};
    assert_int_equal(record_step(scene, &item, &other), WEIR_OK);
    park(scene, &item, "approved", TIME_NEVER, 0);
    (void)send_signal(scene, item.id, "approved");
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_string_equal(step_status(scene, item.id, "ask"), "COMPLETED");
    assert_string_equal(step_status(scene, item.id, "other"), "CANCELLED");
}

static void another_signal_leaves_it_waiting(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_park(scene, "approved", AN_HOUR);
    (void)send_signal(scene, item.id, "refused");
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
    assert_int_equal(scene_claim(scene, 10).count, 0);
    scene_pass(scene, AN_HOUR);
    scene_beat(scene, scene->node);
    struct claimed_item again = scene_claim_one(scene);
    assert_int_equal(again.signal_count, 1);
    assert_int_equal(again.steps[0].due_in_us, 0);
    assert_string_equal(again.steps[0].signal, "approved");
}

/* Nothing is due: no time wakes it, and no time is shown. */
static void a_wait_without_a_timeout_has_no_due_time(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_park(scene, "approved", TIME_NEVER);
    assert_null(scene_text(scene, "SELECT due_at FROM executions WHERE id = '%s'", item.id));
    struct work_ahead work = scene_look(scene);
    assert_false(work.ready);
    assert_true(work.due_in_us == TIME_NEVER);
    scene_pass(scene, SECONDS(10 * 365 * 86400LL));
    scene_beat(scene, scene->node);
    assert_int_equal(scene_claim(scene, 10).count, 0);
    json_t *why = NULL;
    scene_ok(scene, store_why(scene->store, item.id, &why, &scene->error));
    assert_null(text_or_null(why, "due_at"));
    assert_string_equal(json_text_at(why, "waiting_for"), "signal");
    assert_string_equal(json_text_at(why, "because"), wait_kind_meaning(WAIT_SIGNAL));
    const json_t *step = json_array_get(json_object_get(why, "unfinished_steps"), 0);
    assert_string_equal(json_text_at(step, "signal"), "approved");
    assert_null(text_or_null(step, "due_at"));
    assert_non_null(json_text_at(step, "started_at"));
    json_decref(why);
}

static void a_park_behind_an_unseen_signal_ends_at_once(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_new(scene);
    (void)send_signal(scene, item.id, "approved"); /* its engine has not got it */
    park(scene, &item, "approved", AN_HOUR, 0);
    assert_string_equal(scene_status_of(scene, item.id), "PENDING");
    scene_check(scene);
    struct claimed_item again = scene_claim_one(scene);
    assert_int_equal(again.signal_count, 1);
    scene_assert_events(scene, item.id, "enqueue claim dispatch step_start signal park wake claim");
    park(scene, &again, "other", AN_HOUR, 1);
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
    scene_check(scene);
}

static void a_cancel_and_a_deletion_end_a_wait_for_a_signal(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_and_park(scene, "approved", TIME_NEVER);
    struct bulk_result result = {0};
    struct execution_filter filter = {.waiting_for = "signal"};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_string_equal(scene_status_of(scene, item.id), "CANCELLED");
    item = claim_and_park(scene, "approved", TIME_NEVER);
    (void)send_signal(scene, item.id, "stop");
    struct workspace_deletion deletion = {.name = "free-co", .fails_waiting = true, .erases = true};
    struct deletion_result deleted;
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &deleted, &scene->error));
    assert_int_equal(deleted.failed, 1);
    assert_int_equal(deleted.erased, 2); /* scene_close() checks that no signal is left */
}

static void a_purge_removes_the_signals_and_a_retry_has_none(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claim_new(scene);
    (void)send_signal(scene, item.id, "approved");
    assert_int_equal(scene_record(scene, RECORD_FAILED, &item), WEIR_OK);
    struct bulk_result result = {0};
    struct execution_filter filter = {.id = item.id};
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &filter, "", 10, &result, &scene->error));
    struct claimed_item again = scene_claim_one(scene);
    assert_string_equal(again.id, result.new_id);
    assert_int_equal(again.signals_seen, 0);
    assert_int_equal(again.signal_count, 0);
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1); /* scene_close() checks that no signal is left */
}

static void a_signal_is_an_act_on_record(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    scene_ok(scene, store_act_as(scene->store, "eve", "the customer called", &scene->error));
    (void)send_as(scene, id, "approved", "1", "k");
    (void)send_as(scene, id, "approved", "1", "k"); /* no act */
    struct list_options options = {.kind = LIST_AUDIT, .limit = 10};
    json_t *page = NULL;
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    const json_t *acts = json_object_get(page, "items");
    const json_t *act = json_array_get(acts, 0);
    assert_string_equal(json_text_at(act, "act"), "signal");
    assert_string_equal(json_text_at(act, "actor"), "eve");
    assert_string_equal(json_text_at(act, "subject"), id);
    assert_string_equal(json_text_at(act, "reason"), "the customer called");
    assert_string_equal(json_text_at(json_object_get(act, "after"), "detail"), "approved");
    const char *before = text_or_null(json_array_get(acts, 1), "act");
    assert_true(before == NULL || strcmp(before, "signal") != 0);
    json_decref(page);
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    const json_t *signal = json_array_get(json_object_get(shown, "signals"), 0);
    assert_string_equal(json_text_at(signal, "actor"), "eve");
    assert_string_equal(json_text_at(signal, "key"), "k");
    assert_non_null(json_text_at(signal, "sent_at"));
    json_decref(shown);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        SIGNAL_TEST(a_signal_before_the_start_comes_with_the_claim),
        SIGNAL_TEST(a_node_that_holds_it_gets_a_signal_as_a_request),
        SIGNAL_TEST(many_signalled_executions_are_passed_on_in_parts),
        SIGNAL_TEST(a_cancel_comes_behind_the_signals),
        SIGNAL_TEST(a_key_makes_a_repetition_the_same_signal),
        SIGNAL_TEST(an_ended_execution_takes_none),
        SIGNAL_TEST(steps_behind_a_failure_wait_for_signals_too),
        SIGNAL_TEST(a_wrong_signal_is_refused),
        SIGNAL_TEST(an_execution_on_temporal_takes_none),
        SIGNAL_TEST(what_an_execution_keeps_is_bounded),
        SIGNAL_TEST(the_data_of_an_execution_is_bounded),
        SIGNAL_TEST(a_step_consumes_its_signal_once),
        SIGNAL_TEST(the_end_consumes_the_signal_of_its_last_step),
        SIGNAL_TEST(a_signal_ends_the_wait_of_a_parked_execution),
        SIGNAL_TEST(a_step_that_a_signal_has_ended_has_no_node),
        SIGNAL_TEST(a_repeated_signal_ends_no_second_wait),
        SIGNAL_TEST(a_node_chooses_among_steps_that_wait_for_one_name),
        SIGNAL_TEST(a_node_decides_about_a_wait_that_is_due),
        SIGNAL_TEST(a_node_ends_a_wait_by_the_oldest_signal),
        SIGNAL_TEST(a_node_ends_the_wait_of_a_state),
        SIGNAL_TEST(a_cancel_keeps_the_step_that_a_signal_has_ended),
        SIGNAL_TEST(another_signal_leaves_it_waiting),
        SIGNAL_TEST(a_wait_without_a_timeout_has_no_due_time),
        SIGNAL_TEST(a_park_behind_an_unseen_signal_ends_at_once),
        SIGNAL_TEST(a_cancel_and_a_deletion_end_a_wait_for_a_signal),
        SIGNAL_TEST(a_purge_removes_the_signals_and_a_retry_has_none),
        SIGNAL_TEST(a_signal_is_an_act_on_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
