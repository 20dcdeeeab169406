/* Binary heaps of lanes by (pass, lane_id): the lane at the top has the next turn.
 *
 *   heap->lanes:  index of a lane in its table       lane->at[kind] = place + 1, 0 = not in the heap
 *
 *             [0] pass 3                 The children of place i are at 2i + 1 and 2i + 2.
 *            /          \                No lane goes before its parent.
 *       [1] pass 4    [2] pass 9
 *       /      \
 *   [3] pass 7  [4] pass 4, larger id
 *
 * Each lane knows its place in each heap, so it can be moved or taken out wherever it is. heap_set() and heap_move() are
 * O(log lanes), heap_top() is O(1), heap_rebuild() is O(lanes).
 *
 * Invariants: each lane in a heap is at the place that it knows, and no lane goes before its parent. A heap has memory for
 * every lane of its demand from the moment the lane is made: no operation on the way of an assignment allocates or fails.
 */
#include <stdlib.h>

#include "base/error.h"
#include "queue/scheduler_internal.h"

bool lane_goes_before(const struct lane *a, const struct lane *b)
{
    return a->pass < b->pass || (a->pass == b->pass && a->entry.key < b->entry.key);
}

/* The lane at a place of the heap. */
static struct lane *lane_in(const struct scheduler *scheduler, const struct lane_heap *heap, uint32_t at)
{
    return table_at(&scheduler->lanes, heap->lanes[at]);
}

/* Writes both directions of the relation between place and lane. */
static void put_at(const struct lane_heap *heap, enum heap_kind kind, uint32_t at, struct lane *lane)
{
    heap->lanes[at] = lane->entry.self;
    lane->at[kind] = at + 1;
}

/* Moves parents down until the lane does not go before its parent. */
static void heap_sift_up(const struct scheduler *scheduler, const struct lane_heap *heap, enum heap_kind kind,
                         struct lane *lane)
{
    uint32_t at = lane->at[kind] - 1;
    while (at > 0) {
        uint32_t parent_at = (at - 1) / 2;
        struct lane *parent = lane_in(scheduler, heap, parent_at);
        if (!lane_goes_before(lane, parent)) {
            break;
        }
        put_at(heap, kind, at, parent);
        at = parent_at;
    }
    put_at(heap, kind, at, lane);
}

/* Moves the smaller child up until the lane goes before both children. */
static void heap_sift_down(const struct scheduler *scheduler, const struct lane_heap *heap, enum heap_kind kind,
                           struct lane *lane)
{
    uint32_t at = lane->at[kind] - 1;
    for (;;) {
        uint32_t child_at = 2 * at + 1;
        if (child_at >= heap->count) {
            break;
        }
        struct lane *child = lane_in(scheduler, heap, child_at);
        if (child_at + 1 < heap->count) {
            struct lane *right = lane_in(scheduler, heap, child_at + 1);
            if (lane_goes_before(right, child)) {
                child = right;
                child_at++;
            }
        }
        if (!lane_goes_before(child, lane)) {
            break;
        }
        put_at(heap, kind, at, child);
        at = child_at;
    }
    put_at(heap, kind, at, lane);
}

struct lane *heap_top(const struct scheduler *scheduler, const struct demand *demand, enum heap_kind kind)
{
    INVARIANT(kind < HEAP_KINDS);
    const struct lane_heap *heap = &demand->heaps[kind];
    return heap->count == 0 ? NULL : lane_in(scheduler, heap, 0);
}

void heap_move(struct scheduler *scheduler, struct lane *lane, enum heap_kind kind)
{
    INVARIANT(kind < HEAP_KINDS);
    if (lane->at[kind] == 0) {
        return;
    }
    const struct lane_heap *heap = &lane_demand_of(scheduler, lane)->heaps[kind];
    INVARIANT(lane->at[kind] <= heap->count);
    heap_sift_up(scheduler, heap, kind, lane);
    heap_sift_down(scheduler, heap, kind, lane);
}

/* The last lane fills the gap; it may have to move up or down from there. */
static void heap_take_out(struct scheduler *scheduler, struct lane_heap *heap, struct lane *lane, enum heap_kind kind)
{
    uint32_t at = lane->at[kind] - 1;
    INVARIANT(at < heap->count && heap->lanes[at] == lane->entry.self);
    lane->at[kind] = 0;
    heap->count--;
    if (at < heap->count) {
        struct lane *last = lane_in(scheduler, heap, heap->count);
        put_at(heap, kind, at, last);
        heap_move(scheduler, last, kind);
    }
}

void heap_set(struct scheduler *scheduler, struct lane *lane, enum heap_kind kind, bool is_in)
{
    INVARIANT(kind < HEAP_KINDS && lane->entry.self != 0);
    if (is_in == (lane->at[kind] != 0)) {
        return;
    }
    struct lane_heap *heap = &lane_demand_of(scheduler, lane)->heaps[kind];
    if (is_in) {
        INVARIANT(heap->count < heap->capacity);
        put_at(heap, kind, heap->count, lane);
        heap->count++;
        heap_sift_up(scheduler, heap, kind, lane);
    } else {
        heap_take_out(scheduler, heap, lane, kind);
    }
}

void heap_rebuild(struct scheduler *scheduler, struct demand *demand, enum heap_kind kind)
{
    const struct lane_heap *heap = &demand->heaps[kind];
    INVARIANT(kind < HEAP_KINDS && heap->count <= heap->capacity);
    for (uint32_t at = heap->count / 2; at-- > 0;) {
        heap_sift_down(scheduler, heap, kind, lane_in(scheduler, heap, at));
    }
}

bool heap_reserve(struct scheduler *scheduler, struct demand *demand, uint32_t lanes)
{
    for (int kind = 0; kind < HEAP_KINDS; kind++) {
        struct lane_heap *heap = &demand->heaps[kind];
        if (lanes <= heap->capacity) {
            continue;
        }
        uint32_t capacity = heap->capacity == 0 ? 4 : 2 * heap->capacity;
        INVARIANT(lanes <= capacity);
        uint32_t *places = realloc(heap->lanes, capacity * sizeof *places);
        if (places == NULL) {
            return false;
        }
        scheduler->bytes += (capacity - heap->capacity) * sizeof *places;
        heap->lanes = places;
        heap->capacity = capacity;
    }
    return true;
}
