/* Whether the engine detects an outage of its service, and reports nothing else as one: on a virtual clock, with a service
 * in memory. */
#include "temporal_scene.h"

#include <stdio.h>

static void an_outage_is_reported_while_nothing_is_started(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    pass_time(&scene, HOUR_US);
    assert_int_equal(count_all_reports(&scene), 0);
    fake_temporal_set_fault(scene.service, FAKE_NOT_SENT);
    pass_time(&scene, 12 * SECOND_US);
    assert_true(count_reports(&scene, REPORT_ENGINE_DOWN) > 1); /* again and again */
    assert_string_equal(last_report(&scene, REPORT_ENGINE_DOWN)->id, "");
    assert_string_equal(last_report(&scene, REPORT_ENGINE_DOWN)->error_code, "engine_unreachable");
    assert_non_null(last_report(&scene, REPORT_ENGINE_DOWN)->error);
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_UP), 0);
    fake_temporal_set_fault(scene.service, FAKE_FINE);
    pass_time(&scene, SECOND_US / 2);
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_UP), 1);
    pass_time(&scene, HOUR_US);
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_UP), 1);
    close_scene(&scene);
}

static void an_outage_is_reported_sooner_while_runs_are_followed(void **state)
{
    static const enum fake_fault faults[] = {FAKE_NOT_SENT, FAKE_UNAVAILABLE, FAKE_LOSE_REQUEST, FAKE_NAMESPACE};
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct scene scene;
        open_scene(&scene);
        start_and_follow(&scene, ID_ONE);
        pass_time(&scene, 5 * SECOND_US);
        fake_temporal_set_fault(scene.service, faults[i]);
        pass_time(&scene, 3 * SECOND_US);
        assert_true(count_reports(&scene, REPORT_ENGINE_DOWN) > 0);
        fake_temporal_set_fault(scene.service, FAKE_FINE);
        pass_time(&scene, SECOND_US / 2);
        assert_int_equal(count_reports(&scene, REPORT_ENGINE_UP), 1);
        close_scene(&scene);
    }
}

/* The deadlines of the calls are ten seconds away. */
static void a_frozen_service_is_reported_within_eight_seconds(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    pass_time(&scene, 5 * SECOND_US);
    fake_temporal_set_fault(scene.service, FAKE_FROZEN);
    pass_time(&scene, 3 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_DOWN), 0);
    pass_time(&scene, 5 * SECOND_US);
    assert_true(count_reports(&scene, REPORT_ENGINE_DOWN) > 0);
    fake_temporal_set_fault(scene.service, FAKE_FINE);
    pass_time(&scene, 2 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_UP), 1);
    assert_int_equal(count_reports(&scene, REPORT_ENDED), 0);
    close_scene(&scene);
}

static void a_slow_service_is_no_outage(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    pass_time(&scene, 5 * SECOND_US);
    fake_temporal_set_fault(scene.service, FAKE_SLOW);
    pass_time(&scene, 300 * SECOND_US);
    for (int i = 0; i < 20; i++) {
        fake_temporal_set_fault(scene.service, FAKE_FINE);
        pass_time(&scene, 10 * SECOND_US);
        fake_temporal_set_fault(scene.service, FAKE_FROZEN);
        pass_time(&scene, 4 * SECOND_US);
    }
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_DOWN), 0);
    close_scene(&scene);
}

/* The service answers, and only starts fail: only further starts detect the recovery. */
static void failed_starts_are_repeated_each_second(void **state)
{
    enum { FEW = 5, TURN_US = 10 * MICROSECONDS_PER_MS };
    struct scene scene;
    char id[UUID_TEXT_MAX];
    (void)state;
    open_scene(&scene);
    for (int i = 0; i < 400; i++) {
        fake_temporal_push(scene.service, FAKE_LOSE_REQUEST);
    }
    for (int i = 0; i < FEW; i++) {
        (void)snprintf(id, sizeof id, "019aa000-0000-7000-8000-%012d", i);
        start_one(&scene, id);
    }
    size_t before = 0;
    int64_t last_us = scene.now_us;
    for (int64_t end_us = scene.now_us + 60 * SECOND_US; scene.now_us < end_us;) {
        pass_time(&scene, TURN_US);
        size_t calls = fake_temporal_calls(scene.service, FAKE_START);
        last_us = calls >= before + 1 ? scene.now_us : last_us;
        before = calls;
        assert_true(scene.now_us - last_us <= SECOND_US + 2 * TURN_US);
    }
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 0);
    assert_in_range(before, FEW * 55, FEW * 90);
    close_scene(&scene);
}

/* A refusal is an answer of a service that is up. */
static void a_failed_call_or_a_refusal_is_no_outage(void **state)
{
    static const enum fake_fault faults[] = {FAKE_THROTTLE, FAKE_DENIED, FAKE_INVALID};
    struct scene scene;
    (void)state;
    open_scene(&scene);
    start_and_follow(&scene, ID_ONE);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        fake_temporal_set_fault(scene.service, faults[i]);
        pass_time(&scene, 30 * SECOND_US);
    }
    fake_temporal_set_fault(scene.service, FAKE_FINE);
    for (int i = 0; i < 20; i++) {
        pass_time(&scene, 10 * SECOND_US);
        fake_temporal_set_fault(scene.service, FAKE_NOT_SENT);
        pass_time(&scene, HEALTH_PROBE_INTERVAL_US - 1); /* too short for three failures */
        fake_temporal_set_fault(scene.service, FAKE_FINE);
    }
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_DOWN), 0);
    assert_int_equal(count_reports(&scene, REPORT_ENGINE_UP), 0);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outage_is_reported_while_nothing_is_started),
        cmocka_unit_test(an_outage_is_reported_sooner_while_runs_are_followed),
        cmocka_unit_test(a_frozen_service_is_reported_within_eight_seconds),
        cmocka_unit_test(a_slow_service_is_no_outage),
        cmocka_unit_test(failed_starts_are_repeated_each_second),
        cmocka_unit_test(a_failed_call_or_a_refusal_is_no_outage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
