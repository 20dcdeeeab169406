/* Finds and hides the values of secrets.
 *
 *   1. A secret gives one or more needles: its value, its JSON spelling, its lines.
 *   2. The needles are sorted, longest first: of two that begin at one place the longer one is hidden, so that a secret
 *      that contains another one leaves no rest.
 *   3. One pass over the text. A table of 65,536 bits has the first two bytes of every needle, so nearly all places cost
 *      one look-up.
 *   4. *** is never longer than a needle. So the result fits in place, and no copy of the text is made.
 *   5. A stream holds back its last bytes while a needle begins with them, and emits all before them.
 *
 * The depth of JSON is bounded by its reader (JSON_DEPTH_MAX), so the walk may call itself. Any thread.
 */
#include "base/secret_mask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

static const char stars[] = "***";

enum { STARS_LENGTH = sizeof stars - 1 };

_Static_assert((int)STARS_LENGTH < (int)SECRET_MASKED_BYTES_MIN, "a masked text never grows");

/* --- needles --- */

static bool add_needle(struct secret_mask *mask, const char *bytes, size_t length)
{
    struct secret_needle *needle = &mask->needles[mask->count];
    needle->bytes = malloc(length + 1);
    if (needle->bytes == NULL) {
        return false;
    }
    memcpy(needle->bytes, bytes, length);
    needle->bytes[length] = '\0';
    needle->length = length;
    mask->count++;
    unsigned start = (unsigned)(unsigned char)bytes[0] << 8 | (unsigned char)bytes[1];
    mask->starts[start / 8] |= (uint8_t)(1U << start % 8);
    return true;
}

/* The value as most writers of JSON spell it inside of a string. */
static enum weir_status spell_as_json(const struct secret *secret, struct text *to)
{
    static const char shorts[] = "\"\"\\\\\nn\rr\tt\bb\ff"; /* pairs: the character, the letter behind its backslash */
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < secret->length && status == WEIR_OK; i++) {
        char byte = secret->value[i];
        const char *pair = NULL;
        for (size_t j = 0; j + 1 < sizeof shorts && pair == NULL; j += 2) {
            pair = shorts[j] == byte ? shorts + j : NULL;
        }
        status = pair != NULL                 ? text_format(to, "\\%c", pair[1])
                 : (unsigned char)byte < 0x20 ? text_format(to, "\\u%04x", (unsigned)byte)
                                              : text_add(to, &byte, 1);
    }
    return status;
}

static bool add_json_needle(struct secret_mask *mask, const struct secret *secret)
{
    struct text spelt = {.max = 6 * SECRET_BYTES_MAX, .wipes = true};
    bool is_fine = spell_as_json(secret, &spelt) == WEIR_OK;
    if (is_fine && spelt.length != secret->length) {
        is_fine = add_needle(mask, spelt.data, spelt.length);
    }
    text_close(&spelt);
    return is_fine;
}

static bool add_line_needles(struct secret_mask *mask, const struct secret *secret)
{
    const char *at = secret->value;
    if (strchr(at, '\n') == NULL) {
        return true;
    }
    for (size_t lines = 0; *at != '\0' && lines < SECRET_MASKED_LINES_MAX; lines++) {
        size_t whole = strcspn(at, "\n");
        size_t length = whole > 0 && at[whole - 1] == '\r' ? whole - 1 : whole;
        if (length >= SECRET_MASKED_LINE_MIN && !add_needle(mask, at, length)) {
            return false;
        }
        at += whole + (at[whole] == '\n');
    }
    return true;
}

static int compare_lengths(const void *a, const void *b)
{
    size_t first = ((const struct secret_needle *)a)->length;
    size_t second = ((const struct secret_needle *)b)->length;
    return (first < second) - (first > second);
}

enum weir_status secret_mask_open(struct secret_mask *mask, const struct secret *secrets, size_t count)
{
    INVARIANT(mask != NULL && (secrets != NULL || count == 0));
    *mask = (struct secret_mask){.count = 0};
    mask->needles = calloc(count * (2 + SECRET_MASKED_LINES_MAX) + 1, sizeof *mask->needles);
    bool is_fine = mask->needles != NULL;
    for (size_t i = 0; i < count && is_fine; i++) {
        if (secrets[i].length >= SECRET_MASKED_BYTES_MIN) {
            is_fine = add_needle(mask, secrets[i].value, secrets[i].length) && add_json_needle(mask, &secrets[i]) &&
                      add_line_needles(mask, &secrets[i]);
        }
    }
    if (!is_fine) {
        secret_mask_close(mask);
        return WEIR_OUT_OF_MEMORY;
    }
    qsort(mask->needles, mask->count, sizeof *mask->needles, compare_lengths);
    return WEIR_OK;
}

