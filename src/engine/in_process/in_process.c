#include "engine/in_process/in_process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/stack.h"
#include "base/text.h"
#include "engine/in_process/execution.h"
#include "engine/in_process/in_process_internal.h"
#include "engine/in_process/step_exec.h"
#include "engine/in_process/step_handler.h"

enum {
    BUCKETS_MIN = 1024,
    BUCKETS_MAX = 1 << 20,
    TURNS_WITHOUT_LOOK = 8 /* a busy loop looks at its file descriptors at least this often */
};

struct named_command {
    struct command command;
    char id[UUID_TEXT_MAX];
    int64_t value; /* fence */
};

struct recorded_command {
    struct command command;
    size_t count;
    struct recorded entries[];
};

/* --- the table of executions --- */

static struct execution **bucket_of(const struct runner *runner, const char *id)
{
    uint64_t hash = text_hash(id);
    return &runner->buckets[(hash ^ (hash >> 32)) & (runner->bucket_count - 1)];
}

struct execution *runner_find(const struct runner *runner, const char *id)
{
    struct execution *execution = *bucket_of(runner, id);
    while (execution != NULL && strcmp(execution->id, id) != 0) {
        execution = execution->next;
    }
    return execution;
}

void runner_insert(struct runner *runner, struct execution *execution)
{
    struct execution **bucket = bucket_of(runner, execution->id);
    execution->next = *bucket;
    *bucket = execution;
}

void runner_remove(struct runner *runner, struct execution *execution)
{
    struct execution **link = bucket_of(runner, execution->id);
    while (*link != execution) {
        INVARIANT(*link != NULL);
        link = &(*link)->next;
    }
    *link = execution->next;
}

struct report *runner_report_new(struct runner *runner, enum report_kind kind, const char *id, int64_t fence)
{
    struct report *report = report_new(kind, id, fence);
    if (report == NULL) {
        engine_note_lost_report(&runner->base);
    }
    return report;
}

/* Ends every execution; some leave the table at once, so each bucket is looked at again after each. */
static void end_all(struct runner *runner, enum ending ending)
{
    for (size_t i = 0; i < runner->bucket_count; i++) {
        struct execution *execution = runner->buckets[i];
        while (execution != NULL) {
            if (execution->ending < ending && (!execution->end_reported || ending == ENDING_ABANDONED)) {
                execution_end(execution, ending);
                execution = runner->buckets[i];
            } else {
                execution = execution->next;
            }
        }
    }
}

/* --- commands: from any thread to the loop --- */

static void push(struct runner *runner, struct command *command)
{
    struct command *head = atomic_load_explicit(&runner->commands, memory_order_relaxed);
    do {
        command->next = head;
    } while (!atomic_compare_exchange_weak(&runner->commands, &head, command));
    loop_ring(&runner->loop);
}

static void push_named(struct runner *runner, enum command_kind kind, const char *id, int64_t value)
{
    struct named_command *command = calloc(1, sizeof *command);
    if (command == NULL) {
        engine_note_lost_report(&runner->base); /* else an execution would run on against orders */
        return;
    }
    command->command.kind = kind;
    command->value = value;
    text_copy(command->id, sizeof command->id, id);
    push(runner, &command->command);
}

static void take_cancel(struct runner *runner, const struct named_command *command)
{
    struct execution *execution = runner_find(runner, command->id);
    if (execution != NULL && execution->fence == command->value) {
        execution_end(execution, ENDING_CANCELLED);
    } else if (execution != NULL && execution->successor != NULL && execution->successor->fence == command->value) {
        execution->successor->cancel_requested = true;
    }
}

static void drop_successor(struct execution *execution)
{
    if (execution->successor != NULL) {
        atomic_fetch_sub(&execution->runner->admitted, 1);
        execution_free(execution->successor);
        execution->successor = NULL;
    }
}

static void take_abandon(struct runner *runner, const struct named_command *command)
{
    struct execution *execution = runner_find(runner, command->id);
    if (execution != NULL && execution->successor != NULL && execution->successor->fence <= command->value) {
        drop_successor(execution);
    }
    if (execution != NULL && execution->fence <= command->value) {
        execution_end(execution, ENDING_ABANDONED);
    }
}

