/* Admission: the caller, the right that the route needs, and the workspace that it is about.
 *
 * 1. A route of SCOPE_OPEN is for everybody.
 * 2. A token is looked up in memory. Without the field Authorization the request is anonymous, if only a process of this
 *    machine can have sent it and no token is needed there (access.h). Else the cookie of a session has the token
 *    (routes/session.c). Expired, revoked and unknown tokens get the same 401.
 *    A request that has waited, for a task or for an end, is looked up again before it is answered.
 *    A body beyond the limit of its token is refused, before it is read. That of a token which the server does not know yet
 *    is read before, but is small.
 * 3. The role of the token must include the scope of the route: else 403.
 * 4. A token of some workspaces is held to them here, for all routes but those of WORKSPACE_OF_BODY. A workspace or an
 *    execution that is not its own gets the same 404 as a missing one: both are refused here, before a handler is asked.
 *
 * A refused token counts for the address of the client; with too many of them the answer is 429. A token that is not in
 * memory reaches an answering thread before that, since it may be new. The reads of the store for such tokens have a
 * limit for all addresses together. A valid token is affected by neither, once it is in memory. */
#include "server/api.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/error.h"
#include "server/own_workspaces.h"
#include "server/session_cookie.h"
#include "store/filter.h"

/* --- tokens --- */

union peer_address {
    struct sockaddr any;
    struct sockaddr_storage room;
};

/* NULL: it is not known. Those whose address is not known share one limit. */
static const struct sockaddr *peer_of(const struct http_request *request, union peer_address *peer)
{
    socklen_t length = sizeof *peer;
    return getpeername(request->connection_fd, &peer->any, &length) == 0 ? &peer->any : NULL;
}

bool api_count_guess(const struct api *api, const struct http_request *request, int *ret_retry_after_s)
{
    INVARIANT(api != NULL && request != NULL && ret_retry_after_s != NULL);
    union peer_address peer;
    return access_count_failure(api->access, peer_of(request, &peer), ret_retry_after_s);
}

bool api_has_guessed(const struct api *api, const struct http_request *request, int *ret_retry_after_s)
{
    INVARIANT(api != NULL && request != NULL && ret_retry_after_s != NULL);
    union peer_address peer;
    return access_has_failed(api->access, peer_of(request, &peer), ret_retry_after_s);
}

/* Counts a secret that was wrong for the address of the client. True: it has sent too many, which is answered. */
static bool refuse_guess(struct api *api, struct http_request *request, struct http_answer *answer)
{
    bool is_refused = api_count_guess(api, request, &answer->retry_after_s);
    if (is_refused) {
        respond_problem(request, answer, 429, "rate_limited", "too many requests of this address had no valid token", NULL,
                        NULL);
    }
    return is_refused;
}

/* The same for a missing, malformed, unknown, expired and revoked token. A request without one guesses nothing and does
 * not count. A page that asks whether it has a session must not use up the attempts of its address, which may be a
 * proxy's. */
static bool refuse_token(struct api *api, struct http_request *request, struct http_answer *answer)
{
    bool is_guess = request->secret != NULL || request->fields[FIELD_AUTHORIZATION] != NULL;
    if (is_guess && refuse_guess(api, request, answer)) {
        return false;
    }
    respond_problem(request, answer, 401, "unauthorized", "the request has no valid token",
                    "send the field `Authorization: Bearer SECRET`; `weir token create` makes one", NULL);
    return false;
}

static void refuse_stale(const struct http_request *request, struct http_answer *answer)
{
    respond_problem(request, answer, 503, "store_unreachable", "the tokens cannot be read from the store", NULL, NULL);
}

static void refuse_without_memory(const struct http_request *request, struct http_answer *answer)
{
    respond_problem(request, answer, 503, "out_of_memory", "there is no memory for the request", NULL, NULL);
}

