/* Reads of a request, and the two kinds of answers: JSON and problems.
 *
 * A number or switch of the query that is not there has its default. One that is there must be right, because a value
 * that was taken for another one acts on the wrong rows. An answer for which there is no memory keeps its status when
 * that is a refusal. A success becomes 503, so that no client takes an empty body for a result. */
#include "server/request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/traceparent.h"
#include "server/access.h"
#include "server/command_routes.h"
#include "server/problem_table.h"
#include "server/route.h"

/* An answer has one buffer for its head, so a very long filter gets no link. */
enum { LINK_BYTES_MAX = 4096, HINT_BYTES_MAX = 160 };

const char *http_field_name(enum http_field field)
{
    static const char *const names[] = {
#define HTTP_FIELD_NAME(id, name) name,
        HTTP_FIELD_LIST(HTTP_FIELD_NAME)
#undef HTTP_FIELD_NAME
    };
    INVARIANT((size_t)field < HTTP_FIELDS);
    return names[field];
}

const char *http_field_joint(enum http_field field)
{
    INVARIANT((size_t)field < HTTP_FIELDS);
    bool is_list =
        field == FIELD_ACCEPT || field == FIELD_ACCEPT_ENCODING || field == FIELD_SESSION || field == FIELD_USER_AGENT;
    return field == FIELD_COOKIE ? "; " : is_list ? ", " : NULL;
}

const char *request_value(const struct http_request *request, const char *name)
{
    const char *found = NULL;
    size_t i = 0;
    for (const char *at = strchr(request->route->path, '{'); at != NULL; at = strchr(at + 1, '{'), i++) {
        size_t length = strcspn(at + 1, "}");
        if (length == strlen(name) && memcmp(at + 1, name, length) == 0) {
            found = request->values[i];
        }
    }
    INVARIANT(found != NULL); /* the route has the placeholder */
    return found;
}

const char *request_argument(const struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->target.argument_count; i++) {
        if (strcmp(request->target.arguments[i].name, name) == 0) {
            return request->target.arguments[i].value;
        }
    }
    return NULL;
}

enum weir_status request_switch(const struct http_request *request, const char *name, bool *ret_is_on,
                                struct weir_error *error)
{
    const char *value = request_argument(request, name);
    bool is_on = value != NULL && (value[0] == '\0' || strcmp(value, "true") == 0);
    if (value != NULL && !is_on && strcmp(value, "false") != 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s is true or false, not \"%s\"", name, value);
    }
    *ret_is_on = is_on;
    return WEIR_OK;
}

/* The field is a quoted string in the draft of the IETF (RFC 9651, section 3.3.3). A key without quotation marks is the
 * same one. */
enum weir_status request_key(struct http_request *request, const char **ret_key, struct weir_error *error)
{
    INVARIANT(request != NULL && ret_key != NULL);
    const char *field = request->fields[FIELD_IDEMPOTENCY_KEY];
    *ret_key = field;
    if (field == NULL || field[0] != '"') {
        return WEIR_OK;
    }
    size_t length = 0;
    const char *at = field + 1;
    char *text = arena_allocate(&request->arena, strlen(field));
    if (text == NULL) {
        return error_out_of_memory(error);
    }
    for (; at[0] != '\0' && at[0] != '"'; at++) {
        bool is_escape = at[0] == '\\' && (at[1] == '"' || at[1] == '\\');
        if (at[0] == '\\' && !is_escape) {
            break;
        }
        at += is_escape;
        text[length++] = at[0];
    }
    if (strcmp(at, "\"") != 0) {
        error_set(error, WEIR_INVALID_ARGUMENT,
                  "the field Idempotency-Key begins with a quotation mark and is no quoted string");
        error_hint(error, "send the key without quotation marks, or as \"KEY\" with \\\" and \\\\ for those within it");
        return WEIR_INVALID_ARGUMENT;
    }
    text[length] = '\0';
    *ret_key = text;
    return WEIR_OK;
}

const char *request_traceparent(const struct http_request *request)
{
    INVARIANT(request != NULL);
    struct trace_context context;
    const char *field = request->fields[FIELD_TRACEPARENT];
    return field != NULL && traceparent_parse(field, &context) ? field : NULL;
}

enum weir_status request_refuse_key(const struct http_request *request, const char *hint, struct weir_error *error)
{
    INVARIANT(request != NULL && hint != NULL);
    if (request->fields[FIELD_IDEMPOTENCY_KEY] == NULL) {
        return WEIR_OK;
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "this path keeps no Idempotency-Key: a repeated request would act again");
    error_hint(error, "%s", hint);
    return WEIR_INVALID_ARGUMENT;
}

enum weir_status request_number(const struct http_request *request, const char *name, int64_t least, int64_t most,
                                int64_t otherwise, int64_t *ret_number, struct weir_error *error)
{
    const char *value = request_argument(request, name);
    char *end = NULL;
    errno = 0;
    long long number = value == NULL ? otherwise : strtoll(value, &end, 10);
    bool is_number = value == NULL || (end != value && *end == '\0' && errno == 0 && value[0] != ' ' && value[0] != '+');
    if (!is_number || (value != NULL && (number < least || number > most))) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s is a whole number from %" PRId64 " to %" PRId64 ", not \"%s\"",
                         name, least, most, value);
    }
    *ret_number = number;
    return WEIR_OK;
}

