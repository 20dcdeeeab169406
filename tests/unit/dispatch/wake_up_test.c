/* How loops sleep and are woken, where the order of two threads decides: the test takes the part of the slow one. */
#include <poll.h>

#include "dispatch/node_parts.h"
#include "unit/dispatch/bench.h"

static bool is_readable(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, 0) == 1;
}

/* Whoever wakes has said so, and is held up before his write. */
static void say_wake(struct node *node, enum loop loop)
{
    atomic_store(&node->woken[loop], true);
}

static void write_wake(const struct node *node, enum loop loop)
{
    uint64_t one = 1;
    assert_int_equal(write(node->wake_fds[loop], &one, sizeof one), sizeof one);
}

static void a_wake_whose_write_comes_late_lets_its_loop_sleep_again(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    for (enum loop loop = 0; loop < LOOP_COUNT; loop++) {
        (void)loop_take_wake(bench->node, loop);
        say_wake(bench->node, loop);
        loop_sleep(bench->node, loop, bench->now_us); /* hears of it */
        write_wake(bench->node, loop);
        loop_sleep(bench->node, loop, bench->now_us);
        assert_false(is_readable(bench->node->wake_fds[loop]));
    }
}

static void a_wake_whose_write_comes_late_does_not_keep_the_caller_of_steps_awake(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    (void)node_take_wakes(bench->node);
    say_wake(bench->node, LOOP_DISPATCH);
    assert_int_equal(node_take_wakes(bench->node), 1U << LOOP_DISPATCH);
    write_wake(bench->node, LOOP_DISPATCH);
    assert_true(is_readable(node_fd(bench->node)));
    assert_int_equal(node_take_wakes(bench->node), 0);
    assert_false(is_readable(bench->node->wake_fds[LOOP_DISPATCH]));
}

/* The late write and another wake's are read as one, whichever flag is seen. */
static void wakes_are_counted_whatever_their_order(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    struct node *node = bench->node;
    (void)node_take_wakes(node);
    say_wake(node, LOOP_RECORD);
    assert_true(loop_take_wake(node, LOOP_RECORD));
    say_wake(node, LOOP_RECORD); /* another one; of the two writes comes one */
    write_wake(node, LOOP_RECORD);
    assert_true(loop_take_wake(node, LOOP_RECORD));
    assert_false(is_readable(node->wake_fds[LOOP_RECORD]));
    write_wake(node, LOOP_RECORD);
    assert_false(loop_take_wake(node, LOOP_RECORD));
    assert_false(is_readable(node->wake_fds[LOOP_RECORD]));
    loop_wake(node, LOOP_RECORD);
    assert_true(is_readable(node->wake_fds[LOOP_RECORD]));
    assert_true(loop_take_wake(node, LOOP_RECORD));
    assert_false(is_readable(node->wake_fds[LOOP_RECORD]));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_wake_whose_write_comes_late_lets_its_loop_sleep_again),
        TEST(a_wake_whose_write_comes_late_does_not_keep_the_caller_of_steps_awake),
        TEST(wakes_are_counted_whatever_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
