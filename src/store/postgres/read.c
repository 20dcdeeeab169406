/* Lists, one execution and the status: the verbs that read for people.
 *
 * Each verb runs named queries and turns their rows into JSON (link/result_json.c); the names of the columns are the keys
 * of the answer. A verb of several statements runs them in one REPEATABLE READ transaction, so that its parts show one
 * state of the store (snapshot_read()).
 *
 * This file never writes, never takes a lock of a row and never starts a transaction that outlives its call. It runs in the
 * thread that has the handle. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/label_walk.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/link/result_json.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/queue_order.h"
#include "store/postgres/read.h"
#include "store/postgres/slot_timeline.h"
#include "store/reading.h"

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

enum weir_status postgres_find_execution(struct link *link, const char *prefix, char *ret_id, struct weir_error *error)
{
    INVARIANT(prefix != NULL && ret_id != NULL);
    char lower[UUID_TEXT_MAX];
    char first[UUID_TEXT_MAX];
    char last[UUID_TEXT_MAX];
    PGresult *result = NULL;
    enum weir_status status = reading_check_id(prefix, lower, error);
    if (status != WEIR_OK) {
        return status;
    }
    bool is_prefix = reading_complete_id(lower, UUID_FIRST, first) && reading_complete_id(lower, UUID_LAST, last);
    INVARIANT(is_prefix);
    status = link_read(link, error, &result, QUERY_IDS_THAT_BEGIN, "uu", first, last);
    if (status != WEIR_OK) {
        return status;
    }
    const char *ids[IDS_NAMED_MAX + 1];
    size_t count = (size_t)PQntuples(result);
    INVARIANT(count <= IDS_NAMED_MAX + 1); /* the LIMIT of the query */
    for (size_t i = 0; i < count; i++) {
        ids[i] = result_text(result, (int)i, 0);
    }
    status = reading_check_matches(ids, count, lower, error);
    if (status == WEIR_OK) {
        text_copy(ret_id, UUID_TEXT_MAX, result_text(result, 0, 0));
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
    char window_end[UUID_TEXT_MAX]; /* "" = the list ends with the ids of the filter */
    struct label_walk labels;
};

/* False: the filter names something that is not the beginning of an id, so no execution matches. */
static bool fill_bounds(const struct execution_filter *filter, struct bounds *ret_bounds)
{
    const char *prefix = filter->id == NULL ? "" : filter->id;
    ret_bounds->states = (int)reading_states(filter);
    ret_bounds->created_before_us = filter->created_before_us == 0 ? INT64_MAX : filter->created_before_us;
    ret_bounds->finished_before_us = filter->finished_before_us == 0 ? INT64_MAX : filter->finished_before_us;
    ret_bounds->window_end[0] = '\0';
    label_walk_fill(filter, &ret_bounds->labels);
    return reading_complete_id(prefix, UUID_FIRST, ret_bounds->first) &&
           reading_complete_id(prefix, UUID_LAST, ret_bounds->last);
}

enum weir_status postgres_find_window_end(struct link *link, enum postgres_query query, const char *from, unsigned states,
                                          char ret_end[UUID_TEXT_MAX], struct weir_error *error)
{
    INVARIANT(link != NULL && from != NULL && ret_end != NULL);
    PGresult *result = NULL;
    enum weir_status status = link_read(link, error, &result, query, "uid", from, (int64_t)WINDOW_ROWS - 1, (int)states);
    ret_end[0] = '\0';
    if (status == WEIR_OK && !PQgetisnull(result, 0, 0)) {
        text_copy(ret_end, UUID_TEXT_MAX, result_text(result, 0, 0));
    }
    PQclear(result);
    return status;
}

/* Ends the list with its window, whose last id is a part of it. */
static enum weir_status end_with_window(struct link *link, const struct execution_filter *filter, const char *below,
                                        struct bounds *bounds, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    if (bounds->labels.count > 0) {
        const struct label_span span = {
            .behind = below, .first = bounds->first, .last = bounds->last, .states = (unsigned)bounds->states};
        status = label_walk_choose(link, filter, &span, &bounds->labels, bounds->window_end, error);
    } else if (reading_has_windows(filter)) {
        status = postgres_find_window_end(link, QUERY_WINDOW_DESCENDING, below, (unsigned)bounds->states,
                                          bounds->window_end, error);
        if (bounds->window_end[0] != '\0') {
            reading_end_millisecond(bounds->window_end, true);
        }
    }
    if (strcmp(bounds->window_end, bounds->first) <= 0) {
        bounds->window_end[0] = '\0'; /* the ids of the filter end before the window does */
    }
    if (bounds->window_end[0] != '\0') {
        text_copy(bounds->first, sizeof bounds->first, bounds->window_end);
    }
    return status;
}