/* A number without a unit is refused: seconds and milliseconds are mistaken for each other too easily. */
enum weir_status request_duration(const struct http_request *request, const char *name, int64_t most_us,
                                  int64_t otherwise_us, int64_t *ret_duration_us, struct weir_error *error)
{
    const char *value = request_argument(request, name);
    int64_t duration_us = otherwise_us;
    if (value != NULL) {
        enum weir_status status = duration_parse(value, &duration_us, error);
        if (status != WEIR_OK) {
            error_prefix(error, "%s", name);
            return status;
        }
    }
    if (duration_us < 0 || duration_us > most_us) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s is at most %" PRId64 "s, not \"%s\"", name,
                         most_us / MICROSECONDS_PER_SECOND, value);
    }
    *ret_duration_us = duration_us;
    return WEIR_OK;
}

enum weir_status request_object(const struct http_request *request, json_t **ret_object, struct weir_error *error)
{
    json_t *object = NULL;
    if (request->body.length == 0) {
        object = json_object();
        *ret_object = object;
        return object != NULL ? WEIR_OK : error_out_of_memory(error);
    }
    enum weir_status status = json_read(request->body.data, request->body.length, &object, error);
    if (status == WEIR_OK && !json_is_object(object)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the body must be a JSON object, not %s", json_type_name(object));
        json_decref(object);
    }
    if (status == WEIR_OK) {
        *ret_object = object;
    }
    return status;
}

enum weir_status request_check_keys(json_t *object, const char *const *keys, const char **ret_key, struct weir_error *error)
{
    const char *key;
    json_t *value;
    size_t count = 0;
    while (keys[count] != NULL) {
        count++;
    }
    json_object_foreach(object, key, value)
    {
        bool is_known = false;
        for (size_t i = 0; i < count && !is_known; i++) {
            is_known = strcmp(key, keys[i]) == 0;
        }
        if (!is_known) {
            const char *nearest = text_nearest(key, keys, count);
            *ret_key = key;
            error_set(error, WEIR_INVALID_ARGUMENT, "unknown key \"%s\"", key);
            if (nearest != NULL) {
                error_hint(error, "did you mean \"%s\"?", nearest);
            }
            return WEIR_INVALID_ARGUMENT;
        }
    }
    return WEIR_OK;
}

/* --- answers --- */

/* The phrases of RFC 9110 and 6585.
 *
 * The title is the phrase of the status, so that a person who sees the body alone knows what it is. */
