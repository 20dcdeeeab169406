/* Reading for people: lists, one execution, and the status of the store. The names of the columns are the keys of the
 * answers.
 *
 * Each verb reads inside one snapshot (a read transaction in WAL mode), so that a change by another process is seen as a
 * whole or not at all. Pages, cursors and texts come from store/reading.c; this file runs the queries and hands over the
 * rows. A list of executions merges two tables, the queue and the history: filter_query.c selects the ids, and each row is
 * then read by its id.
 *
 * Never writes, and never holds a snapshot longer than one call: an open snapshot keeps the log from being reset. Runs in
 * the thread of the handle, on the reading connection of that handle.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/item.h"
#include "store/reading.h"
#include "store/sqlite/archive.h"
#include "store/sqlite/filter_query.h"
#include "store/sqlite/queue_order.h"
#include "store/sqlite/row_json.h"
#include "store/sqlite/slot_timeline.h"

/* --- lists of executions --- */

/* Reads one row of the view and appends it. A filter by reason is applied by the caller, or here when `reason` is not NULL.
 */
static enum weir_status append_execution(struct connection *connection, const char *id, const char *reason, json_t *items,
                                         struct weir_error *error)
{
    json_t *rows = NULL;
    enum weir_status status =
        statement_rows_json(connection, connection_bind(connection, error, QUERY_READ_EXECUTION, "t", id), &rows, error);
    if (status != WEIR_OK) {
        return status;
    }
    json_t *row = json_array_get(rows, 0);
    if (row != NULL && reading_has_reason(row, reason)) {
        status = json_array_append(items, row) == 0 ? WEIR_OK : error_out_of_memory(error);
    }
    json_decref(rows);
    return status;
}

/* struct execution_rows, read: selects ids, then reads their rows. */
static enum weir_status read_execution_rows(void *context, const struct execution_filter *filter, const char *below,
                                            size_t limit, json_t **ret_rows, bool *ret_more, char ret_next[UUID_TEXT_MAX],
                                            struct weir_error *error)
{
    struct connection *connection = context;
    struct selection selection = {0};
    json_t *rows = json_array();
    enum weir_status status = rows == NULL ? error_out_of_memory(error) : WEIR_OK;
    if (status == WEIR_OK) {
        status = filter_select_ids(connection, filter, below, true, limit, &selection, error);
    }
    for (size_t i = 0; i < selection.count && status == WEIR_OK; i++) {
        status = append_execution(connection, selection.ids[i], NULL, rows, error);
    }
    free(selection.ids);
    if (status != WEIR_OK) {
        json_decref(rows);
        return status;
    }
    *ret_more = selection.more;
    text_copy(ret_next, UUID_TEXT_MAX, selection.next);
    *ret_rows = rows;
    return WEIR_OK;
}

/* Counts the ids that have the reason. Their rows must be read, one by one, because an array of them has no bound. */
static enum weir_status count_reasons(struct connection *connection, const struct selection *selection, const char *reason,
                                      size_t *ret_count, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    *ret_count = 0;
    for (size_t i = 0; i < selection->count && status == WEIR_OK; i++) {
        bool has = false;
        status = filter_has_reason(connection, selection->ids[i], reason, &has, error);
        *ret_count += has;
    }
    return status;
}

/* struct execution_rows, count. */
static enum weir_status count_execution_rows(void *context, const struct execution_filter *filter, const char *below,
                                             size_t limit, struct execution_count *ret_count, struct weir_error *error)
{
    struct connection *connection = context;
    struct selection selection = {0};
    enum weir_status status = filter_select_ids(connection, filter, below, true, limit, &selection, error);
    *ret_count = (struct execution_count){.examined = selection.count, .matched = selection.count, .more = selection.more};
    text_copy(ret_count->next, sizeof ret_count->next, selection.next);
    if (status == WEIR_OK && filter->reason != NULL) {
        status = count_reasons(connection, &selection, filter->reason, &ret_count->matched, error);
    }
    free(selection.ids);
    return status;
}

static enum weir_status list_executions(struct connection *connection, const struct list_options *options,
                                        json_t **ret_page, struct weir_error *error)
{
    const struct execution_rows rows = {
        .read = read_execution_rows, .count = count_execution_rows, .context = connection, .newest_bound = ID_BOUND_NEWEST};
    return options->order == ORDER_QUEUE ? sqlite_list_queue(connection, &rows, options, ret_page, error)
                                         : reading_list_executions(&rows, options, ret_page, error);
}

/* --- other lists --- */

