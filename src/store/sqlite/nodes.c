/* Nodes: start, target, heartbeat, orders of operators, stop.
 *
 * A heartbeat renews the lease and returns the orders that an operator has left. It inserts news only when it changes
 * the facts of the scheduler: an act when the node can do less, a state when it can do more. The first live node sets
 * the clock of the store from its wall clock. All others follow the store, so that a wrong wall clock of one node
 * changes no lease. A node that stops gives its items back in bounded sets, then ends its row.
 *
 * It never takes items from another node: recover.c does that. Start, target and heartbeat run in the heartbeat thread of a
 * node, the stop in its dispatch thread, the orders in programs of operators.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/refusal.h"
#include "store/sqlite/sqlite_store.h"

/* --- nodes --- */

/* Only more room for the scheduler when the target was not known; else it must not use its facts about the node. */
static enum weir_status set_target(struct write *write, int64_t node_id, const struct engine_target *target,
                                   struct weir_error *error)
{
    int64_t before = 0;
    int64_t target_id = 0;
    enum weir_status status =
        connection_read_integer(write->connection, error, &before, QUERY_TARGET_OF_NODE, "i", node_id);
    if (status == WEIR_NOT_FOUND) {
        return refusal_node_ended(node_id, error);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(write->connection, error, &target_id, QUERY_KEEP_TARGET, "tttt", target->engine,
                                         target->service, target->namespace_name, target->address);
    }
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, NULL, QUERY_SET_NODE_TARGET, "ii", node_id, target_id);
    }
    if (status == WEIR_OK && before == 0) {
        news_state(&write->news);
    } else if (status == WEIR_OK && before != target_id) {
        news_act(&write->news);
    }
    return status;
}

enum weir_status sqlite_node_target(struct store *store, int64_t node_id, const struct engine_target *target,
                                    struct weir_error *error)
{
    INVARIANT(node_id > 0 && target != NULL);
    struct write write;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = set_target(&write, node_id, target, error);
    return write_end(&write, status, error);
}

/* In the answer of change_of_handlers; below it some are new. */
enum { HANDLERS_ARE_MISSING = 2 };

/* Records the handlers, and makes items due that waited for them. */
static enum weir_status set_handlers(struct write *write, int64_t node_id, const struct node_handlers *handlers,
                                     bool *ret_more, struct weir_error *error)
{
    int64_t change = 0;
    int64_t changes = 0;
    enum weir_status status = connection_read_integer(write->connection, error, &change, QUERY_CHANGE_OF_HANDLERS, "it",
                                                      node_id, handlers->names);
    if (status == WEIR_NOT_FOUND) {
        return refusal_node_ended(node_id, error);
    }
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, NULL, QUERY_SET_NODE_HANDLERS, "itti", node_id,
                                handlers->language, handlers->names, write->now_us);
    }
    if (status == WEIR_OK && change >= HANDLERS_ARE_MISSING) {
        news_act(&write->news);
    } else if (status == WEIR_OK && change > 0) {
        news_state(&write->news);
    }
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, &changes, QUERY_WAKE_UNSERVED, "iii", node_id, write->now_us,
                                (int64_t)WAKE_BATCH);
    }
    if (status == WEIR_OK && changes > 0) {
        news_wake(&write->news, write->now_us);
    }
    *ret_more = status == WEIR_OK && changes == WAKE_BATCH;
    return status;
}

enum weir_status sqlite_node_handlers(struct store *store, int64_t node_id, const struct node_handlers *handlers,
                                      bool *ret_more, struct weir_error *error)
{
    INVARIANT(node_id > 0 && handlers != NULL && ret_more != NULL);
    struct write write;
    bool more = false;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = set_handlers(&write, node_id, handlers, &more, error);
    if (status != WEIR_OK) {
        write_undo(&write);
        return status;
    }
    status = write_finish(&write, error);
    if (status == WEIR_OK) {
        *ret_more = more;
    }
    return status;
}

