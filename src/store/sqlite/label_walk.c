/* Walks along the index of labels.
 *
 * 1. Of the labels of the filter, choose the one with the fewest entries, as far as LABEL_WINDOW_ROWS of them show it.
 * 2. One value in one workspace has its entries in the order of the ids: walk along them, at most a window.
 * 3. Few entries in another order, those of a beginning or of all workspaces, are sorted.
 * 4. Of many such entries a sort would cost more with each of them. They are a good part of all labels, so walk along the
 *    primary key of the labels, and read a window of it.
 * 5. Look up the other labels of each execution.
 *
 * So no statement reads more entries than a window has, whatever the filter is. The other conditions of the filter are
 * those of the caller.
 */
#include "store/sqlite/label_walk.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

/* --- the choice --- */

static bool condition_is_one(const struct label_condition *condition, int64_t workspace_id)
{
    return workspace_id != 0 && !condition->is_prefix;
}

/* The number of entries that match, counted up to `most`. */
static enum weir_status count_entries(struct connection *connection, const struct label_condition *condition,
                                      int64_t workspace_id, int64_t most, int64_t *ret_number, struct weir_error *error)
{
    struct label_bounds bounds;
    label_condition_bounds(condition, &bounds);
    return connection_read_integer(connection, error, ret_number, QUERY_COUNT_LABELLED, "itttii", workspace_id,
                                   condition->name, bounds.from, bounds.end, most, (int64_t)LABEL_WINDOW_ROWS);
}

/* Step 1. An id of the filter bounds the walk along the primary key, so nothing needs to be counted. */
static enum weir_status choose_way(struct connection *connection, const struct label_span *span, struct label_walk *walk,
                                   struct weir_error *error)
{
    int64_t least = LABEL_WINDOW_ROWS;
    size_t place = 0;
    enum weir_status status = WEIR_OK;
    walk->way = LABEL_WAY_ALL;
    for (size_t i = 0; i < walk->count && span->filter->id == NULL && status == WEIR_OK; i++) {
        bool is_one = condition_is_one(&walk->conditions[i], span->workspace_id);
        int64_t number = LABEL_WINDOW_ROWS;
        if (walk->count > 1 || !is_one) {
            status = count_entries(connection, &walk->conditions[i], span->workspace_id, least, &number, error);
        }
        if (status == WEIR_OK && (number < least || (is_one && walk->way == LABEL_WAY_ALL))) {
            walk->way = is_one ? LABEL_WAY_ONE : LABEL_WAY_FEW;
            place = i;
            least = number;
        }
    }
    struct label_condition first = walk->conditions[0];
    walk->conditions[0] = walk->conditions[place];
    walk->conditions[place] = first;
    return status;
}

/* Labelled executions stay in the index after their end, so a walk for living ones alone begins with the queue. */
static enum weir_status skip_history(struct connection *connection, struct label_walk *walk, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_FIRST_LIVE_ID, "");
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        const char *first = column_text(statement, 0);
        if (strcmp(first, walk->low) > 0) {
            text_copy(walk->low, sizeof walk->low, first);
        }
    } else {
        walk->high[0] = '\0'; /* the queue is empty */
    }
    (void)sqlite3_reset(statement);
    return status;
}

/* --- the walk --- */

/* Step 4: the id with which the window ends, of whatever label and workspace. */
static enum weir_status end_label_window(struct connection *connection, bool descending, struct label_walk *walk,
                                         struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement =
        connection_bind(connection, error, descending ? QUERY_LABEL_WINDOW_DESCENDING : QUERY_LABEL_WINDOW_ASCENDING, "tti",
                        walk->low, walk->high, (int64_t)LABEL_WINDOW_ROWS);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        text_copy(walk->window_end, sizeof walk->window_end, column_text(statement, 0));
        reading_end_millisecond(walk->window_end, descending); /* the caller gets it as a cursor */
    }
    (void)sqlite3_reset(statement);
    if (descending ? strcmp(walk->window_end, walk->low) <= 0 : strcmp(walk->window_end, walk->high) >= 0) {
        walk->window_end[0] = '\0'; /* the ids of the filter end before the window does */
    }
    if (walk->window_end[0] != '\0' && descending) {
        text_copy(walk->low, sizeof walk->low, walk->window_end);
    } else if (walk->window_end[0] != '\0') {
        (void)snprintf(walk->high, sizeof walk->high, "%s ", walk->window_end);
    }
    return status;
}

