/* Names for "did you mean", and statuses by their names: shared by the driver's verbs for people. */
#ifndef WEIR_STORE_POSTGRES_NAME_SUGGESTIONS_H
#define WEIR_STORE_POSTGRES_NAME_SUGGESTIONS_H

#include "store/postgres/link/link.h"

/* The status of this name ("workspace_not_found"), as SQL functions return it. WEIR_FAILED for a name that is none. */
enum weir_status status_parse_name(const char *name);

struct name_list {
    char **names; /* NULL: not read */
    size_t count;
};
/* Reads the first column of a query with one text parameter, or with none (NULL); best effort, empty when that fails. */
void name_list_read(struct name_list *list, struct link *link, enum postgres_query query, const char *parameter);
/* Replaces the hint by "did you mean" when a name is near. */
void name_list_suggest(const struct name_list *list, const char *wanted, struct weir_error *error);
void name_list_close(struct name_list *list);

/* Fills `error`: there is no `kind` of this name. The hint names the nearest of the names of the query, or else is `how`.
 */
enum weir_status refuse_unknown_name(struct link *link, enum postgres_query names, enum weir_status refusal,
                                     const char *kind, const char *name, const char *how, struct weir_error *error);
/* Replaces the hint when a workspace had the name before it was renamed. Best effort. */
void name_hint_new(struct link *link, const char *name, struct weir_error *error);

#endif
