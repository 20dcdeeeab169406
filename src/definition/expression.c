/* Templates: texts with `${ ... }` are read once and evaluated for each run of a step. Pure functions over the caller's
 * arena and context; any thread.
 *
 * Reading (template_parse()):
 *
 *   1. A text without `${` is one literal.
 *   2. `$${` becomes a literal `${`, and `${NAME}` without a dot stays as it is for shells. A name that is a key of the
 * context is refused instead, because `${.input}` was meant.
 *   3. The end of an expression is found by its brackets and strings alone (expression_scan.c). jq is not needed for that,
 * and a bracket inside a string does not count.
 *   4. An expression that is a plain path is kept as its steps; any other text is a jq program.
 *
 * Evaluation (template_evaluate()):
 *
 *   1. A path is followed in the context directly, with jq's meaning: most expressions never need jq.
 *   2. A program goes to the callback of the caller, which asks an evaluator process. Nothing here may run libjq: it can
 * neither be interrupted nor trusted with memory.
 *   3. A template that is exactly one expression gives its value as it is. Otherwise the parts are joined to a text; null
 * is an error there, because a missing value must not become the text "null" in a command.
 *
 * Every size has a maximum, so that an expression cannot use up the memory of the node.
 */
#include "definition/expression.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "definition/expression_scan.h"

enum { EXPRESSION_SHOWN_MAX = 80, TEXT_OUTPUT_SHOWN_MAX = 60 };

/* --- reading templates --- */

struct template_reader {
    const char *source;
    size_t length;
    size_t at;
    struct arena *arena;
    struct template_part parts[TEMPLATE_PARTS_MAX];
    size_t count;
    char *literals; /* literal text with escapes resolved; each literal is followed by a NUL */
    size_t literals_used;
    size_t literal_start;  /* in `literals`, of the one being collected */
    size_t literal_offset; /* in `source` */
    size_t fault;
    struct weir_error *error;
};

/* Notes the place of the fault, from which the caller makes line and column. */
static enum weir_status fault_at(struct template_reader *reader, size_t offset, const char *message, const char *hint)
{
    reader->fault = offset;
    error_set(reader->error, WEIR_INVALID_DEFINITION, "%s", message);
    if (hint != NULL) {
        error_hint(reader->error, "%s", hint);
    }
    return WEIR_INVALID_DEFINITION;
}

static enum weir_status add_template_part(struct template_reader *reader, const struct template_part *part)
{
    if (reader->count == TEMPLATE_PARTS_MAX) {
        return fault_at(reader, part->offset, "too many expressions in one text", NULL);
    }
    reader->parts[reader->count++] = *part;
    return WEIR_OK;
}

static void add_literal_bytes(struct template_reader *reader, const char *bytes, size_t length)
{
    memcpy(reader->literals + reader->literals_used, bytes, length);
    reader->literals_used += length;
}

/* The literal that was collected so far becomes a part, unless it is empty. */
static enum weir_status end_literal(struct template_reader *reader)
{
    size_t length = reader->literals_used - reader->literal_start;
    if (length == 0) {
        return WEIR_OK;
    }
    struct template_part part = {.kind = PART_LITERAL,
                                 .text = reader->literals + reader->literal_start,
                                 .length = length,
                                 .offset = reader->literal_offset};
    reader->literals[reader->literals_used++] = '\0';
    reader->literal_start = reader->literals_used;
    return add_template_part(reader, &part);
}

/* The length of `${NAME}` at `text`, or 0. */
static size_t shell_name_length(const char *text, size_t length)
{
    size_t name = scan_identifier(text + 2, length - 2);
    return name > 0 && name + 2 < length && text[name + 2] == '}' ? name + 3 : 0;
}

