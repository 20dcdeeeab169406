/* The history: the figures of an interval, their sum over several intervals, and their form as bytes.
 *
 * A point has the starts and the ends of an interval, the queue waits of its starts by phase, and the slots of each busy
 * workspace. Waits are counted in buckets with fixed bounds, so that points can be added up and each sum has percentiles.
 * docs/design/history.md has the reasons. Pure; any thread.
 */
#ifndef WEIR_QUEUE_HISTORY_H
#define WEIR_QUEUE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"
#include "weir/status.h"

enum {
    HISTORY_BUCKETS = 54,            /* from a millisecond on, two for each doubling; the last one begins at about a day */
    HISTORY_WORKSPACES_MOST = 10000, /* of one point */
    HISTORY_FACTS_MAX = 256 * 1024   /* bytes of one point */
};

/* The parts of a queue wait, as the metric queue_wait_seconds has them. HISTORY_WAIT is the whole. */
enum history_phase { HISTORY_WAIT, HISTORY_CAPACITY, HISTORY_PAUSE, HISTORY_DISPATCH, HISTORY_PHASES };

struct history_workspace {
    int64_t id;
    int64_t slots_used;
    int64_t slots_max;
    int64_t pending;
};

struct history_point {
    int64_t at_us;   /* its end, store time */
    int64_t span_us; /* its length; of a sum the lengths of its parts, without the gaps between them */
    int64_t starts;
    int64_t completed;
    int64_t failed;
    int64_t cancelled;
    int64_t slots_used;                              /* of all workspaces at once; of a sum the highest of its parts */
    int64_t pending;                                 /* likewise */
    uint32_t waits[HISTORY_PHASES][HISTORY_BUCKETS]; /* starts by their wait */
    struct history_workspace *workspaces;            /* by id; a workspace that is not listed was idle */
    size_t workspace_count;
};

/* The bucket of a wait. A negative one counts as none. */
size_t history_bucket(int64_t wait_us);
/* The wait that `permille` of the starts did not exceed, between the bounds of its bucket; -1 = there was no start. */
int64_t history_percentile(const uint32_t waits[HISTORY_BUCKETS], int permille);
/* Adds a later point. Of the slots of a workspace the larger values stay. False: no memory in the arena. */
bool history_merge(struct history_point *into, const struct history_point *later, struct arena *arena);

/* Appends the point without its times. Values of `pending` above 127 lose up to an eighth. WEIR_OUT_OF_MEMORY, or
 * WEIR_FAILED when `to` is too small. */
WEIR_MUST_CHECK enum weir_status history_encode(const struct history_point *point, struct text *to);
/* False: the bytes are damaged, or of another version, or there is no memory. Leaves the times as they are. */
bool history_decode(const char *facts, size_t length, struct arena *arena, struct history_point *point);

#endif
