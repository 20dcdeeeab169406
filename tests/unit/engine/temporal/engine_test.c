/* The life of an execution in the Temporal engine, on a virtual clock and a service in memory: every outcome of a start,
 * every way to find an end, and the proof that no execution is started twice. */
#include "engine/temporal/run_table.h"
#include "engine/temporal/starts.h"
#include "temporal_scene.h"

#include <stdio.h>
#include <stdlib.h>

static void record_end(struct scene *scene, const char *id)
{
    struct recorded recorded = {.fence = 5, .kind = REPORT_ENDED, .status = WEIR_OK};
    memcpy(recorded.id, id, sizeof recorded.id);
    engine_recorded(scene->engine, &recorded, 1);
    (void)engine_step(scene->engine);
}

static void assert_idle(struct scene *scene, size_t room)
{
    assert_int_equal(engine_running(scene->engine), 0);
    assert_int_equal(engine_free_capacity(scene->engine), room);
}

/* --- starting --- */

static void a_start_is_reported_with_its_run(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    const struct report *step = last_report(&scene, REPORT_STEP);
    assert_int_equal(step->step.state, STEP_RUNNING);
    assert_non_null(strstr(step->step.variables, "\"workflow_id\":\"execution-" ID_ONE "\""));
    assert_non_null(strstr(step->step.variables, "\"task_queue\":\"q\""));
    assert_int_equal(engine_running(scene.engine), 1);
    assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 1);
    close_scene(&scene);
}

static void a_start_without_an_answer_is_sent_again_with_the_same_bytes(void **state)
{
    static const enum fake_fault faults[] = {FAKE_LOSE_ANSWER, FAKE_LOSE_REQUEST, FAKE_TIME_OUT, FAKE_UNAVAILABLE,
                                             FAKE_GARBAGE};
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct scene scene;
        open_scene(&scene);
        fake_temporal_push(scene.service, faults[i]);
        fake_temporal_push(scene.service, faults[i]);
        start_one(&scene, ID_ONE);
        pass_time(&scene, 30 * SECOND_US);
        assert_int_equal(count_reports(&scene, REPORT_UNKNOWN), 2);
        assert_int_equal(count_reports(&scene, REPORT_STARTED), 1);
        assert_int_equal(count_reports(&scene, REPORT_UNREACHABLE), 0);
        assert_int_equal(fake_temporal_calls(scene.service, FAKE_START), 3);
        assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 1);
        close_scene(&scene);
    }
}

static void a_start_that_never_left_releases_its_slot(void **state)
{
    static const enum fake_fault faults[] = {FAKE_NOT_SENT, FAKE_NAMESPACE, FAKE_DENIED};
    static const char *const codes[] = {"engine_unreachable", "namespace_not_found", "permission_denied"};
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct scene scene;
        open_scene(&scene);
        fake_temporal_push(scene.service, faults[i]);
        start_one(&scene, ID_ONE);
        pass_time(&scene, 30 * SECOND_US);
        assert_int_equal(count_all_reports(&scene), 1);
        assert_false(last_report(&scene, REPORT_UNREACHABLE)->may_run);
        assert_string_equal(last_report(&scene, REPORT_UNREACHABLE)->error_code, codes[i]);
        assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 0);
        assert_idle(&scene, 64);
        close_scene(&scene);
    }
}

static void an_unreachable_service_after_a_lost_answer_keeps_the_slot(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    fake_temporal_push(scene.service, FAKE_NOT_SENT);
    start_one(&scene, ID_ONE);
    pass_time(&scene, 10 * SECOND_US);
    assert_true(last_report(&scene, REPORT_UNREACHABLE)->may_run);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 1);
    assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 1);
    close_scene(&scene);
}

static void an_invalid_start_is_refused_permanently(void **state)
{
    static const enum fake_fault faults[] = {FAKE_INVALID, FAKE_TOO_LARGE};
    static const char *const codes[] = {"start_refused", "input_too_large"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct scene scene;
        open_scene(&scene);
        fake_temporal_push(scene.service, faults[i]);
        start_one(&scene, ID_ONE);
        pass_time(&scene, SECOND_US);
        assert_true(last_report(&scene, REPORT_REFUSED)->permanent);
        assert_true(last_report(&scene, REPORT_REFUSED)->spends_start);
        assert_string_equal(last_report(&scene, REPORT_REFUSED)->error_code, codes[i]);
        assert_idle(&scene, 64);
        close_scene(&scene);
    }
}

