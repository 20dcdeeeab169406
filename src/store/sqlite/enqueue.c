/* Enqueue: finds workspace, workflow and group of a request, answers known keys and ids, and inserts the item.
 *
 *   1. Find the workspace, the newest workflow that it may run, and the group. Rows that were found are cached for the
 *      set, because sets go round a few workspaces. An unknown name refuses this request alone.
 *   2. With an idempotency key: if the workspace has used it for the same request, answer with the first id. So a
 *      repetition is safe.
 *      A key with a mode (docs/design/keys.md) may end the execution that has not started, and goes to the new one.
 *   3. With an id of the caller: if the execution exists in this workspace, answer with it. An id of another workspace
 *      is refused without a hint, because its existence is no business of this one.
 *   4. Refuse it if the workspace has no room for another pending execution (pending_room.c). Refuse a firing that was
 *      removed meanwhile: its schedule goes on without it.
 *   5. Insert the row, its params and its key. The rank is fixed here, so that the order of starts does not depend on
 *      later changes.
 *   6. Note the row in the news, one row per set.
 *
 * store_enqueue() has checked the requests; an invalid one has a status already and is passed over. It never commits:
 * the caller owns the transaction, which may be that of the embedding program. Runs in the caller's thread.
 */
#include "store/sqlite/enqueue.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/shell_quote.h"
#include "base/text.h"
#include "store/refusal.h"
#include "store/sqlite/archive.h"
#include "store/sqlite/borrowed_store.h"
#include "store/sqlite/stream.h"

enum { NAMES_MAX = 1000 };

/* --- look-ups --- */

struct names {
    char *all[NAMES_MAX];
    size_t count;
};

/* The names that a query returns; best effort. `statement` may be NULL. */
static void names_read(struct names *names, struct connection *connection, sqlite3_stmt *statement)
{
    enum weir_status status = WEIR_OK;
    names->count = 0;
    while (statement != NULL && names->count < NAMES_MAX && connection_step(connection, statement, &status, NULL)) {
        const char *name = column_text(statement, 0);
        names->all[names->count] = name == NULL ? NULL : strdup(name);
        names->count += names->all[names->count] != NULL;
    }
    if (statement != NULL) {
        (void)sqlite3_reset(statement);
    }
}

/* Frees names that names_read() has copied. */
static void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->all[i]);
    }
}

/* "did you mean": the nearest of the names that a query returns. */
static void suggest_name(struct connection *connection, sqlite3_stmt *statement, const char *wanted,
                         struct weir_error *error)
{
    struct names names;
    names_read(&names, connection, statement);
    refusal_suggest_name(wanted, (const char *const *)names.all, names.count, error);
    names_free(&names);
}

/* The id of a workspace, from the cache of the set or from its row. */
static enum weir_status find_workspace(struct enqueue_context *context, const char *name, int64_t *ret_id,
                                       struct weir_error *error)
{
    struct cached_workspace *cached = &context->workspaces[text_hash(name) % ENQUEUE_CACHED];
    if (strcmp(cached->name, name) == 0) {
        *ret_id = cached->id;
        return WEIR_OK;
    }
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *find = connection_bind(context->connection, error, QUERY_FIND_WORKSPACE, "t", name);
    if (find == NULL) {
        return statement_failure(error);
    }
    if (connection_step(context->connection, find, &status, error)) {
        *ret_id = sqlite3_column_int64(find, 0);
        text_copy(cached->name, sizeof cached->name, name);
        cached->id = *ret_id;
        cached->pending =
            (struct pending_count){.most = sqlite3_column_int64(find, 2), .left = -1, .wanted = (int64_t)context->count};
        (void)sqlite3_reset(find);
    } else if (status == WEIR_OK) {
        error_set(error, WEIR_WORKSPACE_NOT_FOUND, "there is no workspace \"%s\"", name);
        char word[SHELL_WORD_MAX];
        error_hint(error, "make it with: weir workspace set %s --plan free", shell_quote(name, word));
        suggest_name(context->connection, connection_bind(context->connection, NULL, QUERY_WORKSPACE_NAMES, ""), name,
                     error);
        write_hint_new_name(context->connection, name, error);
        return WEIR_WORKSPACE_NOT_FOUND;
    }
    return status;
}

