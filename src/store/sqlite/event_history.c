/* Event rows beyond the stamps of an execution: claims that are over, and attempts of steps that were not the last.
 *
 * A row of the queue holds the times of its last claim, and the view execution_events shows them as events. Before a
 * change overwrites them, the functions here write them as rows, in the transaction of that change. An execution that
 * is claimed once, with steps that succeed at once, causes no such row. Each function is one statement that does
 * nothing when the row does not match.
 *
 * It never deletes or changes an event. The holder of the write transaction runs it.
 */
#include "store/sqlite/event_history.h"

#include "base/error.h"

enum weir_status event_history_add_claim(struct write *write, const char *id, int64_t fence, struct weir_error *error)
{
    INVARIANT(id != NULL);
    return connection_run(write->connection, error, NULL, QUERY_ADD_CLAIM_EVENTS, "ti", id, fence);
}

enum weir_status event_history_add_dispatch(struct write *write, const struct record *record, struct weir_error *error)
{
    INVARIANT(record->started_ago_us >= 0);
    return connection_run(write->connection, error, NULL, QUERY_ADD_DISPATCH_EVENT, "tii", record->id, record->fence,
                          write->now_us - record->started_ago_us);
}

enum weir_status event_history_before_step(struct write *write, const struct record *record, struct weir_error *error)
{
    INVARIANT(record->step != NULL);
    const struct step_record *step = record->step;
    if (step->attempt < 2) {
        return WEIR_OK;
    }
    return connection_run(write->connection, error, NULL, QUERY_KEEP_INTERRUPTED_ATTEMPT, "ttdi", record->id, step->step,
                          step->attempt, write->now_us);
}

enum weir_status event_history_after_step(struct write *write, const struct record *record, struct weir_error *error)
{
    INVARIANT(record->step != NULL);
    const char *state = step_record_lost_attempt(record->step);
    if (state == NULL) {
        return WEIR_OK;
    }
    return connection_run(write->connection, error, NULL, QUERY_KEEP_FAILED_ATTEMPT, "ttti", record->id, record->step->step,
                          state, write->now_us);
}

enum weir_status event_history_close_steps(struct write *write, const struct parameter_row *rows, size_t count,
                                           struct weir_error *error)
{
    INVARIANT(rows != NULL || count == 0);
    struct connection *connection = write->connection;
    if (count == 0) {
        return WEIR_OK;
    }
    connection->parameter_rows = (struct parameter_rows){.rows = rows, .count = count};
    enum weir_status status = connection_run(connection, error, NULL, QUERY_CLOSE_INTERRUPTED_STEPS, "");
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_CLOSE_STEPS, "i", write->now_us);
    }
    connection->parameter_rows = (struct parameter_rows){.count = 0};
    return status;
}
