/* A member that is not in the table is refused: a misspelt one would otherwise have no effect. null counts as absent. */
#include "server/routes/body.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

enum { BODY_MEMBERS_MAX = 16 };

/* A text with a NUL would be cut by the code that reads it. */
static enum weir_status take_member(const json_t *value, const struct body_member *member, struct weir_error *error)
{
    if (member->kind == BODY_VALUE) {
        *(const json_t **)member->to = value;
        return WEIR_OK;
    }
    if (member->kind == BODY_TEXT && json_is_string(value)) {
        if (json_string_has_nul(value)) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "%s contains a NUL", member->name);
        }
        *(const char **)member->to = json_string_value(value);
        return WEIR_OK;
    }
    if (member->kind == BODY_SWITCH && json_is_boolean(value)) {
        *(int *)member->to = json_is_true(value);
        return WEIR_OK;
    }
    if (member->kind == BODY_NUMBER && json_is_integer(value) && json_integer_value(value) >= member->least &&
        json_integer_value(value) <= member->most) {
        *(int64_t *)member->to = json_integer_value(value);
        return WEIR_OK;
    }
    if (member->kind == BODY_NUMBER) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s must be a whole number from %" PRId64 " to %" PRId64,
                         member->name, member->least, member->most);
    }
    return error_set(error, WEIR_INVALID_ARGUMENT, "%s must be %s, not %s", member->name,
                     member->kind == BODY_TEXT ? "a string" : "true or false", json_type_name(value));
}

/* NULL when the table has no such member. */
static const struct body_member *find_member(const struct body_member *members, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].name, name) == 0) {
            return &members[i];
        }
    }
    return NULL;
}

static enum weir_status refuse_member(const char *name, const struct body_member *members, size_t count,
                                      struct weir_error *error)
{
    const char *names[BODY_MEMBERS_MAX];
    for (size_t i = 0; i < count; i++) {
        names[i] = members[i].name;
    }
    const char *nearest = text_nearest(name, names, count);
    error_set(error, WEIR_INVALID_ARGUMENT, "unknown member \"%s\"", name);
    if (nearest != NULL) {
        error_hint(error, "did you mean \"%s\"?", nearest);
    }
    return WEIR_INVALID_ARGUMENT;
}

/* *ret_name: the member at fault. */
static enum weir_status take_members(json_t *object, const struct body_member *members, size_t count, const char **ret_name,
                                     struct weir_error *error)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        const struct body_member *member = find_member(members, count, name);
        *ret_name = name;
        enum weir_status status = member == NULL        ? refuse_member(name, members, count, error)
                                  : json_is_null(value) ? WEIR_OK
                                                        : take_member(value, member, error);
        if (status != WEIR_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *given = json_object_get(object, members[i].name);
        if (members[i].is_required && (given == NULL || json_is_null(given))) {
            *ret_name = members[i].name;
            return error_set(error, WEIR_INVALID_ARGUMENT, "%s is missing", members[i].name);
        }
    }
    return WEIR_OK;
}

/* A name with a slash or a tilde needs no escape: a pointer to it names no member of the table anyway. */
static const char *body_pointer_to(struct arena *arena, const char *name)
{
    struct text pointer = {.max = 256};
    const char *copy = NULL;
    if (name != NULL && text_format(&pointer, "/%s", name) == WEIR_OK) {
        copy = arena_copy_string(arena, pointer.data);
    }
    text_close(&pointer);
    return copy;
}

enum weir_status body_read(struct http_request *request, const struct body_member *members, size_t count,
                           json_t **ret_object, const char **ret_pointer, struct weir_error *error)
{
    INVARIANT(ret_object != NULL && ret_pointer != NULL);
    INVARIANT(count <= BODY_MEMBERS_MAX); /* here, so that any request of a route shows a table that is too long */
    json_t *object = NULL;
    const char *name = NULL;
    *ret_object = NULL;
    *ret_pointer = NULL;
    enum weir_status status = request_object(request, &object, error);
    if (status == WEIR_OK) {
        status = take_members(object, members, count, &name, error);
    }
    if (status != WEIR_OK) {
        *ret_pointer = body_pointer_to(&request->arena, name);
        json_decref(object);
        return status;
    }
    *ret_object = object;
    return WEIR_OK;
}