static void a_refusal_after_a_lost_answer_counts_only_if_nothing_runs(void **state)
{
    for (int arrived = 0; arrived < 2; arrived++) {
        struct scene scene;
        (void)state;
        open_scene(&scene);
        fake_temporal_push(scene.service, arrived ? FAKE_LOSE_ANSWER : FAKE_LOSE_REQUEST);
        fake_temporal_push(scene.service, FAKE_INVALID);
        start_one(&scene, ID_ONE);
        pass_time(&scene, 10 * SECOND_US);
        assert_int_equal(count_reports(&scene, REPORT_STARTED), arrived ? 1 : 0);
        assert_int_equal(count_reports(&scene, REPORT_REFUSED), arrived ? 0 : 1);
        close_scene(&scene);
    }
}

static void throttling_spends_no_attempt(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    for (int i = 0; i < 5; i++) {
        fake_temporal_push(scene.service, FAKE_THROTTLE);
    }
    start_one(&scene, ID_ONE);
    pass_time(&scene, 60 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 1);
    assert_int_equal(count_all_reports(&scene), 2);
    close_scene(&scene);
}

/* By the service's own limit, which lists, looks and questions share, and on its clock: no machine's speed takes part. */
static void starts_settle_within_a_fifth_of_the_services_limit(void **state)
{
    enum { LIMIT = 50, SETTLES_S = 30, COUNTED_S = 60 };
    struct scene scene;
    char id[UUID_TEXT_MAX];
    int sent = 0;
    size_t before = 0;
    (void)state;
    open_scene(&scene);
    fake_temporal_set_limit(scene.service, LIMIT);
    for (int ms = 0; ms < (SETTLES_S + COUNTED_S) * 1000; ms += 10) {
        for (size_t room = engine_free_capacity(scene.engine); room > 0; room--) {
            (void)snprintf(id, sizeof id, "019aa000-0000-7000-8000-%012d", sent++);
            start_one(&scene, id);
        }
        pass_time(&scene, 10 * MICROSECONDS_PER_MS);
        before = ms < SETTLES_S * 1000 ? count_reports(&scene, REPORT_STARTED) : before;
    }
    assert_in_range(count_reports(&scene, REPORT_STARTED) - before, COUNTED_S * LIMIT * 8 / 10,
                    COUNTED_S * LIMIT * 12 / 10);
    assert_in_range(fake_temporal_throttled(scene.service), 1, (SETTLES_S + COUNTED_S) * LIMIT / 10);
    assert_int_equal(count_reports(&scene, REPORT_REFUSED), 0);
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_DOWN), 0);
    close_scene(&scene);
}

static void a_workflow_id_taken_by_the_own_start_is_followed(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    start_one(&scene, ID_ONE);
    pass_time(&scene, 10 * MICROSECONDS_PER_MS);
    fake_temporal_go_on(scene.service, ID_ONE, RUN_STATUS_CONTINUED_AS_NEW); /* the new run has another request id */
    pass_time(&scene, 10 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 1);
    assert_int_equal(count_reports(&scene, REPORT_REFUSED), 0);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass_time(&scene, SECOND_US);
    assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_COMPLETED);
    close_scene(&scene);
}

static void a_chain_with_a_new_memo_is_recognised_by_its_first_run(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    start_one(&scene, ID_ONE);
    pass_time(&scene, 10 * MICROSECONDS_PER_MS);
    fake_temporal_renew(scene.service, ID_ONE);
    fake_temporal_renew(scene.service, ID_ONE);
    pass_time(&scene, 10 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_REFUSED), 0);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 1);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass_time(&scene, SECOND_US);
    assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_COMPLETED);
    assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 1);
    close_scene(&scene);
}

