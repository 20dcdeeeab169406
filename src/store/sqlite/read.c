/* Reading for people: lists, one execution, why, status, check. Rows become JSON; the column names are the keys. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "queue/item.h"
#include "queue/suspicion.h"
#include "store/sqlite/filter_query.h"

enum { BACKING_OFF_MOST = 10000, PLACE_MOST = 10000, HOLDERS_MOST = 20, NAME_COUNT_MOST = 1000 };

/* --- rows to JSON --- */

static json_t *column_json(sqlite3_stmt *statement, int column)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        return json_integer(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT:
        return json_real(sqlite3_column_double(statement, column));
    case SQLITE_NULL:
        return json_null();
    default: {
        const char *text = column_text(statement, column);
        size_t length = (size_t)sqlite3_column_bytes(statement, column);
        if (length == 4 && memcmp(text, "true", 4) == 0 && sqlite3_column_decltype(statement, column) == NULL) {
            return json_true();
        }
        if (length == 5 && memcmp(text, "false", 5) == 0 && sqlite3_column_decltype(statement, column) == NULL) {
            return json_false();
        }
        return text_is_utf8(text, length) ? json_stringn(text, length) : json_string("(bytes that are not UTF-8)");
    }
    }
}

static json_t *row_json(sqlite3_stmt *statement)
{
    json_t *row = json_object();
    for (int i = 0; row != NULL && i < sqlite3_column_count(statement); i++) {
        if (json_object_set_new_nocheck(row, sqlite3_column_name(statement, i), column_json(statement, i)) != 0) {
            json_decref(row);
            row = NULL;
        }
    }
    return row;
}

/* All rows of a bound statement. */
static enum weir_status rows_json(struct connection *connection, sqlite3_stmt *statement, json_t **ret_rows,
                                  struct weir_error *error)
{
    json_t *rows = json_array();
    enum weir_status status = WEIR_OK;
    if (statement == NULL || rows == NULL) {
        json_decref(rows);
        return statement == NULL ? statement_failure(error) : error_out_of_memory(error);
    }
    while (connection_step(connection, statement, &status, error)) {
        if (json_array_append_new(rows, row_json(statement)) != 0) {
            (void)sqlite3_reset(statement);
            json_decref(rows);
            return error_out_of_memory(error);
        }
    }
    if (status != WEIR_OK) {
        json_decref(rows);
        return status;
    }
    *ret_rows = rows;
    return WEIR_OK;
}

static enum weir_status packed(json_t *value, json_t **ret_value, struct weir_error *error)
{
    if (value == NULL) {
        return error_out_of_memory(error);
    }
    *ret_value = value;
    return WEIR_OK;
}

/* --- lists --- */

static enum weir_status add_execution(struct connection *connection, const char *id, const char *reason, json_t *items,
                                      struct weir_error *error)
{
    json_t *rows = NULL;
    enum weir_status status =
        rows_json(connection, connection_bind(connection, error, QUERY_READ_EXECUTION, "t", id), &rows, error);
    if (status != WEIR_OK) {
        return status;
    }
    json_t *row = json_array_get(rows, 0);
    const char *its = row == NULL ? NULL : json_string_value(json_object_get(row, "pending_reason"));
    if (row != NULL && (reason == NULL || (its != NULL && strcmp(its, reason) == 0))) {
        status = json_array_append(items, row) == 0 ? WEIR_OK : error_out_of_memory(error);
    }
    json_decref(rows);
    return status;
}

/* One page: with a filter by reason several selections may be needed until the page is full. */
static enum weir_status fill_page(struct connection *connection, const struct list_options *options, size_t limit,
                                  json_t *items, char *cursor, bool *ret_more, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    *ret_more = true;
    while (status == WEIR_OK && *ret_more && json_array_size(items) < limit) {
        struct selection selection = {0};
        status = select_ids(connection, &options->filter, cursor, true, limit, &selection, error);
        *ret_more = selection.more;
        for (size_t i = 0; i < selection.count && status == WEIR_OK; i++) {
            status = add_execution(connection, selection.ids[i], options->filter.reason, items, error);
            memcpy(cursor, selection.ids[i], UUID_TEXT_MAX);
            if (json_array_size(items) == limit) {
                *ret_more = *ret_more || i + 1 < selection.count;
                break;
            }
        }
        free(selection.ids);
    }
    return status;
}

