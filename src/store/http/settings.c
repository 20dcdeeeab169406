/* Plans, workspaces and workflows. The settings before and after a change come with the answer, because the command line
 * prints them. A change that is not named stays out of the body: absent means that the setting stays. One thread. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/http/http_verbs.h"

/* A value that does not fit is left out: half of it is no JSON. */
static void keep_setting(const json_t *answer, const char *key, char *to)
{
    char *text = json_dumps(json_object_get(answer, key), JSON_COMPACT);
    bool is_there = text != NULL && json_is_object(json_object_get(answer, key)) && strlen(text) < ACT_SETTING_MAX;
    text_copy(to, ACT_SETTING_MAX, is_there ? text : "");
    free(text);
}

/* Sends a change, and keeps the settings before and after it. */
static enum weir_status change_setting(struct store *store, const char *method, struct weir_error *error)
{
    json_t *answer = NULL;
    enum weir_status status = remote_change(store, method, &answer, error);
    if (status == WEIR_OK) {
        keep_setting(answer, "before", store->change.before);
        keep_setting(answer, "after", store->change.after);
    }
    json_decref(answer);
    return status;
}

/* null: that of the plan; 0: no limit. */
static json_t *pending_limit(int64_t most)
{
    return most == PENDING_OF_PLAN ? json_null() : json_integer(most == PENDING_UNLIMITED ? 0 : most);
}

/* PUT changes a plan as well: the body has what is to change. */
enum weir_status http_set_plan(struct store *store, const struct plan_change *change, struct weir_error *error)
{
    INVARIANT(store != NULL && change != NULL);
    json_t *body = json_object();
    bool is_fine = body != NULL;
    remote_client_target(client_of(store), "/v1/plans/{}", (const char *const[]){change->name});
    if (is_fine && change->max_concurrent > 0) {
        is_fine = json_object_set_new(body, "max_concurrent", json_integer(change->max_concurrent)) == 0;
    }
    if (is_fine && change->weight > 0) {
        is_fine = json_object_set_new(body, "weight", json_integer(change->weight)) == 0;
    }
    if (is_fine && change->max_pending != 0) {
        is_fine = json_object_set_new(body, "max_pending", pending_limit(change->max_pending)) == 0;
    }
    if (!is_fine) {
        json_decref(body);
        return error_out_of_memory(error);
    }
    remote_client_body(client_of(store), body);
    return change_setting(store, "PUT", error);
}

/* PUT makes the workspace when it is missing; PATCH changes one. null for the limit means that of the plan. */
/* Operators may pause, and only administrators change anything else. */
static bool is_pause_alone(const struct workspace_change *change)
{
    return change->paused >= 0 && !change->create && change->plan == NULL && change->max_concurrent == 0 &&
           change->max_pending == 0;
}

enum weir_status http_set_workspace(struct store *store, const struct workspace_change *change, struct weir_error *error)
{
    INVARIANT(store != NULL && change != NULL);
    if (is_pause_alone(change)) {
        remote_client_target(client_of(store), change->paused != 0 ? "/v1/workspaces/{}/pause" : "/v1/workspaces/{}/resume",
                             (const char *const[]){change->name});
        return change_setting(store, "POST", error);
    }
    json_t *body = json_object();
    bool is_fine = body != NULL;
    remote_client_target(client_of(store), "/v1/workspaces/{}", (const char *const[]){change->name});
    if (is_fine && change->plan != NULL) {
        is_fine = json_object_set_new(body, "plan", json_string(change->plan)) == 0;
    }
    if (is_fine && change->max_concurrent != 0) {
        json_t *limit = change->max_concurrent < 0 ? json_null() : json_integer(change->max_concurrent);
        is_fine = json_object_set_new(body, "max_concurrent", limit) == 0;
    }
    if (is_fine && change->max_pending != 0) {
        is_fine = json_object_set_new(body, "max_pending", pending_limit(change->max_pending)) == 0;
    }
    if (is_fine && change->paused >= 0) {
        is_fine = json_object_set_new(body, "paused", json_boolean(change->paused)) == 0;
    }
    if (!is_fine) {
        json_decref(body);
        return error_out_of_memory(error);
    }
    remote_client_body(client_of(store), body);
    return change_setting(store, change->create ? "PUT" : "PATCH", error);
}

enum weir_status http_rename_workspace(struct store *store, const char *name, const char *new_name,
                                       struct weir_error *error)
{
    INVARIANT(store != NULL && name != NULL && new_name != NULL);
    remote_client_target(client_of(store), "/v1/workspaces/{}/rename", (const char *const[]){name});
    remote_client_body(client_of(store), json_pack("{s:s}", "name", new_name));
    return change_setting(store, "POST", error);
}

