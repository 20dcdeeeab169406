/* The changed variables of a workflow with states, as the history of its actions shows them. Any thread. */
#ifndef WEIR_DEFINITION_STATE_CHANGES_H
#define WEIR_DEFINITION_STATE_CHANGES_H

#include <jansson.h>

/* The object of names and values itself, or an array of the names when it is longer than STATE_CHANGES_BYTES_MAX. A new
 * reference; NULL: out of memory. */
json_t *state_changes_shown(json_t *changes);

#endif
