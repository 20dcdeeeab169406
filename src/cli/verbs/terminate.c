/* `weir cancel --terminate`: ends workflows on Temporal without asking them.
 *
 * The cancel is on record before. For each execution:
 * 1. Read it. If it has ended, nothing is left to do.
 * 2. Ask the service to terminate its workflow.
 * 3. If the service knows no such workflow, the start may still be on its way. temporal_terminate() calls is_awaited()
 *    and tries again until the execution ends, the time is over, or a signal comes.
 *
 * One failure does not keep the other ids from being terminated, unless the service is away. One thread.
 */
#include "cli/verbs/terminate.h"

#include <string.h>

#include "base/error.h"
#include "cli/signals.h"
#include "cli/verbs/temporal_service.h"
#include "cli/verbs/temporal_workflow.h"
#include "cli/verbs/verb.h"

/* One execution as the store shows it while the command waits for it. */
struct awaited {
    struct store *store;
    const char *id;
    int64_t until_us; /* boot clock */
    json_t *execution;
    struct weir_error error; /* of the last read */
    enum weir_status status;
};

/* Reads the execution again; the error is kept for the message. */
static void read_awaited(struct awaited *awaited)
{
    json_decref(awaited->execution);
    awaited->execution = NULL;
    awaited->status = store_show(awaited->store, awaited->id, &awaited->execution, &awaited->error);
}

static bool is_awaited_ended(const struct awaited *awaited)
{
    return json_is_string(json_object_get(awaited->execution, "finished_at"));
}

/* Called by the engine between two tries: whether it shall try again. */
static bool is_awaited(void *context)
{
    struct awaited *awaited = context;
    read_awaited(awaited);
    return awaited->status == WEIR_OK && !is_awaited_ended(awaited) && signals_count() == 0 &&
           clock_boot(clock_system()) < awaited->until_us;
}

/* The service knows no open workflow, and there was no more time to wait for it. */
static enum weir_status explain_not_terminated(const struct awaited *awaited, struct weir_error *error)
{
    const char *state = json_string_value(json_object_get(awaited->execution, "status"));
    if (awaited->status != WEIR_OK) {
        *error = awaited->error;
        return awaited->status;
    }
    if (is_awaited_ended(awaited)) {
        return WEIR_OK;
    }
    if (state == NULL || strcmp(state, "DISPATCHED") == 0) {
        return WEIR_EXECUTION_NOT_FOUND; /* with the message of the engine */
    }
    bool is_interrupted = signals_count() > 0;
    enum weir_status status = is_interrupted ? WEIR_INTERRUPTED : WEIR_TIMED_OUT;
    error_set(error, status,
              "%sexecution %s is cancelled, but not terminated: weir does not know yet whether its start arrived",
              is_interrupted ? "interrupted: " : "", awaited->id);
    error_hint(error, "if it arrived, weir asks the workflow to cancel itself; the same command waits for it again");
    return status;
}

/* Terminates the workflow of one execution, or reports why that was not possible. */
static enum weir_status terminate_one(struct invocation *invocation, struct store *store, const char *id,
                                      struct weir_error *error)
{
    const char *reason = invocation_text(invocation, "reason");
    struct awaited awaited = {
        .store = store,
        .id = id,
        .until_us = time_add(clock_boot(clock_system()), temporal_service_timeout(invocation)),
    };
    read_awaited(&awaited);
    enum weir_status status = WEIR_EXECUTION_NOT_FOUND;
    if (awaited.status == WEIR_OK && !is_awaited_ended(&awaited)) {
        const char *group = json_string_value(json_object_get(awaited.execution, "executor_group"));
        struct settings settings = settings_of_group(invocation->settings, group);
        json_t *shown = json_incref(awaited.execution); /* its texts are used while `awaited` is read again */
        struct temporal_workflow workflow;
        status = temporal_workflow_of(store, shown, &workflow, error);
        if (status == WEIR_OK) {
            status = temporal_service_terminate(invocation, &settings, &workflow.execution,
                                                reason == NULL ? "asked for in weir" : reason, is_awaited, &awaited, error);
        }
        json_decref(shown);
    }
    if (status == WEIR_EXECUTION_NOT_FOUND || (status != WEIR_OK && is_awaited_ended(&awaited))) {
        status = explain_not_terminated(&awaited, error);
    }
    json_decref(awaited.execution);
    return status;
}

enum weir_status terminate_executions(struct invocation *invocation, struct store *store, const json_t *ids,
                                      struct weir_error *error)
{
    struct output *output = invocation->output;
    enum weir_status first = WEIR_OK;
    size_t i;
    json_t *item;
    json_array_foreach(ids, i, item)
    {
        struct weir_error failure;
        const char *id = json_string_value(item);
        error_clear(&failure);
        enum weir_status status = terminate_one(invocation, store, id, &failure);
        if (status != WEIR_OK && json_array_size(ids) > 1) {
            output_report_sign(output, SIGN_BAD, "%s: %s", id, failure.message);
        }
        if (status != WEIR_OK && first == WEIR_OK) {
            first = status;
            *error = failure;
        }
        if (status != WEIR_OK && status != WEIR_TIMED_OUT && status != WEIR_EXECUTION_NOT_FOUND) {
            break;
        }
    }
    return first;
}
