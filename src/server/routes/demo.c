/* The act that only `weir demo` has: it kills a node, so that people see the takeover of its executions.
 *
 * The answer names the executions that the node holds at its death. They are read after the kill: the node can end none of
 * them any more, and the other nodes need some time to find that it is dead. */
#include <string.h>

#include "base/error.h"
#include "server/api.h"
#include "server/routes/routes.h"

/* Of a page of executions. NULL: no memory. */
static json_t *ids_of(const json_t *page)
{
    json_t *ids = json_array();
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(page, "items"), i, row)
    {
        json_t *id = json_object_get(row, "id");
        if (json_array_append(ids, id) != 0) {
            json_decref(ids);
            return NULL;
        }
    }
    return ids;
}

void answer_kill_demo_node(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    struct weir_error error = {.status = WEIR_OK};
    struct killed_node killed = {.pid = 0};
    json_t *page = NULL;
    json_t *value = NULL;
    if (api->kill_node == NULL) {
        respond_problem(request, answer, 404, "not_found", "only `weir demo` has this path", NULL, NULL);
        return;
    }
    enum weir_status status = api->kill_node(api->kill_context, store, &killed, &error);
    if (status == WEIR_OK) {
        struct list_options options = {
            .kind = LIST_EXECUTIONS,
            .filter = {.node = killed.name, .states = 1U << ITEM_CLAIMED | 1U << ITEM_DISPATCHED},
            .limit = LIST_LIMIT_MOST};
        status = store_list(store, &options, &page, &error);
    }
    if (status == WEIR_OK) {
        value =
            json_pack("{s:s, s:I, s:o}", "node", killed.name, "pid", (json_int_t)killed.pid, "execution_ids", ids_of(page));
    }
    json_decref(page);
    respond_outcome(request, answer, status, &error, value);
}
