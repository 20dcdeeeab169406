/* Reads: lists, the status of the queue, the reason why an execution waits, logs, and facts about the store.
 *
 * A page of a list is that of the store, with its cursor. A log is sent in pieces. Each has a time, a stream and a
 * text, or base64 where the bytes of the program are no UTF-8. They may be none because a character was cut between two
 * pieces. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/log_lines.h"
#include "server/own_workspaces.h"
#include "server/routes/execution_find.h"
#include "server/routes/routes.h"
#include "store/filter.h"

/* --- lists --- */

/* A page of workflows, as the token may see them. */
static enum weir_status list_own_workflows(struct http_request *request, struct store *store,
                                           const struct list_options *options, json_t **ret_page, struct weir_error *error)
{
    enum weir_status status = store_list(store, options, ret_page, error);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(*ret_page, "items"), i, row)
    {
        status = status == WEIR_OK ? own_workspaces_hide_definition(request->principal, row, error) : status;
    }
    return status;
}

/* Adds limit and cursor, and answers with the page. `at_fault`: the argument that `status` concerns. */
static void respond_list(struct http_request *request, struct store *store, struct http_answer *answer,
                         struct list_options *options)
{
    struct weir_error error = {.status = WEIR_OK};
    int64_t limit = 0;
    json_t *page = NULL;
    if (request_number(request, "limit", 1, LIST_LIMIT_MOST, LIST_LIMIT_DEFAULT, &limit, &error) != WEIR_OK) {
        respond_error(request, answer, &error, "limit");
        return;
    }
    options->limit = (size_t)limit;
    options->cursor = request_argument(request, "cursor");
    enum weir_status status = options->kind == LIST_WORKFLOWS ? list_own_workflows(request, store, options, &page, &error)
                                                              : store_list(store, options, &page, &error);
    if (status == WEIR_OK) {
        respond_page(request, answer, page);
    } else {
        json_decref(page);
        respond_error(request, answer, &error, NULL);
    }
}

/* A list of rows with names. */
static void respond_named(struct http_request *request, struct store *store, struct http_answer *answer,
                          enum store_list_kind kind)
{
    struct list_options options = {.kind = kind, .name = request_argument(request, "name")};
    respond_list(request, store, answer, &options);
}

/* The argument is `workspace`, and not `name`: so a token of some workspaces can be held to it. */
void answer_list_workspaces(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct list_options options = {.kind = LIST_WORKSPACES,
                                   .name = request_argument(request, "workspace"),
                                   .prefix = request_argument(request, "prefix")};
    respond_list(request, store, answer, &options);
}

/* Each has the number of its workspaces. */
void answer_list_plans(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_named(request, store, answer, LIST_PLANS);
}

void answer_list_nodes(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_named(request, store, answer, LIST_NODES);
}

/* Also those that are free: a name stays after its release. */
void answer_list_locks(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_named(request, store, answer, LIST_LOCKS);
}

/* With the number of their waiting events. */
void answer_list_hooks(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_named(request, store, answer, LIST_HOOKS);
}

/* Also the revoked ones; the store has no secret that it could show. */
void answer_list_tokens(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_named(request, store, answer, LIST_TOKENS);
}

void answer_list_groups(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_named(request, store, answer, LIST_GROUPS);
}

void answer_list_workflows(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct list_options options = {.kind = LIST_WORKFLOWS,
                                   .name = request_argument(request, "name"),
                                   .filter.workspace = request_argument(request, "workspace")};
    respond_list(request, store, answer, &options);
}

/* All versions of one workflow, with their sources; 404 when there is none. */
void answer_show_workflow(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct list_options options = {.kind = LIST_WORKFLOWS,
                                   .name = request_value(request, "workflow"),
                                   .filter.workspace = request_argument(request, "workspace"),
                                   .limit = LIST_LIMIT_MOST};
    json_t *page = NULL;
    enum weir_status status = list_own_workflows(request, store, &options, &page, &error);
    if (status == WEIR_OK && json_array_size(json_object_get(page, "items")) == 0) {
        status = error_set(&error, WEIR_WORKFLOW_NOT_FOUND, "there is no workflow \"%s\"", options.name);
    }
    respond_outcome(request, answer, status, &error, page);
}

