/* The orders of the node: starts, cancels, lost claims, recorded reports.
 *
 * Verbs of the engine are called in any thread and must not wait for the loop. So each verb becomes a command in a queue
 * under the engine's lock, and the bell (an eventfd) wakes the loop. The loop takes the whole queue at once and executes it
 * in order, because a cancel or an abandon must not pass the start that it is about.
 *
 * A command is never dropped silently. The loss of one for want of memory could leave a claim without an end. So the
 * engine notes a lost report, and the node then gives up every claim. Only advice (want_slots) may be lost.
 *
 * The push functions run in any thread; all other functions run in the engine's loop. */
#include "engine/temporal/commands.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

struct command {
    struct command *next;
    enum command_kind kind;
    struct run *run; /* START */
    char id[UUID_TEXT_MAX];
    int64_t fence;
    size_t count;    /* RECORDED: entries; WANT_SLOTS: 1 = wanted */
    char *workspace; /* WANT_SLOTS; behind the struct */
    struct recorded entries[];
};

/* --- any thread --- */

void commands_wake_loop(struct temporal *engine)
{
    static const uint64_t one = 1;
    ssize_t written = write(engine->commands.bell_fd, &one, sizeof one);
    (void)written; /* it fails only when the bell rings already */
}

static void push_command(struct temporal *engine, struct command *command)
{
    struct command_queue *queue = &engine->commands;
    command->next = NULL;
    (void)pthread_mutex_lock(&engine->lock);
    bool was_empty = queue->first == NULL;
    *queue->last = command;
    queue->last = &command->next;
    (void)pthread_mutex_unlock(&engine->lock);
    if (was_empty) {
        commands_wake_loop(engine);
    }
}

bool commands_push_start(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL && run->fence > 0);
    struct command *command = calloc(1, sizeof *command);
    if (command == NULL) {
        return false;
    }
    run->counts_as_start = true;
    atomic_fetch_add(&engine->admitted, 1);
    atomic_fetch_add(&engine->starts.under_way, 1);
    atomic_store(&engine->starts.ordered_us, temporal_now(engine));
    command->kind = COMMAND_START;
    command->run = run;
    push_command(engine, command);
    return true;
}

void commands_push_run(struct temporal *engine, enum command_kind kind, const char *id, int64_t fence)
{
    INVARIANT(id != NULL && (kind == COMMAND_CANCEL || kind == COMMAND_ABANDON));
    struct command *command = calloc(1, sizeof *command);
    if (command == NULL) {
        engine_note_lost_report(&engine->base); /* else a claim could be left without an end */
        return;
    }
    command->kind = kind;
    command->fence = fence;
    text_copy(command->id, sizeof command->id, id);
    push_command(engine, command);
}

void commands_push_recorded(struct temporal *engine, const struct recorded *recorded, size_t count)
{
    INVARIANT(recorded != NULL && count > 0);
    struct command *command = calloc(1, sizeof *command + count * sizeof *recorded);
    if (command == NULL) {
        engine_note_lost_report(&engine->base); /* the node gives every claim up, which also frees these runs */
        return;
    }
    command->kind = COMMAND_RECORDED;
    command->count = count;
    memcpy(command->entries, recorded, count * sizeof *recorded);
    push_command(engine, command);
}

void commands_push_want_slots(struct temporal *engine, const char *workspace, bool wanted)
{
    INVARIANT(workspace != NULL);
    size_t length = strlen(workspace) + 1;
    struct command *command = calloc(1, sizeof *command + length);
    if (command == NULL) {
        return; /* advice */
    }
    command->kind = COMMAND_WANT_SLOTS;
    command->count = wanted ? 1 : 0;
    command->workspace = (char *)(command + 1);
    memcpy(command->workspace, workspace, length);
    push_command(engine, command);
}

/* --- taking and discarding --- */

/* The caller holds the lock. */
static struct command *detach_commands(struct command_queue *queue)
{
    struct command *first = queue->first;
    queue->first = NULL;
    queue->last = &queue->first;
    return first;
}

/* Frees a run that never got into the table. */
static void discard_new_run(struct temporal *engine, struct run *run)
{
    run_release_start(engine, run);
    atomic_fetch_sub(&engine->admitted, 1);
    run_free(run);
}

static void discard_list(struct temporal *engine, struct command *command)
{
    while (command != NULL) {
        struct command *next = command->next;
        if (command->kind == COMMAND_START) {
            discard_new_run(engine, command->run);
        }
        free(command);
        command = next;
    }
}

void commands_push_abandon_all(struct temporal *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    struct command *dropped = detach_commands(&engine->commands);
    engine->commands.abandons_all = true;
    (void)pthread_mutex_unlock(&engine->lock);
    discard_list(engine, dropped);
    commands_wake_loop(engine);
}

void commands_discard(struct temporal *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    struct command *dropped = detach_commands(&engine->commands);
    (void)pthread_mutex_unlock(&engine->lock);
    discard_list(engine, dropped);
}

/* --- execution --- */

/* The run has certainly not been started: its item goes back into the queue without a delay. */
static void refuse_because_stopping(struct temporal *engine, struct run *run)
{
    report_free(run->refusal);
    if (run_make_refusal(run, "stopping", false, "the node stops")) {
        run->refusal->delay_us = 0;
        starts_take_claim(engine, run);
    } else {
        engine_note_lost_report(&engine->base);
        run_remove(engine, run);
    }
}