/* Events or actions in their order, behind the position `after`. */
static enum weir_status list_part_rows(struct connection *connection, enum sqlite_query query, const char *id,
                                       int64_t after, size_t limit, json_t **ret_rows, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, query, "tii", id, after, (int64_t)limit);
    return statement_rows_json(connection, statement, ret_rows, error);
}

static enum weir_status list_part(struct connection *connection, const struct list_options *options, const char *id,
                                  json_t **ret_page, struct weir_error *error)
{
    bool are_events = options->kind == LIST_EVENTS;
    int64_t after = 0;
    json_t *rows = NULL;
    enum weir_status status = reading_event_offset(options->cursor, &after, error);
    if (status == WEIR_OK) {
        status = list_part_rows(connection, are_events ? QUERY_READ_EVENT_ROWS : QUERY_READ_ACTION_ROWS, id, after,
                                options->limit + 1, &rows, error);
    }
    return status == WEIR_OK ? reading_page_part(options->kind, rows, after, options->limit, ret_page, error) : status;
}

/* Adds the last actions of a workflow with states, and the number of those before them. */
static enum weir_status add_actions(struct connection *connection, json_t *execution, const char *id,
                                    struct weir_error *error)
{
    json_t *actions = NULL;
    int64_t after = 0;
    int64_t earlier = 0;
    enum weir_status status = WEIR_OK;
    if (!reading_has_machine(execution)) {
        return WEIR_OK;
    }
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_ACTIONS_BEFORE, "ti", id, (int64_t)SHOW_ACTIONS_MOST);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        after = sqlite3_column_int64(statement, 0);
        earlier = sqlite3_column_int64(statement, 1);
        (void)sqlite3_reset(statement);
    }
    if (status == WEIR_OK) {
        status = list_part_rows(connection, QUERY_READ_ACTION_ROWS, id, after, SHOW_ACTIONS_MOST, &actions, error);
    }
    return status == WEIR_OK ? reading_add_actions(execution, actions, earlier, error) : status;
}

/* The events, the actions or the steps of one execution. */
static enum weir_status list_history(struct connection *connection, const struct list_options *options, json_t **ret_page,
                                     struct weir_error *error)
{
    char id[UUID_TEXT_MAX];
    json_t *rows = NULL;
    enum weir_status status = filter_find_id(connection, options->filter.id, id, error);
    if (status == WEIR_OK && (options->kind == LIST_ACTIONS || options->kind == LIST_EVENTS)) {
        return list_part(connection, options, id, ret_page, error);
    }
    if (status == WEIR_OK) {
        status = statement_rows_json(connection, connection_bind(connection, error, QUERY_READ_STEP_ROWS, "t", id), &rows,
                                     error);
    }
    return status == WEIR_OK ? reading_page_steps(rows, ret_page, error) : status;
}

static enum weir_status page_names(struct connection *connection, sqlite3_stmt *statement,
                                   const struct list_options *options, json_t **ret_page, struct weir_error *error)
{
    json_t *rows = NULL;
    enum weir_status status = statement_rows_json(connection, statement, &rows, error);
    return status == WEIR_OK
               ? reading_page_names(rows, options->cursor == NULL ? "" : options->cursor, options->limit, ret_page, error)
               : status;
}

/* Lists that continue after a name. `now_us`: the fourth parameter of the query; TIME_NEVER: it has none. */
static enum weir_status list_names(struct connection *connection, enum sqlite_query query, int64_t now_us,
                                   const struct list_options *options, json_t **ret_page, struct weir_error *error)
{
    const char *cursor = options->cursor == NULL ? "" : options->cursor;
    int64_t limit = (int64_t)options->limit + 1;
    sqlite3_stmt *statement = now_us != TIME_NEVER
                                  ? connection_bind(connection, error, query, "ttii", options->name, cursor, limit, now_us)
                                  : connection_bind(connection, error, query, "tti", options->name, cursor, limit);
    return page_names(connection, statement, options, ret_page, error);
}

static enum weir_status list_workspace_names(struct connection *connection, int64_t now_us,
                                             const struct list_options *options, json_t **ret_page,
                                             struct weir_error *error)
{
    const char *from = NULL;
    char end[PREFIX_END_BYTES];
    reading_prefix_bounds(options, &from, end);
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_LIST_WORKSPACES, "ttitti", options->name,
                        options->cursor == NULL ? "" : options->cursor, (int64_t)options->limit + 1, from, end, now_us);
    return page_names(connection, statement, options, ret_page, error);
}

