/* Sums of the news per lane, in memory: a hash table that grows.
 *
 * Used to fold news into the books and to show counters. Every function that can run out of memory reports it; sums that
 * were added stay.
 */
#ifndef WEIR_STORE_SQLITE_LANE_SUMS_H
#define WEIR_STORE_SQLITE_LANE_SUMS_H

#include "store/sqlite/news.h"

struct lane_sums {
    struct lane_delta *items; /* node_held and least_rank are not summed */
    size_t count;
    size_t capacity;
    uint32_t *slots;   /* open addressing: 1 + the index of an item, 0 = free; twice the capacity, a power of two */
    int64_t only_lane; /* other lanes are left out; 0 = all */
};

/* Adds the counters; lane_id, node_held and least_rank of `to` stay. */
void lane_delta_add(struct lane_delta *to, const struct lane_delta *delta);
void lane_sums_close(struct lane_sums *sums);
WEIR_MUST_CHECK enum weir_status lane_sums_add(struct lane_sums *sums, const struct lane_delta *delta);
/* All lanes of one row of the news. WEIR_STORE_CORRUPT: the text is damaged. */
WEIR_MUST_CHECK enum weir_status lane_sums_add_text(struct lane_sums *sums, const char *lanes);
/* Puts the sums in the order of their ids. Nothing may be added later: the slots are then wrong. */
void lane_sums_sort(struct lane_sums *sums);
/* Of sorted sums: the place of the first lane of the group or of a later one. */
size_t lane_sums_find_group(const struct lane_sums *sums, int64_t group_id);

#endif
