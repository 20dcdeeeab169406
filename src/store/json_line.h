/* One line of `weir enqueue -`: a JSON object that asks for one execution.
 *
 * Params are kept as they were written: the value's own bytes are cut out of the line, never parsed and printed again, so
 * that key order, number spelling and escapes reach the workflow untouched.
 */
#ifndef WEIR_STORE_JSON_LINE_H
#define WEIR_STORE_JSON_LINE_H

#include "base/arena.h"
#include "queue/limits.h"
#include "store/store.h"

/* A line holds the params and some names. */
enum { JSON_LINE_BYTES_MAX = PARAMS_BYTES_MAX + 64 * 1024 };

/* Fills `request` from the line over its present members (defaults). All text is copied to the arena. Relative times
 * count from `now_us`. WEIR_INVALID_ARGUMENT, WEIR_INVALID_PARAMS, WEIR_PARAMS_TOO_LARGE, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status json_line_read(const char *line, size_t length, int64_t now_us, struct arena *arena,
                                                struct enqueue_request *request, struct weir_error *error);

#endif
