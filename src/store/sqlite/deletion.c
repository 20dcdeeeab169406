/* Deletion and rename of workspaces, and the state of workflows.
 *
 * A deletion is a set of transactions, each of which counts the living items first:
 *   1. Items that are held refuse it, and items that wait do so unless they are to end. Nothing is changed then.
 *   2. At most DELETION_BATCH waiting items end FAILED, code `workspace_deleted`. No index leads from a workspace to its
 *      WAITING items. So the deletion goes along those of all workspaces, PARKED_WINDOW of them in a transaction, and the
 *      handle remembers the place. At the end it begins anew, until the counters have no parked item of the workspace.
 *   3. While more of them wait, the workspace is paused, so that none of them is assigned before the next transaction.
 *   4. With the last of them the row of the workspace goes, with its firings of schedules and their refusals. Its own
 *      workflows are deleted with the schedules that they set, and the deletion is on record.
 * Steps 3 and 4 insert an act into the news: the scheduler assigns nothing until it has read it.
 *
 * An erasure goes through the whole history by primary key, a bounded number of rows per transaction, because no index
 * leads from a workspace to its history.
 *
 * A rename changes one row: all other tables have the id of the workspace. It inserts an act as well, so that a scheduler
 * that keeps names reads the new one. Temporal finds a run by its workflow id, which a definition may make of the name. So
 * held items of such a definition refuse the rename: another node that takes one over would start it under another id.
 *
 * It never ends a held item, and never touches a living workspace of the same name. Runs in the caller's thread.
 */
#include <string.h>

#include "base/error.h"
#include "store/refusal.h"
#include "store/sqlite/definition_schedules.h"
#include "store/sqlite/sqlite_store.h"

enum { PARKED_WINDOW = 20000 }; /* WAITING items that one transaction of a deletion looks at */

struct id_text {
    char text[UUID_TEXT_MAX];
};

static enum weir_status end_deletion(struct write *write, enum weir_status status, struct weir_error *error)
{
    return write_end(write, status, error);
}

static enum weir_status find_workspace_to_change(struct write *write, const char *name, int64_t *ret_id,
                                                 struct weir_error *error)
{
    enum weir_status status = connection_read_integer(write->connection, error, ret_id, QUERY_FIND_WORKSPACE, "t", name);
    if (status == WEIR_NOT_FOUND) {
        return write_refuse_name(write, QUERY_WORKSPACE_NAMES, WEIR_WORKSPACE_NOT_FOUND, "workspace", name, WORKSPACE_HOW,
                                 error);
    }
    return status;
}

/* --- deletion --- */

struct living {
    int64_t held;
    int64_t waiting; /* the parked ones included */
    int64_t parked;
};

static enum weir_status count_workspace_items(struct write *write, int64_t workspace_id, struct living *ret_living,
                                              struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_COUNT_LIVING, "i", workspace_id);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        ret_living->held = sqlite3_column_int64(statement, 0);
        ret_living->parked = sqlite3_column_int64(statement, 2);
        ret_living->waiting = sqlite3_column_int64(statement, 1) + ret_living->parked;
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* Reads the ids first: the ends change the indexes that the query reads. */
static enum weir_status read_waiting_ids(struct write *write, int64_t workspace_id, struct id_text ids[DELETION_BATCH],
                                         size_t *ret_count, struct weir_error *error)
{
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_WAITING_OF_WORKSPACE, "id", workspace_id, DELETION_BATCH);
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(write->connection, statement, &status, error)) {
        INVARIANT(count < DELETION_BATCH);
        text_copy(ids[count++].text, sizeof ids[0].text, column_text(statement, 0));
    }
    *ret_count = count;
    return status;
}

