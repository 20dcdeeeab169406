/* Bulk acts of the HTTP API: each runs in a thread of its own, chunk by chunk, and its progress can be read.
 *
 * An act belongs to the process: another node does not know it, and it ends with the process, between two chunks. Each
 * execution was changed completely or not at all, so the same order continues with the rest.
 *
 * Owner: the process. Threads: any.
 */
#ifndef WEIR_SERVER_BULK_JOBS_H
#define WEIR_SERVER_BULK_JOBS_H

#include <jansson.h>

#include "store/bulk_act.h"

enum { BULK_JOBS_AT_ONCE = 4, BULK_JOBS_REMEMBERED = 100 };

struct bulk_jobs;

struct bulk_order {
    enum bulk_act act;
    struct act_order options;       /* its texts are copied */
    struct execution_filter filter; /* its texts are copied */
    struct bulk_matches matches;
};

/* NULL: no memory. */
struct bulk_jobs *bulk_jobs_open(void);
/* Ends all acts between two chunks. Takes NULL. */
void bulk_jobs_close(struct bulk_jobs *jobs);

/* Begins the act for the actor of `store`, and writes its id, UUID_TEXT_MAX bytes. WEIR_QUEUE_FULL: BULK_JOBS_AT_ONCE run;
 * errors of opening a store, WEIR_SYSTEM, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status bulk_jobs_begin(struct bulk_jobs *jobs, const struct store *store,
                                                 const struct bulk_order *order, char *ret_id, struct weir_error *error);
/* {"id", "act", "status": "running", "done", "stopped" or "failed", "workspace", "workspace_id", "matched",
 * "matched_is_exact", "changed", "requested", "refused", "first_refusal": {"code", "detail"} or null, "error": the same or
 * null}. `workspace` is the name in the order, and `workspace_id` is 0 until the act has found it. WEIR_NOT_FOUND: there is
 * no such act, or it is not remembered any more. */
WEIR_MUST_CHECK enum weir_status bulk_jobs_read(struct bulk_jobs *jobs, const char *id, json_t **ret_job,
                                                struct weir_error *error);
/* All acts that are remembered, those that began last first: a list of what bulk_jobs_read() gives. */
WEIR_MUST_CHECK enum weir_status bulk_jobs_list(struct bulk_jobs *jobs, json_t **ret_jobs, struct weir_error *error);
/* Stops the act after the chunk that is under way. WEIR_NOT_FOUND. */
WEIR_MUST_CHECK enum weir_status bulk_jobs_stop(struct bulk_jobs *jobs, const char *id, struct weir_error *error);

#endif
