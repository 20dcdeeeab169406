/* Expressions: text with `${ ... }` in it, read once, evaluated for each run of a step.
 *
 *     "order ${.input.id} of ${.steps.fetch.output.total | floor}"      three literals and two expressions in between
 *
 * The text inside `${ }` is jq over one object with these members:
 *   .input        the params of the execution
 *   .steps.<id>   output, exit_code, attempt and error of each finished step
 *   .failure      after a failure: its step, code and message
 *   .execution    id, workspace, workflow, ...
 * A plain path such as `.steps.a.output[0]["k"]` is a subset of jq with jq's meaning and is read directly from the
 * context. Every other program goes to a callback, which asks an evaluator process
 * (engine/in_process/evaluator_process.h). libjq can neither be interrupted nor trusted with memory.
 *
 * `$${` stands for a literal `${`. `${NAME}` with nothing but letters, digits and underscores inside is not ours: it stays
 * as it is, for shells (write `${ (now) }` to call a jq function without arguments).
 *
 * Owner: a template lives in the arena given to template_parse() and is never changed: any thread may read it.
 */
#ifndef WEIR_DEFINITION_EXPRESSION_H
#define WEIR_DEFINITION_EXPRESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"
#include "weir/status.h"

enum {
    TEMPLATE_BYTES_MAX = 64 * 1024,              /* source of one template */
    TEMPLATE_PARTS_MAX = 256,                    /* literals and expressions in one template */
    EXPRESSION_PATH_STEPS_MAX = 3,               /* first steps of a path that expression_paths() reports */
    EXPRESSION_NESTING_MAX = 64,                 /* brackets inside each other in one expression */
    TEMPLATE_RESULT_BYTES_MAX = 4 * 1024 * 1024, /* text that one evaluation may give */
};

/* The error code of a step after the failure of its expression. */
#define EXPRESSION_ERROR_CODE "expression_error"

/* One step of a plain path: a key (`.a`, `["a"]`) or an index (`[0]`, `[-1]`). */
struct path_step {
    const char *key; /* NULL: an index */
    size_t key_length;
    int32_t index; /* negative ones count from the end */
};

enum template_part_kind { PART_LITERAL, PART_PATH, PART_PROGRAM };

struct template_part {
    enum template_part_kind kind;
    const char *text; /* the literal, or the expression between `${` and `}` without outer spaces; NUL-terminated */
    size_t length;
    size_t offset;                /* of a literal, or of `text` of an expression, in the template's source; bytes */
    const struct path_step *path; /* of PART_PATH; `.` alone has none */
    size_t path_count;
};

enum template_shape {
    TEMPLATE_TEXT,     /* parts */
    TEMPLATE_CONSTANT, /* a number, boolean or null: `source` is its JSON text */
    TEMPLATE_LIST,     /* children */
    TEMPLATE_MAP       /* children and keys; keys are literal */
};

struct template
{
    enum template_shape shape;
    const char *source; /* as written in the file; canonical for constants; NULL for lists and maps */
    size_t source_length;
    const struct template_part *parts;
    size_t part_count; /* 0 for the empty text */
    const char *const *keys;
    const struct template *const *children;
    size_t child_count;
};

/* Where an expression is wrong. */
struct template_fault {
    size_t offset; /* bytes from the start of the source */
};

/* Asks for the one value of a jq program (NUL-terminated) on `input`. Fills *ret_value (owned by the caller) on WEIR_OK.
 * The evaluation returns any other status unchanged. So a caller that must not wait can answer WEIR_STORE_BUSY, send
 * the request, and evaluate the template again when it has the answer. Evaluation has no side effect.
 */
typedef enum weir_status (*expression_evaluate)(void *context, const char *program, const json_t *input, json_t **ret_value,
                                                struct weir_error *error);

/* Reads the text of one template. WEIR_INVALID_DEFINITION has the fault in its message, with the place in `ret_fault`
 * (may be NULL). Faults are an expression without end, an empty one, `${input}` (`${.input}` was meant), and a text
 * that is too large. jq programs are not compiled here: see jq_check(). */
WEIR_MUST_CHECK enum weir_status template_parse(const char *source, size_t length, struct arena *arena,
                                                const struct template **ret_template, struct template_fault *ret_fault,
                                                struct weir_error *error);
/* A template that stands for exactly these bytes. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status template_make_verbatim(const char *source, size_t length, struct arena *arena,
                                                        const struct template **ret_template, struct weir_error *error);
/* True when the template is exactly one `${...}` and so yields any JSON value. */
bool template_is_expression(const struct template *template);
/* True when there is no expression anywhere in it. */
bool template_is_constant(const struct template *template);

