/* Reading for people, the part that does not depend on the database. It has pages and their cursors, ids that are given
 * in part, and the parts of an execution that become JSON. A driver reads rows; the functions here make of them what
 * store.h promises.
 *
 * Ownership: a function that "takes over" a JSON value frees it on failure too, unless its comment gives the exception.
 * All functions may be called from any thread; they hold no state.
 */
#ifndef WEIR_STORE_READING_H
#define WEIR_STORE_READING_H

#include "store/labels.h"
#include "store/store.h"

enum {
    EXECUTION_ID_PREFIX_LEAST = 6, /* the shortest beginning of an id that names an execution */
    ITEM_STATES_ALL = 127,         /* a set of all states, as in execution_filter.states */
    ITEM_STATES_ENDED = 112,       /* of the final ones */
    GROUP_LANES_LOOKED_AT = 100,   /* store_status() reads the first items of so many lanes of a group, for their age */
    BACKING_OFF_COUNT_MOST = 10000 /* store_status() counts items that back off up to here */
};

/* Sets *ret_value. WEIR_OUT_OF_MEMORY when `value` is NULL, as jansson reports a failed allocation. */
WEIR_MUST_CHECK enum weir_status reading_return_json(json_t *value, json_t **ret_value, struct weir_error *error);

/* --- ids --- */

/* Completes the beginning of an id with the end of `rest`, a whole id, and writes it in small letters. False: `prefix` is
 * not the beginning of any id; `ret_id` is then undefined. */
bool reading_complete_id(const char *prefix, const char *rest, char ret_id[UUID_TEXT_MAX]);
/* Checks an id that a person gave whole or in part, and writes it in small letters. WEIR_INVALID_ARGUMENT: it is too short,
 * or not the beginning of any id. */
WEIR_MUST_CHECK enum weir_status reading_check_id(const char *given, char ret_lower[UUID_TEXT_MAX],
                                                  struct weir_error *error);
/* Checks which executions have an id that begins with `lower`: the first IDS_NAMED_MAX + 1 of them.
 * WEIR_EXECUTION_NOT_FOUND for none; WEIR_INVALID_ARGUMENT for more than one, with IDS_NAMED_MAX ids in the message. */
enum { IDS_NAMED_MAX = 4 };
WEIR_MUST_CHECK enum weir_status reading_check_matches(const char *const *ids, size_t count, const char *lower,
                                                       struct weir_error *error);
/* Fills `error` for a whole id that no row has. Returns WEIR_EXECUTION_NOT_FOUND. */
enum weir_status reading_refuse_missing(const char *id, struct weir_error *error);

/* --- states --- */

/* Whether the steps of the execution are the one of a workflow with states. */
bool reading_has_machine(const json_t *execution);
/* Adds the last actions and the number of those before them. Takes over `actions`, whose variables are texts. */
WEIR_MUST_CHECK enum weir_status reading_add_actions(json_t *execution, json_t *actions, int64_t earlier,
                                                     struct weir_error *error);

/* --- lists of executions --- */

/* Executions are examined in windows of WINDOW_ROWS rows, each by a statement of its own. A filter without an index may
 * pass a million rows before it matches one, and no statement may take that long. A filter without a condition, or by
 * an id, needs no window. */

struct execution_count {
    size_t examined; /* that match the filter without its reason */
    size_t matched;
    bool more; /* others follow, below `next` */
    char next[UUID_TEXT_MAX];
};

/* The rows of a driver for a list of executions. Both functions run inside one state of the store. They examine the ids
 * below `below`, newest first, which is `newest_bound` at first. */
struct execution_rows {
    /* Rows of the view `executions`, at most `limit`. The filter's reason is not applied. *ret_more: there may be others,
     * below `ret_next`. */
    enum weir_status (*read)(void *context, const struct execution_filter *filter, const char *below, size_t limit,
                             json_t **ret_rows, bool *ret_more, char ret_next[UUID_TEXT_MAX], struct weir_error *error);
    /* Counts the executions of one window that match the whole filter, of at most `limit` that match without its reason. */
    enum weir_status (*count)(void *context, const struct execution_filter *filter, const char *below, size_t limit,
                              struct execution_count *ret_count, struct weir_error *error);
    void *context;
    const char *newest_bound; /* a text that is greater than every id */
};

/* The states that a match can have: those of the filter, less the ones that its other conditions rule out. 0 = nothing can
 * match. */
