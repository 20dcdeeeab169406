/* One document of YAML 1.2 as a tree of nodes with line and column. libfyaml parses; this file builds the tree and adds the
 * limits and checks that the library lacks. Runs in the caller's thread; the arena of the caller owns the tree.
 *
 *   1. check_bytes() refuses bytes that are not UTF-8 and control characters, because the messages of the library for them
 * are obscure.
 *   2. The events of the parser become nodes (read_yaml_node()). Depth and number of nodes are limited, so that a small
 * file cannot use up memory or the stack. Anchors, aliases and tags are refused.
 *   3. A plain scalar gets its type by the core schema. A number must be one that JSON can hold.
 *   4. The end of a map sorts a copy of its keys to find duplicates, in O(n log n).
 *
 * The marks of the library are inside of quotes, and count columns from 0; nodes count as an editor does. The library
 * writes to stderr without a diagnostics object, so there is always one. Nothing here may print, or depend on the locale.
 * JSON of stores: base/yaml_json.c.
 */
#include "base/yaml.h"

#include <errno.h>
#include <libfyaml.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum { YAML_MESSAGE_MAX = WEIR_ERROR_MESSAGE_MAX, YAML_WORDS_MAX = WEIR_ERROR_HINT_MAX };

struct yaml_reader {
    struct fy_parser *parser;
    struct fy_diag *diag;
    const struct yaml_source *source;
    struct arena *arena;
    const char *bytes;
    size_t length;
    size_t nodes;
    int line; /* of the node before: an empty value has no place of its own */
    int column;
    struct weir_error *error;
};

/* Children of a list or map while it is being read; their number is known at the end. */
struct yaml_cell {
    const struct yaml_node *key;
    const struct yaml_node *value;
    struct yaml_cell *next;
};

static void ignore_output(struct fy_diag *diag, void *user, const char *bytes, size_t length)
{
    (void)diag;
    (void)user;
    (void)bytes;
    (void)length;
}

static enum weir_status yaml_fail_at(const struct yaml_source *source, int line, int column, struct weir_error *error,
                                     const char *message)
{
    return error_set(error, source->status, "%s:%d:%d: %s", source->name, line, column, message);
}

