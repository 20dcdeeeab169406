/* The workspaces in which other items wait for a slot, as far as a node can know without a query.
 *
 * Three sources: an assignment that fills its workspace shows whether others wait behind it. An item that was assigned
 * well after it could have run has waited for a slot of its workspace, so further items are likely to wait behind it.
 * (If it waited for the node, the fact is soon corrected.) An item that was assigned at once, with none behind it, has
 * not waited. The check of all workspaces each minute (maintenance.c) is exact.
 *
 * The engine learns each change, and may seek the ends of executions of these workspaces first (engine_want_slots()). It is
 * advice: a collision in the table costs the advice of the older entry and nothing else.
 *
 * Threads: any; it has a lock of its own. Nothing is done for an engine that does not use the advice.
 */
#ifndef WEIR_DISPATCH_SLOT_DEMAND_H
#define WEIR_DISPATCH_SLOT_DEMAND_H

#include <pthread.h>

#include "engine/engine.h"

#define SLOT_DEMAND_WAITED_US ((int64_t)100000)  /* it waited for a slot */
#define SLOT_DEMAND_LASTS_US ((int64_t)10000000) /* a slot that is free for longer is not wanted */

enum { SLOT_DEMAND_PLACES = 1024 };

struct slot_demand_place {
    char workspace[WORKSPACE_NAME_MAX + 1]; /* "" = no workspace; else its slots are wanted */
    int64_t freed_us;                       /* since when one of its slots is free; TIME_NEVER: none was freed */
};

struct slot_demand {
    pthread_mutex_t lock;
    struct engine *engine; /* NULL: it does not use the advice; else borrowed */
    struct slot_demand_place *places;
};

/* WEIR_OUT_OF_MEMORY: it may be closed all the same. */
WEIR_MUST_CHECK enum weir_status slot_demand_open(struct slot_demand *demand, struct engine *engine,
                                                  struct weir_error *error);
void slot_demand_close(struct slot_demand *demand);
/* An item of the workspace was assigned, `waited_us` after it could have run. */
void slot_demand_claimed(struct slot_demand *demand, const char *workspace, int64_t waited_us);
/* An execution of the workspace has given its slot back. */
void slot_demand_freed(struct slot_demand *demand, const char *workspace, int64_t now_us);
/* The store shows that items of the workspace wait. */
void slot_demand_reported(struct slot_demand *demand, const char *workspace);
/* This node holds nothing any more. */
void slot_demand_clear(struct slot_demand *demand);

#endif
