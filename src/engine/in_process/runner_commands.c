/* Orders of other threads, and their execution in the loop.
 *
 * A sender allocates a command, pushes it and wakes the loop. A start allocates nothing here: the execution is its own
 * command. "Abandon everything" is a member of the runner, because it is the remedy when memory is short.
 * A command names its execution by id and fence. The loop compares both, because a command may arrive after the execution
 * has left, or after a start with a higher fence. A command that meets no such execution has no effect.
 * A command must never be lost in silence: an execution would run against an order. If one is, the engine asks the node to
 * give up all its claims.
 *
 * The capacity is exact at each moment. runner_send_recorded() lowers `admitted` in the recorder's thread, before the
 * recorder wakes the dispatcher; a dispatcher that found no capacity would sleep. The loop later finds the execution and
 * marks it (capacity_is_free), or corrects the counter if the same end was reported durable twice.
 */
#include "engine/in_process/runner_commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "engine/in_process/execution.h"
#include "engine/in_process/step_report.h"
#include "engine/in_process/step_signal.h"
#include "engine/in_process/task_call.h"

struct named_command {
    struct command command;
    char id[UUID_TEXT_MAX];
    int64_t fence;
};

struct signal_command {
    struct named_command named;
    struct kept_signal *kept;
};

struct recorded_command {
    struct command command;
    size_t count;
    struct recorded entries[];
};

/* --- any thread --- */

void runner_send_named(struct runner *runner, enum command_kind kind, const char *id, int64_t fence)
{
    INVARIANT(id != NULL && (kind == COMMAND_CANCEL || kind == COMMAND_ABANDON));
    struct named_command *command = calloc(1, sizeof *command);
    if (command == NULL) {
        engine_note_lost_report(&runner->base);
        return;
    }
    command->command.kind = kind;
    command->fence = fence;
    text_copy(command->id, sizeof command->id, id);
    runner_push_command(runner, &command->command);
}

void runner_send_signal(struct runner *runner, const char *id, int64_t fence, const struct signal_record *signal)
{
    INVARIANT(runner != NULL && id != NULL && fence > 0 && signal != NULL);
    struct signal_command *command = calloc(1, sizeof *command);
    struct kept_signal *kept = command == NULL ? NULL : kept_signal_new(signal);
    if (kept == NULL) {
        free(command);
        engine_note_lost_report(&runner->base); /* the next claims have the signals, too */
        return;
    }
    command->named.command.kind = COMMAND_SIGNAL;
    command->named.fence = fence;
    command->kept = kept;
    text_copy(command->named.id, sizeof command->named.id, id);
    runner_push_command(runner, &command->named.command);
}

void runner_send_abandon_all(struct runner *runner)
{
    INVARIANT(runner->abandon_all.kind == COMMAND_ABANDON_ALL);
    if (!atomic_exchange(&runner->abandon_all_is_on, true)) {
        runner_push_command(runner, &runner->abandon_all);
    } else {
        /* The earlier one may be in front of starts that this one includes. */
        engine_note_lost_report(&runner->base);
    }
}

/* True for a durable end: its execution uses no capacity. */
static bool frees_capacity(const struct recorded *recorded)
{
    return report_is_last(recorded->kind) && recorded->status == WEIR_OK;
}

void runner_send_recorded(struct runner *runner, const struct recorded *recorded, size_t count)
{
    INVARIANT(recorded != NULL || count == 0);
    struct recorded_command *command = malloc(sizeof *command + count * sizeof *recorded);
    if (command == NULL) {
        engine_note_lost_report(&runner->base); /* the abandoned executions free their capacity */
        return;
    }
    command->command.kind = COMMAND_RECORDED;
    command->count = count;
    memcpy(command->entries, recorded, count * sizeof *recorded);
    size_t freed = 0;
    for (size_t i = 0; i < count; i++) {
        freed += frees_capacity(&recorded[i]);
    }
    atomic_fetch_sub(&runner->admitted, freed);
    runner_push_command(runner, &command->command);
}

/* --- the loop --- */

/* An execution may leave the table in execution_end(), so the walk begins its bucket again after each. */
void runner_end_all(struct runner *runner, enum ending ending)
{
    INVARIANT(ending != ENDING_NONE && runner->executions.buckets != NULL);
    for (size_t i = 0; i < runner->executions.bucket_count; i++) {
        struct execution *execution = runner->executions.buckets[i];
        while (execution != NULL) {
            if (execution->ending < ending && (!execution->end_reported || ending == ENDING_ABANDONED)) {
                execution_end(execution, ending);
                execution = runner->executions.buckets[i];
            } else {
                execution = execution->next;
            }
        }
    }
}

