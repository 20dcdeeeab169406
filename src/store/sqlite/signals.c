/* Signals: sending one, marking one as consumed, and the requests that wait for a node.
 *
 * A write transaction is alone on SQLite, so nothing changes between its first read and its commit:
 *
 *   1. A key that was used before: nothing is written, the answer has the number of the first signal.
 *   2. The item must be in the queue, and not be one of Temporal. What it keeps must be below the bounds.
 *   3. Insert the signal with the next number, and count it in the row of the item.
 *   4. A WAITING item with a step that waits for the name becomes runnable. The wait of that step ends here, if no node
 *      has to decide about it (end_wait()). Of a held one the counter is ahead of signals_sent, which is the request to
 *      its node. Any other gets its signals with the claim.
 *   5. The event, the news, and the record of the act.
 *
 * A record of a step that names a signal marks it as consumed in the transaction of the record (signal_consume()). Runs in
 * the caller's thread.
 */
#include "store/sqlite/signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/callback_token.h"
#include "base/error.h"
#include "store/refusal.h"
#include "store/sqlite/event_history.h"
#include "store/sqlite/filter_query.h"
#include "store/sqlite/states.h"
#include "store/sqlite/stream.h"

/* --- the item --- */

struct signalled {
    char id[UUID_TEXT_MAX];
    int64_t lane_id;
    int64_t rank;
    int64_t fence;
    int phase;
    int64_t signals; /* so far */
    int64_t names;   /* that steps of its workflow wait for */
    int64_t kept;    /* of the name that is sent: those that no step has consumed */
};

/* The steps that wait for a signal. */
struct awaiting {
    int64_t count;
    char step[STEP_ID_MAX + 1]; /* one of them */
    bool may_end;               /* and the end of its wait needs no node */
};

/* Refuses an execution without a row in the queue. */
static enum weir_status refuse_ended_execution(struct write *write, const char *id, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    char state[16] = "gone";
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_ENDED_STATUS, "t", id);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        text_copy(state, sizeof state, column_text(statement, 0));
        (void)sqlite3_reset(statement);
    }
    return status == WEIR_OK ? refusal_signal_ended(id, state, error) : status;
}

static enum weir_status find_signalled(struct write *write, struct signalled *item, struct weir_error *error)
{
    enum item_state state;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_FIND_ITEM, "t", item->id);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(write->connection, statement, &status, error)) {
        return status == WEIR_OK ? refuse_ended_execution(write, item->id, error) : status;
    }
    item->fence = sqlite3_column_int64(statement, 1);
    item->lane_id = sqlite3_column_int64(statement, 2);
    item->phase = sqlite3_column_int(statement, 4);
    item->rank = sqlite3_column_int64(statement, 9);
    item->signals = sqlite3_column_int64(statement, 11);
    status = filter_parse_state(item->id, column_text(statement, 0), item->lane_id, &state, error);
    (void)sqlite3_reset(statement);
    return status;
}

enum weir_status item_wake(struct write *write, const struct waking *waking, struct weir_error *error)
{
    INVARIANT(write != NULL && waking->id != NULL);
    enum weir_status status =
        connection_run(write->connection, error, NULL, QUERY_WAKE_ITEM, "ti", waking->id, write->now_us);
    struct lane_delta *delta =
        news_lane(&write->news, write->connection, NEWS_ENQUEUED, 0, waking->lane_id, &status, error);
    delta->parked--;
    news_add_runnable(delta, waking->rank);
    if (status == WEIR_OK) {
        status = event_history_add(write->connection, waking->id, write->now_us, "wake", 0, waking->fence, waking->actor,
                                   waking->reason, NULL, error);
    }
    return status == WEIR_OK ? stream_add(&write->news, write->connection, STREAM_WAKE, waking->id,
                                          lane_workspace_id(waking->lane_id), error)
                             : status;
}

/* --- waking --- */

/* Why the act has ended no wait. */
static enum weir_status explain_no_wake(struct write *write, const struct wake_target *target, const char **ret_refusal,
                                        struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_COUNT_WAITS, "tt", target->waking.id, target->waits_for);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        *ret_refusal = refusal_of_wake(target->waits_for, sqlite3_column_int64(statement, 0),
                                       sqlite3_column_int64(statement, 1), sqlite3_column_int64(statement, 2));
        (void)sqlite3_reset(statement);
    }
    return status;
}

