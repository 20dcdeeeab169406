/* Finds the route of a request. A row with a literal segment must stand before one with a placeholder at the same place. */
#include "server/route.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "store/filter.h"

enum { SEGMENT_MAX_BYTES = 32 }; /* of a literal segment of the table, with the NUL */

/* As in `weir token create --role` and in the documents. */
const char *route_scope_name(enum route_scope scope)
{
    static const char *const names[] = {[SCOPE_OPEN] = "open",
                                        [SCOPE_READ] = "read",
                                        [SCOPE_ENQUEUE] = "enqueue",
                                        [SCOPE_OPERATE] = "operate",
                                        [SCOPE_ADMIN] = "admin"};
    INVARIANT((size_t)scope < sizeof names / sizeof names[0]);
    return names[scope];
}

/* Whether the segment of the template fits; a placeholder takes any text, and may be followed by a literal: "{name}:pause".
 */
static bool segment_fits(const char *template, size_t length, const char *segment, const char **values, size_t *count,
                         struct arena *arena)
{
    if (template[0] != '{') {
        return strlen(segment) == length && memcmp(template, segment, length) == 0;
    }
    const char *end = memchr(template, '}', length);
    INVARIANT(end != NULL && *count < ROUTE_VALUES_MAX);
    size_t tail = length - (size_t)(end + 1 - template);
    size_t whole = strlen(segment);
    if (whole <= tail || memcmp(segment + whole - tail, end + 1, tail) != 0) {
        return false;
    }
    values[*count] = tail == 0 ? segment : arena_copy(arena, segment, whole - tail);
    return values[(*count)++] != NULL;
}

/* Whether path and template have the same number of segments, and each fits. */
static bool route_fits(const struct http_route *route, struct http_request *request)
{
    const char *at = route->path + 1;
    const char *values[ROUTE_VALUES_MAX] = {NULL};
    size_t count = 0;
    size_t i = 0;
    for (; *at != '\0' && i < request->target.segment_count; i++) {
        size_t length = strcspn(at, "/");
        if (!segment_fits(at, length, request->target.segments[i], values, &count, &request->arena)) {
            return false;
        }
        at += length + (at[length] == '/');
    }
    if (*at != '\0' || i < request->target.segment_count) {
        return false;
    }
    memcpy(request->values, values, sizeof values);
    return true;
}

/* Two dozen rows are compared in less time than the head takes to be read: no index is needed. */
int route_find(struct http_request *request, const char *method, char *allow)
{
    size_t count = 0;
    const struct http_route *routes = route_table(&count);
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (!route_fits(&routes[i], request)) {
            continue;
        }
        if (strcmp(routes[i].method, wanted) == 0) {
            request->route = &routes[i];
            return 0;
        }
        const char *more = strcmp(routes[i].method, "GET") == 0 ? ", HEAD" : "";
        int written =
            snprintf(allow + used, ROUTE_ALLOW_MAX - used, "%s%s%s", used == 0 ? "" : ", ", routes[i].method, more);
        INVARIANT(written > 0 && (size_t)written < ROUTE_ALLOW_MAX - used);
        used += (size_t)written;
    }
    return used == 0 ? 404 : 405;
}

struct near_path {
    const char *segments[TARGET_SEGMENTS_MAX + 1];
    size_t count;
    bool is_changed; /* it is not the path of the request any more, so it may be that of a route */
};

/* Whether one segment of the route is another one, and is near enough to be the meant one. */
static bool route_is_near(const struct http_route *route, const struct near_path *path)
{
    char literal[SEGMENT_MAX_BYTES];
    const char *candidates[] = {literal};
    const char *at = route->path + 1;
    size_t misspelt = 0;
    size_t i = 0;
    for (; *at != '\0' && i < path->count; i++) {
        const char *segment = path->segments[i];
        size_t length = strcspn(at, "/");
        INVARIANT(length < sizeof literal);
        memcpy(literal, at, length);
        literal[length] = '\0';
        if (literal[0] != '{' && strcmp(literal, segment) != 0) {
            misspelt++;
            if (misspelt > 1 || strlen(segment) >= sizeof literal || text_nearest(segment, candidates, 1) == NULL) {
                return false;
            }
        }
        at += length + (at[length] == '/');
    }
    return *at == '\0' && i == path->count && (misspelt == 1 || path->is_changed);
}