static enum weir_status count_executions(struct connection *connection, const struct list_options *options,
                                         size_t *ret_count, bool *ret_exact, struct weir_error *error)
{
    struct selection selection = {0};
    enum weir_status status = select_ids(connection, &options->filter, "", true, LIST_COUNT_MOST, &selection, error);
    *ret_count = selection.count;
    *ret_exact = !selection.more && options->filter.reason == NULL;
    if (status == WEIR_OK && options->filter.reason != NULL) {
        json_t *items = json_array();
        for (size_t i = 0; i < selection.count && status == WEIR_OK; i++) {
            status = add_execution(connection, selection.ids[i], options->filter.reason, items, error);
        }
        *ret_count = json_array_size(items);
        *ret_exact = !selection.more;
        json_decref(items);
    }
    free(selection.ids);
    return status;
}

static enum weir_status list_executions(struct connection *connection, const struct list_options *options, size_t limit,
                                        json_t **ret_page, struct weir_error *error)
{
    char cursor[UUID_TEXT_MAX] = "";
    bool more = false;
    size_t count = 0;
    bool exact = false;
    json_t *items = json_array();
    text_copy(cursor, sizeof cursor, options->cursor == NULL ? "" : options->cursor);
    enum weir_status status = items == NULL ? error_out_of_memory(error) : WEIR_OK;
    for (char *c = cursor; *c != '\0'; c++) {
        *c = (char)tolower((unsigned char)*c); /* ids are kept so, and compared as text */
    }
    if (status == WEIR_OK && cursor[0] != '\0' && !uuid_is_valid(options->cursor)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "\"%.64s\" is not a cursor", options->cursor);
        error_hint(error, "a cursor is the next_cursor of the page before");
    }
    if (status == WEIR_OK) {
        status = fill_page(connection, options, limit, items, cursor, &more, error);
    }
    if (status == WEIR_OK && options->count) {
        status = count_executions(connection, options, &count, &exact, error);
    }
    if (status != WEIR_OK) {
        json_decref(items);
        return status;
    }
    json_t *next = more ? json_string(cursor) : json_null();
    return packed(options->count ? json_pack("{s:o, s:o, s:I, s:b}", "items", items, "next_cursor", next, "count",
                                             (json_int_t)count, "count_is_exact", exact)
                                 : json_pack("{s:o, s:o, s:n, s:b}", "items", items, "next_cursor", next, "count",
                                             "count_is_exact", 0),
                  ret_page, error);
}

static enum weir_status read_events(struct connection *connection, const char *id, int64_t offset, size_t limit,
                                    json_t **ret_events, struct weir_error *error)
{
    return rows_json(connection,
                     connection_bind(connection, error, QUERY_READ_EVENT_ROWS, "tii", id, offset, (int64_t)limit),
                     ret_events, error);
}

static enum weir_status list_events(struct connection *connection, const char *cursor, const char *id, size_t limit,
                                    json_t **ret_page, struct weir_error *error)
{
    int64_t offset = 0;
    json_t *rows = NULL;
    enum weir_status status = events_offset(cursor, &offset, error);
    if (status == WEIR_OK) {
        status = read_events(connection, id, offset, limit + 1, &rows, error);
    }
    return status == WEIR_OK ? events_page(rows, offset, limit, ret_page, error) : status;
}

