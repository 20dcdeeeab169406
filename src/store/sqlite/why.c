/* `weir why`: the one reason why an execution does not run, and the facts that explain it.
 *
 *   1. Find the execution by its id or the beginning of it. One query (why_item) reads all facts of a live item in one
 *      row.
 *   2. Choose the first reason that applies, in the order in which an operator would have to act. The reasons are a
 *      held item without a node; a time that has not come; a pause; a group without a node; an engine that is away.
 *      Then a handler that no node has; no scheduler; no free slot; no node with free capacity. An item that none of
 *      these stops is ready.
 *   3. Add the holders of the slots, the targets of the group, the scheduler, and the place in the lane, each bounded.
 *   4. An ended execution is its own answer.
 *
 * All reads see one snapshot, so that the parts of an answer agree. It never writes. Runs in the thread of the handle.
 */
#include <string.h>

#include "base/error.h"
#include "queue/item.h"
#include "queue/suspicion.h"
#include "store/reading.h"
#include "store/sqlite/filter_query.h"
#include "store/sqlite/row_json.h"

enum { PLACE_MOST = 10000, HOLDERS_MOST = 20 };

/* --- why --- */

/* The columns of the query why_item, in its order. */
enum why_column {
    WHY_STATUS,
    WHY_PHASE,
    WHY_NODE_ID,
    WHY_RANK,
    WHY_LANE_ID,
    WHY_RUN_AT,
    WHY_DUE_AT,
    WHY_STARTS_REFUSED,
    WHY_DEFERRALS,
    WHY_HANDOVERS,
    WHY_CLAIMED_AT,
    WHY_DISPATCHED_AT,
    WHY_CREATED_AT,
    WHY_WORKSPACE,
    WHY_PLAN,
    WHY_SLOTS_USED,
    WHY_SLOTS_MAX,
    WHY_WORKSPACE_PAUSED,
    WHY_QUEUE_PAUSED,
    WHY_GROUP_HAS_NODE,
    WHY_ENGINE_REACHED,
    WHY_NODE,
    WHY_GROUP,
    WHY_WORKSPACE_ID,
    WHY_CANCEL_AT,
    WHY_ERROR_CODE,
    WHY_ERROR,
    WHY_WORKFLOW,
    WHY_VERSION,
    WHY_RUNNABLE,
    WHY_STARTS_MAX,
    WHY_GROUP_ENGINE_ERROR,
    WHY_NODES_LIVE,
    WHY_PAUSED_NODE,
    WHY_GROUP_UNREACHABLE_AT,
    WHY_NODE_ENGINE_ERROR,
    WHY_NODE_UNREACHABLE_AT,
    WHY_NODE_SILENT_AT,
    WHY_HAS_SCHEDULER,
    WHY_NODE_IMPAIRED_AT,
    WHY_SUSPICION,
    WHY_SUSPECTED_AT,
    WHY_TARGET_UNSERVED,
    WHY_TARGET, /* engine, service, namespace, address */
    WHY_TARGET_SERVICE,
    WHY_TARGET_NAMESPACE,
    WHY_TARGET_ADDRESS,
    WHY_UNSERVED_SINCE,
    WHY_ENGINE_HAS_NODE,
    WHY_DEFINITION_ID,
    WHY_STUCK_AT,
    WHY_WAITING_FOR,
    WHY_RECORD_FAILED_AT,
    WHY_RECORD_ERROR
};

struct why {
    struct connection *connection;
    sqlite3_stmt *item; /* the row of why_item, stepped on */
    const char *id;
    int64_t now_us;
    json_t *answer;
    bool is_unserved; /* its definition has handlers, and no live node of its group has all of them */
    bool has_room;    /* a node that could run it reported free capacity */
    int64_t nodes;    /* the nodes that could run it, what they can hold at once, and what they run */
    int64_t capacity;
    int64_t running;
};

