/* The event history of an execution: every claim and dispatch with the node that had it, and every run of a step. */
#include "conformance/scene.h"
#include "queue/suspicion.h"

enum { EVENTS_TEXT_MAX = 4000, FENCES_MOST = 32 };

/* --- reading the events --- */

static json_t *events_of(struct scene *scene, const char *id)
{
    struct list_options options = {.kind = LIST_EVENTS, .filter = {.id = id}};
    json_t *page = NULL;
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    json_t *events = json_incref(json_object_get(page, "items"));
    json_decref(page);
    return events;
}

static int64_t time_of(const json_t *event, const char *key)
{
    int64_t at_us = 0;
    struct weir_error error = {0};
    assert_int_equal(time_parse(json_text_at(event, key), 0, &at_us, &error), WEIR_OK);
    return at_us;
}

/* Which fence of the execution it is, from 1 in their order; 0 = none. */
static int rank_of(const json_t *events, const json_t *event)
{
    const json_t *fence = json_object_get(event, "fence");
    json_int_t smaller[FENCES_MOST];
    int count = 0;
    size_t i;
    json_t *other;
    json_array_foreach(events, i, other)
    {
        json_int_t its = json_integer_value(json_object_get(other, "fence"));
        bool known = its == 0 || its >= json_integer_value(fence);
        for (int k = 0; k < count && !known; k++) {
            known = smaller[k] == its;
        }
        if (!known) {
            assert_true(count < FENCES_MOST);
            smaller[count++] = its;
        }
    }
    return json_is_null(fence) ? 0 : count + 1;
}

static const char *text_or(const json_t *event, const char *key, const char *instead)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text == NULL ? instead : text;
}

/* A line per event: seconds since the enqueue, the event, its node, its fence by rank, attempt, reason, detail. */
static const char *event_lines_of(struct scene *scene, const char *id)
{
    char *events_text = arena_allocate(&scene->arena, EVENTS_TEXT_MAX);
    json_t *events = events_of(scene, id);
    size_t length = 0;
    size_t i;
    json_t *event;
    assert_non_null(events_text);
    events_text[0] = '\0';
    json_array_foreach(events, i, event)
    {
        int64_t after_us = time_of(event, "at") - time_of(json_array_get(events, 0), "at");
        const json_t *attempt = json_object_get(event, "attempt");
        assert_int_equal(after_us % SECONDS(1), 0);
        assert_true(attempt != NULL);
        length += (size_t)snprintf(events_text + length, EVENTS_TEXT_MAX - length, "%lld %s %s f%d",
                                   (long long)(after_us / SECONDS(1)), json_text_at(event, "event"),
                                   text_or(event, "node", "-"), rank_of(events, event));
        if (!json_is_null(attempt)) {
            length += (size_t)snprintf(events_text + length, EVENTS_TEXT_MAX - length, " #%lld",
                                       (long long)json_integer_value(attempt));
        }
        length += (size_t)snprintf(events_text + length, EVENTS_TEXT_MAX - length, " %s|%s\n", text_or(event, "reason", ""),
                                   text_or(event, "detail", ""));
        assert_true(length < EVENTS_TEXT_MAX);
    }
    json_decref(events);
    return events_text;
}

/* The stream has the same changes. */
static const struct stream_position no_stream;
static struct stream_position stream_begin;

static struct stream_batch read_stream(struct scene *scene, const struct stream_position *after)
{
    struct stream_batch batch = {.count = 0};
    scene_ok(scene, store_read_stream(scene->store, after, STREAM_READ_MOST, &scene->arena, &batch, &scene->error));
    return batch;
}

static int events_open(void **state)
{
    int failed = scene_open(state);
    stream_begin = read_stream(*state, &no_stream).position;
    return failed;
}

#define EVENTS_TEST(name) cmocka_unit_test_setup_teardown(name, events_open, scene_close)

/* Words of events that are kinds of changes, in their order. Not after stream_begin = no_stream: some lists leave repeated
 * changes out, or name an act like a change. */
