/* The graph of needs of a definition: an order, a circle, and the set of predecessors of each step. Pure; any thread; at
 * most GRAPH_NODES_MAX nodes, on the stack.
 *
 *   graph_order()         places the nodes whose needs are placed, in index order, pass by pass. When a pass places none,
 *                         every remaining node needs another remaining one: a walk along the needs ends in a circle.
 *   graph_predecessors()  in that order, the set of a node is the union of its needs and their sets; 64 nodes in a word.
 *
 * Both are at most quadratic in the nodes, that is 40,000 steps for the largest definition.
 */
#include "definition/graph.h"

#include <string.h>

#include "base/error.h"

/* Every remaining node needs another remaining one, so a walk along the needs must meet a node twice. */
static size_t find_cycle(const struct graph_node *nodes, const bool *is_placed, size_t start, uint16_t *cycle)
{
    size_t seen_at[GRAPH_NODES_MAX] = {0}; /* position in `cycle`, from 1 */
    size_t length = 0;
    size_t at = start;
    while (seen_at[at] == 0) {
        cycle[length++] = (uint16_t)at;
        seen_at[at] = length;
        const struct graph_node *node = &nodes[at];
        for (size_t i = 0; i < node->needs_count; i++) {
            if (!is_placed[node->needs[i]]) {
                at = node->needs[i];
                break;
            }
        }
    }
    size_t first = seen_at[at] - 1;
    cycle[length++] = (uint16_t)at;
    memmove(cycle, cycle + first, (length - first) * sizeof *cycle);
    return length - first;
}

static bool needs_are_placed(const struct graph_node *node, const bool *is_placed)
{
    for (size_t i = 0; i < node->needs_count; i++) {
        if (!is_placed[node->needs[i]]) {
            return false;
        }
    }
    return true;
}

bool graph_order(const struct graph_node *nodes, size_t count, uint16_t *order, uint16_t *cycle, size_t *ret_cycle_length)
{
    bool is_placed[GRAPH_NODES_MAX] = {false};
    size_t placed = 0;
    INVARIANT(count <= GRAPH_NODES_MAX);
    while (placed < count) {
        size_t before = placed;
        for (size_t i = 0; i < count; i++) {
            if (!is_placed[i] && needs_are_placed(&nodes[i], is_placed)) {
                order[placed++] = (uint16_t)i;
                is_placed[i] = true;
            }
        }
        if (placed == before) {
            size_t start = 0;
            while (is_placed[start]) {
                start++;
            }
            *ret_cycle_length = find_cycle(nodes, is_placed, start, cycle);
            return false;
        }
    }
    return true;
}

void graph_predecessors(const struct graph_node *nodes, size_t count, const uint16_t *order, uint64_t *sets)
{
    INVARIANT(count <= GRAPH_NODES_MAX && order != NULL && sets != NULL);
    memset(sets, 0, count * GRAPH_WORDS_PER_NODE * sizeof *sets);
    for (size_t i = 0; i < count; i++) {
        uint64_t *own = sets + (size_t)order[i] * GRAPH_WORDS_PER_NODE;
        const struct graph_node *node = &nodes[order[i]];
        for (size_t j = 0; j < node->needs_count; j++) {
            const uint64_t *other = sets + (size_t)node->needs[j] * GRAPH_WORDS_PER_NODE;
            for (size_t word = 0; word < GRAPH_WORDS_PER_NODE; word++) {
                own[word] |= other[word];
            }
            own[node->needs[j] / 64] |= UINT64_C(1) << (node->needs[j] % 64);
        }
    }
}

bool graph_precedes(const uint64_t *sets, size_t before, size_t after)
{
    INVARIANT(before < GRAPH_NODES_MAX && after < GRAPH_NODES_MAX);
    return (sets[after * GRAPH_WORDS_PER_NODE + before / 64] >> (before % 64) & 1) != 0;
}
