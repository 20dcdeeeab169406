/* The verbs of tokens, and what both drivers share of them.
 *
 * Each verb checks its arguments and calls the driver, so that all drivers refuse the same. No verb gets or returns a
 * secret. Runs in the caller's thread.
 */
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/json.h"
#include "store/call.h"
#include "store/refusal.h"

static const char *const role_names[TOKEN_ROLE_COUNT] = {"read", "enqueue", "operate", "admin"};

const char *token_role_name(enum token_role role)
{
    INVARIANT((unsigned)role < TOKEN_ROLE_COUNT);
    return role_names[role];
}

bool token_role_parse(const char *name, enum token_role *ret_role)
{
    INVARIANT(ret_role != NULL);
    for (int i = 0; name != NULL && i < TOKEN_ROLE_COUNT; i++) {
        if (strcmp(name, role_names[i]) == 0) {
            *ret_role = (enum token_role)i;
            return true;
        }
    }
    return false;
}

/* --- shared by the drivers --- */

enum weir_status token_fill_workspaces(struct token *token, const char *workspaces, struct arena *arena,
                                       struct weir_error *error)
{
    INVARIANT(token != NULL && arena != NULL);
    json_t *list = NULL;
    token->has_all_workspaces = workspaces == NULL;
    if (workspaces == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = json_read(workspaces, strlen(workspaces), &list, error);
    if (status != WEIR_OK) {
        return status;
    }
    const char **copies = arena_allocate(arena, (json_array_size(list) + 1) * sizeof *copies);
    int64_t *ids = arena_allocate(arena, (json_array_size(list) + 1) * sizeof *ids);
    bool failed = copies == NULL || ids == NULL;
    for (size_t i = 0; i < json_array_size(list) && !failed; i++) {
        const json_t *workspace = json_array_get(list, i);
        ids[i] = json_integer_value(json_array_get(workspace, 0));
        copies[i] = arena_copy_string(arena, json_string_value(json_array_get(workspace, 1)));
        failed = copies[i] == NULL;
    }
    token->workspaces = copies;
    token->workspace_ids = ids;
    token->workspace_count = json_array_size(list);
    json_decref(list);
    return failed ? error_out_of_memory(error) : WEIR_OK;
}

/* --- verbs --- */

static enum weir_status check_workspaces(const struct token_request *request, struct weir_error *error)
{
    if (request->has_all_workspaces) {
        return WEIR_OK;
    }
    if (request->workspaces == NULL || request->workspace_count == 0 || request->workspace_count > TOKEN_WORKSPACES_MOST) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a token is for 1 to %d workspaces, or for all", TOKEN_WORKSPACES_MOST);
        error_hint(error, "name each workspace, or ask for all of them");
        return WEIR_INVALID_ARGUMENT;
    }
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < request->workspace_count && status == WEIR_OK; i++) {
        status = call_check_name("workspace", request->workspaces[i], WORKSPACE_NAME_MAX, error);
    }
    return status;
}

/* The refusals of every driver. */
static enum weir_status check_token_request(const struct token_request *request, struct weir_error *error)
{
    enum weir_status status = call_check_name("token", request->name, TOKEN_NAME_MAX, error);
    if (status == WEIR_OK && call_is_unfit_name(request->name)) {
        status = call_refuse_unfit("token", request->name, error);
    }
    if (status == WEIR_OK && strspn(request->name, "0123456789") == strlen(request->name)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a token's name must not be a number");
        error_hint(error, "`weir token revoke` takes a number as an id");
        status = WEIR_INVALID_ARGUMENT;
    }
    if (status == WEIR_OK && !request->is_session &&
        strncasecmp(request->name, TOKEN_PERSON, sizeof TOKEN_PERSON - 1) == 0) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a token's name must not begin with " TOKEN_PERSON);
        error_hint(error, "such names are for people who sign in by a provider");
        status = WEIR_INVALID_ARGUMENT;
    }
    if (status == WEIR_OK && (request->max_body_bytes < 0 || request->max_body_bytes > TOKEN_BODY_BYTES_MOST)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the largest body of a token must be 1 to %d bytes", TOKEN_BODY_BYTES_MOST);
        error_hint(error, "give no limit for as much as the server takes");
        status = WEIR_INVALID_ARGUMENT;
    }
    if (status == WEIR_OK && (request->rate < 0 || request->rate > TOKEN_RATE_MOST)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the rate of a token must be 1 to %d requests per second", TOKEN_RATE_MOST);
        error_hint(error, "give no rate for as many requests as the server takes");
        status = WEIR_INVALID_ARGUMENT;
    }
    return status == WEIR_OK ? check_workspaces(request, error) : status;
}

