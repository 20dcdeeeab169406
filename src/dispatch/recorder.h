/* The record loop of a node: reports of the engine become records in the store. Thread: the record loop, unless a function
 * names others. */
#ifndef WEIR_DISPATCH_RECORDER_H
#define WEIR_DISPATCH_RECORDER_H

#include "dispatch/node.h"

WEIR_MUST_CHECK enum weir_status recorder_open(struct node *node, struct weir_error *error);
/* Frees the reports that are queued or taken. Also after a failed open. */
void recorder_close(struct node *node);
/* One step. Returns when the next one is due. */
int64_t recorder_step(struct node *node);
/* The sink of the engine's reports; `context` is the node. Takes the report. Any thread. */
void recorder_report(void *context, struct report *report);
/* True when every report is on record. Any thread. */
bool recorder_is_empty(struct node *node);
/* Reports that are queued. Any thread. */
size_t recorder_waiting_count(struct node *node);
/* Boot time since which the store has taken no record of any set; 0 = the last set was taken. Any thread. */
int64_t recorder_failing_since_us(struct node *node);

#endif
