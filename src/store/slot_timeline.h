/* The timeline of a workspace's slots (LIST_SLOT_TIMELINE): when each of its executions had a slot, and when it waited
 * without one.
 *
 *     claim ------------------ park - - - - - - - - - claim ---------- end
 *           has a slot              WAITING, no slot        has a slot
 *
 * A slot is in use from the claim on, not from the dispatch, and stays so while a dead node's execution is handed over.
 * The row of an execution has the time of its present claim alone. Earlier ones are events.
 *
 * The executions are those that hold a slot, found by an index whatever their age; then those that wait or ended since a
 * time. The latter are found by their ids, newest first, in windows (store/reading.h): the history has no index by
 * workspace and time, since each execution would pay for it. Windows end when the executions of one are older than the
 * time, or after LIST_WINDOWS_MOST. The answer has the time from which on executions were examined.
 *
 * This header has the part that does not depend on the database. It holds no state; any thread may call it.
 */
#ifndef WEIR_STORE_SLOT_TIMELINE_H
#define WEIR_STORE_SLOT_TIMELINE_H

#include "store/reading.h"

enum {
    SLOT_TIMELINE_WAITING_MOST = 50, /* executions that wait, so that they leave room for those that had a slot */
    SLOT_MOVES_MOST = 100,           /* the last moves of one execution that are read, */
    SLOT_EVENTS_MOST = 400           /* among so many of its last events */
};

enum slot_move_kind { SLOT_TAKEN, SLOT_LEFT, SLOT_LEFT_TO_WAIT };

/* An event by which an execution takes or leaves a slot. */
struct slot_move {
    size_t execution; /* its place among those that were asked for */
    int64_t at_us;
    enum slot_move_kind kind;
};

/* False: the event of that name moves nothing. */
bool slot_move_parse(const char *event, enum slot_move_kind *ret_kind);
/* The ids of one kind. */
struct slot_ids {
    char (*ids)[UUID_TEXT_MAX]; /* `most` of them */
    size_t count;
    size_t most;
};

/* The rows of a driver. All functions run inside one state of the store. Each fills ids up to `most`, newest first. */
struct slot_timeline_rows {
    /* Executions of the workspace that hold a slot. */
    enum weir_status (*read_held)(void *context, const char *workspace, struct slot_ids *held, struct weir_error *error);
    /* Executions of one window of ids below `below` that were claimed once: those that wait, and those that ended at
     * `since_us` or later. `ret_end`: the end of the window, "" when no more rows follow. */
    enum weir_status (*read_window)(void *context, const char *workspace, const char *below, int64_t since_us,
                                    struct slot_ids *waiting, struct slot_ids *ended, char ret_end[UUID_TEXT_MAX],
                                    struct weir_error *error);
    /* The rows of the view `executions`, in the order of the ids. */
    enum weir_status (*show)(void *context, const char *const *ids, size_t count, json_t **ret_rows,
                             struct weir_error *error);
    /* The last SLOT_MOVES_MOST moves of each, oldest first, as an array in the order of the executions; the caller frees
     * it. */
    enum weir_status (*read_moves)(void *context, const char *const *ids, size_t count, struct slot_move **ret_moves,
                                   size_t *ret_count, struct weir_error *error);
    void *context;
    const char *newest_bound;
};

/* {"items", "next_cursor": null, "count", "count_is_exact", "examined_since"}. Those that hold a slot come first, then
 * those that wait, then ended ones. count_is_exact: no execution was left out for the limit. examined_since: null = all. */
WEIR_MUST_CHECK enum weir_status slot_timeline_list(const struct slot_timeline_rows *rows,
                                                    const struct list_options *options, json_t **ret_page,
                                                    struct weir_error *error);

#endif
