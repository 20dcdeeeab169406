#include "base/fifo_mutex.h"

#include <sched.h>

#include "support/test.h"

enum { WAITERS = 8, ROUNDS = 2000 };

static struct fifo_mutex lock;
static int order[WAITERS];
static int served;
static long counter;

static void *wait_in_line(void *context)
{
    assert_true(fifo_mutex_take(&lock, 30000000));
    order[served++] = (int)(intptr_t)context;
    fifo_mutex_release(&lock);
    return NULL;
}

/* Counts the queue under its guard, so that a waiter is known to be in line before the next one comes. */
static int in_line(void)
{
    int count = 0;
    (void)pthread_mutex_lock(&lock.guard);
    for (struct turn_waiter **at = &lock.first; at != lock.last && count < WAITERS; at = (struct turn_waiter **)*at) {
        count++;
    }
    (void)pthread_mutex_unlock(&lock.guard);
    return count;
}

static void the_mutex_is_given_in_the_order_of_arrival(void **state)
{
    (void)state;
    pthread_t threads[WAITERS];
    fifo_mutex_init(&lock);
    served = 0;
    assert_true(fifo_mutex_take(&lock, 0));
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wait_in_line, (void *)(intptr_t)i), 0);
        while (in_line() < i + 1) {
            (void)sched_yield();
        }
    }
    fifo_mutex_release(&lock);
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(order[i], i);
    }
    fifo_mutex_close(&lock);
}

static void a_deadline_ends_the_wait_and_leaves_the_line_whole(void **state)
{
    (void)state;
    pthread_t thread;
    fifo_mutex_init(&lock);
    served = 0;
    assert_true(fifo_mutex_take(&lock, 0));
    assert_false(fifo_mutex_take(&lock, 1000));
    assert_int_equal(in_line(), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_in_line, (void *)(intptr_t)7), 0);
    while (in_line() < 1) {
        (void)sched_yield();
    }
    assert_false(fifo_mutex_take(&lock, 1000));
    fifo_mutex_release(&lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(order[0], 7);
    fifo_mutex_close(&lock);
}

static void *count_up(void *context)
{
    (void)context;
    for (int i = 0; i < ROUNDS; i++) {
        assert_true(fifo_mutex_take(&lock, 30000000));
        counter++;
        fifo_mutex_release(&lock);
    }
    return NULL;
}

static void it_excludes(void **state)
{
    (void)state;
    pthread_t threads[4];
    fifo_mutex_init(&lock);
    counter = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(counter, 4 * ROUNDS);
    fifo_mutex_close(&lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mutex_is_given_in_the_order_of_arrival),
        cmocka_unit_test(a_deadline_ends_the_wait_and_leaves_the_line_whole),
        cmocka_unit_test(it_excludes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
