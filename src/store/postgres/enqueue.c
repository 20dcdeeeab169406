/* Enqueues a set: one statement per chunk, a row of the answer per request (functions/enqueue_set.sql).
 *
 * 1. Each request without an id of the caller gets one here and not on the server, so that a set without an answer is
 * sent again with the same ids. An id begins with a time, and lists are read by id, so it is the time of the store.
 * 2. Requests go in chunks. One chunk is one statement, and that is a transaction; more of them share a transaction.
 * 3. A single request goes to enqueue_one(), which has no arrays. If its id was made for this call, that function does not
 *    look for the id among earlier executions.
 *    A request whose key has a mode is a chunk of its own too (functions/enqueue_keyed.sql): it reads the work of the ones
 *    before it in the set. Their keys are locked before all chunks, in one order. So are the schedules of firings. One that
 *    was removed meanwhile starts nothing, because its schedule goes on without it.
 * 4. The short way: a single request that starts now becomes visible before its commit is on disk (synchronous_commit off).
 *    A second statement in the same server process waits for the disk, while the scheduler assigns the item already.
 *    Nothing starts too soon, because a claim commits behind the enqueue in the server's log, so both are on disk when
 *    the claim is. The short way is not taken with an idempotency key or an id that another call may use. A duplicate
 *    of a request that a crash then undoes would be reported. Nor behind a pooler, where the second statement may reach
 *    another process.
 * 5. After a lost answer the set is sent once more. Its ids count as given then, so a request that was committed answers as
 *    present. If this answer is lost too, the outcome stays unknown, and the hint names an id to look for.
 *
 * This file never reports a request as enqueued before it is on disk. It runs in the thread of the caller. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/name_suggestions.h"
#include "store/postgres/postgres_store.h"
#include "store/refusal.h"

/* A larger set is still one transaction; a chunk is one message and one array of each kind. */
enum { CHUNK_REQUESTS = 1000, CHUNK_BYTES = 4 * 1024 * 1024 };

/* The arrays of one statement. `places` has the place of each element among the requests. */
struct chunk {
    size_t count;
    size_t bytes;
    size_t places[CHUNK_REQUESTS];
    const char *ids[CHUNK_REQUESTS];
    bool given[CHUNK_REQUESTS];
    const char *workspaces[CHUNK_REQUESTS];
    const char *workflows[CHUNK_REQUESTS];
    struct link_bytes params[CHUNK_REQUESTS];
    const char *keys[CHUNK_REQUESTS];
    const char *groups[CHUNK_REQUESTS];
    const char *default_groups[CHUNK_REQUESTS];
    int priorities[CHUNK_REQUESTS];
    int64_t run_ats[CHUNK_REQUESTS];
    const char *traceparents[CHUNK_REQUESTS];
    const char *business_keys[CHUNK_REQUESTS];
    const char *labels[CHUNK_REQUESTS];
    const struct enqueue_request *keyed; /* the only request, if its key has a mode; else NULL */
};

struct enqueue {
    struct postgres_store *store;
    const struct enqueue_request *requests;
    struct enqueue_result *results;
    char (*ids)[UUID_TEXT_MAX]; /* of each request; "" = it is not well-formed and its result has the error */
    size_t count;
    bool repeated;      /* an earlier send may have been committed */
    char wait_text[32]; /* how long it waits for locks; "" = as the connection */
    bool is_refused;    /* of a set that is enqueued as a whole or not at all: it was not */
    bool *is_removed;   /* of each request, whether its firing was removed; NULL = the set has no firings */
    struct chunk chunk;
};

/* --- ids --- */

/* No other call has used the id of this request: it was made for this one. */
static bool has_new_id(const struct enqueue_request *request)
{
    return request->id == NULL || request->id_is_new;
}

