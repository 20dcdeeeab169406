/* Records of starts outside of the node: they wait a moment for more, and for nothing that matters. */
#include "dispatch/node.h"

#include "engine/engine.h"
#include "unit/dispatch/bench.h"

#define MS MICROSECONDS_PER_MS
#define LONG_RUN ((struct scripted_outcome){.run_us = 10 * MINUTE})

static struct report_sink node_sink;
static int records; /* sets that were written */
static int64_t told_us[EVENT_TYPE_COUNT];

/* As an engine with starts outside does. */
static void make_patient(void *context, struct report *report)
{
    (void)context;
    report->may_wait = report->kind == REPORT_STARTED;
    node_sink.report(node_sink.context, report);
}

static void note_event(void *context, const struct event *event)
{
    told_us[event->type] = bench_boot(context);
    records += event->type == EVENT_STORE_CALLED && strcmp(event->reason, "record") == 0;
}

static void start_node_outside(struct bench *bench)
{
    assert_true(event_subscribe(&bench->events, note_event, bench));
    bench->store->events = &bench->events; /* the handles of the node's loops are copies */
    start_node(bench);
    node_sink = bench->engine->sink;
    engine_set_sink(bench->engine, (struct report_sink){.report = make_patient, .context = NULL});
    pass(bench, SECOND);
    records = 0;
}

static void starts_that_come_one_by_one_are_recorded_together(void **state)
{
    struct bench *bench = *state;
    char ids[3][UUID_TEXT_MAX];
    start_node_outside(bench);
    for (int i = 0; i < 3; i++) {
        push(bench, LONG_RUN);
        enqueue(bench, "many", ids[i]);
        pass(bench, 10 * MS);
        assert_int_equal(runs_begun(bench, ids[i]), 1);
    }
    assert_int_equal(records, 0);
    pass(bench, 50 * MS);
    assert_int_equal(records, 1);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(text_of(bench, ids[i], "status"), "DISPATCHED");
    }
}

static void an_end_takes_along_what_waits(void **state)
{
    struct bench *bench = *state;
    char ids[2][UUID_TEXT_MAX];
    start_node_outside(bench);
    push(bench, LONG_RUN);
    push(bench, (struct scripted_outcome){.run_us = 5 * MS});
    enqueue(bench, "many", ids[0]);
    enqueue(bench, "many", ids[1]);
    pass(bench, 10 * MS);
    assert_int_equal(records, 1);
    assert_string_equal(text_of(bench, ids[0], "status"), "DISPATCHED");
    assert_string_equal(text_of(bench, ids[1], "status"), "COMPLETED");
}

/* While nobody knows whether the service is there again, the one start that tries it is waited for. */
static void a_probe_is_recorded_at_once(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node_outside(bench);
    engine_report(bench->engine, report_new(REPORT_ENGINE_DOWN, "", 0));
    pass(bench, MS);
    assert_int_equal(bench->counts[EVENT_ENGINE_DOWN], 1);
    push(bench, LONG_RUN);
    enqueue(bench, "many", id);
    pass(bench, MINUTE);
    assert_int_equal(bench->counts[EVENT_ENGINE_UP], 1);
    assert_in_range(told_us[EVENT_ENGINE_UP] - told_us[EVENT_EXECUTION_DISPATCHING], 0, 10 * MS);
}

/* A workflow outside may run for days: only its definition has the time from which on that is too long. */
static void it_is_stuck_only_when_its_definition_says_so(void **state)
{
    static const char definition[] =
        "{\"name\": \"watched\", \"stuck_after\": \"20s\", \"steps\": [{\"id\": \"s\", \"handler\": \"h\"}]}";
    struct bench *bench = *state;
    struct published published;
    char ids[2][UUID_TEXT_MAX];
    assert_int_equal(store_publish(bench->store, "watched", NULL, definition, NULL, &published, NULL), WEIR_OK);
    start_node_outside(bench);
    push(bench, LONG_RUN);
    enqueue(bench, "many", ids[0]);
    pass(bench, 9 * MINUTE);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 0);
    push(bench, LONG_RUN);
    enqueue_at(bench, "many", "watched", 0, ids[1]);
    pass(bench, 30 * SECOND);
    assert_string_equal(text_of(bench, ids[1], "status"), "DISPATCHED");
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(starts_that_come_one_by_one_are_recorded_together),
        TEST(an_end_takes_along_what_waits),
        TEST(a_probe_is_recorded_at_once),
        TEST(it_is_stuck_only_when_its_definition_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
