/* One operation for each row of the table of routes:
 *
 *   1. the placeholders of the path, the arguments of the query and the fields of the row are its parameters;
 *   2. its bodies are those of the row, all of the row's schema;
 *   3. its answers are the one of success, and `default`, which is a problem: each status of an error has the same shape.
 *
 * A part for which there is no memory makes the whole NULL: half a description would be believed. */
#include "server/openapi.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "openapi_schemas.h"
#include "server/problem_table.h"
#include "server/route.h"
#include "store/filter.h"
#include "weir/weir.h"

static json_t *reference_to(const char *schema)
{
    return json_pack("{s:s+}", "$ref", "#/components/schemas/", schema);
}

/* Names of placeholders are texts; those of the query, too, because the server reads them as such. */
static int openapi_add_parameter(json_t *parameters, const char *name, const char *in, const char *help)
{
    return json_array_append_new(parameters,
                                 json_pack("{s:s, s:s, s:b, s:s*, s:{s:s}}", "name", name, "in", in, "required",
                                           strcmp(in, "path") == 0, "description", help, "schema", "type", "string"));
}

/* The keys of a filter. Those of labels have names that the document cannot list, so they are one object: its style is
 * `label[NAME]=VALUE`, which request_target_read() takes for `label.NAME`. */
static int add_filter_parameters(json_t *parameters)
{
    int failed = 0;
    for (size_t i = 0; filter_key(i) != NULL && failed == 0; i++) {
        failed = openapi_add_parameter(parameters, filter_key(i), "query", "a key of a filter");
    }
    return failed != 0
               ? failed
               : json_array_append_new(parameters, json_pack("{s:s, s:s, s:b, s:s, s:s, s:b, s:{s:s, s:{s:s}}}", "name",
                                                             "label", "in", "query", "required", 0, "description",
                                                             "labels that an execution has, also as label.NAME", "style",
                                                             "deepObject", "explode", 1, "schema", "type", "object",
                                                             "additionalProperties", "type", "string"));
}

/* The fields of the head that mean more on some routes than on others. */
static const struct {
    enum http_field field;
    const char *help;
} fields_described[] = {
    {FIELD_IDEMPOTENCY_KEY, "a repeated request with this key has the effect of the first one"},
    {FIELD_IF_MATCH, "refuse the act with 412 if the execution has another ETag"},
    {FIELD_IF_NONE_MATCH, "answer 304 if nothing has changed since the answer with this ETag"},
    {FIELD_LAST_EVENT_ID, "go on behind the entry with this id"},
    {FIELD_TRACEPARENT, "the W3C trace context that the execution belongs to"},
    {FIELD_REASON, "why, for the record of acts"},
};

/* A change by an operator or administrator goes on record with its reason. */
static bool takes_field(const struct http_route *route, enum http_field field)
{
    bool is_act = strcmp(route->method, "GET") != 0 && (route->scope == SCOPE_OPERATE || route->scope == SCOPE_ADMIN);
    return (route->fields & ROUTE_FIELD(field)) != 0 || (field == FIELD_REASON && is_act);
}

static int add_field_parameters(json_t *parameters, const struct http_route *route)
{
    int failed = 0;
    for (size_t i = 0; i < sizeof fields_described / sizeof fields_described[0] && failed == 0; i++) {
        if (takes_field(route, fields_described[i].field)) {
            failed = openapi_add_parameter(parameters, http_field_name(fields_described[i].field), "header",
                                           fields_described[i].help);
        }
    }
    return failed;
}

static json_t *parameters_of(const struct http_route *route)
{
    json_t *parameters = json_array();
    int failed = parameters == NULL ? -1 : 0;
    for (const char *at = strchr(route->path, '{'); at != NULL && failed == 0; at = strchr(at + 1, '{')) {
        char name[64];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "}"), at + 1);
        failed = openapi_add_parameter(parameters, name, "path", NULL);
    }
    for (size_t i = 0; i < ROUTE_ARGUMENTS_MAX && route->arguments[i].name != NULL && failed == 0; i++) {
        failed = openapi_add_parameter(parameters, route->arguments[i].name, "query", route->arguments[i].help);
    }
    if (route->takes_filter && failed == 0) {
        failed = add_filter_parameters(parameters);
    }
    failed = failed != 0 ? failed : add_field_parameters(parameters, route);
    if (failed != 0) {
        json_decref(parameters);
        return NULL;
    }
    return parameters;
}

