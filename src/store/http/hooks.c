/* Hooks: the acts alone. Their events become executions by the duty of a node, and no node runs on a server as its store,
 * so the verbs of the duty are refused (http_store.c). One thread. */
#include "base/error.h"
#include "store/http/http_verbs.h"

/* Adds a text, or nothing for NULL: the server takes an absent member as all. False: out of memory. */
static bool add_member(json_t *body, const char *key, const char *text)
{
    return text == NULL || json_object_set_new(body, key, json_string(text)) == 0;
}

/* PUT makes the hook, or replaces it: members that are left out stand for all. */
enum weir_status http_hook_set(struct store *store, const struct hook_request *request, bool *ret_is_new,
                               struct weir_error *error)
{
    json_t *body = json_object();
    json_t *on = json_array();
    json_t *answer = NULL;
    bool is_fine = body != NULL && on != NULL;
    remote_client_target(client_of(store), "/v1/hooks/{}", (const char *const[]){request->name});
    for (size_t i = 0; i < request->on_count && is_fine; i++) {
        is_fine = json_array_append_new(on, json_string(item_state_name(request->on[i]))) == 0;
    }
    is_fine = is_fine && json_object_set(body, "on", on) == 0 && add_member(body, "workspace", request->workspace) &&
              add_member(body, "workflow", request->workflow) &&
              add_member(body, "start_workspace", request->start_workspace) &&
              add_member(body, "start_workflow", request->start_workflow);
    json_decref(on);
    if (!is_fine) {
        json_decref(body);
        return error_out_of_memory(error);
    }
    remote_client_body(client_of(store), body);
    enum weir_status status = remote_change(store, "PUT", &answer, error);
    if (status == WEIR_OK) {
        *ret_is_new = json_is_true(json_object_get(answer, "is_new"));
    }
    json_decref(answer);
    return status;
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
