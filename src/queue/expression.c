#include "queue/expression.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"

enum { EXPRESSION_SHOWN_MAX = 80, PATH_STEPS_MAX = 64, PATH_INDEX_DIGITS_MAX = 8 };

/* --- walking through the text of a jq program --- */

/* Which brackets and strings are open. A '"' on the stack is a string; a ')' on top of it is an interpolation "\( ... )".
 */
struct scanner {
    char closers[EXPRESSION_NESTING_MAX];
    size_t depth;
};

enum scan_result { SCAN_ON, SCAN_END, SCAN_MISMATCH, SCAN_TOO_DEEP };

static bool is_in_string(const struct scanner *scanner)
{
    return scanner->depth > 0 && scanner->closers[scanner->depth - 1] == '"';
}

static enum scan_result push(struct scanner *scanner, char closer)
{
    if (scanner->depth == EXPRESSION_NESTING_MAX) {
        return SCAN_TOO_DEEP;
    }
    scanner->closers[scanner->depth++] = closer;
    return SCAN_ON;
}

static enum scan_result pop(struct scanner *scanner, char closer)
{
    if (scanner->depth == 0) {
        return closer == '}' ? SCAN_END : SCAN_MISMATCH;
    }
    return scanner->closers[--scanner->depth] == closer ? SCAN_ON : SCAN_MISMATCH;
}

