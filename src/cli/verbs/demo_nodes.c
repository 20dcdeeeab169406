/* Starts, watches and kills the child nodes of `weir demo`.
 *
 * The way of a child, all of it without malloc, stdio or locks, because the demo has threads when it forks:
 *
 *   1. A session of its own: Ctrl-C reaches the demo alone, which then stops its nodes in order.
 *   2. KILL at the death of the demo. The child compares its parent after that: the demo may have died before.
 *   3. Of the demo stderr alone stays open, for the reason of a failure: the output is that of the demo, and other
 *      descriptors are closed.
 *   4. The program of the demo itself, as `weir serve`. It reads no weir.yaml: `nodes` there would make it several nodes.
 *
 * The lock keeps a pid from its reuse: a process that has ended is reaped under it, so kill() never meets another one.
 */
#include "cli/verbs/demo_nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/signals.h"

enum { EXIT_NOT_STARTED = 127, AWAIT_CHECK_MS = 20 };

void demo_nodes_open(struct demo_nodes *nodes, const char *store_url)
{
    INVARIANT(nodes != NULL && store_url != NULL);
    *nodes = (struct demo_nodes){.store_url = store_url, .last_number = 1};
    (void)pthread_mutex_init(&nodes->lock, NULL);
}

/* --- start --- */

_Noreturn static void become_node(char *const *arguments, pid_t demo_pid)
{
    (void)setsid();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != demo_pid) {
        _exit(EXIT_NOT_STARTED); /* the demo died before prctl(): no signal would come */
    }
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < STDERR_FILENO && null >= 0; fd++) {
        (void)dup2(null, fd);
    }
    (void)close_range(STDERR_FILENO + 1, ~0U, 0);
    (void)execve("/proc/self/exe", arguments, environ);
    _exit(EXIT_NOT_STARTED);
}

static void start_demo_child(struct demo_nodes *nodes, struct demo_child *child)
{
    char name[sizeof child->name];
    (void)snprintf(name, sizeof name, DEMO_NODE_PREFIX "%d", nodes->last_number + 1);
    const char *const arguments[] = {
        "weir",         "serve",    "--config", "/dev/null", "--store",    nodes->store_url, "--node",
        name,           "--listen", "none",     "--engine",  "in_process", "--max-running",  DEMO_NODE_CAPACITY,
        "--allow-exec", "--quiet",  NULL};
    pid_t demo_pid = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become_node((char *const *)(uintptr_t)arguments, demo_pid);
    }
    if (pid < 0) {
        child->start_at_us = clock_boot(clock_system()) + DEMO_NODE_AWAY_US;
        (void)snprintf(nodes->news, sizeof nodes->news, "no process for a further node: %s; the demo tries again",
                       strerror(errno));
        return;
    }
    nodes->last_number++;
    text_copy(child->name, sizeof child->name, name);
    if (child->was_killed) {
        (void)snprintf(nodes->news, sizeof nodes->news, "node %s started (process %d)", name, (int)pid);
    }
    child->state = DEMO_CHILD_RUNS;
    child->pid = pid;
    child->was_killed = false;
}

/* --- end --- */

/* A killed node is replaced, also after a `kill -9` in a terminal. */
static void note_child_end(struct demo_nodes *nodes, struct demo_child *child, int wait_status)
{
    child->pid = 0;
    child->was_killed = WIFSIGNALED(wait_status);
    child->state = child->was_killed ? DEMO_CHILD_AWAITED : DEMO_CHILD_ENDED;
    child->start_at_us = clock_boot(clock_system()) + DEMO_NODE_AWAY_US;
    if (child->was_killed) {
        (void)snprintf(nodes->news, sizeof nodes->news,
                       "node %s was killed: other nodes take over its executions, and a new node starts soon", child->name);
    } else if (!nodes->is_stopping) {
        (void)snprintf(nodes->news, sizeof nodes->news,
                       "node %s has ended with exit code %d and is not replaced; end the demo and start it again",
                       child->name, WEXITSTATUS(wait_status));
    }
}

