/* One execution: its admission, the graph of its steps, its end.
 *
 * Settling is the engine of the graph. execution_settle() runs after each change of a step:
 *
 *   1. Without an ending, begin each idle step whose needs are all DONE, up to max_parallel_steps.
 *   2. With an ending, stop the steps in flight. Each kind of ending decides which ones (step_run_stop()).
 *   3. Repeat while a begun or stopped step has changed at once (settle_again). A flag replaces recursion, so the depth of
 *      the stack does not depend on the graph.
 *   4. When no step is in flight: go to the next stage (execution_stage.h), or leave without a report if the claim is lost,
 * else report the end, once.
 *
 * The execution stays in the table until the store has recorded its end, because the store may refuse the result of its
 * last step. For a start with an id that the engine already has, the fence decides. With a higher fence it waits as the
 * successor until all processes of the old run are dead. With the same fence it gets the answer STARTED again. With a
 * lower one it is refused.
 *
 * The loop runs all of it, except execution_new(). Most functions may free the execution: a caller must not use it after.
 */
#include "engine/in_process/execution.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pool.h"
#include "base/text.h"
#include "engine/in_process/execution_outcome.h"
#include "engine/in_process/execution_stage.h"
#include "engine/in_process/in_process_options.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_phase.h"
#include "engine/in_process/step_report.h"
#include "engine/in_process/step_run.h"
#include "engine/in_process/step_secrets.h"
#include "engine/in_process/step_signal.h"
#include "engine/in_process/step_states.h"

/* --- making --- */

static char *copy_string(char **at, const char *from, size_t length)
{
    char *to = *at;
    memcpy(to, from, length);
    to[length] = '\0';
    *at += length + 1;
    return to;
}

static void copy_start(struct execution *execution, const struct engine_start *start, char *strings)
{
    execution->command.kind = COMMAND_START;
    text_copy(execution->id, sizeof execution->id, start->id);
    execution->fence = start->fence;
    execution->start_number = start->start_number;
    execution->interruptions = start->interruptions;
    execution->is_suspect = start->is_suspect;
    execution->lost_a_node = start->lost_a_node;
    execution->version = start->version;
    execution->weight = start->weight;
    execution->running_for_us = start->running_for_us;
    execution->store_ahead_us = start->store_ahead_us;
    execution->cancel_requested = start->cancel_requested;
    text_copy(execution->traceparent, sizeof execution->traceparent, start->traceparent != NULL ? start->traceparent : "");
    execution->has_step_spans = start->has_step_spans;
    const char *workspace = start->workspace != NULL ? start->workspace : "";
    const char *workflow = start->workflow != NULL ? start->workflow : "";
    const char *node = start->node != NULL ? start->node : "";
    execution->node = copy_string(&strings, node, strlen(node));
    execution->workspace = copy_string(&strings, workspace, strlen(workspace));
    execution->workflow = copy_string(&strings, workflow, strlen(workflow));
    bool has_params = start->params != NULL && start->params_length > 0;
    execution->params_length = has_params ? start->params_length : 2;
    execution->params = copy_string(&strings, has_params ? start->params : "{}", execution->params_length);
}

/* NULL: the store has no record of this step. */
static const struct step_record *find_step_record(const struct engine_start *start, const char *id)
{
    for (size_t i = 0; i < start->step_count; i++) {
        if (strcmp(start->steps[i].step, id) == 0) {
            return &start->steps[i];
        }
    }
    return NULL;
}

/* WEIR_OUT_OF_MEMORY: some are missing. */
static enum weir_status copy_signals(struct execution *execution, const struct engine_start *start)
{
    for (size_t i = 0; i < start->signal_count; i++) {
        struct kept_signal *kept = kept_signal_new(&start->signals[i]);
        if (kept == NULL) {
            return WEIR_OUT_OF_MEMORY;
        }
        execution_keep_signal(execution, kept);
    }
    if (start->signals_seen > execution->signals_seen) {
        execution->signals_seen = start->signals_seen;
    }
    return WEIR_OK;
}

