/* Reports of tasks: when one is accepted, and who may adopt a task of another node. */
#include <stdio.h>

#include "support/test.h"
#include "task_hub_scene.h"

/* The recorder of this engine answers only when the test makes it. */
static const struct report *begin_unrecorded(const char **ret_id)
{
    fixture.recorder.is_manual = true;
    join("w1");
    start(1, "");
    *ret_id = claim_id("w1");
    assert_int_equal(report_once(TASK_COMPLETE, "w1", *ret_id), TASK_UNRECORDED);
    return end_of(1, END_COMPLETED);
}

static void a_result_is_accepted_when_it_is_on_record(void **state)
{
    (void)state;
    const char *id;
    struct waiting_claim waiting = {.waiter = {.wake = wake}};
    struct waiting_claim other = waiting;
    assert_int_equal(sem_init(&waiting.woken, 0, 0), 0);
    assert_int_equal(sem_init(&other.woken, 0, 0), 0);
    const struct report *end = begin_unrecorded(&id);
    assert_int_equal(report_once(TASK_COMPLETE, "w1", id), TASK_UNRECORDED);
    assert_int_equal(report_once(TASK_HEARTBEAT, "w1", id), TASK_ACCEPTED); /* or the client would not repeat it */
    assert_int_equal(report_failure(id, "late", false, -1), TASK_LOST);
    assert_int_equal(task_hub_await_record(hub, id, atomic_load(&now_us), &waiting.waiter), TASK_RECORD_AWAITED);
    assert_int_equal(task_hub_await_record(hub, id, atomic_load(&now_us) - 1, &other.waiter), TASK_RECORD_AWAITED);
    assert_int_equal(sem_trywait(&waiting.woken), -1);
    recorder_answer(&fixture.recorder, end, WEIR_OK);
    await_wake(&waiting);
    await_wake(&other);
    assert_int_equal(report_once(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    assert_int_equal(report_once(TASK_HEARTBEAT, "w1", id), TASK_LOST);
    assert_int_equal(task_hub_await_record(hub, id, atomic_load(&now_us), &waiting.waiter), TASK_RECORD_SETTLED);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_ENDED, engine_fixture_id(1), NULL, -1), 1);
    (void)sem_destroy(&waiting.woken);
    (void)sem_destroy(&other.woken);
}

/* A stale fence: another node has the execution now, so the worker takes its result there. */
static void a_result_that_is_not_recorded_here_goes_to_the_next_node(void **state)
{
    (void)state;
    const char *id;
    const struct report *end = begin_unrecorded(&id);
    recorder_answer(&fixture.recorder, end, WEIR_STALE_FENCE);
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_UNKNOWN);
    fixture.recorder.is_manual = false;
    start_taken_over(1, 4);
    wait_for_figures(1, 0);
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
}

static void a_wait_for_a_record_ends_before_the_client_gives_up(void **state)
{
    (void)state;
    const char *id;
    struct waiting_claim waiting = {.waiter = {.wake = wake}};
    assert_int_equal(sem_init(&waiting.woken, 0, 0), 0);
    const struct report *end = begin_unrecorded(&id);
    int64_t arrived_us = atomic_load(&now_us);
    assert_int_equal(task_hub_await_record(hub, id, arrived_us, &waiting.waiter), TASK_RECORD_AWAITED);
    pass(LEASE_US / 4 - 1);
    assert_int_equal(sem_trywait(&waiting.woken), -1);
    pass(1);
    assert_int_equal(sem_trywait(&waiting.woken), 0);
    assert_int_equal(task_hub_await_record(hub, id, arrived_us, &waiting.waiter), TASK_RECORD_LATE);
    recorder_answer(&fixture.recorder, end, WEIR_OK);
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    (void)sem_destroy(&waiting.woken);
}

