/* What a set does to lanes and workspaces, added up in memory and written once per set.
 *
 * A lane or a workspace is a hot row: charging it per item would write it a hundred times in one transaction. Every verb
 * that moves items notes the moves here and calls lane_changes_write() before its commit; that also keeps the ready flags
 * true: a lane is ready exactly when it has runnable items and its workspace has a free slot and is not paused.
 *
 * Owner and thread: the verb that runs; it lives on its stack. Bounded: when LANE_CHANGES_MAX different lanes or workspaces
 * are touched, what is there is written at once.
 */
#ifndef WEIR_STORE_SQLITE_LANE_CHANGES_H
#define WEIR_STORE_SQLITE_LANE_CHANGES_H

#include "store/sqlite/connection.h"

enum {
    LANE_CHANGES_MAX = 512,
    LANE_CHANGES_SLOTS = 2048 /* of the two hash tables: a power of two, large enough that they stay mostly empty */
};

struct lane_change {
    int64_t id;
    int64_t runnable;
    int64_t waiting;
};

/* When the ready flags of a workspace's lanes must be looked at; the most that was asked for counts. */
enum lane_look {
    LOOK_NEVER,    /* whoever changed it has set them himself */
    LOOK_IF_FILLS, /* only slots were taken or given back: when it becomes full, or stops being full */
    LOOK_TO_OPEN,  /* runnable items were added: the same, and a lane may have to be opened */
    LOOK_ALWAYS    /* runnable items or limits may have changed */
};

struct workspace_counts {
    int64_t id;
    int64_t slots; /* taken (positive) or given back */
    int64_t pending;
    int64_t completed;
    int64_t failed;
    int64_t cancelled;
    enum lane_look look;
};

struct lane_changes {
    struct lane_change lanes[LANE_CHANGES_MAX];
    struct workspace_counts workspaces[LANE_CHANGES_MAX];
    size_t lane_count;
    size_t workspace_count;
    int64_t slots_freed; /* over all workspaces and writes */
    /* Hash tables with open addressing: 1 + the index of an entry above, 0 = free. */
    uint16_t lane_slots[LANE_CHANGES_SLOTS];
    uint16_t workspace_slots[LANE_CHANGES_SLOTS];
};

void lane_changes_init(struct lane_changes *changes);
/* The entry of the lane / the workspace, made when new. Never NULL: a full table is written first; a failure of that write
 * is kept in *ret_status. */
struct lane_change *lane_changes_lane(struct lane_changes *changes, struct connection *connection, int64_t lane_id,
                                      enum weir_status *ret_status, struct weir_error *error);
struct workspace_counts *lane_changes_workspace(struct lane_changes *changes, struct connection *connection,
                                                int64_t workspace_id, enum lane_look look, enum weir_status *ret_status,
                                                struct weir_error *error);
/* Writes everything and empties the tables. */
enum weir_status lane_changes_write(struct lane_changes *changes, struct connection *connection, struct weir_error *error);

#endif
