/* The nodes of `weir demo` that may be killed: child processes, each a `weir serve` on the store of the demo.
 *
 * A child that was killed is replaced after DEMO_NODE_AWAY_US by a node with another name, so that both are seen. A child
 * that ends by itself, as after `weir node drain`, is not replaced. All children die with the demo.
 *
 *     demo_nodes_open() -> demo_nodes_step(), again and again -> demo_nodes_begin_stop() -> demo_nodes_await() ->
 * demo_nodes_close()
 *
 * Threads: all of it belongs to the main thread, but demo_nodes_kill(), which any thread may call meanwhile. A child dies
 * with the thread that has forked it, and the main thread lives as long as the process. */
#ifndef WEIR_CLI_VERBS_DEMO_NODES_H
#define WEIR_CLI_VERBS_DEMO_NODES_H

#include <pthread.h>
#include <sys/types.h>

#include "base/error.h"
#include "queue/limits.h"
#include "server/api.h"
#include "store/store.h"

enum { DEMO_CHILDREN = 2, DEMO_NEWS_MAX = 160, DEMO_NODES_TEXT_MAX = 240 };
#define DEMO_NODE_PREFIX "demo-"
/* Executions that one node runs at once: half of the slots of the demo. A node gets work from the scheduler's own one only
 * when that is full, and two nodes can do the work of all. */
#define DEMO_NODE_CAPACITY "13"
/* Longer than the other nodes need to find that the process is gone. */
#define DEMO_NODE_AWAY_US (5 * MICROSECONDS_PER_SECOND)

enum demo_child_state { DEMO_CHILD_AWAITED, DEMO_CHILD_RUNS, DEMO_CHILD_ENDED };

struct demo_child {
    enum demo_child_state state;
    char name[NODE_NAME_MAX + 1]; /* of the last process; "" = there was none */
    pid_t pid;                    /* while it runs */
    int64_t start_at_us;          /* boot clock; while it is awaited */
    bool was_killed;              /* while it is awaited */
};

struct demo_nodes {
    pthread_mutex_t lock;
    struct demo_child children[DEMO_CHILDREN];
    const char *store_url;
    int last_number; /* of the names; the demo itself has the first one */
    bool is_stopping;
    char news[DEMO_NEWS_MAX]; /* of the last step; "" = none */
};

/* Takes a zeroed one, so that demo_nodes_close() may come without it. The URL stays with the caller. */
void demo_nodes_open(struct demo_nodes *nodes, const char *store_url);
/* Starts the children that are due and notes those that have ended; nodes->news has a line about the last change. */
void demo_nodes_step(struct demo_nodes *nodes);
/* "demo-1, demo-2, demo-3 killed (next in 4s)" */
void demo_nodes_describe(struct demo_nodes *nodes, char to[DEMO_NODES_TEXT_MAX]);
/* SIGKILL to the child that holds most executions (api_kill_node of server/api.h; `context` is the demo_nodes).
 * WEIR_CONFLICT: none runs. Errors of store_list(). Any thread. */
WEIR_MUST_CHECK enum weir_status demo_nodes_kill(void *context, struct store *store, struct killed_node *ret_killed,
                                                 struct weir_error *error);
/* Orders all children to stop, and starts no more. */
void demo_nodes_begin_stop(struct demo_nodes *nodes);
/* Waits for their end, at most `deadline_us`; a further signal to the demo is passed on to them and interrupts their
 * executions. Those that are still there are killed. */
void demo_nodes_await(struct demo_nodes *nodes, int64_t deadline_us);
/* Kills those that are still there. */
void demo_nodes_close(struct demo_nodes *nodes);

#endif
