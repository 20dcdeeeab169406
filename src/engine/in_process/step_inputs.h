/* The inputs of a step, evaluated before it runs: `when`, argv, environment, stdin, duration, handler input,
 * URL, headers and body of a request.
 *
 * Plain paths are evaluated at once; jq programs go to an evaluator process.
 *
 * Threads: the loop's. Owner: the step, from step_inputs_new() to step_inputs_free().
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_INPUTS_H
#define WEIR_ENGINE_IN_PROCESS_STEP_INPUTS_H

#include "engine/in_process/evaluator_pool.h"
#include "engine/in_process/execution_state.h"
#include "engine/in_process/process.h"

enum step_inputs_result {
    INPUTS_READY,
    INPUTS_SKIP,      /* its `when` is false */
    INPUTS_REQUESTED, /* an evaluator has a request; after `answered`, call step_inputs_evaluate() again */
    INPUTS_FAILED,    /* `code`, `message` */
    INPUTS_SHORT      /* of memory: prepare again later */
};

struct step_inputs_answer {
    const char *program; /* of the definition */
    bool is_of_items;    /* `value` is a list with a value for each item */
    json_t *value;
};

struct step_inputs {
    struct step_run *run;
    void (*answered)(struct step_run *run);
    json_t *context;
    struct evaluator_request request;
    bool has_request; /* an evaluator has `request` */
    bool is_short;
    const char *requested_program; /* the program of the request */
    /* Start steps: the items of `for_each` while their params are evaluated, else NULL, and the present one. One request
     * has the values of a program for all items. */
    json_t *items;
    size_t item;
    struct text items_program; /* of the request */
    struct step_inputs_answer *answers;
    size_t answer_count;
    const char *code; /* of the failure; static */
    struct weir_error message;
    struct process_command command; /* exec */
    char *result_path;              /* exec: its result_file.h; NULL = none */
    struct text input;              /* exec: stdin; handler: JSON text; http: the body; start: the plan of the children */
    bool has_input;
    bool input_is_json;  /* http: the body is no text of the definition */
    struct text url;     /* http */
    struct text headers; /* http: lines "Name: value", each with a NUL at its end */
    int64_t delay_us;    /* sleep */
};

/* True when there is nothing to evaluate: a handler without `when` that takes the execution's params. */
bool step_inputs_are_ready(const struct step_run *run);
/* NULL: out of memory (*ret_is_short), or the params cannot be read. `answered` is called in the loop. */
struct step_inputs *step_inputs_new(struct step_run *run, void (*answered)(struct step_run *run), bool *ret_is_short);
/* Evaluates as far as the answers allow. */
enum step_inputs_result step_inputs_evaluate(struct step_inputs *inputs);
/* The value of a template, with the answers that are there. Statuses of template_evaluate(); without the answer of a
 * program `has_request` is set. For start steps. */
enum weir_status step_inputs_value(struct step_inputs *inputs, const struct template *template, json_t **ret_value);
/* The same as text, by the rules of template_evaluate_text(). */
enum weir_status step_inputs_text(struct step_inputs *inputs, const struct template *template, struct text *to);
/* Fails the evaluation with this code, which is static. */
enum weir_status step_inputs_refuse(struct step_inputs *inputs, const char *code, const char *message);
/* The trace context that the present attempt of the step passes on, as text; "" = none. */
void step_write_traceparent(const struct step_run *run, char to[TRACEPARENT_SIZE]);
/* Also while an evaluator works on it. Takes NULL. */
void step_inputs_free(struct step_inputs *inputs);

#endif
