/* libweir_sqlite: the SQL functions of weir for any program that has SQLite (docs/sql.md).
 *
 * Each call opens a store handle on the caller's own connection (borrowed_store.h), does one verb of store.h with it, and
 * closes it. So a function takes part in the caller's transaction, and keeps nothing that would outlive the connection.
 * A refusal becomes an SQL error with the text "status: message; hint". Nothing here may touch another connection, or call
 * an SQLite library by its name: api.h leads all calls to the host's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/actor.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "sqlite_extension/api.h"
#include "sqlite_extension/sql_enqueue.h"
#include "sqlite_extension/sql_values.h"
#include "store/sqlite/borrowed_store.h"

SQLITE_EXTENSION_INIT1

/* The extension opens no store by a URL. */
const struct store_driver *const store_drivers[] = {&sqlite_store_driver, NULL};

/* --- acts --- */

/* The argument `reason` of an act. The actor is the user of the process. */
static enum weir_status take_reason(struct store *store, int count, sqlite3_value **values, int at,
                                    struct weir_error *error)
{
    const char *reason = NULL;
    char actor[ACTOR_MAX + 1];
    enum weir_status status = sql_take_text(count, values, at, "reason", &reason, error);
    if (status != WEIR_OK) {
        return status;
    }
    actor_write("sql", actor, sizeof actor);
    return store_act_as(store, actor, reason, error);
}

/* An act on one execution. A refusal is an error of the statement. `option`: the member of `order` that the second argument
 * sets; NULL = there is no such argument, and no order. */
static void act_with(sqlite3_context *context, int count, sqlite3_value **values, enum bulk_act what,
                     struct act_order *order, const char *name, const char **option)
{
    struct execution_filter filter = {.id = NULL};
    struct bulk_result result = {.matched = 0};
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = sql_open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = sql_need_text(count, values, 0, "execution_id", &filter.id, &error);
    if (status == WEIR_OK && option != NULL) {
        status = sql_take_text(count, values, 1, name, option, &error);
    }
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, option == NULL ? 1 : 2, &error);
    }
    if (status == WEIR_OK) {
        status = store_bulk_one(store, what, order, &filter, &result, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        sql_answer_error(context, status, &error);
    } else {
        sql_answer_text(context, what == BULK_RETRY ? result.new_id : result.last_id);
    }
}

static void act(sqlite3_context *context, int count, sqlite3_value **values, enum bulk_act what)
{
    act_with(context, count, values, what, NULL, NULL, NULL);
}

static void cancel(sqlite3_context *context, int count, sqlite3_value **values)
{
    act(context, count, values, BULK_CANCEL);
}

static void release(sqlite3_context *context, int count, sqlite3_value **values)
{
    act(context, count, values, BULK_RELEASE);
}

static void dismiss(sqlite3_context *context, int count, sqlite3_value **values)
{
    act(context, count, values, BULK_DISMISS);
}

static void retry(sqlite3_context *context, int count, sqlite3_value **values)
{
    act(context, count, values, BULK_RETRY);
}

/* weir_wake(execution_id, waiting_for, reason). A kind that is NULL, or not given: sleeps and waits for the next attempt.
 */
static void wake(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct act_order order = {.waits_for = NULL};
    act_with(context, count, values, BULK_WAKE, &order, "waiting_for", &order.waits_for);
}

/* weir_signal(execution_id, name, data, key, reason): the number of the signal. */
static void signal_one(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct signal_request request = {.id = NULL};
    struct sent_signal sent = {.seq = 0};
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = sql_open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = sql_need_text(count, values, 0, "execution_id", &request.id, &error);
    if (status == WEIR_OK) {
        status = sql_need_text(count, values, 1, "name", &request.name, &error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 2, "data", &request.data, &error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 3, "key", &request.key, &error);
    }
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, 4, &error);
    }
    if (status == WEIR_OK) {
        status = store_signal(store, &request, &sent, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        sql_answer_error(context, status, &error);
    } else {
        sqlite3_result_int64(context, sent.seq);
    }
}

/* weir_approve(execution_id, step, comment, reason), weir_reject(...): the step. */
static void decide(sqlite3_context *context, int count, sqlite3_value **values, bool approved)
{
    struct approval approval = {.approved = approved};
    const char *id = NULL;
    struct sent_signal sent = {.seq = 0};
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = sql_open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = sql_need_text(count, values, 0, "execution_id", &id, &error);
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 1, "step", &approval.step, &error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 2, "comment", &approval.comment, &error);
    }
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, 3, &error);
    }
    if (status == WEIR_OK) {
        status = store_approve(store, id, &approval, &sent, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        sql_answer_error(context, status, &error);
    } else {
        sql_answer_text(context, sent.step);
    }
}

/* weir_update(execution_id, state, variables, reason, if_state): the number of the update. The store checks states, names
 * and types, as for every other caller. Without a state only the variables change. */
