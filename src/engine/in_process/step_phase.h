/* The phase of a step, with the counters and places that depend on it, and its timer.
 *
 * Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_PHASE_H
#define WEIR_ENGINE_IN_PROCESS_STEP_PHASE_H

#include "engine/in_process/execution_state.h"

/* True between the first work on an attempt and the end of the step. */
bool step_phase_is_in_flight(enum step_phase phase);
/* The only function that changes a phase: it keeps the counters of the execution and the workspace's places exact. */
void step_run_set_phase(struct step_run *run, enum step_phase phase);
/* True from the report of its start until its process has ended: the step holds a place among the processes. */
bool step_run_has_place(const struct step_run *run);
/* Its process runs: its workspace may start another one. */
void step_run_note_started(struct step_run *run);
/* Returns its place among the starts of processes, if it holds one. */
void step_run_end_spawn(struct step_run *run);
/* Calls the function of weir_call_on_recorded(), once: the end of the step's last call is on record, or will not be. The
 * phases SLEEPING, DONE and IDLE do so by themselves. */
void step_run_note_recorded(struct step_run *run, bool is_recorded);
void step_run_set_timer(struct step_run *run, int64_t due_us);
void step_run_clear_timer(struct step_run *run);
/* Frees the prepared inputs. */
void step_run_drop_inputs(struct step_run *run);
/* Overwrites and frees the secrets of its process. */
void step_run_drop_secrets(struct step_run *run);

#endif
