/* The inbox of a node: items that a scheduler has assigned to it, and cancels that wait for it. Thread: the dispatch loop.
 */
#ifndef WEIR_DISPATCH_INBOX_H
#define WEIR_DISPATCH_INBOX_H

#include "dispatch/node.h"

/* Reads the inbox once, and starts the items or marks them to be given back. *ret_role: the role as the answer showed it.
 * Lowers *ret_next_us. */
WEIR_MUST_CHECK enum weir_status inbox_step(struct node *node, int64_t now_us, int64_t *ret_next_us,
                                            struct role_state *ret_role, struct weir_error *error);
/* Passes cancels on to the engine when some wait. */
WEIR_MUST_CHECK enum weir_status inbox_pass_requests(struct node *node, struct weir_error *error);
/* A round has shown whether cancels wait. */
void inbox_note_requests(struct node *node, bool has_requests);
/* A round brought these items: the inbox need not show them again. */
void inbox_skip(struct node *node, const struct claim_result *claimed);
/* The inbox may hold items that no round brings: the next step reads it. */
void inbox_make_due(struct node *node);
/* The node has a new id, or will have. */
void inbox_reset(struct node *node);

#endif
