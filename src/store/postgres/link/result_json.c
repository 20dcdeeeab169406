/* Turns a result into JSON for the verbs that read for people.
 *
 * The type of a column decides the type of its value; the name of the column is the key. Out of memory drops the whole
 * answer, because a partial one would look like a complete one.
 *
 * This file never reads the store and never interprets a value. It runs in the thread that has the handle. */
#include "store/postgres/link/result_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "store/postgres/link/libpq.h"

/* Types of the catalog; their numbers never change. */
enum {
    TYPE_BOOL = 16,
    TYPE_BYTEA = 17,
    TYPE_BIGINT = 20,
    TYPE_SMALLINT = 21,
    TYPE_INTEGER = 23,
    TYPE_JSON = 114,
    TYPE_REAL = 700,
    TYPE_DOUBLE = 701,
    TYPE_NUMERIC = 1700,
    TYPE_JSONB = 3802
};

/* JSON has no bytes, so a value that is not UTF-8 is replaced by a remark. */
static json_t *text_json(const char *text, size_t length)
{
    return text_is_utf8(text, length) ? json_stringn(text, length) : json_string("(bytes that are not UTF-8)");
}

/* The database accepts JSON that this program refuses: numbers beyond its range, a key twice. */
static json_t *json_json(const char *text, size_t length)
{
    json_error_t native;
    bool ran_out;
    json_t *value = json_load_bytes(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &native, &ran_out);
    return value != NULL || ran_out ? value : json_string("(JSON that weir cannot read)");
}

static json_t *bytes_json(const char *escaped)
{
    size_t length = 0;
    unsigned char *bytes = PQunescapeBytea((const unsigned char *)escaped, &length);
    json_t *value = bytes == NULL ? NULL : text_json((const char *)bytes, length);
    PQfreemem(bytes);
    return value;
}

json_t *result_json(const PGresult *result, int row, int column)
{
    INVARIANT(result != NULL && row >= 0 && column >= 0);
    if (PQgetisnull(result, row, column) != 0) {
        return json_null();
    }
    const char *text = PQgetvalue(result, row, column);
    size_t length = (size_t)PQgetlength(result, row, column);
    bool ran_out;
    json_error_t native;
    switch (PQftype(result, column)) {
    case TYPE_BOOL:
        return json_boolean(text[0] == 't');
    case TYPE_BIGINT:
    case TYPE_SMALLINT:
    case TYPE_INTEGER:
        return json_integer(strtoll(text, NULL, 10));
    case TYPE_REAL:
    case TYPE_DOUBLE:
    case TYPE_NUMERIC: {
        json_t *number = json_load_bytes(text, length, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &native, &ran_out);
        return number == NULL ? json_null() : number; /* NaN is no JSON */
    }
    case TYPE_BYTEA:
        return bytes_json(text);
    case TYPE_JSON:
    case TYPE_JSONB:
        return json_json(text, length);
    default:
        return text_json(text, length);
    }
}

static json_t *result_row_json(const PGresult *result, int row)
{
    json_t *object = json_object();
    for (int i = 0; object != NULL && i < PQnfields(result); i++) {
        if (json_object_set_new_nocheck(object, PQfname(result, i), result_json(result, row, i)) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

enum weir_status result_rows_json(PGresult *result, json_t **ret_rows, struct weir_error *error)
{
    INVARIANT(result != NULL && ret_rows != NULL);
    json_t *rows = json_array();
    bool complete = rows != NULL;
    for (int i = 0; complete && i < PQntuples(result); i++) {
        complete = json_array_append_new(rows, result_row_json(result, i)) == 0;
    }
    PQclear(result);
    if (!complete) {
        json_decref(rows);
        return error_out_of_memory(error);
    }
    *ret_rows = rows;
    return WEIR_OK;
}