/* Whether it has ended; never waits. With the lock. */
static void reap_child(struct demo_nodes *nodes, struct demo_child *child)
{
    int wait_status = 0;
    if (child->state == DEMO_CHILD_RUNS && waitpid(child->pid, &wait_status, WNOHANG) == child->pid) {
        note_child_end(nodes, child, wait_status);
    }
}

void demo_nodes_step(struct demo_nodes *nodes)
{
    INVARIANT(nodes != NULL && nodes->store_url != NULL);
    int64_t now_us = clock_boot(clock_system());
    (void)pthread_mutex_lock(&nodes->lock);
    nodes->news[0] = '\0';
    for (size_t i = 0; i < DEMO_CHILDREN; i++) {
        struct demo_child *child = &nodes->children[i];
        reap_child(nodes, child);
        if (child->state == DEMO_CHILD_AWAITED && now_us >= child->start_at_us && !nodes->is_stopping) {
            start_demo_child(nodes, child);
        }
    }
    (void)pthread_mutex_unlock(&nodes->lock);
}

void demo_nodes_describe(struct demo_nodes *nodes, char to[DEMO_NODES_TEXT_MAX])
{
    INVARIANT(nodes != NULL && to != NULL);
    int64_t now_us = clock_boot(clock_system());
    (void)pthread_mutex_lock(&nodes->lock);
    int used = snprintf(to, DEMO_NODES_TEXT_MAX, DEMO_NODE_PREFIX "1");
    for (size_t i = 0; i < DEMO_CHILDREN && used < DEMO_NODES_TEXT_MAX; i++) {
        const struct demo_child *child = &nodes->children[i];
        size_t left = DEMO_NODES_TEXT_MAX - (size_t)used;
        char wait[DURATION_TEXT_MAX] = "";
        int64_t wait_us = child->start_at_us - now_us;
        duration_format_short(wait_us > 0 ? wait_us : 0, wait);
        if (child->state == DEMO_CHILD_RUNS) {
            used += snprintf(to + used, left, ", %s", child->name);
        } else if (child->state == DEMO_CHILD_ENDED) {
            used += snprintf(to + used, left, ", %s ended", child->name);
        } else if (child->was_killed) {
            used += snprintf(to + used, left, ", %s killed (next in %s)", child->name, wait);
        }
    }
    (void)pthread_mutex_unlock(&nodes->lock);
}

/* --- kill --- */

/* The executions that the node holds now, at most a page. */
static enum weir_status count_held(struct store *store, const char *name, size_t *ret_count, struct weir_error *error)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS,
                                   .filter = {.node = name, .states = 1U << ITEM_CLAIMED | 1U << ITEM_DISPATCHED},
                                   .limit = LIST_LIMIT_DEFAULT};
    enum weir_status status = store_list(store, &options, &page, error);
    *ret_count = json_array_size(json_object_get(page, "items"));
    json_decref(page);
    return status;
}

/* The names of the children that run and were not killed just now. */
static size_t running_children(struct demo_nodes *nodes, char names[DEMO_CHILDREN][NODE_NAME_MAX + 1])
{
    size_t count = 0;
    (void)pthread_mutex_lock(&nodes->lock);
    for (size_t i = 0; i < DEMO_CHILDREN && !nodes->is_stopping; i++) {
        if (nodes->children[i].state == DEMO_CHILD_RUNS && !nodes->children[i].was_killed) {
            text_copy(names[count++], NODE_NAME_MAX + 1, nodes->children[i].name);
        }
    }
    (void)pthread_mutex_unlock(&nodes->lock);
    return count;
}

