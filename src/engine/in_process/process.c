/* The table of processes: their start, their output, their end.
 *
 * The life of a process as the node sees it:
 *
 *   1. process_start() opens pipes and files, takes a slot and sends the request. A ticket names the process: a number that
 *      grows, and the slot in its lowest bits, so that each report finds its process at once.
 *   2. The loop reads the pipes. stdout is stored up to a limit; of stderr a ring keeps the last bytes. At most
 *      PROCESS_READS_PER_TURN reads go to one pipe in a turn, so a fast writer does not starve the other steps.
 *   3. The keeper reports the end after every process of the step is gone. The rest of the output is in the pipes by then.
 *   4. `ended` hands the process back to its owner, exactly once.
 *
 * When the keeper dies, no report comes any more. The table then kills, sweeps and ends its processes for the keeper's
 * monitor (keeper_monitor.c), which calls the functions at the end of this file.
 * The loop's thread runs all of it. No function here waits for a process.
 */
#include "engine/in_process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/in_process/keeper_search.h"

enum { SLOT_BITS = 12 };

/* --- the table --- */

/* Each process needs file descriptors of the node. The soft limit bounds their number. */
static size_t find_processes_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return KEEPER_STEPS_MAX - 16;
    }
    size_t files = (size_t)limit.rlim_cur;
    size_t max = files > PROCESS_SPARE_FDS ? (files - PROCESS_SPARE_FDS) / PROCESS_FDS : 0;
    return max < 8 ? 8 : max > KEEPER_STEPS_MAX - 16 ? KEEPER_STEPS_MAX - 16 : max;
}

static const struct keeper_monitor_callbacks monitor_callbacks;

enum weir_status process_table_open(struct process_table *table, struct loop *loop, struct weir_error *error)
{
    INVARIANT(table != NULL && loop != NULL);
    *table = (struct process_table){.loop = loop, .empty_fd = -1};
    keeper_monitor_init(&table->keeper);
    shortage_init(&table->shortage, loop);
    for (size_t i = 0; i < KEEPER_STEPS_MAX; i++) {
        table->free_slots[i] = (uint16_t)(KEEPER_STEPS_MAX - 1 - i);
    }
    table->free_count = KEEPER_STEPS_MAX;
    table->processes_max = find_processes_max();
    table->read_buffer = malloc(PROCESS_READ_BYTES);
    table->empty_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (table->read_buffer == NULL) {
        return error_out_of_memory(error);
    }
    if (table->empty_fd < 0) {
        return error_set_native(error, WEIR_SYSTEM, errno, "/dev/null cannot be opened");
    }
    return keeper_monitor_open(&table->keeper, loop, &monitor_callbacks, table, error);
}

static void close_pipes(struct process *process)
{
    struct watch *watches[] = {&process->out, &process->err};
    for (size_t i = 0; i < 2; i++) {
        int fd = watches[i]->fd;
        if (fd >= 0) {
            loop_unwatch(process->table->loop, watches[i]);
            (void)close(fd);
        }
    }
}

void process_free(struct process *process)
{
    if (process != NULL) {
        close_pipes(process);
        if (process->output.wipes && process->errors != NULL) {
            explicit_bzero(process->errors, PROCESS_STDERR_BYTES);
        }
        text_close(&process->output);
        free(process->errors);
        free(process);
    }
}

void process_table_close(struct process_table *table)
{
    INVARIANT(table != NULL);
    if (table->loop == NULL) {
        return;
    }
    keeper_monitor_close(&table->keeper);
    shortage_close(&table->shortage);
    for (size_t i = 0; i < KEEPER_STEPS_MAX; i++) {
        process_free(table->slots[i]);
        table->slots[i] = NULL;
    }
    if (table->empty_fd >= 0) {
        (void)close(table->empty_fd);
    }
    free(table->read_buffer);
    table->loop = NULL;
}

/* An engine for calls alone has opened no table. */
bool process_table_may_start(const struct process_table *table)
{
    return table->loop != NULL && keeper_monitor_has_keeper(&table->keeper) && !table->shortage.is_on;
}

