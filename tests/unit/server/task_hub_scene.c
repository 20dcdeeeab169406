/* The scene of the tests of tasks (task_hub_scene.h). */
#include "task_hub_scene.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "engine/engine.h"
#include "support/test.h"

struct engine_fixture fixture;
struct task_hub *hub;
_Atomic int64_t now_us;
atomic_int registrations;
atomic_int refusals;
_Atomic size_t told_places;

static int64_t read_clock(void *context)
{
    (void)context;
    return atomic_load(&now_us);
}

const struct clock virtual_clock = {.wall_us = read_clock, .boot_us = read_clock};

enum weir_status register_handler(void *context, const struct weir_handler *handler)
{
    (void)context;
    if (atomic_load(&refusals) > 0) {
        atomic_fetch_sub(&refusals, 1);
        return WEIR_OUT_OF_MEMORY;
    }
    atomic_fetch_add(&registrations, 1);
    return engine_add_handler(fixture.engine, handler, NULL);
}

enum weir_status unregister_handler(void *context, const char *name)
{
    (void)context;
    atomic_fetch_sub(&registrations, 1);
    return engine_remove_handler(fixture.engine, name, NULL);
}

void set_places(void *context, size_t places)
{
    (void)context;
    atomic_store(&told_places, places);
}

int open_hub(void **state)
{
    (void)state;
    atomic_store(&now_us, 1000 * MICROSECONDS_PER_SECOND);
    atomic_store(&registrations, 0);
    atomic_store(&refusals, 0);
    atomic_store(&told_places, SIZE_MAX);
    engine_fixture_open(&fixture, &(struct in_process_options){.handler_threads = 1});
    struct task_hub_options options = {.clock = &virtual_clock,
                                       .register_handler = register_handler,
                                       .unregister_handler = unregister_handler,
                                       .set_places = set_places};
    assert_int_equal(task_hub_open(&options, &hub, NULL), WEIR_OK);
    return 0;
}

/* The engine waits for its calls at the close, which a thread of the hub answers. */
int close_hub(void **state)
{
    (void)state;
    task_hub_stop(hub);
    assert_int_equal(task_hub_run_thread(hub, NULL), WEIR_OK);
    engine_fixture_close(&fixture);
    task_hub_close(hub);
    return 0;
}

void pass(int64_t duration_us)
{
    atomic_fetch_add(&now_us, duration_us);
    (void)task_hub_step(hub);
}

/* --- claims --- */

void wake(struct task_waiter *waiter)
{
    assert_int_equal(sem_post(&((struct waiting_claim *)(void *)waiter)->woken), 0);
}

void await_wake(struct waiting_claim *waiting)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECONDS;
    assert_int_equal(sem_timedwait(&waiting->woken, &until), 0);
}

struct task_claim claim_of(const char *worker, size_t max)
{
    static const char *const handlers[] = {"send"};
    return (struct task_claim){.worker = worker,
                               .handlers = handlers,
                               .handler_count = 1,
                               .max = max,
                               .deadline_us = TIME_NEVER,
                               .arrived_us = atomic_load(&now_us)};
}

json_t *claim_once(const struct task_claim *claim)
{
    struct text answer = {.max = 1 << 20};
    json_t *value;
    assert_int_equal(task_hub_claim(hub, claim, NULL, &answer, NULL), WEIR_OK);
    assert_int_equal(json_read(answer.data, answer.length, &value, NULL), WEIR_OK);
    text_close(&answer);
    return value;
}

size_t count_claimed(const struct task_claim *claim)
{
    json_t *answer = claim_once(claim);
    size_t count = json_array_size(json_object_get(answer, "tasks"));
    json_decref(answer);
    return count;
}

