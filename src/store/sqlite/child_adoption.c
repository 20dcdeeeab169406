/* The execution that a child with a known key becomes: that of the key, or its newest retry.
 *
 *   1. Find it. Params are not compared, because the key names the work.
 *   2. Refuse one of another workflow. In a workspace that the step names it must be of a workflow of all workspaces. The
 *      refusal shows nothing of that workspace, because the tenant of the parent reads it.
 *   3. Refuse one that waits for this parent itself: each would wait for ever. A walk from the parent to its own parents
 *      finds it. They are few, while an execution may have many children.
 *
 * It changes no row of `children`. A write transaction is alone, so an end cannot slip between the look and the row. Runs
 * in the caller's thread, in its transaction.
 */
#include "store/sqlite/child_adoption.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "store/sqlite/archive.h"

/* Steps 1 and 2. */
static enum weir_status find_adoptable(struct connection *connection, const struct adoption *adoption,
                                       struct adopted *ret_adopted, struct enqueue_result *result, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *s = connection_bind(connection, error, QUERY_FIND_ADOPTABLE, "tt", adoption->workspace, adoption->key);
    if (s == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(connection, s, &status, error) || column_text(s, 3) == NULL) {
        (void)sqlite3_reset(s);
        return status == WEIR_OK ? error_set(error, WEIR_STORE_CORRUPT, "key \"%s\" has no execution", adoption->key)
                                 : status;
    }
    bool is_other = strcmp(column_text(s, 1), adoption->workflow) != 0;
    bool has_owner = sqlite3_column_int64(s, 2) != 0;
    const char *state = column_text(s, 4);
    text_copy(ret_adopted->id, sizeof ret_adopted->id, column_text(s, 3));
    ret_adopted->has_ended = state != NULL;
    ret_adopted->is_completed = state != NULL && strcmp(state, "COMPLETED") == 0;
    if (adoption->is_elsewhere && (is_other || has_owner)) {
        result->status =
            error_set(&result->error, WEIR_IDEMPOTENCY_KEY_REUSED, "the key of the child is in use for another workflow");
    } else if (is_other) {
        result->status =
            error_set(&result->error, WEIR_IDEMPOTENCY_KEY_REUSED,
                      "the key \"%s\" belongs to execution %s of another workflow", adoption->key, column_text(s, 0));
    }
    (void)sqlite3_reset(s);
    return WEIR_OK;
}

enum weir_status child_adopt(struct write *write, const struct adoption *adoption, struct adopted *ret_adopted,
                             struct enqueue_result *result, struct weir_error *error)
{
    INVARIANT(write != NULL && adoption != NULL && adoption->key != NULL && ret_adopted != NULL && result != NULL);
    struct connection *connection = write->connection;
    int64_t waits = 0;
    bool is_whole = true;
    result->status = WEIR_OK;
    enum weir_status status = find_adoptable(connection, adoption, ret_adopted, result, error);
    if (status != WEIR_OK || result->status != WEIR_OK) {
        return status;
    }
    if (ret_adopted->has_ended) {
        status = archive_bring_back(connection, ret_adopted->id, &is_whole, error);
        if (status == WEIR_STORE_CORRUPT && error != NULL) {
            error->native = 0; /* a damaged archive is the fault of this step alone: the children of others go on */
        }
        return status;
    }
    status = connection_read_integer(connection, error, &waits, QUERY_WAITS_FOR_EXECUTION, "tt", adoption->parent,
                                     ret_adopted->id);
    if (status == WEIR_OK && waits != 0) {
        result->status = error_set(&result->error, WEIR_ILLEGAL_STATE,
                                   "the execution of the key, %s, waits for this one itself", ret_adopted->id);
    }
    return status;
}
