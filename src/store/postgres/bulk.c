/* Acts of operators on many executions: cancel, retry, release, wake, dismiss, purge, signal.
 *
 * 1. Select the ids of one chunk by the filter, in the order of ids, behind `after`.
 * 2. With a filter by reason, keep the executions that wait for that reason now.
 * 3. Call the SQL function of the act with these ids: it locks the rows by ascending id, checks the state of each under the
 *    lock, and acts in one transaction. So an execution that changed since step 1 is refused and not harmed.
 * 4. Count the outcomes. The first refusal becomes the message of the call.
 *
 * The caller repeats the call behind the last id until no more executions match; no transaction covers more than one chunk.
 * This file never acts on an id that the filter did not choose. It runs in the thread of the caller. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/label_walk.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/name_suggestions.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/read.h"
#include "store/reading.h"
#include "store/refusal.h"

struct bulk {
    struct store *store;
    enum bulk_act act;
    const struct act_order *order;
    const struct execution_filter *filter;
    char subject[SUBJECT_MAX + 1];
    struct arena arena;
    const char **ids;
    size_t count;
    const char **new_ids;
    struct bulk_result result;
};

enum { BULK_BYTES_MAX = 64 * 1024 * 1024 };

/* --- the choice --- */

/* Copies the ids of one chunk. An id more than the limit means that more executions match. `window_end`: "" or the last id
 * that was examined. */
static enum weir_status copy_bulk_ids(struct bulk *bulk, const PGresult *result, size_t limit, const char *window_end,
                                      struct weir_error *error)
{
    size_t count = (size_t)PQntuples(result);
    bool failed = false;
    bulk->result.more = count > limit || window_end[0] != '\0';
    bulk->count = count > limit ? limit : count;
    bulk->ids = arena_allocate(&bulk->arena, (bulk->count + 1) * sizeof *bulk->ids);
    for (size_t i = 0; i < bulk->count && bulk->ids != NULL; i++) {
        bulk->ids[i] = result_copy(result, (int)i, 0, &bulk->arena, &failed);
    }
    if (bulk->ids == NULL || failed) {
        return error_out_of_memory(error);
    }
    if (count <= limit && window_end[0] != '\0') {
        text_copy(bulk->result.last_id, sizeof bulk->result.last_id, window_end);
    } else if (bulk->count > 0) {
        text_copy(bulk->result.last_id, sizeof bulk->result.last_id, bulk->ids[bulk->count - 1]);
    }
    return WEIR_OK;
}

/* The last id that the chunk may have: that of the filter, or of its window. `first`: the one id of the filter, or the
 * first of all. */
static enum weir_status find_last_id(struct link *link, const struct execution_filter *filter, const char *after,
                                     const char *first, unsigned states, struct label_walk *labels,
                                     char ret_last[UUID_TEXT_MAX], char ret_window_end[UUID_TEXT_MAX],
                                     struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    text_copy(ret_last, UUID_TEXT_MAX, filter->id == NULL ? UUID_LAST : first);
    ret_window_end[0] = '\0';
    if (filter->id == NULL && filter->ids_before_us != 0) {
        reading_first_id(filter->ids_before_us, ret_last);
    }
    if (labels->count > 0) {
        const struct label_span span = {
            .ascending = true, .behind = after, .first = first, .last = ret_last, .states = states};
        status = label_walk_choose(link, filter, &span, labels, ret_window_end, error);
    } else if (reading_has_windows(filter)) {
        status = postgres_find_window_end(link, QUERY_WINDOW_ASCENDING, after, states, ret_window_end, error);
        if (ret_window_end[0] != '\0') {
            reading_end_millisecond(ret_window_end, false);
        }
    }
    if (strcmp(ret_window_end, ret_last) >= 0) {
        ret_window_end[0] = '\0'; /* the ids of the filter end before the window does */
    }
    if (ret_window_end[0] != '\0') {
        text_copy(ret_last, UUID_TEXT_MAX, ret_window_end);
    }
    return status;
}

/* The queries have its present name. A workspace that has gone gets the name "", which no workspace has: the old name may
 * be that of another one. */
static enum weir_status name_workspace(struct link *link, struct bulk *bulk, struct execution_filter *filter,
                                       struct weir_error *error)
{
    if (filter->workspace == NULL) {
        return WEIR_OK;
    }
    PGresult *result = NULL;
    bool failed = false;
    enum weir_status status =
        link_read(link, error, &result, QUERY_WORKSPACE_OF_BULK, "it", filter->workspace_id, filter->workspace);
    bool is_found = status == WEIR_OK && PQntuples(result) == 1;
    bulk->result.workspace_id = is_found ? result_int(result, 0, 0) : filter->workspace_id;
    if (is_found) {
        filter->workspace = result_copy(result, 0, 1, &bulk->arena, &failed);
    } else if (filter->workspace_id != 0) {
        filter->workspace = "";
    }
    PQclear(result);
    return failed ? error_out_of_memory(error) : status;
}

