/* Numbers of the queue that a set has taken already: the second change of an item in one set finds no row. Open addressing,
 * 0 = free. Threads: a variable of the caller. */
#ifndef WEIR_STORE_SQLITE_TAKEN_H
#define WEIR_STORE_SQLITE_TAKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TAKEN_SLOTS = 4096 }; /* a power of two, at least twice RECORD_BATCH_MOST and CLAIM_BATCH_MOST */

struct taken {
    int64_t numbers[TAKEN_SLOTS];
};

/* False: the number was marked before. */
static inline bool taken_mark(struct taken *taken, int64_t number)
{
    size_t at = (size_t)number % TAKEN_SLOTS;
    while (taken->numbers[at] != 0) {
        if (taken->numbers[at] == number) {
            return false;
        }
        at = (at + 1) % TAKEN_SLOTS;
    }
    taken->numbers[at] = number;
    return true;
}

#endif
