/* Tasks of workers over HTTP, on a real engine. The clock of the leases is virtual: the test moves it. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "engine/engine.h"
#include "support/test.h"
#include "task_hub_scene.h"

static void a_claimed_task_has_all_that_a_worker_needs(void **state)
{
    (void)state;
    join("w1");
    start(1, ",\"timeout\":\"1h\",\"input\":{\"name\":\"${.input.to}\"}");
    struct task_claim claim = claim_of("w1", 1);
    json_t *task = claim_with(&claim);
    char id[128];
    (void)snprintf(id, sizeof id, "%s/a/1/1", engine_fixture_id(1));
    assert_string_equal(json_string_value(json_object_get(task, "task")), id);
    assert_string_equal(json_string_value(json_object_get(task, "execution_id")), engine_fixture_id(1));
    assert_string_equal(json_string_value(json_object_get(task, "workspace")), "acme");
    assert_string_equal(json_string_value(json_object_get(task, "step")), "a");
    assert_string_equal(json_string_value(json_object_get(task, "handler")), "send");
    assert_int_equal(json_integer_value(json_object_get(task, "attempt")), 1);
    assert_int_equal(json_integer_value(json_object_get(task, "fence")), 1);
    (void)snprintf(id, sizeof id, "%s/a", engine_fixture_id(1));
    assert_string_equal(json_string_value(json_object_get(task, "idempotency_key")), id);
    assert_in_range(json_integer_value(json_object_get(task, "timeout_us")), 3000000000, 3600000000);
    assert_string_equal(json_string_value(json_object_get(json_object_get(task, "input"), "name")), "ada");
    (void)snprintf(id, sizeof id, "%s/a/1/1", engine_fixture_id(1));
    json_decref(task);
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    assert_string_equal(end_of(1, END_COMPLETED)->step.output, "\"sent\"");
}

static void each_failure_of_a_worker_is_that_of_a_handler(void **state)
{
    (void)state;
    join("w1");
    start(1, ",\"retry\":{\"attempts\":2,\"backoff\":\"1ms\"}");
    assert_int_equal(report_failure(claim_id("w1"), "busy", false, -1), TASK_ACCEPTED);
    assert_int_equal(report_failure(claim_id("w1"), "card_declined", true, -1), TASK_ACCEPTED);
    assert_string_equal(end_of(1, END_FAILED)->error_code, "card_declined");
    start(2, "");
    assert_int_equal(report_failure(claim_id("w1"), NULL, false, 3600 * MICROSECONDS_PER_SECOND), TASK_ACCEPTED);
    const struct report *wait = engine_fixture_expect(&fixture, REPORT_STEP, 2, "a", STEP_WAITING, 1);
    assert_string_equal(wait->step.error_code, "handler_failed");
    assert_int_equal(wait->step.due_in_us, 3600 * MICROSECONDS_PER_SECOND);
}

static void the_same_report_is_accepted_twice_and_counts_once(void **state)
{
    (void)state;
    join("w1");
    start(1, "");
    const char *id = claim_id("w1");
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    assert_int_equal(report_failure(id, "late", false, -1), TASK_LOST);
    assert_int_equal(report(TASK_HEARTBEAT, "w1", id), TASK_LOST);
    (void)end_of(1, END_COMPLETED);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_ENDED, engine_fixture_id(1), NULL, -1), 1);
}

static void a_worker_reports_its_own_tasks_only(void **state)
{
    (void)state;
    join("w1");
    join("w2");
    start(1, "");
    const char *id = claim_id("w1");
    assert_int_equal(report(TASK_COMPLETE, "w2", id), TASK_LOST);
    assert_int_equal(report(TASK_HEARTBEAT, "w2", id), TASK_LOST);
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    (void)end_of(1, END_COMPLETED);
}

static void a_lost_lease_gives_the_step_to_another_worker(void **state)
{
    (void)state;
    join("w1");
    start(1, "");
    const char *first = claim_id("w1");
    pass(BEFORE_LEASE_US);
    assert_int_equal(report(TASK_HEARTBEAT, "w1", first), TASK_ACCEPTED); /* a whole lease again */
    pass(BEFORE_LEASE_US);
    join("w2");
    assert_int_equal(report(TASK_HEARTBEAT, "w1", first), TASK_ACCEPTED);
    join("w2");
    pass(BEFORE_LEASE_US);
    join("w2");
    pass(1);
    const char *second = claim_id("w2");
    assert_non_null(strstr(second, "/a/2/1"));
    assert_int_equal(report(TASK_COMPLETE, "w1", first), TASK_LOST);
    assert_int_equal(report(TASK_HEARTBEAT, "w1", first), TASK_LOST);
    assert_int_equal(report(TASK_COMPLETE, "w2", second), TASK_ACCEPTED);
    assert_int_equal(report(TASK_COMPLETE, "w1", first), TASK_LOST); /* also when the task has gone */
    const struct report *end = end_of(1, END_COMPLETED);
    assert_int_equal(end->step.attempt, 2);
    assert_int_equal(end->step.failures, 0);
    /* The second attempt was on record before it began: no later one has its number. */
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, engine_fixture_id(1), "a", STEP_RUNNING), 1);
}