enum weir_status yaml_error(const struct yaml_source *source, const struct yaml_node *node, struct weir_error *error,
                            const char *format, ...)
{
    char message[YAML_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return yaml_fail_at(source, node->line, node->column, error, message);
}

enum weir_status yaml_error_inside(const struct yaml_source *source, const struct yaml_node *node, size_t offset,
                                   struct weir_error *error, const char *format, ...)
{
    char message[YAML_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    int line = node->line;
    int column = node->column;
    if (node->is_block && offset <= node->length) {
        column = node->indent + 1;
        for (size_t i = 0; i < offset; i++) {
            bool is_break = node->text[i] == '\n';
            line += is_break;
            column = is_break ? node->indent + 1 : column + (((unsigned char)node->text[i] & 0xC0) != 0x80);
        }
    } else if (node->is_literal && offset <= node->length) {
        for (size_t i = 0; i < offset; i++) {
            column += ((unsigned char)node->text[i] & 0xC0) != 0x80;
        }
        column += node->is_quoted;
    }
    return yaml_fail_at(source, line, column, error, message);
}

const char *yaml_kind_name(enum yaml_kind kind)
{
    switch (kind) {
    case YAML_NULL:
        return "null";
    case YAML_BOOLEAN:
        return "boolean";
    case YAML_INTEGER:
        return "integer";
    case YAML_NUMBER:
        return "number";
    case YAML_STRING:
        return "text";
    case YAML_LIST:
        return "list";
    case YAML_MAP:
        return "map";
    }
    return "null";
}

/* --- scalars: the core schema of YAML 1.2 (section 10.3.2) --- */

static bool scalar_is_one_of(const char *text, const char *a, const char *b, const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

static bool is_integer(const char *text, int *ret_base)
{
    const char *at = text + (*text == '-' || *text == '+');
    const char *digits = "0123456789";
    *ret_base = 10;
    if (text[0] == '0' && (text[1] == 'o' || text[1] == 'x')) {
        *ret_base = text[1] == 'o' ? 8 : 16;
        digits = text[1] == 'o' ? "01234567" : "0123456789abcdefABCDEF";
        at = text + 2;
    }
    return *at != '\0' && at[strspn(at, digits)] == '\0';
}

static bool is_number(const char *text)
{
    static const char digits[] = "0123456789";
    const char *at = text + (*text == '-' || *text == '+');
    size_t whole = strspn(at, digits);
    at += whole;
    if (*at == '.') {
        size_t fraction = strspn(++at, digits);
        whole += fraction;
        at += fraction;
    }
    if (whole > 0 && (*at == 'e' || *at == 'E')) {
        at++;
        at += *at == '-' || *at == '+';
        size_t exponent = strspn(at, digits);
        at += exponent;
        whole = exponent;
    }
    return whole > 0 && *at == '\0';
}

static bool is_infinite_or_nan(const char *text)
{
    const char *at = text + (*text == '-' || *text == '+');
    return scalar_is_one_of(at, ".inf", ".Inf", ".INF") || scalar_is_one_of(text, ".nan", ".NaN", ".NAN");
}

/* strtod() reads "1.5" as 1 in a program that has set a locale with a decimal comma. */
static double read_double(const char *text)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double number = plain == (locale_t)0 ? NAN : strtod_l(text, NULL, plain);
    if (plain != (locale_t)0) {
        freelocale(plain);
    }
    return number;
}

static enum weir_status read_yaml_integer(struct yaml_reader *reader, struct yaml_node *node, int base)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(base == 10 ? node->text : node->text + 2, &end, base);
    if (errno != 0) {
        return yaml_error(reader->source, node, reader->error, "the integer %.40s does not fit into 64 bits", node->text);
    }
    node->kind = YAML_INTEGER;
    node->integer = value;
    node->number = (double)value;
    return WEIR_OK;
}

static enum weir_status resolve_plain(struct yaml_reader *reader, struct yaml_node *node)
{
    const char *text = node->text;
    int base = 10;
    node->kind = YAML_STRING;
    if (*text == '\0' || strcmp(text, "~") == 0 || scalar_is_one_of(text, "null", "Null", "NULL")) {
        node->kind = YAML_NULL;
    } else if (scalar_is_one_of(text, "true", "True", "TRUE") || scalar_is_one_of(text, "false", "False", "FALSE")) {
        node->kind = YAML_BOOLEAN;
        node->boolean = text[0] == 't' || text[0] == 'T';
    } else if (is_integer(text, &base)) {
        return read_yaml_integer(reader, node, base);
    } else if (is_number(text) || is_infinite_or_nan(text)) {
        node->kind = YAML_NUMBER;
        node->number = is_infinite_or_nan(text) ? NAN : read_double(text);
        if (!isfinite(node->number)) {
            return yaml_error(reader->source, node, reader->error, "%.40s is no number that JSON can hold", text);
        }
    }
    return WEIR_OK;
}

/* --- the tree --- */

/* An empty value has no mark; it gets the place of the node before it. */
static enum weir_status new_node(struct yaml_reader *reader, struct fy_event *event, struct yaml_node **ret_node)
{
    if (++reader->nodes > YAML_NODES_MAX) {
        return error_set(reader->error, reader->source->status, "%s: more than %d values", reader->source->name,
                         YAML_NODES_MAX);
    }
    struct yaml_node *node = arena_allocate(reader->arena, sizeof *node);
    if (node == NULL) {
        return error_out_of_memory(reader->error);
    }
    const struct fy_mark *mark = fy_event_start_mark(event);
    reader->line = mark == NULL ? reader->line : mark->line + 1;
    reader->column = mark == NULL ? reader->column : mark->column + 1;
    node->line = reader->line;
    node->column = reader->column;
    *ret_node = node;
    return WEIR_OK;
}

static enum weir_status refuse_anchor_and_tag(struct yaml_reader *reader, const struct yaml_node *node,
                                              const struct fy_token *anchor, const struct fy_token *tag)
{
    if (anchor != NULL) {
        return yaml_error(reader->source, node, reader->error, "anchors and aliases are not supported");
    }
    if (tag != NULL) {
        return yaml_error(reader->source, node, reader->error, "tags are not supported");
    }
    return WEIR_OK;
}

/* A scalar comes as the pieces between its escapes and folds. fy_token_get_text() joins them, but up to version 0.9 of the
 * library it loses memory when there are more than eight. No token: an empty value. A block of which only spaces without a
 * newline come before the end of the file is empty, though the library reports a failure. false: the memory is used up.
 */
static bool scalar_length(struct fy_token *token, size_t *ret_length)
{
    int failure = 0;
    struct fy_token_iter *pieces = token == NULL ? NULL : fy_token_iter_create(token);
    *ret_length = 0;
    if (pieces == NULL) {
        return token == NULL;
    }
    const struct fy_iter_chunk *piece = NULL;
    while ((piece = fy_token_iter_chunk_next(pieces, piece, &failure)) != NULL) {
        *ret_length += piece->len;
    }
    fy_token_iter_destroy(pieces);
    enum fy_scalar_style style = fy_token_scalar_style(token);
    return failure == 0 || (*ret_length == 0 && (style == FYSS_LITERAL || style == FYSS_FOLDED));
}

/* A copy with a zero byte at its end; NULL: the memory is used up. */
static const char *copy_scalar(struct arena *arena, struct fy_token *token, size_t length)
{
    char *text = arena_allocate(arena, length + 1);
    struct fy_token_iter *pieces = token == NULL ? NULL : fy_token_iter_create(token);
    if (text == NULL || pieces == NULL) {
        fy_token_iter_destroy(pieces);
        return token == NULL ? text : NULL;
    }
    size_t used = 0;
    const struct fy_iter_chunk *piece = NULL;
    while ((piece = fy_token_iter_chunk_next(pieces, piece, NULL)) != NULL && piece->len <= length - used) {
        memcpy(text + used, piece->str, piece->len);
        used += piece->len;
    }
    fy_token_iter_destroy(pieces);
    return used == length ? text : NULL;
}

static enum weir_status read_scalar(struct yaml_reader *reader, struct fy_event *event, struct yaml_node *node)
{
    enum weir_status status = refuse_anchor_and_tag(reader, node, event->scalar.anchor, event->scalar.tag);
    if (status != WEIR_OK) {
        return status;
    }
    size_t length = 0;
    if (!scalar_length(event->scalar.value, &length)) {
        return error_out_of_memory(reader->error);
    }
    node->text = copy_scalar(reader->arena, event->scalar.value, length);
    if (node->text == NULL) {
        return error_out_of_memory(reader->error);
    }
    node->length = length;
    node->kind = YAML_STRING;
    if (!text_is_utf8(node->text, length)) {
        return yaml_error(reader->source, node, reader->error, "an escape stands for half a character");
    }
    enum fy_scalar_style style = fy_token_scalar_style(event->scalar.value);
    const struct fy_mark *end = fy_event_end_mark(event);
    const struct fy_mark *start = fy_event_start_mark(event);
    node->is_quoted = style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED;
    /* The marks are inside of the quotes; a reader counts from the quote. */
    node->column -= node->is_quoted && node->column > 1;
    /* Offsets in the text are columns in the file only when nothing was folded or unescaped. */
    node->is_literal =
        start != NULL && end != NULL && start->line == end->line && end->input_pos - start->input_pos == length;
    node->is_block = style == FYSS_LITERAL && start != NULL;
    for (size_t i = node->is_block ? start->input_pos : reader->length; i < reader->length && reader->bytes[i] == ' ';
         i++) {
        node->indent++;
    }
    return style == FYSS_PLAIN ? resolve_plain(reader, node) : WEIR_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const struct yaml_node *left = *(const struct yaml_node *const *)a;
    const struct yaml_node *right = *(const struct yaml_node *const *)b;
    int order = strcmp(left->text, right->text);
    return order != 0 ? order : (left->line != right->line ? left->line - right->line : left->column - right->column);
}

/* Sorts a copy, so that a map of fifty thousand keys costs no quadratic time. */
static enum weir_status refuse_duplicate_keys(struct yaml_reader *reader, const struct yaml_node *map)
{
    if (map->count < 2) {
        return WEIR_OK;
    }
    const struct yaml_node **sorted = malloc(map->count * sizeof *sorted);
    if (sorted == NULL) {
        return error_out_of_memory(reader->error);
    }
    memcpy(sorted, map->keys, map->count * sizeof *sorted);
    qsort(sorted, map->count, sizeof *sorted, compare_keys);
    const struct yaml_node *twice = NULL;
    const struct yaml_node *first = NULL;
    for (size_t i = 1; i < map->count; i++) {
        if (strcmp(sorted[i - 1]->text, sorted[i]->text) == 0 && (twice == NULL || sorted[i]->line < twice->line)) {
            first = sorted[i - 1];
            twice = sorted[i];
        }
    }
    free(sorted);
    if (twice == NULL) {
        return WEIR_OK;
    }
    yaml_error(reader->source, twice, reader->error, "the key \"%.64s\" appears twice", twice->text);
    error_hint(reader->error, "the first one is at line %d", first->line);
    return reader->source->status;
}

/* The number of children is known at the end, so the list of cells becomes two arrays. */
static enum weir_status close_collection(struct yaml_reader *reader, struct yaml_node *node, const struct yaml_cell *cells)
{
    const struct yaml_node **values = arena_allocate(reader->arena, (node->count + 1) * sizeof *values);
    const struct yaml_node **keys = arena_allocate(reader->arena, (node->count + 1) * sizeof *keys);
    if (values == NULL || keys == NULL) {
        return error_out_of_memory(reader->error);
    }
    size_t at = 0;
    for (const struct yaml_cell *cell = cells; cell != NULL; cell = cell->next) {
        keys[at] = cell->key;
        values[at++] = cell->value;
    }
    node->values = values;
    node->keys = node->kind == YAML_MAP ? keys : NULL;
    return node->kind == YAML_MAP ? refuse_duplicate_keys(reader, node) : WEIR_OK;
}

/* The parser has stopped: its first error, with its place, in the form of our messages. */
static enum weir_status syntax_error(struct yaml_reader *reader)
{
    void *iterator = NULL;
    const struct fy_diag_error *found = fy_diag_errors_iterate(reader->diag, &iterator);
    if (found == NULL || found->msg == NULL) {
        return yaml_fail_at(reader->source, 1, 1, reader->error, "not valid YAML or JSON");
    }
    char message[YAML_MESSAGE_MAX];
    (void)snprintf(message, sizeof message, "not valid YAML or JSON: %s", found->msg);
    return yaml_fail_at(reader->source, found->line > 0 ? found->line : 1, found->column > 0 ? found->column : 1,
                        reader->error, message);
}

/* NULL at the end and after an error of the stream. */
static struct fy_event *next_event(struct yaml_reader *reader)
{
    struct fy_event *event = fy_parser_parse(reader->parser);
    if (event != NULL && fy_parser_get_stream_error(reader->parser)) {
        fy_parser_event_free(reader->parser, event);
        return NULL;
    }
    return event;
}

static enum weir_status read_yaml_node(struct yaml_reader *reader, struct fy_event *event, int depth,
                                       struct yaml_node **ret_node);

static enum weir_status read_key(struct yaml_reader *reader, struct fy_event *event, int depth,
                                 const struct yaml_node **ret_key)
{
    struct yaml_node *key = NULL;
    bool is_scalar = event->type == FYET_SCALAR;
    enum weir_status status = read_yaml_node(reader, event, depth, &key);
    if (status != WEIR_OK) {
        return status;
    }
    if (!is_scalar || strlen(key->text) != key->length) {
        return yaml_error(reader->source, key, reader->error, "a key must be text, not a %s", yaml_kind_name(key->kind));
    }
    /* `1:` and `true:` are keys like any other: their text counts. */
    key->kind = YAML_STRING;
    *ret_key = key;
    return WEIR_OK;
}

/* Reads keys and values until the end of the list or map. */
static enum weir_status read_children(struct yaml_reader *reader, struct yaml_node *node, int depth)
{
    enum fy_event_type end = node->kind == YAML_MAP ? FYET_MAPPING_END : FYET_SEQUENCE_END;
    struct yaml_cell *first = NULL;
    struct yaml_cell **last = &first;
    for (;;) {
        struct fy_event *event = next_event(reader);
        if (event == NULL) {
            return syntax_error(reader);
        }
        if (event->type == end) {
            fy_parser_event_free(reader->parser, event);
            return close_collection(reader, node, first);
        }
        struct yaml_cell *cell = arena_allocate(reader->arena, sizeof *cell);
        if (cell == NULL) {
            fy_parser_event_free(reader->parser, event);
            return error_out_of_memory(reader->error);
        }
        enum weir_status status = WEIR_OK;
        if (node->kind == YAML_MAP) {
            status = read_key(reader, event, depth, &cell->key);
            event = status == WEIR_OK ? next_event(reader) : NULL;
            if (status == WEIR_OK && event == NULL) {
                return syntax_error(reader);
            }
        }
        struct yaml_node *value = NULL;
        status = status == WEIR_OK ? read_yaml_node(reader, event, depth, &value) : status;
        if (status != WEIR_OK) {
            return status;
        }
        cell->value = value;
        *last = cell;
        last = &cell->next;
        node->count++;
    }
}

/* Takes the event and frees it. Recursion ends at YAML_DEPTH_MAX. */
static enum weir_status read_yaml_node(struct yaml_reader *reader, struct fy_event *event, int depth,
                                       struct yaml_node **ret_node)
{
    struct yaml_node *node = NULL;
    bool has_items = false;
    enum weir_status status = new_node(reader, event, &node);
    if (status == WEIR_OK) {
        INVARIANT(node != NULL);
        switch (event->type) {
        case FYET_SCALAR:
            status = read_scalar(reader, event, node);
            break;
        case FYET_SEQUENCE_START:
            node->kind = YAML_LIST;
            status = refuse_anchor_and_tag(reader, node, event->sequence_start.anchor, event->sequence_start.tag);
            has_items = true;
            break;
        case FYET_MAPPING_START:
            node->kind = YAML_MAP;
            status = refuse_anchor_and_tag(reader, node, event->mapping_start.anchor, event->mapping_start.tag);
            has_items = true;
            break;
        default:
            status = yaml_error(reader->source, node, reader->error, "anchors and aliases are not supported");
            break;
        }
    }
    fy_parser_event_free(reader->parser, event);
    if (status == WEIR_OK && has_items && depth >= YAML_DEPTH_MAX) {
        status = yaml_error(reader->source, node, reader->error, "lists and maps are nested deeper than %d levels",
                            YAML_DEPTH_MAX);
    }
    if (status == WEIR_OK && has_items) {
        status = read_children(reader, node, depth + 1);
    }
    if (status == WEIR_OK) {
        *ret_node = node;
    }
    return status;
}

static enum weir_status refuse_second_document(struct yaml_reader *reader, struct fy_event *event)
{
    const struct fy_mark *mark = fy_event_start_mark(event);
    return yaml_fail_at(reader->source, mark == NULL ? 1 : mark->line + 1, mark == NULL ? 1 : mark->column + 1,
                        reader->error, "a file holds one document, this is a second one");
}

static enum weir_status read_stream(struct yaml_reader *reader, const struct yaml_node **ret_root)
{
    struct yaml_node *root = NULL;
    for (;;) {
        struct fy_event *event = next_event(reader);
        if (event == NULL) {
            return syntax_error(reader);
        }
        enum fy_event_type type = event->type;
        enum weir_status status = WEIR_OK;
        if (type == FYET_DOCUMENT_START && root != NULL) {
            status = refuse_second_document(reader, event);
        }
        if (type == FYET_STREAM_START || type == FYET_STREAM_END || type == FYET_DOCUMENT_START ||
            type == FYET_DOCUMENT_END) {
            fy_parser_event_free(reader->parser, event);
        } else {
            status = read_yaml_node(reader, event, 0, &root);
        }
        if (status != WEIR_OK) {
            return status;
        }
        if (type == FYET_STREAM_END) {
            break;
        }
    }
    if (root == NULL) {
        return yaml_fail_at(reader->source, 1, 1, reader->error, "the file is empty");
    }
    *ret_root = root;
    return WEIR_OK;
}

/* Faults with an obscure message of the library get a plain one here; the library also never sees a byte that is no UTF-8.
 */
static enum weir_status check_bytes(const char *bytes, size_t length, const struct yaml_source *source,
                                    struct weir_error *error)
{
    if (!text_is_utf8(bytes, length)) {
        return error_set(error, source->status, "%s: not UTF-8 text", source->name);
    }
    int line = 1;
    int column = 1;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) {
            char message[64];
            (void)snprintf(message, sizeof message, "the control character 0x%02x is not allowed", c);
            return yaml_fail_at(source, line, column, error, message);
        }
        column = c == '\n' ? 1 : column + ((c & 0xC0) != 0x80);
        line += c == '\n';
    }
    return WEIR_OK;
}

