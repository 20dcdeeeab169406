/* The tokens of the HTTP API.
 *
 * A creation and a revocation are acts, so their rows in `audit` commit with them. The scheduler has nothing to do with
 * tokens, so no news is written. It never reads or writes a secret. Runs in the caller's thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "store/refusal.h"
#include "store/sqlite/sqlite_store.h"

/* --- creation --- */

/* The ids of the workspaces as a JSON array; nothing is added when the token has all of them. A session leaves out those
 * that do not exist, but not the last one. */
static enum weir_status find_workspaces(struct write *write, const struct token_request *request, struct text *ids,
                                        struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < request->workspace_count && !request->has_all_workspaces && status == WEIR_OK; i++) {
        int64_t id = 0;
        const char *name = request->workspaces[i];
        bool has_further = ids->length > 0 || i + 1 < request->workspace_count;
        status = connection_read_integer(write->connection, error, &id, QUERY_FIND_WORKSPACE, "t", name);
        if (status == WEIR_NOT_FOUND && request->is_session && has_further) {
            error_clear(error);
            status = WEIR_OK;
            continue;
        }
        if (status == WEIR_NOT_FOUND) {
            return write_refuse_name(write, QUERY_WORKSPACE_NAMES, WEIR_WORKSPACE_NOT_FOUND, "workspace", name,
                                     WORKSPACE_HOW, error);
        }
        if (status == WEIR_OK && text_format(ids, "%s%" PRId64, ids->length == 0 ? "[" : ",", id) != WEIR_OK) {
            status = error_out_of_memory(error);
        }
    }
    if (status == WEIR_OK && !request->has_all_workspaces && text_add_string(ids, "]") != WEIR_OK) {
        status = error_out_of_memory(error);
    }
    return status;
}

/* *ret_id: of the live token of this name and hash, 0 = there is no live token of the name. WEIR_CONFLICT: of another hash.
 */
static enum weir_status find_token(struct write *write, const struct token_request *request, int64_t *ret_id,
                                   struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_FIND_TOKEN, "t", request->name);
    enum weir_status status = WEIR_OK;
    bool is_same = true;
    *ret_id = 0;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        const void *hash = sqlite3_column_blob(statement, 1);
        *ret_id = sqlite3_column_int64(statement, 0);
        is_same = hash != NULL && sqlite3_column_bytes(statement, 1) == TOKEN_HASH_BYTES &&
                  memcmp(hash, request->hash, TOKEN_HASH_BYTES) == 0;
        (void)sqlite3_reset(statement);
    }
    return status == WEIR_OK && !is_same ? refusal_token_exists(request->name, error) : status;
}

static enum weir_status insert_token(struct write *write, const struct token_request *request, int64_t *ret_id,
                                     struct weir_error *error)
{
    struct text ids = {.max = TOKEN_WORKSPACES_MOST * 24};
    int64_t count = 0;
    const char *actor = store_actor(&write->store->store);
    if (request->expires_at_us != 0 && request->expires_at_us <= write->now_us) {
        return refusal_token_expired(error);
    }
    enum weir_status status = connection_read_integer(write->connection, error, &count, QUERY_COUNT_TOKENS, "");
    if (status == WEIR_OK && count >= TOKENS_MOST) {
        return refusal_tokens_full(error);
    }
    if (status == WEIR_OK) {
        status = find_workspaces(write, request, &ids, error);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(
            write->connection, error, ret_id, QUERY_INSERT_TOKEN, "tbttitiii", request->name, (const char *)request->hash,
            (size_t)TOKEN_HASH_BYTES, token_role_name(request->role), ids.data, write->now_us, actor == NULL ? "" : actor,
            request->expires_at_us, request->max_body_bytes, request->rate);
    }
    text_close(&ids);
    return status;
}

enum weir_status sqlite_token_create(struct store *store, const struct token_request *request, int64_t *ret_id,
                                     struct weir_error *error)
{
    INVARIANT(request != NULL && request->name != NULL && ret_id != NULL);
    struct write write;
    int64_t id = 0;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (request->is_session) {
        status = connection_run(write.connection, error, NULL, QUERY_RETIRE_SESSION, "ti", request->name, write.now_us);
        status = status != WEIR_OK ? status
                                   : connection_run(write.connection, error, NULL, QUERY_DROP_ENDED_SESSIONS, "ii",
                                                    write.now_us, (int64_t)SESSIONS_DROPPED_MOST);
    }
    if (status == WEIR_OK) {
        status = find_token(&write, request, &id, error);
    }
    bool is_repeated = status == WEIR_OK && id != 0;
    if (status == WEIR_OK && !is_repeated) {
        status = act_begin(&write, "token create", "token", request->name, NULL, error);
        status = status == WEIR_OK ? insert_token(&write, request, &id, error) : status;
    }
    if (status == WEIR_OK && !is_repeated) {
        status = write_finish(&write, error);
    } else {
        write_undo(&write);
    }
    if (status == WEIR_OK) {
        *ret_id = id;
    }
    return status;
}

