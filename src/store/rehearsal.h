/* Dry runs on any store: refusals that follow from the definition of an execution, found by reads.
 *
 * Of a workspace that owns a workflow with the name of everybody's, several definitions may fit one execution. A dry run
 * refuses only what each of them refuses, because a refusal of what the act does would be worse.
 */
#ifndef WEIR_STORE_REHEARSAL_H
#define WEIR_STORE_REHEARSAL_H

#include <jansson.h>

#include "store/store.h"

/* Whether the workflow of an execution, an answer of store_show(), allows its retry. The refusals of store_bulk_one(). */
WEIR_MUST_CHECK enum weir_status rehearse_retry(struct store *store, const json_t *execution, const struct act_order *order,
                                                struct weir_error *error);
/* The same for all executions of a filter. *ret_any false: its workflow allows the retry of none. A filter without a
 * workflow gives true. */
WEIR_MUST_CHECK enum weir_status rehearse_retries(struct store *store, const struct execution_filter *filter,
                                                  const struct act_order *order, bool *ret_any, struct weir_error *error);

/* The checks and the answer of store_update_state(), but for the number of the action. */
WEIR_MUST_CHECK enum weir_status rehearse_update(struct store *store, const char *id, const struct state_update *update,
                                                 struct updated_state *ret_updated, struct weir_error *error);

#endif
