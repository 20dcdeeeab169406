/* Workflows, workspaces and plans of a store.
 *
 * A definition is read and checked before the store sees it; the store gets its canonical text, and gives the same version
 * for the same text. Changes of workspaces and plans wake the nodes of this process, because they may free slots. A refusal
 * of the store names the place in the caller's source. Any thread of the host runs this.
 */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "definition/definition.h"
#include "library/library.h"

enum { CANONICAL_BYTES_MAX = 4 * DEFINITION_BYTES_MAX };

/* Stores the canonical text of a checked definition. */
static enum weir_status publish_definition(struct weir *weir, const struct definition *definition, const char *source,
                                           struct published *published, struct weir_error *error)
{
    struct text canonical = {.max = CANONICAL_BYTES_MAX};
    struct store *handle = NULL;
    enum weir_status status = definition_write(definition, &canonical, error);
    if (status == WEIR_OK) {
        status = handle_borrow_to_act(weir, NULL, &handle, error);
    }
    if (status == WEIR_OK) {
        status = store_publish(handle, definition->name, definition->workspace, canonical.data, definition->source,
                               published, error);
        definition_place_refusal(definition, source, status, error);
        handle_give_back(weir, handle);
    }
    text_close(&canonical);
    return status;
}

/* The store reads the definition as one of people, so a slip is named with its line. */
enum weir_status weir_publish_workflow(struct weir *weir, const char *text, size_t length, const char *source,
                                       struct weir_published *ret_published, struct weir_error *error)
{
    struct definition *definition = NULL;
    struct published published = {.version = 0};
    if (weir == NULL || text == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_publish_workflow needs a store and a definition");
    }
    const char *name = source == NULL ? "workflow" : source;
    enum weir_status status = definition_read(text, length == 0 ? strlen(text) : length, name, &definition, error);
    if (status == WEIR_OK) {
        status = publish_definition(weir, definition, name, &published, error);
    }
    definition_close(definition);
    if (status == WEIR_OK && ret_published != NULL) {
        *ret_published = (struct weir_published){
            .version = published.version, .unchanged = published.unchanged, .earlier_version = published.earlier_version};
    }
    return status;
}

/* Fields that the change leaves empty stay. */
static enum weir_status set_workspace_fields(struct weir *weir, const struct workspace_change *change,
                                             struct weir_error *error)
{
    struct store *handle = NULL;
    if (change->name == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a workspace needs a name");
    }
    enum weir_status status = handle_borrow_to_act(weir, NULL, &handle, error);
    if (status == WEIR_OK) {
        status = store_set_workspace(handle, change, error);
        handle_give_back(weir, handle);
        library_wake_nodes(weir);
    }
    return status;
}

/* A workspace that is not there is made. */
enum weir_status weir_set_workspace(struct weir *weir, const char *name, const char *plan, int64_t max_concurrent,
                                    struct weir_error *error)
{
    struct workspace_change change = {
        .name = name, .plan = plan, .max_concurrent = max_concurrent, .paused = -1, .create = true};
    return set_workspace_fields(weir, &change, error);
}

/* In the struct of the store 0 leaves the limit as it is. Here the call has no other purpose, so 0 is no limit. A workspace
 * that is missing is not made: its plan would be a guess. */
enum weir_status weir_set_max_pending(struct weir *weir, const char *name, int64_t max_pending, struct weir_error *error)
{
    struct workspace_change change = {
        .name = name, .max_pending = max_pending == 0 ? PENDING_UNLIMITED : max_pending, .paused = -1};
    if (max_pending < WEIR_PENDING_OF_PLAN) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "max_pending must be 0 to %d, or WEIR_PENDING_OF_PLAN",
                         MAX_PENDING_MOST);
    }
    return set_workspace_fields(weir, &change, error);
}

enum weir_status weir_pause_workspace(struct weir *weir, const char *name, bool paused, struct weir_error *error)
{
    struct workspace_change change = {.name = name, .paused = paused};
    return set_workspace_fields(weir, &change, error);
}

