/* The pairs of --where: "workspace=acme state=failed,cancelled error_code=timeout since=1h".
 *
 * KEY=VALUE pairs with blanks between them, all of which must match; a value with blanks stands in '...' or "...". Times
 * are RFC 3339 or a duration back from now. The same grammar is the dashboard's filter bar and the API's query.
 */
#ifndef WEIR_CLI_ARGUMENTS_FILTER_H
#define WEIR_CLI_ARGUMENTS_FILTER_H

#include "base/arena.h"
#include "cli/arguments/command.h"
#include "store/store.h"

enum { FILTER_BYTES_MAX = 4096 };

/* Adds the pairs of `where` to `filter`; a key that is set already is refused. Text lives in the arena. */
WEIR_MUST_CHECK enum weir_status filter_parse(const char *where, int64_t now_us, struct arena *arena,
                                              struct execution_filter *filter, struct weir_error *error);
/* The key of --where that a user wrote as a flag ("error-code"); NULL when there is none of that name. */
const char *filter_key_of_flag(const char *flag);
/* --where, --workspace and (when the command has it) --state of an invocation. Times count from the store's clock. Checks
 * that the workspace and the workflow exist, so that a slip of the pen gets a suggestion and not an empty list. */
WEIR_MUST_CHECK enum weir_status filter_of_invocation(const struct invocation *invocation, struct store *store,
                                                      struct execution_filter *ret_filter, struct weir_error *error);
/* Fails with `missing` and the nearest name when there is no row of that name. */
WEIR_MUST_CHECK enum weir_status filter_require_name(struct store *store, enum store_list_kind kind, const char *name,
                                                     enum weir_status missing, struct weir_error *error);

#endif
