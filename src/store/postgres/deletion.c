/* Deletion of workspaces, and the state of workflows: one SQL function per verb.
 *
 * A function checks and changes in one transaction, and returns the name of a status with the numbers for a refusal. The
 * caller repeats a deletion or an erasure until nothing is left, so no transaction is longer than a batch.
 *
 * It never ends a held execution: the deletion is refused instead. It runs in the thread of the caller. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/name_suggestions.h"
#include "store/postgres/postgres_store.h"
#include "store/refusal.h"

static enum weir_status refuse_unknown_workspace(struct link *link, const char *name, struct weir_error *error)
{
    return refuse_unknown_name(link, QUERY_WORKSPACE_NAMES, WEIR_WORKSPACE_NOT_FOUND, "workspace", name, WORKSPACE_HOW,
                               error);
}

enum weir_status postgres_delete_workspace(struct store *store, const struct workspace_deletion *deletion,
                                           struct deletion_step *ret_step, struct weir_error *error)
{
    INVARIANT(deletion != NULL && deletion->name != NULL && ret_step != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct link *link = link_of(store);
    status = link_write(link, error, &result, QUERY_REMOVE_WORKSPACE, "todtt", deletion->name, (int)deletion->fails_waiting,
                        DELETION_BATCH, store_actor(store), store_reason(store));
    if (status != WEIR_OK) {
        return status;
    }
    int64_t held = result_int(result, 0, 1);
    int64_t waiting = result_int(result, 0, 2);
    struct deletion_step step = {.failed = (size_t)result_int(result, 0, 3), .more = result_bool(result, 0, 4)};
    status = status_parse_name(result_text(result, 0, 0));
    PQclear(result);
    switch (status) {
    case WEIR_OK:
        *ret_step = step;
        return WEIR_OK;
    case WEIR_WORKSPACE_NOT_FOUND:
        return refuse_unknown_workspace(link, deletion->name, error);
    case WEIR_STORE_BUSY:
        return refusal_workspace_locked(deletion->name, error);
    default:
        return refusal_workspace_lives(deletion->name, waiting, held, error);
    }
}

enum weir_status postgres_erase_workspace(struct store *store, const char *name, struct erasure_step *step,
                                          struct weir_error *error)
{
    INVARIANT(name != NULL && step != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct link *link = link_of(store);
    status = link_write(link, error, &result, QUERY_ERASE_HISTORY, "tudtt", name,
                        step->after[0] == '\0' ? UUID_FIRST : step->after, ERASURE_BATCH, store_actor(store),
                        store_reason(store));
    if (status != WEIR_OK) {
        return status;
    }
    status = status_parse_name(result_text(result, 0, 0));
    if (status == WEIR_OK) {
        const char *last_id = result_text(result, 0, 2);
        step->erased = (size_t)result_int(result, 0, 1);
        step->more = last_id != NULL;
        text_copy(step->after, sizeof step->after, last_id == NULL ? step->after : last_id);
    }
    PQclear(result);
    return status == WEIR_WORKSPACE_NOT_FOUND ? refuse_unknown_workspace(link, name, error) : status;
}

enum weir_status postgres_set_workflow_state(struct store *store, const char *name, const char *workspace,
                                             enum workflow_state state, struct weir_error *error)
{
    INVARIANT(name != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct link *link = link_of(store);
    status = link_write(link, error, &result, QUERY_CHANGE_WORKFLOW, "ttdtt", name, workspace, (int)state,
                        store_actor(store), store_reason(store));
    if (status != WEIR_OK) {
        return status;
    }
    int64_t living = result_int(result, 0, 1);
    status = status_parse_name(result_text(result, 0, 0));
    PQclear(result);
    if (status == WEIR_WORKSPACE_NOT_FOUND) {
        return refuse_unknown_workspace(link, workspace, error);
    }
    if (status == WEIR_WORKFLOW_NOT_FOUND) {
        struct name_list names = {.names = NULL};
        name_list_read(&names, link, QUERY_WORKFLOW_NAMES_OF, workspace == NULL ? "" : workspace);
        (void)refusal_unknown_name(status, workspace == NULL ? "workflow of all workspaces" : "workflow of this workspace",
                                   name, (const char *const *)names.names, names.count, WORKFLOW_HOW, error);
        name_list_close(&names);
        return status;
    }
    return status == WEIR_ILLEGAL_STATE ? refusal_workflow_lives(name, workspace, living, error) : status;
}