static void the_third_lost_worker_counts_as_a_failure(void **state)
{
    (void)state;
    join("w1");
    start(1, ",\"retry\":{\"attempts\":1}");
    for (int i = 0; i < 3; i++) {
        (void)claim_id("w1");
        pass(BEFORE_LEASE_US);
        join("w2");
        pass(1);
    }
    const struct report *end = end_of(1, END_FAILED);
    assert_string_equal(end->error_code, "worker_lost");
    assert_non_null(strstr(end->error, "w1"));
    assert_int_equal(end->step.attempt, 3);
}

static void without_a_worker_the_handler_and_its_tasks_leave_the_node(void **state)
{
    (void)state;
    join("w1");
    assert_int_equal(atomic_load(&registrations), 1);
    start(1, "");
    (void)claim_id("w1");
    start(2, "");
    wait_for_figures(1, 1);
    pass(BEFORE_LEASE_US);
    assert_int_equal(atomic_load(&registrations), 1);
    pass(1);
    assert_int_equal(atomic_load(&registrations), 0);
    for (int i = 1; i <= 2; i++) {
        /* Without its slot. The same record shows that no worker has the step, and that its number is used. */
        const struct report *park = engine_fixture_expect(&fixture, REPORT_PARKED, i, NULL, -1, 1);
        assert_int_equal(park->delay_us, 0);
        assert_int_equal(park->step.state, STEP_WAITING);
        assert_int_equal(park->step.attempt, 1);
        assert_string_equal(park->step.error_code, "no_worker");
    }
    assert_int_equal(task_hub_figures(hub).workers, 0);
    join("w1");
    assert_int_equal(atomic_load(&registrations), 1);
}

static void a_failed_registration_is_repeated(void **state)
{
    (void)state;
    atomic_store(&refusals, 1);
    join("w1");
    assert_int_equal(atomic_load(&registrations), 0);
    pass(MICROSECONDS_PER_SECOND);
    assert_int_equal(atomic_load(&registrations), 1);
}

static void a_waiting_claim_keeps_its_worker(void **state)
{
    (void)state;
    struct waiting_claim waiting = {.waiter = {.wake = wake}};
    struct text answer = {.max = 1000};
    struct task_claim claim = claim_of("w1", 1);
    claim.deadline_us = atomic_load(&now_us) + 3 * LEASE_US;
    assert_int_equal(sem_init(&waiting.woken, 0, 0), 0);
    assert_int_equal(task_hub_claim(hub, &claim, &waiting.waiter, &answer, NULL), WEIR_OK);
    assert_int_equal(answer.length, 0);
    (void)task_hub_step(hub);
    pass(3 * LEASE_US - 1);
    assert_int_equal(sem_trywait(&waiting.woken), -1);
    assert_int_equal(task_hub_figures(hub).workers, 1);
    pass(1);
    await_wake(&waiting);
    assert_int_equal(task_hub_claim(hub, &claim, &waiting.waiter, &answer, NULL), WEIR_OK);
    assert_string_equal(answer.data, "{\"tasks\":[],\"lease_us\":10000000,\"waited_us\":30000000}");
    pass(BEFORE_LEASE_US);
    assert_int_equal(task_hub_figures(hub).workers, 1);
    pass(1);
    assert_int_equal(task_hub_figures(hub).workers, 0);
    text_close(&answer);
    (void)sem_destroy(&waiting.woken);
}

