/* The session of the dashboard: the rights of the token that asks, and the cookie that keeps it (session_cookie.h). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/routes/routes.h"
#include "server/session_cookie.h"
#include "weir/weir.h"

/* Without a token, where none is needed, everything is allowed. A token of all workspaces has no list of them. */
static void respond_session(const struct api *api, const struct http_request *request, struct http_answer *answer)
{
    const struct principal *principal = request->principal;
    json_t *workspaces = access_has_all_workspaces(principal) ? json_null() : json_array();
    int failed = workspaces == NULL ? -1 : 0;
    for (size_t i = 0; !access_has_all_workspaces(principal) && i < principal->workspace_count && failed == 0; i++) {
        failed = json_array_append_new(workspaces, json_string(principal->workspaces[i]));
    }
    if (failed != 0) {
        json_decref(workspaces);
        workspaces = NULL;
    }
    enum token_role role = principal == NULL ? TOKEN_ADMIN : principal->role;
    bool has_end = principal != NULL && principal->expires_at_us != TIME_NEVER;
    char expires_at[TIME_TEXT_MAX] = "";
    if (has_end) {
        time_format(principal->expires_at_us, expires_at);
    }
    respond_json(answer, 200,
                 json_pack("{s:s?, s:s, s:o, s:s?, s:s, s:b}", "token", principal == NULL ? NULL : principal->name, "role",
                           token_role_name(role), "workspaces", workspaces, "expires_at", has_end ? expires_at : NULL,
                           "weir_version", weir_version(), "is_demo", api->kill_node != NULL));
}

void answer_show_session(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    respond_session(api, request, answer);
}

/* False: there is no memory, which is answered. */
static bool check_cookie(struct http_request *request, struct http_answer *answer, bool is_made)
{
    if (!is_made) {
        respond_problem(request, answer, 503, "out_of_memory", "there is no memory for the cookie", NULL, NULL);
    }
    return is_made;
}

/* Where no token is needed and none was sent there is nothing to keep. */
void answer_begin_session(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    answer->cookie = session_cookie_of(request, request->secret);
    if (check_cookie(request, answer, answer->cookie != NULL)) {
        respond_session(api, request, answer);
    }
}

/* The token of a person's session was made for this browser alone, so it ends with the cookie. False: it could not be
 * revoked, and is valid until the session would have ended. */
static bool end_person_session(struct api *api, struct store *store, struct http_request *request)
{
    struct weir_error error = {.status = WEIR_OK};
    struct principal *principal = arena_allocate(&request->arena, sizeof *principal);
    const char *secret = NULL;
    char id[24];
    if (principal == NULL || session_secret(request, &secret) != WEIR_OK) {
        return false;
    }
    if (secret == NULL) {
        return true;
    }
    enum access_answer found = access_find(api->access, secret, &request->arena, principal, NULL);
    if (found == ACCESS_UNKNOWN && access_refresh_after_miss(api->access, store)) {
        found = access_find(api->access, secret, &request->arena, principal, NULL);
    }
    bool is_person = found == ACCESS_GRANTED && strncmp(principal->name, TOKEN_PERSON, strlen(TOKEN_PERSON)) == 0 &&
                     strchr(principal->name, '/') != NULL;
    if (!is_person) {
        return found == ACCESS_GRANTED || found == ACCESS_UNKNOWN;
    }
    request->principal = principal;
    request->fields[FIELD_REASON] = NULL; /* one that is refused must not keep the session */
    (void)snprintf(id, sizeof id, "%" PRId64, principal->token_id);
    enum weir_status status = api_set_actor(store, request, &error);
    status = status == WEIR_OK ? store_token_revoke(store, id, &error) : status;
    (void)(access_refresh(api->access, store, &error) == WEIR_OK);
    return status == WEIR_OK || status == WEIR_NOT_FOUND;
}

/* Open to everybody: a browser must be able to remove the cookie of a revoked token, too, and also while the tokens cannot
 * be read. A page of another origin is refused before (exchange.c). */
void answer_end_session(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    bool is_ended = end_person_session(api, store, request);
    if (check_cookie(request, answer, session_cookies_end(request, answer))) {
        respond_json(answer, 200, json_pack("{s:b}", "ended", (int)is_ended));
    }
}