enum weir_status yaml_read(const char *bytes, size_t length, const struct yaml_source *source, struct arena *arena,
                           const struct yaml_node **ret_root, struct weir_error *error)
{
    enum weir_status status = check_bytes(bytes, length, source, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (length == 0) {
        return yaml_fail_at(source, 1, 1, error, "the file is empty");
    }
    struct yaml_reader reader = {
        .source = source, .arena = arena, .bytes = bytes, .length = length, .line = 1, .column = 1, .error = error};
    /* Without a diagnostics object of our own the library would write to stderr. */
    const struct fy_diag_cfg diag_config = {.output_fn = ignore_output, .level = FYET_ERROR, .module_mask = ~0U};
    reader.diag = fy_diag_create(&diag_config);
    if (reader.diag == NULL) {
        return error_out_of_memory(error);
    }
    fy_diag_set_collect_errors(reader.diag, true);
    const struct fy_parse_cfg config = {.search_path = "",
                                        .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DEFAULT_VERSION_1_2 |
                                                 FYPCF_JSON_NONE | FYPCF_DISABLE_RECYCLING,
                                        .diag = reader.diag};
    reader.parser = fy_parser_create(&config);
    if (reader.parser == NULL || fy_parser_set_string(reader.parser, bytes, length) != 0) {
        status = error_out_of_memory(error);
    } else {
        status = read_stream(&reader, ret_root);
    }
    fy_parser_destroy(reader.parser);
    fy_diag_destroy(reader.diag);
    return status;
}

/* --- reading a tree --- */

const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
    if (map->kind == YAML_MAP) {
        for (size_t i = 0; i < map->count; i++) {
            if (strcmp(map->keys[i]->text, key) == 0) {
                return map->values[i];
            }
        }
    }
    return NULL;
}

