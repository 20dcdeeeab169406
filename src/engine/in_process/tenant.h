/* The workspaces that have executions in this node, each with its lanes at what its steps share with the others' steps.
 *
 * Threads: the loop's, but for `calls`, which belongs to the lock of the handler pool. Owner: the table; a workspace is in
 * it as long as it has an execution.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_TENANT_H
#define WEIR_ENGINE_IN_PROCESS_TENANT_H

#include "engine/in_process/fair_queue.h"

enum { TENANT_BUCKETS = 1024 };

struct tenant {
    struct tenant *next; /* in its bucket */
    size_t executions;
    struct fair_lane processes;
    struct fair_lane evaluations;
    struct fair_lane calls;
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
