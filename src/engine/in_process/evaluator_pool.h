/* The node's evaluator children: jq programs go to one of them, answers come back to who asked.
 *
 * Up to EVALUATORS_MAX children, started by the keeper when they are first needed, and shared fairly by the workspaces
 * (fair_queue.h): one of them is only for a workspace that no child works for. Each works on one request at a time, so
 * that its deadline (of processor time) is its own: a child that passes it is killed (and replaced when the next request
 * needs one), and the request ends with WEIR_TIMED_OUT. An answer comes back exactly once, from the loop, never from inside
 * evaluators_ask().
 *
 * Threads: the loop's. Owner of a request: who asked; it is linked into the queue until it is answered or dropped.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_EVALUATOR_POOL_H
#define WEIR_ENGINE_IN_PROCESS_EVALUATOR_POOL_H

#include "base/text.h"
#include "engine/in_process/evaluator_process.h"
#include "engine/in_process/fair_queue.h"
#include "engine/in_process/loop.h"
#include "engine/in_process/process.h"

enum { EVALUATORS_MAX = 3, EVALUATORS_SPARE = 1 };

/* For one expression, counted from when a child begins with it, in its own processor time: whether an expression takes too
 * long must not depend on what else the machine does. jq takes ~40 ms to compile one. */
#define EVALUATOR_DEADLINE_US (1 * MICROSECONDS_PER_SECOND)
/* In any time, for a child that hangs without working. */
#define EVALUATOR_DEADLINE_MOST_US (60 * MICROSECONDS_PER_SECOND)

struct evaluator_request {
    struct fair_entry turn;
    struct fair_lane *lane; /* of its workspace */
    struct text frame;      /* what is sent */
    int64_t id;
    bool is_second; /* it was asked of a child that died: asked once more, for that may be no fault of the expression */
    void *owner;
    /* `value` is the receiver's. WEIR_OK; WEIR_FAILED: jq says `message`; WEIR_TIMED_OUT; WEIR_SYSTEM: no child, or two
     * died of it. */
    void (*answered)(struct evaluator_request *request, enum weir_status status, json_t *value, const char *message);
};

struct evaluators;

struct evaluator_child {
    struct evaluators *pool;
    struct process *process;           /* NULL: not started */
    struct evaluator_request *request; /* what it works on */
    struct watch requests;
    struct watch answers;
    struct timer deadline;
    int64_t began_us;     /* with its request */
    int64_t began_cpu_us; /* and its processor time then */
    size_t sent;
    struct text received;
    bool is_dead; /* killed; its end has not been seen yet */
};

struct evaluators {
    struct loop *loop;
    struct process_table *table;
    struct evaluator_child children[EVALUATORS_MAX];
    struct fair_queue queue; /* of requests */
    int64_t last_id;
};

void evaluators_init(struct evaluators *pool, struct loop *loop, struct process_table *table);
/* Before process_table_close(). Requests that wait are forgotten. */
void evaluators_close(struct evaluators *pool);
/* `lane` is that of the workspace, and must outlive the request. WEIR_FAILED: the input is too large; WEIR_OUT_OF_MEMORY.
 */
WEIR_MUST_CHECK enum weir_status evaluators_ask(struct evaluators *pool, struct fair_lane *lane,
                                                struct evaluator_request *request, const char *program, const json_t *input,
                                                struct weir_error *error);
/* Hands waiting requests to idle children; the loop calls it once per turn. Answers may come from inside. */
void evaluators_work_off(struct evaluators *pool);
/* The answer is not wanted any more; the request may be freed. */
void evaluators_drop(struct evaluators *pool, struct evaluator_request *request);

#endif
