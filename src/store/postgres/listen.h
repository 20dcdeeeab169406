/* Wake-ups between nodes (design 3.12): one listening connection per process and store, shared by its handles.
 *
 * A thread holds it, LISTENs on the channel that is named as the schema, and passes any number of notices on as one: the
 * eventfd of each subscription of the group that a notice names becomes readable. It connects again by itself after a loss
 * and then wakes everybody, since a notice may have been missed; a connection that has been silent for long is asked for a
 * sign of life. Polling is the base under it: with listen=off or behind a pooler there is no fd, and nothing is lost but
 * speed. */
#ifndef WEIR_STORE_POSTGRES_LISTEN_H
#define WEIR_STORE_POSTGRES_LISTEN_H

#include <stdbool.h>

#include "store/postgres/address.h"

struct subscription;

/* Joins the listener of this address, starting it for the first one, to hear of an executor group's work (NULL = of every
 * group's; copied). NULL when listening is off or impossible. Any thread. */
struct subscription *listener_join(struct address *address, const char *group);
/* Takes NULL. The last one stops the listener and waits for its end. */
void listener_leave(struct subscription *subscription);
/* -1 for NULL. Owned by the subscription. */
int subscription_fd(const struct subscription *subscription);
/* Empties the fd; true when a notice came since the last call. Takes NULL (false). */
bool subscription_drain(struct subscription *subscription);

#endif
