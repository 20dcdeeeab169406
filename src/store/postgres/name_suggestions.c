/* Names for "did you mean", and statuses by their names.
 *
 * A refusal of an unknown name reads the names of that kind and suggests the nearest one. The read is best effort: without
 * it the refusal keeps its first hint. It never changes the status of a refusal. It runs in the thread that has the handle.
 */
#include "store/postgres/name_suggestions.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/refusal.h"

enum weir_status status_parse_name(const char *name)
{
    for (int i = 0; name != NULL && i < WEIR_STATUS_COUNT; i++) {
        if (strcmp(weir_status_name((enum weir_status)i), name) == 0) {
            return (enum weir_status)i;
        }
    }
    return WEIR_FAILED;
}

/* A list that could not be read is empty. */
void name_list_read(struct name_list *list, struct link *link, enum postgres_query query, const char *parameter)
{
    INVARIANT(list != NULL && link != NULL);
    PGresult *result = NULL;
    enum weir_status status = parameter == NULL ? link_read(link, NULL, &result, query, "")
                                                : link_read(link, NULL, &result, query, "t", parameter);
    size_t rows = status == WEIR_OK ? (size_t)PQntuples(result) : 0;
    list->count = 0;
    list->names = calloc(rows + 1, sizeof *list->names);
    for (size_t i = 0; list->names != NULL && i < rows; i++) {
        list->names[list->count] = strdup(result_text(result, (int)i, 0));
        list->count += list->names[list->count] != NULL;
    }
    PQclear(result);
}

void name_list_suggest(const struct name_list *list, const char *wanted, struct weir_error *error)
{
    INVARIANT(list != NULL && wanted != NULL);
    refusal_suggest_name(wanted, (const char *const *)list->names, list->count, error);
}

void name_list_close(struct name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->names[i]);
    }
    free(list->names);
    list->names = NULL;
    list->count = 0;
}

enum weir_status refuse_unknown_name(struct link *link, enum postgres_query names, enum weir_status refusal,
                                     const char *kind, const char *name, const char *how, struct weir_error *error)
{
    INVARIANT(kind != NULL && name != NULL && how != NULL);
    struct name_list list = {.names = NULL};
    name_list_read(&list, link, names, NULL);
    (void)refusal_unknown_name(refusal, kind, name, (const char *const *)list.names, list.count, how, error);
    name_list_close(&list);
    if (refusal == WEIR_WORKSPACE_NOT_FOUND) {
        name_hint_new(link, name, error);
    }
    return refusal;
}

void name_hint_new(struct link *link, const char *name, struct weir_error *error)
{
    INVARIANT(link != NULL && name != NULL);
    PGresult *result = NULL;
    if (link_read(link, NULL, &result, QUERY_RENAMED_WORKSPACE, "t", name) == WEIR_OK) {
        refusal_hint_new_name(result_text(result, 0, 0), error);
    }
    PQclear(result);
}