/* The lease of w2 runs when the wait of w1 ends. */
static void the_end_of_a_wait_leaves_the_leases_of_other_workers(void **state)
{
    (void)state;
    struct waiting_claim waiting = {.waiter = {.wake = wake}};
    struct text answer = {.max = 1000};
    struct task_claim claim = claim_of("w1", 1);
    claim.deadline_us = atomic_load(&now_us) + 1;
    assert_int_equal(sem_init(&waiting.woken, 0, 0), 0);
    assert_int_equal(task_hub_claim(hub, &claim, &waiting.waiter, &answer, NULL), WEIR_OK);
    join("w2");
    pass(1);
    await_wake(&waiting);
    assert_int_equal(task_hub_figures(hub).workers, 2);
    pass(BEFORE_LEASE_US);
    assert_int_equal(task_hub_figures(hub).workers, 1);
    pass(1);
    assert_int_equal(task_hub_figures(hub).workers, 0);
    assert_int_equal(atomic_load(&registrations), 0);
    text_close(&answer);
    (void)sem_destroy(&waiting.woken);
}

static void each_task_wakes_one_of_many_waiters(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static struct waiting_claim waiting[COUNT];
    struct text answer = {.max = 1000};
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "w%d", i);
        struct task_claim claim = claim_of(name, 1);
        claim.deadline_us = claim.arrived_us + LEASE_US / 2;
        waiting[i] = (struct waiting_claim){.waiter = {.wake = wake}};
        assert_int_equal(sem_init(&waiting[i].woken, 0, 0), 0);
        assert_int_equal(task_hub_claim(hub, &claim, &waiting[i].waiter, &answer, NULL), WEIR_OK);
    }
    (void)task_hub_step(hub);
    assert_int_equal(task_hub_figures(hub).workers, COUNT);
    assert_int_equal(task_hub_figures(hub).places, COUNT);
    start(1, "");
    start(2, "");
    await_wake(&waiting[0]);
    await_wake(&waiting[1]);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(sem_trywait(&waiting[i].woken), -1);
    }
    assert_int_equal(report(TASK_COMPLETE, "w0", claim_id("w0")), TASK_ACCEPTED);
    assert_int_equal(report(TASK_COMPLETE, "w1", claim_id("w1")), TASK_ACCEPTED);
    pass(LEASE_US / 2);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(sem_trywait(&waiting[i].woken), i < 2 ? -1 : 0);
        (void)sem_destroy(&waiting[i].woken);
    }
    (void)end_of(1, END_COMPLETED);
    (void)end_of(2, END_COMPLETED);
    text_close(&answer);
}

static void a_cancel_reaches_the_worker_with_its_heartbeat(void **state)
{
    (void)state;
    join("w1");
    start(1, "");
    const char *id = claim_id("w1");
    engine_cancel(fixture.engine, engine_fixture_id(1), 1);
    enum task_verdict verdict = TASK_ACCEPTED;
    for (int i = 0; i < WAIT_SECONDS * 1000 && verdict == TASK_ACCEPTED; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        verdict = report(TASK_HEARTBEAT, "w1", id);
    }
    assert_int_equal(verdict, TASK_CANCELLED);
    assert_int_equal(report_failure(id, "stopped", false, -1), TASK_ACCEPTED);
    (void)end_of(1, END_CANCELLED);
}

static void a_task_that_waits_ends_with_a_cancel(void **state)
{
    (void)state;
    join("w1");
    start(1, "");
    wait_for_figures(1, 0);
    engine_cancel(fixture.engine, engine_fixture_id(1), 1);
    wait_for_figures(0, 0);
    (void)task_hub_step(hub);
    (void)end_of(1, END_CANCELLED);
}

