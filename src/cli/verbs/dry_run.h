/* `weir enqueue -n`: whether the store would accept a request. Each pair of names is read from the store once. */
#ifndef WEIR_CLI_VERBS_DRY_RUN_H
#define WEIR_CLI_VERBS_DRY_RUN_H

#include "store/store.h"

/* Answers that are remembered; of two pairs of names that fall into one place the later one stays. */
enum { DRY_RUN_ANSWERS_MAX = 256 };

struct dry_run;

/* NULL: no memory. For one command, because an answer is remembered until the end. */
struct dry_run *dry_run_open(void);
/* Takes NULL. */
void dry_run_close(struct dry_run *dry_run);
/* Whether the store would accept the request and its names; idempotency keys are not checked. Errors as of
 * store_enqueue(). */
WEIR_MUST_CHECK enum weir_status dry_run_enqueue(struct dry_run *dry_run, struct store *store,
                                                 const struct enqueue_request *request, struct weir_error *error);
/* Whether an error of dry_run_enqueue() is about this request, so that the next one may be accepted. */
bool dry_run_is_refusal(enum weir_status status);

#endif
