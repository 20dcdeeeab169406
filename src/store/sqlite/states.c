/* States of workflows on SQLite: the actions that records end, and updates by people.
 *
 * An action comes with the record of the step `state`, as one JSON text. Its row is inserted once. The plans of its
 * children become rows of child_steps with notes, so the duty of children finds them after the commit.
 *
 * An update is a write transaction of its own. A write transaction is alone, so the item does not change between the read
 * of its row and the write of the machine. Runs in the thread of the transaction.
 */
#include "store/sqlite/states.h"

#include <string.h>

#include "base/error.h"
#include "queue/signal.h"
#include "store/refusal.h"
#include "store/sqlite/event_history.h"
#include "store/sqlite/signals.h"

#define MANUAL_WAIT MANUAL_SIGNAL "state"

/* A machine may run for years, and its children have a limit (CHILDREN_OF_PARENT_MOST). */
static enum weir_status trim_children(struct write *write, const char *id, int action, struct weir_error *error)
{
    enum weir_status status =
        connection_run(write->connection, error, NULL, QUERY_TRIM_CHILDREN, "tdd", id, action, ACTIONS_KEPT_MOST);
    return status == WEIR_OK ? connection_run(write->connection, error, NULL, QUERY_TRIM_CHILD_STEPS, "tdd", id, action,
                                              ACTIONS_KEPT_MOST)
                             : status;
}

enum weir_status states_record(struct write *write, int64_t node_id, const struct record *record, struct weir_error *error)
{
    const struct step_record *step = record->step;
    int64_t children = 0;
    INVARIANT(write != NULL);
    if (step == NULL || step->action == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = connection_run(write->connection, error, NULL, QUERY_INSERT_ACTION, "ttiii", record->id,
                                             step->action, write->now_us, node_id, record->fence);
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, NULL, QUERY_TRIM_ACTIONS, "tdd", record->id, step->attempt,
                                ACTIONS_KEPT_MOST);
    }
    if (status == WEIR_OK && strstr(step->action, ACTION_PLANS) != NULL) {
        status = connection_run(write->connection, error, &children, QUERY_INSERT_ACTION_CHILDREN, "tt", record->id,
                                step->action);
        status = status == WEIR_OK ? trim_children(write, record->id, step->attempt, error) : status;
    }
    if (status == WEIR_OK && children > 0) {
        news_state(&write->news); /* the record alone brings no news, and the duty looks after news */
        status = connection_run(write->connection, error, NULL, QUERY_NOTE_ACTION_CHILDREN, "tt", record->id, step->action);
    }
    return status;
}

/* --- updates --- */

struct updated_item {
    int phase;
    int64_t lane_id;
    int64_t rank;
    int64_t fence;
    int action;
    int attempt; /* of the step on record */
    struct updated_machine machine;
};

/* Reads the row and applies the update. WEIR_NOT_FOUND: the execution is not in the queue. */
static enum weir_status apply_update(struct write *write, const char *id, const struct state_update *update,
                                     struct updated_item *item, struct update_refusal *refusal, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_READ_MACHINE, "t", id);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(write->connection, statement, &status, error)) {
        return status == WEIR_OK ? WEIR_NOT_FOUND : status;
    }
    item->phase = sqlite3_column_int(statement, 1);
    item->lane_id = sqlite3_column_int64(statement, 2);
    item->rank = sqlite3_column_int64(statement, 3);
    item->fence = sqlite3_column_int64(statement, 4);
    item->action = sqlite3_column_int(statement, 6) + 1;
    item->attempt = sqlite3_column_int(statement, 7);
    struct machine_row row = {.definition = column_text(statement, 0), .machine = column_text(statement, 5)};
    status = state_update_apply(&row, update, &item->machine, refusal, error);
    if (status == WEIR_OK && refusal->outcome[0] == '\0' && item->phase == 2) {
        refusal->outcome = "held";
    }
    (void)sqlite3_reset(statement);
    return status;
}

/* The queue follows the new state. */
static enum weir_status move_item(struct write *write, const char *id, const struct updated_item *item,
                                  struct weir_error *error)
{
    struct store *store = &write->store->store;
    const struct waking waking = {.id = id,
                                  .lane_id = item->lane_id,
                                  .rank = item->rank,
                                  .fence = item->fence,
                                  .actor = store_actor(store),
                                  .reason = store_reason(store)};
    if (item->phase != 3) {
        return WEIR_OK;
    }
    return item->machine.is_manual && !item->machine.has_timeout
               ? connection_run(write->connection, error, NULL, QUERY_PARK_BY_HAND, "tt", id, wait_kind_name(WAIT_MANUAL))
               : item_wake(write, &waking, error);
}

static enum weir_status write_update(struct write *write, const char *id, const struct state_update *update,
                                     const struct updated_item *item, struct weir_error *error)
{
    struct store *store = &write->store->store;
    const struct updated_machine *machine = &item->machine;
    enum weir_status status;
    if (update->state == NULL) {
        status = connection_run(write->connection, error, NULL, QUERY_WRITE_VARIABLES, "tdiit", id, item->action,
                                write->now_us, item->fence, machine->machine);
        status = status == WEIR_OK ? connection_run(write->connection, error, NULL, QUERY_MOVE_WAKE, "tdd", id,
                                                    item->attempt, item->action)
                                   : status;
    } else {
        status = connection_run(write->connection, error, NULL, QUERY_WRITE_MACHINE, "tdiitt", id, item->action,
                                write->now_us, item->fence, machine->machine, machine->is_manual ? MANUAL_WAIT : NULL);
    }
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, NULL, QUERY_MARK_UPDATED, "t", id);
    }
    if (status == WEIR_OK) {
        status =
            connection_run(write->connection, error, NULL, QUERY_INSERT_UPDATE, "tdttiitt", id, item->action, machine->from,
                           machine->state, write->now_us, item->fence, store_actor(store), machine->changes);
    }
    if (status == WEIR_OK) {
        status =
            connection_run(write->connection, error, NULL, QUERY_TRIM_ACTIONS, "tdd", id, item->action, ACTIONS_KEPT_MOST);
    }
    if (status == WEIR_OK) {
        status = event_history_add(write->connection, id, write->now_us, "update", 0, item->fence, store_actor(store),
                                   store_reason(store), machine->state, error);
    }
    return status == WEIR_OK && update->state != NULL ? move_item(write, id, item, error) : status;
}

enum weir_status states_update(struct write *write, const char *id, const struct state_update *update,
                               struct updated_state *ret_updated, struct weir_error *error)
{
    struct updated_item item = {.phase = 0};
    struct update_refusal refusal = {.outcome = ""};
    INVARIANT(write != NULL && id != NULL && update != NULL && ret_updated != NULL);
    enum weir_status status = apply_update(write, id, update, &item, &refusal, error);
    if (status == WEIR_OK && refusal.outcome[0] != '\0') {
        status = refusal_of_update(id, &refusal, error);
    } else if (status == WEIR_OK) {
        status = write_update(write, id, update, &item, error);
    }
    if (status == WEIR_OK) {
        memcpy(ret_updated->id, id, strlen(id) + 1);
        text_copy(ret_updated->state, sizeof ret_updated->state, item.machine.state);
        ret_updated->action = item.action;
    }
    updated_machine_close(&item.machine);
    return status;
}
