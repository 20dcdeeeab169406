/* What is on record of a start and of the run that it began: on a virtual clock and a service in memory. */
#include "bench.h"

#include <stdio.h>

#include "base/json.h"

static bool step_says_sent_again(const struct bench *bench)
{
    const char *facts = last(bench, REPORT_STEP)->step.variables;
    assert_non_null(facts);
    return strstr(facts, "\"start_sent_again\":true") != NULL;
}

/* An operator may delete the workflow of a start whose answer was lost. The start that is sent again begins a second chain
 * then, which weir cannot tell from a first one: the step has a mark. */
static void a_start_that_was_sent_again_leaves_a_mark(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_TWO);
    assert_false(step_says_sent_again(&bench));
    fake_temporal_push(bench.service, FAKE_LOSE_ANSWER);
    start_one(&bench, ID_ONE);
    pass(&bench, 10 * MICROSECONDS_PER_MS);
    assert_int_equal(heard(&bench, REPORT_UNKNOWN), 1);
    fake_temporal_forget(bench.service, ID_ONE);
    pass(&bench, 10 * SECOND_US);
    assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 2);
    assert_true(step_says_sent_again(&bench));
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass(&bench, 10 * SECOND_US);
    assert_non_null(strstr(last(&bench, REPORT_ENDED)->step.variables, "\"start_sent_again\":true"));
    close_bench(&bench);
}

/* The node of the first start is dead: that one may have arrived, too. */
static void a_start_that_was_taken_over_leaves_a_mark(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    assert_int_equal(engine_start(bench.engine, &again, NULL), WEIR_OK);
    pass(&bench, 10 * SECOND_US);
    assert_true(step_says_sent_again(&bench));
    close_bench(&bench);
}

/* `weir show` and its link name the run of this step. */
static void the_run_on_record_is_the_one_that_runs(void **state)
{
    struct bench bench;
    char first[RUN_ID_MAX + 16];
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    json_t *facts = json_load_text(last(&bench, REPORT_STEP)->step.variables, 0);
    (void)snprintf(first, sizeof first, "\"run_id\":\"%s\"", json_string_value(json_object_get(facts, "run_id")));
    json_decref(facts);
    assert_non_null(strstr(last(&bench, REPORT_STEP)->step.variables, first));
    pass(&bench, 2 * TELL_RUN_EVERY_US);
    fake_temporal_renew(bench.service, ID_ONE);
    pass(&bench, 5 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_STEP), 2);
    assert_null(strstr(last(&bench, REPORT_STEP)->step.variables, first));
    /* A chain that goes on quickly is recorded later, but it is recorded. */
    fake_temporal_renew(bench.service, ID_ONE);
    pass(&bench, 1);
    fake_temporal_renew(bench.service, ID_ONE);
    pass(&bench, 2 * TELL_RUN_EVERY_US);
    struct report *report = bench.last[REPORT_STEP];
    bench.last[REPORT_STEP] = NULL;
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass(&bench, 10 * SECOND_US);
    assert_string_equal(report->step.variables, last(&bench, REPORT_ENDED)->step.variables);
    report_free(report);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_that_was_sent_again_leaves_a_mark),
        cmocka_unit_test(a_start_that_was_taken_over_leaves_a_mark),
        cmocka_unit_test(the_run_on_record_is_the_one_that_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