/* An execution of a workspace with this weight. */
static void start_in(const char *workspace, int weight, int number)
{
    struct engine_start start =
        engine_fixture_start_of(number, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"send\"}}}", "{}");
    struct task_figures before = task_hub_figures(hub);
    start.workspace = workspace;
    start.weight = weight;
    engine_fixture_start_with(&fixture, &start);
    wait_for_figures(before.waiting + 1, before.claimed);
}

static void start_many_in(const char *workspace, int weight, int first, int last)
{
    for (int number = first; number <= last; number++) {
        start_in(workspace, weight, number);
    }
}

/* Claims tasks, which are those of the executions with these numbers. */
static void claim_in_order(size_t count, const int *numbers)
{
    struct task_claim claim = claim_of("w1", count);
    json_t *answer = claim_once(&claim);
    const json_t *tasks = json_object_get(answer, "tasks");
    assert_int_equal(json_array_size(tasks), count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(json_string_value(json_object_get(json_array_get(tasks, i), "execution_id")),
                            engine_fixture_id(numbers[i]));
    }
    json_decref(answer);
}

static void workspaces_take_turns(void **state)
{
    (void)state;
    join("w1");
    start_many_in("large", 1, 1, 5);
    start_many_in("small", 1, 6, 7);
    start_in("third", 1, 8);
    claim_in_order(8, (const int[]){1, 6, 8, 2, 7, 3, 4, 5});
}

static void a_workspace_of_weight_two_takes_two_turns(void **state)
{
    (void)state;
    join("w1");
    start_many_in("light", 1, 1, 4);
    start_many_in("heavy", 2, 5, 8);
    claim_in_order(8, (const int[]){1, 5, 6, 2, 7, 8, 3, 4});
}

static void a_workspace_that_comes_later_waits_for_one_turn_of_each(void **state)
{
    (void)state;
    join("w1");
    start_many_in("large", 1, 1, 4);
    start_in("small", 1, 5);
    claim_in_order(2, (const int[]){1, 5});
    start_in("small", 1, 6);
    claim_in_order(4, (const int[]){2, 6, 3, 4});
}

static void a_task_that_leaves_its_queue_leaves_the_others_in_order(void **state)
{
    (void)state;
    const int cancelled[] = {3, 5, 1}; /* in the middle, the last one, and the first one: its workspace has had its turn */
    join("w1");
    start_many_in("large", 1, 1, 5);
    start_in("small", 1, 6);
    for (size_t i = 0; i < 3; i++) {
        engine_cancel(fixture.engine, engine_fixture_id(cancelled[i]), 1);
        wait_for_figures(5 - i, 0);
        (void)task_hub_step(hub);
        (void)end_of(cancelled[i], END_CANCELLED);
    }
    claim_in_order(3, (const int[]){6, 2, 4});
}

static void check_places(size_t places)
{
    (void)task_hub_step(hub);
    assert_int_equal(atomic_load(&told_places), places);
    assert_int_equal(task_hub_figures(hub).places, places);
}

static void places_are_those_of_the_live_workers(void **state)
{
    (void)state;
    check_places(0);
    join("w1"); /* with no place free */
    check_places(0);
    struct task_claim three = claim_of("w1", 3);
    assert_int_equal(count_claimed(&three), 0);
    check_places(3);
    start_many_in("acme", 1, 1, 2);
    three.max = 2; /* a part of its free places */
    assert_int_equal(count_claimed(&three), 2);
    check_places(2);
    three.max = 1;
    assert_int_equal(count_claimed(&three), 0);
    check_places(3);
    struct task_claim other = claim_of("w2", 4);
    assert_int_equal(count_claimed(&other), 0);
    check_places(7);
    char id[128];
    (void)snprintf(id, sizeof id, "%s/a/1/1", engine_fixture_id(1));
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    check_places(7); /* the place is free again */
    pass(BEFORE_LEASE_US);
    assert_int_equal(count_claimed(&other), 0);
    pass(1); /* the lease of w1 is over, with that of its task; it was touched by its report */
    check_places(4);
}

