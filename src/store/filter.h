/* The pairs of --where: "workspace=acme status=failed,cancelled error_code=timeout since=1h".
 *
 * KEY=VALUE pairs with blanks between them, all of which must match; a value with blanks stands in '...' or "...". Times
 * are RFC 3339 or a duration back from now. The same grammar is the dashboard's filter bar and the API's query.
 */
#ifndef WEIR_STORE_FILTER_H
#define WEIR_STORE_FILTER_H

#include "base/arena.h"
#include "store/store.h"

enum { FILTER_BYTES_MAX = 4096 };

/* Adds the pairs of `where` to `filter`; a key that is set already is refused. Text lives in the arena. */
WEIR_MUST_CHECK enum weir_status filter_parse(const char *where, int64_t now_us, struct arena *arena,
                                              struct execution_filter *filter, struct weir_error *error);
/* Sets one member: the key by its name, and a value, which must both live as long as the filter. A value may be changed
 * to small letters. A member that is set already is refused. */
WEIR_MUST_CHECK enum weir_status filter_set(struct execution_filter *filter, const char *key, char *value, int64_t now_us,
                                            struct weir_error *error);
/* The keys in turn; NULL behind the last one. */
const char *filter_key(size_t index);
/* Whether it has no condition: every execution matches. */
bool filter_is_empty(const struct execution_filter *filter);
/* Calls `visit` for each condition, in a fixed order, with the key and the value that filter_set() reads. Both texts live
 * as long as the call of `visit`. A member that is missing here would widen the acts of a client of a server, which sends
 * the conditions as arguments. */
typedef void filter_visit(void *context, const char *key, const char *value);
void filter_each(const struct execution_filter *filter, filter_visit *visit, void *context);
/* Makes the texts of the filter live as long as the arena. False: out of memory. */
bool filter_copy_texts(struct execution_filter *filter, struct arena *arena);
/* Whether the name is one of them, or "label." with the name of a label. */
bool filter_has_key(const char *name);
/* The key that is meant by a misspelt or foreign one, or NULL. */
const char *filter_nearest_key(const char *name);
/* Reads a duration as a time before now, or an absolute time. `key`: its name, for the error. */
WEIR_MUST_CHECK enum weir_status filter_parse_time(const char *key, const char *value, int64_t now_us, int64_t *ret_time_us,
                                                   struct weir_error *error);
/* Whether a filter that filter_parse() has accepted, or the value of --status, has the word "running" for DISPATCHED: then
 * the command prints a hint. */
bool filter_says_running(const char *where, struct arena *arena);
bool filter_status_says_running(const char *statuses);
/* The key of --where that a user wrote as a flag ("error-code"); NULL when there is none of that name. */
const char *filter_key_of_flag(const char *flag);
/* Adds the values of --workspace and --status; a key that is set already is refused. The texts are the caller's. */
WEIR_MUST_CHECK enum weir_status filter_set_workspace(struct execution_filter *filter, const char *workspace,
                                                      struct weir_error *error);
WEIR_MUST_CHECK enum weir_status filter_set_statuses(struct execution_filter *filter, const char *states,
                                                     struct weir_error *error);

#endif
