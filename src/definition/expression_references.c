/* The references of a template, as far as its text shows them. Pure; any thread.
 *
 * A jq program is not parsed. The scanner of expression_scan.h walks over its text and knows strings and brackets; that is
 * enough to find `.steps.<id>` and paths at the start of a term.
 *
 *   steps     `.steps` where no value stands before it, followed by a key. May report too many, never too few.
 *   paths     only before the first place where `.` may change its meaning (a pipe, a function call, `as`, `reduce`, ...),
 * and in no program that assigns. May report too few, never too many, because each report can refuse a definition.
 */
#include <string.h>

#include "definition/expression.h"
#include "definition/expression_scan.h"

/* --- steps --- */

/* `.steps` begins a path only where no value stands before it: in `.input.steps` it is a key of something else. */
static bool begins_path(const char *text, size_t at)
{
    return at == 0 || (!scan_is_in_identifier(text[at - 1]) && strchr("])}\"?.", text[at - 1]) == NULL);
}

/* The name behind `.steps` in `text`: `.id`, `."id"`, `["id"]`. Gives false when there is none. */
static bool read_reference(const char *text, size_t length, const char **ret_word, size_t *ret_length)
{
    struct path_step step = {.key = NULL};
    size_t used = length == 0      ? 0
                  : text[0] == '.' ? scan_dot(text, length, &step)
                  : text[0] == '[' ? scan_bracket(text, length, &step)
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
        if (!scanner_is_in_string(&scanner) && left > STEPS_LENGTH && memcmp(text, steps, STEPS_LENGTH) == 0 &&
            begins_path(part->text, at) && read_reference(text + STEPS_LENGTH, left - STEPS_LENGTH, &word, &word_length)) {
            size_t offset = part->offset + (size_t)(word - part->text);
            enum weir_status status = visit(context, template, word, word_length, offset);
            if (status != WEIR_OK) {
                return status;
            }
        }
        if (scanner_step(&scanner, part->text, part->length, &at) != SCAN_ON) {
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
    return status;
}

/* --- programs --- */

enum weir_status template_each_program(const struct template *template, expression_visit visit, void *context)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < template->part_count && status == WEIR_OK; i++) {
        const struct template_part *part = &template->parts[i];
        if (part->kind == PART_PROGRAM) {
            status = visit(context, template, part->text, part->length, part->offset);
        }
    }
    return status;
}

/* --- known names --- */

const char *const *expression_keys(enum expression_object object, size_t *ret_count)
{
    static const char *const of_context[] = {"input", "steps", "execution", "item", "index"};
    enum { OF_ITEM = 2 }; /* the last ones, which only an item has */
    static const char *const of_later_context[] = {"input", "steps", "execution", "failure", "item", "index"};
    static const char *const of_step[] = {"output", "exit_code", "attempt", "error"};
    static const char *const of_failure[] = {"step", "code", "message"};
    static const char *const of_execution[] = {"id", "workspace", "workflow", "version", "start_number"};
    switch (object) {
    case CONTEXT_AFTER_FAILURE:
    case CONTEXT_OF_ITEM_AFTER_FAILURE:
        *ret_count = sizeof of_later_context / sizeof of_later_context[0] - (object == CONTEXT_AFTER_FAILURE ? OF_ITEM : 0);
        return of_later_context;
    case CONTEXT_FAILURE:
        *ret_count = sizeof of_failure / sizeof of_failure[0];
        return of_failure;
    case CONTEXT_STEP:
        *ret_count = sizeof of_step / sizeof of_step[0];
        return of_step;
    case CONTEXT_EXECUTION:
        *ret_count = sizeof of_execution / sizeof of_execution[0];
        return of_execution;
    case CONTEXT_OF_ITEM:
    case CONTEXT_ITSELF:
        break;
    }
    *ret_count = sizeof of_context / sizeof of_context[0] - (object == CONTEXT_OF_ITEM ? 0 : OF_ITEM);
    return of_context;
}

/* --- paths that certainly begin at the context --- */

/* In a program `.` is the context until something gives it another meaning: a pipe, the call of a function with arguments,
 * or one of these names. The text before the first of them is certain, and this reads no further. */
static const char *const words_ending_certainty[] = {"as",      "catch", "def",    "foreach", "import",
                                                     "include", "label", "module", "reduce"};
/* The names that a term may stand behind. */
static const char *const words_before_terms[] = {"and", "elif", "else", "if", "or", "then", "try"};

enum { WORD_BYTES_MAX = 16 };

static bool word_is_one_of(const char *word, size_t length, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(words[i]) == length && memcmp(words[i], word, length) == 0) {
            return true;
        }
    }
    return false;
}

