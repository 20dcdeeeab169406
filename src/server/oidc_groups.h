/* The setting http.oidc.groups: the rights that a group of the provider has here.
 *
 *     weir-admins=admin; support=read; acme-team=operate:acme,acme-test
 *
 * Entries have semicolons between them, because names of groups have commas (LDAP). The last "=" of an entry ends the name
 * of the group. Pure; any thread.
 */
#ifndef WEIR_SERVER_OIDC_GROUPS_H
#define WEIR_SERVER_OIDC_GROUPS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "store/store.h"

enum { OIDC_GROUPS_MOST = 100 };

struct oidc_right {
    const char *group;
    enum token_role role;
    bool has_all_workspaces;
    const char *const *workspaces;
    size_t workspace_count;
};
struct oidc_groups {
    struct oidc_right rights[OIDC_GROUPS_MOST];
    size_t count;
};

/* All texts are in the arena. WEIR_INVALID_CONFIG: no entry, a malformed one, an unknown role, too many. */
WEIR_MUST_CHECK enum weir_status oidc_groups_read(const char *text, struct arena *arena, struct oidc_groups *ret_groups,
                                                  struct weir_error *error);
/* The rights of a person with these groups, an array of texts or one text. The first entry whose group the person has gives
 * the role. Later entries of that role add their workspaces, up to TOKEN_WORKSPACES_MOST. False: no entry has one of the
 * groups, or there is no memory. */
bool oidc_groups_choose(const struct oidc_groups *groups, const json_t *names, struct arena *arena,
                        struct oidc_right *ret_right);

#endif
