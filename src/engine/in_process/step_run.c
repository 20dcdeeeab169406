#include "engine/in_process/step_run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "engine/in_process/preparation.h"
#include "queue/retry.h"

/* How one attempt ended. Strings are borrowed, but for `output`, which is taken over. */
struct outcome {
    bool is_done;
    bool is_final; /* never retried, whatever the policy says */
    const char *code;
    const char *error;
    char *output;
    size_t output_length;
};

static void attempt(struct step_run *run);

/* --- phases --- */

static bool is_in_flight(enum step_phase phase)
{
    return phase != PHASE_IDLE && phase != PHASE_DONE;
}

/* From when its start is reported until its process runs. */
static bool has_reserved(const struct step_run *run)
{
    return step_run_step(run)->kind == STEP_EXEC && (run->phase == PHASE_RECORDING_START || run->phase == PHASE_QUEUED);
}

static void set_phase(struct step_run *run, enum step_phase phase)
{
    struct execution *execution = run->execution;
    if (has_reserved(run)) { /* else it is not touched: a restored step is set up by the thread that starts the execution */
        execution->runner->reserved--;
    }
    execution->in_flight -= is_in_flight(run->phase);
    execution->in_flight += is_in_flight(phase);
    execution->done -= run->phase == PHASE_DONE;
    execution->done += phase == PHASE_DONE;
    run->phase = phase;
    if (has_reserved(run)) {
        execution->runner->reserved++;
    }
}

static void set_timer(struct step_run *run, int64_t due_us)
{
    loop_set_timer(&run->execution->runner->loop, &run->timer, due_us);
}

static void clear_timer(struct step_run *run)
{
    loop_clear_timer(&run->execution->runner->loop, &run->timer);
}

static void drop_preparation(struct step_run *run)
{
    preparation_free(run->preparation);
    run->preparation = NULL;
}

/* --- reports --- */

/* NULL when out of memory: then the step waits for an answer that never comes, until its execution is abandoned. */
static struct report *make_report(struct step_run *run, enum report_kind kind, enum step_state state)
{
    struct execution *execution = run->execution;
    struct report *report = runner_report_new(execution->runner, kind, execution->id, execution->fence);
    run->state = state;
    if (report == NULL) {
        return NULL;
    }
    report->has_step = true;
    report->step_index = (int)step_run_index(run);
    text_copy(report->step.step, sizeof report->step.step, step_run_step(run)->id);
    report->step.state = state;
    report->step.attempt = run->attempt;
    report->step.failures = run->failures;
    report->step.exit_code = run->exit_code;
    return report;
}

static void send(const struct step_run *run, struct report *report)
{
    if (report != NULL) {
        engine_report(&run->execution->runner->base, report);
    }
}

static void put_error(struct report *report, const char *code, const char *error)
{
    if (report == NULL) {
        return;
    }
    text_copy(report->step.error_code, sizeof report->step.error_code, code);
    report->step.error = error != NULL ? strdup(error) : NULL;
}

/* True when the end of this step is the end of the execution, so that one report can say both. */
static bool is_last(const struct step_run *run)
{
    const struct execution *execution = run->execution;
    if (execution->in_flight != 1 || execution->ending == ENDING_GIVEN_BACK) {
        return false;
    }
    if (execution->ending == ENDING_NONE) {
        return execution->done + 1 == execution->step_count;
    }
    for (size_t i = 0; i < execution->step_count; i++) {
        if (execution->steps[i].phase == PHASE_IDLE && execution->steps[i].on_record) {
            return false; /* from before a handover: its end has to be told first */
        }
    }
    return true;
}

/* Every final state goes this way. */
static void report_final(struct step_run *run, enum step_state state, const struct outcome *outcome)
{
    struct execution *execution = run->execution;
    clear_timer(run);
    if (!is_in_flight(run->phase)) {
        set_phase(run, PHASE_RECORDING_END);
    }
    if (state == STEP_FAILED && execution->ending < ENDING_FAILED) {
        execution->ending = ENDING_FAILED; /* settling stops what has to be stopped */
    }
    bool last = is_last(run);
    struct report *report = make_report(run, last ? REPORT_ENDED : REPORT_STEP, state);
    if (outcome != NULL && report != NULL) {
        report->step.output = outcome->output;
        report->step.output_length = outcome->output_length;
    } else if (outcome != NULL) {
        free(outcome->output);
    }
    if (outcome != NULL && state == STEP_FAILED) {
        put_error(report, outcome->code, outcome->error);
        execution_set_error(execution, outcome->code, outcome->error);
    }
    if (last) {
        execution_fill_end(execution, report);
    }
    set_phase(run, PHASE_RECORDING_END);
    FAILPOINT("before_step_report");
    send(run, report);
}

