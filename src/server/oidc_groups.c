/* The list is short and is read once for each sign-in, so it is searched from its beginning. */
#include "server/oidc_groups.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"

static enum weir_status refuse_entry(const char *entry, const char *fault, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_CONFIG, "http.oidc.groups: \"%.100s\" %s", entry, fault);
    error_hint(error, "write GROUP=ROLE; GROUP=ROLE:WORKSPACE,WORKSPACE with a role of read, enqueue, operate, admin");
    return WEIR_INVALID_CONFIG;
}

/* `list`: what stands behind the colon. */
static enum weir_status read_workspaces(char *list, const char *entry, struct arena *arena, struct oidc_right *right,
                                        struct weir_error *error)
{
    const char **names = arena_allocate(arena, TOKEN_WORKSPACES_MOST * sizeof *names);
    if (names == NULL) {
        return error_out_of_memory(error);
    }
    right->workspaces = names;
    for (char *at = list; at != NULL;) {
        char *comma = strchr(at, ',');
        if (comma != NULL) {
            *comma++ = '\0';
        }
        char *name = text_trim(at);
        if (name[0] == '\0' || right->workspace_count == TOKEN_WORKSPACES_MOST) {
            return refuse_entry(entry, name[0] == '\0' ? "names no workspace" : "has too many workspaces", error);
        }
        names[right->workspace_count++] = name;
        at = comma;
    }
    return WEIR_OK;
}

static enum weir_status read_entry(char *text, struct arena *arena, struct oidc_right *right, struct weir_error *error)
{
    const char *entry = arena_copy_string(arena, text);
    char *equals = strrchr(text, '=');
    if (entry == NULL) {
        return error_out_of_memory(error);
    }
    if (equals == NULL) {
        return refuse_entry(entry, "has no \"=\"", error);
    }
    *equals = '\0';
    char *workspaces = strchr(equals + 1, ':');
    if (workspaces != NULL) {
        *workspaces++ = '\0';
    }
    *right = (struct oidc_right){.group = text_trim(text), .has_all_workspaces = workspaces == NULL};
    if (right->group[0] == '\0' || !token_role_parse(text_trim(equals + 1), &right->role)) {
        return refuse_entry(entry, right->group[0] == '\0' ? "names no group" : "has no role", error);
    }
    return workspaces == NULL ? WEIR_OK : read_workspaces(workspaces, entry, arena, right, error);
}

enum weir_status oidc_groups_read(const char *text, struct arena *arena, struct oidc_groups *ret_groups,
                                  struct weir_error *error)
{
    INVARIANT(text != NULL && arena != NULL && ret_groups != NULL);
    enum weir_status status = WEIR_OK;
    char *copy = arena_copy_string(arena, text);
    ret_groups->count = 0;
    if (copy == NULL) {
        return error_out_of_memory(error);
    }
    for (char *at = copy; at != NULL && status == WEIR_OK;) {
        char *semicolon = strchr(at, ';');
        if (semicolon != NULL) {
            *semicolon++ = '\0';
        }
        char *entry = text_trim(at);
        if (entry[0] != '\0' && ret_groups->count == OIDC_GROUPS_MOST) {
            return error_set(error, WEIR_INVALID_CONFIG, "http.oidc.groups has more than %d entries", OIDC_GROUPS_MOST);
        }
        if (entry[0] != '\0') {
            status = read_entry(entry, arena, &ret_groups->rights[ret_groups->count++], error);
        }
        at = semicolon;
    }
    if (status == WEIR_OK && ret_groups->count == 0) {
        return refuse_entry("", "lets nobody in", error);
    }
    return status;
}

static bool has_group(const json_t *names, const char *group)
{
    const char *one = json_string_value(names);
    bool has = one != NULL && strcmp(one, group) == 0;
    for (size_t i = 0; i < json_array_size(names) && !has; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        has = name != NULL && strcmp(name, group) == 0;
    }
    return has;
}

static bool add_workspaces(struct oidc_right *to, const char **names, const struct oidc_right *more)
{
    for (size_t i = 0; i < more->workspace_count && to->workspace_count < TOKEN_WORKSPACES_MOST; i++) {
        bool is_there = false;
        for (size_t k = 0; k < to->workspace_count; k++) {
            is_there = is_there || strcmp(names[k], more->workspaces[i]) == 0;
        }
        if (!is_there) {
            names[to->workspace_count++] = more->workspaces[i];
        }
    }
    return more->has_all_workspaces;
}

bool oidc_groups_choose(const struct oidc_groups *groups, const json_t *names, struct arena *arena,
                        struct oidc_right *ret_right)
{
    INVARIANT(groups != NULL && arena != NULL && ret_right != NULL);
    struct oidc_right chosen = {.group = NULL};
    const char **workspaces = arena_allocate(arena, TOKEN_WORKSPACES_MOST * sizeof *workspaces);
    if (workspaces == NULL) {
        return false;
    }
    for (size_t i = 0; i < groups->count; i++) {
        const struct oidc_right *right = &groups->rights[i];
        if ((chosen.group == NULL || right->role == chosen.role) && has_group(names, right->group)) {
            chosen.group = chosen.group == NULL ? right->group : chosen.group;
            chosen.role = right->role;
            chosen.has_all_workspaces = add_workspaces(&chosen, workspaces, right) || chosen.has_all_workspaces;
        }
    }
    chosen.workspaces = workspaces;
    *ret_right = chosen;
    return chosen.group != NULL;
}
