/* Steps that run a program. step_run.c describes the life of an attempt; this file is its part between the prepared command
 * and the end of the process.
 *
 * Two queues, both fair between workspaces: process_places holds the steps without a place, spawn_places those whose start
 * is durable. A place is counted from the report of the start, so the sum of running and reserved processes never passes
 * the limit. A spawn place is counted from the request to the keeper until the process has ended, or until its program has
 * run for STEP_SPAWN_HOLD_US.
 *
 * The end of a process has one of four meanings: it exited, it could not start, the lease of the node was over, or its
 * keeper died. Only an exit, and a start that failed for the program's own reason, count as an attempt of the step. A
 * shortage of the machine, a lost lease and a lost keeper must never spend an attempt.
 *
 * The loop's thread runs all of it. step_process_ended() settles the execution, which may free the step.
 */
#include "engine/in_process/step_exec.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/in_process/execution.h"
#include "engine/in_process/result_file.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_inputs.h"
#include "engine/in_process/step_phase.h"
#include "engine/in_process/step_report.h"
#include "engine/in_process/step_run.h"
#include "engine/in_process/step_secrets.h"
#include "queue/suspicion.h"

enum { REASON_BYTES = 160 };

/* --- the queues --- */

size_t step_exec_spawns_most(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > STEP_SPAWNS_LEAST ? (size_t)processors : STEP_SPAWNS_LEAST;
}

void step_exec_queue(struct step_run *run)
{
    INVARIANT(run->phase == PHASE_RECORDING_START);
    struct runner *runner = run->execution->runner;
    step_run_set_phase(run, PHASE_QUEUED);
    fair_queue_add(&runner->spawn_places, &run->execution->tenant->spawns, &run->turn);
}

void step_exec_leave_queue(struct step_run *run)
{
    INVARIANT(run->phase == PHASE_AWAITING_PLACE || run->phase == PHASE_QUEUED);
    struct runner *runner = run->execution->runner;
    bool has_waited =
        fair_queue_remove(run->phase == PHASE_QUEUED ? &runner->spawn_places : &runner->process_places, &run->turn);
    INVARIANT(has_waited);
}

/* --- starting --- */

static void step_process_ended(struct process *process);

static void spawn_end_fired(struct timer *timer)
{
    step_run_end_spawn(timer->owner);
}

/* The child is about to exec. */
static void step_process_begins(struct process *process)
{
    struct step_run *run = process->owner;
    struct loop *loop = &run->execution->runner->loop;
    step_run_note_started(run);
    if (run->is_spawning) {
        loop_set_timer(loop, &run->spawn_end, time_add(loop_now(loop), STEP_SPAWN_HOLD_US));
    }
}

/* Passes output of the attempt on; bytes NULL: it writes no more. */
static void pass_output(const struct step_run *run, enum log_stream stream, const char *bytes, size_t length)
{
    struct execution *execution = run->execution;
    struct engine_output output = {.execution_id = execution->id,
                                   .step = step_run_step(run)->id,
                                   .attempt = run->attempt,
                                   .at_us = time_add(loop_now(&execution->runner->loop), execution->store_ahead_us),
                                   .stream = stream,
                                   .bytes = bytes,
                                   .length = length};
    engine_output(&execution->runner->base, &output);
}

struct hidden_output {
    const struct step_run *run;
    enum log_stream stream;
};

static void pass_hidden_output(void *context, const char *bytes, size_t length)
{
    const struct hidden_output *output = context;
    pass_output(output->run, output->stream, bytes, length);
}

/* The secrets of the step are hidden before anything leaves the engine. */
static void step_process_wrote(struct process *process, enum log_stream stream, const char *bytes, size_t length)
{
    static const char lost[] = "[output was left out: the node has no memory to hide secrets in it]\n";
    struct step_run *run = process->owner;
    struct hidden_output output = {.run = run, .stream = stream};
    if (run->secrets == NULL) {
        pass_output(run, stream, bytes, length);
    } else if (secret_stream_write(&run->secrets->streams[stream == LOG_STDERR], &run->secrets->mask, bytes, length,
                                   pass_hidden_output, &output) != WEIR_OK) {
        pass_output(run, stream, lost, sizeof lost - 1);
    }
}

/* Passes the rest of both streams on, and their end. */
static void end_output(struct step_run *run)
{
    static const enum log_stream streams[] = {LOG_STDOUT, LOG_STDERR};
    for (size_t i = 0; run->secrets != NULL && i < sizeof streams / sizeof streams[0]; i++) {
        struct hidden_output output = {.run = run, .stream = streams[i]};
        secret_stream_end(&run->secrets->streams[i], &run->secrets->mask, pass_hidden_output, &output);
    }
    pass_output(run, LOG_STDOUT, NULL, 0);
}

