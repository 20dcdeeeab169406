/* Workflow ids that a definition names, and the search attributes of a start, on a virtual clock and a service in memory:
 * nothing runs twice, and nobody's workflow is taken for another one. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/temporal/temporal_internal.h"
#include "support/fake_temporal.h"

#define ID_ONE "019aa000-0000-7000-8000-000000000001"
#define ID_TWO "019aa000-0000-7000-8000-000000000002"
#define SECOND_US MICROSECONDS_PER_SECOND
#define ORDER "{\"name\": \"order\", \"temporal\": {\"task_queue\": \"q\", \"workflow_id\": \"order-${.input.order}\"}}"

enum { REPORT_KINDS = REPORT_ENGINE_SOUND + 1 };

struct bench {
    struct clock clock;
    int64_t now_us;
    struct fake_temporal *service;
    struct engine *engine;
    struct report *last[REPORT_KINDS];
    size_t counts[REPORT_KINDS];
};

static int64_t bench_now(void *context)
{
    return ((struct bench *)context)->now_us;
}

static void hear(void *context, struct report *report)
{
    struct bench *bench = context;
    report_free(bench->last[report->kind]);
    bench->last[report->kind] = report;
    bench->counts[report->kind]++;
}

/* `polls_max` SIZE_MAX: no end is waited for, so that lists and looks find it. */
static void open_bench(struct bench *bench, size_t polls_max)
{
    memset(bench, 0, sizeof *bench);
    bench->now_us = 1000 * SECOND_US;
    bench->clock = (struct clock){.wall_us = bench_now, .boot_us = bench_now, .context = bench};
    bench->service = fake_temporal_open(&bench->clock);
    struct temporal_options options = {.clock = &bench->clock, .polls_max = polls_max};
    struct temporal_wire wire = fake_temporal_wire(bench->service);
    assert_int_equal(temporal_open_on(&options, &wire, &bench->engine, NULL), WEIR_OK);
    engine_set_sink(bench->engine, (struct report_sink){hear, bench});
}

static void close_bench(struct bench *bench)
{
    engine_close(bench->engine);
    assert_true(fake_temporal_starts_are_equal(bench->service));
    fake_temporal_close(bench->service);
    for (size_t i = 0; i < REPORT_KINDS; i++) {
        report_free(bench->last[i]);
    }
}

static void pass(struct bench *bench, int64_t us)
{
    int64_t end_us = bench->now_us + us;
    for (int64_t next_us = engine_step(bench->engine); next_us <= end_us; next_us = engine_step(bench->engine)) {
        bench->now_us = next_us > bench->now_us ? next_us : bench->now_us + 1;
    }
    bench->now_us = end_us;
    (void)engine_step(bench->engine);
}

static struct engine_start start_of(const char *id, const char *definition, const char *params)
{
    struct engine_start start = {.workspace = "acme",
                                 .workflow = "order",
                                 .version = 1,
                                 .definition_id = (int64_t)(text_hash(definition) >> 2),
                                 .definition = definition,
                                 .params = params,
                                 .params_length = strlen(params),
                                 .fence = 5,
                                 .attempt = 1};
    memcpy(start.id, id, sizeof start.id);
    return start;
}

static void start_one(struct bench *bench, const char *id, const char *definition, const char *params)
{
    struct engine_start start = start_of(id, definition, params);
    assert_int_equal(engine_start(bench->engine, &start, NULL), WEIR_OK);
    pass(bench, SECOND_US);
}

static const struct report *last(const struct bench *bench, enum report_kind kind)
{
    if (bench->last[kind] == NULL) {
        fail_msg("no report of kind %d", (int)kind);
    }
    return bench->last[kind];
}

static void expect_refusal(const struct bench *bench, const char *id, const char *code, const char *words)
{
    const struct report *report = last(bench, REPORT_REFUSED);
    assert_string_equal(report->id, id);
    assert_true(report->permanent);
    assert_string_equal(report->error_code, code);
    if (strstr(report->error, words) == NULL) {
        fail_msg("'%s' is not in: %s", words, report->error);
    }
}

