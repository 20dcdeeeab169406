#include "engine/in_process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/in_process/keeper_child.h"

enum { SLOT_BITS = 12 };

/* --- commands --- */

void process_command_init(struct process_command *command)
{
    *command = (struct process_command){.strings = {.max = KEEPER_COMMAND_BYTES_MAX}};
}

enum weir_status process_command_add(struct process_command *command, const char *bytes, size_t length)
{
    if (memchr(bytes, '\0', length) != NULL) {
        return WEIR_INVALID_ARGUMENT;
    }
    enum weir_status status = text_add(&command->strings, bytes, length);
    return status == WEIR_OK ? text_add(&command->strings, "", 1) : status;
}

void process_command_close(struct process_command *command)
{
    text_close(&command->strings);
}

/* --- the table --- */

static void set_close_flags(int fd, bool non_blocking)
{
    if (fd >= 0 && non_blocking) {
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
}

static void link_ready(struct watch *watch, uint32_t events);
static void keeper_timer_fired(struct timer *timer);
static void sign_timer_fired(struct timer *timer);
static void await_no_sign(struct process_table *table);
static void shortage_timer_fired(struct timer *timer);

static enum weir_status watch_link(struct process_table *table, struct weir_error *error)
{
    table->link_watch = (struct watch){.fd = -1, .ready = link_ready, .owner = table};
    if (loop_watch(table->loop, &table->link_watch, table->link.socket, EPOLLIN) != WEIR_OK) {
        keeper_link_close(&table->link);
        return error_set_native(error, WEIR_SYSTEM, errno, "the keeper's socket cannot be watched");
    }
    atomic_store(&table->keeper_pid, (int)table->link.pid);
    return WEIR_OK;
}

/* Each process needs file descriptors of ours: so many as the soft limit leaves room for. */
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

enum weir_status process_table_open(struct process_table *table, struct loop *loop, struct weir_error *error)
{
    *table = (struct process_table){.loop = loop,
                                    .link = {.socket = -1},
                                    .link_watch = {.fd = -1},
                                    .keeper_timer = {.fire = keeper_timer_fired, .owner = table},
                                    .sign_timer = {.fire = sign_timer_fired, .owner = table},
                                    .shortage_timer = {.fire = shortage_timer_fired, .owner = table},
                                    .shortage_told_us = INT64_MIN / 2,
                                    .lease_end_us = TIME_NEVER,
                                    .empty_fd = -1};
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
    table->keeper_since_us = INT64_MIN / 2; /* the first one is replaced at once in any case */
    enum weir_status status = keeper_link_open(&table->link, error);
    return status == WEIR_OK ? watch_link(table, error) : status;
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
        text_close(&process->output);
        free(process->errors);
        free(process);
    }
}