/* Sets request->principal. ACCESS_UNKNOWN is left to the caller; every other refusal is answered. */
static enum access_answer find_principal(struct api *api, struct http_request *request, struct http_answer *answer)
{
    struct principal principal;
    enum access_answer found =
        access_find(api->access, request->secret, &request->arena, &principal, &answer->retry_after_s);
    struct principal *copy = found == ACCESS_GRANTED ? arena_allocate(&request->arena, sizeof *copy) : NULL;
    if (found == ACCESS_GRANTED && copy == NULL) {
        found = ACCESS_NO_MEMORY;
    }
    switch (found) {
    case ACCESS_GRANTED:
        *copy = principal;
        request->principal = copy;
        break;
    case ACCESS_TOO_FAST:
        respond_problem(request, answer, 429, "rate_limited",
                        "the token has sent more requests than its rate or http.rate allows",
                        "send several executions in one request, or wait for Retry-After", NULL);
        break;
    case ACCESS_STALE:
        refuse_stale(request, answer);
        break;
    case ACCESS_NO_MEMORY:
        refuse_without_memory(request, answer);
        break;
    case ACCESS_UNKNOWN:
        break;
    }
    return found;
}

/* The limit of the token. That of the route is checked besides, so the smaller one counts. */
static bool check_body_of_token(struct http_request *request, size_t body_length, struct http_answer *answer)
{
    const struct principal *principal = request->principal;
    char detail[128 + TOKEN_NAME_MAX];
    if (principal == NULL || principal->max_body_bytes == 0 || body_length <= (uint64_t)principal->max_body_bytes) {
        return true;
    }
    (void)snprintf(detail, sizeof detail, "the body has more than %" PRId64 " bytes, the limit of the token \"%s\"",
                   principal->max_body_bytes, principal->name);
    respond_problem(request, answer, 413, "body_too_large", detail, "send less, in several requests", NULL);
    return false;
}

bool api_admit_head(struct api *api, size_t body_length, struct http_request *request, struct http_answer *answer)
{
    INVARIANT(api != NULL && api->access != NULL && request->route != NULL);
    if (request->route->scope == SCOPE_OPEN) {
        return true;
    }
    const char *authorization = request->fields[FIELD_AUTHORIZATION];
    if (authorization == NULL && !access_needs_token(api->access, request->is_of_machine)) {
        request->is_anonymous = true;
        return true;
    }
    if (authorization != NULL) {
        request->secret = access_bearer_secret(authorization);
    } else if ((request->route->explain != NULL ? page_secret : session_secret)(request, &request->secret) != WEIR_OK) {
        refuse_without_memory(request, answer);
        return false;
    }
    if (request->secret == NULL) {
        return refuse_token(api, request, answer);
    }
    enum access_answer found = find_principal(api, request, answer);
    if (found == ACCESS_UNKNOWN && body_length > API_UNKNOWN_BODY_MAX) {
        return refuse_token(api, request, answer);
    }
    return found == ACCESS_UNKNOWN || (found == ACCESS_GRANTED && check_body_of_token(request, body_length, answer));
}

/* A token that was made since the set was read is found now. It is looked up again even when the set may not be read:
 * another request may have done that meanwhile. */
static bool find_new_token(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)access_refresh_after_miss(api->access, store);
    enum access_answer found = find_principal(api, request, answer);
    return found == ACCESS_GRANTED || (found == ACCESS_UNKNOWN && refuse_token(api, request, answer));
}

bool api_admit_secret(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    INVARIANT(api != NULL && store != NULL && request != NULL && answer != NULL);
    if (request->secret == NULL) {
        return refuse_token(api, request, answer);
    }
    enum access_answer found = find_principal(api, request, answer);
    return found == ACCESS_GRANTED || (found == ACCESS_UNKNOWN && find_new_token(api, store, request, answer));
}

/* The head of a request that has waited was admitted long ago. One without a token may need one by now. The principal stays
 * the same, since a token does not change. */
static bool check_again(struct api *api, struct http_request *request, struct http_answer *answer)
{
    enum access_answer found;
    if (request->is_anonymous) {
        found = access_needs_token(api->access, request->is_of_machine) ? ACCESS_UNKNOWN : ACCESS_GRANTED;
    } else {
        found = access_find_again(api->access, request->secret, 0);
    }
    if (found == ACCESS_STALE) {
        refuse_stale(request, answer);
    }
    return found == ACCESS_GRANTED || (found == ACCESS_UNKNOWN && refuse_token(api, request, answer));
}

