/* Text in bytes: growing buffers, UTF-8, columns of a terminal, and the nearest name for hints. Any thread; a struct text
 * has one owner.
 *
 * A struct text never exceeds its maximum: an addition that does not fit changes nothing. All walks over text go by
 * text_read_character(), which accepts exactly the UTF-8 of RFC 3629 (no overlong forms, no surrogates), so a broken byte
 * never shifts the next character. text_make_safe() replaces characters that change a terminal's state or direction.
 */
#include "base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { TEXT_FIRST_CAPACITY = 64, NEAREST_WORD_MAX = 64, CHARACTER_BYTES_MAX = 4 };

/* realloc() would leave the bytes in the memory that it gives back. NULL when memory is short. */
static char *move_and_wipe(struct text *text, size_t capacity)
{
    char *data = malloc(capacity);
    if (data != NULL && text->data != NULL) {
        memcpy(data, text->data, text->length + 1);
        explicit_bzero(text->data, text->capacity);
        free(text->data);
    }
    return data;
}

/* Capacity doubles, so that adding n bytes costs O(n) in all. WEIR_FAILED: over the maximum. */
static enum weir_status reserve(struct text *text, size_t more)
{
    if (more > text->max || text->length > text->max - more) {
        return WEIR_FAILED;
    }
    size_t need = text->length + more + 1;
    if (need <= text->capacity) {
        return WEIR_OK;
    }
    size_t capacity = text->capacity < TEXT_FIRST_CAPACITY ? TEXT_FIRST_CAPACITY : text->capacity;
    while (capacity < need) {
        capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    }
    char *data = text->wipes ? move_and_wipe(text, capacity) : realloc(text->data, capacity);
    if (data == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    text->data = data;
    text->capacity = capacity;
    return WEIR_OK;
}

enum weir_status text_add(struct text *text, const char *bytes, size_t length)
{
    enum weir_status status = reserve(text, length);
    if (status != WEIR_OK) {
        return status;
    }
    if (length > 0) {
        memcpy(text->data + text->length, bytes, length);
    }
    text->length += length;
    text->data[text->length] = '\0';
    return WEIR_OK;
}

enum weir_status text_add_string(struct text *text, const char *string)
{
    return text_add(text, string, strlen(string));
}

enum weir_status text_add_url_value(struct text *text, const char *bytes, size_t length)
{
    static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    size_t before = text->length;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < length && status == WEIR_OK; i++) {
        bool is_plain = bytes[i] != '\0' && strchr(unreserved, bytes[i]) != NULL;
        status = is_plain ? text_add(text, &bytes[i], 1) : text_format(text, "%%%02X", (unsigned)(unsigned char)bytes[i]);
    }
    if (status != WEIR_OK && text->data != NULL) {
        text->length = before;
        text->data[before] = '\0';
    }
    return status;
}

enum weir_status text_format(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        return WEIR_FAILED;
    }
    enum weir_status status = reserve(text, (size_t)length);
    if (status != WEIR_OK) {
        return status;
    }
    va_start(arguments, format);
    (void)vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
    return WEIR_OK;
}

void text_clear(struct text *text)
{
    text->length = 0;
    if (text->data != NULL && text->wipes) {
        explicit_bzero(text->data, text->capacity);
    }
    if (text->data != NULL) {
        text->data[0] = '\0';
    }
}

void text_close(struct text *text)
{
    if (text != NULL) {
        if (text->wipes && text->data != NULL) {
            explicit_bzero(text->data, text->capacity);
        }
        free(text->data);
        text->data = NULL;
        text->length = 0;
        text->capacity = 0;
    }
}

/* Length of the UTF-8 character at `at` (of `left` bytes), or 0 when there is none; the code point goes to `ret_point`. */
static size_t text_read_character(const unsigned char *at, size_t left, uint32_t *ret_point)
{
    size_t length = at[0] < 0x80                    ? 1
                    : at[0] >= 0xC2 && at[0] < 0xE0 ? 2
                    : at[0] >= 0xE0 && at[0] < 0xF0 ? 3
                    : at[0] >= 0xF0 && at[0] < 0xF5 ? 4
                                                    : 0;
    if (length == 0 || length > left) {
        return 0;
    }
    uint32_t point = length == 1 ? at[0] : at[0] & (0xFFU >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return 0;
        }
        point = (point << 6) | (at[i] & 0x3F);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < least[length] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) {
        return 0;
    }
    *ret_point = point;
    return length;
}

/* Control characters, and those that reorder or hide text. */
static bool is_unsafe(uint32_t point)
{
    return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x061C || (point >= 0x200E && point <= 0x200F) ||
           (point >= 0x2028 && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069) || point == 0xFEFF;
}

/* True when the bytes are the beginning of a character: with the right continuation they would be one. */
static bool is_split_character(const unsigned char *at, size_t left)
{
    unsigned char least[4] = {0x80, 0x80, 0x80, 0x80};
    unsigned char most[4] = {0xBF, 0xBF, 0xBF, 0xBF};
    uint32_t point;
    if (left >= sizeof least) {
        return false;
    }
    memcpy(least, at, left);
    memcpy(most, at, left);
    return text_read_character(least, sizeof least, &point) > left || text_read_character(most, sizeof most, &point) > left;
}

