/* The balances: a table of fixed size with linear probing. An entry is removed when its balance is 0, and the entries
 * behind it move up, so that no search meets a gap. */
#include "queue/early_ends.h"

#include <string.h>

#include "base/error.h"

static size_t balance_home(int64_t lane_id)
{
    return (size_t)(((uint64_t)lane_id * UINT64_C(0x9E3779B97F4A7C15)) >> 52) % EARLY_ENDS_PLACES;
}

/* The place of the lane, or the free one where it belongs. The table is never more than half full. */
static size_t balance_place(const struct early_ends *ends, int64_t lane_id)
{
    size_t place = balance_home(lane_id);
    while (ends->lanes[place] != 0 && ends->lanes[place] != lane_id) {
        place = (place + 1) % EARLY_ENDS_PLACES;
    }
    return place;
}

static void balance_remove(struct early_ends *ends, size_t place)
{
    size_t gap = place;
    for (size_t next = (place + 1) % EARLY_ENDS_PLACES; ends->lanes[next] != 0; next = (next + 1) % EARLY_ENDS_PLACES) {
        size_t way = (next + EARLY_ENDS_PLACES - balance_home(ends->lanes[next])) % EARLY_ENDS_PLACES;
        if (way >= (next + EARLY_ENDS_PLACES - gap) % EARLY_ENDS_PLACES) {
            ends->lanes[gap] = ends->lanes[next];
            ends->balances[gap] = ends->balances[next];
            gap = next;
        }
    }
    ends->lanes[gap] = 0;
    ends->balances[gap] = 0;
    ends->count--;
}

/* False: the table is full, and the lane is not in it. */
static bool balance_set(struct early_ends *ends, size_t place, int64_t lane_id, int64_t balance)
{
    bool is_new = ends->lanes[place] == 0;
    if (balance == 0) {
        if (!is_new) {
            balance_remove(ends, place);
        }
        return true;
    }
    if (is_new && ends->count == EARLY_ENDS_LANES_MOST) {
        ends->is_full = true;
        return false;
    }
    ends->count += is_new;
    ends->lanes[place] = lane_id;
    ends->balances[place] = balance;
    ends->is_behind = ends->is_behind || balance < 0;
    return true;
}

void early_ends_clear(struct early_ends *ends)
{
    INVARIANT(ends != NULL);
    memset(ends, 0, sizeof *ends);
}

bool early_ends_record(struct early_ends *ends, int64_t lane_id)
{
    INVARIANT(ends != NULL && lane_id > 0);
    size_t place = balance_place(ends, lane_id);
    int64_t balance = ends->balances[place];
    return balance_set(ends, place, lane_id, balance + 1) && balance >= 0;
}

int64_t early_ends_news(struct early_ends *ends, int64_t lane_id, int64_t slots)
{
    INVARIANT(ends != NULL && lane_id > 0 && slots > 0);
    size_t place = balance_place(ends, lane_id);
    int64_t balance = ends->balances[place];
    int64_t before = balance > 0 ? balance : 0;
    (void)balance_set(ends, place, lane_id, balance - slots); /* when it is full, a new generation begins */
    return slots > before ? slots - before : 0;
}

void early_ends_forget(struct early_ends *ends)
{
    INVARIANT(ends != NULL);
    for (size_t place = 0; place < EARLY_ENDS_PLACES; place++) {
        while (ends->lanes[place] != 0 && ends->balances[place] < 0) {
            balance_remove(ends, place);
        }
    }
    ends->is_behind = false;
    ends->is_full = false;
}