/* The first reason that applies. A held item without a node is handed over, in quarantine or unserved. */
static enum pending_reason choose_reason(const struct why *why)
{
    sqlite3_stmt *item = why->item;
    bool is_unserved = why->is_unserved;
    int phase = sqlite3_column_int(item, WHY_PHASE);
    if (phase == 2) {
        return sqlite3_column_int(item, WHY_TARGET_UNSERVED) != 0                  ? REASON_NO_NODE_FOR_ENGINE
               : sqlite3_column_int64(item, WHY_SUSPICION) >= SUSPICION_QUARANTINE ? REASON_QUARANTINED
                                                                                   : REASON_HANDED_OVER;
    }
    if (phase == 1) {
        const char *code = column_text(item, WHY_ERROR_CODE);
        if (is_unserved && code != NULL && strcmp(code, "unknown_handler") == 0) {
            return REASON_NO_WORKER;
        }
        return sqlite3_column_int64(item, WHY_DUE_AT) > sqlite3_column_int64(item, WHY_RUN_AT) ? REASON_BACKING_OFF
                                                                                               : REASON_SCHEDULED;
    }
    if (sqlite3_column_int(item, WHY_WORKSPACE_PAUSED) != 0) {
        return REASON_WORKSPACE_PAUSED;
    }
    if (sqlite3_column_int(item, WHY_QUEUE_PAUSED) != 0) {
        return REASON_QUEUE_PAUSED;
    }
    if (sqlite3_column_int(item, WHY_GROUP_HAS_NODE) == 0) {
        return REASON_NO_NODE_IN_GROUP;
    }
    if (sqlite3_column_int(item, WHY_ENGINE_HAS_NODE) == 0) {
        return REASON_NO_NODE_FOR_ENGINE;
    }
    if (sqlite3_column_int(item, WHY_ENGINE_REACHED) == 0) {
        return REASON_ENGINE_UNREACHABLE;
    }
    if (is_unserved) {
        return REASON_NO_WORKER;
    }
    if (sqlite3_column_int(item, WHY_HAS_SCHEDULER) == 0) {
        return REASON_NO_SCHEDULER;
    }
    bool has_workspace = sqlite3_column_type(item, WHY_SLOTS_MAX) != SQLITE_NULL;
    if (has_workspace && sqlite3_column_int(item, WHY_SLOTS_USED) >= sqlite3_column_int(item, WHY_SLOTS_MAX)) {
        return REASON_WORKSPACE_AT_CAPACITY;
    }
    return why->has_room ? REASON_READY : REASON_NODES_FULL;
}

/* Adds the items that use the slots of the workspace. */
static enum weir_status add_holders(struct why *why, int64_t workspace_id, struct weir_error *error)
{
    json_t *holders = json_array();
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(why->connection, error, QUERY_SLOT_HOLDERS, "iii", workspace_id,
                                              (int64_t)HOLDERS_MOST, why->now_us);
    if (statement == NULL) {
        json_decref(holders);
        return statement_failure(error);
    }
    while (connection_step(why->connection, statement, &status, error)) {
        int64_t since_us = sqlite3_column_type(statement, 4) != SQLITE_NULL ? sqlite3_column_int64(statement, 4)
                                                                            : sqlite3_column_int64(statement, 3);
        bool has_node = sqlite3_column_type(statement, 7) == SQLITE_NULL;
        json_t *holder =
            json_pack("{s:s, s:s, s:s?, s:s?, s:I, s:s?, s:o}", "id", column_text(statement, 0), "status",
                      column_text(statement, 1), "node", column_text(statement, 2), "step_names", column_text(statement, 5),
                      "running_us", (json_int_t)(why->now_us - since_us), "executor_group", column_text(statement, 6),
                      "nodes_live", has_node ? json_null() : json_integer(sqlite3_column_int64(statement, 7)));
        (void)json_array_append_new(holders, holder);
    }
    return json_object_set_new(why->answer, "slot_holders", holders) == 0 ? status : error_out_of_memory(error);
}

/* Adds the steps that run, or wait for their next attempt. */
static enum weir_status add_unfinished_steps(struct why *why, struct weir_error *error)
{
    json_t *steps = NULL;
    enum weir_status status = statement_rows_json(
        why->connection, connection_bind(why->connection, error, QUERY_UNFINISHED_STEPS, "t", why->id), &steps, error);
    if (status == WEIR_OK && json_object_set_new(why->answer, "unfinished_steps", steps) != 0) {
        status = error_out_of_memory(error);
    }
    return status;
}

/* Adds the place of a runnable item in its lane. */
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

/* The activity of the node that holds the item, as a sentence. */
static const char *node_activity(sqlite3_stmt *item, bool is_silent)
{
    if (is_silent) {
        return "its node is silent; the next node of its executor group that lives takes it over";
    }
    if (strcmp(column_text(item, WHY_STATUS), "CLAIMED") == 0) {
        return "its node has claimed it and starts it";
    }
    return sqlite3_column_type(item, WHY_STUCK_AT) != SQLITE_NULL ? "it is stuck: it runs longer than its stuck_after"
                                                                  : "it is running";
}

