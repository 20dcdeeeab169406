/* The stages of an execution.
 *
 *   1. A stage is over when no step is in flight and none of it may begin, or when the execution fails in STAGE_STEPS.
 *   2. In STAGE_UNDO one undo runs at a time. The next one is that of the last finished step. But a step that another
 *      one needs comes after that one, since the times on record may be equal, and a clock may have been set back.
 *   3. In STAGE_ON_FAILURE and STAGE_FINALLY a failed step keeps those from beginning that need it, and no others. Nothing
 *      that fails here changes the first error. Without one, a failed step of `finally` gives it.
 *
 * Why a FAILED record of a step does not end its execution here: the node may die between that record and the end. The next
 * claim brings the steps, execution_restore_ending() sees the failure, and the execution advances to the stage whose steps
 * are not all final. The execution's own timeout bounds STAGE_STEPS alone, because a timeout has to be cleaned up, too.
 * A timeout is on record as a CANCELLED step. When it stopped none, a step that has not run is recorded so, before
 * STAGE_STEPS ends; when all steps have run, it came too late and is no failure.
 */
#include "engine/in_process/execution_stage.h"

#include <string.h>

#include "base/error.h"
#include "engine/in_process/execution_outcome.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_report.h"

static const struct definition *stage_definition(const struct execution *execution)
{
    return execution->definition->definition;
}

bool execution_has_stages(const struct execution *execution)
{
    return stage_definition(execution)->count > stage_definition(execution)->main_count;
}

static bool is_section_of_stage(enum step_section section, enum execution_stage stage)
{
    return (int)section == (int)stage;
}

/* --- the beginning of steps --- */

/* The step has completed, and its undo is still to run, or runs. */
static bool is_to_be_undone(const struct execution *execution, size_t index)
{
    const struct step *step = &stage_definition(execution)->steps[index];
    const struct step_run *run = &execution->steps[index];
    return step->undo >= 0 && run->phase == PHASE_DONE && run->state == STEP_COMPLETED &&
           execution->steps[step->undo].phase != PHASE_DONE;
}

int execution_next_undo(const struct execution *execution)
{
    INVARIANT(execution != NULL && execution->steps != NULL);
    const struct definition *definition = stage_definition(execution);
    int last = -1;
    for (size_t i = 0; i < definition->main_count; i++) {
        bool is_candidate = is_to_be_undone(execution, i);
        for (size_t j = 0; j < definition->main_count && is_candidate; j++) {
            is_candidate = !(definition_step_precedes(definition, i, j) && is_to_be_undone(execution, j));
        }
        if (is_candidate && (last < 0 || execution->steps[i].finished >= execution->steps[last].finished)) {
            last = (int)i;
        }
    }
    return last < 0 || execution->in_flight > 0 ? -1 : definition->steps[last].undo;
}

/* In STAGE_STEPS a failure ends the stage, so each step that is DONE allows those that need it. */
static bool allows_next(const struct execution *execution, size_t index)
{
    const struct step_run *run = &execution->steps[index];
    bool has_failed = run->state == STEP_FAILED || run->state == STEP_CANCELLED;
    return run->phase == PHASE_DONE &&
           (execution->stage == STAGE_STEPS || !has_failed || stage_definition(execution)->steps[index].continue_on_error);
}

bool execution_stage_allows(const struct execution *execution, size_t index)
{
    INVARIANT(index < stage_definition(execution)->count);
    const struct step *step = &stage_definition(execution)->steps[index];
    if (!is_section_of_stage(step->section, execution->stage)) {
        return false;
    }
    for (size_t i = 0; i < step->needs_count; i++) {
        if (!allows_next(execution, step->needs[i])) {
            return false;
        }
    }
    return true;
}

/* --- failures --- */

bool execution_fails_by(const struct execution *execution, size_t index)
{
    return !stage_definition(execution)->steps[index].continue_on_error;
}

