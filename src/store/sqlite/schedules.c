/* Schedules on SQLite: the tables schedules and schedule_firings.
 *
 * A firing is inserted by the transaction that moves the due time of its schedule behind it, so each due time fires once,
 * whatever nodes do it. A settlement gives it the execution, or removes it. Changes of schedules are acts, and their rows
 * in `audit` commit with them. A change that makes something due earlier is news, so that the node that schedules looks.
 * Runs in the caller's thread.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "store/refusal.h"
#include "store/sqlite/definition_schedules.h"
#include "store/sqlite/sqlite_store.h"

/* --- acts --- */

/* The ids of the workspaces as a JSON array; nothing without names. */
static enum weir_status find_schedule_workspaces(struct write *write, const char *const *names, size_t count,
                                                 struct text *ids, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        int64_t id = 0;
        const char *name = names[i];
        status = connection_read_integer(write->connection, error, &id, QUERY_FIND_WORKSPACE, "t", name);
        if (status == WEIR_NOT_FOUND) {
            return write_refuse_name(write, QUERY_WORKSPACE_NAMES, WEIR_WORKSPACE_NOT_FOUND, "workspace", name,
                                     WORKSPACE_HOW, error);
        }
        if (status == WEIR_OK &&
            text_format(ids, "%s%" PRId64 "%s", i == 0 ? "[" : ",", id, i + 1 == count ? "]" : "") != WEIR_OK) {
            status = error_out_of_memory(error);
        }
    }
    return status;
}

static enum weir_status require_plan(struct write *write, const char *plan, struct weir_error *error)
{
    int64_t slots = 0;
    enum weir_status status = connection_read_integer(write->connection, error, &slots, QUERY_FIND_PLAN, "t", plan);
    return status != WEIR_NOT_FOUND
               ? status
               : write_refuse_name(write, QUERY_PLAN_NAMES, WEIR_PLAN_NOT_FOUND, "plan", plan, PLAN_HOW, error);
}

/* The workspaces of a part: those behind `behind`, until `until`. */
struct part {
    int64_t schedule_id;
    int64_t behind;
    int64_t until;
};
#define EVERY_WORKSPACE INT64_MAX

static enum weir_status count_skipped(struct write *write, int64_t id, int64_t skipped, struct weir_error *error)
{
    return skipped == 0 ? WEIR_OK
                        : connection_run(write->connection, error, NULL, QUERY_COUNT_SKIPPED_FIRINGS, "ii", id, skipped);
}

/* Removes the refusals of times before this one, if it has settled in all workspaces without a refusal. */
static enum weir_status end_refusals_before(struct write *write, int64_t id, int64_t due_us, struct weir_error *error)
{
    struct connection *connection = write->connection;
    int64_t ends = 0;
    enum weir_status status = connection_read_integer(connection, error, &ends, QUERY_ENDS_REFUSALS, "ii", id, due_us);
    return status == WEIR_OK && ends != 0
               ? connection_run(connection, error, NULL, QUERY_REMOVE_REFUSALS_BEFORE, "ii", id, due_us)
               : status;
}

/* A firing with a lost settlement has an execution. It gets it here, before waiting firings are removed, and ends refusals
 * as its settlement would. */
static enum weir_status adopt_firings(struct write *write, const struct part *part, struct weir_error *error)
{
    struct connection *connection = write->connection;
    int64_t id = part->schedule_id;
    int64_t adopted = 0;
    int64_t due_us = 0;
    enum weir_status status =
        connection_run(connection, error, &adopted, QUERY_ADOPT_FIRINGS, "iii", id, part->behind, part->until);
    if (status != WEIR_OK || adopted == 0) {
        return status;
    }
    status = connection_run(connection, error, NULL, QUERY_NOTE_ADOPTED_FIRINGS, "iii", id, adopted, write->now_us);
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_REMOVE_ADOPTED_REFUSALS, "i", id);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &due_us, QUERY_LAST_SETTLED_TIME, "i", id);
    }
    return status == WEIR_OK ? end_refusals_before(write, id, due_us, error) : status;
}

