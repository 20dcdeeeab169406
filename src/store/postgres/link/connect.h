/* Making a connection within a deadline: resolving the name, trying each server, and the settings it starts with. */
#ifndef WEIR_STORE_POSTGRES_LINK_CONNECT_H
#define WEIR_STORE_POSTGRES_LINK_CONNECT_H

#include "store/postgres/link/link.h"

/* Tries the servers of the address, the last good one first, until one takes writes. `until_us` is boot time. */
enum weir_status connect_open(struct link *link, int64_t until_us, PGconn **ret_connection, struct weir_error *error);
/* Waits for the socket; false at the deadline. `events` as for poll(). */
bool connect_wait(const PGconn *connection, short events, int64_t until_us, short *ret_events);

#endif