enum weir_status steps_wake(struct write *write, const struct wake_target *target, const char **ret_refusal,
                            struct weir_error *error)
{
    INVARIANT(write != NULL && target->waking.id != NULL && ret_refusal != NULL);
    const struct waking *waking = &target->waking;
    int64_t woken = 0;
    *ret_refusal = NULL;
    enum weir_status status = connection_run(write->connection, error, &woken, QUERY_INSERT_WAKES, "ttit", waking->id,
                                             target->waits_for, write->now_us, waking->actor);
    if (status != WEIR_OK || woken == 0) {
        return status == WEIR_OK ? explain_no_wake(write, target, ret_refusal, error) : status;
    }
    status = connection_run(write->connection, error, NULL, QUERY_COUNT_SIGNALS, "ti", waking->id, woken);
    if (status == WEIR_OK && target->phase == 3) {
        return item_wake(write, waking, error);
    }
    return status == WEIR_OK ? event_history_add(write->connection, waking->id, write->now_us, "wake", 0, waking->fence,
                                                 waking->actor, waking->reason, NULL, error)
                             : status;
}

/* --- sending --- */

static enum weir_status check_name(struct write *write, struct signalled *item, const char *name, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_SIGNAL_NAMES, "tt", item->id, name);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        item->names = sqlite3_column_int64(statement, 2);
        if (sqlite3_column_int(statement, 1) == 0) {
            status = refusal_signal_unknown(item->id, name, column_text(statement, 0), error);
        }
    }
    (void)sqlite3_reset(statement);
    return status;
}

/* The bounds of what one execution keeps of one name. */
static enum weir_status check_room(struct write *write, struct signalled *item, const char *name, const char *data,
                                   struct weir_error *error)
{
    int64_t count = 0;
    int64_t bytes = 0;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_KEPT_SIGNALS, "tt", item->id, name);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        count = sqlite3_column_int64(statement, 0);
        bytes = sqlite3_column_int64(statement, 1);
        (void)sqlite3_reset(statement);
    }
    item->kept = count;
    bool is_full = count >= SIGNALS_KEPT_MOST || bytes + (int64_t)strlen(data) > signal_bytes_most(item->names);
    return status == WEIR_OK && is_full ? refusal_signals_full(item->id, name, count, bytes, error) : status;
}

static enum weir_status find_awaiting(struct write *write, const struct signalled *item, const char *name,
                                      struct awaiting *ret_awaiting, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_FIND_AWAITING, "tti", item->id, name, write->now_us);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        const char *step = column_text(statement, 1);
        ret_awaiting->count = sqlite3_column_int64(statement, 0);
        text_copy(ret_awaiting->step, sizeof ret_awaiting->step, step == NULL ? "" : step);
        ret_awaiting->may_end = ret_awaiting->count == 1 && sqlite3_column_int(statement, 2) != 0;
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* Ends the wait of a step by the signal that was just inserted, so the next claim begins what follows it without a record
 * before. Its node would decide the same: no other step takes the signal, no older one is kept, and nothing is due. */
static enum weir_status end_wait(struct write *write, const struct signalled *item, const char *step, const char *data,
                                 struct weir_error *error)
{
    enum weir_status status = connection_run(write->connection, error, NULL, QUERY_END_WAIT, "ttibi", item->id, step,
                                             write->now_us, data, strlen(data), item->fence);
    return status == WEIR_OK ? connection_run(write->connection, error, NULL, QUERY_CONSUME_SIGNAL, "titi", item->id,
                                              item->signals + 1, step, write->now_us)
                             : status;
}