/* Step 1. The difference between the clocks comes from the last answer; only the first enqueue of a handle asks for it. */
static enum weir_status read_store_time_once(struct postgres_store *store, struct weir_error *error)
{
    int64_t now_us = 0;
    if (store->time_is_known) {
        return WEIR_OK;
    }
    enum weir_status status = link_read_integer(&store->link, error, &now_us, QUERY_READ_CLOCK, "");
    if (status == WEIR_OK) {
        store->time_is_known = true;
        store->time_ahead_us = now_us - clock_boot(clock_system());
    }
    return status;
}

/* Step 1. An id that a caller gives is written in lower case, as the server writes it. */
static void make_request_ids(struct enqueue *enqueue)
{
    struct uuid_source *uuids = enqueue->store->store.uuids;
    int64_t now_us = clock_boot(clock_system()) + enqueue->store->time_ahead_us;
    for (size_t i = 0; i < enqueue->count; i++) {
        const char *given = enqueue->requests[i].id;
        char *id = enqueue->ids[i];
        struct enqueue_result *result = &enqueue->results[i];
        if (result->status == WEIR_OK) {
            result->status = enqueue_id_check(&enqueue->requests[i], now_us, &result->error);
        }
        if (result->status != WEIR_OK) {
            continue;
        }
        if (given != NULL) {
            uuid_write_small(given, id);
        } else if (uuids != NULL) {
            uuid_make_from(uuids, now_us, id);
        } else {
            uuid_make(now_us, id);
        }
    }
}

/* --- one chunk --- */

static void add_request(struct enqueue *enqueue, size_t place)
{
    struct chunk *chunk = &enqueue->chunk;
    const struct enqueue_request *request = &enqueue->requests[place];
    size_t at = chunk->count++;
    bool empty = enqueue_has_no_params(request);
    chunk->places[at] = place;
    chunk->ids[at] = enqueue->ids[place];
    chunk->given[at] = !has_new_id(request) || enqueue->repeated;
    chunk->workspaces[at] = request->workspace;
    chunk->workflows[at] = request->workflow;
    chunk->params[at] = empty ? (struct link_bytes){.data = NULL}
                              : (struct link_bytes){.data = request->params, .length = request->params_length};
    chunk->keys[at] = request->idempotency_key;
    chunk->groups[at] = request->group;
    chunk->default_groups[at] = request->default_group;
    chunk->priorities[at] = request->priority;
    chunk->run_ats[at] = request->run_at_us;
    chunk->traceparents[at] = request->traceparent;
    chunk->business_keys[at] = request->business_key;
    chunk->labels[at] = request->labels;
    chunk->bytes += chunk->params[at].length;
    chunk->keyed = request->key_mode != KEY_ONCE ? request : NULL;
}

static bool is_sent(const struct enqueue *enqueue, size_t place)
{
    return enqueue->ids[place][0] != '\0' && (enqueue->is_removed == NULL || !enqueue->is_removed[place]);
}

/* Fills the chunk from request `from` on; one with a mode stays alone. Returns the place behind its last request. */
static size_t fill_chunk(struct enqueue *enqueue, size_t from)
{
    size_t place = from;
    enqueue->chunk.count = 0;
    enqueue->chunk.bytes = 0;
    enqueue->chunk.keyed = NULL;
    while (place < enqueue->count && enqueue->chunk.count < CHUNK_REQUESTS && enqueue->chunk.bytes < CHUNK_BYTES &&
           enqueue->chunk.keyed == NULL) {
        if (is_sent(enqueue, place)) {
            if (enqueue->requests[place].key_mode != KEY_ONCE && enqueue->chunk.count > 0) {
                break;
            }
            add_request(enqueue, place);
        }
        place++;
    }
    return place;
}

