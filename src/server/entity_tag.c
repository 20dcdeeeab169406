/* The tag is a hash of the JSON of the execution, so it is the same on every node and after a restart. */
#include "server/entity_tag.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

enum { TAG_SOURCE_BYTES_MAX = 64 * 1024 * 1024 };

/* Only members that are on record. Times that pass, progress and the reasons of a wait change without a change of the
 * execution, and a tag with them would refuse an act that is right. */
const char *entity_tag_of(const json_t *execution, struct arena *arena)
{
    static const char *const keys[] = {"id",        "status",     "fence",         "starts_refused", "deferrals",
                                       "handovers", "error_code", "error",         "run_at",         "stuck_since",
                                       "steps",     "events",     "earlier_events"};
    struct text source = {.max = TAG_SOURCE_BYTES_MAX};
    json_t *part = json_object();
    bool is_whole = part != NULL;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && is_whole; i++) {
        json_t *value = json_object_get(execution, keys[i]);
        is_whole = value == NULL || json_object_set(part, keys[i], value) == 0;
    }
    char tag[24];
    is_whole = is_whole && json_write(part, &source, NULL) == WEIR_OK;
    if (is_whole) {
        (void)snprintf(tag, sizeof tag, "\"%016" PRIx64 "\"", text_hash(source.data));
    }
    json_decref(part);
    text_close(&source);
    return is_whole ? arena_copy_string(arena, tag) : NULL;
}

bool entity_tag_is_in(const char *field, const char *tag)
{
    INVARIANT(field != NULL && tag != NULL);
    return strcmp(field, "*") == 0 || strstr(field, tag) != NULL; /* its quotes end the tag on both sides */
}
