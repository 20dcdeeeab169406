/* Plans, workspaces, pauses and published definitions.
 *
 * A change of a plan resolves the limits of its workspaces in the same transaction. So a reader never sees a cap that
 * belongs to neither the old nor the new plan. A change that may take capacity away inserts an act into the news. The
 * scheduler assigns nothing until it has read it. A published text that equals the newest version makes no new version,
 * so that publishing may be repeated.
 *
 * It never changes a row of the queue. Runs in the caller's thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "store/refusal.h"
#include "store/sqlite/definition_schedules.h"
#include "store/sqlite/sqlite_store.h"

/* The workspace's limits follow its plan. */
static enum weir_status resolve_limits(struct write *write, int64_t workspace_id, struct weir_error *error)
{
    return connection_run(write->connection, error, NULL, QUERY_RESOLVE_WORKSPACE, "i", workspace_id);
}

/* --- plans --- */

/* Resolves the limits of all workspaces of a plan. */
static enum weir_status resolve_plan_limits(struct write *write, const char *plan, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_WORKSPACES_OF_PLAN, "t", plan);
    enum weir_status status = WEIR_OK;
    int64_t *ids = NULL;
    size_t count = 0;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(write->connection, statement, &status, error)) {
        if (count % 1024 == 0) {
            int64_t *more = realloc(ids, (count + 1024) * sizeof *more);
            if (more == NULL) {
                (void)sqlite3_reset(statement);
                free(ids);
                return error_out_of_memory(error);
            }
            ids = more;
        }
        ids[count++] = sqlite3_column_int64(statement, 0);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = resolve_limits(write, ids[i], error);
    }
    free(ids);
    return status;
}

/* Changes or makes a plan. */
static enum weir_status change_plan(struct write *write, const struct plan_change *change, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_FIND_PLAN, "t", change->name);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    int64_t max_concurrent = change->max_concurrent;
    int weight = change->weight;
    int64_t max_pending = change->max_pending == PENDING_UNLIMITED ? 0 : change->max_pending;
    if (connection_step(write->connection, statement, &status, error)) {
        max_concurrent = max_concurrent == 0 ? sqlite3_column_int64(statement, 0) : max_concurrent;
        weight = weight == 0 ? sqlite3_column_int(statement, 1) : weight;
        max_pending = change->max_pending == 0 ? sqlite3_column_int64(statement, 2) : max_pending;
        (void)sqlite3_reset(statement);
    } else if (status == WEIR_OK && max_concurrent == 0) {
        status = refusal_plan_without_limit(change->name, error);
    }
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, NULL, QUERY_UPSERT_PLAN, "tidi", change->name, max_concurrent,
                                weight == 0 ? 1 : weight, max_pending);
    }
    news_act_any(&write->news);
    return status == WEIR_OK ? resolve_plan_limits(write, change->name, error) : status;
}

enum weir_status sqlite_set_plan(struct store *store, const struct plan_change *change, struct weir_error *error)
{
    INVARIANT(change->name != NULL);
    struct write write;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = act_begin(&write, "plan set", "plan", change->name, NULL, error);
    return write_end(&write, status == WEIR_OK ? change_plan(&write, change, error) : status, error);
}

/* --- workspaces --- */

struct workspace_row {
    int64_t id;
    char plan[PLAN_NAME_MAX + 1];
    int64_t max_concurrent; /* 0 = the plan's */
    int paused;
    int64_t max_pending; /* -1 = the plan's */
};

enum weir_status write_refuse_names(struct write *write, sqlite3_stmt *statement, enum weir_status refusal,
                                    const char *what, const char *name, const char *how, struct weir_error *error)
{
    INVARIANT(write != NULL && what != NULL && name != NULL);
    enum { MOST = 1000 };
    char *candidates[MOST] = {NULL};
    size_t count = 0;
    enum weir_status status = WEIR_OK;
    while (statement != NULL && count < MOST && connection_step(write->connection, statement, &status, NULL)) {
        candidates[count] = strdup(column_text(statement, 0));
        count += candidates[count] != NULL;
    }
    if (statement != NULL) {
        (void)sqlite3_reset(statement);
    }
    (void)refusal_unknown_name(refusal, what, name, (const char *const *)candidates, count, how, error);
    for (size_t i = 0; i < count; i++) {
        free(candidates[i]);
    }
    return refusal;
}

void write_hint_new_name(struct connection *connection, const char *name, struct weir_error *error)
{
    INVARIANT(connection != NULL && name != NULL);
    sqlite3_stmt *statement = connection_bind(connection, NULL, QUERY_RENAMED_WORKSPACE, "t", name);
    enum weir_status status = WEIR_OK;
    if (statement != NULL && connection_step(connection, statement, &status, NULL)) {
        refusal_hint_new_name(column_text(statement, 0), error);
        (void)sqlite3_reset(statement);
    }
}