const char *http_status_title(int status)
{
    static const struct {
        int status;
        const char *title;
    } titles[] = {{400, "Bad Request"},
                  {401, "Unauthorized"},
                  {403, "Forbidden"},
                  {404, "Not Found"},
                  {405, "Method Not Allowed"},
                  {408, "Request Timeout"},
                  {409, "Conflict"},
                  {411, "Length Required"},
                  {412, "Precondition Failed"},
                  {413, "Content Too Large"},
                  {414, "URI Too Long"},
                  {415, "Unsupported Media Type"},
                  {421, "Misdirected Request"},
                  {422, "Unprocessable Content"},
                  {429, "Too Many Requests"},
                  {431, "Request Header Fields Too Large"},
                  {503, "Service Unavailable"},
                  {504, "Gateway Timeout"},
                  {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
        if (titles[i].status == status) {
            return titles[i].title;
        }
    }
    return "Internal Server Error";
}

/* Takes the value over. An answer that does not fit in memory has the status alone. */
static void write_body(struct http_answer *answer, json_t *value)
{
    text_clear(&answer->body);
    if (value == NULL || json_write(value, &answer->body, NULL) != WEIR_OK || text_add(&answer->body, "\n", 1) != WEIR_OK) {
        text_clear(&answer->body);
        answer->status = answer->status < 400 ? 503 : answer->status;
    }
    json_decref(value);
}

void respond_json(struct http_answer *answer, int status, json_t *value)
{
    INVARIANT(answer != NULL && status >= 200);
    answer->status = status;
    answer->type = "application/json";
    write_body(answer, value);
}

/* The target of the request, with another cursor. */
static enum weir_status write_next_link(const struct request_target *target, const char *cursor, struct text *link)
{
    enum weir_status status = text_add(link, "<", 1);
    for (size_t i = 0; i < target->segment_count && status == WEIR_OK; i++) {
        const char *segment = target->segments[i];
        status = text_add(link, "/", 1);
        status = status == WEIR_OK ? text_add_url_value(link, segment, strlen(segment)) : status;
    }
    char mark = '?';
    for (size_t i = 0; i < target->argument_count && status == WEIR_OK; i++) {
        const struct target_argument *argument = &target->arguments[i];
        if (strcmp(argument->name, "cursor") == 0) {
            continue;
        }
        status = text_format(link, "%c%s=", mark, argument->name);
        status = status == WEIR_OK ? text_add_url_value(link, argument->value, strlen(argument->value)) : status;
        mark = '&';
    }
    status = status == WEIR_OK ? text_format(link, "%ccursor=", mark) : status;
    status = status == WEIR_OK ? text_add_url_value(link, cursor, strlen(cursor)) : status;
    return status == WEIR_OK ? text_add_string(link, ">; rel=\"next\"") : status;
}

/* Without room for the field the answer lacks it: the body has the cursor. The names of the arguments are those of the
 * route. */
void respond_page(struct http_request *request, struct http_answer *answer, json_t *page)
{
    INVARIANT(request != NULL && answer != NULL);
    const char *cursor = json_string_value(json_object_get(page, "next_cursor"));
    if (cursor != NULL) {
        struct text link = {.max = LINK_BYTES_MAX};
        if (write_next_link(&request->target, cursor, &link) == WEIR_OK) {
            answer->link = arena_copy_string(&request->arena, link.data);
        }
        text_close(&link);
    }
    respond_json(answer, 200, page);
}

/* The members that every problem has. `type` is a path of this server, so that a reader finds the page of the code.
 * NULL: no memory. */
static json_t *make_problem(const struct http_request *request, int status, const char *code, const char *detail,
                            const char *hint)
{
    json_t *problem =
        json_pack("{s:s+, s:s, s:i, s:s, s:s, s:s}", "type", "/docs/problems/", code, "title", http_status_title(status),
                  "status", status, "code", code, "detail", detail, "request_id", request->id);
    if (problem != NULL) {
        (void)json_object_set_new(problem, "detail", command_routes_json(request, detail));
    }
    if (problem != NULL && hint != NULL && hint[0] != '\0') {
        (void)json_object_set_new(problem, "hint", command_routes_json(request, hint));
    }
    return problem;
}

void respond_problem(const struct http_request *request, struct http_answer *answer, int status, const char *code,
                     const char *detail, const char *hint, const char *pointer)
{
    INVARIANT(answer != NULL && status >= 400 && code != NULL && detail != NULL);
    answer->status = status;
    answer->type = "application/problem+json";
    answer->encoding = NULL; /* of the answer that it replaces */
    answer->keeping = NULL;
    json_t *problem = make_problem(request, status, code, detail, hint);
    if (problem != NULL && pointer != NULL) {
        (void)json_object_set_new(problem, "errors", json_pack("[{s:s, s:s}]", "pointer", pointer, "detail", detail));
    }
    write_body(answer, problem);
}

void respond_no_path(const struct http_request *request, struct http_answer *answer)
{
    char hint[HINT_BYTES_MAX];
    const char *nearest = route_nearest_path(request);
    (void)snprintf(hint, sizeof hint, "%s%s%sGET /docs lists the paths, and /openapi.json describes them",
                   nearest != NULL ? "did you mean " : "", nearest != NULL ? nearest : "", nearest != NULL ? "? " : "");
    respond_problem(request, answer, 404, "not_found", "there is nothing at this path", hint, NULL);
}

/* A message about the store has its address, which is for operators alone. */
static bool is_of_operator(const struct http_request *request)
{
    return request->principal != NULL ? request->principal->has_all_workspaces : request->is_of_machine;
}

void respond_error(const struct http_request *request, struct http_answer *answer, const struct weir_error *error,
                   const char *pointer)
{
    INVARIANT(error != NULL && error->status != WEIR_OK);
    const char *code = weir_status_name(error->status);
    const struct problem_kind *kind = problem_find(code);
    bool hides = weir_status_http(error->status) == 503 && !is_of_operator(request) && kind != NULL;
    respond_problem(request, answer, weir_status_http(error->status), code, hides ? kind->meaning : error->message,
                    hides ? NULL : error->hint, pointer);
}

void respond_refusal(const struct http_request *request, struct http_answer *answer, const struct weir_error *error,
                     json_t *members)
{
    INVARIANT(error != NULL && error->status != WEIR_OK);
    answer->status = weir_status_http(error->status);
    answer->type = "application/problem+json";
    json_t *problem = make_problem(request, answer->status, weir_status_name(error->status), error->message, error->hint);
    if (members != NULL) {
        (void)json_object_update_missing(problem, members);
        json_decref(members);
    }
    write_body(answer, problem);
}

/* A JSON pointer (RFC 6901) escapes two characters. */
static const char *pointer_to(struct arena *arena, const char *key)
{
    char *pointer = arena_allocate(arena, 2 * strlen(key) + 2);
    char *to = pointer;
    if (pointer == NULL) {
        return NULL;
    }
    *to++ = '/';
    for (const char *at = key; *at != '\0'; at++) {
        if (*at == '~' || *at == '/') {
            *to++ = '~';
            *to++ = *at == '~' ? '0' : '1';
        } else {
            *to++ = *at;
        }
    }
    return pointer;
}

void respond_body_error(struct http_request *request, struct http_answer *answer, const struct weir_error *error,
                        const char *key)
{
    respond_error(request, answer, error, key == NULL ? NULL : pointer_to(&request->arena, key));
}