static void a_chain_of_another_program_is_refused(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    fake_temporal_take_id(scene.service, ID_ONE);
    fake_temporal_go_on(scene.service, ID_ONE, RUN_STATUS_CONTINUED_AS_NEW);
    start_one(&scene, ID_ONE);
    pass_time(&scene, 10 * SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_REFUSED)->error_code, "workflow_id_taken");
    close_scene(&scene);
}

static void a_workflow_id_taken_by_another_program_fails_with_its_code(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    fake_temporal_take_id(scene.service, ID_ONE);
    start_one(&scene, ID_ONE);
    pass_time(&scene, 10 * SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_REFUSED)->error_code, "workflow_id_taken");
    assert_true(last_report(&scene, REPORT_REFUSED)->permanent);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 0);
    close_scene(&scene);
}

static void a_workflow_with_steps_is_put_back_for_another_engine(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    struct engine_start start = start_of(ID_ONE);
    start.definition = "{\"name\": \"a\", \"steps\": {\"s\": {\"sleep\": \"1s\"}}}";
    assert_int_equal(engine_start(scene.engine, &start, NULL), WEIR_OK);
    pass_time(&scene, SECOND_US);
    const struct report *report = last_report(&scene, REPORT_REFUSED);
    assert_false(report->permanent);
    assert_false(report->spends_start);
    assert_true(report->delay_us > 0);
    assert_string_equal(report->error_code, "wrong_engine");
    assert_int_equal(fake_temporal_calls(scene.service, FAKE_START), 0);
    close_scene(&scene);
}

/* --- the encoding --- */

/* The setting names the encoding of the params and of the arguments; the bytes stay as they were enqueued. */
static void params_and_arguments_arrive_in_the_encoding_of_the_setting(void **state)
{
    static const char *const settings[] = {NULL, "json/plain", "json/acme"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const char *expected = settings[i] == NULL ? "json/plain" : settings[i];
        struct scene scene;
        open_scene_with(&scene, (struct temporal_options){.encoding = settings[i]}, NULL);
        start_and_follow(&scene, ID_ONE);
        struct engine_start start = start_of(ID_TWO);
        start.definition_id = 2;
        start.definition = "{\"name\": \"onboard\", \"temporal\": {\"task_queue\": \"q\", \"args\": "
                           "[\"${.input.customer}\", \"two\"], \"memo\": {\"for\": \"${.input.customer}\"}}}";
        assert_int_equal(engine_start(scene.engine, &start, NULL), WEIR_OK);
        pass_time(&scene, SECOND_US);
        TemporalApi__StartWorkflowExecutionRequest *request = read_sent_start(&scene, ID_ONE);
        assert_int_equal(request->input->n_payloads, 1);
        assert_payload(request->input->payloads[0], expected, SCENE_PARAMS);
        temporal_api__start_workflow_execution_request__free_unpacked(request, NULL);
        request = read_sent_start(&scene, ID_TWO);
        assert_int_equal(request->input->n_payloads, 2);
        assert_payload(request->input->payloads[0], expected, "7");
        assert_payload(request->input->payloads[1], expected, "\"two\"");
        assert_payload(find_payload(request->memo, "for"), "json/plain", "7");
        temporal_api__start_workflow_execution_request__free_unpacked(request, NULL);
        close_scene(&scene);
    }
}

/* --- after a node's death --- */

static void a_start_of_a_dead_node_is_sent_again_with_the_same_bytes(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    start_one(&scene, ID_ONE);
    pass_time(&scene, 10 * MICROSECONDS_PER_MS);
    engine_abandon(scene.engine, NULL, 0);
    (void)engine_step(scene.engine);
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    again.fence = 6;
    again.age_us = 20 * 60 * SECOND_US;
    assert_int_equal(engine_start(scene.engine, &again, NULL), WEIR_OK);
    pass_time(&scene, SECOND_US);
    assert_int_equal(last_report(&scene, REPORT_STARTED)->fence, 6);
    assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 1);
    close_scene(&scene);
}

