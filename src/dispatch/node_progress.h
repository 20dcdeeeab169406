/* The progress of attempts in a node: from the reports of handlers to the store (progress_buffer.h).
 *
 * The duties loop writes the newest reports about once a second, all attempts of the node in one set. A failed write holds
 * up no other duty. A node whose handlers report nothing does nothing here.
 *
 * Threads: node_progress_take() any thread; the rest the duties loop's, or the opener's.
 */
#ifndef WEIR_DISPATCH_NODE_PROGRESS_H
#define WEIR_DISPATCH_NODE_PROGRESS_H

#include "dispatch/node_internal.h"

void node_progress_init(struct node *node);
void node_progress_close(struct node *node);
/* The sink of the engine's progress; `context` is the node. */
void node_progress_take(void *context, const struct engine_progress *progress);
/* The due work of the duties loop. WEIR_OK, also when the store refuses the reports: they change no state. */
WEIR_MUST_CHECK enum weir_status node_progress_step(struct node *node, int64_t now_us, struct weir_error *error);
/* When node_progress_step() has work again. */
int64_t node_progress_next(struct node *node);

#endif