/* Step 1. */
static enum weir_status select_bulk_ids(struct link *link, struct bulk *bulk, const char *after, size_t limit,
                                        struct weir_error *error)
{
    struct execution_filter present = *bulk->filter;
    const struct execution_filter *filter = &present;
    char one[UUID_TEXT_MAX];
    char last[UUID_TEXT_MAX];
    char window_end[UUID_TEXT_MAX];
    PGresult *result = NULL;
    struct label_walk labels;
    enum weir_status status = name_workspace(link, bulk, &present, error);
    unsigned states = reading_states(filter);
    label_walk_fill(filter, &labels);
    after = after[0] == '\0' ? UUID_FIRST : after;
    /* The beginning of an id must name one execution: an act on one must not become an act on several. */
    if (status == WEIR_OK && filter->id != NULL) {
        status = postgres_find_execution(link, filter->id, one, error);
    }
    if (status == WEIR_OK) {
        status = find_last_id(link, filter, after, filter->id == NULL ? UUID_FIRST : one, states, &labels, last, window_end,
                              error);
    }
    if (status == WEIR_OK) {
        status = link_read(link, error, &result, QUERY_BULK_IDS, "utdttttiiiiuddtduudtiiitdTTT", after, filter->workspace,
                           (int)states, filter->workflow, filter->group, filter->error_code, filter->idempotency_key,
                           filter->created_since_us, filter->created_before_us == 0 ? INT64_MAX : filter->created_before_us,
                           filter->finished_before_us == 0 ? INT64_MAX : filter->finished_before_us, (int64_t)limit + 1,
                           filter->id == NULL ? UUID_FIRST : one, (int)filter->retried, (int)filter->stuck,
                           filter->waiting_for, (int)filter->dismissed, last, filter->parent, filter->version, filter->node,
                           reading_longer_than(filter), reading_shorter_than(filter), filter->as_of_us, filter->error_text,
                           labels.way, labels.names, labels.count, labels.froms, labels.count, labels.ends, labels.count);
    }
    if (status == WEIR_OK) {
        status = copy_bulk_ids(bulk, result, limit, window_end, error);
    }
    PQclear(result);
    return status;
}

/* Step 2. Pending reasons are computed, so the index cannot select them. */
static enum weir_status filter_by_reason(struct link *link, struct bulk *bulk, struct weir_error *error)
{
    PGresult *result = NULL;
    if (bulk->filter->reason == NULL || bulk->count == 0) {
        return WEIR_OK;
    }
    enum weir_status status =
        link_read(link, error, &result, QUERY_WITH_REASON, "Ut", bulk->ids, bulk->count, bulk->filter->reason);
    if (status == WEIR_OK) {
        struct bulk_result before = bulk->result;
        status = copy_bulk_ids(bulk, result, bulk->count, "", error);
        bulk->result = before;
    }
    PQclear(result);
    return status;
}

/* --- the act --- */