/* `since` is a time or a duration back from now, as in a filter. */
void answer_list_audit(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct list_options options = {.kind = LIST_AUDIT,
                                   .name = request_argument(request, "subject"),
                                   .actor = request_argument(request, "actor"),
                                   .act = request_argument(request, "act")};
    const char *since = request_argument(request, "since");
    int64_t now_us = 0;
    enum weir_status status = since == NULL ? WEIR_OK : store_time(store, &now_us, &error);
    if (status == WEIR_OK && since != NULL) {
        status = filter_parse_time("since", since, now_us, &options.filter.created_since_us, &error);
    }
    if (status != WEIR_OK) {
        respond_error(request, answer, &error, "since");
        return;
    }
    respond_list(request, store, answer, &options);
}

/* --- single things --- */

void answer_show_workspace(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    json_t *row = NULL;
    enum weir_status status = store_usage(store, request_value(request, "workspace"), &row, &error);
    respond_outcome(request, answer, status, &error, row);
}

/* The row of the list. */
void answer_show_plan(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct list_options options = {.kind = LIST_PLANS, .name = request_value(request, "plan"), .limit = 1};
    json_t *page = NULL;
    enum weir_status status = store_list(store, &options, &page, &error);
    json_t *row = json_incref(json_array_get(json_object_get(page, "items"), 0));
    json_decref(page);
    if (status == WEIR_OK && row == NULL) {
        status = error_set(&error, WEIR_PLAN_NOT_FOUND, "there is no plan \"%s\"", options.name);
    }
    respond_outcome(request, answer, status, &error, row);
}

/* Kept counters, however long the queue is. */
void answer_status(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    int64_t workspaces = 0;
    json_t *value = NULL;
    if (request_number(request, "workspaces", 0, LIST_LIMIT_MOST, LIST_LIMIT_DEFAULT, &workspaces, &error) != WEIR_OK) {
        respond_error(request, answer, &error, "workspaces");
        return;
    }
    enum weir_status status = store_status(store, (size_t)workspaces, &value, &error);
    respond_outcome(request, answer, status, &error, value);
}

/* --- the store --- */

/* For a client before its first call: that the store can be used, and its time. */
void answer_show_store(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    char now[TIME_TEXT_MAX] = "";
    int64_t now_us = 0;
    enum weir_status status = store_require_schema(store, &error);
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, &error);
    }
    time_format(now_us, now);
    respond_outcome(request, answer, status, &error, json_pack("{s:s, s:s}", "weir_version", WEIR_VERSION, "now_at", now));
}

/* Holds one of the answering threads for as long as it reads. */
void answer_check_store(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    json_t *problems = NULL;
    enum weir_status status = store_check(store, &problems, &error);
    respond_outcome(request, answer, status, &error, json_pack("{s:o*}", "problems", problems));
}

/* With the text of each, as `weir store plan` prints it. */
void answer_list_migrations(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    const struct store_migration *migrations = NULL;
    size_t count = 0;
    json_t *items = json_array();
    enum weir_status status = store_plan(store, &request->arena, &migrations, &count, &error);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        json_t *item = json_pack("{s:i, s:s, s:s, s:b}", "version", migrations[i].version, "name", migrations[i].name,
                                 "sql", migrations[i].sql, "applied", migrations[i].applied);
        if (json_array_append_new(items, item) != 0) {
            status = error_out_of_memory(&error);
        }
    }
    respond_outcome(request, answer, status, &error, json_pack("{s:o}", "items", items));
}

/* Of a version that any execution may run on, by the number that executions have. */
void answer_show_definition(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct definition_text definition = {.id = 0};
    const char *id = request_value(request, "id");
    char *end = NULL;
    long long number = strtoll(id, &end, 10);
    enum weir_status status =
        *end != '\0' ? error_set(&error, WEIR_INVALID_ARGUMENT, "the id of a definition is a number, not \"%s\"", id)
                     : store_read_definition(store, number, &request->arena, &definition, &error);
    json_t *value = status != WEIR_OK ? NULL
                                      : json_pack("{s:I, s:s, s:s?, s:i, s:s}", "id", (json_int_t)definition.id, "name",
                                                  definition.name, "workspace", definition.workspace, "version",
                                                  definition.version, "text", definition.text);
    respond_outcome(request, answer, status, &error, value);
}