/* Adds the parked ones of the next window, until the set is full. */
static enum weir_status read_parked_ids(struct write *write, int64_t workspace_id, struct id_text ids[DELETION_BATCH],
                                        size_t *count, struct weir_error *error)
{
    struct sqlite_store *store = write->store;
    enum weir_status status = WEIR_OK;
    size_t examined = 0;
    if (store->parked_before.workspace_id != workspace_id) {
        store->parked_before.workspace_id = workspace_id;
        store->parked_before.due_us = 0;
    }
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_PARKED_WINDOW, "iid", store->parked_before.due_us,
                        store->parked_before.due_us == 0 ? 0 : store->parked_before.number, PARKED_WINDOW);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (*count < DELETION_BATCH && connection_step(write->connection, statement, &status, error)) {
        store->parked_before.due_us = sqlite3_column_int64(statement, 0);
        store->parked_before.number = sqlite3_column_int64(statement, 1);
        examined++;
        if (sqlite3_column_int64(statement, 2) == workspace_id && sqlite3_column_int(statement, 4) != 0) {
            text_copy(ids[(*count)++].text, sizeof ids[0].text, column_text(statement, 3));
        }
    }
    (void)sqlite3_reset(statement);
    if (*count < DELETION_BATCH && examined < PARKED_WINDOW) {
        store->parked_before.due_us = 0; /* the end */
    }
    return status;
}

static enum weir_status fail_waiting_items(struct write *write, int64_t workspace_id, const struct living *living,
                                           size_t *ret_failed, struct weir_error *error)
{
    struct id_text ids[DELETION_BATCH];
    size_t count = 0;
    char message[REASON_MAX + ACTOR_MAX + 64];
    enum weir_status status = read_waiting_ids(write, workspace_id, ids, &count, error);
    if (status == WEIR_OK && count < DELETION_BATCH && living->parked > 0) {
        status = read_parked_ids(write, workspace_id, ids, &count, error);
    }
    const struct store *store = &write->store->store;
    (void)snprintf(message, sizeof message, "its workspace was deleted%s%s%s%s", store->actor[0] == '\0' ? "" : " by ",
                   store->actor, store->reason[0] == '\0' ? "" : ": ", store->reason);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        struct ending ending = {
            .id = ids[i].text, .state = ITEM_FAILED, .error_code = "workspace_deleted", .error = message};
        status = item_end(write, &ending, error);
    }
    *ret_failed = count;
    return status;
}

static enum weir_status remove_workspace_row(struct write *write, const struct workspace_deletion *deletion,
                                             int64_t workspace_id, struct weir_error *error)
{
    enum weir_status status = connection_run(write->connection, error, NULL, QUERY_INSERT_DELETED_WORKSPACE, "iti",
                                             workspace_id, deletion->name, write->now_us);
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, NULL, QUERY_DELETE_WORKFLOWS_OF, "i", workspace_id);
    }
    if (status == WEIR_OK) {
        status = definition_remove_schedules(write, NULL, workspace_id, error);
    }
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, NULL, QUERY_DELETE_FIRINGS_OF_WORKSPACE, "i", workspace_id);
    }
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, NULL, QUERY_DELETE_REFUSALS_OF_WORKSPACE, "i", workspace_id);
    }
    return status == WEIR_OK ? connection_run(write->connection, error, NULL, QUERY_DELETE_WORKSPACE, "i", workspace_id)
                             : status;
}

