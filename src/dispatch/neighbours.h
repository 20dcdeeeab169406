/* The facts that a node has about the other nodes: it reads them from the answers to its heartbeats, and from the processes
 * of its machine. Threads: any. */
#ifndef WEIR_DISPATCH_NEIGHBOURS_H
#define WEIR_DISPATCH_NEIGHBOURS_H

#include <stdbool.h>
#include <stddef.h>

#include "dispatch/node.h"

/* Names the boot of the machine and the namespace of its process ids. Where the boot is not known, the name is unique. */
void machine_id_write(char *to, size_t size);
/* True when it is proved (life.h) that the node ran on this machine and neither its process nor its keeper lives any more:
 * its steps are dead, too. */
bool neighbour_is_gone(const struct node_neighbour *neighbour);

/* The node has registered. */
void neighbours_begin(struct node *node);
/* The answer to a heartbeat has arrived; before it extends the lease. True when it reports a lost node: the caller wakes
 * the loop that recovers. */
bool neighbours_update(struct node *node, const struct node_beat *beat);
/* The nodes that have sent no heartbeat for their lease, as this node has seen it (store.h, recover_options), at most
 * NODE_NEIGHBOURS_MOST. Also the server that they were watched on, SERVER_IDENTITY_MAX bytes. Returns their number. */
size_t neighbours_silent(struct node *node, int64_t now_us, struct silent_node *to, char *ret_server);
/* When the next neighbour will have been silent for its lease, boot time behind now_us; TIME_NEVER = none watched. */
int64_t neighbours_next_silent_us(struct node *node, int64_t now_us);
/* This machine shows that the processes of a node are gone: of any node, or of the one with this id. False on a simulated
 * clock. */
bool neighbours_any_is_gone(struct node *node);
bool neighbours_node_is_gone(struct node *node, int64_t node_id);
/* The nodes whose leases prove nothing now, as recover_options wants it: all after a delay, and after the registration
 * those of this machine, which shows their deaths. */
const char *neighbours_trusted(const struct node *node, int64_t now_us);

#endif