/* --- revocation --- */

static enum weir_status find_live_token(struct write *write, const char *name_or_id, char *to, size_t size,
                                        struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_FIND_TOKEN_NAME, "t", name_or_id);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        text_copy(to, size, column_text(statement, 0));
        (void)sqlite3_reset(statement);
        return WEIR_OK;
    }
    return status != WEIR_OK
               ? status
               : write_refuse_name(write, QUERY_TOKEN_NAMES, WEIR_NOT_FOUND, "token", name_or_id, TOKEN_HOW, error);
}

enum weir_status sqlite_token_revoke(struct store *store, const char *name_or_id, struct weir_error *error)
{
    INVARIANT(name_or_id != NULL);
    struct write write;
    char name[TOKEN_NAME_MAX + 1] = "";
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = find_live_token(&write, name_or_id, name, sizeof name, error);
    if (status == WEIR_OK) {
        status = act_begin(&write, "token revoke", "token", name, NULL, error);
    }
    if (status == WEIR_OK) {
        status = connection_run(write.connection, error, NULL, QUERY_REVOKE_TOKEN, "ti", name, write.now_us);
    }
    return write_end(&write, status, error);
}

/* --- the server's set --- */

/* A row with a role or a hash that no program of this version writes is left out: it must open nothing. */
static enum weir_status token_of_row(sqlite3_stmt *statement, struct arena *arena, struct token *token, size_t *count,
                                     struct weir_error *error)
{
    bool failed = false;
    const void *hash = sqlite3_column_blob(statement, 2);
    *token = (struct token){
        .id = sqlite3_column_int64(statement, 0),
        .name = column_copy(statement, 1, arena, &failed),
        .expires_at_us = sqlite3_column_type(statement, 5) == SQLITE_NULL ? TIME_NEVER : sqlite3_column_int64(statement, 5),
        .max_body_bytes = sqlite3_column_int64(statement, 6),
        .rate = sqlite3_column_int64(statement, 7)};
    if (failed) {
        return error_out_of_memory(error);
    }
    if (hash == NULL || sqlite3_column_bytes(statement, 2) != TOKEN_HASH_BYTES ||
        !token_role_parse(column_text(statement, 3), &token->role)) {
        return WEIR_OK;
    }
    memcpy(token->hash, hash, TOKEN_HASH_BYTES);
    *count += 1;
    return token_fill_workspaces(token, column_text(statement, 4), arena, error);
}

static enum weir_status read_all(struct connection *connection, struct arena *arena, struct token_set *set,
                                 struct weir_error *error)
{
    int64_t most = 0;
    int64_t any = 0;
    enum weir_status status = connection_read_integer(connection, error, &most, QUERY_COUNT_TOKENS, "");
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &any, QUERY_HAS_TOKENS, "");
    }
    if (status != WEIR_OK) {
        return status;
    }
    set->has_had_tokens = any != 0;
    set->tokens = arena_allocate(arena, ((size_t)most + 1) * sizeof *set->tokens);
    if (set->tokens == NULL) {
        return error_out_of_memory(error);
    }
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_TOKENS, "ii", set->now_us, most);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (status == WEIR_OK && connection_step(connection, statement, &status, error)) {
        status = token_of_row(statement, arena, &set->tokens[set->count], &set->count, error);
    }
    (void)sqlite3_reset(statement);
    return status;
}

enum weir_status sqlite_tokens_read(struct store *store, struct arena *arena, struct token_set *ret_set,
                                    struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_set != NULL);
    struct connection *connection;
    struct token_set set = {.tokens = NULL};
    enum weir_status status = snapshot_begin(store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_store_time(connection, &set.now_us, error);
    if (status == WEIR_OK) {
        status = read_all(connection, arena, &set, error);
    }
    snapshot_end(connection);
    if (status == WEIR_OK) {
        *ret_set = set;
    }
    return status;
}

enum weir_status sqlite_tokens_used(struct store *store, const int64_t *ids, size_t count, struct weir_error *error)
{
    INVARIANT(store != NULL && (ids != NULL || count == 0));
    struct write write;
    struct text list = {.max = TOKENS_USED_MOST * 24};
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = text_format(&list, "%s%" PRId64, i == 0 ? "[" : ",", ids[i]);
    }
    if (status != WEIR_OK || text_add_string(&list, "]") != WEIR_OK) {
        text_close(&list);
        return error_out_of_memory(error);
    }
    status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        text_close(&list);
        return status;
    }
    status = connection_run(write.connection, error, NULL, QUERY_USE_TOKENS, "tii", list.data, write.now_us,
                            write.now_us - TOKEN_USE_US);
    text_close(&list);
    return write_end(&write, status, error);
}