static void assert_stream(struct scene *scene, const char *id)
{
    if (stream_begin.since_us == 0) {
        return;
    }
    struct stream_batch batch = read_stream(scene, &stream_begin);
    json_t *events = events_of(scene, id);
    size_t next = 0;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        enum stream_kind kind;
        if (!stream_kind_parse(json_text_at(event, "event"), &kind)) {
            continue;
        }
        while (next < batch.count && strcmp(batch.entries[next].id, id) != 0) {
            next++;
        }
        assert_true(next < batch.count);
        assert_string_equal(stream_kind_name(batch.entries[next].kind), stream_kind_name(kind));
        assert_string_equal(batch.entries[next].workflow, "hello");
        next++;
    }
    for (; next < batch.count; next++) {
        assert_string_not_equal(batch.entries[next].id, id);
    }
    json_decref(events);
}

static void assert_events(struct scene *scene, const char *id, const char *expected)
{
    assert_string_equal(event_lines_of(scene, id), expected);
    assert_stream(scene, id);
}

/* --- what happens in it --- */

static struct claimed_item claim_as(struct scene *scene, int64_t node)
{
    struct claim_result claim = scene_claim_as(scene, node, "default", 10);
    assert_int_equal(claim.count, 1);
    return claim.items[0];
}

static void record_as(struct scene *scene, int64_t node, enum record_kind kind, const struct claimed_item *item)
{
    assert_int_equal(scene_record_full(scene, node, scene_record_of(kind, item)), WEIR_OK);
}

/* One that asks to be put back for a second. */
static void put_back_as(struct scene *scene, int64_t node, enum record_kind kind, const struct claimed_item *item,
                        const char *code)
{
    struct record record = scene_record_of(kind, item);
    record.delay_us = kind == RECORD_PUT_BACK ? 0 : SECONDS(1);
    record.error_code = code;
    record.error = NULL;
    assert_int_equal(scene_record_full(scene, node, record), WEIR_OK);
}

/* Nodes that do not beat for a minute are dead; returns another one that lives. */
static int64_t let_nodes_die(struct scene *scene, const char *next)
{
    struct recover_result result = {0};
    scene_pass(scene, SECONDS(60));
    int64_t node = scene_add_node(scene, next, "default");
    struct recover_options options = {.node_id = node, .group = "default", .limit = 100};
    scene_recover(scene, &options, &result);
    return node;
}

static struct step_record step_of(enum step_state state, int attempt, const char *code)
{
    struct step_record step = {
        .step = "one", .state = state, .attempt = attempt, .exit_code = code == NULL ? -1 : 3, .failures = code != NULL};
    text_copy(step.error_code, sizeof step.error_code, code == NULL ? "" : code);
    return step;
}

static void record_step_as(struct scene *scene, int64_t node, const struct claimed_item *item, struct step_record step)
{
    struct record record = scene_record_of(RECORD_STEP, item);
    record.step = &step;
    assert_int_equal(scene_record_full(scene, node, record), WEIR_OK);
}

static int64_t count_event_rows(struct scene *scene)
{
    return scene_number(scene, "SELECT (SELECT count(*) FROM workflow_execution_events)"
                               " + (SELECT count(*) FROM workflow_node_attempts)");
}

/* --- claims and dispatches --- */

static void every_claim_is_listed_with_its_node_and_times(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    scene_pass(scene, SECONDS(1));
    struct claimed_item first = claim_as(scene, scene->node);
    scene_pass(scene, SECONDS(1));
    record_as(scene, scene->node, RECORD_DISPATCHED, &first);
    int64_t other = let_nodes_die(scene, "node-2"); /* 62 */
    scene_pass(scene, SECONDS(1));
    struct claimed_item second = claim_as(scene, other); /* 63 */
    scene_pass(scene, SECONDS(1));
    put_back_as(scene, other, RECORD_DEFERRED, &second, "busy"); /* 64 */
    scene_pass(scene, SECONDS(2));
    struct claimed_item third = claim_as(scene, other); /* 66 */
    scene_pass(scene, SECONDS(1));
    put_back_as(scene, other, RECORD_RETRY, &third, "refused"); /* 67 */
    scene_pass(scene, SECONDS(2));
    struct claimed_item fourth = claim_as(scene, other); /* 69 */
    scene_pass(scene, SECONDS(1));
    record_as(scene, other, RECORD_DISPATCHED, &fourth); /* 70 */
    scene_pass(scene, SECONDS(1));
    const char *so_far = "0 enqueue - f0 |\n"
                         "1 claim node-1 f1 |\n"
                         "2 dispatch node-1 f1 |\n"
                         "62 hand_over node-1 f2 its node is gone|\n"
                         "63 claim node-2 f3 |\n"
                         "64 defer node-2 f3 busy|\n"
                         "66 claim node-2 f4 |\n"
                         "67 retry node-2 f4 refused|\n"
                         "69 claim node-2 f5 |\n"
                         "70 dispatch node-2 f5 |\n";
    assert_events(scene, id, so_far);
    record_as(scene, other, RECORD_COMPLETED, &fourth); /* 71 */
    char whole[EVENTS_TEXT_MAX];
    (void)snprintf(whole, sizeof whole, "%s71 complete node-2 f5 |\n", so_far);
    assert_events(scene, id, whole);
    json_t *events = events_of(scene, id);
    static const size_t claims[] = {1, 4, 6, 8};
    const struct claimed_item *items[] = {&first, &second, &third, &fourth};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(json_number_at(json_array_get(events, claims[i]), "fence"), items[i]->fence);
    }
    json_decref(events);
}

