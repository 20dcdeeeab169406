/* Hides the values of secrets in text: each becomes ***.
 *
 * It finds the value as it is, the value as a JSON string spells it, and each line of a value of several lines. It does not
 * find a value that a program has encoded in another way (base64, a hash, letters with blanks between them).
 *
 * Threads: any, one at a time for a struct. Owner: the caller, until secret_mask_close(), which overwrites it.
 */
#ifndef WEIR_BASE_SECRET_MASK_H
#define WEIR_BASE_SECRET_MASK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/secret.h"
#include "base/text.h"

enum {
    SECRET_MASKED_BYTES_MIN = 4,  /* a shorter value is not hidden: it occurs everywhere */
    SECRET_MASKED_LINE_MIN = 8,   /* likewise for one line of a value */
    SECRET_MASKED_LINES_MAX = 256 /* lines of one value that are hidden on their own */
};

struct secret_needle {
    char *bytes;
    size_t length;
};

struct secret_mask {
    struct secret_needle *needles; /* longest first */
    size_t count;
    uint8_t starts[65536 / 8]; /* one bit for each pair of bytes that begins a needle */
};

/* Copies what it needs of the values. WEIR_OUT_OF_MEMORY, with nothing left to close. */
WEIR_MUST_CHECK enum weir_status secret_mask_open(struct secret_mask *mask, const struct secret *secrets, size_t count);
void secret_mask_close(struct secret_mask *mask);
/* Hides the values in place and returns the new length, which is never greater. The bytes behind it are overwritten. */
size_t secret_mask_apply(const struct secret_mask *mask, char *bytes, size_t length);
/* The same for text that begins in the middle of a longer one: the end of a value at its beginning is hidden too. */
size_t secret_mask_apply_to_tail(const struct secret_mask *mask, char *bytes, size_t length);
/* Text that comes in pieces, which may split a value. */
struct secret_stream {
    struct text held; /* it may be the beginning of a value: shorter than the longest needle, once a piece is written */
};
typedef void secret_stream_emit(void *context, const char *bytes, size_t length);

/* Emits what is known to be no part of a value, with the values hidden, and holds back the rest. A piece that finds no
 * memory is lost, with what was held: WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status secret_stream_write(struct secret_stream *stream, const struct secret_mask *mask,
                                                     const char *bytes, size_t length, secret_stream_emit *emit,
                                                     void *context);
/* No more will come: emits the rest. */
void secret_stream_end(struct secret_stream *stream, const struct secret_mask *mask, secret_stream_emit *emit,
                       void *context);
/* Overwrites what is held. */
void secret_stream_close(struct secret_stream *stream);
/* Hides the values in all strings and keys of *value, which may be replaced. `*ret_changed`: whether there were any.
 * WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status secret_mask_json(const struct secret_mask *mask, json_t **value, bool *ret_changed);

#endif
