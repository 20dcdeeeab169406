/* Acts of operators on executions: cancel, retry, release, wake, dismiss, purge, signal, migrate; by id or by filter, in
 * chunks.
 *
 * A chunk is one write transaction: it selects ids in their order, acts on each, and returns the last id as the cursor
 * of the next chunk. So nodes get the writer between two chunks, and an interrupted act continues where it ended. A
 * refusal of one execution is counted and does not stop the chunk. A retry is a new execution: the ended row is never
 * rewritten. Each act is an event with the actor and the reason.
 *
 * It never changes an item that a node holds except to request its cancel, because its node alone can end it. Runs in the
 * caller's thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/refusal.h"
#include "store/sqlite/archive.h"
#include "store/sqlite/enqueue.h"
#include "store/sqlite/filter_query.h"
#include "store/sqlite/migration.h"
#include "store/sqlite/signals.h"
#include "store/sqlite/stream.h"

struct bulk {
    struct write write;
    enum bulk_act act;
    const struct act_order *order;
    const struct store *store;
    struct bulk_result *result;
};

/* Counts a refusal; the act goes on with the next execution. */
static enum weir_status refuse_item(struct bulk *bulk, enum weir_status status, const char *id, const char *state,
                                    const char *what)
{
    bulk->result->refused++;
    if (bulk->result->first_refusal == WEIR_OK) {
        bulk->result->first_refusal = error_set(&bulk->result->refusal, status, "execution %s is %s: %s", id, state, what);
    }
    return WEIR_OK;
}

/* The same for a refusal with a text of its own. */
static enum weir_status bulk_keep_refusal(struct bulk *bulk, const struct weir_error *refusal)
{
    bulk->result->refused++;
    if (bulk->result->first_refusal == WEIR_OK) {
        bulk->result->first_refusal = refusal->status;
        bulk->result->refusal = *refusal;
    }
    return WEIR_OK;
}

/* Puts the act on record with its actor and reason. */
static enum weir_status add_act_event(struct bulk *bulk, const char *id, const char *event, const char *detail,
                                      struct weir_error *error)
{
    bulk->result->changed++;
    return event_history_add(bulk->write.connection, id, bulk->write.now_us, event, 0, 0, store_actor(bulk->store),
                             store_reason(bulk->store), detail, error);
}

/* Reads status, lane, workspace and phase of a living item; WEIR_NOT_FOUND when it has ended. */
static enum weir_status read_living(struct bulk *bulk, const char *id, struct ending *ret_item, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(bulk->write.connection, error, QUERY_FIND_ITEM, "t", id);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(bulk->write.connection, statement, &status, error)) {
        return status == WEIR_OK ? WEIR_NOT_FOUND : status;
    }
    ret_item->fence = sqlite3_column_int64(statement, 1);
    ret_item->lane_id = sqlite3_column_int64(statement, 2);
    status = filter_parse_state(id, column_text(statement, 0), ret_item->lane_id, &ret_item->state, error);
    ret_item->workspace_id = sqlite3_column_int64(statement, 3);
    ret_item->phase = sqlite3_column_int(statement, 4);
    ret_item->rank = sqlite3_column_int64(statement, 9);
    ret_item->has_run = sqlite3_column_int64(statement, 8) > 0;
    (void)sqlite3_reset(statement);
    return status;
}

/* Refuses an item that has no live row: it has ended, or it does not exist. */
static enum weir_status refuse_ended(struct bulk *bulk, const char *id, const char *what, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(bulk->write.connection, error, QUERY_ENDED_STATUS, "t", id);
    enum weir_status status = WEIR_OK;
    char state[16] = "gone";
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(bulk->write.connection, statement, &status, error)) {
        text_copy(state, sizeof state, column_text(statement, 0));
        (void)sqlite3_reset(statement);
    }
    return status == WEIR_OK ? refuse_item(bulk, WEIR_ILLEGAL_STATE, id, state, what) : status;
}

/* Whether nothing can run of an item that was given back or handed over: it ends at once, with or without a node that could
 * take it. */