/* The step will not go on: says so when the store knows of it, else nobody ever hears of it. */
static void put_away(struct step_run *run)
{
    clear_timer(run);
    drop_preparation(run);
    if (run->execution->ending >= ENDING_ABANDONED || run->execution->ending == ENDING_GIVEN_BACK || !run->on_record) {
        set_phase(run, PHASE_IDLE);
    } else {
        report_final(run, STEP_CANCELLED, NULL);
    }
}

static void report_waiting(struct step_run *run, int64_t delay_us, const struct outcome *outcome)
{
    struct report *report = make_report(run, REPORT_STEP, STEP_WAITING);
    if (report != NULL) {
        report->step.due_in_us = delay_us;
    }
    if (outcome != NULL) {
        put_error(report, outcome->code, outcome->error);
    }
    run->resume_us = time_add(loop_now(&run->execution->runner->loop), delay_us);
    set_phase(run, PHASE_RECORDING_WAIT);
    send(run, report);
}

/* --- ends of attempts --- */

static struct retry_policy policy_of(const struct step *step)
{
    return (struct retry_policy){.attempts_max = step->retry.attempts,
                                 .backoff_us = step->retry.backoff_us,
                                 .factor = step->retry.factor,
                                 .max_us = step->retry.max_us};
}

static bool is_not_on(const struct step *step, const char *code)
{
    for (size_t i = 0; i < step->retry.not_on_count; i++) {
        if (strcmp(step->retry.not_on[i], code) == 0) {
            return true;
        }
    }
    return false;
}

static void finish(struct step_run *run, struct outcome *outcome)
{
    struct execution *execution = run->execution;
    const struct step *step = step_run_step(run);
    clear_timer(run);
    drop_preparation(run);
    if (execution->ending == ENDING_ABANDONED) {
        free(outcome->output);
        set_phase(run, PHASE_IDLE);
        return;
    }
    if (outcome->is_done) {
        report_final(run, STEP_COMPLETED, outcome);
        return;
    }
    free(outcome->output);
    outcome->output = NULL;
    outcome->output_length = 0;
    if (run->stop == STOP_ENDING) {
        if (execution->ending == ENDING_GIVEN_BACK && step->kind == STEP_HANDLER) {
            struct outcome interrupted = {.code = STEP_INTERRUPTED};
            report_waiting(run, 0, &interrupted); /* so that the next node does not use this attempt's number again */
        } else if (step->kind == STEP_HANDLER && execution->ending != ENDING_GIVEN_BACK) {
            report_final(run, STEP_CANCELLED, NULL);
        } else {
            put_away(run);
        }
        return;
    }
    run->failures++;
    struct retry_policy policy = policy_of(step);
    if (!outcome->is_final && !is_not_on(step, outcome->code) && retry_allows(&policy, run->failures) &&
        (execution->ending == ENDING_NONE || execution->ending == ENDING_GIVEN_BACK)) {
        report_waiting(run, retry_delay(&policy, run->failures, &execution->runner->random), outcome);
    } else {
        report_final(run, STEP_FAILED, outcome);
    }
}

static void fail_with(struct step_run *run, const char *code, const char *error, bool is_final)
{
    struct outcome outcome = {.is_final = is_final, .code = code, .error = error};
    finish(run, &outcome);
}

/* The machine has not what the start takes: no failure of the step. Its next attempt is asked for when there may be more.
 */
static void wait_for_more(struct step_run *run, int native)
{
    clear_timer(run);
    drop_preparation(run);
    if (run->execution->ending != ENDING_NONE) {
        put_away(run);
        return;
    }
    int doublings = run->shortages < 5 ? run->shortages++ : 5;
    int64_t delay_us = STEP_SHORTAGE_FIRST_US << doublings;
    struct outcome outcome = {.code = STEP_NODE_SHORT, .error = process_shortage_text(native)};
    report_waiting(run, delay_us < STEP_SHORTAGE_MOST_US ? delay_us : STEP_SHORTAGE_MOST_US, &outcome);
}

