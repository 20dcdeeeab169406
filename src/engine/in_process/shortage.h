/* A shortage of file descriptors, memory or processes on this machine.
 *
 * One failed start finds the shortage. All starts then wait for SHORTAGE_US, instead of each finding it again.
 *
 * Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_SHORTAGE_H
#define WEIR_ENGINE_IN_PROCESS_SHORTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/in_process/loop.h"

/* The pause of all starts after a shortage. */
#define SHORTAGE_US (1 * MICROSECONDS_PER_SECOND)
/* The least time between two reports of a shortage. */
#define SHORTAGE_REPORT_US (60 * MICROSECONDS_PER_SECOND)

struct shortage {
    struct loop *loop;
    struct timer timer;
    bool is_on;
    int64_t reported_us;
    /* Called at most once per SHORTAGE_REPORT_US; may be NULL. */
    void (*report)(void *context, int native);
    void *context;
};

void shortage_init(struct shortage *shortage, struct loop *loop);
void shortage_close(struct shortage *shortage);
/* A start failed with this errno. Pauses all starts if it means a shortage. */
void shortage_note(struct shortage *shortage, int native);
/* True when a start with this errno failed for want of file descriptors, memory or processes. */
bool shortage_is_cause(int native);
/* The missing resource and its remedy, for an operator. */
const char *shortage_text(int native);

#endif