/* Counts them as skipped. */
static enum weir_status remove_firings_beside_one(struct write *write, int64_t id, const char *name,
                                                  struct weir_error *error)
{
    int64_t removed = 0;
    const struct part part = {.schedule_id = id, .until = EVERY_WORKSPACE};
    enum weir_status status = adopt_firings(write, &part, error);
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, &removed, QUERY_REMOVE_FIRINGS_BESIDE_ONE, "t", name);
    }
    return status == WEIR_OK ? count_skipped(write, id, removed, error) : status;
}

enum weir_status schedule_write(struct write *write, const struct schedule_request *request, int64_t due_us, int64_t owner,
                                int64_t id, bool *ret_changed, struct weir_error *error)
{
    INVARIANT(write != NULL && request != NULL && owner >= SCHEDULE_OF_NO_DEFINITION && ret_changed != NULL);
    bool is_new = id == 0;
    int64_t changes = 0;
    struct text ids = {.max = SCHEDULE_WORKSPACES_MOST * 24};
    int64_t count = 0;
    enum weir_status status = WEIR_OK;
    if (is_new) {
        status = connection_read_integer(write->connection, error, &count, QUERY_COUNT_SCHEDULES, "");
    }
    if (status == WEIR_OK && count >= SCHEDULES_MOST) {
        return refusal_schedules_full(error);
    }
    if (status == WEIR_OK) {
        status = request->plan != NULL
                     ? require_plan(write, request->plan, error)
                     : find_schedule_workspaces(write, request->workspaces, request->workspace_count, &ids, error);
    }
    if (status == WEIR_OK) { /* before the change, which clears the reason when no refusal is left */
        status = connection_run(write->connection, error, NULL, QUERY_REMOVE_REFUSALS_ELSEWHERE, "ttt", request->name,
                                ids.data, request->plan);
    }
    if (status == WEIR_OK) {
        const struct recurrence_text *when = &request->when;
        const char *zone = when->zone == NULL && when->cron != NULL ? "UTC" : when->zone;
        status =
            connection_run(write->connection, error, &changes, is_new ? QUERY_INSERT_SCHEDULE : QUERY_CHANGE_SCHEDULE,
                           "tttiiiitttttiiii", request->name, when->cron, zone, when->every_us, request->jitter_us,
                           when->from_us, when->until_us, request->workflow, request->params, ids.data, request->plan,
                           schedule_overlap_name(request->overlap), request->catch_up_us, write->now_us, due_us, owner);
    }
    text_close(&ids);
    *ret_changed = changes > 0;
    return status == WEIR_OK && !is_new && changes > 0 ? remove_firings_beside_one(write, id, request->name, error)
                                                       : status;
}

enum weir_status sqlite_schedule_set(struct store *store, const struct schedule_request *request, int64_t due_us,
                                     bool *ret_is_new, struct weir_error *error)
{
    INVARIANT(request != NULL && ret_is_new != NULL);
    struct write write;
    int64_t id = 0;
    bool is_changed = false;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_read_integer(write.connection, error, &id, QUERY_FIND_SCHEDULE, "t", request->name);
    bool is_new = status == WEIR_NOT_FOUND;
    status = status == WEIR_OK ? schedule_refuse_owned(&write, request->name, error) : status;
    if (status == WEIR_OK || is_new) {
        status = act_begin(&write, "schedule set", "schedule", request->name, NULL, error);
    }
    if (status == WEIR_OK) {
        status = schedule_write(&write, request, due_us, SCHEDULE_OF_NO_DEFINITION, is_new ? 0 : id, &is_changed, error);
    }
    if (is_changed) {
        news_state(&write.news);
    }
    status = write_end(&write, status, error);
    *ret_is_new = status == WEIR_OK ? is_new : *ret_is_new;
    return status;
}

/* Opens the act on a schedule that exists. `kind`: of the setting that it changes, "schedule"; NULL = it changes none. The
 * caller ends the write. */
static enum weir_status schedule_begin_change(struct write *write, const char *name, const char *act, const char *kind,
                                              int64_t *ret_id, struct weir_error *error)
{
    enum weir_status status = connection_read_integer(write->connection, error, ret_id, QUERY_FIND_SCHEDULE, "t", name);
    if (status == WEIR_NOT_FOUND) {
        return write_refuse_name(write, QUERY_SCHEDULE_NAMES, WEIR_NOT_FOUND, "schedule", name, SCHEDULE_HOW, error);
    }
    return status == WEIR_OK ? act_begin(write, act, kind, name, NULL, error) : status;
}