bool process_table_has_capacity(const struct process_table *table, size_t reserved)
{
    INVARIANT(table->running + table->free_count <= KEEPER_STEPS_MAX);
    return process_table_may_start(table) && table->running + reserved < table->processes_max &&
           table->free_count > reserved;
}

void process_table_set_lease(struct process_table *table, int64_t lease_end_us)
{
    INVARIANT(table->loop != NULL);
    keeper_monitor_set_lease(&table->keeper, lease_end_us);
}

/* --- output --- */

static void store_errors(struct process *process, const char *bytes, size_t length)
{
    if (process->errors == NULL && (process->errors = malloc(PROCESS_STDERR_BYTES)) == NULL) {
        return;
    }
    for (size_t i = length > PROCESS_STDERR_BYTES ? length - PROCESS_STDERR_BYTES : 0; i < length; i++) {
        process->errors[process->errors_length++ % PROCESS_STDERR_BYTES] = bytes[i];
    }
}

void process_copy_errors(const struct process *process, struct text *to)
{
    INVARIANT(process->errors != NULL || process->errors_length == 0);
    size_t kept = process->errors_length < PROCESS_STDERR_BYTES ? process->errors_length : PROCESS_STDERR_BYTES;
    size_t space = to->max > to->length ? to->max - to->length : 0;
    for (size_t left = kept < space ? kept : space; left > 0; left--) {
        char byte = process->errors[(process->errors_length - left) % PROCESS_STDERR_BYTES];
        if (text_add(to, &byte, 1) != WEIR_OK) {
            return;
        }
    }
}

static void store_output(struct process *process, const char *bytes, size_t length)
{
    if (process->flooded || process->starved) {
        return;
    }
    enum weir_status status = text_add(&process->output, bytes, length);
    if (status != WEIR_OK) {
        process->starved = status == WEIR_OUT_OF_MEMORY;
        process->flooded = !process->starved;
        text_close(&process->output);
        process_kill(process, 0);
    }
}

/* Reads the available bytes; closes the pipe at its end. Returns after some reads, so that other pipes get their turn. */
static void read_pipe(struct process *process, struct watch *watch)
{
    struct process_table *table = process->table;
    for (int i = 0; i < PROCESS_READS_PER_TURN && watch->fd >= 0; i++) {
        ssize_t got = read(watch->fd, table->read_buffer, PROCESS_READ_BYTES);
        if (got > 0 && process->wrote != NULL) {
            process->wrote(process, watch == &process->out ? LOG_STDOUT : LOG_STDERR, table->read_buffer, (size_t)got);
        }
        if (got > 0 && watch == &process->out) {
            store_output(process, table->read_buffer, (size_t)got);
        } else if (got > 0) {
            store_errors(process, table->read_buffer, (size_t)got);
        } else if (got < 0 && errno == EINTR) {
            continue;
        } else if (got < 0 && errno == EAGAIN) {
            return;
        } else {
            int fd = watch->fd;
            loop_unwatch(table->loop, watch);
            (void)close(fd);
        }
    }
}

static void pipe_ready(struct watch *watch, uint32_t events)
{
    (void)events;
    read_pipe(watch->owner, watch);
}

/* --- starting --- */

static struct process *process_new(struct process_table *table, void *owner, void (*ended)(struct process *process))
{
    struct process *process = table->free_count > 0 ? calloc(1, sizeof *process) : NULL;
    if (process != NULL) {
        uint16_t slot = table->free_slots[--table->free_count];
        *process = (struct process){.table = table,
                                    .ticket = (++table->last_number << SLOT_BITS) | slot,
                                    .owner = owner,
                                    .ended = ended,
                                    .out = {.fd = -1, .ready = pipe_ready, .owner = process},
                                    .err = {.fd = -1, .ready = pipe_ready, .owner = process}};
        table->slots[slot] = process;
    }
    return process;
}

static void release_slot(struct process *process)
{
    size_t slot = process->ticket % KEEPER_STEPS_MAX;
    process->table->slots[slot] = NULL;
    process->table->free_slots[process->table->free_count++] = (uint16_t)slot;
}

/* Takes back a process that the keeper has not got. */
static void drop_unstarted(struct process *process)
{
    if (process != NULL) {
        release_slot(process);
        process_free(process);
    }
}

