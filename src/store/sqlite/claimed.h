/* Claimed items as the node's engine needs them: the row with its workspace and definition, params, and the steps on
 * record.
 *
 * Shared by the round of the scheduler (items for its own node) and the inbox. Reads only; everything goes to the arena.
 */
#ifndef WEIR_STORE_SQLITE_CLAIMED_H
#define WEIR_STORE_SQLITE_CLAIMED_H

#include "store/sqlite/sqlite_store.h"

enum { CLAIMED_DEFINITIONS = 64 };

struct claimed {
    struct connection *connection; /* with an open transaction */
    struct arena *arena;
    int64_t now_us;
    struct {
        int64_t id;
        const char *name;
        int version;
    } definitions[CLAIMED_DEFINITIONS]; /* direct-mapped cache; a set has few different ones */
};

/* Reads the rows of these numbers, which must be there, in their order. `others_wait` is false and `handed_over` whether an
 * earlier claim was lost. */
enum weir_status claimed_read(struct claimed *claimed, const int64_t *numbers, size_t count, struct claimed_item *items,
                              struct weir_error *error);

#endif
