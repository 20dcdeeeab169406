/* The head decides about the body: a request that cannot succeed is refused before its body is read, and its connection
 * ends, because the body would follow.
 *
 * No answer is stored by anyone, and no browser takes it for a page: three fields of each answer say so. A request that
 * changes something and comes from a web page (Origin) must come from a page of this server. */
#include "server/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"
#include "server/api.h"
#include "server/http_server.h"
#include "server/problem_table.h"
#include "server/request_head.h"
#include "server/route.h"
#include "server/stream_hub.h"

static const char reason_of_shortage[] = "too many bodies and answers are under way; try again in a second";
/* Unused: the library writes pieces of an unknown length into its memory of the connection. */
enum { STREAM_BLOCK_BYTES = 128 };
/* Beside the texts of a head: those that a handler makes of a body. */
enum { ARENA_BYTES_MAX = HTTP_HEAD_BYTES_MAX * 4 + HTTP_BODY_BYTES_MAX * 2 };

/* Gives back the bytes that hold() has counted. Also when the memory itself goes to the library, which frees it with the
 * answer: the exchange ends only after that. */
static void give_back(struct exchange *exchange)
{
    atomic_fetch_sub(exchange->held, exchange->held_here);
    exchange->held_here = 0;
}

/* The request id is made at once, so that a refusal of the first line has one, too. */
struct exchange *exchange_open(struct http_server *server, struct api *api, struct MHD_Connection *connection,
                               struct connection_entry *entry, const char *target, _Atomic size_t *held)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL) {
        return NULL;
    }
    exchange->server = server;
    exchange->api = api;
    exchange->request.connection_fd = entry->fd;
    exchange->connection = connection;
    exchange->entry = entry;
    exchange->held = held;
    exchange->answer = (struct http_answer){.type = "text/plain", .body = {.max = HTTP_ANSWER_BYTES_MAX}};
    exchange->request.body.max = HTTP_BODY_BYTES_MAX;
    exchange->request.is_whole = true;
    arena_init(&exchange->request.arena, ARENA_BYTES_MAX);
    uuid_make_beside(clock_wall(clock_system()), exchange->request.id);
    exchange->target_text = arena_copy_string(&exchange->request.arena, target);
    if (exchange->target_text == NULL) {
        exchange_close(exchange);
        return NULL;
    }
    return exchange;
}

void exchange_close(struct exchange *exchange)
{
    if (exchange != NULL) {
        give_back(exchange);
        text_close(&exchange->request.body);
        text_close(&exchange->answer.body);
        stream_close(exchange->answer.stream);
        arena_close(&exchange->request.arena);
        free(exchange);
    }
}

/* --- the head --- */

struct head_reader {
    struct request_head head;
    struct http_request *request;
    const char *double_field;  /* its name; NULL = there is none */
    char *joined[HTTP_FIELDS]; /* HTTP_HEAD_BYTES_MAX bytes each, of the fields with several lines */
};

/* A further line of a field. One room for all of them: a copy for each line would make memory of many short ones. NULL: no
 * memory. */
static const char *join_lines(struct head_reader *reader, enum http_field field, const char *value, size_t length)
{
    struct http_request *request = reader->request;
    const char *joint = http_field_joint(field);
    const char *before = request->fields[field];
    if (reader->joined[field] == NULL) {
        reader->joined[field] = arena_allocate(&request->arena, HTTP_HEAD_BYTES_MAX);
        text_copy(reader->joined[field], reader->joined[field] == NULL ? 0 : HTTP_HEAD_BYTES_MAX, before);
    }
    char *joined = reader->joined[field];
    size_t used = joined == NULL ? 0 : strlen(joined);
    if (joined == NULL || used + strlen(joint) + length >= HTTP_HEAD_BYTES_MAX) {
        return NULL;
    }
    (void)snprintf(joined + used, HTTP_HEAD_BYTES_MAX - used, "%s%.*s", joint, (int)length, value);
    return joined;
}

