#include "engine/in_process/tenant.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

static struct tenant **bucket_of(struct tenant_table *table, const char *name)
{
    uint64_t hash = text_hash(name);
    return &table->buckets[(hash ^ (hash >> 32)) % TENANT_BUCKETS];
}

struct tenant *tenant_acquire(struct tenant_table *table, const char *name)
{
    struct tenant **bucket = bucket_of(table, name);
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
    if (tenant == NULL || --tenant->executions > 0) {
        return;
    }
    INVARIANT(tenant->processes.held + tenant->evaluations.held + tenant->calls.held == 0);
    struct tenant **link = bucket_of(table, tenant->name);
    while (*link != tenant) {
        link = &(*link)->next;
    }
    *link = tenant->next;
    free(tenant);
}