static void update_state(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct state_update update = {.state = NULL};
    struct updated_state updated = {.action = 0};
    const char *id = NULL;
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = sql_open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = sql_need_text(count, values, 0, "execution_id", &id, &error);
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 1, "state", &update.state, &error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 2, "variables", &update.variables, &error);
    }
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, 3, &error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 4, "if_state", &update.if_state, &error);
    }
    if (status == WEIR_OK) {
        status = store_update_state(store, id, &update, &updated, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        sql_answer_error(context, status, &error);
    } else {
        sqlite3_result_int64(context, updated.action);
    }
}

/* The decision of the actor of this connection. */
static void approve_one(sqlite3_context *context, int count, sqlite3_value **values)
{
    decide(context, count, values, true);
}

static void reject_one(sqlite3_context *context, int count, sqlite3_value **values)
{
    decide(context, count, values, false);
}

/* A step that is NULL, or not given: no finished step runs again. */
static void retry_from(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct act_order order = {.keeps_finished = true};
    act_with(context, count, values, BULK_RETRY, &order, "from_step", &order.from);
}

/* weir_migrate(execution_id, to_version, reason). */
static void sql_migrate(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct act_order order = {.to_version = 0};
    if (count > 1 && sqlite3_value_type(values[1]) == SQLITE_INTEGER) {
        int64_t version = sqlite3_value_int64(values[1]);
        order.to_version = version > 0 && version <= INT32_MAX ? (int)version : 0;
    }
    const char *ignored = NULL;
    act_with(context, count, values, BULK_MIGRATE, &order, "to_version", &ignored);
}

/* Pauses or resumes the starts of a workspace. Running executions go on. */
static void set_paused(sqlite3_context *context, int count, sqlite3_value **values, int paused)
{
    struct workspace_change change = {.paused = paused};
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = sql_open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = sql_need_text(count, values, 0, "workspace", &change.name, &error);
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, 1, &error);
    }
    if (status == WEIR_OK) {
        status = store_set_workspace(store, &change, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        sql_answer_error(context, status, &error);
    } else {
        sql_answer_text(context, change.name);
    }
}

static void sql_pause_workspace(sqlite3_context *context, int count, sqlite3_value **values)
{
    set_paused(context, count, values, 1);
}

static void sql_resume_workspace(sqlite3_context *context, int count, sqlite3_value **values)
{
    set_paused(context, count, values, 0);
}

/* --- rename, deletion --- */

/* weir_rename_workspace(workspace, new_name, reason) returns the new name. */
static void sql_rename_workspace(sqlite3_context *context, int count, sqlite3_value **values)
{
    const char *name = NULL;
    const char *new_name = NULL;
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = sql_open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = sql_need_text(count, values, 0, "workspace", &name, &error);
    if (status == WEIR_OK) {
        status = sql_need_text(count, values, 1, "new_name", &new_name, &error);
    }
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, 2, &error);
    }
    if (status == WEIR_OK) {
        status = store_rename_workspace(store, name, new_name, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        sql_answer_error(context, status, &error);
    } else {
        sql_answer_text(context, new_name);
    }
}

/* An argument that is a truth value: 0 or 1, or NULL for 0. */
static bool is_set(int count, sqlite3_value **values, int place)
{
    return place < count && sqlite3_value_type(values[place]) != SQLITE_NULL && sqlite3_value_int(values[place]) != 0;
}

/* weir_delete_workspace(workspace, fail_waiting, erase, reason): the number of executions that the deletion has ended. It
 * is part of the caller's transaction, so a rollback brings the workspace back. */
static void answer_deletion(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct workspace_deletion deletion = {.fails_waiting = is_set(count, values, 1), .erases = is_set(count, values, 2)};
    struct deletion_result result = {.failed = 0};
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = sql_open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = sql_need_text(count, values, 0, "workspace", &deletion.name, &error);
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, 3, &error);
    }
    if (status == WEIR_OK) {
        status = store_delete_workspace(store, &deletion, &result, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        sql_answer_error(context, status, &error);
    } else {
        sqlite3_result_int64(context, (sqlite3_int64)result.failed);
    }
}

/* The three functions that disable, enable and delete a workflow take (workflow, owner, reason) and return the
 * name of the workflow. They differ in its new state alone. */
static void change_workflow(sqlite3_context *context, int count, sqlite3_value **values, enum workflow_state state)
{
    struct weir_error error = {.status = WEIR_OK};
    const char *name = NULL;
    const char *owner = NULL;
    struct store *store = sql_open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = sql_need_text(count, values, 0, "workflow", &name, &error);
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 1, "owner", &owner, &error);
    }
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, 2, &error);
    }
    if (status == WEIR_OK) {
        status = store_set_workflow_state(store, name, owner, state, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        sql_answer_error(context, status, &error);
    } else {
        sql_answer_text(context, name);
    }
}

