/* Documents that the server makes of its own tables: for programs /openapi.json, for people /docs and a page for each
 * problem. They load nothing from elsewhere and have no script. */
#include <string.h>

#include "base/error.h"
#include "server/command_routes.h"
#include "server/openapi.h"
#include "server/problem_table.h"
#include "server/routes/routes.h"
#include "weir/weir.h"

#define PAGE_HEAD                                                                                                          \
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title>"                                   \
    "<meta name=\"viewport\" content=\"width=device-width\"><style>body{font:16px/1.5 sans-serif;margin:2em auto;"         \
    "max-width:70em;padding:0 1em}code{background:#8881}td,th{text-align:left;padding:.2em 1em .2em 0;"                    \
    "vertical-align:top}:root{color-scheme:light dark}</style></head><body><h1>%s</h1>\n"
#define PAGE_END "</body></html>\n"

/* All texts of the pages are constants of the program without characters of markup, but for the paths' braces. */
static void begin_page(struct http_answer *answer)
{
    answer->status = 200;
    answer->type = "text/html; charset=utf-8";
    answer->policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
}

static void refuse_half_page(struct http_request *request, struct http_answer *answer)
{
    text_clear(&answer->body);
    respond_problem(request, answer, 503, "out_of_memory", "there is no memory for the page", NULL, NULL);
}

void answer_openapi(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    (void)store;
    (void)request;
    respond_json(answer, 200, openapi_make());
}

/* A type of a schema: "string", or "integer or null". An object of another schema is only called so. */
static enum weir_status add_type(struct text *page, const json_t *type)
{
    size_t i;
    const json_t *one;
    if (!json_is_array(type)) {
        const char *name = json_string_value(type);
        return text_format(page, " %s", name == NULL ? "object" : name);
    }
    enum weir_status status = WEIR_OK;
    json_array_foreach(type, i, one)
    {
        status = status == WEIR_OK ? text_format(page, "%s%s", i == 0 ? " " : " or ", json_string_value(one)) : status;
    }
    return status;
}

static bool is_required(const json_t *schema, const char *member)
{
    size_t i;
    const json_t *name;
    json_array_foreach(json_object_get(schema, "required"), i, name)
    {
        if (strcmp(json_string_value(name), member) == 0) {
            return true;
        }
    }
    return false;
}

/* The types of the body but for JSON, and the members of the JSON with those that must be there. */
static enum weir_status add_body(struct text *page, const struct http_route *route, const json_t *schemas)
{
    json_t *schema = route->body_schema == NULL ? NULL : json_object_get(schemas, route->body_schema);
    enum weir_status status = WEIR_OK;
    const char *name;
    json_t *member;
    if ((route->bodies & BODY_YAML) != 0) {
        status = text_add_string(page, "application/yaml, or<br>");
    }
    if (status == WEIR_OK && (route->bodies & BODY_NDJSON) != 0) {
        status = text_add_string(page, "application/x-ndjson, or<br>");
    }
    json_object_foreach(json_object_get(schema, "properties"), name, member)
    {
        status = status == WEIR_OK ? text_format(page, "<code>%s</code>", name) : status;
        status = status == WEIR_OK ? add_type(page, json_object_get(member, "type")) : status;
        status = status == WEIR_OK ? text_add_string(page, is_required(schema, name) ? ", required<br>" : "<br>") : status;
    }
    return status;
}

static enum weir_status add_route_row(struct text *page, const struct http_route *route, const json_t *schemas)
{
    enum weir_status status = text_format(page, "<tr><td><code>%s&nbsp;%s</code></td><td>%s</td><td>%s</td><td>",
                                          route->method, route->path, route->summary, route_scope_name(route->scope));
    for (size_t i = 0; i < ROUTE_ARGUMENTS_MAX && route->arguments[i].name != NULL && status == WEIR_OK; i++) {
        status = text_format(page, "<code>%s</code> %s<br>", route->arguments[i].name, route->arguments[i].help);
    }
    if (status == WEIR_OK && route->takes_filter) {
        status = text_add_string(page, "the keys of a filter<br>");
    }
    status = status == WEIR_OK ? text_add_string(page, "</td><td>") : status;
    status = status == WEIR_OK ? add_body(page, route, schemas) : status;
    return status == WEIR_OK ? text_add_string(page, "</td></tr>\n") : status;
}

void answer_docs(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    (void)store;
    size_t count = 0;
    const struct http_route *routes = route_table(&count);
    json_t *api_for_programs = openapi_make();
    const json_t *schemas = json_object_get(json_object_get(api_for_programs, "components"), "schemas");
    begin_page(answer);
    enum weir_status status = schemas == NULL ? WEIR_OUT_OF_MEMORY : WEIR_OK;
    if (status == WEIR_OK) {
        status = text_format(&answer->body, PAGE_HEAD, "HTTP API of weir", "HTTP API of weir");
    }
    if (status == WEIR_OK) {
        status = text_format(&answer->body,
                             "<p>Version %s. For programs: <a href=\"/openapi.json\">/openapi.json</a>. Errors are"
                             " problems: <a href=\"/docs/problems\">/docs/problems</a>.</p>\n<table><tr><th>request</th>"
                             "<th>what it does</th><th>role</th><th>arguments</th><th>body</th></tr>\n",
                             weir_version());
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = add_route_row(&answer->body, &routes[i], schemas);
    }
    json_decref(api_for_programs);
    if (status != WEIR_OK || text_add_string(&answer->body, "</table>" PAGE_END) != WEIR_OK) {
        refuse_half_page(request, answer);
    }
}

void answer_problems(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    (void)store;
    begin_page(answer);
    enum weir_status status = text_format(&answer->body, PAGE_HEAD "<table>\n", "Problems", "Problems");
    for (const struct problem_kind *kind = problem_table(); kind->code != NULL && status == WEIR_OK; kind++) {
        status = text_format(&answer->body,
                             "<tr><td>%d</td><td><a href=\"/docs/problems/%s\"><code>%s</code></a></td><td>%s</td></tr>\n",
                             kind->status, kind->code, kind->code, kind->meaning);
    }
    if (status != WEIR_OK || text_add_string(&answer->body, "</table>" PAGE_END) != WEIR_OK) {
        refuse_half_page(request, answer);
    }
}

/* The `type` of a problem is the path of its page. */
void answer_problem_page(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    (void)store;
    const struct problem_kind *kind = problem_find(request_value(request, "code"));
    if (kind == NULL) {
        respond_problem(request, answer, 404, "not_found", "there is no problem of this code", NULL, NULL);
        return;
    }
    begin_page(answer);
    enum weir_status status = text_format(&answer->body, PAGE_HEAD "<p>Status %d. %s</p><p>", kind->code, kind->code,
                                          kind->status, kind->meaning);
    status = status == WEIR_OK ? command_routes_add(kind->remedy, &answer->body) : status;
    if (status != WEIR_OK ||
        text_add_string(&answer->body, "</p><p><a href=\"/docs/problems\">All problems</a></p>" PAGE_END) != WEIR_OK) {
        refuse_half_page(request, answer);
    }
}
