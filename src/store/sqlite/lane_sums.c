/* Sums of lane changes in memory: a hash table with open addressing that doubles when it is full.
 *
 * The table holds indexes into an array of sums; it has twice as many slots as the array has places, so that a search
 * ends at a free slot. Growing places the indexes anew and keeps the order of the array. With `only_lane` set, changes
 * of other lanes are ignored. It fails only for want of memory or for a text that weir did not write. It belongs to
 * the caller and runs in its thread.
 */
#include "store/sqlite/lane_sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/scheduler.h"

enum { LANE_SUMS_FIRST = 256 };

void lane_sums_close(struct lane_sums *sums)
{
    free(sums->items);
    free(sums->slots);
    *sums = (struct lane_sums){.count = 0};
}

/* The slot of the lane, or the free one where it belongs; there are twice as many slots as items fit. */
static uint32_t *sum_slot_of(uint32_t *slots, const struct lane_delta *items, size_t capacity, int64_t lane_id)
{
    size_t mask = 2 * capacity - 1;
    uint64_t lane = (uint64_t)lane_id;
    size_t at = (size_t)(lane ^ (lane >> 32) * 389) & mask;
    while (slots[at] != 0 && items[slots[at] - 1].lane_id != lane_id) {
        at = (at + 1) & mask;
    }
    return &slots[at];
}

/* Doubles the array and the slots. */
static enum weir_status grow(struct lane_sums *sums)
{
    size_t capacity = sums->capacity == 0 ? LANE_SUMS_FIRST : sums->capacity * 2;
    uint32_t *slots = calloc(2 * capacity, sizeof *slots);
    struct lane_delta *items = malloc(capacity * sizeof *items);
    if (slots == NULL || items == NULL) {
        free(slots);
        free(items);
        return WEIR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < sums->count; i++) {
        items[i] = sums->items[i];
        *sum_slot_of(slots, items, capacity, items[i].lane_id) = (uint32_t)i + 1;
    }
    free(sums->items);
    free(sums->slots);
    sums->items = items;
    sums->slots = slots;
    sums->capacity = capacity;
    return WEIR_OK;
}

void lane_delta_add(struct lane_delta *to, const struct lane_delta *delta)
{
    INVARIANT(to != NULL && delta != NULL);
    to->runnable += delta->runnable;
    to->waiting += delta->waiting;
    to->held += delta->held;
    to->parked += delta->parked;
    to->completed += delta->completed;
    to->failed += delta->failed;
    to->cancelled += delta->cancelled;
}

enum weir_status lane_sums_add(struct lane_sums *sums, const struct lane_delta *delta)
{
    INVARIANT(sums->count <= sums->capacity);
    if (sums->only_lane != 0 && sums->only_lane != delta->lane_id) {
        return WEIR_OK;
    }
    if (sums->count == sums->capacity && grow(sums) != WEIR_OK) {
        return WEIR_OUT_OF_MEMORY;
    }
    uint32_t *slot = sum_slot_of(sums->slots, sums->items, sums->capacity, delta->lane_id);
    if (*slot == 0) {
        sums->items[sums->count] = (struct lane_delta){.lane_id = delta->lane_id};
        *slot = (uint32_t)++sums->count;
    }
    lane_delta_add(&sums->items[*slot - 1], delta);
    return WEIR_OK;
}

enum weir_status lane_sums_add_text(struct lane_sums *sums, const char *lanes)
{
    INVARIANT(sums != NULL);
    struct lane_delta delta;
    bool bad = lanes == NULL;
    enum weir_status status = WEIR_OK;
    while (!bad && status == WEIR_OK && news_next_lane(&lanes, &delta, &bad)) {
        status = lane_sums_add(sums, &delta);
    }
    return bad ? WEIR_STORE_CORRUPT : status;
}

static int compare_lanes(const void *a, const void *b)
{
    int64_t x = ((const struct lane_delta *)a)->lane_id;
    int64_t y = ((const struct lane_delta *)b)->lane_id;
    return x < y ? -1 : x > y;
}

/* Books are read in the order of their ids, so most often there is nothing to sort. */
void lane_sums_sort(struct lane_sums *sums)
{
    INVARIANT(sums != NULL);
    bool is_sorted = true;
    for (size_t i = 1; i < sums->count && is_sorted; i++) {
        is_sorted = sums->items[i - 1].lane_id < sums->items[i].lane_id;
    }
    if (!is_sorted) {
        qsort(sums->items, sums->count, sizeof *sums->items, compare_lanes);
    }
}

/* The ids begin with the group, so its lanes are neighbours. */
size_t lane_sums_find_group(const struct lane_sums *sums, int64_t group_id)
{
    INVARIANT(sums != NULL);
    size_t first = 0;
    size_t end = sums->count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if ((int64_t)lane_group_id(sums->items[middle].lane_id) < group_id) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}
