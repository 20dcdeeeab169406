/* Lists, one execution and the status: the verbs that read for people.
 *
 * Each verb runs named queries and turns their rows into JSON (link/result_json.c); the names of the columns are the keys
 * of the answer. A verb of several statements runs them in one REPEATABLE READ transaction, so that its parts show one
 * state of the store (snapshot_read()).
 *
 * This file never writes, never takes a lock of a row and never starts a transaction that outlives its call. It runs in the
 * thread that has the handle. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "queue/item.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/link/result_json.h"
#include "store/postgres/postgres_store.h"
#include "store/reading.h"
#include "store/postgres/read.h"

enum { BACKING_OFF_MOST = 10000, PREFIX_LEAST = 6, ALL_STATES = 63 };

#define FIRST_ID "00000000-0000-0000-0000-000000000000"
#define LAST_ID "ffffffff-ffff-ffff-ffff-ffffffffffff"

enum weir_status snapshot_pack(json_t *value, json_t **ret_value, struct weir_error *error)
{
    INVARIANT(ret_value != NULL);
    if (value == NULL) {
        return error_out_of_memory(error);
    }
    *ret_value = value;
    return WEIR_OK;
}

enum weir_status snapshot_read(struct link *link, snapshot_body body, const void *request, json_t **ret_value,
                               struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    INVARIANT(link != NULL && body != NULL && ret_value != NULL);
    for (int tries = 0; tries < 2; tries++) {
        status = link_transaction_begin_with(link, QUERY_BEGIN_SNAPSHOT, error);
        if (status == WEIR_OK) {
            status = body(link, request, ret_value, error);
        }
        bool is_lost = status == WEIR_STORE_UNREACHABLE;
        link_transaction_rollback(link);
        if (!is_lost) {
            break;
        }
    }
    return status;
}

/* Returns all rows of a query with an id as its only parameter. */
static enum weir_status read_rows_of_id(struct link *link, enum postgres_query query, const char *id, json_t **ret_rows,
                                        struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status = link_read(link, error, &result, query, "u", id);
    return status == WEIR_OK ? result_rows_json(result, ret_rows, error) : status;
}

/* --- ids --- */

/* Writes the id that begins with `prefix` and ends as `rest`. False: `prefix` is not the beginning of an id. */
static bool complete_id(const char *prefix, const char *rest, char *to)
{
    size_t length = strlen(prefix);
    if (length > UUID_TEXT_LENGTH) {
        return false;
    }
    memcpy(to, rest, UUID_TEXT_MAX);
    for (size_t i = 0; i < length; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? prefix[i] != '-' : isxdigit((unsigned char)prefix[i]) == 0) {
            return false;
        }
        to[i] = (char)tolower((unsigned char)prefix[i]);
    }
    return true;
}

enum weir_status postgres_find_execution(struct link *link, const char *prefix, char *ret_id, struct weir_error *error)
{
    INVARIANT(prefix != NULL && ret_id != NULL);
    char first[UUID_TEXT_MAX];
    char last[UUID_TEXT_MAX];
    PGresult *result = NULL;
    if (strlen(prefix) < PREFIX_LEAST || !complete_id(prefix, FIRST_ID, first) || !complete_id(prefix, LAST_ID, last)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not an execution id", prefix);
        error_hint(error, "give the whole id or its first %d or more characters, as weir list shows them", PREFIX_LEAST);
        return WEIR_INVALID_ARGUMENT;
    }
    enum weir_status status = link_read(link, error, &result, QUERY_IDS_THAT_BEGIN, "uu", first, last);
    if (status != WEIR_OK) {
        return status;
    }
    if (PQntuples(result) == 1) {
        text_copy(ret_id, UUID_TEXT_MAX, result_text(result, 0, 0));
    } else if (PQntuples(result) == 0) {
        first[strlen(prefix)] = '\0';
        status = error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution %s", first);
        error_hint(error, "weir list shows the executions; ended ones are removed after the retention time");
    } else {
        first[strlen(prefix)] = '\0';
        status = error_set(error, WEIR_INVALID_ARGUMENT, "more than one execution begins with %s", first);
        error_hint(error, "give more characters of the id");
    }
    PQclear(result);
    return status;
}

/* --- lists of executions --- */

/* The parameters of page_of_executions and count_executions. */
struct bounds {
    char first[UUID_TEXT_MAX];
    char last[UUID_TEXT_MAX];
    int states;
    int64_t created_before_us;
    int64_t finished_before_us;
};