/* The kinds of bodies of the route, each with its media type. YAML and lines are described as text. */
static json_t *body_of(const struct http_route *route)
{
    json_t *content = json_object();
    int failed = content == NULL ? -1 : 0;
    if (failed == 0 && (route->bodies & BODY_JSON) != 0) {
        json_t *schema = route->body_schema == NULL ? json_object() : reference_to(route->body_schema);
        failed = json_object_set_new(content, "application/json", json_pack("{s:o}", "schema", schema));
    }
    if (failed == 0 && (route->bodies & BODY_NDJSON) != 0) {
        failed = json_object_set_new(content, "application/x-ndjson", json_pack("{s:{s:s}}", "schema", "type", "string"));
    }
    if (failed == 0 && (route->bodies & BODY_YAML) != 0) {
        failed = json_object_set_new(content, "application/yaml", json_pack("{s:{s:s}}", "schema", "type", "string"));
    }
    if (failed == 0 && (route->bodies & BODY_FORM) != 0) {
        failed = json_object_set_new(content, "application/x-www-form-urlencoded",
                                     json_pack("{s:{s:s}}", "schema", "type", "object"));
    }
    if (failed != 0) {
        json_decref(content);
        return NULL;
    }
    return json_pack("{s:o}", "content", content);
}

/* Each type of the list, "text/css, text/html", with the schema of the route. */
static json_t *content_of(const struct http_route *route)
{
    const char *type = route->answer_type != NULL ? route->answer_type : "application/json";
    json_t *content = json_object();
    int failed = content == NULL ? -1 : 0;
    while (*type != '\0' && failed == 0) {
        char name[64];
        size_t length = strcspn(type, ",");
        json_t *schema = route->answer_schema == NULL ? json_object() : reference_to(route->answer_schema);
        (void)snprintf(name, sizeof name, "%.*s", (int)length, type);
        failed = json_object_set_new(content, name, json_pack("{s:o}", "schema", schema));
        type += length;
        type += strspn(type, ", ");
    }
    if (failed != 0) {
        json_decref(content);
        return NULL;
    }
    return content;
}

static json_t *describe_field(const char *help)
{
    return json_pack("{s:s, s:{s:s}}", "description", help, "schema", "type", "string");
}

/* The fields of an answer of success; an empty object when there is none to describe. */
static json_t *answer_fields_of(const struct http_route *route)
{
    json_t *fields = json_object();
    bool has_pages = false;
    int failed = fields == NULL ? -1 : 0;
    for (size_t i = 0; i < ROUTE_ARGUMENTS_MAX && route->arguments[i].name != NULL; i++) {
        has_pages = has_pages || strcmp(route->arguments[i].name, "cursor") == 0;
    }
    if (failed == 0 && (route->fields & ROUTE_FIELD(FIELD_IF_NONE_MATCH)) != 0) {
        failed = json_object_set_new(fields, "ETag", describe_field("names the state that the answer shows"));
    }
    if (failed == 0 && has_pages) {
        failed = json_object_set_new(fields, "Link", describe_field("with rel=next, the address of the next page"));
    }
    if (failed == 0 && route->gives_location) {
        failed = json_object_set_new(fields, "Location", describe_field("the path at which the rest is read"));
    }
    if (failed != 0) {
        json_decref(fields);
        return NULL;
    }
    return fields;
}

/* A page, or a route that explains its refusals, answers them to people, unless the dashboard is turned off. A form leads
 * to another page. */
