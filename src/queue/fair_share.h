/* Weighted stride scheduling (Waldspurger and Weihl, 1995), shared by the scheduler and the queues inside of a node.
 *
 * Every lane has a pass. The lane with the smallest pass takes the next item, and its pass grows by STRIDE_ONE / weight. A
 * lane that was empty or full for long comes back at the pass of its pool or queue. So it neither saves up turns nor
 * loses any by having rested.
 */
#ifndef WEIR_QUEUE_FAIR_SHARE_H
#define WEIR_QUEUE_FAIR_SHARE_H

#include <stdint.h>

/* The cost of a turn for a lane of weight 1. Divisible by every weight up to 16; a pass lasts for 2^63 / STRIDE_ONE = 10^13
 * turns. */
#define STRIDE_ONE ((int64_t)720720)

#endif