/* The answer to one request: its row. */
static void take_request_answer(const struct enqueue *enqueue, size_t at, const PGresult *result)
{
    int row = (int)at;
    struct enqueue_result *answer = &enqueue->results[enqueue->chunk.places[at]];
    const char *id = result_text(result, row, 1);
    const char *hint = result_text(result, row, 4);
    *answer = (struct enqueue_result){.status = status_parse_name(result_text(result, row, 0))};
    if (answer->status != WEIR_OK) {
        error_set(&answer->error, answer->status, "%s", result_text(result, row, 3));
        if (hint != NULL) {
            error_hint(&answer->error, "%s", hint);
        }
        return;
    }
    /* An id that was made for this call is on record: the first send was committed, so this request is no duplicate. */
    bool own = has_new_id(&enqueue->requests[enqueue->chunk.places[at]]) && strcmp(id, enqueue->chunk.ids[at]) == 0;
    answer->duplicate = result_bool(result, row, 2) && !own;
    answer->replaced = enqueue->chunk.keyed != NULL && result_bool(result, row, 6);
    text_copy(answer->id, sizeof answer->id, id);
}

/* Step 4. Waits until the commits of the server process `backend` are on disk. If only another process can answer, the
 * outcome is unknown: the first one may have ended with its server, and its unwritten commits with it. */
static enum weir_status flush_commit(struct link *link, int64_t backend, struct weir_error *error)
{
    PGresult *result = NULL;
    unsigned drops = link->drops; /* a restarted server may give the same number to another process */
    struct weir_error why = {.message = "the connection was lost"};
    bool same = link_write(link, &why, &result, QUERY_FLUSH, "") == WEIR_OK && link->drops == drops &&
                result_int(result, 0, 0) == backend;
    PQclear(result);
    if (same) {
        return WEIR_OK;
    }
    error_set(error, WEIR_COMMIT_UNKNOWN, "the store %s did not confirm that the commit is on disk: %s",
              link->address->shown, why.message);
    return WEIR_COMMIT_UNKNOWN;
}

static const char *wait_of(const struct enqueue *enqueue)
{
    return enqueue->wait_text[0] == '\0' ? NULL : enqueue->wait_text;
}

/* Steps 3 and 4 for a single request, as most programs enqueue: no arrays. */
static enum weir_status send_single_request(const struct enqueue *enqueue, struct link *link, PGresult **ret_result,
                                            struct weir_error *error)
{
    const struct chunk *chunk = &enqueue->chunk;
    const int64_t *run_at_us = chunk->run_ats[0] == 0 ? NULL : &chunk->run_ats[0];
    bool ahead =
        !chunk->given[0] && chunk->keys[0] == NULL && run_at_us == NULL && !link->in_transaction && !link->address->pooled;
    PGresult *result = NULL;
    enum weir_status status =
        link_write(link, error, &result, QUERY_ENQUEUE_ONE, "uottbttdptotttt", chunk->ids[0], (int)chunk->given[0],
                   chunk->workspaces[0], chunk->workflows[0], chunk->params[0].data, chunk->params[0].length,
                   chunk->keys[0], chunk->groups[0], chunk->priorities[0], run_at_us, chunk->default_groups[0], (int)ahead,
                   chunk->traceparents[0], chunk->business_keys[0], chunk->labels[0], wait_of(enqueue));
    if (status == WEIR_OK && ahead && status_parse_name(result_text(result, 0, 0)) == WEIR_OK) {
        status = flush_commit(link, result_int(result, 0, 6), error);
    }
    if (status != WEIR_OK) {
        PQclear(result);
        return status;
    }
    *ret_result = result;
    return WEIR_OK;
}

/* A request whose key has a mode. */
static enum weir_status send_keyed_request(const struct enqueue *enqueue, struct link *link, PGresult **ret_result,
                                           struct weir_error *error)
{
    const struct chunk *chunk = &enqueue->chunk;
    const struct enqueue_request *request = chunk->keyed;
    const int64_t *run_at_us = chunk->run_ats[0] == 0 ? NULL : &chunk->run_ats[0];
    return link_write(link, error, ret_result, QUERY_ENQUEUE_KEYED, "uottbttdptttttiitt", chunk->ids[0],
                      (int)chunk->given[0], chunk->workspaces[0], chunk->workflows[0], chunk->params[0].data,
                      chunk->params[0].length, chunk->keys[0], chunk->groups[0], chunk->priorities[0], run_at_us,
                      chunk->default_groups[0], chunk->traceparents[0], chunk->business_keys[0], chunk->labels[0],
                      key_mode_name(request->key_mode), request->debounce_us, debounce_most_us(request),
                      store_actor(&enqueue->store->store), wait_of(enqueue));
}

