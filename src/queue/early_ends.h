/* Slots that the scheduler takes back by the records of its own node, before it reads the news of the same ends. Pure: no
 * I/O, no clock, no thread.
 *
 * The scheduler's node knows of its own durable ends one round before it reads their news. Both sources name the same ends,
 * in any order, so each lane has a balance: the ends by records less the slots given back by news. A slot is given back by
 * the first source that names it. The other one only changes the balance:
 *
 *   record, balance >= 0   give back now; the news will come
 *   record, balance < 0    the news was first
 *   news of n slots        give back what is more than the balance
 *
 * So the slots given back are the larger one of both sums, and never more than the committed ends. News also names slots
 * that no record names here (a park, an act). Its balance stays below zero then, and the lane goes at the pace of its news,
 * until early_ends_forget().
 *
 * A record may be on its way while its news was read already. So lanes with a balance below zero are only dropped together
 * with all records that are under way. The owner begins a new generation then, and passes no record of the last one. */
#ifndef WEIR_QUEUE_EARLY_ENDS_H
#define WEIR_QUEUE_EARLY_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EARLY_ENDS_PLACES = 4096, EARLY_ENDS_LANES_MOST = EARLY_ENDS_PLACES / 2 };

/* A hash table of the lanes with a balance other than 0. */
struct early_ends {
    int64_t lanes[EARLY_ENDS_PLACES]; /* 0 = free */
    int64_t balances[EARLY_ENDS_PLACES];
    size_t count;
    bool is_behind; /* a lane is below zero: it goes at the pace of its news */
    bool is_full;   /* news of a lane was left out: early_ends_forget() is due before the next record is passed */
};

void early_ends_clear(struct early_ends *ends);
/* A record has ended an item of this lane. True: its slot is to be given back now. */
bool early_ends_record(struct early_ends *ends, int64_t lane_id);
/* News gives `slots` of the lane back. Returns how many of them are to be given back now. */
int64_t early_ends_news(struct early_ends *ends, int64_t lane_id, int64_t slots);
/* Drops the lanes below zero. Of records that began before it none may be passed any more. */
void early_ends_forget(struct early_ends *ends);

#endif
