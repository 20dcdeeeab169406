/* The routes of commands, by the table of routes alone.
 *
 *   1. A command in a text stands in backquotes: `weir VERB` or `weir NOUN VERB`, with further words behind it. Or it
 *      stands behind a colon, as in "make it with: weir workspace set acme". Then it ends with a comma, a semicolon, or the
 *      text.
 *   2. Its route is the first row of the table with the longest command that these words begin with.
 *   3. The next word takes the place of the first placeholder of the path, if it can stand in a path. A word like NAME is
 *      itself a placeholder, and a flag is no name.
 */
#include "server/command_routes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "server/route.h"

#define COMMAND_BEGIN "weir "
enum { HINT_TEXT_MAX = 4096, ANSWER_TEXT_MAX = 65536 };

/* The route of the command at `words`, which end at `end`; *ret_rest is behind it. NULL: there is none. */
static const struct http_route *route_of_command(const char *words, const char *end, const char **ret_rest)
{
    size_t count;
    size_t longest = 0;
    const struct http_route *found = NULL;
    const struct http_route *routes = route_table(&count);
    for (size_t i = 0; i < count; i++) {
        size_t length = routes[i].command != NULL ? strlen(routes[i].command) : 0;
        if (length > longest && length <= (size_t)(end - words) && memcmp(words, routes[i].command, length) == 0 &&
            (words[length] == ' ' || words + length == end)) {
            longest = length;
            found = &routes[i];
        }
    }
    *ret_rest = words + longest;
    return found;
}

/* The length of the word at `at`, which may stand in a path; 0 = it is no name, or has bytes that a path escapes. */
static size_t length_of_name(const char *at, const char *end)
{
    size_t length = 0;
    bool is_name = false;
    while (at + length < end && at[length] != ' ') {
        unsigned char byte = (unsigned char)at[length];
        if (byte > 127 || (isalnum(byte) == 0 && strchr("-._~", byte) == NULL)) {
            return 0;
        }
        is_name = is_name || islower(byte) != 0 || isdigit(byte) != 0;
        length++;
    }
    return is_name && at[0] != '-' && at[0] != '.' ? length : 0;
}

/* " (METHOD PATH)" */
static enum weir_status add_command_request(const struct http_route *route, const char *rest, const char *end,
                                            struct text *to)
{
    const char *name = rest < end && *rest == ' ' ? rest + 1 : end;
    size_t length = length_of_name(name, end);
    const char *open = strchr(route->path, '{');
    const char *close = open != NULL ? strchr(open, '}') : NULL;
    if (close == NULL || length == 0) {
        return text_format(to, " (%s %s)", route->method, route->path);
    }
    return text_format(to, " (%s %.*s%.*s%s)", route->method, (int)(open - route->path), route->path, (int)length, name,
                       close + 1);
}

/* The words of the next command at `text` or behind it, and their end; *ret_after is where its request is written. NULL:
 * there is none. */
static const char *next_command_words(const char *text, const char **ret_end, const char **ret_after)
{
    for (const char *at = strstr(text, COMMAND_BEGIN); at != NULL; at = strstr(at + 1, COMMAND_BEGIN)) {
        const char *words = at + strlen(COMMAND_BEGIN);
        bool is_quoted = at > text && at[-1] == '`';
        *ret_end = words + strcspn(words, is_quoted ? "`" : ",;");
        *ret_after = *ret_end + is_quoted;
        if (is_quoted ? **ret_end == '`' : at >= text + 2 && at[-1] == ' ' && at[-2] == ':') {
            return words;
        }
    }
    return NULL;
}

enum weir_status command_routes_add(const char *text, struct text *to)
{
    INVARIANT(text != NULL && to != NULL);
    enum weir_status status = WEIR_OK;
    const char *end;
    const char *after;
    const char *words = strstr(text, "/v1/") == NULL ? next_command_words(text, &end, &after) : NULL;
    while (words != NULL && status == WEIR_OK) {
        const char *rest;
        const struct http_route *route = route_of_command(words, end, &rest);
        status = text_format(to, "%.*s", (int)(after - text), text);
        status = status == WEIR_OK && route != NULL ? add_command_request(route, rest, end, to) : status;
        text = after;
        words = next_command_words(text, &end, &after);
    }
    return status == WEIR_OK ? text_add_string(to, text) : status;
}

