/* The end of a worker: its tasks, its waits, its handlers. The clock of the leases is virtual, and stands still here. */
#include <string.h>

#include "engine/engine.h"
#include "support/test.h"
#include "task_hub_scene.h"

static size_t leave(const char *worker, const char *kept)
{
    const struct task_leave leave = {.worker = worker, .keeps = &kept, .keep_count = kept != NULL};
    size_t count = task_hub_leave(hub, &leave);
    (void)task_hub_step(hub);
    return count;
}

static void a_worker_that_leaves_gives_its_tasks_to_others_at_once(void **state)
{
    (void)state;
    join("w1");
    join("w2");
    start(1, ",\"retry\":{\"attempts\":1}");
    start(2, "");
    const char *kept = claim_id("w1");
    const char *first = claim_id("w1");
    if (strstr(first, engine_fixture_id(1)) == NULL) { /* the second one may have come first */
        const char *other = kept;
        kept = first;
        first = other;
    }
    assert_int_equal(leave("w1", kept), 1);
    for (int i = 0; i < 4; i++) { /* no loss of a worker: the fourth would count as a failure */
        const char *next = claim_id("w2");
        assert_non_null(strstr(next, engine_fixture_id(1)));
        assert_int_equal(report(TASK_COMPLETE, "w1", first), TASK_LOST);
        first = next;
        join("w3");
        assert_int_equal(leave("w2", NULL), 1);
        join("w2");
    }
    assert_int_equal(report(TASK_COMPLETE, "w2", claim_id("w2")), TASK_ACCEPTED);
    const struct report *end = end_of(1, END_COMPLETED);
    assert_int_equal(end->step.attempt, 6);
    assert_int_equal(end->step.failures, 0);
    assert_int_equal(report(TASK_HEARTBEAT, "w1", kept), TASK_ACCEPTED); /* it runs on, with its lease */
    assert_int_equal(report(TASK_COMPLETE, "w1", kept), TASK_ACCEPTED);
    (void)end_of(2, END_COMPLETED);
    assert_int_equal(leave("w1", NULL), 0);
    assert_int_equal(leave("nobody", NULL), 0);
}

static void with_the_last_worker_that_leaves_its_tasks_leave_the_node(void **state)
{
    (void)state;
    join("w1");
    start(1, "");
    start(2, "");
    const char *task = claim_id("w1");
    wait_for_figures(1, 1);
    assert_int_equal(leave("w1", NULL), 1);
    assert_int_equal(atomic_load(&registrations), 0);
    for (int i = 1; i <= 2; i++) { /* without its slot, and without a hold in the next node */
        const struct report *park = engine_fixture_expect(&fixture, REPORT_PARKED, i, NULL, -1, 1);
        assert_int_equal(park->delay_us, 0);
        assert_string_equal(park->step.error_code, "no_worker");
    }
    assert_int_equal(report(TASK_COMPLETE, "w1", task), TASK_LOST);
    assert_int_equal(task_hub_figures(hub).workers, 0);
    join("w1"); /* it may come again */
    assert_int_equal(atomic_load(&registrations), 1);
}

static void a_worker_that_leaves_ends_its_own_waits_and_tasks_alone(void **state)
{
    (void)state;
    struct waiting_claim waiting[2] = {{.waiter = {.wake = wake}}, {.waiter = {.wake = wake}}};
    struct text answer = {.max = 1 << 20};
    const char *const workers[] = {"w1", "w2"};
    for (int i = 0; i < 2; i++) {
        struct task_claim claim = claim_of(workers[i], 1);
        assert_int_equal(sem_init(&waiting[i].woken, 0, 0), 0);
        assert_int_equal(task_hub_claim(hub, &claim, &waiting[i].waiter, &answer, NULL), WEIR_OK);
        assert_true(waiting[i].waiter.is_waiting);
    }
    const struct task_leave foreign = {.worker = "w1", .token_id = 7};
    assert_int_equal(task_hub_leave(hub, &foreign), 0);
    assert_true(waiting[0].waiter.is_waiting);
    assert_int_equal(leave("w1", NULL), 0);
    await_wake(&waiting[0]);
    assert_true(waiting[0].waiter.has_left);
    assert_true(waiting[1].waiter.is_waiting);
    assert_int_equal(atomic_load(&registrations), 1);
    start(1, "");
    await_wake(&waiting[1]);
    assert_false(waiting[1].waiter.has_left);
    const char *task = claim_id("w2");
    join("w1");
    assert_int_equal(leave("w1", task), 0);
    assert_int_equal(leave("w1", NULL), 0);
    assert_int_equal(report(TASK_COMPLETE, "w2", task), TASK_ACCEPTED);
    (void)end_of(1, END_COMPLETED);
    text_close(&answer);
    assert_int_equal(sem_destroy(&waiting[0].woken), 0);
    assert_int_equal(sem_destroy(&waiting[1].woken), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(a_worker_that_leaves_gives_its_tasks_to_others_at_once),
        HUB_TEST(with_the_last_worker_that_leaves_its_tasks_leave_the_node),
        HUB_TEST(a_worker_that_leaves_ends_its_own_waits_and_tasks_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