/* --- logs --- */

/* The whole id is needed, as for the log itself. Without a log it is asked whether there is the execution. */
void answer_list_logs(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct log_attempt *attempts = NULL;
    size_t count = 0;
    char id[UUID_TEXT_MAX];
    json_t *items = json_array();
    enum weir_status status =
        store_list_logs(store, request_value(request, "id"), &request->arena, &attempts, &count, &error);
    if (status == WEIR_OK && count == 0) {
        status = execution_find(store, request, id, NULL, &error);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        json_t *item = json_pack("{s:s, s:i, s:I}", "step", attempts[i].step, "attempt", attempts[i].attempt,
                                 "last_position", (json_int_t)attempts[i].last_position);
        if (json_array_append_new(items, item) != 0) {
            status = error_out_of_memory(&error);
        }
    }
    respond_outcome(request, answer, status, &error, json_pack("{s:o}", "items", items));
}

/* NULL when out of memory. */
static json_t *piece_json(const struct log_piece *piece, struct arena *arena)
{
    char at[TIME_TEXT_MAX];
    time_format(piece->at_us, at);
    const char *stream = log_stream_name(piece->stream);
    if (text_is_utf8(piece->bytes, piece->length) && memchr(piece->bytes, '\0', piece->length) == NULL) {
        return json_pack("{s:s, s:s, s:s%}", "at", at, "stream", stream, "text", piece->bytes, piece->length);
    }
    unsigned char *code = arena_allocate(arena, piece->length / 3 * 4 + 5);
    if (code == NULL) {
        return NULL;
    }
    (void)EVP_EncodeBlock(code, (const unsigned char *)piece->bytes, (int)piece->length);
    return json_pack("{s:s, s:s, s:s}", "at", at, "stream", stream, "base64", (const char *)code);
}

/* A rest that is no piece is left out. NULL when out of memory. */
static json_t *chunk_json(const struct log_chunk *chunk, struct arena *arena)
{
    struct log_piece piece;
    size_t at = 0;
    json_t *pieces = json_array();
    bool is_fine = pieces != NULL;
    while (is_fine && log_piece_read(chunk->lines, chunk->length, &at, &piece)) {
        is_fine = json_array_append_new(pieces, piece_json(&piece, arena)) == 0;
    }
    if (!is_fine) {
        json_decref(pieces);
        return NULL;
    }
    return json_pack("{s:I, s:I, s:I, s:o}", "position", (json_int_t)chunk->position, "offset", (json_int_t)chunk->offset,
                     "output_bytes", (json_int_t)chunk->output_bytes, "pieces", pieces);
}

/* At most LOG_READ_MOST chunks; the caller goes on behind the position of the last one. A reader that follows a log asks
 * often, so the execution is not read here: without one there are no chunks. */
void answer_read_log(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct log_chunk *chunks = NULL;
    size_t count = 0;
    int64_t after = 0;
    char *end = NULL;
    const char *text = request_value(request, "attempt");
    long attempt = strtol(text, &end, 10);
    enum weir_status status = request_number(request, "after", -1, INT64_MAX, -1, &after, &error);
    if (status == WEIR_OK && (*end != '\0' || attempt < 1 || attempt > INT32_MAX)) {
        status = error_set(&error, WEIR_INVALID_ARGUMENT, "an attempt is a number from 1 on, not \"%s\"", text);
    }
    if (status == WEIR_OK) {
        status = store_read_log(store, request_value(request, "id"), request_value(request, "step"), (int)attempt, after,
                                &request->arena, &chunks, &count, &error);
    }
    json_t *items = json_array();
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        if (json_array_append_new(items, chunk_json(&chunks[i], &request->arena)) != 0) {
            status = error_out_of_memory(&error);
        }
    }
    respond_outcome(request, answer, status, &error, json_pack("{s:o}", "items", items));
}