/* Step 4. `data` is that of a signal that can be the output of a step as it is; NULL: only a node makes the output. */
static enum weir_status wake_if_it_waits(struct write *write, const struct signalled *item, const char *name,
                                         const char *data, struct weir_error *error)
{
    struct awaiting awaiting = {.count = 0};
    if (item->phase != 3) {
        return WEIR_OK;
    }
    enum weir_status status = find_awaiting(write, item, name, &awaiting, error);
    if (status == WEIR_OK && awaiting.may_end && data != NULL && item->kept == 0) {
        status = end_wait(write, item, awaiting.step, data, error);
    }
    struct waking waking = {.id = item->id, .lane_id = item->lane_id, .rank = item->rank, .fence = item->fence};
    return status == WEIR_OK && awaiting.count != 0 ? item_wake(write, &waking, error) : status;
}

/* Adds the row of a signal, and counts it. */
static enum weir_status insert_signal(struct write *write, const struct signalled *item, const char *name, const char *data,
                                      const char *key, const char *actor, struct weir_error *error)
{
    enum weir_status status = connection_run(write->connection, error, NULL, QUERY_INSERT_SIGNAL, "ttttit", item->id, name,
                                             data, key, write->now_us, actor);
    return status == WEIR_OK
               ? connection_run(write->connection, error, NULL, QUERY_COUNT_SIGNALS, "ti", item->id, (int64_t)1)
               : status;
}

enum weir_status signal_put(struct write *write, const char *id, const char *name, const char *data,
                            struct weir_error *error)
{
    struct signalled item = {.signals = 0};
    INVARIANT(id != NULL && name != NULL && data != NULL);
    text_copy(item.id, sizeof item.id, id);
    enum weir_status status = find_signalled(write, &item, error);
    if (status == WEIR_OK) {
        status = insert_signal(write, &item, name, data, NULL, NULL, error);
    }
    return status == WEIR_OK ? wake_if_it_waits(write, &item, name, NULL, error) : status;
}

/* Steps 2 to 5. */
static enum weir_status send_signal(struct write *write, const struct signal_request *request, struct signalled *item,
                                    struct weir_error *error)
{
    struct store *store = &write->store->store;
    const char *data = request->data == NULL ? "null" : request->data;
    enum weir_status status = find_signalled(write, item, error);
    if (status == WEIR_OK && lane_is_on_temporal(item->lane_id)) {
        return refusal_signal_of_temporal(item->id, error);
    }
    if (status == WEIR_OK) {
        status = check_name(write, item, request->name, error);
    }
    if (status == WEIR_OK && strlen(data) > SIGNAL_DATA_BYTES_MAX) {
        status = refusal_signal_large(strlen(data), error);
    }
    if (status == WEIR_OK) {
        status = check_room(write, item, request->name, data, error);
    }
    if (status == WEIR_OK) {
        status = insert_signal(write, item, request->name, data, request->key, store_actor(store), error);
    }
    if (status == WEIR_OK) {
        status = event_history_add(write->connection, item->id, write->now_us, "signal", 0, item->fence, store_actor(store),
                                   store_reason(store), request->name, error);
    }
    if (status == WEIR_OK) {
        status = wake_if_it_waits(write, item, request->name, data, error);
    }
    return status;
}

/* --- approvals --- */

struct wanted_approval {
    char step[STEP_ID_MAX + 1];
    char outcome[16];            /* "" = it may be decided by this actor */
    char *who;                   /* for a refusal; owned */
    char waits[STEP_ID_MAX + 1]; /* "earlier": the step that waits */
};

