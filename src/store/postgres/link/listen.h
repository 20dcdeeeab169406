/* Wake-ups between nodes: one listening connection per process and store, shared by its handles.
 *
 * A thread holds it, LISTENs on the channel that is named as the schema, and passes any number of notices on as one.
 * The eventfd of each subscription that a notice concerns becomes readable. Notices:
 *   news       wakes subscriptions that schedule
 *   node:<id>  wakes subscriptions of this node
 *   stream     wakes subscriptions without a node, which read the stream (store/stream.h)
 *   all further ones, and a new connection after a loss   wake every subscription, since a notice may have been missed
 *
 * A connection that has been silent for long is tested by a statement. Polling is the base under it: with listen=off or
 * behind a pooler there is no fd, and only speed is lost. */
#ifndef WEIR_STORE_POSTGRES_LINK_LISTEN_H
#define WEIR_STORE_POSTGRES_LINK_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "store/postgres/link/address.h"

struct subscription;

/* Joins the listener of this address, starting it for the first one; every notice wakes the subscription. NULL when
 * listening is off or impossible. Any thread. */
struct subscription *listener_join(struct address *address);
/* From now on only notices about this node, and news if it schedules. node_id 0: every notice. Takes NULL. Any thread. */
void subscription_set(struct subscription *subscription, int64_t node_id, bool schedules);
/* Takes NULL. The last one stops the listener and waits for its end. */
void listener_leave(struct subscription *subscription);
/* -1 for NULL. Owned by the subscription. */
int subscription_fd(const struct subscription *subscription);
/* Empties the fd; true when a notice came since the last call. Takes NULL (false). */
bool subscription_drain(struct subscription *subscription);

#endif
