/* Parks of a set: held items begin to wait, all of them by a few statements (docs/design/waiting.md). */
#ifndef WEIR_STORE_SQLITE_PARKS_H
#define WEIR_STORE_SQLITE_PARKS_H

#include "store/sqlite/held_items.h"

/* Moves the items that held_find() has found, and notes the news. An item with a requested cancel must not be among them:
 * its number is 0. No two of the items are the same. */
enum weir_status parks_move(struct held_items *parks, struct write *write, int64_t node_id, struct weir_error *error);

#endif
