/* `weir enqueue -n`: would the store take this request? Asks for the names in it, for each pair of them once. */
#ifndef WEIR_CLI_VERBS_DRY_RUN_H
#define WEIR_CLI_VERBS_DRY_RUN_H

#include "store/store.h"

/* Answers that are remembered; of two pairs of names that fall into one place the later one stays. */
enum { DRY_RUN_ANSWERS_MAX = 256 };

struct dry_run;

/* NULL: no memory. A remembered answer is never asked for again: for one command. */
struct dry_run *dry_run_open(void);
/* Takes NULL. */
void dry_run_close(struct dry_run *dry_run);
/* Whether the request would be taken, as far as it and its names show; idempotency keys are not looked up. Errors as
 * of store_enqueue(). */
WEIR_MUST_CHECK enum weir_status dry_run_enqueue(struct dry_run *dry_run, struct store *store,
                                                 const struct enqueue_request *request, struct weir_error *error);

#endif
