/* Signals: sending one, reading those of claimed items, and the requests that wait for a node (functions/send_signal.sql).
 *
 * One statement sends a signal. A node reads its signals first, and marks them as passed on after that. An answer that
 * is lost, and a mark that fails, lead to the same signals again. The engine drops those that it has. Cancels are
 * marked by the statement that reads them, so after a lost answer the next call reads those that were marked, too. This
 * file runs in the dispatch thread of a node, or in that of the caller. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/claimed.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"
#include "store/reading.h"
#include "store/refusal.h"

/* --- sending --- */

enum weir_status postgres_read_sent(const PGresult *result, int row, const struct signal_request *request,
                                    struct sent_signal *sent, struct weir_error *error)
{
    const char *outcome = result_text(result, row, 0);
    sent->seq = result_int(result, row, 1);
    sent->duplicate = strcmp(outcome, "duplicate") == 0;
    if (sent->duplicate || strcmp(outcome, "sent") == 0) {
        return WEIR_OK;
    }
    if (strcmp(outcome, "temporal") == 0) {
        return refusal_signal_of_temporal(sent->id, error);
    }
    if (strcmp(outcome, "reused") == 0) {
        return refusal_signal_key_reused(sent->id, request->key, sent->seq, error);
    }
    if (strcmp(outcome, "unknown") == 0) {
        return refusal_signal_unknown(sent->id, request->name, result_text(result, row, 4), error);
    }
    if (strcmp(outcome, "large") == 0) {
        return refusal_signal_large(strlen(request->data == NULL ? "null" : request->data), error);
    }
    return strcmp(outcome, "full") == 0 ? refusal_signals_full(sent->id, request->name, result_int(result, row, 2),
                                                               result_int(result, row, 3), error)
                                        : refusal_signal_ended(sent->id, outcome, error);
}

static enum weir_status postgres_decide(struct store *store, const struct approval *approval, struct sent_signal *sent,
                                        struct weir_error *error)
{
    PGresult *result = NULL;
    const char *actor = store_actor(store);
    enum weir_status status =
        link_write(link_of(store), error, &result, QUERY_DECIDE_STEP, "utottt", sent->id, approval->step,
                   (int)approval->approved, approval->comment, actor, store_reason(store));
    if (status == WEIR_OK) {
        const char *outcome = result_text(result, 0, 0);
        sent->seq = result_int(result, 0, 1);
        const char *step = result_text(result, 0, 2);
        const struct refused_approval refused = {.outcome = outcome,
                                                 .step = sent->step,
                                                 .who = result_text(result, 0, 3),
                                                 .waits = result_text(result, 0, 4),
                                                 .actor = actor};
        text_copy(sent->step, sizeof sent->step, step == NULL ? "" : step);
        status = strcmp(outcome, "sent") == 0 ? WEIR_OK : refusal_of_approval(sent->id, &refused, error);
    }
    PQclear(result);
    return status;
}

static enum weir_status postgres_update(struct store *store, const struct state_update *update, struct sent_signal *sent,
                                        struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status =
        link_write(link_of(store), error, &result, QUERY_UPDATE_STATE, "uttttt", sent->id, update->state, update->variables,
                   update->if_state, store_actor(store), store_reason(store));
    if (status == WEIR_OK) {
        struct update_refusal refusal = {.outcome = result_text(result, 0, 0)};
        const char *state = result_text(result, 0, 2);
        const char *name = result_text(result, 0, 3);
        const char *names = result_text(result, 0, 4);
        text_copy(sent->step, sizeof sent->step, state == NULL ? "" : state);
        text_copy(refusal.name, sizeof refusal.name, name == NULL ? "" : name);
        text_copy(refusal.names, sizeof refusal.names, names == NULL ? "" : names);
        sent->seq = result_null(result, 0, 1) ? 0 : result_int(result, 0, 1);
        status = strcmp(refusal.outcome, "updated") == 0 ? WEIR_OK : refusal_of_update(sent->id, &refusal, error);
    }
    PQclear(result);
    return status;
}

static enum weir_status postgres_call_back(struct link *link, const struct signal_request *request,
                                           struct sent_signal *sent, struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status = link_write(link, error, &result, QUERY_CALL_BACK, "uttt", request->id, request->callback,
                                         request->data, request->key);
    if (status == WEIR_OK) {
        const char *outcome = result_text(result, 0, 0);
        sent->seq = result_int(result, 0, 1);
        sent->duplicate = strcmp(outcome, "duplicate") == 0;
        status = strcmp(outcome, "none") == 0    ? refusal_callback_unknown(error)
                 : strcmp(outcome, "other") == 0 ? refusal_callback_other(request->id, error)
                                                 : WEIR_OK;
    }
    PQclear(result);
    return status;
}

