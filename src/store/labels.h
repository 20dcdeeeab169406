/* Labels and business keys: texts of an execution by which its callers find it again.
 *
 * A label is a pair of a name and a value. An execution has those of its request and, under other names, those of its
 * definition. A business key is one text without a name. Stores keep both in the table execution_labels, where the
 * business key has the empty name, which no label can have. Neither changes during the life of an execution, so no
 * transition touches these rows. Pure; any thread.
 */
#ifndef WEIR_STORE_LABELS_H
#define WEIR_STORE_LABELS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "queue/limits.h"
#include "store/bulk.h"

/* Bounds of a value in an index: from *ret_from on and below `end`. */
enum { LABEL_END_BYTES = 2 * LABEL_VALUE_MAX + 8 };
struct label_bounds {
    const char *from;
    char end[LABEL_END_BYTES];
};

/* Refuses anything else than a JSON object of at most LABELS_MAX texts of 1 to LABEL_VALUE_MAX bytes
 * without control characters, with valid names.
 * WEIR_INVALID_ARGUMENT, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status labels_check(const char *labels, struct weir_error *error);
/* The values that a condition matches: one, or all with a beginning. The name of a condition on the business key is "". */
void label_condition_bounds(const struct label_condition *condition, struct label_bounds *ret_bounds);
/* The conditions of a filter in the order in which an index serves them best: a whole value before a beginning. At most
 * LABEL_CONDITIONS_MAX + 1, the business key included; returns their number. */
size_t label_conditions_of(const struct execution_filter *filter,
                           struct label_condition ret_conditions[LABEL_CONDITIONS_MAX + 1]);

#endif