enum weir_status write_refuse_name(struct write *write, enum sqlite_query names, enum weir_status refusal, const char *what,
                                   const char *name, const char *how, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(write->connection, NULL, names, "");
    (void)write_refuse_names(write, statement, refusal, what, name, how, error);
    if (refusal == WEIR_WORKSPACE_NOT_FOUND) {
        write_hint_new_name(write->connection, name, error);
    }
    return refusal;
}

/* Reads the row of a workspace, or makes it when the caller asks for that. */
static enum weir_status read_workspace(struct write *write, const struct workspace_change *change,
                                       struct workspace_row *row, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_READ_WORKSPACE, "t", change->name);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        row->id = sqlite3_column_int64(statement, 0);
        text_copy(row->plan, sizeof row->plan, column_text(statement, 1));
        row->max_concurrent = sqlite3_column_int64(statement, 2);
        row->paused = sqlite3_column_int(statement, 3);
        row->max_pending = sqlite3_column_int64(statement, 4);
        (void)sqlite3_reset(statement);
        return WEIR_OK;
    }
    if (status == WEIR_OK && !change->create) {
        return write_refuse_name(write, QUERY_WORKSPACE_NAMES, WEIR_WORKSPACE_NOT_FOUND, "workspace", change->name,
                                 WORKSPACE_HOW, error);
    }
    if (status == WEIR_OK) {
        *row = (struct workspace_row){.plan = "free", .max_pending = PENDING_OF_PLAN};
        status = connection_read_integer(write->connection, error, &row->id, QUERY_INSERT_WORKSPACE, "tti", change->name,
                                         change->plan == NULL ? "free" : change->plan, write->now_us);
    }
    return status;
}

/* The limit of its own that a change leaves; PENDING_OF_PLAN = none. */
static int64_t own_pending(const struct workspace_change *change, const struct workspace_row *row)
{
    if (change->max_pending == 0) {
        return row->max_pending;
    }
    return change->max_pending == PENDING_UNLIMITED ? 0 : change->max_pending;
}

/* Changes a workspace and resolves its limits. */
static enum weir_status change_workspace(struct write *write, const struct workspace_change *change,
                                         struct weir_error *error)
{
    struct workspace_row row = {0};
    int64_t limit;
    enum weir_status status = WEIR_OK;
    const char *plan = change->plan;
    if (plan != NULL) {
        status = connection_read_integer(write->connection, error, &limit, QUERY_FIND_PLAN, "t", plan);
        if (status == WEIR_NOT_FOUND) {
            return write_refuse_name(write, QUERY_PLAN_NAMES, WEIR_PLAN_NOT_FOUND, "plan", plan, PLAN_HOW, error);
        }
    }
    if (status == WEIR_OK) {
        status = read_workspace(write, change, &row, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    int64_t own = change->max_concurrent == 0 ? row.max_concurrent : change->max_concurrent;
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_UPDATE_WORKSPACE, "itidi", row.id, plan == NULL ? row.plan : plan,
                        own, change->paused < 0 ? row.paused : change->paused, own_pending(change, &row));
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (own <= 0) {
        (void)sqlite3_bind_null(statement, 3);
    }
    (void)connection_step(write->connection, statement, &status, error);
    news_act_workspace(&write->news, row.id);
    return status == WEIR_OK ? resolve_limits(write, row.id, error) : status;
}

enum weir_status sqlite_set_workspace(struct store *store, const struct workspace_change *change, struct weir_error *error)
{
    INVARIANT(change->name != NULL);
    struct write write;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = act_begin(&write, workspace_change_act(change), "workspace", change->name, NULL, error);
    return write_end(&write, status == WEIR_OK ? change_workspace(&write, change, error) : status, error);
}

enum weir_status sqlite_set_paused(struct store *store, const char *group, bool paused, struct weir_error *error)
{
    INVARIANT(store != NULL);
    struct write write;
    int64_t changes = 0;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (paused) {
        news_act(&write.news);
    } else {
        news_state(&write.news);
    }
    status = act_begin(&write, paused ? "pause" : "resume", group == NULL ? "queue" : "group",
                       group == NULL ? "queue" : group, NULL, error);
    if (status == WEIR_OK && group == NULL) {
        status = connection_run(write.connection, error, NULL, QUERY_PAUSE_QUEUE, "d", paused ? 1 : 0);
    } else if (status == WEIR_OK) {
        status = connection_run(write.connection, error, &changes, QUERY_PAUSE_GROUP, "td", group, paused ? 1 : 0);
        if (status == WEIR_OK && changes == 0) {
            status =
                write_refuse_name(&write, QUERY_GROUP_NAMES, WEIR_NOT_FOUND, "executor group", group, GROUP_HOW, error);
        }
    }
    return write_end(&write, status, error);
}

/* --- definitions --- */

/* Reads the newest version of a workflow, and whether it has the same text. *ret_state: of the next version. */
static enum weir_status find_newest(struct write *write, const char *name, int64_t workspace_id, const char *text,
                                    struct published *published, enum workflow_state *ret_state, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_NEWEST_DEFINITION, "ti", name, workspace_id);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        const char *newest = column_text(statement, 2);
        published->definition_id = sqlite3_column_int64(statement, 0);
        published->version = sqlite3_column_int(statement, 1);
        int state = sqlite3_column_int(statement, 3);
        published->unchanged = state != WORKFLOW_DELETED && newest != NULL && strcmp(newest, text) == 0;
        *ret_state = state == WORKFLOW_DISABLED ? WORKFLOW_DISABLED : WORKFLOW_PUBLISHED;
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* The row of handler_sets, made when there is none; 0 for a definition without handlers. A new set is a state of the nodes:
 * some may have all of its handlers. */
static enum weir_status find_handler_set(struct write *write, const char *handlers, int64_t *ret_set,
                                         struct weir_error *error)
{
    *ret_set = 0;
    if (strcmp(handlers, "[]") == 0) {
        return WEIR_OK;
    }
    enum weir_status status =
        connection_read_integer(write->connection, error, ret_set, QUERY_FIND_HANDLER_SET, "t", handlers);
    if (status != WEIR_NOT_FOUND) {
        return status;
    }
    status = connection_read_integer(write->connection, error, ret_set, QUERY_NEWEST_HANDLER_SET, "");
    if (status == WEIR_OK && *ret_set >= HANDLER_SET_MOST) {
        return refusal_handler_sets_full(error);
    }
    *ret_set += 1;
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, NULL, QUERY_INSERT_HANDLER_SET, "it", *ret_set, handlers);
        news_state(&write->news);
    }
    return status;
}