json_t *claim_with(const struct task_claim *claim)
{
    struct waiting_claim waiting = {.waiter = {.wake = wake}};
    struct text answer = {.max = 1 << 20};
    json_t *value;
    assert_int_equal(sem_init(&waiting.woken, 0, 0), 0);
    assert_int_equal(task_hub_claim(hub, claim, &waiting.waiter, &answer, NULL), WEIR_OK);
    while (answer.length == 0) {
        await_wake(&waiting);
        assert_int_equal(task_hub_claim(hub, claim, &waiting.waiter, &answer, NULL), WEIR_OK);
    }
    assert_int_equal(sem_destroy(&waiting.woken), 0);
    assert_int_equal(json_read(answer.data, answer.length, &value, NULL), WEIR_OK);
    text_close(&answer);
    json_t *task = json_incref(json_array_get(json_object_get(value, "tasks"), 0));
    assert_non_null(task);
    json_decref(value);
    return task;
}

const char *claim_id(const char *worker)
{
    static char ids[8][256];
    static int next;
    struct task_claim claim = claim_of(worker, 1);
    json_t *task = claim_with(&claim);
    char *id = ids[next++ % 8];
    (void)snprintf(id, sizeof ids[0], "%s", json_string_value(json_object_get(task, "task")));
    json_decref(task);
    return id;
}

void join(const char *worker)
{
    struct task_claim claim = claim_of(worker, 0);
    assert_int_equal(count_claimed(&claim), 0);
    (void)task_hub_step(hub);
}

void start(int number, const char *more)
{
    char definition[256];
    (void)snprintf(definition, sizeof definition, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"send\"%s}}}", more);
    engine_fixture_start(&fixture, number, definition, "{\"to\":\"ada\"}");
}

void start_taken_over(int number, int64_t fence)
{
    struct engine_start start =
        engine_fixture_start_of(number, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"send\"}}}", "{}");
    start.fence = fence;
    start.interruptions = 1;
    engine_fixture_start_with(&fixture, &start);
}

/* --- reports --- */

void await_record(const char *task)
{
    struct waiting_claim waiting = {.waiter = {.wake = wake}};
    assert_int_equal(sem_init(&waiting.woken, 0, 0), 0);
    enum task_record record = task_hub_await_record(hub, task, atomic_load(&now_us), &waiting.waiter);
    assert_int_not_equal(record, TASK_RECORD_LATE);
    if (record == TASK_RECORD_AWAITED) {
        await_wake(&waiting);
    }
    assert_int_equal(sem_destroy(&waiting.woken), 0);
}

enum task_verdict give(const struct task_report *report)
{
    enum task_verdict verdict = task_hub_report(hub, report);
    while (verdict == TASK_UNRECORDED) {
        await_record(report->task);
        verdict = task_hub_report(hub, report);
    }
    return verdict;
}

enum task_verdict report_once(enum task_report_kind kind, const char *worker, const char *task)
{
    struct task_report report = {.kind = kind, .worker = worker, .task = task, .output = "\"sent\"", .retry_after_us = -1};
    return task_hub_report(hub, &report);
}

enum task_verdict report(enum task_report_kind kind, const char *worker, const char *task)
{
    struct task_report report = {.kind = kind, .worker = worker, .task = task, .output = "\"sent\"", .retry_after_us = -1};
    return give(&report);
}

enum task_verdict report_failure(const char *task, const char *code, bool is_final, int64_t retry_after_us)
{
    struct task_report report = {.kind = TASK_FAIL,
                                 .worker = "w1",
                                 .task = task,
                                 .code = code,
                                 .error = "no",
                                 .is_final = is_final,
                                 .retry_after_us = retry_after_us};
    return give(&report);
}

const struct report *end_of(int number, enum end_state end)
{
    return engine_fixture_expect_end(&fixture, number, end);
}

void wait_for_figures(size_t waiting, size_t claimed)
{
    struct task_figures figures = task_hub_figures(hub);
    for (int i = 0; i < WAIT_SECONDS * 1000 && (figures.waiting != waiting || figures.claimed != claimed); i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        figures = task_hub_figures(hub);
    }
    assert_int_equal(figures.waiting, waiting);
    assert_int_equal(figures.claimed, claimed);
}
