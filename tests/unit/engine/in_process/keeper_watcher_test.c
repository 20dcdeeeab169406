/* Steps die with the lease of their node though neither the node nor its keeper can act. */
#include "engine/in_process/keeper_watcher.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/engine_fixture.h"
#include "support/test.h"

static struct engine_fixture fixture;

static int open_fixture(void **state)
{
    (void)state;
    engine_fixture_open(&fixture, NULL);
    return 0;
}

static int make_directory(void **state)
{
    (void)state;
    engine_fixture_make_directory(&fixture);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    engine_fixture_close(&fixture);
    return 0;
}

static char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", fixture.directory, name);
    return path;
}

static void touch(const char *name)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

/* One step that notes its process id, and ends when the file `go` is there. Its helper, in a session of its own and without
 * an environment, notes its own in `away`. */
static const char *step_with_helper(void)
{
    static char definition[1024];
    (void)snprintf(
        definition, sizeof definition,
        "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"sh\",\"-c\",\"(env -i setsid sh -c 'trap : TERM HUP; echo $$ > "
        "$0/away; while :; do sleep 1; done' $0 &) ; until [ -s $0/away ]; do sleep 0.01; done; echo $$ > $0/pid; until [ "
        "-e "
        "$0/go ]; do sleep 0.01; done\",\"%s\"]}}}",
        fixture.directory);
    return definition;
}

/* --- nodes that are processes --- */

/* The facts that a node writes for its test, in memory that both share. */
struct told {
    _Atomic int64_t lease_end_us;
    atomic_bool was_late; /* it has let its lease end: the machine is busy */
};

static struct told *told;

/* The lease has ended, or had ended before: the steps may be dead for that reason. */
static bool lease_is_over(void)
{
    return atomic_load(&told->was_late) || clock_boot(clock_system()) >= atomic_load(&told->lease_end_us);
}

static void renew_lease(struct engine *engine, int64_t lease_us)
{
    int64_t now_us = clock_boot(clock_system());
    int64_t former_end_us = atomic_exchange(&told->lease_end_us, now_us + lease_us);
    if (former_end_us != 0 && now_us >= former_end_us) {
        atomic_store(&told->was_late, true);
    }
    engine_lease(engine, now_us + lease_us);
}

/* Forks a node that renews its lease (0: it has none) and runs the step. */
static pid_t fork_node(int64_t lease_us)
{
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(told != MAP_FAILED);
    pid_t node = test_fork();
    if (node != 0) {
        assert_true(node > 0);
        return node;
    }
    struct engine_fixture own;
    engine_fixture_open(&own, NULL);
    (void)rmdir(own.directory); /* it ends by a signal */
    FILE *file = fopen(path_of("keeper"), "w");
    (void)fprintf(file, "%ld\n", engine_keeper_pid(own.engine));
    (void)fclose(file);
    engine_fixture_start(&own, 1, step_with_helper(), "{}");
    for (;;) {
        struct timespec between = {.tv_nsec = 50 * 1000 * 1000};
        if (lease_us > 0) {
            renew_lease(own.engine, lease_us);
        }
        (void)nanosleep(&between, NULL);
    }
}

/* Another node may run the step again then. */
static void stopped_node_with_a_stopped_keeper_loses_its_steps_when_the_lease_is_over(void **state)
{
    (void)state;
    pid_t node = fork_node(4 * MICROSECONDS_PER_SECOND);
    pid_t leader = wait_for_pid_file(path_of("pid"));
    pid_t away = wait_for_pid_file(path_of("away"));
    pid_t keeper = wait_for_pid_file(path_of("keeper"));
    assert_int_equal(kill(node, SIGSTOP), 0);
    assert_int_equal(kill(keeper, SIGSTOP), 0);
    bool are_alive = is_alive(leader) && is_alive(away);
    assert_true(are_alive || lease_is_over());
    assert_true(wait_until_dead(leader));
    assert_true(wait_until_dead(away));
    assert_true(wait_until_dead(keeper));
    assert_int_equal(kill(node, SIGKILL), 0);
    assert_int_equal(waitpid(node, NULL, 0), node);
}

