/* The news: which lanes a transaction changes, and how. Collected in memory, inserted once before the commit.
 *
 * Each verb that changes the queue notes every change of a row here. news_write() then inserts one row for each kind of
 * change, with the sums per lane as JSON (table news). The scheduler reads these rows, and folds them into the books
 * (books.c) when it has read them. So books + news = rows of the queue after every commit, and no counter is updated per
 * item.
 *
 * Owner and thread: the verb that runs; the struct is on its stack. Bounded: with NEWS_ENTRIES_MOST entries the rows are
 * inserted early, and the collection goes on empty.
 *
 * This module never reads the queue and never decides; a caller that forgets to note a change breaks `weir store check`.
 */
#ifndef WEIR_STORE_SQLITE_NEWS_H
#define WEIR_STORE_SQLITE_NEWS_H

#include "store/sqlite/connection.h"

enum news_kind {
    NEWS_ENQUEUED = 1,
    NEWS_ASSIGNED,    /* written by the scheduler; it does not read them */
    NEWS_PUT_BACK,    /* node_id held the rows */
    NEWS_ENDED,       /* node_id held the rows; 0 = no node */
    NEWS_HANDED_OVER, /* node_id has lost the rows; their slots stay taken */
    NEWS_PROMOTED,    /* written by the scheduler; it does not read them */
    NEWS_ACT,         /* something may be allowed no more: no assignment before it was read */
    NEWS_STATE        /* groups or nodes changed in a way that only adds room */
};

/* Whether the transaction adds its changes to the stream (stream.h). */
enum stream_use { STREAM_USE_UNKNOWN, STREAM_IS_READ, STREAM_IS_NOT_READ };

/* The change of one lane's counters by a transaction. The order is that of the JSON arrays. */
struct lane_delta {
    int64_t lane_id;
    int64_t runnable;
    int64_t least_rank; /* of rows that became runnable; 0 without any */
    int64_t held;
    int64_t completed;
    int64_t waiting;
    int64_t failed;
    int64_t cancelled;
    int64_t node_held; /* items that the node of the row holds; NEWS_HANDED_OVER */
    int64_t parked;
};
enum { LANE_DELTA_FIELDS = 10 };

enum {
    NEWS_ENTRIES_MOST = 512,
    NEWS_SLOTS = 2048, /* of the hash table: a power of two, large enough that it stays mostly empty */
    NEWS_WORKSPACES_MOST = 64
};

struct news_entry {
    enum news_kind kind;
    int64_t node_id;
    struct lane_delta delta;
};

struct news {
    int64_t now_us;
    enum stream_use stream_use;
    struct news_entry entries[NEWS_ENTRIES_MOST];
    size_t count;
    uint16_t slots[NEWS_SLOTS]; /* open addressing: 1 + the index of an entry above, 0 = free */
    int64_t due_us;             /* earliest due_at of rows that began to wait; TIME_NEVER = none */
    int64_t woken_us;           /* earliest due_at of rows that wait shorter than before; TIME_NEVER = none */
    bool has_act;
    bool any_workspace; /* the act may have changed the limits of any */
    bool has_state;
    int64_t workspaces[NEWS_WORKSPACES_MOST];
    size_t workspace_count;
    int64_t slots_freed;       /* over all rows that were written */
    struct lane_delta refused; /* for a lane that no row can have: never written */
};

void news_init(struct news *news, int64_t now_us);
/* The counters of the lane, to be added to. Never NULL: with too many entries the rows are inserted first, and a failure of
 * that goes to *ret_status unless it has one. WEIR_STORE_CORRUPT: the lane comes from a row that another program altered.
 */
struct lane_delta *news_lane(struct news *news, struct connection *connection, enum news_kind kind, int64_t node_id,
                             int64_t lane_id, enum weir_status *ret_status, struct weir_error *error);
/* A row of the lane became runnable, or waits until `due_us`: PENDING, or WAITING. */
void news_add_runnable(struct lane_delta *delta, int64_t rank);
void news_add_waiting(struct news *news, struct lane_delta *delta, int64_t due_us);
void news_add_parked(struct news *news, struct lane_delta *delta, int64_t due_us);
/* A held row of the lane has lost its node, and waits to be assigned anew. */
enum weir_status news_hand_over(struct news *news, struct connection *connection, int64_t node_id, int64_t lane_id,
                                struct weir_error *error);
/* The limits of a workspace changed. */
void news_act_workspace(struct news *news, int64_t workspace_id);
/* Those of any may have. */
void news_act_any(struct news *news);
/* A pause of the queue, a group or a node. */
void news_act(struct news *news);
void news_state(struct news *news);
/* Rows that waited longer are due at `due_us`. */
void news_wake(struct news *news, int64_t due_us);
/* Inserts everything and empties the collection. */
enum weir_status news_write(struct news *news, struct connection *connection, struct weir_error *error);

/* Reads the JSON text of `lanes`: *at is moved behind each lane. False at its end; *ret_bad when the text is damaged. */
bool news_next_lane(const char **at, struct lane_delta *ret_delta, bool *ret_bad);

#endif