/* --- ids --- */

static void a_workflow_has_the_id_that_its_definition_makes_of_the_params(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench, 0);
    start_one(&bench, ID_ONE, ORDER, "{\"order\": 17}");
    assert_int_equal(bench.counts[REPORT_STARTED], 1);
    assert_true(fake_temporal_start_has(bench.service, "order-17", ID_ONE));
    assert_non_null(strstr(last(&bench, REPORT_STEP)->step.variables, "\"workflow_id\":\"order-17\""));
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass(&bench, SECOND_US);
    assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_COMPLETED);
    close_bench(&bench);
}

static void ends_of_own_ids_are_found_without_waiting_calls(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench, SIZE_MAX);
    start_one(&bench, ID_ONE, ORDER, "{\"order\": 17}");
    pass(&bench, 5 * SECOND_US);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass(&bench, 3 * SECOND_US); /* by the list: a look comes after half a minute */
    assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_COMPLETED);
    close_bench(&bench);
}

static void of_two_open_executions_with_one_id_the_second_is_refused(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench, 0);
    start_one(&bench, ID_ONE, ORDER, "{\"order\": 17}");
    start_one(&bench, ID_TWO, ORDER, "{\"order\": 17}");
    assert_int_equal(bench.counts[REPORT_STARTED], 1);
    expect_refusal(&bench, ID_TWO, "workflow_id_taken", "'order-17' is that of execution " ID_ONE);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass(&bench, SECOND_US);
    assert_string_equal(last(&bench, REPORT_ENDED)->id, ID_ONE);
    close_bench(&bench);
}

static void an_id_of_a_closed_workflow_is_not_used_again(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench, 0);
    start_one(&bench, ID_ONE, ORDER, "{\"order\": 17}");
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_FAILED, "no");
    pass(&bench, SECOND_US);
    start_one(&bench, ID_TWO, ORDER, "{\"order\": 17}");
    expect_refusal(&bench, ID_TWO, "workflow_id_taken", "another `workflow_id`");
    assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 1);
    close_bench(&bench);
}

static void an_own_id_that_somebody_else_has_is_refused_with_words(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench, 0);
    fake_temporal_take_workflow_id(bench.service, "order-17");
    start_one(&bench, ID_ONE, ORDER, "{\"order\": 17}");
    expect_refusal(&bench, ID_ONE, "workflow_id_taken",
                   "a workflow that weir did not start has this execution's workflow id");
    close_bench(&bench);
}

static void a_lost_answer_of_an_own_id_is_asked_for_and_starts_none_twice(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench, 0);
    fake_temporal_push(bench.service, FAKE_LOSE_ANSWER);
    start_one(&bench, ID_ONE, ORDER, "{\"order\": 17}");
    fake_temporal_renew(bench.service, ID_ONE); /* another request id, another memo */
    pass(&bench, 10 * SECOND_US);
    assert_int_equal(bench.counts[REPORT_STARTED], 1);
    assert_int_equal(bench.counts[REPORT_REFUSED], 0);
    assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 1);
    close_bench(&bench);
}

