/* The entity tag of an execution (RFC 9110, 8.8.3). It changes with every change of the answer, so a 304 is never wrong. A
 * condition of an act compares its first part alone, which changes with every change of the execution that is on record. */
#ifndef WEIR_SERVER_ENTITY_TAG_H
#define WEIR_SERVER_ENTITY_TAG_H

#include <jansson.h>
#include <stdbool.h>

#include "base/arena.h"

/* `execution`: the answer of store_show(). In the arena; NULL: no memory. */
const char *entity_tag_of(const json_t *execution, struct arena *arena);
/* Whether a field If-None-Match names the tag: "*", or a list that has it. A weak tag is equal to its strong one, because
 * the tag is of the content. */
bool entity_tag_is_in(const char *field, const char *tag);
/* Whether a field If-Match names a tag of the same state: likewise. */
bool entity_tag_has_state(const char *field, const char *tag);

#endif