/* Refuses a workflow that does not exist, or that belongs to another workspace. */
static enum weir_status refuse_workflow(struct enqueue_context *context, const char *workspace, int64_t workspace_id,
                                        const char *name, struct weir_error *error)
{
    int64_t one;
    if (connection_read_integer(context->connection, NULL, &one, QUERY_DEFINITION_EXISTS_ELSEWHERE, "t", name) == WEIR_OK) {
        error_set(error, WEIR_WORKFLOW_NOT_YOURS, "workflow \"%s\" belongs to another workspace than \"%s\"", name,
                  workspace);
        error_hint(error, "publish it for this workspace, or without an owner so that every workspace may run it");
        return WEIR_WORKFLOW_NOT_YOURS;
    }
    error_set(error, WEIR_WORKFLOW_NOT_FOUND, "workspace \"%s\" has no workflow \"%s\"", workspace, name);
    error_hint(error, "publish it with: weir workflow apply FILE");
    suggest_name(context->connection, connection_bind(context->connection, NULL, QUERY_WORKFLOW_NAMES, "i", workspace_id),
                 name, error);
    return WEIR_WORKFLOW_NOT_FOUND;
}

/* *ret_workflow points into the context and holds until the next look-up. */
static enum weir_status find_workflow(struct enqueue_context *context, const char *workspace, int64_t workspace_id,
                                      const char *name, const struct cached_workflow **ret_workflow,
                                      struct weir_error *error)
{
    struct cached_workflow *cached = &context->workflows[(text_hash(name) + (uint64_t)workspace_id) % ENQUEUE_CACHED];
    enum weir_status status = WEIR_OK;
    *ret_workflow = cached;
    if (cached->workspace_id == workspace_id && strcmp(cached->name, name) == 0) {
        return WEIR_OK;
    }
    sqlite3_stmt *find = connection_bind(context->connection, error, QUERY_FIND_DEFINITION, "ti", name, workspace_id);
    if (find == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(context->connection, find, &status, error)) {
        return status == WEIR_OK ? refuse_workflow(context, workspace, workspace_id, name, error) : status;
    }
    if (sqlite3_column_int(find, 3) == WORKFLOW_DISABLED) {
        bool is_own = sqlite3_column_int64(find, 4) != 0;
        (void)sqlite3_reset(find);
        return refusal_workflow_disabled(name, is_own ? workspace : NULL, error);
    }
    const char *group = column_text(find, 1);
    text_copy(cached->name, sizeof cached->name, name);
    text_copy(cached->group, sizeof cached->group, group != NULL ? group : "");
    cached->workspace_id = workspace_id;
    cached->id = sqlite3_column_int64(find, 0);
    cached->demand = sqlite3_column_int64(find, 2);
    cached->has_labels = sqlite3_column_int(find, 5) != 0;
    (void)sqlite3_reset(find);
    return WEIR_OK;
}

/* Refuses an unknown group and names those that exist. */
static enum weir_status refuse_group(struct enqueue_context *context, const char *name, struct weir_error *error)
{
    struct names names;
    names_read(&names, context->connection, connection_bind(context->connection, NULL, QUERY_GROUP_NAMES, ""));
    (void)group_refuse(name, (const char *const *)names.all, names.count, error);
    names_free(&names);
    return WEIR_NOT_FOUND;
}

/* `makes`: a definition or the configuration names it. A request that names an unknown group is refused: a mistyped name
 * would wait for ever, and the number of groups would grow with the requests. */