void secret_mask_close(struct secret_mask *mask)
{
    INVARIANT(mask != NULL);
    for (size_t i = 0; mask->needles != NULL && i < mask->count; i++) {
        explicit_bzero(mask->needles[i].bytes, mask->needles[i].length);
        free(mask->needles[i].bytes);
    }
    free(mask->needles);
    *mask = (struct secret_mask){.count = 0};
}

/* --- text --- */

/* Whether a needle begins with the first two of these bytes. */
static bool pair_begins_needle(const struct secret_mask *mask, const char *at)
{
    unsigned start = (unsigned)(unsigned char)at[0] << 8 | (unsigned char)at[1];
    return (mask->starts[start / 8] & 1U << start % 8) != 0;
}

/* The bytes of the longest needle that begins here; 0: none does. */
static size_t match_needle(const struct secret_mask *mask, const char *at, size_t left)
{
    if (left < 2 || !pair_begins_needle(mask, at)) {
        return 0;
    }
    for (size_t i = 0; i < mask->count; i++) {
        if (mask->needles[i].length <= left && memcmp(at, mask->needles[i].bytes, mask->needles[i].length) == 0) {
            return mask->needles[i].length;
        }
    }
    return 0;
}

/* `matched`: bytes at the beginning that are hidden whatever they are. */
static size_t hide_matches(const struct secret_mask *mask, char *bytes, size_t length, size_t matched)
{
    size_t from = 0;
    size_t to = 0;
    while (from < length) {
        matched = matched > 0 ? matched : match_needle(mask, bytes + from, length - from);
        if (matched > 0) {
            memcpy(bytes + to, stars, STARS_LENGTH);
            to += STARS_LENGTH;
            from += matched;
        } else {
            bytes[to++] = bytes[from++];
        }
        matched = 0;
    }
    if (to < length) {
        explicit_bzero(bytes + to, length - to);
    }
    return to;
}

size_t secret_mask_apply(const struct secret_mask *mask, char *bytes, size_t length)
{
    INVARIANT(mask != NULL && (bytes != NULL || length == 0));
    return mask->count == 0 ? length : hide_matches(mask, bytes, length, 0);
}

size_t secret_mask_apply_to_tail(const struct secret_mask *mask, char *bytes, size_t length)
{
    INVARIANT(mask != NULL && (bytes != NULL || length == 0));
    size_t hidden = 0;
    for (size_t i = 0; i < mask->count; i++) {
        const struct secret_needle *needle = &mask->needles[i];
        size_t most = needle->length - 1 < length ? needle->length - 1 : length;
        for (size_t end = most; end > hidden && end >= SECRET_MASKED_BYTES_MIN; end--) {
            if (memcmp(bytes, needle->bytes + needle->length - end, end) == 0) {
                hidden = end;
            }
        }
    }
    return mask->count == 0 ? length : hide_matches(mask, bytes, length, hidden);
}

/* --- a stream --- */

/* Whether more bytes could make these ones, or a longer match, a needle. */
static bool begins_needle(const struct secret_mask *mask, const char *at, size_t left)
{
    for (size_t i = 0; i < mask->count; i++) {
        if (mask->needles[i].length > left && memcmp(at, mask->needles[i].bytes, left) == 0) {
            return true;
        }
    }
    return false;
}

/* The bytes that do not depend on those that come later. Needles are at least four bytes long, so the table of pairs
 * decides for all places but the last one. */
static size_t count_settled(const struct secret_mask *mask, const char *bytes, size_t length)
{
    size_t at = 0;
    while (at < length) {
        size_t left = length - at;
        bool may_begin = left < 2 || pair_begins_needle(mask, bytes + at);
        if (may_begin && begins_needle(mask, bytes + at, left)) {
            return at;
        }
        size_t matched = may_begin ? match_needle(mask, bytes + at, left) : 0;
        at += matched > 0 ? matched : 1;
    }
    return length;
}

static void emit_hidden(const struct secret_mask *mask, char *bytes, size_t length, secret_stream_emit *emit, void *context)
{
    size_t left = secret_mask_apply(mask, bytes, length);
    if (left > 0) {
        emit(context, bytes, left);
    }
}

