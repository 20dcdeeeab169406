/* Workflow ids that a definition names, and the search attributes of a start, on a virtual clock and a service in memory:
 * nothing runs twice, and no workflow is taken for another one. */
#include "temporal_scene.h"

#include <stdio.h>
#include <stdlib.h>

#define ORDER "{\"name\": \"order\", \"temporal\": {\"task_queue\": \"q\", \"workflow_id\": \"order-${.input.order}\"}}"

/* `polls_max` SIZE_MAX: no long polls, so that lists and descriptions find the ends. */
static void open_order_scene(struct scene *scene, size_t polls_max)
{
    open_scene_with(scene, (struct temporal_options){.polls_max = polls_max}, NULL);
}

static struct engine_start order_start_of(const char *id, const char *definition, const char *params)
{
    struct engine_start start = start_of(id);
    start.workflow = "order";
    start.definition_id = (int64_t)(text_hash(definition) >> 2);
    start.definition = definition;
    start.params = params;
    start.params_length = strlen(params);
    return start;
}

static void start_order(struct scene *scene, const char *id, const char *definition, const char *params)
{
    struct engine_start start = order_start_of(id, definition, params);
    assert_int_equal(engine_start(scene->engine, &start, NULL), WEIR_OK);
    pass_time(scene, SECOND_US);
}

static void expect_refusal(const struct scene *scene, const char *id, const char *code, const char *part)
{
    const struct report *report = last_report(scene, REPORT_REFUSED);
    assert_string_equal(report->id, id);
    assert_true(report->permanent);
    assert_string_equal(report->error_code, code);
    if (strstr(report->error, part) == NULL) {
        fail_msg("'%s' is not in: %s", part, report->error);
    }
}

/* --- ids --- */

static void a_definition_makes_the_workflow_id_of_the_params(void **state)
{
    struct scene scene;
    (void)state;
    open_order_scene(&scene, 0);
    start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
    assert_int_equal(scene.counts[REPORT_STARTED], 1);
    assert_true(fake_temporal_start_has(scene.service, "order-17", ID_ONE));
    assert_non_null(strstr(last_report(&scene, REPORT_STEP)->step.variables, "\"workflow_id\":\"order-17\""));
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass_time(&scene, SECOND_US);
    assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_COMPLETED);
    close_scene(&scene);
}

static void ends_of_own_ids_are_found_without_long_polls(void **state)
{
    struct scene scene;
    (void)state;
    open_order_scene(&scene, SIZE_MAX);
    start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
    pass_time(&scene, 5 * SECOND_US);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass_time(&scene, 3 * SECOND_US); /* by the list: a look comes after half a minute */
    assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_COMPLETED);
    close_scene(&scene);
}

static void of_two_open_executions_with_one_id_the_second_is_refused(void **state)
{
    struct scene scene;
    (void)state;
    open_order_scene(&scene, 0);
    start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
    start_order(&scene, ID_TWO, ORDER, "{\"order\": 17}");
    assert_int_equal(scene.counts[REPORT_STARTED], 1);
    expect_refusal(&scene, ID_TWO, "workflow_id_taken", "execution " ID_ONE " already uses the workflow id 'order-17'");
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass_time(&scene, SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->id, ID_ONE);
    close_scene(&scene);
}

static void an_id_of_a_closed_workflow_is_not_used_again(void **state)
{
    struct scene scene;
    (void)state;
    open_order_scene(&scene, 0);
    start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_FAILED, "no");
    pass_time(&scene, SECOND_US);
    start_order(&scene, ID_TWO, ORDER, "{\"order\": 17}");
    expect_refusal(&scene, ID_TWO, "workflow_id_taken", "another `workflow_id`");
    assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 1);
    close_scene(&scene);
}

static void an_own_id_of_another_program_is_refused_with_a_message(void **state)
{
    struct scene scene;
    (void)state;
    open_order_scene(&scene, 0);
    fake_temporal_take_workflow_id(scene.service, "order-17");
    start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
    expect_refusal(&scene, ID_ONE, "workflow_id_taken",
                   "a workflow that weir did not start has the workflow id 'order-17' of this execution");
    close_scene(&scene);
}