static enum weir_status find_group(struct enqueue_context *context, const char *name, bool makes, int64_t *ret_id,
                                   struct weir_error *error)
{
    struct cached_group *cached = &context->groups[text_hash(name) % ENQUEUE_CACHED];
    if (cached->id != 0 && strcmp(cached->name, name) == 0) {
        *ret_id = cached->id;
        return WEIR_OK;
    }
    enum weir_status status = connection_read_integer(context->connection, error, ret_id, QUERY_FIND_GROUP, "t", name);
    if (status == WEIR_NOT_FOUND && !makes) {
        return refuse_group(context, name, error);
    }
    if (status == WEIR_NOT_FOUND) {
        status = connection_run(context->connection, error, NULL, QUERY_INSERT_GROUP, "t", name);
        news_state(context->news);
        if (status == WEIR_OK) {
            status = connection_read_integer(context->connection, error, ret_id, QUERY_FIND_GROUP, "t", name);
        }
    }
    if (status == WEIR_OK) {
        text_copy(cached->name, sizeof cached->name, name);
        cached->id = *ret_id;
    }
    return status;
}

/* --- one item --- */

/* Most executions have none, and then nothing is executed here. */
static enum weir_status add_labels(struct enqueue_context *context, const struct new_item *item, struct weir_error *error)
{
    struct connection *connection = context->connection;
    enum weir_status status = WEIR_OK;
    if (item->business_key != NULL) {
        status = connection_run(connection, error, NULL, QUERY_INSERT_BUSINESS_KEY, "tit", item->id, item->workspace_id,
                                item->business_key);
    }
    if (status == WEIR_OK && item->labels != NULL) {
        status =
            connection_run(connection, error, NULL, QUERY_INSERT_LABELS, "tit", item->id, item->workspace_id, item->labels);
    }
    if (status == WEIR_OK && item->definition_has_labels) {
        status = connection_run(connection, error, NULL, QUERY_INSERT_DEFINITION_LABELS, "tii", item->id,
                                item->workspace_id, item->definition_id);
    }
    if (status == WEIR_OK && item->retry_of != NULL) {
        status = connection_run(connection, error, NULL, QUERY_COPY_LABELS, "tt", item->retry_of, item->id);
    }
    return status;
}

enum weir_status enqueue_item(struct enqueue_context *context, const struct new_item *item, struct weir_error *error)
{
    INVARIANT(context->connection != NULL && item->id != NULL);
    int64_t group_id;
    enum weir_status status = find_group(context, item->group, true, &group_id, error);
    if (status != WEIR_OK) {
        return status;
    }
    int64_t lane_id = lane_for_demand(lane_id_of(group_id, item->workspace_id), item->demand);
    int64_t earliest_us = context->now_us - RUN_AT_PAST_MOST_US;
    int64_t rank = item_rank(item->run_at_us < earliest_us ? earliest_us : item->run_at_us, item->priority);
    bool waits = item->run_at_us > context->now_us;
    sqlite3_stmt *insert = connection_bind(context->connection, error, QUERY_INSERT_ITEM, "tiiididiidittt", item->id,
                                           lane_id, item->workspace_id, item->definition_id, waits ? 1 : 0, rank,
                                           item->priority, item->run_at_us, item->run_at_us, item->params != NULL ? 1 : 0,
                                           context->now_us, item->idempotency_key, item->retry_of, item->traceparent);
    if (insert == NULL) {
        return statement_failure(error);
    }
    if (!waits) {
        (void)sqlite3_bind_null(insert, 9);
    }
    (void)connection_step(context->connection, insert, &status, error);
    if (status == WEIR_OK && item->params != NULL) {
        status = connection_run(context->connection, error, NULL, QUERY_INSERT_PARAMS, "tb", item->id, item->params,
                                item->params_length);
    }
    if (status == WEIR_OK && item->idempotency_key != NULL && item->retry_of == NULL && !item->key_is_known) {
        status = connection_run(context->connection, error, NULL, QUERY_INSERT_KEY, "itt", item->workspace_id,
                                item->idempotency_key, item->id);
    }
    if (status == WEIR_OK) {
        status = add_labels(context, item, error);
    }
    struct lane_delta *delta = news_lane(context->news, context->connection, NEWS_ENQUEUED, 0, lane_id, &status, error);
    if (waits) {
        news_add_waiting(context->news, delta, item->run_at_us);
    } else {
        news_add_runnable(delta, rank);
    }
    return status == WEIR_OK
               ? stream_add(context->news, context->connection, STREAM_ENQUEUE, item->id, item->workspace_id, error)
               : status;
}