/* --- exec: starting --- */

static void process_ended(struct process *process);

static void report_start(struct step_run *run)
{
    set_phase(run, PHASE_RECORDING_START);
    send(run, make_report(run, REPORT_STEP, STEP_RUNNING));
}

static void queue_up(struct step_run *run, struct step_run_queue *queue, enum step_phase phase)
{
    run->next_queued = NULL;
    if (queue->last != NULL) {
        queue->last->next_queued = run;
    } else {
        queue->first = run;
    }
    queue->last = run;
    set_phase(run, phase);
}

static void take_out_of_queue(struct step_run *run, struct step_run_queue *queue)
{
    struct step_run **link = &queue->first;
    struct step_run *before = NULL;
    while (*link != NULL && *link != run) {
        before = *link;
        link = &before->next_queued;
    }
    if (*link == run) {
        *link = run->next_queued;
        queue->last = queue->last == run ? before : queue->last;
    }
}

static void start_process(struct step_run *run)
{
    struct runner *runner = run->execution->runner;
    const struct step *step = step_run_step(run);
    struct weir_error error;
    const struct text *input = run->preparation->has_input ? &run->preparation->input : NULL;
    FAILPOINT("before_process_start");
    if (process_start(&runner->processes, &run->preparation->command, input, step->exec.output_max, run, process_ended,
                      &run->process, &error) != WEIR_OK) {
        set_phase(run, PHASE_RUNNING);
        if (process_is_shortage(error.native)) {
            wait_for_more(run, error.native);
        } else {
            fail_with(run, "exec_failed", error.message, false);
        }
        return;
    }
    set_phase(run, PHASE_RUNNING);
    run->stop = STOP_NONE;
    run->killed = false;
    drop_preparation(run);
    if (step->timeout_us > 0) {
        set_timer(run, time_add(loop_now(&runner->loop), step->timeout_us));
    }
}

/* An attempt is on record as running from before its process starts, so it must not be reported while it can only wait. */
static void begin_process(struct step_run *run)
{
    struct runner *runner = run->execution->runner;
    if (runner->awaiting.first == NULL && process_table_has_room(&runner->processes, runner->reserved)) {
        report_start(run);
    } else {
        queue_up(run, &runner->awaiting, PHASE_AWAITING_ROOM);
    }
}

void step_run_start_queued(struct runner *runner)
{
    while (runner->queued.first != NULL && process_table_has_room(&runner->processes, 0)) {
        struct step_run *run = runner->queued.first;
        struct execution *execution = run->execution;
        take_out_of_queue(run, &runner->queued);
        start_process(run);
        if (run->phase != PHASE_RUNNING) {
            execution_settle(execution);
        }
    }
    while (runner->awaiting.first != NULL && process_table_has_room(&runner->processes, runner->reserved)) {
        struct step_run *run = runner->awaiting.first;
        take_out_of_queue(run, &runner->awaiting);
        report_start(run);
    }
}

/* --- exec: ends --- */

/* What the step printed, as JSON text: itself when it is JSON, else as a string without its last newline. */
static bool take_output(struct step_run *run, struct process *process, struct outcome *outcome)
{
    struct text *raw = &process->output;
    json_t *value = NULL;
    if (raw->length > 0 && json_read(raw->data, raw->length, &value, NULL) == WEIR_OK) {
        outcome->output = raw->data;
        outcome->output_length = raw->length;
        *raw = (struct text){.max = raw->max};
    } else {
        size_t length = raw->length - (raw->length > 0 && raw->data[raw->length - 1] == '\n');
        /* Bytes that are no UTF-8 cannot be in JSON. */
        if (length > 0 && !text_is_utf8(raw->data, length)) {
            for (size_t i = 0; i < length; i++) {
                raw->data[i] = (unsigned char)raw->data[i] >= 0x80 ? '?' : raw->data[i];
            }
        }
        value = json_stringn(raw->length > 0 ? raw->data : "", length);
        struct text written = {.max = 8 * STEP_OUTPUT_BYTES_MAX};
        if (value == NULL || json_write(value, &written, NULL) != WEIR_OK) {
            json_decref(value);
            text_close(&written);
            return false;
        }
        outcome->output = written.data;
        outcome->output_length = written.length;
    }
    json_decref(run->output);
    run->output = NULL;
    if (run->execution->step_count > 1) {
        run->output = value;
    } else {
        json_decref(value);
    }
    return true;
}

