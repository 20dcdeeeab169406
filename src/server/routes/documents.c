/* Documents that the server makes of its own tables: for programs /openapi.json, for people /docs and a page for each
 * problem. They load nothing from elsewhere and have no script. */
#include <string.h>

#include "base/error.h"
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

static enum weir_status add_route_row(struct text *page, const struct http_route *route)
{
    enum weir_status status = text_format(page, "<tr><td><code>%s&nbsp;%s</code></td><td>%s</td><td>%s</td><td>",
                                          route->method, route->path, route->summary, route_scope_name(route->scope));
    for (size_t i = 0; i < ROUTE_ARGUMENTS_MAX && route->arguments[i].name != NULL && status == WEIR_OK; i++) {
        status = text_format(page, "<code>%s</code> %s<br>", route->arguments[i].name, route->arguments[i].help);
    }
    if (status == WEIR_OK && route->takes_filter) {
        status = text_add_string(page, "the keys of a filter<br>");
    }
    return status == WEIR_OK ? text_add_string(page, "</td></tr>\n") : status;
}

void answer_docs(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    (void)store;
    size_t count = 0;
    const struct http_route *routes = route_table(&count);
    begin_page(answer);
    enum weir_status status = text_format(&answer->body, PAGE_HEAD, "HTTP API of weir", "HTTP API of weir");
    if (status == WEIR_OK) {
        status = text_format(&answer->body,
                             "<p>Version %s. For programs: <a href=\"/openapi.json\">/openapi.json</a>. Errors are"
                             " problems: <a href=\"/docs/problems\">/docs/problems</a>.</p>\n<table><tr><th>request</th>"
                             "<th>what it does</th><th>role</th><th>arguments</th></tr>\n",
                             weir_version());
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = add_route_row(&answer->body, &routes[i]);
    }
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
    if (text_format(&answer->body,
                    PAGE_HEAD "<p>Status %d. %s</p><p>%s</p><p><a href=\"/docs/problems\">All problems"
                              "</a></p>" PAGE_END,
                    kind->code, kind->code, kind->status, kind->meaning, kind->remedy) != WEIR_OK) {
        refuse_half_page(request, answer);
    }
}