/* --- one request --- */

/* The same key again: the first id when workflow and params are the same, a refusal when not. WEIR_NOT_FOUND: a new key. */
static enum weir_status answer_known_key(struct enqueue_context *context, const struct enqueue_request *request,
                                         int64_t workspace_id, struct enqueue_result *result, struct weir_error *error)
{
    sqlite3_stmt *find =
        connection_bind(context->connection, error, QUERY_FIND_KEY, "it", workspace_id, request->idempotency_key);
    enum weir_status status = WEIR_OK;
    if (find == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(context->connection, find, &status, error)) {
        return status == WEIR_OK ? WEIR_NOT_FOUND : status;
    }
    const char *workflow = column_text(find, 2);
    const char *params = (const char *)sqlite3_column_blob(find, 3);
    size_t length = (size_t)sqlite3_column_bytes(find, 3);
    bool empty = enqueue_has_no_params(request);
    bool has_them =
        empty ? params == NULL
              : params != NULL && length == request->params_length && memcmp(params, request->params, length) == 0;
    if (sqlite3_column_int(find, 4) != 0) {
        status = archive_has_params(context->connection, column_text(find, 0), empty ? NULL : request->params,
                                    request->params_length, &has_them, error);
    }
    if (status != WEIR_OK) {
        (void)sqlite3_reset(find);
        return status;
    }
    if (workflow != NULL && strcmp(workflow, request->workflow) == 0 && has_them) {
        result->duplicate = true;
        text_copy(result->id, sizeof result->id, column_text(find, 0));
    } else {
        result->status =
            error_set(&result->error, WEIR_IDEMPOTENCY_KEY_REUSED,
                      "idempotency key \"%s\" was used before with another workflow or other params (execution %s)",
                      request->idempotency_key, column_text(find, 0));
        error_hint(&result->error, "use a new key for a new request");
    }
    (void)sqlite3_reset(find);
    return WEIR_OK;
}

/* A failure that is the request's own fault stays with its result; the set goes on. */
static enum weir_status keep_refusal(struct enqueue_result *result, enum weir_status status, const struct weir_error *own,
                                     struct weir_error *error)
{
    enum weir_error_kind kind = weir_status_kind(status);
    bool is_own = kind == WEIR_KIND_PERMANENT || status == WEIR_QUEUE_FULL;
    if (is_own && status != WEIR_STORE_CORRUPT && status != WEIR_FAILED) {
        result->status = status;
        result->error = *own;
        return WEIR_OK;
    }
    if (error != NULL) {
        *error = *own;
    }
    return status;
}

/* The same id again is a repeated request. Another workspace's id is nothing that this one may learn about.
 */
static enum weir_status answer_known_id(struct enqueue_context *context, const char *id, int64_t workspace_id,
                                        struct enqueue_result *result, struct weir_error *error)
{
    int64_t owner;
    enum weir_status status = connection_read_integer(context->connection, error, &owner, QUERY_WORKSPACE_OF_ID, "t", id);
    if (status == WEIR_OK && owner == workspace_id) {
        result->duplicate = true;
        text_copy(result->id, sizeof result->id, id);
    } else if (status == WEIR_OK) {
        result->status = error_set(&result->error, WEIR_CONFLICT, "the id %s cannot be used", id);
        error_hint(&result->error, "leave the id out, then a new one is made");
    }
    return status;
}

/* --- modes of keys --- */