/* The machine of a workflow with states. */
static enum weir_status restore_states(struct execution *execution, const struct engine_start *start)
{
    const struct definition_entry *definition = execution->definition;
    if (definition == NULL || definition->definition->states == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = step_states_open(&execution->steps[0], find_step_record(start, STATES_STEP));
    if (status == WEIR_FAILED) {
        execution_set_error(execution, "variables_invalid",
                            "the state and the variables on record are no JSON that this node can read");
        execution->ending = ENDING_FAILED;
        return WEIR_OK;
    }
    return status;
}

/* The records of earlier claims, and the signals. */
static enum weir_status restore_execution(struct execution *execution, const struct engine_start *start)
{
    const struct definition_entry *definition = execution->definition;
    for (size_t i = 0; i < execution->step_count && (start->step_count > 0 || start->interruptions > 0); i++) {
        const struct step_record *record = find_step_record(start, definition->definition->steps[i].id);
        if (step_run_restore(&execution->steps[i], record) != WEIR_OK) {
            return WEIR_OUT_OF_MEMORY;
        }
    }
    if (restore_states(execution, start) != WEIR_OK) {
        return WEIR_OUT_OF_MEMORY;
    }
    if (definition != NULL) {
        execution_restore_ending(execution);
    }
    return copy_signals(execution, start);
}

enum weir_status execution_new(struct runner *runner, const struct engine_start *start, struct execution **ret_execution,
                               struct weir_error *error)
{
    INVARIANT(runner != NULL && start != NULL && ret_execution != NULL);
    struct definition_entry *definition = NULL;
    struct weir_error refusal = {.message = ""};
    enum weir_status status =
        definition_cache_acquire(&runner->definitions, start->definition_id, start->definition, &definition, &refusal);
    size_t count = status == WEIR_OK ? definition->definition->count : 0;
    size_t strings = (start->node != NULL ? strlen(start->node) : 0) +
                     (start->workspace != NULL ? strlen(start->workspace) : 0) +
                     (start->workflow != NULL ? strlen(start->workflow) : 0) + start->params_length + 2 + 4;
    size_t bytes = sizeof(struct execution) + count * sizeof(struct step_run) + strings;
    struct execution *execution = pool_allocate(bytes);
    if (execution == NULL) {
        definition_cache_release(definition);
        return error_out_of_memory(error);
    }
    execution->bytes = bytes;
    execution->runner = runner;
    execution->definition = definition;
    execution->step_count = count;
    execution->refusal = status;
    copy_start(execution, start, (char *)&execution->steps[count]);
    if (status != WEIR_OK) {
        execution_set_error(execution, "definition_invalid", refusal.message);
    }
    execution->failed_step = -1;
    execution->started_us = loop_now(&runner->loop);
    for (size_t i = 0; i < count; i++) {
        execution->steps[i].execution = execution;
        execution->steps[i].exit_code = -1;
    }
    if (restore_execution(execution, start) != WEIR_OK) {
        execution_free(execution);
        return error_out_of_memory(error);
    }
    *ret_execution = execution;
    return WEIR_OK;
}

void execution_free(struct execution *execution)
{
    if (execution == NULL) {
        return;
    }
    loop_clear_timer(&execution->runner->loop, &execution->timeout);
    for (size_t i = 0; i < execution->step_count; i++) {
        step_run_close(&execution->steps[i]);
    }
    tenant_release(&execution->runner->tenants, execution->tenant);
    definition_cache_release(execution->definition);
    json_decref(execution->input);
    json_decref(execution->about);
    execution_drop_signals(execution);
    report_free(execution->wait_report);
    free(execution->error);
    pool_free(execution, execution->bytes);
}

/* --- leaving --- */

/* Removes the execution and frees it. A successor that waited for its end is admitted. */
static void leave_engine(struct execution *execution)
{
    struct runner *runner = execution->runner;
    struct execution *successor = execution->successor;
    if (execution->in_table) {
        execution_table_remove(&runner->executions, execution);
    }
    INVARIANT(runner->timers_reserved > execution->step_count);
    runner->timers_reserved -= execution->step_count + 1;
    atomic_fetch_sub(&runner->admitted, execution->capacity_is_free ? 0 : 1);
    execution_free(execution);
    if (successor != NULL) {
        execution_admit(successor);
    }
}

static void refuse_start(struct execution *execution, bool permanent, int64_t delay_us, const char *code, const char *error)
{
    struct runner *runner = execution->runner;
    struct report *report = report_new(REPORT_REFUSED, execution->id, execution->fence);
    if (report != NULL) { /* without a report the start is unanswered, and the node sends it again */
        report->permanent = permanent;
        report->delay_us = delay_us;
        text_copy(report->error_code, sizeof report->error_code, code);
        report->error = error != NULL ? strdup(error) : NULL;
    }
    execution_free(execution);
    atomic_fetch_sub(&runner->admitted, 1);
    if (report != NULL) {
        engine_report(&runner->base, report);
    }
}

/* --- admission --- */

static void report_started(const struct execution *execution)
{
    struct report *report = report_new(REPORT_STARTED, execution->id, execution->fence);
    if (report != NULL) { /* without a report the start is unanswered, and the node sends it again */
        report->sleeps_us = execution_sleeps_us(execution);
        engine_report(&execution->runner->base, report);
    }
}

/* True when the engine has an execution with this id. The new one then waits, repeats the answer, or is refused. */
static bool meets_same_id(struct execution *execution)
{
    struct runner *runner = execution->runner;
    struct execution *present = execution_table_find(&runner->executions, execution->id);
    if (present == NULL) {
        return false;
    }
    if (execution->fence > present->fence) {
        /* This node lost the claim and got it again. The old run must be dead before the new one begins. */
        struct execution *waiting = present->successor;
        present->successor = execution;
        if (waiting != NULL) {
            execution_free(waiting);
            atomic_fetch_sub(&runner->admitted, 1);
        }
        execution_end(present, ENDING_ABANDONED);
        return true;
    }
    if (execution->fence == present->fence && present->ending != ENDING_ABANDONED) {
        report_started(present);
        execution_free(execution);
        atomic_fetch_sub(&runner->admitted, 1);
    } else {
        refuse_start(execution, false, 0, "stale_fence", "this node holds the execution with a later fence");
    }
    return true;
}

/* Refuses an execution with a secret that this node lacks. It waits without a slot, and another node may have the secret.
 */
static bool lacks_secret(struct execution *execution)
{
    struct weir_error error = {.message = ""};
    enum weir_status status = step_secrets_check(execution, &error);
    if (status != WEIR_OK) {
        bool is_short = status == WEIR_OUT_OF_MEMORY;
        refuse_start(execution, false, IN_PROCESS_REFUSAL_DELAY_US, is_short ? "out_of_memory" : STEP_SECRET_MISSING,
                     is_short ? NULL : error.message);
    }
    return status != WEIR_OK;
}

/* Refuses an execution that this node cannot run. The rest reserves its workspace and its timers. */
static bool is_refused(struct execution *execution)
{
    struct runner *runner = execution->runner;
    if (execution->refusal == WEIR_OUT_OF_MEMORY) {
        refuse_start(execution, false, IN_PROCESS_REFUSAL_DELAY_US, "out_of_memory", NULL);
        return true;
    }
    if (execution->refusal != WEIR_OK) {
        refuse_start(execution, true, 0, "definition_invalid", execution->error);
        return true;
    }
    if (atomic_load(&runner->stopped)) {
        refuse_start(execution, false, 0, "node_stopping", "this node stops and accepts no execution");
        return true;
    }
    if (execution->definition->definition->temporal != NULL) {
        refuse_start(execution, false, IN_PROCESS_REFUSAL_DELAY_US, "wrong_engine",
                     "this workflow runs on Temporal, and this node's engine is in_process: give the workflow the "
                     "`executor_group` of a node with `engine: temporal`");
        return true;
    }
    if (execution->definition->unknown_handler != NULL) {
        char text[128];
        (void)snprintf(text, sizeof text, "this node has no handler \"%s\"", execution->definition->unknown_handler);
        refuse_start(execution, false, IN_PROCESS_REFUSAL_DELAY_US, "unknown_handler", text);
        return true;
    }
    if (execution->definition->http_fault != NULL) {
        refuse_start(execution, false, IN_PROCESS_REFUSAL_DELAY_US, "libcurl_missing", execution->definition->http_fault);
        return true;
    }
    if (lacks_secret(execution)) {
        return true;
    }
    size_t timers = runner->timers_reserved + execution->step_count + 1;
    execution->tenant = tenant_acquire(&runner->tenants, execution->workspace);
    if (execution->tenant == NULL ||
        loop_reserve_timers(&runner->loop, timers + runner->spawn_places.places + EVALUATORS_MAX + PROCESS_TABLE_TIMERS) !=
            WEIR_OK) {
        refuse_start(execution, false, IN_PROCESS_REFUSAL_DELAY_US, "out_of_memory", NULL);
        return true;
    }
    runner->timers_reserved = timers;
    return false;
}

static void timeout_fired(struct timer *timer)
{
    struct execution *execution = timer->owner;
    if (execution->end_reported) {
        return;
    }
    /* The first failure is on record, and the next node would find it: with later stages it stands. */
    bool has_failure = execution->ending == ENDING_FAILED || execution->failed_step >= 0;
    bool keeps_failure = has_failure && execution_has_stages(execution);
    if (execution->ending < ENDING_TIMED_OUT && !keeps_failure) {
        execution_set_timeout_error(execution);
    }
    execution_end(execution, ENDING_TIMED_OUT);
}

/* Sets the weight of the workspace: the latest start has the present one. */
static void set_tenant_weight(const struct execution *execution)
{
    struct tenant *tenant = execution->tenant;
    if (execution->weight != tenant->processes.weight) {
        tenant->processes.weight = execution->weight;
        tenant->spawns.weight = execution->weight;
        tenant->evaluations.weight = execution->weight;
        handler_pool_set_weight(&execution->runner->handlers, &tenant->calls, execution->weight);
        http_client_set_weight(&execution->runner->requests, &tenant->requests, execution->weight);
    }
}

/* The time of the execution passed before this claim. No step begins, not even before the first turn of the loop. A wait on
 * record is read first: a signal that has come for it is used. */
static void end_overdue(struct execution *execution)
{
    for (size_t i = 0; i < execution->step_count && execution->ending == ENDING_NONE; i++) {
        struct step_run *run = &execution->steps[i];
        if (run->phase == PHASE_IDLE && run->on_record && run->state == STEP_WAITING) {
            step_run_begin(run);
        }
    }
    loop_clear_timer(&execution->runner->loop, &execution->timeout);
    timeout_fired(&execution->timeout);
}

void execution_admit(struct execution *execution)
{
    struct runner *runner = execution->runner;
    INVARIANT(!execution->in_table && execution->in_flight == 0);
    if (meets_same_id(execution) || is_refused(execution)) {
        return;
    }
    set_tenant_weight(execution);
    execution_table_insert(&runner->executions, execution);
    execution->timeout.fire = timeout_fired;
    execution->timeout.owner = execution;
    report_started(execution);
    int64_t timeout_us = execution->definition->definition->timeout_us;
    if (timeout_us > 0) {
        int64_t due_us = time_add(execution->started_us, timeout_us - execution->running_for_us);
        loop_set_timer(&runner->loop, &execution->timeout, due_us);
    }
    enum ending ending = execution->ending; /* from the steps on record */
    if (ending != ENDING_NONE || execution->cancel_requested) {
        execution->ending = ENDING_NONE;
        execution_end(execution, execution->cancel_requested ? ENDING_CANCELLED : ending);
    } else if (timeout_us > 0 && execution->running_for_us >= timeout_us && execution->stage == STAGE_STEPS) {
        end_overdue(execution);
    } else {
        execution_settle(execution);
    }
}

/* --- the graph of steps --- */

/* Begins the steps of the stage whose needs are done, up to the bound of parallel steps. A sleep, and a wait for a signal
 * or a report, use no resources. */
static void begin_steps(struct execution *execution)
{
    const struct definition *definition = execution->definition->definition;
    size_t count = execution->stage == STAGE_STEPS ? definition->main_count : execution->step_count;
    if (execution->stage == STAGE_UNDO) {
        int next = execution->ending == ENDING_NONE ? execution_next_undo(execution) : -1;
        if (next >= 0) {
            step_run_begin(&execution->steps[next]);
        }
        return;
    }
    for (size_t i = 0; i < count && execution->ending == ENDING_NONE; i++) {
        struct step_run *run = &execution->steps[i];
        enum step_kind kind = definition->steps[i].kind;
        bool may_begin = kind == STEP_SLEEP || kind == STEP_SIGNAL || (kind == STEP_START && run->on_record) ||
                         run->awaits_callback || execution->parallel < execution->runner->options.max_parallel_steps;
        if (run->phase == PHASE_IDLE && may_begin && execution_stage_allows(execution, i)) {
            step_run_begin(run);
        }
    }
}

static void stop_steps(struct execution *execution)
{
    for (size_t i = 0; i < execution->step_count; i++) {
        step_run_stop(&execution->steps[i]);
    }
}

/* Whether the step waits, on record or by the report that the park takes along, and may do so without a slot. A step that
 * waits for something of its node keeps it: the delays of such waits grow in the node. One that was cut short by the loss
 * of a lease is still RUNNING on record. */
static bool may_wait_without_slot(const struct step_run *run)
{
    bool is_on_record = run->phase == PHASE_SLEEPING && run->on_record;
    return (is_on_record || step_run_begins_to_wait(run)) && run->state == STEP_WAITING && run->shortages == 0 &&
           !step_run_step(run)->hold_slot;
}

/* The first step to go on, if the execution can wait for it without a slot; NULL: it cannot. */
static const struct step_run *find_first_to_wake(const struct execution *execution)
{
    const struct step_run *first = NULL;
    for (size_t i = 0; i < execution->step_count; i++) {
        const struct step_run *run = &execution->steps[i];
        if (run->phase == PHASE_IDLE || run->phase == PHASE_DONE) {
            continue;
        }
        if (!may_wait_without_slot(run)) {
            return NULL;
        }
        first = first == NULL || run->resume_us < first->resume_us ? run : first;
    }
    return first;
}

static bool waits_in_manual_state(const struct step_run *run)
{
    const char *awaits = run->machine == NULL || run->awaits_node ? NULL : step_run_awaits(run);
    return awaits != NULL && signal_is_manual(awaits);
}

static enum wait_kind wait_kind_of_states(const struct step_run *run)
{
    const char *awaits = run->awaits_node ? NULL : step_run_awaits(run);
    if (awaits == NULL) {
        return run->awaits_node || run->machine->is_retry ? WAIT_RETRY : WAIT_SLEEP;
    }
    return signal_is_manual(awaits) ? WAIT_MANUAL : signal_is_of_children(awaits) ? WAIT_CHILD : WAIT_SIGNAL;
}

/* A signal or a report that a person or a program must send is what the execution waits for, however soon another step
 * goes on. An approval goes first: it is a list of work for people. */
static enum wait_kind wait_kind_of(const struct execution *execution, const struct step_run *first)
{
    bool is_signal = false;
    bool waits_for_child = false;
    bool is_callback = false;
    for (size_t i = 0; i < execution->step_count; i++) {
        const struct step_run *run = &execution->steps[i];
        bool waits = run->phase == PHASE_SLEEPING || step_run_begins_to_wait(run);
        is_callback = is_callback || (waits && run->awaits_callback);
        if (waits && step_run_step(run)->kind == STEP_SIGNAL && !run->awaits_node) {
            is_signal = true;
            if (step_run_step(run)->signal.approval != NULL) {
                return WAIT_APPROVAL;
            }
        }
        bool is_start = waits && step_run_step(run)->kind == STEP_START && !run->awaits_node;
        waits_for_child = waits_for_child || is_start;
    }
    if (first->machine != NULL) {
        return wait_kind_of_states(first);
    }
    bool is_sleep = step_run_step(first)->kind == STEP_SLEEP && !first->awaits_node;
    if (is_signal) {
        return WAIT_SIGNAL;
    }
    return is_callback ? WAIT_CALLBACK : waits_for_child ? WAIT_CHILD : is_sleep ? WAIT_SLEEP : WAIT_RETRY;
}

/* Gives the slot back when nothing of the execution is to be done for a while. Its own timeout ends the wait, too. A
 * suspect stays: it waits within its trial, because after a park it would start beside any others. In a manual state it is
 * parked all the same: only an update moves it, and none moves an execution that a node holds. One without a worker
 * leaves at once, and is given back with its slot if it cannot be parked. */
static void park_if_all_waits(struct execution *execution)
{
    const struct definition *definition = execution->definition->definition;
    const struct step_run *first = find_first_to_wake(execution);
    if (first == NULL || (execution->is_suspect && !waits_in_manual_state(first))) {
        return;
    }
    int64_t until_us = first->resume_us;
    int64_t timeout_us = time_add(execution->started_us, definition->timeout_us - execution->running_for_us);
    bool is_bounded = definition->timeout_us > 0 && execution->stage == STAGE_STEPS;
    until_us = is_bounded && timeout_us < until_us ? timeout_us : until_us;
    int64_t park_after_us = execution->runner->options.park_after_us;
    if (!execution->lacks_worker && until_us <= time_add(loop_now(&execution->runner->loop), park_after_us)) {
        return;
    }
    execution->is_parked = true;
    execution->parked_until_us = until_us;
    execution->waiting_for = wait_kind_of(execution, first);
    execution->ending = ENDING_GIVEN_BACK;
    stop_steps(execution);
    if (execution->wait_report != NULL) {
        step_run_discontinue(&execution->steps[execution->wait_report->step_index]);
    }
}

void execution_settle(struct execution *execution)
{
    INVARIANT(execution->in_table);
    if (execution->is_settling) {
        execution->settle_again = true;
        return;
    }
    execution->is_settling = true;
    do {
        execution->settle_again = false;
        if (execution->ending == ENDING_NONE) {
            begin_steps(execution);
        }
        if (execution->ending != ENDING_NONE && execution->in_flight > 0) {
            stop_steps(execution);
        }
    } while (execution->settle_again || (execution->in_flight == 0 && execution_stage_advance(execution)));
    execution->is_settling = false;
    if (execution->ending == ENDING_NONE && execution->in_flight > 0) {
        park_if_all_waits(execution);
    }
    if (execution->ending == ENDING_NONE && execution->lacks_worker) {
        execution->ending = ENDING_GIVEN_BACK;
        stop_steps(execution);
    }
    if (execution->ending != ENDING_ABANDONED && !(execution->is_parked && execution->in_flight == 0)) {
        execution_send_wait(execution);
    }
    if (execution->in_flight > 0) {
        return;
    }
    if (execution->ending == ENDING_ABANDONED) {
        leave_engine(execution);
    } else if (!execution->end_reported && (execution->ending != ENDING_NONE || execution_is_complete(execution))) {
        execution_report_end(execution);
    }
}

void execution_end(struct execution *execution, enum ending ending)
{
    INVARIANT(execution->in_table && ending != ENDING_NONE);
    if (ending > execution->ending && (!execution->end_reported || ending == ENDING_ABANDONED)) {
        execution->ending = ending;
        stop_steps(execution);
    }
    execution_settle(execution);
}

void execution_recorded(struct execution *execution, const struct recorded *recorded)
{
    INVARIANT(execution->fence == recorded->fence);
    bool is_lost = recorded->status == WEIR_STALE_FENCE || recorded->status == WEIR_EXECUTION_NOT_FOUND;
    if (is_lost) {
        execution_end(execution, ENDING_ABANDONED);
        return;
    }
    bool is_end = report_is_last(recorded->kind);
    if (is_end && (recorded->status == WEIR_OK || recorded->step_index < 0)) {
        if (execution->end_reported) {
            if (recorded->step_index >= 0 && (size_t)recorded->step_index < execution->step_count) {
                step_run_note_recorded(&execution->steps[recorded->step_index], true);
            }
            leave_engine(execution);
        }
        return;
    }
    if ((recorded->kind == REPORT_STEP || is_end) && recorded->step_index >= 0 &&
        (size_t)recorded->step_index < execution->step_count) {
        step_run_recorded(&execution->steps[recorded->step_index], recorded->status);
        execution_settle(execution);
    }
}