/* Another decision, also of a step that has ended, or none. */
static enum weir_status find_decision(struct write *write, const char *id, const struct approval *approval,
                                      struct wanted_approval *wanted, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_LAST_APPROVAL, "tt", id, approval->step);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        text_copy(wanted->waits, sizeof wanted->waits, wanted->step);
        text_copy(wanted->outcome, sizeof wanted->outcome, wanted->step[0] == '\0' ? "decided" : "earlier");
        text_copy(wanted->step, sizeof wanted->step, column_text(statement, 0));
        free(wanted->who);
        wanted->who = strdup(column_text(statement, 1));
        status = wanted->who == NULL ? error_out_of_memory(error) : WEIR_OK;
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* The step that waits, and whether the actor may decide. */
static enum weir_status find_approval(struct write *write, const char *id, const struct approval *approval,
                                      struct wanted_approval *wanted, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    int64_t count = 0;
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_FIND_APPROVAL, "ttti", id, approval->step,
                                              store_actor(&write->store->store), write->now_us);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error) && (count = sqlite3_column_int64(statement, 0)) > 0) {
        bool is_allowed = sqlite3_column_int(statement, 4) != 0;
        const char *who = column_text(statement, count > 1 ? 1 : 3);
        text_copy(wanted->step, sizeof wanted->step, column_text(statement, 2));
        const char *refusal = !is_allowed ? "forbidden" : sqlite3_column_int(statement, 5) != 0 ? "late" : "";
        text_copy(wanted->outcome, sizeof wanted->outcome, count > 1 ? "several" : refusal);
        wanted->who = strdup(who == NULL ? "" : who);
        status = wanted->who == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    (void)sqlite3_reset(statement);
    if (count == 0) {
        text_copy(wanted->outcome, sizeof wanted->outcome, "none");
    }
    bool may_be_another =
        count == 1 && approval->step == NULL; /* the first caller may repeat a call whose answer was lost */
    return status == WEIR_OK && (count == 0 || may_be_another) ? find_decision(write, id, approval, wanted, error) : status;
}

static enum weir_status note_signal_act(struct write *write, const char *id, const char *act, const char *step,
                                        struct weir_error *error)
{
    struct store *store = &write->store->store;
    return store_actor(store) == NULL
               ? WEIR_OK
               : connection_run(write->connection, error, NULL, QUERY_NOTE_ACT, "ittttt", write->now_us, store_actor(store),
                                act, id, store_reason(store), step);
}

/* The decision becomes a signal that its step waits for. */
static enum weir_status keep_approval(struct write *write, const struct approval *approval, struct signalled *item,
                                      const char *step, struct weir_error *error)
{
    struct store *store = &write->store->store;
    const char *act = approval->approved ? "approve" : "reject";
    char name[SIGNAL_KEPT_NAME_MAX + 1];
    (void)snprintf(name, sizeof name, APPROVAL_SIGNAL "%s", step);
    enum weir_status status =
        connection_run(write->connection, error, NULL, QUERY_INSERT_APPROVAL, "ttitit", item->id, step,
                       (int64_t)approval->approved, approval->comment, write->now_us, store_actor(store));
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, NULL, QUERY_COUNT_SIGNALS, "ti", item->id, (int64_t)1);
    }
    if (status == WEIR_OK) {
        status = event_history_add(write->connection, item->id, write->now_us, act, 0, item->fence, store_actor(store),
                                   store_reason(store), step, error);
    }
    if (status == WEIR_OK) {
        status = wake_if_it_waits(write, item, name, NULL, error);
    }
    return status == WEIR_OK ? note_signal_act(write, item->id, act, step, error) : status;
}

/* A refusal of an actor is recorded, so it must be committed: *ret_refusal is its status, and the error has its text. */
static enum weir_status sqlite_decide(struct write *write, const struct approval *approval, struct signalled *item,
                                      struct sent_signal *sent, enum weir_status *ret_refusal, struct weir_error *error)
{
    struct wanted_approval wanted = {.who = NULL};
    const char *actor = store_actor(&write->store->store);
    enum weir_status status = find_approval(write, item->id, approval, &wanted, error);
    bool is_decided = strcmp(wanted.outcome, "decided") == 0 || strcmp(wanted.outcome, "earlier") == 0;
    if (status == WEIR_OK && !is_decided) {
        status = find_signalled(write, item, error);
    }
    if (status == WEIR_OK && !is_decided && lane_is_on_temporal(item->lane_id)) {
        text_copy(wanted.outcome, sizeof wanted.outcome, "temporal");
    }
    if (status == WEIR_OK && wanted.outcome[0] == '\0') {
        status = keep_approval(write, approval, item, wanted.step, error);
        sent->seq = item->signals + 1;
        text_copy(sent->step, sizeof sent->step, wanted.step);
    } else if (status == WEIR_OK) {
        bool is_forbidden = strcmp(wanted.outcome, "forbidden") == 0;
        status = is_forbidden ? note_signal_act(write, item->id, "approve refused", wanted.step, error) : WEIR_OK;
        if (status == WEIR_OK) {
            const struct refused_approval refused = {
                .outcome = wanted.outcome, .step = wanted.step, .waits = wanted.waits, .who = wanted.who, .actor = actor};
            *ret_refusal = refusal_of_approval(item->id, &refused, error);
            status = is_forbidden ? WEIR_OK : *ret_refusal;
        }
    }
    free(wanted.who);
    return status;
}

