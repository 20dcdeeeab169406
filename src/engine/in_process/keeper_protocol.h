/* The messages between node and keeper, and the layout of a command file.
 *
 * Messages have one fixed layout per direction. File descriptors travel beside a request (SCM_RIGHTS), and the keeper
 * closes its copies. No request but KEEPER_LEASE has an answer; reports come when something has happened. A child sends
 * BEGINS itself, when all but its directory, its result file and its exec is done. If it cannot exec, it sends its own
 * EXEC_FAILED, before the keeper's ENDED.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_PROTOCOL_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_PROTOCOL_H

#include <stdint.h>

#include "base/clock.h"

enum {
    KEEPER_STEPS_MAX = 4096,                    /* processes at once, evaluators included */
    KEEPER_COMMAND_BYTES_MAX = 2 * 1024 * 1024, /* argv + env + cwd of one step; the kernel's own limit is about that */
    KEEPER_STRINGS_MAX = 1024,                  /* argv + env strings of one step */
    KEEPER_FDS_MAX = 4,                         /* that travel with one request */
    KEEPER_UNGUARDED = 1                        /* value of KEEPER_START: without keeper_guard.h */
};

/* Between TERM and KILL when a step is stopped. */
#define KEEPER_GRACE_US (5 * MICROSECONDS_PER_SECOND)

enum keeper_request_kind {
    KEEPER_START = 1,       /* fds: command (memfd), stdin, stdout, stderr */
    KEEPER_START_EVALUATOR, /* fds: requests to read, answers to write */
    KEEPER_KILL,            /* value: grace in microseconds; 0 kills at once */
    KEEPER_LEASE            /* value: boot clock at which everything must be dead; TIME_NEVER: no lease */
};

struct keeper_request {
    uint32_t kind;
    uint32_t fd_count;
    uint64_t ticket; /* names the process on this socket; chosen by the node, never used twice */
    int64_t value;
};

enum keeper_report_kind {
    KEEPER_READY = 1,   /* the first one: the keeper leads its own session and receives requests */
    KEEPER_STARTED,     /* pid; exec may still fail */
    KEEPER_BEGINS,      /* pid; the child sent by the child itself before its exec, maybe before STARTED */
    KEEPER_EXEC_FAILED, /* value: errno of chdir() (stage 1), execve() (2), setup (3); sent by the child itself */
    KEEPER_ENDED,       /* value: wait status; every process of the step is gone */
    KEEPER_REFUSED,     /* value: errno; nothing was started (table full, fork failed, no lease) */
    KEEPER_ALIVE        /* the answer to KEEPER_LEASE */
};

enum keeper_stage { KEEPER_STAGE_CWD = 1, KEEPER_STAGE_EXEC = 2, KEEPER_STAGE_SETUP = 3 };

struct keeper_report {
    uint32_t kind;
    uint32_t stage; /* EXEC_FAILED */
    uint64_t ticket;
    int32_t pid;
    int32_t value;
    uint32_t lease_lost; /* ENDED, REFUSED: the lease was over, so the keeper killed it or did not start it */
    uint32_t padding;
    int64_t cpu_us;     /* ENDED: user + system time of the leader and its waited-for children */
    int64_t memory_kib; /* ENDED: largest resident set of the leader */
};

/* The command file of KEEPER_START: this header, then argc + 1 + envc NUL-terminated strings: argv, cwd ("" = the folder
 * that the node was started in), env. */
struct keeper_command {
    uint32_t argc;
    uint32_t envc;
    uint32_t result_variable; /* the place of WEIR_OUTPUT in env, from 1; 0: there is none */
    uint32_t padding;
    uint64_t bytes; /* of the strings */
};

#endif