/* A resumed schedule goes on with its next time, so firings of earlier ones do not wait for that. */
static enum weir_status remove_paused_firings(struct write *write, int64_t id, struct weir_error *error)
{
    struct connection *connection = write->connection;
    const struct part part = {.schedule_id = id, .until = EVERY_WORKSPACE};
    int64_t removed = 0;
    int64_t behind = 0;
    int64_t left = 0;
    enum weir_status status = adopt_firings(write, &part, error);
    if (status == WEIR_OK) {
        status = connection_run(connection, error, &removed, QUERY_REMOVE_PAUSED_FIRINGS, "i", id);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &behind, QUERY_UNTRIGGERED_BEHIND, "i", id);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &left, QUERY_COUNT_SCHEDULE_WORKSPACES, "iii", id, behind,
                                         EVERY_WORKSPACE);
        status = status == WEIR_OK ? connection_run(connection, error, NULL, QUERY_END_PARTS, "i", id) : status;
    }
    return status == WEIR_OK || status == WEIR_NOT_FOUND ? count_skipped(write, id, removed + left, error) : status;
}

enum weir_status sqlite_schedule_pause(struct store *store, const char *name, bool paused, struct weir_error *error)
{
    INVARIANT(name != NULL);
    struct write write;
    int64_t id = 0;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = schedule_begin_change(&write, name, paused ? "schedule pause" : "schedule resume", "schedule", &id, error);
    if (status == WEIR_OK) {
        status =
            connection_run(write.connection, error, NULL, QUERY_PAUSE_SCHEDULE, "tii", name, (int64_t)paused, write.now_us);
    }
    if (status == WEIR_OK && paused) {
        status = remove_paused_firings(&write, id, error);
    }
    news_state(&write.news);
    return write_end(&write, status, error);
}

enum weir_status schedule_remove(struct write *write, int64_t id, struct weir_error *error)
{
    INVARIANT(write != NULL);
    struct connection *connection = write->connection;
    enum weir_status status = connection_run(connection, error, NULL, QUERY_DELETE_SCHEDULE_FIRINGS, "i", id);
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_DELETE_SCHEDULE_REFUSALS, "i", id);
    }
    return status == WEIR_OK ? connection_run(connection, error, NULL, QUERY_DELETE_SCHEDULE, "i", id) : status;
}

enum weir_status sqlite_schedule_delete(struct store *store, const char *name, struct weir_error *error)
{
    INVARIANT(name != NULL);
    struct write write;
    int64_t id = 0;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = schedule_begin_change(&write, name, "schedule delete", "schedule", &id, error);
    status = status == WEIR_OK ? schedule_refuse_owned(&write, name, error) : status;
    status = status == WEIR_OK ? schedule_remove(&write, id, error) : status;
    return write_end(&write, status, error);
}

/* The time of the nth id of a call, so that lists, which are in the order of ids, have executions in the order of firings.
 */
static int64_t id_ticks(int64_t now_us, size_t nth)
{
    return now_us / 1000 * 4096 + now_us % 1000 * 4096 / 1000 + (int64_t)nth;
}

/* A time that fires. */
struct fire {
    int64_t at_us;
    bool is_triggered;
    size_t nth;        /* of the call */
    const char *only;  /* ids of workspaces as a JSON array; NULL = all of the schedule */
    const char *key;   /* workspaces with an execution of this key have the time already; NULL = none has */
    bool refused_only; /* where the time was refused */
};

/* Those of the part that get a firing, as a JSON array, the number of all of it, and of those that have the time already.
 */
static enum weir_status choose_workspaces(struct write *write, const struct part *part, const struct fire *fire,
                                          struct text *chosen, int64_t *ret_all, int64_t *ret_existing,
                                          struct weir_error *error)
{
    struct connection *connection = write->connection;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_CHOOSE_WORKSPACES, "iiititi", part->schedule_id, part->behind, part->until,
                        fire->only, fire->at_us, fire->key, (int64_t)fire->refused_only);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        *ret_all = sqlite3_column_int64(statement, 1);
        *ret_existing = sqlite3_column_int64(statement, 2);
        if (text_format(chosen, "%s", column_text(statement, 0)) != WEIR_OK) {
            status = error_out_of_memory(error);
        }
    }
    (void)sqlite3_reset(statement);
    return status;
}