static void a_run_on_record_is_described_and_never_started(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    engine_abandon(scene.engine, NULL, 0);
    pass_time(&scene, SECOND_US);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "{\"ok\":true}");
    size_t starts = fake_temporal_calls(scene.service, FAKE_START);
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    again.fence = 6;
    again.running_for_us = SECOND_US;
    assert_int_equal(engine_start(scene.engine, &again, NULL), WEIR_OK);
    pass_time(&scene, SECOND_US);
    assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_COMPLETED);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->step.output, "{\"ok\":true}");
    assert_int_equal(fake_temporal_calls(scene.service, FAKE_START), starts);
    close_scene(&scene);
}

static void a_forgotten_run_on_record_ends_and_is_not_started(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    engine_abandon(scene.engine, NULL, 0);
    fake_temporal_forget(scene.service, ID_ONE);
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    again.fence = 6;
    again.running_for_us = 48 * HOUR_US;
    assert_int_equal(engine_start(scene.engine, &again, NULL), WEIR_OK);
    pass_time(&scene, 10 * SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->error_code, "workflow_gone");
    assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_FAILED);
    assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 1);
    close_scene(&scene);
}

static void a_start_older_than_the_retention_is_never_sent_again(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_TWO); /* so that the namespace's retention of 24 h is known */
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    again.age_us = 23 * HOUR_US;
    size_t starts = fake_temporal_calls(scene.service, FAKE_START);
    assert_int_equal(engine_start(scene.engine, &again, NULL), WEIR_OK);
    pass_time(&scene, 10 * SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_REFUSED)->error_code, "start_forgotten");
    assert_int_equal(fake_temporal_calls(scene.service, FAKE_START), starts);
    assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 0);
    close_scene(&scene);
}

static void a_fresh_node_learns_the_retention_before_it_gives_up_a_start(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    again.age_us = 2 * HOUR_US; /* more than the least retention, less than this one's */
    assert_int_equal(engine_start(scene.engine, &again, NULL), WEIR_OK);
    pass_time(&scene, 10 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 1);
    assert_int_equal(count_reports(&scene, REPORT_REFUSED), 0);
    close_scene(&scene);
}

static void a_start_that_stays_unanswered_is_given_up_before_the_retention_ends(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_TWO);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    start_one(&scene, ID_ONE);
    pass_time(&scene, 10 * MICROSECONDS_PER_MS);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    fake_temporal_set_fault(scene.service, FAKE_NOT_SENT);
    pass_time(&scene, 22 * HOUR_US);
    fake_temporal_forget(scene.service, ID_ONE);
    fake_temporal_set_fault(scene.service, FAKE_FINE);
    pass_time(&scene, 60 * SECOND_US);
    assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 1);
    assert_string_equal(last_report(&scene, REPORT_REFUSED)->error_code, "start_forgotten");
    close_scene(&scene);
}

/* --- the end --- */

static void an_end_is_reported_with_its_result(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "{\"n\": 1.50}");
    pass_time(&scene, 50 * MICROSECONDS_PER_MS); /* it is waited for */
    const struct report *report = last_report(&scene, REPORT_ENDED);
    assert_int_equal(report->end_state, END_COMPLETED);
    assert_string_equal(report->step.output, "{\"n\": 1.50}");
    assert_int_equal(report->step.state, STEP_COMPLETED);
    record_end(&scene, ID_ONE);
    assert_idle(&scene, 64);
    pass_time(&scene, 60 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_ENDED), 1);
    close_scene(&scene);
}

