/* A request of HTTP: the target with its route and arguments, the fields of the head, and the body of an enqueue. The
 * input is
 *
 *     TARGET LF (NAME: VALUE LF)... LF BODY
 *
 * What is accepted has the promised form. */
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "server/request_head.h"
#include "server/request_target.h"
#include "server/route.h"
#include "store/json_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_MAX = 4 * 1024 * 1024 };

/* The same target by each method: a route, or an answer with the methods or the path that are meant. */
static void check_route(const struct request_target *target)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "BREW"};
    struct http_request request = {.target = *target};
    struct weir_error error = {.status = WEIR_OK};
    arena_init(&request.arena, MEMORY_MAX);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        char allow[ROUTE_ALLOW_MAX] = "";
        const char *name = NULL;
        request.route = NULL;
        int status = route_find(&request, methods[i], allow);
        INVARIANT((status == 0) == (request.route != NULL) && (status == 405) == (status != 0 && allow[0] != '\0'));
        if (status == 0 && route_check_arguments(&request, &name, &error) != WEIR_OK) {
            INVARIANT(name != NULL && error.message[0] != '\0');
        }
    }
    const char *nearest = route_nearest_path(&request);
    INVARIANT(nearest == NULL || nearest[0] == '/');
    arena_close(&request.arena);
}

static void check_target(const char *text, struct arena *arena)
{
    struct request_target target;
    if (request_target_read(text, arena, &target) != NULL) {
        return;
    }
    INVARIANT(target.segment_count <= TARGET_SEGMENTS_MAX && target.argument_count <= TARGET_ARGUMENTS_MAX);
    for (size_t i = 0; i < target.segment_count; i++) {
        INVARIANT(text_is_utf8(target.segments[i], strlen(target.segments[i])));
    }
    for (size_t i = 0; i < target.argument_count; i++) {
        INVARIANT(text_is_utf8(target.arguments[i].name, strlen(target.arguments[i].name)));
        INVARIANT(text_is_utf8(target.arguments[i].value, strlen(target.arguments[i].value)));
    }
    check_route(&target);
}

/* The rest of the input behind the head. */
static const char *check_head(const char *at, const char *end)
{
    struct request_head head = {.hosts = 0};
    const char *reason = NULL;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end == NULL ? end : line_end;
        const char *colon = memchr(at, ':', (size_t)(line_end - at));
        const char *line = at;
        at = line_end < end ? line_end + 1 : end;
        if (line == line_end) {
            break;
        }
        size_t name_length = (size_t)((colon == NULL ? line_end : colon) - line);
        const char *value = colon == NULL ? NULL : colon + 1;
        request_head_add(&head, line, name_length, value, value == NULL ? 0 : (size_t)(line_end - value));
    }
    int status = request_head_check(&head, "HTTP/1.1", &reason);
    INVARIANT(status == 0 ? head.hosts == 1 && head.content_lengths <= 1 && head.transfer_encodings == 0
                          : status >= 400 && reason != NULL);
    INVARIANT(strlen(head.host) < sizeof head.host);
    (void)request_head_is_local(&head);
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct weir_error error = {.status = WEIR_OK};
    struct enqueue_request request = {.workspace = "acme"};
    const char *text = (const char *)data;
    const char *line_end = size == 0 ? NULL : memchr(text, '\n', size);
    size_t target_length = line_end == NULL ? size : (size_t)(line_end - text);
    arena_init(&arena, MEMORY_MAX);
    char *target = arena_copy(&arena, text, target_length);
    if (target != NULL) {
        check_target(target, &arena);
    }
    const char *body = line_end == NULL ? text + size : check_head(line_end + 1, text + size);
    if (json_line_read(body, (size_t)(text + size - body), 1000000, &arena, &request, NULL, &error) == WEIR_OK) {
        INVARIANT(request.workspace[0] != '\0' && request.workflow[0] != '\0');
    } else {
        INVARIANT(error.message[0] != '\0');
    }
    arena_close(&arena);
    return 0;
}
