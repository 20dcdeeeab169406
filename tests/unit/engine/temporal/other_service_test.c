/* Another service answers at the address of the expected one while the engine lives: on a virtual clock, with a service in
 * memory whose connections are not examined. */
#include "temporal_scene.h"

#include <stdio.h>

#define ID_THREE "019aa000-0000-7000-8000-000000000003"

static void open_known_scene(struct scene *scene)
{
    struct engine_target target;
    open_scene(scene);
    (void)engine_target(scene->engine, &target);
    pass_time(scene, SECOND_US);
    assert_true(engine_target(scene->engine, &target));
}

static void nothing_is_started_or_ended_there(void **state)
{
    struct scene scene;
    (void)state;
    open_known_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    start_one(&scene, ID_TWO);
    pass_time(&scene, 10 * MICROSECONDS_PER_MS);
    size_t ups = count_reports(&scene, REPORT_ENGINE_UP);
    fake_temporal_replace(scene.service, true);
    pass_time(&scene, SECOND_US);
    start_one(&scene, ID_THREE);
    pass_time(&scene, 600 * SECOND_US);
    assert_true(count_reports(&scene, REPORT_ENGINE_DOWN) > 1);
    const char *words = last_report(&scene, REPORT_ENGINE_DOWN)->error;
    assert_non_null(
        strstr(words, "another service answers at 127.0.0.1:7233: namespace id other-id, expected 127.0.0.1:7233"));
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_UP), ups);
    assert_int_equal(count_reports(&scene, REPORT_ENDED), 0);
    assert_int_equal(count_reports(&scene, REPORT_REFUSED), 0);
    assert_int_equal(fake_temporal_starts_elsewhere(scene.service), 0);
    assert_string_equal(last_report(&scene, REPORT_UNREACHABLE)->error_code, "another_service");
    fake_temporal_replace(scene.service, false);
    pass_time(&scene, 10 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_UP), ups + 1);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 2);
    assert_int_equal(fake_temporal_chains(scene.service, ID_TWO), 1);
    assert_int_equal(fake_temporal_chains(scene.service, ID_THREE), 0); /* it went back into the queue */
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass_time(&scene, 10 * SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->id, ID_ONE);
    assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_COMPLETED);
    close_scene(&scene);
}

/* It comes and goes between two questions about the workflow: two answers "not found" of it end nothing. */
static void its_answers_are_no_proof_after_it_has_gone(void **state)
{
    struct scene scene;
    (void)state;
    open_known_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    for (int i = 0; i < 20; i++) {
        fake_temporal_replace(scene.service, true);
        pass_time(&scene, NOT_FOUND_RETRY_US / 2);
        fake_temporal_replace(scene.service, false);
        pass_time(&scene, 40 * MICROSECONDS_PER_MS);
    }
    assert_int_equal(count_reports(&scene, REPORT_ENDED), 0);
    close_scene(&scene);
}

static void an_absence_counts_only_after_the_expected_service_has_answered(void **state)
{
    struct scene scene;
    (void)state;
    open_known_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    fake_temporal_hide_namespace(scene.service, true);
    fake_temporal_forget(scene.service, ID_ONE);
    pass_time(&scene, 120 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_ENDED), 0);
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_DOWN), 0);
    assert_in_range(count_reports(&scene, REPORT_ENGINE_IMPAIRED), 2, 12);
    const struct report *report = last_report(&scene, REPORT_ENGINE_IMPAIRED);
    assert_string_equal(report->error_code, "service_not_confirmed");
    assert_non_null(strstr(report->error, "does not describe the namespace 'default'"));
    assert_non_null(strstr(report->error, "give the node the right to describe its namespace"));
    fake_temporal_hide_namespace(scene.service, false);
    pass_time(&scene, 6 * SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->error_code, "workflow_gone");
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_SOUND), 1);
    close_scene(&scene);
}

/* The questions do not come in a loop, however long the service is not confirmed. */
static void absences_without_a_confirmation_are_asked_about_less_and_less(void **state)
{
    enum { RUNS = 20 };
    char id[RUNS][UUID_TEXT_MAX];
    struct scene scene;
    (void)state;
    open_known_scene(&scene);
    fake_temporal_hide_namespace(scene.service, true);
    for (int i = 0; i < RUNS; i++) {
        (void)snprintf(id[i], sizeof id[i], "019aa000-0000-7000-8000-%012d", i);
        fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
        start_one(&scene, id[i]);
    }
    pass_time(&scene, 10 * MICROSECONDS_PER_MS);
    for (int i = 0; i < RUNS; i++) {
        fake_temporal_forget(scene.service, id[i]);
        fake_temporal_push(scene.service, FAKE_INVALID); /* for the second start */
    }
    pass_time(&scene, 10 * SECOND_US);
    size_t before = fake_temporal_calls(scene.service, FAKE_DESCRIBE);
    pass_time(&scene, 60 * SECOND_US);
    size_t asked = fake_temporal_calls(scene.service, FAKE_DESCRIBE) - before;
    assert_in_range(asked, RUNS, RUNS * 90);
    assert_int_equal(count_reports(&scene, REPORT_REFUSED), 0);
    close_scene(&scene);
}

