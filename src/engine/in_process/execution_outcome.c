/* The outcome of an execution, and its report.
 *
 * The first failure decides the error of the execution: the failures after it are often its consequences. A cancelled
 * execution reports CANCELLED even if a step has failed before. A given-back execution whose steps are all done reports its
 * end, because another node would have nothing to run.
 * The functions run in the loop's thread. They never free an execution and start nothing; execution.c does.
 */
#include "engine/in_process/execution_outcome.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "engine/in_process/execution_stage.h"
#include "engine/in_process/runner.h"

void execution_set_error(struct execution *execution, const char *code, const char *error)
{
    INVARIANT(execution != NULL && code != NULL);
    if (execution->error_code[0] == '\0') {
        text_copy(execution->error_code, sizeof execution->error_code, code);
        execution->error = error != NULL ? strdup(error) : NULL;
    }
}

void execution_clear_error(struct execution *execution)
{
    INVARIANT(execution != NULL);
    execution->error_code[0] = '\0';
    free(execution->error);
    execution->error = NULL;
    execution->failed_step = -1;
}

void execution_set_timeout_error(struct execution *execution)
{
    execution_clear_error(execution);
    execution_set_error(execution, "execution_timeout", "the execution took longer than its timeout");
}

void execution_fill_end(struct execution *execution, struct report *report)
{
    INVARIANT(!execution->end_reported);
    bool has_failed = execution->error_code[0] != '\0';
    execution->end_reported = true;
    if (report == NULL) {
        return;
    }
    report->end_state = execution->ending == ENDING_CANCELLED ? END_CANCELLED : has_failed ? END_FAILED : END_COMPLETED;
    if (report->end_state == END_FAILED) {
        text_copy(report->error_code, sizeof report->error_code, execution->error_code);
        report->error = execution->error != NULL ? strdup(execution->error) : NULL;
    }
}

void execution_report_end(struct execution *execution)
{
    INVARIANT(execution->in_flight == 0 && execution->ending != ENDING_ABANDONED);
    bool is_given_back = execution->ending == ENDING_GIVEN_BACK && !execution_is_complete(execution);
    enum report_kind kind = !is_given_back ? REPORT_ENDED : execution->is_parked ? REPORT_PARKED : REPORT_GIVEN_BACK;
    struct report *report = kind == REPORT_PARKED ? execution->wait_report : NULL;
    if (report != NULL) { /* one record has the beginning of the wait and the park */
        execution->wait_report = NULL;
        report->kind = REPORT_PARKED;
        report->step_index = -1;
    } else {
        report = runner_report_new(execution->runner, kind, execution->id, execution->fence);
    }
    execution_fill_end(execution, report);
    if (report != NULL && kind == REPORT_PARKED) {
        report->delay_us = execution->parked_until_us == TIME_NEVER
                               ? TIME_NEVER
                               : time_later(0, execution->parked_until_us - loop_now(&execution->runner->loop));
        report->waiting_for = execution->waiting_for;
        report->signals_seen = execution->signals_seen;
    }
    if (report != NULL && is_given_back && execution->given_back_for != NULL) {
        text_copy(report->error_code, sizeof report->error_code, execution->given_back_for);
    }
    if (report != NULL) {
        engine_report(&execution->runner->base, report);
    }
}