/* As engines report them: a start and an end, or a start and a give-back, may come in one set. */
static void records_of_one_set_are_listed_as_well(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item first = claim_as(scene, scene->node);
    struct record_summary summary;
    struct record both[2] = {scene_record_of(RECORD_DISPATCHED, &first), scene_record_of(RECORD_GIVEN_BACK, &first)};
    scene_pass(scene, SECONDS(1));
    scene_ok(scene, store_record(scene->store, scene->node, both, 2, &summary, &scene->error));
    assert_int_equal(summary.changed, 2);
    scene_pass(scene, SECONDS(1));
    struct claimed_item second = claim_as(scene, scene->node);
    scene_pass(scene, SECONDS(1));
    struct record end[2] = {scene_record_of(RECORD_DISPATCHED, &second), scene_record_of(RECORD_COMPLETED, &second)};
    end[1].dispatched_first = true;
    scene_ok(scene, store_record(scene->store, scene->node, end, 2, &summary, &scene->error));
    assert_int_equal(summary.changed, 2);
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "1 dispatch node-1 f1 |\n"
                  "1 give_back node-1 f1 |\n"
                  "2 claim node-1 f2 |\n" /* the fence of the give-back is nobody's */
                  "3 dispatch node-1 f2 |\n"
                  "3 complete node-1 f2 |\n");
}

static void an_end_that_overtakes_its_start_is_listed_as_dispatched_by_its_own_node(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item first = claim_as(scene, scene->node);
    record_as(scene, scene->node, RECORD_DISPATCHED, &first);
    int64_t other = let_nodes_die(scene, "node-2");
    struct claimed_item second = claim_as(scene, other);
    struct record end = scene_record_of(RECORD_COMPLETED, &second);
    end.dispatched_first = true;
    scene_pass(scene, SECONDS(1));
    assert_int_equal(scene_record_full(scene, other, end), WEIR_OK);
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "0 dispatch node-1 f1 |\n"
                  "60 hand_over node-1 f2 its node is gone|\n"
                  "60 claim node-2 f3 |\n"
                  "61 dispatch node-2 f3 |\n"
                  "61 complete node-2 f3 |\n");
}

static void an_end_that_comes_twice_in_a_set_is_listed_once(void **state)
{
    struct scene *scene = *state;
    struct record_summary summary;
    const char *id = scene_enqueue(scene, "free-co");
    (void)claim_as(scene, scene->node);
    int64_t other = let_nodes_die(scene, "node-2");
    struct claimed_item second = claim_as(scene, other);
    struct record ends[2] = {scene_record_of(RECORD_COMPLETED, &second), scene_record_of(RECORD_COMPLETED, &second)};
    for (size_t i = 0; i < 2; i++) {
        ends[i].dispatched_first = true;
        ends[i].taken_over = true;
    }
    scene_ok(scene, store_record(scene->store, other, ends, 2, &summary, &scene->error));
    assert_int_equal(ends[0].status, WEIR_OK);
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "60 hand_over node-1 f2 its node is gone|\n"
                  "60 claim node-2 f3 |\n"
                  "60 dispatch node-2 f3 |\n"
                  "60 complete node-2 f3 |\n");
}