/* The execution that a key names, as the mode needs it. */
struct keyed {
    bool is_known;
    bool is_replaceable; /* it has not started */
    char id[UUID_TEXT_MAX];
    int64_t run_at_us; /* of a replaceable one */
    int64_t first_us;  /* of its debounce; 0 = none */
    bool is_foreign;   /* it has not ended, and is of another workflow than the request */
};

/* The executions of another program are not touched, and its ids are no answer. */
static void refuse_foreign_key(const char *key, const char *id, struct enqueue_result *result)
{
    result->status =
        error_set(&result->error, WEIR_IDEMPOTENCY_KEY_REUSED,
                  "idempotency key \"%s\" belongs to execution %s of another workflow, which has not ended", key, id);
    error_hint(&result->error, "use a key of its own for each workflow");
}

static enum weir_status read_keyed(struct enqueue_context *context, int64_t workspace_id,
                                   const struct enqueue_request *request, struct keyed *ret_keyed, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *find =
        connection_bind(context->connection, error, QUERY_FIND_REPLACEABLE, "it", workspace_id, request->idempotency_key);
    *ret_keyed = (struct keyed){.is_known = false};
    if (find == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(context->connection, find, &status, error)) {
        return status;
    }
    ret_keyed->is_known = true;
    text_copy(ret_keyed->id, sizeof ret_keyed->id, column_text(find, 0));
    ret_keyed->first_us = sqlite3_column_int64(find, 1);
    ret_keyed->run_at_us = sqlite3_column_int64(find, 2);
    ret_keyed->is_replaceable = sqlite3_column_int(find, 3) != 0;
    const char *workflow = column_text(find, 4);
    ret_keyed->is_foreign = workflow != NULL && strcmp(workflow, request->workflow) != 0;
    (void)sqlite3_reset(find);
    return WEIR_OK;
}

/* KEY_ONE_ACTIVE: the execution of the key, or the retry of it, that has not ended. WEIR_NOT_FOUND: all have. */
static enum weir_status answer_active(struct enqueue_context *context, const struct enqueue_request *request,
                                      const struct keyed *keyed, struct enqueue_result *result, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *find = connection_bind(context->connection, error, QUERY_FIND_LIVING_TRY, "t", keyed->id);
    if (find == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(context->connection, find, &status, error)) {
        return status == WEIR_OK ? WEIR_NOT_FOUND : status;
    }
    if (strcmp(column_text(find, 1), request->workflow) != 0) {
        refuse_foreign_key(request->idempotency_key, column_text(find, 0), result);
    } else {
        result->duplicate = true;
        text_copy(result->id, sizeof result->id, column_text(find, 0));
    }
    (void)sqlite3_reset(find);
    return WEIR_OK;
}

/* Ends the replaceable execution of the key. Its events name the new one. */
static enum weir_status replace_keyed(struct enqueue_context *context, const struct keyed *keyed, const char *by,
                                      struct weir_error *error)
{
    INVARIANT(context->write != NULL);
    struct ending ending = {.id = keyed->id, .state = ITEM_CANCELLED, .error_code = "replaced"};
    enum weir_status status = event_history_add(context->connection, keyed->id, context->now_us, "cancel", 0, 0,
                                                store_actor(&context->write->store->store),
                                                "a newer request of its key has replaced it", by, error);
    return status == WEIR_OK ? item_end(context->write, &ending, error) : status;
}

/* The start of the item. One that was due already gives its place in the order to the new one, so that a key with frequent
 * requests is not late for ever. But a debounce takes only the place of a debounce. It ends `most` after its first
 * request. */
static void set_keyed_start(const struct enqueue_request *request, const struct keyed *keyed, int64_t now_us,
                            struct new_item *item, int64_t *ret_first_us)
{
    bool takes_place = keyed->is_replaceable && keyed->run_at_us <= now_us;
    *ret_first_us = 0;
    if (request->key_mode == KEY_DEBOUNCE) {
        bool goes_on = keyed->is_replaceable && keyed->first_us != 0;
        *ret_first_us = goes_on ? keyed->first_us : now_us;
        int64_t latest_us = time_add(*ret_first_us, debounce_most_us(request));
        int64_t quiet_us = time_add(now_us, request->debounce_us);
        item->run_at_us = quiet_us < latest_us ? quiet_us : latest_us;
    }
    if (takes_place && request->run_at_us == 0 && (request->key_mode != KEY_DEBOUNCE || keyed->first_us != 0)) {
        item->run_at_us = keyed->run_at_us;
    }
}

