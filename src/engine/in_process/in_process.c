/* The in-process engine behind the interface of engine.h: its verbs, its loop, its opening and closing.
 *
 * A verb runs in any thread. It copies its arguments into a command, wakes the loop and returns (runner_commands.c). All
 * other work is done by the loop's thread, or by the caller of engine_step(). One turn of the loop does, in this order:
 *
 *   1. The new lease goes to the keeper, before any start, because the keeper refuses starts after the end of a lease.
 *   2. Commands: starts, cancels, answers of the store.
 *   3. An interruption gives back every execution. It follows the commands, so it includes the starts before it.
 *   4. Handlers that have returned give their results to their steps.
 *   5. Timers that are due fire: timeouts, ends of sleeps, deadlines of evaluators.
 *   6. Free places go to the steps that wait for them: evaluators, processes, handler threads. This is last, because each
 *      step of the turn may free places or add steps.
 *
 * The loop must never block: it would delay the timeouts of all steps. It calls no handler, unless the engine has no
 * threads.
 */
#include "engine/in_process/in_process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/stack.h"
#include "base/text.h"
#include "base/thread.h"
#include "engine/in_process/execution.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/runner_commands.h"
#include "engine/in_process/step_exec.h"
#include "engine/in_process/step_handler.h"
#include "engine/in_process/task_call.h"

/* A busy loop polls its file descriptors after so many turns. */
enum { TURNS_WITHOUT_POLL = 8 };

/* --- the loop --- */

static bool runner_has_work(struct runner *runner)
{
    return !command_queue_is_empty(&runner->commands) || atomic_load(&runner->has_new_lease) ||
           atomic_load(&runner->has_to_interrupt) || handler_pool_has_finished(&runner->handlers);
}

static void finish_calls(struct runner *runner)
{
    struct weir_call *call = handler_pool_collect(&runner->handlers);
    while (call != NULL) {
        struct weir_call *next = call->next;
        if (call->task != NULL) {
            task_call_finish(call);
        } else {
            step_handler_finish(call);
        }
        call = next;
    }
}

/* One turn, as described above; returns when the next timer is due. A timer that this turn makes due waits for the next. */
static int64_t run_turn(struct runner *runner)
{
    if (atomic_load(&runner->has_new_lease) && atomic_exchange(&runner->has_new_lease, false)) {
        process_table_set_lease(&runner->processes, atomic_load(&runner->lease_end_us));
    }
    bool has_to_interrupt = atomic_load(&runner->has_to_interrupt) && atomic_exchange(&runner->has_to_interrupt, false);
    runner_execute_commands(runner);
    if (has_to_interrupt) {
        runner->is_interrupted = true;
        runner_end_all(runner, ENDING_GIVEN_BACK);
        task_call_cancel_all(runner);
    }
    finish_calls(runner);
    (void)loop_fire_timers(&runner->loop);
    evaluator_pool_assign(&runner->evaluators);
    step_exec_start_queued(runner);
    handler_pool_flush(&runner->handlers);
    return loop_next_due(&runner->loop);
}

static void *run_engine_loop(void *argument)
{
    struct runner *runner = argument;
    int turns = 0;
    while (!atomic_load(&runner->closing)) {
        int64_t next_us = run_turn(runner);
        if (runner_has_work(runner) && ++turns < TURNS_WITHOUT_POLL) {
            continue;
        }
        turns = 0;
        loop_set_asleep(&runner->loop, true);
        loop_wait(&runner->loop, runner_has_work(runner) || atomic_load(&runner->closing) ? 0 : next_us);
        loop_set_asleep(&runner->loop, false);
    }
    return NULL;
}

/* --- the verbs --- */

static enum weir_status in_process_start(struct engine *engine, const struct engine_start *start, struct weir_error *error)
{
    struct runner *runner = runner_of_engine(engine);
    struct execution *execution;
    enum weir_status status = execution_new(runner, start, &execution, error);
    if (status == WEIR_OK) {
        atomic_fetch_add(&runner->admitted, 1);
        runner_push_command(runner, &execution->command);
    }
    return status;
}

static void in_process_signal(struct engine *engine, const char *id, int64_t fence, const struct signal_record *signal)
{
    runner_send_signal(runner_of_engine(engine), id, fence, signal);
}

static void in_process_cancel(struct engine *engine, const char *id, int64_t fence)
{
    runner_send_named(runner_of_engine(engine), COMMAND_CANCEL, id, fence);
}

static void in_process_abandon(struct engine *engine, const char *id, int64_t fence)
{
    if (id != NULL) {
        runner_send_named(runner_of_engine(engine), COMMAND_ABANDON, id, fence);
    } else {
        runner_send_abandon_all(runner_of_engine(engine));
    }
}

static void in_process_recorded(struct engine *engine, const struct recorded *recorded, size_t count)
{
    runner_send_recorded(runner_of_engine(engine), recorded, count);
}

