/* The Temporal engine from the inside: its parts, and the thread that owns each of them.
 *
 *   part              header             owner
 *   commands          commands.h         any thread adds, the loop takes; under `lock`
 *   runs              run_table.h        the loop
 *   starts            starts.h           the loop; its atomic members also for engine_free_capacity()
 *   long_polls        long_polls.h       the loop
 *   sweep             close_sweep.h      the loop
 *   health            service_health.h   the loop
 *   retention         retention.h        the loop
 *   target            target.h           the loop; the published target under `lock`
 *   attributes        attributes.h       the loop; the types under `lock`
 *   calls             calls.h            the loop
 *   definitions       definitions.h      any thread; it has a lock of its own
 *
 * The loop is the engine's own thread after engine_run_threads(), else the caller of engine_step().
 */
#ifndef WEIR_ENGINE_TEMPORAL_INTERNAL_H
#define WEIR_ENGINE_TEMPORAL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/random.h"
#include "base/text.h"
#include "engine/temporal/attributes.h"
#include "engine/temporal/calls.h"
#include "engine/temporal/close_sweep.h"
#include "engine/temporal/closing.h"
#include "engine/temporal/coding.h"
#include "engine/temporal/commands.h"
#include "engine/temporal/definitions.h"
#include "engine/temporal/encode.h"
#include "engine/temporal/fields.h"
#include "engine/temporal/long_polls.h"
#include "engine/temporal/outcome.h"
#include "engine/temporal/retention.h"
#include "engine/temporal/run_table.h"
#include "engine/temporal/service_health.h"
#include "engine/temporal/start_rate.h"
#include "engine/temporal/starts.h"
#include "engine/temporal/target.h"
#include "engine/temporal/temporal.h"

#define TEMPORAL_STEP "workflow" /* the one step of an execution as the store sees it */

struct temporal {
    struct engine base;

    /* set when the engine is opened */
    struct temporal_wire wire;
    char *address;
    char *namespace_name;
    char *task_queue;
    char *identity;
    char *encoding;
    size_t max_running;
    int poll_fd; /* epoll over the bell and the wires */

    /* for all threads */
    pthread_mutex_t lock; /* of the commands, the published target and the attribute types */
    struct command_queue commands;
    struct definitions definitions;
    atomic_size_t admitted; /* started by engine_start(), and not removed */
    atomic_size_t followed; /* started and not durably ended */
    atomic_bool stopped;
    atomic_bool interrupted; /* stopped, and calls under way are not awaited */
    atomic_bool closing;
    pthread_t thread;
    bool has_thread;

    /* of the loop */
    struct random random;
    struct call *calls; /* every call under way */
    struct run_table runs;
    struct starts starts;
    struct long_polls long_polls;
    struct close_sweep sweep;
    struct service_health health;
    struct retention retention;
    struct service_target target;
    struct known_attributes attributes;
};

static inline int64_t temporal_now(const struct temporal *engine)
{
    return clock_boot(engine->base.clock);
}

#endif
