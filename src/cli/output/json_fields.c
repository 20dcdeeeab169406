/* Reads of fields of JSON objects, for tables and sentences.
 *
 * A missing field and a null give the same answer, because a view may leave a column out. Texts are made safe for a
 * terminal before they are returned, and live in the arena of the output. Nothing is printed here. One thread.
 */
#include "cli/output/json_fields.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

enum { FIELD_TEXT_MAX = 4 * 1024 * 1024 };

const char *field_text(struct output *output, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL || json_is_null(value)) {
        return NULL;
    }
    if (json_is_string(value)) {
        return output_safe(output, json_string_value(value));
    }
    struct text text = {.max = FIELD_TEXT_MAX};
    const char *copy = "";
    if (json_write(value, &text, NULL) == WEIR_OK) {
        copy = output_safe(output, text.data);
    }
    text_close(&text);
    return copy;
}

const char *field_error(struct output *output, const json_t *object, const char *key)
{
    const char *error = field_text(output, object, key);
    return error != NULL ? error : "it gives no reason";
}

int64_t field_number(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

int64_t field_time(const json_t *object, const char *key, int64_t now_us)
{
    int64_t time_us = 0;
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL && time_parse(text, now_us, &time_us, NULL) == WEIR_OK ? time_us : 0;
}

bool field_is_true(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_true(value) || (json_is_integer(value) && json_integer_value(value) != 0);
}

size_t page_size(const json_t *page)
{
    return json_array_size(json_object_get(page, "items"));
}
