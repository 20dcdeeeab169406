/* Filling a caller's struct weir_error.
 *
 * Errors are born through error_set(), so that one breakpoint finds every origin. A level that has something to add puts
 * its text in front with error_prefix(). Each failure is logged once, where it is handled, never where it is born.
 */
#ifndef WEIR_BASE_ERROR_H
#define WEIR_BASE_ERROR_H

#include <stdarg.h>

#include "weir/status.h"

/* Fills `error` (may be NULL) and returns `status`, so that a function can end with `return error_set(...)`.
 * Control characters and bytes that are no UTF-8 in the finished text are replaced by '?': a message is one safe line. */
enum weir_status error_set(struct weir_error *error, enum weir_status status, const char *format, ...) WEIR_PRINTF(3, 4);
enum weir_status error_set_native(struct weir_error *error, enum weir_status status, int native, const char *format, ...)
    WEIR_PRINTF(4, 5);
/* Sets the hint, which names the mend; only after error_set(). */
void error_hint(struct weir_error *error, const char *format, ...) WEIR_PRINTF(2, 3);
/* Puts "prefix: " before the message. */
void error_prefix(struct weir_error *error, const char *format, ...) WEIR_PRINTF(2, 3);
/* Empties the struct: WEIR_OK and no text. */
void error_clear(struct weir_error *error);
/* The answer to a failed allocation. */
enum weir_status error_out_of_memory(struct weir_error *error);

/* A broken invariant of our own: prints where, and aborts. Never for bad input. */
#define INVARIANT(condition) ((condition) ? (void)0 : invariant_broken(#condition, __FILE__, __LINE__))
_Noreturn void invariant_broken(const char *condition, const char *file, int line);

#endif