static void execute_cancel(struct runner *runner, const struct named_command *command)
{
    struct execution *execution = execution_table_find(&runner->executions, command->id);
    if (execution != NULL && execution->fence == command->fence) {
        execution_end(execution, ENDING_CANCELLED);
    } else if (execution != NULL && execution->successor != NULL && execution->successor->fence == command->fence) {
        execution->successor->cancel_requested = true;
    }
}

static void execute_signal(struct runner *runner, struct signal_command *command)
{
    struct execution *execution = execution_table_find(&runner->executions, command->named.id);
    struct execution *successor = execution == NULL ? NULL : execution->successor;
    if (execution != NULL && execution->fence == command->named.fence) {
        execution_signal(execution, command->kept);
        execution_settle(execution);
    } else if (successor != NULL && successor->fence == command->named.fence) {
        execution_keep_signal(successor, command->kept);
    } else {
        kept_signal_free(command->kept); /* the next claim has it */
    }
}

static void drop_successor(struct execution *execution)
{
    if (execution->successor != NULL) {
        atomic_fetch_sub(&execution->runner->admitted, 1);
        execution_free(execution->successor);
        execution->successor = NULL;
    }
}

static void execute_abandon(struct runner *runner, const struct named_command *command)
{
    struct execution *execution = execution_table_find(&runner->executions, command->id);
    if (execution != NULL && execution->successor != NULL && execution->successor->fence <= command->fence) {
        drop_successor(execution);
    }
    if (execution != NULL && execution->fence <= command->fence) {
        execution_end(execution, ENDING_ABANDONED);
    }
}

void runner_abandon_everything(struct runner *runner)
{
    INVARIANT(runner->executions.buckets != NULL);
    for (size_t i = 0; i < runner->executions.bucket_count; i++) {
        for (struct execution *execution = runner->executions.buckets[i]; execution != NULL; execution = execution->next) {
            drop_successor(execution);
        }
    }
    runner_end_all(runner, ENDING_ABANDONED);
}

static void execute_recorded(struct runner *runner, const struct recorded_command *command)
{
    for (size_t i = 0; i < command->count; i++) {
        const struct recorded *recorded = &command->entries[i];
        struct execution *execution = execution_table_find(&runner->executions, recorded->id);
        bool is_present = execution != NULL && execution->fence == recorded->fence;
        if (frees_capacity(recorded) && is_present && execution->end_reported) {
            execution->capacity_is_free = true;
        } else if (frees_capacity(recorded)) {
            atomic_fetch_add(&runner->admitted, 1); /* the second answer to one end: it had nothing to free */
        }
        if (is_present) {
            execution_recorded(execution, recorded);
        }
    }
}

/* Executes one command and frees it, unless it is a part of an execution or of the runner. */
static void execute_command(struct runner *runner, struct command *command)
{
    struct named_command *named = (struct named_command *)(void *)command;
    switch (command->kind) {
    case COMMAND_START:
        execution_admit((struct execution *)(void *)command);
        return;
    case COMMAND_CANCEL:
        execute_cancel(runner, named);
        break;
    case COMMAND_SIGNAL:
        execute_signal(runner, (struct signal_command *)(void *)command);
        break;
    case COMMAND_ABANDON:
        execute_abandon(runner, named);
        break;
    case COMMAND_ABANDON_ALL:
        atomic_store(&runner->abandon_all_is_on, false);
        runner_abandon_everything(runner);
        return;
    case COMMAND_RECORDED:
        execute_recorded(runner, (struct recorded_command *)(void *)command);
        break;
    case COMMAND_CALL:
        task_call_begin(command);
        return;
    case COMMAND_CANCEL_CALL:
        task_call_execute_cancel(runner, command);
        break;
    }
    free(command);
}

void runner_execute_commands(struct runner *runner)
{
    INVARIANT(runner != NULL);
    struct command *command = command_queue_take(&runner->commands);
    while (command != NULL) {
        struct command *next = command->next;
        execute_command(runner, command);
        command = next;
    }
}

void runner_free_commands(struct runner *runner)
{
    INVARIANT(runner != NULL);
    struct command *command = command_queue_take(&runner->commands);
    while (command != NULL) {
        struct command *next = command->next;
        if (command->kind == COMMAND_START) {
            execution_free((struct execution *)(void *)command);
        } else if (command->kind == COMMAND_CALL) {
            task_call_drop(command);
        } else if (command->kind == COMMAND_SIGNAL) {
            kept_signal_free(((struct signal_command *)(void *)command)->kept);
            free(command);
        } else if (command != &runner->abandon_all) {
            free(command);
        }
        command = next;
    }
}
