/* The workspaces that have executions in this node. Each has one lane at each shared resource.
 *
 * Threads: the loop's; `calls` belongs to the lock of the handler pool, `requests` to that of the HTTP client. Owner: the
 * table. A workspace is in it while it has an execution.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_TENANT_H
#define WEIR_ENGINE_IN_PROCESS_TENANT_H

#include "queue/fair_queue.h"

enum { TENANT_BUCKETS = 1024 };

struct tenant {
    struct tenant *next; /* in its bucket */
    size_t executions;
    struct fair_lane processes;
    struct fair_lane spawns;
    struct fair_lane evaluations;
    struct fair_lane calls;
    struct fair_lane requests;
    char name[];
};

struct tenant_table {
    struct tenant *buckets[TENANT_BUCKETS];
};

/* Counts one execution more. NULL: out of memory. */
struct tenant *tenant_acquire(struct tenant_table *table, const char *name);
/* One less; the last one frees it. Takes NULL. */
void tenant_release(struct tenant_table *table, struct tenant *tenant);

#endif
