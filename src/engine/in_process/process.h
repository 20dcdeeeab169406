/* The processes of `exec` steps as the node sees them: their pipes, what they print, and how they end.
 *
 *     process_start() -> request to the keeper -> output is collected here -> KEEPER_ENDED -> process->ended(process)
 *
 * stdin is a file in memory (memfd) with the step's input, so nothing has to be fed and a step that does not read it
 * blocks nobody. stdout is kept up to `output_max`; one byte more stops the step (`flooded`). Of stderr the last
 * PROCESS_STDERR_BYTES are kept; it never stops a step.
 *
 * Threads: the loop's. Owner: a process belongs to its step from process_start() until it was handed back by `ended`,
 * exactly once, and then process_free() is the step's to call.
 *
 * When the keeper dies, all processes end as PROCESS_KEEPER_LOST, but not before all that they started is surely gone:
 *
 *     keeper dies -> groups are killed -> /proc is swept until nothing of theirs is left -> `ended` for each
 *                                                            -> another keeper is forked; until there is one nothing starts
 */
#ifndef WEIR_ENGINE_IN_PROCESS_PROCESS_H
#define WEIR_ENGINE_IN_PROCESS_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "engine/in_process/keeper_client.h"
#include "engine/in_process/loop.h"

enum {
    PROCESS_STDERR_BYTES = 8 * 1024, /* the end of stderr that is kept for the error message */
    PROCESS_READ_BYTES = 64 * 1024,  /* of one read() */
    PROCESS_READS_PER_TURN = 16,     /* of one pipe before the others get their turn */
    PROCESS_SPARE_FDS = 256,         /* left to the rest of the node when the number of processes is bounded */
    PROCESS_FDS = 6,                 /* that one start takes at its peak */
    PROCESS_SPARE_PART = 8,          /* this part of the places is for workspaces that run no other step, ... */
    PROCESS_SPARE_MOST = 64          /* ... and no more than so many */
};

/* The strings of one command, in keeper.h's layout. Fill argv, then env, then cwd. */
struct process_command {
    struct text strings;
    uint32_t argc;
    uint32_t envc;
};
void process_command_init(struct process_command *command);
/* A NUL-terminated string; WEIR_INVALID_ARGUMENT when it holds a NUL, WEIR_FAILED when the command is too large. */
WEIR_MUST_CHECK enum weir_status process_command_add(struct process_command *command, const char *bytes, size_t length);
void process_command_close(struct process_command *command);

enum process_end {
    PROCESS_EXITED,      /* `wait_status` */
    PROCESS_NOT_STARTED, /* `stage`, `native` */
    PROCESS_LEASE_LOST,  /* the lease of the node was over */
    PROCESS_KEEPER_LOST  /* its keeper died, and so did it; everything that it started is gone */
};

struct process_table;

struct process {
    struct process_table *table;
    uint64_t ticket;
    pid_t pid; /* 0: not known yet */
    void *owner;
    void (*started)(struct process *process); /* NULL, or called when the keeper has forked it */
    void (*ended)(struct process *process);
    enum process_end end;
    int wait_status;
    int native;
    uint32_t stage;
    int64_t cpu_us;
    int64_t memory_kib;
    bool is_step;          /* no evaluator */
    const void *execution; /* of a step: names its execution */
    bool flooded;          /* it printed more than `output_max`, and was stopped for it */
    bool starved;          /* there was no memory for what it printed, and it was stopped for it */
    struct text output;
    char *errors; /* a ring of PROCESS_STDERR_BYTES, or NULL */
    size_t errors_length;
    struct watch out;
    struct watch err;
};

/* How often a sweep for what a dead keeper has left is repeated. */
#define PROCESS_SWEEP_US (10 * MICROSECONDS_PER_MS)
/* Between two attempts to have a keeper, and the least life of one whose successor is forked at once. */
#define PROCESS_KEEPER_RETRY_US (1 * MICROSECONDS_PER_SECOND)
/* So long nothing is started after the machine had not what a start takes. */
#define PROCESS_SHORTAGE_US (1 * MICROSECONDS_PER_SECOND)
/* And so long it is not told again. */
/* A keeper that stands still enforces no timeout and no lease. It answers each renewal of the lease; one that has not for a
 * third of the lease, and for this long after that, is killed with all it runs, and replaced. */
enum { PROCESS_SILENCE_PART = 3 };
#define PROCESS_DOUBT_US (MICROSECONDS_PER_SECOND / 2)

