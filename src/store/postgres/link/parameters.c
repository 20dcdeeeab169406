/* Encodes the arguments of a statement in PostgreSQL's binary format.
 *
 * Each letter of `types` takes one argument or two (link.h). Text and bytes stay where the caller has them. Numbers, uuids
 * and arrays are written big-endian into one scratch buffer, one behind the other. The buffer may move while it grows, so
 * an argument in it is marked first and gets its pointer when all of them are written.
 *
 * This file never keeps a pointer beyond the call and never changes an argument. It runs in the thread that has the link.
 */
#include "store/postgres/link/parameters.h"

#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/uuid.h"

/* The server's fixed ids of its built-in types (pg_type.dat); libpq's headers do not name them. */
enum {
    TYPE_BOOL = 16,
    TYPE_BYTEA = 17,
    TYPE_INT8 = 20,
    TYPE_INT4 = 23,
    TYPE_TEXT = 25,
    TYPE_UUID = 2950,
    TYPE_BOOL_ARRAY = 1000,
    TYPE_BYTEA_ARRAY = 1001,
    TYPE_INT4_ARRAY = 1007,
    TYPE_TEXT_ARRAY = 1009,
    TYPE_INT8_ARRAY = 1016,
    TYPE_UUID_ARRAY = 2951
};

enum { UUID_BYTES = 16, VALUE_MOST = INT_MAX };

static const char IN_SCRATCH[] = "";

/* --- single values --- */

static enum weir_status add_big_endian(struct text *to, uint64_t value, size_t bytes)
{
    char encoded[8];
    for (size_t i = 0; i < bytes; i++) {
        encoded[i] = (char)(unsigned char)(value >> (8 * (bytes - 1 - i)));
    }
    return text_add(to, encoded, bytes);
}

static int hex_value(char digit)
{
    return digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10;
}

static enum weir_status add_uuid(struct text *to, const char *text, struct weir_error *error)
{
    char encoded[UUID_BYTES];
    if (!uuid_is_valid(text)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "\"%.64s\" is not an id", text);
    }
    for (int i = 0; i < UUID_BYTES; i++) {
        text += *text == '-';
        encoded[i] = (char)(unsigned char)(hex_value(text[0]) << 4 | hex_value(text[1]));
        text += 2;
    }
    return text_add(to, encoded, sizeof encoded);
}

/* --- arrays: dimensions, whether it has NULLs, element type, length, lower bound; then each length and value --- */

/* An empty array has no dimension, and so no length and no lower bound. */
static enum weir_status add_array_head(struct text *to, Oid element, bool has_null, size_t count)
{
    uint64_t dimensions = count == 0 ? 0 : 1;
    enum weir_status status = add_big_endian(to, dimensions, 4);
    status = status == WEIR_OK ? add_big_endian(to, has_null ? 1 : 0, 4) : status;
    status = status == WEIR_OK ? add_big_endian(to, element, 4) : status;
    if (count > 0) {
        status = status == WEIR_OK ? add_big_endian(to, count, 4) : status;
        status = status == WEIR_OK ? add_big_endian(to, 1, 4) : status;
    }
    return status;
}

static enum weir_status add_element(struct text *to, const char *data, size_t length)
{
    if (data == NULL) {
        return add_big_endian(to, UINT32_MAX, 4); /* -1 = NULL */
    }
    if (length > VALUE_MOST) {
        return WEIR_OUT_OF_MEMORY;
    }
    enum weir_status status = add_big_endian(to, length, 4);
    return status == WEIR_OK && length > 0 ? text_add(to, data, length) : status;
}

/* The arrays I, D and O. */
static enum weir_status add_numbers(struct text *to, char type, const void *values, size_t count)
{
    size_t bytes = type == 'I' ? 8 : type == 'D' ? 4 : 1;
    enum weir_status status = add_array_head(to,
                                             type == 'I'   ? TYPE_INT8
                                             : type == 'D' ? TYPE_INT4
                                                           : TYPE_BOOL,
                                             false, count);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        uint64_t value = type == 'I'   ? (uint64_t)((const int64_t *)values)[i]
                         : type == 'D' ? (uint64_t)(int64_t)((const int *)values)[i]
                                       : ((const bool *)values)[i];
        status = add_big_endian(to, bytes, 4);
        status = status == WEIR_OK ? add_big_endian(to, value, bytes) : status;
    }
    return status;
}

/* The arrays T and U. */
static enum weir_status add_strings(struct text *to, char type, const char *const *values, size_t count,
                                    struct weir_error *error)
{
    bool has_null = false;
    for (size_t i = 0; i < count; i++) {
        has_null = has_null || values[i] == NULL;
    }
    enum weir_status status = add_array_head(to, type == 'U' ? TYPE_UUID : TYPE_TEXT, has_null, count);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        if (type == 'T' || values[i] == NULL) {
            status = add_element(to, values[i], values[i] == NULL ? 0 : strlen(values[i]));
        } else {
            status = add_big_endian(to, UUID_BYTES, 4);
            status = status == WEIR_OK ? add_uuid(to, values[i], error) : status;
        }
    }
    return status;
}

/* The array V: ids that are bytes already. */
static enum weir_status add_ids(struct text *to, const uint8_t *values, size_t count)
{
    enum weir_status status = add_array_head(to, TYPE_UUID, false, count);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = add_element(to, (const char *)values + i * UUID_BYTES, UUID_BYTES);
    }
    return status;
}