static enum weir_status send_request_arrays(const struct enqueue *enqueue, struct link *link, PGresult **ret_result,
                                            struct weir_error *error)
{
    const struct chunk *chunk = &enqueue->chunk;
    return link_write(link, error, ret_result, QUERY_ENQUEUE_SET, "UOTTBTTDITTTTt", chunk->ids, chunk->count, chunk->given,
                      chunk->count, chunk->workspaces, chunk->count, chunk->workflows, chunk->count, chunk->params,
                      chunk->count, chunk->keys, chunk->count, chunk->groups, chunk->count, chunk->priorities, chunk->count,
                      chunk->run_ats, chunk->count, chunk->default_groups, chunk->count, chunk->traceparents, chunk->count,
                      chunk->business_keys, chunk->count, chunk->labels, chunk->count, wait_of(enqueue));
}

static enum weir_status send_chunk(struct enqueue *enqueue, struct link *link, struct weir_error *error)
{
    const struct chunk *chunk = &enqueue->chunk;
    PGresult *result = NULL;
    if (chunk->count == 0) {
        return WEIR_OK;
    }
    enum weir_status status = chunk->keyed != NULL ? send_keyed_request(enqueue, link, &result, error)
                              : chunk->count == 1  ? send_single_request(enqueue, link, &result, error)
                                                   : send_request_arrays(enqueue, link, &result, error);
    if (status != WEIR_OK) {
        return status;
    }
    INVARIANT(PQntuples(result) == (int)chunk->count);
    for (size_t i = 0; i < chunk->count; i++) {
        take_request_answer(enqueue, i, result);
    }
    enqueue->store->time_ahead_us = result_int(result, 0, 5) - clock_boot(clock_system());
    PQclear(result);
    return WEIR_OK;
}

/* --- the set --- */

/* A failure of the body undoes the transaction. */
static enum weir_status refuse_refused_set(struct enqueue *enqueue, struct weir_error *error)
{
    for (size_t i = 0; i < enqueue->count; i++) {
        if (enqueue->results[i].status != WEIR_OK) {
            enqueue->is_refused = true;
            return error_set(error, enqueue->results[i].status, "a request is refused");
        }
    }
    return WEIR_OK;
}

/* Step 3. Two sets with the same keys in different orders would end each other, and one of them would begin again. */
static enum weir_status lock_set_keys(const struct enqueue *enqueue, struct link *link, struct weir_error *error)
{
    const char **names = calloc(2 * enqueue->count, sizeof *names);
    const char **keys = names == NULL ? NULL : names + enqueue->count;
    size_t count = 0;
    if (names == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < enqueue->count; i++) {
        const struct enqueue_request *request = &enqueue->requests[i];
        if (enqueue->ids[i][0] != '\0' && request->key_mode != KEY_ONCE) {
            names[count] = request->workspace;
            keys[count++] = request->idempotency_key;
        }
    }
    enum weir_status status =
        count < 2 ? WEIR_OK : link_run(link, error, NULL, QUERY_LOCK_KEYS, "TT", names, count, keys, count);
    free(names);
    return status;
}