/* Inserts a firing for each workspace of the part, as the overlap policy allows. Adds to *counts. */
static enum weir_status insert_part(struct write *write, const struct part *part, const struct fire *fire,
                                    struct schedule_counts *counts, struct weir_error *error)
{
    struct connection *connection = write->connection;
    struct text chosen = {.max = (SCHEDULE_PART_MOST + 1) * 24};
    int64_t id = part->schedule_id;
    int64_t all = 0;
    int64_t existing = 0;
    int64_t replaced = 0;
    int64_t inserted = 0;
    enum weir_status status =
        connection_run(connection, error, NULL, QUERY_REMOVE_ORPHANED_FIRINGS, "iii", id, part->behind, part->until);
    if (status == WEIR_OK) {
        status = adopt_firings(write, part, error);
    }
    if (status == WEIR_OK) {
        status = choose_workspaces(write, part, fire, &chosen, &all, &existing, error);
    }
    if (status == WEIR_OK) {
        status = connection_run(connection, error, &replaced, QUERY_REPLACE_WAITING_FIRINGS, "iti", id, chosen.data,
                                fire->at_us);
    }
    if (status == WEIR_OK) {
        status = connection_run(connection, error, &inserted, QUERY_INSERT_FIRINGS, "iiiiiti", id, fire->at_us,
                                (int64_t)fire->is_triggered, (int64_t)SCHEDULE_FIRINGS_MOST,
                                id_ticks(write->now_us, fire->nth), chosen.data, write->now_us);
    }
    text_close(&chosen);
    int64_t skipped = all - existing - inserted + replaced;
    if (status == WEIR_OK) {
        status = count_skipped(write, id, skipped, error);
    }
    counts->firings += inserted;
    counts->skipped += skipped;
    counts->existing += existing;
    return status;
}

/* WEIR_NOT_FOUND: it is the last part. */
static enum weir_status find_end_of_part(struct write *write, const struct fire *fire, struct part *part,
                                         struct weir_error *error)
{
    int64_t others = SCHEDULE_PART_MOST - 1;
    return fire->refused_only ? connection_read_integer(write->connection, error, &part->until, QUERY_END_OF_REFUSED_PART,
                                                        "iiii", part->schedule_id, part->behind, others, fire->at_us)
                              : connection_read_integer(write->connection, error, &part->until, QUERY_END_OF_PART, "iii",
                                                        part->schedule_id, part->behind, others);
}

static enum weir_status count_rest(struct write *write, const struct fire *fire, const struct part *part, int64_t *ret_rest,
                                   struct weir_error *error)
{
    return fire->refused_only ? connection_read_integer(write->connection, error, ret_rest, QUERY_COUNT_REFUSED_WORKSPACES,
                                                        "iii", part->schedule_id, part->until, fire->at_us)
                              : connection_read_integer(write->connection, error, ret_rest, QUERY_COUNT_SCHEDULE_WORKSPACES,
                                                        "iii", part->schedule_id, part->until, EVERY_WORKSPACE);
}

/* The next part of the workspaces behind `behind`. What is left is noted on the schedule. */
static enum weir_status insert_firings(struct write *write, int64_t id, int64_t behind, const struct fire *fire,
                                       struct schedule_counts *counts, struct weir_error *error)
{
    struct connection *connection = write->connection;
    struct part part = {.schedule_id = id, .behind = behind, .until = EVERY_WORKSPACE};
    enum weir_status status = fire->only != NULL ? WEIR_NOT_FOUND : find_end_of_part(write, fire, &part, error);
    if (status == WEIR_OK || status == WEIR_NOT_FOUND) {
        status = insert_part(write, &part, fire, counts, error);
    }
    if (status == WEIR_OK && part.until != EVERY_WORKSPACE) {
        status = count_rest(write, fire, &part, &counts->rest, error);
    }
    if (status == WEIR_OK) {
        status = counts->rest > 0 ? connection_run(connection, error, NULL, QUERY_NOTE_PART, "iiiii", id, fire->at_us,
                                                   part.until, (int64_t)fire->is_triggered, (int64_t)fire->refused_only)
                                  : connection_run(connection, error, NULL, QUERY_END_PARTS, "i", id);
    }
    return status;
}