static void answer_disabled(sqlite3_context *context, int count, sqlite3_value **values)
{
    change_workflow(context, count, values, WORKFLOW_DISABLED);
}

static void answer_enabled(sqlite3_context *context, int count, sqlite3_value **values)
{
    change_workflow(context, count, values, WORKFLOW_PUBLISHED);
}

static void answer_deleted(sqlite3_context *context, int count, sqlite3_value **values)
{
    change_workflow(context, count, values, WORKFLOW_DELETED);
}

/* --- reading --- */

/* A verb of the store that reads one thing by its name or id. */
typedef enum weir_status read_function(struct store *store, const char *name, json_t **ret_value, struct weir_error *error);

/* Answers the JSON value of one execution or workspace. */
static void read_one(sqlite3_context *context, int count, sqlite3_value **values, const char *name, read_function *function)
{
    struct weir_error error = {.status = WEIR_OK};
    const char *text = NULL;
    json_t *value = NULL;
    struct store *store = sql_open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = sql_need_text(count, values, 0, name, &text, &error);
    if (status == WEIR_OK) {
        status = function(store, text, &value, &error);
    }
    store_close(store);
    if (status == WEIR_OK) {
        sql_answer_json(context, value);
    } else {
        sql_answer_error(context, status, &error);
    }
}

/* weir_why(execution_id), as `weir why --json` prints it. */
static void why(sqlite3_context *context, int count, sqlite3_value **values)
{
    read_one(context, count, values, "execution_id", store_why);
}

/* weir_show(execution_id), as `weir show --json` prints it. */
static void show(sqlite3_context *context, int count, sqlite3_value **values)
{
    read_one(context, count, values, "execution_id", store_show);
}

static void show_result(sqlite3_context *context, int count, sqlite3_value **values)
{
    read_one(context, count, values, "execution_id", store_read_result);
}

/* weir_usage(workspace), as a row of `weir workspace list --json`. */
static void usage(sqlite3_context *context, int count, sqlite3_value **values)
{
    read_one(context, count, values, "workspace", store_usage);
}

/* --- the door --- */

int sqlite3_extension_init(sqlite3 *database, char **ret_message, const sqlite3_api_routines *api);

/* Makes the functions known to the connection. SQLite has no optional arguments, so a function is made once for each number
 * of them. SQLITE_DIRECTONLY keeps them out of triggers and views: a file from elsewhere must not enqueue by being read. */
__attribute__((visibility("default"))) int sqlite3_extension_init(sqlite3 *database, char **ret_message,
                                                                  const sqlite3_api_routines *api)
{
    static const struct {
        const char *name;
        int least;
        int most;
        void (*function)(sqlite3_context *context, int count, sqlite3_value **values);
    } functions[] = {
        {"weir_enqueue", 2, ENQUEUE_ARGUMENTS_MOST, sql_enqueue},
        {"weir_enqueue_many", 1, 1, sql_enqueue_many},
        {"weir_cancel", 1, 2, cancel},
        {"weir_signal", 2, 5, signal_one},
        {"weir_release", 1, 2, release},
        {"weir_dismiss", 1, 2, dismiss},
        {"weir_retry", 1, 2, retry},
        {"weir_retry_from", 1, 3, retry_from},
        {"weir_wake", 1, 3, wake},
        {"weir_migrate", 2, 3, sql_migrate},
        {"weir_approve", 1, 4, approve_one},
        {"weir_update", 1, 5, update_state},
        {"weir_reject", 1, 4, reject_one},
        {"weir_pause_workspace", 1, 2, sql_pause_workspace},
        {"weir_resume_workspace", 1, 2, sql_resume_workspace},
        {"weir_rename_workspace", 2, 3, sql_rename_workspace},
        {"weir_delete_workspace", 1, 4, answer_deletion},
        {"weir_disable_workflow", 1, 3, answer_disabled},
        {"weir_enable_workflow", 1, 3, answer_enabled},
        {"weir_delete_workflow", 1, 3, answer_deleted},
        {"weir_result", 1, 1, show_result},
        {"weir_usage", 1, 1, usage},
        {"weir_why", 1, 1, why},
        {"weir_show", 1, 1, show},
    };
    if (sqlite3_api != NULL && sqlite3_api != api) {
        /* Its functions would be called with the handles of the other. */
        *ret_message = api->mprintf("weir: another SQLite library of this process has loaded the extension already");
        return SQLITE_ERROR;
    }
    SQLITE_EXTENSION_INIT2(api)
    int code = SQLITE_OK;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        for (int count = functions[i].least; count <= functions[i].most && code == SQLITE_OK; count++) {
            code = sqlite3_create_function_v2(database, functions[i].name, count, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL,
                                              functions[i].function, NULL, NULL, NULL);
        }
    }
    if (code != SQLITE_OK) {
        *ret_message = sqlite3_mprintf("weir: %s", sqlite3_errmsg(database));
    }
    return code;
}
