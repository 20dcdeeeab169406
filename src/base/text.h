/* Text: bounded growing buffers, safe lines, and "did you mean". */
#ifndef WEIR_BASE_TEXT_H
#define WEIR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

/* A growing buffer with a ceiling. After a failed call the content is unchanged. `data` is NUL-terminated once anything was
 * added, and may hold NULs inside. Init with {.max = N}; text_close() frees it and takes an empty one. */
struct text {
    char *data;
    size_t length;
    size_t capacity;
    size_t max; /* bytes, without the closing NUL */
    bool
        wipes; /* it holds secrets: every byte that it gives back is overwritten before. Set it before the first addition */
};

/* WEIR_OUT_OF_MEMORY, or WEIR_FAILED when `max` would be passed. */
WEIR_MUST_CHECK enum weir_status text_add(struct text *text, const char *bytes, size_t length);
WEIR_MUST_CHECK enum weir_status text_add_string(struct text *text, const char *string);
/* Percent-encoded (RFC 3986, 2.1), all but the unreserved characters: it fills its place in a URL, and begins no other
 * part. */
WEIR_MUST_CHECK enum weir_status text_add_url_value(struct text *text, const char *bytes, size_t length);
WEIR_MUST_CHECK enum weir_status text_format(struct text *text, const char *format, ...) WEIR_PRINTF(2, 3);
void text_clear(struct text *text);
void text_close(struct text *text);

/* Replaces, in place, line breaks and tabs by a space, other control characters, bidi controls and bytes that are no UTF-8
 * by '?', and cuts a character that the end of a buffer has split: the rest may be printed on a terminal or put in a log
 * line. */
void text_make_safe(char *string);
/* True when the bytes are valid UTF-8 (RFC 3629: no overlong form, no surrogate). NULs are valid. */
bool text_is_utf8(const char *bytes, size_t length);
/* True when it has no NUL and no other control character of ASCII. */
bool text_is_printable(const char *bytes, size_t length);
/* Whether nothing of it would be seen: empty, or nothing but spaces of any kind. UTF-8. */
bool text_is_blank(const char *string);
/* How many terminal columns the string takes. A character that combines with the one before it takes none, a wide one
 * of East Asian scripts or an emoji two, any other one. The locale of the process must be one in UTF-8 for that; else
 * each counts as one. */
size_t text_columns(const char *string);
/* The bytes of the longest beginning that takes no more than so many columns, and how many it takes: a wide character that
 * only half fits is left out. */
size_t text_bytes_of_columns(const char *string, size_t columns, size_t *ret_used);

/* The candidate that is nearest to `word` (edits of one letter, a swap counts one), or NULL when none is near enough to be
 * the meant one. `candidates` has `count` entries; entries may be NULL. */
const char *text_nearest(const char *word, const char *const *candidates, size_t count);

/* FNV-1a, 64 bits: for tables, and where the same text shall always give the same number. */
uint64_t text_hash(const char *string);

/* Cuts blanks, tabs and line breaks at both ends, in place. Returns the beginning of the rest. */
char *text_trim(char *string);
/* Copies with the end cut if need be; always NUL-terminated when size > 0. */
void text_copy(char *to, size_t size, const char *from);

#endif
