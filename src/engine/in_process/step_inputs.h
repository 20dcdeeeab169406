/* The inputs of a step, evaluated before it runs: `when`, argv, environment, stdin, duration, handler input.
 *
 * Plain paths are evaluated at once; jq programs go to an evaluator process.
 *
 * Threads: the loop's. Owner: the step, from preparation_new() to preparation_free().
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_INPUTS_H
#define WEIR_ENGINE_IN_PROCESS_STEP_INPUTS_H

#include "engine/in_process/evaluator_pool.h"
#include "engine/in_process/execution_state.h"
#include "engine/in_process/process.h"

enum preparation_result {
    PREPARATION_READY,
    PREPARATION_SKIP,   /* its `when` is false */
    PREPARATION_ASKED,  /* an evaluator has a request; after `answered`, call preparation_run() again */
    PREPARATION_FAILED, /* `code`, `message` */
    PREPARATION_SHORT   /* of memory: prepare again later */
};

struct preparation_answer {
    const char *program; /* of the definition */
    json_t *value;
};

struct preparation {
    struct step_run *run;
    void (*answered)(struct step_run *run);
    json_t *context;
    struct evaluator_request request;
    bool is_asked; /* an evaluator has `request` */
    bool is_short;
    const char *asked; /* the program of the request */
    struct preparation_answer *answers;
    size_t answer_count;
    const char *code; /* of the failure; static */
    struct weir_error message;
    struct process_command command; /* exec */
    struct text input;              /* exec: stdin; handler: JSON text */
    bool has_input;
    int64_t delay_us; /* sleep */
};

/* True when there is nothing to evaluate: a handler without `when` that takes the execution's params. */
bool preparation_is_needless(const struct step_run *run);
/* NULL: out of memory (*ret_is_short), or the params cannot be read. `answered` is called in the loop. */
struct preparation *preparation_new(struct step_run *run, void (*answered)(struct step_run *run), bool *ret_is_short);
/* Evaluates as far as the answers allow. */
enum preparation_result preparation_run(struct preparation *preparation);
/* Also while an evaluator works on it. Takes NULL. */
void preparation_free(struct preparation *preparation);

#endif
