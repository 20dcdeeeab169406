/* The verbs that read. A page, an execution, a status and the reason of `why` are passed on as the server sends them: their
 * keys are those of the other drivers. Logs and migrations become the structs of store.h.
 *
 * A log travels as pieces with a time, a stream and a text, or in base64 where the bytes are no UTF-8. The driver writes
 * the heads of the pieces again (queue/log_lines.h). One thread. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/libssl.h"
#include "queue/log_lines.h"
#include "store/http/http_verbs.h"

#define NO_VALUES ((const char *const *)NULL)

/* "" when the member is no text. */
static const char *member_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

/* 0 when the member is no number. */
static int64_t member_number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* --- the store --- */

/* A path without values. */
static enum weir_status read_server(struct store *store, const char *path, json_t **ret_answer, struct weir_error *error)
{
    remote_client_target(client_of(store), path, NO_VALUES);
    return remote_read(store, ret_answer, error);
}

/* An unknown path shows that this is another kind of server. */
enum weir_status http_require_schema(struct store *store, struct weir_error *error)
{
    enum weir_status status = read_server(store, "/v1/store", NULL, error);
    if (status == WEIR_NOT_FOUND) {
        error->status = status = WEIR_STORE_NOT_WEIR;
        error_hint(error, "the URL is that of `weir serve --listen`, without a path of its own");
    }
    return status;
}

/* The clock of the server, which is that of its store: a client counts relative times from it. */
enum weir_status http_time(struct store *store, int64_t *ret_now_us, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_now_us != NULL);
    json_t *answer = NULL;
    int64_t now_us = 0;
    enum weir_status status = read_server(store, "/v1/store", &answer, error);
    if (status == WEIR_OK && time_parse(member_text(answer, "now_at"), 0, &now_us, NULL) != WEIR_OK) {
        status = http_refuse_answer("now_at", error);
    }
    json_decref(answer);
    if (status == WEIR_OK) {
        *ret_now_us = now_us;
    }
    return status;
}

/* The server reports no progress: the listener learns of the beginning and of the end. */
enum weir_status http_check(struct store *store, json_t **ret_problems, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_problems != NULL);
    json_t *answer = NULL;
    remote_client_target(client_of(store), "/v1/store/check", NO_VALUES);
    enum weir_status status = store_report_progress(store, 0, 1, error);
    if (status == WEIR_OK) {
        status = http_read_long(store, &answer, error);
    }
    json_t *problems = json_object_get(answer, "problems");
    if (status == WEIR_OK && !json_is_array(problems)) {
        status = http_refuse_answer("problems", error);
    }
    if (status == WEIR_OK) {
        status = store_report_progress(store, 1, 1, error);
    }
    if (status == WEIR_OK) {
        *ret_problems = json_incref(problems);
    }
    json_decref(answer);
    return status;
}

enum weir_status http_plan(struct store *store, struct arena *arena, const struct store_migration **ret_migrations,
                           size_t *ret_count, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_migrations != NULL && ret_count != NULL);
    json_t *answer = NULL;
    enum weir_status status = read_server(store, "/v1/store/migrations", &answer, error);
    if (status != WEIR_OK) {
        return status;
    }
    const json_t *items = json_object_get(answer, "items");
    size_t count = json_array_size(items);
    struct store_migration *migrations = arena_allocate(arena, (count + 1) * sizeof *migrations);
    bool is_fine = migrations != NULL;
    for (size_t i = 0; i < count && is_fine; i++) {
        const json_t *item = json_array_get(items, i);
        migrations[i] = (struct store_migration){.version = (int)member_number(item, "version"),
                                                 .name = arena_copy_string(arena, member_text(item, "name")),
                                                 .sql = arena_copy_string(arena, member_text(item, "sql")),
                                                 .applied = json_is_true(json_object_get(item, "applied"))};
        is_fine = migrations[i].name != NULL && migrations[i].sql != NULL;
    }
    json_decref(answer);
    if (!is_fine) {
        return error_out_of_memory(error);
    }
    *ret_migrations = migrations;
    *ret_count = count;
    return WEIR_OK;
}

/* The answer is copied to the arena: a definition outlives the call. Its workspace is null when all may run it. */
enum weir_status http_read_definition(struct store *store, int64_t definition_id, struct arena *arena,
                                      struct definition_text *ret_definition, struct weir_error *error)
{
    INVARIANT(store != NULL && arena != NULL && ret_definition != NULL);
    char id[24];
    json_t *answer = NULL;
    (void)snprintf(id, sizeof id, "%lld", (long long)definition_id);
    remote_client_target(client_of(store), "/v1/definitions/{}", (const char *const[]){id});
    enum weir_status status = remote_read(store, &answer, error);
    if (status != WEIR_OK) {
        return status;
    }
    const char *workspace = json_string_value(json_object_get(answer, "workspace"));
    struct definition_text definition = {.id = definition_id,
                                         .name = arena_copy_string(arena, member_text(answer, "name")),
                                         .text = arena_copy_string(arena, member_text(answer, "text")),
                                         .version = (int)member_number(answer, "version"),
                                         .workspace = workspace == NULL ? NULL : arena_copy_string(arena, workspace)};
    json_decref(answer);
    if (definition.name == NULL || definition.text == NULL || (workspace != NULL && definition.workspace == NULL)) {
        return error_out_of_memory(error);
    }
    *ret_definition = definition;
    return WEIR_OK;
}

