/* Whether a workspace may have one more PENDING execution (max_pending). */
#ifndef WEIR_STORE_SQLITE_PENDING_ROOM_H
#define WEIR_STORE_SQLITE_PENDING_ROOM_H

#include "store/sqlite/connection.h"

/* A count of this transaction is exact until its end, because no other one writes. */
struct pending_count {
    int64_t most;   /* 0 = no limit */
    int64_t left;   /* places; -1 = not counted by this transaction */
    int64_t wanted; /* places that the transaction takes at most */
    bool uses_kept; /* it takes the places of an earlier count */
};

/* The part of its counts that a handle keeps for its next transactions: one workspace in each place. */
enum { PENDING_ROOMS = 64 };
struct pending_room {
    int64_t workspace_id;
    int64_t most;
    int64_t left;
    int64_t until_us;
    int64_t full_until_us; /* until then it is taken as full; 0 = it was not */
};

/* Takes one place. `rooms`: PENDING_ROOMS of the handle. WEIR_QUEUE_FULL, without a text: there is none. */
WEIR_MUST_CHECK enum weir_status pending_room_take(struct connection *connection, struct pending_room *rooms,
                                                   struct pending_count *count, int64_t workspace_id, int64_t now_us,
                                                   struct weir_error *error);

#endif
