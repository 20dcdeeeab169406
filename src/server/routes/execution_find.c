/* The refusal of a hidden execution is that of a missing one, word for word. */
#include "server/routes/execution_find.h"

#include "base/error.h"
#include "server/api.h"

enum weir_status execution_find(struct store *store, const struct http_request *request, char *to, json_t **ret_execution,
                                struct weir_error *error)
{
    const char *id = request_value(request, "id");
    json_t *execution = NULL;
    enum weir_status status = store_show(store, id, &execution, error);
    if (status == WEIR_OK &&
        !access_has_workspace(request->principal, json_string_value(json_object_get(execution, "workspace")))) {
        error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution %s", id);
        error_hint(error, "`weir list` shows the newest");
        status = WEIR_EXECUTION_NOT_FOUND;
    }
    if (status == WEIR_OK) {
        text_copy(to, UUID_TEXT_MAX, json_string_value(json_object_get(execution, "id")));
    }
    if (status == WEIR_OK && ret_execution != NULL) {
        *ret_execution = execution;
        return WEIR_OK;
    }
    json_decref(execution);
    return status;
}
