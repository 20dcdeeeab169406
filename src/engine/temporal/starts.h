/* The start of an execution, the question whether a start has arrived, and the cancel (starts.c).
 *
 * The engine's loop owns it. The atomic members are read by engine_free_capacity() in any thread.
 */
#ifndef WEIR_ENGINE_TEMPORAL_STARTS_H
#define WEIR_ENGINE_TEMPORAL_STARTS_H

#include <stdatomic.h>

#include "engine/temporal/run_table.h"
#include "engine/temporal/start_rate.h"

/* "Not found" counts when it comes twice, and the expected service has answered in between (service_health.h): another one
 * may have taken its place. Shorter for a start that may not have arrived at all. */
#define NOT_FOUND_RETRY_US (2 * MICROSECONDS_PER_SECOND)
#define ABSENCE_RETRY_US (250 * MICROSECONDS_PER_MS)
/* A chain that goes on quickly is recorded at most this often. */
#define RECORD_RUN_INTERVAL_US (1 * MICROSECONDS_PER_SECOND)
/* While starts are answered one by one, engine_free_capacity() reports free places when they are worth a claim, or after
 * this long. */
#define CAPACITY_WAITS_US (100 * MICROSECONDS_PER_MS)
enum { CAPACITY_PARTS = 8 }; /* one of so many parts of the window is worth a claim */

struct starts {
    struct start_rate limits;
    atomic_size_t under_way;    /* runs that count as a start */
    atomic_size_t window;       /* start_rate_window(), for other threads */
    _Atomic int64_t ordered_us; /* when engine_start() was called last */
};

/* Does the action that is due for a run, by its state. */
void starts_do_due(struct temporal *engine, struct run *run);
/* A new claim is in the table: decides whether it is started, described, or refused. */
void starts_take_claim(struct temporal *engine, struct run *run);
void starts_cancel_run(struct temporal *engine, struct run *run); /* the node wants it cancelled */
/* Requests the present state of the workflow from the service, at once. */
void starts_describe_run(struct temporal *engine, struct run *run);
/* The chain has gone on: records its present run, if that is due. */
void starts_record_run(struct temporal *engine, struct run *run);
/* When the present run may be recorded; TIME_NEVER when it is on record. */
int64_t starts_record_due_us(const struct run *run);
/* The codec has not encoded the start: it refused the payload for good, or cannot be reached. */
void starts_handle_not_encoded(struct temporal *engine, struct run *run, bool is_refused, const char *text);

#endif
