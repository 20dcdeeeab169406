/* The proofs that a node ran on this machine, and that it is dead. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dispatch/life.h"
#include "dispatch/neighbours.h"
#include "support/test.h"

/* A process that begins a life and ends without ending it. `keeps`: it waits for its death. */
static pid_t start_process(char name[LIFE_NAME_MAX], bool keeps)
{
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t pid = test_fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct life life;
        life_begin(&life);
        bool is_sent = write(pipe_fds[1], life.name, LIFE_NAME_MAX) == LIFE_NAME_MAX;
        while (keeps) {
            (void)pause();
        }
        _exit(is_sent ? 0 : 1);
    }
    (void)close(pipe_fds[1]);
    assert_int_equal(read(pipe_fds[0], name, LIFE_NAME_MAX), LIFE_NAME_MAX);
    (void)close(pipe_fds[0]);
    return pid;
}

static void end_process(pid_t pid)
{
    int status = 0;
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void forget(const char *name)
{
    char path[100];
    (void)snprintf(path, sizeof path, "/dev/shm/%s", name);
    assert_int_equal(unlink(path), 0);
}

static void a_life_is_over_with_its_process(void **state)
{
    char name[LIFE_NAME_MAX];
    (void)state;
    pid_t pid = start_process(name, true);
    assert_false(life_is_over(name));
    end_process(pid);
    assert_true(life_is_over(name));
    forget(name);
    assert_false(life_is_over(name)); /* nothing is known of it any more */
}

static void a_life_unknown_to_this_machine_is_not_over(void **state)
{
    static const char *const names[] = {"", "weir-node-", "weir-node-0123456789abcdef0123456789abcdef", "../../etc/passwd",
                                        "weir-node-0123456789abcdef0123456789abcde/"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_false(life_is_over(names[i]));
    }
}

static void a_life_that_was_ended_leaves_no_file(void **state)
{
    struct life life;
    char name[LIFE_NAME_MAX];
    char path[100];
    (void)state;
    life_begin(&life);
    assert_true(life.fd >= 0);
    memcpy(name, life.name, sizeof name);
    assert_false(life_is_over(name));
    life_end(&life);
    (void)snprintf(path, sizeof path, "/dev/shm/%s", name);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_string_equal(life.name, "");
    life_end(&life);
}

static void files_of_the_dead_are_removed_after_a_while(void **state)
{
    char names[2][LIFE_NAME_MAX];
    char path[100];
    struct life life;
    struct timespec old[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    (void)state;
    end_process(start_process(names[0], true));
    end_process(start_process(names[1], true));
    (void)snprintf(path, sizeof path, "/dev/shm/%s", names[0]);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    life_begin(&life);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_true(life_is_over(names[1])); /* others may still have to learn of it */
    forget(names[1]);
    life_end(&life);
}

static void a_living_node_keeps_its_file_young(void **state)
{
    struct life life;
    char path[100];
    struct stat facts;
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    (void)state;
    life_begin(&life);
    (void)snprintf(path, sizeof path, "/dev/shm/%s", life.name);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    life_touch(&life);
    assert_int_equal(stat(path, &facts), 0);
    assert_true(facts.st_mtime > 1000);
    life_end(&life);
}

/* A process id that is missing here proves nothing: the node may run on a machine that calls itself the same. */
static void a_node_is_gone_only_with_proof(void **state)
{
    struct node_neighbour node = {.id = 1};
    (void)state;
    pid_t pid = start_process(node.life, true);
    node.pid = pid;
    assert_false(neighbour_is_gone(&node));
    end_process(pid);
    assert_true(neighbour_is_gone(&node));
    node.keeper_pid = (long)getpid();
    assert_false(neighbour_is_gone(&node)); /* its keeper lives, and so may its steps */
    node.keeper_pid = 0;
    forget(node.life);
    assert_false(neighbour_is_gone(&node));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life_is_over_with_its_process),
        cmocka_unit_test(a_life_unknown_to_this_machine_is_not_over),
        cmocka_unit_test(a_life_that_was_ended_leaves_no_file),
        cmocka_unit_test(files_of_the_dead_are_removed_after_a_while),
        cmocka_unit_test(a_living_node_keeps_its_file_young),
        cmocka_unit_test(a_node_is_gone_only_with_proof),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