enum weir_status process_start(struct process_table *table, const struct process_command *command, const struct text *input,
                               size_t output_max, void *owner, void (*ended)(struct process *process),
                               struct process **ret_process, struct weir_error *error)
{
    INVARIANT(table->loop != NULL && owner != NULL && ended != NULL);
    struct process_files files;
    if (!keeper_monitor_has_keeper(&table->keeper)) {
        return error_set(error, WEIR_SYSTEM, "there is no keeper that could start it");
    }
    if (!process_files_open(&files, command, input, table->empty_fd)) {
        int native = errno;
        shortage_note(&table->shortage, native);
        return error_set_native(error, WEIR_SYSTEM, native, "its pipes cannot be opened: %s", strerror(native));
    }
    struct process *process = process_new(table, owner, ended);
    if (process == NULL || loop_watch(table->loop, &process->out, files.own[0], EPOLLIN) != WEIR_OK ||
        loop_watch(table->loop, &process->err, files.own[1], EPOLLIN) != WEIR_OK) {
        int native = process == NULL ? ENOMEM : errno;
        process_files_close(files.step, PROCESS_STEP_FILES);
        files.own[0] = process != NULL && process->out.fd >= 0 ? -1 : files.own[0]; /* a watched one is the process's */
        drop_unstarted(process);
        process_files_close(files.own, PROCESS_OWN_FILES);
        shortage_note(&table->shortage, native);
        return error_set_native(error, WEIR_SYSTEM, native, "its pipes cannot be watched: %s", strerror(native));
    }
    process->is_step = true;
    process->output.max = output_max;
    table->running++;
    struct keeper_request request = {.kind = KEEPER_START,
                                     .fd_count = PROCESS_STEP_FILES,
                                     .ticket = process->ticket,
                                     .value = table->is_unguarded ? KEEPER_UNGUARDED : 0};
    keeper_monitor_send(&table->keeper, &request, files.step);
    *ret_process = process;
    return WEIR_OK;
}

enum weir_status process_start_evaluator(struct process_table *table, void *owner, void (*ended)(struct process *process),
                                         int *ret_requests, int *ret_answers, struct process **ret_process,
                                         struct weir_error *error)
{
    INVARIANT(table->loop != NULL && owner != NULL && ended != NULL);
    int requests[2] = {-1, -1};
    int answers[2] = {-1, -1};
    struct process *process = keeper_monitor_has_keeper(&table->keeper) ? process_new(table, owner, ended) : NULL;
    if (process == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, requests) != 0 ||
        pipe2(answers, O_CLOEXEC) != 0) {
        int native = process == NULL ? ENOMEM : errno;
        process_files_close(requests, 2);
        drop_unstarted(process);
        shortage_note(&table->shortage, native);
        return error_set_native(error, WEIR_SYSTEM, native, "no evaluator could be started: %s", strerror(native));
    }
    process_files_set_nonblocking(requests[1]);
    process_files_set_nonblocking(answers[0]);
    table->running++;
    struct keeper_request request = {.kind = KEEPER_START_EVALUATOR, .fd_count = 2, .ticket = process->ticket};
    int step[] = {requests[0], answers[1]};
    keeper_monitor_send(&table->keeper, &request, step);
    *ret_requests = requests[1];
    *ret_answers = answers[0];
    *ret_process = process;
    return WEIR_OK;
}

int64_t process_cpu_us(const struct process *process)
{
    clockid_t clock;
    struct timespec used;
    if (process->pid <= 1 || clock_getcpuclockid(process->pid, &clock) != 0 || clock_gettime(clock, &used) != 0) {
        return 0;
    }
    return (int64_t)used.tv_sec * MICROSECONDS_PER_SECOND + used.tv_nsec / 1000;
}

void process_kill(struct process *process, int64_t grace_us)
{
    INVARIANT(process->table != NULL && process->ticket != 0);
    struct keeper_request request = {.kind = KEEPER_KILL, .ticket = process->ticket, .value = grace_us};
    keeper_monitor_send(&process->table->keeper, &request, NULL);
}

/* --- ends --- */