/* struct execution_rows, read: one row more than `limit` shows that the list continues. */
static enum weir_status read_chosen_executions(void *context, const struct execution_filter *filter, const char *below,
                                               size_t limit, json_t **ret_rows, bool *ret_more,
                                               char ret_next[UUID_TEXT_MAX], struct weir_error *error)
{
    struct bounds bounds;
    PGresult *result = NULL;
    *ret_more = false;
    if (!fill_bounds(filter, &bounds)) {
        return reading_return_json(json_array(), ret_rows, error);
    }
    enum weir_status status = end_with_window(context, filter, below, &bounds, error);
    if (status == WEIR_OK) {
        status = link_read(context, error, &result, QUERY_PAGE_OF_EXECUTIONS, "uuutdttttiiiiddtdudtiiitdTTT", below,
                           bounds.first, bounds.last, filter->workspace, bounds.states, filter->workflow, filter->group,
                           filter->error_code, filter->idempotency_key, filter->created_since_us, bounds.created_before_us,
                           bounds.finished_before_us, (int64_t)limit + 1, (int)filter->retried, (int)filter->stuck,
                           filter->waiting_for, (int)filter->dismissed, filter->parent, filter->version, filter->node,
                           reading_longer_than(filter), reading_shorter_than(filter), filter->as_of_us, filter->error_text,
                           bounds.labels.way, bounds.labels.names, bounds.labels.count, bounds.labels.froms,
                           bounds.labels.count, bounds.labels.ends, bounds.labels.count);
    }
    if (status == WEIR_OK) {
        status = result_rows_json(result, ret_rows, error);
    }
    if (status == WEIR_OK) {
        const char *next = bounds.window_end;
        *ret_more = next[0] != '\0';
        if (json_array_size(*ret_rows) > limit) {
            (void)json_array_remove(*ret_rows, limit);
            next = json_string_value(json_object_get(json_array_get(*ret_rows, limit - 1), "id"));
            *ret_more = true;
        }
        text_copy(ret_next, UUID_TEXT_MAX, next == NULL ? "" : next);
    }
    return status;
}

/* struct execution_rows, count. One more than the limit is chosen, and not examined: it shows that others follow. */
static enum weir_status count_chosen_executions(void *context, const struct execution_filter *filter, const char *below,
                                                size_t limit, struct execution_count *ret_count, struct weir_error *error)
{
    struct bounds bounds;
    PGresult *result = NULL;
    *ret_count = (struct execution_count){.more = false};
    if (!fill_bounds(filter, &bounds)) {
        return WEIR_OK;
    }
    enum weir_status status = end_with_window(context, filter, below, &bounds, error);
    if (status == WEIR_OK) {
        status = link_read(context, error, &result, QUERY_COUNT_EXECUTIONS, "uuutdttttiiiiddtdudtiiitdTTTt", below,
                           bounds.first, bounds.last, filter->workspace, bounds.states, filter->workflow, filter->group,
                           filter->error_code, filter->idempotency_key, filter->created_since_us, bounds.created_before_us,
                           bounds.finished_before_us, (int64_t)limit + 1, (int)filter->retried, (int)filter->stuck,
                           filter->waiting_for, (int)filter->dismissed, filter->parent, filter->version, filter->node,
                           reading_longer_than(filter), reading_shorter_than(filter), filter->as_of_us, filter->error_text,
                           bounds.labels.way, bounds.labels.names, bounds.labels.count, bounds.labels.froms,
                           bounds.labels.count, bounds.labels.ends, bounds.labels.count, filter->reason);
    }
    if (status == WEIR_OK) {
        size_t examined = (size_t)result_int(result, 0, 0);
        bool is_cut = examined > limit;
        ret_count->examined = is_cut ? limit : examined;
        ret_count->matched = (size_t)result_int(result, 0, 1);
        ret_count->more = is_cut || bounds.window_end[0] != '\0';
        text_copy(ret_count->next, sizeof ret_count->next, is_cut ? result_text(result, 0, 2) : bounds.window_end);
    }
    PQclear(result);
    return status;
}