/* The kind of the wait of a WAITING item; WAIT_KIND_COUNT: it is in another state. */
static enum wait_kind read_wait(sqlite3_stmt *item)
{
    enum wait_kind kind = WAIT_KIND_COUNT;
    return wait_kind_parse(column_text(item, WHY_WAITING_FOR), &kind) ? kind : WAIT_KIND_COUNT;
}

/* The target in four columns as a text; null without one. */
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

/* The facts of the row as the keys of the answer. */
static json_t *facts_json(const struct why *why)
{
    sqlite3_stmt *item = why->item;
    int64_t now_us = why->now_us;
    int phase = sqlite3_column_int(item, WHY_PHASE);
    enum wait_kind wait = read_wait(item);
    bool is_parked = wait != WAIT_KIND_COUNT;
    bool waits = !is_parked && (phase != 2 || sqlite3_column_int64(item, WHY_NODE_ID) == 0);
    bool is_silent = !waits && sqlite3_column_type(item, WHY_NODE_SILENT_AT) != SQLITE_NULL;
    enum pending_reason reason = waits ? choose_reason(why) : REASON_READY;
    bool lacks_node = waits && reason == REASON_NO_NODE_IN_GROUP;
    bool is_left = waits && (reason == REASON_HANDED_OVER || reason == REASON_QUARANTINED);
    bool is_away = waits && reason == REASON_ENGINE_UNREACHABLE;
    return json_pack(
        "{s:s, s:s, s:s?, s:s, s:s?, s:s?, s:s?, s:i, s:I, s:I, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:s?, s:s?, s:b, s:s?, "
        "s:s?, s:s?, s:o, s:o, s:o, s:o, s:s?, s:I, s:I, s:o, s:o, s:s?, s:o, s:s?}",
        "id", why->id, "status", column_text(item, WHY_STATUS), "pending_reason",
        waits ? pending_reason_name(reason) : NULL, "because",
        waits       ? pending_reason_meaning(reason)
        : is_parked ? wait_kind_meaning(wait)
                    : node_activity(item, is_silent),
        "workspace", column_text(item, WHY_WORKSPACE), "plan", column_text(item, WHY_PLAN), "workflow",
        column_text(item, WHY_WORKFLOW), "version", sqlite3_column_int(item, WHY_VERSION), "slots_used",
        (json_int_t)sqlite3_column_int64(item, WHY_SLOTS_USED), "slots_max",
        (json_int_t)sqlite3_column_int64(item, WHY_SLOTS_MAX), "starts_refused",
        sqlite3_column_int(item, WHY_STARTS_REFUSED), "deferrals", sqlite3_column_int(item, WHY_DEFERRALS), "handovers",
        sqlite3_column_int(item, WHY_HANDOVERS), "run_at", column_time_json(item, WHY_RUN_AT), "due_at",
        column_time_json(item, WHY_DUE_AT), "claimed_at", column_time_json(item, WHY_CLAIMED_AT), "dispatched_at",
        column_time_json(item, WHY_DISPATCHED_AT), "node", column_text(item, WHY_NODE), "executor_group",
        column_text(item, WHY_GROUP), "cancel_requested", sqlite3_column_type(item, WHY_CANCEL_AT) != SQLITE_NULL,
        "error_code", column_text(item, WHY_ERROR_CODE), "error", column_text(item, WHY_ERROR), "engine_error",
        is_away ? column_text(item, WHY_GROUP_ENGINE_ERROR)
        : waits ? NULL
                : column_text(item, WHY_NODE_ENGINE_ERROR),
        "engine_unreachable_since",
        is_away ? column_time_json(item, WHY_GROUP_UNREACHABLE_AT)
        : waits ? json_null()
                : column_time_json(item, WHY_NODE_UNREACHABLE_AT),
        "engine_impaired_since", waits ? json_null() : column_time_json(item, WHY_NODE_IMPAIRED_AT), "node_silent_since",
        is_silent ? column_time_json(item, WHY_NODE_SILENT_AT) : json_null(), "nodes_live",
        lacks_node || is_left || is_silent ? json_integer(sqlite3_column_int64(item, WHY_NODES_LIVE)) : json_null(),
        "paused_node", lacks_node ? column_text(item, WHY_PAUSED_NODE) : NULL, "waiting_us",
        (json_int_t)(now_us - sqlite3_column_int64(item, WHY_CREATED_AT)), "suspicion",
        (json_int_t)sqlite3_column_int64(item, WHY_SUSPICION), "suspected_at", column_time_json(item, WHY_SUSPECTED_AT),
        "stuck_since", column_time_json(item, WHY_STUCK_AT), "waiting_for", is_parked ? wait_kind_name(wait) : NULL,
        "record_failing_since", waits ? json_null() : column_time_json(item, WHY_RECORD_FAILED_AT), "record_error",
        waits ? NULL : column_text(item, WHY_RECORD_ERROR));
}