static void each_kind_of_end_has_its_state_and_error(void **state)
{
    static const struct {
        int status;
        const char *text;
        enum end_state end;
        const char *code;
        const char *error;
    } ends[] = {
        {RUN_STATUS_FAILED, "no money", END_FAILED, "Broken", "Broken: no money"},
        {RUN_STATUS_TIMED_OUT, NULL, END_FAILED, "timed_out", NULL},
        {RUN_STATUS_CANCELED, NULL, END_CANCELLED, "", NULL},
        {RUN_STATUS_TERMINATED, "by an operator", END_FAILED, "terminated", "terminated: by an operator"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct scene scene;
        open_scene(&scene);
        start_and_follow(&scene, ID_ONE);
        fake_temporal_end(scene.service, ID_ONE, ends[i].status, ends[i].text);
        pass_time(&scene, SECOND_US);
        const struct report *report = last_report(&scene, REPORT_ENDED);
        assert_int_equal(report->end_state, ends[i].end);
        assert_string_equal(report->error_code, ends[i].code);
        if (ends[i].error != NULL) {
            assert_string_equal(report->error, ends[i].error);
        }
        close_scene(&scene);
    }
}

/* With each of the three ways alone. */
static void each_way_to_find_an_end_works_alone(void **state)
{
    static const int64_t within_us[] = {SECOND_US / 10, 3 * SECOND_US, 60 * SECOND_US};
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct scene scene;
        open_scene_with(&scene, (struct temporal_options){.polls_max = way == 0 ? 10 : SIZE_MAX}, NULL);
        fake_temporal_break_lists(scene.service, way != 1);
        engine_want_slots(scene.engine, "acme", true);
        start_and_follow(&scene, ID_ONE);
        pass_time(&scene, 100 * SECOND_US);
        fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
        pass_time(&scene, within_us[way]);
        assert_int_equal(count_reports(&scene, REPORT_ENDED), 1);
        close_scene(&scene);
    }
}

static void a_chain_is_followed_to_its_real_end(void **state)
{
    static const int links[] = {RUN_STATUS_CONTINUED_AS_NEW, RUN_STATUS_FAILED, RUN_STATUS_COMPLETED, RUN_STATUS_TIMED_OUT};
    (void)state;
    for (int with_polls = 0; with_polls < 2; with_polls++) {
        struct scene scene;
        open_scene_with(&scene, (struct temporal_options){.polls_max = with_polls ? 10 : SIZE_MAX}, NULL);
        start_and_follow(&scene, ID_ONE);
        for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
            fake_temporal_go_on(scene.service, ID_ONE, links[i]);
            pass_time(&scene, 5 * SECOND_US);
            assert_int_equal(count_reports(&scene, REPORT_ENDED), 0);
        }
        fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "\"end\"");
        pass_time(&scene, 5 * SECOND_US);
        assert_string_equal(last_report(&scene, REPORT_ENDED)->step.output, "\"end\"");
        assert_int_equal(count_reports(&scene, REPORT_ENDED), 1);
        close_scene(&scene);
    }
}

static void a_reset_workflow_is_followed(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    fake_temporal_reset(scene.service, ID_ONE);
    pass_time(&scene, 5 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_ENDED), 0);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "2");
    pass_time(&scene, 5 * SECOND_US);
    assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_COMPLETED);
    close_scene(&scene);
}

/* A description has shown the next run already. Then a late long poll of the run before it must neither terminate the
 * workflow, nor count as the end of the next run. */
static void a_late_long_poll_does_not_end_the_next_run(void **state)
{
    (void)state;
    for (int was_reset = 0; was_reset < 2; was_reset++) {
        struct scene scene;
        open_scene(&scene);
        engine_want_slots(scene.engine, "acme", true);
        start_and_follow(&scene, ID_ONE);
        assert_int_equal(fake_temporal_polls_waiting(scene.service), 1);
        fake_temporal_delay_polls(scene.service, 3 * SECOND_US);
        if (was_reset) {
            fake_temporal_break_lists(scene.service, true);
            fake_temporal_reset(scene.service, ID_ONE);
        } else {
            fake_temporal_go_on(scene.service, ID_ONE, RUN_STATUS_CONTINUED_AS_NEW);
        }
        struct temporal *engine = (struct temporal *)scene.engine;
        starts_describe_run(engine, run_find(engine, ID_ONE));
        pass_time(&scene, 4 * SECOND_US);
        assert_int_equal(count_reports(&scene, REPORT_ENDED), 0);
        fake_temporal_break_lists(scene.service, false);
        fake_temporal_delay_polls(scene.service, 30 * SECOND_US); /* the list alone */
        fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "2");
        pass_time(&scene, 4 * SECOND_US);
        assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_COMPLETED);
        close_scene(&scene);
    }
}

static void a_deleted_workflow_releases_its_slot(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    fake_temporal_forget(scene.service, ID_ONE);
    pass_time(&scene, 60 * SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->error_code, "workflow_gone");
    close_scene(&scene);
}