void process_table_close(struct process_table *table)
{
    if (table->loop == NULL) {
        return;
    }
    loop_clear_timer(table->loop, &table->keeper_timer);
    await_no_sign(table);
    loop_clear_timer(table->loop, &table->shortage_timer);
    loop_unwatch(table->loop, &table->link_watch);
    keeper_link_close(&table->link);
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

bool process_table_may_start(const struct process_table *table)
{
    return table->link.socket >= 0 && !table->is_short;
}

bool process_table_has_room(const struct process_table *table, size_t reserved)
{
    return process_table_may_start(table) && table->running + reserved < table->processes_max &&
           table->free_count > reserved;
}

/* --- shortages --- */

bool process_is_shortage(int native)
{
    return native == EMFILE || native == ENFILE || native == ENOMEM || native == EAGAIN || native == ENOBUFS ||
           native == ENOSPC;
}

const char *process_shortage_text(int native)
{
    switch (native) {
    case EMFILE:
        return "this node has no file descriptor left (EMFILE): raise its limit, `ulimit -n` or LimitNOFILE=";
    case ENFILE:
        return "this machine has no file descriptor left (ENFILE): raise fs.file-max";
    case EAGAIN:
        return "this node may start no more processes (EAGAIN): raise `ulimit -u`, TasksMax= or its cgroup's pids.max";
    case ENOSPC:
        return "this node may watch no more file descriptors (ENOSPC): raise fs.epoll.max_user_watches";
    default:
        return "this node has no memory left for another process: run less on it, or raise its memory limit";
    }
}

static void shortage_timer_fired(struct timer *timer)
{
    struct process_table *table = timer->owner;
    table->is_short = false; /* the loop's turn tries again what waits */
}

void process_table_note_shortage(struct process_table *table, int native)
{
    if (!process_is_shortage(native)) {
        return;
    }
    int64_t now_us = loop_now(table->loop);
    table->is_short = true;
    loop_set_timer(table->loop, &table->shortage_timer, time_add(now_us, PROCESS_SHORTAGE_US));
    if (now_us - table->shortage_told_us >= PROCESS_SHORTAGE_TOLD_US && table->is_short_of != NULL) {
        table->shortage_told_us = now_us;
        table->is_short_of(table->context, native);
    }
}

static void send_request(struct process_table *table, const struct keeper_request *request, const int *fds)
{
    (void)keeper_link_send(&table->link, request, fds);
    if (keeper_link_has_queued(&table->link)) {
        loop_change(table->loop, &table->link_watch, EPOLLIN | EPOLLOUT);
    }
}

static void await_no_sign(struct process_table *table)
{
    table->awaits_sign = false;
    table->doubts_keeper = false;
    loop_clear_timer(table->loop, &table->sign_timer);
}

void process_table_set_lease(struct process_table *table, int64_t lease_end_us)
{
    int64_t now_us = loop_now(table->loop);
    table->lease_end_us = lease_end_us;
    struct keeper_request request = {.kind = KEEPER_LEASE, .value = lease_end_us};
    if (table->link.socket < 0) {
        return;
    }
    send_request(table, &request, NULL);
    if (!table->awaits_sign && lease_end_us != TIME_NEVER && lease_end_us > now_us) {
        table->awaits_sign = true;
        loop_set_timer(table->loop, &table->sign_timer, now_us + (lease_end_us - now_us) / PROCESS_SILENCE_PART);
    }
}

/* --- output --- */

static void keep_errors(struct process *process, const char *bytes, size_t length)
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
    size_t kept = process->errors_length < PROCESS_STDERR_BYTES ? process->errors_length : PROCESS_STDERR_BYTES;
    size_t room = to->max > to->length ? to->max - to->length : 0;
    for (size_t left = kept < room ? kept : room; left > 0; left--) {
        char byte = process->errors[(process->errors_length - left) % PROCESS_STDERR_BYTES];
        if (text_add(to, &byte, 1) != WEIR_OK) {
            return;
        }
    }
}

static void keep_output(struct process *process, const char *bytes, size_t length)
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

