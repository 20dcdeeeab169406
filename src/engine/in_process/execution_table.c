/* A hash table of executions, chained by their member `next`.
 *
 * The number of buckets is fixed at open, because the engine's capacity is. Only the loop's thread uses the table, so it
 * has no lock. It never contains two executions with one id: a start with a higher fence waits as the `successor` of the
 * first.
 */
#include "engine/in_process/execution_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/table_hash.h"
#include "engine/in_process/execution_state.h"

enum { BUCKETS_MIN = 1024, BUCKETS_MAX = 1 << 20 };

enum weir_status execution_table_open(struct execution_table *table, size_t count)
{
    INVARIANT(table != NULL);
    table->bucket_count = BUCKETS_MIN;
    while (table->bucket_count < 2 * count && table->bucket_count < BUCKETS_MAX) {
        table->bucket_count *= 2;
    }
    table->buckets = calloc(table->bucket_count, sizeof(struct execution *));
    return table->buckets != NULL ? WEIR_OK : WEIR_OUT_OF_MEMORY;
}

void execution_table_close(struct execution_table *table)
{
    for (size_t i = 0; table->buckets != NULL && i < table->bucket_count; i++) {
        INVARIANT(table->buckets[i] == NULL);
    }
    free(table->buckets);
    table->buckets = NULL;
}

static struct execution **find_execution_bucket(const struct execution_table *table, const char *id)
{
    return &table->buckets[table_hash(id) & (table->bucket_count - 1)];
}

struct execution *execution_table_find(const struct execution_table *table, const char *id)
{
    INVARIANT(table->buckets != NULL && id != NULL);
    struct execution *execution = *find_execution_bucket(table, id);
    while (execution != NULL && strcmp(execution->id, id) != 0) {
        execution = execution->next;
    }
    return execution;
}

void execution_table_insert(struct execution_table *table, struct execution *execution)
{
    INVARIANT(!execution->in_table && execution_table_find(table, execution->id) == NULL);
    struct execution **bucket = find_execution_bucket(table, execution->id);
    execution->next = *bucket;
    execution->in_table = true;
    *bucket = execution;
}

void execution_table_remove(struct execution_table *table, struct execution *execution)
{
    INVARIANT(execution->in_table);
    struct execution **link = find_execution_bucket(table, execution->id);
    while (*link != execution) {
        INVARIANT(*link != NULL);
        link = &(*link)->next;
    }
    *link = execution->next;
    execution->in_table = false;
}
