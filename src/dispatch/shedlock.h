/* A lock of the table `shedlock`, which the nodes share with Java programs that use the library ShedLock. No correctness
 * depends on these locks. Thread: the loop that owns the lock. */
#ifndef WEIR_DISPATCH_SHEDLOCK_H
#define WEIR_DISPATCH_SHEDLOCK_H

#include "dispatch/node_internal.h"

/* Takes the lock, or goes on holding it. True when this node holds it now. */
bool shedlock_hold(struct node *node, struct store *store, struct shedlock *lock, int64_t now_us);
/* Frees the lock if this node holds it. */
void shedlock_drop(struct store *store, struct shedlock *lock);

#endif