static void abandon_all(struct runner *runner)
{
    for (size_t i = 0; i < runner->bucket_count; i++) {
        for (struct execution *execution = runner->buckets[i]; execution != NULL; execution = execution->next) {
            drop_successor(execution);
        }
    }
    end_all(runner, ENDING_ABANDONED);
}

static bool frees_room(const struct recorded *recorded)
{
    return (recorded->kind == REPORT_ENDED || recorded->kind == REPORT_GIVEN_BACK) && recorded->status == WEIR_OK;
}

static void take_recorded(struct runner *runner, const struct recorded_command *command)
{
    for (size_t i = 0; i < command->count; i++) {
        const struct recorded *recorded = &command->entries[i];
        struct execution *execution = runner_find(runner, recorded->id);
        bool is_here = execution != NULL && execution->fence == recorded->fence;
        if (frees_room(recorded) && is_here && execution->end_reported) {
            execution->room_is_free = true;
        } else if (frees_room(recorded)) {
            atomic_fetch_add(&runner->admitted, 1); /* an answer that came twice freed what it did not have */
        }
        if (is_here) {
            execution_recorded(execution, recorded);
        }
    }
}

static void take_describe(struct runner *runner, const struct named_command *command)
{
    struct execution *execution = runner_find(runner, command->id);
    bool is_here = execution != NULL && execution->fence == command->value && execution->ending != ENDING_ABANDONED;
    struct report *report = report_new(is_here ? REPORT_STARTED : REPORT_ABSENT, command->id, command->value);
    if (report != NULL) { /* else it is asked again */
        engine_report(&runner->base, report);
    }
}

static void take_command(struct runner *runner, struct command *command)
{
    struct named_command *named = (struct named_command *)(void *)command;
    switch (command->kind) {
    case COMMAND_START:
        execution_admit((struct execution *)(void *)command);
        return; /* the execution is its command */
    case COMMAND_CANCEL:
        take_cancel(runner, named);
        break;
    case COMMAND_ABANDON:
        take_abandon(runner, named);
        break;
    case COMMAND_ABANDON_ALL:
        atomic_store(&runner->abandons_all, false);
        abandon_all(runner);
        return; /* it is the runner's own */
    case COMMAND_RECORDED:
        take_recorded(runner, (struct recorded_command *)(void *)command);
        break;
    case COMMAND_DESCRIBE:
        take_describe(runner, named);
        break;
    }
    free(command);
}