/* False: the filter names something that is not the beginning of an id, so no execution matches. */
static bool fill_bounds(const struct execution_filter *filter, struct bounds *ret_bounds)
{
    const char *prefix = filter->id == NULL ? "" : filter->id;
    ret_bounds->states = filter->states == 0 ? ALL_STATES : (int)filter->states;
    ret_bounds->created_before_us = filter->created_before_us == 0 ? INT64_MAX : filter->created_before_us;
    ret_bounds->finished_before_us = filter->finished_before_us == 0 ? INT64_MAX : filter->finished_before_us;
    return complete_id(prefix, FIRST_ID, ret_bounds->first) && complete_id(prefix, LAST_ID, ret_bounds->last);
}

/* At most `limit` executions with an id below `below`, newest first. */
static enum weir_status read_execution_page(struct link *link, const struct execution_filter *filter, const char *below,
                                            size_t limit, json_t **ret_rows, struct weir_error *error)
{
    struct bounds bounds;
    PGresult *result = NULL;
    if (!fill_bounds(filter, &bounds)) {
        return snapshot_pack(json_array(), ret_rows, error);
    }
    enum weir_status status =
        link_read(link, error, &result, QUERY_PAGE_OF_EXECUTIONS, "uuutdttttiiiid", below, bounds.first, bounds.last,
                  filter->workspace, bounds.states, filter->workflow, filter->group, filter->error_code,
                  filter->idempotency_key, filter->created_since_us, bounds.created_before_us, bounds.finished_before_us,
                  (int64_t)limit, (int)filter->retried);
    return status == WEIR_OK ? result_rows_json(result, ret_rows, error) : status;
}

/* Appends the rows with the wanted reason to the page until it is full. The cursor becomes the id of the last row that was
 * examined. */
static void keep_matching_rows(const json_t *rows, const struct list_options *options, size_t limit, json_t *items,
                               char *cursor, bool *ret_more)
{
    const char *reason = options->filter.reason;
    for (size_t i = 0; i < json_array_size(rows) && i < limit; i++) {
        json_t *row = json_array_get(rows, i);
        const char *row_reason = json_string_value(json_object_get(row, "pending_reason"));
        if (reason == NULL || (row_reason != NULL && strcmp(row_reason, reason) == 0)) {
            (void)json_array_append(items, row);
        }
        text_copy(cursor, UUID_TEXT_MAX, json_string_value(json_object_get(row, "id")));
        if (json_array_size(items) == limit) {
            *ret_more = *ret_more || i + 1 < json_array_size(rows);
            return;
        }
    }
}

/* Fills one page. The server does not filter by reason, so with a reason several selections may be needed. */
static enum weir_status fill_execution_page(struct link *link, const struct list_options *options, size_t limit,
                                            json_t *items, char *cursor, bool *ret_more, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    *ret_more = true;
    while (status == WEIR_OK && *ret_more && json_array_size(items) < limit) {
        json_t *rows = NULL;
        status = read_execution_page(link, &options->filter, cursor, limit + 1, &rows, error);
        if (status == WEIR_OK) {
            *ret_more = json_array_size(rows) > limit;
            keep_matching_rows(rows, options, limit, items, cursor, ret_more);
        }
        json_decref(rows);
    }
    return status;
}

/* Counts at most LIST_COUNT_MOST executions: a larger number is not exact. */
static enum weir_status count_matching_executions(struct link *link, const struct list_options *options,
                                                  json_int_t *ret_count, bool *ret_exact, struct weir_error *error)
{
    const struct execution_filter *filter = &options->filter;
    struct bounds bounds;
    PGresult *result = NULL;
    *ret_count = 0;
    *ret_exact = true;
    if (!fill_bounds(filter, &bounds)) {
        return WEIR_OK;
    }
    enum weir_status status =
        link_read(link, error, &result, QUERY_COUNT_EXECUTIONS, "uuutdttttiiiidt", LAST_ID, bounds.first, bounds.last,
                  filter->workspace, bounds.states, filter->workflow, filter->group, filter->error_code,
                  filter->idempotency_key, filter->created_since_us, bounds.created_before_us, bounds.finished_before_us,
                  (int64_t)LIST_COUNT_MOST + 1, (int)filter->retried, filter->reason);
    if (status == WEIR_OK) {
        json_int_t seen = result_int(result, 0, 0);
        json_int_t count = result_int(result, 0, 1);
        *ret_exact = seen <= LIST_COUNT_MOST;
        *ret_count = count < LIST_COUNT_MOST ? count : LIST_COUNT_MOST;
        PQclear(result);
    }
    return status;
}