/* The first dispatch stays in the row, for the execution's own timeout; it is not the last node's. */
static void an_end_without_a_dispatch_of_its_own_lists_none(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item first = claim_as(scene, scene->node);
    record_as(scene, scene->node, RECORD_DISPATCHED, &first);
    int64_t other = let_nodes_die(scene, "node-2");
    struct claimed_item second = claim_as(scene, other);
    record_as(scene, other, RECORD_REFUSED, &second);
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "0 dispatch node-1 f1 |\n"
                  "60 hand_over node-1 f2 its node is gone|\n"
                  "60 claim node-2 f3 |\n"
                  "60 refuse node-2 f3 test_error|it did not work\n"
                  "60 fail node-2 f3 test_error|it did not work\n");
}

static void a_node_that_stops_is_listed_with_its_claim(void **state)
{
    struct scene *scene = *state;
    const char *started = scene_enqueue(scene, "pro-co");
    scene_pass(scene, SECONDS(1));
    struct claimed_item item = claim_as(scene, scene->node);
    record_as(scene, scene->node, RECORD_DISPATCHED, &item);
    const char *claimed = scene_enqueue(scene, "pro-co");
    (void)claim_as(scene, scene->node);
    scene_pass(scene, SECONDS(1));
    scene_ok(scene, store_node_stop(scene->store, scene->node, true, &scene->error));
    assert_events(scene, started,
                  "0 enqueue - f0 |\n"
                  "1 claim node-1 f1 |\n"
                  "1 dispatch node-1 f1 |\n"
                  "2 give_back node-1 f2 its node stops|\n");
    assert_events(scene, claimed,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "1 give_back node-1 f2 its node stops|\n");
}

static void poison_names_every_node_that_died(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    int64_t node = scene->node;
    for (int death = 1; death <= HANDOVERS_MAX; death++) {
        char name[16];
        if (death > SUSPICION_QUARANTINE) {
            scene_pass(scene, SECONDS(1)); /* the delay of suspicion_delay_us() */
        }
        struct claimed_item item = claim_as(scene, node);
        if (death == HANDOVERS_MAX) {
            record_as(scene, node, RECORD_DISPATCHED, &item);
        }
        record_step_as(scene, node, &item, step_of(STEP_RUNNING, death, NULL));
        (void)snprintf(name, sizeof name, "node-%d", death + 1);
        node = let_nodes_die(scene, name);
    }
    assert_int_equal(HANDOVERS_MAX, 5);
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "0 step_start node-1 f1 #1 one|\n"
                  "60 step_end node-1 f1 #1 one|INTERRUPTED\n"
                  "60 hand_over node-1 f2 its node is gone|1 of 5 while it ran one; suspicion 1\n"
                  "60 claim node-2 f3 |\n"
                  "60 step_start node-2 f3 #2 one|\n"
                  "120 step_end node-2 f3 #2 one|INTERRUPTED\n"
                  "120 hand_over node-2 f4 its node is gone|2 of 5 while it ran one; suspicion 2\n"
                  "120 claim node-3 f5 |\n"
                  "120 step_start node-3 f5 #3 one|\n"
                  "180 step_end node-3 f5 #3 one|INTERRUPTED\n"
                  "180 hand_over node-3 f6 its node is gone|3 of 5 while it ran one; suspicion 3\n"
                  "180 claim node-4 f7 |\n"
                  "180 step_start node-4 f7 #4 one|\n"
                  "240 step_end node-4 f7 #4 one|INTERRUPTED\n"
                  "240 hand_over node-4 f8 its node is gone|4 of 5 while it ran one; suspicion 4\n"
                  "241 claim node-5 f9 |\n"
                  "241 dispatch node-5 f9 |\n"
                  "241 step_start node-5 f9 #5 one|\n"
                  "301 step_end - f10 #5 one|CANCELLED\n"
                  "301 poison node-5 f10 its node is gone|5 of 5 while it ran one; suspicion 5\n"
                  "301 fail - f10 poison|its node died 5 times while it ran alone, and no step of it ended in between; "
                  "it is not tried again\n");
}

static void the_safety_net_names_who_held_it(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    (void)claim_as(scene, scene->node);
    for (int64_t passed_us = 0; passed_us < STALE_CLAIM_US; passed_us += SECONDS(5)) {
        scene_pass(scene, SECONDS(5));
        scene_beat(scene, scene->node);
    }
    struct recover_options options = {
        .node_id = scene->node, .group = "default", .stale_claim_us = STALE_CLAIM_US, .limit = 10};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    assert_int_equal(result.handed_over, 1);
    assert_int_equal(STALE_CLAIM_US, SECONDS(300));
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "300 hand_over node-1 f2 claimed for too long|\n");
}