/* Reads the secrets of the step and adds them to the command. False: the step waits or has failed. */
static bool add_secrets(struct step_run *run)
{
    struct weir_error error = {.message = ""};
    enum weir_status status = step_secrets_read(run->execution, step_run_step(run), &run->secrets, &error);
    if (status == WEIR_OK && run->secrets != NULL) {
        status = step_secrets_add_to(run->secrets, &run->inputs->command);
        if (status != WEIR_OK && status != WEIR_OUT_OF_MEMORY) {
            step_run_set_phase(run, PHASE_RUNNING);
            step_run_drop_secrets(run);
            step_run_fail(run, "exec_failed", "the command with its secrets is larger than 2 MiB", false);
            return false;
        }
    }
    if (status != WEIR_OK) {
        step_run_set_phase(run, PHASE_RUNNING);
        step_run_drop_secrets(run);
        step_run_wait_for_secret(run, status, error.message);
    }
    return status == WEIR_OK;
}

/* Gives the prepared command to the keeper. The attempt is on record. */
static void start_step_process(struct step_run *run)
{
    struct runner *runner = run->execution->runner;
    const struct step *step = step_run_step(run);
    struct weir_error error;
    const struct text *input = run->inputs->has_input ? &run->inputs->input : NULL;
    FAILPOINT("before_process_start");
    if (!add_secrets(run)) {
        return;
    }
    if (process_start(&runner->processes, &run->inputs->command, input, step->exec.output_max, run, step_process_ended,
                      &run->process, &error) != WEIR_OK) {
        step_run_set_phase(run, PHASE_RUNNING);
        step_run_drop_secrets(run);
        if (shortage_is_cause(error.native)) {
            step_run_wait_for_resources(run, error.native);
        } else {
            step_run_fail(run, "exec_failed", error.message, false);
        }
        return;
    }
    run->process->execution = run->execution;
    run->process->wrote = step_process_wrote;
    run->process->output.wipes = run->secrets != NULL;
    step_run_set_phase(run, PHASE_RUNNING);
    run->stop = STOP_NONE;
    run->is_killed = false;
    run->result_path = run->inputs->result_path;
    run->inputs->result_path = NULL;
    step_run_drop_inputs(run);
    run->process->begins = step_process_begins;
    run->is_spawning = true;
    run->spawn_end = (struct timer){.fire = spawn_end_fired, .owner = run};
    fair_queue_hold(&runner->spawn_places, &run->execution->tenant->spawns);
    if (step->timeout_us > 0) {
        step_run_set_timer(run, time_add(loop_now(&runner->loop), step->timeout_us));
    }
}

/* The step whose turn is next, or NULL. */
static struct step_run *step_of_next_turn(struct fair_queue *queue)
{
    struct fair_entry *turn = fair_queue_next(queue);
    return turn == NULL ? NULL : (struct step_run *)(void *)((char *)turn - offsetof(struct step_run, turn));
}

/* The step that gets the next free place, or NULL. */
static struct step_run *find_next_step(struct runner *runner)
{
    return process_table_has_capacity(&runner->processes, runner->reserved) ? step_of_next_turn(&runner->process_places)
                                                                            : NULL;
}

/* The step enters the fair queue even if a place is free: another workspace may be due first. */
void step_exec_begin(struct step_run *run)
{
    INVARIANT(run->inputs != NULL && run->process == NULL);
    struct runner *runner = run->execution->runner;
    step_run_set_phase(run, PHASE_AWAITING_PLACE);
    fair_queue_add(&runner->process_places, &run->execution->tenant->processes, &run->turn);
    if (find_next_step(runner) == run) { /* else the end of a turn gives it a place */
        fair_queue_take(&runner->process_places, &run->turn);
        step_run_report_start(run);
    }
}

void step_exec_start_queued(struct runner *runner)
{
    INVARIANT(runner != NULL);
    struct step_run *run;
    while (process_table_has_capacity(&runner->processes, 0) && (run = step_of_next_turn(&runner->spawn_places)) != NULL) {
        struct execution *execution = run->execution;
        fair_queue_take(&runner->spawn_places, &run->turn);
        start_step_process(run);
        if (run->phase != PHASE_RUNNING) {
            execution_settle(execution);
        }
    }
    while ((run = find_next_step(runner)) != NULL) {
        fair_queue_take(&runner->process_places, &run->turn);
        step_run_report_start(run);
    }
}

/* --- ends --- */

