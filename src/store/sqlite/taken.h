/* Numbers of the queue that a set has taken already: the second change of an item in one set finds no row. Open addressing,
 * 0 = free. Only the slots that the set needs are cleared. Threads: a variable of the caller. */
#ifndef WEIR_STORE_SQLITE_TAKEN_H
#define WEIR_STORE_SQLITE_TAKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

enum { TAKEN_SLOTS = 4096 }; /* a power of two, at least twice RECORD_BATCH_MOST and CLAIM_BATCH_MOST */

struct taken {
    size_t slot_count; /* a power of two */
    int64_t numbers[TAKEN_SLOTS];
};

/* Empties the table for a set of `count`. */
static inline void taken_begin(struct taken *taken, size_t count)
{
    INVARIANT(count <= TAKEN_SLOTS / 2);
    taken->slot_count = 2;
    while (taken->slot_count < 2 * count) {
        taken->slot_count *= 2;
    }
    memset(taken->numbers, 0, taken->slot_count * sizeof taken->numbers[0]);
}

/* False: the number was marked before. */
static inline bool taken_mark(struct taken *taken, int64_t number)
{
    size_t at = (size_t)number & (taken->slot_count - 1);
    while (taken->numbers[at] != 0) {
        if (taken->numbers[at] == number) {
            return false;
        }
        at = (at + 1) & (taken->slot_count - 1);
    }
    taken->numbers[at] = number;
    return true;
}

#endif