/* --- callbacks --- */

/* Without the writer, because anyone may send a made-up token. WEIR_NOT_FOUND: no step and no report has this one. */
static enum weir_status refuse_unknown_callback(struct store *store, const struct signal_request *request,
                                                struct weir_error *error)
{
    int64_t is_known = 0;
    struct connection *connection = NULL;
    enum weir_status status = store_reader(store, &connection, error);
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &is_known, QUERY_KNOWS_CALLBACK, "tt", request->id,
                                         request->callback);
    }
    return status == WEIR_OK && is_known == 0 ? refusal_callback_unknown(error) : status;
}

/* WEIR_NOT_FOUND: the report is new. */
static enum weir_status find_report(struct write *write, const struct signal_request *request, struct sent_signal *sent,
                                    struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_FIND_REPORT, "ttt", request->id, request->callback, request->key);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        sent->seq = sqlite3_column_int64(statement, 0);
        sent->duplicate = sqlite3_column_int(statement, 1) != 0;
        status = sent->duplicate ? WEIR_OK : refusal_callback_other(request->id, error);
    } else if (status == WEIR_OK) {
        status = WEIR_NOT_FOUND;
    }
    (void)sqlite3_reset(statement);
    return status;
}

/* The name under which an attempt takes the report. */
static enum weir_status find_callback(struct write *write, const struct signal_request *request, char *name, size_t size,
                                      struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_FIND_CALLBACK, "tti", request->id,
                                              request->callback, write->now_us);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        text_copy(name, size, column_text(statement, 0));
    } else if (status == WEIR_OK) {
        status = refusal_callback_unknown(error);
    }
    (void)sqlite3_reset(statement);
    return status;
}

static enum weir_status call_back(struct write *write, const struct signal_request *request, struct signalled *item,
                                  struct sent_signal *sent, struct weir_error *error)
{
    char name[SIGNAL_KEPT_NAME_MAX + 1] = "";
    char detail[SIGNAL_KEPT_NAME_MAX + 1];
    text_copy(item->id, sizeof item->id, request->id);
    enum weir_status status = find_report(write, request, sent, error);
    if (status != WEIR_NOT_FOUND) {
        return status;
    }
    status = find_callback(write, request, name, sizeof name, error);
    if (status == WEIR_OK) {
        status = find_signalled(write, item, error);
    }
    if (status == WEIR_OK) {
        status = insert_signal(write, item, name, request->data, request->key, NULL, error);
    }
    if (status == WEIR_OK) {
        (void)snprintf(detail, sizeof detail, "%.*s", (int)strlen(name) - CALLBACK_HASH_LENGTH - 1,
                       name); /* without the hash */
        status = event_history_add(write->connection, item->id, write->now_us, "signal", 0, item->fence, NULL, NULL, detail,
                                   error);
    }
    sent->seq = item->signals + 1;
    return status == WEIR_OK ? wake_if_it_waits(write, item, name, NULL, error) : status;
}

/* --- states --- */

static enum weir_status refuse_ended_update(struct write *write, const char *id, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    char state[16] = "gone";
    const struct update_refusal refusal = {.outcome = state};
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_ENDED_STATUS, "t", id);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        text_copy(state, sizeof state, column_text(statement, 0));
        (void)sqlite3_reset(statement);
    }
    return status == WEIR_OK ? refusal_of_update(id, &refusal, error) : status;
}