static struct command *take_commands(struct runner *runner)
{
    struct command *newest = atomic_exchange(&runner->commands, NULL);
    struct command *oldest = NULL;
    while (newest != NULL) {
        struct command *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

/* --- the loop --- */

static bool has_work(struct runner *runner)
{
    return atomic_load(&runner->commands) != NULL || atomic_load(&runner->has_new_lease) ||
           atomic_load(&runner->is_to_interrupt) || handler_pool_has_finished(&runner->handlers);
}

/* Works off what is there; returns when the next timer is due. */
static int64_t turn(struct runner *runner)
{
    if (atomic_load(&runner->has_new_lease) && atomic_exchange(&runner->has_new_lease, false)) {
        process_table_set_lease(&runner->processes, atomic_load(&runner->lease_end_us));
    }
    bool is_to_interrupt = atomic_load(&runner->is_to_interrupt) && atomic_exchange(&runner->is_to_interrupt, false);
    struct command *command = take_commands(runner);
    while (command != NULL) {
        struct command *next = command->next;
        take_command(runner, command);
        command = next;
    }
    if (is_to_interrupt) { /* also what was started just before; what comes later is refused */
        end_all(runner, ENDING_GIVEN_BACK);
    }
    struct weir_call *call = handler_pool_collect(&runner->handlers);
    while (call != NULL) {
        struct weir_call *next = call->next;
        step_call_finished(call);
        call = next;
    }
    (void)loop_fire_timers(&runner->loop);
    evaluators_work_off(&runner->evaluators);
    step_exec_start_queued(runner);
    handler_pool_flush(&runner->handlers);
    return loop_next_due(&runner->loop); /* what is due by now waits for the next turn, which works off what comes of it */
}

static void *run_loop(void *argument)
{
    struct runner *runner = argument;
    int turns = 0;
    while (!atomic_load(&runner->closing)) {
        int64_t next_us = turn(runner);
        if (has_work(runner) && ++turns < TURNS_WITHOUT_LOOK) {
            continue;
        }
        turns = 0;
        loop_set_asleep(&runner->loop, true);
        loop_wait(&runner->loop, has_work(runner) || atomic_load(&runner->closing) ? 0 : next_us);
        loop_set_asleep(&runner->loop, false);
    }
    return NULL;
}

/* --- the verbs --- */

static enum weir_status in_process_start(struct engine *engine, const struct engine_start *start, struct weir_error *error)
{
    struct runner *runner = (struct runner *)(void *)engine;
    struct execution *execution;
    enum weir_status status = execution_new(runner, start, &execution, error);
    if (status == WEIR_OK) {
        atomic_fetch_add(&runner->admitted, 1);
        push(runner, &execution->command);
    }
    return status;
}

static void in_process_cancel(struct engine *engine, const char *id, int64_t fence)
{
    push_named((struct runner *)(void *)engine, COMMAND_CANCEL, id, fence);
}

static void in_process_abandon(struct engine *engine, const char *id, int64_t fence)
{
    struct runner *runner = (struct runner *)(void *)engine;
    if (id != NULL) {
        push_named(runner, COMMAND_ABANDON, id, fence);
    } else if (!atomic_exchange(&runner->abandons_all, true)) {
        push(runner, &runner->abandon_all);
    } else {
        /* The one before is not worked off, and may stand before starts that this one means too. */
        engine_note_lost_report(engine);
    }
}

static void in_process_recorded(struct engine *engine, const struct recorded *recorded, size_t count)
{
    struct runner *runner = (struct runner *)(void *)engine;
    struct recorded_command *command = malloc(sizeof *command + count * sizeof *recorded);
    if (command == NULL) {
        engine_note_lost_report(engine); /* what waits for it is given up with everything else, and its room is free then */
        return;
    }
    command->command.kind = COMMAND_RECORDED;
    command->count = count;
    memcpy(command->entries, recorded, count * sizeof *recorded);
    /* Room is free before this call returns: the recorder wakes the dispatcher next, and who finds none then sleeps. */
    size_t freed = 0;
    for (size_t i = 0; i < count; i++) {
        freed += frees_room(&recorded[i]);
    }
    atomic_fetch_sub(&runner->admitted, freed);
    push(runner, &command->command);
}

static void in_process_describe(struct engine *engine, const char *id, int64_t fence)
{
    push_named((struct runner *)(void *)engine, COMMAND_DESCRIBE, id, fence);
}

static size_t in_process_room(struct engine *engine)
{
    struct runner *runner = (struct runner *)(void *)engine;
    size_t admitted = atomic_load(&runner->admitted);
    return atomic_load(&runner->stopped) || admitted >= runner->max_running ? 0 : runner->max_running - admitted;
}

static size_t in_process_running(struct engine *engine)
{
    return atomic_load(&((struct runner *)(void *)engine)->admitted);
}

static void in_process_lease(struct engine *engine, int64_t lease_end_boot_us)
{
    struct runner *runner = (struct runner *)(void *)engine;
    atomic_store(&runner->lease_end_us, lease_end_boot_us);
    atomic_store(&runner->has_new_lease, true);
    loop_ring(&runner->loop);
}

static int64_t in_process_step(struct engine *engine)
{
    struct runner *runner = (struct runner *)(void *)engine;
    if (runner->has_thread) {
        return TIME_NEVER;
    }
    loop_set_asleep(&runner->loop, false);
    loop_wait(&runner->loop, 0);
    int64_t next_us = turn(runner);
    for (int i = 0; i < TURNS_WITHOUT_LOOK && has_work(runner); i++) {
        next_us = turn(runner);
    }
    loop_set_asleep(&runner->loop, true);
    return has_work(runner) ? loop_now(&runner->loop) : next_us;
}

static int in_process_fd(struct engine *engine)
{
    return ((struct runner *)(void *)engine)->loop.poll_fd;
}

static enum weir_status in_process_run_threads(struct engine *engine, struct weir_error *error)
{
    struct runner *runner = (struct runner *)(void *)engine;
    if (runner->has_thread) {
        return WEIR_OK;
    }
    enum weir_status status =
        handler_pool_run_threads(&runner->handlers, runner->handler_threads, runner->handler_threads_spare, error);
    if (status != WEIR_OK) {
        return status;
    }
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int native = pthread_create(&runner->thread, NULL, run_loop, runner);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (native != 0) {
        return error_set_native(error, WEIR_SYSTEM, native, "no thread for the engine's loop");
    }
    runner->has_thread = true;
    return WEIR_OK;
}

static void in_process_stop(struct engine *engine, bool interrupt)
{
    struct runner *runner = (struct runner *)(void *)engine;
    atomic_store(&runner->stopped, true);
    if (interrupt) {
        atomic_store(&runner->is_to_interrupt, true);
        loop_ring(&runner->loop);
    }
}

static void free_options(struct runner *runner)
{
    for (size_t i = 0; runner->exec_allow_list != NULL && runner->exec_allow_list[i] != NULL; i++) {
        free(runner->exec_allow_list[i]);
    }
    free(runner->exec_allow_list);
    for (size_t i = 0; i < runner->handler_count; i++) {
        free((char *)runner->handler_list[i].name);
    }
    free(runner->handler_list);
    for (size_t i = 0; i < INHERITED_VARIABLES; i++) {
        free(runner->inherited[i]);
    }
}

static void free_commands(struct runner *runner)
{
    struct command *command = take_commands(runner);
    while (command != NULL) {
        struct command *next = command->next;
        if (command->kind == COMMAND_START) {
            execution_free((struct execution *)(void *)command);
        } else if (command != &runner->abandon_all) {
            free(command);
        }
        command = next;
    }
}

static void in_process_close(struct engine *engine)
{
    struct runner *runner = (struct runner *)(void *)engine;
    if (runner->has_thread) {
        atomic_store(&runner->closing, true);
        loop_ring(&runner->loop);
        (void)pthread_join(runner->thread, NULL);
    }
    free_commands(runner);
    if (runner->buckets != NULL) {
        abandon_all(runner);
    }
    handler_pool_close(&runner->handlers);
    for (struct weir_call *call = handler_pool_collect(&runner->handlers); call != NULL;) {
        struct weir_call *next = call->next;
        step_call_finished(call);
        call = next;
    }
    /* Only executions with processes are left; the keeper's end is theirs. */
    for (size_t i = 0; runner->buckets != NULL && i < runner->bucket_count; i++) {
        while (runner->buckets[i] != NULL) {
            struct execution *execution = runner->buckets[i];
            runner->buckets[i] = execution->next;
            execution_free(execution);
        }
    }
    evaluators_close(&runner->evaluators);
    process_table_close(&runner->processes);
    definition_cache_close(&runner->definitions);
    loop_close(&runner->loop);
    free_options(runner);
    free(runner->buckets);
    free(runner);
}

static long in_process_keeper(const struct engine *engine)
{
    return atomic_load(&((const struct runner *)(const void *)engine)->processes.keeper_pid);
}

/* The node's log tells it, and the node's row gets the new keeper's process id. */
static void keeper_was_lost(void *context, const struct keeper_loss *loss)
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
        (void)snprintf(text, sizeof text, "process %d, which watches over steps, %s; its place has process %d",
                       (int)loss->old_pid, how, (int)loss->pid);
    } else {
        (void)snprintf(text, sizeof text, "process %d, which watches over steps, %s; exec steps wait for another: %.120s",
                       (int)loss->old_pid, how, loss->error);
    }
    struct report *report = report_new(REPORT_INTERRUPTED, "", 0);
    if (report == NULL) {
        return; /* the node's row gets the new process id with the next heartbeat */
    }
    report->count = (int64_t)loss->interrupted;
    text_copy(report->error_code, sizeof report->error_code, "keeper_lost");
    report->error = strdup(text);
    engine_report(&runner->base, report);
}