/* --- lists and executions --- */

/* Begins the request of a list, with the conditions that this kind has.
 *
 * A name is an argument of its own kind of list. Steps come as one page, so they have neither cursor nor limit. */
static void target_list(struct remote_client *client, const struct list_options *options)
{
    static const char *const paths[] = {[LIST_EXECUTIONS] = "/v1/executions",
                                        [LIST_EVENTS] = "/v1/executions/{}/events",
                                        [LIST_ACTIONS] = "/v1/executions/{}/actions",
                                        [LIST_STEPS] = "/v1/executions/{}/steps",
                                        [LIST_WORKSPACES] = "/v1/workspaces",
                                        [LIST_PLANS] = "/v1/plans",
                                        [LIST_WORKFLOWS] = "/v1/workflows",
                                        [LIST_NODES] = "/v1/nodes",
                                        [LIST_LOCKS] = "/v1/locks",
                                        [LIST_TOKENS] = "/v1/tokens",
                                        [LIST_GROUPS] = "/v1/groups",
                                        [LIST_HOOKS] = "/v1/hooks",
                                        [LIST_SCHEDULES] = "/v1/schedules",
                                        [LIST_SLOT_TIMELINE] = "/v1/workspaces/{}/slot_timeline",
                                        [LIST_AUDIT] = "/v1/audit"};
    bool is_timeline = options->kind == LIST_SLOT_TIMELINE;
    remote_client_target(client, paths[options->kind],
                         (const char *const[]){is_timeline ? options->name : options->filter.id});
    if (options->kind == LIST_EXECUTIONS) {
        http_add_filter(client, &options->filter);
        remote_client_argument(client, "count", options->count ? "all" : NULL);
        remote_client_argument(client, "order", options->order == ORDER_QUEUE ? "queue" : NULL);
    } else if (options->kind == LIST_WORKSPACES) {
        remote_client_argument(client, "workspace", options->name);
        remote_client_argument(client, "prefix", options->prefix);
    } else if (is_timeline) {
        const struct execution_filter since = {.created_since_us = options->filter.created_since_us};
        http_add_filter(client, &since);
    } else if (options->kind == LIST_AUDIT) {
        const struct execution_filter since = {.created_since_us = options->filter.created_since_us};
        remote_client_argument(client, "subject", options->name);
        remote_client_argument(client, "actor", options->actor);
        remote_client_argument(client, "act", options->act);
        http_add_filter(client, &since);
    } else {
        remote_client_argument(client, "name", options->name);
        remote_client_argument(client, "workspace", options->kind == LIST_WORKFLOWS ? options->filter.workspace : NULL);
    }
    if (options->kind != LIST_STEPS) {
        remote_client_argument(client, "cursor", is_timeline ? NULL : options->cursor);
        remote_client_number(client, "limit", (int64_t)options->limit);
    }
}

/* The page is checked for its rows alone: their keys are those of the server's version. */
enum weir_status http_list(struct store *store, const struct list_options *options, json_t **ret_page,
                           struct weir_error *error)
{
    INVARIANT(store != NULL && options != NULL && ret_page != NULL);
    json_t *page = NULL;
    target_list(client_of(store), options);
    enum weir_status status = remote_read(store, &page, error);
    if (status == WEIR_OK && !json_is_array(json_object_get(page, "items"))) {
        json_decref(page);
        return http_refuse_answer("items", error);
    }
    if (status == WEIR_OK) {
        *ret_page = page;
    }
    return status;
}

/* The server completes an id that is given in part. */
enum weir_status http_show(struct store *store, const char *id, json_t **ret_execution, struct weir_error *error)
{
    remote_client_target(client_of(store), "/v1/executions/{}", (const char *const[]){id});
    return remote_read(store, ret_execution, error);
}

enum weir_status http_why(struct store *store, const char *id, json_t **ret_why, struct weir_error *error)
{
    remote_client_target(client_of(store), "/v1/executions/{}/why", (const char *const[]){id});
    return remote_read(store, ret_why, error);
}

enum weir_status http_status(struct store *store, size_t workspaces_max, json_t **ret_status, struct weir_error *error)
{
    remote_client_target(client_of(store), "/v1/status", NO_VALUES);
    remote_client_number(client_of(store), "workspaces", (int64_t)workspaces_max);
    return remote_read(store, ret_status, error);
}

/* --- logs --- */

