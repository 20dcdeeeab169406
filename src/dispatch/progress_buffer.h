/* The progress of attempts on its way from the engine to the store.
 *
 *     engine, any thread --progress_buffer_add()--> newest report per step --progress_buffer_write()--> store
 *
 * The buffer has one entry for each step of an execution whose attempt reports progress. A report replaces the one before,
 * so a handler that reports in a loop costs one write a second. An attempt that ends before its first write leaves nothing.
 * Else its end removes the report from the store. Reports never wait: one that finds no space is dropped.
 *
 * Threads: progress_buffer_add() and progress_buffer_end() from any thread; they take one short lock. Only attempts that
 * report progress come here. progress_buffer_write() by one thread.
 */
#ifndef WEIR_DISPATCH_PROGRESS_BUFFER_H
#define WEIR_DISPATCH_PROGRESS_BUFFER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"
#include "store/store.h"

enum { PROGRESS_BUCKETS = 256 };

struct progress_entry;

struct progress_buffer {
    pthread_mutex_t lock;
    struct progress_entry *buckets[PROGRESS_BUCKETS];
    size_t count; /* at most PROGRESS_ATTEMPTS_MAX */
    /* Entries with a report or an end that is not in the store, the oldest first. */
    struct progress_entry *first_due;
    struct progress_entry *last_due;
    int64_t round; /* the number of the present round of writes, or of the last one */
    bool in_round;
};

void progress_buffer_init(struct progress_buffer *buffer);
/* Drops what is not written. */
void progress_buffer_close(struct progress_buffer *buffer);
/* Takes a report with a text. True: it is the first that is due. */
bool progress_buffer_add(struct progress_buffer *buffer, const struct engine_progress *progress);
/* The attempt reports no more. True: its end is the first that is due. */
bool progress_buffer_end(struct progress_buffer *buffer, const struct engine_progress *progress);
bool progress_buffer_is_due(struct progress_buffer *buffer);
/* One call of the store. *ret_more: the round of all that was due at its beginning goes on. Reports that came since wait
 * for the next round. After a failure that may pass the entries are due again; another one loses their reports. */
enum weir_status progress_buffer_write(struct progress_buffer *buffer, struct store *store, bool *ret_more,
                                       struct weir_error *error);

#endif
