/* Of which workspaces others wait for a slot, as far as a node can tell without asking the store.
 *
 * What it goes by: with an item that fills its workspace a claim tells whether others wait behind it; and one that was
 * claimed well after it could have run has waited for a slot of its workspace (or for the node, which is then told soon
 * enough), so others are likely to wait behind it. One that was claimed at once, with nobody behind it, has not. The
 * minute's look at the workspaces (maintenance.c) says it for certain. The engine hears of each change, and may seek the
 * ends of those first (engine_want_slots()): it is advice, so a collision in the table only costs the older entry's.
 *
 * Threads: any; it has a lock of its own. Nothing is done for an engine that does not want it.
 */
#ifndef WEIR_DISPATCH_SLOT_DEMAND_H
#define WEIR_DISPATCH_SLOT_DEMAND_H

#include <pthread.h>

#include "engine/engine.h"

#define SLOT_DEMAND_WAITED_US ((int64_t)100000)  /* it waited for a slot */
#define SLOT_DEMAND_LASTS_US ((int64_t)10000000) /* a slot that is free for longer was wanted by nobody */

enum { SLOT_DEMAND_PLACES = 1024 };

struct slot_demand_place {
    char workspace[WORKSPACE_NAME_MAX + 1]; /* "": nobody's; wanted otherwise */
    int64_t freed_us;                       /* since when one of its slots is free; TIME_NEVER: none was freed */
};

struct slot_demand {
    pthread_mutex_t lock;
    struct engine *engine; /* NULL: it does not want to hear of it; else borrowed */
    struct slot_demand_place *places;
};

/* WEIR_OUT_OF_MEMORY: it may be closed all the same. */
WEIR_MUST_CHECK enum weir_status slot_demand_open(struct slot_demand *demand, struct engine *engine,
                                                  struct weir_error *error);
void slot_demand_close(struct slot_demand *demand);
/* An item of the workspace was claimed that could have run for so long. */
void slot_demand_claimed(struct slot_demand *demand, const char *workspace, int64_t waited_us);
/* An execution of the workspace has given its slot back. */
void slot_demand_freed(struct slot_demand *demand, const char *workspace, int64_t now_us);
/* The store says that others wait. */
void slot_demand_told(struct slot_demand *demand, const char *workspace);
/* This node holds nothing any more. */
void slot_demand_clear(struct slot_demand *demand);

#endif
