/* Schedules on PostgreSQL: one SQL function per act, and one statement for each part of the duty.
 *
 * A firing is inserted by the transaction that moves the due time of its schedule behind it, so each due time fires once.
 * A repeated advance or settlement changes nothing that the first has not changed. It runs in the thread that has the
 * handle.
 */
#include "base/error.h"
#include "store/postgres/definition_schedules.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/name_suggestions.h"
#include "store/postgres/postgres_store.h"
#include "store/refusal.h"

/* --- acts --- */

/* The refusal of set_schedule(), whose answer this is. */
enum weir_status schedule_refuse_set(struct link *link, const char *name, enum weir_status status, const char *unknown,
                                     struct weir_error *error)
{
    INVARIANT(name != NULL && unknown != NULL && status != WEIR_OK);
    if (status == WEIR_CONFLICT) {
        return refusal_schedule_name_taken(name, unknown, error);
    }
    if (status == WEIR_ILLEGAL_STATE) {
        return unknown[0] == '\0' ? refusal_schedules_full(error) : refusal_schedule_of_definition(name, unknown, error);
    }
    return status == WEIR_PLAN_NOT_FOUND
               ? refuse_unknown_name(link, QUERY_PLAN_NAMES, status, "plan", unknown, PLAN_HOW, error)
               : refuse_unknown_name(link, QUERY_WORKSPACE_NAMES, status, "workspace", unknown, WORKSPACE_HOW, error);
}

enum weir_status postgres_schedule_set(struct store *store, const struct schedule_request *request, int64_t due_us,
                                       bool *ret_is_new, struct weir_error *error)
{
    INVARIANT(request != NULL && ret_is_new != NULL);
    PGresult *result = NULL;
    char unknown[SCHEDULE_UNKNOWN_MAX] = "";
    const struct recurrence_text *when = &request->when;
    const char *zone = when->zone == NULL && when->cron != NULL ? "UTC" : when->zone;
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct link *link = link_of(store);
    status =
        link_write(link, error, &result, QUERY_SET_SCHEDULE, "tttiiiittTttiidtt", request->name, when->cron, zone,
                   when->every_us, request->jitter_us, when->from_us, when->until_us, request->workflow, request->params,
                   request->workspaces, request->workspace_count, request->plan, schedule_overlap_name(request->overlap),
                   request->catch_up_us, due_us, (int)SCHEDULES_MOST, store_actor(store), store_reason(store));
    if (status != WEIR_OK) {
        return status;
    }
    status = status_parse_name(result_text(result, 0, 0));
    bool is_new = result_bool(result, 0, 1);
    text_copy(unknown, sizeof unknown, result_null(result, 0, 2) ? "" : result_text(result, 0, 2));
    PQclear(result);
    if (status != WEIR_OK) {
        return schedule_refuse_set(link, request->name, status, unknown, error);
    }
    *ret_is_new = is_new;
    return WEIR_OK;
}

/* The answer of an act on a schedule that may be unknown. */
static enum weir_status act_status(struct link *link, PGresult *result, const char *name, struct weir_error *error)
{
    enum weir_status status = status_parse_name(result_text(result, 0, 0));
    return status == WEIR_OK
               ? status
               : refuse_unknown_name(link, QUERY_SCHEDULE_NAMES, WEIR_NOT_FOUND, "schedule", name, SCHEDULE_HOW, error);
}

enum weir_status postgres_schedule_pause(struct store *store, const char *name, bool paused, struct weir_error *error)
{
    INVARIANT(name != NULL);
    PGresult *result = NULL;
    struct link *link = link_of(store);
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link, error, &result, QUERY_PAUSE_SCHEDULE, "tott", name, (int)paused, store_actor(store),
                            store_reason(store));
    }
    if (status == WEIR_OK) {
        status = act_status(link, result, name, error);
    }
    PQclear(result);
    return status;
}

enum weir_status postgres_schedule_delete(struct store *store, const char *name, struct weir_error *error)
{
    INVARIANT(name != NULL);
    PGresult *result = NULL;
    struct link *link = link_of(store);
    enum weir_status status = postgres_require_writable(store, error);
    char owner[SCHEDULE_UNKNOWN_MAX] = "";
    if (status == WEIR_OK) {
        status =
            link_write(link, error, &result, QUERY_DELETE_SCHEDULE, "ttt", name, store_actor(store), store_reason(store));
    }
    if (status == WEIR_OK) {
        text_copy(owner, sizeof owner, result_null(result, 0, 1) ? "" : result_text(result, 0, 1));
        status =
            owner[0] != '\0' ? refusal_schedule_of_definition(name, owner, error) : act_status(link, result, name, error);
    }
    PQclear(result);
    return status;
}

