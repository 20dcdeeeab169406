/* Hooks: the acts alone. The duty of a node makes executions of their events. No node runs on a server as its store, so
 * the verbs of the duty are refused (http_store.c). One thread. */
#include "base/error.h"
#include "store/http/http_verbs.h"

/* PUT makes the hook, or replaces it: members that are left out stand for all. */
enum weir_status http_hook_set(struct store *store, const struct hook_request *request, bool *ret_is_new,
                               struct weir_error *error)
{
    INVARIANT(store != NULL && request != NULL && ret_is_new != NULL);
    json_t *body = json_object();
    json_t *on = json_array();
    bool is_fine = body != NULL && on != NULL;
    remote_client_target(client_of(store), "/v1/hooks/{}", (const char *const[]){request->name});
    for (size_t i = 0; i < request->on_count && is_fine; i++) {
        is_fine = json_array_append_new(on, json_string(item_state_name(request->on[i]))) == 0;
    }
    is_fine = is_fine && json_object_set(body, "on", on) == 0 && remote_add_text(body, "workspace", request->workspace) &&
              remote_add_text(body, "workflow", request->workflow) &&
              remote_add_text(body, "start_workspace", request->start_workspace) &&
              remote_add_text(body, "start_workflow", request->start_workflow);
    json_decref(on);
    if (!is_fine) {
        json_decref(body);
        return error_out_of_memory(error);
    }
    return remote_put(store, body, ret_is_new, error);
}

/* A hook that is paused already stays so, and the act goes on record. */
enum weir_status http_hook_pause(struct store *store, const char *name, bool paused, struct weir_error *error)
{
    remote_client_target(client_of(store), paused ? "/v1/hooks/{}/pause" : "/v1/hooks/{}/resume",
                         (const char *const[]){name});
    return remote_change(store, "POST", NULL, error);
}

/* The server removes the waiting events as well. */
enum weir_status http_hook_delete(struct store *store, const char *name, struct weir_error *error)
{
    remote_client_target(client_of(store), "/v1/hooks/{}", (const char *const[]){name});
    return remote_change(store, "DELETE", NULL, error);
}