static void no_process_is_left_when_node_and_keeper_are_killed_together(void **state)
{
    (void)state;
    pid_t node = fork_node(0);
    pid_t leader = wait_for_pid_file(path_of("pid"));
    pid_t away = wait_for_pid_file(path_of("away"));
    pid_t keeper = wait_for_pid_file(path_of("keeper"));
    assert_int_equal(kill(node, SIGSTOP), 0); /* it sweeps nothing */
    assert_int_equal(kill(keeper, SIGKILL), 0);
    assert_int_equal(kill(node, SIGKILL), 0);
    assert_int_equal(waitpid(node, NULL, 0), node);
    assert_true(wait_until_dead(leader));
    assert_true(wait_until_dead(away));
}

/* --- the watcher itself --- */

static bool is_watcher(int pid)
{
    char path[64];
    char name[32] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/comm", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    (void)!fgets(name, sizeof name, file);
    (void)fclose(file);
    return strcmp(name, "weir-watcher\n") == 0;
}

static pid_t find_watcher(pid_t keeper)
{
    char path[64];
    int pid = 0;
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)keeper, (int)keeper);
    FILE *children = fopen(path, "r");
    assert_non_null(children);
    while (!found && fscanf(children, "%d", &pid) == 1) {
        found = is_watcher(pid);
    }
    (void)fclose(children);
    return found ? pid : 0;
}

/* Another one than `former`. */
static pid_t wait_for_watcher(pid_t keeper, pid_t former)
{
    pid_t watcher = 0;
    for (int i = 0; i < 60000 && (watcher == 0 || watcher == former); i++) {
        struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
        watcher = find_watcher(keeper);
    }
    assert_true(watcher != 0 && watcher != former);
    return watcher;
}

static void keeper_is_late_only_when_it_has_not_enforced_the_present_lease(void **state)
{
    (void)state;
    struct keeper_watched *watched = keeper_watcher_map();
    assert_non_null(watched);
    assert_int_equal(keeper_watcher_time_left(watched, 1000), KEEPER_WATCHER_POLL_US); /* no lease */
    atomic_store(&watched->lease_end_us, 5000);
    assert_int_equal(keeper_watcher_time_left(watched, 4000), 1000 + KEEPER_WATCHER_LATE_US);
    assert_int_equal(keeper_watcher_time_left(watched, 5000 + KEEPER_WATCHER_LATE_US - 1), 1);
    assert_int_equal(keeper_watcher_time_left(watched, 5000 + KEEPER_WATCHER_LATE_US), 0);
    atomic_store(&watched->enforced_end_us, 5000);
    assert_int_equal(keeper_watcher_time_left(watched, INT64_C(1) << 40), KEEPER_WATCHER_POLL_US);
    atomic_store(&watched->lease_end_us, 6000); /* renewed: the former end does not count */
    assert_int_equal(keeper_watcher_time_left(watched, INT64_C(1) << 40), 0);
    atomic_store(&watched->lease_end_us, INT64_C(1) << 50);
    assert_int_equal(keeper_watcher_time_left(watched, 1000), KEEPER_WATCHER_POLL_US);
    assert_int_equal(munmap(watched, sizeof *watched), 0);
}

static void watcher_ends_with_its_keeper(void **state)
{
    (void)state;
    pid_t keeper = (pid_t)engine_keeper_pid(fixture.engine);
    engine_fixture_start(&fixture, 1, step_with_helper(), "{}");
    pid_t leader = wait_for_pid_file(path_of("pid"));
    pid_t watcher = wait_for_watcher(keeper, 0);
    engine_close(fixture.engine);
    recorder_close(&fixture.recorder);
    fixture.engine = NULL;
    assert_false(is_alive(leader));
    assert_true(wait_until_dead(watcher));
}

static void watcher_that_is_killed_is_replaced(void **state)
{
    (void)state;
    pid_t keeper = (pid_t)engine_keeper_pid(fixture.engine);
    engine_fixture_start(&fixture, 1, step_with_helper(), "{}");
    (void)wait_for_pid_file(path_of("pid"));
    pid_t first = wait_for_watcher(keeper, 0);
    assert_int_equal(kill(first, SIGKILL), 0);
    (void)wait_for_watcher(keeper, first);
    touch("go");
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
#define CLAIM_ALONE(name) cmocka_unit_test_setup_teardown(name, make_directory, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM_ALONE(stopped_node_with_a_stopped_keeper_loses_its_steps_when_the_lease_is_over),
        CLAIM_ALONE(no_process_is_left_when_node_and_keeper_are_killed_together),
        cmocka_unit_test(keeper_is_late_only_when_it_has_not_enforced_the_present_lease),
        CLAIM(watcher_ends_with_its_keeper),
        CLAIM(watcher_that_is_killed_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