/* The nodes that could run the item, when none of them has free capacity. */
static json_t *room_json(const struct why *why)
{
    return json_pack("{s:I, s:I, s:I}", "nodes", (json_int_t)why->nodes, "capacity", (json_int_t)why->capacity, "running",
                     (json_int_t)why->running);
}

/* Of an item without a scheduler: since when, the last one, and why it stopped. */
static enum weir_status add_no_scheduler(struct why *why, struct weir_error *error)
{
    struct role_state role;
    const char *reason = json_string_value(json_object_get(why->answer, "pending_reason"));
    bool is_explained = reason != NULL && strcmp(reason, pending_reason_name(REASON_NO_SCHEDULER)) == 0;
    enum weir_status status = role_read(why->connection, why->now_us, &role, error);
    json_t *last = json_object();
    int64_t lock_awaited_us = 0;
    if (status == WEIR_OK && is_explained) {
        status = last == NULL ? error_out_of_memory(error)
                              : role_add_reason(why->connection, &role, last, &lock_awaited_us, error);
    }
    if (status == WEIR_OK) {
        bool is_held = is_explained && role.node_id != 0;
        const char *last_reason = json_string_value(json_object_get(last, "why"));
        json_t *failing_since = json_object_get(last, "failing_since");
        bool fails = is_held && !role.is_free && json_is_string(failing_since);
        int64_t since_us = lock_awaited_us > 0 ? lock_awaited_us : is_held ? role.expires_us : role.since_us;
        char since[TIME_TEXT_MAX];
        time_format(since_us, since);
        (void)json_object_set_new(why->answer, "scheduler_since",
                                  fails                          ? json_incref(failing_since)
                                  : is_explained && since_us > 0 ? json_string(since)
                                                                 : json_null());
        (void)json_object_set_new(why->answer, "scheduler_node", is_held ? json_string(role.node) : json_null());
        (void)json_object_set(why->answer, "scheduler_error", is_explained ? json_object_get(last, "error") : json_null());
        (void)json_object_set_new(why->answer, "scheduler_why",
                                  !is_explained         ? json_null()
                                  : fails               ? json_string("its rounds fail")
                                  : lock_awaited_us > 0 ? json_string("awaits the lock")
                                  : is_held             ? json_string("lease over")
                                                        : json_string(last_reason == NULL ? "free" : last_reason));
    }
    json_decref(last);
    return status;
}

/* Reads which handlers of the item no live node has. Nothing of an item that a node runs, that is WAITING, or that needs no
 * handler. */
static enum weir_status read_missing_worker(struct why *why, json_t **ret_missing, struct weir_error *error)
{
    json_t *rows = NULL;
    const char *group = column_text(why->item, WHY_GROUP);
    bool runs = sqlite3_column_type(why->item, WHY_DISPATCHED_AT) != SQLITE_NULL &&
                sqlite3_column_int64(why->item, WHY_NODE_ID) != 0;
    if (runs || group == NULL || read_wait(why->item) != WAIT_KIND_COUNT) {
        return WEIR_OK;
    }
    enum weir_status status =
        statement_rows_json(why->connection,
                            connection_bind(why->connection, error, QUERY_MISSING_WORKER, "iti",
                                            sqlite3_column_int64(why->item, WHY_DEFINITION_ID), group, why->now_us),
                            &rows, error);
    if (status == WEIR_OK) {
        *ret_missing = json_incref(json_array_get(rows, 0));
        why->is_unserved = json_array_size(json_object_get(*ret_missing, "handlers_missing")) > 0;
        json_decref(rows);
    }
    return status;
}