static enum weir_status run_deletion_step(struct write *write, const struct workspace_deletion *deletion,
                                          struct deletion_step *step, struct weir_error *error)
{
    int64_t workspace_id = 0;
    struct living living = {.held = 0};
    enum weir_status status = find_workspace_to_change(write, deletion->name, &workspace_id, error);
    if (status == WEIR_OK) {
        status = count_workspace_items(write, workspace_id, &living, error);
    }
    if (status == WEIR_OK && (living.held > 0 || (living.waiting > 0 && !deletion->fails_waiting))) {
        return refusal_workspace_lives(deletion->name, living.waiting, living.held, error);
    }
    if (status == WEIR_OK && living.waiting > 0) {
        status = fail_waiting_items(write, workspace_id, &living, &step->failed, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    write->act.affected = (int64_t)step->failed;
    step->more = (int64_t)step->failed < living.waiting;
    news_act_workspace(&write->news, workspace_id);
    return step->more ? connection_run(write->connection, error, NULL, QUERY_PAUSE_WORKSPACE, "i", workspace_id)
                      : remove_workspace_row(write, deletion, workspace_id, error);
}

enum weir_status sqlite_delete_workspace(struct store *store, const struct workspace_deletion *deletion,
                                         struct deletion_step *ret_step, struct weir_error *error)
{
    INVARIANT(deletion->name != NULL && ret_step != NULL);
    struct write write;
    struct deletion_step step = {.failed = 0};
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = act_begin(&write, "workspace delete", "workspace", deletion->name, NULL, error);
    if (status == WEIR_OK) {
        status = run_deletion_step(&write, deletion, &step, error);
    }
    status = end_deletion(&write, status, error);
    if (status == WEIR_OK) {
        *ret_step = step;
    }
    return status;
}

/* --- erasure --- */

/* Reads the next rows of the history, and keeps the ids of those that are to go. */
static enum weir_status read_rows_to_erase(struct write *write, const char *name, struct erasure_step *step,
                                           struct id_text ids[ERASURE_BATCH], size_t *ret_count, struct weir_error *error)
{
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_ROWS_TO_ERASE, "ttd", name, step->after, ERASURE_BATCH);
    enum weir_status status = WEIR_OK;
    char last[UUID_TEXT_MAX] = "";
    size_t count = 0;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(write->connection, statement, &status, error)) {
        text_copy(last, sizeof last, column_text(statement, 0));
        if (sqlite3_column_int(statement, 1) != 0) {
            INVARIANT(count < ERASURE_BATCH);
            text_copy(ids[count++].text, sizeof ids[0].text, last);
        }
    }
    step->more = last[0] != '\0';
    text_copy(step->after, sizeof step->after, last);
    *ret_count = count;
    return status;
}

/* After the last row: keys, workflows, and the record of the erasure. */
static enum weir_status complete_erasure(struct write *write, const char *name, struct weir_error *error)
{
    enum weir_status status = connection_run(write->connection, error, NULL, QUERY_ERASE_KEYS, "t", name);
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, NULL, QUERY_ERASE_HOOK_EVENTS, "t", name);
    }
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, NULL, QUERY_ERASE_WORKFLOWS, "t", name);
    }
    return status == WEIR_OK ? connection_run(write->connection, error, NULL, QUERY_NOTE_ERASURE, "ti", name, write->now_us)
                             : status;
}

static enum weir_status run_erasure_step(struct write *write, const char *name, struct erasure_step *step,
                                         struct weir_error *error)
{
    struct id_text ids[ERASURE_BATCH];
    size_t count = 0;
    int64_t id = 0;
    enum weir_status status =
        connection_read_integer(write->connection, error, &id, QUERY_FIND_DELETED_WORKSPACE, "t", name);
    if (status == WEIR_NOT_FOUND) {
        return write_refuse_name(write, QUERY_WORKSPACE_NAMES, WEIR_WORKSPACE_NOT_FOUND, "workspace", name, WORKSPACE_HOW,
                                 error);
    }
    if (status == WEIR_OK) {
        status = read_rows_to_erase(write, name, step, ids, &count, error);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        enum purge_outcome outcome = PURGE_NOT_ENDED;
        status = purge_execution(write->connection, ids[i].text, &outcome, error);
        step->erased += status == WEIR_OK && outcome == PURGE_DONE;
        if (status == WEIR_OK && outcome == PURGE_ARCHIVE_AWAY) {
            status = refusal_erasure_without_archive(name, ids[i].text, error);
        }
    }
    return status == WEIR_OK && !step->more ? complete_erasure(write, name, error) : status;
}

enum weir_status sqlite_erase_workspace(struct store *store, const char *name, struct erasure_step *step,
                                        struct weir_error *error)
{
    INVARIANT(name != NULL && step != NULL);
    struct write write;
    struct erasure_step next = *step;
    next.erased = 0;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = act_begin(&write, "workspace erase", NULL, name, NULL, error);
    if (status == WEIR_OK) {
        status = run_erasure_step(&write, name, &next, error);
    }
    write.act.affected = (int64_t)next.erased;
    if (next.erased == 0 && next.more) {
        write.act.name = NULL; /* no execution of this part of the history was the workspace's */
    }
    status = end_deletion(&write, status, error);
    if (status == WEIR_OK) {
        *step = next;
    }
    return status;
}

/* --- rename --- */