#define PROCESS_SHORTAGE_TOLD_US (60 * MICROSECONDS_PER_SECOND)

/* What became of a lost keeper. */
struct keeper_loss {
    size_t interrupted; /* steps */
    pid_t old_pid;
    int wait_status;   /* of the old one */
    bool was_silent;   /* it did not answer, so it was killed */
    pid_t pid;         /* of the new one; 0: there is none yet */
    const char *error; /* why not; NULL when it is only waited for */
};

struct process_table {
    struct loop *loop;
    struct keeper_link link;
    struct watch link_watch;
    struct process *slots[KEEPER_STEPS_MAX];
    uint16_t free_slots[KEEPER_STEPS_MAX];
    size_t free_count;
    size_t processes_max;
    size_t running;
    uint64_t last_number;
    struct timer keeper_timer; /* the next sweep, or the next attempt to have a keeper */
    struct keeper_loss loss;   /* of the keeper that is being replaced */
    bool is_unguarded;         /* steps may signal this process and the keeper; set after process_table_open() */
    bool was_of_one;           /* all steps of the keeper that was lost last were of one execution */
    bool is_sweeping;
    bool is_told; /* that there is none: once */
    int64_t keeper_since_us;
    struct timer sign_timer; /* runs while the keeper owes an answer */
    bool awaits_sign;
    bool keeper_was_silent;
    bool doubts_keeper; /* the time is over once: after a pause of the whole machine it is given a second chance */
    /* Called when a lost keeper was replaced, and when that failed for the first time. */
    void (*lost)(void *context, const struct keeper_loss *loss);
    /* Called when this errno says that the machine is short of something; once a minute at most. */
    void (*is_short_of)(void *context, int native);
    void *context; /* of both */
    struct timer shortage_timer;
    bool is_short;
    int64_t shortage_told_us;
    int64_t lease_end_us;
    int empty_fd; /* /dev/null */
    char *read_buffer;
    atomic_int keeper_pid; /* for any thread; 0 when there is none */
};

/* Forks the first keeper. WEIR_SYSTEM, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status process_table_open(struct process_table *table, struct loop *loop,
                                                    struct weir_error *error);
/* Ends the keeper and with it everything it runs. Processes that are left are freed without a call. */
void process_table_close(struct process_table *table);
/* False: nothing can be started now, for want of a keeper or of what a start takes; the loop turns when that may be over.
 */
bool process_table_may_start(const struct process_table *table);
/* What else a start took failed with this errno. One that tells of a shortage holds up all starts for a while: one has
 * found out, and the others wait instead of finding out each for itself. */
void process_table_note_shortage(struct process_table *table, int native);
/* False: wait until another one has ended, there is a keeper, or a shortage has had time to end. `reserved`: how many are
 * about to start. */
bool process_table_has_room(const struct process_table *table, size_t reserved);
/* Until when processes may live (boot clock). */
void process_table_set_lease(struct process_table *table, int64_t lease_end_us);

/* True when a start that failed with this errno failed for want of file descriptors, memory or processes: that is no fault
 * of what was to be started, and passes. */
bool process_is_shortage(int native);
/* What is missing, and what to do about it. */
const char *process_shortage_text(int native);

/* `input` becomes its stdin; NULL: empty. WEIR_SYSTEM (`native` says why): nothing was started. */
WEIR_MUST_CHECK enum weir_status process_start(struct process_table *table, const struct process_command *command,
                                               const struct text *input, size_t output_max, void *owner,
                                               void (*ended)(struct process *process), struct process **ret_process,
                                               struct weir_error *error);
/* The same for an evaluator: reads requests from *ret_requests' other end, a socket, because who writes into a pipe without
 * a reader gets a SIGPIPE, and the process is the host's. Both ends returned are non-blocking. */
WEIR_MUST_CHECK enum weir_status process_start_evaluator(struct process_table *table, void *owner,
                                                         void (*ended)(struct process *process), int *ret_requests,
                                                         int *ret_answers, struct process **ret_process,
                                                         struct weir_error *error);
/* The processor time that it has used so far, of a single process; 0 when that is not known (yet). */
int64_t process_cpu_us(const struct process *process);
/* TERM to its group, KILL after the grace; 0: KILL at once. */
void process_kill(struct process *process, int64_t grace_us);
/* After `ended`. Takes NULL. */
void process_free(struct process *process);
/* Appends the kept end of stderr to `to`, as far as it fits. */
void process_copy_errors(const struct process *process, struct text *to);

#endif