/* Inserts the item of a request with a mode, and points the key to it. */
static enum weir_status enqueue_keyed(struct enqueue_context *context, const struct enqueue_request *request,
                                      const struct keyed *keyed, struct new_item *item, struct enqueue_result *result,
                                      struct weir_error *error)
{
    int64_t first_us = 0;
    enum weir_status status = WEIR_OK;
    bool replaces = keyed->is_replaceable && request->key_mode != KEY_ONE_ACTIVE;
    set_keyed_start(request, keyed, context->now_us, item, &first_us);
    item->key_is_known = keyed->is_known;
    if (replaces) {
        status = replace_keyed(context, keyed, item->id, error);
    }
    if (status == WEIR_OK) {
        status = enqueue_item(context, item, error);
    }
    if (status == WEIR_OK && (keyed->is_known || first_us != 0)) {
        sqlite3_stmt *move = connection_bind(context->connection, error, QUERY_MOVE_KEY, "itti", item->workspace_id,
                                             item->idempotency_key, item->id, first_us);
        if (move == NULL) {
            return statement_failure(error);
        }
        if (first_us == 0) {
            (void)sqlite3_bind_null(move, 4);
        }
        (void)connection_step(context->connection, move, &status, error);
    }
    result->replaced = replaces && status == WEIR_OK;
    return status;
}

/* Finds the execution of the key. With a mode its own id is looked for first: a repeated request must not replace the
 * execution that it has made. WEIR_NOT_FOUND: the item is to be inserted. */
static enum weir_status answer_keyed(struct enqueue_context *context, const struct enqueue_request *request,
                                     const char *given_id, int64_t workspace_id, struct keyed *ret_keyed,
                                     struct enqueue_result *result, struct weir_error *error)
{
    enum weir_status status = WEIR_NOT_FOUND;
    if (request->id != NULL) {
        status = answer_known_id(context, given_id, workspace_id, result, error);
    }
    if (status != WEIR_NOT_FOUND) {
        return status;
    }
    status = read_keyed(context, workspace_id, request, ret_keyed, error);
    if (status == WEIR_OK && ret_keyed->is_known && request->key_mode == KEY_ONE_ACTIVE) {
        return answer_active(context, request, ret_keyed, result, error);
    }
    if (status == WEIR_OK && ret_keyed->is_foreign) {
        refuse_foreign_key(request->idempotency_key, ret_keyed->id, result);
        return WEIR_OK;
    }
    return status == WEIR_OK ? WEIR_NOT_FOUND : status;
}

/* --- one request, continued --- */

/* A known key or id is answered here. WEIR_NOT_FOUND: the item is to be inserted. */
static enum weir_status answer_known(struct enqueue_context *context, const struct enqueue_request *request,
                                     const char *given_id, int64_t workspace_id, struct keyed *ret_keyed,
                                     struct enqueue_result *result, struct weir_error *error)
{
    enum weir_status status = WEIR_NOT_FOUND;
    if (request->key_mode != KEY_ONCE) {
        return answer_keyed(context, request, given_id, workspace_id, ret_keyed, result, error);
    }
    if (request->idempotency_key != NULL) {
        status = answer_known_key(context, request, workspace_id, result, error);
    }
    if (status == WEIR_NOT_FOUND && request->id != NULL) {
        status = answer_known_id(context, given_id, workspace_id, result, error);
    }
    return status;
}

/* Of the child of a step that names another workspace. The tenant of the parent reads the refusal, and is not to read the
 * name of that workspace or what it has. */