/* The refusal of trigger_schedule(), whose answer this is. */
static enum weir_status refuse_trigger(struct link *link, const char *name, enum weir_status status, const char *unknown,
                                       struct weir_error *error)
{
    switch (status) {
    case WEIR_ILLEGAL_STATE:
        return refusal_schedule_expands(name, error);
    case WEIR_INVALID_ARGUMENT:
        return refusal_workspace_of_schedule(name, unknown, error);
    case WEIR_WORKSPACE_NOT_FOUND:
        return refuse_unknown_name(link, QUERY_WORKSPACE_NAMES, status, "workspace", unknown, WORKSPACE_HOW, error);
    default:
        return refuse_unknown_name(link, QUERY_SCHEDULE_NAMES, WEIR_NOT_FOUND, "schedule", name, SCHEDULE_HOW, error);
    }
}

enum weir_status postgres_schedule_trigger(struct store *store, const struct schedule_trigger *trigger, const char *key,
                                           const char *arguments, struct schedule_counts *ret_counts,
                                           struct weir_error *error)
{
    INVARIANT(trigger != NULL && ret_counts != NULL);
    PGresult *result = NULL;
    char unknown[WORKSPACE_NAME_MAX + 1] = "";
    struct link *link = link_of(store);
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link, error, &result, QUERY_TRIGGER_SCHEDULE, "tTitddttt", trigger->name, trigger->workspaces,
                            trigger->workspace_count, trigger->at_us, key, (int)SCHEDULE_PART_MOST,
                            (int)SCHEDULE_FIRINGS_MOST, store_actor(store), store_reason(store), arguments);
    }
    if (status != WEIR_OK) {
        return status;
    }
    status = status_parse_name(result_text(result, 0, 0));
    text_copy(unknown, sizeof unknown, result_null(result, 0, 1) ? "" : result_text(result, 0, 1));
    if (status == WEIR_OK) {
        *ret_counts = (struct schedule_counts){.firings = result_int(result, 0, 2),
                                               .skipped = result_int(result, 0, 3),
                                               .existing = result_int(result, 0, 4),
                                               .rest = result_int(result, 0, 5)};
    }
    PQclear(result);
    return status == WEIR_OK ? WEIR_OK : refuse_trigger(link, trigger->name, status, unknown, error);
}

/* --- the duty: due schedules --- */

enum {
    ID,
    NAME,
    CRON,
    ZONE,
    EVERY,
    STARTS_AT,
    ENDS_AT,
    DUE_AT,
    CATCH_UP,
    EXPANDS_AT,
    OVERLAP,
    NOW,
    NEXT_DUE,
    FIRINGS_WAIT
};

enum weir_status postgres_read_due_schedules(struct store *store, struct arena *arena, struct due_schedules *ret_due,
                                             struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_due != NULL);
    PGresult *result = NULL;
    enum weir_status status =
        link_read(link_of(store), error, &result, QUERY_READ_DUE_SCHEDULES, "d", (int)SCHEDULES_READ_MOST);
    if (status != WEIR_OK) {
        return status;
    }
    int rows = PQntuples(result);
    struct due_schedules due = {.schedules = arena_allocate(arena, (size_t)rows * sizeof *due.schedules),
                                .now_us = result_int(result, 0, NOW),
                                .next_due_us =
                                    result_null(result, 0, NEXT_DUE) ? TIME_NEVER : result_int(result, 0, NEXT_DUE),
                                .firings_wait = result_bool(result, 0, FIRINGS_WAIT)};
    bool failed = due.schedules == NULL;
    for (int i = 0; i < rows && !failed && !result_null(result, i, ID); i++) {
        due.schedules[due.count++] = (struct due_schedule){.id = result_int(result, i, ID),
                                                           .name = result_copy(result, i, NAME, arena, &failed),
                                                           .when = {.cron = result_copy(result, i, CRON, arena, &failed),
                                                                    .zone = result_copy(result, i, ZONE, arena, &failed),
                                                                    .every_us = result_int(result, i, EVERY),
                                                                    .from_us = result_int(result, i, STARTS_AT),
                                                                    .until_us = result_int(result, i, ENDS_AT)},
                                                           .due_us = result_int(result, i, DUE_AT),
                                                           .catch_up_us = result_int(result, i, CATCH_UP),
                                                           .expands_us = result_int(result, i, EXPANDS_AT)};
        /* an unknown policy counts as skip */
        (void)schedule_overlap_parse(result_text(result, i, OVERLAP), &due.schedules[due.count - 1].overlap);
    }
    PQclear(result);
    if (failed) {
        return error_out_of_memory(error);
    }
    *ret_due = due;
    return WEIR_OK;
}

enum weir_status postgres_advance_schedule(struct store *store, struct schedule_advance *advance, struct weir_error *error)
{
    INVARIANT(advance != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link_of(store), error, &result, QUERY_ADVANCE_SCHEDULE, "diiIiiittidd", (int)advance->id,
                            advance->due_us, advance->continues_us, advance->fires_us, advance->fire_count,
                            advance->next_us, advance->dropped, advance->passed, advance->error_code, advance->error,
                            advance->retry_us, (int)SCHEDULE_PART_MOST, (int)SCHEDULE_FIRINGS_MOST);
    }
    if (status == WEIR_OK) {
        advance->is_done = result_bool(result, 0, 0);
        advance->counts = (struct schedule_counts){
            .firings = result_int(result, 0, 1), .skipped = result_int(result, 0, 2), .rest = result_int(result, 0, 3)};
    }
    PQclear(result);
    return status;
}