/* A whole id needs no look for the execution that it names: the statement of the signal finds none, if there is none. Only
 * then the look gives the reason. */
static enum weir_status send_plain(struct store *store, const struct signal_request *request, struct sent_signal *sent,
                                   struct weir_error *error)
{
    struct link *link = link_of(store);
    PGresult *result = NULL;
    enum weir_status status = reading_check_id(request->id, sent->id, error);
    bool is_whole = status == WEIR_OK && strlen(sent->id) == UUID_TEXT_MAX - 1;
    if (status == WEIR_OK && !is_whole) {
        status = postgres_find_execution(link, request->id, sent->id, error);
    }
    if (status == WEIR_OK) {
        status = link_write(link, error, &result, QUERY_SEND_SIGNAL, "uttttt", sent->id, request->name,
                            request->data == NULL ? "null" : request->data, request->key, store_actor(store),
                            store_reason(store));
    }
    if (status == WEIR_OK && is_whole && strcmp(result_text(result, 0, 0), "gone") == 0) {
        status = postgres_find_execution(link, request->id, sent->id, error);
    }
    if (status == WEIR_OK) {
        status = postgres_read_sent(result, 0, request, sent, error);
    }
    PQclear(result);
    return status;
}

enum weir_status postgres_signal(struct store *store, const struct signal_request *request, struct sent_signal *ret_sent,
                                 struct weir_error *error)
{
    INVARIANT(request != NULL && ret_sent != NULL);
    struct link *link = link_of(store);
    struct sent_signal sent = {.seq = 0};
    bool is_plain = request->callback == NULL && request->approval == NULL && request->update == NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK && is_plain) {
        status = send_plain(store, request, &sent, error);
    } else if (status == WEIR_OK && request->callback != NULL) {
        text_copy(sent.id, sizeof sent.id, request->id);
        status = postgres_call_back(link, request, &sent, error);
    } else if (status == WEIR_OK) {
        status = postgres_find_execution(link, request->id, sent.id, error);
    }
    if (status == WEIR_OK && request->approval != NULL) {
        status = postgres_decide(store, request->approval, &sent, error);
    } else if (status == WEIR_OK && request->update != NULL) {
        status = postgres_update(store, request->update, &sent, error);
    }
    if (status == WEIR_OK) {
        *ret_sent = sent;
    }
    return status;
}

/* --- reading --- */

/* The signals of one execution, which are neighbours in the rows. */
struct signals_of {
    const char *id;
    const struct signal_record **signals;
    size_t *count;
};

static struct signals_of *find_owner(struct signals_of *owners, size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(owners[i].id, id) == 0) {
            return &owners[i];
        }
    }
    return NULL;
}

static bool attach_signals(const PGresult *result, struct arena *arena, struct signals_of *owners, size_t owner_count)
{
    size_t count = (size_t)PQntuples(result);
    struct signal_record *signals = arena_allocate(arena, (count + 1) * sizeof *signals);
    struct signals_of *owner = NULL;
    bool failed = signals == NULL;
    for (size_t i = 0; i < count && !failed; i++) {
        const char *id = result_text(result, (int)i, 0);
        if (owner == NULL || strcmp(owner->id, id) != 0) {
            owner = find_owner(owners, owner_count, id);
            INVARIANT(owner != NULL);
            *owner->signals = &signals[i];
        }
        signals[i].seq = result_int(result, (int)i, 1);
        text_copy(signals[i].name, sizeof signals[i].name, result_text(result, (int)i, 2));
        signals[i].data = result_copy(result, (int)i, 3, arena, &failed);
        signals[i].data_length = failed ? 0 : strlen(signals[i].data);
        (*owner->count)++;
    }
    return !failed;
}

static enum weir_status read_signals_of(struct link *link, struct arena *arena, struct signals_of *owners, size_t count,
                                        struct weir_error *error)
{
    PGresult *result = NULL;
    const char **ids = arena_allocate(arena, (count + 1) * sizeof *ids);
    if (ids == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < count; i++) {
        ids[i] = owners[i].id;
    }
    enum weir_status status = count == 0 ? WEIR_OK : link_read(link, error, &result, QUERY_READ_SIGNALS, "U", ids, count);
    if (status == WEIR_OK && result != NULL && !attach_signals(result, arena, owners, count)) {
        status = error_out_of_memory(error);
    }
    PQclear(result);
    return status;
}

enum weir_status claimed_read_signals(struct link *link, struct arena *arena, struct claim_result *claim,
                                      struct weir_error *error)
{
    INVARIANT(claim != NULL && (claim->items != NULL || claim->count == 0));
    size_t count = 0;
    struct signals_of *owners = arena_allocate(arena, (claim->count + 1) * sizeof *owners);
    if (owners == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < claim->count; i++) {
        struct claimed_item *item = &claim->items[i];
        if (item->signals_seen > 0 && !item->keeps_no_signal) {
            owners[count++] = (struct signals_of){.id = item->id, .signals = &item->signals, .count = &item->signal_count};
        }
    }
    return read_signals_of(link, arena, owners, count, error);
}