/* The ids of the executions that a retry makes. */
static enum weir_status make_retry_ids(struct bulk *bulk, struct link *link, struct weir_error *error)
{
    int64_t now_us = 0;
    char *texts = arena_allocate(&bulk->arena, (bulk->count + 1) * UUID_TEXT_MAX);
    bulk->new_ids = arena_allocate(&bulk->arena, (bulk->count + 1) * sizeof *bulk->new_ids);
    if (texts == NULL || bulk->new_ids == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = link_read_integer(link, error, &now_us, QUERY_READ_CLOCK, "");
    for (size_t i = 0; i < bulk->count && status == WEIR_OK; i++) {
        char *id = texts + i * UUID_TEXT_MAX;
        if (bulk->store->uuids != NULL) {
            uuid_make_from(bulk->store->uuids, now_us, id);
        } else {
            uuid_make(now_us, id);
        }
        bulk->new_ids[i] = id;
    }
    return status;
}

/* Step 3: one SQL function over the set of ids. */
static enum weir_status call_bulk_function(struct link *link, struct bulk *bulk, PGresult **ret_result,
                                           struct weir_error *error)
{
    enum weir_status status;
    switch (bulk->act) {
    case BULK_CANCEL:
    case BULK_RELEASE:
        return link_write(link, error, ret_result, bulk->act == BULK_CANCEL ? QUERY_CANCEL_ITEMS : QUERY_RELEASE_ITEMS,
                          "Uttt", bulk->ids, bulk->count, store_actor(bulk->store), store_reason(bulk->store),
                          bulk->subject);
    case BULK_RETRY:
        status = make_retry_ids(bulk, link, error);
        return status != WEIR_OK
                   ? status
                   : link_write(link, error, ret_result, QUERY_RETRY_EXECUTIONS, "UtttUot", bulk->ids, bulk->count,
                                store_actor(bulk->store), store_reason(bulk->store), bulk->subject, bulk->new_ids,
                                bulk->count, bulk->order->keeps_finished, bulk->order->from);
    case BULK_WAKE:
        return link_write(link, error, ret_result, QUERY_WAKE_STEPS, "Utttt", bulk->ids, bulk->count,
                          store_actor(bulk->store), store_reason(bulk->store), bulk->subject, bulk->order->waits_for);
    case BULK_DISMISS:
        return link_write(link, error, ret_result, QUERY_DISMISS_EXECUTIONS, "Uttt", bulk->ids, bulk->count,
                          store_actor(bulk->store), store_reason(bulk->store), bulk->subject);
    case BULK_PURGE:
        return link_write(link, error, ret_result, QUERY_PURGE_ITEMS, "Uttt", bulk->ids, bulk->count,
                          store_actor(bulk->store), store_reason(bulk->store), bulk->subject);
    case BULK_MIGRATE:
        return bulk->order->only_checks ? link_read(link, error, ret_result, QUERY_MIGRATION_OUTCOMES, "Ud", bulk->ids,
                                                    bulk->count, bulk->order->to_version)
                                        : link_write(link, error, ret_result, QUERY_MIGRATE_ITEMS, "Utttd", bulk->ids,
                                                     bulk->count, store_actor(bulk->store), store_reason(bulk->store),
                                                     bulk->subject, bulk->order->to_version);
    case BULK_SIGNAL:
        return link_write(link, error, ret_result, QUERY_SIGNAL_ITEMS, "Utttttt", bulk->ids, bulk->count,
                          bulk->order->signal_name, bulk->order->signal_data == NULL ? "null" : bulk->order->signal_data,
                          bulk->order->signal_key, store_actor(bulk->store), store_reason(bulk->store), bulk->subject);
    }
    return error_set(error, WEIR_MISUSE, "no such act");
}

/* The reason of a refusal as a text. The function returned `outcome` and `state`. */
static const char *explain_refusal(enum bulk_act act, const char *outcome, const char *state)
{
    enum item_state known;
    bool lives = item_state_parse(state, &known) && !item_is_terminal(known);
    if (strcmp(outcome, "retried") == 0) {
        return "it was retried already, as";
    }
    if (strcmp(outcome, "refused") != 0) {
        return strcmp(outcome, "workflow_disabled") == 0  ? REFUSAL_RETRY_DISABLED
               : strcmp(outcome, "invalid_argument") == 0 ? REFUSAL_RETRY_NO_STEP
                                                          : REFUSAL_RETRY_NO_WORKSPACE;
    }
    switch (act) {
    case BULK_CANCEL:
        return REFUSAL_CANCEL_ENDED;
    case BULK_RELEASE:
        return lives ? REFUSAL_RELEASE_NOT_DELAYED : REFUSAL_RELEASE_ENDED;
    case BULK_RETRY:
        return lives ? REFUSAL_RETRY_LIVE : REFUSAL_RETRY_COMPLETED;
    case BULK_WAKE:
        return REFUSAL_WAKE_ENDED;
    case BULK_DISMISS:
        return REFUSAL_DISMISS_NOT_FAILED;
    case BULK_PURGE:
    case BULK_SIGNAL:
    case BULK_MIGRATE:
        break;
    }
    return REFUSAL_PURGE_LIVE;
}

/* Likewise of an execution that has not ended, and of which no wait could be ended, or which has none in the store. */
static void count_wake_refusal(struct bulk *bulk, const PGresult *result, int row)
{
    const char *why = strcmp(result_text(result, row, 1), "temporal") == 0
                          ? REFUSAL_WAKE_TEMPORAL
                          : refusal_of_wake(bulk->order->waits_for, result_int(result, row, 3), result_int(result, row, 4),
                                            result_int(result, row, 5));
    bulk->result.refused++;
    if (bulk->result.first_refusal == WEIR_OK) {
        bulk->result.first_refusal = error_set(&bulk->result.refusal, WEIR_ILLEGAL_STATE, "execution %s is %s: %s",
                                               result_text(result, row, 0), result_text(result, row, 2), why);
    }
}

/* Counts a refusal, and keeps the first one as the error of the call. */
static void count_refusal(struct bulk *bulk, const char *id, const char *outcome, const char *state)
{
    bool retried = strcmp(outcome, "retried") == 0;
    enum weir_status status = retried                           ? WEIR_CONFLICT
                              : strcmp(outcome, "refused") == 0 ? WEIR_ILLEGAL_STATE
                                                                : status_parse_name(outcome);
    bulk->result.refused++;
    if (bulk->result.first_refusal == WEIR_OK) {
        bulk->result.first_refusal =
            error_set(&bulk->result.refusal, status, "execution %s is %s: %s%s%s", id, retried ? "retried" : state,
                      explain_refusal(bulk->act, outcome, state), retried ? " " : "", retried ? state : "");
    }
}

/* The texts of refusals are those of a single signal. */
static void count_signals(struct bulk *bulk, const PGresult *result)
{
    const struct signal_request request = {
        .name = bulk->order->signal_name, .data = bulk->order->signal_data, .key = bulk->order->signal_key};
    for (int row = 0; row < PQntuples(result); row++) {
        struct sent_signal sent = {.seq = 0};
        struct weir_error own = {.status = WEIR_OK};
        text_copy(sent.id, sizeof sent.id, result_text(result, row, 5));
        enum weir_status status = postgres_read_sent(result, row, &request, &sent, &own);
        bulk->result.changed += status == WEIR_OK && !sent.duplicate;
        bulk->result.refused += status != WEIR_OK;
        if (status != WEIR_OK && bulk->result.first_refusal == WEIR_OK) {
            bulk->result.first_refusal = status;
            bulk->result.refusal = own;
        }
    }
}

static void count_migrations(struct bulk *bulk, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        const char *outcome = result_text(result, row, 1);
        struct weir_error own = {.status = WEIR_OK};
        if (strcmp(outcome, "changed") == 0) {
            bulk->result.changed++;
            continue;
        }
        bulk->result.refused++;
        if (bulk->result.first_refusal == WEIR_OK) {
            bulk->result.first_refusal =
                refusal_of_migration(result_text(result, row, 0), result_text(result, row, 2), outcome,
                                     bulk->order->to_version, result_text(result, row, 3), &own);
            bulk->result.refusal = own;
        }
    }
}

