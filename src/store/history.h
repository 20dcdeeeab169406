/* The history: rows of figures that the node with the scheduler's role writes (queue/history.h, dispatch/history_duty.h).
 * At most HISTORY_ROWS_MOST rows are kept: one for each minute of the last hour, and one for each ten minutes of a day.
 * store/store.h includes this file. */
#ifndef WEIR_STORE_HISTORY_H
#define WEIR_STORE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/clock.h"
#include "queue/history.h"
#include "weir/status.h"

struct store;

#define HISTORY_KEEP_US (24 * 3600 * MICROSECONDS_PER_SECOND)
/* Rows this far ahead of the store's clock are removed: the clock was set back. */
#define HISTORY_AHEAD_US (600 * MICROSECONDS_PER_SECOND)
enum { HISTORY_ROWS_MOST = 216 };

struct history_row {
    int64_t at_us;   /* the end of its interval, store time */
    int64_t span_us; /* the length of it */
    bool is_folded;  /* the sum of several rows */
    const char *facts;
    size_t length;
};

/* The present counters of the queue. */
struct history_sample {
    int64_t now_us;    /* store time */
    int64_t completed; /* since the store was made; the deletion of a workspace lowers them */
    int64_t failed;
    int64_t cancelled;
    struct history_workspace *workspaces; /* those that use slots or have waiting items, by id */
    size_t workspace_count;
};

struct history_query {
    const char *workspace; /* to find its id; NULL = none */
    int64_t since_us;      /* rows that end after this time ... */
    int64_t until_us;      /* ... and not after this one */
    bool not_folded;       /* without the sums */
    size_t most;           /* the oldest ones; up to HISTORY_ROWS_MOST */
};

struct history_rows {
    struct history_row *rows; /* oldest first */
    size_t count;
    int64_t workspace_id; /* 0 without query->workspace */
};

/* Everything lives in the arena. Errors: those of a store. */
WEIR_MUST_CHECK enum weir_status store_sample_history(struct store *store, struct arena *arena,
                                                      struct history_sample *ret_sample, struct weir_error *error);
/* Inserts a row, and removes the rows that are too old, too many or ahead of the clock. A folded row takes the place of
 * those that end behind `folds_from_us` and not behind its own end. A row that is there already stays. Errors: those of a
 * store; WEIR_NOT_PERMITTED on a handle for reading only. */
WEIR_MUST_CHECK enum weir_status store_write_history(struct store *store, const struct history_row *row,
                                                     int64_t folds_from_us, struct weir_error *error);
/* Everything lives in the arena. WEIR_WORKSPACE_NOT_FOUND; errors of a store. */
WEIR_MUST_CHECK enum weir_status store_read_history(struct store *store, const struct history_query *query,
                                                    struct arena *arena, struct history_rows *ret_rows,
                                                    struct weir_error *error);

#endif