enum weir_status sqlite_mark_stuck(struct store *store, const struct stuck_mark *marks, size_t count,
                                   struct weir_error *error)
{
    INVARIANT(marks != NULL && count <= STUCK_MARKS_MOST);
    struct write write;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = connection_run(write.connection, error, NULL, QUERY_MARK_STUCK, "tiii", marks[i].id, marks[i].fence,
                                marks[i].stuck_for_us, write.now_us);
    }
    return write_end(&write, status, error);
}

enum weir_status sqlite_node_start(struct store *store, const struct node_options *options, int64_t *ret_node_id,
                                   struct weir_error *error)
{
    INVARIANT(options->name != NULL && options->group != NULL && options->lease_us > 0);
    struct write write;
    int64_t one;
    int64_t node_id = 0;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    /* The first node alive takes the wall clock for the store; later ones follow it and not their own. After a boot the
     * clock is set in any case. One that stands up again after a lost lease is no first node: its wall clock may have
     * jumped while it ran. */
    status = connection_read_integer(write.connection, error, &one, QUERY_LIVE_NODE_EXISTS, "iti", write.now_us,
                                     options->boot_id, (int64_t)options->pid);
    if (status == WEIR_OK || status == WEIR_NOT_FOUND) {
        status = connection_set_clock(write.connection, status == WEIR_NOT_FOUND, error);
    }
    if (status == WEIR_OK) {
        status = connection_store_time(write.connection, &write.now_us, error);
    }
    if (status == WEIR_OK) {
        status = connection_run(write.connection, error, NULL, QUERY_FORGET_NODES, "i", write.now_us - NODE_ROW_KEPT_US);
    }
    if (status == WEIR_OK) {
        status = connection_run(write.connection, error, NULL, QUERY_INSERT_GROUP, "t", options->group);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(write.connection, error, &node_id, QUERY_INSERT_NODE, "ttttiittiidtitd",
                                         options->name, options->group, options->host, options->boot_id,
                                         (int64_t)options->pid, (int64_t)options->keeper_pid, options->version,
                                         options->engine, options->lease_us, write.now_us, options->is_outlived ? 1 : 0,
                                         not_accepting_name(options->not_accepting), (int64_t)options->capacity,
                                         options->life == NULL ? "" : options->life, options->starts_paused ? 1 : 0);
    }
    if (status == WEIR_OK && options->target != NULL) {
        status = set_target(&write, node_id, options->target, error);
    }
    news_state(&write.news);
    if (status != WEIR_OK) {
        write_undo(&write);
        return status;
    }
    status = write_finish(&write, error);
    if (status == WEIR_OK) {
        *ret_node_id = node_id;
    }
    return status;
}

/* The order of a name in the row; an unknown name of a newer program counts as run. */
static enum desired_state desired_state_of(const char *name)
{
    for (enum desired_state state = NODE_RUN; name != NULL && state <= NODE_STOP; state++) {
        if (strcmp(name, desired_state_name(state)) == 0) {
            return state;
        }
    }
    return NODE_RUN;
}

/* The scheduler must learn of a heartbeat that changes the capacity of the node. */
static enum weir_status note_capacity(struct write *write, int64_t node_id, const struct node_beat *beat,
                                      struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_CAPACITY_OF_NODE, "i", node_id);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        int64_t capacity = sqlite3_column_int64(statement, 0);
        bool accepted = sqlite3_column_int(statement, 1) != 0;
        bool accepts = beat->engine_reachable && beat->not_accepting == NODE_ACCEPTING;
        (void)sqlite3_reset(statement);
        if ((int64_t)beat->capacity < capacity || (accepted && !accepts)) {
            news_act(&write->news);
        } else if ((int64_t)beat->capacity > capacity || (!accepted && accepts)) {
            news_state(&write->news);
        }
    }
    return status;
}

