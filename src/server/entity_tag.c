/* The tag is "STATE-ANSWER". STATE is a hash of the members that are on record, and ANSWER one of the whole JSON. So both
 * are the same on every node and after a restart. */
#include "server/entity_tag.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

enum { TAG_SOURCE_BYTES_MAX = 64 * 1024 * 1024, TAG_TEXT_MAX = 40 };

/* False: no memory. */
static bool hash_json(const json_t *value, uint64_t *ret_hash)
{
    struct text source = {.max = TAG_SOURCE_BYTES_MAX};
    bool is_whole = value != NULL && json_write(value, &source, NULL) == WEIR_OK;
    *ret_hash = is_whole ? text_hash(source.data) : 0;
    text_close(&source);
    return is_whole;
}

/* Times that pass, progress and the reasons of a wait change without a change of the execution. A condition of an act with
 * them would refuse an act that is right. */
static bool hash_state(const json_t *execution, uint64_t *ret_hash)
{
    static const char *const keys[] = {"id",        "status",     "fence",         "starts_refused", "deferrals",
                                       "handovers", "error_code", "error",         "run_at",         "stuck_since",
                                       "steps",     "events",     "earlier_events"};
    json_t *part = json_object();
    bool is_whole = part != NULL;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && is_whole; i++) {
        json_t *value = json_object_get(execution, keys[i]);
        is_whole = value == NULL || json_object_set(part, keys[i], value) == 0;
    }
    is_whole = is_whole && hash_json(part, ret_hash);
    json_decref(part);
    return is_whole;
}

const char *entity_tag_of(const json_t *execution, struct arena *arena)
{
    uint64_t state;
    uint64_t answer;
    char tag[TAG_TEXT_MAX];
    if (!hash_state(execution, &state) || !hash_json(execution, &answer)) {
        return NULL;
    }
    (void)snprintf(tag, sizeof tag, "\"%016" PRIx64 "-%016" PRIx64 "\"", state, answer);
    return arena_copy_string(arena, tag);
}

bool entity_tag_is_in(const char *field, const char *tag)
{
    INVARIANT(field != NULL && tag != NULL);
    return strcmp(field, "*") == 0 || strstr(field, tag) != NULL; /* its quotes end the tag on both sides */
}

bool entity_tag_has_state(const char *field, const char *tag)
{
    INVARIANT(field != NULL && tag != NULL);
    char state[TAG_TEXT_MAX];
    text_copy(state, sizeof state, tag);
    char *mark = strchr(state, '-');
    if (mark != NULL) {
        mark[1] = '\0'; /* the quotation mark and this one end the first part on both sides */
    }
    return entity_tag_is_in(field, state);
}