#define IS_ONE_OF(word, length, words) word_is_one_of(word, length, words, sizeof(words) / sizeof(words)[0])

/* The identifier that ends before text[at], blanks between them left out; gives its length, 0 for none. One that is a key
 * or a variable (`.if`, `$if`) has its sign in front; one that is longer than any of these is cut. */
static size_t word_before(const char *text, size_t at, const char **ret_word)
{
    while (at > 0 && scan_is_space(text[at - 1])) {
        at--;
    }
    size_t end = at;
    while (at > 0 && end - at < WORD_BYTES_MAX &&
           (scan_is_in_identifier(text[at - 1]) || strchr(".$@:", text[at - 1]) != NULL)) {
        at--;
    }
    *ret_word = text + at;
    return end - at;
}

/* The text before it lets a term begin at text[at], so that the '.' there is no suffix of another. */
static bool begins_term(const char *text, size_t at)
{
    const char *word = NULL;
    size_t length = word_before(text, at, &word);
    size_t before = at;
    while (before > 0 && scan_is_space(text[before - 1])) {
        before--;
    }
    return before == 0 || strchr("([{,:;+-*/%<>=", text[before - 1]) != NULL || IS_ONE_OF(word, length, words_before_terms);
}

/* True where `.` may get another meaning. */
static bool ends_certainty(const char *text, size_t length, size_t at)
{
    const char *word = NULL;
    size_t before = 0;
    switch (text[at]) {
    case '|':
    case '#':
        return true;
    case '(':
        before = word_before(text, at, &word);
        return before > 0 && scan_is_in_identifier(word[before - 1]) && !IS_ONE_OF(word, before, words_before_terms);
    default:
        return (at == 0 || (!scan_is_in_identifier(text[at - 1]) && strchr(".$@", text[at - 1]) == NULL)) &&
               IS_ONE_OF(text + at, scan_identifier(text + at, length - at), words_ending_certainty);
    }
}

/* `.a = 1` creates a key, so an unknown key is no mistake there. */
static bool has_assignment(const char *text, size_t length)
{
    struct scanner scanner = {.depth = 0};
    size_t at = 0;
    while (at < length) {
        bool is_sign = text[at] == '=' && !scanner_is_in_string(&scanner);
        bool is_comparison = (at > 0 && strchr("=!<>", text[at - 1]) != NULL) || (at + 1 < length && text[at + 1] == '=');
        if (is_sign && !is_comparison) {
            return true;
        }
        if (scanner_step(&scanner, text, length, &at) != SCAN_ON) {
            break;
        }
    }
    return false;
}

/* The steps of the path at text[0], which is a '.', up to the bound; gives their number. */
static size_t read_path(const char *text, size_t length, struct path_step *steps)
{
    size_t count = 0;
    size_t at = length > 1 && text[1] == '[' ? 1 : 0;
    while (at < length && count < EXPRESSION_PATH_STEPS_MAX) {
        struct path_step *step = &steps[count];
        *step = (struct path_step){.key = NULL};
        size_t used = text[at] == '.'   ? scan_dot(text + at, length - at, step)
                      : text[at] == '[' ? scan_bracket(text + at, length - at, step)
                                        : 0;
        if (used == 0) {
            break;
        }
        at += used;
        count++;
    }
    return count;
}

static enum weir_status visit_paths(const struct template_part *part, expression_visit_path visit, void *context)
{
    struct scanner scanner = {.depth = 0};
    const char *text = part->text;
    size_t at = 0;
    if (has_assignment(text, part->length)) {
        return WEIR_OK;
    }
    while (at < part->length) {
        bool is_code = !scanner_is_in_string(&scanner);
        if (is_code && ends_certainty(text, part->length, at)) {
            break;
        }
        if (is_code && text[at] == '.' && begins_term(text, at)) {
            struct path_step steps[EXPRESSION_PATH_STEPS_MAX];
            size_t count = read_path(text + at, part->length - at, steps);
            enum weir_status status = count > 0 ? visit(context, steps, count, part->offset + at) : WEIR_OK;
            if (status != WEIR_OK) {
                return status;
            }
        }
        if (scanner_step(&scanner, text, part->length, &at) != SCAN_ON) {
            break;
        }
    }
    return WEIR_OK;
}

enum weir_status expression_paths(const struct template *template, expression_visit_path visit, void *context)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < template->part_count && status == WEIR_OK; i++) {
        if (template->parts[i].kind != PART_LITERAL) {
            status = visit_paths(&template->parts[i], visit, context);
        }
    }
    return status;
}