enum weir_status postgres_show_executions(void *context, const char *const *ids, size_t count, json_t **ret_rows,
                                          struct weir_error *error)
{
    INVARIANT(context != NULL && ids != NULL && count > 0 && ret_rows != NULL);
    PGresult *result = NULL;
    enum weir_status status = link_read(context, error, &result, QUERY_EXECUTIONS_OF_IDS, "U", ids, count);
    return status == WEIR_OK ? result_rows_json(result, ret_rows, error) : status;
}

/* One page of executions, and their number if the caller asked for it, in one snapshot. */
static enum weir_status page_executions(struct link *link, const void *request, json_t **ret_page, struct weir_error *error)
{
    const struct execution_rows rows = {
        .read = read_chosen_executions, .count = count_chosen_executions, .context = link, .newest_bound = UUID_LAST};
    const struct list_options *options = request;
    return options->order == ORDER_QUEUE ? postgres_list_queue(link, &rows, options, ret_page, error)
                                         : reading_list_executions(&rows, options, ret_page, error);
}

/* --- other lists --- */

/* Events or actions in their order, behind the position `after`. */
static enum weir_status read_part_rows(struct link *link, enum postgres_query query, const char *id, int64_t after,
                                       size_t limit, json_t **ret_rows, struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status = link_read(link, error, &result, query, "uii", id, after, (int64_t)limit);
    return status == WEIR_OK ? result_rows_json(result, ret_rows, error) : status;
}

static enum weir_status page_part(struct link *link, const struct list_options *options, const char *id, json_t **ret_page,
                                  struct weir_error *error)
{
    bool are_events = options->kind == LIST_EVENTS;
    int64_t after = 0;
    json_t *rows = NULL;
    enum weir_status status = reading_event_offset(options->cursor, &after, error);
    if (status == WEIR_OK) {
        status = read_part_rows(link, are_events ? QUERY_READ_EVENT_ROWS : QUERY_READ_ACTION_ROWS, id, after,
                                options->limit + 1, &rows, error);
    }
    return status == WEIR_OK ? reading_page_part(options->kind, rows, after, options->limit, ret_page, error) : status;
}

/* Events and actions may be many and have pages. The steps of an execution are all on one page. */
static enum weir_status page_events_or_steps(struct link *link, const void *request, json_t **ret_page,
                                             struct weir_error *error)
{
    const struct list_options *options = request;
    char id[UUID_TEXT_MAX];
    json_t *items = NULL;
    enum weir_status status = postgres_find_execution(link, options->filter.id, id, error);
    if (status == WEIR_OK && (options->kind == LIST_ACTIONS || options->kind == LIST_EVENTS)) {
        return page_part(link, options, id, ret_page, error);
    }
    if (status == WEIR_OK) {
        status = read_rows_of_id(link, QUERY_READ_STEP_ROWS, id, &items, error);
    }
    return status == WEIR_OK ? reading_page_steps(items, ret_page, error) : status;
}

/* One row more than the page shows that the list continues. Takes the result. */
static enum weir_status page_of_names(enum weir_status status, PGresult *result, const struct list_options *options,
                                      json_t **ret_page, struct weir_error *error)
{
    json_t *items = NULL;
    if (status == WEIR_OK) {
        status = result_rows_json(result, &items, error);
    }
    return status == WEIR_OK
               ? reading_page_names(items, options->cursor == NULL ? "" : options->cursor, options->limit, ret_page, error)
               : status;
}

/* A list that continues after a name or a column cursor_key. */
static enum weir_status page_by_name(struct link *link, enum postgres_query query, const struct list_options *options,
                                     json_t **ret_page, struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status = link_read(link, error, &result, query, "tti", options->name,
                                        options->cursor == NULL ? "" : options->cursor, (int64_t)options->limit + 1);
    return page_of_names(status, result, options, ret_page, error);
}

static enum weir_status page_workspaces(struct link *link, const struct list_options *options, json_t **ret_page,
                                        struct weir_error *error)
{
    const char *from = NULL;
    char end[PREFIX_END_BYTES];
    PGresult *result = NULL;
    reading_prefix_bounds(options, &from, end);
    enum weir_status status =
        link_read(link, error, &result, QUERY_LIST_WORKSPACES, "ttitt", options->name,
                  options->cursor == NULL ? "" : options->cursor, (int64_t)options->limit + 1, from, end);
    return page_of_names(status, result, options, ret_page, error);
}