static void count_bulk_outcomes(struct bulk *bulk, const PGresult *result)
{
    if (bulk->act == BULK_SIGNAL) {
        count_signals(bulk, result);
        return;
    }
    if (bulk->act == BULK_MIGRATE) {
        count_migrations(bulk, result);
        return;
    }
    for (int row = 0; row < PQntuples(result); row++) {
        const char *outcome = result_text(result, row, 1);
        if (strcmp(outcome, "changed") == 0) {
            bulk->result.changed++;
            bulk->result.requested += bulk->act == BULK_CANCEL && strcmp(result_text(result, row, 2), "gone") == 0;
            if (bulk->act == BULK_RETRY) {
                text_copy(bulk->result.new_id, sizeof bulk->result.new_id, result_text(result, row, 2));
            }
        } else if (strcmp(outcome, "waits") == 0 || strcmp(outcome, "temporal") == 0) {
            count_wake_refusal(bulk, result, row);
        } else {
            count_refusal(bulk, result_text(result, row, 0), outcome, result_text(result, row, 2));
        }
    }
}

static enum weir_status act_and_count(struct link *link, struct bulk *bulk, struct weir_error *error)
{
    PGresult *result = NULL;
    bulk->result.matched = bulk->count;
    if (bulk->count == 0) {
        return WEIR_OK;
    }
    audit_subject(bulk->filter, bulk->ids[0], bulk->subject, sizeof bulk->subject);
    enum weir_status status = call_bulk_function(link, bulk, &result, error);
    if (status == WEIR_OK) {
        count_bulk_outcomes(bulk, result);
    }
    PQclear(result);
    return status;
}

enum weir_status postgres_bulk(struct store *store, enum bulk_act wanted, const struct act_order *order,
                               const struct execution_filter *filter, const char *after, size_t limit,
                               struct bulk_result *ret_result, struct weir_error *error)
{
    INVARIANT(filter != NULL && after != NULL && limit > 0 && ret_result != NULL);
    struct bulk bulk = {.store = store, .act = wanted, .order = order, .filter = filter};
    struct link *link = link_of(store);
    enum weir_status status = order->only_checks ? WEIR_OK : postgres_require_writable(store, error);
    arena_init(&bulk.arena, BULK_BYTES_MAX);
    if (status == WEIR_OK) {
        status = select_bulk_ids(link, &bulk, after, limit, error);
    }
    if (status == WEIR_OK) {
        status = filter_by_reason(link, &bulk, error);
    }
    if (status == WEIR_OK) {
        status = act_and_count(link, &bulk, error);
    }
    arena_close(&bulk.arena);
    if (status == WEIR_OK) {
        *ret_result = bulk.result;
    }
    return status;
}
