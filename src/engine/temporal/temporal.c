/* The verbs of the engine, and its loop. Verbs come from any thread and become commands; everything else belongs to the
 * loop. */
#include "engine/temporal/temporal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

enum command_kind {
    COMMAND_START,
    COMMAND_CANCEL,
    COMMAND_ABANDON,
    COMMAND_RECORDED,
    COMMAND_DESCRIBE,
    COMMAND_WANT_SLOTS
};

struct command {
    struct command *next;
    enum command_kind kind;
    struct run *run; /* START */
    char id[UUID_TEXT_MAX];
    int64_t fence;
    size_t count;    /* RECORDED */
    char *workspace; /* WANT_SLOTS; behind the struct */
    struct recorded entries[];
};

static struct temporal *engine_of(struct engine *engine)
{
    return (struct temporal *)(void *)engine;
}

/* --- commands --- */

static void ring(struct temporal *engine)
{
    static const uint64_t one = 1;
    ssize_t written = write(engine->bell_fd, &one, sizeof one);
    (void)written; /* it fails only when it rings already */
}

static void push(struct temporal *engine, struct command *command)
{
    command->next = NULL;
    (void)pthread_mutex_lock(&engine->lock);
    bool was_empty = engine->first == NULL;
    *engine->last = command;
    engine->last = &command->next;
    (void)pthread_mutex_unlock(&engine->lock);
    if (was_empty) {
        ring(engine);
    }
}

static struct command *take_queue(struct temporal *engine)
{
    struct command *first = engine->first;
    engine->first = NULL;
    engine->last = &engine->first;
    return first;
}

static struct command *take_commands(struct temporal *engine, bool *ret_abandons_all)
{
    uint64_t rings;
    ssize_t got = read(engine->bell_fd, &rings, sizeof rings);
    (void)got; /* nothing rang */
    (void)pthread_mutex_lock(&engine->lock);
    struct command *first = take_queue(engine);
    *ret_abandons_all = engine->abandons_all;
    engine->abandons_all = false;
    (void)pthread_mutex_unlock(&engine->lock);
    return first;
}

static void push_named(struct temporal *engine, enum command_kind kind, const char *id, int64_t fence)
{
    struct command *command = calloc(1, sizeof *command);
    if (command == NULL) {
        engine_lose_word(&engine->base); /* else a claim could be left without an end */
        return;
    }
    command->kind = kind;
    command->fence = fence;
    text_copy(command->id, sizeof command->id, id);
    push(engine, command);
}

/* --- starts --- */

