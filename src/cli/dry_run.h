/* `weir enqueue -n`: would the store take this request? Asks for the names in it, for each pair of them once. */
#ifndef WEIR_CLI_DRY_RUN_H
#define WEIR_CLI_DRY_RUN_H

#include "store/store.h"

/* Answers that are remembered; of two pairs of names that fall into one place the later one stays. */
enum { REHEARSAL_ANSWERS_MAX = 256 };

struct rehearsal;

/* NULL: no memory. A remembered answer is never asked for again: for one command. */
struct rehearsal *rehearsal_open(void);
/* Takes NULL. */
void rehearsal_close(struct rehearsal *rehearsal);
/* Whether the request would be taken, as far as it and its names show; idempotency keys are not looked up. Errors as
 * of store_enqueue(). */
WEIR_MUST_CHECK enum weir_status rehearsal_enqueue(struct rehearsal *rehearsal, struct store *store,
                                                   const struct enqueue_request *request, struct weir_error *error);

#endif
