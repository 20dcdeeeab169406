/* Reads of the store that several verbs share. They give whole pages of rows, ids from their first characters, names
 * that must exist, and facts of a row that follow from its state. Threads: one. */
#ifndef WEIR_CLI_VERBS_STORE_PAGES_H
#define WEIR_CLI_VERBS_STORE_PAGES_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/arguments/invocation.h"
#include "store/store.h"

/* All rows of one kind as one page, or the one row of `name`. */
WEIR_MUST_CHECK enum weir_status page_read(struct store *store, enum store_list_kind kind, const char *name,
                                           json_t **ret_page, struct weir_error *error);
/* All rows of a list as one page. */
WEIR_MUST_CHECK enum weir_status page_read_all(struct store *store, const struct list_options *options, json_t **ret_page,
                                               struct weir_error *error);
/* The first row of a page, NULL when it has none. */
const json_t *page_first(const json_t *page);
/* Whether a node has the execution or runs it: then its error is of an earlier start. */
bool row_is_held(const json_t *execution);
/* Whether a row of LIST_NODES is of a node that has not left and has a valid lease. */
bool row_node_is_live(const json_t *node);
/* Whether the node has stopped or its work was taken over: what its last heartbeat reported is no longer true. */
bool row_node_is_gone(const json_t *node);
/* The id of a command that takes an id or --last: the argument, or the newest execution. `to` holds UUID_TEXT_MAX bytes and
 * *ret_id may point into it. WEIR_EXECUTION_NOT_FOUND: there is none. */
WEIR_MUST_CHECK enum weir_status execution_id_or_last(const struct invocation *invocation, struct store *store, char *to,
                                                      const char **ret_id, struct weir_error *error);
/* Whether there is the workflow, and the workspace may run it; NULL = any workspace. WEIR_WORKFLOW_NOT_FOUND,
 * WEIR_WORKFLOW_NOT_YOURS. */
WEIR_MUST_CHECK enum weir_status page_require_workflow(struct store *store, const char *workspace, const char *name,
                                                       struct weir_error *error);
/* --where, --workspace and (when the command has it) --status of an invocation. Times count from the store's clock. Checks
 * that the workspace and the workflow exist, so that a misspelt name gets a suggestion and not an empty list. */
WEIR_MUST_CHECK enum weir_status page_read_filter(const struct invocation *invocation, struct store *store,
                                                  struct execution_filter *ret_filter, struct weir_error *error);

#endif