static enum weir_status list_definitions(struct connection *connection, const struct list_options *options,
                                         json_t **ret_page, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_LIST_WORKFLOWS, "ttit", options->name,
                                              options->cursor == NULL ? "" : options->cursor, (int64_t)options->limit + 1,
                                              options->filter.workspace);
    return page_names(connection, statement, options, ret_page, error);
}

/* The acts, newest first. */
static enum weir_status list_acts(struct connection *connection, const struct list_options *options, json_t **ret_page,
                                  struct weir_error *error)
{
    int64_t below = 0;
    enum weir_status status = reading_act_bound(options->cursor, &below, error);
    if (status != WEIR_OK) {
        return status;
    }
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_LIST_AUDIT, "tiiitt", options->name, below, (int64_t)options->limit + 1,
                        options->filter.created_since_us, options->actor, options->act);
    return page_names(connection, statement, options, ret_page, error);
}

static enum weir_status list_kind(struct connection *connection, const struct list_options *options, json_t **ret_page,
                                  struct weir_error *error)
{
    int64_t now_us = 0;
    enum weir_status status = connection_store_time(connection, &now_us, error);
    if (status != WEIR_OK) {
        return status;
    }
    switch (options->kind) {
    case LIST_EXECUTIONS:
        return list_executions(connection, options, ret_page, error);
    case LIST_SLOT_TIMELINE:
        return sqlite_list_slot_timeline(connection, options, ret_page, error);
    case LIST_EVENTS:
    case LIST_STEPS:
    case LIST_ACTIONS:
        return list_history(connection, options, ret_page, error);
    case LIST_WORKSPACES:
        return list_workspace_names(connection, now_us, options, ret_page, error);
    case LIST_PLANS:
        return list_names(connection, QUERY_LIST_PLANS, TIME_NEVER, options, ret_page, error);
    case LIST_WORKFLOWS:
        return list_definitions(connection, options, ret_page, error);
    case LIST_NODES:
        return list_names(connection, QUERY_LIST_NODES, now_us, options, ret_page, error);
    case LIST_LOCKS:
        return list_names(connection, QUERY_LIST_LOCKS, now_us, options, ret_page, error);
    case LIST_AUDIT:
        return list_acts(connection, options, ret_page, error);
    case LIST_HOOKS:
        return list_names(connection, QUERY_LIST_HOOKS, TIME_NEVER, options, ret_page, error);
    case LIST_SCHEDULES:
        return list_names(connection, QUERY_LIST_SCHEDULES, TIME_NEVER, options, ret_page, error);
    case LIST_TOKENS:
        return list_names(connection, QUERY_LIST_TOKENS, now_us, options, ret_page, error);
    case LIST_GROUPS:
        return list_names(connection, QUERY_LIST_GROUPS, TIME_NEVER, options, ret_page, error);
    }
    return error_set(error, WEIR_MISUSE, "no such list");
}

enum weir_status sqlite_list(struct store *store, const struct list_options *options, json_t **ret_page,
                             struct weir_error *error)
{
    INVARIANT(options->limit > 0 && options->limit <= LIST_LIMIT_MOST && ret_page != NULL);
    struct connection *connection;
    enum weir_status status = snapshot_begin(store, &connection, error);
    if (status == WEIR_OK) {
        status = list_kind(connection, options, ret_page, error);
        snapshot_end(connection);
    }
    return status;
}

/* A probe of an index for each id is what a join would do, too. */
enum weir_status sqlite_find_living(struct store *store, const char *const *ids, size_t count, bool *ret_is_living,
                                    struct weir_error *error)
{
    INVARIANT(ids != NULL && ret_is_living != NULL);
    struct connection *connection;
    enum weir_status status = snapshot_begin(store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        int64_t one = 0;
        status = connection_read_integer(connection, error, &one, QUERY_EXECUTION_LIVES, "t", ids[i]);
        ret_is_living[i] = status == WEIR_OK;
        status = status == WEIR_NOT_FOUND ? WEIR_OK : status;
    }
    snapshot_end(connection);
    return status;
}

enum weir_status sqlite_find_in_workspaces(struct store *store, const char *id, const char *const *workspaces, size_t count,
                                           bool *ret_is_there, struct weir_error *error)
{
    INVARIANT(id != NULL && ret_is_there != NULL);
    struct connection *connection;
    bool is_there = false;
    enum weir_status status = snapshot_begin(store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < count && status == WEIR_OK && !is_there; i++) {
        int64_t one = 0;
        status = connection_read_integer(connection, error, &one, QUERY_EXECUTION_IN_WORKSPACE, "tt", id, workspaces[i]);
        is_there = status == WEIR_OK;
        status = status == WEIR_NOT_FOUND ? WEIR_OK : status;
    }
    snapshot_end(connection);
    *ret_is_there = status == WEIR_OK && is_there;
    return status;
}