enum weir_status http_list_logs(struct store *store, const char *id, struct arena *arena, struct log_attempt **ret_attempts,
                                size_t *ret_count, struct weir_error *error)
{
    INVARIANT(store != NULL && id != NULL && ret_attempts != NULL && ret_count != NULL);
    json_t *answer = NULL;
    remote_client_target(client_of(store), "/v1/executions/{}/logs", (const char *const[]){id});
    enum weir_status status = remote_read(store, &answer, error);
    if (status != WEIR_OK) {
        return status;
    }
    const json_t *items = json_object_get(answer, "items");
    size_t count = json_array_size(items);
    struct log_attempt *attempts = arena_allocate(arena, (count + 1) * sizeof *attempts);
    bool is_fine = attempts != NULL;
    for (size_t i = 0; i < count && is_fine; i++) {
        const json_t *item = json_array_get(items, i);
        attempts[i] = (struct log_attempt){.step = arena_copy_string(arena, member_text(item, "step")),
                                           .attempt = (int)member_number(item, "attempt"),
                                           .last_position = member_number(item, "last_position")};
        is_fine = attempts[i].step != NULL;
    }
    json_decref(answer);
    if (!is_fine) {
        return error_out_of_memory(error);
    }
    *ret_attempts = attempts;
    *ret_count = count;
    return WEIR_OK;
}

/* The bytes of a piece into `to`, which holds as many as its text or its base64 has. Their number; -1 = no base64. */
static int copy_piece(const json_t *piece, char *to)
{
    const json_t *text = json_object_get(piece, "text");
    const json_t *base64 = json_object_get(piece, "base64");
    if (json_is_string(text)) {
        memcpy(to, json_string_value(text), json_string_length(text));
        return (int)json_string_length(text);
    }
    const char *code = member_text(piece, "base64");
    int length = (int)json_string_length(base64);
    int decoded = length % 4 == 0 ? EVP_DecodeBlock((unsigned char *)to, (const unsigned char *)code, length) : -1;
    for (int i = length; decoded > 0 && i > 0 && code[i - 1] == '='; i--) {
        decoded--; /* the function counts the bytes of the padding */
    }
    return decoded;
}

/* A stream that a newer server may have counts as stdout. */
static enum log_stream stream_of_name(const char *name)
{
    for (int i = LOG_STDOUT; i <= LOG_STREAM_LAST; i++) {
        if (strcmp(name, log_stream_name((enum log_stream)i)) == 0) {
            return (enum log_stream)i;
        }
    }
    return LOG_STDOUT;
}

/* 1. Room for the heads and for the bytes: a text is as long as its bytes, and base64 longer. 2. Each piece in turn. */
static enum weir_status read_log_chunk(const json_t *item, struct arena *arena, struct log_chunk *chunk,
                                       struct weir_error *error)
{
    const json_t *pieces = json_object_get(item, "pieces");
    size_t room = 1;
    size_t used = 0;
    size_t i;
    json_t *value;
    json_array_foreach(pieces, i, value)
    {
        room += LOG_HEAD_BYTES + json_string_length(json_object_get(value, "text")) +
                json_string_length(json_object_get(value, "base64"));
    }
    char *lines = arena_allocate(arena, room);
    if (lines == NULL) {
        return error_out_of_memory(error);
    }
    json_array_foreach(pieces, i, value)
    {
        struct log_piece piece = {.stream = stream_of_name(member_text(value, "stream")),
                                  .bytes = lines + used + LOG_HEAD_BYTES};
        int length = copy_piece(value, lines + used + LOG_HEAD_BYTES);
        if (length < 0 || time_parse(member_text(value, "at"), 0, &piece.at_us, NULL) != WEIR_OK) {
            return http_refuse_answer("pieces", error);
        }
        piece.length = (size_t)length;
        log_piece_write_head(&piece, lines + used);
        used += LOG_HEAD_BYTES + piece.length;
    }
    *chunk = (struct log_chunk){.position = member_number(item, "position"),
                                .offset = member_number(item, "offset"),
                                .output_bytes = member_number(item, "output_bytes"),
                                .lines = lines,
                                .length = used};
    return WEIR_OK;
}

enum weir_status http_read_log(struct store *store, const char *id, const char *step, int attempt, int64_t after,
                               struct arena *arena, struct log_chunk **ret_chunks, size_t *ret_count,
                               struct weir_error *error)
{
    INVARIANT(store != NULL && id != NULL && step != NULL && ret_chunks != NULL && ret_count != NULL);
    char number[24];
    json_t *answer = NULL;
    (void)snprintf(number, sizeof number, "%d", attempt);
    remote_client_target(client_of(store), "/v1/executions/{}/logs/{}/{}", (const char *const[]){id, step, number});
    remote_client_number(client_of(store), "after", after);
    enum weir_status status = remote_read(store, &answer, error);
    if (status != WEIR_OK) {
        return status;
    }
    const json_t *items = json_object_get(answer, "items");
    size_t count = json_array_size(items);
    struct log_chunk *chunks = arena_allocate(arena, (count + 1) * sizeof *chunks);
    status = chunks == NULL ? error_out_of_memory(error) : WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = read_log_chunk(json_array_get(items, i), arena, &chunks[i], error);
    }
    json_decref(answer);
    if (status == WEIR_OK) {
        *ret_chunks = chunks;
        *ret_count = count;
    }
    return status;
}
