/* `weir logs`: the output that the steps of an execution wrote.
 *
 * Each step is printed with its earlier attempts before it. In a pipe the bytes stay as they were written; on a terminal
 * each line is made safe first, because a step may write escape codes. One thread.
 */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/output/json_fields.h"
#include "cli/verbs/verb.h"

enum { STEPS_NAMED_MAX = 200 };

/* Prints line by line, without control characters. */
static void print_safe_lines(struct output *output, const char *text, size_t length)
{
    while (length > 0) {
        const char *end = memchr(text, '\n', length);
        size_t size = end == NULL ? length : (size_t)(end - text);
        char *line = arena_copy(output->arena, text, size);
        if (line != NULL) {
            for (char *nul = line; (nul = memchr(nul, '\0', size - (size_t)(nul - line))) != NULL;) {
                *nul = '\1'; /* made safe like any other control character */
            }
            text_make_safe(line);
            output_print(output, "%s\n", line);
        }
        size += end != NULL;
        text += size;
        length -= size;
    }
}

/* Writes text as it is when it goes to a file or a pipe; on a terminal each line is made safe first. */
static void print_step_text(struct output *output, const char *text, size_t length)
{
    if (output->out_is_terminal) {
        print_safe_lines(output, text, length);
        return;
    }
    output_bytes(output, text, length);
    if (length > 0 && text[length - 1] != '\n') {
        output_print(output, "\n");
    }
}

/* Prints a text as it is, and another value as JSON. */
static void print_step_part(struct output *output, const json_t *step, const char *key)
{
    const json_t *value = json_object_get(step, key);
    if (json_is_string(value)) {
        print_step_text(output, json_string_value(value), json_string_length(value));
    } else if (value != NULL && !json_is_null(value)) {
        output_json(output, value);
    }
}

static void print_step(struct output *output, const json_t *step)
{
    const char *code = field_text(output, step, "error_code");
    const char *error = field_text(output, step, "error");
    const char *exit_code = field_text(output, step, "exit_code");
    output_print(output, "== %s, attempt %s, %s%s%s\n", field_text(output, step, "step"),
                 field_text(output, step, "attempt"), field_text(output, step, "status"),
                 exit_code != NULL ? ", exit code " : "", exit_code != NULL ? exit_code : "");
    print_step_part(output, step, "output");
    print_step_part(output, step, "stderr");
    if (code != NULL || error != NULL) {
        output_print(output, "%s%s%s\n", code != NULL ? code : "", code != NULL && error != NULL ? ": " : "",
                     error != NULL ? error : "");
    }
}

/* Names the nearest step that has begun. */
static enum weir_status refuse_unknown_step(const json_t *steps, const char *wanted, struct output *output,
                                            struct weir_error *error)
{
    const char *names[STEPS_NAMED_MAX];
    size_t count = 0;
    size_t i;
    json_t *step;
    json_array_foreach(steps, i, step)
    {
        if (count < sizeof names / sizeof names[0]) {
            names[count++] = field_text(output, step, "step");
        }
    }
    const char *nearest = text_nearest(wanted, names, count);
    error_set(error, WEIR_NOT_FOUND, "no step \"%s\" has begun", wanted);
    if (nearest != NULL) {
        error_hint(error, "did you mean %s?", nearest);
    }
    return WEIR_NOT_FOUND;
}

static bool is_of_step(const json_t *row, const json_t *name)
{
    return json_equal(json_object_get(row, "step"), name);
}

/* Picks the wanted steps, each after its earlier attempts. */
static json_t *pick_steps(const json_t *execution, const char *wanted)
{
    const json_t *earlier = json_object_get(execution, "earlier_attempts");
    json_t *picked = json_array();
    size_t i;
    size_t k;
    json_t *step;
    json_t *attempt;
    json_array_foreach(json_object_get(execution, "steps"), i, step)
    {
        json_t *name = json_object_get(step, "step");
        if (wanted != NULL && (json_string_value(name) == NULL || strcmp(json_string_value(name), wanted) != 0)) {
            continue;
        }
        json_array_foreach(earlier, k, attempt)
        {
            if (is_of_step(attempt, name)) {
                (void)json_array_append(picked, attempt);
            }
        }
        (void)json_array_append(picked, step);
    }
    return picked;
}

/* Prints the wanted steps, or the whole page as JSON. */
static enum weir_status print_logs(struct invocation *invocation, const json_t *execution, struct weir_error *error)
{
    struct output *output = invocation->output;
    const char *wanted = invocation_text(invocation, "step");
    const json_t *steps = json_object_get(execution, "steps");
    size_t i;
    json_t *step;
    json_t *picked = pick_steps(execution, wanted);
    size_t shown = json_array_size(picked);
    json_t *page = json_pack("{s:O, s:O, s:o, s:I, s:b}", "items", picked, "id", json_object_get(execution, "id"),
                             "next_cursor", json_null(), "count", (json_int_t)shown, "count_is_exact", 1);
    if (wanted != NULL && shown == 0) {
        json_decref(page);
        json_decref(picked);
        return refuse_unknown_step(steps, wanted, output, error);
    }
    if (!output_page(output, page)) {
        json_array_foreach(picked, i, step)
        {
            print_step(output, step);
        }
        if (shown == 0) {
            output_report(output, "no step has begun; `weir why %s` explains why", invocation_argument(invocation, 0));
        }
    }
    json_decref(page);
    json_decref(picked);
    return WEIR_OK;
}

enum weir_status verb_logs(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *execution = NULL;
    enum weir_status status = verb_open_store(invocation, STORE_READ, &store, error);
    if (status == WEIR_OK) {
        status = store_show(store, invocation_argument(invocation, 0), &execution, error);
    }
    if (status == WEIR_OK) {
        status = print_logs(invocation, execution, error);
    }
    json_decref(execution);
    store_close(store);
    return status;
}