/* Inserts the next version, unless the newest one has the same text. */
static enum weir_status publish_version(struct write *write, const struct publication *publication, int64_t workspace_id,
                                        struct published *published, struct weir_error *error)
{
    const char *name = publication->name;
    const char *text = publication->text;
    enum workflow_state state = WORKFLOW_PUBLISHED;
    enum weir_status status = find_newest(write, name, workspace_id, text, published, &state, error);
    if (status != WEIR_OK || published->unchanged) {
        return status;
    }
    published->version += 1;
    struct definition_facts facts;
    int64_t made = 0;
    int64_t handler_set = 0;
    status = definition_facts_read(text, &facts, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (facts.executor_group[0] != '\0') {
        status = connection_run(write->connection, error, &made, QUERY_INSERT_GROUP, "t", facts.executor_group);
    }
    if (made > 0) {
        news_state(&write->news);
    }
    if (status == WEIR_OK) {
        status = find_handler_set(write, facts.handlers, &handler_set, error);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(
            write->connection, error, &published->definition_id, QUERY_INSERT_DEFINITION, "itdtditdtdtt", workspace_id,
            name, published->version, text, facts.starts_max, write->now_us, facts.executor_group,
            (int)demand_of(handler_set, facts.on_temporal), facts.handlers, (int)state, publication->source, facts.labels);
    }
    definition_facts_close(&facts);
    int64_t earlier = 0;
    if (status == WEIR_OK) {
        status = connection_read_integer(write->connection, error, &earlier, QUERY_EARLIER_DEFINITION, "i",
                                         published->definition_id);
        published->earlier_version = (int)earlier;
    }
    return status;
}

/* *ret_id: 0 = all workspaces. */
static enum weir_status find_owner_of_definition(struct write *write, const char *workspace, int64_t *ret_id,
                                                 struct weir_error *error)
{
    *ret_id = 0;
    if (workspace == NULL) {
        return WEIR_OK;
    }
    enum weir_status status =
        connection_read_integer(write->connection, error, ret_id, QUERY_FIND_WORKSPACE, "t", workspace);
    return status != WEIR_NOT_FOUND ? status
                                    : write_refuse_name(write, QUERY_WORKSPACE_NAMES, WEIR_WORKSPACE_NOT_FOUND, "workspace",
                                                        workspace, "make it with: weir workspace set NAME", error);
}

enum weir_status sqlite_publish(struct store *store, const struct publication *publication, struct published *ret_published,
                                struct weir_error *error)
{
    INVARIANT(publication->name != NULL && publication->text != NULL && ret_published != NULL);
    struct write write;
    int64_t workspace_id = 0;
    struct published published = {0};
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = act_begin(&write, "workflow apply", "workflow", publication->name, publication->workspace, error);
    if (status == WEIR_OK) {
        status = find_owner_of_definition(&write, publication->workspace, &workspace_id, error);
    }
    if (status == WEIR_OK) {
        status = publish_version(&write, publication, workspace_id, &published, error);
    }
    if (status == WEIR_OK) {
        status = definition_set_schedules(&write, publication, workspace_id, &published, error);
    }
    if (published.unchanged) {
        write.act.name = NULL;
    }
    if (status == WEIR_OK && publication->only_try) {
        write_undo(&write);
    } else {
        status = write_end(&write, status, error);
    }
    if (status == WEIR_OK) {
        *ret_published = published;
    }
    return status;
}