/* A start of an execution that the engine holds under an older claim takes over the knowledge of the older run. A start
 * that was sent under the old fence may have arrived. */
static void handle_start_command(struct temporal *engine, struct run *run)
{
    struct run *before = run_find(engine, run->id);
    if (before != NULL && before->fence >= run->fence) {
        discard_new_run(engine, run); /* the same start again, while the engine still works on it */
        return;
    }
    if (before != NULL) {
        run->may_run = true;
        run->known = run->known || before->known;
        run->first_us = before->first_us < run->first_us ? before->first_us : run->first_us;
        memcpy(run->run_id, before->run_id, sizeof run->run_id);
        memcpy(run->first_run_id, before->first_run_id, sizeof run->first_run_id);
        run_remove(engine, before);
    }
    if (!run_insert(engine, run)) {
        discard_new_run(engine, run); /* the node orders it again after the start's deadline */
        return;
    }
    if (atomic_load(&engine->stopped) && !run->may_run && !run->known) {
        refuse_because_stopping(engine, run);
        return;
    }
    starts_take_claim(engine, run);
}

static void handle_cancel_command(struct temporal *engine, const struct command *command)
{
    struct run *run = run_find(engine, command->id);
    if (run != NULL && run->fence == command->fence) {
        starts_cancel_run(engine, run);
    }
}

static void handle_abandon_command(struct temporal *engine, const struct command *command)
{
    struct run *run = run_find(engine, command->id);
    if (run != NULL && run->fence <= command->fence) {
        run_remove(engine, run);
    }
}

/* A durable end or give-back removes the run. A record that the store refused because the claim is lost does, too. */
static void handle_recorded_command(struct temporal *engine, const struct command *command)
{
    for (size_t i = 0; i < command->count; i++) {
        const struct recorded *recorded = &command->entries[i];
        struct run *run = run_find(engine, recorded->id);
        if (run == NULL || run->fence != recorded->fence) {
            continue;
        }
        if (recorded->kind == REPORT_ENDED) {
            closing_handle_recorded(engine, run, recorded->status);
        } else if (recorded->kind == REPORT_GIVEN_BACK ||
                   (recorded->status != WEIR_OK && recorded->status != WEIR_INVALID_ARGUMENT)) {
            run_remove(engine, run);
        }
    }
}

static void execute_temporal_command(struct temporal *engine, struct command *command)
{
    switch (command->kind) {
    case COMMAND_START:
        handle_start_command(engine, command->run);
        break;
    case COMMAND_CANCEL:
        handle_cancel_command(engine, command);
        break;
    case COMMAND_ABANDON:
        handle_abandon_command(engine, command);
        break;
    case COMMAND_RECORDED:
        handle_recorded_command(engine, command);
        break;
    case COMMAND_WANT_SLOTS:
        long_poll_want_slots(engine, command->workspace, command->count != 0);
        break;
    }
    free(command);
}

void commands_execute(struct temporal *engine)
{
    INVARIANT(engine != NULL);
    uint64_t rings;
    ssize_t got = read(engine->commands.bell_fd, &rings, sizeof rings);
    (void)got; /* it fails when the bell did not ring */
    (void)pthread_mutex_lock(&engine->lock);
    struct command *command = detach_commands(&engine->commands);
    bool abandons_all = engine->commands.abandons_all;
    engine->commands.abandons_all = false;
    (void)pthread_mutex_unlock(&engine->lock);
    if (abandons_all) {
        commands_abandon_runs(engine);
    }
    while (command != NULL) {
        struct command *next = command->next;
        execute_temporal_command(engine, command);
        command = next;
    }
}

/* --- all runs --- */

void commands_abandon_runs(struct temporal *engine)
{
    long_poll_want_no_slots(engine);
    for (size_t i = 0; i < engine->runs.bucket_count; i++) {
        while (engine->runs.buckets[i] != NULL) {
            run_remove(engine, engine->runs.buckets[i]);
        }
    }
}

/* True when no start and no close event of the run is under way. */
static bool may_be_given_back(const struct run *run)
{
    return run->state == RUN_FOLLOWED || run->state == RUN_DESCRIBING || run->state == RUN_WAITING;
}

static void give_back_run(struct temporal *engine, struct run *run)
{
    INVARIANT(run->state != RUN_ENDED);
    if (run->state == RUN_WAITING && !run->may_run && !run->known) {
        refuse_because_stopping(engine, run);
        return;
    }
    call_detach(run->call, false);
    coding_cancel(engine, run);
    long_poll_remove_run(engine, run);
    run_release_start(engine, run);
    run_set_due(engine, run, TIME_NEVER);
    run->state = RUN_ENDED;
    run_send_report(engine, run_new_report(engine, run, REPORT_GIVEN_BACK));
}

/* The workflows go on in the service without this node, so another node may have them at once. */
void commands_give_back_runs(struct temporal *engine, bool all)
{
    INVARIANT(atomic_load(&engine->stopped));
    for (size_t i = 0; i < engine->runs.bucket_count; i++) {
        for (struct run *run = engine->runs.buckets[i], *next; run != NULL; run = next) {
            next = run->next;
            if (run->state != RUN_ENDED && (all || may_be_given_back(run))) {
                give_back_run(engine, run);
            }
        }
    }
}