static void start_restored(int number, int64_t fence, enum step_state state, int attempt, const char *code)
{
    static const char definition[] =
        "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"send\",\"retry\":{\"attempts\":3,\"backoff\":\"1ms\"}}}}";
    struct step_record record = {.step = "a", .state = state, .attempt = attempt, .exit_code = -1};
    struct engine_start start = engine_fixture_start_of(number, definition, "{}");
    (void)snprintf(record.error_code, sizeof record.error_code, "%s", code);
    start.fence = fence;
    start.interruptions = 1;
    start.steps = &record;
    start.step_count = 1;
    engine_fixture_start_with(&fixture, &start);
    wait_for_figures(1, 0);
}

/* Attempt 1 ended at a node that died before it answered: its worker repeats the report here. */
static void an_attempt_that_ended_on_record_is_not_adopted(void **state)
{
    (void)state;
    char id[128];
    join("w2");
    start_restored(1, 4, STEP_WAITING, 1, "busy");
    (void)snprintf(id, sizeof id, "%s/a/1/3", engine_fixture_id(1));
    assert_int_equal(report(TASK_HEARTBEAT, "w1", id), TASK_LOST);
    assert_int_equal(report_failure(id, "busy", false, -1), TASK_LOST);
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_LOST);
    pass(BEFORE_LEASE_US);
    join("w2");
    pass(1);
    assert_int_equal(report(TASK_COMPLETE, "w2", claim_id("w2")), TASK_ACCEPTED);
    (void)end_of(1, END_COMPLETED);
}

static void an_attempt_before_the_one_that_runs_on_record_is_not_adopted(void **state)
{
    (void)state;
    char id[128];
    join("w2");
    start_restored(1, 4, STEP_RUNNING, 3, "");
    (void)snprintf(id, sizeof id, "%s/a/2/2", engine_fixture_id(1));
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_LOST);
    (void)snprintf(id, sizeof id, "%s/a/3/3", engine_fixture_id(1));
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    (void)end_of(1, END_COMPLETED);
}

static void an_attempt_that_its_node_gave_back_is_adopted(void **state)
{
    (void)state;
    char id[128];
    join("w2");
    start_restored(1, 4, STEP_WAITING, 2, STEP_INTERRUPTED);
    (void)snprintf(id, sizeof id, "%s/a/1/2", engine_fixture_id(1));
    assert_int_equal(report(TASK_HEARTBEAT, "w1", id), TASK_LOST);
    (void)snprintf(id, sizeof id, "%s/a/2/3", engine_fixture_id(1));
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    (void)end_of(1, END_COMPLETED);
}

/* The next attempt of this claim must not fall to a worker of an older claim. */
static void an_attempt_before_one_that_ended_here_is_not_adopted(void **state)
{
    (void)state;
    char id[128];
    join("w2");
    start_restored(1, 4, STEP_RUNNING, 1, "");
    pass(BEFORE_LEASE_US);
    join("w1");
    pass(1);
    assert_int_equal(report_failure(claim_id("w1"), "busy", false, -1), TASK_ACCEPTED); /* attempt 2 */
    wait_for_figures(1, 0);
    (void)snprintf(id, sizeof id, "%s/a/1/3", engine_fixture_id(1));
    assert_int_equal(report(TASK_COMPLETE, "w9", id), TASK_LOST);
    pass(BEFORE_LEASE_US);
    join("w1");
    pass(1);
    assert_int_equal(report(TASK_COMPLETE, "w1", claim_id("w1")), TASK_ACCEPTED);
    assert_int_equal(end_of(1, END_COMPLETED)->step.attempt, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(a_result_is_accepted_when_it_is_on_record),
        HUB_TEST(a_result_that_is_not_recorded_here_goes_to_the_next_node),
        HUB_TEST(a_wait_for_a_record_ends_before_the_client_gives_up),
        HUB_TEST(an_attempt_that_ended_on_record_is_not_adopted),
        HUB_TEST(an_attempt_before_the_one_that_runs_on_record_is_not_adopted),
        HUB_TEST(an_attempt_that_its_node_gave_back_is_adopted),
        HUB_TEST(an_attempt_before_one_that_ended_here_is_not_adopted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