/* The value of a template; *ret_value is owned by the caller and may share parts with the context. Exactly one `${...}`
 * gives its value as it is (also null). Text around expressions gives a string, with template_evaluate_text()'s rule
 * for the pieces. Lists and maps give lists and maps. WEIR_FAILED: the expression failed, the message names it (the
 * step's error code is EXPRESSION_ERROR_CODE); WEIR_OUT_OF_MEMORY; or the answer of `evaluate`. `evaluate` may be NULL
 * when template_each_program() finds none in any text of it. */
WEIR_MUST_CHECK enum weir_status template_evaluate(const struct template *template, const json_t *context,
                                                   expression_evaluate evaluate, void *evaluate_context, json_t **ret_value,
                                                   struct weir_error *error);
/* Adds the cause to the message of an expression that failed because a step's output is text where it reads JSON: the step,
 * and the beginning of its output. Changes no other error. `error` may be NULL. */
void expression_explain_text_output(const char *program, const json_t *context, struct weir_error *error);
/* The same as bytes appended to `to` (argv, env, cwd, stdin, durations): strings raw, other values as compact JSON.
 * null is an error that names the expression, because a missing value must not become the text "null" in a command. */
WEIR_MUST_CHECK enum weir_status template_evaluate_text(const struct template *template, const json_t *context,
                                                        expression_evaluate evaluate, void *evaluate_context,
                                                        struct text *to, struct weir_error *error);
/* For `when`: jq's truth - null and false are false, everything else is true (also 0, "" and []). */
WEIR_MUST_CHECK enum weir_status template_evaluate_condition(const struct template *template, const json_t *context,
                                                             expression_evaluate evaluate, void *evaluate_context,
                                                             bool *ret_true, struct weir_error *error);

/* Reads a plain path (`.a.b[0]["c"]`, `.`); false when the text is anything else, so that jq has to decide. */
bool path_parse(const char *text, size_t length, struct arena *arena, const struct path_step **ret_steps,
                size_t *ret_count);
/* Follows a path as jq does: a key of null is null, an index out of range is null, a key of a string is an error
 * (WEIR_FAILED). *ret_value is borrowed from `context`; NULL stands for null. */
WEIR_MUST_CHECK enum weir_status path_follow(const struct path_step *steps, size_t count, const json_t *context,
                                             const json_t **ret_value, struct weir_error *error);

/* These read the template of one text; those of lists and maps have a template for each of their texts. */

/* Calls `visit` for each step id that the template refers to as `.steps.<id>` or `.steps["<id>"]`; `offset` is where, in
 * its source. In jq programs a `.steps` at the start of any path counts. Stops at the first status
 * that is not WEIR_OK and returns it. */
typedef enum weir_status (*expression_visit)(void *context, const struct template *template, const char *word,
                                             size_t length, size_t offset);
WEIR_MUST_CHECK enum weir_status expression_references(const struct template *template, expression_visit visit,
                                                       void *context);
/* The objects that expressions read: the context as a whole, a step in `.steps`, `.execution` and `.failure`. The context
 * has more keys in a step that runs after a failure, and for an item of `for_each`. */
enum expression_object {
    CONTEXT_ITSELF,
    CONTEXT_AFTER_FAILURE,
    CONTEXT_OF_ITEM,
    CONTEXT_OF_ITEM_AFTER_FAILURE,
    CONTEXT_STEP,
    CONTEXT_EXECUTION,
    CONTEXT_FAILURE
};
/* The keys that such an object has, always, and no further ones. Static. */
const char *const *expression_keys(enum expression_object object, size_t *ret_count);

/* Calls `visit` for each path of the template that begins at the context for certain. `visit` gets its first steps,
 * from 1 to EXPRESSION_PATH_STEPS_MAX (their keys end with key_length), and where it begins in the source of the
 * template. A jq program is read only as far as `.` keeps its meaning, and not at all if it assigns. So a text
 * that it does not report may be a path all the same. Stops at the first status that is not WEIR_OK and returns it. */
typedef enum weir_status (*expression_visit_path)(void *context, const struct path_step *steps, size_t count,
                                                  size_t offset);
WEIR_MUST_CHECK enum weir_status expression_paths(const struct template *template, expression_visit_path visit,
                                                  void *context);
/* Calls `visit` for each jq program (`word` is NUL-terminated). */
WEIR_MUST_CHECK enum weir_status template_each_program(const struct template *template, expression_visit visit,
                                                       void *context);

#endif
