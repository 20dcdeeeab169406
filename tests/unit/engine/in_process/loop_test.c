#include "engine/in_process/loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "base/random.h"
#include "support/test.h"

static int64_t now_us;

static int64_t read_now(void *context)
{
    (void)context;
    return now_us;
}

static const struct clock test_clock = {.wall_us = read_now, .boot_us = read_now};

enum { TIMERS = 300 };

static int64_t fired[TIMERS];
static size_t fired_count;

static void note(struct timer *timer)
{
    fired[fired_count++] = timer->due_us;
}

static void timers_fire_in_the_order_of_their_due_times(void **state)
{
    (void)state;
    static struct timer timers[TIMERS];
    struct loop loop;
    struct random random;
    random_seed(&random, 42);
    now_us = 0;
    fired_count = 0;
    assert_int_equal(loop_init(&loop, &test_clock, NULL), WEIR_OK);
    assert_int_equal(loop_reserve_timers(&loop, TIMERS), WEIR_OK);
    for (size_t i = 0; i < TIMERS; i++) {
        timers[i].fire = note;
        loop_set_timer(&loop, &timers[i], (int64_t)random_below(&random, 1000));
    }
    for (size_t i = 0; i < TIMERS; i += 3) {
        loop_set_timer(&loop, &timers[i], (int64_t)random_below(&random, 1000)); /* moved */
    }
    for (size_t i = 1; i < TIMERS; i += 3) {
        loop_clear_timer(&loop, &timers[i]);
    }
    for (now_us = 0; now_us <= 1007; now_us += 7) {
        int64_t next_us = loop_fire_timers(&loop);
        assert_true(next_us > now_us);
    }
    assert_int_equal(fired_count, TIMERS - TIMERS / 3);
    for (size_t i = 1; i < fired_count; i++) {
        assert_true(fired[i - 1] <= fired[i]);
    }
    loop_close(&loop);
}

static void timer_set_to_never_is_cleared(void **state)
{
    (void)state;
    struct loop loop;
    struct timer timer = {.fire = note};
    now_us = 0;
    fired_count = 0;
    assert_int_equal(loop_init(&loop, &test_clock, NULL), WEIR_OK);
    loop_set_timer(&loop, &timer, 5);
    loop_set_timer(&loop, &timer, TIME_NEVER);
    now_us = 10;
    assert_true(loop_fire_timers(&loop) == TIME_NEVER);
    assert_int_equal(fired_count, 0);
    loop_close(&loop);
}

struct pair {
    struct loop *loop;
    struct watch *other;
    int calls;
};

static void drop_other(struct watch *watch, uint32_t events)
{
    (void)events;
    struct pair *pair = watch->owner;
    pair->calls++;
    loop_unwatch(pair->loop, pair->other);
    loop_unwatch(pair->loop, watch);
}

static void watch_removed_by_another_of_the_same_wait_is_not_called(void **state)
{
    (void)state;
    struct loop loop;
    int ends[2][2];
    struct pair pairs[2];
    struct watch watches[2];
    assert_int_equal(loop_init(&loop, clock_system(), NULL), WEIR_OK);
    for (int i = 0; i < 2; i++) {
        pairs[i] = (struct pair){.loop = &loop, .other = &watches[1 - i]};
        watches[i] = (struct watch){.fd = -1, .ready = drop_other, .owner = &pairs[i]};
        assert_int_equal(pipe(ends[i]), 0);
        assert_int_equal(write(ends[i][1], "x", 1), 1);
        assert_int_equal(loop_watch(&loop, &watches[i], ends[i][0], EPOLLIN), WEIR_OK);
    }
    loop_wait(&loop, 0);
    loop_wait(&loop, 0);
    assert_int_equal(pairs[0].calls + pairs[1].calls, 1);
    for (int i = 0; i < 2; i++) {
        (void)close(ends[i][0]);
        (void)close(ends[i][1]);
    }
    loop_close(&loop);
}

static void wake_up_ends_the_sleep_and_costs_an_awake_loop_no_system_call(void **state)
{
    (void)state;
    struct loop loop;
    uint64_t rings;
    assert_int_equal(loop_init(&loop, clock_system(), NULL), WEIR_OK);
    loop_notify(&loop); /* awake: no wake-up */
    assert_int_equal(read(loop.wake_fd, &rings, sizeof rings), -1);
    loop_set_asleep(&loop, true);
    loop_notify(&loop);
    loop_wait(&loop, TIME_NEVER); /* returns because of the bell */
    assert_int_equal(read(loop.wake_fd, &rings, sizeof rings), -1);
    loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_the_order_of_their_due_times),
        cmocka_unit_test(timer_set_to_never_is_cleared),
        cmocka_unit_test(watch_removed_by_another_of_the_same_wait_is_not_called),
        cmocka_unit_test(wake_up_ends_the_sleep_and_costs_an_awake_loop_no_system_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
