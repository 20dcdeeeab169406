/* Where a claim may begin to look for ready lanes: no lane stands below that is ready, and none will.
 *
 * A lane that a transaction opens stands where its group stood when the transaction looked, or behind; it is there for
 * others when the transaction commits, and the group may have gone on by then. So the place is where the group stood before
 * the oldest transaction began that still runs. One that runs for longer than PASS_MARK_AGES_US, many times what a record
 * takes, is not waited for: what it opens is found by the full look. Beside an open transaction a claim walks what has died
 * since then.
 *
 * Pure: time is an argument. One thread. */
#ifndef WEIR_STORE_POSTGRES_FIRST_PASS_H
#define WEIR_STORE_POSTGRES_FIRST_PASS_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define PASS_MARK_AGES_US (MICROSECONDS_PER_SECOND / 4)

/* What a claim found: nothing that is ready stood below `pass`, nor did the group. Transactions from `below` on (their ids)
 * began after that; 0 = that is not known. */
struct pass_mark {
    int64_t pass;
    uint64_t below;
};

enum { PASS_MARKS = 16 };

struct first_pass {
    int64_t pass; /* the answer; INT64_MIN: begin at the beginning */
    struct pass_mark aged;
    struct pass_mark next_aged;
    int64_t next_aged_boot_us;          /* then the one takes the place of the other */
    struct pass_mark marks[PASS_MARKS]; /* of the last claims; number n is at n % PASS_MARKS */
    size_t mark_count;                  /* ever */
};

void first_pass_forget(struct first_pass *first);
/* After a claim. `seen` is a snapshot as the server writes it (xmin:xmax:running,...) that was taken before the claim
 * looked; of one that had to be cut short xmax is the oldest that ran; anything else is taken for "all may be running". */
void first_pass_note(struct first_pass *first, struct pass_mark mark, const char *seen, int64_t now_boot_us);

#endif
