/* The text of a jq program, byte by byte: open brackets and strings, identifiers, and the parts of plain paths. Pure; any
 * thread.
 *
 * The stack of the scanner holds the closing byte of each open bracket; a '"' on top means inside a string. `\(` in a
 * string opens an interpolation, which is code again until its `)`. A comment ends at its line.
 *
 * path_parse() accepts only the subset of jq's paths whose meaning path_follow() repeats exactly: keys, quoted keys without
 * escapes, and indexes. It refuses any other text, which then goes to jq. So a wrong guess costs time, never a wrong value.
 */
#include "definition/expression_scan.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"

enum { PATH_STEPS_MAX = 64, PATH_INDEX_DIGITS_MAX = 8 };

/* --- the text of a jq program --- */

bool scanner_is_in_string(const struct scanner *scanner)
{
    return scanner->depth > 0 && scanner->closers[scanner->depth - 1] == '"';
}

static enum scan_result open_bracket(struct scanner *scanner, char closer)
{
    if (scanner->depth == EXPRESSION_NESTING_MAX) {
        return SCAN_TOO_DEEP;
    }
    scanner->closers[scanner->depth++] = closer;
    return SCAN_ON;
}

static enum scan_result close_bracket(struct scanner *scanner, char closer)
{
    if (scanner->depth == 0) {
        return closer == '}' ? SCAN_END : SCAN_MISMATCH;
    }
    return scanner->closers[--scanner->depth] == closer ? SCAN_ON : SCAN_MISMATCH;
}

/* The bracket that ends the expression is the one that no open bracket needs. */
enum scan_result scanner_step(struct scanner *scanner, const char *text, size_t length, size_t *at)
{
    char c = text[(*at)++];
    if (scanner_is_in_string(scanner)) {
        if (c == '\\' && *at < length) {
            return text[(*at)++] == '(' ? open_bracket(scanner, ')') : SCAN_ON;
        }
        return c == '"' ? close_bracket(scanner, '"') : SCAN_ON;
    }
    switch (c) {
    case '"':
        return open_bracket(scanner, '"');
    case '(':
        return open_bracket(scanner, ')');
    case '[':
        return open_bracket(scanner, ']');
    case '{':
        return open_bracket(scanner, '}');
    case ')':
    case ']':
    case '}': {
        enum scan_result result = close_bracket(scanner, c);
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

bool scan_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool starts_identifier(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool scan_is_in_identifier(char c)
{
    return starts_identifier(c) || (c >= '0' && c <= '9');
}

size_t scan_identifier(const char *text, size_t length)
{
    size_t at = 0;
    if (length > 0 && starts_identifier(text[0])) {
        while (at < length && scan_is_in_identifier(text[at])) {
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

size_t scan_bracket(const char *text, size_t length, struct path_step *step)
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

size_t scan_dot(const char *text, size_t length, struct path_step *step)
{
    size_t quoted = quoted_length(text + 1, length - 1);
    size_t word = quoted > 0 ? quoted - 2 : scan_identifier(text + 1, length - 1);
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
        size_t used = text[at] == '.'   ? scan_dot(text + at, length - at, step)
                      : text[at] == '[' ? scan_bracket(text + at, length - at, step)
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

/* jq has one type of numbers. */
static const char *jq_type_name(const json_t *value)
{
    return json_is_integer(value) ? "number" : json_type_name(value);
}

/* The messages are jq's own, so that a path and a program fail alike. */
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