static void a_worker_takes_its_task_to_the_next_node(void **state)
{
    (void)state;
    char id[128];
    join("w2");
    (void)snprintf(id, sizeof id, "%s/a/1/3", engine_fixture_id(1)); /* of a node that died */
    assert_int_equal(report(TASK_HEARTBEAT, "w1", id), TASK_UNKNOWN);
    start_taken_over(1, 4);
    wait_for_figures(1, 0);
    struct task_claim claim = claim_of("w2", 1);
    assert_int_equal(count_claimed(&claim), 0); /* held for the worker that may run it */
    assert_int_equal(report(TASK_HEARTBEAT, "w1", id), TASK_ACCEPTED);
    assert_int_equal(report(TASK_HEARTBEAT, "w1", id), TASK_ACCEPTED);
    assert_int_equal(task_hub_figures(hub).claimed, 1);
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    assert_string_equal(end_of(1, END_COMPLETED)->step.output, "\"sent\"");
}

static void a_result_may_be_the_first_that_the_next_node_hears(void **state)
{
    (void)state;
    char id[128];
    join("w2");
    start_taken_over(1, 4);
    wait_for_figures(1, 0);
    (void)snprintf(id, sizeof id, "%s/a/1/4", engine_fixture_id(1));
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_LOST); /* of this claim, not of an earlier one */
    (void)snprintf(id, sizeof id, "%s/a/1/3", engine_fixture_id(1));
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    (void)end_of(1, END_COMPLETED);
}

static void start_pair(void)
{
    struct engine_start start = engine_fixture_start_of(
        1, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"send\"},\"b\":{\"handler\":\"send\"}}}", "{}");
    engine_fixture_start_with(&fixture, &start);
}

/* Its slot stays, since it cannot be parked. The records save both steps the hold at the next node. */
static void an_execution_with_another_step_under_way_is_given_back(void **state)
{
    (void)state;
    join("w1");
    start_pair();
    wait_for_figures(2, 0);
    (void)claim_id("w1");
    pass(LEASE_US);
    (void)engine_fixture_expect(&fixture, REPORT_GIVEN_BACK, 1, NULL, -1, 1);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_PARKED, engine_fixture_id(1), NULL, -1), 0);
    for (const char *step = "a"; step != NULL; step = strcmp(step, "a") == 0 ? "b" : NULL) {
        const struct report *wait = engine_fixture_expect(&fixture, REPORT_STEP, 1, step, STEP_WAITING, 1);
        assert_string_equal(wait->step.error_code, "no_worker");
    }
}

/* A worker may run the first one, and goes on with it. */
static void of_a_stopping_node_only_a_claimed_task_is_held_by_the_next(void **state)
{
    (void)state;
    join("w1");
    start(1, "");
    (void)claim_id("w1");
    start(2, "");
    wait_for_figures(1, 1);
    engine_stop(fixture.engine, true);
    wait_for_figures(0, 0);
    (void)task_hub_step(hub);
    for (int i = 1; i <= 2; i++) {
        (void)engine_fixture_expect(&fixture, REPORT_GIVEN_BACK, i, NULL, -1, 1);
        const struct report *wait = engine_fixture_expect(&fixture, REPORT_STEP, i, "a", STEP_WAITING, 1);
        assert_string_equal(wait->step.error_code, i == 1 ? "interrupted" : "no_worker");
    }
}

/* The record of the former node shows that no worker has the step. The attempt is on record before it begins, so that the
 * next node can rely on the record, too. */
static void a_step_that_no_worker_had_is_offered_at_once(void **state)
{
    (void)state;
    struct step_record record = {
        .step = "a", .state = STEP_WAITING, .attempt = 2, .exit_code = -1, .error_code = STEP_NO_WORKER};
    for (int i = 1; i <= 2; i++) { /* handed over, and behind a park */
        struct engine_start start =
            engine_fixture_start_of(i, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"send\"}}}", "{}");
        start.fence = 4;
        start.interruptions = i == 1;
        start.steps = &record;
        start.step_count = 1;
        join("w2");
        engine_fixture_start_with(&fixture, &start);
        wait_for_figures(1, 0);
        struct task_claim claim = claim_of("w2", 1);
        assert_int_equal(count_claimed(&claim), 1);
        assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, engine_fixture_id(i), "a", STEP_RUNNING), 1);
        char id[128];
        (void)snprintf(id, sizeof id, "%s/a/3/4", engine_fixture_id(i)); /* the number behind that of the record */
        assert_int_equal(report(TASK_COMPLETE, "w2", id), TASK_ACCEPTED);
        (void)end_of(i, END_COMPLETED);
    }
}