/* Reads whether a node that could run the item has free capacity. */
static enum weir_status read_room(struct why *why, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    const char *group = column_text(why->item, WHY_GROUP);
    sqlite3_stmt *statement =
        connection_bind(why->connection, error, QUERY_ROOM_OF_GROUP, "tiii", group == NULL ? "" : group, why->now_us,
                        sqlite3_column_int64(why->item, WHY_LANE_ID), sqlite3_column_int64(why->item, WHY_DEFINITION_ID));
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(why->connection, statement, &status, error)) {
        why->nodes = sqlite3_column_int64(statement, 0);
        why->capacity = sqlite3_column_int64(statement, 1);
        why->running = sqlite3_column_int64(statement, 2);
        why->has_room = sqlite3_column_int(statement, 3) != 0;
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* Answers for a live item. */
static enum weir_status why_living(struct why *why, struct weir_error *error)
{
    sqlite3_stmt *item = why->item;
    int phase = sqlite3_column_int(item, WHY_PHASE);
    int64_t lane_id = sqlite3_column_int64(item, WHY_LANE_ID);
    int64_t rank = sqlite3_column_int64(item, WHY_RANK);
    int64_t runnable = sqlite3_column_int64(item, WHY_RUNNABLE);
    int64_t workspace_id = sqlite3_column_int64(item, WHY_WORKSPACE_ID);
    int64_t starts_max = sqlite3_column_int64(item, WHY_STARTS_MAX); /* of the definition; 0 = as its node says */
    bool waits = phase < 2 || (phase == 2 && sqlite3_column_int64(item, WHY_NODE_ID) == 0);
    char group[GROUP_NAME_MAX + 1] = "";
    json_t *missing = NULL;
    enum weir_status status = read_missing_worker(why, &missing, error);
    if (status == WEIR_OK && phase == 0) {
        status = read_room(why, error);
    }
    if (status != WEIR_OK) {
        json_decref(missing);
        return status;
    }
    bool is_unasked = waits && choose_reason(why) == REASON_NO_NODE_FOR_ENGINE;
    bool is_crowded = waits && choose_reason(why) == REASON_NODES_FULL;
    text_copy(group, sizeof group, column_text(item, WHY_GROUP) == NULL ? "" : column_text(item, WHY_GROUP));
    why->answer = facts_json(why);
    if (why->answer != NULL) {
        (void)json_object_set_new(why->answer, "target", phase == 2 ? target_json(item, WHY_TARGET) : json_null());
        (void)json_object_set_new(why->answer, "engine_needed",
                                  is_unasked ? json_string(lane_is_on_temporal(lane_id) ? "temporal" : "in_process")
                                             : json_null());
        (void)json_object_set_new(why->answer, "no_node_since",
                                  is_unasked ? column_time_json(item, WHY_UNSERVED_SINCE) : json_null());
        (void)json_object_set_new(why->answer, "full_nodes", is_crowded ? room_json(why) : json_null());
    }
    (void)sqlite3_reset(item);
    if (why->answer == NULL || (missing != NULL && json_object_update(why->answer, missing) != 0)) {
        status = error_out_of_memory(error);
    }
    json_decref(missing);
    if (status != WEIR_OK) {
        return status;
    }
    (void)json_object_set_new(why->answer, "starts_max", json_integer(starts_max > 0 ? starts_max : STARTS_MAX_DEFAULT));
    status = add_holders(why, workspace_id, error);
    if (status == WEIR_OK) {
        status = add_unfinished_steps(why, error);
    }
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

/* Answers for an ended execution. */
static enum weir_status why_ended(struct why *why, struct weir_error *error)
{
    json_t *rows = NULL;
    enum weir_status status = statement_rows_json(
        why->connection, connection_bind(why->connection, error, QUERY_READ_EXECUTION, "t", why->id), &rows, error);
    if (status == WEIR_OK) {
        why->answer = json_incref(json_array_get(rows, 0));
        json_decref(rows);
        if (why->answer == NULL) {
            return reading_refuse_missing(why->id, error);
        }
        reading_explain_end(why->answer);
    }
    return status;
}

/* Finds the execution and answers. */
static enum weir_status why_one(struct connection *connection, const char *id, json_t **ret_why, struct weir_error *error)
{
    char whole[UUID_TEXT_MAX];
    struct why why = {.connection = connection, .id = whole};
    enum weir_status status = filter_find_id(connection, id, whole, error);
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
    INVARIANT(id != NULL && ret_why != NULL);
    struct connection *connection;
    enum weir_status status = snapshot_begin(store, &connection, error);
    if (status == WEIR_OK) {
        status = why_one(connection, id, ret_why, error);
        snapshot_end(connection);
    }
    return status;
}
