/* The records of a start and of the run that it began: on a virtual clock and a service in memory. */
#include "temporal_scene.h"

#include <stdio.h>

#include "base/json.h"

static bool step_has_mark(const struct scene *scene)
{
    const char *ids = last_report(scene, REPORT_STEP)->step.variables;
    assert_non_null(ids);
    return strstr(ids, "\"start_sent_again\":true") != NULL;
}

/* An operator may delete the workflow of a start without an answer. The start that is sent again begins a second chain
 * then, which weir cannot distinguish from a first one: the step has a mark. */
static void a_start_that_was_sent_again_leaves_a_mark(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_TWO);
    assert_false(step_has_mark(&scene));
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    start_one(&scene, ID_ONE);
    pass_time(&scene, 10 * MICROSECONDS_PER_MS);
    assert_int_equal(count_reports(&scene, REPORT_UNKNOWN), 1);
    fake_temporal_forget(scene.service, ID_ONE);
    pass_time(&scene, 10 * SECOND_US);
    assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 2);
    assert_true(step_has_mark(&scene));
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass_time(&scene, 10 * SECOND_US);
    assert_non_null(strstr(last_report(&scene, REPORT_ENDED)->step.variables, "\"start_sent_again\":true"));
    close_scene(&scene);
}

/* The node of the first start is dead: that one may have arrived, too. */
static void a_start_that_was_taken_over_leaves_a_mark(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    assert_int_equal(engine_start(scene.engine, &again, NULL), WEIR_OK);
    pass_time(&scene, 10 * SECOND_US);
    assert_true(step_has_mark(&scene));
    close_scene(&scene);
}

/* `weir show` and its link name the run of this step. */
static void the_running_run_is_on_record(void **state)
{
    struct scene scene;
    char first[RUN_ID_MAX + 16];
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    json_t *ids = json_load_text(last_report(&scene, REPORT_STEP)->step.variables, 0);
    (void)snprintf(first, sizeof first, "\"run_id\":\"%s\"", json_string_value(json_object_get(ids, "run_id")));
    json_decref(ids);
    assert_non_null(strstr(last_report(&scene, REPORT_STEP)->step.variables, first));
    pass_time(&scene, 2 * RECORD_RUN_INTERVAL_US);
    fake_temporal_renew(scene.service, ID_ONE);
    pass_time(&scene, 5 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_STEP), 2);
    assert_null(strstr(last_report(&scene, REPORT_STEP)->step.variables, first));
    /* A chain that goes on quickly is recorded later, but it is recorded. */
    fake_temporal_renew(scene.service, ID_ONE);
    pass_time(&scene, 1);
    fake_temporal_renew(scene.service, ID_ONE);
    pass_time(&scene, 2 * RECORD_RUN_INTERVAL_US);
    struct report *report = scene.last[REPORT_STEP];
    scene.last[REPORT_STEP] = NULL;
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass_time(&scene, 10 * SECOND_US);
    assert_string_equal(report->step.variables, last_report(&scene, REPORT_ENDED)->step.variables);
    report_free(report);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_that_was_sent_again_leaves_a_mark),
        cmocka_unit_test(a_start_that_was_taken_over_leaves_a_mark),
        cmocka_unit_test(the_running_run_is_on_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
