/* The changed variables of a workflow with states, as the history of its actions shows them.
 *
 * The engine writes them after an action of a handler, and the store after an update by a person. Both show values up to
 * one limit, so that a large document does not fill the history, and names above it. It keeps no state.
 */
#include "definition/state_changes.h"

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "queue/limits.h"

json_t *state_changes_shown(json_t *changes)
{
    INVARIANT(changes != NULL);
    struct text text = {.max = STATE_CHANGES_BYTES_MAX};
    enum weir_status status = json_write(changes, &text, NULL);
    const char *name;
    json_t *value;
    text_close(&text);
    if (status == WEIR_OK) {
        return json_incref(changes);
    }
    json_t *names = json_array();
    json_object_foreach(changes, name, value)
    {
        if (json_array_append_new(names, json_string(name)) != 0) {
            json_decref(names);
            return NULL;
        }
    }
    return names;
}
