/* JavaScript values from and to C.
 *
 * Every function runs in the event loop's thread. A value of a wrong type is a TypeError in JavaScript, never a crash: the
 * package's modules check what a user gives, and this file does not rely on it. A failed call of Node-API while the
 * environment ends leaves NULL, which Node-API accepts as undefined.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_TEXT_SIZE = 128, UTF8_CHARACTER_MAX = 4 };

void throw_type_error(napi_env env, const char *message)
{
    (void)napi_throw_type_error(env, "ERR_INVALID_ARG_TYPE", message);
}

/* A short string is read in one pass: its length is known after that. */
static bool read_text(napi_env env, napi_value value, struct argument *argument)
{
    char start[SHORT_TEXT_SIZE];
    size_t length = 0;
    if (napi_get_value_string_utf8(env, value, start, sizeof start, &length) != napi_ok) {
        throw_type_error(env, "weir: an argument is not a string");
        return false;
    }
    /* A character that does not fit ends it as well. */
    bool is_whole = length + UTF8_CHARACTER_MAX < sizeof start;
    if (!is_whole) {
        (void)napi_get_value_string_utf8(env, value, NULL, 0, &length);
    }
    char *text = malloc(length + 1);
    if (text == NULL || (!is_whole && napi_get_value_string_utf8(env, value, text, length + 1, &length) != napi_ok)) {
        free(text);
        throw_type_error(env, "weir: there is no memory for an argument");
        return false;
    }
    if (is_whole) {
        memcpy(text, start, length + 1);
    }
    if (memchr(text, '\0', length) != NULL) {
        free(text);
        throw_type_error(env, "weir: a string has a NUL character; remove it");
        return false;
    }
    argument->text = text;
    argument->length = length;
    return true;
}

bool read_arguments(napi_env env, const napi_value *values, const char *types, struct argument *arguments)
{
    size_t count = strlen(types);
    memset(arguments, 0, count * sizeof *arguments);
    for (size_t i = 0; i < count; i++) {
        napi_valuetype type = napi_undefined;
        (void)napi_typeof(env, values[i], &type);
        bool is_read;
        if (types[i] == 'i') {
            is_read = napi_get_value_int64(env, values[i], &arguments[i].number) == napi_ok;
            if (!is_read) {
                throw_type_error(env, "weir: an argument is not a number");
            }
        } else {
            bool is_nothing = type == napi_null || type == napi_undefined;
            is_read = (types[i] == 'z' && is_nothing) || read_text(env, values[i], &arguments[i]);
        }
        if (!is_read) {
            free_arguments(arguments, i);
            return false;
        }
    }
    return true;
}

void free_arguments(struct argument *arguments, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(arguments[i].text);
        arguments[i].text = NULL;
    }
}

void *read_object(napi_env env, napi_value value, enum object_kind kind)
{
    void *object = NULL;
    if (napi_get_value_external(env, value, &object) != napi_ok || object == NULL ||
        *(const enum object_kind *)object != kind) {
        throw_type_error(env, "weir: an argument is not a store or node of this package");
        return NULL;
    }
    return object;
}

napi_value make_text(napi_env env, const char *text)
{
    napi_value value = NULL;
    (void)napi_create_string_utf8(env, text != NULL ? text : "", NAPI_AUTO_LENGTH, &value);
    return value;
}

napi_value make_ascii(napi_env env, const char *text)
{
    napi_value value = NULL;
    (void)napi_create_string_latin1(env, text, NAPI_AUTO_LENGTH, &value);
    return value;
}

napi_value make_number(napi_env env, int64_t number)
{
    napi_value value = NULL;
    (void)napi_create_int64(env, number, &value);
    return value;
}

napi_value make_boolean(napi_env env, bool is_true)
{
    napi_value value = NULL;
    (void)napi_get_boolean(env, is_true, &value);
    return value;
}

napi_value make_null(napi_env env)
{
    napi_value value = NULL;
    (void)napi_get_null(env, &value);
    return value;
}

napi_value make_failure(napi_env env, enum weir_status status, const struct weir_error *error)
{
    napi_value object = NULL;
    (void)napi_create_object(env, &object);
    (void)napi_set_named_property(env, object, "status", make_text(env, weir_status_name(status)));
    (void)napi_set_named_property(env, object, "kind", make_number(env, (int64_t)weir_status_kind(status)));
    (void)napi_set_named_property(env, object, "message", make_text(env, error->message));
    (void)napi_set_named_property(env, object, "hint", make_text(env, error->hint));
    return object;
}