/* The task that woke a refused claim would otherwise wait for the next claim. */
static void pass_wakes(struct api *api)
{
    for (size_t i = 0; i < api->task_service_count; i++) {
        if (api->task_services[i].hub != NULL) {
            task_hub_pass_wake(api->task_services[i].hub);
        }
    }
}

/* --- rights --- */

static bool check_scope(struct http_request *request, struct http_answer *answer)
{
    static const enum token_role roles[] = {[SCOPE_READ] = TOKEN_READ,
                                            [SCOPE_ENQUEUE] = TOKEN_ENQUEUE,
                                            [SCOPE_OPERATE] = TOKEN_OPERATE,
                                            [SCOPE_ADMIN] = TOKEN_ADMIN};
    char detail[128 + TOKEN_NAME_MAX];
    const struct http_route *route = request->route;
    if (access_has_role(request->principal, roles[route->scope])) {
        return true;
    }
    (void)snprintf(detail, sizeof detail, "the token \"%s\" has the role %s; this needs %s", request->principal->name,
                   token_role_name(request->principal->role), route_scope_name(route->scope));
    respond_problem(request, answer, 403, "not_permitted", detail, "use a token with a higher role", NULL);
    return false;
}

/* Before the workspace: one that is missing may be misspelt. */
static bool check_route_arguments(const struct http_request *request, struct http_answer *answer)
{
    struct weir_error error = {.status = WEIR_OK};
    const char *name = NULL;
    if (route_check_arguments(request, &name, &error) == WEIR_OK) {
        return true;
    }
    respond_error(request, answer, &error, name);
    return false;
}

/* The same for a workspace of another token and a missing one. */
static bool check_named_workspace(const struct http_request *request, struct http_answer *answer, const char *workspace)
{
    struct weir_error error = {.status = WEIR_OK};
    if (own_workspaces_check(request->principal, workspace, &error) == WEIR_OK) {
        return true;
    }
    respond_error(request, answer, &error, NULL);
    return false;
}

/* Of the id in the path or in the filter; NULL = there is none. */
static bool check_execution(struct store *store, const struct http_request *request, struct http_answer *answer,
                            const char *id)
{
    struct weir_error error = {.status = WEIR_OK};
    if (id == NULL || own_workspaces_check_id(store, request->principal, id, &error) == WEIR_OK) {
        return true;
    }
    respond_error(request, answer, &error, NULL);
    return false;
}

/* The list has no schedule in its path; its handler leaves those of others out. */
static bool check_own_schedule(struct store *store, const struct http_request *request, struct http_answer *answer)
{
    struct weir_error error = {.status = WEIR_OK};
    if (strchr(request->route->path, '{') == NULL ||
        own_workspaces_check_schedule(store, request->principal, request_value(request, "schedule"), &error) == WEIR_OK) {
        return true;
    }
    respond_error(request, answer, &error, NULL);
    return false;
}

static void refuse_unnamed_workspace(const struct http_request *request, struct http_answer *answer)
{
    struct weir_error error = {.status = WEIR_OK};
    const struct principal *principal = request->principal;
    error_set(&error, WEIR_INVALID_ARGUMENT, "the token is of some workspaces: the argument workspace must name one");
    if (principal->workspace_count > 0) {
        error_hint(&error,
                   "add workspace=NAME to the query, on the command line -w NAME, in a definition workspace: NAME; the "
                   "token is of "
                   "\"%s\"%s",
                   principal->workspaces[0], principal->workspace_count > 1 ? " and others" : "");
    }
    respond_error(request, answer, &error, "workspace");
}

/* The argument decides, and a filter must name neither another workspace nor an execution of one. The whole id of an
 * execution names its workspace, too. */
static bool check_filter(struct store *store, struct http_request *request, struct http_answer *answer)
{
    struct weir_error error = {.status = WEIR_OK};
    struct execution_filter filter = {.id = NULL};
    const char *workspace = request_argument(request, "workspace");
    const char *where = request_argument(request, "where");
    bool has_id = request->route->takes_filter && request_argument(request, "id") != NULL;
    if (workspace == NULL && !has_id) {
        refuse_unnamed_workspace(request, answer);
        return false;
    }
    if (workspace != NULL && !check_named_workspace(request, answer, workspace)) {
        return false;
    }
    if (where != NULL && filter_parse(where, clock_wall(clock_system()), &request->arena, &filter, &error) != WEIR_OK) {
        respond_error(request, answer, &error, "where");
        return false;
    }
    if (filter.workspace != NULL && !check_named_workspace(request, answer, filter.workspace)) {
        return false;
    }
    return check_execution(store, request, answer, filter.id) &&
           check_execution(store, request, answer, request_argument(request, "id"));
}

