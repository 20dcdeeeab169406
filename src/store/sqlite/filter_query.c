/* Selects executions by a filter, in the order of their ids, from the queue and from the history.
 *
 *   1. Find the end of the window (store/reading.h): that of the arm whose window is nearer. Both arms end there, so that
 *      the next call goes on behind it.
 *   2. Read at most limit + 1 ids from each of the two tables, in the direction of the walk, behind the cursor.
 *   3. Merge the two sorted runs and cut them at the limit. One id more than the limit proves that the list continues.
 *   4. A filter by a label or a business key walks along the labels instead (label_walk.h). It looks at each id by the
 *      statements of step 2, bounded to that id.
 *   5. A filter by the beginning of an id moves the cursor next to that beginning. SQLite starts its walk at the first
 *      bound of the key that a statement has, so else one look-up would pass over all older executions.
 *
 * An execution is in one of the two tables within a snapshot, so that no id appears twice. It only reads, in the
 * caller's transaction and thread.
 */
#include "store/sqlite/filter_query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/reading.h"
#include "store/sqlite/label_walk.h"

/* Behind every hex digit and dash. */
#define LAST_ID "~"

/* One read of ids. */
struct walk {
    const struct execution_filter *filter;
    bool descending;
    unsigned states;
    int64_t workspace_id;            /* 0 = any */
    const char *after;               /* always a bound of the walk: never "" when it descends */
    char from[UUID_TEXT_MAX + 2];    /* the ids from here on, */
    char below[UUID_TEXT_MAX + 2];   /* and below this */
    char window_end[UUID_TEXT_MAX];  /* no id behind it is read; "" = the walk has no end before that of the store */
    char nearest[UUID_TEXT_MAX + 2]; /* the text of `after`, if the filter moves it */
};

/* The queries of an arm, by the direction of the walk: ascending, descending. */
enum arm_kind { ARM_LIVING, ARM_HELD, ARM_ENDED, ARM_FAILED, ARM_LIVING_CHILDREN, ARM_ENDED_CHILDREN };
static const struct arm {
    enum sqlite_query ids[2];
    enum sqlite_query window[2];
    bool has_window;
} arms[] = {
    [ARM_LIVING] = {{QUERY_LIVE_IDS_ASCENDING, QUERY_LIVE_IDS_DESCENDING},
                    {QUERY_LIVE_WINDOW_ASCENDING, QUERY_LIVE_WINDOW_DESCENDING},
                    true},
    [ARM_HELD] = {{QUERY_HELD_IDS_ASCENDING, QUERY_HELD_IDS_DESCENDING}, {0, 0}, false},
    [ARM_ENDED] = {{QUERY_ENDED_IDS_ASCENDING, QUERY_ENDED_IDS_DESCENDING},
                   {QUERY_ENDED_WINDOW_ASCENDING, QUERY_ENDED_WINDOW_DESCENDING},
                   true},
    [ARM_FAILED] = {{QUERY_FAILED_IDS_ASCENDING, QUERY_FAILED_IDS_DESCENDING},
                    {QUERY_FAILED_WINDOW_ASCENDING, QUERY_FAILED_WINDOW_DESCENDING},
                    true},
    [ARM_LIVING_CHILDREN] = {{QUERY_LIVE_CHILDREN_ASCENDING, QUERY_LIVE_CHILDREN_DESCENDING}, {0, 0}, false},
    [ARM_ENDED_CHILDREN] = {{QUERY_ENDED_CHILDREN_ASCENDING, QUERY_ENDED_CHILDREN_DESCENDING}, {0, 0}, false},
};

/* There may be few held ones beside many that wait, so they have arms of their own, as have failed ones. The children of
 * one execution, which are at most CHILDREN_OF_PARENT_MOST, need no window either. */
static const struct arm *living_arm(const struct walk *walk)
{
    if (walk->filter->parent != NULL) {
        return &arms[ARM_LIVING_CHILDREN];
    }
    bool all_held = walk->filter->id == NULL && (walk->states & (1U << ITEM_PENDING | 1U << ITEM_WAITING)) == 0;
    return &arms[all_held ? ARM_HELD : ARM_LIVING];
}