static size_t in_process_free_capacity(struct engine *engine)
{
    struct runner *runner = runner_of_engine(engine);
    size_t admitted = atomic_load(&runner->admitted);
    return atomic_load(&runner->stopped) || admitted >= runner->options.max_running
               ? 0
               : runner->options.max_running - admitted;
}

static size_t in_process_running(struct engine *engine)
{
    return atomic_load(&runner_of_engine(engine)->admitted);
}

static void in_process_lease(struct engine *engine, int64_t lease_end_boot_us)
{
    struct runner *runner = runner_of_engine(engine);
    atomic_store(&runner->lease_end_us, lease_end_boot_us);
    atomic_store(&runner->has_new_lease, true);
    loop_notify(&runner->loop);
}

static int64_t in_process_step(struct engine *engine)
{
    struct runner *runner = runner_of_engine(engine);
    if (runner->has_thread) {
        return TIME_NEVER;
    }
    loop_set_asleep(&runner->loop, false);
    loop_wait(&runner->loop, 0);
    int64_t next_us = run_turn(runner);
    for (int i = 0; i < TURNS_WITHOUT_POLL && runner_has_work(runner); i++) {
        next_us = run_turn(runner);
    }
    loop_set_asleep(&runner->loop, true);
    return runner_has_work(runner) ? loop_now(&runner->loop) : next_us;
}

static int in_process_fd(struct engine *engine)
{
    return runner_of_engine(engine)->loop.poll_fd;
}

static enum weir_status in_process_run_threads(struct engine *engine, struct weir_error *error)
{
    struct runner *runner = runner_of_engine(engine);
    if (runner->has_thread) {
        return WEIR_OK;
    }
    enum weir_status status = handler_pool_run_threads(&runner->handlers, runner->options.handler_threads,
                                                       runner->options.handler_threads_spare, error);
    if (status != WEIR_OK) {
        return status;
    }
    int native = thread_start(&runner->thread, run_engine_loop, runner);
    if (native != 0) {
        return error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for the engine's loop");
    }
    runner->has_thread = true;
    return WEIR_OK;
}

static void in_process_stop(struct engine *engine, bool interrupt)
{
    struct runner *runner = runner_of_engine(engine);
    atomic_store(&runner->stopped, true);
    if (interrupt) {
        atomic_store(&runner->has_to_interrupt, true);
        loop_notify(&runner->loop);
    }
}

/* Frees the executions that have processes. The close of the process table kills these. */
static void free_running_executions(struct execution_table *table)
{
    for (size_t i = 0; table->buckets != NULL && i < table->bucket_count; i++) {
        while (table->buckets[i] != NULL) {
            struct execution *execution = table->buckets[i];
            execution_table_remove(table, execution);
            execution_free(execution);
        }
    }
}

static void in_process_close(struct engine *engine)
{
    struct runner *runner = runner_of_engine(engine);
    INVARIANT(!atomic_load(&runner->closing));
    if (runner->has_thread) {
        atomic_store(&runner->closing, true);
        loop_notify(&runner->loop);
        (void)pthread_join(runner->thread, NULL);
    }
    runner_free_commands(runner);
    if (runner->executions.buckets != NULL) {
        runner_abandon_everything(runner);
    }
    task_call_cancel_all(runner);
    http_client_close(&runner->requests); /* answers its calls, for which the pool waits */
    handler_pool_close(&runner->handlers);
    finish_calls(runner);
    free_running_executions(&runner->executions);
    evaluator_pool_close(&runner->evaluators);
    process_table_close(&runner->processes);
    definition_cache_close(&runner->definitions);
    loop_close(&runner->loop);
    execution_table_close(&runner->executions);
    runner_options_close(&runner->options);
    free(runner);
}

static long in_process_keeper(const struct engine *engine)
{
    return atomic_load(&((const struct runner *)(const void *)engine)->processes.keeper.pid);
}

/* Reports the loss of a keeper. The node logs it and writes the new keeper's process id into its row. */
static void report_keeper_loss(void *context, const struct keeper_loss *loss)
{
    struct runner *runner = context;
    char how[64];
    char text[256];
    if (loss->was_silent) {
        (void)snprintf(how, sizeof how, "did not answer and was killed");
    } else if (WIFSIGNALED(loss->wait_status)) {
        (void)snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(loss->wait_status));
    } else {
        (void)snprintf(how, sizeof how, "ended");
    }
    if (loss->pid != 0) {
        (void)snprintf(text, sizeof text, "the keeper, process %d, %s; process %d has replaced it", (int)loss->old_pid, how,
                       (int)loss->pid);
    } else {
        (void)snprintf(text, sizeof text, "the keeper, process %d, %s; exec steps wait for a new keeper: %.120s",
                       (int)loss->old_pid, how, loss->error);
    }
    struct report *report = report_new(REPORT_INTERRUPTED, "", 0);
    if (report == NULL) {
        return; /* the next heartbeat writes the new process id all the same */
    }
    report->count = (int64_t)loss->interrupted;
    text_copy(report->error_code, sizeof report->error_code, "keeper_lost");
    report->error = strdup(text);
    engine_report(&runner->base, report);
}