/* Renews the lease and reads the order of the operator. */
static enum weir_status write_beat(struct write *write, int64_t node_id, struct node_beat *beat, struct weir_error *error)
{
    enum weir_status status = note_capacity(write, node_id, beat, error);
    if (status != WEIR_OK) {
        return status;
    }
    sqlite3_stmt *statement = connection_bind(
        write->connection, error, QUERY_BEAT_NODE, "iidiititiiiitit", node_id, write->now_us,
        beat->engine_reachable ? 1 : 0, (int64_t)beat->running, (int64_t)beat->stuck,
        beat->engine_reachable && !beat->engine_impaired ? NULL : beat->engine_error, (int64_t)beat->keeper_pid,
        not_accepting_name(beat->not_accepting), (int64_t)beat->capacity, beat->seen_beats, (int64_t)beat->engine_impaired,
        beat->dispatch_failed_us, beat->dispatch_error, beat->record_failed_us, beat->record_error);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(write->connection, statement, &status, error)) {
        return status == WEIR_OK ? refusal_lease_lost(node_id, error) : status;
    }
    beat->desired_state = desired_state_of(column_text(statement, 0));
    beat->queue_paused = sqlite3_column_int(statement, 1) != 0;
    beat->beats = sqlite3_column_int64(statement, 2);
    beat->now_us = write->now_us;
    (void)sqlite3_reset(statement);
    return WEIR_OK;
}

enum weir_status sqlite_node_beat(struct store *store, int64_t node_id, struct node_beat *ret_beat,
                                  struct weir_error *error)
{
    INVARIANT(node_id > 0 && ret_beat != NULL);
    struct write write;
    struct node_beat answer = *ret_beat;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = write_beat(&write, node_id, &answer, error);
    if (status != WEIR_OK) {
        write_undo(&write);
        return status;
    }
    status = write_finish(&write, error);
    if (status == WEIR_OK) {
        *ret_beat = answer;
    }
    return status;
}

/* The refusal names the live nodes in its hint. */
static enum weir_status refuse_node(struct connection *connection, const char *name, struct weir_error *error)
{
    char names[WEIR_ERROR_HINT_MAX / 2] = "";
    size_t used = 0;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(connection, NULL, QUERY_LIVE_NODE_NAMES, "");
    while (statement != NULL && used < sizeof names && connection_step(connection, statement, &status, NULL)) {
        int length = snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : ", ", column_text(statement, 0));
        used += length > 0 ? (size_t)length : 0;
    }
    if (statement != NULL) {
        (void)sqlite3_reset(statement);
    }
    return refusal_no_live_node(name, names, used >= sizeof names, error);
}

enum weir_status sqlite_set_desired_state(struct store *store, const char *name, enum desired_state desired_state,
                                          struct weir_error *error)
{
    INVARIANT(name != NULL && (unsigned)desired_state <= NODE_STOP);
    struct write write;
    int64_t changes = 0;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = act_begin(&write, desired_state_act(desired_state), "node", name, NULL, error);
    if (status == WEIR_OK) {
        status = connection_run(write.connection, error, &changes, QUERY_SET_DESIRED_STATE, "tt", name,
                                desired_state_name(desired_state));
    }
    if (status == WEIR_OK && changes == 0) {
        status = refuse_node(write.connection, name, error);
    }
    if (status != WEIR_OK) {
        write_undo(&write);
        return status;
    }
    if (desired_state == NODE_RUN) {
        news_state(&write.news);
    } else {
        news_act(&write.news);
    }
    return write_finish(&write, error);
}

enum weir_status sqlite_node_stop(struct store *store, int64_t node_id, bool graceful, struct weir_error *error)
{
    INVARIANT(node_id > 0);
    size_t count = RECOVER_BATCH;
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && count == RECOVER_BATCH) {
        struct write write;
        status = write_open(store, &write, error);
        if (status != WEIR_OK) {
            return status;
        }
        status = recover_give_back_all(&write, node_id, &count, error);
        if (status == WEIR_OK && count < RECOVER_BATCH) {
            news_act(&write.news);
            status = connection_run(write.connection, error, NULL, QUERY_STOP_NODE, "iid", node_id, write.now_us,
                                    graceful ? 1 : 0);
        }
        if (status == WEIR_OK && count < RECOVER_BATCH) {
            status = connection_run(write.connection, error, NULL, QUERY_NODE_RECOVERED, "ii", node_id, write.now_us);
        }
        if (status == WEIR_OK) {
            status = write_finish(&write, error);
        } else {
            write_undo(&write);
        }
    }
    return status;
}
