/* Cuts and decodes in a copy in the arena: a decoded text is never longer than its source.
 *
 * "." and ".." stay what they are, names that no route has. An empty segment, as of "//", is one as well, so two paths that
 * differ are two resources. */
#include "server/request_target.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* In place. In a query a plus is a blank. The reason of a refusal, or NULL. */
static const char *decode(char *text, char blank)
{
    char *to = text;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at != '%') {
            *to++ = (char)(*at == blank ? ' ' : *at);
            continue;
        }
        int high = digit_of(at[1]);
        int low = high < 0 ? -1 : digit_of(at[2]);
        if (low < 0) {
            return "a % in the target is not followed by two hexadecimal digits";
        }
        if (high == 0 && low == 0) {
            return "the target contains a NUL";
        }
        *to++ = (char)(high * 16 + low);
        at += 2;
    }
    *to = '\0';
    return text_is_utf8(text, strlen(text)) ? NULL : "the target is no UTF-8";
}

static const char *read_target_path(char *path, struct request_target *target)
{
    bool is_last = path[1] == '\0';
    for (char *at = path + 1; !is_last;) {
        char *end = strchrnul(at, '/');
        is_last = *end == '\0';
        *end = '\0';
        if (target->segment_count == TARGET_SEGMENTS_MAX) {
            return "the path has too many segments";
        }
        const char *reason = decode(at, '\0');
        if (reason != NULL) {
            return reason;
        }
        target->segments[target->segment_count++] = at;
        at = end + 1;
    }
    return NULL;
}

/* "label[tier]", as OpenAPI spells a member of an object, is "label.tier" here: one name for both. */
static void spell_member(char *name)
{
    char *bracket = strchr(name, '[');
    size_t length = strlen(name);
    if (bracket != NULL && bracket != name && length > 0 && name[length - 1] == ']' && bracket + 2 < name + length) {
        *bracket = '.';
        name[length - 1] = '\0';
    }
}

static const char *read_target_query(char *query, struct request_target *target)
{
    for (char *end = query; query != NULL && *query != '\0'; query = end) {
        end = strchrnul(query, '&');
        if (*end != '\0') {
            *end++ = '\0';
        }
        if (*query == '\0') {
            continue;
        }
        if (target->argument_count == TARGET_ARGUMENTS_MAX) {
            return "the query has too many arguments";
        }
        char *equals = strchrnul(query, '=');
        char *value = *equals == '\0' ? equals : equals + 1;
        *equals = '\0';
        const char *reason = decode(query, '+');
        reason = reason != NULL ? reason : decode(value, '+');
        if (reason != NULL) {
            return reason;
        }
        spell_member(query);
        for (size_t i = 0; i < target->argument_count; i++) {
            if (strcmp(target->arguments[i].name, query) == 0) {
                return "an argument of the query is given twice";
            }
        }
        target->arguments[target->argument_count++] = (struct target_argument){query, value};
    }
    return NULL;
}

const char *request_target_read(const char *text, struct arena *arena, struct request_target *target)
{
    INVARIANT(text != NULL && target != NULL);
    *target = (struct request_target){.segment_count = 0};
    if (text[0] != '/') {
        return "the target of a request is a path here";
    }
    if (strchr(text, '#') != NULL) {
        return "the target has a fragment, which stays with the client";
    }
    char *copy = arena_copy_string(arena, text);
    if (copy == NULL) {
        return "there is no memory for the target";
    }
    char *query = strchr(copy, '?');
    if (query != NULL) {
        *query++ = '\0';
    }
    const char *reason = read_target_path(copy, target);
    return reason != NULL ? reason : read_target_query(query, target);
}

void request_target_drop_empty(struct request_target *target)
{
    INVARIANT(target != NULL);
    size_t kept = 0;
    for (size_t i = 0; i < target->argument_count; i++) {
        if (target->arguments[i].value[0] != '\0') {
            target->arguments[kept++] = target->arguments[i];
        }
    }
    target->argument_count = kept;
}