/* One page of executions, and their number if the caller asked for it, in one snapshot. */
static enum weir_status page_executions(struct link *link, const void *request, json_t **ret_page, struct weir_error *error)
{
    const struct list_options *options = request;
    size_t limit = options->limit == 0 ? LIST_LIMIT_DEFAULT : options->limit;
    char cursor[UUID_TEXT_MAX] = LAST_ID;
    bool more = false;
    bool exact = false;
    json_int_t count = 0;
    json_t *items = json_array();
    enum weir_status status = items == NULL ? error_out_of_memory(error) : WEIR_OK;
    if (options->cursor != NULL && options->cursor[0] != '\0') {
        text_copy(cursor, sizeof cursor, options->cursor);
    }
    if (status == WEIR_OK && options->cursor != NULL && options->cursor[0] != '\0' && !uuid_is_valid(options->cursor)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "\"%.64s\" is not a cursor", options->cursor);
        error_hint(error, "give the next_cursor of the previous page");
    }
    if (status == WEIR_OK) {
        status = fill_execution_page(link, options, limit, items, cursor, &more, error);
    }
    if (status == WEIR_OK && options->count) {
        status = count_matching_executions(link, options, &count, &exact, error);
    }
    if (status != WEIR_OK) {
        json_decref(items);
        return status;
    }
    return snapshot_pack(json_pack("{s:o, s:o, s:o, s:b}", "items", items, "next_cursor",
                                   more ? json_string(cursor) : json_null(), "count",
                                   options->count ? json_integer(count) : json_null(), "count_is_exact", (int)exact),
                         ret_page, error);
}

/* --- other lists --- */

/* Events in their order, behind the first `offset` ones. */
static enum weir_status read_event_page(struct link *link, const char *id, int64_t offset, size_t limit,
                                        json_t **ret_events, struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status = link_read(link, error, &result, QUERY_READ_EVENT_ROWS, "uii", id, offset, (int64_t)limit);
    return status == WEIR_OK ? result_rows_json(result, ret_events, error) : status;
}

static enum weir_status page_events(struct link *link, const struct list_options *options, const char *id,
                                    json_t **ret_page, struct weir_error *error)
{
    size_t limit = options->limit == 0 ? LIST_LIMIT_DEFAULT : options->limit;
    int64_t offset = 0;
    json_t *rows = NULL;
    enum weir_status status = reading_event_offset(options->cursor, &offset, error);
    if (status == WEIR_OK) {
        status = read_event_page(link, id, offset, limit + 1, &rows, error);
    }
    return status == WEIR_OK ? reading_page_events(rows, offset, limit, ret_page, error) : status;
}