/* `input`, `steps` and `execution`: the dot before it was forgotten. */
static bool lacks_leading_dot(const char *name, size_t length)
{
    size_t count = 0;
    const char *const *words = expression_keys(CONTEXT_ITSELF, &count);
    for (size_t i = 0; i < count; i++) {
        if (strlen(words[i]) == length && memcmp(words[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the text begins as another system writes an expression: `{{ input.x }}`, `${{ steps.a.output }}`. `{{.Names}}`
 * and other templates of programs are none of these. */
static bool is_foreign_expression(const char *text, size_t length)
{
    static const char *const names[] = {"input", "inputs", "params", "steps", "execution"};
    size_t at = length > 0 && text[0] == '$' ? 1 : 0;
    if (length < at + 2 || memcmp(text + at, "{{", 2) != 0) {
        return false;
    }
    at += 2;
    /* The other dialects put spaces, a dot or a dollar sign in front of the name. */
    while (at < length && (scan_is_space(text[at]) || text[at] == '.' || text[at] == '$')) {
        at++;
    }
    size_t name = scan_identifier(text + at, length - at);
    bool is_path = name > 0 && at + name < length && (text[at + name] == '.' || text[at + name] == '[');
    for (size_t i = 0; i < sizeof names / sizeof names[0] && is_path; i++) {
        if (strlen(names[i]) == name && memcmp(text + at, names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Finds the bracket that ends the expression. Its text starts at `from`. */
static enum weir_status find_expression_end(struct template_reader *reader, size_t from, size_t *ret_end)
{
    struct scanner scanner = {.depth = 0};
    size_t at = from;
    while (at < reader->length) {
        size_t before = at;
        switch (scanner_step(&scanner, reader->source, reader->length, &at)) {
        case SCAN_ON:
            break;
        case SCAN_END:
            *ret_end = at;
            return WEIR_OK;
        case SCAN_MISMATCH:
            return fault_at(reader, before, "a closing bracket in the expression has no opening one", NULL);
        case SCAN_TOO_DEEP:
            return fault_at(reader, before, "brackets in the expression are nested too deep", NULL);
        }
    }
    return fault_at(reader, from - 2, "the expression has no closing \"}\"", "write $${ for a literal ${");
}

/* Steps 3 and 4 of reading. */
static enum weir_status read_expression(struct template_reader *reader)
{
    size_t start = reader->at + 2;
    size_t end = start;
    enum weir_status status = end_literal(reader);
    if (status == WEIR_OK) {
        status = find_expression_end(reader, start, &end);
    }
    if (status != WEIR_OK) {
        return status;
    }
    reader->at = end + 1;
    while (start < end && scan_is_space(reader->source[start])) {
        start++;
    }
    while (end > start && scan_is_space(reader->source[end - 1])) {
        end--;
    }
    if (start == end) {
        return fault_at(reader, start, "the expression is empty", "write $${ for a literal ${");
    }
    if (memchr(reader->source + start, '\0', end - start) != NULL) {
        return fault_at(reader, start, "a NUL in the expression", NULL);
    }
    struct template_part part = {.kind = PART_PROGRAM,
                                 .text = arena_copy(reader->arena, reader->source + start, end - start),
                                 .length = end - start,
                                 .offset = start};
    if (part.text == NULL) {
        return error_out_of_memory(reader->error);
    }
    if (path_parse(part.text, part.length, reader->arena, &part.path, &part.path_count)) {
        part.kind = PART_PATH;
    } else if (lacks_leading_dot(part.text, scan_identifier(part.text, part.length))) {
        return fault_at(reader, start, "an expression starts with a dot here", "write ${.input...}, not ${input...}");
    }
    return add_template_part(reader, &part);
}

/* Takes one byte of a literal, one escape, or one expression. */
static enum weir_status read_piece(struct template_reader *reader)
{
    const char *text = reader->source + reader->at;
    size_t left = reader->length - reader->at;
    if (reader->literals_used == reader->literal_start) {
        reader->literal_offset = reader->at;
    }
    if (left >= 3 && memcmp(text, "$${", 3) == 0) {
        add_literal_bytes(reader, "${", 2);
        reader->at += 3;
        return WEIR_OK;
    }
    if (is_foreign_expression(text, left)) {
        return fault_at(reader, reader->at, "{{ }} is no expression here",
                        "write ${.input.name} or ${.steps.ID.output}; ${\"{{ input.name }}\"} is the literal text");
    }
    if (left < 2 || memcmp(text, "${", 2) != 0) {
        add_literal_bytes(reader, text, 1);
        reader->at++;
        return WEIR_OK;
    }
    size_t shell = shell_name_length(text, left);
    if (shell == 0) {
        return read_expression(reader);
    }
    if (lacks_leading_dot(text + 2, shell - 3)) {
        return fault_at(reader, reader->at + 2, "an expression starts with a dot here",
                        "write ${.input}, not ${input}; $${input} is the literal text");
    }
    add_literal_bytes(reader, text, shell);
    reader->at += shell;
    return WEIR_OK;
}

static enum weir_status make_template(struct template_reader *reader, const struct template **ret_template)
{
    struct template *made = arena_allocate(reader->arena, sizeof *made);
    struct template_part *parts = arena_allocate(reader->arena, (reader->count + 1) * sizeof *parts);
    if (made == NULL || parts == NULL) {
        return error_out_of_memory(reader->error);
    }
    memcpy(parts, reader->parts, reader->count * sizeof *parts);
    made->shape = TEMPLATE_TEXT;
    made->parts = parts;
    made->part_count = reader->count;
    made->source_length = reader->length;
    made->source = arena_copy(reader->arena, reader->source, reader->length);
    if (made->source == NULL) {
        return error_out_of_memory(reader->error);
    }
    *ret_template = made;
    return WEIR_OK;
}

static enum weir_status read_template(struct template_reader *reader, const struct template **ret_template)
{
    if (reader->length > TEMPLATE_BYTES_MAX) {
        return fault_at(reader, 0, "a text with expressions is larger than 64 KiB", NULL);
    }
    reader->literals = arena_allocate(reader->arena, 2 * reader->length + 1);
    if (reader->literals == NULL) {
        return error_out_of_memory(reader->error);
    }
    while (reader->at < reader->length) {
        enum weir_status status = read_piece(reader);
        if (status != WEIR_OK) {
            return status;
        }
    }
    enum weir_status status = end_literal(reader);
    return status == WEIR_OK ? make_template(reader, ret_template) : status;
}

enum weir_status template_parse(const char *source, size_t length, struct arena *arena,
                                const struct template **ret_template, struct template_fault *ret_fault,
                                struct weir_error *error)
{
    if (memmem(source, length, "${", 2) == NULL && memmem(source, length, "{{", 2) == NULL) {
        return template_make_verbatim(source, length, arena, ret_template, error);
    }
    INVARIANT(source != NULL && arena != NULL && ret_template != NULL);
    struct template_reader reader = {.source = source, .length = length, .arena = arena, .error = error};
    enum weir_status status = read_template(&reader, ret_template);
    if (status != WEIR_OK && ret_fault != NULL) {
        ret_fault->offset = reader.fault;
    }
    return status;
}

enum weir_status template_make_verbatim(const char *source, size_t length, struct arena *arena,
                                        const struct template **ret_template, struct weir_error *error)
{
    struct template *made = arena_allocate(arena, sizeof *made);
    struct template_part *part = arena_allocate(arena, sizeof *part);
    char *copy = arena_copy(arena, source, length);
    if (made == NULL || part == NULL || copy == NULL) {
        return error_out_of_memory(error);
    }
    *part = (struct template_part){.kind = PART_LITERAL, .text = copy, .length = length};
    *made = (struct template){
        .shape = TEMPLATE_TEXT, .source = copy, .source_length = length, .parts = part, .part_count = length == 0 ? 0 : 1};
    *ret_template = made;
    return WEIR_OK;
}

bool template_is_expression(const struct template *template)
{
    return template->shape == TEMPLATE_TEXT && template->part_count == 1 && template->parts[0].kind != PART_LITERAL;
}

bool template_is_constant(const struct template *template)
{
    for (size_t i = 0; i < template->part_count; i++) {
        if (template->parts[i].kind != PART_LITERAL) {
            return false;
        }
    }
    for (size_t i = 0; i < template->child_count; i++) {
        if (!template_is_constant(template->children[i])) {
            return false;
        }
    }
    return true;
}

/* --- evaluating --- */

struct evaluation {
    const json_t *context;
    expression_evaluate evaluate;
    void *evaluate_context;
    struct weir_error *error;
};

/* Prefixes the error with the expression, so that a user finds it in the file. */
static void name_expression(const struct evaluation *evaluation, const struct template_part *part)
{
    error_prefix(evaluation->error, "${%.*s%s}", EXPRESSION_SHOWN_MAX, part->text,
                 part->length > EXPRESSION_SHOWN_MAX ? "..." : "");
}

/* jq and path_follow() fail on a text with one of three messages. A program that prints a line of progress before its JSON
 * is the usual cause, and neither message shows that line. */
void expression_explain_text_output(const char *program, const json_t *context, struct weir_error *error)
{
    const char *id;
    json_t *step;
    if (error == NULL || (strstr(error->message, "index string") == NULL && strstr(error->message, "over string") == NULL &&
                          strstr(error->message, "string (") == NULL)) {
        return;
    }
    json_object_foreach(json_object_get(context, "steps"), id, step)
    {
        const char *output = json_string_value(json_object_get(step, "output"));
        if (output != NULL && strstr(program, id) != NULL && strstr(program, "output") != NULL) {
            char begin[TEXT_OUTPUT_SHOWN_MAX + 1];
            (void)snprintf(begin, sizeof begin, "%.*s", (int)strcspn(output, "\n"), output);
            text_make_safe(begin);
            struct weir_error cause = *error;
            error_set(error, cause.status,
                      "%s: the output of step \"%s\" is text, not JSON, and begins with \"%s\"; print nothing but JSON on"
                      " stdout, or write it to the file $WEIR_OUTPUT",
                      cause.message, id, begin);
            return;
        }
    }
}

static enum weir_status evaluate_part(const struct evaluation *evaluation, const struct template_part *part,
                                      json_t **ret_value)
{
    enum weir_status status;
    if (part->kind == PART_PATH) {
        const json_t *found = NULL;
        status = path_follow(part->path, part->path_count, evaluation->context, &found, evaluation->error);
        if (status == WEIR_OK) {
            /* jansson counts references of const values only through this cast. */
            *ret_value = found == NULL ? json_null() : json_incref((json_t *)(uintptr_t)found);
        }
    } else if (evaluation->evaluate == NULL) {
        return error_set(evaluation->error, WEIR_MISUSE, "a jq program needs an evaluator, and the caller gave none");
    } else {
        status = evaluation->evaluate(evaluation->evaluate_context, part->text, evaluation->context, ret_value,
                                      evaluation->error);
    }
    if (status == WEIR_FAILED) {
        expression_explain_text_output(part->text, evaluation->context, evaluation->error);
        name_expression(evaluation, part);
    }
    return status;
}

static enum weir_status too_large(const struct evaluation *evaluation, enum weir_status status, size_t max)
{
    return status == WEIR_FAILED ? error_set(evaluation->error, WEIR_FAILED, "the text is larger than %zu bytes", max)
           : status == WEIR_OUT_OF_MEMORY ? error_out_of_memory(evaluation->error)
                                          : status;
}

/* Strings raw, numbers as jq prints them, other values as compact JSON. */
static enum weir_status add_value(const struct evaluation *evaluation, const struct template_part *part,
                                  const json_t *value, struct text *to)
{
    if (json_is_null(value)) {
        error_set(evaluation->error, WEIR_FAILED, "there is no value here (null)");
        error_hint(evaluation->error, "a default for a missing value: ${.input.size // 10}");
        name_expression(evaluation, part);
        return WEIR_FAILED;
    }
    if (json_is_string(value)) {
        enum weir_status status = text_add(to, json_string_value(value), json_string_length(value));
        return too_large(evaluation, status, to->max);
    }
    if (json_is_real(value)) {
        char number[JSON_NUMBER_TEXT_MAX];
        enum weir_status status = json_format_number(json_real_value(value), number);
        status = status == WEIR_OK ? text_add_string(to, number) : status;
        return too_large(evaluation, status, to->max);
    }
    return json_write(value, to, evaluation->error);
}

static enum weir_status add_parts(const struct evaluation *evaluation, const struct template *template, struct text *to)
{
    enum weir_status status = text_add(to, "", 0);
    for (size_t i = 0; i < template->part_count && status == WEIR_OK; i++) {
        const struct template_part *part = &template->parts[i];
        if (part->kind == PART_LITERAL) {
            status = too_large(evaluation, text_add(to, part->text, part->length), to->max);
            continue;
        }
        json_t *value = NULL;
        status = evaluate_part(evaluation, part, &value);
        if (status == WEIR_OK) {
            status = add_value(evaluation, part, value, to);
            json_decref(value);
        }
    }
    return status;
}

static enum weir_status evaluate_string(const struct evaluation *evaluation, const struct template *template,
                                        json_t **ret_value)
{
    if (template_is_expression(template)) {
        return evaluate_part(evaluation, &template->parts[0], ret_value);
    }
    struct text text = {.max = TEMPLATE_RESULT_BYTES_MAX};
    enum weir_status status = add_parts(evaluation, template, &text);
    if (status == WEIR_OK) {
        json_t *value = json_stringn(text.data, text.length);
        status = value == NULL ? error_out_of_memory(evaluation->error) : WEIR_OK;
        *ret_value = value == NULL ? *ret_value : value;
    }
    text_close(&text);
    return status;
}

static enum weir_status evaluate_tree(const struct evaluation *evaluation, const struct template *template,
                                      json_t **ret_value);

static enum weir_status evaluate_children(const struct evaluation *evaluation, const struct template *template,
                                          json_t **ret_value)
{
    bool is_map = template->shape == TEMPLATE_MAP;
    json_t *tree = is_map ? json_object() : json_array();
    enum weir_status status = tree == NULL ? error_out_of_memory(evaluation->error) : WEIR_OK;
    for (size_t i = 0; i < template->child_count && status == WEIR_OK; i++) {
        json_t *child = NULL;
        status = evaluate_tree(evaluation, template->children[i], &child);
        if (status == WEIR_OK) {
            int failed = is_map ? json_object_set_new(tree, template->keys[i], child) : json_array_append_new(tree, child);
            status = failed ? error_out_of_memory(evaluation->error) : WEIR_OK;
        }
    }
    if (status != WEIR_OK) {
        json_decref(tree);
        return status;
    }
    *ret_value = tree;
    return WEIR_OK;
}

static enum weir_status evaluate_tree(const struct evaluation *evaluation, const struct template *template,
                                      json_t **ret_value)
{
    switch (template->shape) {
    case TEMPLATE_TEXT:
        return evaluate_string(evaluation, template, ret_value);
    case TEMPLATE_CONSTANT:
        return json_read(template->source, template->source_length, ret_value, evaluation->error);
    case TEMPLATE_LIST:
    case TEMPLATE_MAP:
        return evaluate_children(evaluation, template, ret_value);
    }
    return error_set(evaluation->error, WEIR_MISUSE, "no such template");
}

enum weir_status template_evaluate(const struct template *template, const json_t *context, expression_evaluate evaluate,
                                   void *evaluate_context, json_t **ret_value, struct weir_error *error)
{
    INVARIANT(template != NULL && ret_value != NULL);
    const struct evaluation evaluation = {context, evaluate, evaluate_context, error};
    return evaluate_tree(&evaluation, template, ret_value);
}

enum weir_status template_evaluate_text(const struct template *template, const json_t *context,
                                        expression_evaluate evaluate, void *evaluate_context, struct text *to,
                                        struct weir_error *error)
{
    const struct evaluation evaluation = {context, evaluate, evaluate_context, error};
    size_t before = to->length;
    enum weir_status status = WEIR_OK;
    if (template->shape == TEMPLATE_TEXT) {
        status = add_parts(&evaluation, template, to);
    } else {
        json_t *value = NULL;
        status = evaluate_tree(&evaluation, template, &value);
        status = status == WEIR_OK ? json_write(value, to, error) : status;
        json_decref(value);
    }
    if (status != WEIR_OK && to->data != NULL) {
        to->length = before;
        to->data[before] = '\0';
    }
    return status;
}

enum weir_status template_evaluate_condition(const struct template *template, const json_t *context,
                                             expression_evaluate evaluate, void *evaluate_context, bool *ret_true,
                                             struct weir_error *error)
{
    json_t *value = NULL;
    enum weir_status status = template_evaluate(template, context, evaluate, evaluate_context, &value, error);
    if (status == WEIR_OK) {
        *ret_true = !json_is_null(value) && !json_is_false(value);
        json_decref(value);
    }
    return status;
}
