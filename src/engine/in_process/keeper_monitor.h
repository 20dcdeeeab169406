/* The node's supervision of its keeper: it renews the lease, expects an answer to each renewal, and replaces a dead keeper.
 *
 *     running --socket ends--> sweeping --nothing left--> absent --fork--> running
 *        |                        ^ every KEEPER_MONITOR_SWEEP_US  ^ at most once per KEEPER_MONITOR_RETRY_US
 *        +-- no answer in time: the monitor kills it, and its socket ends
 *
 * The owner (the process table) gets the keeper's reports and does the work on processes through the callbacks below.
 *
 * Threads: the loop's; `pid` may be read by any thread.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_MONITOR_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_MONITOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/in_process/keeper_client.h"
#include "engine/in_process/loop.h"

/* Between two sweeps for processes of a dead keeper. */
#define KEEPER_MONITOR_SWEEP_US (10 * MICROSECONDS_PER_MS)
/* Between two forks of a keeper. A keeper that lived longer is replaced at once. */
#define KEEPER_MONITOR_RETRY_US (1 * MICROSECONDS_PER_SECOND)
/* A stopped keeper enforces no timeout and no lease. The monitor kills a keeper that has not answered a renewal for this
 * part of the lease, and for the second chance after that. */
enum { KEEPER_MONITOR_SILENCE_PART = 3 };
#define KEEPER_MONITOR_SECOND_CHANCE_US (MICROSECONDS_PER_SECOND / 2)

enum { KEEPER_MONITOR_TIMERS = 2 };

/* The loss of a keeper, and its replacement. */
struct keeper_loss {
    size_t interrupted; /* steps */
    pid_t old_pid;
    int wait_status;   /* of the old one */
    bool was_silent;   /* it did not answer, and the monitor killed it */
    pid_t pid;         /* of the new one; 0: there is none yet */
    const char *error; /* why there is none; NULL when there is one */
};

struct keeper_monitor_callbacks {
    void (*take_report)(void *owner, const struct keeper_report *report);
    /* The keeper is dead. Kills the process groups of its steps; returns the number of steps. */
    size_t (*kill_groups)(void *owner);
    /* Kills the processes that are left of the keeper with this mark. False: none is left. */
    bool (*kill_left)(void *owner, uint64_t mark);
    /* Nothing is left: the steps of the dead keeper have ended. */
    void (*end_interrupted)(void *owner);
    /* A keeper was replaced, or could not be replaced for the first time. */
    void (*report_loss)(void *owner, const struct keeper_loss *loss);
};

struct keeper_monitor {
    struct loop *loop;
    const struct keeper_monitor_callbacks *callbacks;
    void *owner; /* of the callbacks */
    struct keeper_client link;
    struct watch link_watch;
    struct timer replace_timer; /* the next sweep, or the next attempt to fork a keeper */
    struct timer answer_timer;  /* runs while the keeper owes an answer */
    struct keeper_loss loss;    /* of the keeper that is being replaced */
    bool is_sweeping;
    bool has_reported_absence; /* once per loss */
    bool awaits_answer;
    bool is_second_chance; /* the answer is late once: the whole machine may have been paused */
    bool was_silent;       /* the monitor has killed the keeper */
    int64_t forked_us;     /* the last attempt */
    int64_t lease_end_us;
    atomic_int pid; /* 0: there is no keeper */
};

/* Forks the first keeper. WEIR_SYSTEM. */
WEIR_MUST_CHECK enum weir_status keeper_monitor_open(struct keeper_monitor *monitor, struct loop *loop,
                                                     const struct keeper_monitor_callbacks *callbacks, void *owner,
                                                     struct weir_error *error);
/* Before open, so that a failed open can be closed. */
void keeper_monitor_init(struct keeper_monitor *monitor);
/* Ends the keeper and everything that it runs. Takes one that is not open. */
void keeper_monitor_close(struct keeper_monitor *monitor);
bool keeper_monitor_has_keeper(const struct keeper_monitor *monitor);
/* Sends or queues the request. The file descriptors belong to the monitor from here on. */
void keeper_monitor_send(struct keeper_monitor *monitor, const struct keeper_request *request, const int *fds);
/* Until when steps may live (boot clock). The keeper has to answer. */
void keeper_monitor_set_lease(struct keeper_monitor *monitor, int64_t lease_end_us);

#endif
