/* Enqueueing a set: one statement per chunk, a row per request (function enqueue_set).
 *
 * What is alone and starts now is seen by the nodes before it is on disk, and its enqueue waits for the disk while they
 * claim it. Nothing starts too soon by that: a claim that sees it commits behind it in the server's log, so it is on disk
 * before the claim is. With an idempotency key or a given id it is not done, because another enqueue could be told of a
 * duplicate that a crash of the server then undoes; nor behind a pooler, where the next statement may meet another server
 * process, which cannot answer for the first.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/name_suggestions.h"
#include "store/postgres/postgres_store.h"

/* A larger set is still one transaction; a chunk is one message and one array of each kind. */
enum { CHUNK_REQUESTS = 1000, CHUNK_BYTES = 4 * 1024 * 1024 };

/* The arrays of one statement; `places` has the request of each element. */
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
};

struct enqueue {
    struct postgres_store *store;
    const struct enqueue_request *requests;
    struct enqueue_result *results;
    char (*ids)[UUID_TEXT_MAX]; /* of each request; "" = it is not well-formed and its result has the error */
    size_t count;
    bool repeated; /* an earlier send may have been committed */
    struct chunk chunk;
};

/* --- ids --- */

/* Ids begin with their time, and people read lists by id: so it is the store's time by the last answer. */
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

