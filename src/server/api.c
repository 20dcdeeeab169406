/* Without tokens everybody who reaches the listener may do everything: http_server.h admits this machine alone. */
#include "server/api.h"

#include "base/error.h"

bool api_admit(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    INVARIANT(api != NULL && request->route != NULL);
    struct weir_error error = {.status = WEIR_OK};
    const char *name = NULL;
    if (request->route->scope != SCOPE_OPEN && !request->is_of_machine) {
        respond_problem(request, answer, 401, "unauthorized", "this address needs a token", NULL, NULL);
        return false;
    }
    if (request->route->scope != SCOPE_OPEN &&
        store_act_as(store, "http", request->fields[FIELD_REASON], &error) != WEIR_OK) {
        respond_error(request, answer, &error, NULL);
        return false;
    }
    /* After the actor: a refusal is answered to one who may know the route. */
    if (route_check_arguments(request, &name, &error) != WEIR_OK) {
        respond_error(request, answer, &error, name);
        return false;
    }
    return true;
}