/* All of them must be workspaces of the schedule. */
static enum weir_status find_trigger_workspaces(struct write *write, const struct schedule_trigger *trigger, int64_t id,
                                                struct text *ids, struct weir_error *error)
{
    enum weir_status status = find_schedule_workspaces(write, trigger->workspaces, trigger->workspace_count, ids, error);
    if (status != WEIR_OK || ids->data == NULL) {
        return status;
    }
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_WORKSPACE_OF_NO_FIRING, "it", id, ids->data);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        status = refusal_workspace_of_schedule(trigger->name, column_text(statement, 0), error);
    }
    (void)sqlite3_reset(statement);
    return status;
}

static enum weir_status refuse_while_it_expands(struct write *write, int64_t id, const char *name, struct weir_error *error)
{
    int64_t expands_us = 0;
    enum weir_status status = connection_read_integer(write->connection, error, &expands_us, QUERY_EXPANDS_AT, "i", id);
    return status == WEIR_OK ? refusal_schedule_expands(name, error) : status == WEIR_NOT_FOUND ? WEIR_OK : status;
}

/* The act changes no setting. Its record has the arguments and the number of executions. */
static void note_trigger(struct write *write, const char *arguments, const struct schedule_counts *counts)
{
    write->act.arguments = arguments;
    write->act.affected = counts->firings + counts->rest;
}

enum weir_status sqlite_schedule_trigger(struct store *store, const struct schedule_trigger *trigger, const char *key,
                                         const char *arguments, struct schedule_counts *ret_counts,
                                         struct weir_error *error)
{
    INVARIANT(trigger != NULL && ret_counts != NULL);
    struct write write;
    struct schedule_counts counts = {0};
    struct text ids = {.max = SCHEDULE_WORKSPACES_MOST * 24};
    int64_t id = 0;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = schedule_begin_change(&write, trigger->name, "schedule trigger", NULL, &id, error);
    if (status == WEIR_OK) {
        status = refuse_while_it_expands(&write, id, trigger->name, error);
    }
    if (status == WEIR_OK) {
        status = find_trigger_workspaces(&write, trigger, id, &ids, error);
    }
    if (status == WEIR_OK) {
        const struct fire fire = {.at_us = trigger->at_us == 0 ? write.now_us : trigger->at_us,
                                  .is_triggered = true,
                                  .only = ids.data,
                                  .key = key,
                                  .refused_only = trigger->at_us != 0 && trigger->workspace_count == 0};
        status = insert_firings(&write, id, 0, &fire, &counts, error);
    }
    text_close(&ids);
    note_trigger(&write, arguments, &counts);
    news_state(&write.news);
    status = write_end(&write, status, error);
    if (status == WEIR_OK) {
        *ret_counts = counts;
    }
    return status;
}

/* --- the duty: due schedules --- */

static enum weir_status read_due_rows(struct connection *connection, struct arena *arena, struct due_schedules *due,
                                      struct weir_error *error)
{
    bool failed = false;
    enum weir_status status = WEIR_OK;
    due->schedules = arena_allocate(arena, SCHEDULES_READ_MOST * sizeof *due->schedules);
    if (due->schedules == NULL) {
        return error_out_of_memory(error);
    }
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_READ_DUE_SCHEDULES, "ii", due->now_us, (int64_t)SCHEDULES_READ_MOST);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (!failed && due->count < SCHEDULES_READ_MOST && connection_step(connection, statement, &status, error)) {
        struct due_schedule *schedule = &due->schedules[due->count++];
        *schedule = (struct due_schedule){.id = sqlite3_column_int64(statement, 0),
                                          .name = column_copy(statement, 1, arena, &failed),
                                          .when = {.cron = column_copy(statement, 2, arena, &failed),
                                                   .zone = column_copy(statement, 3, arena, &failed),
                                                   .every_us = sqlite3_column_int64(statement, 4),
                                                   .from_us = sqlite3_column_int64(statement, 5),
                                                   .until_us = sqlite3_column_int64(statement, 6)},
                                          .due_us = sqlite3_column_int64(statement, 7),
                                          .catch_up_us = sqlite3_column_int64(statement, 8),
                                          .expands_us = sqlite3_column_int64(statement, 9)};
        (void)schedule_overlap_parse(column_text(statement, 10), &schedule->overlap); /* an unknown one counts as skip */
    }
    (void)sqlite3_reset(statement);
    return failed ? error_out_of_memory(error) : status;
}