static enum weir_status temporal_start(struct engine *base, const struct engine_start *start, struct weir_error *error)
{
    struct temporal *engine = engine_of(base);
    struct kept_workflow *kept = NULL;
    enum weir_status status = definitions_get(&engine->definitions, start->definition_id, start->definition, &kept, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct command *command = calloc(1, sizeof *command);
    struct run *run = command == NULL ? NULL : run_of_start(engine, start, kept->definition);
    definitions_release(kept);
    if (run == NULL) {
        free(command);
        return error_out_of_memory(error);
    }
    run->counts_as_start = true;
    atomic_fetch_add(&engine->admitted, 1);
    atomic_fetch_add(&engine->starting, 1);
    atomic_store(&engine->ordered_us, temporal_now(engine));
    command->kind = COMMAND_START;
    command->run = run;
    push(engine, command);
    return WEIR_OK;
}

/* --- the loop takes commands --- */

static void drop_new_run(struct temporal *engine, struct run *run)
{
    run_start_is_over(engine, run);
    atomic_fetch_sub(&engine->admitted, 1);
    run_free(run);
}

static void drop_commands(struct temporal *engine, struct command *command)
{
    while (command != NULL) {
        struct command *next = command->next;
        if (command->kind == COMMAND_START) {
            drop_new_run(engine, command->run);
        }
        free(command);
        command = next;
    }
}

/* Surely not started: simply back into the queue. */
static void refuse_for_stop(struct temporal *engine, struct run *run)
{
    report_free(run->refusal);
    if (run_refuse(run, "stopping", false, "the node stops")) {
        run->refusal->delay_us = 0;
        start_take(engine, run);
    } else {
        engine_lose_word(&engine->base);
        run_remove(engine, run);
    }
}

static void take_start(struct temporal *engine, struct run *run)
{
    struct run *before = run_find(engine, run->id);
    if (before != NULL && before->fence >= run->fence) {
        drop_new_run(engine, run); /* the same start again, while we still work on it */
        return;
    }
    if (before != NULL) {
        /* A newer claim of what we still hold: what was sent under the old one may have arrived. */
        run->may_run = true;
        run->known = run->known || before->known;
        run->first_us = before->first_us < run->first_us ? before->first_us : run->first_us;
        memcpy(run->run_id, before->run_id, sizeof run->run_id);
        memcpy(run->first_run_id, before->first_run_id, sizeof run->first_run_id);
        run_remove(engine, before);
    }
    if (!run_insert(engine, run)) {
        drop_new_run(engine, run); /* it is asked again after the start's deadline */
        return;
    }
    if (atomic_load(&engine->stopped) && !run->may_run && !run->known) {
        refuse_for_stop(engine, run);
        return;
    }
    start_take(engine, run);
}

static void take_cancel(struct temporal *engine, const struct command *command)
{
    struct run *run = run_find(engine, command->id);
    if (run != NULL && run->fence == command->fence) {
        start_cancel(engine, run);
    }
}

static void take_abandon(struct temporal *engine, const struct command *command)
{
    struct run *run = run_find(engine, command->id);
    if (run != NULL && run->fence <= command->fence) {
        run_remove(engine, run);
    }
}

static void abandon_all(struct temporal *engine)
{
    waits_want_nothing(engine);
    for (size_t i = 0; i < engine->bucket_count; i++) {
        while (engine->buckets[i] != NULL) {
            run_remove(engine, engine->buckets[i]);
        }
    }
}

static void take_recorded(struct temporal *engine, const struct command *command)
{
    for (size_t i = 0; i < command->count; i++) {
        const struct recorded *recorded = &command->entries[i];
        struct run *run = run_find(engine, recorded->id);
        if (run == NULL || run->fence != recorded->fence) {
            continue;
        }
        if (recorded->kind == REPORT_ENDED) {
            end_recorded(engine, run, recorded->status);
        } else if (recorded->kind == REPORT_GIVEN_BACK ||
                   (recorded->status != WEIR_OK && recorded->status != WEIR_INVALID_ARGUMENT)) {
            run_remove(engine, run);
        }
    }
}

static void take_describe(struct temporal *engine, const struct command *command)
{
    struct run *run = run_find(engine, command->id);
    if (run != NULL) {
        if (run->state == RUN_FOLLOWED) {
            start_ask(engine, run);
        }
        return;
    }
    run = run_new(engine, command->id, command->fence, "", engine->task_queue, NULL);
    if (run == NULL) {
        return;
    }
    atomic_fetch_add(&engine->admitted, 1);
    run->is_asked = true;
    run->may_run = true;
    if (!run_insert(engine, run)) {
        drop_new_run(engine, run);
        return;
    }
    start_take(engine, run);
}

/* True when the run needs nothing more of this node: nothing of it is on its way. */
static bool is_settled(const struct run *run)
{
    return run->state == RUN_FOLLOWED || run->state == RUN_ASKING || run->state == RUN_WAITS;
}

static void give_back_one(struct temporal *engine, struct run *run)
{
    if (run->state == RUN_WAITS && !run->may_run && !run->known) {
        refuse_for_stop(engine, run);
        return;
    }
    call_forget(run->call, false);
    coding_forget(engine, run);
    follow_end(engine, run);
    run_start_is_over(engine, run);
    run_due(engine, run, TIME_NEVER);
    run->state = RUN_ENDED;
    run_say(engine, run_report(engine, run, REPORT_GIVEN_BACK));
}

/* What runs goes on in the service whoever follows it: others may have it at once. What is under way is awaited. */
static void give_back(struct temporal *engine, bool all)
{
    for (size_t i = 0; i < engine->bucket_count; i++) {
        for (struct run *run = engine->buckets[i], *next; run != NULL; run = next) {
            next = run->next;
            if (run->state != RUN_ENDED && (all || is_settled(run))) {
                give_back_one(engine, run);
            }
        }
    }
}

static void take_command(struct temporal *engine, struct command *command)
{
    switch (command->kind) {
    case COMMAND_START:
        take_start(engine, command->run);
        break;
    case COMMAND_CANCEL:
        take_cancel(engine, command);
        break;
    case COMMAND_ABANDON:
        take_abandon(engine, command);
        break;
    case COMMAND_RECORDED:
        take_recorded(engine, command);
        break;
    case COMMAND_DESCRIBE:
        take_describe(engine, command);
        break;
    case COMMAND_WANT_SLOTS:
        waits_want(engine, command->workspace, command->count != 0);
        break;
    }
    free(command);
}

/* --- the loop --- */

static int64_t step_wires(struct temporal *engine)
{
    const struct codec_wire *codec = &engine->wire.codec;
    int64_t codec_us = codec->step == NULL ? TIME_NEVER : codec->step(codec->context);
    int64_t wire_us = engine->wire.step(engine->wire.context);
    return codec_us < wire_us ? codec_us : wire_us;
}

/* Does all that is due; returns when the next thing is. */
static int64_t turn(struct temporal *engine)
{
    bool abandons_all;
    struct command *command = take_commands(engine, &abandons_all);
    if (abandons_all) {
        abandon_all(engine);
    }
    while (command != NULL) {
        struct command *next = command->next;
        take_command(engine, command);
        command = next;
    }
    int64_t wire_us = step_wires(engine);
    int64_t now_us = temporal_now(engine);
    for (struct run *run = run_next_due(engine, now_us); run != NULL; run = run_next_due(engine, now_us)) {
        start_due(engine, run);
    }
    if (atomic_load(&engine->stopped)) {
        give_back(engine, atomic_load(&engine->interrupted));
    }
    int64_t next_us = follow_step(engine, now_us);
    int64_t reach_us = reach_step(engine, now_us);
    next_us = reach_us < next_us ? reach_us : next_us;
    int64_t target_us = target_step(engine, now_us);
    next_us = target_us < next_us ? target_us : next_us;
    /* What was sent just now leaves in this step. */
    int64_t sent_us = step_wires(engine);
    wire_us = sent_us < wire_us ? sent_us : wire_us;
    next_us = wire_us < next_us ? wire_us : next_us;
    int64_t due_us = run_earliest(engine);
    return due_us < next_us ? due_us : next_us;
}

static void *run_loop(void *argument)
{
    struct temporal *engine = argument;
    while (!atomic_load(&engine->closing)) {
        int64_t next_us = turn(engine);
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
    push_named(engine_of(base), COMMAND_CANCEL, id, fence);
}

static void temporal_abandon(struct engine *base, const char *id, int64_t fence)
{
    struct temporal *engine = engine_of(base);
    if (id != NULL) {
        push_named(engine, COMMAND_ABANDON, id, fence);
        return;
    }
    /* Needs no memory. All that was ordered so far is of claims that are given up by this. */
    (void)pthread_mutex_lock(&engine->lock);
    struct command *dropped = take_queue(engine);
    engine->abandons_all = true;
    (void)pthread_mutex_unlock(&engine->lock);
    drop_commands(engine, dropped);
    ring(engine);
}

static void temporal_recorded(struct engine *base, const struct recorded *recorded, size_t count)
{
    struct temporal *engine = engine_of(base);
    struct command *command = calloc(1, sizeof *command + count * sizeof *recorded);
    if (command == NULL) {
        engine_lose_word(base); /* what waits for it is given up with everything else, and its room is free then */
        return;
    }
    command->kind = COMMAND_RECORDED;
    command->count = count;
    memcpy(command->entries, recorded, count * sizeof *recorded);
    push(engine, command);
}

static void temporal_describe(struct engine *base, const char *id, int64_t fence)
{
    push_named(engine_of(base), COMMAND_DESCRIBE, id, fence);
}

static void temporal_want_slots(struct engine *base, const char *workspace, bool wanted)
{
    size_t length = strlen(workspace) + 1;
    struct command *command = calloc(1, sizeof *command + length);
    if (command == NULL) {
        return; /* advice */
    }
    command->kind = COMMAND_WANT_SLOTS;
    command->count = wanted ? 1 : 0;
    command->workspace = (char *)(command + 1);
    memcpy(command->workspace, workspace, length);
    push(engine_of(base), command);
}

static size_t temporal_room(struct engine *base)
{
    struct temporal *engine = engine_of(base);
    size_t admitted = atomic_load(&engine->admitted);
    size_t starting = atomic_load(&engine->starting);
    size_t window = atomic_load(&engine->window);
    if (atomic_load(&engine->stopped) || admitted >= engine->max_running || starting >= window) {
        return 0;
    }
    size_t places = window - starting;
    /* A claim for each answer would cost more than the start itself. Whoever waits long for answers gets what there is. */
    if (places < window / ROOM_PARTS && temporal_now(engine) - atomic_load(&engine->ordered_us) < ROOM_WAITS_US) {
        return 0;
    }
    size_t room = engine->max_running - admitted;
    return room < places ? room : places;
}

static bool temporal_target(struct engine *base, struct engine_target *ret_target)
{
    struct temporal *engine = engine_of(base);
    bool is_known = target_read(engine, ret_target);
    if (!is_known) {
        ring(engine);
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
    return engine->has_thread ? TIME_NEVER : turn(engine);
}

static int temporal_fd(struct engine *base)
{
    return engine_of(base)->poll_fd;
}

static enum weir_status temporal_run_threads(struct engine *base, struct weir_error *error)
{
    struct temporal *engine = engine_of(base);
    sigset_t all;
    sigset_t before;
    if (engine->has_thread) {
        return WEIR_OK;
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    engine->has_thread = true;
    int native = pthread_create(&engine->thread, NULL, run_loop, engine);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (native != 0) {
        engine->has_thread = false;
        return error_set_native(error, WEIR_SYSTEM, native, "no thread for the engine's loop");
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
    ring(engine);
}

static void temporal_close(struct engine *base)
{
    struct temporal *engine = engine_of(base);
    atomic_store(&engine->closing, true);
    if (engine->has_thread) {
        ring(engine);
        (void)pthread_join(engine->thread, NULL);
    }
    drop_commands(engine, take_queue(engine));
    if (engine->buckets != NULL && engine->named_buckets != NULL) {
        abandon_all(engine);
    }
    if (engine->wire.close != NULL) {
        engine->wire.close(engine->wire.context);
    }
    if (engine->wire.codec.close != NULL) {
        engine->wire.codec.close(engine->wire.codec.context);
    }
    INVARIANT(engine->calls == NULL);
    follow_close(engine);
    waits_close(engine);
    attributes_close(engine);
    definitions_close(&engine->definitions);
    if (engine->bell_fd >= 0) {
        (void)close(engine->bell_fd);
    }
    if (engine->poll_fd >= 0) {
        (void)close(engine->poll_fd);
    }
    (void)pthread_mutex_destroy(&engine->lock);
    free(engine->buckets);
    free(engine->named_buckets);
    free(engine->heap);
    free(engine->address);
    free(engine->namespace_name);
    free(engine->task_queue);
    free(engine->identity);
    free(engine->encoding);
    free(engine);
}

/* Without ENGINE_DIES_WITH_NODE: what runs outlives the node that started it. */
static const struct engine_operations operations = {
    .name = "temporal",
    .features = ENGINE_RECORDS_STEPS | ENGINE_DESCRIBES | ENGINE_SEEKS_ENDS,
    .start = temporal_start,
    .cancel = temporal_cancel,
    .abandon = temporal_abandon,
    .recorded = temporal_recorded,
    .describe = temporal_describe,
    .want_slots = temporal_want_slots,
    .room = temporal_room,
    .running = temporal_running,
    .target = temporal_target,
    .step = temporal_step,
    .fd = temporal_fd,
    .run_threads = temporal_run_threads,
    .stop = temporal_stop,
    .close = temporal_close,
};

/* --- opening --- */

static enum weir_status copy_texts(struct temporal *engine, const struct temporal_options *options,
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

static enum weir_status open_parts(struct temporal *engine, struct weir_error *error)
{
    struct epoll_event wanted = {.events = EPOLLIN};
    engine->bucket_count = BUCKETS_MIN;
    while (engine->bucket_count < 2 * engine->max_running && engine->bucket_count < BUCKETS_MAX) {
        engine->bucket_count *= 2;
    }
    engine->buckets = calloc(engine->bucket_count, sizeof *engine->buckets);
    engine->named_buckets = calloc(engine->bucket_count, sizeof *engine->named_buckets);
    if (engine->buckets == NULL || engine->named_buckets == NULL) {
        return error_out_of_memory(error);
    }
    engine->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    engine->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    int wire_fd = engine->wire.fd(engine->wire.context);
    int codec_fd = engine->wire.codec.fd == NULL ? -1 : engine->wire.codec.fd(engine->wire.codec.context);
    if (engine->bell_fd < 0 || engine->poll_fd < 0 ||
        epoll_ctl(engine->poll_fd, EPOLL_CTL_ADD, engine->bell_fd, &wanted) != 0 ||
        (wire_fd >= 0 && epoll_ctl(engine->poll_fd, EPOLL_CTL_ADD, wire_fd, &wanted) != 0) ||
        (codec_fd >= 0 && epoll_ctl(engine->poll_fd, EPOLL_CTL_ADD, codec_fd, &wanted) != 0)) {
        return error_set_native(error, WEIR_SYSTEM, errno, "no file descriptor for the engine: %s", strerror(errno));
    }
    return WEIR_OK;
}

enum weir_status temporal_open_on(const struct temporal_options *options, const struct temporal_wire *wire,
                                  struct engine **ret_engine, struct weir_error *error)
{
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
    engine->bell_fd = -1;
    engine->poll_fd = -1;
    engine->last = &engine->first;
    engine->max_running = options->max_running == 0 ? TEMPORAL_MAX_RUNNING_DEFAULT : options->max_running;
    engine->polls_max = options->polls_max == 0          ? TEMPORAL_POLLS_MAX_DEFAULT
                        : options->polls_max == SIZE_MAX ? 0
                                                         : options->polls_max;
    waits_open(engine);
    engine->retention_us = TEMPORAL_RETENTION_LEAST_US;
    engine->reach.due_us = time_add(temporal_now(engine), REACH_QUIET_US);
    (void)pthread_mutex_init(&engine->lock, NULL);
    definitions_init(&engine->definitions);
    random_seed_from_system(&engine->random);
    pace_init(&engine->pace, options->starts_max == 0 ? TEMPORAL_STARTS_MAX_DEFAULT : options->starts_max,
              temporal_now(engine));
    atomic_store(&engine->window, pace_window(&engine->pace));
    enum weir_status status = copy_texts(engine, options, error);
    status = status == WEIR_OK ? open_parts(engine, error) : status;
    if (status != WEIR_OK) {
        temporal_close(&engine->base);
        return status;
    }
    *ret_engine = &engine->base;
    return WEIR_OK;
}