enum weir_status label_walk_begin(struct connection *connection, const struct label_span *span, struct label_walk *ret_walk,
                                  struct weir_error *error)
{
    INVARIANT(span->filter != NULL && span->from != NULL && span->below != NULL && ret_walk != NULL);
    static const enum sqlite_query queries[][2] = {
        [LABEL_WAY_ONE] = {QUERY_LABELLED_IDS_ASCENDING, QUERY_LABELLED_IDS_DESCENDING},
        [LABEL_WAY_FEW] = {QUERY_LABELLED_FEW_ASCENDING, QUERY_LABELLED_FEW_DESCENDING},
        [LABEL_WAY_ALL] = {QUERY_LABELLED_ALL_ASCENDING, QUERY_LABELLED_ALL_DESCENDING}};
    struct label_walk *walk = ret_walk;
    *walk = (struct label_walk){.count = 0};
    text_copy(walk->low, sizeof walk->low, span->from);
    text_copy(walk->high, sizeof walk->high, span->below);
    walk->count = label_conditions_of(span->filter, walk->conditions);
    INVARIANT(walk->count > 0);
    enum weir_status status = choose_way(connection, span, walk, error);
    if (status == WEIR_OK && span->only_living) {
        status = skip_history(connection, walk, error);
    }
    if (status == WEIR_OK && walk->way == LABEL_WAY_ALL) {
        status = end_label_window(connection, span->descending, walk, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    label_condition_bounds(&walk->conditions[0], &walk->values);
    walk->entries = connection_bind(connection, error, queries[walk->way][span->descending], "ittttti", span->workspace_id,
                                    walk->conditions[0].name, walk->values.from, walk->values.end, walk->low, walk->high,
                                    (int64_t)LABEL_WINDOW_ROWS);
    return walk->entries == NULL ? statement_failure(error) : WEIR_OK;
}

/* Step 5. */
static enum weir_status has_other_labels(struct connection *connection, const struct label_walk *walk, const char *id,
                                         bool *ret_has, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 1; i < walk->count && status == WEIR_OK; i++) {
        int64_t one = 0;
        struct label_bounds bounds;
        label_condition_bounds(&walk->conditions[i], &bounds);
        status = connection_read_integer(connection, error, &one, QUERY_HAS_LABEL, "tttt", id, walk->conditions[i].name,
                                         bounds.from, bounds.end);
    }
    *ret_has = status == WEIR_OK;
    return status == WEIR_NOT_FOUND ? WEIR_OK : status;
}

const char *label_walk_next(struct connection *connection, struct label_walk *walk, enum weir_status *status,
                            struct weir_error *error)
{
    INVARIANT(walk->entries != NULL && status != NULL);
    bool has = false;
    while (*status == WEIR_OK && !has) {
        if (!connection_step(connection, walk->entries, status, error)) {
            break;
        }
        text_copy(walk->last, sizeof walk->last, column_text(walk->entries, 0));
        walk->examined++;
        *status = has_other_labels(connection, walk, walk->last, &has, error);
    }
    if (!has && walk->way == LABEL_WAY_ONE && walk->examined == LABEL_WINDOW_ROWS) {
        text_copy(walk->window_end, sizeof walk->window_end, walk->last);
    }
    return has ? walk->last : NULL;
}

void label_walk_end(struct label_walk *walk)
{
    INVARIANT(walk != NULL);
    (void)sqlite3_reset(walk->entries);
}
