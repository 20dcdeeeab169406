/* JSON glue over jansson: strict reading with limits, errors with line and column, compact writing.
 *
 * Values are jansson's json_t; the receiver releases it with json_decref(). jansson's reference counts are atomic, but
 * a value may be used by one thread at a time. */
#ifndef WEIR_BASE_JSON_H
#define WEIR_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "weir/status.h"

enum {
    JSON_DEPTH_MAX = 64,
    JSON_NUMBER_TEXT_MAX = 32,
    /* Of one text: "{" counts 4, "[" 2, "," and ":" 1. No text of 1 MiB has more, and the value takes about 120 MB at most
     * beside its strings. */
    JSON_WEIGHT_MAX = 2 * 1024 * 1024
};

/* Reads one value of any type and nothing behind it. Duplicate keys, bad UTF-8, NUL bytes, depth over JSON_DEPTH_MAX, and
 * more values than JSON_WEIGHT_MAX allows are refused with WEIR_INVALID_ARGUMENT and "line L column C". `length` bytes; no
 * NUL needed. */
WEIR_MUST_CHECK enum weir_status json_read(const char *bytes, size_t length, json_t **ret_value, struct weir_error *error);
/* The same for a value that lies `levels` deep in an outer one, which does not count. Below 0: the value gets as many
 * levels around it, and has fewer of its own. */
WEIR_MUST_CHECK enum weir_status json_read_below(const char *bytes, size_t length, int levels, json_t **ret_value,
                                                 struct weir_error *error);
/* True for a text that json_read() refuses because a number before its first fault fits neither 64 bits nor a double. */
bool json_has_large_number(const char *bytes, size_t length);
/* Whether brackets and quotes of an object or a list are balanced, not nested deeper than json_read_below() allows, without
 * a NUL, and with nothing behind. Takes a small part of the time of reading: for a text that the store has put together. */
bool json_is_balanced(const char *bytes, size_t length, int levels);
/* As json_loadb() and json_loads(), but a refused allocation never ends the process: they return NULL then, and
 * *ret_ran_out is set. Everything in the program parses by these. */
WEIR_MUST_CHECK json_t *json_load_bytes(const char *bytes, size_t length, size_t flags, json_error_t *ret_error,
                                        bool *ret_ran_out);
WEIR_MUST_CHECK json_t *json_load_text(const char *text, size_t flags);
/* Compact text, keys in the order in which they were set, numbers by json_format_number(); appended to `to`. */
WEIR_MUST_CHECK enum weir_status json_write(const json_t *value, struct text *to, struct weir_error *error);
/* The same text as json_write() makes of a string, without the value. `string` is UTF-8. */
WEIR_MUST_CHECK enum weir_status json_write_string(const char *string, struct text *to, struct weir_error *error);
/* The same text with other flags of jansson, piece by piece, as json_dump_callback() gives it. -1: `take` has failed, or no
 * memory. */
WEIR_MUST_CHECK int json_write_pieces(const json_t *value, size_t flags, json_dump_callback_t take, void *context);
/* Likewise as a text that the caller frees. NULL: no memory, or no value. */
WEIR_MUST_CHECK char *json_make_text(const json_t *value, size_t flags);
/* The shortest text that reads back as the same number, as "0.1" (jansson alone spells 17 digits). `number` is finite; `to`
 * holds JSON_NUMBER_TEXT_MAX bytes. */
WEIR_MUST_CHECK enum weir_status json_format_number(double number, char *to);
/* Whether the text of a string has a NUL: code that reads it as a C string would cut it. */
bool json_string_has_nul(const json_t *string);
/* Whether any string in the value has one, at any depth. PostgreSQL reads no JSON with a NUL. The value was read by
 * json_read(), so its keys have none and its depth is bounded. */
bool json_has_nul(const json_t *value);
/* "object", "array", "string", "integer", "number", "boolean", "null". */
const char *json_type_name(const json_t *value);

#endif