static void values_that_are_no_id_fail_with_their_own_code(void **state)
{
    static const struct {
        const char *definition;
        const char *params;
        const char *words;
    } rows[] = {
        {"{\"name\":\"a\",\"temporal\":{\"task_queue\":\"q\",\"workflow_id\":\"${.input.order}\"}}", "{\"order\": 17}",
         "must be a string, and its value is of the type integer"},
        {"{\"name\":\"b\",\"temporal\":{\"task_queue\":\"q\",\"workflow_id\":\"${.input.order}\"}}", "{}",
         "must be a string, and its value is of the type null"},
        {"{\"name\":\"c\",\"temporal\":{\"task_queue\":\"q\",\"workflow_id\":\"${.input.order}\"}}", "{\"order\": \"\"}",
         "workflow_id is empty"},
        {"{\"name\":\"d\",\"temporal\":{\"task_queue\":\"q\",\"workflow_id\":\"${.input.order}\"}}",
         "{\"order\": \"execution-" ID_TWO "\"}", "which is weir's own"},
        {"{\"name\":\"e\",\"temporal\":{\"task_queue\":\"q\",\"workflow_id\":\"${.input.order}\"}}",
         "{\"order\": \"a\\nb\"}", "control character"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bench bench;
        open_bench(&bench, 0);
        start_one(&bench, ID_ONE, rows[i].definition, rows[i].params);
        expect_refusal(&bench, ID_ONE, WORKFLOW_ID_INVALID, rows[i].words);
        assert_int_equal(fake_temporal_calls(bench.service, FAKE_START), 0);
        close_bench(&bench);
    }
}

static void an_id_is_at_most_255_bytes_long(void **state)
{
    for (int length = 249; length <= 250; length++) { /* and "order-" */
        struct bench bench;
        char params[300];
        char order[251] = "";
        (void)state;
        memset(order, 'x', (size_t)length);
        (void)snprintf(params, sizeof params, "{\"order\": \"%s\"}", order);
        open_bench(&bench, 0);
        start_one(&bench, ID_ONE, ORDER, params);
        assert_int_equal(bench.counts[REPORT_STARTED], length == 249);
        if (length == 250) {
            expect_refusal(&bench, ID_ONE, WORKFLOW_ID_INVALID, "workflow_id has more than 255 bytes");
        }
        close_bench(&bench);
    }
}

/* --- when others use the id afterwards --- */

static void an_end_is_read_from_the_own_chain_though_others_used_the_id_since(void **state)
{
    static const size_t polls[] = {0, SIZE_MAX};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct bench bench;
        open_bench(&bench, polls[i]);
        start_one(&bench, ID_ONE, ORDER, "{\"order\": 17}");
        pass(&bench, 5 * SECOND_US);
        fake_temporal_set_fault(bench.service, FAKE_UNAVAILABLE); /* while nobody looks */
        pass(&bench, 5 * SECOND_US);
        fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "\"ours\"");
        fake_temporal_take_workflow_id(bench.service, "order-17");
        pass(&bench, SECOND_US);
        fake_temporal_end_newest(bench.service, "order-17", RUN_STATUS_FAILED);
        fake_temporal_set_fault(bench.service, FAKE_FINE);
        pass(&bench, 60 * SECOND_US);
        assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_COMPLETED);
        assert_string_equal(last(&bench, REPORT_ENDED)->step.output, "\"ours\"");
        close_bench(&bench);
    }
}

/* The next node has what is on record, and nothing else. */
static struct step_record recorded_step(struct bench *bench)
{
    struct step_record step = {.state = STEP_RUNNING, .attempt = 1};
    (void)snprintf(step.step, sizeof step.step, TEMPORAL_STEP);
    step.variables = strdup(last(bench, REPORT_STEP)->step.variables);
    assert_non_null(step.variables);
    return step;
}

static void after_a_takeover_the_recorded_chain_is_followed(void **state)
{
    for (int reused = 0; reused < 2; reused++) {
        struct bench bench;
        (void)state;
        open_bench(&bench, 0);
        start_one(&bench, ID_ONE, ORDER, "{\"order\": 17}");
        struct step_record step = recorded_step(&bench);
        engine_abandon(bench.engine, NULL, 0);
        pass(&bench, SECOND_US);
        fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "\"ours\"");
        if (reused) {
            fake_temporal_take_workflow_id(bench.service, "order-17");
        }
        struct engine_start again = start_of(ID_ONE, ORDER, "{\"order\": 17}");
        again.interruptions = 1;
        again.fence = 6;
        again.running_for_us = SECOND_US;
        again.steps = &step;
        again.step_count = 1;
        assert_int_equal(engine_start(bench.engine, &again, NULL), WEIR_OK);
        pass(&bench, 2 * SECOND_US);
        assert_string_equal(last(&bench, REPORT_ENDED)->step.output, "\"ours\"");
        assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 1);
        step_record_close(&step);
        close_bench(&bench);
    }
}