/* --- the duty: firings --- */

enum {
    SCHEDULE_ID,
    WORKSPACE_ID,
    SCHEDULE,
    WORKSPACE,
    WORKFLOW,
    PARAMS,
    FIRING_DUE_AT,
    JITTER,
    IS_BACKLOGGED,
    RUNNING,
    PLANNED,
    IS_LATE,
    IS_OF_PLAN,
    WORKFLOW_STATE
};

enum weir_status postgres_read_schedule_firings(struct store *store, struct arena *arena,
                                                struct schedule_firings *ret_firings, struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_firings != NULL);
    PGresult *result = NULL;
    enum weir_status status =
        link_read(link_of(store), error, &result, QUERY_READ_SCHEDULE_FIRINGS, "ddd", (int)SCHEDULE_STARTS_READ_MOST,
                  (int)SCHEDULE_BACKLOG_MOST, (int)SCHEDULE_CANCELS_READ_MOST);
    if (status != WEIR_OK) {
        return status;
    }
    int rows = PQntuples(result);
    struct schedule_firings read = {.firings = arena_allocate(arena, (size_t)(rows + 1) * sizeof *read.firings)};
    bool failed = read.firings == NULL;
    for (int i = 0; i < rows && !failed; i++) {
        struct schedule_firing *firing = &read.firings[read.count++];
        *firing = (struct schedule_firing){.schedule_id = result_int(result, i, SCHEDULE_ID),
                                           .workspace_id = result_int(result, i, WORKSPACE_ID),
                                           .schedule = result_copy(result, i, SCHEDULE, arena, &failed),
                                           .workspace = result_copy(result, i, WORKSPACE, arena, &failed),
                                           .workflow = result_copy(result, i, WORKFLOW, arena, &failed),
                                           .params = result_copy(result, i, PARAMS, arena, &failed),
                                           .due_us = result_int(result, i, FIRING_DUE_AT),
                                           .jitter_us = result_int(result, i, JITTER),
                                           .is_backlogged = result_bool(result, i, IS_BACKLOGGED),
                                           .is_late = result_bool(result, i, IS_LATE),
                                           .is_of_plan = result_bool(result, i, IS_OF_PLAN),
                                           .workflow_state = (enum workflow_state)result_int(result, i, WORKFLOW_STATE)};
        text_copy(firing->cancels_id, sizeof firing->cancels_id,
                  result_null(result, i, RUNNING) ? "" : result_text(result, i, RUNNING));
        text_copy(firing->planned_id, sizeof firing->planned_id, result_text(result, i, PLANNED));
    }
    PQclear(result);
    if (failed) {
        return error_out_of_memory(error);
    }
    *ret_firings = read;
    return WEIR_OK;
}

enum weir_status postgres_settle_schedule_firings(struct store *store, struct schedule_outcome *outcomes, size_t count,
                                                  struct weir_error *error)
{
    INVARIANT(outcomes != NULL && count <= SCHEDULE_FIRINGS_READ_MOST);
    int64_t schedules[SCHEDULE_FIRINGS_READ_MOST];
    int64_t workspaces[SCHEDULE_FIRINGS_READ_MOST];
    int64_t dues[SCHEDULE_FIRINGS_READ_MOST];
    const char *executions[SCHEDULE_FIRINGS_READ_MOST];
    bool dropped[SCHEDULE_FIRINGS_READ_MOST];
    const char *codes[SCHEDULE_FIRINGS_READ_MOST];
    const char *errors[SCHEDULE_FIRINGS_READ_MOST];
    PGresult *result = NULL;
    for (size_t i = 0; i < count; i++) {
        schedules[i] = outcomes[i].schedule_id;
        workspaces[i] = outcomes[i].workspace_id;
        dues[i] = outcomes[i].due_us;
        executions[i] = outcomes[i].execution_id;
        dropped[i] = outcomes[i].is_dropped;
        codes[i] = outcomes[i].error_code;
        errors[i] = outcomes[i].error;
        outcomes[i].settled_id[0] = '\0';
    }
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link_of(store), error, &result, QUERY_SETTLE_SCHEDULE_FIRINGS, "IIIUOTT", schedules, count,
                            workspaces, count, dues, count, executions, count, dropped, count, codes, count, errors, count);
    }
    for (int i = 0; status == WEIR_OK && i < PQntuples(result); i++) {
        int64_t place = result_int(result, i, 0);
        INVARIANT(place >= 1 && place <= (int64_t)count);
        text_copy(outcomes[place - 1].settled_id, UUID_TEXT_MAX, result_text(result, i, 1));
    }
    PQclear(result);
    return status;
}