static void a_lost_answer_of_an_own_id_starts_none_twice(void **state)
{
    struct scene scene;
    (void)state;
    open_order_scene(&scene, 0);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
    fake_temporal_renew(scene.service, ID_ONE); /* another request id, another memo */
    pass_time(&scene, 10 * SECOND_US);
    assert_int_equal(scene.counts[REPORT_STARTED], 1);
    assert_int_equal(scene.counts[REPORT_REFUSED], 0);
    assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 1);
    close_scene(&scene);
}

static void invalid_workflow_ids_fail_with_their_code(void **state)
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
         "{\"order\": \"execution-" ID_TWO "\"}", "which weir reserves for its own ids"},
        {"{\"name\":\"e\",\"temporal\":{\"task_queue\":\"q\",\"workflow_id\":\"${.input.order}\"}}",
         "{\"order\": \"a\\nb\"}", "control character"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct scene scene;
        open_order_scene(&scene, 0);
        start_order(&scene, ID_ONE, rows[i].definition, rows[i].params);
        expect_refusal(&scene, ID_ONE, WORKFLOW_ID_INVALID, rows[i].words);
        assert_int_equal(fake_temporal_calls(scene.service, FAKE_START), 0);
        close_scene(&scene);
    }
}

static void an_id_is_at_most_255_bytes_long(void **state)
{
    for (int length = 249; length <= 250; length++) { /* and "order-" */
        struct scene scene;
        char params[300];
        char order[251] = "";
        (void)state;
        memset(order, 'x', (size_t)length);
        (void)snprintf(params, sizeof params, "{\"order\": \"%s\"}", order);
        open_order_scene(&scene, 0);
        start_order(&scene, ID_ONE, ORDER, params);
        assert_int_equal(scene.counts[REPORT_STARTED], length == 249);
        if (length == 250) {
            expect_refusal(&scene, ID_ONE, WORKFLOW_ID_INVALID, "workflow_id has more than 255 bytes");
        }
        close_scene(&scene);
    }
}

/* --- the id is used again --- */

static void an_end_is_read_from_the_own_chain_after_the_id_was_reused(void **state)
{
    static const size_t polls[] = {0, SIZE_MAX};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct scene scene;
        open_order_scene(&scene, polls[i]);
        start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
        pass_time(&scene, 5 * SECOND_US);
        fake_temporal_set_fault(scene.service, FAKE_UNAVAILABLE); /* while the engine cannot read it */
        pass_time(&scene, 5 * SECOND_US);
        fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "\"ours\"");
        fake_temporal_take_workflow_id(scene.service, "order-17");
        pass_time(&scene, SECOND_US);
        fake_temporal_end_newest(scene.service, "order-17", RUN_STATUS_FAILED);
        fake_temporal_set_fault(scene.service, FAKE_FINE);
        pass_time(&scene, 60 * SECOND_US);
        assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_COMPLETED);
        assert_string_equal(last_report(&scene, REPORT_ENDED)->step.output, "\"ours\"");
        close_scene(&scene);
    }
}

/* Another program has the id, and the service cannot be confirmed: the end is asked for less and less. */
static void a_lost_end_of_the_own_chain_is_not_asked_for_in_a_loop(void **state)
{
    struct scene scene;
    (void)state;
    open_order_scene(&scene, SIZE_MAX);
    start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
    pass_time(&scene, 5 * SECOND_US);
    fake_temporal_hide_namespace(scene.service, true);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    fake_temporal_forget(scene.service, ID_ONE);
    fake_temporal_take_workflow_id(scene.service, "order-17");
    pass_time(&scene, 60 * SECOND_US);
    size_t before = fake_temporal_calls(scene.service, FAKE_HISTORY);
    pass_time(&scene, 60 * SECOND_US);
    assert_in_range(fake_temporal_calls(scene.service, FAKE_HISTORY) - before, 1, 30);
    assert_int_equal(scene.counts[REPORT_ENDED], 0);
    fake_temporal_hide_namespace(scene.service, false);
    pass_time(&scene, 12 * SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->error_code, "workflow_gone");
    close_scene(&scene);
}

/* The next node has only the ids on record. */
static struct step_record recorded_step(struct scene *scene)
{
    struct step_record step = {.state = STEP_RUNNING, .attempt = 1};
    (void)snprintf(step.step, sizeof step.step, TEMPORAL_STEP);
    step.variables = strdup(last_report(scene, REPORT_STEP)->step.variables);
    assert_non_null(step.variables);
    return step;
}