static void an_outage_while_runs_are_followed_ends_none(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    fake_temporal_set_fault(scene.service, FAKE_NOT_SENT);
    pass_time(&scene, 600 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_ENDED), 0);
    fake_temporal_set_fault(scene.service, FAKE_FINE);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass_time(&scene, 7 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_ENDED), 1);
    close_scene(&scene);
}

/* --- cancel, stop --- */

static void a_cancel_is_sent_once(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    engine_cancel(scene.engine, ID_ONE, 5);
    pass_time(&scene, 100 * SECOND_US);
    assert_true(fake_temporal_cancel_was_asked(scene.service, ID_ONE));
    assert_int_equal(fake_temporal_calls(scene.service, FAKE_CANCEL), 1);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_CANCELED, NULL);
    pass_time(&scene, SECOND_US);
    assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_CANCELLED);
    close_scene(&scene);
}

static void a_termination_through_weir_is_a_cancel_before_the_node_knows(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    fake_temporal_terminate_by_weir(scene.service, ID_ONE, "enough");
    pass_time(&scene, 5 * SECOND_US);
    assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_CANCELLED);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->error, "terminated by weir: enough");
    close_scene(&scene);
}

static void a_cancel_that_overtakes_its_start_is_not_lost(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    start_one(&scene, ID_ONE);
    pass_time(&scene, 10 * MICROSECONDS_PER_MS);
    engine_cancel(scene.engine, ID_ONE, 5);
    pass_time(&scene, 10 * SECOND_US);
    assert_true(fake_temporal_cancel_was_asked(scene.service, ID_ONE));
    close_scene(&scene);
}

static void a_stop_gives_followed_runs_back_at_once(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    engine_stop(scene.engine, false);
    (void)engine_step(scene.engine);
    assert_int_equal(count_reports(&scene, REPORT_GIVEN_BACK), 1);
    assert_int_equal(engine_free_capacity(scene.engine), 0);
    struct recorded recorded = {.id = ID_ONE, .fence = 5, .kind = REPORT_GIVEN_BACK, .status = WEIR_OK};
    engine_recorded(scene.engine, &recorded, 1);
    (void)engine_step(scene.engine);
    assert_int_equal(engine_running(scene.engine), 0);
    close_scene(&scene);
}

static void a_stop_waits_only_for_calls_under_way(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    start_one(&scene, ID_ONE);
    pass_time(&scene, 10 * MICROSECONDS_PER_MS); /* its outcome is not known */
    start_one(&scene, ID_TWO);
    (void)engine_step(scene.engine); /* this one is under way */
    engine_stop(scene.engine, false);
    (void)engine_step(scene.engine);
    assert_int_equal(count_reports(&scene, REPORT_GIVEN_BACK), 1);
    assert_string_equal(last_report(&scene, REPORT_GIVEN_BACK)->id, ID_ONE);
    pass_time(&scene, SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 1);
    assert_int_equal(count_reports(&scene, REPORT_GIVEN_BACK), 2);
    close_scene(&scene);
}

static void a_start_that_never_left_goes_back_into_the_queue_at_a_stop(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    engine_stop(scene.engine, false);
    start_one(&scene, ID_ONE);
    pass_time(&scene, SECOND_US);
    assert_int_equal(count_all_reports(&scene), 1);
    assert_false(last_report(&scene, REPORT_REFUSED)->spends_start);
    assert_int_equal(last_report(&scene, REPORT_REFUSED)->delay_us, 0);
    assert_int_equal(fake_temporal_calls(scene.service, FAKE_START), 0);
    close_scene(&scene);
}

/* --- many --- */

