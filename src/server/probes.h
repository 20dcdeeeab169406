/* The answers of a process with nodes to probes and scrapers.
 *
 *     /livez    200 as long as the process answers: no call is made
 *     /readyz   200 or 503, and the checks with their reasons as JSON: store, schema, scheduler; engine, lease and state of
 *               each node. With ?verbose also those that are fine
 *     /metrics  the events of this process, its requests, and the counters of the store, as text of Prometheus
 */
#ifndef WEIR_SERVER_PROBES_H
#define WEIR_SERVER_PROBES_H

#include <stdbool.h>

#include "dispatch/node.h"
#include "observe/metrics.h"

enum { PROBES_NODES_MAX = 32 };

/* The facts that the handlers read. The nodes run while the server does. */
struct probes {
    struct metrics *metrics;
    enum metrics_workspaces workspaces; /* that have series of their own */
    struct node *nodes[PROBES_NODES_MAX];
    size_t node_count;
    _Atomic bool is_stopping; /* the process takes no more work */
};

#endif
