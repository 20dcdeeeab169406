#include "store/sqlite/event_history.h"

#include "base/error.h"

enum weir_status event_history_add_claim(struct write *write, const char *id, int64_t fence, struct weir_error *error)
{
    return connection_run(write->connection, error, NULL, QUERY_ADD_CLAIM_EVENTS, "ti", id, fence);
}

enum weir_status event_history_add_dispatch(struct write *write, const char *id, int64_t fence, struct weir_error *error)
{
    return connection_run(write->connection, error, NULL, QUERY_ADD_DISPATCH_EVENT, "tii", id, fence, write->now_us);
}

enum weir_status event_history_before_step(struct write *write, const struct record *record, struct weir_error *error)
{
    const struct step_record *step = record->step;
    if (step->attempt < 2) {
        return WEIR_OK;
    }
    return connection_run(write->connection, error, NULL, QUERY_KEEP_INTERRUPTED_ATTEMPT, "ttdi", record->id, step->step,
                          step->attempt, write->now_us);
}

enum weir_status event_history_after_step(struct write *write, const struct record *record, struct weir_error *error)
{
    const char *state = step_record_lost_attempt(record->step);
    if (state == NULL) {
        return WEIR_OK;
    }
    return connection_run(write->connection, error, NULL, QUERY_KEEP_FAILED_ATTEMPT, "ttti", record->id, record->step->step,
                          state, write->now_us);
}

enum weir_status event_history_close_steps(struct write *write, const char *id, int64_t fence, struct weir_error *error)
{
    return connection_run(write->connection, error, NULL, QUERY_CLOSE_STEPS, "tii", id, write->now_us, fence);
}
