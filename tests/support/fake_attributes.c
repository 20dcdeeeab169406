/* A fake namespace and its search attributes.
 *
 * The list keeps the caller's names. A start with another attribute gets the message of a real service, because the engine
 * under test recognises the refusal by it. One thread.
 */
#include "support/fake_attributes.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

void fake_attributes_add(struct fake_attributes *attributes, const char *name, enum attribute_type type)
{
    INVARIANT(attributes->count < FAKE_ATTRIBUTES_MAX);
    attributes->names[attributes->count] = name;
    attributes->types[attributes->count++] = type;
}

void fake_attributes_fill(const struct fake_attributes *attributes, struct fake_attributes_list *ret_list)
{
    temporal_api__list_search_attributes_response__init(&ret_list->reply);
    for (size_t i = 0; i < attributes->count; i++) {
        temporal_api__attribute_entry__init(&ret_list->entries[i]);
        ret_list->entries[i].key = (char *)(uintptr_t)attributes->names[i];
        ret_list->entries[i].value = (int32_t)attributes->types[i];
        ret_list->list[i] = &ret_list->entries[i];
    }
    ret_list->reply.custom_attributes = ret_list->list;
    ret_list->reply.n_custom_attributes = attributes->count;
}

void fake_namespace_fill(const char *id, struct fake_namespace *ret_namespace)
{
    temporal_api__describe_namespace_response__init(&ret_namespace->reply);
    temporal_api__namespace_info__init(&ret_namespace->info);
    temporal_api__namespace_config__init(&ret_namespace->config);
    temporal_api__duration__init(&ret_namespace->retention);
    ret_namespace->retention.seconds = 24 * 3600;
    ret_namespace->info.state = 1;
    ret_namespace->info.id = (char *)(uintptr_t)id;
    ret_namespace->config.workflow_execution_retention_ttl = &ret_namespace->retention;
    ret_namespace->reply.namespace_info = &ret_namespace->info;
    ret_namespace->reply.config = &ret_namespace->config;
}

static bool has(const struct fake_attributes *attributes, const char *name)
{
    for (size_t i = 0; i < attributes->count; i++) {
        if (strcmp(attributes->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

bool fake_attributes_refuse(const struct fake_attributes *attributes, const TemporalApi__PayloadMap *given, char *to,
                            size_t size)
{
    for (size_t i = 0; given != NULL && i < given->n_fields; i++) {
        if (!has(attributes, given->fields[i]->key)) {
            (void)snprintf(to, size, "Namespace default has no mapping defined for search attribute %s",
                           given->fields[i]->key);
            return true;
        }
    }
    return false;
}
