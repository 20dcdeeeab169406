/* Reading and writing JSON by jansson, with the limits that it lacks. Any thread.
 *
 *   1. Reading counts brackets first and refuses a text that is nested too deep. jansson allows 2048 levels, which
 * recursive walkers over the value would have to survive. It also refuses a text with so many values that jansson would
 * take far more memory than the text: 80 bytes for each byte of "{},{},{}".
 *   2. A NUL byte outside of a string is refused, because jansson drops it silently after a number.
 *   3. Duplicate keys are refused. Memory that runs out during the parsing is survived by base/json_load.c.
 *   4. Writing is compact and goes into a struct text with a maximum; on failure the text is as before.
 *   5. Numbers are written with as many digits as it takes to read the same number back. jansson writes 17.
 *
 * Errors have line and column, counted in characters. Nothing here depends on the locale.
 */
#include "base/json.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { DIGITS_LEAST = 15, DIGITS_MOST = 17 };

/* In units of about 55 bytes, the memory that jansson takes for what the character begins or parts. */
static size_t weight_of(char c)
{
    switch (c) {
    case '{':
        return 4;
    case '[':
        return 2;
    case ',':
    case ':':
        return 1;
    default:
        return 0;
    }
}

/* jansson's own depth limit is 2048, which our recursive walkers would have to survive; brackets outside of strings are
 * counted before it starts. The place at which there are too many of them in one another, or too many values; `length` when
 * there is none. */
static size_t find_too_much(const char *bytes, size_t length, int depth_max, bool *ret_is_deep)
{
    int depth = 0;
    size_t weight = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        char c = bytes[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        depth += (c == '[' || c == '{') - (c == ']' || c == '}');
        weight += weight_of(c);
        if (depth > depth_max || weight > JSON_WEIGHT_MAX) {
            *ret_is_deep = depth > depth_max;
            return i;
        }
    }
    return length;
}

/* Counted as jansson does: lines and, in the line, characters. */
static enum weir_status json_fail_at(const char *bytes, size_t at, const char *fault, struct weir_error *error)
{
    size_t line = 1;
    size_t column = 1;
    for (size_t i = 0; i < at; i++) {
        bool ends_line = bytes[i] == '\n';
        line += ends_line;
        column = ends_line ? 1 : column + (((unsigned char)bytes[i] & 0xC0) != 0x80);
    }
    return error_set(error, WEIR_INVALID_ARGUMENT, "%s at line %zu column %zu", fault, line, column);
}

enum weir_status json_read(const char *bytes, size_t length, json_t **ret_value, struct weir_error *error)
{
    return json_read_below(bytes, length, 0, ret_value, error);
}

enum weir_status json_read_below(const char *bytes, size_t length, int levels, json_t **ret_value, struct weir_error *error)
{
    char fault[64];
    bool is_deep = false;
    size_t at = find_too_much(bytes, length, JSON_DEPTH_MAX + levels, &is_deep);
    if (at < length) {
        (void)snprintf(fault, sizeof fault, is_deep ? "JSON is nested deeper than %d levels" : "JSON has too many values",
                       levels < 0 ? JSON_DEPTH_MAX + levels : JSON_DEPTH_MAX);
        return json_fail_at(bytes, at, fault, error);
    }
    /* jansson drops a NUL that follows a number or a literal, and would accept texts that other readers refuse. */
    const char *nul = length == 0 ? NULL : memchr(bytes, '\0', length);
    if (nul != NULL) {
        return json_fail_at(bytes, (size_t)(nul - bytes), "not JSON: a NUL byte", error);
    }
    json_error_t native = {.text = ""};
    bool ran_out = false;
    json_t *value =
        json_load_bytes(bytes, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &native, &ran_out);
    if (value == NULL) {
        /* It has no message when its reader cannot begin. */
        if (ran_out || json_error_code(&native) == json_error_out_of_memory || native.text[0] == '\0') {
            return error_out_of_memory(error);
        }
        return error_set(error, WEIR_INVALID_ARGUMENT, "not JSON: %s at line %d column %d", native.text, native.line,
                         native.column);
    }
    *ret_value = value;
    return WEIR_OK;
}

bool json_has_large_number(const char *bytes, size_t length)
{
    json_error_t native = {.text = ""};
    bool ran_out = false;
    bool is_deep = false;
    if (find_too_much(bytes, length, JSON_DEPTH_MAX, &is_deep) < length) {
        return false;
    }
    json_t *value = json_load_bytes(bytes, length, JSON_DECODE_ANY, &native, &ran_out);
    bool is_read = value != NULL;
    json_decref(value);
    return !is_read && !ran_out && json_error_code(&native) == json_error_numeric_overflow;
}

bool json_is_balanced(const char *bytes, size_t length, int levels)
{
    INVARIANT(bytes != NULL || length == 0);
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        char c = bytes[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        depth += (c == '[' || c == '{') - (c == ']' || c == '}');
        if (depth <= 0 || depth > JSON_DEPTH_MAX + levels) {
            return depth == 0 && i == length - 1 && i > 0 && memchr(bytes, '\0', length) == NULL;
        }
    }
    return false;
}

/* --- writing --- */

/* 15 digits stand for one number each, and 17 are enough for every number. Writes and reads by the same locale. */
static size_t digits_of_number(double number)
{
    char text[2 * JSON_NUMBER_TEXT_MAX];
    for (size_t digits = DIGITS_LEAST; digits < DIGITS_MOST; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", (int)digits, number);
        if (strtod(text, NULL) == number) {
            return digits;
        }
    }
    return DIGITS_MOST;
}