enum weir_status sqlite_read_due_schedules(struct store *store, struct arena *arena, struct due_schedules *ret_due,
                                           struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_due != NULL);
    struct connection *connection;
    struct due_schedules due = {.next_due_us = TIME_NEVER};
    int64_t waits = 0;
    enum weir_status status = snapshot_begin(store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_store_time(connection, &due.now_us, error);
    if (status == WEIR_OK) {
        status = read_due_rows(connection, arena, &due, error);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &due.next_due_us, QUERY_NEXT_DUE_SCHEDULE, "i", due.now_us);
        status = status == WEIR_NOT_FOUND ? WEIR_OK : status;
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &waits, QUERY_HAS_WAITING_FIRINGS, "");
    }
    snapshot_end(connection);
    if (status == WEIR_OK) {
        due.firings_wait = waits != 0;
        *ret_due = due;
    }
    return status;
}

/* The further firings of a time with very many workspaces. */
static enum weir_status continue_firings(struct write *write, struct schedule_advance *advance, struct weir_error *error)
{
    int64_t behind = 0;
    char key[IDEMPOTENCY_KEY_MAX + 1];
    struct fire fire = {.at_us = advance->continues_us, .key = key};
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_PART_UNDER_WAY, "i", advance->id);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(write->connection, statement, &status, error)) {
        return status;
    }
    behind = sqlite3_column_int64(statement, 0);
    fire.is_triggered = sqlite3_column_int(statement, 1) != 0;
    fire.refused_only = sqlite3_column_int(statement, 2) != 0;
    text_copy(key, sizeof key, column_text(statement, 3));
    (void)sqlite3_reset(statement);
    return insert_firings(write, advance->id, behind, &fire, &advance->counts, error);
}

/* The times that fire, as many as the transaction may have. */
static enum weir_status fire_times(struct write *write, struct schedule_advance *advance, struct weir_error *error)
{
    int64_t workspaces = 0;
    enum weir_status status =
        connection_read_integer(write->connection, error, &workspaces, QUERY_COUNT_SCHEDULE_WORKSPACES, "iii", advance->id,
                                (int64_t)0, EVERY_WORKSPACE);
    size_t most = workspaces == 0 ? SCHEDULE_PART_MOST : (size_t)(SCHEDULE_PART_MOST / workspaces);
    size_t count = advance->fire_count < most ? advance->fire_count : most == 0 ? 1 : most;
    if (status == WEIR_OK) {
        status = count_skipped(write, advance->id, advance->passed * workspaces, error);
        advance->counts.skipped += advance->passed * workspaces;
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        const struct fire fire = {.at_us = advance->fires_us[i], .nth = i};
        status = insert_firings(write, advance->id, 0, &fire, &advance->counts, error);
    }
    return status == WEIR_OK && count < advance->fire_count
               ? connection_run(write->connection, error, NULL, QUERY_LEAVE_DUE, "ii", advance->id,
                                advance->fires_us[count])
               : status;
}

static enum weir_status advance_written(struct write *write, struct schedule_advance *advance, struct weir_error *error)
{
    struct connection *connection = write->connection;
    int64_t changed = 0;
    bool continues = advance->continues_us != TIME_NEVER;
    enum weir_status status =
        continues ? connection_run(connection, error, &changed, QUERY_CONTINUE_FIRINGS, "iii", advance->id,
                                   advance->continues_us, advance->retry_us)
                  : connection_run(connection, error, &changed, QUERY_ADVANCE_SCHEDULE, "iiiii", advance->id,
                                   advance->due_us, advance->next_us, advance->dropped, advance->retry_us);
    advance->is_done = status == WEIR_OK && changed > 0;
    if (!advance->is_done) {
        return status;
    }
    if (advance->error_code != NULL) {
        return connection_run(connection, error, NULL, QUERY_NOTE_SCHEDULE_REFUSAL, "iitti", advance->id, write->now_us,
                              advance->error_code, advance->error, (int64_t)0);
    }
    return continues ? continue_firings(write, advance, error) : fire_times(write, advance, error);
}