static enum weir_status list_story(struct connection *connection, const struct list_options *options, size_t limit,
                                   json_t **ret_page, struct weir_error *error)
{
    char id[UUID_TEXT_MAX];
    json_t *items = NULL;
    if (options->filter.id == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "events and steps are listed of one execution: give its id");
    }
    enum weir_status status = select_one(connection, options->filter.id, id, error);
    if (status == WEIR_OK && options->kind == LIST_EVENTS) {
        return list_events(connection, options->cursor, id, limit, ret_page, error);
    }
    if (status == WEIR_OK) {
        status = rows_json(connection, connection_bind(connection, error, QUERY_READ_STEP_ROWS, "t", id), &items, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    return packed(json_pack("{s:o, s:n, s:I, s:b}", "items", items, "next_cursor", "count",
                            (json_int_t)json_array_size(items), "count_is_exact", 1),
                  ret_page, error);
}

/* Lists that go on behind a name, or behind a column cursor_key that is taken out again. */
static enum weir_status list_named(struct connection *connection, enum sqlite_query query, bool with_time, int64_t now_us,
                                   const struct list_options *options, size_t limit, json_t **ret_page,
                                   struct weir_error *error)
{
    json_t *items = NULL;
    const char *cursor = options->cursor == NULL ? "" : options->cursor;
    sqlite3_stmt *statement =
        with_time ? connection_bind(connection, error, query, "ttii", options->name, cursor, (int64_t)limit + 1, now_us)
                  : connection_bind(connection, error, query, "tti", options->name, cursor, (int64_t)limit + 1);
    enum weir_status status = rows_json(connection, statement, &items, error);
    if (status != WEIR_OK) {
        return status;
    }
    bool more = json_array_size(items) > limit;
    if (more) {
        (void)json_array_remove(items, limit);
    }
    json_t *last = json_array_get(items, json_array_size(items) - 1);
    const char *key =
        json_string_value(json_object_get(last, json_object_get(last, "cursor_key") != NULL ? "cursor_key" : "name"));
    json_t *next = more && key != NULL ? json_string(key) : json_null();
    size_t i;
    json_t *row;
    json_array_foreach(items, i, row)
    {
        (void)json_object_del(row, "cursor_key");
    }
    return packed(json_pack("{s:o, s:o, s:I, s:b}", "items", items, "next_cursor", next, "count",
                            (json_int_t)json_array_size(items), "count_is_exact", !more && cursor[0] == '\0'),
                  ret_page, error);
}

static enum weir_status list_kind(struct connection *connection, const struct list_options *options, json_t **ret_page,
                                  struct weir_error *error)
{
    int64_t now_us = 0;
    size_t limit = options->limit == 0 ? LIST_LIMIT_DEFAULT : options->limit;
    enum weir_status status = connection_store_time(connection, &now_us, error);
    if (status != WEIR_OK) {
        return status;
    }
    switch (options->kind) {
    case LIST_EXECUTIONS:
        return list_executions(connection, options, limit, ret_page, error);
    case LIST_EVENTS:
    case LIST_STEPS:
        return list_story(connection, options, limit, ret_page, error);
    case LIST_WORKSPACES:
        return list_named(connection, QUERY_LIST_WORKSPACES, false, now_us, options, limit, ret_page, error);
    case LIST_PLANS:
        return list_named(connection, QUERY_LIST_PLANS, false, now_us, options, limit, ret_page, error);
    case LIST_WORKFLOWS:
        return list_named(connection, QUERY_LIST_WORKFLOWS, false, now_us, options, limit, ret_page, error);
    case LIST_NODES:
        return list_named(connection, QUERY_LIST_NODES, true, now_us, options, limit, ret_page, error);
    case LIST_LOCKS:
        return list_named(connection, QUERY_LIST_LOCKS, true, now_us, options, limit, ret_page, error);
    case LIST_GROUPS:
        return list_named(connection, QUERY_LIST_GROUPS, false, now_us, options, limit, ret_page, error);
    }
    return error_set(error, WEIR_MISUSE, "no such list");
}

enum weir_status sqlite_list(struct store *store, const struct list_options *options, json_t **ret_page,
                             struct weir_error *error)
{
    struct connection *connection;
    enum weir_status status = look_begin(store, &connection, error);
    if (status == WEIR_OK) {
        status = list_kind(connection, options, ret_page, error);
        look_end(connection);
    }
    return status;
}

/* --- one execution --- */

static enum weir_status add_part(struct connection *connection, json_t *execution, const char *key, enum sqlite_query query,
                                 const char *id, struct weir_error *error)
{
    json_t *rows = NULL;
    enum weir_status status = rows_json(connection, connection_bind(connection, error, query, "t", id), &rows, error);
    if (status == WEIR_OK && json_object_set_new(execution, key, rows) != 0) {
        status = error_out_of_memory(error);
    }
    return status;
}

static enum weir_status add_params(struct connection *connection, json_t *execution, const char *id,
                                   struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_PARAMS, "t", id);
    enum weir_status status = WEIR_OK;
    json_t *params = NULL;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        const char *bytes = (const char *)sqlite3_column_blob(statement, 0);
        status = json_read(bytes == NULL ? "" : bytes, (size_t)sqlite3_column_bytes(statement, 0), &params, error);
        (void)sqlite3_reset(statement);
    } else if (status == WEIR_OK) {
        params = json_object();
    }
    if (status == WEIR_OK && json_object_set_new(execution, "params", params) != 0) {
        status = error_out_of_memory(error);
    }
    return status;
}

static enum weir_status add_events(struct connection *connection, json_t *execution, const char *id,
                                   struct weir_error *error)
{
    json_t *events = NULL;
    int64_t count = 0;
    enum weir_status status = connection_read_integer(connection, error, &count, QUERY_COUNT_EVENT_ROWS, "t", id);
    int64_t earlier = count > SHOW_EVENTS_MOST ? count - SHOW_EVENTS_MOST : 0;
    if (status == WEIR_OK) {
        status = read_events(connection, id, earlier, SHOW_EVENTS_MOST, &events, error);
    }
    return status == WEIR_OK ? events_show(execution, events, earlier, error) : status;
}

