#include "base/fifo_mutex.h"

#include <sched.h>
#include <time.h>

#include "support/test.h"

enum { WAITERS = 8, ROUNDS = 2000, SECOND_US = 1000000, PATIENCE_US = 1000 };

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

/* So a waiter is known to be in line before the next one comes. */
static int in_line(void)
{
    return (int)fifo_mutex_waiting(&lock);
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

static void *wait_patiently(void *context)
{
    assert_true(fifo_mutex_take_patiently(&lock, 10 * SECOND_US));
    order[served++] = (int)(intptr_t)context;
    fifo_mutex_release(&lock);
    return NULL;
}

static pthread_t start_waiter(void *(*wait)(void *), int number)
{
    pthread_t thread;
    int before = in_line();
    assert_int_equal(pthread_create(&thread, NULL, wait, (void *)(intptr_t)number), 0);
    while (in_line() == before) {
        (void)sched_yield();
    }
    return thread;
}

static void begin_as_holder(void)
{
    fifo_mutex_init(&lock);
    served = 0;
    assert_true(fifo_mutex_take(&lock, 0));
}

static void a_reserved_mutex_passes_over_patient_callers(void **state)
{
    (void)state;
    begin_as_holder();
    pthread_t threads[] = {start_waiter(wait_patiently, 1), start_waiter(wait_in_line, 2), start_waiter(wait_in_line, 3)};
    fifo_mutex_release_reserved(&lock, 30 * SECOND_US);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(order[0], 2);
    assert_int_equal(served, 3);
    fifo_mutex_close(&lock);
}

static void a_patient_caller_lets_another_one_that_waits_go_first(void **state)
{
    (void)state;
    begin_as_holder();
    pthread_t threads[] = {start_waiter(wait_patiently, 1), start_waiter(wait_in_line, 2)};
    fifo_mutex_release(&lock);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(order[0], 2);
    assert_int_equal(served, 2);
    fifo_mutex_close(&lock);
}

static void patient_callers_keep_their_order(void **state)
{
    (void)state;
    begin_as_holder();
    pthread_t threads[] = {start_waiter(wait_patiently, 1), start_waiter(wait_patiently, 2)};
    fifo_mutex_release(&lock);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(order[i], (int)i + 1);
    }
    fifo_mutex_close(&lock);
}

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

/* Until two wait, and longer than a caller is patient. */
static void *hold_for_long(void *context)
{
    assert_true(fifo_mutex_take(&lock, 30 * SECOND_US));
    order[served++] = (int)(intptr_t)context;
    int64_t end_us = now_us() + 10 * SECOND_US;
    while (in_line() < 2 && now_us() < end_us) {
        (void)sched_yield();
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    fifo_mutex_release(&lock);
    return NULL;
}

static void a_caller_that_was_patient_has_its_turn_before_later_ones(void **state)
{
    (void)state;
    begin_as_holder();
    pthread_t threads[3] = {start_waiter(wait_patiently, 1), start_waiter(hold_for_long, 2)};
    fifo_mutex_release(&lock);
    while (in_line() > 1) {
        (void)sched_yield();
    }
    threads[2] = start_waiter(wait_in_line, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(order[0], 2);
    assert_int_equal(order[1], 1);
    assert_int_equal(order[2], 3);
    fifo_mutex_close(&lock);
}

/* Long before the reservation ends, and before its own deadline. */
static void a_caller_is_patient_for_a_short_time(void **state)
{
    (void)state;
    begin_as_holder();
    pthread_t thread = start_waiter(wait_patiently, 1);
    int64_t began_us = now_us();
    fifo_mutex_release_reserved(&lock, 30 * SECOND_US);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(now_us() - began_us, PATIENCE_US, 5 * SECOND_US);
    assert_true(fifo_mutex_take_patiently(&lock, 10 * SECOND_US)); /* of a free mutex, too */
    assert_in_range(now_us() - began_us, 2 * PATIENCE_US, 5 * SECOND_US);
    fifo_mutex_release(&lock);
    fifo_mutex_close(&lock);
}

static void any_other_caller_takes_a_reserved_mutex_that_is_free(void **state)
{
    (void)state;
    begin_as_holder();
    fifo_mutex_release_reserved(&lock, 30 * SECOND_US);
    assert_true(fifo_mutex_take(&lock, 0));
    fifo_mutex_release(&lock);
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

static void *count_up_with_reservations(void *context)
{
    bool is_patient = context != NULL;
    for (int i = 0; i < ROUNDS; i++) {
        assert_true(is_patient ? fifo_mutex_take_patiently(&lock, 30 * SECOND_US) : fifo_mutex_take(&lock, 30 * SECOND_US));
        counter++;
        if (is_patient || i % 2 == 0) {
            fifo_mutex_release(&lock);
        } else {
            fifo_mutex_release_reserved(&lock, 1 + i % 50);
        }
    }
    return NULL;
}

static void it_excludes_with_reservations(void **state)
{
    (void)state;
    pthread_t threads[4];
    fifo_mutex_init(&lock);
    counter = 0;
    for (int i = 0; i < 4; i++) {
        void *is_patient = i % 2 == 0 ? NULL : &counter;
        assert_int_equal(pthread_create(&threads[i], NULL, count_up_with_reservations, is_patient), 0);
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
        cmocka_unit_test(a_reserved_mutex_passes_over_patient_callers),
        cmocka_unit_test(a_patient_caller_lets_another_one_that_waits_go_first),
        cmocka_unit_test(patient_callers_keep_their_order),
        cmocka_unit_test(a_caller_that_was_patient_has_its_turn_before_later_ones),
        cmocka_unit_test(a_caller_is_patient_for_a_short_time),
        cmocka_unit_test(any_other_caller_takes_a_reserved_mutex_that_is_free),
        cmocka_unit_test(it_excludes),
        cmocka_unit_test(it_excludes_with_reservations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