/* A person moves a workflow with states (store/states.h): no signal, but an act on the same row, by the same verb. */
static enum weir_status update_states(struct write *write, const struct signal_request *request,
                                      const struct signalled *item, struct sent_signal *sent, struct weir_error *error)
{
    struct updated_state updated = {.action = 0};
    enum weir_status status = states_update(write, item->id, request->update, &updated, error);
    if (status == WEIR_NOT_FOUND) {
        return refuse_ended_update(write, item->id, error);
    }
    if (status == WEIR_OK) {
        text_copy(sent->step, sizeof sent->step, updated.state);
        memcpy(sent->id, item->id, sizeof sent->id);
        sent->seq = updated.action;
        status = note_signal_act(write, item->id, "update", updated.state, error);
    }
    return status;
}

/* --- the verb --- */

/* Step 1. WEIR_NOT_FOUND: the signal is new. */
static enum weir_status find_duplicate(struct write *write, const struct signal_request *request,
                                       const struct signalled *item, int64_t *ret_seq, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    if (request->key == NULL) {
        return WEIR_NOT_FOUND;
    }
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_FIND_SIGNAL_OF_KEY, "tttt", item->id,
                                              request->name, request->key, request->data == NULL ? "null" : request->data);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        *ret_seq = sqlite3_column_int64(statement, 0);
        status = sqlite3_column_int(statement, 1) != 0 ? WEIR_OK
                                                       : refusal_signal_key_reused(item->id, request->key, *ret_seq, error);
    } else if (status == WEIR_OK) {
        status = WEIR_NOT_FOUND;
    }
    (void)sqlite3_reset(statement);
    return status;
}

enum weir_status signal_send(struct write *write, const struct signal_request *request, struct sent_signal *ret_sent,
                             struct weir_error *error)
{
    INVARIANT(write != NULL && request->id != NULL && ret_sent != NULL);
    struct signalled item = {.signals = 0};
    struct sent_signal sent = {.seq = 0};
    text_copy(item.id, sizeof item.id, request->id);
    enum weir_status status = find_duplicate(write, request, &item, &sent.seq, error);
    sent.duplicate = status == WEIR_OK;
    if (status == WEIR_NOT_FOUND) {
        status = send_signal(write, request, &item, error);
        sent.seq = item.signals + 1;
    }
    memcpy(sent.id, item.id, sizeof sent.id);
    *ret_sent = sent;
    return status;
}

enum weir_status sqlite_signal(struct store *store, const struct signal_request *request, struct sent_signal *ret_sent,
                               struct weir_error *error)
{
    INVARIANT(request != NULL && ret_sent != NULL);
    struct write write;
    struct signalled item = {.signals = 0};
    struct sent_signal sent = {.seq = 0};
    struct signal_request exact = *request;
    enum weir_status refusal = WEIR_OK;
    enum weir_status status = request->callback == NULL ? WEIR_OK : refuse_unknown_callback(store, request, error);
    status = status == WEIR_OK ? write_open(store, &write, error) : status;
    if (status != WEIR_OK) {
        return status;
    }
    if (request->callback == NULL) {
        status = filter_find_id(write.connection, request->id, item.id, error);
        exact.id = item.id;
    }
    if (status == WEIR_OK && request->callback != NULL) {
        status = call_back(&write, request, &item, &sent, error);
        memcpy(sent.id, item.id, sizeof sent.id);
    } else if (status == WEIR_OK && request->approval != NULL) {
        status = sqlite_decide(&write, request->approval, &item, &sent, &refusal, error);
        memcpy(sent.id, item.id, sizeof sent.id);
    } else if (status == WEIR_OK && request->update != NULL) {
        status = update_states(&write, request, &item, &sent, error);
    } else if (status == WEIR_OK) {
        status = signal_send(&write, &exact, &sent, error);
        if (status == WEIR_OK && !sent.duplicate) {
            status = note_signal_act(&write, sent.id, "signal", request->name, error);
        }
    }
    status = write_end(&write, status, error);
    if (status == WEIR_OK && refusal == WEIR_OK) {
        *ret_sent = sent;
    }
    return status == WEIR_OK ? refusal : status;
}

/* --- records and claims --- */

enum weir_status signal_consume(struct write *write, const struct record *record, struct weir_error *error)
{
    const struct step_record *step = record->step;
    return step == NULL || step->signal_seq == 0
               ? WEIR_OK
               : connection_run(write->connection, error, NULL, QUERY_CONSUME_SIGNAL, "titi", record->id, step->signal_seq,
                                step->step, write->now_us);
}