/* The first step of `steps` that has failed for good, or -1. */
static int find_first_failure(const struct execution *execution)
{
    int first = -1;
    for (size_t i = 0; i < stage_definition(execution)->main_count; i++) {
        const struct step_run *run = &execution->steps[i];
        bool has_failed = run->phase == PHASE_DONE && run->state == STEP_FAILED && execution_fails_by(execution, i);
        if (has_failed && (first < 0 || run->finished < execution->steps[first].finished)) {
            first = (int)i;
        }
    }
    return first;
}

static size_t count_main_done(const struct execution *execution)
{
    size_t count = 0;
    for (size_t i = 0; i < stage_definition(execution)->main_count; i++) {
        count += execution->steps[i].phase == PHASE_DONE;
    }
    return count;
}

/* Undos and steps of `on_failure` begin only after a failure. */
static bool has_begun_after_failure(const struct execution *execution)
{
    for (size_t i = stage_definition(execution)->main_count; i < execution->step_count; i++) {
        const struct step_run *run = &execution->steps[i];
        if (stage_definition(execution)->steps[i].section != SECTION_FINALLY &&
            (run->phase != PHASE_IDLE || run->on_record)) {
            return true;
        }
    }
    return false;
}

/* Steps are CANCELLED with their execution: beside a failed one, by a cancel, or at the timeout of the execution. */
static bool has_cancelled_step(const struct execution *execution)
{
    for (size_t i = 0; i < execution->step_count; i++) {
        if (execution->steps[i].phase == PHASE_DONE && execution->steps[i].state == STEP_CANCELLED) {
            return true;
        }
    }
    return false;
}

/* The timeout stopped none of `steps`, and nothing on record shows it. */
static bool is_unseen_timeout(const struct execution *execution)
{
    return execution->stage == STAGE_STEPS && execution->ending == ENDING_TIMED_OUT && !has_cancelled_step(execution) &&
           find_first_failure(execution) < 0;
}

/* Puts a step on record as CANCELLED that has not run. */
static bool record_timeout(struct execution *execution)
{
    for (size_t i = 0; i < stage_definition(execution)->main_count; i++) {
        if (execution->steps[i].phase == PHASE_IDLE) {
            step_run_report_final(&execution->steps[i], STEP_CANCELLED, NULL);
            return true;
        }
    }
    return false;
}

/* --- the way through the stages --- */

/* The end of a step in flight is its last record, so what follows may begin with it. */
static bool is_as_good_as_done(const struct step_run *run)
{
    return run->phase == PHASE_DONE || run->phase == PHASE_RECORDING_END;
}

/* Whether a step of the stage that is not over may still run, when no other one is in flight. */
static bool may_still_run(const struct execution *execution, size_t index, enum execution_stage stage)
{
    const struct step *step = &stage_definition(execution)->steps[index];
    if (stage == STAGE_UNDO) {
        const struct step_run *undo = step->undo >= 0 ? &execution->steps[step->undo] : NULL;
        return undo != NULL && is_to_be_undone(execution, index) && !is_as_good_as_done(undo);
    }
    if (!is_section_of_stage(step->section, stage) || is_as_good_as_done(&execution->steps[index])) {
        return false;
    }
    for (size_t i = 0; i < step->needs_count; i++) {
        const struct step_run *need = &execution->steps[step->needs[i]];
        bool has_failed = need->state == STEP_FAILED || need->state == STEP_CANCELLED;
        if (is_as_good_as_done(need) && has_failed && execution_fails_by(execution, step->needs[i])) {
            return false;
        }
    }
    return true;
}

enum execution_stage execution_following_stage(const struct execution *execution)
{
    enum ending ending = execution->ending;
    bool has_failed = execution->has_failed || ending == ENDING_FAILED || ending == ENDING_TIMED_OUT;
    enum execution_stage stage = execution->stage;
    stage = stage != STAGE_STEPS ? stage : has_failed ? STAGE_UNDO : STAGE_FINALLY;
    for (; stage < STAGE_OVER; stage++) {
        for (size_t i = 0; i < execution->step_count; i++) {
            if (may_still_run(execution, i, stage)) {
                return stage;
            }
        }
    }
    return STAGE_OVER;
}