static void an_engine_that_is_away_is_listed_once(void **state)
{
    struct scene *scene = *state;
    stream_begin = no_stream;
    const char *id = scene_enqueue(scene, "free-co");
    for (int i = 0; i < 4; i++) {
        struct claimed_item item = claim_as(scene, scene->node);
        scene_pass(scene, SECONDS(1));
        put_back_as(scene, scene->node, RECORD_PUT_BACK, &item, i < 3 ? "unreachable" : "overloaded");
    }
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "1 put_back node-1 f1 unreachable|\n"
                  "3 claim node-1 f2 |\n" /* two were no news */
                  "4 put_back node-1 f2 overloaded|\n");
}

static void a_put_back_after_a_handover_is_listed_though_it_repeats_the_last_one(void **state)
{
    struct scene *scene = *state;
    stream_begin = no_stream;
    const char *id = scene_enqueue(scene, "free-co");
    for (int i = 0; i < 5; i++) {
        int64_t node = i == 1 ? scene_add_node(scene, "second", "default") : scene->node;
        struct claimed_item item = claim_as(scene, node);
        scene_pass(scene, SECONDS(1));
        if (i == 1) {
            scene_ok(scene, store_node_stop(scene->store, node, true, &scene->error));
        } else {
            put_back_as(scene, node, RECORD_PUT_BACK, &item, "node_not_starting");
        }
    }
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "1 put_back node-1 f1 node_not_starting|\n"
                  "1 claim second f2 |\n"
                  "2 give_back second f3 its node stops|\n"
                  "2 claim node-1 f4 |\n"
                  "3 put_back node-1 f4 node_not_starting|\n"); /* the last two were no news */
}

static struct bulk_result act_on(struct scene *scene, enum bulk_act act, const char *id)
{
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, act, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    return result;
}

static void a_cancel_while_it_is_put_back_ends_the_events_of_that_claim(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item first = claim_as(scene, scene->node);
    scene_pass(scene, SECONDS(1));
    put_back_as(scene, scene->node, RECORD_RETRY, &first, "refused");
    scene_pass(scene, SECONDS(1));
    (void)act_on(scene, BULK_RELEASE, id);
    struct claimed_item second = claim_as(scene, scene->node);
    (void)act_on(scene, BULK_CANCEL, id);
    scene_pass(scene, SECONDS(1));
    put_back_as(scene, scene->node, RECORD_RETRY, &second, "refused");
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "1 retry node-1 f1 refused|\n"
                  "2 release - f0 because|\n"
                  "2 cancel - f0 because|passed on to its engine\n"
                  "2 claim node-1 f2 |\n"
                  "3 cancelled node-1 f2 refused|\n");
}

static void a_retry_of_the_ended_lists_both(void **state)
{
    struct scene *scene = *state;
    stream_begin = no_stream;
    const char *id = scene_enqueue(scene, "free-co");
    char expected[EVENTS_TEXT_MAX];
    struct claimed_item item = claim_as(scene, scene->node);
    record_as(scene, scene->node, RECORD_FAILED, &item);
    scene_pass(scene, SECONDS(1));
    struct bulk_result retried = act_on(scene, BULK_RETRY, id);
    (void)snprintf(expected, sizeof expected,
                   "0 enqueue - f0 |\n"
                   "0 claim node-1 f1 |\n"
                   "0 fail node-1 f1 test_error|it did not work\n"
                   "1 retry - f0 because|%s\n",
                   retried.new_id);
    assert_events(scene, id, expected);
    (void)snprintf(expected, sizeof expected, "0 enqueue - f0 retry_of|%s\n", id);
    assert_events(scene, retried.new_id, expected);
}

static void what_goes_well_writes_no_further_row(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    scene_pass(scene, SECONDS(1));
    struct claimed_item item = claim_as(scene, scene->node);
    record_as(scene, scene->node, RECORD_DISPATCHED, &item);
    record_step_as(scene, scene->node, &item, step_of(STEP_RUNNING, 1, NULL));
    scene_pass(scene, SECONDS(1));
    record_step_as(scene, scene->node, &item, step_of(STEP_COMPLETED, 1, NULL));
    record_as(scene, scene->node, RECORD_COMPLETED, &item);
    assert_int_equal(count_event_rows(scene), 0);
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "1 claim node-1 f1 |\n"
                  "1 dispatch node-1 f1 |\n"
                  "1 step_start node-1 f1 #1 one|\n"
                  "2 step_end node-1 f1 #1 one|COMPLETED\n"
                  "2 complete node-1 f1 |\n");
}