/* --- the requests of a node --- */

struct requests {
    struct node_request *items;
    size_t count;
    int64_t *seqs; /* of those with signals: the number that was the last one when they were found */
};

/* Executions with new signals, and the signals. */
static enum weir_status read_signalled(struct link *link, int64_t node_id, struct arena *arena, struct requests *requests,
                                       struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status = link_read(link, error, &result, QUERY_SIGNALLED, "ii", node_id, (int64_t)SIGNALLED_BATCH);
    if (status != WEIR_OK) {
        return status;
    }
    size_t count = (size_t)PQntuples(result);
    struct signals_of *owners = arena_allocate(arena, (count + 1) * sizeof *owners);
    requests->items = arena_allocate(arena, (count + 1) * sizeof *requests->items);
    requests->seqs = arena_allocate(arena, (count + 1) * sizeof *requests->seqs);
    bool failed = owners == NULL || requests->items == NULL || requests->seqs == NULL;
    for (size_t i = 0; i < count && !failed; i++) {
        struct node_request *request = &requests->items[i];
        text_copy(request->id, sizeof request->id, result_text(result, (int)i, 0));
        request->fence = result_int(result, (int)i, 1);
        requests->seqs[i] = result_int(result, (int)i, 2);
        owners[i] = (struct signals_of){.id = request->id, .signals = &request->signals, .count = &request->signal_count};
    }
    PQclear(result);
    requests->count = failed ? 0 : count;
    return failed ? error_out_of_memory(error) : read_signals_of(link, arena, owners, count, error);
}

/* A failure is no failure of the call: the signals are passed on again. */
static void mark_sent(struct link *link, struct arena *arena, const struct requests *requests)
{
    struct weir_error error = {.status = WEIR_OK};
    const char **ids = arena_allocate(arena, (requests->count + 1) * sizeof *ids);
    int64_t *fences = arena_allocate(arena, (requests->count + 1) * sizeof *fences);
    if (requests->count == 0 || ids == NULL || fences == NULL) {
        return;
    }
    for (size_t i = 0; i < requests->count; i++) {
        ids[i] = requests->items[i].id;
        fences[i] = requests->items[i].fence;
    }
    if (link_run(link, &error, NULL, QUERY_MARK_SIGNALS_SENT, "UII", ids, requests->count, fences, requests->count,
                 requests->seqs, requests->count) != WEIR_OK) {
        return;
    }
}

/* Appends the executions with a requested cancel, and marks them. Without memory for the answer it was lost, too. */
static enum weir_status take_cancels(struct postgres_store *self, int64_t node_id, struct arena *arena,
                                     struct requests *requests, struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status =
        link_write(&self->link, error, &result, QUERY_TAKE_REQUESTS, "io", node_id, self->requests_in_doubt);
    self->requests_in_doubt = self->requests_in_doubt ? status != WEIR_OK : status == WEIR_COMMIT_UNKNOWN;
    if (status != WEIR_OK) {
        return status;
    }
    size_t count = (size_t)PQntuples(result);
    struct node_request *all = arena_allocate(arena, (requests->count + count + 1) * sizeof *all);
    if (all != NULL && requests->count > 0) {
        memcpy(all, requests->items, requests->count * sizeof *all);
    }
    for (size_t i = 0; i < count && all != NULL; i++) {
        struct node_request *request = &all[requests->count + i];
        text_copy(request->id, sizeof request->id, result_text(result, (int)i, 0));
        request->fence = result_int(result, (int)i, 1);
        request->cancels = true;
    }
    PQclear(result);
    if (all == NULL) {
        self->requests_in_doubt = true;
        return error_out_of_memory(error);
    }
    requests->items = all;
    requests->count += count;
    return WEIR_OK;
}

enum weir_status postgres_take_requests(struct store *store, int64_t node_id, struct arena *arena,
                                        struct node_request **ret_requests, size_t *ret_count, bool *ret_more,
                                        struct weir_error *error)
{
    INVARIANT(node_id > 0 && ret_requests != NULL && ret_count != NULL && ret_more != NULL);
    struct postgres_store *self = postgres_of(store);
    struct requests requests = {.count = 0};
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = read_signalled(&self->link, node_id, arena, &requests, error);
    }
    struct requests signalled = requests;
    if (status == WEIR_OK) {
        status = take_cancels(self, node_id, arena, &requests, error);
    }
    if (status == WEIR_OK) {
        mark_sent(&self->link, arena, &signalled);
        *ret_requests = requests.items;
        *ret_count = requests.count;
        *ret_more = signalled.count == SIGNALLED_BATCH;
    }
    return status;
}