static void after_a_takeover_the_recorded_chain_is_followed(void **state)
{
    for (int reused = 0; reused < 2; reused++) {
        struct scene scene;
        (void)state;
        open_order_scene(&scene, 0);
        start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
        struct step_record step = recorded_step(&scene);
        engine_abandon(scene.engine, NULL, 0);
        pass_time(&scene, SECOND_US);
        fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "\"ours\"");
        if (reused) {
            fake_temporal_take_workflow_id(scene.service, "order-17");
        }
        struct engine_start again = order_start_of(ID_ONE, ORDER, "{\"order\": 17}");
        again.interruptions = 1;
        again.fence = 6;
        again.running_for_us = SECOND_US;
        again.steps = &step;
        again.step_count = 1;
        assert_int_equal(engine_start(scene.engine, &again, NULL), WEIR_OK);
        pass_time(&scene, 2 * SECOND_US);
        assert_string_equal(last_report(&scene, REPORT_ENDED)->step.output, "\"ours\"");
        assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 1);
        step_record_close(&step);
        close_scene(&scene);
    }
}

/* Another program may evaluate the definition in another way; the id on record is the one that runs. */
static void the_id_on_record_overrides_the_definition(void **state)
{
    struct scene scene;
    (void)state;
    open_order_scene(&scene, 0);
    start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
    struct step_record step = recorded_step(&scene);
    engine_abandon(scene.engine, NULL, 0);
    struct engine_start again = order_start_of(ID_ONE, ORDER, "{\"order\": 18}");
    again.interruptions = 1;
    again.fence = 6;
    again.running_for_us = SECOND_US;
    again.steps = &step;
    again.step_count = 1;
    assert_int_equal(engine_start(scene.engine, &again, NULL), WEIR_OK);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "\"ours\"");
    pass_time(&scene, 10 * SECOND_US);
    assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_COMPLETED);
    step_record_close(&step);
    close_scene(&scene);
}

static void a_start_of_an_own_id_that_a_dead_node_sent_is_found_by_the_next_one(void **state)
{
    struct scene scene;
    (void)state;
    open_order_scene(&scene, 0);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    struct engine_start start = order_start_of(ID_ONE, ORDER, "{\"order\": 17}");
    assert_int_equal(engine_start(scene.engine, &start, NULL), WEIR_OK);
    pass_time(&scene, 10 * MICROSECONDS_PER_MS);
    engine_abandon(scene.engine, NULL, 0);
    pass_time(&scene, SECOND_US);
    struct engine_start again = order_start_of(ID_ONE, ORDER, "{\"order\": 17}");
    again.interruptions = 1;
    again.fence = 6;
    again.age_us = 20 * SECOND_US;
    assert_int_equal(engine_start(scene.engine, &again, NULL), WEIR_OK);
    pass_time(&scene, SECOND_US);
    assert_int_equal(last_report(&scene, REPORT_STARTED)->fence, 6);
    assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 1);
    close_scene(&scene);
}

static void a_cancel_reaches_the_own_chain_alone(void **state)
{
    for (int reused = 0; reused < 2; reused++) {
        struct scene scene;
        (void)state;
        open_order_scene(&scene, SIZE_MAX);
        start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
        if (reused) {
            fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "\"ours\"");
            fake_temporal_take_workflow_id(scene.service, "order-17");
        }
        engine_cancel(scene.engine, ID_ONE, 5);
        pass_time(&scene, SECOND_US);
        assert_int_equal(fake_temporal_cancel_was_asked(scene.service, ID_ONE), !reused);
        if (reused) {
            assert_string_equal(last_report(&scene, REPORT_ENDED)->step.output, "\"ours\"");
        }
        close_scene(&scene);
    }
}

/* --- search attributes --- */

/* As a node does before it takes items. */
static void learn_target(struct scene *scene)
{
    struct engine_target target;
    for (int i = 0; i < 10 && !engine_target(scene->engine, &target); i++) {
        pass_time(scene, SECOND_US);
    }
    assert_true(engine_target(scene->engine, &target));
}