/* --- runs of steps --- */

/* The second one in a single set: nothing of it is on record before. */
static void every_attempt_of_a_step_is_listed(void **state)
{
    struct scene *scene = *state;
    for (int in_one_set = 0; in_one_set < 2; in_one_set++) {
        const char *id = scene_enqueue(scene, "free-co");
        struct claimed_item item = claim_as(scene, scene->node);
        struct step_record steps[] = {step_of(STEP_RUNNING, 1, NULL), step_of(STEP_WAITING, 1, "exit_3"),
                                      step_of(STEP_RUNNING, 2, NULL), step_of(STEP_WAITING, 2, "timeout"),
                                      step_of(STEP_COMPLETED, 3, NULL)};
        struct record records[6];
        struct record_summary summary;
        char error[] = "exit code 3: no such customer";
        steps[1].error = error;
        for (int i = 0; i < 6; i++) {
            records[i] = scene_record_of(i < 5 ? RECORD_STEP : RECORD_COMPLETED, &item);
            records[i].step = i < 5 ? &steps[i] : NULL;
            if (!in_one_set) {
                scene_pass(scene, SECONDS(1));
                assert_int_equal(scene_record_full(scene, scene->node, records[i]), WEIR_OK);
            }
        }
        if (in_one_set) {
            scene_pass(scene, SECONDS(1));
            scene_ok(scene, store_record(scene->store, scene->node, records, 6, &summary, &scene->error));
            assert_int_equal(summary.changed, 6);
        }
        assert_events(scene, id,
                      in_one_set ? "0 enqueue - f0 |\n"
                                   "0 claim node-1 f1 |\n"
                                   "1 step_start node-1 f1 #1 one|\n"
                                   "1 step_end node-1 f1 #1 one|FAILED: exit code 3: no such customer\n"
                                   "1 step_start node-1 f1 #2 one|\n"
                                   "1 step_end node-1 f1 #2 one|FAILED: timeout\n"
                                   "1 step_start node-1 f1 #3 one|\n"
                                   "1 step_end node-1 f1 #3 one|COMPLETED\n"
                                   "1 complete node-1 f1 |\n"
                                 : "0 enqueue - f0 |\n"
                                   "0 claim node-1 f1 |\n"
                                   "1 step_start node-1 f1 #1 one|\n"
                                   "2 step_end node-1 f1 #1 one|FAILED: exit code 3: no such customer\n"
                                   "3 step_start node-1 f1 #2 one|\n"
                                   "4 step_end node-1 f1 #2 one|FAILED: timeout\n"
                                   "5 step_start node-1 f1 #3 one|\n"
                                   "5 step_end node-1 f1 #3 one|COMPLETED\n"
                                   "6 complete node-1 f1 |\n");
        json_t *shown = NULL;
        scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
        const json_t *earlier = json_object_get(shown, "earlier_attempts");
        assert_int_equal(json_array_size(earlier), 2);
        assert_int_equal(json_number_at(json_array_get(earlier, 0), "attempt"), 1);
        assert_string_equal(json_text_at(json_array_get(earlier, 0), "status"), "FAILED");
        assert_string_equal(json_text_at(json_array_get(earlier, 0), "error"), error);
        assert_string_equal(json_text_at(json_array_get(earlier, 0), "node"), "node-1");
        assert_int_equal(json_number_at(json_array_get(earlier, 0), "exit_code"), 3);
        assert_int_equal(time_of(json_array_get(earlier, 0), "finished_at") -
                             time_of(json_array_get(earlier, 0), "started_at"),
                         in_one_set ? 0 : SECONDS(1));
        assert_string_equal(json_text_at(json_array_get(earlier, 1), "error_code"), "timeout");
        json_decref(shown);
    }
}