static enum weir_status hide_workspace(enum weir_status status, const char *workflow, struct weir_error *error)
{
    switch (status) {
    case WEIR_WORKSPACE_NOT_FOUND:
        return error_set(error, status, "the workspace of the step does not exist");
    case WEIR_WORKFLOW_NOT_YOURS:
    case WEIR_WORKFLOW_NOT_FOUND:
        return error_set(error, WEIR_WORKFLOW_NOT_FOUND, "there is no workflow \"%s\" of all workspaces", workflow);
    default:
        return status;
    }
}

/* Finds workspace, workflow and group of a request by their names. */
static enum weir_status find_names(struct enqueue_context *context, const struct enqueue_request *request,
                                   int64_t *ret_workspace_id, const struct cached_workflow **ret_workflow,
                                   struct weir_error *error)
{
    enum weir_status status = find_workspace(context, request->workspace, ret_workspace_id, error);
    if (status == WEIR_OK) {
        int64_t owner_id = request->is_of_all ? 0 : *ret_workspace_id;
        status = find_workflow(context, request->workspace, owner_id, request->workflow, ret_workflow, error);
    }
    status = request->is_of_all ? hide_workspace(status, request->workflow, error) : status;
    if (status == WEIR_OK && request->group != NULL) {
        int64_t group_id;
        status = find_group(context, request->group, false, &group_id, error);
    }
    return status;
}

/* The request's own, the definition's, the caller's default, and at last everybody's. */
static const char *group_of(const struct enqueue_request *request, const struct cached_workflow *workflow)
{
    if (request->group != NULL) {
        return request->group;
    }
    if (workflow->group[0] != '\0') {
        return workflow->group;
    }
    return request->default_group != NULL ? request->default_group : "default";
}

/* After find_names(), so the workspace is in the cache. An execution in place of another one takes no room. */
static enum weir_status take_room(struct enqueue_context *context, const struct enqueue_request *request,
                                  const struct keyed *keyed, struct weir_error *error)
{
    struct cached_workspace *cached = &context->workspaces[text_hash(request->workspace) % ENQUEUE_CACHED];
    bool replaces = keyed->is_replaceable && (request->key_mode == KEY_REPLACE || request->key_mode == KEY_DEBOUNCE);
    if (request->is_unbounded || replaces) {
        return WEIR_OK;
    }
    enum weir_status status =
        pending_room_take(context->connection, context->rooms, &cached->pending, cached->id, context->now_us, error);
    return status == WEIR_QUEUE_FULL ? refusal_queue_full(request->workspace, cached->pending.most, error) : status;
}

static enum weir_status check_firing(struct enqueue_context *context, const struct enqueue_request *request,
                                     struct weir_error *error)
{
    const struct schedule_firing *firing = request->firing;
    int64_t waits = 0;
    if (firing == NULL) {
        return WEIR_OK;
    }
    enum weir_status status =
        connection_read_integer(context->connection, error, &waits, QUERY_FIRING_WAITS, "iiit", firing->schedule_id,
                                firing->workspace_id, firing->due_us, firing->planned_id);
    return status == WEIR_OK && waits == 0 ? refusal_firing_removed(error) : status;
}

