/* One object for each row of server/route_table.c, in its order. Members without a value are left out. */
#include "cli/verbs/print_routes.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "server/route.h"

bool routes_are_asked(size_t count, const char *const *arguments)
{
    return count == 1 && strcmp(arguments[0], "__routes") == 0;
}

static json_t *route_arguments_json(const struct http_route *route)
{
    json_t *arguments = json_array();
    for (size_t i = 0; i < ROUTE_ARGUMENTS_MAX && route->arguments[i].name != NULL; i++) {
        (void)json_array_append_new(
            arguments, json_pack("{s:s, s:s}", "name", route->arguments[i].name, "help", route->arguments[i].help));
    }
    return arguments;
}

static json_t *bodies_json(const struct http_route *route)
{
    static const struct {
        unsigned kind;
        const char *type;
    } types[] = {{BODY_JSON, "application/json"},
                 {BODY_NDJSON, "application/x-ndjson"},
                 {BODY_YAML, "application/yaml"},
                 {BODY_FORM, "application/x-www-form-urlencoded"}};
    json_t *bodies = json_array();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if ((route->bodies & types[i].kind) != 0) {
            (void)json_array_append_new(bodies, json_string(types[i].type));
        }
    }
    return bodies;
}

/* By the names of enum route_workspace. */
static const char *workspace_name(enum route_workspace workspace)
{
    static const char *const names[] = {
        [WORKSPACE_NONE] = "none",        [WORKSPACE_OF_PATH] = "path",         [WORKSPACE_OF_ID] = "id",
        [WORKSPACE_OF_FILTER] = "filter", [WORKSPACE_OF_SCHEDULE] = "schedule", [WORKSPACE_OF_BODY] = "body",
        [WORKSPACE_ANY] = "any"};
    return names[workspace];
}

int routes_print(void)
{
    size_t count = 0;
    const struct http_route *routes = route_table(&count);
    json_t *rows = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct http_route *route = &routes[i];
        json_t *row = json_pack(
            "{s:s, s:s, s:s, s:s, s:s, s:s, s:s*, s:o, s:I, s:b, s:o, s:s*, s:s*}", "method", route->method, "path",
            route->path, "operation", route->operation, "scope", route_scope_name(route->scope), "workspace",
            workspace_name(route->workspace), "summary", route->summary, "command", route->command, "bodies",
            bodies_json(route), "body_max", (json_int_t)route->body_max, "takes_filter", route->takes_filter, "arguments",
            route_arguments_json(route), "body_schema", route->body_schema, "answer_schema", route->answer_schema);
        if (json_array_append_new(rows, row) != 0) {
            json_decref(rows);
            return 1;
        }
    }
    int code = rows == NULL || json_dumpf(rows, stdout, JSON_INDENT(1)) != 0 || fputc('\n', stdout) == EOF ? 1 : 0;
    json_decref(rows);
    return code;
}
