/* The next lane: weighted stride scheduling among lanes (Waldspurger and Weihl, 1995).
 *
 * Every lane has a pass; the lane with the smallest pass takes the next item and its pass grows by STRIDE_ONE / weight. A
 * lane that was empty or full for long comes back at the pass of its group, so it can neither save up turns nor be punished
 * for having rested. Pure; any thread.
 */
#ifndef WEIR_QUEUE_FAIR_SHARE_H
#define WEIR_QUEUE_FAIR_SHARE_H

#include <stddef.h>
#include <stdint.h>

/* Divisible by every weight up to 16; a pass lasts for 2^63 / STRIDE_ONE = 10^13 turns. */
#define STRIDE_ONE ((int64_t)720720)

struct lane_share {
    int64_t lane_id;
    int64_t pass;  /* in: where the lane stands; out: after its turns */
    int weight;    /* at least 1 */
    int64_t room;  /* free slots: no more turns than this */
    int64_t turns; /* out: items to take */
};

/* Deals `items` turns to `count` lanes that are sorted by (pass, lane_id). The order of the turns is the stride order; ties
 * go to the smaller lane_id. Returns how many were dealt (less than `items` when room ran out). */
size_t fair_share_deal(struct lane_share *lanes, size_t count, size_t items);
/* The pass after giving back `turns` that found no item. */
int64_t fair_share_give_back(int64_t pass, int weight, int64_t turns);

#endif