/* --- one execution --- */

/* Adds all rows of a query about the execution under one key. */
static enum weir_status add_rows_of(struct connection *connection, json_t *execution, const char *key,
                                    enum sqlite_query query, const char *id, struct weir_error *error)
{
    json_t *rows = NULL;
    enum weir_status status =
        statement_rows_json(connection, connection_bind(connection, error, query, "t", id), &rows, error);
    if (status == WEIR_OK && json_object_set_new(execution, key, rows) != 0) {
        status = error_out_of_memory(error);
    }
    return status;
}

/* Adds the params, which are stored as JSON text. */
static enum weir_status add_params(struct connection *connection, json_t *execution, const char *id,
                                   struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_PARAMS, "t", id);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        const char *bytes = (const char *)sqlite3_column_blob(statement, 0);
        size_t length = (size_t)sqlite3_column_bytes(statement, 0);
        status = reading_add_params(execution, bytes == NULL ? "" : bytes, length, error);
        (void)sqlite3_reset(statement);
        return status;
    }
    return status == WEIR_OK ? reading_add_params(execution, NULL, 0, error) : status;
}

/* Adds the last events, and the number of those before them. */
static enum weir_status add_events(struct connection *connection, json_t *execution, const char *id,
                                   struct weir_error *error)
{
    json_t *events = NULL;
    int64_t count = 0;
    enum weir_status status = connection_read_integer(connection, error, &count, QUERY_COUNT_EVENT_ROWS, "t", id);
    int64_t earlier = reading_earlier_events(count);
    if (status == WEIR_OK) {
        status = list_part_rows(connection, QUERY_READ_EVENT_ROWS, id, earlier, SHOW_EVENTS_MOST, &events, error);
    }
    return status == WEIR_OK ? reading_add_events(execution, events, earlier, error) : status;
}

/* Reads an execution with its params, steps, attempts and events. */
static enum weir_status show_one(struct connection *connection, const char *id, json_t **ret_execution,
                                 struct weir_error *error)
{
    char whole[UUID_TEXT_MAX];
    json_t *rows = NULL;
    enum weir_status status = filter_find_id(connection, id, whole, error);
    if (status == WEIR_OK) {
        status = statement_rows_json(connection, connection_bind(connection, error, QUERY_READ_EXECUTION, "t", whole),
                                     &rows, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    json_t *execution = json_incref(json_array_get(rows, 0));
    json_decref(rows);
    if (execution == NULL) {
        return reading_refuse_missing(whole, error);
    }
    status = add_params(connection, execution, whole, error);
    if (status == WEIR_OK) {
        status = add_rows_of(connection, execution, "steps", QUERY_READ_STEP_ROWS, whole, error);
    }
    if (status == WEIR_OK) {
        status = add_actions(connection, execution, whole, error);
    }
    if (status == WEIR_OK) {
        status = add_rows_of(connection, execution, "earlier_attempts", QUERY_READ_ATTEMPT_ROWS, whole, error);
    }
    if (status == WEIR_OK) {
        status = add_rows_of(connection, execution, "signals", QUERY_READ_SIGNAL_ROWS, whole, error);
    }
    if (status == WEIR_OK) {
        status = add_rows_of(connection, execution, "children", QUERY_READ_CHILD_ROWS, whole, error);
    }
    if (status == WEIR_OK) {
        status = add_rows_of(connection, execution, "parent", QUERY_READ_PARENT_ROWS, whole, error);
    }
    if (status == WEIR_OK) {
        status = reading_keep_first(execution, "parent", error);
    }
    if (status == WEIR_OK) {
        status = add_events(connection, execution, whole, error);
    }
    if (status != WEIR_OK) {
        json_decref(execution);
        return status;
    }
    *ret_execution = execution;
    return WEIR_OK;
}

enum weir_status sqlite_show(struct store *store, const char *id, json_t **ret_execution, struct weir_error *error)
{
    INVARIANT(id != NULL && ret_execution != NULL);
    struct connection *connection;
    enum weir_status status = snapshot_begin(store, &connection, error);
    if (status == WEIR_OK) {
        status = show_one(connection, id, ret_execution, error);
        snapshot_end(connection);
    }
    return status;
}