static enum weir_status is_left_alone(struct bulk *bulk, const struct ending *item, bool *ret_is_left,
                                      struct weir_error *error)
{
    int64_t cancelled = 0;
    *ret_is_left = false;
    if (item->phase != 2) {
        return WEIR_OK;
    }
    enum weir_status status =
        connection_read_integer(bulk->write.connection, error, &cancelled, QUERY_LEFT_CANCELLED, "t", item->id);
    *ret_is_left = status == WEIR_OK;
    return status == WEIR_NOT_FOUND ? WEIR_OK : status;
}

/* An item that no node has ends at once; of a held one the cancel is requested, and its node ends it. */
static enum weir_status cancel_one(struct bulk *bulk, const char *id, struct weir_error *error)
{
    struct ending item = {.id = id};
    enum weir_status status = read_living(bulk, id, &item, error);
    if (status == WEIR_NOT_FOUND) {
        return refuse_ended(bulk, id, REFUSAL_CANCEL_ENDED, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    bool is_left = false;
    status = is_left_alone(bulk, &item, &is_left, error);
    if (status == WEIR_OK && item.phase == 2 && !is_left) {
        bulk->result->requested++;
        status = connection_run(bulk->write.connection, error, NULL, QUERY_ASK_CANCEL, "ti", id, bulk->write.now_us);
        return status == WEIR_OK ? add_act_event(bulk, id, "cancel", "passed on to its engine", error) : status;
    }
    if (status == WEIR_OK) {
        const char *detail = is_left ? "no node had it" : item.has_run ? "it was waiting" : "it had not started";
        status = add_act_event(bulk, id, "cancel", detail, error);
    }
    item.state = ITEM_CANCELLED;
    return status == WEIR_OK ? item_end(&bulk->write, &item, error) : status;
}

/* Makes a waiting item runnable and notes it in the news. */
static enum weir_status release_one(struct bulk *bulk, const char *id, struct weir_error *error)
{
    struct ending item = {.id = id};
    enum weir_status status = read_living(bulk, id, &item, error);
    if (status == WEIR_NOT_FOUND) {
        return refuse_ended(bulk, id, REFUSAL_RELEASE_ENDED, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (item.phase != 1) {
        return refuse_item(bulk, WEIR_ILLEGAL_STATE, id, item_state_name(item.state), REFUSAL_RELEASE_NOT_DELAYED);
    }
    status = connection_run(bulk->write.connection, error, NULL, QUERY_RELEASE_ITEM, "t", id);
    struct lane_delta *delta =
        news_lane(&bulk->write.news, bulk->write.connection, NEWS_ENQUEUED, 0, item.lane_id, &status, error);
    delta->waiting--;
    news_add_runnable(delta, item.rank);
    if (status == WEIR_OK) {
        status = stream_add(&bulk->write.news, bulk->write.connection, STREAM_RELEASE, id, item.workspace_id, error);
    }
    return status == WEIR_OK ? add_act_event(bulk, id, "release", NULL, error) : status;
}

/* --- wake --- */

static enum weir_status wake_one(struct bulk *bulk, const char *id, struct weir_error *error)
{
    struct ending item = {.id = id};
    const char *refusal = NULL;
    enum weir_status status = read_living(bulk, id, &item, error);
    if (status == WEIR_NOT_FOUND) {
        return refuse_ended(bulk, id, REFUSAL_WAKE_ENDED, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (lane_is_on_temporal(item.lane_id)) { /* no wait of it is on record here */
        return refuse_item(bulk, WEIR_ILLEGAL_STATE, id, item_state_name(item.state), REFUSAL_WAKE_TEMPORAL);
    }
    struct wake_target target = {.waking = {.id = id,
                                            .lane_id = item.lane_id,
                                            .rank = item.rank,
                                            .fence = item.fence,
                                            .actor = store_actor(bulk->store),
                                            .reason = store_reason(bulk->store)},
                                 .phase = item.phase,
                                 .waits_for = bulk->order->waits_for};
    status = steps_wake(&bulk->write, &target, &refusal, error);
    if (status == WEIR_OK && refusal != NULL) {
        return refuse_item(bulk, WEIR_ILLEGAL_STATE, id, item_state_name(item.state), refusal);
    }
    bulk->result->changed += status == WEIR_OK;
    return status;
}

/* --- retry: a new execution; the ended row is never rewritten --- */

/* Refuses a second retry of one execution, and names the first. */
static enum weir_status find_retry(struct bulk *bulk, const char *id, bool *ret_refused, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(bulk->write.connection, error, QUERY_FIND_RETRY, "t", id);
    enum weir_status status = WEIR_OK;
    *ret_refused = false;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(bulk->write.connection, statement, &status, error)) {
        char what[96];
        (void)snprintf(what, sizeof what, "it was retried already, as %s", column_text(statement, 0));
        (void)sqlite3_reset(statement);
        *ret_refused = true;
        return refuse_item(bulk, WEIR_CONFLICT, id, "retried", what);
    }
    return status;
}

/* The new execution looks like one that was parked: its next claim reads its steps, and no attempt of them is under way. */
static enum weir_status keep_finished_steps(struct bulk *bulk, const char *id, const struct new_item *item,
                                            struct weir_error *error)
{
    enum weir_status status = connection_run(bulk->write.connection, error, NULL, QUERY_KEEP_STEPS, "ttti", id, item->id,
                                             bulk->order->from, item->definition_id);
    return status == WEIR_OK ? connection_run(bulk->write.connection, error, NULL, QUERY_MARK_KEPT, "t", item->id) : status;
}

/* Enqueues the request of an ended execution again, under a new id. */
static enum weir_status copy_ended(struct bulk *bulk, sqlite3_stmt *statement, const char *id, struct weir_error *error)
{
    char new_id[UUID_TEXT_MAX];
    struct store *store = &bulk->write.store->store;
    struct enqueue_context context = {.connection = bulk->write.connection,
                                      .news = &bulk->write.news,
                                      .now_us = bulk->write.now_us,
                                      .wall_us = bulk->write.now_us};
    if (store->uuids != NULL) {
        uuid_make_from(store->uuids, bulk->write.now_us, new_id);
    } else {
        uuid_make(bulk->write.now_us, new_id);
    }
    struct new_item item = {
        .id = new_id,
        .workspace_id = sqlite3_column_int64(statement, 1),
        .definition_id = sqlite3_column_int64(statement, 2),
        .group = column_text(statement, 3),
        .demand = lane_demand(sqlite3_column_int64(statement, 7)),
        .priority = sqlite3_column_int(statement, 4),
        .run_at_us = bulk->write.now_us,
        .params = (const char *)sqlite3_column_blob(statement, 6),
        .params_length = (size_t)sqlite3_column_bytes(statement, 6),
        .idempotency_key = column_text(statement, 5),
        .retry_of = id,
        .traceparent = column_text(statement, 10),
    };
    enum weir_status status = enqueue_item(&context, &item, error);
    if (status == WEIR_OK && bulk->order->keeps_finished) {
        status = keep_finished_steps(bulk, id, &item, error);
    }
    if (status == WEIR_OK) {
        text_copy(bulk->result->new_id, sizeof bulk->result->new_id, new_id);
        status = add_act_event(bulk, id, "retry", new_id, error);
    }
    return status;
}

/* Retries an execution that has failed or was cancelled. */
static enum weir_status retry_one(struct bulk *bulk, const char *id, struct weir_error *error)
{
    bool refused = false;
    bool is_complete = true;
    struct ending living = {.id = id};
    enum weir_status status = find_retry(bulk, id, &refused, error);
    if (status == WEIR_OK && !refused) {
        status = archive_bring_back(bulk->write.connection, id, &is_complete, error);
    }
    if (status != WEIR_OK || refused) {
        return status;
    }
    sqlite3_stmt *statement = connection_bind(bulk->write.connection, error, QUERY_READ_ENDED, "tt", id,
                                              bulk->order->from == NULL ? "" : bulk->order->from);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(bulk->write.connection, statement, &status, error)) {
        if (status == WEIR_OK && read_living(bulk, id, &living, error) == WEIR_OK) {
            return refuse_item(bulk, WEIR_ILLEGAL_STATE, id, item_state_name(living.state), REFUSAL_RETRY_LIVE);
        }
        return status;
    }
    const char *state = column_text(statement, 0);
    if (strcmp(state, "COMPLETED") == 0) {
        status = refuse_item(bulk, WEIR_ILLEGAL_STATE, id, state, REFUSAL_RETRY_COMPLETED);
    } else if (sqlite3_column_int(statement, 8) == 0) {
        status = refuse_item(bulk, WEIR_WORKSPACE_NOT_FOUND, id, state, REFUSAL_RETRY_NO_WORKSPACE);
    } else if (sqlite3_column_int(statement, 9) != WORKFLOW_PUBLISHED) {
        status = refuse_item(bulk, WEIR_WORKFLOW_DISABLED, id, state, REFUSAL_RETRY_DISABLED);
    } else if (bulk->order->keeps_finished && sqlite3_column_int(statement, 11) == 0) {
        status = refuse_item(bulk, WEIR_INVALID_ARGUMENT, id, state, REFUSAL_RETRY_NO_STEP);
    } else if (!is_complete) {
        status = refuse_item(bulk, WEIR_ILLEGAL_STATE, id, state, REFUSAL_RETRY_ARCHIVE_LOST);
    } else {
        status = copy_ended(bulk, statement, id, error);
    }
    (void)sqlite3_reset(statement);
    return status;
}

/* --- dismissal --- */

/* A repetition changes nothing, and is no refusal. */
static enum weir_status dismiss_one(struct bulk *bulk, const char *id, struct weir_error *error)
{
    struct connection *connection = bulk->write.connection;
    struct ending living = {.id = id};
    int64_t marked = 0;
    bool is_complete = true;
    enum weir_status status =
        connection_run(connection, error, &marked, QUERY_DISMISS_EXECUTION, "ti", id, bulk->write.now_us);
    if (status == WEIR_OK && marked > 0) {
        status = archive_bring_back(connection, id, &is_complete, error); /* its events are numbered */
    }
    if (status == WEIR_OK && marked > 0 && !is_complete) {
        bulk->result->changed++; /* its number is not known while the archive is missing; the audit has the act */
        return WEIR_OK;
    }
    if (status == WEIR_OK && marked > 0) {
        return add_act_event(bulk, id, "dismiss", NULL, error);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &marked, QUERY_IS_DISMISSED, "t", id);
    }
    if (status != WEIR_NOT_FOUND) {
        bulk->result->changed += status == WEIR_OK;
        return status;
    }
    status = read_living(bulk, id, &living, error);
    return status == WEIR_OK
               ? refuse_item(bulk, WEIR_ILLEGAL_STATE, id, item_state_name(living.state), REFUSAL_DISMISS_NOT_FAILED)
           : status == WEIR_NOT_FOUND ? refuse_ended(bulk, id, REFUSAL_DISMISS_NOT_FAILED, error)
                                      : status;
}

/* --- purge --- */

enum weir_status purge_execution(struct connection *connection, const char *id, enum purge_outcome *ret_outcome,
                                 struct weir_error *error)
{
    INVARIANT(id != NULL && ret_outcome != NULL);
    bool is_away = false;
    enum weir_status status = archive_erase(connection, id, &is_away, error);
    *ret_outcome = is_away ? PURGE_ARCHIVE_AWAY : PURGE_NOT_ENDED;
    sqlite3_stmt *statement =
        status == WEIR_OK && !is_away ? connection_bind(connection, error, QUERY_PURGE_EXECUTION, "t", id) : NULL;
    if (statement == NULL) {
        return status != WEIR_OK || is_away ? status : statement_failure(error);
    }
    if (!connection_step(connection, statement, &status, error)) {
        return status;
    }
    const char *key = column_text(statement, 1);
    if (key != NULL) {
        status =
            connection_run(connection, error, NULL, QUERY_PURGE_KEY, "itt", sqlite3_column_int64(statement, 0), key, id);
    }
    (void)sqlite3_reset(statement);
    static const enum sqlite_query rest[] = {QUERY_PURGE_PARAMS,  QUERY_PURGE_STEPS,     QUERY_PURGE_ATTEMPTS,
                                             QUERY_PURGE_ACTIONS, QUERY_PURGE_LOGS_OF,   QUERY_PURGE_EVENTS,
                                             QUERY_PURGE_SIGNALS, QUERY_PURGE_DISMISSAL, QUERY_PURGE_CHILDREN,
                                             QUERY_PURGE_LABELS,  QUERY_PURGE_PROGRESS};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0] && status == WEIR_OK; i++) {
        status = connection_run(connection, error, NULL, rest[i], "t", id);
    }
    *ret_outcome = PURGE_DONE;
    return status;
}

static enum weir_status purge_one(struct bulk *bulk, const char *id, struct weir_error *error)
{
    enum purge_outcome outcome = PURGE_DONE;
    enum weir_status status = purge_execution(bulk->write.connection, id, &outcome, error);
    if (status == WEIR_OK && outcome == PURGE_ARCHIVE_AWAY) {
        return refuse_item(bulk, WEIR_ILLEGAL_STATE, id, "archived", REFUSAL_PURGE_ARCHIVE_AWAY);
    }
    if (status == WEIR_OK && outcome == PURGE_NOT_ENDED) {
        struct ending item;
        status = read_living(bulk, id, &item, error);
        const char *state = status == WEIR_OK ? item_state_name(item.state) : "gone";
        return status == WEIR_OK || status == WEIR_NOT_FOUND
                   ? refuse_item(bulk, WEIR_ILLEGAL_STATE, id, state, REFUSAL_PURGE_LIVE)
                   : status;
    }
    bulk->result->changed += status == WEIR_OK;
    return status;
}

/* --- signal --- */

/* A refusal of a signal has changed nothing, and the act goes on. */
static bool signal_is_refused(enum weir_status status)
{
    return status == WEIR_INVALID_ARGUMENT || status == WEIR_ILLEGAL_STATE || status == WEIR_CONFLICT ||
           status == WEIR_IDEMPOTENCY_KEY_REUSED || status == WEIR_EXECUTION_NOT_FOUND;
}

static enum weir_status bulk_signal_one(struct bulk *bulk, const char *id, struct weir_error *error)
{
    struct sent_signal sent;
    struct weir_error own = {.status = WEIR_OK};
    struct signal_request request = {
        .id = id, .name = bulk->order->signal_name, .data = bulk->order->signal_data, .key = bulk->order->signal_key};
    enum weir_status status = signal_send(&bulk->write, &request, &sent, &own);
    if (status == WEIR_OK) {
        bulk->result->changed += !sent.duplicate;
        return WEIR_OK;
    }
    if (!signal_is_refused(status)) {
        if (error != NULL) {
            *error = own;
        }
        return status;
    }
    return bulk_keep_refusal(bulk, &own);
}

/* --- migration --- */

static enum weir_status bulk_migrate_one(struct bulk *bulk, const char *id, struct weir_error *error)
{
    struct migration migration;
    char detail[48];
    int to_version = bulk->order->to_version;
    enum weir_status status = migration_judge(bulk->write.connection, id, to_version, &migration, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (!migration.fits) {
        struct weir_error own = {.status = WEIR_OK};
        (void)refusal_of_migration(id, migration.state, migration.outcome, to_version, migration.steps, &own);
        return bulk_keep_refusal(bulk, &own);
    }
    if (bulk->order->only_checks) {
        bulk->result->changed++;
        return WEIR_OK;
    }
    status = migration_apply(&bulk->write, &migration, error);
    (void)snprintf(detail, sizeof detail, "version %d to %d", migration.from_version, to_version);
    return status == WEIR_OK ? add_act_event(bulk, id, "migrate", detail, error) : status;
}

/* --- the verb --- */

static enum weir_status act_on(struct bulk *bulk, const char *id, struct weir_error *error)
{
    switch (bulk->act) {
    case BULK_CANCEL:
        return cancel_one(bulk, id, error);
    case BULK_RETRY:
        return retry_one(bulk, id, error);
    case BULK_RELEASE:
        return release_one(bulk, id, error);
    case BULK_WAKE:
        return wake_one(bulk, id, error);
    case BULK_DISMISS:
        return dismiss_one(bulk, id, error);
    case BULK_PURGE:
        return purge_one(bulk, id, error);
    case BULK_SIGNAL:
        return bulk_signal_one(bulk, id, error);
    case BULK_MIGRATE:
        return bulk_migrate_one(bulk, id, error);
    }
    return error_set(error, WEIR_MISUSE, "no such act");
}

/* Acts on each selected execution until one of them fails for a reason of the store. */
static enum weir_status act_on_all(struct bulk *bulk, const struct selection *selection,
                                   const struct execution_filter *filter, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < selection->count && status == WEIR_OK; i++) {
        bool has = true;
        if (filter->reason != NULL) {
            status = filter_has_reason(bulk->write.connection, selection->ids[i], filter->reason, &has, error);
        }
        if (status == WEIR_OK && has) {
            bulk->result->matched++;
            status = act_on(bulk, selection->ids[i], error);
        }
        text_copy(bulk->result->last_id, sizeof bulk->result->last_id, selection->ids[i]);
    }
    if (status == WEIR_OK && selection->more) {
        text_copy(bulk->result->last_id, sizeof bulk->result->last_id, selection->next);
    }
    return status;
}

/* An order that only checks reads, so a handle for reading is enough, and no other writer waits. */
static enum weir_status open_bulk(struct store *store, const struct act_order *order, struct write *write,
                                  struct weir_error *error)
{
    return order->only_checks ? snapshot_begin(store, &write->connection, error) : write_open(store, write, error);
}

enum weir_status sqlite_bulk(struct store *store, enum bulk_act act, const struct act_order *order,
                             const struct execution_filter *filter, const char *after, size_t limit,
                             struct bulk_result *ret_result, struct weir_error *error)
{
    INVARIANT(store != NULL && filter != NULL && after != NULL && limit > 0);
    struct bulk_result result = {.first_refusal = WEIR_OK};
    struct bulk bulk = {.act = act, .order = order, .store = store, .result = &result};
    struct selection selection = {0};
    struct execution_filter exact = *filter;
    char whole[UUID_TEXT_MAX] = "";
    char subject[SUBJECT_MAX + 1];
    char detail[SIGNAL_NAME_MAX + 32]; /* a name has no character that JSON escapes */
    enum weir_status status = open_bulk(store, order, &bulk.write, error);
    if (status != WEIR_OK) {
        return status;
    }
    /* An act on one must not become an act on all with the same beginning of their ids. */
    if (filter->id != NULL) {
        status = filter_find_id(bulk.write.connection, filter->id, whole, error);
        exact.id = whole;
    }
    if (status == WEIR_OK) {
        status = filter_select_ids(bulk.write.connection, &exact, after, false, limit, &selection, error);
    }
    if (status == WEIR_OK) {
        status = act_on_all(&bulk, &selection, filter, error);
        result.more = selection.more;
        result.workspace_id = selection.workspace_id;
    }
    free(selection.ids);
    if (order->only_checks) {
        snapshot_end(bulk.write.connection);
        *ret_result = status == WEIR_OK ? result : *ret_result;
        return status;
    }
    if (status == WEIR_OK && result.changed > 0) {
        audit_subject(filter, whole, subject, sizeof subject);
        status = act_begin(&bulk.write, bulk_act_name(act), NULL, subject, NULL, error);
        bulk.write.act.affected = (int64_t)result.changed;
        if (act == BULK_SIGNAL) {
            (void)snprintf(detail, sizeof detail, "{\"detail\":\"%s\"}", order->signal_name);
            bulk.write.act.arguments = detail;
        }
        if (act == BULK_MIGRATE) {
            (void)snprintf(detail, sizeof detail, "{\"version\":%d}", order->to_version);
            bulk.write.act.arguments = detail;
        }
    }
    if (status != WEIR_OK) {
        write_undo(&bulk.write);
        return status;
    }
    status = write_finish(&bulk.write, error);
    if (status == WEIR_OK) {
        *ret_result = result;
    }
    return status;
}