enum weir_status signals_read(struct connection *connection, const char *id, struct arena *arena,
                              const struct signal_record **ret_signals, size_t *ret_count, struct weir_error *error)
{
    INVARIANT(id != NULL && ret_signals != NULL && ret_count != NULL);
    enum { FIRST = 8 };
    enum weir_status status = WEIR_OK;
    struct signal_record *signals = NULL;
    size_t count = 0;
    bool failed = false;
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_SIGNALS, "t", id);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (!failed && connection_step(connection, statement, &status, error)) {
        signals = arena_grow(arena, signals, count, FIRST, sizeof *signals);
        if (signals == NULL) {
            failed = true;
            break;
        }
        struct signal_record *signal = &signals[count++];
        signal->seq = sqlite3_column_int64(statement, 0);
        text_copy(signal->name, sizeof signal->name, column_text(statement, 1));
        signal->data_length = (size_t)sqlite3_column_bytes(statement, 2);
        signal->data = column_copy(statement, 2, arena, &failed);
    }
    (void)sqlite3_reset(statement);
    *ret_signals = signals;
    *ret_count = count;
    return failed ? error_out_of_memory(error) : status;
}

/* --- the requests of a node --- */

/* Appends the ids and fences that the statement returns. */
static enum weir_status take_rows(struct connection *connection, sqlite3_stmt *statement, struct arena *arena,
                                  struct node_request **requests, size_t *count, struct weir_error *error)
{
    enum { FIRST = 8 };
    enum weir_status status = statement == NULL ? statement_failure(error) : WEIR_OK;
    while (status == WEIR_OK && connection_step(connection, statement, &status, error)) {
        *requests = arena_grow(arena, *requests, *count, FIRST, sizeof **requests);
        if (*requests == NULL) {
            (void)sqlite3_reset(statement);
            return error_out_of_memory(error);
        }
        struct node_request *request = &(*requests)[(*count)++];
        *request = (struct node_request){.fence = sqlite3_column_int64(statement, 1)};
        text_copy(request->id, sizeof request->id, column_text(statement, 0));
    }
    return status;
}

/* Executions with new signals first: a cancel of the same one comes behind its signals. */
static enum weir_status take_all(struct connection *connection, int64_t node_id, struct arena *arena,
                                 struct node_request **requests, size_t *count, bool *ret_more, struct weir_error *error)
{
    enum weir_status status = take_rows(
        connection, connection_bind(connection, error, QUERY_TAKE_SIGNALLED, "ii", node_id, (int64_t)SIGNALLED_BATCH),
        arena, requests, count, error);
    size_t signalled = *count;
    *ret_more = signalled == SIGNALLED_BATCH;
    for (size_t i = 0; i < signalled && status == WEIR_OK; i++) {
        status = signals_read(connection, (*requests)[i].id, arena, &(*requests)[i].signals, &(*requests)[i].signal_count,
                              error);
    }
    if (status == WEIR_OK) {
        status = take_rows(connection, connection_bind(connection, error, QUERY_TAKE_REQUESTS, "i", node_id), arena,
                           requests, count, error);
    }
    for (size_t i = signalled; status == WEIR_OK && i < *count; i++) {
        (*requests)[i].cancels = true;
    }
    return status;
}

enum weir_status sqlite_take_requests(struct store *store, int64_t node_id, struct arena *arena,
                                      struct node_request **ret_requests, size_t *ret_count, bool *ret_more,
                                      struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_requests != NULL && ret_count != NULL && ret_more != NULL);
    struct write write;
    struct node_request *requests = NULL;
    size_t count = 0;
    bool more = false;
    enum weir_status status = write_open(store, &write, error);
    if (status == WEIR_OK) {
        status = take_all(write.connection, node_id, arena, &requests, &count, &more, error);
        status = write_end(&write, status, error);
    }
    if (status == WEIR_OK) {
        *ret_requests = requests;
        *ret_count = count;
        *ret_more = more;
    }
    return status;
}