/* While it waits for its next attempt the last one is listed once. */
static void a_step_that_backs_off_lists_the_attempt_that_failed(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item item = claim_as(scene, scene->node);
    record_step_as(scene, scene->node, &item, step_of(STEP_RUNNING, 1, NULL));
    scene_pass(scene, SECONDS(1));
    record_step_as(scene, scene->node, &item, step_of(STEP_WAITING, 1, "exit_3"));
    record_step_as(scene, scene->node, &item, step_of(STEP_WAITING, 1, "exit_3")); /* its answer was lost */
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "0 step_start node-1 f1 #1 one|\n"
                  "1 step_end node-1 f1 #1 one|FAILED: exit_3\n");
    record_as(scene, scene->node, RECORD_CANCELLED, &item);
}

static void an_attempt_that_died_with_its_node_is_listed_as_interrupted(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item first = claim_as(scene, scene->node);
    scene_pass(scene, SECONDS(1));
    record_step_as(scene, scene->node, &first, step_of(STEP_RUNNING, 1, NULL));
    int64_t other = let_nodes_die(scene, "node-2");
    struct claimed_item second = claim_as(scene, other);
    scene_pass(scene, SECONDS(1));
    record_step_as(scene, other, &second, step_of(STEP_RUNNING, 2, NULL));
    scene_pass(scene, SECONDS(1));
    record_step_as(scene, other, &second, step_of(STEP_COMPLETED, 2, NULL));
    record_as(scene, other, RECORD_COMPLETED, &second);
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "1 step_start node-1 f1 #1 one|\n"
                  "61 step_end node-1 f1 #1 one|INTERRUPTED\n"
                  "61 hand_over node-1 f2 its node is gone|1 of 5 while it ran one; suspicion 1\n"
                  "61 claim node-2 f3 |\n"
                  "62 step_start node-2 f3 #2 one|\n"
                  "63 step_end node-2 f3 #2 one|COMPLETED\n"
                  "63 complete node-2 f3 |\n");
}

/* Of a handler, which is not on record before it ends: its node says so when it stops. */
static void an_attempt_that_its_node_gave_up_is_listed_as_interrupted(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item first = claim_as(scene, scene->node);
    scene_pass(scene, SECONDS(1));
    record_step_as(scene, scene->node, &first, step_of(STEP_WAITING, 1, STEP_INTERRUPTED));
    record_as(scene, scene->node, RECORD_GIVEN_BACK, &first);
    struct claimed_item second = claim_as(scene, scene->node);
    scene_pass(scene, SECONDS(1));
    struct step_record done = step_of(STEP_COMPLETED, 2, NULL);
    struct record end = scene_record_of(RECORD_COMPLETED, &second);
    end.step = &done;
    assert_int_equal(scene_record_full(scene, scene->node, end), WEIR_OK);
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "1 step_start node-1 f1 #1 one|\n"
                  "1 step_end node-1 f1 #1 one|INTERRUPTED: interrupted\n"
                  "1 give_back node-1 f1 |\n"
                  "1 claim node-1 f2 |\n"
                  "2 step_start node-1 f2 #2 one|\n"
                  "2 step_end node-1 f2 #2 one|COMPLETED\n"
                  "2 complete node-1 f2 |\n");
}

static void a_step_that_another_node_ends_was_started_by_the_first(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item first = claim_as(scene, scene->node);
    record_step_as(scene, scene->node, &first, step_of(STEP_WAITING, 1, NULL)); /* it sleeps */
    int64_t other = let_nodes_die(scene, "node-2");
    struct claimed_item second = claim_as(scene, other);
    scene_pass(scene, SECONDS(1));
    record_step_as(scene, other, &second, step_of(STEP_COMPLETED, 1, NULL));
    assert_events(scene, id,
                  "0 enqueue - f0 |\n"
                  "0 claim node-1 f1 |\n"
                  "0 step_start node-1 f1 #1 one|\n"
                  "60 hand_over node-1 f2 its node is gone|\n"
                  "60 claim node-2 f3 |\n"
                  "61 step_end node-2 f3 #1 one|COMPLETED\n");
    record_as(scene, other, RECORD_COMPLETED, &second);
}