static enum weir_status page_definitions(struct link *link, const struct list_options *options, json_t **ret_page,
                                         struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status =
        link_read(link, error, &result, QUERY_LIST_WORKFLOWS, "ttit", options->name,
                  options->cursor == NULL ? "" : options->cursor, (int64_t)options->limit + 1, options->filter.workspace);
    return page_of_names(status, result, options, ret_page, error);
}

/* The acts, newest first. */
static enum weir_status page_acts(struct link *link, const struct list_options *options, json_t **ret_page,
                                  struct weir_error *error)
{
    int64_t below = 0;
    PGresult *result = NULL;
    json_t *items = NULL;
    enum weir_status status = reading_act_bound(options->cursor, &below, error);
    if (status == WEIR_OK) {
        status = link_read(link, error, &result, QUERY_LIST_AUDIT, "tiiitt", options->name, below,
                           (int64_t)options->limit + 1, options->filter.created_since_us, options->actor, options->act);
    }
    if (status == WEIR_OK) {
        status = result_rows_json(result, &items, error);
    }
    return status == WEIR_OK
               ? reading_page_names(items, options->cursor == NULL ? "" : options->cursor, options->limit, ret_page, error)
               : status;
}

/* The server probes the primary key once for each id of the array. */
enum weir_status postgres_find_living(struct store *store, const char *const *ids, size_t count, bool *ret_is_living,
                                      struct weir_error *error)
{
    INVARIANT(ids != NULL && ret_is_living != NULL);
    PGresult *result = NULL;
    enum weir_status status = link_read(link_of(store), error, &result, QUERY_LIVING_EXECUTIONS, "U", ids, count);
    if (status != WEIR_OK) {
        return status;
    }
    memset(ret_is_living, 0, count * sizeof *ret_is_living);
    for (int row = 0; row < PQntuples(result); row++) {
        ret_is_living[result_int(result, row, 0) - 1] = true;
    }
    PQclear(result);
    return WEIR_OK;
}