/* Step 3. The rows of the schedules stay locked until the commit, so whoever removes a firing sees its execution. */
static enum weir_status lock_set_firings(const struct enqueue *enqueue, struct link *link, struct weir_error *error)
{
    int64_t schedules[SCHEDULE_FIRINGS_READ_MOST];
    int64_t workspaces[SCHEDULE_FIRINGS_READ_MOST];
    int64_t dues[SCHEDULE_FIRINGS_READ_MOST];
    const char *ids[SCHEDULE_FIRINGS_READ_MOST];
    size_t places[SCHEDULE_FIRINGS_READ_MOST];
    size_t count = 0;
    PGresult *result = NULL;
    for (size_t i = 0; i < enqueue->count; i++) {
        const struct schedule_firing *firing = enqueue->requests[i].firing;
        if (firing != NULL && enqueue->ids[i][0] != '\0') {
            INVARIANT(count < SCHEDULE_FIRINGS_READ_MOST);
            schedules[count] = firing->schedule_id;
            workspaces[count] = firing->workspace_id;
            dues[count] = firing->due_us;
            ids[count] = firing->planned_id;
            places[count++] = i;
        }
    }
    enum weir_status status = link_write(link, error, &result, QUERY_LOCK_FIRINGS, "IIIU", schedules, count, workspaces,
                                         count, dues, count, ids, count);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        struct enqueue_result *answer = &enqueue->results[places[i]];
        enqueue->is_removed[places[i]] = !result_bool(result, (int)i, 0);
        if (enqueue->is_removed[places[i]]) {
            answer->status = refusal_firing_removed(&answer->error);
        }
    }
    PQclear(result);
    return status;
}

/* The body of the transaction. It may be called again, and then reads every answer again. */
static enum weir_status send_all_chunks(struct link *link, void *context, struct weir_error *error)
{
    struct enqueue *enqueue = context;
    enum weir_status status = enqueue->is_removed == NULL ? WEIR_OK : lock_set_firings(enqueue, link, error);
    if (status == WEIR_OK) {
        status = lock_set_keys(enqueue, link, error);
    }
    for (size_t from = 0; from < enqueue->count && status == WEIR_OK;) {
        from = fill_chunk(enqueue, from);
        status = send_chunk(enqueue, link, error);
    }
    if (status == WEIR_OK && enqueue->store->store.all_or_none) {
        status = refuse_refused_set(enqueue, error);
    }
    if (status == WEIR_OK && enqueue->repeated) { /* an item of the first send may not be on disk yet */
        status = link_run(link, error, NULL, QUERY_FLUSH, "");
    }
    return status;
}

static enum weir_status send_request_set(struct enqueue *enqueue, struct weir_error *error)
{
    struct link *link = &enqueue->store->link;
    bool is_lone = !enqueue->repeated && !enqueue->store->store.all_or_none && enqueue->is_removed == NULL;
    if (fill_chunk(enqueue, 0) == enqueue->count && is_lone) {
        return send_chunk(enqueue, link, error); /* one statement is a transaction */
    }
    return link_transaction(link, send_all_chunks, enqueue, error);
}

/* Adds "did you mean" to refusals of unknown names. The lists are read once per set; without them the hint stays. */
static void suggest_names(struct enqueue *enqueue)
{
    struct link *link = &enqueue->store->link;
    struct name_list workspaces = {.names = NULL};
    struct name_list groups = {.names = NULL};
    for (size_t i = 0; i < enqueue->count; i++) {
        const struct enqueue_request *request = &enqueue->requests[i];
        struct weir_error *error = &enqueue->results[i].error;
        if (enqueue->results[i].status == WEIR_WORKSPACE_NOT_FOUND) {
            if (workspaces.names == NULL) {
                name_list_read(&workspaces, link, QUERY_WORKSPACE_NAMES, NULL);
            }
            name_list_suggest(&workspaces, request->workspace, error);
            name_hint_new(link, request->workspace, error);
        } else if (enqueue->results[i].status == WEIR_WORKFLOW_NOT_FOUND) {
            struct name_list workflows = {.names = NULL};
            name_list_read(&workflows, link, QUERY_WORKFLOW_NAMES, request->workspace);
            name_list_suggest(&workflows, request->workflow, error);
            name_list_close(&workflows);
        } else if (enqueue->results[i].status == WEIR_NOT_FOUND) {
            if (groups.names == NULL) {
                name_list_read(&groups, link, QUERY_GROUP_NAMES, NULL);
            }
            group_hint(request->group, (const char *const *)groups.names, groups.count, error);
        }
    }
    name_list_close(&workspaces);
    name_list_close(&groups);
}