/* "exit code 3: last lines of stderr" */
static void describe_failure(const struct process *process, const char *what, struct text *to)
{
    struct text tail = {.max = PROCESS_STDERR_BYTES};
    process_copy_errors(process, &tail);
    size_t length = tail.length;
    while (length > 0 && (tail.data[length - 1] == '\n' || tail.data[length - 1] == ' ')) {
        length--;
    }
    size_t room = ERROR_TEXT_MAX - strlen(what) - 3;
    size_t at = length > room ? length - room : 0;
    bool is_fine = text_add_string(to, what) == WEIR_OK && (at == length || text_add(to, ": ", 2) == WEIR_OK);
    while (is_fine && at < length) {
        char *line = tail.data + at;
        char *end = memchr(line, '\n', length - at);
        size_t line_length = end != NULL ? (size_t)(end - line) : length - at;
        at += line_length + 1;
        for (size_t i = 0; i < line_length; i++) {
            line[i] = line[i] == '\0' ? '?' : line[i];
        }
        line[line_length] = '\0';
        text_make_safe(line); /* lines stay lines; everything else that a terminal would act on goes */
        is_fine = text_add_string(to, line) == WEIR_OK && (at >= length || text_add(to, "\n", 1) == WEIR_OK);
    }
    text_close(&tail);
}

static void not_started(struct step_run *run, const struct process *process)
{
    char text[256];
    if (process_is_shortage(process->native) && run->stop != STOP_TIMEOUT) {
        wait_for_more(run, process->native);
        return;
    }
    bool is_missing = process->native == ENOENT || process->native == ENOTDIR;
    const char *what = process->stage == KEEPER_STAGE_CWD    ? "its directory cannot be entered"
                       : process->stage == KEEPER_STAGE_EXEC ? "its program cannot be run"
                                                             : "it cannot be started";
    (void)snprintf(text, sizeof text, "%s: %s", what, strerror(process->native));
    if (process->stage == KEEPER_STAGE_EXEC) {
        bool is_wrong = is_missing || process->native == EACCES || process->native == ENOEXEC;
        fail_with(run, is_wrong ? "exec_not_found" : "exec_failed", text, is_wrong);
    } else {
        fail_with(run, process->stage == KEEPER_STAGE_CWD ? "cwd_not_found" : "exec_failed", text, false);
    }
}

