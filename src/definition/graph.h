/* The graph of needs between the steps of a definition: an order to run in, or the circle that forbids one; and the
 * steps before each step. Pure; at most GRAPH_NODES_MAX nodes. Any thread. */
#ifndef WEIR_DEFINITION_GRAPH_H
#define WEIR_DEFINITION_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GRAPH_NODES_MAX = 200, GRAPH_WORDS_PER_NODE = (GRAPH_NODES_MAX + 63) / 64 };

struct graph_node {
    const uint16_t *needs; /* indexes of nodes */
    size_t needs_count;
};

/* Fills `order` (`count` entries) so that each node stands behind all that it needs, in index order where that leaves a
 * choice. False when nodes need each other in a circle: `cycle` (count + 1 entries) then holds one, *ret_cycle_length
 * nodes, each needing the next, the last being the first again. */
bool graph_order(const struct graph_node *nodes, size_t count, uint16_t *order, uint16_t *cycle, size_t *ret_cycle_length);
/* Fills `sets` (`count` x GRAPH_WORDS_PER_NODE words): bit b of row n is set when n needs b, directly or not. */
void graph_predecessors(const struct graph_node *nodes, size_t count, const uint16_t *order, uint64_t *sets);
bool graph_precedes(const uint64_t *sets, size_t before, size_t after);

#endif
