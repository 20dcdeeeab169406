/* Everything of a step that has to be evaluated before it can run: `when`, argv, environment, stdin, duration, input.
 *
 * Plain paths are read at once; jq programs go to an evaluator. Since evaluation has no side effect, it is simply done
 * again from the start each time another answer has come, with the answers so far at hand.
 *
 * Threads: the loop's. Owner: the step run, from preparation_new() to preparation_free().
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_INPUTS_H
#define WEIR_ENGINE_IN_PROCESS_STEP_INPUTS_H

#include "engine/in_process/execution.h"

enum preparation_result {
    PREPARATION_READY,
    PREPARATION_SKIP,   /* its `when` is false */
    PREPARATION_ASKED,  /* an evaluator works on it: `answered` is called, then go on with preparation_run() */
    PREPARATION_FAILED, /* `code`, `message` */
    PREPARATION_SHORT   /* of memory: to be done anew later */
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
    bool is_asked;
    bool is_short;
    const char *asked; /* the program that the request is about */
    struct preparation_answer *answers;
    size_t answer_count;
    const char *code; /* of the failure; static */
    struct weir_error message;
    struct process_command command; /* exec */
    struct text input;              /* exec: stdin; handler: JSON text */
    bool has_input;
    int64_t delay_us; /* sleep */
};

/* True when there is nothing to evaluate: the fast way of a handler that takes the execution's params. */
bool preparation_is_needless(const struct step_run *run);
/* NULL: out of memory (*ret_is_short), or the params cannot be read. */
struct preparation *preparation_new(struct step_run *run, void (*answered)(struct step_run *run), bool *ret_is_short);
enum preparation_result preparation_run(struct preparation *preparation);
/* Also while an evaluator works on it. Takes NULL. */
void preparation_free(struct preparation *preparation);

#endif
