/* Selects executions by a filter, in the order of their ids, from the queue and from the history.
 *
 *   1. Read at most limit + 1 ids from each of the two tables, in the direction of the walk, behind the cursor.
 *   2. Merge the two sorted runs and cut them at the limit. One id more than the limit proves that the list continues.
 *   3. A filter by the beginning of an id moves the cursor next to that beginning, because SQLite starts its walk at
 *      the first bound of the key that a statement has; otherwise one look-up would pass over all older executions.
 *
 * An execution is in one of the two tables within a snapshot, so that no id appears twice. It only reads, in the
 * caller's transaction and thread.
 */
#include "store/sqlite/filter_query.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/reading.h"

/* Behind every hex digit and dash. */
#define LAST_ID "~"

/* Reads ids of one table, queue or history. */
static enum weir_status read_arm(struct connection *connection, enum sqlite_query query,
                                 const struct execution_filter *filter, int64_t workspace_id, unsigned states,
                                 const char *after, size_t limit, char (*ids)[UUID_TEXT_MAX], size_t *ret_count,
                                 struct weir_error *error)
{
    const char *prefix = filter->id == NULL ? "" : filter->id;
    char below[UUID_TEXT_MAX + 2];
    text_copy(below, UUID_TEXT_MAX, prefix);
    size_t end = strlen(below);
    memcpy(below + end, LAST_ID, sizeof LAST_ID);
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    sqlite3_stmt *statement =
        connection_bind(connection, error, query, "tidttttiittiiddt", after, workspace_id, (int)states, filter->workflow,
                        filter->group, filter->error_code, filter->idempotency_key, filter->created_since_us,
                        filter->created_before_us == 0 ? INT64_MAX : filter->created_before_us, prefix, below,
                        filter->finished_before_us == 0 ? INT64_MAX : filter->finished_before_us, (int64_t)limit,
                        (int)filter->retried, (int)filter->stuck, filter->waiting_for);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (workspace_id == 0) {
        (void)sqlite3_bind_null(statement, 2);
    }
    while (count < limit && connection_step(connection, statement, &status, error)) {
        text_copy(ids[count++], UUID_TEXT_MAX, column_text(statement, 0));
    }
    (void)sqlite3_reset(statement);
    *ret_count = count;
    return status;
}

/* Of the queue. */
static enum sqlite_query query_of_living(const struct execution_filter *filter, unsigned states, bool descending)
{
    bool all_held = filter->id == NULL && (states & (1U << ITEM_PENDING | 1U << ITEM_WAITING)) == 0;
    return all_held     ? descending ? QUERY_HELD_IDS_DESCENDING : QUERY_HELD_IDS_ASCENDING
           : descending ? QUERY_LIVE_IDS_DESCENDING
                        : QUERY_LIVE_IDS_ASCENDING;
}

/* Merges two sorted runs in place of the first; at most `limit` remain. */
static size_t merge(char (*ids)[UUID_TEXT_MAX], size_t first, char (*other)[UUID_TEXT_MAX], size_t second, bool descending,
                    size_t limit, char (*to)[UUID_TEXT_MAX])
{
    size_t a = 0;
    size_t b = 0;
    size_t count = 0;
    while (count < limit && (a < first || b < second)) {
        int order = a == first ? 1 : b == second ? -1 : strcmp(ids[a], other[b]) * (descending ? -1 : 1);
        memcpy(to[count++], order <= 0 ? ids[a++] : other[b++], UUID_TEXT_MAX);
    }
    return count;
}

/* The nearest point before all ids that begin with `prefix`, in the direction of the walk. SQLite walks from the first
 * bound of the key that a statement has, and that is the cursor: without this each look at one id would pass all that are
 * older. */
static const char *before_prefix(const char *prefix, bool descending, char *to, size_t size)
{
    size_t length = strlen(prefix);
    text_copy(to, size - 1, prefix);
    if (!descending) {
        to[length - 1] = (char)(to[length - 1] - 1); /* an id that begins so, and goes on with any digit or dash, is less */
    }
    memcpy(to + strlen(to), LAST_ID, sizeof LAST_ID);
    return to;
}