static void the_workspace_is_a_search_attribute_where_the_namespace_has_it(void **state)
{
    for (int has = 0; has < 2; has++) {
        struct scene scene;
        (void)state;
        open_order_scene(&scene, 0);
        fake_attributes_add(fake_temporal_attributes(scene.service), "Other", ATTRIBUTE_INT);
        if (has) {
            fake_attributes_add(fake_temporal_attributes(scene.service), "WeirWorkspace", ATTRIBUTE_KEYWORD);
        }
        learn_target(&scene);
        start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
        assert_int_equal(scene.counts[REPORT_STARTED], 1);
        assert_int_equal(fake_temporal_start_has(scene.service, "order-17", "WeirWorkspace"), has);
        close_scene(&scene);
    }
}

static void added_attributes_are_used_and_removed_ones_spend_no_attempt(void **state)
{
    struct scene scene;
    (void)state;
    open_order_scene(&scene, 0);
    learn_target(&scene);
    start_order(&scene, ID_ONE, ORDER, "{\"order\": 17}");
    fake_attributes_add(fake_temporal_attributes(scene.service), "WeirWorkspace", ATTRIBUTE_KEYWORD);
    pass_time(&scene, 2 * RETENTION_INTERVAL_US);
    start_order(&scene, ID_TWO, ORDER, "{\"order\": 18}");
    assert_true(fake_temporal_start_has(scene.service, "order-18", "WeirWorkspace"));
    fake_temporal_attributes(scene.service)->count = 0;
    start_order(&scene, "019aa000-0000-7000-8000-000000000003", ORDER, "{\"order\": 19}");
    assert_false(last_report(&scene, REPORT_REFUSED)->permanent);
    assert_false(last_report(&scene, REPORT_REFUSED)->spends_start);
    assert_string_equal(last_report(&scene, REPORT_REFUSED)->error_code, "search_attribute_lost");
    start_order(&scene, "019aa000-0000-7000-8000-000000000003", ORDER, "{\"order\": 19}");
    assert_int_equal(scene.counts[REPORT_STARTED], 3);
    close_scene(&scene);
}

static void a_node_works_without_the_right_to_list_attributes(void **state)
{
    struct scene scene;
    struct engine_target target;
    (void)state;
    open_order_scene(&scene, 0);
    fake_temporal_attributes(scene.service)->is_refused = true;
    (void)engine_target(scene.engine, &target);
    pass_time(&scene, SECOND_US);
    assert_true(engine_target(scene.engine, &target));
    close_scene(&scene);
}

static void a_missing_attribute_fails_the_start_with_its_name(void **state)
{
    struct scene scene;
    (void)state;
    open_order_scene(&scene, 0);
    start_order(&scene, ID_ONE,
                "{\"name\":\"a\",\"temporal\":{\"task_queue\":\"q\",\"search_attributes\":{\"Customer\":\"${.input.c}\"}}}",
                "{\"c\": \"x\"}");
    expect_refusal(&scene, ID_ONE, "search_attribute_unknown", "search attribute Customer");
    expect_refusal(&scene, ID_ONE, "search_attribute_unknown", "temporal operator search-attribute create");
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_definition_makes_the_workflow_id_of_the_params),
        cmocka_unit_test(ends_of_own_ids_are_found_without_long_polls),
        cmocka_unit_test(of_two_open_executions_with_one_id_the_second_is_refused),
        cmocka_unit_test(an_id_of_a_closed_workflow_is_not_used_again),
        cmocka_unit_test(an_own_id_of_another_program_is_refused_with_a_message),
        cmocka_unit_test(a_lost_answer_of_an_own_id_starts_none_twice),
        cmocka_unit_test(invalid_workflow_ids_fail_with_their_code),
        cmocka_unit_test(an_id_is_at_most_255_bytes_long),
        cmocka_unit_test(an_end_is_read_from_the_own_chain_after_the_id_was_reused),
        cmocka_unit_test(a_lost_end_of_the_own_chain_is_not_asked_for_in_a_loop),
        cmocka_unit_test(after_a_takeover_the_recorded_chain_is_followed),
        cmocka_unit_test(the_id_on_record_overrides_the_definition),
        cmocka_unit_test(a_start_of_an_own_id_that_a_dead_node_sent_is_found_by_the_next_one),
        cmocka_unit_test(a_cancel_reaches_the_own_chain_alone),
        cmocka_unit_test(the_workspace_is_a_search_attribute_where_the_namespace_has_it),
        cmocka_unit_test(added_attributes_are_used_and_removed_ones_spend_no_attempt),
        cmocka_unit_test(a_node_works_without_the_right_to_list_attributes),
        cmocka_unit_test(a_missing_attribute_fails_the_start_with_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