static void end_process(struct process *process, enum process_end end)
{
    process->end = process->end == PROCESS_NOT_STARTED ? PROCESS_NOT_STARTED : end;
    release_slot(process);
    INVARIANT(process->table->running > 0);
    process->table->running--;
    /* All writers are dead, so the pipes hold the rest of the output. */
    while (process->out.fd >= 0) {
        size_t before = process->output.length;
        read_pipe(process, &process->out);
        if (process->flooded || process->starved || before == process->output.length) {
            break;
        }
    }
    if (process->err.fd >= 0) {
        read_pipe(process, &process->err);
    }
    close_pipes(process);
    process->ended(process);
}

/* A report names its process by the ticket. A ticket of an earlier process in the same slot differs. */
static void take_keeper_report(void *owner, const struct keeper_report *report)
{
    struct process_table *table = owner;
    struct process *process = table->slots[report->ticket % KEEPER_STEPS_MAX];
    if (process == NULL || process->ticket != report->ticket) {
        return;
    }
    switch (report->kind) {
    case KEEPER_STARTED:
        process->pid = report->pid;
        break;
    case KEEPER_BEGINS:
        process->pid = report->pid;
        if (process->begins != NULL) {
            process->begins(process);
        }
        break;
    case KEEPER_EXEC_FAILED:
        process->end = PROCESS_NOT_STARTED;
        process->stage = report->stage;
        process->native = report->value;
        shortage_note(&table->shortage, report->value);
        break;
    case KEEPER_REFUSED:
        process->stage = KEEPER_STAGE_SETUP;
        process->native = report->value;
        shortage_note(&table->shortage, report->value);
        end_process(process, report->lease_lost != 0 ? PROCESS_LEASE_LOST : PROCESS_NOT_STARTED);
        break;
    case KEEPER_ENDED:
        process->wait_status = report->value;
        process->cpu_us = report->cpu_us;
        process->memory_kib = report->memory_kib;
        end_process(process, report->lease_lost != 0 ? PROCESS_LEASE_LOST : PROCESS_EXITED);
        break;
    default:
        break;
    }
}

/* --- the death of the keeper --- */

static bool is_leader(const void *context, pid_t pid)
{
    const struct process_table *table = context;
    for (size_t i = 0; i < KEEPER_STEPS_MAX && pid > 1; i++) {
        if (table->slots[i] != NULL && table->slots[i]->pid == pid) {
            return true;
        }
    }
    return false;
}

/* Kills the groups whose leaders the kernel has killed, and notes if all steps were of one execution. */
static size_t kill_groups(void *owner)
{
    struct process_table *table = owner;
    size_t steps = 0;
    const void *execution = NULL;
    table->lost_single_execution = true;
    for (size_t i = 0; i < KEEPER_STEPS_MAX; i++) {
        const struct process *process = table->slots[i];
        if (process != NULL && process->pid > 1) {
            (void)kill(-process->pid, SIGKILL);
        }
        if (process != NULL && process->is_step) {
            table->lost_single_execution =
                table->lost_single_execution && (execution == NULL || execution == process->execution);
            execution = process->execution;
            steps++;
        }
    }
    return steps;
}

static bool kill_left(void *owner, uint64_t mark)
{
    return keeper_search_kill_left(mark, is_leader, owner);
}

/* A callback may start another process meanwhile: its number is higher than all numbers of the dead keeper. */
static void end_interrupted(void *owner)
{
    struct process_table *table = owner;
    uint64_t last_number = table->last_number;
    for (size_t i = 0; i < KEEPER_STEPS_MAX; i++) {
        struct process *process = table->slots[i];
        if (process != NULL && process->ticket >> SLOT_BITS <= last_number) {
            end_process(process, PROCESS_KEEPER_LOST);
        }
    }
}

static void forward_loss(void *owner, const struct keeper_loss *loss)
{
    const struct process_table *table = owner;
    if (table->report_loss != NULL) {
        table->report_loss(table->context, loss);
    }
}

static const struct keeper_monitor_callbacks monitor_callbacks = {.take_report = take_keeper_report,
                                                                  .kill_groups = kill_groups,
                                                                  .kill_left = kill_left,
                                                                  .end_interrupted = end_interrupted,
                                                                  .report_loss = forward_loss};
