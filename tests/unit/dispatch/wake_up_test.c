/* How loops get their threads, sleep and are woken. Where the order of two threads decides, the test takes the part of the
 * slow one. */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "dispatch/child_duty.h"
#include "dispatch/node_internal.h"
#include "dispatch/wake_up.h"
#include "support/refused_watches.h"
#include "unit/dispatch/bench.h"

static bool is_readable(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, 0) == 1;
}

/* A wake-up that has set its flag and is held up before its write. */
static void say_wake(struct node *node, enum loop loop)
{
    atomic_store(&node->threads.loops[loop].is_woken, true);
}

static void write_wake(const struct node *node, enum loop loop)
{
    uint64_t one = 1;
    assert_int_equal(write(node->threads.loops[loop].wake_fd, &one, sizeof one), sizeof one);
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
        assert_false(is_readable(bench->node->threads.loops[loop].wake_fd));
    }
}

/* The scheduler may read the news of a commit before its recorder has the answer. */
static void a_plan_of_children_wakes_the_duty_also_behind_its_news(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    for (int news_first = 0; news_first < 2; news_first++) {
        atomic_store(&bench->node->shared.children_due, false);
        atomic_store(&bench->node->shared.children_exist, 0);
        (void)loop_take_wake(bench->node, LOOP_MAINTENANCE);
        if (news_first == 1) {
            child_duty_news(bench->node);
        } else {
            child_duty_expect(bench->node);
        }
        assert_false(atomic_load(&bench->node->threads.loops[LOOP_MAINTENANCE].is_woken));
        if (news_first == 1) {
            child_duty_expect(bench->node);
        } else {
            child_duty_news(bench->node);
        }
        assert_true(atomic_load(&bench->node->threads.loops[LOOP_MAINTENANCE].is_woken));
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
    assert_false(is_readable(bench->node->threads.loops[LOOP_DISPATCH].wake_fd));
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
    assert_false(is_readable(node->threads.loops[LOOP_RECORD].wake_fd));
    write_wake(node, LOOP_RECORD);
    assert_false(loop_take_wake(node, LOOP_RECORD));
    assert_false(is_readable(node->threads.loops[LOOP_RECORD].wake_fd));
    loop_wake(node, LOOP_RECORD);
    assert_true(is_readable(node->threads.loops[LOOP_RECORD].wake_fd));
    assert_true(loop_take_wake(node, LOOP_RECORD));
    assert_false(is_readable(node->threads.loops[LOOP_RECORD].wake_fd));
}

static int64_t real_boot(void *context)
{
    (void)context;
    return clock_boot(clock_system());
}

/* A node with nothing to do would hear of other processes at its next poll alone. */
static void a_loop_whose_store_could_not_be_watched_asks_for_the_watch_while_it_sleeps(void **state)
{
    struct bench *bench = *state;
    bench->clock.boot_us = real_boot;
    bench->store->events = &bench->events; /* the handles of the loops are copies */
    start_node(bench);
    struct node *node = bench->node;
    (void)loop_take_wake(node, LOOP_DISPATCH);
    watches_to_refuse = 1;
    int64_t until_us = node_now(node) + MINUTE;
    loop_sleep(node, LOOP_DISPATCH, until_us);
    assert_true(node_now(node) < until_us); /* it looks for what it may have missed */
    assert_int_equal(watches_to_refuse, 0);
    assert_int_equal(bench->counts[EVENT_STORE_UNWATCHED], 1);
    assert_int_equal(bench->counts[EVENT_STORE_WATCHED], 1);
    assert_true(store_wake_fd(node->stores[LOOP_DISPATCH]) >= 0);
}

static int threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    assert_non_null(tasks);
    while ((entry = readdir(tasks)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(tasks);
    return count;
}

/* The kernel lists a thread for a moment longer than it takes to join it. */
static void await_threads(int expected)
{
    for (int i = 0; i < 60000 && threads() != expected; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    assert_int_equal(threads(), expected);
}

static rlim_t mapped_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    (void)fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* There is memory for the stacks of two threads, and a node needs four. */
static enum weir_status run_threads_with_room_for_two(struct bench *bench, struct weir_error *error)
{
    const rlim_t stack = (rlim_t)1 << 30;
    struct rlimit before;
    pthread_attr_t large;
    pthread_attr_t usual;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&large), 0);
    assert_int_equal(pthread_attr_setstacksize(&large, stack), 0);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    struct rlimit limit = {.rlim_cur = mapped_bytes() + 2 * stack + stack / 2, .rlim_max = before.rlim_max};
    assert_int_equal(pthread_setattr_default_np(&large), 0);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    enum weir_status status = node_run_threads(bench->node, error);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    (void)pthread_attr_destroy(&large);
    (void)pthread_attr_destroy(&usual);
    return status;
}

static void *tell_id(void *ret_id)
{
    *(pid_t *)ret_id = (pid_t)syscall(SYS_gettid);
    return NULL;
}

/* Of a sanitizer some have a thread more, which comes with the first one of the program. */
static int count_threads_before(void)
{
    pthread_t thread;
    pid_t id = 0;
    char path[64];
    assert_int_equal(pthread_create(&thread, NULL, tell_id, &id), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)snprintf(path, sizeof path, "/proc/self/task/%d", (int)id);
    while (access(path, F_OK) == 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    return threads();
}

static void a_node_that_gets_too_few_threads_runs_none(void **state)
{
    struct bench *bench = *state;
    struct weir_error error = {.status = WEIR_OK};
    char id[UUID_TEXT_MAX];
    start_node(bench);
    int before = count_threads_before();
    assert_int_equal(run_threads_with_room_for_two(bench, &error), WEIR_SYSTEM);
    assert_string_not_equal(error.message, "");
    await_threads(before);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
    assert_int_equal(node_run_threads(bench->node, &error), WEIR_OK);
    assert_int_equal(threads(), before + LOOP_COUNT);
}

static int descriptors(void)
{
    int count = 0;
    DIR *open_ones = opendir("/proc/self/fd");
    assert_non_null(open_ones);
    while (readdir(open_ones) != NULL) {
        count++;
    }
    (void)closedir(open_ones);
    return count;
}

/* A program may open and close nodes as often as it likes. */
static void a_closed_node_leaves_no_descriptor(void **state)
{
    struct bench *bench = *state;
    int before = descriptors();
    start_node(bench);
    assert_true(descriptors() > before);
    node_close(bench->node);
    bench->node = NULL;
    assert_int_equal(descriptors(), before);
}

/* --- each loop called as its thread would call it: at its time, or woken --- */

struct loops {
    int64_t next_us[LOOP_COUNT];
};

/* All that is to be done at this instant. */
static void do_what_is_due(struct bench *bench, struct loops *loops)
{
    static int64_t (*const steps[])(struct node *) = {
        [LOOP_DISPATCH] = node_dispatch_step,
        [LOOP_RECORD] = node_record_step,
        [LOOP_HEARTBEAT] = node_heartbeat_step,
        [LOOP_MAINTENANCE] = node_maintenance_step,
    };
    bool any = true;
    for (int rounds = 0; any; rounds++) {
        assert_true(rounds < 100);
        any = false;
        (void)scripted_world_pass_time(bench->world);
        (void)engine_step(bench->engine);
        unsigned woken = node_take_wakes(bench->node);
        for (int i = 0; i < LOOP_COUNT; i++) {
            if ((woken & 1U << i) != 0 || loops->next_us[i] <= bench->now_us) {
                loops->next_us[i] = steps[i](bench->node);
                any = true;
            }
        }
    }
}

static void pass_to_next(struct bench *bench, struct loops *loops)
{
    int64_t next_us = scripted_next(bench->engine);
    for (int i = 0; i < LOOP_COUNT; i++) {
        next_us = earlier(next_us, loops->next_us[i]);
    }
    bench->now_us = next_us;
    do_what_is_due(bench, loops);
}

/* `busy` executions run, each longer than the one before. The one after them starts at the instant when the first is on
 * record as ended, though the dispatcher had named a later time. */
static void the_next_starts_when_the_first_ends(struct bench *bench, const char *workspace, int busy)
{
    struct loops loops = {0};
    char first[UUID_TEXT_MAX];
    char next[UUID_TEXT_MAX];
    int64_t named_us = 0;
    start_node(bench);
    for (int i = 0; i < busy; i++) {
        push(bench, (struct scripted_outcome){.run_us = (5 + i) * SECOND});
        enqueue(bench, workspace, i == 0 ? first : next);
    }
    enqueue(bench, workspace, next);
    do_what_is_due(bench, &loops);
    while (strcmp(text_of(bench, first, "status"), "COMPLETED") != 0) {
        assert_int_equal(runs_begun(bench, next), 0);
        assert_true(bench->now_us < MINUTE + 6 * SECOND);
        named_us = loops.next_us[LOOP_DISPATCH];
        pass_to_next(bench, &loops);
    }
    assert_true(named_us > bench->now_us);
    assert_int_equal(runs_begun(bench, next), 1);
}

static void a_freed_slot_wakes_the_dispatcher_at_that_instant(void **state)
{
    struct bench *bench = *state;
    the_next_starts_when_the_first_ends(bench, "solo", 1);
}

static void room_in_the_engine_wakes_the_dispatcher_at_that_instant(void **state)
{
    struct bench *bench = *state;
    the_next_starts_when_the_first_ends(bench, "many", ROOM);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_wake_whose_write_comes_late_lets_its_loop_sleep_again),
        TEST(a_plan_of_children_wakes_the_duty_also_behind_its_news),
        TEST(a_wake_whose_write_comes_late_does_not_keep_the_caller_of_steps_awake),
        TEST(wakes_are_counted_whatever_their_order),
        TEST(a_loop_whose_store_could_not_be_watched_asks_for_the_watch_while_it_sleeps),
        TEST(a_node_that_gets_too_few_threads_runs_none),
        TEST(a_closed_node_leaves_no_descriptor),
        TEST(a_freed_slot_wakes_the_dispatcher_at_that_instant),
        TEST(room_in_the_engine_wakes_the_dispatcher_at_that_instant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