static const struct arm *ended_arm(const struct walk *walk)
{
    if (walk->filter->parent != NULL) {
        return &arms[ARM_ENDED_CHILDREN];
    }
    return &arms[(walk->states & ITEM_STATES_ENDED) == 1U << ITEM_FAILED ? ARM_FAILED : ARM_ENDED];
}

static bool is_behind_id(bool descending, const char *id, const char *other)
{
    return descending ? strcmp(id, other) < 0 : strcmp(id, other) > 0;
}

enum weir_status filter_end_window(struct connection *connection, enum sqlite_query query, const char *after,
                                   bool descending, char end[UUID_TEXT_MAX], struct weir_error *error)
{
    INVARIANT(connection != NULL && after != NULL && end != NULL);
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(connection, error, query, "ti", after, (int64_t)WINDOW_ROWS);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        const char *id = column_text(statement, 0);
        if (id != NULL && (end[0] == '\0' || is_behind_id(descending, end, id))) {
            text_copy(end, UUID_TEXT_MAX, id);
        }
    }
    (void)sqlite3_reset(statement);
    return status;
}

static enum weir_status end_window(struct connection *connection, const struct arm *arm, struct walk *walk,
                                   struct weir_error *error)
{
    return arm->has_window ? filter_end_window(connection, arm->window[walk->descending], walk->after, walk->descending,
                                               walk->window_end, error)
                           : WEIR_OK;
}