/* However it ends when no engine says what became of the step. */
static void a_step_ends_with_its_execution(void **state)
{
    static const enum record_kind ends[] = {RECORD_REFUSED, RECORD_FAILED, RECORD_COMPLETED, RECORD_CANCELLED,
                                            RECORD_RETRY};
    struct scene *scene = *state;
    int64_t node = scene->node;
    for (size_t i = 0; i <= sizeof ends / sizeof ends[0]; i++) {
        char name[16];
        const char *id = scene_enqueue(scene, "free-co");
        struct claimed_item first = claim_as(scene, node);
        record_step_as(scene, node, &first, step_of(STEP_RUNNING, 1, NULL));
        (void)snprintf(name, sizeof name, "next-%zu", i);
        node = let_nodes_die(scene, name);
        struct claimed_item second = claim_as(scene, node);
        if (i < 4) {
            record_as(scene, node, ends[i], &second);
        } else if (i == 4) { /* a cancel while it runs, and then it could not be started */
            (void)act_on(scene, BULK_CANCEL, id);
            record_as(scene, node, ends[i], &second);
        } else { /* a cancel while it waits for its next start */
            put_back_as(scene, node, RECORD_RETRY, &second, "refused");
            (void)act_on(scene, BULK_CANCEL, id);
        }
        assert_string_equal(scene_text(scene, "SELECT status FROM workflow_node_executions WHERE execution_id = '%s'", id),
                            "CANCELLED");
        assert_non_null(strstr(event_lines_of(scene, id), "\n60 step_end n")); /* where it ran */
        assert_non_null(strstr(event_lines_of(scene, id), "\n0 step_start n"));
    }
}

static void a_stale_word_of_a_step_is_not_kept(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item first = claim_as(scene, scene->node);
    int64_t other = let_nodes_die(scene, "node-2");
    struct claimed_item second = claim_as(scene, other);
    struct step_record late = step_of(STEP_WAITING, 1, "exit_3");
    struct record record = scene_record_of(RECORD_STEP, &first);
    record.step = &late;
    const char *before = event_lines_of(scene, id);
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_STALE_FENCE);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &first), WEIR_STALE_FENCE);
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &first), WEIR_STALE_FENCE);
    assert_int_equal(scene_record(scene, RECORD_RETRY, &first), WEIR_STALE_FENCE);
    assert_string_equal(event_lines_of(scene, id), before);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_node_attempts"), 0);
    record_as(scene, other, RECORD_COMPLETED, &second);
}

static void a_purge_leaves_no_attempt_behind(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item item = claim_as(scene, scene->node);
    record_step_as(scene, scene->node, &item, step_of(STEP_WAITING, 1, "exit_3"));
    record_as(scene, scene->node, RECORD_FAILED, &item);
    assert_int_equal(count_event_rows(scene), 1);
    (void)act_on(scene, BULK_PURGE, id);
    assert_int_equal(count_event_rows(scene), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EVENTS_TEST(every_claim_is_listed_with_its_node_and_times),
        EVENTS_TEST(records_of_one_set_are_listed_as_well),
        EVENTS_TEST(an_end_that_overtakes_its_start_is_listed_as_dispatched_by_its_own_node),
        EVENTS_TEST(an_end_that_comes_twice_in_a_set_is_listed_once),
        EVENTS_TEST(an_end_without_a_dispatch_of_its_own_lists_none),
        EVENTS_TEST(a_node_that_stops_is_listed_with_its_claim),
        EVENTS_TEST(poison_names_every_node_that_died),
        EVENTS_TEST(the_safety_net_names_who_held_it),
        EVENTS_TEST(an_engine_that_is_away_is_listed_once),
        EVENTS_TEST(a_put_back_after_a_handover_is_listed_though_it_repeats_the_last_one),
        EVENTS_TEST(a_cancel_while_it_is_put_back_ends_the_events_of_that_claim),
        EVENTS_TEST(a_retry_of_the_ended_lists_both),
        EVENTS_TEST(what_goes_well_writes_no_further_row),
        EVENTS_TEST(every_attempt_of_a_step_is_listed),
        EVENTS_TEST(a_step_that_backs_off_lists_the_attempt_that_failed),
        EVENTS_TEST(an_attempt_that_died_with_its_node_is_listed_as_interrupted),
        EVENTS_TEST(an_attempt_that_its_node_gave_up_is_listed_as_interrupted),
        EVENTS_TEST(a_step_that_another_node_ends_was_started_by_the_first),
        EVENTS_TEST(a_step_ends_with_its_execution),
        EVENTS_TEST(a_stale_word_of_a_step_is_not_kept),
        EVENTS_TEST(a_purge_leaves_no_attempt_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
