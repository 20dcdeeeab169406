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

/* Fills a new item from the present row of find_own_assignable. Fence and time of its claim are left to the caller, its
 * definition and params to claimed_complete(). Out of memory sets *ret_failed. */
void claimed_take_new(const struct claimed *claimed, sqlite3_stmt *statement, struct claimed_item *item, bool *ret_failed);
/* Reads the rows of these numbers with one statement, in their order. */
enum weir_status claimed_read_rows(struct claimed *claimed, const int64_t *numbers, size_t count,
                                   struct claimed_item *items, struct weir_error *error);
/* Reads definitions, params, steps and signals of items with a row. */
enum weir_status claimed_complete(struct claimed *claimed, struct claimed_item *items, size_t count,
                                  struct weir_error *error);
/* Reads the rows of these numbers, which must be there, in their order. `others_wait` is false and `handed_over` whether an
 * earlier claim was lost. */
enum weir_status claimed_read(struct claimed *claimed, const int64_t *numbers, size_t count, struct claimed_item *items,
                              struct weir_error *error);

#endif
