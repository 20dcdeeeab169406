/* The role of the scheduler: taking it, its rounds, and giving it up. Thread: the dispatch loop. */
#ifndef WEIR_DISPATCH_SCHEDULING_H
#define WEIR_DISPATCH_SCHEDULING_H

#include "dispatch/node.h"

struct scheduling;

/* WEIR_OUT_OF_MEMORY: it may be closed all the same. */
WEIR_MUST_CHECK enum weir_status scheduling_open(struct scheduling *scheduling, struct weir_error *error);
void scheduling_close(struct scheduling *scheduling);
/* Takes the role when it is free and this node may have it. A lost race for it is WEIR_OK. The node must not have it. */
WEIR_MUST_CHECK enum weir_status scheduling_seek(struct node *node, const struct role_state *role,
                                                 struct weir_error *error);
/* The rounds of one step, for a node with the role. Lowers *ret_next_us. */
WEIR_MUST_CHECK enum weir_status scheduling_step(struct node *node, int64_t now_us, int64_t *ret_next_us,
                                                 struct weir_error *error);
/* The role is over, or in doubt: forgets all facts. Does nothing without the role. */
void scheduling_lose(struct node *node, const char *reason);
/* Gives the role up, so that another node can take it at once. Does nothing without the role. */
void scheduling_leave(struct node *node);

#endif