/* Reads ids of one arm. */
static enum weir_status read_arm(struct connection *connection, const struct arm *arm, const struct walk *walk,
                                 size_t limit, char (*ids)[UUID_TEXT_MAX], size_t *ret_count, struct weir_error *error)
{
    const struct execution_filter *filter = walk->filter;
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    sqlite3_stmt *statement = connection_bind(
        connection, error, arm->ids[walk->descending], "tidttttiittiiddtdtdtiiit", walk->after, walk->workspace_id,
        (int)walk->states, filter->workflow, filter->group, filter->error_code, filter->idempotency_key,
        filter->created_since_us, filter->created_before_us == 0 ? INT64_MAX : filter->created_before_us, walk->from,
        walk->below, filter->finished_before_us == 0 ? INT64_MAX : filter->finished_before_us, (int64_t)limit,
        (int)filter->retried, (int)filter->stuck, filter->waiting_for, (int)filter->dismissed, filter->parent,
        filter->version, filter->node, reading_longer_than(filter), reading_shorter_than(filter), filter->as_of_us,
        filter->error_text);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (walk->workspace_id == 0) {
        (void)sqlite3_bind_null(statement, 2);
    }
    while (count < limit && connection_step(connection, statement, &status, error)) {
        text_copy(ids[count++], UUID_TEXT_MAX, column_text(statement, 0));
    }
    (void)sqlite3_reset(statement);
    *ret_count = count;
    return status;
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
 * bound of the key that a statement has, and that is the cursor. Without this each look at one id would pass all that
 * are older. */
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

/* The bounds that follow from the filter alone. */
static enum weir_status begin_walk(struct connection *connection, struct walk *walk, struct weir_error *error)
{
    const struct execution_filter *filter = walk->filter;
    const char *prefix = filter->id == NULL ? "" : filter->id;
    walk->states = reading_states(filter);
    walk->after = walk->descending && walk->after[0] == '\0' ? LAST_ID : walk->after;
    text_copy(walk->from, UUID_TEXT_MAX, prefix);
    (void)snprintf(walk->below, sizeof walk->below, "%s" LAST_ID, prefix);
    if (prefix[0] != '\0') {
        const char *bound = before_prefix(prefix, walk->descending, walk->nearest, sizeof walk->nearest);
        walk->after = is_behind_id(walk->descending, bound, walk->after) ? bound : walk->after;
    } else if (filter->ids_before_us != 0) {
        reading_first_id(filter->ids_before_us, walk->below);
    }
    walk->workspace_id = filter->workspace_id;
    if (filter->workspace == NULL || filter->workspace_id != 0) {
        return WEIR_OK;
    }
    enum weir_status status =
        connection_read_integer(connection, error, &walk->workspace_id, QUERY_FIND_WORKSPACE, "t", filter->workspace);
    walk->states = status == WEIR_NOT_FOUND ? 0 : walk->states;
    return status == WEIR_NOT_FOUND ? WEIR_OK : status;
}

/* Ends the walk with its window. The bounds include the last id of it. */
static enum weir_status bound_walk(struct connection *connection, bool has_living, bool has_ended, struct walk *walk,
                                   struct weir_error *error)
{
    enum weir_status status = has_living ? end_window(connection, living_arm(walk), walk, error) : WEIR_OK;
    if (status == WEIR_OK && has_ended) {
        status = end_window(connection, ended_arm(walk), walk, error);
    }
    if (status == WEIR_OK && walk->window_end[0] != '\0') {
        reading_end_millisecond(walk->window_end, walk->descending);
    }
    if (!walk->descending && strcmp(walk->window_end, walk->below) >= 0) {
        walk->window_end[0] = '\0'; /* the ids of the filter end before the window does */
    }
    if (walk->window_end[0] != '\0' && walk->descending) {
        text_copy(walk->from, sizeof walk->from, walk->window_end);
    } else if (walk->window_end[0] != '\0') {
        (void)snprintf(walk->below, sizeof walk->below, "%s" LAST_ID, walk->window_end);
    }
    return status;
}

/* --- by labels --- */

/* Whether the execution meets the other conditions of the walk. */
static enum weir_status matches_walk(struct connection *connection, const struct walk *walk, const char *id,
                                     bool *ret_matches, struct weir_error *error)
{
    char found[1][UUID_TEXT_MAX];
    char behind[UUID_TEXT_MAX + 2];
    size_t count = 0;
    enum weir_status status = WEIR_OK;
    struct walk one = *walk;
    bool has_parent = walk->filter->parent != NULL;
    one.descending = true;
    one.after = behind;
    (void)snprintf(behind, sizeof behind, "%s" LAST_ID, id);
    text_copy(one.below, sizeof one.below, behind);
    text_copy(one.from, sizeof one.from, id);
    if ((walk->states & ~(unsigned)ITEM_STATES_ENDED) != 0) {
        status = read_arm(connection, &arms[has_parent ? ARM_LIVING_CHILDREN : ARM_LIVING], &one, 1, found, &count, error);
    }
    if (status == WEIR_OK && count == 0 && (walk->states & ITEM_STATES_ENDED) != 0) {
        status = read_arm(connection, &arms[has_parent ? ARM_ENDED_CHILDREN : ARM_ENDED], &one, 1, found, &count, error);
    }
    *ret_matches = count == 1;
    return status;
}

/* One id more than the limit proves that the list continues. The bounds of the ids are those of the walk and its cursor. */
static enum weir_status read_labelled(struct connection *connection, const struct walk *walk, size_t limit,
                                      struct selection *selection, struct weir_error *error)
{
    char low[UUID_TEXT_MAX + 2];
    struct label_walk labels;
    struct label_span span = {.filter = walk->filter,
                              .descending = walk->descending,
                              .only_living = (walk->states & ITEM_STATES_ENDED) == 0,
                              .workspace_id = walk->workspace_id,
                              .from = walk->from,
                              .below = walk->below};
    (void)snprintf(low, sizeof low, "%s ", walk->after); /* behind the cursor, and before every other id */
    if (walk->descending) {
        span.below = strcmp(walk->after, walk->below) < 0 ? walk->after : walk->below;
    } else {
        span.from = strcmp(low, walk->from) > 0 ? low : walk->from;
    }
    enum weir_status status = label_walk_begin(connection, &span, &labels, error);
    if (status != WEIR_OK) {
        return status;
    }
    const char *id = NULL;
    while (status == WEIR_OK && selection->count <= limit &&
           (id = label_walk_next(connection, &labels, &status, error)) != NULL) {
        bool matches = false;
        status = matches_walk(connection, walk, id, &matches, error);
        if (status == WEIR_OK && matches) {
            text_copy(selection->ids[selection->count++], UUID_TEXT_MAX, id);
        }
    }
    label_walk_end(&labels);
    selection->more = selection->count > limit || labels.window_end[0] != '\0';
    text_copy(selection->next, sizeof selection->next,
              selection->count > limit ? selection->ids[limit - 1] : labels.window_end);
    selection->count = selection->count > limit ? limit : selection->count;
    return status;
}

static enum weir_status select_labelled(struct connection *connection, const struct walk *walk, size_t limit,
                                        struct selection *ret_selection, struct weir_error *error)
{
    struct selection selection = {.ids = calloc(limit + 1, UUID_TEXT_MAX), .workspace_id = walk->workspace_id};
    if (selection.ids == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = walk->states == 0 ? WEIR_OK : read_labelled(connection, walk, limit, &selection, error);
    if (status != WEIR_OK) {
        free(selection.ids);
        return status;
    }
    *ret_selection = selection;
    return WEIR_OK;
}

/* --- the choice --- */

enum weir_status filter_select_ids(struct connection *connection, const struct execution_filter *filter, const char *after,
                                   bool descending, size_t limit, struct selection *ret_selection, struct weir_error *error)
{
    INVARIANT(filter != NULL && after != NULL && limit > 0 && ret_selection != NULL);
    struct walk walk = {.filter = filter, .descending = descending, .after = after};
    struct selection selection = {0};
    size_t arm = limit + 1;
    size_t live = 0;
    size_t ended = 0;
    enum weir_status status = begin_walk(connection, &walk, error);
    bool has_living = (walk.states & ~(unsigned)ITEM_STATES_ENDED) != 0;
    bool has_ended = (walk.states & ITEM_STATES_ENDED) != 0;
    if (status == WEIR_OK && (filter->business_key != NULL || filter->label_count > 0)) {
        return select_labelled(connection, &walk, limit, ret_selection, error);
    }
    if (status == WEIR_OK && reading_has_windows(filter)) {
        status = bound_walk(connection, has_living, has_ended, &walk, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    char(*ids)[UUID_TEXT_MAX] = calloc(3 * arm, UUID_TEXT_MAX);
    if (ids == NULL) {
        return error_out_of_memory(error);
    }
    if (has_living) {
        status = read_arm(connection, living_arm(&walk), &walk, arm, ids, &live, error);
    }
    if (status == WEIR_OK && has_ended) {
        status = read_arm(connection, ended_arm(&walk), &walk, arm, ids + arm, &ended, error);
    }
    if (status != WEIR_OK) {
        free(ids);
        return status;
    }
    selection.count = merge(ids, live, ids + arm, ended, descending, limit, ids + 2 * arm);
    memmove(ids, ids + 2 * arm, selection.count * UUID_TEXT_MAX);
    selection.ids = ids;
    selection.workspace_id = walk.workspace_id;
    selection.more = live + ended > limit || walk.window_end[0] != '\0';
    text_copy(selection.next, sizeof selection.next, live + ended > limit ? ids[limit - 1] : walk.window_end);
    *ret_selection = selection;
    return WEIR_OK;
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

enum weir_status filter_has_reason(struct connection *connection, const char *id, const char *reason, bool *ret_has,
                                   struct weir_error *error)
{
    INVARIANT(reason != NULL && ret_has != NULL);
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_REASON_OF, "t", id);
    enum weir_status status = WEIR_OK;
    *ret_has = false;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        const char *its = column_text(statement, 0);
        *ret_has = its != NULL && strcmp(its, reason) == 0;
        (void)sqlite3_reset(statement);
    }
    return status;
}

enum weir_status filter_parse_state(const char *id, const char *status_text, int64_t lane_id, enum item_state *ret_state,
                                    struct weir_error *error)
{
    INVARIANT(ret_state != NULL);
    if (status_text != NULL && item_state_parse(status_text, ret_state) && lane_id > 0) {
        return WEIR_OK;
    }
    error_set(error, WEIR_STORE_CORRUPT, "the row of execution %s was altered: its status is \"%.20s\", its lane %lld", id,
              status_text == NULL ? "" : status_text, (long long)lane_id);
    error_hint(error, "find the program that wrote to the file; `weir store check` lists the damage");
    return WEIR_STORE_CORRUPT;
}
