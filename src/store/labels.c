/* Checks of labels and of business keys, and their conditions in filters.
 *
 * A request has its labels as the text of a JSON object, because every surface has that form already. Examples are the
 * line of a set, the body over HTTP, and the argument in SQL. The text is checked here once and passed on to the driver,
 * whose SQL takes it apart. The same rules hold for a definition (definition/definition_reader.c).
 *
 * A filter has its conditions one by one. Both drivers walk along the index by one condition and look up the others. So the
 * choice of the first decides the cost of a list, and never its result.
 *
 * Nothing here keeps state or calls the store; the functions run in the thread of the caller.
 */
#include "store/labels.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "queue/name.h"

/* One pair. */
static enum weir_status check_label(const char *name, const json_t *value, struct weir_error *error)
{
    if (!label_name_is_valid(name)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%.80s\" is not the name of a label", name);
        error_hint(error, "a name has 1 to %d of a-z, 0-9, _, - and .", LABEL_NAME_MAX);
        return WEIR_INVALID_ARGUMENT;
    }
    size_t length = json_string_length(value);
    if (!json_is_string(value) || length == 0 || length > LABEL_VALUE_MAX ||
        !text_is_printable(json_string_value(value), length)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the value of the label %s is %s", name,
                  !json_is_string(value)     ? "not a text"
                  : length == 0              ? "empty"
                  : length > LABEL_VALUE_MAX ? "too long"
                                             : "a text with a control character");
        error_hint(error, "a value is a text of 1 to %d bytes", LABEL_VALUE_MAX);
        return WEIR_INVALID_ARGUMENT;
    }
    return WEIR_OK;
}

enum weir_status labels_check(const char *labels, struct weir_error *error)
{
    INVARIANT(labels != NULL);
    json_t *object = NULL;
    const char *name;
    json_t *value;
    enum weir_status status = json_read(labels, strlen(labels), &object, error);
    if (status == WEIR_OUT_OF_MEMORY) {
        return status;
    }
    if (status != WEIR_OK || !json_is_object(object)) {
        json_decref(object);
        error_set(error, WEIR_INVALID_ARGUMENT, "labels are not a JSON object");
        error_hint(error, "for example {\"customer-tier\": \"gold\"}");
        return WEIR_INVALID_ARGUMENT;
    }
    if (json_object_size(object) > LABELS_MAX) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "%zu labels are more than the %d of an execution",
                           json_object_size(object), LABELS_MAX);
    }
    json_object_foreach(object, name, value)
    {
        status = status == WEIR_OK ? check_label(name, value, error) : status;
    }
    json_decref(object);
    return status;
}

/* The code U+10FFFF stands for no character. So many of them are greater than the rest of any value that begins so. */
void label_condition_bounds(const struct label_condition *condition, struct label_bounds *ret_bounds)
{
    static const char greatest[] = "\xf4\x8f\xbf\xbf";
    size_t length = strlen(condition->value);
    INVARIANT(length <= LABEL_VALUE_MAX);
    ret_bounds->from = condition->value;
    text_copy(ret_bounds->end, sizeof ret_bounds->end, condition->value);
    while (condition->is_prefix && length <= LABEL_VALUE_MAX) {
        memcpy(ret_bounds->end + length, greatest, sizeof greatest);
        length += sizeof greatest - 1;
    }
}

size_t label_conditions_of(const struct execution_filter *filter,
                           struct label_condition ret_conditions[LABEL_CONDITIONS_MAX + 1])
{
    size_t count = 0;
    INVARIANT(filter->label_count <= LABEL_CONDITIONS_MAX);
    if (filter->business_key != NULL && !filter->business_key_is_prefix) {
        ret_conditions[count++] = (struct label_condition){.name = "", .value = filter->business_key};
    }
    for (size_t i = 0; i < filter->label_count; i++) {
        ret_conditions[count++] = filter->labels[i];
    }
    if (filter->business_key != NULL && filter->business_key_is_prefix) {
        ret_conditions[count++] = (struct label_condition){.name = "", .value = filter->business_key, .is_prefix = true};
    }
    return count;
}