/* The server ends all waiting executions in this one call. */
enum weir_status http_delete_workspace(struct store *store, const struct workspace_deletion *deletion,
                                       struct deletion_step *ret_step, struct weir_error *error)
{
    INVARIANT(store != NULL && deletion != NULL && ret_step != NULL);
    json_t *answer = NULL;
    remote_client_target(client_of(store), "/v1/workspaces/{}", (const char *const[]){deletion->name});
    remote_client_argument(client_of(store), "fail_waiting", deletion->fails_waiting ? "true" : NULL);
    enum weir_status status = http_change_long(store, "DELETE", &answer, error);
    if (status == WEIR_OK) {
        *ret_step = (struct deletion_step){.failed = (size_t)json_integer_value(json_object_get(answer, "failed"))};
    }
    json_decref(answer);
    return status;
}

/* All of it in one call, so `after` of the step is not used. A call that was cut off may be repeated: it goes on with what
 * is left. */
enum weir_status http_erase_workspace(struct store *store, const char *name, struct erasure_step *step,
                                      struct weir_error *error)
{
    INVARIANT(store != NULL && name != NULL && step != NULL);
    json_t *answer = NULL;
    remote_client_target(client_of(store), "/v1/workspaces/{}/history", (const char *const[]){name});
    enum weir_status status = http_change_long(store, "DELETE", &answer, error);
    if (status == WEIR_OK) {
        *step = (struct erasure_step){.erased = (size_t)json_integer_value(json_object_get(answer, "erased"))};
    }
    json_decref(answer);
    return status;
}

/* --- tokens --- */

/* The path names a token, so the server refuses an id. */
enum weir_status http_token_revoke(struct store *store, const char *name, struct weir_error *error)
{
    INVARIANT(store != NULL && name != NULL);
    remote_client_target(client_of(store), "/v1/tokens/{}", (const char *const[]){name});
    return remote_change(store, "DELETE", NULL, error);
}

/* --- workflows --- */

/* The owner is an argument and not a part of the path, because a name without one is of all workspaces. */
enum weir_status http_set_workflow_state(struct store *store, const char *name, const char *workspace,
                                         enum workflow_state state, struct weir_error *error)
{
    static const char *const paths[] = {[WORKFLOW_PUBLISHED] = "/v1/workflows/{}/enable",
                                        [WORKFLOW_DISABLED] = "/v1/workflows/{}/disable",
                                        [WORKFLOW_DELETED] = "/v1/workflows/{}"};
    remote_client_target(client_of(store), paths[state], (const char *const[]){name});
    remote_client_argument(client_of(store), "workspace", workspace);
    return remote_change(store, state == WORKFLOW_DELETED ? "DELETE" : "POST", NULL, error);
}

/* The server makes the canonical text itself, of the source where there is one: so it keeps that, too. */
enum weir_status http_publish(struct store *store, const struct publication *publication, struct published *ret_published,
                              struct weir_error *error)
{
    INVARIANT(store != NULL && publication->name != NULL && publication->text != NULL && ret_published != NULL);
    struct remote_client *client = client_of(store);
    const char *source = publication->source;
    const char *body = source != NULL ? source : publication->text;
    json_t *answer = NULL;
    remote_client_target(client, "/v1/workflows", NULL);
    remote_client_argument(client, "name", publication->name);
    remote_client_argument(client, "workspace", publication->workspace);
    remote_client_argument(client, "dry_run", publication->only_try ? "true" : NULL);
    remote_client_add_body(client, body, strlen(body));
    enum weir_status status =
        remote_change_as(store, "POST", source != NULL ? "application/yaml" : "application/json", &answer, error);
    if (status == WEIR_OK) {
        *ret_published =
            (struct published){.version = (int)json_integer_value(json_object_get(answer, "version")),
                               .unchanged = json_is_true(json_object_get(answer, "unchanged")),
                               .earlier_version = (int)json_integer_value(json_object_get(answer, "earlier_version")),
                               .definition_id = json_integer_value(json_object_get(answer, "definition_id"))};
        for (int change = 0; change < PUBLISHED_CHANGES; change++) {
            const char *key = published_change_key((enum published_change)change);
            published_add_all(ret_published, (enum published_change)change, json_object_get(answer, key));
        }
    }
    json_decref(answer);
    return status;
}
