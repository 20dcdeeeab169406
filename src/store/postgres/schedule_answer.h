/* The answer of one round of the scheduler (functions/schedule.sql): rows with a tag become facts, heads, outcomes of
 * assignments and items of this node. schedule.c makes the call and keeps the position in the news.
 *
 * Threads: one at a time, as the handle. All that is allocated is of round->arena. */
#ifndef WEIR_STORE_POSTGRES_SCHEDULE_ANSWER_H
#define WEIR_STORE_POSTGRES_SCHEDULE_ANSWER_H

#include "store/postgres/claimed.h"
#include "store/postgres/link/link.h"

/* The columns of the query `schedule`. functions/schedule.sql describes their meaning for each tag. */
enum {
    ROW_TAG,
    ROW_PLACE,
    ROW_N1,
    ROW_N2,
    ROW_N3,
    ROW_N4,
    ROW_N5,
    ROW_N6,
    ROW_N7,
    ROW_N8,
    ROW_N9,
    ROW_FLAG,
    ROW_ID,
    ROW_NAME,
    ROW_DATA,
    ROW_PLACES,
    ROW_PLAIN,
    ROW_LIST1,
    ROW_LIST2,
    ROW_LIST3,
    ROW_ID_LIST
};

/* The answer of one round while it is read. The caller sets the first five members and zeroes the others. */
struct round {
    struct schedule_call *call;
    struct schedule_answer *answer;
    struct arena *arena; /* of the answer */
    struct item_names *names;
    const PGresult *result;
    struct schedule_head *heads; /* of all reads, one behind the other */
    size_t head_count;
    int64_t fence;            /* of all assignments of the round */
    int64_t claimed_us;       /* the time of these assignments */
    struct claimed_item *own; /* at the place of its assignment; fence 0 = it was not taken for this node */
    size_t own_count;
    bool failed;      /* memory ran out */
    bool is_void;     /* the epoch is over, or the server is another one */
    const char *seen; /* the snapshot up to which news was read; NULL = news is left */
    const char *timeline;
    int more; /* the number of the row `more`, plus 1; 0 = no news is left */
};

/* Allocates the arrays of the answer, by the number of rows and of list elements. False: memory ran out. */
WEIR_MUST_CHECK bool round_allocate(struct round *round);
/* Reads all rows. Sets the outcome of each assignment and the heads of each read. */
void round_read_rows(struct round *round);

#endif