enum weir_status enqueue_request(struct enqueue_context *context, const struct enqueue_request *request,
                                 struct enqueue_result *result, struct weir_error *error)
{
    INVARIANT(request != NULL && result->status == WEIR_OK);
    struct weir_error own = {.status = WEIR_OK};
    int64_t workspace_id = 0;
    const struct cached_workflow *workflow = NULL;
    enum weir_status status = enqueue_id_check(request, context->now_us, &own);
    if (status == WEIR_OK) {
        status = find_names(context, request, &workspace_id, &workflow, &own);
    }
    if (status != WEIR_OK) {
        return keep_refusal(result, status, &own, error);
    }
    char given_id[UUID_TEXT_MAX] = "";
    if (request->id != NULL) {
        uuid_write_small(request->id, given_id); /* one spelling, or it would not be found again */
    }
    struct keyed keyed = {.is_known = false};
    status = answer_known(context, request, given_id, workspace_id, &keyed, result, error);
    if (status != WEIR_NOT_FOUND) {
        return status;
    }
    status = check_firing(context, request, &own);
    if (status == WEIR_OK) {
        status = take_room(context, request, &keyed, &own);
    }
    if (status != WEIR_OK) {
        return keep_refusal(result, status, &own, error);
    }
    if (request->id != NULL) {
        text_copy(result->id, sizeof result->id, given_id);
    } else if (context->uuids != NULL) {
        uuid_make_from(context->uuids, context->wall_us, result->id);
    } else {
        uuid_make(context->wall_us, result->id);
    }
    bool empty = enqueue_has_no_params(request);
    struct new_item item = {
        .id = result->id,
        .workspace_id = workspace_id,
        .definition_id = workflow->id,
        .group = group_of(request, workflow),
        .demand = workflow->demand,
        .priority = request->priority,
        .run_at_us = request->run_at_us == 0 ? context->now_us : request->run_at_us,
        .params = empty ? NULL : request->params,
        .params_length = request->params_length,
        .idempotency_key = request->idempotency_key,
        .traceparent = request->traceparent,
        .business_key = request->business_key,
        .labels = request->labels,
        .definition_has_labels = workflow->has_labels,
    };
    return request->key_mode == KEY_ONCE ? enqueue_item(context, &item, error)
                                         : enqueue_keyed(context, request, &keyed, &item, result, error);
}

/* --- sets --- */

/* Enqueues the valid requests of a set. */
static enum weir_status enqueue_all(struct enqueue_context *context, const struct enqueue_request *requests, size_t count,
                                    struct enqueue_result *results, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        if (results[i].status == WEIR_OK) {
            status = enqueue_request(context, &requests[i], &results[i], error);
        }
    }
    return status;
}

/* Of a set that is enqueued as a whole or not at all. */
static bool has_refusal(const struct enqueue_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (results[i].status != WEIR_OK) {
            return true;
        }
    }
    return false;
}

enum weir_status sqlite_enqueue(struct store *store, const struct enqueue_request *requests, size_t count,
                                struct enqueue_result *results, struct weir_error *error)
{
    INVARIANT(store != NULL && (count == 0 || (requests != NULL && results != NULL)));
    struct write write;
    enum weir_status status =
        count <= WRITE_SHORT_MOST ? write_open_short(store, &write, error) : write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct enqueue_context context = {.connection = write.connection,
                                      .news = &write.news,
                                      .write = &write,
                                      .uuids = store->uuids,
                                      .rooms = sqlite_of(store)->rooms,
                                      .count = count,
                                      .now_us = write.now_us,
                                      .wall_us = write.now_us};
    status = enqueue_all(&context, requests, count, results, error);
    if (status != WEIR_OK || (store->all_or_none && has_refusal(results, count))) {
        write_undo(&write);
        return status;
    }
    if (count <= WRITE_SHORT_MOST && sqlite_of(store)->file != NULL) {
        write_expect_round(sqlite_of(store)->file);
    }
    return write_finish(&write, error);
}

enum weir_status sqlite_store_enqueue_on(sqlite3 *database, const struct enqueue_request *requests, size_t count,
                                         struct enqueue_result *results, struct weir_error *error)
{
    if (database == NULL || (count > 0 && (requests == NULL || results == NULL))) {
        return error_set(error, WEIR_MISUSE, "enqueue needs a database, requests and room for results");
    }
    if (sqlite3_get_autocommit(database) != 0) {
        error_set(error, WEIR_MISUSE, "there is no open transaction on this connection");
        error_hint(error, "begin one (BEGIN IMMEDIATE), enqueue, do your own writes, then commit");
        return WEIR_MISUSE;
    }
    struct store *store = NULL;
    enum weir_status status = borrowed_store_open(database, &store, error);
    if (status == WEIR_OK) {
        status = store_enqueue(store, requests, count, results, error);
        store_close(store);
    }
    return status;
}