static enum weir_status show_one(struct connection *connection, const char *id, json_t **ret_execution,
                                 struct weir_error *error)
{
    char whole[UUID_TEXT_MAX];
    json_t *rows = NULL;
    enum weir_status status = select_one(connection, id, whole, error);
    if (status == WEIR_OK) {
        status = rows_json(connection, connection_bind(connection, error, QUERY_READ_EXECUTION, "t", whole), &rows, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    json_t *execution = json_incref(json_array_get(rows, 0));
    json_decref(rows);
    if (execution == NULL) {
        return error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution %s", whole);
    }
    status = add_params(connection, execution, whole, error);
    if (status == WEIR_OK) {
        status = add_part(connection, execution, "steps", QUERY_READ_STEP_ROWS, whole, error);
    }
    if (status == WEIR_OK) {
        status = add_part(connection, execution, "earlier_attempts", QUERY_READ_ATTEMPT_ROWS, whole, error);
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
    struct connection *connection;
    enum weir_status status = look_begin(store, &connection, error);
    if (status == WEIR_OK) {
        status = show_one(connection, id, ret_execution, error);
        look_end(connection);
    }
    return status;
}

/* --- the scheduler --- */

/* Why the role changed hands last, and since when its holder awaits the lock of dispatch.exclusive (0: it does not). */
static enum weir_status add_role_why(struct connection *connection, json_t *scheduler, int64_t *ret_lock_awaited_us,
                                     struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_WHY_OF_ROLE, "");
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        (void)json_object_set_new(scheduler, "why", column_json(statement, 0));
        *ret_lock_awaited_us = sqlite3_column_int64(statement, 1);
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* Which node schedules, and how old the oldest row of the news is that is not in the books. */
static enum weir_status add_scheduler(struct connection *connection, int64_t now_us, json_t *answer,
                                      struct weir_error *error)
{
    struct role_state role;
    int64_t oldest_us = now_us;
    char since[TIME_TEXT_MAX];
    char expires[TIME_TEXT_MAX];
    enum weir_status status = role_read(connection, now_us, &role, error);
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &oldest_us, QUERY_OLDEST_NEWS, "");
        status = status == WEIR_NOT_FOUND ? WEIR_OK : status;
    }
    if (status != WEIR_OK) {
        return status;
    }
    bool is_held = role.node_id != 0;
    time_format(role.since_us, since);
    time_format(role.expires_us, expires);
    json_t *scheduler =
        json_pack("{s:s?, s:o, s:I, s:s?, s:s?, s:I, s:I, s:b}", "node", is_held ? role.node : NULL, "node_id",
                  is_held ? json_integer(role.node_id) : json_null(), "epoch", (json_int_t)role.epoch, "since",
                  role.since_us > 0 ? since : NULL, "expires", is_held ? expires : NULL, "lag_us",
                  (json_int_t)(now_us > oldest_us ? now_us - oldest_us : 0), "takeovers_hour",
                  (json_int_t)role.takeovers_hour, "is_free", role.is_free);
    int64_t lock_awaited_us = 0;
    if (json_object_set_new(answer, "scheduler", scheduler) != 0) {
        return error_out_of_memory(error);
    }
    return add_role_why(connection, scheduler, &lock_awaited_us, error);
}

/* --- why --- */

struct why {
    struct connection *connection;
    sqlite3_stmt *item; /* the row of why_item, stepped on */
    const char *id;
    int64_t now_us;
    json_t *answer;
};

static json_t *time_json(sqlite3_stmt *statement, int column)
{
    char text[TIME_TEXT_MAX];
    if (sqlite3_column_type(statement, column) == SQLITE_NULL) {
        return json_null();
    }
    time_format(sqlite3_column_int64(statement, column), text);
    return json_string(text);
}

static enum pending_reason reason_of(sqlite3_stmt *item)
{
    int phase = sqlite3_column_int(item, 1);
    if (phase == 2) {
        return sqlite3_column_int(item, 42) != 0                        ? REASON_NO_NODE_FOR_ENGINE
               : sqlite3_column_int64(item, 40) >= SUSPICION_QUARANTINE ? REASON_QUARANTINED
                                                                        : REASON_HANDED_OVER;
    }
    if (phase == 1) {
        return sqlite3_column_int64(item, 6) > sqlite3_column_int64(item, 5) ? REASON_BACKING_OFF : REASON_SCHEDULED;
    }
    if (sqlite3_column_int(item, 17) != 0) {
        return REASON_WORKSPACE_PAUSED;
    }
    if (sqlite3_column_int(item, 18) != 0) {
        return REASON_QUEUE_PAUSED;
    }
    if (sqlite3_column_int(item, 19) == 0) {
        return REASON_NO_NODE_IN_GROUP;
    }
    if (sqlite3_column_int(item, 48) == 0) {
        return REASON_NO_NODE_FOR_ENGINE;
    }
    if (sqlite3_column_int(item, 20) == 0) {
        return REASON_ENGINE_UNREACHABLE;
    }
    if (sqlite3_column_int(item, 38) == 0) {
        return REASON_NO_SCHEDULER;
    }
    bool has_workspace = sqlite3_column_type(item, 16) != SQLITE_NULL;
    return has_workspace && sqlite3_column_int(item, 15) >= sqlite3_column_int(item, 16) ? REASON_WORKSPACE_AT_CAPACITY
                                                                                         : REASON_READY;
}

static enum weir_status add_holders(struct why *why, int64_t workspace_id, struct weir_error *error)
{
    json_t *holders = json_array();
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement =
        connection_bind(why->connection, error, QUERY_SLOT_HOLDERS, "ii", workspace_id, (int64_t)HOLDERS_MOST);
    if (statement == NULL) {
        json_decref(holders);
        return statement_failure(error);
    }
    while (connection_step(why->connection, statement, &status, error)) {
        int64_t since_us = sqlite3_column_type(statement, 4) != SQLITE_NULL ? sqlite3_column_int64(statement, 4)
                                                                            : sqlite3_column_int64(statement, 3);
        json_t *holder = json_pack("{s:s, s:s, s:s?, s:s?, s:I}", "id", column_text(statement, 0), "status",
                                   column_text(statement, 1), "node", column_text(statement, 2), "steps",
                                   column_text(statement, 5), "running_us", (json_int_t)(why->now_us - since_us));
        (void)json_array_append_new(holders, holder);
    }
    return json_object_set_new(why->answer, "slot_holders", holders) == 0 ? status : error_out_of_memory(error);
}

static enum weir_status add_place(struct why *why, int64_t lane_id, int64_t rank, int64_t runnable,
                                  struct weir_error *error)
{
    int64_t ahead = 0;
    enum weir_status status = connection_read_integer(why->connection, error, &ahead, QUERY_PLACE_IN_LANE, "iiti", lane_id,
                                                      rank, why->id, (int64_t)PLACE_MOST);
    if (status == WEIR_OK) {
        (void)json_object_set_new(why->answer, "place", json_integer(ahead + 1));
        (void)json_object_set_new(why->answer, "place_is_exact", json_boolean(ahead < PLACE_MOST));
        (void)json_object_set_new(why->answer, "waiting_in_lane", json_integer(runnable));
    }
    return status;
}

static const char *what_its_node_does(sqlite3_stmt *item, bool is_silent)
{
    if (is_silent) {
        return "its node is silent; the next node of its executor group that lives takes it over";
    }
    return sqlite3_column_type(item, 11) == SQLITE_NULL ? "its node has claimed it and starts it" : "it is running";
}

static json_t *target_json(sqlite3_stmt *statement, int column)
{
    struct engine_target target = {.engine = ""};
    char text[TARGET_TEXT_MAX];
    if (sqlite3_column_type(statement, column) == SQLITE_NULL) {
        return json_null();
    }
    text_copy(target.engine, sizeof target.engine, column_text(statement, column));
    text_copy(target.service, sizeof target.service, column_text(statement, column + 1));
    text_copy(target.namespace_name, sizeof target.namespace_name, column_text(statement, column + 2));
    text_copy(target.address, sizeof target.address, column_text(statement, column + 3));
    engine_target_text(&target, text);
    return json_string(text);
}

/* Where its start may have arrived; and when no live node can ask there, since when, and where they are instead. */
static enum weir_status add_targets(struct why *why, const char *group, bool is_unasked, struct weir_error *error)
{
    json_t *targets = json_array();
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(why->connection, error, QUERY_TARGETS_OF_GROUP, "ti", group, why->now_us);
    if (statement == NULL) {
        json_decref(targets);
        return statement_failure(error);
    }
    while (connection_step(why->connection, statement, &status, error)) {
        (void)json_array_append_new(targets, target_json(statement, 0));
    }
    if (!is_unasked) {
        json_decref(targets);
        targets = json_null();
    }
    return json_object_set_new(why->answer, "group_targets", targets) == 0 ? status : error_out_of_memory(error);
}

static json_t *facts_of(sqlite3_stmt *item, const char *id, int64_t now_us)
{
    int phase = sqlite3_column_int(item, 1);
    bool waits = phase != 2 || sqlite3_column_int64(item, 2) == 0;
    bool is_silent = !waits && sqlite3_column_type(item, 37) != SQLITE_NULL;
    enum pending_reason reason = reason_of(item);
    bool is_unserved = waits && reason == REASON_NO_NODE_IN_GROUP;
    bool is_away = waits && reason == REASON_ENGINE_UNREACHABLE;
    return json_pack(
        "{s:s, s:s, s:s?, s:s, s:s?, s:s?, s:s?, s:i, s:I, s:I, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:s?, s:s?, s:b, s:s?, "
        "s:s?, s:s?, s:o, s:o, s:o, s:o, s:s?, s:I, s:I, s:o}",
        "id", id, "status", column_text(item, 0), "pending_reason", waits ? pending_reason_name(reason) : NULL, "because",
        waits ? pending_reason_meaning(reason) : what_its_node_does(item, is_silent), "workspace", column_text(item, 13),
        "plan", column_text(item, 14), "workflow", column_text(item, 27), "version", sqlite3_column_int(item, 28),
        "slots_used", (json_int_t)sqlite3_column_int64(item, 15), "slots_max", (json_int_t)sqlite3_column_int64(item, 16),
        "attempts", sqlite3_column_int(item, 7), "deferrals", sqlite3_column_int(item, 8), "handovers",
        sqlite3_column_int(item, 9), "run_at", time_json(item, 5), "due_at", time_json(item, 6), "claimed_at",
        time_json(item, 10), "dispatched_at", time_json(item, 11), "node", column_text(item, 21), "executor_group",
        column_text(item, 22), "cancel_requested", sqlite3_column_type(item, 24) != SQLITE_NULL, "error_code",
        column_text(item, 25), "error", column_text(item, 26), "engine_error",
        is_away ? column_text(item, 31)
        : waits ? NULL
                : column_text(item, 35),
        "engine_unreachable_since",
        is_away ? time_json(item, 34)
        : waits ? json_null()
                : time_json(item, 36),
        "engine_impaired_since", waits ? json_null() : time_json(item, 39), "node_silent_since",
        is_silent ? time_json(item, 37) : json_null(), "nodes_live",
        is_unserved || is_silent ? json_integer(sqlite3_column_int64(item, 32)) : json_null(), "paused_node",
        is_unserved ? column_text(item, 33) : NULL, "waiting_us", (json_int_t)(now_us - sqlite3_column_int64(item, 12)),
        "suspicion", (json_int_t)sqlite3_column_int64(item, 40), "suspected_at", time_json(item, 41));
}

/* Of an item without a scheduler: since when, the last one, and why it stopped. */
static enum weir_status add_no_scheduler(struct why *why, struct weir_error *error)
{
    struct role_state role;
    const char *reason = json_string_value(json_object_get(why->answer, "pending_reason"));
    bool is_told = reason != NULL && strcmp(reason, pending_reason_name(REASON_NO_SCHEDULER)) == 0;
    enum weir_status status = role_read(why->connection, why->now_us, &role, error);
    json_t *last = json_object();
    int64_t lock_awaited_us = 0;
    if (status == WEIR_OK && is_told) {
        status = last == NULL ? error_out_of_memory(error) : add_role_why(why->connection, last, &lock_awaited_us, error);
    }
    if (status == WEIR_OK) {
        bool is_held = is_told && role.node_id != 0;
        const char *told = json_string_value(json_object_get(last, "why"));
        int64_t since_us = lock_awaited_us > 0 ? lock_awaited_us : is_held ? role.expires_us : role.since_us;
        char since[TIME_TEXT_MAX];
        time_format(since_us, since);
        (void)json_object_set_new(why->answer, "scheduler_since",
                                  is_told && since_us > 0 ? json_string(since) : json_null());
        (void)json_object_set_new(why->answer, "scheduler_node", is_held ? json_string(role.node) : json_null());
        (void)json_object_set_new(why->answer, "scheduler_why",
                                  !is_told              ? json_null()
                                  : lock_awaited_us > 0 ? json_string("awaits the lock")
                                  : is_held             ? json_string("lease over")
                                                        : json_string(told == NULL ? "free" : told));
    }
    json_decref(last);
    return status;
}

static enum weir_status why_living(struct why *why, struct weir_error *error)
{
    sqlite3_stmt *item = why->item;
    int phase = sqlite3_column_int(item, 1);
    int64_t lane_id = sqlite3_column_int64(item, 4);
    int64_t rank = sqlite3_column_int64(item, 3);
    int64_t runnable = sqlite3_column_int64(item, 29);
    int64_t workspace_id = sqlite3_column_int64(item, 23);
    int64_t attempts_max = sqlite3_column_int64(item, 30); /* of the definition; 0 = as its node says */
    bool waits = phase != 2 || sqlite3_column_int64(item, 2) == 0;
    bool is_unasked = waits && reason_of(item) == REASON_NO_NODE_FOR_ENGINE;
    char group[GROUP_NAME_MAX + 1] = "";
    text_copy(group, sizeof group, column_text(item, 22) == NULL ? "" : column_text(item, 22));
    why->answer = facts_of(item, why->id, why->now_us);
    if (why->answer != NULL) {
        (void)json_object_set_new(why->answer, "target", phase == 2 ? target_json(item, 43) : json_null());
        (void)json_object_set_new(why->answer, "engine_needed",
                                  is_unasked ? json_string(lane_is_on_temporal(lane_id) ? "temporal" : "in_process")
                                             : json_null());
        (void)json_object_set_new(why->answer, "no_node_since", is_unasked ? time_json(item, 47) : json_null());
    }
    (void)sqlite3_reset(item);
    if (why->answer == NULL) {
        return error_out_of_memory(error);
    }
    (void)json_object_set_new(why->answer, "attempts_max",
                              json_integer(attempts_max > 0 ? attempts_max : ATTEMPTS_MAX_DEFAULT));
    enum weir_status status = add_holders(why, workspace_id, error);
    if (status == WEIR_OK) {
        status = add_targets(why, group, is_unasked, error);
    }
    if (status == WEIR_OK) {
        status = add_no_scheduler(why, error);
    }
    if (status == WEIR_OK && phase == 0) {
        status = add_place(why, lane_id, rank, runnable, error);
    }
    return status;
}

static enum weir_status why_ended(struct why *why, struct weir_error *error)
{
    json_t *rows = NULL;
    enum weir_status status = rows_json(
        why->connection, connection_bind(why->connection, error, QUERY_READ_EXECUTION, "t", why->id), &rows, error);
    if (status == WEIR_OK) {
        why->answer = json_incref(json_array_get(rows, 0));
        json_decref(rows);
        if (why->answer == NULL) {
            return error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution %s", why->id);
        }
        (void)json_object_set_new(why->answer, "because", json_string("it has ended"));
    }
    return status;
}

static enum weir_status why_one(struct connection *connection, const char *id, json_t **ret_why, struct weir_error *error)
{
    char whole[UUID_TEXT_MAX];
    struct why why = {.connection = connection, .id = whole};
    enum weir_status status = select_one(connection, id, whole, error);
    if (status == WEIR_OK) {
        status = connection_store_time(why.connection, &why.now_us, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    why.item = connection_bind(why.connection, error, QUERY_WHY_ITEM, "ti", whole, why.now_us);
    if (why.item == NULL) {
        return statement_failure(error);
    }
    if (connection_step(why.connection, why.item, &status, error)) {
        status = why_living(&why, error);
    } else if (status == WEIR_OK) {
        status = why_ended(&why, error);
    }
    if (status != WEIR_OK) {
        json_decref(why.answer);
        return status;
    }
    *ret_why = why.answer;
    return WEIR_OK;
}

enum weir_status sqlite_why(struct store *store, const char *id, json_t **ret_why, struct weir_error *error)
{
    struct connection *connection;
    enum weir_status status = look_begin(store, &connection, error);
    if (status == WEIR_OK) {
        status = why_one(connection, id, ret_why, error);
        look_end(connection);
    }
    return status;
}

/* --- status and check --- */

static enum weir_status read_totals(struct connection *connection, json_t *status_json, struct weir_error *error)
{
    static const char *const keys[] = {"pending",   "slots_used",      "completed",   "failed",
                                       "cancelled", "workspace_count", "queue_paused"};
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_STATUS_TOTALS, "");
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        for (int i = 0; i < (int)(sizeof keys / sizeof keys[0]); i++) {
            json_int_t value = sqlite3_column_int64(statement, i);
            (void)json_object_set_new(status_json, keys[i], i == 6 ? json_boolean(value != 0) : json_integer(value));
        }
        (void)sqlite3_reset(statement);
    }
    return status;
}

static enum weir_status read_node_totals(struct connection *connection, int64_t now_us, json_t *status_json,
                                         struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_STATUS_NODES, "i", now_us);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        (void)json_object_set_new(status_json, "nodes", json_integer(sqlite3_column_int64(statement, 0)));
        (void)json_object_set_new(status_json, "running", json_integer(sqlite3_column_int64(statement, 1)));
        (void)json_object_set_new(status_json, "stuck", json_integer(sqlite3_column_int64(statement, 2)));
        (void)json_object_set_new(status_json, "engine_reachable", json_boolean(sqlite3_column_int(statement, 3) != 0));
        const char *engine_error = column_text(statement, 4);
        (void)json_object_set_new(status_json, "engine_error",
                                  engine_error == NULL ? json_null() : json_string(engine_error));
        (void)json_object_set_new(status_json, "engine_impaired_since", time_json(statement, 5));
        (void)json_object_set_new(status_json, "engine_unreachable_since", time_json(statement, 6));
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* All reasons of the closed list, also those that hold nothing back. */
static enum weir_status read_reasons(struct connection *connection, int64_t now_us, json_t *status_json,
                                     struct weir_error *error)
{
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_STATUS_REASONS, "ii", now_us, (int64_t)BACKING_OFF_MOST);
    json_t *reasons = json_object();
    enum weir_status status = statement == NULL ? statement_failure(error) : WEIR_OK;
    for (unsigned i = 0; i < PENDING_REASON_COUNT; i++) {
        (void)json_object_set_new(reasons, pending_reason_name((enum pending_reason)i), json_integer(0));
    }
    while (status == WEIR_OK && connection_step(connection, statement, &status, error)) {
        const char *reason = column_text(statement, 0);
        (void)json_object_set_new(reasons, reason == NULL ? "" : reason, json_integer(sqlite3_column_int64(statement, 1)));
    }
    if (json_object_set_new(status_json, "pending_reasons", reasons) != 0 && status == WEIR_OK) {
        status = error_out_of_memory(error);
    }
    return status;
}