static void exited(struct step_run *run, struct process *process)
{
    char code[ERROR_CODE_MAX];
    char what[128];
    struct outcome outcome = {.code = code};
    int status = process->wait_status;
    run->shortages = 0;
    run->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (process->starved && run->stop == STOP_NONE) {
        wait_for_more(run, ENOMEM);
        return;
    }
    if (run->stop == STOP_TIMEOUT) {
        (void)snprintf(code, sizeof code, "timeout");
        (void)snprintf(what, sizeof what, "it was stopped after its timeout");
    } else if (process->flooded) {
        outcome.is_final = true;
        (void)snprintf(code, sizeof code, "output_too_large");
        (void)snprintf(what, sizeof what, "it printed more than %zu bytes", process->output.max);
    } else if (WIFSIGNALED(status)) {
        (void)snprintf(code, sizeof code, "killed_by_signal_%d", WTERMSIG(status));
        (void)snprintf(what, sizeof what, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else if (run->exit_code != 0) {
        (void)snprintf(code, sizeof code, "exit_%d", run->exit_code);
        (void)snprintf(what, sizeof what, "exit code %d", run->exit_code);
    } else {
        outcome.is_done = take_output(run, process, &outcome);
        (void)snprintf(code, sizeof code, "output_too_large");
        (void)snprintf(what, sizeof what, "its output does not fit into memory");
    }
    struct text error = {.max = ERROR_TEXT_MAX};
    if (!outcome.is_done) {
        describe_failure(process, what, &error);
        outcome.error = error.data;
    }
    finish(run, &outcome);
    text_close(&error);
}

/* Not a failure of the step: its next attempt is asked for once the lease had time to come back. If another node has taken
 * over by then, the store answers with a stale fence. */
static void wait_for_lease(struct step_run *run)
{
    if (run->execution->ending != ENDING_NONE) {
        put_away(run);
        return;
    }
    set_phase(run, PHASE_SLEEPING);
    set_timer(run, time_add(loop_now(&run->execution->runner->loop), STEP_AFTER_LEASE_LOSS_US));
}

/* The keeper was killed, and the step with it: no failure of the step, which runs again, at once and with the next
 * attempt's number. But it may be what the keeper is killed for (memory), so only as often as a node may die under it. */
static void run_again(struct step_run *run, const struct process *process)
{
    run->keepers_lost++;
    if (run->stop == STOP_TIMEOUT) {
        fail_with(run, "timeout", "it was stopped after its timeout", false);
    } else if (process->flooded) {
        fail_with(run, "output_too_large", "it printed more than it may", true);
    } else if (run->execution->ending != ENDING_NONE) {
        put_away(run);
    } else if (run->keepers_lost >= HANDOVERS_MAX_DEFAULT) {
        char text[128];
        (void)snprintf(text, sizeof text, "the process that watches over steps was killed %d times while it ran",
                       run->keepers_lost);
        fail_with(run, "poison", text, true);
    } else {
        attempt(run);
    }
}

static void process_ended(struct process *process)
{
    struct step_run *run = process->owner;
    struct execution *execution = run->execution;
    run->process = NULL;
    clear_timer(run);
    switch (process->end) {
    case PROCESS_EXITED:
        exited(run, process);
        break;
    case PROCESS_NOT_STARTED:
        not_started(run, process);
        break;
    case PROCESS_LEASE_LOST:
        wait_for_lease(run);
        break;
    case PROCESS_KEEPER_LOST:
        run_again(run, process);
        break;
    }
    process_free(process);
    execution_settle(execution);
}

/* --- handlers --- */

static void start_call(struct step_run *run)
{
    struct execution *execution = run->execution;
    const struct step *step = step_run_step(run);
    struct weir_call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        wait_for_more(run, ENOMEM);
        return;
    }
    call->handler = execution->definition->handlers[step_run_index(run)];
    call->execution_id = execution->id;
    call->workspace = execution->workspace;
    call->step = step->id;
    call->attempt = run->attempt;
    call->fence = execution->fence;
    call->owner = run;
    call->input = execution->params;
    if (run->preparation != NULL && run->preparation->has_input) {
        call->own_input = run->preparation->input.data;
        call->input = call->own_input;
        run->preparation->input = (struct text){.max = 0};
    }
    drop_preparation(run);
    run->call = call;
    run->stop = STOP_NONE;
    set_phase(run, PHASE_RUNNING);
    if (step->timeout_us > 0) {
        set_timer(run, time_add(loop_now(&execution->runner->loop), step->timeout_us));
    }
    handler_pool_submit(&execution->runner->handlers, call);
}

static void take_result(struct step_run *run, struct weir_call *call)
{
    struct outcome outcome = {.code = call->code, .error = call->error};
    if (run->stop == STOP_TIMEOUT) {
        fail_with(run, "timeout", "the handler took longer than its timeout", false);
        return;
    }
    switch (call->result) {
    case CALL_DONE:
        outcome.is_done = true;
        outcome.output = call->output;
        outcome.output_length = call->output != NULL ? strlen(call->output) : 0;
        call->output = NULL;
        if (run->execution->step_count > 1) {
            json_decref(run->output);
            run->output = call->value;
            call->value = NULL;
        }
        break;
    case CALL_RETRY:
        break;
    case CALL_FAILED:
        outcome.is_final = true;
        break;
    case CALL_BAD_OUTPUT:
        outcome.is_final = true;
        outcome.code = "handler_bad_output";
        break;
    case CALL_NOTHING:
        outcome.is_final = true;
        outcome.code = "handler_no_result";
        outcome.error = "the handler returned without weir_done(), weir_retry() or weir_fail()";
        break;
    }
    finish(run, &outcome);
}

void step_run_call_finished(struct weir_call *call)
{
    struct step_run *run = call->owner;
    struct execution *execution = run->execution;
    run->call = NULL;
    clear_timer(run);
    take_result(run, call);
    weir_call_free(call);
    execution_settle(execution);
}

/* --- the way to an attempt --- */

/* A handler that ended its node may do so again: from the second claim on its attempts are on record before they begin, as
 * those of exec steps are, so that the next handover counts. */
static void begin_call(struct step_run *run)
{
    if (run->execution->handovers > 0) {
        report_start(run);
    } else {
        start_call(run);
    }
}

/* Everything is evaluated: what the kind of step does next. */
static void go_on(struct step_run *run)
{
    switch (step_run_step(run)->kind) {
    case STEP_EXEC:
        begin_process(run);
        break;
    case STEP_SLEEP: {
        int64_t delay_us = run->preparation->delay_us;
        drop_preparation(run);
        report_waiting(run, delay_us, NULL);
        break;
    }
    case STEP_HANDLER:
        begin_call(run);
        break;
    }
}

static void prepare(struct step_run *run)
{
    struct preparation *preparation = run->preparation;
    switch (preparation_run(preparation)) {
    case PREPARATION_READY:
        go_on(run);
        break;
    case PREPARATION_SKIP:
        drop_preparation(run);
        report_final(run, STEP_SKIPPED, NULL);
        break;
    case PREPARATION_ASKED:
        break;
    case PREPARATION_SHORT:
        wait_for_more(run, ENOMEM);
        break;
    case PREPARATION_FAILED: {
        struct weir_error message = preparation->message;
        fail_with(run, preparation->code, message.message, true);
        break;
    }
    }
}

static void evaluation_answered(struct step_run *run)
{
    struct execution *execution = run->execution;
    prepare(run);
    execution_settle(execution);
}

static void attempt(struct step_run *run)
{
    run->attempt++;
    run->exit_code = -1;
    run->stop = STOP_NONE;
    if (preparation_is_needless(run)) {
        begin_call(run);
        return;
    }
    set_phase(run, PHASE_EVALUATING);
    bool is_short = false;
    run->preparation = preparation_new(run, evaluation_answered, &is_short);
    if (is_short) {
        wait_for_more(run, ENOMEM);
        return;
    }
    if (run->preparation == NULL) {
        fail_with(run, EXPRESSION_ERROR_CODE, "the context of its expressions cannot be made", true);
        return;
    }
    prepare(run);
}

static void timer_fired(struct timer *timer)
{
    struct step_run *run = timer->owner;
    struct execution *execution = run->execution;
    if (run->phase == PHASE_SLEEPING) {
        if (step_run_step(run)->kind == STEP_SLEEP) {
            report_final(run, STEP_COMPLETED, NULL);
        } else {
            attempt(run);
        }
        execution_settle(execution);
    } else if (run->phase == PHASE_RUNNING && run->stop == STOP_NONE) {
        run->stop = STOP_TIMEOUT;
        if (run->process != NULL) {
            process_kill(run->process, KEEPER_GRACE_US);
        } else if (run->call != NULL) {
            atomic_store(&run->call->cancelled, true);
        }
    }
}

/* --- from outside --- */

void step_run_begin(struct step_run *run)
{
    run->timer.fire = timer_fired;
    run->timer.owner = run;
    if (run->state == STEP_WAITING && run->on_record) { /* from before a handover */
        set_phase(run, PHASE_SLEEPING);
        set_timer(run, run->resume_us);
        return;
    }
    attempt(run);
}

/* Attempts that a dead node may have begun without a record (handlers) are skipped: no number is used twice. */
void step_run_restore(struct step_run *run, const struct step_record *record)
{
    struct execution *execution = run->execution;
    bool may_be_unseen = step_run_step(run)->kind == STEP_HANDLER && (record == NULL || record->state != STEP_RUNNING);
    int unseen = may_be_unseen ? execution->handovers : 0;
    run->attempt = (record != NULL ? record->attempt : 0) + unseen;
    run->exit_code = record != NULL ? record->exit_code : -1;
    if (record == NULL) {
        return;
    }
    run->state = record->state;
    run->failures = record->failures;
    run->condition_met = true;
    if (!step_state_is_final(record->state)) {
        run->on_record = true;
        run->resume_us = time_add(loop_now(&execution->runner->loop), record->due_in_us);
        return;
    }
    run->attempt = record->attempt;
    set_phase(run, PHASE_DONE);
    if (record->output != NULL && execution->step_count > 1) {
        (void)!json_read(record->output, record->output_length, &run->output, NULL);
    }
    if (record->state == STEP_FAILED) {
        execution_set_error(execution, record->error_code, record->error);
        execution->ending = execution->ending < ENDING_FAILED ? ENDING_FAILED : execution->ending;
    } else if (record->state == STEP_CANCELLED && execution->ending == ENDING_NONE) {
        execution->ending = ENDING_CANCELLED;
    }
}

static void stop_running(struct step_run *run)
{
    enum ending ending = run->execution->ending;
    if (ending == ENDING_FAILED) {
        return; /* siblings of a failed step finish */
    }
    bool is_first = run->stop == STOP_NONE;
    bool is_harder = ending == ENDING_ABANDONED && !run->killed;
    if (is_first) {
        run->stop = STOP_ENDING;
        clear_timer(run);
    }
    if (run->process != NULL && (is_first || is_harder)) {
        run->killed = ending == ENDING_ABANDONED;
        process_kill(run->process, run->killed ? 0 : KEEPER_GRACE_US);
    } else if (run->call != NULL) {
        atomic_store(&run->call->cancelled, true);
    }
}

void step_run_stop(struct step_run *run)
{
    bool is_abandoned = run->execution->ending == ENDING_ABANDONED;
    switch (run->phase) {
    case PHASE_IDLE:
        if (run->on_record && !is_abandoned && run->execution->ending != ENDING_GIVEN_BACK) {
            put_away(run); /* on record from before a handover, and never begun here */
        }
        break;
    case PHASE_AWAITING_ROOM:
        take_out_of_queue(run, &run->execution->runner->awaiting);
        put_away(run);
        break;
    case PHASE_QUEUED:
        take_out_of_queue(run, &run->execution->runner->queued);
        put_away(run);
        break;
    case PHASE_EVALUATING:
    case PHASE_SLEEPING:
        put_away(run);
        break;
    case PHASE_RUNNING:
        stop_running(run);
        break;
    case PHASE_RECORDING_START:
    case PHASE_RECORDING_WAIT:
    case PHASE_RECORDING_END:
        if (is_abandoned) {
            put_away(run);
        }
        break;
    case PHASE_DONE:
        break;
    }
}

/* The store did not take the result: the step fails, and if even that is not taken, the execution goes on without. */
static void result_refused(struct step_run *run)
{
    json_decref(run->output);
    run->output = NULL;
    if (run->refused) {
        set_phase(run, PHASE_DONE);
        return;
    }
    run->refused = true;
    run->execution->end_reported = false;
    struct outcome outcome = {.code = "output_refused", .error = "the store did not take the result of the step"};
    run->failures++;
    report_final(run, STEP_FAILED, &outcome);
}

void step_run_recorded(struct step_run *run, enum weir_status status)
{
    bool is_fine = status == WEIR_OK;
    bool is_ending = run->execution->ending != ENDING_NONE;
    switch (run->phase) {
    case PHASE_RECORDING_START:
        run->on_record = run->on_record || is_fine;
        if (!is_fine) {
            result_refused(run);
        } else if (is_ending) {
            put_away(run);
        } else if (step_run_step(run)->kind == STEP_EXEC) {
            queue_up(run, &run->execution->runner->queued, PHASE_QUEUED);
        } else {
            start_call(run);
        }
        break;
    case PHASE_RECORDING_WAIT:
        run->on_record = run->on_record || is_fine;
        if (!is_fine) {
            result_refused(run);
        } else if (is_ending) {
            put_away(run);
        } else {
            set_phase(run, PHASE_SLEEPING);
            set_timer(run, run->resume_us);
        }
        break;
    case PHASE_RECORDING_END:
        if (is_fine) {
            run->on_record = false;
            set_phase(run, PHASE_DONE);
        } else {
            result_refused(run);
        }
        break;
    default:
        break; /* an answer that came twice */
    }
}

void step_run_close(struct step_run *run)
{
    clear_timer(run);
    drop_preparation(run);
    json_decref(run->output);
    run->output = NULL;
}
