/* The verbs of the engine, its loop, and its opening and closing.
 *
 * A verb runs in the caller's thread: it adds a command (commands.c) or reads an atomic member, and never waits for the
 * service. A start also reads the definition and encodes its message there. The loop
 * executes the commands, drives the connections, and lets each part do the work that is due. Each part returns the time at
 * which it wants to be called again; the loop sleeps until the earliest of these times, or until a descriptor is ready.
 *
 * The loop must never block: a program may drive several nodes in one thread, and a blocked loop would miss the deadlines
 * of its calls.
 *
 * After engine_run_threads() the loop runs in a thread of the engine, else inside engine_step(). */
#include "engine/temporal/temporal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"
#include "engine/temporal/temporal_internal.h"

static struct temporal *engine_of(struct engine *engine)
{
    return (struct temporal *)(void *)engine;
}

/* --- the start --- */

static enum weir_status temporal_start(struct engine *base, const struct engine_start *start, struct weir_error *error)
{
    struct temporal *engine = engine_of(base);
    struct cached_definition *cached = NULL;
    enum weir_status status =
        definitions_get(&engine->definitions, start->definition_id, start->definition, &cached, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct run *run = run_new_from_start(engine, start, cached->definition);
    definitions_release(cached);
    if (run == NULL || !commands_push_start(engine, run)) {
        run_free(run);
        return error_out_of_memory(error);
    }
    return WEIR_OK;
}

/* --- the loop --- */

/* Sends and receives on the connections to the service and to the codec; answers are handled inside. */
static int64_t step_wires(struct temporal *engine)
{
    const struct codec_wire *codec = &engine->wire.codec;
    int64_t codec_us = codec->step == NULL ? TIME_NEVER : codec->step(codec->context);
    int64_t wire_us = engine->wire.step(engine->wire.context);
    return codec_us < wire_us ? codec_us : wire_us;
}

static int64_t earlier_of(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* Does all the work that is due; returns when the next work is.
 *
 * 1. Execute the orders of the node, so that a lost claim sends no further call.
 * 2. Receive answers. They may make runs due.
 * 3. Do the action of each run that is due, in the order of the claims.
 * 4. If the engine stops, give back the runs that steps 1 to 3 have left in a settled state.
 * 5. Let each part send its own calls: long polls, retention, list, probe, identity.
 * 6. Send: calls that were made in this turn leave in it. */
static int64_t run_temporal_turn(struct temporal *engine)
{
    commands_execute(engine);
    int64_t next_us = step_wires(engine);
    int64_t now_us = temporal_now(engine);
    for (struct run *run = run_take_due(engine, now_us); run != NULL; run = run_take_due(engine, now_us)) {
        starts_do_due(engine, run);
    }
    if (atomic_load(&engine->stopped)) {
        commands_give_back_runs(engine, atomic_load(&engine->interrupted));
    }
    next_us = earlier_of(next_us, long_poll_step(engine, now_us));
    next_us = earlier_of(next_us, retention_step(engine, now_us));
    next_us = earlier_of(next_us, close_sweep_step(engine, now_us));
    next_us = earlier_of(next_us, service_health_step(engine, now_us));
    next_us = earlier_of(next_us, target_step(engine, now_us));
    next_us = earlier_of(next_us, step_wires(engine));
    return earlier_of(next_us, run_earliest_due(engine));
}

static void *run_temporal_loop(void *argument)
{
    struct temporal *engine = argument;
    while (!atomic_load(&engine->closing)) {
        int64_t next_us = run_temporal_turn(engine);
        struct epoll_event event;
        int64_t wait_us = next_us == TIME_NEVER ? -1 : next_us - temporal_now(engine);
        int wait_ms = next_us == TIME_NEVER                    ? -1
                      : wait_us <= 0                           ? 0
                      : wait_us > 60 * MICROSECONDS_PER_SECOND ? 60000
                                                               : (int)((wait_us + 999) / MICROSECONDS_PER_MS);
        (void)epoll_wait(engine->poll_fd, &event, 1, wait_ms);
    }
    return NULL;
}

/* --- the other verbs --- */

static void temporal_cancel(struct engine *base, const char *id, int64_t fence)
{
    commands_push_run(engine_of(base), COMMAND_CANCEL, id, fence);
}

static void temporal_abandon(struct engine *base, const char *id, int64_t fence)
{
    if (id == NULL) {
        commands_push_abandon_all(engine_of(base));
    } else {
        commands_push_run(engine_of(base), COMMAND_ABANDON, id, fence);
    }
}

static void temporal_recorded(struct engine *base, const struct recorded *recorded, size_t count)
{
    commands_push_recorded(engine_of(base), recorded, count);
}

static void temporal_want_slots(struct engine *base, const char *workspace, bool wanted)
{
    commands_push_want_slots(engine_of(base), workspace, wanted);
}

/* Starts that may be ordered now. While starts are answered one by one, free places are reported in portions, because a
 * claim for each answer costs the node more than the start. After CAPACITY_WAITS_US it reports every free place. */
static size_t temporal_free_capacity(struct engine *base)
{
    struct temporal *engine = engine_of(base);
    size_t admitted = atomic_load(&engine->admitted);
    size_t starting = atomic_load(&engine->starts.under_way);
    size_t window = atomic_load(&engine->starts.window);
    if (atomic_load(&engine->stopped) || admitted >= engine->max_running || starting >= window) {
        return 0;
    }
    size_t places = window - starting;
    if (places < window / CAPACITY_PARTS &&
        temporal_now(engine) - atomic_load(&engine->starts.ordered_us) < CAPACITY_WAITS_US) {
        return 0;
    }
    size_t free_runs = engine->max_running - admitted;
    return free_runs < places ? free_runs : places;
}

static bool temporal_target(struct engine *base, struct engine_target *ret_target)
{
    struct temporal *engine = engine_of(base);
    bool is_known = target_get(engine, ret_target);
    if (!is_known) {
        commands_wake_loop(engine);
    }
    return is_known;
}

static size_t temporal_running(struct engine *base)
{
    return atomic_load(&engine_of(base)->followed);
}

static int64_t temporal_step(struct engine *base)
{
    struct temporal *engine = engine_of(base);
    return engine->has_thread ? TIME_NEVER : run_temporal_turn(engine);
}

static int temporal_fd(struct engine *base)
{
    return engine_of(base)->poll_fd;
}

static enum weir_status temporal_run_threads(struct engine *base, struct weir_error *error)
{
    struct temporal *engine = engine_of(base);
    if (engine->has_thread) {
        return WEIR_OK;
    }
    engine->has_thread = true;
    int native = thread_start(&engine->thread, run_temporal_loop, engine);
    if (native != 0) {
        engine->has_thread = false;
        return error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for the loop of the engine");
    }
    return WEIR_OK;
}

static void temporal_stop(struct engine *base, bool interrupt)
{
    struct temporal *engine = engine_of(base);
    if (interrupt) {
        atomic_store(&engine->interrupted, true);
    }
    atomic_store(&engine->stopped, true);
    commands_wake_loop(engine);
}

static void temporal_close(struct engine *base)
{
    struct temporal *engine = engine_of(base);
    atomic_store(&engine->closing, true);
    if (engine->has_thread) {
        commands_wake_loop(engine);
        (void)pthread_join(engine->thread, NULL);
    }
    commands_discard(engine);
    if (engine->runs.buckets != NULL && engine->runs.named_buckets != NULL) {
        commands_abandon_runs(engine);
    }
    if (engine->wire.close != NULL) {
        engine->wire.close(engine->wire.context);
    }
    if (engine->wire.codec.close != NULL) {
        engine->wire.codec.close(engine->wire.codec.context);
    }
    INVARIANT(engine->calls == NULL);
    close_sweep_close(engine);
    long_poll_close(engine);
    attributes_close(engine);
    definitions_close(&engine->definitions);
    if (engine->commands.bell_fd >= 0) {
        (void)close(engine->commands.bell_fd);
    }
    if (engine->poll_fd >= 0) {
        (void)close(engine->poll_fd);
    }
    (void)pthread_mutex_destroy(&engine->lock);
    run_table_close(&engine->runs);
    free(engine->address);
    free(engine->namespace_name);
    free(engine->task_queue);
    free(engine->identity);
    free(engine->encoding);
    free(engine);
}

/* Without ENGINE_DIES_WITH_NODE: a workflow outlives the node that started it. */
static const struct engine_operations operations = {
    .name = "temporal",
    .features = ENGINE_RECORDS_STEPS | ENGINE_SEEKS_ENDS,
    .start = temporal_start,
    .cancel = temporal_cancel,
    .abandon = temporal_abandon,
    .recorded = temporal_recorded,
    .want_slots = temporal_want_slots,
    .free_capacity = temporal_free_capacity,
    .running = temporal_running,
    .target = temporal_target,
    .step = temporal_step,
    .fd = temporal_fd,
    .run_threads = temporal_run_threads,
    .stop = temporal_stop,
    .close = temporal_close,
};

/* --- opening --- */

static enum weir_status copy_option_texts(struct temporal *engine, const struct temporal_options *options,
                                          struct weir_error *error)
{
    char host[128] = "node";
    char identity[160];
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(identity, sizeof identity, "weir@%s", host);
    engine->address = strdup(options->address == NULL ? TEMPORAL_ADDRESS_DEFAULT : options->address);
    engine->namespace_name = strdup(options->namespace_name == NULL ? TEMPORAL_NAMESPACE_DEFAULT : options->namespace_name);
    engine->task_queue = strdup(options->task_queue == NULL ? "" : options->task_queue);
    engine->identity = strdup(options->identity == NULL ? identity : options->identity);
    engine->encoding = strdup(options->encoding == NULL ? TEMPORAL_ENCODING_DEFAULT : options->encoding);
    if (engine->address == NULL || engine->namespace_name == NULL || engine->task_queue == NULL ||
        engine->identity == NULL || engine->encoding == NULL) {
        return error_out_of_memory(error);
    }
    const char *const names[] = {engine->namespace_name, engine->task_queue, engine->encoding};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = strlen(names[i]);
        if (length > TEMPORAL_NAME_BYTES_MAX || !text_is_utf8(names[i], length)) {
            return error_set(error, WEIR_INVALID_CONFIG,
                             "temporal.namespace, temporal.task_queue and temporal.encoding hold at most %d bytes of UTF-8",
                             TEMPORAL_NAME_BYTES_MAX);
        }
    }
    return WEIR_OK;
}

static enum weir_status open_tables_and_fds(struct temporal *engine, struct weir_error *error)
{
    struct epoll_event wanted = {.events = EPOLLIN};
    if (!run_table_open(&engine->runs, engine->max_running)) {
        return error_out_of_memory(error);
    }
    engine->commands.bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    engine->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    int wire_fd = engine->wire.fd(engine->wire.context);
    int codec_fd = engine->wire.codec.fd == NULL ? -1 : engine->wire.codec.fd(engine->wire.codec.context);
    if (engine->commands.bell_fd < 0 || engine->poll_fd < 0 ||
        epoll_ctl(engine->poll_fd, EPOLL_CTL_ADD, engine->commands.bell_fd, &wanted) != 0 ||
        (wire_fd >= 0 && epoll_ctl(engine->poll_fd, EPOLL_CTL_ADD, wire_fd, &wanted) != 0) ||
        (codec_fd >= 0 && epoll_ctl(engine->poll_fd, EPOLL_CTL_ADD, codec_fd, &wanted) != 0)) {
        return error_set_native(error, WEIR_SYSTEM, errno, "the system has no file descriptor for the engine: %s",
                                strerror(errno));
    }
    return WEIR_OK;
}

enum weir_status temporal_open_on(const struct temporal_options *options, const struct temporal_wire *wire,
                                  struct engine **ret_engine, struct weir_error *error)
{
    INVARIANT(options != NULL && wire != NULL && wire->call != NULL && wire->step != NULL && ret_engine != NULL);
    struct temporal *engine = calloc(1, sizeof *engine);
    if (engine == NULL) {
        wire->close(wire->context);
        if (wire->codec.close != NULL) {
            wire->codec.close(wire->codec.context);
        }
        return error_out_of_memory(error);
    }
    engine->base.operations = &operations;
    engine->base.clock = options->clock == NULL ? clock_system() : options->clock;
    engine->wire = *wire;
    engine->commands.bell_fd = -1;
    engine->poll_fd = -1;
    engine->commands.last = &engine->commands.first;
    engine->max_running = options->max_running == 0 ? TEMPORAL_MAX_RUNNING_DEFAULT : options->max_running;
    long_poll_init(&engine->long_polls, options->polls_max == 0          ? TEMPORAL_POLLS_MAX_DEFAULT
                                        : options->polls_max == SIZE_MAX ? 0
                                                                         : options->polls_max);
    engine->retention.us = TEMPORAL_RETENTION_LEAST_US;
    engine->health.due_us = time_add(temporal_now(engine), HEALTH_QUIET_US);
    (void)pthread_mutex_init(&engine->lock, NULL);
    definitions_init(&engine->definitions);
    random_seed_from_system(&engine->random);
    start_rate_init(&engine->starts.limits, options->starts_max == 0 ? TEMPORAL_STARTS_MAX_DEFAULT : options->starts_max,
                    temporal_now(engine));
    atomic_store(&engine->starts.window, start_rate_window(&engine->starts.limits));
    enum weir_status status = copy_option_texts(engine, options, error);
    status = status == WEIR_OK ? open_tables_and_fds(engine, error) : status;
    if (status != WEIR_OK) {
        temporal_close(&engine->base);
        return status;
    }
    *ret_engine = &engine->base;
    return WEIR_OK;
}