static void a_step_that_nobody_continues_is_offered_after_one_lease(void **state)
{
    (void)state;
    char id[128];
    join("w2");
    start_taken_over(1, 4);
    wait_for_figures(1, 0);
    struct task_claim claim = claim_of("w2", 1);
    pass(LEASE_US - 5 * MICROSECONDS_PER_SECOND);
    assert_int_equal(count_claimed(&claim), 0);
    join("w2");
    pass(5 * MICROSECONDS_PER_SECOND);
    const char *second = claim_id("w2");
    (void)snprintf(id, sizeof id, "%s/a/1/3", engine_fixture_id(1));
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_LOST);
    assert_int_equal(report(TASK_COMPLETE, "w2", second), TASK_ACCEPTED);
    (void)end_of(1, END_COMPLETED);
}

static void an_abandoned_execution_leaves_its_worker_running(void **state)
{
    (void)state;
    join("w1");
    start(1, "");
    const char *id = claim_id("w1");
    engine_abandon(fixture.engine, engine_fixture_id(1), 1);
    wait_for_figures(0, 0);
    assert_int_equal(report(TASK_HEARTBEAT, "w1", id), TASK_UNKNOWN);
    (void)task_hub_step(hub);
    start_taken_over(1, 2); /* this node gets it again */
    wait_for_figures(1, 0);
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    (void)end_of(1, END_COMPLETED);
}

/* The same name with another token is another worker. */
static void a_worker_is_known_by_its_token_too(void **state)
{
    (void)state;
    static const char *const others[] = {"print"};
    join("w1");
    start(1, "");
    const char *id = claim_id("w1");
    struct task_claim foreign = {.token_id = 2, .worker = "w1", .handlers = others, .handler_count = 1};
    assert_int_equal(count_claimed(&foreign), 0);
    (void)task_hub_step(hub);
    assert_int_equal(atomic_load(&registrations), 2); /* "send" has its worker still */
    assert_int_equal(task_hub_figures(hub).workers, 2);
    struct task_report report_of = {.kind = TASK_COMPLETE, .token_id = 2, .worker = "w1", .task = id, .retry_after_us = -1};
    assert_int_equal(task_hub_report(hub, &report_of), TASK_LOST);
    assert_int_equal(report(TASK_COMPLETE, "w1", id), TASK_ACCEPTED);
    (void)end_of(1, END_COMPLETED);
}

static void an_answer_has_as_many_tasks_as_fit(void **state)
{
    (void)state;
    join("w1");
    for (int i = 1; i <= 3; i++) {
        start(i, "");
    }
    wait_for_figures(3, 0);
    struct text answer = {.max = 700};
    struct task_claim claim = claim_of("w1", 3);
    assert_int_equal(task_hub_claim(hub, &claim, NULL, &answer, NULL), WEIR_OK);
    wait_for_figures(1, 2);
    assert_string_equal(answer.data + answer.length - strlen("}],\"lease_us\":10000000,\"waited_us\":0}"),
                        "}],\"lease_us\":10000000,\"waited_us\":0}");
    text_close(&answer);
    struct text small = {.max = 20};
    struct weir_error error;
    assert_int_equal(task_hub_claim(hub, &claim, NULL, &small, &error), WEIR_FAILED);
    text_close(&small);
}