/* Called by the library for each field. A known one is copied: its own memory is used again for the body. */
static enum MHD_Result add_head_field(void *context, enum MHD_ValueKind kind, const char *name, size_t name_length,
                                      const char *value, size_t value_length)
{
    (void)kind;
    struct head_reader *reader = context;
    request_head_add(&reader->head, name, name_length, value, value_length);
    value_length = value == NULL ? 0 : value_length;
    value = value == NULL ? "" : value;
    for (size_t i = 0; i < HTTP_FIELDS; i++) {
        const char *known = http_field_name((enum http_field)i);
        if (strlen(known) == name_length && strncasecmp(known, name, name_length) == 0) {
            bool is_first = reader->request->fields[i] == NULL;
            bool is_joined = !is_first && http_field_joint((enum http_field)i) != NULL;
            const char *copy = is_joined ? join_lines(reader, (enum http_field)i, value, value_length)
                                         : arena_copy(&reader->request->arena, value, value_length);
            reader->double_field = !is_first && !is_joined ? known : reader->double_field;
            reader->request->fields[i] = copy;
            reader->request->is_whole = reader->request->is_whole && copy != NULL;
        }
    }
    return MHD_YES;
}

/* Collects the fields, and compares their places with the lines of the head, from the version in the first one to the empty
 * one. From version 1.0 on the library keeps the rules for lines by itself, and may have the texts elsewhere. */
static void read_head_lines(struct exchange *exchange, const char *method, const char *version, struct head_reader *reader)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    bool shows_lines = info != NULL && strncmp(MHD_get_version(), "0.9.", 4) == 0;
    reader->head.next = shows_lines ? version + strlen(version) + 2 : NULL;
    (void)MHD_get_connection_values_n(exchange->connection, MHD_HEADER_KIND, add_head_field, reader);
    if (shows_lines) {
        request_head_end(&reader->head, method + info->header_size);
    }
}

/* Fills the answer and answers false, for checks that end with it. */
/* No handler has seen the request, so the hint is the remedy of the code. One that refers to the hint itself is none. */
static bool refuse(struct exchange *exchange, int status, const char *code, const char *reason)
{
    static const char refers_to_itself[] = "Look at";
    const struct problem_kind *kind = problem_find(code);
    bool has_remedy = kind != NULL && strncmp(kind->remedy, refers_to_itself, strlen(refers_to_itself)) != 0;
    respond_problem(&exchange->request, &exchange->answer, status, code, reason, has_remedy ? kind->remedy : NULL, NULL);
    return false;
}

/* The kind by the media type; its parameters, like a charset, do not count: JSON and YAML are UTF-8 here. */
static unsigned body_kind(const char *type)
{
    static const struct {
        const char *type;
        unsigned kind;
    } types[] = {{"application/json", BODY_JSON},
                 {"application/x-ndjson", BODY_NDJSON},
                 {"application/jsonl", BODY_NDJSON},
                 {"application/yaml", BODY_YAML},
                 {"application/x-yaml", BODY_YAML},
                 {"text/yaml", BODY_YAML},
                 {"application/x-www-form-urlencoded", BODY_FORM}};
    size_t length = strcspn(type, "; \t");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strlen(types[i].type) == length && strncasecmp(types[i].type, type, length) == 0) {
            return types[i].kind;
        }
    }
    return BODY_NONE;
}

/* --- memory --- */

/* From when on a client that has moved so many bytes in this phase is slow. */
static int64_t slow_at(int64_t began_us, size_t bytes)
{
    return began_us + HTTP_SLOW_GRACE_US + (int64_t)(bytes * MICROSECONDS_PER_SECOND / HTTP_BYTES_PER_SECOND_LEAST);
}

/* Memory is counted when it is used, not when a head announces it: otherwise clients that send heads and no bodies would
 * keep it from all others. False: there is not enough. */
static bool hold(struct exchange *exchange, size_t bytes)
{
    if (atomic_fetch_add(exchange->held, bytes) + bytes > HTTP_HELD_BYTES_MAX) {
        atomic_fetch_sub(exchange->held, bytes);
        return false;
    }
    exchange->held_here += bytes;
    return true;
}

