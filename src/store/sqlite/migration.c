/* Moves an execution to another version of its workflow.
 *
 *   1. One query finds the execution and the version. An execution that a node holds is refused: the node has read the
 *      definition, and would go on with the old one.
 *   2. A second one compares the steps on record with the version. It is not run for an execution without a version to go
 *      to, and finds no row of an execution that never started.
 *   3. The row gets the definition and its lane. The steps on record stay as they are, so the next claim begins where the
 *      last one ended.
 *
 * With another timeout a parked execution is woken, because a node alone knows its time: the node parks it again.
 *
 * It never changes a step, a signal or a child: they belong to the execution, whatever its version is.
 */
#include "store/sqlite/migration.h"

#include <string.h>

#include "base/error.h"
#include "queue/scheduler.h"
#include "store/sqlite/signals.h"

/* Step 2. */
static enum weir_status judge_steps(struct connection *connection, int64_t from_definition, struct migration *migration,
                                    struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_MIGRATION_PROBLEMS, "tii", migration->id,
                                              from_definition, migration->to_definition);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error) && column_text(statement, 0) != NULL) {
        migration->fits = false;
        text_copy(migration->outcome, sizeof migration->outcome, "steps");
        text_copy(migration->steps, sizeof migration->steps, column_text(statement, 0));
    }
    (void)sqlite3_reset(statement);
    return status;
}

enum weir_status migration_judge(struct connection *connection, const char *id, int to_version,
                                 struct migration *ret_migration, struct weir_error *error)
{
    INVARIANT(connection != NULL && id != NULL && to_version > 0 && ret_migration != NULL);
    struct migration migration = {.id = id};
    int64_t from_definition = 0;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_MIGRATION, "ti", id, (int64_t)to_version);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        text_copy(migration.outcome, sizeof migration.outcome, column_text(statement, 0));
        text_copy(migration.state, sizeof migration.state, column_text(statement, 1));
        from_definition = sqlite3_column_int64(statement, 2);
        migration.from_version = sqlite3_column_int(statement, 3);
        migration.to_definition = sqlite3_column_int64(statement, 4);
        migration.to_demand = sqlite3_column_int64(statement, 5);
        migration.lane_id = sqlite3_column_int64(statement, 6);
        migration.phase = sqlite3_column_int(statement, 7);
        migration.rank = sqlite3_column_int64(statement, 8);
        migration.is_retimed = sqlite3_column_int(statement, 9) != 0;
        migration.fence = sqlite3_column_int64(statement, 10);
        migration.fits = strcmp(migration.outcome, "changed") == 0;
    }
    (void)sqlite3_reset(statement);
    if (status == WEIR_OK && migration.fits) {
        status = judge_steps(connection, from_definition, &migration, error);
    }
    if (status == WEIR_OK) {
        *ret_migration = migration;
    }
    return status;
}

/* The item leaves a lane, or comes to it. Two kinds of news, because a lane may lose one and get one in the same
 * transaction: the scheduler must learn of the new one all the same. */
static enum weir_status note_lane(struct write *write, const struct migration *migration, int64_t lane_id, int change,
                                  struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    struct lane_delta *delta =
        news_lane(&write->news, write->connection, change < 0 ? NEWS_ENDED : NEWS_ENQUEUED, 0, lane_id, &status, error);
    if (migration->phase == 0 && change > 0) {
        news_add_runnable(delta, migration->rank);
    } else if (migration->phase == 0) {
        delta->runnable--;
    } else if (migration->phase == 1) {
        delta->waiting += change;
    } else {
        delta->parked += change;
    }
    return status;
}

enum weir_status migration_apply(struct write *write, const struct migration *migration, struct weir_error *error)
{
    INVARIANT(write != NULL && migration != NULL && migration->fits && migration->phase != 2);
    int64_t lane_id = lane_for_demand(lane_id_of(lane_group_id(migration->lane_id), lane_workspace_id(migration->lane_id)),
                                      migration->to_demand);
    enum weir_status status = connection_run(write->connection, error, NULL, QUERY_MIGRATE_ITEM, "tii", migration->id,
                                             migration->to_definition, lane_id);
    if (status == WEIR_OK && lane_id != migration->lane_id) {
        status = note_lane(write, migration, migration->lane_id, -1, error);
        status = status == WEIR_OK ? note_lane(write, migration, lane_id, 1, error) : status;
    }
    if (status != WEIR_OK || migration->phase != 3 || !migration->is_retimed) {
        return status;
    }
    const struct waking waking = {.id = migration->id,
                                  .lane_id = lane_id,
                                  .rank = migration->rank,
                                  .fence = migration->fence,
                                  .actor = store_actor(&write->store->store),
                                  .reason = store_reason(&write->store->store)};
    return item_wake(write, &waking, error);
}