static void report_shortage(void *context, int native)
{
    struct runner *runner = context;
    struct report *report = report_new(REPORT_SHORTAGE, "", 0);
    if (report == NULL) {
        return;
    }
    text_copy(report->error_code, sizeof report->error_code, STEP_NODE_SHORT);
    report->error = strdup(shortage_text(native));
    engine_report(&runner->base, report);
}

static enum weir_status in_process_add_handler(struct engine *engine, const struct weir_handler *handler,
                                               struct weir_error *error)
{
    return definition_cache_add_handler(&((struct runner *)(void *)engine)->definitions, handler, error);
}

static enum weir_status in_process_remove_handler(struct engine *engine, const char *name, struct weir_error *error)
{
    return definition_cache_remove_handler(&((struct runner *)(void *)engine)->definitions, name, error);
}

static const struct engine_operations in_process_operations = {
    .name = "in_process",
    .features = ENGINE_DIES_WITH_NODE | ENGINE_RECORDS_STEPS,
    .start = in_process_start,
    .cancel = in_process_cancel,
    .signal = in_process_signal,
    .abandon = in_process_abandon,
    .recorded = in_process_recorded,
    .free_capacity = in_process_free_capacity,
    .running = in_process_running,
    .lease = in_process_lease,
    .keeper_pid = in_process_keeper,
    .add_handler = in_process_add_handler,
    .remove_handler = in_process_remove_handler,
    .call = task_call_start,
    .cancel_call = task_call_cancel,
    .step = in_process_step,
    .fd = in_process_fd,
    .run_threads = in_process_run_threads,
    .stop = in_process_stop,
    .close = in_process_close,
};

/* --- opening --- */

/* Some steps of the processes are only for workspaces that run no other step: one place in PROCESS_SPARE_PART. */
static void init_process_places(struct runner *runner)
{
    size_t places = runner->processes.processes_max;
    size_t spare = (places + PROCESS_SPARE_PART - 1) / PROCESS_SPARE_PART;
    fair_queue_init(&runner->process_places, places, spare < PROCESS_SPARE_MOST ? spare : PROCESS_SPARE_MOST);
    runner->process_places.starting_most = STEP_STARTS_MOST;
    fair_queue_init(&runner->spawn_places, step_exec_spawns_most(), 0);
}

/* Each part is at least initialised, also after an error, so that in_process_close() can close all of them. */
static enum weir_status open_runner_parts(struct runner *runner, const struct in_process_options *options,
                                          struct weir_error *error)
{
    enum weir_status status = runner_options_copy(&runner->options, options, error);
    if (status == WEIR_OK && execution_table_open(&runner->executions, runner->options.max_running) != WEIR_OK) {
        status = error_out_of_memory(error);
    }
    handler_pool_init(&runner->handlers, &runner->loop);
    http_client_init(&runner->requests, &runner->options.http_rules, runner->base.clock);
    definition_cache_init(&runner->definitions);
    for (size_t i = 0; i < options->handler_count && status == WEIR_OK; i++) {
        status = definition_cache_add_handler(&runner->definitions, &options->handlers[i], error);
        if (status == WEIR_CONFLICT) {
            status =
                error_set(error, WEIR_INVALID_ARGUMENT, "there are two handlers named \"%s\"", options->handlers[i].name);
        }
    }
    status = status == WEIR_OK ? loop_init(&runner->loop, runner->base.clock, error) : status;
    if (status == WEIR_OK && !options->has_calls_alone) {
        status = process_table_open(&runner->processes, &runner->loop, error);
    }
    init_process_places(runner);
    runner->processes.is_unguarded = options->exec_unguarded;
    runner->processes.report_loss = report_keeper_loss;
    runner->processes.shortage.report = report_shortage;
    runner->processes.shortage.context = runner;
    runner->processes.context = runner;
    evaluator_pool_init(&runner->evaluators, &runner->loop, &runner->processes);
    loop_set_asleep(&runner->loop, true);
    return status;
}

enum weir_status in_process_open(const struct in_process_options *options, struct engine **ret_engine,
                                 struct weir_error *error)
{
    INVARIANT(options != NULL && ret_engine != NULL);
    if (stack_require(error) != WEIR_OK) { /* before the keeper is forked */
        return WEIR_SYSTEM;
    }
    struct runner *runner = calloc(1, sizeof *runner);
    if (runner == NULL) {
        return error_out_of_memory(error);
    }
    runner->loop.poll_fd = -1;
    runner->loop.wake_fd = -1;
    runner->abandon_all.kind = COMMAND_ABANDON_ALL;
    runner->base.operations = &in_process_operations;
    runner->base.clock = options->clock != NULL ? options->clock : clock_system();
    random_seed_from_system(&runner->random);
    enum weir_status status = open_runner_parts(runner, options, error);
    if (status != WEIR_OK) {
        in_process_close(&runner->base);
        return status;
    }
    *ret_engine = &runner->base;
    return WEIR_OK;
}