/* Reads what is there; at the end of the file, closes. */
static void read_pipe(struct process *process, struct watch *watch)
{
    struct process_table *table = process->table;
    for (int i = 0; i < PROCESS_READS_PER_TURN && watch->fd >= 0; i++) {
        ssize_t got = read(watch->fd, table->read_buffer, PROCESS_READ_BYTES);
        if (got > 0 && watch == &process->out) {
            keep_output(process, table->read_buffer, (size_t)got);
        } else if (got > 0) {
            keep_errors(process, table->read_buffer, (size_t)got);
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

static void take_out(struct process *process)
{
    size_t slot = process->ticket % KEEPER_STEPS_MAX;
    process->table->slots[slot] = NULL;
    process->table->free_slots[process->table->free_count++] = (uint16_t)slot;
}

/* A sealed file in memory with these parts, read from its start. */
static int memory_file(const char *name, const void *first, size_t first_length, const struct text *second)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const char *parts[] = {first, second->data};
    size_t lengths[] = {first_length, second->length};
    for (int i = 0; i < 2 && fd >= 0; i++) {
        while (lengths[i] > 0 && fd >= 0) {
            ssize_t written = write(fd, parts[i], lengths[i]);
            if (written > 0) {
                parts[i] += written;
                lengths[i] -= (size_t)written;
            } else if (written == 0 || errno != EINTR) {
                (void)close(fd);
                fd = -1;
            }
        }
    }
    if (fd >= 0) {
        (void)lseek(fd, 0, SEEK_SET);
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
    }
    return fd;
}

static void close_all(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
}

/* ours[0], ours[1]: the ends of stdout and stderr that we read; theirs: what travels with KEEPER_START. */
static bool open_fds(struct process_table *table, const struct process_command *command, const struct text *input,
                     int ours[2], int theirs[4])
{
    struct keeper_command header = {.argc = command->argc, .envc = command->envc, .bytes = command->strings.length};
    int out[2] = {-1, -1};
    int err[2] = {-1, -1};
    bool is_fine = pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0;
    theirs[0] = is_fine ? memory_file("weir-command", &header, sizeof header, &command->strings) : -1;
    theirs[1] = !is_fine        ? -1
                : input == NULL ? fcntl(table->empty_fd, F_DUPFD_CLOEXEC, 3)
                                : memory_file("weir-stdin", "", 0, input);
    theirs[2] = out[1];
    theirs[3] = err[1];
    ours[0] = out[0];
    ours[1] = err[0];
    if (theirs[0] < 0 || theirs[1] < 0) {
        int native = errno;
        close_all(ours, 2);
        close_all(theirs, 4);
        errno = native;
        return false;
    }
    set_close_flags(ours[0], true);
    set_close_flags(ours[1], true);
    return true;
}

enum weir_status process_start(struct process_table *table, const struct process_command *command, const struct text *input,
                               size_t output_max, void *owner, void (*ended)(struct process *process),
                               struct process **ret_process, struct weir_error *error)
{
    int ours[2];
    int theirs[4];
    if (table->link.socket < 0) {
        return error_set(error, WEIR_SYSTEM, "there is no keeper that could start it");
    }
    if (!open_fds(table, command, input, ours, theirs)) {
        int native = errno;
        process_table_note_shortage(table, native);
        return error_set_native(error, WEIR_SYSTEM, native, "its pipes cannot be had: %s", strerror(native));
    }
    struct process *process = process_new(table, owner, ended);
    if (process == NULL || loop_watch(table->loop, &process->out, ours[0], EPOLLIN) != WEIR_OK ||
        loop_watch(table->loop, &process->err, ours[1], EPOLLIN) != WEIR_OK) {
        int native = process == NULL ? ENOMEM : errno;
        close_all(theirs, 4);
        if (process != NULL) {
            ours[0] = process->out.fd >= 0 ? -1 : ours[0];
            take_out(process);
            process_free(process);
        }
        close_all(ours, 2);
        process_table_note_shortage(table, native);
        return error_set_native(error, WEIR_SYSTEM, native, "its pipes cannot be watched: %s", strerror(native));
    }
    process->is_step = true;
    process->output.max = output_max;
    table->running++;
    struct keeper_request request = {.kind = KEEPER_START,
                                     .fd_count = 4,
                                     .ticket = process->ticket,
                                     .value = table->is_unguarded ? KEEPER_UNGUARDED : 0};
    send_request(table, &request, theirs);
    *ret_process = process;
    return WEIR_OK;
}

enum weir_status process_start_evaluator(struct process_table *table, void *owner, void (*ended)(struct process *process),
                                         int *ret_requests, int *ret_answers, struct process **ret_process,
                                         struct weir_error *error)
{
    int requests[2] = {-1, -1};
    int answers[2] = {-1, -1};
    struct process *process = table->link.socket >= 0 ? process_new(table, owner, ended) : NULL;
    if (process == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, requests) != 0 ||
        pipe2(answers, O_CLOEXEC) != 0) {
        int native = process == NULL ? ENOMEM : errno;
        close_all(requests, 2);
        if (process != NULL) {
            take_out(process);
            process_free(process);
        }
        process_table_note_shortage(table, native);
        return error_set_native(error, WEIR_SYSTEM, native, "no evaluator could be started: %s", strerror(native));
    }
    set_close_flags(requests[1], true);
    set_close_flags(answers[0], true);
    table->running++;
    struct keeper_request request = {.kind = KEEPER_START_EVALUATOR, .fd_count = 2, .ticket = process->ticket};
    int theirs[] = {requests[0], answers[1]};
    send_request(table, &request, theirs);
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
    struct keeper_request request = {.kind = KEEPER_KILL, .ticket = process->ticket, .value = grace_us};
    send_request(process->table, &request, NULL);
}

/* --- ends --- */

static void end_process(struct process *process, enum process_end end)
{
    process->end = process->end == PROCESS_NOT_STARTED ? PROCESS_NOT_STARTED : end;
    take_out(process);
    process->table->running--;
    /* Everything that wrote is dead: what it wrote is in the pipes. */
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

static void take_report(struct process_table *table, const struct keeper_report *report)
{
    if (report->kind == KEEPER_ALIVE) {
        await_no_sign(table);
        return;
    }
    struct process *process = table->slots[report->ticket % KEEPER_STEPS_MAX];
    if (process == NULL || process->ticket != report->ticket) {
        return;
    }
    switch (report->kind) {
    case KEEPER_STARTED:
        process->pid = report->pid;
        if (process->started != NULL) {
            process->started(process);
        }
        break;
    case KEEPER_EXEC_FAILED:
        process->end = PROCESS_NOT_STARTED;
        process->stage = report->stage;
        process->native = report->value;
        process_table_note_shortage(table, report->value);
        break;
    case KEEPER_REFUSED:
        process->stage = KEEPER_STAGE_SETUP;
        process->native = report->value;
        process_table_note_shortage(table, report->value);
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

/* --- another keeper --- */

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

static void open_keeper(struct process_table *table)
{
    struct weir_error error = {.message = ""};
    table->keeper_since_us = loop_now(table->loop);
    enum weir_status status = keeper_link_open(&table->link, &error);
    if (status == WEIR_OK) {
        status = watch_link(table, &error);
    }
    if (status == WEIR_OK) {
        process_table_set_lease(table, table->lease_end_us);
        table->loss.pid = table->link.pid;
    } else {
        table->loss.error = error.message;
        loop_set_timer(table->loop, &table->keeper_timer, time_add(loop_now(table->loop), PROCESS_KEEPER_RETRY_US));
    }
    if (table->lost != NULL && (status == WEIR_OK || !table->is_told)) {
        table->lost(table->context, &table->loss);
    }
    table->is_told = status != WEIR_OK;
    table->loss = (struct keeper_loss){
        .old_pid = table->loss.old_pid, .wait_status = table->loss.wait_status, .was_silent = table->loss.was_silent};
}

static void end_interrupted(struct process_table *table)
{
    uint64_t last_number = table->last_number;
    for (size_t i = 0; i < KEEPER_STEPS_MAX; i++) {
        struct process *process = table->slots[i];
        if (process != NULL && process->ticket >> SLOT_BITS <= last_number) {
            end_process(process, PROCESS_KEEPER_LOST);
        }
    }
}

/* A keeper that dies as soon as it lives (memory) is not forked in a busy loop. */
static void go_on_without_keeper(struct process_table *table)
{
    int64_t now_us = loop_now(table->loop);
    int64_t again_us = time_add(table->keeper_since_us, PROCESS_KEEPER_RETRY_US);
    if (table->is_sweeping) {
        if (keeper_child_kill_left(table->link.mark, is_leader, table)) {
            loop_set_timer(table->loop, &table->keeper_timer, time_add(now_us, PROCESS_SWEEP_US));
            return;
        }
        table->is_sweeping = false;
        end_interrupted(table);
    }
    if (now_us < again_us) {
        loop_set_timer(table->loop, &table->keeper_timer, again_us);
        return;
    }
    open_keeper(table);
}

static void keeper_timer_fired(struct timer *timer)
{
    go_on_without_keeper(timer->owner);
}

/* What it has sent counts, however late it is read. */
static void sign_timer_fired(struct timer *timer)
{
    struct process_table *table = timer->owner;
    link_ready(&table->link_watch, EPOLLIN);
    if (!table->awaits_sign || table->link.socket < 0) {
        return;
    }
    if (!table->doubts_keeper) {
        table->doubts_keeper = true;
        loop_set_timer(table->loop, &table->sign_timer, time_add(loop_now(table->loop), PROCESS_DOUBT_US));
        return;
    }
    table->keeper_was_silent = true;
    (void)kill(table->link.pid, SIGKILL); /* the end of its socket tells of its death */
}

/* The leaders got their KILL from the kernel (PR_SET_PDEATHSIG); the rest of their groups gets it here. */
static void lose_keeper(struct process_table *table)
{
    loop_unwatch(table->loop, &table->link_watch);
    size_t interrupted = 0;
    bool is_of_one = true;
    const void *execution = NULL;
    for (size_t i = 0; i < KEEPER_STEPS_MAX; i++) {
        if (table->slots[i] != NULL && table->slots[i]->pid > 1) {
            (void)kill(-table->slots[i]->pid, SIGKILL);
        }
        if (table->slots[i] != NULL && table->slots[i]->is_step) {
            is_of_one = is_of_one && (execution == NULL || execution == table->slots[i]->execution);
            execution = table->slots[i]->execution;
            interrupted++;
        }
    }
    atomic_store(&table->keeper_pid, 0);
    table->loss = (struct keeper_loss){
        .old_pid = table->link.pid, .interrupted = interrupted, .was_silent = table->keeper_was_silent};
    table->was_of_one = is_of_one;
    table->keeper_was_silent = false;
    await_no_sign(table);
    keeper_link_close(&table->link);
    table->loss.wait_status = table->link.wait_status;
    table->is_sweeping = true;
    go_on_without_keeper(table);
}

static void link_ready(struct watch *watch, uint32_t events)
{
    struct process_table *table = watch->owner;
    if ((events & EPOLLOUT) != 0) {
        keeper_link_flush(&table->link);
        if (!keeper_link_has_queued(&table->link)) {
            loop_change(table->loop, watch, EPOLLIN);
        }
    }
    struct keeper_report report;
    int got;
    while ((got = keeper_link_receive(&table->link, &report)) == 1) {
        take_report(table, &report);
    }
    if (got < 0) {
        lose_keeper(table);
    }
}