static void a_stopped_hub_gives_everything_back(void **state)
{
    (void)state;
    join("w1");
    start(1, "");
    const char *id = claim_id("w1");
    start(2, "");
    wait_for_figures(1, 1);
    struct waiting_claim waiting = {.waiter = {.wake = wake}};
    struct text answer = {.max = 1000};
    static const char *const others[] = {"print"};
    struct task_claim claim = {.worker = "w2",
                               .handlers = others,
                               .handler_count = 1,
                               .max = 1,
                               .deadline_us = TIME_NEVER,
                               .arrived_us = atomic_load(&now_us)};
    assert_int_equal(sem_init(&waiting.woken, 0, 0), 0);
    assert_int_equal(task_hub_claim(hub, &claim, &waiting.waiter, &answer, NULL), WEIR_OK);
    task_hub_stop(hub);
    (void)task_hub_step(hub);
    await_wake(&waiting);
    assert_int_equal(task_hub_claim(hub, &claim, &waiting.waiter, &answer, NULL), WEIR_STOPPED);
    assert_int_equal(report(TASK_HEARTBEAT, "w1", id), TASK_UNKNOWN); /* it moves on with its task */
    (void)engine_fixture_expect(&fixture, REPORT_GIVEN_BACK, 1, NULL, -1, 1);
    (void)engine_fixture_expect(&fixture, REPORT_PARKED, 2, NULL, -1, 1); /* no worker has had its task */
    assert_int_equal(atomic_load(&registrations), 1);                     /* the node may be closed already */
    text_close(&answer);
    (void)sem_destroy(&waiting.woken);
}

static void expect_refusal(struct task_claim claim, const char *text)
{
    struct text answer = {.max = 1000};
    struct weir_error error = {.status = WEIR_OK};
    assert_int_equal(task_hub_claim(hub, &claim, NULL, &answer, &error), WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, text));
}

static void a_claim_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"No Name"};
    char longest[TASK_WORKER_NAME_MAX + 2];
    memset(longest, 'w', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    expect_refusal(claim_of("", 1), "`worker`");
    expect_refusal(claim_of(longest, 1), "`worker`");
    expect_refusal(claim_of("w1", TASK_CLAIM_MAX + 1), "`max`");
    struct task_claim claim = claim_of("w1", 1);
    claim.handler_count = 0;
    expect_refusal(claim, "`handlers`");
    claim.handlers = names;
    claim.handler_count = 1;
    expect_refusal(claim, "\"No Name\"");
}

/* Claims as a worker that `number` names, for a handler of this number; until one is refused. */
static int count_until_full(int64_t token_id, bool is_handler, int from)
{
    struct text answer = {.max = 1000};
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status = WEIR_OK;
    int count = 0;
    while (status == WEIR_OK) {
        char name[16];
        const char *const names[] = {is_handler ? name : "send"};
        (void)snprintf(name, sizeof name, "h%d", from + count);
        struct task_claim claim = {
            .token_id = token_id, .worker = is_handler ? "w1" : name, .handlers = names, .handler_count = 1};
        text_clear(&answer);
        status = task_hub_claim(hub, &claim, NULL, &answer, &error);
        count += status == WEIR_OK;
    }
    assert_int_equal(status, WEIR_QUEUE_FULL);
    text_close(&answer);
    return count;
}

static void too_many_handlers_are_refused(void **state)
{
    (void)state;
    assert_int_equal(count_until_full(1, true, 0), TASK_HANDLERS_OF_TOKEN_MAX);
    assert_int_equal(count_until_full(2, true, TASK_HANDLERS_MAX), TASK_HANDLERS_MAX - TASK_HANDLERS_OF_TOKEN_MAX);
    assert_int_equal(count_until_full(0, true, TASK_HANDLERS_MAX * 2), 0);
}

static void too_many_workers_are_refused(void **state)
{
    (void)state;
    assert_int_equal(count_until_full(1, false, 0), TASK_WORKERS_OF_TOKEN_MAX);
    assert_int_equal(count_until_full(0, false, 0), TASK_WORKERS_MAX - TASK_WORKERS_OF_TOKEN_MAX);
}

static void ids_that_no_claim_gave_are_unknown(void **state)
{
    (void)state;
    static const char *const ids[] = {"",
                                      "/",
                                      "a/b/c/d",
                                      "x/a/1",
                                      "x/a/1/",
                                      "x/a/-1/1",
                                      "x/a/1/1/1",
                                      "x/a/1/99999999999999999999",
                                      "00000000-0000-7000-8000-000000000001/a/1/1"};
    join("w1");
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        assert_int_equal(report(TASK_COMPLETE, "w1", ids[i]), TASK_UNKNOWN);
    }
}