enum weir_status filter_select_ids(struct connection *connection, const struct execution_filter *filter, const char *after,
                                   bool descending, size_t limit, struct selection *ret_selection, struct weir_error *error)
{
    INVARIANT(filter != NULL && after != NULL && limit > 0 && ret_selection != NULL);
    int64_t workspace_id = 0;
    enum weir_status status = WEIR_OK;
    unsigned states = filter->states == 0 ? ITEM_STATES_ALL : filter->states;
    struct selection selection = {0};
    if (filter->workspace != NULL) {
        status = connection_read_integer(connection, error, &workspace_id, QUERY_FIND_WORKSPACE, "t", filter->workspace);
        if (status == WEIR_NOT_FOUND) {
            *ret_selection = selection;
            return WEIR_OK;
        }
    }
    size_t arm = limit + 1;
    after = descending && after[0] == '\0' ? LAST_ID : after; /* so that the key is always a bound of the walk */
    char nearest[UUID_TEXT_MAX + 2];
    if (filter->id != NULL && filter->id[0] != '\0') {
        const char *bound = before_prefix(filter->id, descending, nearest, sizeof nearest);
        bool is_nearer = descending ? strcmp(bound, after) < 0 : strcmp(bound, after) > 0;
        after = is_nearer ? bound : after;
    }
    char(*ids)[UUID_TEXT_MAX] = calloc(3 * arm, UUID_TEXT_MAX);
    size_t live = 0;
    size_t ended = 0;
    if (ids == NULL) {
        return error_out_of_memory(error);
    }
    if (status == WEIR_OK && (states & ~(unsigned)ITEM_STATES_ENDED) != 0 && filter->finished_before_us == 0) {
        status = read_arm(connection, query_of_living(filter, states, descending), filter, workspace_id, states, after, arm,
                          ids, &live, error);
    }
    if (status == WEIR_OK && (states & ITEM_STATES_ENDED) != 0) {
        enum sqlite_query query = descending ? QUERY_ENDED_IDS_DESCENDING : QUERY_ENDED_IDS_ASCENDING;
        status = read_arm(connection, query, filter, workspace_id, states, after, arm, ids + arm, &ended, error);
    }
    if (status == WEIR_OK) {
        selection.count = merge(ids, live, ids + arm, ended, descending, limit, ids + 2 * arm);
        selection.more = live + ended > limit;
        memmove(ids, ids + 2 * arm, selection.count * UUID_TEXT_MAX);
        selection.ids = ids;
        *ret_selection = selection;
    } else {
        free(ids);
    }
    return status;
}

enum weir_status filter_find_id(struct connection *connection, const char *prefix, char *ret_id, struct weir_error *error)
{
    INVARIANT(prefix != NULL && ret_id != NULL);
    char lower[UUID_TEXT_MAX];
    enum weir_status status = reading_check_id(prefix, lower, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct execution_filter filter = {.id = lower};
    struct selection selection = {.ids = NULL};
    status = filter_select_ids(connection, &filter, "", false, IDS_NAMED_MAX + 1, &selection, error);
    if (status != WEIR_OK) {
        return status;
    }
    const char *ids[IDS_NAMED_MAX + 1];
    for (size_t i = 0; i < selection.count; i++) {
        ids[i] = selection.ids[i];
    }
    status = reading_check_matches(ids, selection.count, lower, error);
    if (status == WEIR_OK) {
        memcpy(ret_id, selection.ids[0], UUID_TEXT_MAX);
    }
    free(selection.ids);
    return status;
}

enum weir_status filter_parse_state(const char *id, const char *status_text, int64_t lane_id, enum item_state *ret_state,
                                    struct weir_error *error)
{
    if (status_text != NULL && item_state_parse(status_text, ret_state) && lane_id > 0) {
        return WEIR_OK;
    }
    error_set(error, WEIR_STORE_CORRUPT, "the row of execution %s was altered: its status is \"%.20s\", its lane %lld", id,
              status_text == NULL ? "" : status_text, (long long)lane_id);
    error_hint(error, "find out who wrote to the file; `weir store check` lists what is wrong");
    return WEIR_STORE_CORRUPT;
}
