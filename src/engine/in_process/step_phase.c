/* The phases of a step and the counters that depend on them.
 *
 * step_run_set_phase() is the one place where a phase changes. It derives each counter from the old and the new phase:
 *
 *     in_flight   all but IDLE and DONE                         settling ends the execution when it is 0
 *     parallel    in_flight without RECORDING_WAIT, SLEEPING    the bound max_parallel_steps
 *     done        DONE                                          all steps: the execution is complete
 *     reserved    exec: RECORDING_START, QUEUED                 places that are not free although no process runs
 *     a place     exec: RECORDING_START, QUEUED, RUNNING        the workspace's share (fair_queue.h)
 *     starting    exec: a place, until the program begins       the bound of one workspace
 *
 * So a path that leaves a phase early cannot forget a counter. The loop's thread runs it.
 */
#include "engine/in_process/step_phase.h"

#include "base/error.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_inputs.h"
#include "engine/in_process/step_secrets.h"

bool step_phase_is_in_flight(enum step_phase phase)
{
    return phase != PHASE_IDLE && phase != PHASE_DONE;
}

/* True unless the step sleeps or waits for its next attempt: it uses resources of the node, or is about to. */
static bool uses_resources(enum step_phase phase)
{
    return step_phase_is_in_flight(phase) && phase != PHASE_RECORDING_WAIT && phase != PHASE_SLEEPING;
}

/* True from the report of its start until its process runs. */
static bool has_reserved_place(const struct step_run *run)
{
    return step_run_step(run)->kind == STEP_EXEC && (run->phase == PHASE_RECORDING_START || run->phase == PHASE_QUEUED);
}

bool step_run_has_place(const struct step_run *run)
{
    return has_reserved_place(run) || (step_run_step(run)->kind == STEP_EXEC && run->phase == PHASE_RUNNING);
}

void step_run_note_started(struct step_run *run)
{
    struct tenant *tenant = run->execution->tenant;
    INVARIANT(!run->is_starting || tenant->processes.starting > 0);
    if (run->is_starting) {
        run->is_starting = false;
        tenant->processes.starting--;
    }
}

void step_run_end_spawn(struct step_run *run)
{
    struct runner *runner = run->execution->runner;
    INVARIANT(!run->is_spawning || runner->spawn_places.held > 0);
    if (run->is_spawning) {
        run->is_spawning = false;
        loop_clear_timer(&runner->loop, &run->spawn_end);
        fair_queue_release(&runner->spawn_places, &run->execution->tenant->spawns);
    }
}

void step_run_note_recorded(struct step_run *run, bool is_recorded)
{
    weir_recorded_function *function = run->on_recorded;
    run->on_recorded = NULL;
    if (function != NULL) {
        function(run->recorded_context, is_recorded);
    }
}

void step_run_set_phase(struct step_run *run, enum step_phase phase)
{
    struct execution *execution = run->execution;
    struct runner *runner = execution->runner;
    INVARIANT(run->phase != PHASE_DONE || phase == PHASE_DONE || phase == PHASE_IDLE);
    /* A restored step is set up in the thread that starts the execution. It never has a place, so it changes no queue. */
    bool had_place = step_run_has_place(run);
    if (has_reserved_place(run)) {
        INVARIANT(runner->reserved > 0);
        runner->reserved--;
    }
    execution->in_flight -= step_phase_is_in_flight(run->phase);
    execution->in_flight += step_phase_is_in_flight(phase);
    execution->parallel -= uses_resources(run->phase);
    execution->parallel += uses_resources(phase);
    execution->done -= run->phase == PHASE_DONE;
    execution->done += phase == PHASE_DONE;
    INVARIANT(execution->in_flight + execution->done <= execution->step_count);
    INVARIANT(execution->parallel <= execution->in_flight);
    run->phase = phase;
    if (phase == PHASE_DONE && run->finished == 0) {
        run->finished = FINISHED_HERE + ++execution->finished_here;
    }
    if (has_reserved_place(run)) {
        runner->reserved++;
    }
    if (step_run_has_place(run) && !had_place) {
        fair_queue_hold(&runner->process_places, &execution->tenant->processes);
        run->is_starting = true;
        execution->tenant->processes.starting++;
    } else if (had_place && !step_run_has_place(run)) {
        step_run_note_started(run);
        step_run_end_spawn(run);
        fair_queue_release(&runner->process_places, &execution->tenant->processes);
    }
    if (phase == PHASE_SLEEPING || phase == PHASE_DONE || phase == PHASE_IDLE) {
        step_run_note_recorded(run, phase != PHASE_IDLE);
    }
}

void step_run_set_timer(struct step_run *run, int64_t due_us)
{
    INVARIANT(run->phase == PHASE_SLEEPING || run->phase == PHASE_RUNNING);
    loop_set_timer(&run->execution->runner->loop, &run->timer, due_us);
}

void step_run_clear_timer(struct step_run *run)
{
    loop_clear_timer(&run->execution->runner->loop, &run->timer);
}

void step_run_drop_inputs(struct step_run *run)
{
    step_inputs_free(run->inputs);
    run->inputs = NULL;
}

void step_run_drop_secrets(struct step_run *run)
{
    step_secrets_free(run->secrets);
    run->secrets = NULL;
}