/* Another program may evaluate the definition in another way; the id on record is the one that runs. */
static void the_id_that_is_on_record_goes_before_the_definition(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench, 0);
    start_one(&bench, ID_ONE, ORDER, "{\"order\": 17}");
    struct step_record step = recorded_step(&bench);
    engine_abandon(bench.engine, NULL, 0);
    struct engine_start again = start_of(ID_ONE, ORDER, "{\"order\": 18}");
    again.interruptions = 1;
    again.fence = 6;
    again.running_for_us = SECOND_US;
    again.steps = &step;
    again.step_count = 1;
    assert_int_equal(engine_start(bench.engine, &again, NULL), WEIR_OK);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "\"ours\"");
    pass(&bench, 10 * SECOND_US);
    assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_COMPLETED);
    step_record_close(&step);
    close_bench(&bench);
}

static void a_start_of_an_own_id_that_a_dead_node_sent_is_found_by_the_next_one(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench, 0);
    fake_temporal_push(bench.service, FAKE_LOSE_ANSWER);
    struct engine_start start = start_of(ID_ONE, ORDER, "{\"order\": 17}");
    assert_int_equal(engine_start(bench.engine, &start, NULL), WEIR_OK);
    pass(&bench, 10 * MICROSECONDS_PER_MS);
    engine_abandon(bench.engine, NULL, 0);
    pass(&bench, SECOND_US);
    struct engine_start again = start_of(ID_ONE, ORDER, "{\"order\": 17}");
    again.interruptions = 1;
    again.fence = 6;
    again.age_us = 20 * SECOND_US;
    assert_int_equal(engine_start(bench.engine, &again, NULL), WEIR_OK);
    pass(&bench, SECOND_US);
    assert_int_equal(last(&bench, REPORT_STARTED)->fence, 6);
    assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 1);
    close_bench(&bench);
}

static void a_cancel_reaches_the_own_chain_alone(void **state)
{
    for (int reused = 0; reused < 2; reused++) {
        struct bench bench;
        (void)state;
        open_bench(&bench, SIZE_MAX);
        start_one(&bench, ID_ONE, ORDER, "{\"order\": 17}");
        if (reused) {
            fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "\"ours\"");
            fake_temporal_take_workflow_id(bench.service, "order-17");
        }
        engine_cancel(bench.engine, ID_ONE, 5);
        pass(&bench, SECOND_US);
        assert_int_equal(fake_temporal_cancel_was_asked(bench.service, ID_ONE), !reused);
        if (reused) {
            assert_string_equal(last(&bench, REPORT_ENDED)->step.output, "\"ours\"");
        }
        close_bench(&bench);
    }
}

/* --- search attributes --- */

/* As a node does before it takes items. */
static void learn_target(struct bench *bench)
{
    struct engine_target target;
    for (int i = 0; i < 10 && !engine_target(bench->engine, &target); i++) {
        pass(bench, SECOND_US);
    }
    assert_true(engine_target(bench->engine, &target));
}

static void the_workspace_is_a_search_attribute_where_the_namespace_has_it(void **state)
{
    for (int has = 0; has < 2; has++) {
        struct bench bench;
        (void)state;
        open_bench(&bench, 0);
        fake_attributes_add(fake_temporal_attributes(bench.service), "Other", ATTRIBUTE_INT);
        if (has) {
            fake_attributes_add(fake_temporal_attributes(bench.service), "WeirWorkspace", ATTRIBUTE_KEYWORD);
        }
        learn_target(&bench);
        start_one(&bench, ID_ONE, ORDER, "{\"order\": 17}");
        assert_int_equal(bench.counts[REPORT_STARTED], 1);
        assert_int_equal(fake_temporal_start_has(bench.service, "order-17", "WeirWorkspace"), has);
        close_bench(&bench);
    }
}