/* Without the slash at its end, and with the version at its begin. */
static void complete_path(struct near_path *path)
{
    while (path->count > 0 && path->segments[path->count - 1][0] == '\0') {
        path->count--;
        path->is_changed = true;
    }
    if (path->count > 0 && strcmp(path->segments[0], "v1") != 0) {
        memmove(path->segments + 1, path->segments, path->count * sizeof path->segments[0]);
        path->segments[0] = "v1";
        path->count++;
        path->is_changed = true;
    }
}

/* Long segments are not compared: a client without a token gets the answer, too, and it must cost little. */
const char *route_nearest_path(const struct http_request *request)
{
    INVARIANT(request != NULL);
    size_t count = 0;
    const struct http_route *routes = route_table(&count);
    struct near_path given = {.count = request->target.segment_count};
    memcpy(given.segments, request->target.segments, given.count * sizeof given.segments[0]);
    struct near_path whole = given;
    complete_path(&whole);
    for (size_t i = 0; i < count; i++) {
        if (route_is_near(&routes[i], &given) || (whole.is_changed && route_is_near(&routes[i], &whole))) {
            return routes[i].path;
        }
    }
    return NULL;
}

/* A GET without an ETag may ignore If-None-Match: nothing is equal to the tag, so the whole answer is right. */
enum weir_status route_check_conditions(const struct http_request *request, struct weir_error *error)
{
    INVARIANT(request != NULL && request->route != NULL);
    static const enum http_field conditions[] = {FIELD_IF_MATCH, FIELD_IF_NONE_MATCH};
    const struct http_route *route = request->route;
    bool is_read = strcmp(route->method, "GET") == 0;
    for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++) {
        enum http_field field = conditions[i];
        bool is_compared = (route->fields & ROUTE_FIELD(field)) != 0 || (is_read && field == FIELD_IF_NONE_MATCH);
        if (request->fields[field] != NULL && !is_compared) {
            error_set(error, WEIR_INVALID_ARGUMENT, "%s %s compares no ETag with the field %s", route->method, route->path,
                      http_field_name(field));
            error_hint(error, "leave the field out; If-Match is for the acts on one execution");
            return WEIR_INVALID_ARGUMENT;
        }
    }
    return WEIR_OK;
}

/* The hint names the nearest argument of the route, and where it takes a filter else the nearest key of that. */
enum weir_status route_check_arguments(const struct http_request *request, const char **ret_name, struct weir_error *error)
{
    const struct http_route *route = request->route;
    const char *names[ROUTE_ARGUMENTS_MAX] = {NULL};
    size_t count = 0;
    while (count < ROUTE_ARGUMENTS_MAX && route->arguments[count].name != NULL) {
        names[count] = route->arguments[count].name;
        count++;
    }
    for (size_t i = 0; i < request->target.argument_count; i++) {
        const char *name = request->target.arguments[i].name;
        bool is_known = route->takes_any || (route->takes_filter && filter_has_key(name));
        for (size_t k = 0; k < count && !is_known; k++) {
            is_known = strcmp(name, names[k]) == 0;
        }
        if (!is_known) {
            const char *nearest = text_nearest(name, names, count);
            *ret_name = name;
            error_set(error, WEIR_INVALID_ARGUMENT, "%s has no argument \"%s\"", route->path, name);
            if (nearest == NULL && route->takes_filter) {
                nearest = filter_nearest_key(name);
            }
            if (nearest != NULL) {
                error_hint(error, "did you mean \"%s\"?", nearest);
            } else {
                error_hint(error, "GET /docs lists the arguments of each path");
            }
            return WEIR_INVALID_ARGUMENT;
        }
    }
    return WEIR_OK;
}