/* The step's output as JSON text: unchanged if it is JSON, else as a JSON string without its last newline. */
static enum weir_status take_process_output(struct step_run *run, struct process *process, struct step_outcome *outcome)
{
    struct text *raw = &process->output;
    json_t *value = NULL;
    bool is_changed = false;
    raw->length = step_secrets_hide(run->secrets, raw->data, raw->length);
    enum weir_status status = raw->length == 0 ? WEIR_INVALID_ARGUMENT : json_read(raw->data, raw->length, &value, NULL);
    if (status == WEIR_OUT_OF_MEMORY) {
        return status; /* the output may be JSON */
    }
    if (status == WEIR_OK && step_secrets_hide_json(run->secrets, &value, &is_changed) != WEIR_OK) {
        json_decref(value);
        return WEIR_OUT_OF_MEMORY;
    }
    if (is_changed) {
        struct text hidden = {.max = 8 * STEP_OUTPUT_BYTES_MAX};
        status = json_write(value, &hidden, NULL);
        text_close(raw);
        *raw = hidden;
        if (status != WEIR_OK) {
            json_decref(value);
            return status;
        }
    }
    if (status == WEIR_OK) {
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
        status = value == NULL ? WEIR_OUT_OF_MEMORY : json_write(value, &written, NULL);
        if (status != WEIR_OK) {
            json_decref(value);
            text_close(&written);
            return status;
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
    return WEIR_OK;
}

/* "exit code 3: last lines of stderr" */
static void describe_process_failure(const struct step_run *run, const struct process *process, const char *reason,
                                     struct text *to)
{
    struct text tail = {.max = PROCESS_STDERR_BYTES, .wipes = run->secrets != NULL};
    process_copy_errors(process, &tail);
    size_t length =
        run->secrets == NULL ? tail.length : secret_mask_apply_to_tail(&run->secrets->mask, tail.data, tail.length);
    while (length > 0 && (tail.data[length - 1] == '\n' || tail.data[length - 1] == ' ')) {
        length--;
    }
    size_t tail_max = ERROR_TEXT_MAX - strlen(reason) - 3;
    size_t at = length > tail_max ? length - tail_max : 0;
    bool is_fine = text_add_string(to, reason) == WEIR_OK && (at == length || text_add(to, ": ", 2) == WEIR_OK);
    while (is_fine && at < length) {
        char *line = tail.data + at;
        char *end = memchr(line, '\n', length - at);
        size_t line_length = end != NULL ? (size_t)(end - line) : length - at;
        at += line_length + 1;
        for (size_t i = 0; i < line_length; i++) {
            line[i] = line[i] == '\0' ? '?' : line[i];
        }
        line[line_length] = '\0';
        text_make_safe(line); /* keeps the lines, removes control characters */
        is_fine = text_add_string(to, line) == WEIR_OK && (at >= length || text_add(to, "\n", 1) == WEIR_OK);
    }
    text_close(&tail);
}

/* The keeper or the child could not start the program. Missing resources are no failure of the step. */
static void handle_failed_start(struct step_run *run, const struct process *process)
{
    char text[256];
    if (shortage_is_cause(process->native) && run->stop != STOP_TIMEOUT) {
        step_run_wait_for_resources(run, process->native);
        return;
    }
    bool is_missing = process->native == ENOENT || process->native == ENOTDIR;
    const char *problem = process->stage == KEEPER_STAGE_CWD    ? "its directory cannot be entered"
                          : process->stage == KEEPER_STAGE_EXEC ? "its program cannot be run"
                                                                : "it cannot be started";
    (void)snprintf(text, sizeof text, "%s: %s", problem, strerror(process->native));
    if (process->stage == KEEPER_STAGE_EXEC) {
        bool is_wrong = is_missing || process->native == EACCES || process->native == ENOEXEC;
        step_run_fail(run, is_wrong ? "exec_not_found" : "exec_failed", text, is_wrong);
    } else {
        step_run_fail(run, process->stage == KEEPER_STAGE_CWD ? "cwd_not_found" : "exec_failed", text, false);
    }
}

/* The result of a program that ended well: the file of WEIR_OUTPUT if it wrote one, else its stdout. Fills `code` and
 * `reason` when there is none. False: out of memory. */
static bool take_result(struct step_run *run, struct process *process, const char *result_path,
                        struct step_outcome *outcome, char *code, char *reason)
{
    struct text written = {.max = process->output.max, .wipes = run->secrets != NULL};
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status = result_path == NULL ? WEIR_OK : result_file_read(result_path, &written, &error);
    if (status == WEIR_OK && written.length > 0) {
        text_close(&process->output);
        process->output = written;
    } else {
        text_close(&written);
    }
    if (status == WEIR_FAILED) {
        outcome->is_final = true;
        (void)snprintf(code, ERROR_CODE_MAX, "output_too_large");
        (void)snprintf(reason, REASON_BYTES, "it wrote more than %zu bytes to WEIR_OUTPUT", process->output.max);
    } else if (status == WEIR_SYSTEM) {
        (void)snprintf(code, ERROR_CODE_MAX, "output_unreadable");
        (void)snprintf(reason, REASON_BYTES, "its file WEIR_OUTPUT cannot be read: %.80s", error.message);
    } else if (status == WEIR_OK) {
        status = take_process_output(run, process, outcome);
        outcome->is_done = status == WEIR_OK;
        (void)snprintf(code, ERROR_CODE_MAX, "output_too_large");
        (void)snprintf(reason, REASON_BYTES, "its output is too large as JSON text");
    }
    return status != WEIR_OUT_OF_MEMORY;
}

/* The program has ended. The order of the checks matters: a step that the node killed also has a signal as its status. */
static void handle_exit(struct step_run *run, struct process *process, const char *result_path)
{
    char code[ERROR_CODE_MAX];
    char reason[REASON_BYTES];
    struct step_outcome outcome = {.code = code};
    int status = process->wait_status;
    run->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (process->starved && run->stop == STOP_NONE) {
        step_run_wait_for_resources(run, ENOMEM);
        return;
    }
    if (run->stop == STOP_TIMEOUT) {
        (void)snprintf(code, sizeof code, "timeout");
        (void)snprintf(reason, sizeof reason, "the node stopped it after its timeout");
    } else if (process->flooded) {
        outcome.is_final = true;
        (void)snprintf(code, sizeof code, "output_too_large");
        (void)snprintf(reason, sizeof reason, "it printed more than %zu bytes", process->output.max);
    } else if (WIFSIGNALED(status)) {
        (void)snprintf(code, sizeof code, "killed_by_signal_%d", WTERMSIG(status));
        (void)snprintf(reason, sizeof reason, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else if (run->exit_code != 0) {
        (void)snprintf(code, sizeof code, "exit_%d", run->exit_code);
        (void)snprintf(reason, sizeof reason, "exit code %d", run->exit_code);
    } else if (!take_result(run, process, result_path, &outcome, code, reason)) {
        step_run_wait_for_resources(run, ENOMEM);
        return;
    }
    struct text error = {.max = ERROR_TEXT_MAX};
    run->shortages = 0; /* the machine had the resources for this attempt */
    if (!outcome.is_done) {
        describe_process_failure(run, process, reason, &error);
        outcome.error = error.data;
    }
    step_run_finish(run, &outcome);
    text_close(&error);
}

/* No failure of the step: it begins its next attempt after the node had time to get a lease again. If another node has
 * taken over by then, the store answers with a stale fence. */
static void wait_for_new_lease(struct step_run *run)
{
    if (run->execution->ending != ENDING_NONE) {
        step_run_discontinue(run);
        return;
    }
    step_run_set_phase(run, PHASE_SLEEPING);
    step_run_set_timer(run, time_add(loop_now(&run->execution->runner->loop), STEP_AFTER_LEASE_LOSS_US));
}

/* The keeper died, and the step with it: no failure of the step. The first time its next attempt begins at once. But the
 * step may be the cause of the death. So from the second time on, and if an earlier claim was lost, the engine gives
 * the execution back. Then the scheduler decides beside which items it runs (queue/suspicion.h). */
static void repeat_after_keeper_loss(struct step_run *run, const struct process *process)
{
    run->keepers_lost++;
    if (run->stop == STOP_TIMEOUT) {
        step_run_fail(run, "timeout", "the node stopped it after its timeout", false);
    } else if (process->flooded) {
        step_run_fail(run, "output_too_large", "it printed more than its limit", true);
    } else if (run->execution->ending != ENDING_NONE) {
        step_run_discontinue(run);
    } else if (run->keepers_lost > 1 || run->execution->interruptions > 0) {
        struct execution *execution = run->execution;
        execution->given_back_for =
            execution->runner->processes.lost_single_execution ? SUSPICION_KEEPER_LOST_ALONE : SUSPICION_KEEPER_LOST;
        execution->ending = ENDING_GIVEN_BACK; /* execution_settle() stops the other steps */
        step_run_discontinue(run);
    } else {
        step_run_attempt(run);
    }
}

/* The callback of process.h: everything that the process started is gone. */
static void step_process_ended(struct process *process)
{
    struct step_run *run = process->owner;
    struct execution *execution = run->execution;
    run->process = NULL;
    step_run_clear_timer(run);
    end_output(run);
    struct step_secrets *secrets = run->secrets;
    char *result_path = run->result_path; /* the next attempt may begin below */
    run->result_path = NULL;
    switch (process->end) {
    case PROCESS_EXITED:
        handle_exit(run, process, result_path);
        break;
    case PROCESS_NOT_STARTED:
        handle_failed_start(run, process);
        break;
    case PROCESS_LEASE_LOST:
        wait_for_new_lease(run);
        break;
    case PROCESS_KEEPER_LOST:
        repeat_after_keeper_loss(run, process);
        break;
    }
    result_file_remove(&result_path);
    if (run->secrets == secrets) {
        run->secrets = NULL;
    }
    step_secrets_free(secrets);
    process_free(process);
    execution_settle(execution);
}