unsigned reading_states(const struct execution_filter *filter);
/* Whether the executions of the filter are examined in windows. */
bool reading_has_windows(const struct execution_filter *filter);
/* The first id of a time, a bound for the ids before it. */
void reading_first_id(int64_t time_us, char ret_id[UUID_TEXT_MAX]);
/* Moves the end of a window to the end of its millisecond, in the direction of the walk. A caller gets it as a cursor, and
 * the id of a row may be that of another tenant's execution. */
void reading_end_millisecond(char id[UUID_TEXT_MAX], bool descending);

/* Whether a row of the view `executions` has the pending reason; true for a reason of NULL. */
bool reading_has_reason(const json_t *row, const char *reason);
/* One page of a list of executions. WEIR_INVALID_ARGUMENT: the cursor is not one. */
WEIR_MUST_CHECK enum weir_status reading_list_executions(const struct execution_rows *rows,
                                                         const struct list_options *options, json_t **ret_page,
                                                         struct weir_error *error);

/* How many executions match the filter of the options, window by window. *ret_exact: no match is left out. */
WEIR_MUST_CHECK enum weir_status reading_count_executions(const struct execution_rows *rows,
                                                          const struct list_options *options, json_int_t *ret_count,
                                                          bool *ret_exact, struct weir_error *error);

/* --- other lists --- */

/* A page of a list that is sorted by `name`, or by a column `cursor_key`, which the page does not show. `rows`: one row
 * more than `limit` if the list continues; the page takes them over. `cursor`: of this page, "" for the first. */
WEIR_MUST_CHECK enum weir_status reading_page_names(json_t *rows, const char *cursor, size_t limit, json_t **ret_page,
                                                    struct weir_error *error);
/* The bounds of the names that begin with options->prefix, in the order of their bytes: from *ret_from on, and below
 * `ret_end`. store_list() has checked the length of the prefix. */
enum { PREFIX_END_BYTES = WORKSPACE_NAME_MAX + 5 };
void reading_prefix_bounds(const struct list_options *options, const char **ret_from, char ret_end[PREFIX_END_BYTES]);
/* All steps of an execution as one page; takes the rows over. */
WEIR_MUST_CHECK enum weir_status reading_page_steps(json_t *rows, json_t **ret_page, struct weir_error *error);
/* The number of events before a page of events. Its cursor is that number in decimal: an event history grows at its end
 * only. */
WEIR_MUST_CHECK enum weir_status reading_event_offset(const char *cursor, int64_t *ret_offset, struct weir_error *error);
/* The number below which a page of acts begins, newest first: the cursor, or the largest number without one. */
WEIR_MUST_CHECK enum weir_status reading_act_bound(const char *cursor, int64_t *ret_below, struct weir_error *error);
/* A page of at most `limit` events or actions behind the position `after`. `rows`: one row more if the list continues; the
 * page takes them over. Variables of actions in them are texts. */
WEIR_MUST_CHECK enum weir_status reading_page_part(enum store_list_kind kind, json_t *rows, int64_t after, size_t limit,
                                                   json_t **ret_page, struct weir_error *error);

/* --- parts of an answer --- */

/* The number of events that `weir show` leaves out, of an execution that has `count`. */
int64_t reading_earlier_events(int64_t count);
/* Adds "events" and "earlier_events" to an execution. Takes the events over. */
WEIR_MUST_CHECK enum weir_status reading_add_events(json_t *execution, json_t *events, int64_t earlier,
                                                    struct weir_error *error);
/* The bounds of a duration that a statement compares with. Without a lower bound a duration of 0 is one, too. */
int64_t reading_longer_than(const struct execution_filter *filter);
int64_t reading_shorter_than(const struct execution_filter *filter);
/* Replaces a list of rows by its first one, or by null. */
WEIR_MUST_CHECK enum weir_status reading_keep_first(json_t *execution, const char *key, struct weir_error *error);
/* Adds "params", given as JSON text of `length` bytes; NULL: the execution has none, which is {}. */
WEIR_MUST_CHECK enum weir_status reading_add_params(json_t *execution, const char *text, size_t length,
                                                    struct weir_error *error);
/* Makes the row of an ended execution the answer to `weir why`. */
void reading_explain_end(json_t *execution);
/* Adds "pending_reasons": a number for each reason of the closed list, 0 for those that `counted` (reason -> number; may be
 * NULL, stays the caller's) does not have. */
WEIR_MUST_CHECK enum weir_status reading_add_reasons(json_t *status_json, const json_t *counted, struct weir_error *error);

#endif