/* The arrays B and X. */
static enum weir_status add_bytes(struct text *to, char type, const struct link_bytes *values, size_t count)
{
    bool has_null = false;
    for (size_t i = 0; i < count; i++) {
        has_null = has_null || values[i].data == NULL;
    }
    enum weir_status status = add_array_head(to, type == 'B' ? TYPE_BYTEA : TYPE_TEXT, has_null, count);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = add_element(to, values[i].data, values[i].length);
    }
    return status;
}

/* --- one argument --- */

static Oid type_of_letter(char type)
{
    switch (type) {
    case 't':
    case 'x':
        return TYPE_TEXT;
    case 'u':
        return TYPE_UUID;
    case 'i':
    case 'p':
        return TYPE_INT8;
    case 'd':
        return TYPE_INT4;
    case 'o':
        return TYPE_BOOL;
    case 'b':
        return TYPE_BYTEA;
    case 'T':
    case 'X':
        return TYPE_TEXT_ARRAY;
    case 'U':
    case 'V':
        return TYPE_UUID_ARRAY;
    case 'I':
        return TYPE_INT8_ARRAY;
    case 'D':
        return TYPE_INT4_ARRAY;
    case 'O':
        return TYPE_BOOL_ARRAY;
    default:
        INVARIANT(type == 'B');
        return TYPE_BYTEA_ARRAY;
    }
}

/* One encoded argument: bytes of the caller, or bytes in the scratch. */
struct argument {
    const char *own; /* NULL = SQL NULL; IN_SCRATCH = the scratch has it */
    size_t length;
};

/* A callee that advances a va_list gets it in a struct: where va_list is an array type, a pointer to it has another type.
 */
struct arguments {
    va_list values;
};

/* The capital letters. */
static enum weir_status encode_array(struct text *scratch, char type, struct arguments *from, struct weir_error *error)
{
    const void *values = va_arg(from->values, const void *);
    size_t count = va_arg(from->values, size_t);
    switch (type) {
    case 'I':
    case 'D':
    case 'O':
        return add_numbers(scratch, type, values, count);
    case 'T':
    case 'U':
        return add_strings(scratch, type, (const char *const *)values, count, error);
    case 'V':
        return add_ids(scratch, values, count);
    default:
        return add_bytes(scratch, type, values, count);
    }
}

/* The letters i, p, d and o. */
static enum weir_status encode_number(struct text *scratch, char type, struct arguments *from, struct argument *to)
{
    if (type == 'p') {
        const int64_t *value = va_arg(from->values, const int64_t *);
        to->own = value == NULL ? NULL : IN_SCRATCH;
        return value == NULL ? WEIR_OK : add_big_endian(scratch, (uint64_t)*value, 8);
    }
    to->own = IN_SCRATCH;
    if (type == 'i') {
        return add_big_endian(scratch, (uint64_t)va_arg(from->values, int64_t), 8);
    }
    int value = va_arg(from->values, int);
    return type == 'd' ? add_big_endian(scratch, (uint64_t)(int64_t)value, 4) : add_big_endian(scratch, value != 0, 1);
}

static enum weir_status encode_one(struct text *scratch, char type, struct arguments *from, struct argument *to,
                                   struct weir_error *error)
{
    *to = (struct argument){NULL, 0};
    switch (type) {
    case 't':
        to->own = va_arg(from->values, const char *);
        to->length = to->own == NULL ? 0 : strlen(to->own);
        return WEIR_OK;
    case 'x':
    case 'b':
        to->own = va_arg(from->values, const char *);
        to->length = va_arg(from->values, size_t);
        return WEIR_OK;
    case 'u': {
        const char *text = va_arg(from->values, const char *);
        to->own = text == NULL ? NULL : IN_SCRATCH;
        return text == NULL ? WEIR_OK : add_uuid(scratch, text, error);
    }
    case 'i':
    case 'p':
    case 'd':
    case 'o':
        return encode_number(scratch, type, from, to);
    default:
        to->own = IN_SCRATCH;
        return encode_array(scratch, type, from, error);
    }
}

enum weir_status parameters_encode(struct parameters *parameters, struct text *scratch, const char *types, va_list values,
                                   struct weir_error *error)
{
    INVARIANT(parameters != NULL && scratch != NULL && types != NULL);
    size_t starts[LINK_PARAMETERS_MOST] = {0};
    struct arguments from;
    va_copy(from.values, values);
    text_clear(scratch);
    enum weir_status status = WEIR_OK;
    int count = (int)strlen(types);
    INVARIANT(count <= LINK_PARAMETERS_MOST);
    for (int i = 0; i < count && status == WEIR_OK; i++) {
        struct argument argument;
        starts[i] = scratch->length;
        status = encode_one(scratch, types[i], &from, &argument, error);
        size_t length = argument.own == IN_SCRATCH ? scratch->length - starts[i] : argument.length;
        if (status == WEIR_OK && length > VALUE_MOST) {
            status = WEIR_OUT_OF_MEMORY;
        }
        parameters->types[i] = type_of_letter(types[i]);
        parameters->values[i] = argument.own;
        parameters->lengths[i] = (int)length;
        parameters->formats[i] = 1;
    }
    va_end(from.values);
    if (status == WEIR_INVALID_ARGUMENT) {
        return status;
    }
    if (status != WEIR_OK) {
        return error_set(error, WEIR_OUT_OF_MEMORY, "the arguments of a statement are too large for this program's memory");
    }
    for (int i = 0; i < count; i++) {
        if (parameters->values[i] == IN_SCRATCH) {
            parameters->values[i] = scratch->data == NULL ? "" : scratch->data + starts[i];
        }
    }
    parameters->count = count;
    return WEIR_OK;
}