/* A body that has no room any more is refused before its first byte is read. */
static bool check_body(struct exchange *exchange, size_t length)
{
    const struct http_route *route = exchange->request.route;
    const char *type = exchange->request.fields[FIELD_CONTENT_TYPE];
    const char *encoding = exchange->request.fields[FIELD_CONTENT_ENCODING];
    char reason[128];
    if (length == 0) {
        return true;
    }
    if (route->bodies == BODY_NONE) {
        bool is_act = strcmp(route->method, "GET") != 0 && route->scope >= SCOPE_OPERATE;
        respond_problem(&exchange->request, &exchange->answer, 400, "invalid_argument",
                        "this path takes no body: leave it out, also the empty object {}",
                        is_act ? "the reason of an act is the field Weir-Reason of the head" : NULL, NULL);
        return false;
    }
    if (length > route->body_max) {
        (void)snprintf(reason, sizeof reason, "the body has more than %zu bytes, the limit of this path", route->body_max);
        return refuse(exchange, 413, "body_too_large", reason);
    }
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0) {
        return refuse(exchange, 415, "unsupported_media_type", "the body must not be compressed");
    }
    if (type == NULL || (body_kind(type) & route->bodies) == 0) {
        (void)snprintf(reason, sizeof reason, "the body must be%s%s%s%s by its Content-Type",
                       (route->bodies & BODY_FORM) != 0 ? " application/x-www-form-urlencoded" : "",
                       (route->bodies & BODY_JSON) != 0 ? " application/json" : "",
                       (route->bodies & BODY_NDJSON) != 0 ? " or application/x-ndjson" : "",
                       (route->bodies & BODY_YAML) != 0 ? " or application/yaml" : "");
        return refuse(exchange, 415, "unsupported_media_type", reason);
    }
    if (atomic_load(exchange->held) + length > HTTP_HELD_BYTES_MAX) {
        return refuse(exchange, 503, "overloaded", reason_of_shortage);
    }
    exchange->body_began_us = clock_boot(clock_system());
    atomic_store(&exchange->entry->due_us, exchange->body_began_us + HTTP_BODY_DEADLINE_US);
    return true;
}

/* A page of another origin must not act here with the rights of its reader's machine. A program that is no browser sends
 * no Origin. */
static bool is_of_other_origin(const struct http_request *request)
{
    const char *origin = request->fields[FIELD_ORIGIN];
    const char *host = origin == NULL ? NULL : strstr(origin, "://");
    return origin != NULL && (host == NULL || strcmp(host + 3, request->fields[FIELD_HOST]) != 0);
}

/* A web page that lets its own name point to this machine sends its own name as the host. A page cannot send a token that
 * it does not have, so the host matters only where no token is read. */
static bool refuse_host(struct exchange *exchange)
{
    exchange->ends_connection = true;
    return refuse(exchange, 421, "wrong_host",
                  "without a token this listener answers only to the names of this machine for itself");
}

/* The memory of a connection has room for the head of the answer as well, so the library takes longer heads. */
static bool head_is_too_long(const struct exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info != NULL && info->header_size > HTTP_HEAD_BYTES_MAX;
}

/* The order of the checks: first whether the bytes can be trusted, then what they ask for. */
bool exchange_read_head(struct exchange *exchange, const char *method, const char *version)
{
    struct http_request *request = &exchange->request;
    struct head_reader reader = {.request = request};
    const char *reason = NULL;
    char detail[ROUTE_ALLOW_MAX + 64];
    char allow[ROUTE_ALLOW_MAX];
    request->is_head = strcmp(method, "HEAD") == 0;
    read_head_lines(exchange, method, version, &reader);
    int status = request_head_check(&reader.head, version, &reason);
    exchange->ends_connection = status != 0 || reader.head.content_length > 0;
    if (status != 0) {
        return refuse(exchange, status, status == 411 ? "length_required" : "invalid_request", reason);
    }
    if (strchr(exchange->target_text, ' ') != NULL) { /* the library takes the last word alone for the version */
        exchange->ends_connection = true;
        return refuse(exchange, 400, "invalid_request", "the first line has more than a method, a target and a version");
    }
    if (head_is_too_long(exchange)) {
        exchange->ends_connection = true;
        return refuse(exchange, 431, "head_too_large", "the line and the fields of the request have more than 16 KiB");
    }
    if (!request->is_whole) {
        return refuse(exchange, 503, "out_of_memory", "there is no memory for the request");
    }
    bool is_wrong_host = request->is_of_machine && !request_head_is_local(&reader.head);
    if (is_wrong_host && request->fields[FIELD_AUTHORIZATION] == NULL) {
        return refuse_host(exchange);
    }
    if (reader.double_field != NULL) {
        (void)snprintf(detail, sizeof detail, "the field %s of the head is there twice", reader.double_field);
        return refuse(exchange, 400, "invalid_request", detail);
    }
    reason = request_target_read(exchange->target_text, &request->arena, &request->target);
    if (reason != NULL) {
        return refuse(exchange, 400, "invalid_request", reason);
    }
    status = route_find(request, method, allow);
    if (status == 405) {
        exchange->answer.allow = arena_copy_string(&request->arena, allow);
        (void)snprintf(detail, sizeof detail, "this path takes %s and no other method", allow);
        return refuse(exchange, 405, "method_not_allowed", detail);
    }
    if (status != 0) {
        respond_no_path(request, &exchange->answer);
        return false;
    }
    if (is_wrong_host && request->route->scope == SCOPE_OPEN) {
        return refuse_host(exchange); /* no token is read for it */
    }
    if (strcmp(request->route->method, "GET") != 0 && is_of_other_origin(request)) {
        return refuse(exchange, 403, "cross_origin", "a page of another origin may not change anything here");
    }
    if (!api_admit_head(exchange->api, reader.head.content_length, request, &exchange->answer) ||
        !check_body(exchange, reader.head.content_length)) {
        return false;
    }
    exchange->ends_connection = false;
    return true;
}

