/* A program with the library inside keeps its signals. Links the shared library alone. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <weir/weir.h>

#include "support/folder.h"
#include "support/test.h"

#define SECOND_US ((int64_t)1000000)

enum { LARGE_BYTES = 900 * 1000 }; /* more than a pipe or a socket takes at once */

static struct folder folder;
static struct weir *weir;
static struct weir_node *node;
static struct weir_error error;

/* Not a path alone: this goes to a process that evaluates expressions. */
static const char workflow[] = "name: measure\nsteps:\n  only: {handler: echo, input: \"${.input.say | length}\"}\n";

static void echo(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, weir_call_input(call));
}

static const struct weir_handler handlers[] = {{"echo", echo, NULL}};

static int set_up(void **state)
{
    (void)state;
    char path[300];
    struct weir_node_options options = {.handlers = handlers, .handler_count = 1, .name = "tested"};
    if (folder_make(&folder) != 0) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/weir.db", folder.path);
    return weir_migrate(path, NULL, &error) == WEIR_OK && weir_open(path, NULL, &weir, &error) == WEIR_OK &&
                   weir_set_workspace(weir, "acme", "pro", 0, &error) == WEIR_OK &&
                   weir_publish_workflow(weir, workflow, 0, NULL, NULL, &error) == WEIR_OK &&
                   weir_node_open(weir, &options, &node, &error) == WEIR_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    weir_node_close(node);
    weir_close(weir);
    folder_remove(&folder);
    return 0;
}

static void enqueue(const char *params, char id[WEIR_ID_SIZE])
{
    struct weir_request request = {.workspace = "acme", .workflow = "measure", .params = params};
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_OK);
}

static void step(void)
{
    int64_t wait_us = 0;
    assert_int_equal(weir_node_step(node, &wait_us, &error), WEIR_OK);
    struct pollfd ready = {.fd = weir_node_fd(node), .events = POLLIN};
    (void)poll(&ready, 1, wait_us < 0 || wait_us > 50000 ? 50 : (int)(wait_us / 1000) + 1);
}

static void step_until(const char *id, const char *said)
{
    for (int i = 0; i < 200000; i++) {
        char *json = NULL;
        step();
        assert_int_equal(weir_show(weir, id, &json, &error), WEIR_OK);
        bool found = strstr(json, said) != NULL;
        weir_free(json);
        if (found) {
            return;
        }
    }
    fail_msg("execution %s never said %s", id, said);
}

/* The child of `parent` with this name. */
static pid_t child_named(pid_t parent, const char *name)
{
    char path[64];
    char comm[32];
    int child;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *children = fopen(path, "r");
    assert_non_null(children);
    pid_t found = 0;
    while (found == 0 && fscanf(children, "%d", &child) == 1) {
        (void)snprintf(path, sizeof path, "/proc/%d/comm", child);
        FILE *file = fopen(path, "r");
        if (file != NULL && fgets(comm, sizeof comm, file) != NULL && strncmp(comm, name, strlen(name)) == 0) {
            found = child;
        }
        if (file != NULL) {
            (void)fclose(file);
        }
    }
    (void)fclose(children);
    assert_true(found > 0);
    return found;
}

/* It has read all that there is and waits for more. */
static void await_sleep(pid_t pid)
{
    char path[64];
    char state = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    while (state != 'S') {
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
        (void)fclose(file);
    }
}

/* The evaluator dies in the middle of a request, with room for more of it: for the node a reader that is gone, for its host
 * nothing at all. */
static void a_helper_that_dies_sends_the_host_no_signal(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    static char params[LARGE_BYTES + 64];
    assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    enqueue("{\"say\":\"four\"}", id);
    step_until(id, "\"status\":\"COMPLETED\"");
    pid_t evaluator = child_named(child_named(getpid(), "weir-keeper"), "weir-evaluator");
    assert_int_equal(kill(evaluator, SIGSTOP), 0);
    (void)snprintf(params, sizeof params, "{\"say\":\"%0*d\"}", LARGE_BYTES, 0);
    enqueue(params, id);
    step_until(id, "\"status\":\"DISPATCHED\""); /* and the beginning of its request is on the way */
    assert_int_equal(kill(evaluator, SIGCONT), 0);
    await_sleep(evaluator);
    assert_int_equal(kill(evaluator, SIGKILL), 0);
    while (kill(evaluator, 0) == 0 || errno != ESRCH) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    step_until(id, "\"status\":\"COMPLETED\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_helper_that_dies_sends_the_host_no_signal, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