/* Takes the next one or two bytes; SCAN_END at the bracket that closes the expression, which is not taken. */
static enum scan_result scan_step(struct scanner *scanner, const char *text, size_t length, size_t *at)
{
    char c = text[(*at)++];
    if (is_in_string(scanner)) {
        if (c == '\\' && *at < length) {
            return text[(*at)++] == '(' ? push(scanner, ')') : SCAN_ON;
        }
        return c == '"' ? pop(scanner, '"') : SCAN_ON;
    }
    switch (c) {
    case '"':
        return push(scanner, '"');
    case '(':
        return push(scanner, ')');
    case '[':
        return push(scanner, ']');
    case '{':
        return push(scanner, '}');
    case ')':
    case ']':
    case '}': {
        enum scan_result result = pop(scanner, c);
        *at -= result == SCAN_END;
        return result;
    }
    case '#':
        while (*at < length && text[*at] != '\n') {
            (*at)++;
        }
        return SCAN_ON;
    default:
        return SCAN_ON;
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool starts_identifier(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_in_identifier(char c)
{
    return starts_identifier(c) || (c >= '0' && c <= '9');
}

static size_t identifier_length(const char *text, size_t length)
{
    size_t at = 0;
    if (length > 0 && starts_identifier(text[0])) {
        while (at < length && is_in_identifier(text[at])) {
            at++;
        }
    }
    return at;
}

/* --- plain paths --- */

/* `"key"` without escapes at text[0]; gives the length with quotes, or 0. */
static size_t quoted_length(const char *text, size_t length)
{
    if (length < 2 || text[0] != '"') {
        return 0;
    }
    for (size_t at = 1; at < length; at++) {
        if (text[at] == '\\' || (unsigned char)text[at] < 0x20) {
            return 0;
        }
        if (text[at] == '"') {
            return at + 1;
        }
    }
    return 0;
}

/* `[0]` or `[-12]` at text[0]; gives the length with brackets, or 0. */
static size_t index_length(const char *text, size_t length, int32_t *ret_index)
{
    size_t at = 1;
    bool is_negative = at < length && text[at] == '-';
    at += is_negative;
    size_t first = at;
    int32_t index = 0;
    while (at < length && text[at] >= '0' && text[at] <= '9' && at - first < PATH_INDEX_DIGITS_MAX) {
        index = index * 10 + (text[at++] - '0');
    }
    bool has_leading_zero = at - first > 1 && text[first] == '0';
    if (at == first || has_leading_zero || at >= length || text[at] != ']') {
        return 0;
    }
    *ret_index = is_negative ? -index : index;
    return at + 1;
}

static size_t read_bracket(const char *text, size_t length, struct path_step *step)
{
    size_t quoted = quoted_length(text + 1, length - 1);
    if (quoted > 0) {
        if (quoted + 1 >= length || text[quoted + 1] != ']') {
            return 0;
        }
        step->key = text + 2;
        step->key_length = quoted - 2;
        return quoted + 2;
    }
    return index_length(text, length, &step->index);
}

static size_t read_dot(const char *text, size_t length, struct path_step *step)
{
    size_t quoted = quoted_length(text + 1, length - 1);
    size_t word = quoted > 0 ? quoted - 2 : identifier_length(text + 1, length - 1);
    if (quoted == 0 && word == 0) {
        return 0;
    }
    step->key = text + (quoted > 0 ? 2 : 1);
    step->key_length = word;
    return quoted > 0 ? quoted + 1 : word + 1;
}

bool path_parse(const char *text, size_t length, struct arena *arena, const struct path_step **ret_steps, size_t *ret_count)
{
    struct path_step found[PATH_STEPS_MAX];
    size_t count = 0;
    if (length == 0 || text[0] != '.') {
        return false;
    }
    size_t at = length == 1 || text[1] == '[' ? 1 : 0;
    while (at < length) {
        if (count == PATH_STEPS_MAX) {
            return false;
        }
        struct path_step *step = &found[count++];
        *step = (struct path_step){.key = NULL};
        size_t used = text[at] == '.'   ? read_dot(text + at, length - at, step)
                      : text[at] == '[' ? read_bracket(text + at, length - at, step)
                                        : 0;
        if (used == 0) {
            return false;
        }
        at += used;
    }
    struct path_step *steps = arena_allocate(arena, (count + 1) * sizeof *steps);
    for (size_t i = 0; steps != NULL && i < count; i++) {
        steps[i] = found[i];
        if (found[i].key != NULL) {
            steps[i].key = arena_copy(arena, found[i].key, found[i].key_length);
            steps = steps[i].key == NULL ? NULL : steps;
        }
    }
    *ret_steps = steps;
    *ret_count = count;
    return steps != NULL;
}

static const char *jq_type_name(const json_t *value)
{
    return json_is_integer(value) ? "number" : json_type_name(value);
}

enum weir_status path_follow(const struct path_step *steps, size_t count, const json_t *context, const json_t **ret_value,
                             struct weir_error *error)
{
    const json_t *value = context;
    for (size_t i = 0; i < count && value != NULL && !json_is_null(value); i++) {
        if (steps[i].key != NULL) {
            if (!json_is_object(value)) {
                return error_set(error, WEIR_FAILED, "Cannot index %s with string \"%.64s\"", jq_type_name(value),
                                 steps[i].key);
            }
            value = json_object_get(value, steps[i].key);
        } else {
            if (!json_is_array(value)) {
                return error_set(error, WEIR_FAILED, "Cannot index %s with number", jq_type_name(value));
            }
            int64_t size = (int64_t)json_array_size(value);
            int64_t index = steps[i].index < 0 ? size + steps[i].index : steps[i].index;
            value = index < 0 || index >= size ? NULL : json_array_get(value, (size_t)index);
        }
    }
    *ret_value = value;
    return WEIR_OK;
}

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

static enum weir_status fault_at(struct template_reader *reader, size_t offset, const char *message, const char *hint)
{
    reader->fault = offset;
    error_set(reader->error, WEIR_INVALID_DEFINITION, "%s", message);
    if (hint != NULL) {
        error_hint(reader->error, "%s", hint);
    }
    return WEIR_INVALID_DEFINITION;
}

static enum weir_status add_part(struct template_reader *reader, const struct template_part *part)
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
    return add_part(reader, &part);
}

/* The length of `${NAME}` at `text`, or 0. */
static size_t shell_name_length(const char *text, size_t length)
{
    size_t name = identifier_length(text + 2, length - 2);
    return name > 0 && name + 2 < length && text[name + 2] == '}' ? name + 3 : 0;
}

static bool is_forgotten_dot(const char *name, size_t length)
{
    static const char *const words[] = {"input", "steps", "execution"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == length && memcmp(words[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Finds the bracket that ends the expression whose text starts at `from`. */
static enum weir_status find_end(struct template_reader *reader, size_t from, size_t *ret_end)
{
    struct scanner scanner = {.depth = 0};
    size_t at = from;
    while (at < reader->length) {
        size_t before = at;
        switch (scan_step(&scanner, reader->source, reader->length, &at)) {
        case SCAN_ON:
            break;
        case SCAN_END:
            *ret_end = at;
            return WEIR_OK;
        case SCAN_MISMATCH:
            return fault_at(reader, before, "a bracket in the expression closes nothing", NULL);
        case SCAN_TOO_DEEP:
            return fault_at(reader, before, "brackets in the expression are nested too deep", NULL);
        }
    }
    return fault_at(reader, from - 2, "the expression has no closing \"}\"", "write $${ for a literal ${");
}

static enum weir_status read_expression(struct template_reader *reader)
{
    size_t start = reader->at + 2;
    size_t end = start;
    enum weir_status status = end_literal(reader);
    if (status == WEIR_OK) {
        status = find_end(reader, start, &end);
    }
    if (status != WEIR_OK) {
        return status;
    }
    reader->at = end + 1;
    while (start < end && is_space(reader->source[start])) {
        start++;
    }
    while (end > start && is_space(reader->source[end - 1])) {
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
    } else if (is_forgotten_dot(part.text, identifier_length(part.text, part.length))) {
        return fault_at(reader, start, "an expression starts with a dot here", "write ${.input...}, not ${input...}");
    }
    return add_part(reader, &part);
}

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
    if (left < 2 || memcmp(text, "${", 2) != 0) {
        add_literal_bytes(reader, text, 1);
        reader->at++;
        return WEIR_OK;
    }
    size_t shell = shell_name_length(text, left);
    if (shell == 0) {
        return read_expression(reader);
    }
    if (is_forgotten_dot(text + 2, shell - 3)) {
        return fault_at(reader, reader->at + 2, "an expression starts with a dot here",
                        "write ${.input}, not ${input}; $${input} is the literal text");
    }
    add_literal_bytes(reader, text, shell);
    reader->at += shell;
    return WEIR_OK;
}

static enum weir_status finish(struct template_reader *reader, const struct template **ret_template)
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
    return status == WEIR_OK ? finish(reader, ret_template) : status;
}

enum weir_status template_parse(const char *source, size_t length, struct arena *arena,
                                const struct template **ret_template, struct template_fault *ret_fault,
                                struct weir_error *error)
{
    if (memmem(source, length, "${", 2) == NULL) {
        return template_make_verbatim(source, length, arena, ret_template, error);
    }
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

static void name_expression(const struct evaluation *evaluation, const struct template_part *part)
{
    error_prefix(evaluation->error, "${%.*s%s}", EXPRESSION_SHOWN_MAX, part->text,
                 part->length > EXPRESSION_SHOWN_MAX ? "..." : "");
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
        return error_set(evaluation->error, WEIR_MISUSE, "there is nobody to ask about a jq program");
    } else {
        status = evaluation->evaluate(evaluation->evaluate_context, part->text, evaluation->context, ret_value,
                                      evaluation->error);
    }
    if (status == WEIR_FAILED) {
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

/* --- what a template refers to --- */

/* `.steps` begins a path only where no value stands before it: in `.input.steps` it is a key of something else. */
static bool begins_path(const char *text, size_t at)
{
    return at == 0 || (!is_in_identifier(text[at - 1]) && strchr("])}\"?.", text[at - 1]) == NULL);
}

/* The word behind `.steps` in `text`: `.id`, `."id"`, `["id"]`. Gives false when there is none. */
static bool read_reference(const char *text, size_t length, const char **ret_word, size_t *ret_length)
{
    struct path_step step = {.key = NULL};
    size_t used = length == 0      ? 0
                  : text[0] == '.' ? read_dot(text, length, &step)
                  : text[0] == '[' ? read_bracket(text, length, &step)
                                   : 0;
    *ret_word = step.key;
    *ret_length = step.key_length;
    return used > 0 && step.key != NULL;
}

static enum weir_status visit_program(const struct template *template, const struct template_part *part,
                                      expression_visit visit, void *context)
{
    static const char steps[] = ".steps";
    enum { STEPS_LENGTH = sizeof steps - 1 };
    struct scanner scanner = {.depth = 0};
    size_t at = 0;
    while (at < part->length) {
        const char *text = part->text + at;
        size_t left = part->length - at;
        const char *word = NULL;
        size_t word_length = 0;
        if (!is_in_string(&scanner) && left > STEPS_LENGTH && memcmp(text, steps, STEPS_LENGTH) == 0 &&
            begins_path(part->text, at) && read_reference(text + STEPS_LENGTH, left - STEPS_LENGTH, &word, &word_length)) {
            size_t offset = part->offset + (size_t)(word - part->text);
            enum weir_status status = visit(context, template, word, word_length, offset);
            if (status != WEIR_OK) {
                return status;
            }
        }
        if (scan_step(&scanner, part->text, part->length, &at) != SCAN_ON) {
            break;
        }
    }
    return WEIR_OK;
}

static enum weir_status visit_part(const struct template *template, const struct template_part *part,
                                   expression_visit visit, void *context)
{
    if (part->kind == PART_PROGRAM) {
        return visit_program(template, part, visit, context);
    }
    const struct path_step *path = part->path;
    if (part->kind == PART_PATH && part->path_count >= 2 && path[0].key != NULL && strcmp(path[0].key, "steps") == 0 &&
        path[1].key != NULL) {
        return visit(context, template, path[1].key, path[1].key_length, part->offset);
    }
    return WEIR_OK;
}

enum weir_status expression_references(const struct template *template, expression_visit visit, void *context)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < template->part_count && status == WEIR_OK; i++) {
        status = visit_part(template, &template->parts[i], visit, context);
    }
    for (size_t i = 0; i < template->child_count && status == WEIR_OK; i++) {
        status = expression_references(template->children[i], visit, context);
    }
    return status;
}

enum weir_status template_each_program(const struct template *template, expression_visit visit, void *context)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < template->part_count && status == WEIR_OK; i++) {
        const struct template_part *part = &template->parts[i];
        if (part->kind == PART_PROGRAM) {
            status = visit(context, template, part->text, part->length, part->offset);
        }
    }
    for (size_t i = 0; i < template->child_count && status == WEIR_OK; i++) {
        status = template_each_program(template->children[i], visit, context);
    }
    return status;
}