static void ten_thousand_open_workflows_cost_few_calls(void **state)
{
    struct scene scene;
    char id[UUID_TEXT_MAX];
    int made = 0;
    (void)state;
    open_scene_with(&scene, (struct temporal_options){.starts_max = 1000, .max_running = 10000}, NULL);
    engine_want_slots(scene.engine, "acme", true);
    while (made < 10000) {
        for (size_t room = engine_free_capacity(scene.engine); room > 0; room--, made++) {
            (void)snprintf(id, sizeof id, "019aa000-0000-7000-8000-%012d", made);
            start_one(&scene, id);
        }
        pass_time(&scene, SECOND_US / 10);
    }
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 10000);
    size_t lists = fake_temporal_calls(scene.service, FAKE_LIST);
    size_t looks = fake_temporal_calls(scene.service, FAKE_DESCRIBE);
    size_t polls = fake_temporal_calls(scene.service, FAKE_POLL);
    pass_time(&scene, 100 * SECOND_US);
    assert_in_range(fake_temporal_calls(scene.service, FAKE_LIST) - lists, 50, 105); /* of 10 a second */
    assert_in_range(fake_temporal_calls(scene.service, FAKE_DESCRIBE) - looks, 1, 250);
    assert_in_range(fake_temporal_calls(scene.service, FAKE_POLL) - polls, 80, 1000); /* each waits for 20 s */
    /* of one workspace: half of the places */
    assert_in_range(fake_temporal_polls_waiting(scene.service), TEMPORAL_POLLS_MAX_DEFAULT / 2, TEMPORAL_POLLS_MAX_DEFAULT);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_is_reported_with_its_run),
        cmocka_unit_test(a_start_without_an_answer_is_sent_again_with_the_same_bytes),
        cmocka_unit_test(a_start_that_never_left_releases_its_slot),
        cmocka_unit_test(an_unreachable_service_after_a_lost_answer_keeps_the_slot),
        cmocka_unit_test(an_invalid_start_is_refused_permanently),
        cmocka_unit_test(a_refusal_after_a_lost_answer_counts_only_if_nothing_runs),
        cmocka_unit_test(throttling_spends_no_attempt),
        cmocka_unit_test(starts_settle_within_a_fifth_of_the_services_limit),
        cmocka_unit_test(a_workflow_id_taken_by_the_own_start_is_followed),
        cmocka_unit_test(a_chain_with_a_new_memo_is_recognised_by_its_first_run),
        cmocka_unit_test(a_chain_of_another_program_is_refused),
        cmocka_unit_test(a_workflow_id_taken_by_another_program_fails_with_its_code),
        cmocka_unit_test(a_workflow_with_steps_is_put_back_for_another_engine),
        cmocka_unit_test(params_and_arguments_arrive_in_the_encoding_of_the_setting),
        cmocka_unit_test(a_start_of_a_dead_node_is_sent_again_with_the_same_bytes),
        cmocka_unit_test(a_run_on_record_is_described_and_never_started),
        cmocka_unit_test(a_forgotten_run_on_record_ends_and_is_not_started),
        cmocka_unit_test(a_start_older_than_the_retention_is_never_sent_again),
        cmocka_unit_test(a_fresh_node_learns_the_retention_before_it_gives_up_a_start),
        cmocka_unit_test(a_start_that_stays_unanswered_is_given_up_before_the_retention_ends),
        cmocka_unit_test(an_end_is_reported_with_its_result),
        cmocka_unit_test(each_kind_of_end_has_its_state_and_error),
        cmocka_unit_test(each_way_to_find_an_end_works_alone),
        cmocka_unit_test(a_chain_is_followed_to_its_real_end),
        cmocka_unit_test(a_reset_workflow_is_followed),
        cmocka_unit_test(a_late_long_poll_does_not_end_the_next_run),
        cmocka_unit_test(a_deleted_workflow_releases_its_slot),
        cmocka_unit_test(an_outage_while_runs_are_followed_ends_none),
        cmocka_unit_test(a_cancel_is_sent_once),
        cmocka_unit_test(a_cancel_that_overtakes_its_start_is_not_lost),
        cmocka_unit_test(a_termination_through_weir_is_a_cancel_before_the_node_knows),
        cmocka_unit_test(a_stop_gives_followed_runs_back_at_once),
        cmocka_unit_test(a_stop_waits_only_for_calls_under_way),
        cmocka_unit_test(a_start_that_never_left_goes_back_into_the_queue_at_a_stop),
        cmocka_unit_test(ten_thousand_open_workflows_cost_few_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
