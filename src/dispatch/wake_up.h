/* How a loop sleeps and how other threads wake it. */
#ifndef WEIR_DISPATCH_WAKE_UP_H
#define WEIR_DISPATCH_WAKE_UP_H

#include "dispatch/node_internal.h"

/* Any thread; async-signal-safe. */
void loop_wake(struct node *node, enum loop loop);
/* Asks the heartbeat loop for a heartbeat before its time, because the node has something new to report. Any thread. */
void loop_request_heartbeat(struct node *node);
/* Whether the loop was woken since the last call; afterwards its file descriptor is silent until the next wake. */
bool loop_take_wake(struct node *node, enum loop loop);
/* Sleeps until `until_boot_us` or a wake; the dispatch loop also wakes for commits of other processes. */
void loop_sleep(struct node *node, enum loop loop, int64_t until_boot_us);
/* Marks all descriptors as not open, so that loop_fds_close() may follow. */
void loop_fds_init(struct node *node);
WEIR_MUST_CHECK enum weir_status loop_fds_open(struct node *node, struct weir_error *error);
void loop_fds_close(struct node *node);

#endif
