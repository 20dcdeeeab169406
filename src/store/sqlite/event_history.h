/* The story of an execution beyond its row: event rows of claims that are over, and rows of a
 * step's attempts that were not its last. All of it is written in the transaction of the change that would make it
 * forgotten. Threads: within a write transaction, by its holder. */
#ifndef WEIR_STORE_SQLITE_EVENT_HISTORY_H
#define WEIR_STORE_SQLITE_EVENT_HISTORY_H

#include "store/sqlite/parameter_rows.h"
#include "store/sqlite/sqlite_store.h"

/* Before a held item is put back, given back or handed over: the claim under `fence`, and its dispatch. Does nothing when
 * the item is not held under it. */
enum weir_status event_history_add_claim(struct write *write, const char *id, int64_t fence, struct weir_error *error);
/* Before a CLAIMED item becomes DISPATCHED. The start of one that ends is written with its end (ends.c). Does nothing
 * unless it was taken over from an earlier claim: then its stamp is the first dispatch's. */
enum weir_status event_history_add_dispatch(struct write *write, const struct record *record, struct weir_error *error);
/* Before a step of the record is written: an attempt that is on record as running and was followed by this one. */
enum weir_status event_history_before_step(struct write *write, const struct record *record, struct weir_error *error);
/* After it was written: an attempt that failed and is followed by another. */
enum weir_status event_history_after_step(struct write *write, const struct record *record, struct weir_error *error);
/* After items that were taken over have ended: steps without a node that goes on with them. `rows` has ids and fences. */
enum weir_status event_history_close_steps(struct write *write, const struct parameter_row *rows, size_t count,
                                           struct weir_error *error);

#endif