/* False: it has ended meanwhile. Also one that has just been killed and not been reaped does not count. */
static bool kill_child(struct demo_nodes *nodes, const char *name, struct killed_node *ret_killed)
{
    bool is_killed = false;
    (void)pthread_mutex_lock(&nodes->lock);
    for (size_t i = 0; i < DEMO_CHILDREN && !nodes->is_stopping; i++) {
        struct demo_child *child = &nodes->children[i];
        reap_child(nodes, child);
        if (child->state == DEMO_CHILD_RUNS && strcmp(child->name, name) == 0 && !child->was_killed) {
            child->was_killed = kill(child->pid, SIGKILL) == 0;
            is_killed = child->was_killed;
            text_copy(ret_killed->name, sizeof ret_killed->name, child->name);
            ret_killed->pid = child->pid;
        }
    }
    (void)pthread_mutex_unlock(&nodes->lock);
    return is_killed;
}

enum weir_status demo_nodes_kill(void *context, struct store *store, struct killed_node *ret_killed,
                                 struct weir_error *error)
{
    INVARIANT(context != NULL && store != NULL && ret_killed != NULL);
    struct demo_nodes *nodes = context;
    char names[DEMO_CHILDREN][NODE_NAME_MAX + 1];
    size_t count = running_children(nodes, names);
    size_t chosen = 0;
    size_t most = 0;
    for (size_t i = 0; i < count; i++) {
        size_t held = 0;
        enum weir_status status = count_held(store, names[i], &held, error);
        if (status != WEIR_OK) {
            return status;
        }
        chosen = held > most ? i : chosen;
        most = held > most ? held : most;
    }
    if (count == 0 || !kill_child(nodes, names[chosen], ret_killed)) {
        error_set(error, WEIR_CONFLICT, "no node of the demo can be killed now");
        error_hint(error, "a killed node is replaced after some seconds; then try again");
        return WEIR_CONFLICT;
    }
    return WEIR_OK;
}

/* --- stop --- */

static void signal_children(struct demo_nodes *nodes, int number)
{
    (void)pthread_mutex_lock(&nodes->lock);
    nodes->is_stopping = true;
    for (size_t i = 0; i < DEMO_CHILDREN; i++) {
        reap_child(nodes, &nodes->children[i]);
        if (nodes->children[i].state == DEMO_CHILD_RUNS) {
            (void)kill(nodes->children[i].pid, number);
        }
    }
    (void)pthread_mutex_unlock(&nodes->lock);
}

static bool any_runs(struct demo_nodes *nodes)
{
    bool runs = false;
    (void)pthread_mutex_lock(&nodes->lock);
    for (size_t i = 0; i < DEMO_CHILDREN; i++) {
        reap_child(nodes, &nodes->children[i]);
        runs = runs || nodes->children[i].state == DEMO_CHILD_RUNS;
    }
    (void)pthread_mutex_unlock(&nodes->lock);
    return runs;
}

void demo_nodes_begin_stop(struct demo_nodes *nodes)
{
    INVARIANT(nodes != NULL);
    if (nodes->store_url != NULL) {
        signal_children(nodes, SIGTERM);
    }
}

/* signals_sleep() would not sleep: a signal has come already. */
void demo_nodes_await(struct demo_nodes *nodes, int64_t deadline_us)
{
    INVARIANT(nodes != NULL && nodes->store_url != NULL);
    int64_t until_us = clock_boot(clock_system()) + deadline_us;
    int signals_seen = signals_count();
    while (any_runs(nodes) && clock_boot(clock_system()) < until_us) {
        if (signals_count() > signals_seen) {
            signals_seen = signals_count();
            signal_children(nodes, SIGTERM);
        }
        (void)poll(NULL, 0, AWAIT_CHECK_MS);
    }
}

void demo_nodes_close(struct demo_nodes *nodes)
{
    INVARIANT(nodes != NULL);
    if (nodes->store_url == NULL) {
        return;
    }
    signal_children(nodes, SIGKILL);
    for (size_t i = 0; i < DEMO_CHILDREN; i++) {
        if (nodes->children[i].state == DEMO_CHILD_RUNS) {
            (void)waitpid(nodes->children[i].pid, NULL, 0);
        }
    }
    (void)pthread_mutex_destroy(&nodes->lock);
    *nodes = (struct demo_nodes){.store_url = NULL};
}
