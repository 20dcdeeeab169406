/* The logs of attempts in a node: from the engine's output to the store, and their retention.
 *
 * The duties loop writes pending output about once a second, so that a reader can follow a running step. The record loop
 * writes the output of ended attempts before it records the ends: a program that sees an end finds the whole log. Neither
 * loop lets a failed write hold up its other work.
 *
 * Threads: node_logs_take() any thread; node_logs_write_ended() the record loop's; the rest the duties loop's, or the
 * opener's.
 */
#ifndef WEIR_DISPATCH_NODE_LOGS_H
#define WEIR_DISPATCH_NODE_LOGS_H

#include "dispatch/node_internal.h"

void node_logs_init(struct node *node);
void node_logs_close(struct node *node);
/* `bytes_max` as in node_settings. */
void node_logs_set_bound(struct node *node, int64_t bytes_max);
/* The sink of the engine's output; `context` is the node. */
void node_logs_take(void *context, const struct engine_output *output);
/* Before the ends of a set are recorded. */
void node_logs_write_ended(struct node *node, int64_t now_us);
/* The due work of the duties loop; WEIR_OK unless the retention failed. */
WEIR_MUST_CHECK enum weir_status node_logs_step(struct node *node, int64_t now_us, struct weir_error *error);
/* When node_logs_step() has work again. */
int64_t node_logs_next(struct node *node);

#endif
