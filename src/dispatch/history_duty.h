/* The duty of the history (store/history.h): the node that schedules writes a row each minute.
 *
 *   1. The scheduler counts the starts and their waits (history_count_start()).
 *   2. Once a minute the duty takes these counts and a sample of the store's counters, and writes them as a row.
 *   3. Rows of more than an hour ago are folded, ten minutes at a time, and old rows are removed.
 *
 * A row that cannot be written is part of the next one. The first sample after a change of the scheduler begins an
 * interval, so such a change leaves at most a gap. docs/design/history.md has the reasons.
 */
#ifndef WEIR_DISPATCH_HISTORY_DUTY_H
#define WEIR_DISPATCH_HISTORY_DUTY_H

#include "dispatch/node_internal.h"

/* A start of an item, and the parts of its wait. Thread: the dispatch loop. */
void history_count_start(struct history_counts *counts, int64_t wait_us, int64_t slot_wait_us, int64_t pause_wait_us);
/* Writes or folds when it is time. Thread: the loop of the duties. */
WEIR_MUST_CHECK enum weir_status history_duty_step(struct node *node, int64_t now_us, struct weir_error *error);

#endif