enum weir_status sqlite_advance_schedule(struct store *store, struct schedule_advance *advance, struct weir_error *error)
{
    INVARIANT(advance != NULL);
    struct write write;
    enum weir_status status = write_open(store, &write, error);
    return status == WEIR_OK ? write_end(&write, advance_written(&write, advance, error), error) : status;
}

/* --- the duty: firings --- */

enum weir_status sqlite_read_schedule_firings(struct store *store, struct arena *arena,
                                              struct schedule_firings *ret_firings, struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_firings != NULL);
    struct connection *connection;
    bool failed = false;
    int64_t now_us = 0;
    struct schedule_firings read = {.firings = arena_allocate(arena, SCHEDULE_FIRINGS_READ_MOST * sizeof *read.firings)};
    enum weir_status status = store_reader(store, &connection, error);
    if (status != WEIR_OK || read.firings == NULL) {
        return status != WEIR_OK ? status : error_out_of_memory(error);
    }
    status = connection_store_time(connection, &now_us, error);
    if (status != WEIR_OK) {
        return status;
    }
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_READ_SCHEDULE_FIRINGS, "iiii", (int64_t)SCHEDULE_STARTS_READ_MOST,
                        (int64_t)SCHEDULE_BACKLOG_MOST, now_us, (int64_t)SCHEDULE_CANCELS_READ_MOST);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (!failed && read.count < SCHEDULE_FIRINGS_READ_MOST && connection_step(connection, statement, &status, error)) {
        struct schedule_firing *firing = &read.firings[read.count++];
        const char *running = column_text(statement, 9);
        const char *planned = column_text(statement, 10);
        *firing = (struct schedule_firing){.schedule_id = sqlite3_column_int64(statement, 0),
                                           .workspace_id = sqlite3_column_int64(statement, 1),
                                           .schedule = column_copy(statement, 2, arena, &failed),
                                           .workspace = column_copy(statement, 3, arena, &failed),
                                           .workflow = column_copy(statement, 4, arena, &failed),
                                           .params = column_copy(statement, 5, arena, &failed),
                                           .due_us = sqlite3_column_int64(statement, 6),
                                           .jitter_us = sqlite3_column_int64(statement, 7),
                                           .is_backlogged = sqlite3_column_int(statement, 8) != 0,
                                           .is_late = sqlite3_column_int(statement, 11) != 0,
                                           .is_of_plan = sqlite3_column_int(statement, 12) != 0,
                                           .workflow_state = (enum workflow_state)sqlite3_column_int(statement, 13)};
        text_copy(firing->cancels_id, sizeof firing->cancels_id, running == NULL ? "" : running);
        text_copy(firing->planned_id, sizeof firing->planned_id, planned == NULL ? "" : planned);
    }
    (void)sqlite3_reset(statement);
    status = failed ? error_out_of_memory(error) : status;
    if (status == WEIR_OK) {
        *ret_firings = read;
    }
    return status;
}

/* A refused schedule is so until a later time has settled in all workspaces without a refusal, or its time was triggered.
 */
static enum weir_status end_refusals(struct write *write, const struct schedule_outcome *outcome, struct weir_error *error)
{
    struct connection *connection = write->connection;
    int64_t is_triggered = 0;
    enum weir_status status = connection_run(connection, error, NULL, QUERY_REMOVE_REFUSAL, "iii", outcome->schedule_id,
                                             outcome->workspace_id, outcome->due_us);
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &is_triggered, QUERY_FIRING_IS_TRIGGERED, "iii",
                                         outcome->schedule_id, outcome->workspace_id, outcome->due_us);
    }
    return status == WEIR_OK && is_triggered == 0 ? end_refusals_before(write, outcome->schedule_id, outcome->due_us, error)
                                                  : status;
}