/* jansson writes without regard to the locale. */
enum weir_status json_format_number(double number, char *to)
{
    json_t *value = json_real(number);
    size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits_of_number(number));
    size_t length = value == NULL ? 0 : json_dumpb(value, to, JSON_NUMBER_TEXT_MAX - 1, flags);
    json_decref(value);
    if (length == 0 || length >= JSON_NUMBER_TEXT_MAX) {
        return WEIR_OUT_OF_MEMORY;
    }
    to[length] = '\0';
    return WEIR_OK;
}

struct dump {
    struct text *to;
    enum weir_status status; /* of the first piece that did not fit: jansson ignores the failure of some */
};

static int add_to_text(const char *bytes, size_t length, void *context)
{
    struct dump *dump = context;
    dump->status = dump->status == WEIR_OK ? text_add(dump->to, bytes, length) : dump->status;
    return dump->status == WEIR_OK ? 0 : -1;
}

struct pieces {
    json_dump_callback_t take;
    void *context;
    bool in_string;
};

/* A number with fewer digits is a shorter text. Without memory the piece stays as it is, which is the same number. */
static int shorten_piece(const char *bytes, size_t length, void *context)
{
    struct pieces *pieces = context;
    char number[JSON_NUMBER_TEXT_MAX];
    if (length == 1 && bytes[0] == '"') {
        pieces->in_string = !pieces->in_string;
    }
    bool is_long_number = !pieces->in_string && length > DIGITS_LEAST + 1 && length < JSON_NUMBER_TEXT_MAX &&
                          (bytes[0] == '-' || (bytes[0] >= '0' && bytes[0] <= '9'));
    if (is_long_number) {
        bool ran_out;
        json_error_t native;
        json_t *value = json_load_bytes(bytes, length, JSON_DECODE_ANY, &native, &ran_out);
        if (json_is_real(value) && json_format_number(json_real_value(value), number) == WEIR_OK) {
            bytes = number;
            length = strlen(number);
        }
        json_decref(value);
    }
    return pieces->take(bytes, length, pieces->context);
}

/* jansson passes the quotation marks of a string, the text between them and a number as pieces of their own. */
int json_write_pieces(const json_t *value, size_t flags, json_dump_callback_t take, void *context)
{
    INVARIANT(take != NULL);
    struct pieces pieces = {.take = take, .context = context};
    return json_dump_callback(value, shorten_piece, &pieces, flags | JSON_ENCODE_ANY);
}

char *json_make_text(const json_t *value, size_t flags)
{
    struct text text = {.max = SIZE_MAX / 4};
    struct dump dump = {.to = &text, .status = WEIR_OK};
    if (json_write_pieces(value, flags, add_to_text, &dump) != 0 || dump.status != WEIR_OK) {
        text_close(&text);
        return NULL;
    }
    return text.data;
}

enum weir_status json_write(const json_t *value, struct text *to, struct weir_error *error)
{
    size_t before = to->length;
    struct dump dump = {.to = to, .status = WEIR_OK};
    if (json_write_pieces(value, JSON_COMPACT, add_to_text, &dump) != 0 || dump.status != WEIR_OK) {
        to->length = before;
        if (to->data != NULL) {
            to->data[before] = '\0';
        }
        if (dump.status != WEIR_FAILED) { /* it was not too large for the text, but for the memory that is left */
            return error_out_of_memory(error);
        }
        return error_set(error, WEIR_FAILED, "JSON text is larger than %zu bytes", to->max);
    }
    return WEIR_OK;
}

/* Each byte of such a text stands for itself in JSON. Bytes beyond ASCII may be no UTF-8, which jansson checks. */
static bool is_plain_text(const char *string)
{
    while (*string >= ' ' && *string <= '~' && *string != '"' && *string != '\\') {
        string++;
    }
    return *string == '\0';
}

enum weir_status json_write_string(const char *string, struct text *to, struct weir_error *error)
{
    if (!is_plain_text(string)) {
        json_t *value = json_string(string);
        enum weir_status status = value == NULL ? error_out_of_memory(error) : json_write(value, to, error);
        json_decref(value);
        return status;
    }
    size_t before = to->length;
    enum weir_status status = text_add(to, "\"", 1);
    status = status == WEIR_OK ? text_add_string(to, string) : status;
    status = status == WEIR_OK ? text_add(to, "\"", 1) : status;
    if (status == WEIR_OK) {
        return status;
    }
    to->length = before;
    if (to->data != NULL) {
        to->data[before] = '\0';
    }
    return status == WEIR_FAILED ? error_set(error, status, "JSON text is larger than %zu bytes", to->max)
                                 : error_out_of_memory(error);
}

bool json_string_has_nul(const json_t *string)
{
    return strlen(json_string_value(string)) != json_string_length(string);
}

bool json_has_nul(const json_t *value)
{
    const char *key;
    json_t *item;
    size_t i;
    bool has_nul = json_is_string(value) && json_string_has_nul(value);
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        has_nul = has_nul || json_has_nul(item);
    }
    json_array_foreach(value, i, item)
    {
        has_nul = has_nul || json_has_nul(item);
    }
    return has_nul;
}

const char *json_type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "object";
    case JSON_ARRAY:
        return "array";
    case JSON_STRING:
        return "string";
    case JSON_INTEGER:
        return "integer";
    case JSON_REAL:
        return "number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "boolean";
    case JSON_NULL:
        return "null";
    }
    return "null";
}