static void is_short_of(void *context, int native)
{
    struct runner *runner = context;
    struct report *report = report_new(REPORT_SHORTAGE, "", 0);
    if (report == NULL) {
        return;
    }
    text_copy(report->error_code, sizeof report->error_code, STEP_NODE_SHORT);
    report->error = strdup(process_shortage_text(native));
    engine_report(&runner->base, report);
}

static const struct engine_operations in_process_operations = {
    .name = "in_process",
    .features = ENGINE_DIES_WITH_NODE | ENGINE_RECORDS_STEPS | ENGINE_DESCRIBES,
    .start = in_process_start,
    .cancel = in_process_cancel,
    .abandon = in_process_abandon,
    .recorded = in_process_recorded,
    .describe = in_process_describe,
    .free_capacity = in_process_room,
    .running = in_process_running,
    .lease = in_process_lease,
    .keeper_pid = in_process_keeper,
    .step = in_process_step,
    .fd = in_process_fd,
    .run_threads = in_process_run_threads,
    .stop = in_process_stop,
    .close = in_process_close,
};

/* --- opening --- */

static enum weir_status copy_handlers(struct runner *runner, const struct in_process_options *options,
                                      struct weir_error *error)
{
    runner->handler_list = calloc(options->handler_count + 1, sizeof(struct weir_handler));
    if (runner->handler_list == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < options->handler_count; i++) {
        const struct weir_handler *handler = &options->handlers[i];
        if (handler->name == NULL || handler->function == NULL || !name_is_valid(handler->name)) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "a handler needs a function and a name like \"send-mail\"");
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(handler->name, options->handlers[j].name) == 0) {
                return error_set(error, WEIR_INVALID_ARGUMENT, "there are two handlers named \"%s\"", handler->name);
            }
        }
        runner->handler_list[i] = *handler;
        runner->handler_list[i].name = strdup(handler->name);
        runner->handler_count++;
        if (runner->handler_list[i].name == NULL) {
            return error_out_of_memory(error);
        }
    }
    return WEIR_OK;
}

