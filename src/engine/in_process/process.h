/* The processes of `exec` steps and the evaluators as the node sees them: pipes, output, end.
 *
 *     process_start() -> request to the keeper -> the table reads the output -> KEEPER_ENDED -> process->ended(process)
 *
 * stdin is a file in memory (memfd) with the step's input. stdout is stored up to `output_max`; one byte more stops the
 * step
 * (`flooded`). Of stderr the last PROCESS_STDERR_BYTES are stored; it never stops a step.
 *
 * When the keeper dies, all processes end as PROCESS_KEEPER_LOST, but not before everything that they started is gone
 * (keeper_monitor.h).
 *
 * Threads: the loop's. Owner: a process belongs to its step from process_start() until `ended`, which is called exactly
 * once. Then the step calls process_free().
 */
#ifndef WEIR_ENGINE_IN_PROCESS_PROCESS_H
#define WEIR_ENGINE_IN_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "engine/in_process/keeper_monitor.h"
#include "engine/in_process/loop.h"
#include "engine/in_process/process_files.h"
#include "engine/in_process/shortage.h"
#include "queue/log_lines.h"

enum {
    PROCESS_STDERR_BYTES = 8 * 1024, /* the end of stderr, for the error message */
    PROCESS_READ_BYTES = 64 * 1024,  /* of one read() */
    PROCESS_READS_PER_TURN = 16,     /* of one pipe, before other pipes get their turn */
    PROCESS_SPARE_FDS = 256,         /* for the rest of the node, when the limit bounds the processes */
    PROCESS_FDS = 6,                 /* that one start takes at its peak */
    PROCESS_SPARE_PART = 8,          /* one place in so many is only for workspaces that run no other step, */
    PROCESS_SPARE_MOST = 64          /* but at most so many */
};

enum process_end {
    PROCESS_EXITED,      /* `wait_status` */
    PROCESS_NOT_STARTED, /* `stage`, `native` */
    PROCESS_LEASE_LOST,  /* the lease of the node was over */
    PROCESS_KEEPER_LOST  /* its keeper died; everything that it started is gone */
};

struct process_table;

struct process {
    struct process_table *table;
    uint64_t ticket;
    pid_t pid; /* 0: not known yet */
    void *owner;
    void (*begins)(struct process *process); /* NULL, or called when the child is about to exec */
    void (*ended)(struct process *process);
    /* NULL, or called with each piece of output that is read, in its order. */
    void (*wrote)(struct process *process, enum log_stream stream, const char *bytes, size_t length);
    enum process_end end;
    int wait_status;
    int native;
    uint32_t stage;
    int64_t cpu_us;
    int64_t memory_kib;
    bool is_step;          /* no evaluator */
    const void *execution; /* of a step: names its execution */
    bool flooded;          /* it printed more than `output_max`; the table has stopped it */
    bool starved;          /* no memory for its output; the table has stopped it */
    struct text output;
    char *errors; /* a ring of PROCESS_STDERR_BYTES, or NULL */
    size_t errors_length;
    struct watch out;
    struct watch err;
};

struct process_table {
    struct loop *loop; /* NULL: not open */
    struct keeper_monitor keeper;
    struct shortage shortage;
    struct process *slots[KEEPER_STEPS_MAX];
    uint16_t free_slots[KEEPER_STEPS_MAX];
    size_t free_count;
    size_t processes_max;
    size_t running;
    uint64_t last_number;
    bool is_unguarded;          /* steps may signal this process and the keeper; set after process_table_open() */
    bool lost_single_execution; /* all steps of the keeper that died last were of one execution */
    /* A keeper was replaced, or could not be replaced for the first time. May be NULL. */
    void (*report_loss)(void *context, const struct keeper_loss *loss);
    void *context; /* of report_loss */
    int empty_fd;  /* /dev/null */
    char *read_buffer;
};

/* The timers of the table itself: of the keeper's monitor and of the shortage. */
enum { PROCESS_TABLE_TIMERS = KEEPER_MONITOR_TIMERS + 1 };

/* Forks the first keeper. WEIR_SYSTEM, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status process_table_open(struct process_table *table, struct loop *loop,
                                                    struct weir_error *error);
/* Ends the keeper and with it everything it runs. Processes that are left are freed without a call. */
void process_table_close(struct process_table *table);
/* False: nothing can start now, because there is no keeper or a shortage. A timer of the loop fires when that may be over.
 */
bool process_table_may_start(const struct process_table *table);
/* False: wait until a process ends, or process_table_may_start(). `reserved`: processes that are about to start. */
bool process_table_has_capacity(const struct process_table *table, size_t reserved);
/* Until when processes may live (boot clock). */
void process_table_set_lease(struct process_table *table, int64_t lease_end_us);

/* `input` becomes its stdin; NULL: empty. WEIR_SYSTEM (`native` says why): nothing was started. */
WEIR_MUST_CHECK enum weir_status process_start(struct process_table *table, const struct process_command *command,
                                               const struct text *input, size_t output_max, void *owner,
                                               void (*ended)(struct process *process), struct process **ret_process,
                                               struct weir_error *error);
/* The same for an evaluator. Its requests go through a socket: a write into a pipe without a reader raises SIGPIPE in the
 * host's process. Both ends returned are non-blocking. */
WEIR_MUST_CHECK enum weir_status process_start_evaluator(struct process_table *table, void *owner,
                                                         void (*ended)(struct process *process), int *ret_requests,
                                                         int *ret_answers, struct process **ret_process,
                                                         struct weir_error *error);
/* The processor time of a single process so far; 0 when unknown. */
int64_t process_cpu_us(const struct process *process);
/* TERM to its group, KILL after the grace; 0: KILL at once. */
void process_kill(struct process *process, int64_t grace_us);
/* After `ended`. Takes NULL. */
void process_free(struct process *process);
/* Appends the stored end of stderr to `to`, as far as it fits. */
void process_copy_errors(const struct process *process, struct text *to);

#endif
