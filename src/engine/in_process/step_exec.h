/* Steps that run a program: their places, the start of their processes, the meaning of a process's end.
 *
 * An attempt is on record as running before its process starts. So it waits for a place first (PHASE_AWAITING_PLACE), then
 * for the store (RECORDING_START), then until few other processes are starting (QUEUED).
 *
 * Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_EXEC_H
#define WEIR_ENGINE_IN_PROCESS_STEP_EXEC_H

#include "engine/in_process/execution_state.h"

/* The least time between the loss of the node's lease and the next attempt of a step that it killed. */
#define STEP_AFTER_LEASE_LOSS_US (1 * MICROSECONDS_PER_SECOND)

/* The store records starts in the order in which it gets them. So only this many starts of a workspace are on the way at a
 * time. Its further starts wait in the fair queue, where other workspaces can still overtake them. */
enum { STEP_STARTS_MOST = 32 };

/* The keeper forks in the order of its requests, and the processes that it has forked share the processors. So only one for
 * each processor, and at least this many, are at a time between the request and the end of STEP_SPAWN_HOLD_US. On a busy
 * machine each takes longer, so fewer start in a second. */
enum { STEP_SPAWNS_LEAST = 2 };

/* A program loads its libraries first, and many end soon after. Until it has ended, or has run for so long, it counts as a
 * start: programs that follow each other quickly do not crowd the processors. A longer program delays the next start by
 * this time, so two places give it a thousand starts a second. */
#define STEP_SPAWN_HOLD_US (2 * MICROSECONDS_PER_MS)

/* Its command is prepared: reports the attempt if there is a place for it, else waits for one. */
void step_exec_begin(struct step_run *run);
/* How many processes may start at a time. */
size_t step_exec_spawns_most(void);
/* Its attempt is on record: its process starts when it is its turn. */
void step_exec_queue(struct step_run *run);
/* It waits for a place or for its turn, and will not be started. */
void step_exec_leave_queue(struct step_run *run);
/* Starts the steps with an attempt on record, then gives free places to the steps that wait for one. */
void step_exec_start_queued(struct runner *runner);

#endif