static json_t *answers_of(const struct http_route *route)
{
    bool is_page = route->explain != NULL || (route->answer_type != NULL && strcmp(route->answer_type, "text/html") == 0);
    json_t *page = is_page ? json_object() : NULL;
    if (is_page && page == NULL) {
        return NULL;
    }
    json_t *answers = json_pack("{s:{s:s, s:{s:o}, s:{s:{s:o}, s:o*}}}", "default", "description", "a problem (RFC 9457)",
                                "headers", "Retry-After", describe_field("of 429 and 503: seconds"), "content",
                                "application/problem+json", "schema", reference_to("Problem"), "text/html", page);
    json_t *done = (route->bodies & BODY_FORM) != 0
                       ? json_pack("{s:s}", "description", "done; the next page is in the field Location")
                       : json_pack("{s:s, s:o, s:o}", "description", "done, or taken", "headers", answer_fields_of(route),
                                   "content", content_of(route));
    if (json_object_set_new(answers, (route->bodies & BODY_FORM) != 0 ? "303" : "2XX", done) != 0) {
        json_decref(answers);
        return NULL;
    }
    if ((route->fields & ROUTE_FIELD(FIELD_IF_NONE_MATCH)) != 0 &&
        json_object_set_new(answers, "304", json_pack("{s:s}", "description", "nothing has changed since")) != 0) {
        json_decref(answers);
        return NULL;
    }
    return answers;
}

/* The first word of the path behind /v1, by which generated clients and documents group the operations. */
static json_t *tag_of(const struct http_route *route)
{
    const char *word = strncmp(route->path, "/v1/", 4) == 0 ? route->path + 4 : "server";
    return json_stringn(word, strcspn(word, "/:"));
}

static json_t *operation_of(const struct http_route *route)
{
    json_t *operation = json_pack("{s:s, s:s, s:[o], s:s, s:o, s:o}", "operationId", route->operation, "summary",
                                  route->summary, "tags", tag_of(route), "x-role", route_scope_name(route->scope),
                                  "parameters", parameters_of(route), "responses", answers_of(route));
    if (operation != NULL && route->bodies != BODY_NONE &&
        json_object_set_new(operation, "requestBody", body_of(route)) != 0) {
        json_decref(operation);
        return NULL;
    }
    if (operation != NULL && route->scope == SCOPE_OPEN && json_object_set_new(operation, "security", json_array()) != 0) {
        json_decref(operation);
        return NULL;
    }
    return operation;
}

/* Methods of one path stand together. */
static json_t *paths_of_table(void)
{
    size_t count = 0;
    const struct http_route *routes = route_table(&count);
    json_t *paths = json_object();
    for (size_t i = 0; i < count && paths != NULL; i++) {
        char method[16];
        size_t length = strlen(routes[i].method);
        INVARIANT(length < sizeof method);
        for (size_t at = 0; at <= length; at++) {
            char c = routes[i].method[at];
            method[at] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        }
        json_t *path = json_object_get(paths, routes[i].path);
        bool is_lost = path == NULL && json_object_set_new(paths, routes[i].path, path = json_object()) != 0;
        if (is_lost || json_object_set_new(path, method, operation_of(&routes[i])) != 0) {
            json_decref(paths);
            return NULL;
        }
    }
    return paths;
}

/* The schemas of the build, and the closed list of codes. */
static json_t *schemas_of_build(void)
{
    json_t *schemas = json_load_text(openapi_schemas, 0);
    json_t *codes = json_array();
    bool is_whole = schemas != NULL && codes != NULL;
    for (const struct problem_kind *kind = problem_table(); kind->code != NULL && is_whole; kind++) {
        is_whole = json_array_append_new(codes, json_string(kind->code)) == 0;
    }
    json_t *properties = json_object_get(json_object_get(schemas, "Problem"), "properties");
    is_whole =
        is_whole && json_object_set_new(properties, "code", json_pack("{s:s, s:O}", "type", "string", "enum", codes)) == 0;
    json_decref(codes);
    if (!is_whole) {
        json_decref(schemas);
        return NULL;
    }
    return schemas;
}

json_t *openapi_make(void)
{
    return json_pack("{s:s, s:{s:s, s:s, s:s}, s:[{s:[]}], s:o, s:{s:o, s:{s:{s:s, s:s}}}}", "openapi", "3.1.0", "info",
                     "title", "weir", "version", weir_version(), "description",
                     "Durable queue of workflow executions for many workspaces", "security", "token", "paths",
                     paths_of_table(), "components", "schemas", schemas_of_build(), "securitySchemes", "token", "type",
                     "http", "scheme", "bearer");
}
