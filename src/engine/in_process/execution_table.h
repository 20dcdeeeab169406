/* The executions of the node, found by id.
 *
 * Threads: the loop's. The table does not own the memory of its executions until execution_table_close().
 */
#ifndef WEIR_ENGINE_IN_PROCESS_EXECUTION_TABLE_H
#define WEIR_ENGINE_IN_PROCESS_EXECUTION_TABLE_H

#include <stddef.h>

#include "weir/status.h"

struct execution;

struct execution_table {
    struct execution **buckets;
    size_t bucket_count; /* a power of two */
};

/* For about `count` executions. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status execution_table_open(struct execution_table *table, size_t count);
/* Frees the array. The table must be empty. Takes one that is not open. */
void execution_table_close(struct execution_table *table);
/* The execution with this id, or NULL. */
struct execution *execution_table_find(const struct execution_table *table, const char *id);
void execution_table_insert(struct execution_table *table, struct execution *execution);
void execution_table_remove(struct execution_table *table, struct execution *execution);

#endif