static enum weir_status status_of(struct store *store, struct connection *connection, size_t workspaces_max,
                                  json_t **ret_status, struct weir_error *error)
{
    int64_t now_us = 0;
    int64_t oldest_us = 0;
    json_t *workspaces = NULL;
    json_t *groups = NULL;
    json_t *answer = json_object();
    enum weir_status status =
        answer == NULL ? error_out_of_memory(error) : connection_store_time(connection, &now_us, error);
    if (status == WEIR_OK) {
        status = read_totals(connection, answer, error);
    }
    if (status == WEIR_OK) {
        status = read_node_totals(connection, now_us, answer, error);
    }
    if (status == WEIR_OK) {
        status = read_reasons(connection, now_us, answer, error);
    }
    if (status == WEIR_OK) {
        status = add_scheduler(connection, now_us, answer, error);
    }
    if (status == WEIR_OK) {
        enum weir_status found = connection_read_integer(connection, error, &oldest_us, QUERY_OLDEST_PENDING, "");
        (void)json_object_set_new(answer, "oldest_pending_age_us", json_integer(found == WEIR_OK ? now_us - oldest_us : 0));
        status = found == WEIR_NOT_FOUND ? WEIR_OK : found;
    }
    if (status == WEIR_OK) {
        status = rows_json(
            connection, connection_bind(connection, error, QUERY_STATUS_WORKSPACES, "ii", (int64_t)workspaces_max, now_us),
            &workspaces, error);
    }
    if (status == WEIR_OK) {
        status = rows_json(
            connection, connection_bind(connection, error, QUERY_STATUS_GROUPS, "ii", (int64_t)STATUS_GROUPS_MOST, now_us),
            &groups, error);
    }
    if (status != WEIR_OK) {
        json_decref(workspaces);
        json_decref(answer);
        return status;
    }
    (void)json_object_set_new(answer, "workspaces", workspaces);
    (void)json_object_set_new(answer, "groups", groups);
    (void)json_object_set_new(answer, "store", json_string(store->url));
    (void)json_object_set_new(answer, "schema", json_integer(SQLITE_MIGRATION_COUNT));
    (void)json_object_set_new(answer, "now_us", json_integer(now_us));
    *ret_status = answer;
    return WEIR_OK;
}

enum weir_status sqlite_status(struct store *store, size_t workspaces_max, json_t **ret_status, struct weir_error *error)
{
    struct connection *connection;
    enum weir_status status = look_begin(store, &connection, error);
    if (status == WEIR_OK) {
        status = status_of(store, connection, workspaces_max, ret_status, error);
        look_end(connection);
    }
    return status;
}