void text_make_safe(char *string)
{
    unsigned char *from = (unsigned char *)string;
    unsigned char *to = from;
    size_t left = strlen(string);
    while (left > 0) {
        uint32_t point = 0;
        size_t length = text_read_character(from, left, &point);
        if (length == 0 || is_unsafe(point)) {
            if (length == 0 && is_split_character(from, left)) {
                break; /* by the end of a buffer */
            }
            *to++ = point == '\n' || point == '\r' || point == '\t' ? ' ' : '?';
            length = length == 0 ? 1 : length;
        } else {
            memmove(to, from, length);
            to += length;
        }
        from += length;
        left -= length;
    }
    *to = '\0';
}

/* Characters that are not unsafe and leave no mark: the spaces of Unicode, and characters without width. */
static bool is_blank(uint32_t point)
{
    return point == ' ' || point == 0xA0 || point == 0xAD || point == 0x1680 || (point >= 0x2000 && point <= 0x200D) ||
           point == 0x202F || point == 0x205F || point == 0x2060 || point == 0x2800 || point == 0x3000;
}

bool text_is_blank(const char *string)
{
    const unsigned char *at = (const unsigned char *)string;
    for (size_t left = strlen(string); left > 0;) {
        uint32_t point = 0;
        size_t length = text_read_character(at, left, &point);
        if (length == 0 || !is_blank(point)) {
            return false;
        }
        at += length;
        left -= length;
    }
    return true;
}

bool text_is_utf8(const char *bytes, size_t length)
{
    const unsigned char *at = (const unsigned char *)bytes;
    while (length > 0) {
        uint32_t point;
        size_t step = text_read_character(at, length, &point);
        if (step == 0) {
            return false;
        }
        at += step;
        length -= step;
    }
    return true;
}

/* The columns of the first character, and its length in bytes; a byte that begins no character is one byte in one column.
 */
static size_t character_columns(const char *string, size_t *ret_length)
{
    uint32_t point = 0;
    size_t length = text_read_character((const unsigned char *)string, strnlen(string, CHARACTER_BYTES_MAX), &point);
    int columns = length == 0 ? 1 : wcwidth((wchar_t)point);
    *ret_length = length == 0 ? 1 : length;
    return columns < 0 ? 1 : (size_t)columns;
}

size_t text_columns(const char *string)
{
    size_t columns = 0;
    size_t length;
    for (; *string != '\0'; string += length) {
        columns += character_columns(string, &length);
    }
    return columns;
}

size_t text_bytes_of_columns(const char *string, size_t columns, size_t *ret_used)
{
    size_t used = 0;
    size_t at = 0;
    size_t length;
    while (string[at] != '\0') {
        size_t more = character_columns(string + at, &length);
        if (used + more > columns) {
            break;
        }
        used += more;
        at += length;
    }
    *ret_used = used;
    return at;
}

/* Restricted Damerau-Levenshtein distance over bytes; both words are shorter than NEAREST_WORD_MAX. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][NEAREST_WORD_MAX + 1];
    size_t *before = rows[0];
    size_t *last = rows[1];
    size_t *now = rows[2];
    for (size_t j = 0; j <= b_length; j++) {
        last[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        now[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
            size_t best = last[j - 1] + cost;
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best) {
                best = before[j - 2] + 1;
            }
            now[j] = best;
        }
        size_t *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[b_length];
}

const char *text_nearest(const char *word, const char *const *candidates, size_t count)
{
    size_t length = strlen(word);
    const char *nearest = NULL;
    size_t nearest_distance = length / 3 + 2; /* one more than a typing error */
    if (length == 0 || length >= NEAREST_WORD_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        size_t other = candidates[i] == NULL ? 0 : strlen(candidates[i]);
        if (other == 0 || other >= NEAREST_WORD_MAX) {
            continue;
        }
        size_t distance = edit_distance(word, length, candidates[i], other);
        if (distance < nearest_distance && distance < length) {
            nearest = candidates[i];
            nearest_distance = distance;
        }
    }
    return nearest;
}

uint64_t text_hash(const char *string)
{
    uint64_t hash = 14695981039346656037U;
    for (; *string != '\0'; string++) {
        hash = (hash ^ (unsigned char)*string) * 1099511628211U;
    }
    return hash;
}

char *text_trim(char *string)
{
    static const char blanks[] = " \t\r\n";
    string += strspn(string, blanks);
    size_t length = strlen(string);
    while (length > 0 && strchr(blanks, string[length - 1]) != NULL) {
        string[--length] = '\0';
    }
    return string;
}

void text_copy(char *to, size_t size, const char *from)
{
    if (size > 0) {
        size_t length = strlen(from);
        length = length < size - 1 ? length : size - 1;
        memcpy(to, from, length);
        to[length] = '\0';
    }
}

bool text_is_printable(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)bytes[i] < ' ' || bytes[i] == 0x7f) {
            return false;
        }
    }
    return true;
}