static void hint_known_keys(struct weir_error *error, const char *const *known, size_t count)
{
    char words[YAML_WORDS_MAX];
    size_t used = 0;
    words[0] = '\0';
    for (size_t i = 0; i < count && used < sizeof words; i++) {
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i == 0 ? "" : ", ", known[i]);
    }
    error_hint(error, "known keys: %s", words);
}

enum weir_status yaml_check_keys(const struct yaml_source *source, const struct yaml_node *map, const char *place,
                                 const char *const *known, size_t count, struct weir_error *error)
{
    if (map->kind != YAML_MAP) {
        return yaml_error(source, map, error, "%s must be a map, not %s", place, yaml_kind_name(map->kind));
    }
    for (size_t i = 0; i < map->count; i++) {
        bool is_known = false;
        for (size_t j = 0; j < count && !is_known; j++) {
            is_known = strcmp(map->keys[i]->text, known[j]) == 0;
        }
        if (!is_known) {
            yaml_error(source, map->keys[i], error, "unknown key \"%.64s\" in %s", map->keys[i]->text, place);
            const char *nearest = text_nearest(map->keys[i]->text, known, count);
            if (nearest != NULL) {
                error_hint(error, "did you mean \"%s\"?", nearest);
            } else {
                hint_known_keys(error, known, count);
            }
            return source->status;
        }
    }
    return WEIR_OK;
}
