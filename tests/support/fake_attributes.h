/* The namespace of a fake_temporal: its description, and its search attributes, which are listed and looked for in a start.
 */
#ifndef WEIR_TESTS_SUPPORT_FAKE_ATTRIBUTES_H
#define WEIR_TESTS_SUPPORT_FAKE_ATTRIBUTES_H

#include "engine/temporal/encode.h"
#include "engine/temporal/temporal.pb-c.h"

enum { FAKE_ATTRIBUTES_MAX = 8 };

struct fake_attributes {
    const char *names[FAKE_ATTRIBUTES_MAX];
    enum attribute_type types[FAKE_ATTRIBUTES_MAX];
    size_t count;
    bool is_refused; /* the caller has no right to list them */
};

/* `name` stays the caller's. */
void fake_attributes_add(struct fake_attributes *attributes, const char *name, enum attribute_type type);
struct fake_attributes_list {
    TemporalApi__ListSearchAttributesResponse reply;
    TemporalApi__AttributeEntry entries[FAKE_ATTRIBUTES_MAX];
    TemporalApi__AttributeEntry *list[FAKE_ATTRIBUTES_MAX];
};
void fake_attributes_fill(const struct fake_attributes *attributes, struct fake_attributes_list *ret_list);
struct fake_namespace {
    TemporalApi__DescribeNamespaceResponse reply;
    TemporalApi__NamespaceInfo info;
    TemporalApi__NamespaceConfig config;
    TemporalApi__Duration retention;
};
/* With a retention of a day. */
void fake_namespace_fill(const char *id, struct fake_namespace *ret_namespace);
/* The message with which the service refuses a start with another attribute; false when the start has none. */
bool fake_attributes_refuse(const struct fake_attributes *attributes, const TemporalApi__PayloadMap *given, char *to,
                            size_t size);

#endif