static void old_reports_make_space_for_later_ones(void **state)
{
    (void)state;
    join("w1");
    start(1, ",\"retry\":{\"attempts\":2,\"backoff\":\"1ms\"}");
    const char *first = claim_id("w1");
    assert_int_equal(report_failure(first, "busy", false, -1), TASK_ACCEPTED);
    const char *second = claim_id("w1");
    assert_int_equal(report_failure(first, "busy", false, -1), TASK_ACCEPTED);
    assert_int_equal(report(TASK_COMPLETE, "w1", second), TASK_ACCEPTED);
    (void)end_of(1, END_COMPLETED);
}

static void a_lease_has_bounds(void **state)
{
    (void)state;
    static const int64_t leases[] = {1, TASK_LEASE_LEAST_US - 1, TASK_LEASE_MOST_US + 1, -1};
    struct task_hub *other = NULL;
    for (size_t i = 0; i < sizeof leases / sizeof leases[0]; i++) {
        struct task_hub_options options = {.lease_us = leases[i],
                                           .clock = &virtual_clock,
                                           .register_handler = register_handler,
                                           .unregister_handler = unregister_handler};
        assert_int_equal(task_hub_open(&options, &other, NULL), WEIR_INVALID_ARGUMENT);
        assert_null(other);
    }
    task_hub_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(a_claimed_task_has_all_that_a_worker_needs),
        HUB_TEST(each_failure_of_a_worker_is_that_of_a_handler),
        HUB_TEST(the_same_report_is_accepted_twice_and_counts_once),
        HUB_TEST(a_worker_reports_its_own_tasks_only),
        HUB_TEST(a_lost_lease_gives_the_step_to_another_worker),
        HUB_TEST(the_third_lost_worker_counts_as_a_failure),
        HUB_TEST(without_a_worker_the_handler_and_its_tasks_leave_the_node),
        HUB_TEST(a_failed_registration_is_repeated),
        HUB_TEST(a_waiting_claim_keeps_its_worker),
        HUB_TEST(the_end_of_a_wait_leaves_the_leases_of_other_workers),
        HUB_TEST(each_task_wakes_one_of_many_waiters),
        HUB_TEST(a_cancel_reaches_the_worker_with_its_heartbeat),
        HUB_TEST(a_task_that_waits_ends_with_a_cancel),
        HUB_TEST(workspaces_take_turns),
        HUB_TEST(a_workspace_of_weight_two_takes_two_turns),
        HUB_TEST(a_workspace_that_comes_later_waits_for_one_turn_of_each),
        HUB_TEST(a_task_that_leaves_its_queue_leaves_the_others_in_order),
        HUB_TEST(places_are_those_of_the_live_workers),
        HUB_TEST(a_worker_takes_its_task_to_the_next_node),
        HUB_TEST(a_result_may_be_the_first_that_the_next_node_hears),
        HUB_TEST(an_execution_with_another_step_under_way_is_given_back),
        HUB_TEST(of_a_stopping_node_only_a_claimed_task_is_held_by_the_next),
        HUB_TEST(a_step_that_no_worker_had_is_offered_at_once),
        HUB_TEST(a_step_that_nobody_continues_is_offered_after_one_lease),
        HUB_TEST(an_abandoned_execution_leaves_its_worker_running),
        HUB_TEST(a_worker_is_known_by_its_token_too),
        HUB_TEST(an_answer_has_as_many_tasks_as_fit),
        HUB_TEST(a_stopped_hub_gives_everything_back),
        HUB_TEST(a_claim_that_makes_no_sense_is_refused),
        HUB_TEST(too_many_handlers_are_refused),
        HUB_TEST(too_many_workers_are_refused),
        HUB_TEST(ids_that_no_claim_gave_are_unknown),
        HUB_TEST(old_reports_make_space_for_later_ones),
        HUB_TEST(a_lease_has_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