/* Events may be many and have pages. The steps of an execution are all on one page. */
static enum weir_status page_events_or_steps(struct link *link, const void *request, json_t **ret_page,
                                             struct weir_error *error)
{
    const struct list_options *options = request;
    char id[UUID_TEXT_MAX];
    json_t *items = NULL;
    enum weir_status status = postgres_find_execution(link, options->filter.id, id, error);
    if (status == WEIR_OK && options->kind == LIST_EVENTS) {
        return page_events(link, options, id, ret_page, error);
    }
    if (status == WEIR_OK) {
        status = read_rows_of_id(link, QUERY_READ_STEP_ROWS, id, &items, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    return snapshot_pack(json_pack("{s:o, s:n, s:I, s:b}", "items", items, "next_cursor", "count",
                                   (json_int_t)json_array_size(items), "count_is_exact", 1),
                         ret_page, error);
}

/* A list that is ordered by name, or by the column cursor_key, which is removed from the answer. One statement each. The
 * query returns one row more than the page when the list continues; its last name is the cursor. */
static enum weir_status page_by_name(struct link *link, enum postgres_query query, const struct list_options *options,
                                     json_t **ret_page, struct weir_error *error)
{
    size_t limit = options->limit == 0 ? LIST_LIMIT_DEFAULT : options->limit;
    const char *cursor = options->cursor == NULL ? "" : options->cursor;
    PGresult *result = NULL;
    json_t *items = NULL;
    enum weir_status status = link_read(link, error, &result, query, "tti", options->name, cursor, (int64_t)limit + 1);
    if (status == WEIR_OK) {
        status = result_rows_json(result, &items, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    bool more = json_array_size(items) > limit;
    if (more) {
        (void)json_array_remove(items, limit);
    }
    json_t *last = json_array_get(items, json_array_size(items) - 1);
    const char *key =
        json_string_value(json_object_get(last, json_object_get(last, "cursor_key") != NULL ? "cursor_key" : "name"));
    json_t *next = more && key != NULL ? json_string(key) : json_null();
    size_t i;
    json_t *row;
    json_array_foreach(items, i, row)
    {
        (void)json_object_del(row, "cursor_key");
    }
    return snapshot_pack(json_pack("{s:o, s:o, s:I, s:b}", "items", items, "next_cursor", next, "count",
                                   (json_int_t)json_array_size(items), "count_is_exact", !more && cursor[0] == '\0'),
                         ret_page, error);
}

enum weir_status postgres_list(struct store *store, const struct list_options *options, json_t **ret_page,
                               struct weir_error *error)
{
    INVARIANT(options != NULL && ret_page != NULL);
    struct link *link = link_of(store);
    enum weir_status status;
    switch (options->kind) {
    case LIST_EXECUTIONS:
        return snapshot_read(link, page_executions, options, ret_page, error);
    case LIST_EVENTS:
    case LIST_STEPS:
        return options->filter.id == NULL
                   ? error_set(error, WEIR_INVALID_ARGUMENT, "a list of events or steps needs the id of one execution")
                   : snapshot_read(link, page_events_or_steps, options, ret_page, error);
    case LIST_WORKSPACES:
        return page_by_name(link, QUERY_LIST_WORKSPACES, options, ret_page, error);
    case LIST_PLANS:
        return page_by_name(link, QUERY_LIST_PLANS, options, ret_page, error);
    case LIST_WORKFLOWS:
        return page_by_name(link, QUERY_LIST_WORKFLOWS, options, ret_page, error);
    case LIST_NODES:
        return page_by_name(link, QUERY_LIST_NODES, options, ret_page, error);
    case LIST_LOCKS:
        status = postgres_check_lock_table(postgres_of(store), link, error);
        return status != WEIR_OK ? status : page_by_name(link, QUERY_LIST_LOCKS, options, ret_page, error);
    case LIST_GROUPS:
        return page_by_name(link, QUERY_LIST_GROUPS, options, ret_page, error);
    }
    return error_set(error, WEIR_MISUSE, "no such list");
}

/* --- one execution --- */

enum weir_status postgres_read_execution(struct link *link, const char *id, json_t **ret_execution,
                                         struct weir_error *error)
{
    INVARIANT(id != NULL && ret_execution != NULL);
    PGresult *result = NULL;
    enum weir_status status = link_read(link, error, &result, QUERY_READ_EXECUTION, "u", id);
    json_t *execution = NULL;
    if (status == WEIR_OK && PQntuples(result) == 1) {
        execution = result_json(result, 0, 0);
        status = execution == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    PQclear(result);
    if (status == WEIR_OK) {
        *ret_execution = execution;
    }
    return status;
}

enum weir_status refuse_missing_execution(const char *id, struct weir_error *error)
{
    INVARIANT(id != NULL);
    return error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution %s", id);
}

/* An execution without a row of params has the params {}. */
static enum weir_status add_execution_params(struct link *link, json_t *execution, const char *id, struct weir_error *error)
{
    PGresult *result = NULL;
    json_t *params = NULL;
    enum weir_status status = link_read(link, error, &result, QUERY_READ_PARAMS, "u", id);
    if (status != WEIR_OK) {
        return status;
    }
    if (PQntuples(result) == 0) {
        params = json_object();
    } else {
        size_t length = 0;
        unsigned char *bytes = PQunescapeBytea((const unsigned char *)PQgetvalue(result, 0, 0), &length);
        status = bytes == NULL ? error_out_of_memory(error) : json_read((const char *)bytes, length, &params, error);
        PQfreemem(bytes);
    }
    PQclear(result);
    if (status == WEIR_OK && json_object_set_new(execution, "params", params) != 0) {
        status = error_out_of_memory(error);
    }
    return status;
}

/* The rows of one query as a member of the execution. */
static enum weir_status add_execution_part(struct link *link, json_t *execution, const char *key, enum postgres_query query,
                                           const char *id, struct weir_error *error)
{
    json_t *rows = NULL;
    enum weir_status status = read_rows_of_id(link, query, id, &rows, error);
    if (status == WEIR_OK && json_object_set_new(execution, key, rows) != 0) {
        status = error_out_of_memory(error);
    }
    return status;
}

/* The last SHOW_EVENTS_MOST events, and the number of the earlier ones. */
static enum weir_status add_last_events(struct link *link, json_t *execution, const char *id, struct weir_error *error)
{
    json_t *events = NULL;
    int64_t count = 0;
    enum weir_status status = link_read_integer(link, error, &count, QUERY_COUNT_EVENT_ROWS, "u", id);
    int64_t earlier = count > SHOW_EVENTS_MOST ? count - SHOW_EVENTS_MOST : 0;
    if (status == WEIR_OK) {
        status = read_event_page(link, id, earlier, SHOW_EVENTS_MOST, &events, error);
    }
    return status == WEIR_OK ? reading_add_events(execution, events, earlier, error) : status;
}

/* The parts of `weir show`, one statement each. */
static enum weir_status build_execution(struct link *link, const void *request, json_t **ret_execution,
                                        struct weir_error *error)
{
    char id[UUID_TEXT_MAX];
    json_t *execution = NULL;
    enum weir_status status = postgres_find_execution(link, request, id, error);
    if (status == WEIR_OK) {
        status = postgres_read_execution(link, id, &execution, error);
    }
    if (status == WEIR_OK && execution == NULL) {
        status = refuse_missing_execution(id, error);
    }
    if (status == WEIR_OK) {
        status = add_execution_params(link, execution, id, error);
    }
    if (status == WEIR_OK) {
        status = add_execution_part(link, execution, "steps", QUERY_READ_STEP_ROWS, id, error);
    }
    if (status == WEIR_OK) {
        status = add_execution_part(link, execution, "earlier_attempts", QUERY_READ_ATTEMPT_ROWS, id, error);
    }
    if (status == WEIR_OK) {
        status = add_last_events(link, execution, id, error);
    }
    if (status != WEIR_OK) {
        json_decref(execution);
        return status;
    }
    *ret_execution = execution;
    return WEIR_OK;
}

enum weir_status postgres_show(struct store *store, const char *id, json_t **ret_execution, struct weir_error *error)
{
    INVARIANT(id != NULL && ret_execution != NULL);
    return snapshot_read(link_of(store), build_execution, id, ret_execution, error);
}

/* --- status --- */

/* Lists every reason of queue/item.h, with 0 where no item has it. */
static enum weir_status add_all_reasons(json_t *status_json, struct weir_error *error)
{
    json_t *counted = json_object_get(status_json, "pending_reasons");
    json_t *reasons = json_object();
    for (unsigned i = 0; i < PENDING_REASON_COUNT; i++) {
        const char *name = pending_reason_name((enum pending_reason)i);
        json_t *count = json_object_get(counted, name);
        (void)json_object_set_new(reasons, name, count == NULL ? json_integer(0) : json_incref(count));
    }
    return json_object_set_new(status_json, "pending_reasons", reasons) == 0 ? WEIR_OK : error_out_of_memory(error);
}

/* One statement computes everything but the facts of this connection, which are added here. */
enum weir_status postgres_status(struct store *store, size_t workspaces_max, json_t **ret_status, struct weir_error *error)
{
    INVARIANT(ret_status != NULL);
    PGresult *result = NULL;
    enum weir_status status = link_read(link_of(store), error, &result, QUERY_STATUS, "iii", (int64_t)workspaces_max,
                                        (int64_t)BACKING_OFF_MOST, (int64_t)STATUS_GROUPS_MOST);
    if (status != WEIR_OK) {
        return status;
    }
    json_t *answer = result_json(result, 0, 0);
    PQclear(result);
    status = answer == NULL ? error_out_of_memory(error) : add_all_reasons(answer, error);
    const struct postgres_store *self = postgres_of(store);
    const char *mode = address_optional_tls(self->address);
    json_t *server = json_object_get(answer, "server");
    if (status == WEIR_OK && (json_object_set_new(server, "tls", json_boolean(link_has_tls(&self->link))) != 0 ||
                              (mode != NULL && json_object_set_new(server, "optional_tls", json_string(mode)) != 0))) {
        status = error_out_of_memory(error);
    }
    if (status == WEIR_OK && (json_object_set_new(answer, "store", json_string(store->url)) != 0 ||
                              json_object_set_new(answer, "schema", json_integer(POSTGRES_MIGRATION_COUNT)) != 0)) {
        status = error_out_of_memory(error);
    }
    if (status != WEIR_OK) {
        json_decref(answer);
        return status;
    }
    *ret_status = answer;
    return WEIR_OK;
}