static enum weir_status copy_allow_list(struct runner *runner, const char *const *list, struct weir_error *error)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL) {
        count++;
    }
    if (list == NULL) {
        return WEIR_OK;
    }
    runner->exec_allow_list = calloc(count + 1, sizeof(char *));
    for (size_t i = 0; i < count && runner->exec_allow_list != NULL; i++) {
        if (list[i][0] != '/' && strchr(list[i], '/') != NULL) {
            return error_set(
                error, WEIR_INVALID_ARGUMENT,
                "the allowed program \"%.200s\" is a relative path, which `cwd` of a step turns into another program: "
                "give an absolute path or a name",
                list[i]);
        }
        runner->exec_allow_list[i] = strdup(list[i]);
        if (runner->exec_allow_list[i] == NULL) {
            return error_out_of_memory(error);
        }
    }
    return runner->exec_allow_list != NULL ? WEIR_OK : error_out_of_memory(error);
}

#define PATH_DEFAULT "/usr/local/bin:/usr/bin:/bin"

/* With a list of programs, `cwd` must not decide what a name stands for: the relative parts of "PATH=..." are dropped, an
 * empty one among them. NULL when out of memory. */
static char *with_absolute_parts(const char *variable)
{
    static const char name[] = "PATH=";
    struct text kept = {.max = strlen(variable) + sizeof PATH_DEFAULT + sizeof name};
    enum weir_status status = text_add_string(&kept, name);
    for (const char *part = variable + strlen(name); *part != '\0' && status == WEIR_OK;) {
        size_t length = strcspn(part, ":");
        if (*part == '/') {
            status = text_format(&kept, "%s%.*s", kept.length > strlen(name) ? ":" : "", (int)length, part);
        }
        part += length + (part[length] == ':');
    }
    if (status == WEIR_OK && kept.length == strlen(name)) {
        status = text_add_string(&kept, PATH_DEFAULT); /* an empty PATH would be the current directory */
    }
    if (status != WEIR_OK) {
        text_close(&kept);
    }
    return kept.data;
}