/* A body for which there is no memory is read to its end, and its connection can go on: the library sends no answer before
 * that. */
void exchange_add_body(struct exchange *exchange, const char *bytes, size_t length)
{
    struct http_request *request = &exchange->request;
    if (exchange->is_overloaded || !hold(exchange, length)) {
        exchange->is_overloaded = true;
        text_close(&request->body);
        give_back(exchange);
        return;
    }
    request->is_whole = request->is_whole && text_add(&request->body, bytes, length) == WEIR_OK;
    atomic_store(&exchange->entry->slow_us, slow_at(exchange->body_began_us, request->body.length));
}

/* Of these versions it is known where a request lies in the pool of its connection, and what is written after it. */
static bool is_known_library(void)
{
    return strncmp(MHD_get_version(), "0.9.", 4) == 0 || strncmp(MHD_get_version(), "1.0.", 4) == 0;
}

void exchange_count_request(struct exchange *exchange, const char *method)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (!exchange->is_counted && exchange->idle_pools != NULL && info != NULL && is_known_library()) {
        exchange->is_counted = true;
        idle_pools_count(exchange->entry, method, info->header_size, exchange->body_bytes);
    }
}

bool exchange_end_body(struct exchange *exchange)
{
    atomic_store(&exchange->entry->slow_us, TIME_NEVER);
    return !exchange->is_overloaded || refuse(exchange, 503, "overloaded", reason_of_shortage);
}

/* --- the answer --- */

static enum MHD_Result add_answer_field(struct MHD_Response *response, const char *name, const char *value)
{
    return value == NULL ? MHD_YES : MHD_add_response_header(response, name, value);
}

/* An answer waits in memory until its client has read it. A long one is given only while there is room, because a client
 * may ask for many and read none. That of a change always goes: the change was made. */
static void hold_answer(struct exchange *exchange)
{
    struct http_answer *answer = &exchange->answer;
    const struct http_route *route = exchange->request.route;
    size_t length = answer->body.length;
    int64_t now_us = clock_boot(clock_system());
    if (length > HTTP_ANSWER_BYTES_SHORT && route != NULL && strcmp(route->method, "GET") == 0) {
        if (hold(exchange, length)) {
            atomic_store(&exchange->entry->slow_us, slow_at(now_us, length));
        } else {
            text_close(&answer->body);
            (void)refuse(exchange, 503, "overloaded", reason_of_shortage);
        }
    }
    atomic_store(&exchange->entry->due_us, now_us + HTTP_WRITE_DEADLINE_US);
}

/* The library frees the body, so that the exchange may end first. Constant bytes are sent from where they are. */
static struct MHD_Response *hold_body(struct http_answer *answer)
{
    if (answer->constant != NULL) {
        return MHD_create_response_from_buffer(answer->constant_length, (void *)(uintptr_t)answer->constant,
                                               MHD_RESPMEM_PERSISTENT);
    }
    char *body = answer->body.data;
    struct MHD_Response *response = body == NULL
                                        ? MHD_create_response_from_buffer(0, (char *)"", MHD_RESPMEM_PERSISTENT)
                                        : MHD_create_response_from_buffer(answer->body.length, body, MHD_RESPMEM_MUST_FREE);
    if (response != NULL) {
        answer->body = (struct text){.max = answer->body.max};
    }
    return response;
}