/* A refused start is released only when the first one has not arrived: the other service does not know that. */
static void a_lost_start_is_not_released_by_its_answers(void **state)
{
    struct scene scene;
    (void)state;
    open_known_scene(&scene);
    fake_temporal_hide_namespace(scene.service, true);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    fake_temporal_push(scene.service, FAKE_INVALID);
    start_one(&scene, ID_ONE);
    pass_time(&scene, 10 * MICROSECONDS_PER_MS); /* the start was carried out, and its answer is lost */
    fake_temporal_forget(scene.service, ID_ONE); /* the next one does not know it */
    pass_time(&scene, 60 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_REFUSED), 0);
    fake_temporal_hide_namespace(scene.service, false);
    pass_time(&scene, 6 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_REFUSED), 1);
    close_scene(&scene);
}

/* A reset may have begun another run: "not found" proves the end no more than it proves an absence. */
static void a_termination_is_not_confirmed_by_its_answers(void **state)
{
    struct scene scene;
    (void)state;
    open_known_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    pass_time(&scene, SECOND_US);
    fake_temporal_hide_namespace(scene.service, true);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_TERMINATED, "by an operator");
    fake_temporal_forget(scene.service, ID_ONE);
    pass_time(&scene, 60 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_ENDED), 0);
    fake_temporal_hide_namespace(scene.service, false);
    pass_time(&scene, 6 * SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->error_code, "terminated");
    close_scene(&scene);
}

/* The workflow of another program goes on under the id of the execution, and the other service does not know its first run.
 */
static void a_workflow_is_not_taken_for_the_own_one_by_its_answers(void **state)
{
    struct scene scene;
    (void)state;
    open_known_scene(&scene);
    fake_temporal_take_id(scene.service, ID_ONE);
    fake_temporal_go_on(scene.service, ID_ONE, RUN_STATUS_CONTINUED_AS_NEW);
    start_one(&scene, ID_ONE);
    for (int i = 0; i < 1000 && fake_temporal_calls(scene.service, FAKE_DESCRIBE) == 0; i++) {
        scene.now_us += MICROSECONDS_PER_MS;
        (void)engine_step(scene.engine);
    }
    assert_int_equal(fake_temporal_calls(scene.service, FAKE_DESCRIBE), 1);
    fake_temporal_replace(scene.service, true);
    pass_time(&scene, 5 * MICROSECONDS_PER_MS);
    fake_temporal_replace(scene.service, false);
    pass_time(&scene, 10 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 0);
    assert_string_equal(last_report(&scene, REPORT_REFUSED)->error_code, "workflow_id_taken");
    close_scene(&scene);
}

/* They may have been those of the other one, even when its answer came before it was noticed. */
static void search_attributes_are_read_anew_after_it_has_gone(void **state)
{
    struct scene scene;
    (void)state;
    open_known_scene(&scene);
    struct fake_attributes *attributes = fake_temporal_attributes(scene.service);
    pass_time(&scene, RETENTION_INTERVAL_US - 2 * SECOND_US);
    fake_temporal_replace(scene.service, true);
    fake_attributes_add(attributes, TEMPORAL_WORKSPACE_ATTRIBUTE, ATTRIBUTE_KEYWORD);
    pass_time(&scene, 5 * SECOND_US);
    assert_true(count_reports(&scene, REPORT_ENGINE_DOWN) > 0);
    attributes->count = 0;
    fake_temporal_replace(scene.service, false);
    pass_time(&scene, 5 * SECOND_US);
    start_and_follow(&scene, ID_ONE);
    assert_int_equal(count_reports(&scene, REPORT_REFUSED), 0);
    close_scene(&scene);
}

static void a_node_gets_no_target_while_it_answers(void **state)
{
    struct scene scene;
    struct engine_target target;
    (void)state;
    open_scene(&scene);
    struct temporal *engine = (struct temporal *)(void *)scene.engine;
    text_copy(engine->health.other, sizeof engine->health.other, "another service answers");
    (void)engine_target(scene.engine, &target);
    pass_time(&scene, SECOND_US);
    assert_false(engine_target(scene.engine, &target));
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_UP), 0);
    pass_time(&scene, 15 * SECOND_US); /* the next probe is answered by the expected one */
    assert_true(engine_target(scene.engine, &target));
    close_scene(&scene);
}

/* A node without work asks for them, too. */
static void search_attributes_are_read_again_without_work(void **state)
{
    struct scene scene;
    (void)state;
    open_known_scene(&scene);
    fake_attributes_add(fake_temporal_attributes(scene.service), TEMPORAL_WORKSPACE_ATTRIBUTE, ATTRIBUTE_KEYWORD);
    pass_time(&scene, RETENTION_INTERVAL_US + SECOND_US);
    start_and_follow(&scene, ID_ONE);
    assert_true(fake_temporal_start_has(scene.service, "execution-" ID_ONE, TEMPORAL_WORKSPACE_ATTRIBUTE));
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_started_or_ended_there),
        cmocka_unit_test(its_answers_are_no_proof_after_it_has_gone),
        cmocka_unit_test(an_absence_counts_only_after_the_expected_service_has_answered),
        cmocka_unit_test(absences_without_a_confirmation_are_asked_about_less_and_less),
        cmocka_unit_test(a_lost_start_is_not_released_by_its_answers),
        cmocka_unit_test(a_termination_is_not_confirmed_by_its_answers),
        cmocka_unit_test(a_workflow_is_not_taken_for_the_own_one_by_its_answers),
        cmocka_unit_test(search_attributes_are_read_anew_after_it_has_gone),
        cmocka_unit_test(a_node_gets_no_target_while_it_answers),
        cmocka_unit_test(search_attributes_are_read_again_without_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
