/* The hub of tasks of one node, and the handlers that the node has for its workers.
 *
 * Owner: task_service_open() .. task_service_stop() .. (close of node and engine) .. task_service_close().
 */
#ifndef WEIR_SERVER_TASK_SERVICE_H
#define WEIR_SERVER_TASK_SERVICE_H

#include <jansson.h>

#include "dispatch/node.h"
#include "engine/engine.h"
#include "queue/limits.h"
#include "server/task_hub.h"

struct task_service {
    char group[GROUP_NAME_MAX + 1];
    struct task_hub *hub; /* NULL: the engine of the node has no handlers */
    struct engine *engine;
    struct node *node;
    json_t *names; /* of the registered handlers; of the hub's thread */
};

/* For a node that has no handlers of its own. `lease_us` as of a hub. `by_workers`: the places of its workers bound the
 * capacity of the engine. WEIR_INVALID_ARGUMENT, WEIR_SYSTEM, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status task_service_open(struct task_service *service, const char *group, int64_t lease_us,
                                                   bool by_workers, struct engine *engine, struct node *node,
                                                   struct weir_error *error);
/* No claims any more; tasks are given back. Takes a zeroed one, and may be called twice. */
void task_service_stop(struct task_service *service);
/* Takes a zeroed one. */
void task_service_close(struct task_service *service);

#endif
