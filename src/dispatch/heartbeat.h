/* A node's row in the registry, and what one node can tell of another on the same machine. */
#ifndef WEIR_DISPATCH_HEARTBEAT_H
#define WEIR_DISPATCH_HEARTBEAT_H

#include <stdbool.h>
#include <stddef.h>

#include "dispatch/node.h"

/* Names the boot of the machine and the namespace of its process ids. Where the boot is not known, nobody else has the
 * name. */
void nodes_machine_id(char *to, size_t size);
/* True when it is proved (life.h) that the node ran on this machine and neither its process nor its keeper lives any more:
 * what it ran is dead, too. */
bool nodes_is_gone(const struct node_neighbour *neighbour);
/* Puts the node into the registry under a new id and tells the engine its lease. */
WEIR_MUST_CHECK enum weir_status nodes_register(struct node *node, struct store *store, struct weir_error *error);

#endif