static bool is_program_of_weir(const struct http_request *request)
{
    static const char agent[] = "weir/";
    const char *field = request->fields[FIELD_USER_AGENT];
    return field != NULL && strncmp(field, agent, strlen(agent)) == 0;
}

json_t *command_routes_json(const struct http_request *request, const char *text)
{
    INVARIANT(request != NULL);
    struct text whole = {.max = ANSWER_TEXT_MAX};
    if (text == NULL || is_program_of_weir(request) || command_routes_add(text, &whole) != WEIR_OK) {
        text_close(&whole);
        return text != NULL ? json_string(text) : NULL;
    }
    json_t *string = json_string(whole.data != NULL ? whole.data : "");
    text_close(&whole);
    return string;
}

/* --- why --- */

static const char *why_text(const json_t *why, const char *key)
{
    const char *text = json_string_value(json_object_get(why, key));
    return text != NULL ? text : "";
}

/* `key`: the member whose text takes the place of %s. */
struct reason_hint {
    const char *reason; /* of pending_reason, waiting_for or status */
    const char *key;
    const char *hint;
};
static const struct reason_hint reason_hints[] = {
    {"workspace_at_capacity", "workspace",
     "`weir workspace set %s` with max_concurrent, or another plan, gives it more slots"},
    {"workspace_paused", "workspace", "`weir workspace resume %s` lets its executions start"},
    {"queue_paused", NULL,
     "`weir resume` lets executions start; of a paused executor group the argument executor_group names it"},
    {"no_node_in_group", NULL,
     "`weir node list` shows the nodes; a node of the executor group has to be started or resumed"},
    {"no_worker", NULL, "a worker with these handlers runs it: by POST /v1/tasks:claim, or as a program with libweir"},
    {"nodes_full", NULL, "`weir node list` shows the nodes; it starts when one has free capacity"},
    {"no_node_for_engine", NULL, "`weir node list` shows the nodes; a node with its engine has to be started"},
    {"scheduled", "id", "`weir release %s` starts it before its time"},
    {"backing_off", "id", "`weir release %s` starts it before its time"},
    {"approval", "id", "`weir approve %s` or `weir reject %s` decides"},
    {"signal", "id", "`weir signal %s` sends the signal"},
    {"sleep", "id", "`weir wake %s` ends the wait"},
    {"retry", "id", "`weir wake %s` ends the wait"},
    {"FAILED", "id", "`weir retry %s` runs it again; `weir show %s` has its steps"},
    {"CANCELLED", "id", "`weir retry %s` runs it again"},
};

/* A reason that is there decides, then the kind of the wait, then the status. */
static const struct reason_hint *find_reason_hint(const json_t *why)
{
    static const char *const keys[] = {"pending_reason", "waiting_for", "status"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        for (size_t j = 0; j < sizeof reason_hints / sizeof reason_hints[0]; j++) {
            if (strcmp(why_text(why, keys[i]), reason_hints[j].reason) == 0) {
                return &reason_hints[j];
            }
        }
    }
    return NULL;
}

enum weir_status command_routes_add_hint(const struct http_request *request, json_t *why)
{
    INVARIANT(request != NULL && json_is_object(why));
    const struct reason_hint *found = find_reason_hint(why);
    if (found == NULL || is_program_of_weir(request)) {
        return WEIR_OK;
    }
    struct text hint = {.max = HINT_TEXT_MAX};
    const char *rest = found->hint;
    enum weir_status status = WEIR_OK;
    for (const char *at = strstr(rest, "%s"); at != NULL && status == WEIR_OK; at = strstr(rest, "%s")) {
        status = text_format(&hint, "%.*s%s", (int)(at - rest), rest, why_text(why, found->key));
        rest = at + 2;
    }
    status = status == WEIR_OK ? text_add_string(&hint, rest) : status;
    if (status == WEIR_OK && json_object_set_new(why, "hint", command_routes_json(request, hint.data)) != 0) {
        status = WEIR_OUT_OF_MEMORY;
    }
    text_close(&hint);
    return status;
}
