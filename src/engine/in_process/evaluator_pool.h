/* The node's evaluator processes: a jq program goes to one of them, and its answer comes back to the step.
 *
 * The keeper starts up to EVALUATORS_MAX processes when they are first needed. The workspaces share them fairly
 * (fair_queue.h); one of them is only for workspaces without a process. An answer comes exactly once, from the loop, never
 * inside of evaluator_pool_request().
 *
 * Threads: the loop's. Owner of a request: the caller. It stays linked until it is answered or dropped.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_EVALUATOR_POOL_H
#define WEIR_ENGINE_IN_PROCESS_EVALUATOR_POOL_H

#include "base/text.h"
#include "engine/in_process/evaluator_process.h"
#include "engine/in_process/loop.h"
#include "engine/in_process/process.h"
#include "queue/fair_queue.h"

enum { EVALUATORS_MAX = 3, EVALUATORS_SPARE = 1 };

/* For one expression, in processor time of the evaluator: the other load of the machine must not decide if an expression
 * takes too long. jq takes about 40 ms to compile one. */
#define EVALUATOR_DEADLINE_US (1 * MICROSECONDS_PER_SECOND)
/* In real time, for an evaluator that hangs without using the processor. */
#define EVALUATOR_DEADLINE_MOST_US (60 * MICROSECONDS_PER_SECOND)

struct evaluator_request {
    struct fair_entry turn;
    struct fair_lane *lane; /* of its workspace */
    struct text frame;      /* the bytes to send */
    int64_t id;
    bool is_second; /* its first evaluator died, perhaps for another reason: it is sent once more */
    void *owner;
    /* The receiver owns `value`. WEIR_OK; WEIR_FAILED: jq's `message`; WEIR_TIMED_OUT; WEIR_SYSTEM: no evaluator could
     * be started, or two died with this request. */
    void (*answered)(struct evaluator_request *request, enum weir_status status, json_t *value, const char *message);
};

struct evaluator_pool;

struct evaluator_child {
    struct evaluator_pool *pool;
    struct process *process;           /* NULL: not started */
    struct evaluator_request *request; /* in work, or NULL */
    struct watch requests;
    struct watch answers;
    struct timer deadline;
    int64_t began_us;     /* with its request */
    int64_t began_cpu_us; /* its processor time at began_us */
    size_t sent;
    struct text received;
    bool is_dead; /* killed; the keeper has not reported its end */
};

struct evaluator_pool {
    struct loop *loop;
    struct process_table *table;
    struct evaluator_child children[EVALUATORS_MAX];
    struct fair_queue queue; /* of requests */
    int64_t last_id;
};

void evaluator_pool_init(struct evaluator_pool *pool, struct loop *loop, struct process_table *table);
/* Before process_table_close(). Does not answer the requests that wait. */
void evaluator_pool_close(struct evaluator_pool *pool);
/* Queues a request. `lane` is that of the workspace, and must outlive the request. WEIR_FAILED: the input is too large;
 * WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status evaluator_pool_request(struct evaluator_pool *pool, struct fair_lane *lane,
                                                        struct evaluator_request *request, const char *program,
                                                        const json_t *input, struct weir_error *error);
/* Assigns waiting requests to idle evaluators; the loop calls it once per turn. May call `answered`. */
void evaluator_pool_assign(struct evaluator_pool *pool);
/* Removes a request without an answer. Then its owner may free it. */
void evaluator_pool_drop(struct evaluator_pool *pool, struct evaluator_request *request);

#endif