enum weir_status postgres_find_in_workspaces(struct store *store, const char *id, const char *const *workspaces,
                                             size_t count, bool *ret_is_there, struct weir_error *error)
{
    INVARIANT(id != NULL && ret_is_there != NULL);
    PGresult *result = NULL;
    enum weir_status status =
        link_read(link_of(store), error, &result, QUERY_EXECUTION_IN_WORKSPACES, "uT", id, workspaces, count);
    if (status == WEIR_OK) {
        *ret_is_there = result_bool(result, 0, 0);
        PQclear(result);
    }
    return status;
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
    case LIST_SLOT_TIMELINE:
        return snapshot_read(link, postgres_list_slot_timeline, options, ret_page, error);
    case LIST_EVENTS:
    case LIST_STEPS:
    case LIST_ACTIONS:
        return options->filter.id == NULL ? error_set(error, WEIR_INVALID_ARGUMENT,
                                                      "a list of events, steps or actions needs the id of one execution")
                                          : snapshot_read(link, page_events_or_steps, options, ret_page, error);
    case LIST_WORKSPACES:
        return page_workspaces(link, options, ret_page, error);
    case LIST_PLANS:
        return page_by_name(link, QUERY_LIST_PLANS, options, ret_page, error);
    case LIST_WORKFLOWS:
        return page_definitions(link, options, ret_page, error);
    case LIST_NODES:
        return page_by_name(link, QUERY_LIST_NODES, options, ret_page, error);
    case LIST_LOCKS:
        status = postgres_check_lock_table(postgres_of(store), link, error);
        return status != WEIR_OK ? status : page_by_name(link, QUERY_LIST_LOCKS, options, ret_page, error);
    case LIST_AUDIT:
        return page_acts(link, options, ret_page, error);
    case LIST_HOOKS:
        return page_by_name(link, QUERY_LIST_HOOKS, options, ret_page, error);
    case LIST_SCHEDULES:
        return page_by_name(link, QUERY_LIST_SCHEDULES, options, ret_page, error);
    case LIST_TOKENS:
        return page_by_name(link, QUERY_LIST_TOKENS, options, ret_page, error);
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

/* An execution without a row of params has the params {}. */
static enum weir_status add_execution_params(struct link *link, json_t *execution, const char *id, struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status = link_read(link, error, &result, QUERY_READ_PARAMS, "u", id);
    if (status != WEIR_OK) {
        return status;
    }
    if (PQntuples(result) == 0) {
        status = reading_add_params(execution, NULL, 0, error);
    } else {
        size_t length = 0;
        unsigned char *bytes = PQunescapeBytea((const unsigned char *)PQgetvalue(result, 0, 0), &length);
        status =
            bytes == NULL ? error_out_of_memory(error) : reading_add_params(execution, (const char *)bytes, length, error);
        PQfreemem(bytes);
    }
    PQclear(result);
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
    int64_t earlier = reading_earlier_events(count);
    if (status == WEIR_OK) {
        status = read_part_rows(link, QUERY_READ_EVENT_ROWS, id, earlier, SHOW_EVENTS_MOST, &events, error);
    }
    return status == WEIR_OK ? reading_add_events(execution, events, earlier, error) : status;
}

/* The last actions of a workflow with states, and the number of those before them. */
static enum weir_status add_last_actions(struct link *link, json_t *execution, const char *id, struct weir_error *error)
{
    PGresult *result = NULL;
    json_t *actions = NULL;
    int64_t after = 0;
    int64_t earlier = 0;
    if (!reading_has_machine(execution)) {
        return WEIR_OK;
    }
    enum weir_status status = link_read(link, error, &result, QUERY_ACTIONS_BEFORE, "ui", id, (int64_t)SHOW_ACTIONS_MOST);
    if (status == WEIR_OK && PQntuples(result) == 1) {
        after = result_int(result, 0, 0);
        earlier = result_int(result, 0, 1);
    }
    PQclear(result);
    if (status == WEIR_OK) {
        status = read_part_rows(link, QUERY_READ_ACTION_ROWS, id, after, SHOW_ACTIONS_MOST, &actions, error);
    }
    return status == WEIR_OK ? reading_add_actions(execution, actions, earlier, error) : status;
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
        status = reading_refuse_missing(id, error);
    }
    if (status == WEIR_OK) {
        status = add_execution_params(link, execution, id, error);
    }
    if (status == WEIR_OK) {
        status = add_execution_part(link, execution, "steps", QUERY_READ_STEP_ROWS, id, error);
    }
    if (status == WEIR_OK) {
        status = add_last_actions(link, execution, id, error);
    }
    if (status == WEIR_OK) {
        status = add_execution_part(link, execution, "earlier_attempts", QUERY_READ_ATTEMPT_ROWS, id, error);
    }
    if (status == WEIR_OK) {
        status = add_execution_part(link, execution, "signals", QUERY_READ_SIGNAL_ROWS, id, error);
    }
    if (status == WEIR_OK) {
        status = add_execution_part(link, execution, "children", QUERY_READ_CHILD_ROWS, id, error);
    }
    if (status == WEIR_OK) {
        status = add_execution_part(link, execution, "parent", QUERY_READ_PARENT_ROWS, id, error);
    }
    if (status == WEIR_OK) {
        status = reading_keep_first(execution, "parent", error);
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

/* One statement computes everything but the facts of this connection, which are added here. */
enum weir_status postgres_status(struct store *store, size_t workspaces_max, json_t **ret_status, struct weir_error *error)
{
    INVARIANT(ret_status != NULL);
    PGresult *result = NULL;
    enum weir_status status =
        link_read(link_of(store), error, &result, QUERY_STATUS, "iiiiiii", (int64_t)workspaces_max,
                  (int64_t)BACKING_OFF_COUNT_MOST, (int64_t)STATUS_GROUPS_MOST, (int64_t)STATUS_UNSERVED_MOST,
                  (int64_t)STATUS_STUCK_MOST, (int64_t)GROUP_LANES_LOOKED_AT, (int64_t)SCHEDULE_LATE_US);
    if (status != WEIR_OK) {
        return status;
    }
    json_t *answer = result_json(result, 0, 0);
    PQclear(result);
    status = answer == NULL ? error_out_of_memory(error)
                            : reading_add_reasons(answer, json_object_get(answer, "pending_reasons"), error);
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