static ssize_t write_stream(void *context, uint64_t position, char *to, size_t most)
{
    (void)position;
    return stream_write(context, to, most);
}

static void close_stream(void *context)
{
    stream_close(context);
}

static void suspend_connection(void *connection)
{
    MHD_suspend_connection(connection);
}

static void resume_connection(void *connection)
{
    MHD_resume_connection(connection);
}

/* The library closes the stream with the answer, which lives as long as the connection or less. The stream is in its hub
 * already: if its daemon is retired after the caller has looked, stream_hub_cut() ends it. */
static struct MHD_Response *begin_stream(struct exchange *exchange)
{
    struct stream *stream = exchange->answer.stream;
    exchange->answer.stream = NULL;
    stream_begin(stream, &(struct stream_connection){.connection = exchange->connection,
                                                     .due_us = &exchange->entry->due_us,
                                                     .is_retired = exchange->ends_connection,
                                                     .suspend = suspend_connection,
                                                     .resume = resume_connection});
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, write_stream, stream, close_stream);
    if (response == NULL) {
        stream_close(stream);
    }
    return response;
}

enum MHD_Result exchange_send(struct exchange *exchange)
{
    struct http_answer *answer = &exchange->answer;
    const struct http_route *route = exchange->request.route;
    if (answer->status >= 400 && route != NULL && route->explain != NULL && exchange->api->has_dashboard) {
        route->explain(&exchange->request, answer);
    }
    hold_answer(exchange);
    bool is_stream = answer->stream != NULL;
    bool has_body = answer->body.length > 0 || answer->constant != NULL || is_stream ||
                    (exchange->request.is_head && answer->status == 200);
    struct MHD_Response *response = is_stream ? begin_stream(exchange) : hold_body(answer);
    if (response == NULL) {
        return MHD_NO;
    }
    char retry_after[16] = "1";
    if (answer->retry_after_s > 0) {
        (void)snprintf(retry_after, sizeof retry_after, "%d", answer->retry_after_s);
    }
    const char *no_referrer = answer->policy != NULL ? "no-referrer" : NULL;
    const char *policy = answer->policy != NULL ? answer->policy : HTTP_POLICY_OF_DATA;
    bool is_later = answer->status == 503 || answer->status == 429;
    const char *const fields[][2] = {{"Content-Type", has_body ? answer->type : NULL},
                                     {"Content-Encoding", answer->encoding},
                                     {"Vary", answer->keeping != NULL ? "Accept, Accept-Encoding" : NULL},
                                     {"Cache-Control", answer->keeping != NULL ? answer->keeping : "no-store"},
                                     {"X-Content-Type-Options", "nosniff"},
                                     {"Content-Security-Policy", policy},
                                     {"Weir-Request-Id", exchange->request.id},
                                     {"Referrer-Policy", answer->referrer != NULL ? answer->referrer : no_referrer},
                                     {"Set-Cookie", answer->cookie},
                                     {"Set-Cookie", answer->cookie_2},
                                     {"Location", answer->location},
                                     {"Link", answer->link},
                                     {"ETag", answer->etag},
                                     {"Allow", answer->allow},
                                     {"X-Accel-Buffering", is_stream ? "no" : NULL},
                                     {"WWW-Authenticate", answer->status == 401 ? "Bearer" : NULL},
                                     {"Retry-After", is_later ? retry_after : NULL},
                                     {"Connection", exchange->ends_connection ? "close" : NULL}};
    enum MHD_Result added = MHD_YES;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && added == MHD_YES; i++) {
        added = add_answer_field(response, fields[i][0], fields[i][1]);
    }
    if (added == MHD_YES) {
        added = MHD_queue_response(exchange->connection, (unsigned)answer->status, response);
    }
    MHD_destroy_response(response);
    if (is_stream) { /* no handler reads the request any more, and the stream may be open for days */
        arena_close(&exchange->request.arena);
    }
    return added;
}

enum MHD_Result exchange_refuse(struct exchange *exchange, int status, const char *code, const char *reason)
{
    (void)refuse(exchange, status, code, reason);
    return exchange_send(exchange);
}
