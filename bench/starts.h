/* When handlers started: a table that a handler of the fixture fills, one entry per execution.
 *
 * The producer writes down the moment before the enqueue; the handler's moment minus that one is the wait of a user.
 * Between processes the clock is the machine's, and the table is shared memory. */
#ifndef WEIR_BENCH_STARTS_H
#define WEIR_BENCH_STARTS_H

#include <stdatomic.h>

#include "fixture.h"

enum { STARTS_MAX = 65536 };
/* Before each start: the node has found that there is nothing to do. */
#define STARTS_PAUSE_SECONDS 0.015

struct starts {
    _Atomic double enqueued[STARTS_MAX];
    _Atomic double started[STARTS_MAX]; /* 0 = not yet */
    _Atomic size_t handled;             /* calls of the handler, with params or without */
};

/* Shared with forked children. */
struct starts *starts_make(void);
/* Handler: the params {"n": 17} name the entry; without params it is only counted. `context` is the table. */
void starts_handler(struct weir_call *call, void *context);
/* Enqueues entry `number` in the workspace, and notes the moment. */
void starts_enqueue(struct starts *starts, struct store *store, const char *workspace, size_t number);
/* Waits until the entry has started. */
void starts_await(struct starts *starts, size_t number);
/* Delays in microseconds of the entries `first` to `first + count - 1`, in the order of the entries. */
void starts_delays(const struct starts *starts, size_t first, size_t count, double *delays);
/* Prints the times of syncs at the moments of the starts, in microseconds; their median in milliseconds. */
double starts_report_syncs(struct bench *bench, const char *name, double *syncs, size_t count);

#endif
