/* One line of `weir enqueue -`: a JSON object that asks for one execution.
 *
 * Params are kept as they were written. The value's own bytes are cut out of the line, never parsed and printed again.
 * So key order, number spelling and escapes reach the workflow untouched.
 */
#ifndef WEIR_STORE_JSON_LINE_H
#define WEIR_STORE_JSON_LINE_H

#include "base/arena.h"
#include "queue/limits.h"
#include "store/store.h"

/* A line holds the params and some names. */
enum { JSON_LINE_BYTES_MAX = PARAMS_BYTES_MAX + 64 * 1024 };

/* Fills `request` from the line over its present members (defaults). All text is copied to the arena. Relative times
 * count from `now_us`. `ret_key` gets the key that a refusal is about, also an unknown one, or NULL: the line as a whole.
 * It may be NULL. WEIR_INVALID_ARGUMENT, WEIR_INVALID_PARAMS, WEIR_PARAMS_TOO_LARGE, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status json_line_read(const char *line, size_t length, int64_t now_us, struct arena *arena,
                                                struct enqueue_request *request, const char **ret_key,
                                                struct weir_error *error);

struct json_slice {
    const char *bytes; /* in the text that was split */
    size_t length;
};
/* The elements of {"items": [...]}, or of a text with one JSON object a line when `is_lines` (blank lines do not count);
 * each for json_line_read(). At most `most`. WEIR_INVALID_ARGUMENT: it is neither, is empty or has more. */
WEIR_MUST_CHECK enum weir_status json_line_split(const char *text, size_t length, bool is_lines, struct json_slice *slices,
                                                 size_t most, size_t *ret_count, struct weir_error *error);

#endif
