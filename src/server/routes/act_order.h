/* The members of a body that say how an act works: of a retry `keep_finished` and `from_step`, of a wake `waiting_for`, of
 * a signal to many `signal`. One reader for all routes that take them, so that they refuse the same. */
#ifndef WEIR_SERVER_ROUTES_ACT_ORDER_H
#define WEIR_SERVER_ROUTES_ACT_ORDER_H

#include <jansson.h>

#include "base/arena.h"
#include "store/bulk_act.h"

/* The texts live as long as `body`. A member that is null counts as absent; one that the act does not take is refused,
 * whatever its value. *ret_pointer: the member at fault, as a JSON pointer. WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status act_order_read(const json_t *body, enum bulk_act act, struct act_order *ret_order,
                                                const char **ret_pointer, struct weir_error *error);

/* Reads `signal`: {"name", "key", "data"}, which the act signal needs and no other one takes, into `order`. The texts live
 * as long as `body`, and the data, as JSON text, as long as `arena`. *ret_pointer is "/signal" after an error.
 * WEIR_INVALID_ARGUMENT, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status act_order_read_signal(const json_t *body, enum bulk_act act, struct arena *arena,
                                                       struct act_order *order, const char **ret_pointer,
                                                       struct weir_error *error);

#endif
