/* The walk along the labels of a filter: which executions have its first label, in the order of their ids, up to the end of
 * a window (store/reading.h). It only reads, in the caller's transaction and thread. */
#ifndef WEIR_STORE_SQLITE_LABEL_WALK_H
#define WEIR_STORE_SQLITE_LABEL_WALK_H

#include "store/reading.h"
#include "store/sqlite/connection.h"

/* The ids of the walk. */
struct label_span {
    const struct execution_filter *filter;
    bool descending;
    bool only_living;     /* no execution before the first one of the queue can match */
    int64_t workspace_id; /* 0 = any */
    const char *from;     /* the ids from here on, */
    const char *below;    /* and below this */
};

enum label_way {
    LABEL_WAY_ONE = 1, /* one value in one workspace, of which labels_by_value has the order of the ids */
    LABEL_WAY_FEW,     /* at most LABEL_WINDOW_ROWS entries match, in any order; they are sorted */
    LABEL_WAY_ALL      /* all labelled executions between two ids, in their order; those that match are no few of them */
};

/* Its statement refers to its texts, so it must not be copied. */
struct label_walk {
    struct label_condition conditions[LABEL_CONDITIONS_MAX + 1]; /* the first one is walked along */
    size_t count;
    enum label_way way;
    sqlite3_stmt *entries;
    struct label_bounds values;  /* of the first condition */
    char low[UUID_TEXT_MAX + 2]; /* the ids from here on, and below `high` */
    char high[UUID_TEXT_MAX + 2];
    size_t examined;
    char last[UUID_TEXT_MAX];       /* the id that was read last */
    char window_end[UUID_TEXT_MAX]; /* after the last id: where the next window goes on, or "" */
};

/* Begins the walk; on failure there is nothing to end. The filter has a label or a business key. */
WEIR_MUST_CHECK enum weir_status label_walk_begin(struct connection *connection, const struct label_span *span,
                                                  struct label_walk *ret_walk, struct weir_error *error);
/* The next execution with all labels of the filter; NULL at the end of the window, or after a failure, which is *status.
 * The text is valid until the next call. */
const char *label_walk_next(struct connection *connection, struct label_walk *walk, enum weir_status *status,
                            struct weir_error *error);
void label_walk_end(struct label_walk *walk);

#endif
