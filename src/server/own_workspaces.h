/* Keeps a token to its workspaces. A thing of another workspace gets the refusal of a missing one, with the same text, so
 * that no answer shows that it exists. Threads: that of the handle.
 */
#ifndef WEIR_SERVER_OWN_WORKSPACES_H
#define WEIR_SERVER_OWN_WORKSPACES_H

#include "server/access.h"

/* WEIR_EXECUTION_NOT_FOUND: no execution of a workspace of the token has this whole id. The first characters of an id are
 * refused as well: they could be those of others, too. Errors of the store. */
WEIR_MUST_CHECK enum weir_status own_workspaces_check_id(struct store *store, const struct principal *principal,
                                                         const char *id, struct weir_error *error);
/* WEIR_WORKSPACE_NOT_FOUND: the workspace is none of the token, in the words for one that does not exist. */
WEIR_MUST_CHECK enum weir_status own_workspaces_check(const struct principal *principal, const char *workspace,
                                                      struct weir_error *error);
/* Whether a row of LIST_SCHEDULES is one that the principal may see: all its workspaces are of the token. Never so for a
 * schedule of a plan, and for one of which a workspace was deleted. */
bool own_workspaces_has_schedule(const struct principal *principal, const json_t *row);
/* WEIR_NOT_FOUND: no schedule of this name is one that the principal may see. Errors of the store. */
WEIR_MUST_CHECK enum weir_status own_workspaces_check_schedule(struct store *store, const struct principal *principal,
                                                               const char *name, struct weir_error *error);
/* WEIR_NOT_PERMITTED: the workflow of this workspace has schedules of its definition, and the principal is one of some
 * workspaces. Another version, or the deletion, would take them away. Schedules that another call sets meanwhile are not
 * seen. Errors of the store. */
WEIR_MUST_CHECK enum weir_status own_workspaces_check_change(struct store *store, const struct principal *principal,
                                                             const char *workspace, const char *workflow,
                                                             struct weir_error *error);
/* Takes out of a row of LIST_WORKFLOWS what it has of other workspaces. A definition without an owner loses its
 * `schedules`, and each `workspace` of a start step that is none of the token. Then the row loses `source` as well, where
 * the same names stand. WEIR_OUT_OF_MEMORY: the row must not be shown. */
WEIR_MUST_CHECK enum weir_status own_workspaces_hide_definition(const struct principal *principal, json_t *row,
                                                                struct weir_error *error);
/* Rewrites a refusal of store_enqueue() that names things of other workspaces, or shows that there are some. */
void own_workspaces_hide_refusal(const struct principal *principal, const struct enqueue_request *request,
                                 struct enqueue_result *result);

#endif