/* A plan is read by the next round of a scheduler, also one of this process. */
static enum weir_status set_plan_fields(struct weir *weir, const struct plan_change *change, struct weir_error *error)
{
    struct store *handle = NULL;
    if (change->name == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a plan needs a name");
    }
    enum weir_status status = handle_borrow_to_act(weir, NULL, &handle, error);
    if (status == WEIR_OK) {
        status = store_set_plan(handle, change, error);
        handle_give_back(weir, handle);
        library_wake_nodes(weir);
    }
    return status;
}

enum weir_status weir_set_plan(struct weir *weir, const char *name, int64_t max_concurrent, int weight,
                               struct weir_error *error)
{
    struct plan_change change = {.name = name, .max_concurrent = max_concurrent, .weight = weight};
    return set_plan_fields(weir, &change, error);
}

enum weir_status weir_set_plan_max_pending(struct weir *weir, const char *name, int64_t max_pending,
                                           struct weir_error *error)
{
    struct plan_change change = {.name = name, .max_pending = max_pending == 0 ? PENDING_UNLIMITED : max_pending};
    if (max_pending < 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "max_pending of a plan must be 0 to %d", MAX_PENDING_MOST);
    }
    return set_plan_fields(weir, &change, error);
}

/* The nodes of this process read the new name with the act. */
enum weir_status weir_rename_workspace(struct weir *weir, const char *name, const char *new_name, const char *reason,
                                       struct weir_error *error)
{
    struct store *handle = NULL;
    if (name == NULL || new_name == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a workspace needs a name");
    }
    enum weir_status status = handle_borrow_to_act(weir, reason, &handle, error);
    if (status == WEIR_OK) {
        status = store_rename_workspace(handle, name, new_name, error);
        handle_give_back(weir, handle);
        library_wake_nodes(weir);
    }
    return status;
}

/* --- deletion --- */

/* The store deletes in bounded transactions, each with the deadline of a call. A failure in between leaves a paused
 * workspace: the caller repeats the call, and the rest is found again. */
enum weir_status weir_delete_workspace(struct weir *weir, const struct weir_workspace_deletion *deletion,
                                       struct weir_deleted *ret_deleted, struct weir_error *error)
{
    struct store *handle = NULL;
    struct deletion_result result = {.failed = 0};
    if (deletion == NULL || deletion->name == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a workspace needs a name");
    }
    struct workspace_deletion wanted = {
        .name = deletion->name, .fails_waiting = deletion->fail_waiting, .erases = deletion->erase};
    enum weir_status status = handle_borrow_to_act(weir, deletion->reason, &handle, error);
    if (status == WEIR_OK) {
        status = store_delete_workspace(handle, &wanted, &result, error);
        handle_give_back(weir, handle);
        library_wake_nodes(weir);
    }
    if (status == WEIR_OK && ret_deleted != NULL) {
        *ret_deleted = (struct weir_deleted){.failed = result.failed, .erased = result.erased};
    }
    return status;
}

/* No node is woken: what is in the queue goes on, and the next enqueue reads the state. */
static enum weir_status change_state_of_workflow(struct weir *weir, const char *name, const char *workspace,
                                                 enum workflow_state state, struct weir_error *error)
{
    struct store *handle = NULL;
    if (name == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a workflow needs a name");
    }
    enum weir_status status = handle_borrow_to_act(weir, NULL, &handle, error);
    if (status == WEIR_OK) {
        status = store_set_workflow_state(handle, name, workspace, state, error);
        handle_give_back(weir, handle);
    }
    return status;
}

enum weir_status weir_disable_workflow(struct weir *weir, const char *name, const char *workspace, bool disabled,
                                       struct weir_error *error)
{
    return change_state_of_workflow(weir, name, workspace, disabled ? WORKFLOW_DISABLED : WORKFLOW_PUBLISHED, error);
}

enum weir_status weir_delete_workflow(struct weir *weir, const char *name, const char *workspace, struct weir_error *error)
{
    return change_state_of_workflow(weir, name, workspace, WORKFLOW_DELETED, error);
}
