/* The audit that no workspace passed its limit, from the records of the store. Each execution held its slot from its
 * claim until its end, so a sweep over these times gives how many held one at each instant. No counter of the queue
 * takes part.
 *
 * Store times are taken inside the transactions that take and free slots, one after the other, so at equal times an end
 * came before the claim that took its place. Of an execution that was claimed several times only the last claim is on its
 * row. */
#ifndef WEIR_CLI_VERBS_CAP_AUDIT_H
#define WEIR_CLI_VERBS_CAP_AUDIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"
#include "weir/status.h"

/* The findings in the records of one workspace. */
struct cap_audit {
    const char *workspace;
    size_t executions;
    size_t pending;
    size_t running; /* claimed or dispatched */
    size_t completed;
    size_t failed;          /* or cancelled */
    size_t peak;            /* most that held a slot at once */
    int64_t wait_p95_us;    /* from the time it was due to its claim; 0 when none was claimed */
    int64_t first_claim_us; /* store time; 0 = none */
    int64_t last_end_us;
};

/* Reads all executions of `audit->workspace` and fills the rest. */
WEIR_MUST_CHECK enum weir_status cap_audit_read(struct store *store, struct cap_audit *audit, struct weir_error *error);

/* The sweep alone, for tests: `ends_us` 0 = still running. Sorts both arrays. */
size_t cap_audit_peak(int64_t *claims_us, size_t claim_count, int64_t *ends_us, size_t end_count);

#endif