enum weir_status store_token_create(struct store *store, const struct token_request *request, int64_t *ret_id,
                                    struct weir_error *error)
{
    INVARIANT(store != NULL && request != NULL && ret_id != NULL && (unsigned)request->role < TOKEN_ROLE_COUNT);
    enum weir_status status = check_token_request(request, error);
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "token_create", error, store->driver->token_create(store, request, ret_id, detail));
}

/* A token that has expired keeps its name until it is revoked. */
static enum weir_status check_token_name_free(struct store *store, const char *name, struct weir_error *error)
{
    struct list_options options = {.kind = LIST_TOKENS, .name = name, .limit = LIST_LIMIT_MOST};
    json_t *page = NULL;
    enum weir_status status = store_list(store, &options, &page, error);
    size_t i;
    json_t *item;
    bool is_free = true;
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        const char *state = json_string_value(json_object_get(item, "state"));
        is_free = is_free && state != NULL && strcmp(state, "revoked") == 0;
    }
    json_decref(page);
    return status == WEIR_OK && !is_free ? refusal_token_exists(name, error) : status;
}

enum weir_status store_token_check(struct store *store, const struct token_request *request, struct weir_error *error)
{
    INVARIANT(store != NULL && request != NULL && (unsigned)request->role < TOKEN_ROLE_COUNT);
    int64_t id;
    int64_t now_us = 0;
    enum weir_status status = check_token_request(request, error);
    if (status == WEIR_OK && (store->driver->features & STORE_IS_SERVER) != 0) {
        CALL(store, "token_create", error, store->driver->token_create(store, request, &id, detail)); /* it refuses all */
    }
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK && request->expires_at_us != 0 && request->expires_at_us <= now_us) {
        status = refusal_token_expired(error);
    }
    for (size_t i = 0; !request->has_all_workspaces && i < request->workspace_count && status == WEIR_OK; i++) {
        status = store_require_name(store, LIST_WORKSPACES, request->workspaces[i], WEIR_WORKSPACE_NOT_FOUND, error);
    }
    return status == WEIR_OK ? check_token_name_free(store, request->name, error) : status;
}

enum weir_status store_token_revoke(struct store *store, const char *name_or_id, struct weir_error *error)
{
    INVARIANT(store != NULL);
    enum weir_status status = call_check_name("token", name_or_id, TOKEN_NAME_MAX, error);
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "token_revoke", error, store->driver->token_revoke(store, name_or_id, detail));
}

enum weir_status store_tokens_read(struct store *store, struct arena *arena, struct token_set *ret_set,
                                   struct weir_error *error)
{
    INVARIANT(store != NULL && arena != NULL && ret_set != NULL);
    CALL(store, "tokens_read", error, store->driver->tokens_read(store, arena, ret_set, detail));
}

/* Not an act: a use changes nothing that anybody may do. */
enum weir_status store_tokens_used(struct store *store, const int64_t *ids, size_t count, struct weir_error *error)
{
    INVARIANT(store != NULL && (ids != NULL || count == 0));
    if (count > TOKENS_USED_MOST) {
        return error_set(error, WEIR_MISUSE, "a call notes the use of at most %d tokens", TOKENS_USED_MOST);
    }
    if (count == 0) {
        return WEIR_OK;
    }
    CALL(store, "tokens_used", error, store->driver->tokens_used(store, ids, count, detail));
}