static void enter_later_stage(struct execution *execution, enum execution_stage stage)
{
    execution->stage = stage;
    /* The timeout is stronger than the interruption of a node that stops, whose next one begins the stage. */
    bool is_for_next_node = execution->runner->is_interrupted && stage != STAGE_OVER;
    execution->ending = is_for_next_node ? ENDING_GIVEN_BACK : ENDING_NONE;
    loop_clear_timer(&execution->runner->loop, &execution->timeout);
    for (size_t i = 0; i < execution->step_count && stage == STAGE_FINALLY; i++) {
        const struct step_run *run = &execution->steps[i];
        bool is_failure = stage_definition(execution)->steps[i].section == SECTION_FINALLY && run->phase == PHASE_DONE &&
                          run->state == STEP_FAILED && execution_fails_by(execution, i);
        if (is_failure) { /* on record from an earlier claim */
            execution_set_error(execution, run->error_code != NULL ? run->error_code : "", run->error);
        }
    }
}

bool execution_stage_advance(struct execution *execution)
{
    INVARIANT(execution->in_flight == 0);
    enum ending ending = execution->ending;
    if (!execution_has_stages(execution) || execution->end_reported || execution->stage == STAGE_OVER ||
        ending > ENDING_TIMED_OUT || ending == ENDING_GIVEN_BACK) {
        return false;
    }
    if (is_unseen_timeout(execution)) {
        if (record_timeout(execution)) {
            return false; /* its record brings the execution here again */
        }
        if (!has_begun_after_failure(execution)) {
            execution_clear_error(execution);
            ending = ENDING_NONE;
        }
    }
    execution->has_failed = execution->has_failed || ending != ENDING_NONE;
    if (execution->stage > STAGE_STEPS) {
        enter_later_stage(execution, execution->stage + 1);
    } else {
        enter_later_stage(execution, execution->has_failed ? STAGE_UNDO : STAGE_FINALLY);
    }
    return execution->stage != STAGE_OVER;
}

bool execution_is_complete(const struct execution *execution)
{
    return execution_has_stages(execution) ? execution->stage == STAGE_OVER : execution->done == execution->step_count;
}

bool execution_completes_with(const struct execution *execution)
{
    return execution->stage == STAGE_STEPS && !stage_definition(execution)->has_finally &&
           (execution_has_stages(execution) ? count_main_done(execution) : execution->done) + 1 ==
               stage_definition(execution)->main_count;
}

bool execution_spares_step(const struct execution *execution, size_t index)
{
    bool goes_on = execution->ending == ENDING_FAILED || execution->ending == ENDING_TIMED_OUT;
    return goes_on && stage_definition(execution)->steps[index].section != SECTION_STEPS;
}

void execution_restore_ending(struct execution *execution)
{
    INVARIANT(execution != NULL && execution->steps != NULL);
    int first = find_first_failure(execution);
    int64_t timeout_us = stage_definition(execution)->timeout_us;
    if (execution->ending != ENDING_NONE) {
        return; /* an output on record cannot be read */
    }
    if (first >= 0) {
        const struct step_run *run = &execution->steps[first];
        execution->failed_step = first;
        execution_set_error(execution, run->error_code != NULL ? run->error_code : "", run->error);
        execution->ending = ENDING_FAILED;
    } else if (timeout_us > 0 && (has_begun_after_failure(execution) ||
                                  (has_cancelled_step(execution) && execution->running_for_us >= timeout_us &&
                                   execution_has_stages(execution)))) {
        execution_set_timeout_error(execution);
        execution->ending = ENDING_TIMED_OUT;
    } else if (has_begun_after_failure(execution)) {
        execution_set_error(execution, "output_refused", "the store refused the result of a step, and its failure");
        execution->ending = ENDING_FAILED;
    } else if (has_cancelled_step(execution)) {
        execution->ending = ENDING_CANCELLED;
    }
}
