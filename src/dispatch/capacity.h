/* How many items a node takes: the engine's free capacity, bounded by the breaker and by the size of a set.
 * Threads: the dispatch and heartbeat loops; capacity_take_awaited() any. */
#ifndef WEIR_DISPATCH_CAPACITY_H
#define WEIR_DISPATCH_CAPACITY_H

#include "dispatch/node.h"

/* Whether this node starts anything at all now: false while it is paused, drains, stops, has no valid lease or no target.
 */
bool capacity_may_start(struct node *node);
/* How many more items the node takes now: at most one set, and only what the breaker lets through. */
size_t capacity_free(struct node *node, int64_t now_us);
/* Whether the engine has more room than the next set of this size takes, and fills it within a few such sets. */
bool capacity_exceeds_set(struct node *node, size_t set);
/* Whether so many ends are at least all that the engine runs, and at least a set of its whole capacity. */
bool capacity_renews_soon(struct node *node, size_t ended);
/* How many items the node can hold at once, those that it holds included (node_beat.capacity). */
size_t capacity_total(struct node *node);
/* Arranges that the dispatcher runs again when there may be free capacity. Lowers *ret_next_us. */
void capacity_await(struct node *node, int64_t now_us, int64_t *ret_next_us);
/* True when the dispatcher awaited capacity, and awaits it no more: the caller wakes it. */
bool capacity_take_awaited(struct node *node);

#endif
