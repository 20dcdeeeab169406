/* The workspaces of the node, counted by their executions.
 *
 * The lanes of a workspace are its shares in the processes, their starts, the evaluators, the handler threads and the
 * requests. They live as long as the workspace has an execution, because a step or a call that holds a place belongs to
 * one. So tenant_release() checks that the last execution left no place behind: a lost place would lower the capacity of
 * the node for ever. The table has a fixed number of buckets, because a node has few workspaces at a time. Only the loop's
 * thread uses it.
 */
#include "engine/in_process/tenant.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/table_hash.h"

static struct tenant **find_tenant_bucket(struct tenant_table *table, const char *name)
{
    return &table->buckets[table_hash(name) % TENANT_BUCKETS];
}

struct tenant *tenant_acquire(struct tenant_table *table, const char *name)
{
    INVARIANT(name != NULL);
    struct tenant **bucket = find_tenant_bucket(table, name);
    struct tenant *tenant = *bucket;
    while (tenant != NULL && strcmp(tenant->name, name) != 0) {
        tenant = tenant->next;
    }
    if (tenant == NULL) {
        size_t length = strlen(name);
        tenant = calloc(1, sizeof *tenant + length + 1);
        if (tenant == NULL) {
            return NULL;
        }
        memcpy(tenant->name, name, length);
        tenant->next = *bucket;
        *bucket = tenant;
    }
    tenant->executions++;
    return tenant;
}

void tenant_release(struct tenant_table *table, struct tenant *tenant)
{
    INVARIANT(tenant == NULL || tenant->executions > 0);
    if (tenant == NULL || --tenant->executions > 0) {
        return;
    }
    INVARIANT(tenant->processes.held + tenant->spawns.held + tenant->evaluations.held + tenant->calls.held +
                  tenant->requests.held ==
              0);
    struct tenant **link = find_tenant_bucket(table, tenant->name);
    while (*link != tenant) {
        INVARIANT(*link != NULL);
        link = &(*link)->next;
    }
    *link = tenant->next;
    free(tenant);
}
