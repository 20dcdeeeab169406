/* The tokens of the HTTP API: one SQL function per act, which records it as well.
 *
 * It never reads or writes a secret. It runs in the thread that has the handle.
 */
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/name_suggestions.h"
#include "store/postgres/postgres_store.h"
#include "store/refusal.h"

/* The refusals of create_token(). */
static enum weir_status refuse_creation(struct link *link, enum weir_status refusal, const char *name, const char *unknown,
                                        struct weir_error *error)
{
    switch (refusal) {
    case WEIR_OK:
        return WEIR_OK;
    case WEIR_CONFLICT:
        return refusal_token_exists(name, error);
    case WEIR_ILLEGAL_STATE:
        return refusal_tokens_full(error);
    case WEIR_INVALID_ARGUMENT:
        return refusal_token_expired(error);
    default:
        return refuse_unknown_name(link, QUERY_WORKSPACE_NAMES, refusal, "workspace", unknown, WORKSPACE_HOW, error);
    }
}

enum weir_status postgres_token_create(struct store *store, const struct token_request *request, int64_t *ret_id,
                                       struct weir_error *error)
{
    INVARIANT(request != NULL && request->name != NULL && ret_id != NULL);
    PGresult *result = NULL;
    char unknown[WORKSPACE_NAME_MAX + 1] = "";
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct link *link = link_of(store);
    if (request->is_session) { /* sessions that are over are no part of the act, so they need no transaction with it */
        status = link_run(link, error, NULL, QUERY_RETIRE_SESSION, "t", request->name);
        status = status != WEIR_OK
                     ? status
                     : link_run(link, error, NULL, QUERY_DROP_ENDED_SESSIONS, "d", (int)SESSIONS_DROPPED_MOST);
    }
    if (status != WEIR_OK) {
        return status;
    }
    status = link_write(link, error, &result, QUERY_CREATE_TOKEN, "tbtToiidtti", request->name, (const char *)request->hash,
                        (size_t)TOKEN_HASH_BYTES, token_role_name(request->role), request->workspaces,
                        request->has_all_workspaces ? (size_t)0 : request->workspace_count,
                        (int)request->has_all_workspaces, request->expires_at_us, request->max_body_bytes, TOKENS_MOST,
                        store_actor(store), store_reason(store), request->rate);
    if (status != WEIR_OK) {
        return status;
    }
    enum weir_status outcome = status_parse_name(result_text(result, 0, 0));
    int64_t id = result_int(result, 0, 1);
    text_copy(unknown, sizeof unknown, result_null(result, 0, 2) ? "" : result_text(result, 0, 2));
    PQclear(result);
    status = refuse_creation(link, outcome, request->name, unknown, error);
    if (status == WEIR_OK) {
        *ret_id = id;
    }
    return status;
}

enum weir_status postgres_token_revoke(struct store *store, const char *name_or_id, struct weir_error *error)
{
    INVARIANT(name_or_id != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct link *link = link_of(store);
    status =
        link_write(link, error, &result, QUERY_REVOKE_TOKEN, "ttt", name_or_id, store_actor(store), store_reason(store));
    if (status != WEIR_OK) {
        return status;
    }
    status = status_parse_name(result_text(result, 0, 0));
    PQclear(result);
    return status == WEIR_OK
               ? status
               : refuse_unknown_name(link, QUERY_TOKEN_NAMES, WEIR_NOT_FOUND, "token", name_or_id, TOKEN_HOW, error);
}

/* A row with a role or a hash that no program of this version writes is left out: it must open nothing. */
static enum weir_status token_of_result(const PGresult *result, int row, struct arena *arena, struct token *token,
                                        size_t *count, struct weir_error *error)
{
    bool failed = false;
    size_t length = 0;
    const char *hash = result_bytes(result, row, 2, arena, &length, &failed);
    *token = (struct token){.id = result_int(result, row, 0),
                            .name = result_copy(result, row, 1, arena, &failed),
                            .expires_at_us = result_null(result, row, 5) ? TIME_NEVER : result_int(result, row, 5),
                            .max_body_bytes = result_int(result, row, 8),
                            .rate = result_int(result, row, 9)};
    if (failed) {
        return error_out_of_memory(error);
    }
    if (hash == NULL || length != TOKEN_HASH_BYTES || !token_role_parse(result_text(result, row, 3), &token->role)) {
        return WEIR_OK;
    }
    memcpy(token->hash, hash, TOKEN_HASH_BYTES);
    *count += 1;
    return token_fill_workspaces(token, result_null(result, row, 4) ? NULL : result_text(result, row, 4), arena, error);
}

enum weir_status postgres_tokens_read(struct store *store, struct arena *arena, struct token_set *ret_set,
                                      struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_set != NULL);
    PGresult *result = NULL;
    enum weir_status status = link_read(link_of(store), error, &result, QUERY_READ_TOKENS, "d", TOKENS_MOST);
    if (status != WEIR_OK) {
        return status;
    }
    size_t rows = (size_t)PQntuples(result); /* at least one, with the time */
    struct token_set set = {.tokens = arena_allocate(arena, rows * sizeof *set.tokens),
                            .now_us = result_int(result, 0, 6),
                            .has_had_tokens = result_bool(result, 0, 7)};
    status = set.tokens == NULL ? error_out_of_memory(error) : WEIR_OK;
    for (size_t i = 0; i < rows && status == WEIR_OK && !result_null(result, 0, 0); i++) {
        status = token_of_result(result, (int)i, arena, &set.tokens[set.count], &set.count, error);
    }
    PQclear(result);
    if (status == WEIR_OK) {
        *ret_set = set;
    }
    return status;
}

enum weir_status postgres_tokens_used(struct store *store, const int64_t *ids, size_t count, struct weir_error *error)
{
    enum weir_status status = postgres_require_writable(store, error);
    return status == WEIR_OK
               ? link_run(link_of(store), error, NULL, QUERY_USE_TOKENS, "Ii", ids, count, (int64_t)TOKEN_USE_US)
               : status;
}
