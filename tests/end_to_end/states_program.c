/* A node with handlers of states, for states_test.py.
 *
 * usage: states_program STORE NAME JOURNAL
 *
 * The handler `count` appends "STATE ID ACTION N" to JOURNAL, adds 1 to the variable n and enqueues an execution of `note`
 * with it. At 4 it waits for the signal `go`. `take` keeps the data of the signal. `noted` is the handler of `note`. `fail`
 * fails, and `stray` answers with a state that is not there.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/weir.h>

enum { LAST = 4, LEASE_S = 20, SECOND_US = 1000000 };

static int journal = -1;

static bool note(struct weir_call *call, int n)
{
    char line[200];
    int length = snprintf(line, sizeof line, "%s %s %d %d\n", weir_call_state(call), weir_call_execution_id(call),
                          weir_call_attempt(call), n);
    return write(journal, line, (size_t)length) == length;
}

static void count(struct weir_call *call, void *context)
{
    char text[32];
    char params[64];
    struct weir_error error;
    const char *before = weir_call_variable(call, "n");
    int n = (int)(before == NULL ? 0 : strtol(before, NULL, 10)) + 1;
    (void)context;
    (void)snprintf(text, sizeof text, "%d", n);
    (void)snprintf(params, sizeof params, "{\"n\": %d}", n);
    if (!note(call, n) || weir_call_set_variable(call, "n", text, &error) != WEIR_OK ||
        weir_call_enqueue(call, "note", params, NULL, &error) != WEIR_OK) {
        weir_fail(call, "test", "the handler could not set its variable");
    } else if (n < LAST) {
        weir_next(call, NULL);
    } else {
        weir_next_on_signal(call, "take", "go", 0);
    }
}

static void take(struct weir_call *call, void *context)
{
    struct weir_error error;
    (void)context;
    if (!note(call, 0) || weir_call_set_variable(call, "data", weir_call_signal(call), &error) != WEIR_OK) {
        weir_fail(call, "test", "the handler could not set its variable");
    } else {
        weir_next(call, "done");
    }
}

static void noted(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, weir_call_input(call));
}

static void fail(struct weir_call *call, void *context)
{
    (void)context;
    weir_fail(call, "no_money", "the account is empty");
}

static void stray(struct weir_call *call, void *context)
{
    (void)context;
    weir_next(call, "nowhere");
}

/* Those of the example in docs/definitions.md. */
static void credit_create(struct weir_call *call, void *context)
{
    (void)context;
    weir_next(call, "preview");
}

static void credit_accept(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, weir_call_variable(call, "limit"));
}

static void credit_reject(struct weir_call *call, void *context)
{
    (void)context;
    weir_next(call, "done");
}

static int report(const struct weir_error *error)
{
    (void)fprintf(stderr, "states_program: %s\n", error->message);
    return 1;
}

int main(int argc, char **argv)
{
    struct weir_error error;
    struct weir *weir = NULL;
    struct weir_node *node = NULL;
    const struct weir_handler handlers[] = {{"count", count, NULL},
                                            {"take", take, NULL},
                                            {"noted", noted, NULL},
                                            {"fail", fail, NULL},
                                            {"stray", stray, NULL},
                                            {"credit-create", credit_create, NULL},
                                            {"credit-accept", credit_accept, NULL},
                                            {"credit-reject", credit_reject, NULL}};
    if (argc != 4) {
        (void)fprintf(stderr, "usage: states_program STORE NAME JOURNAL\n");
        return 2;
    }
    journal = open(argv[3], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    struct weir_node_options options = {.name = argv[2],
                                        .handlers = handlers,
                                        .handler_count = sizeof handlers / sizeof handlers[0],
                                        .handler_threads = 4,
                                        .lease_us = (int64_t)LEASE_S * SECOND_US};
    if (weir_open(argv[1], NULL, &weir, &error) != WEIR_OK || weir_node_open(weir, &options, &node, &error) != WEIR_OK ||
        weir_node_start(node, &error) != WEIR_OK) {
        return report(&error);
    }
    (void)puts("started");
    (void)fflush(stdout);
    (void)getchar(); /* runs until its input ends */
    if (weir_node_stop(node, -1, NULL, &error) != WEIR_OK) {
        return report(&error);
    }
    weir_node_close(node);
    weir_close(weir);
    return 0;
}