enum weir_status secret_stream_write(struct secret_stream *stream, const struct secret_mask *mask, const char *bytes,
                                     size_t length, secret_stream_emit *emit, void *context)
{
    INVARIANT(stream != NULL && mask != NULL && (bytes != NULL || length == 0) && emit != NULL);
    stream->held.max = SIZE_MAX / 2;
    stream->held.wipes = true;
    if (text_add(&stream->held, bytes, length) != WEIR_OK) {
        secret_stream_close(stream);
        return WEIR_OUT_OF_MEMORY;
    }
    size_t settled = count_settled(mask, stream->held.data, stream->held.length);
    size_t rest = stream->held.length - settled;
    emit_hidden(mask, stream->held.data, settled, emit, context);
    memmove(stream->held.data, stream->held.data + settled, rest);
    explicit_bzero(stream->held.data + rest, stream->held.length - rest);
    stream->held.length = rest;
    return WEIR_OK;
}

void secret_stream_end(struct secret_stream *stream, const struct secret_mask *mask, secret_stream_emit *emit,
                       void *context)
{
    INVARIANT(stream != NULL && mask != NULL && emit != NULL);
    emit_hidden(mask, stream->held.data, stream->held.length, emit, context);
    secret_stream_close(stream);
}

void secret_stream_close(struct secret_stream *stream)
{
    INVARIANT(stream != NULL);
    text_close(&stream->held);
}

/* --- JSON --- */

/* A masked copy of the string, or NULL: *ret_status is WEIR_OK when there was nothing to hide. */
static json_t *mask_json_string(const struct secret_mask *mask, const char *string, size_t length,
                                enum weir_status *ret_status)
{
    struct text copy = {.max = length, .wipes = true};
    json_t *masked = NULL;
    *ret_status = text_add(&copy, string, length);
    if (*ret_status == WEIR_OK) {
        size_t left = secret_mask_apply(mask, copy.data, length);
        if (left != length || memcmp(copy.data, string, length) != 0) {
            masked = json_stringn(copy.data, left);
            *ret_status = masked != NULL ? WEIR_OK : WEIR_OUT_OF_MEMORY;
        }
    }
    text_close(&copy);
    return masked;
}

/* A new object, since a key cannot be changed. Two keys that become one keep the last value. */
static enum weir_status mask_json_object(const struct secret_mask *mask, json_t **value, bool *ret_changed)
{
    json_t *masked = json_object();
    enum weir_status status = masked != NULL ? WEIR_OK : WEIR_OUT_OF_MEMORY;
    bool is_changed = false;
    const char *key;
    json_t *child;
    json_object_foreach(*value, key, child)
    {
        json_t *own = json_incref(child);
        json_t *name = NULL;
        status = status == WEIR_OK ? secret_mask_json(mask, &own, &is_changed) : status;
        if (status == WEIR_OK) {
            name = mask_json_string(mask, key, strlen(key), &status);
            is_changed = is_changed || name != NULL;
        }
        if (status == WEIR_OK && json_object_set(masked, name != NULL ? json_string_value(name) : key, own) != 0) {
            status = WEIR_OUT_OF_MEMORY;
        }
        json_decref(name);
        json_decref(own);
    }
    if (status == WEIR_OK && is_changed) {
        json_decref(*value);
        *value = json_incref(masked);
        *ret_changed = true;
    }
    json_decref(masked);
    return status;
}

enum weir_status secret_mask_json(const struct secret_mask *mask, json_t **value, bool *ret_changed)
{
    INVARIANT(mask != NULL && value != NULL && ret_changed != NULL);
    enum weir_status status = WEIR_OK;
    if (json_is_object(*value)) {
        return mask_json_object(mask, value, ret_changed);
    }
    for (size_t i = 0; i < json_array_size(*value) && status == WEIR_OK; i++) {
        json_t *child = json_incref(json_array_get(*value, i));
        bool is_changed = false;
        status = secret_mask_json(mask, &child, &is_changed);
        if (status == WEIR_OK && is_changed) {
            status = json_array_set(*value, i, child) == 0 ? WEIR_OK : WEIR_OUT_OF_MEMORY;
            *ret_changed = true;
        }
        json_decref(child);
    }
    if (json_is_string(*value)) {
        json_t *masked = mask_json_string(mask, json_string_value(*value), json_string_length(*value), &status);
        if (masked != NULL) {
            json_decref(*value);
            *value = masked;
            *ret_changed = true;
        }
    }
    return status;
}
