/* The small operations on the runner that several parts need.
 *
 * This file stands below executions and steps: it knows none of their functions, so they can use it without a circle.
 * in_process.c opens and closes the runner; runner_commands.c executes its commands.
 * runner_push_command() runs in any thread, the rest in the loop.
 */
#include "engine/in_process/runner.h"

#include "base/error.h"

struct report *runner_report_new(struct runner *runner, enum report_kind kind, const char *id, int64_t fence)
{
    INVARIANT(runner != NULL && id != NULL);
    struct report *report = report_new(kind, id, fence);
    if (report == NULL) {
        engine_note_lost_report(&runner->base);
    }
    return report;
}

void runner_push_command(struct runner *runner, struct command *command)
{
    INVARIANT(runner != NULL && command != NULL);
    command_queue_push(&runner->commands, command);
    loop_notify(&runner->loop);
}
