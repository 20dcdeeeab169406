#include "queue/fair_share.h"

#include <stdbool.h>

static bool goes_before(const struct lane_share *a, const struct lane_share *b)
{
    return a->pass < b->pass || (a->pass == b->pass && a->lane_id < b->lane_id);
}

static void sift_down(struct lane_share *heap, size_t count, size_t at)
{
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
            least = goes_before(&heap[child], &heap[least]) ? child : least;
        }
        if (least == at) {
            return;
        }
        struct lane_share swap = heap[at];
        heap[at] = heap[least];
        heap[least] = swap;
        at = least;
    }
}

/* Sorted input is a heap already; lanes without room go to the end of the array, outside of the heap. */
size_t fair_share_deal(struct lane_share *lanes, size_t count, size_t items)
{
    size_t dealt = 0;
    size_t in_heap = count;
    for (size_t i = 0; i < count; i++) {
        lanes[i].turns = 0;
    }
    while (dealt < items && in_heap > 0) {
        struct lane_share *first = &lanes[0];
        if (first->turns >= first->room) {
            struct lane_share full = *first;
            in_heap--;
            *first = lanes[in_heap];
            lanes[in_heap] = full;
        } else {
            first->turns++;
            first->pass += STRIDE_ONE / first->weight;
            dealt++;
        }
        sift_down(lanes, in_heap, 0);
    }
    return dealt;
}

int64_t fair_share_give_back(int64_t pass, int weight, int64_t turns)
{
    return pass - turns * (STRIDE_ONE / weight);
}