static enum weir_status settle_fired_firing(struct write *write, struct schedule_outcome *outcome, const char *execution_id,
                                            struct weir_error *error)
{
    struct connection *connection = write->connection;
    int64_t is_settled = 0;
    int64_t changed = 0;
    text_copy(outcome->settled_id, sizeof outcome->settled_id, execution_id);
    enum weir_status status = connection_read_integer(connection, error, &is_settled, QUERY_FIRING_IS_SETTLED, "iii",
                                                      outcome->schedule_id, outcome->workspace_id, outcome->due_us);
    if (status != WEIR_OK || is_settled != 0) {
        return status;
    }
    status = connection_run(connection, error, &changed, QUERY_SETTLE_FIRING, "iiit", outcome->schedule_id,
                            outcome->workspace_id, outcome->due_us, execution_id);
    if (status != WEIR_OK || changed == 0) {
        return status; /* the schedule was deleted, or the firing was settled before */
    }
    status = connection_run(connection, error, NULL, QUERY_REMOVE_ENDED_FIRINGS, "iii", outcome->schedule_id,
                            outcome->workspace_id, outcome->due_us);
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_NOTE_FIRING, "iiti", outcome->schedule_id, outcome->due_us,
                                execution_id, write->now_us);
    }
    return status == WEIR_OK ? end_refusals(write, outcome, error) : status;
}

/* *ret_id: "" = none. */
static enum weir_status find_execution_of_firing(struct write *write, const struct schedule_outcome *outcome,
                                                 char ret_id[UUID_TEXT_MAX], struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_EXECUTION_OF_FIRING, "iii",
                                              outcome->schedule_id, outcome->workspace_id, outcome->due_us);
    if (statement == NULL) {
        return statement_failure(error);
    }
    ret_id[0] = '\0';
    if (connection_step(write->connection, statement, &status, error)) {
        text_copy(ret_id, UUID_TEXT_MAX, column_text(statement, 0));
    }
    (void)sqlite3_reset(statement);
    return status;
}

/* Refusals of earlier times are no longer those of the last one; a triggered time is none of the schedule's. */
static enum weir_status note_refusal(struct write *write, const struct schedule_outcome *outcome, bool is_triggered,
                                     struct weir_error *error)
{
    struct connection *connection = write->connection;
    enum weir_status status = is_triggered ? WEIR_OK
                                           : connection_run(connection, error, NULL, QUERY_REMOVE_REFUSALS_BEFORE, "ii",
                                                            outcome->schedule_id, outcome->due_us);
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_INSERT_REFUSAL, "iii", outcome->schedule_id,
                                outcome->workspace_id, outcome->due_us);
    }
    return status == WEIR_OK
               ? connection_run(connection, error, NULL, QUERY_NOTE_SCHEDULE_REFUSAL, "iitti", outcome->schedule_id,
                                write->now_us, outcome->error_code, outcome->error, (int64_t)1)
               : status;
}

static enum weir_status settle_removed_firing(struct write *write, struct schedule_outcome *outcome,
                                              struct weir_error *error)
{
    struct connection *connection = write->connection;
    int64_t removed = 0;
    int64_t is_triggered = 0;
    char id[UUID_TEXT_MAX];
    enum weir_status status = find_execution_of_firing(write, outcome, id, error);
    if (status != WEIR_OK || id[0] != '\0') {
        return status != WEIR_OK ? status : settle_fired_firing(write, outcome, id, error);
    }
    outcome->settled_id[0] = '\0';
    status = connection_read_integer(connection, error, &is_triggered, QUERY_FIRING_IS_TRIGGERED, "iii",
                                     outcome->schedule_id, outcome->workspace_id, outcome->due_us);
    if (status == WEIR_OK) {
        status = connection_run(connection, error, &removed, QUERY_REMOVE_FIRING, "iii", outcome->schedule_id,
                                outcome->workspace_id, outcome->due_us);
    }
    if (status != WEIR_OK || removed == 0) {
        return status == WEIR_NOT_FOUND ? WEIR_OK : status; /* another node has removed it */
    }
    if (outcome->is_dropped) {
        return connection_run(connection, error, NULL, QUERY_COUNT_DROPPED_FIRINGS, "ii", outcome->schedule_id, removed);
    }
    return outcome->error_code != NULL ? note_refusal(write, outcome, is_triggered != 0, error) : WEIR_OK;
}

enum weir_status sqlite_settle_schedule_firings(struct store *store, struct schedule_outcome *outcomes, size_t count,
                                                struct weir_error *error)
{
    INVARIANT(outcomes != NULL && count <= SCHEDULE_FIRINGS_READ_MOST);
    struct write write;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = outcomes[i].execution_id != NULL
                     ? settle_fired_firing(&write, &outcomes[i], outcomes[i].execution_id, error)
                     : settle_removed_firing(&write, &outcomes[i], error);
    }
    return write_end(&write, status, error);
}