/* What steps see of the node's environment; everything else of it (store URLs, tokens) is not theirs. */
static enum weir_status copy_environment(struct runner *runner, struct weir_error *error)
{
    static const char *const names[INHERITED_VARIABLES] = {"PATH", "HOME", "LANG"};
    for (size_t i = 0; i < INHERITED_VARIABLES; i++) {
        const char *value = getenv(names[i]);
        value = value == NULL && i == 0 ? PATH_DEFAULT : value;
        if (value != NULL && asprintf(&runner->inherited[i], "%s=%s", names[i], value) < 0) {
            runner->inherited[i] = NULL;
            return error_out_of_memory(error);
        }
    }
    if (runner->exec_allow_list != NULL) {
        char *path = with_absolute_parts(runner->inherited[0]);
        free(runner->inherited[0]);
        runner->inherited[0] = path;
        return path != NULL ? WEIR_OK : error_out_of_memory(error);
    }
    return WEIR_OK;
}

static enum weir_status copy_options(struct runner *runner, const struct in_process_options *options,
                                     struct weir_error *error)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t threads = options->handler_threads > 0 ? options->handler_threads : processors > 0 ? (size_t)processors + 1 : 2;
    runner->base.operations = &in_process_operations;
    runner->base.clock = options->clock != NULL ? options->clock : clock_system();
    runner->allow_exec = options->allow_exec;
    runner->max_running = options->max_running > 0 ? options->max_running : IN_PROCESS_RUNNING_DEFAULT;
    runner->max_parallel_steps =
        options->max_parallel_steps > 0 ? options->max_parallel_steps : IN_PROCESS_PARALLEL_DEFAULT;
    /* Where the number is the program's own, all threads are for everybody unless there are many. */
    runner->handler_threads_spare = options->handler_threads == 0 ? 1 : threads / HANDLER_SPARE_PART;
    runner->handler_threads = threads > HANDLER_THREADS_MAX ? HANDLER_THREADS_MAX : threads;
    runner->bucket_count = BUCKETS_MIN;
    while (runner->bucket_count < 2 * runner->max_running && runner->bucket_count < BUCKETS_MAX) {
        runner->bucket_count *= 2;
    }
    runner->buckets = calloc(runner->bucket_count, sizeof(struct execution *));
    if (runner->buckets == NULL) {
        return error_out_of_memory(error);
    }
    random_seed_from_system(&runner->random);
    enum weir_status status = copy_handlers(runner, options, error);
    status = status == WEIR_OK ? copy_allow_list(runner, options->exec_allow_list, error) : status;
    return status == WEIR_OK ? copy_environment(runner, error) : status;
}

enum weir_status in_process_open(const struct in_process_options *options, struct engine **ret_engine,
                                 struct weir_error *error)
{
    if (stack_require(error) != WEIR_OK) { /* before the keeper is forked */
        return WEIR_SYSTEM;
    }
    struct runner *runner = calloc(1, sizeof *runner);
    if (runner == NULL) {
        return error_out_of_memory(error);
    }
    runner->loop.poll_fd = -1;
    runner->loop.bell_fd = -1;
    runner->abandon_all.kind = COMMAND_ABANDON_ALL;
    enum weir_status status = copy_options(runner, options, error);
    handler_pool_init(&runner->handlers, &runner->loop);
    definition_cache_init(&runner->definitions, runner->handler_list, runner->handler_count);
    status = status == WEIR_OK ? loop_init(&runner->loop, runner->base.clock, error) : status;
    status = status == WEIR_OK ? process_table_open(&runner->processes, &runner->loop, error) : status;
    size_t places = runner->processes.processes_max;
    size_t spare = (places + PROCESS_SPARE_PART - 1) / PROCESS_SPARE_PART;
    fair_queue_init(&runner->processes_queue, places, spare < PROCESS_SPARE_MOST ? spare : PROCESS_SPARE_MOST);
    runner->processes_queue.starting_most = STEP_STARTS_MOST;
    runner->processes.is_unguarded = options->exec_unguarded;
    runner->processes.lost = keeper_was_lost;
    runner->processes.is_short_of = is_short_of;
    runner->processes.context = runner;
    evaluators_init(&runner->evaluators, &runner->loop, &runner->processes);
    loop_set_asleep(&runner->loop, true);
    if (status != WEIR_OK) {
        in_process_close(&runner->base);
        return status;
    }
    *ret_engine = &runner->base;
    return WEIR_OK;
}

long in_process_keeper_pid(const struct engine *engine)
{
    return in_process_keeper(engine);
}