static void an_attribute_that_was_added_is_used_within_minutes_and_one_that_was_removed_costs_no_attempt(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench, 0);
    learn_target(&bench);
    start_one(&bench, ID_ONE, ORDER, "{\"order\": 17}");
    fake_attributes_add(fake_temporal_attributes(bench.service), "WeirWorkspace", ATTRIBUTE_KEYWORD);
    pass(&bench, 2 * NAMESPACE_INTERVAL_US);
    start_one(&bench, ID_TWO, ORDER, "{\"order\": 18}");
    assert_true(fake_temporal_start_has(bench.service, "order-18", "WeirWorkspace"));
    fake_temporal_attributes(bench.service)->count = 0;
    start_one(&bench, "019aa000-0000-7000-8000-000000000003", ORDER, "{\"order\": 19}");
    assert_false(last(&bench, REPORT_REFUSED)->permanent);
    assert_false(last(&bench, REPORT_REFUSED)->spends_attempt);
    assert_string_equal(last(&bench, REPORT_REFUSED)->error_code, "search_attribute_lost");
    start_one(&bench, "019aa000-0000-7000-8000-000000000003", ORDER, "{\"order\": 19}");
    assert_int_equal(bench.counts[REPORT_STARTED], 3);
    close_bench(&bench);
}

static void a_node_works_where_attributes_may_not_be_asked_for(void **state)
{
    struct bench bench;
    struct engine_target target;
    (void)state;
    open_bench(&bench, 0);
    fake_temporal_attributes(bench.service)->is_refused = true;
    (void)engine_target(bench.engine, &target);
    pass(&bench, SECOND_US);
    assert_true(engine_target(bench.engine, &target));
    close_bench(&bench);
}

static void an_attribute_that_the_namespace_does_not_have_fails_with_its_name(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench, 0);
    start_one(&bench, ID_ONE,
              "{\"name\":\"a\",\"temporal\":{\"task_queue\":\"q\",\"search_attributes\":{\"Customer\":\"${.input.c}\"}}}",
              "{\"c\": \"x\"}");
    expect_refusal(&bench, ID_ONE, "search_attribute_unknown", "search attribute Customer");
    expect_refusal(&bench, ID_ONE, "search_attribute_unknown", "temporal operator search-attribute create");
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_workflow_has_the_id_that_its_definition_makes_of_the_params),
        cmocka_unit_test(ends_of_own_ids_are_found_without_waiting_calls),
        cmocka_unit_test(of_two_open_executions_with_one_id_the_second_is_refused),
        cmocka_unit_test(an_id_of_a_closed_workflow_is_not_used_again),
        cmocka_unit_test(an_own_id_that_somebody_else_has_is_refused_with_words),
        cmocka_unit_test(a_lost_answer_of_an_own_id_is_asked_for_and_starts_none_twice),
        cmocka_unit_test(values_that_are_no_id_fail_with_their_own_code),
        cmocka_unit_test(an_id_is_at_most_255_bytes_long),
        cmocka_unit_test(an_end_is_read_from_the_own_chain_though_others_used_the_id_since),
        cmocka_unit_test(after_a_takeover_the_recorded_chain_is_followed),
        cmocka_unit_test(the_id_that_is_on_record_goes_before_the_definition),
        cmocka_unit_test(a_start_of_an_own_id_that_a_dead_node_sent_is_found_by_the_next_one),
        cmocka_unit_test(a_cancel_reaches_the_own_chain_alone),
        cmocka_unit_test(the_workspace_is_a_search_attribute_where_the_namespace_has_it),
        cmocka_unit_test(an_attribute_that_was_added_is_used_within_minutes_and_one_that_was_removed_costs_no_attempt),
        cmocka_unit_test(a_node_works_where_attributes_may_not_be_asked_for),
        cmocka_unit_test(an_attribute_that_the_namespace_does_not_have_fails_with_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