static bool check_workspace(struct store *store, struct http_request *request, struct http_answer *answer)
{
    if (access_has_all_workspaces(request->principal)) {
        return true;
    }
    switch (request->route->workspace) {
    case WORKSPACE_OF_PATH:
        return check_named_workspace(request, answer, request_value(request, "workspace"));
    case WORKSPACE_OF_ID:
        return check_execution(store, request, answer, request_value(request, "id"));
    case WORKSPACE_OF_FILTER:
        return check_filter(store, request, answer);
    case WORKSPACE_OF_SCHEDULE:
        return check_own_schedule(store, request, answer);
    case WORKSPACE_OF_BODY:
    case WORKSPACE_ANY:
        return true;
    case WORKSPACE_NONE:
        break;
    }
    respond_problem(request, answer, 403, "not_permitted", "this is for tokens of all workspaces alone",
                    "weir token create --all-workspaces", NULL);
    return false;
}

/* The actor of the record of acts: "token:NAME", or "user:PERSON" of a session. Without a token it is the person whom the
 * client names, as the command line does for its own process. Such a name must not look like the other two: the record
 * would show an act of a token that has done nothing. */
enum weir_status api_set_actor(struct store *store, const struct http_request *request, struct weir_error *error)
{
    INVARIANT(store != NULL && request != NULL);
    const char *named = request->fields[FIELD_ACTOR];
    static const char prefix[] = "token:";
    static const char person[] = TOKEN_PERSON;
    char token[sizeof prefix + TOKEN_NAME_MAX];
    const char *actor = named != NULL ? named : "http";
    if (request->principal == NULL &&
        (strncasecmp(actor, prefix, sizeof prefix - 1) == 0 || strncasecmp(actor, person, sizeof person - 1) == 0)) {
        error_set(error, WEIR_INVALID_ARGUMENT,
                  "the field Weir-Actor names a token or a person who has signed in, and the request has no token");
        error_hint(error, "name a person or a program, or send the token");
        return WEIR_INVALID_ARGUMENT;
    }
    const char *name = request->principal == NULL ? NULL : request->principal->name;
    const char *slash = name != NULL && strncmp(name, person, sizeof person - 1) == 0 ? strrchr(name, '/') : NULL;
    if (slash != NULL) { /* all sessions of a person are one actor */
        (void)snprintf(token, sizeof token, "%.*s", (int)(slash - name), name);
        actor = token;
    } else if (name != NULL) {
        (void)snprintf(token, sizeof token, "%s%s", prefix, name);
        actor = token;
    }
    return store_act_as(store, actor, request->fields[FIELD_REASON], error);
}

bool api_admit(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    INVARIANT(api != NULL && request->route != NULL);
    struct weir_error error = {.status = WEIR_OK};
    if (request->route->explain != NULL) {
        request_target_drop_empty(&request->target); /* a form sends those of its fields that its user has left empty */
    }
    if (request->route->scope != SCOPE_OPEN) {
        if (request->is_again && !check_again(api, request, answer)) {
            pass_wakes(api);
            return false;
        }
        bool is_known = request->is_anonymous || request->principal != NULL;
        if (!is_known &&
            (!find_new_token(api, store, request, answer) || !check_body_of_token(request, request->body.length, answer))) {
            return false;
        }
        if (!check_scope(request, answer) || !check_route_arguments(request, answer) ||
            !check_workspace(store, request, answer)) {
            return false;
        }
        if (api_set_actor(store, request, &error) != WEIR_OK) {
            respond_error(request, answer, &error, NULL);
            return false;
        }
    }
    /* After the actor: a refusal is answered to a caller that may know the route. */
    if (route_check_conditions(request, &error) != WEIR_OK) {
        respond_error(request, answer, &error, NULL);
        return false;
    }
    return request->route->scope != SCOPE_OPEN || check_route_arguments(request, answer);
}