/* A repeated call would enqueue a request without a key and without an id of the caller twice. With a mode of the key it
 * does so when the first one has started. The id that was made shows the outcome of the whole set, because a set is
 * committed as a whole or not at all. */
static void hint_at_unknown_commit(const struct enqueue *enqueue, struct weir_error *error)
{
    const char *made = NULL;
    for (size_t i = 0; i < enqueue->count && made == NULL; i++) {
        const struct enqueue_request *request = &enqueue->requests[i];
        bool enqueues_again = request->idempotency_key == NULL || request->key_mode != KEY_ONCE;
        bool is_own = has_new_id(request) && enqueues_again && enqueue->ids[i][0] != '\0';
        made = is_own ? enqueue->ids[i] : NULL;
    }
    if (made == NULL) {
        error_hint(error, "it may or may not have been done; the same call may be repeated");
    } else {
        error_hint(error,
                   "`weir show %s` shows whether it was done; with an id, or an idempotency key without a mode, the call "
                   "may be repeated",
                   made);
    }
}

static enum weir_status enqueue_checked_requests(struct enqueue *enqueue, struct weir_error *error)
{
    enum weir_status status = read_store_time_once(enqueue->store, error);
    if (status != WEIR_OK) {
        return status;
    }
    make_request_ids(enqueue);
    status = send_request_set(enqueue, error);
    if (status == WEIR_COMMIT_UNKNOWN) { /* it stays unknown unless the second answer arrives */
        struct weir_error second;
        enqueue->repeated = true;
        status = send_request_set(enqueue, &second) == WEIR_OK ? WEIR_OK : WEIR_COMMIT_UNKNOWN;
        if (status != WEIR_OK) {
            hint_at_unknown_commit(enqueue, error);
        }
    }
    if (status != WEIR_OK && enqueue->is_refused) {
        error_clear(error); /* the results have the refusals */
        status = WEIR_OK;
    }
    if (status == WEIR_OK) {
        suggest_names(enqueue);
    }
    return status;
}

static bool has_firing(const struct enqueue_request *requests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (requests[i].firing != NULL) {
            return true;
        }
    }
    return false;
}

enum weir_status postgres_enqueue(struct store *store, const struct enqueue_request *requests, size_t count,
                                  struct enqueue_result *results, struct weir_error *error)
{
    INVARIANT(requests != NULL && results != NULL && count > 0);
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    (void)link_of(store);
    struct enqueue *enqueue = malloc(sizeof *enqueue);
    char(*ids)[UUID_TEXT_MAX] = calloc(count, UUID_TEXT_MAX);
    bool has_firings = has_firing(requests, count);
    bool *is_removed = has_firings ? calloc(count, sizeof *is_removed) : NULL;
    if (enqueue == NULL || ids == NULL || (has_firings && is_removed == NULL)) {
        status = error_out_of_memory(error);
    } else {
        enqueue->store = postgres_of(store);
        enqueue->requests = requests;
        enqueue->results = results;
        enqueue->ids = ids;
        enqueue->count = count;
        enqueue->repeated = false;
        enqueue->is_removed = is_removed;
        enqueue->is_refused = false;
        enqueue->wait_text[0] = '\0';
        if (store->enqueue_wait_us > 0) {
            (void)snprintf(enqueue->wait_text, sizeof enqueue->wait_text, "%" PRId64 "ms",
                           store->enqueue_wait_us / MICROSECONDS_PER_MS);
        }
        status = enqueue_checked_requests(enqueue, error);
    }
    free(is_removed);
    free(ids);
    free(enqueue);
    return status;
}
