/* Reads heads of lanes for a round of the scheduler. Threads: that of the round. */
#ifndef WEIR_STORE_SQLITE_LANE_HEADS_H
#define WEIR_STORE_SQLITE_LANE_HEADS_H

#include "base/arena.h"
#include "store/sqlite/sqlite_store.h"

/* Fills a read in the transaction of the connection. The heads are from the arena. */
enum weir_status lane_heads_read(struct connection *connection, struct arena *arena, struct lane_read *read,
                                 struct weir_error *error);

#endif
