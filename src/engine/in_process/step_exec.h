/* Steps that run a program: when there is room for its process, how it is started, and what its end means.
 *
 * An attempt is on record as running from before its process starts, so it waits for room first (PHASE_AWAITING_ROOM), then
 * for the store (RECORDING_START), then for the next turn of the loop (QUEUED). Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_EXEC_H
#define WEIR_ENGINE_IN_PROCESS_STEP_EXEC_H

#include "engine/in_process/execution.h"

/* After the lease of the node was lost, a step that was killed for it asks for its next attempt no sooner than this. */
#define STEP_AFTER_LEASE_LOSS_US (1 * MICROSECONDS_PER_SECOND)

/* Records and the keeper work off what they get in its order. So only this many starts of a workspace are with them at a
 * time, and its others wait where the order is still open. */
enum { STEP_STARTS_MOST = 32 };

/* Its command is prepared: reports the attempt when there is room for it, else waits for that. */
void step_exec_begin(struct step_run *run);
/* Its attempt is on record: the next turn of the loop starts it. */
void step_exec_queue(struct step_run *run);
/* It waits for room or for its turn, and will not be started. */
void step_exec_leave_queue(struct step_run *run);
/* Starts those whose attempt is on record, and reports the attempts of those that await room, while there is some. */
void step_exec_start_queued(struct runner *runner);

#endif
