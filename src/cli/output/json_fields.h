/* Reads of JSON answers, for tables and sentences. A field that is missing or null has no text. */
#ifndef WEIR_CLI_OUTPUT_JSON_FIELDS_H
#define WEIR_CLI_OUTPUT_JSON_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/output/output.h"

/* Strings as they are (made safe), numbers and booleans as texts, objects and lists as compact JSON; NULL when it is
 * missing or null. In the output's arena. */
const char *field_text(struct output *output, const json_t *object, const char *key);
/* The same of an error, and words that say so when it is missing. */
const char *field_error(struct output *output, const json_t *object, const char *key);
int64_t field_number(const json_t *object, const char *key, int64_t otherwise);
/* A time in RFC 3339 text; 0 when the field is missing, null or not a time. Relative times count from `now_us`. */
int64_t field_time(const json_t *object, const char *key, int64_t now_us);
bool field_is_true(const json_t *object, const char *key);
/* How many items a page has. */
size_t page_size(const json_t *page);

#endif