/* Reads the settings of the act, and changes the row. */
static enum weir_status change_workspace_name(struct write *write, int64_t workspace_id, const char *name,
                                              const char *new_name, char after[ACT_SETTING_MAX], struct weir_error *error)
{
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_RENAME_WORKSPACE, "itt", workspace_id, new_name, name);
    struct act_change *change = &write->store->store.change;
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(write->connection, statement, &status, error)) {
        text_copy(change->before, sizeof change->before, column_text(statement, 0));
        text_copy(change->after, sizeof change->after, column_text(statement, 1));
        text_copy(after, ACT_SETTING_MAX, column_text(statement, 1));
    }
    write->act.arguments = after;
    news_act_workspace(&write->news, workspace_id);
    return status;
}

static enum weir_status check_and_rename(struct write *write, const char *name, const char *new_name,
                                         char after[ACT_SETTING_MAX], struct weir_error *error)
{
    int64_t workspace_id = 0;
    int64_t number = 0;
    enum weir_status status = find_workspace_to_change(write, name, &workspace_id, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_read_integer(write->connection, error, &number, QUERY_FIND_WORKSPACE, "t", new_name);
    if (status == WEIR_OK) {
        return refusal_workspace_name_taken(new_name, error);
    }
    if (status == WEIR_NOT_FOUND) {
        status = connection_read_integer(write->connection, error, &number, QUERY_HELD_BY_NAME, "i", workspace_id);
    }
    if (status == WEIR_OK && number > 0) {
        return refusal_workspace_name_used(name, number, error);
    }
    return status == WEIR_OK ? change_workspace_name(write, workspace_id, name, new_name, after, error) : status;
}

enum weir_status sqlite_rename_workspace(struct store *store, const char *name, const char *new_name,
                                         struct weir_error *error)
{
    INVARIANT(name != NULL && new_name != NULL);
    struct write write;
    char after[ACT_SETTING_MAX] = ""; /* until the act is recorded */
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = act_begin(&write, "workspace rename", NULL, name, NULL, error);
    if (status == WEIR_OK) {
        status = check_and_rename(&write, name, new_name, after, error);
    }
    return end_deletion(&write, status, error);
}

/* --- workflows --- */

static enum weir_status refuse_unknown_workflow(struct write *write, const char *name, int64_t owner,
                                                struct weir_error *error)
{
    return write_refuse_names(
        write, connection_bind(write->connection, NULL, QUERY_WORKFLOW_NAMES_OF, "i", owner), WEIR_WORKFLOW_NOT_FOUND,
        owner == 0 ? "workflow of all workspaces" : "workflow of this workspace", name, WORKFLOW_HOW, error);
}

static enum weir_status change_workflow_state(struct write *write, const char *name, const char *workspace,
                                              enum workflow_state state, struct weir_error *error)
{
    int64_t owner = 0;
    int64_t number = 0;
    enum weir_status status = workspace == NULL ? WEIR_OK : find_workspace_to_change(write, workspace, &owner, error);
    if (status == WEIR_OK) {
        status = connection_read_integer(write->connection, error, &number, QUERY_WORKFLOW_EXISTS, "ti", name, owner);
        if (status == WEIR_NOT_FOUND) {
            return refuse_unknown_workflow(write, name, owner, error);
        }
    }
    if (status == WEIR_OK && state == WORKFLOW_DELETED) {
        status = connection_read_integer(write->connection, error, &number, QUERY_LIVING_OF_WORKFLOW, "ti", name, owner);
        if (status == WEIR_OK && number > 0) {
            return refusal_workflow_lives(name, workspace, number, error);
        }
    }
    if (status == WEIR_OK && state == WORKFLOW_DELETED) {
        status = definition_remove_schedules(write, name, owner, error);
    }
    return status == WEIR_OK
               ? connection_run(write->connection, error, NULL, QUERY_SET_WORKFLOW_STATE, "tid", name, owner, (int)state)
               : status;
}

enum weir_status sqlite_set_workflow_state(struct store *store, const char *name, const char *workspace,
                                           enum workflow_state state, struct weir_error *error)
{
    INVARIANT(name != NULL);
    struct write write;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = act_begin(&write, workflow_state_act(state), "workflow", name, workspace, error);
    return end_deletion(&write, status == WEIR_OK ? change_workflow_state(&write, name, workspace, state, error) : status,
                        error);
}