/* Ids are made here and not by the server: a set without an answer is sent again with the same ones. */
static void make_request_ids(struct enqueue *enqueue)
{
    struct uuid_source *uuids = enqueue->store->store.uuids;
    int64_t now_us = clock_boot(clock_system()) + enqueue->store->time_ahead_us;
    for (size_t i = 0; i < enqueue->count; i++) {
        const char *given = enqueue->requests[i].id;
        char *id = enqueue->ids[i];
        if (enqueue->results[i].status != WEIR_OK) {
            continue;
        }
        if (given == NULL && uuids != NULL) {
            uuid_make_from(uuids, now_us, id);
        } else if (given == NULL) {
            uuid_make(now_us, id);
        }
        for (size_t c = 0; given != NULL && c < UUID_TEXT_MAX; c++) {
            id[c] = (char)tolower((unsigned char)given[c]);
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
    chunk->given[at] = request->id != NULL || enqueue->repeated;
    chunk->workspaces[at] = request->workspace;
    chunk->workflows[at] = request->workflow;
    chunk->params[at] = empty ? (struct link_bytes){.data = NULL}
                              : (struct link_bytes){.data = request->params, .length = request->params_length};
    chunk->keys[at] = request->idempotency_key;
    chunk->groups[at] = request->group;
    chunk->default_groups[at] = request->default_group;
    chunk->priorities[at] = request->priority;
    chunk->run_ats[at] = request->run_at_us;
    chunk->bytes += chunk->params[at].length;
}

/* Fills the chunk from request `from` on; the place behind its last one. */
static size_t fill_chunk(struct enqueue *enqueue, size_t from)
{
    size_t place = from;
    enqueue->chunk.count = 0;
    enqueue->chunk.bytes = 0;
    while (place < enqueue->count && enqueue->chunk.count < CHUNK_REQUESTS && enqueue->chunk.bytes < CHUNK_BYTES) {
        if (enqueue->ids[place][0] != '\0') {
            add_request(enqueue, place);
        }
        place++;
    }
    return place;
}

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
    /* Its own id, made by this very call: the first sending went through, and this one is no duplicate. */
    bool own = enqueue->requests[enqueue->chunk.places[at]].id == NULL && strcmp(id, enqueue->chunk.ids[at]) == 0;
    answer->duplicate = result_bool(result, row, 2) && !own;
    text_copy(answer->id, sizeof answer->id, id);
}

/* Waits until the commits of the server process `backend` are on disk. Unknown when only another process can answer: this
 * one may have ended with its server, and its unwritten commits with it. */
static enum weir_status flush_commit(struct link *link, int64_t backend, struct weir_error *error)
{
    PGresult *result = NULL;
    unsigned drops = link->drops; /* a server that was started anew may give the same number to another process */
    struct weir_error why = {.message = "the connection was lost"};
    bool same = link_write(link, &why, &result, QUERY_FLUSH, "") == WEIR_OK && link->drops == drops &&
                result_int(result, 0, 0) == backend;
    PQclear(result);
    if (same) {
        return WEIR_OK;
    }
    error_set(error, WEIR_COMMIT_UNKNOWN, "the store %s did not confirm that it is on disk: %s", link->address->shown,
              why.message);
    return WEIR_COMMIT_UNKNOWN;
}

/* One request alone, which is how most programs enqueue, goes without arrays. */
static enum weir_status send_single_request(const struct chunk *chunk, struct link *link, PGresult **ret_result,
                                            struct weir_error *error)
{
    const int64_t *run_at_us = chunk->run_ats[0] == 0 ? NULL : &chunk->run_ats[0];
    bool ahead =
        !chunk->given[0] && chunk->keys[0] == NULL && run_at_us == NULL && !link->in_transaction && !link->address->pooled;
    PGresult *result = NULL;
    enum weir_status status =
        link_write(link, error, &result, QUERY_ENQUEUE_ONE, "uottbttdpto", chunk->ids[0], (int)chunk->given[0],
                   chunk->workspaces[0], chunk->workflows[0], chunk->params[0].data, chunk->params[0].length,
                   chunk->keys[0], chunk->groups[0], chunk->priorities[0], run_at_us, chunk->default_groups[0], (int)ahead);
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

static enum weir_status send_request_arrays(const struct chunk *chunk, struct link *link, PGresult **ret_result,
                                            struct weir_error *error)
{
    return link_write(link, error, ret_result, QUERY_ENQUEUE_SET, "UOTTBTTDIT", chunk->ids, chunk->count, chunk->given,
                      chunk->count, chunk->workspaces, chunk->count, chunk->workflows, chunk->count, chunk->params,
                      chunk->count, chunk->keys, chunk->count, chunk->groups, chunk->count, chunk->priorities, chunk->count,
                      chunk->run_ats, chunk->count, chunk->default_groups, chunk->count);
}

static enum weir_status send_chunk(struct enqueue *enqueue, struct link *link, struct weir_error *error)
{
    const struct chunk *chunk = &enqueue->chunk;
    PGresult *result = NULL;
    if (chunk->count == 0) {
        return WEIR_OK;
    }
    enum weir_status status = chunk->count == 1 ? send_single_request(chunk, link, &result, error)
                                                : send_request_arrays(chunk, link, &result, error);
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

/* Called again when the transaction lost against another one; every answer is then taken anew. */
static enum weir_status send_all_chunks(struct link *link, void *context, struct weir_error *error)
{
    struct enqueue *enqueue = context;
    enum weir_status status = WEIR_OK;
    for (size_t from = 0; from < enqueue->count && status == WEIR_OK;) {
        from = fill_chunk(enqueue, from);
        status = send_chunk(enqueue, link, error);
    }
    if (status == WEIR_OK && enqueue->repeated) { /* an existing item may not be on disk yet */
        status = link_run(link, error, NULL, QUERY_FLUSH, "");
    }
    return status;
}

static enum weir_status send_request_set(struct enqueue *enqueue, struct weir_error *error)
{
    struct link *link = &enqueue->store->link;
    if (fill_chunk(enqueue, 0) == enqueue->count && !enqueue->repeated) {
        return send_chunk(enqueue, link, error); /* a statement on its own is a transaction */
    }
    return link_transaction(link, send_all_chunks, enqueue, error);
}

static bool check_all_requests(struct enqueue *enqueue, enum weir_status *ret_status, struct weir_error *error)
{
    size_t fine = 0;
    *ret_status = WEIR_OK;
    for (size_t i = 0; i < enqueue->count; i++) {
        struct enqueue_result *result = &enqueue->results[i];
        *result = (struct enqueue_result){.status = WEIR_OK};
        result->status = enqueue_request_check(&enqueue->requests[i], &result->error);
        if (result->status == WEIR_OUT_OF_MEMORY) {
            *ret_status = error_out_of_memory(error);
            return false;
        }
        fine += result->status == WEIR_OK;
    }
    return fine > 0;
}

/* "did you mean", for unknown names. The lists are read once for a set, best effort. */
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

/* A request with neither a key nor an id of the caller would be there twice. A set is there as a whole or not at all. */
static void hint_at_unknown_commit(const struct enqueue *enqueue, struct weir_error *error)
{
    const char *made = NULL;
    for (size_t i = 0; i < enqueue->count && made == NULL; i++) {
        const struct enqueue_request *request = &enqueue->requests[i];
        bool is_own = request->id == NULL && request->idempotency_key == NULL && enqueue->ids[i][0] != '\0';
        made = is_own ? enqueue->ids[i] : NULL;
    }
    if (made == NULL) {
        error_hint(error, "it may or may not have been done; the same call may be repeated");
    } else {
        error_hint(error, "`weir show %s` tells whether it was done; with an idempotency key it could be repeated", made);
    }
}

static enum weir_status enqueue_checked_requests(struct enqueue *enqueue, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    if (!check_all_requests(enqueue, &status, error)) {
        return status;
    }
    status = read_store_time_once(enqueue->store, error);
    if (status != WEIR_OK) {
        return status;
    }
    make_request_ids(enqueue);
    status = send_request_set(enqueue, error);
    if (status == WEIR_COMMIT_UNKNOWN) { /* which it stays unless the second answer arrives */
        struct weir_error second;
        enqueue->repeated = true;
        status = send_request_set(enqueue, &second) == WEIR_OK ? WEIR_OK : WEIR_COMMIT_UNKNOWN;
        if (status != WEIR_OK) {
            hint_at_unknown_commit(enqueue, error);
        }
    }
    if (status == WEIR_OK) {
        suggest_names(enqueue);
    }
    return status;
}

enum weir_status postgres_enqueue(struct store *store, const struct enqueue_request *requests, size_t count,
                                  struct enqueue_result *results, struct weir_error *error)
{
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    (void)link_of(store);
    struct enqueue *enqueue = malloc(sizeof *enqueue);
    char(*ids)[UUID_TEXT_MAX] = calloc(count, UUID_TEXT_MAX);
    if (enqueue == NULL || ids == NULL) {
        status = error_out_of_memory(error);
    } else {
        enqueue->store = postgres_of(store);
        enqueue->requests = requests;
        enqueue->results = results;
        enqueue->ids = ids;
        enqueue->count = count;
        enqueue->repeated = false;
        status = enqueue_checked_requests(enqueue, error);
    }
    free(ids);
    free(enqueue);
    return status;
}
