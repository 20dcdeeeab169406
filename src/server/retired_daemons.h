/* The daemons of older certificates of one listener, each until its last connection has ended.
 *
 * A reload of the certificate retires the daemon that accepts, so there are several while connections of several
 * certificates are open. Each has a thread and a descriptor, so their number is bounded; beyond it a reload is refused.
 * Not thread-safe: the caller has a lock, but not while it stops a daemon.
 */
#ifndef WEIR_SERVER_RETIRED_DAEMONS_H
#define WEIR_SERVER_RETIRED_DAEMONS_H

#include <stdbool.h>
#include <stddef.h>

struct MHD_Daemon;

/* An idle connection lasts 75 s at most, so eight exchanges of the certificate within that time find a place. */
enum { RETIRED_DAEMONS_MAX = 8 };

struct retired_daemons {
    struct MHD_Daemon *daemons[RETIRED_DAEMONS_MAX];
    size_t count;
};

bool retired_daemons_is_full(const struct retired_daemons *retired);
/* It accepts no connections any more. There must be a place. */
void retired_daemons_add(struct retired_daemons *retired, struct MHD_Daemon *daemon);
bool retired_daemons_has(const struct retired_daemons *retired, const struct MHD_Daemon *daemon);
/* Takes one out that has no connection, for the caller to stop; `at_all`: also one that has some. NULL: there is none. */
struct MHD_Daemon *retired_daemons_take(struct retired_daemons *retired, bool at_all);

#endif
