/* The end of an execution as its own worker reports it: made of the existing verbs, so no driver has a part in it.
 *
 * 1. Read the execution. The end of an ended one is compared: the same end again is no failure, because a worker repeats a
 * call whose answer was lost.
 * 2. Refuse an execution that runs inside a node: only that node knows when its steps have ended. Refuse one that waits.
 * 3. Compare fence and run, if the worker names them, so that the worker of an older run cannot end the present one.
 * 4. Record the end under the fence that was read. The record decides: with another fence it changes nothing.
 * 5. After a lost race, read again and repeat, at most TRIES_MAX times: a handover between reading and recording changes
 * the fence.
 *
 * It never writes without a fence. Runs in the thread of the caller: a command or an embedding program.
 */
#include "store/complete.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "store/call.h"
#include "store/driver.h"

#define WORKFLOW_STEP "workflow" /* the one step of an execution that an engine outside of the node runs */

enum { TRIES_MAX = 5 }; /* an execution is handed over as many times while we look */

/* The text of a key; NULL without one. */
static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* --- may it be reported? --- */

/* Whether the definition runs on an engine outside of the node. */
static bool is_run_outside(const json_t *workflow)
{
    const char *text = text_at(workflow, "definition");
    json_t *definition = NULL;
    bool is_outside = text != NULL && json_read(text, strlen(text), &definition, NULL) == WEIR_OK &&
                      json_is_object(json_object_get(definition, "temporal"));
    json_decref(definition);
    return is_outside;
}

struct versions {
    const char *workspace;
    json_int_t version;
    size_t fit;
    size_t outside;
};

/* Counts the versions that fit the execution, and those that run outside. */
static bool count_version(void *context, const json_t *workflow)
{
    struct versions *versions = context;
    const char *owner = text_at(workflow, "workspace"); /* NULL: everybody's */
    if (json_integer_value(json_object_get(workflow, "version")) == versions->version &&
        (owner == NULL || (versions->workspace != NULL && strcmp(owner, versions->workspace) == 0))) {
        versions->fit++;
        versions->outside += is_run_outside(workflow);
    }
    return true;
}

/* Steps run inside a node, which alone knows when they have ended. Several versions may fit, by the workspace's own
 * workflow and by everybody's: then all must be run outside. */
static enum weir_status need_outside(struct store *store, const json_t *execution, struct weir_error *error)
{
    struct versions versions = {.workspace = text_at(execution, "workspace"),
                                .version = json_integer_value(json_object_get(execution, "version"))};
    struct list_options options = {
        .kind = LIST_WORKFLOWS, .name = text_at(execution, "workflow"), .limit = LIST_LIMIT_MOST};
    enum weir_status status = store_list_each(store, &options, count_version, &versions, error);
    if (status == WEIR_OK && (versions.fit == 0 || versions.fit != versions.outside)) {
        status = error_set(error, WEIR_ILLEGAL_STATE, "workflow '%s' runs inside a node, which reports its end itself",
                           options.name);
        error_hint(
            error,
            "the worker may end only a workflow with a `temporal:` section; `weir cancel` stops any other execution");
    }
    return status;
}

/* --- one try --- */

enum item_state record_end_state(enum record_kind kind)
{
    return kind == RECORD_COMPLETED ? ITEM_COMPLETED : kind == RECORD_FAILED ? ITEM_FAILED : ITEM_CANCELLED;
}

/* Reported before: the same end is no failure. */
static enum weir_status compare_ends(const json_t *execution, enum record_kind kind, struct weir_error *error)
{
    const char *state = text_at(execution, "status");
    if (state != NULL && strcmp(state, item_state_name(record_end_state(kind))) == 0) {
        return WEIR_OK;
    }
    return error_set(error, WEIR_ILLEGAL_STATE, "the execution has ended already: %s", state == NULL ? "" : state);
}

/* The ids that the node noted of the workflow; NULL when it has noted none yet. */
static const json_t *noted_run(const json_t *execution)
{
    size_t i;
    const json_t *step;
    json_array_foreach(json_object_get(execution, "steps"), i, step)
    {
        const char *name = text_at(step, "step");
        const json_t *variables = json_object_get(step, "variables");
        if (name != NULL && strcmp(name, WORKFLOW_STEP) == 0 && text_at(variables, "run_id") != NULL) {
            return variables;
        }
    }
    return NULL;
}

/* Records the end, with the ids of the run that the node has noted. */
static enum weir_status record_completion(struct store *store, const json_t *execution, const struct completion *completion,
                                          enum weir_status *ret_outcome, struct weir_error *error)
{
    static const enum step_state states[] = {
        [ITEM_COMPLETED] = STEP_COMPLETED, [ITEM_FAILED] = STEP_FAILED, [ITEM_CANCELLED] = STEP_CANCELLED};
    const json_t *noted = noted_run(execution);
    struct step_record step = {.step = WORKFLOW_STEP,
                               .state = states[record_end_state(completion->kind)],
                               .attempt = 1,
                               .failures = completion->kind == RECORD_FAILED,
                               .exit_code = -1,
                               .variables =
                                   noted == NULL ? NULL : json_make_text(noted, JSON_COMPACT)}; /* stays as it is */
    struct record record = {.kind = completion->kind,
                            .fence = json_integer_value(json_object_get(execution, "fence")),
                            .dispatched_first = true,
                            .taken_over = true,
                            .step = &step,
                            .step_began_ago_us = -1,
                            .error_code = completion->error_code,
                            .error = completion->error,
                            .actor = store_actor(store)};
    struct record_summary summary = {0};
    text_copy(record.id, sizeof record.id, text_at(execution, "id"));
    text_copy(step.error_code, sizeof step.error_code, completion->error_code == NULL ? "" : completion->error_code);
    step.error = completion->error == NULL ? NULL : strdup(completion->error);
    if (completion->result != NULL) {
        step.output = strdup(completion->result);
        step.output_length = strlen(completion->result);
    }
    enum weir_status status =
        (completion->error != NULL && step.error == NULL) || (completion->result != NULL && step.output == NULL)
            ? error_out_of_memory(error)
            : store_record(store, 0, &record, 1, &summary, error);
    step_record_close(&step);
    if (status == WEIR_OK && record.status == WEIR_FAILED) {
        status = error_set(error, WEIR_FAILED, "%s", summary.refusal);
    }
    *ret_outcome = record.status;
    return status;
}

/* Whether the caller speaks of the run that weir follows. */
static enum weir_status compare_runs(const json_t *execution, const struct completion *completion, bool has_ended,
                                     struct weir_error *error)
{
    const json_t *noted = noted_run(execution);
    json_int_t fence = json_integer_value(json_object_get(execution, "fence"));
    if (completion->fence != 0 && completion->fence != fence) {
        return error_set(error, WEIR_CONFLICT, "the fence of the execution is %lld, not %lld", (long long)fence,
                         (long long)completion->fence);
    }
    if (completion->run_id == NULL) {
        return WEIR_OK;
    }
    if (noted == NULL && !has_ended) {
        return error_set(error, WEIR_STORE_BUSY, "the run of the execution is not on record yet; repeat the call");
    }
    const char *first = text_at(noted, "first_run_id");
    if (noted != NULL && strcmp(completion->run_id, text_at(noted, "run_id")) != 0 &&
        (first == NULL || strcmp(completion->run_id, first) != 0)) {
        return error_set(error, WEIR_CONFLICT, "the execution runs as run %s, not as %s", text_at(noted, "run_id"),
                         completion->run_id);
    }
    return WEIR_OK;
}

/* Whether the end may be reported of the execution as it is; *ret_has_ended: it was. */
static enum weir_status completion_may_end(struct store *store, const json_t *execution,
                                           const struct completion *completion, bool *ret_has_ended,
                                           struct weir_error *error)
{
    const char *state = text_at(execution, "status");
    *ret_has_ended = !json_is_null(json_object_get(execution, "finished_at"));
    enum weir_status status = *ret_has_ended ? WEIR_OK : need_outside(store, execution, error);
    /* Before the runs are compared: an execution that waits has no run, and the same call again would not help. */
    if (status == WEIR_OK && state != NULL && strcmp(state, item_state_name(ITEM_PENDING)) == 0) {
        status = error_set(error, WEIR_ILLEGAL_STATE, "the execution has not been started");
        error_hint(error, "`weir why %s` shows the reason why it waits; `weir cancel` ends it", completion->id);
    }
    status = status == WEIR_OK ? compare_runs(execution, completion, *ret_has_ended, error) : status;
    return status == WEIR_OK && *ret_has_ended ? compare_ends(execution, completion->kind, error) : status;
}

/* *ret_outcome is the result when the status is fine: WEIR_OK, or the status of a record that came too late, after which
 * the execution must be read again. */
static enum weir_status complete_once(struct store *store, const struct completion *completion,
                                      enum weir_status *ret_outcome, struct weir_error *error)
{
    json_t *execution = NULL;
    bool has_ended = false;
    enum weir_status status = store_show(store, completion->id, &execution, error);
    *ret_outcome = WEIR_OK;
    if (status == WEIR_OK) {
        status = completion_may_end(store, execution, completion, &has_ended, error);
    }
    if (status == WEIR_OK && !has_ended) {
        status = record_completion(store, execution, completion, ret_outcome, error);
    }
    json_decref(execution);
    return status;
}

/* Checks lengths, and that the result is JSON. */
static enum weir_status check_completion(const struct completion *completion, struct weir_error *error)
{
    json_t *result = NULL;
    INVARIANT(completion->kind == RECORD_COMPLETED || completion->kind == RECORD_FAILED ||
              completion->kind == RECORD_CANCELLED);
    if (completion->error_code != NULL && strlen(completion->error_code) > ERROR_CODE_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "an error code holds at most %d bytes", ERROR_CODE_MAX);
    }
    if (completion->result != NULL && strlen(completion->result) > STEP_OUTPUT_BYTES_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a result holds at most %d bytes", STEP_OUTPUT_BYTES_MAX);
    }
    if (completion->result != NULL &&
        json_read(completion->result, strlen(completion->result), &result, error) != WEIR_OK) {
        error_prefix(error, "the result is no JSON");
        return error == NULL ? WEIR_INVALID_ARGUMENT : (error->status = WEIR_INVALID_ARGUMENT);
    }
    json_decref(result);
    return WEIR_OK;
}

enum weir_status store_complete(struct store *store, const struct completion *completion, struct weir_error *error)
{
    INVARIANT(store != NULL && completion != NULL && completion->id != NULL);
    enum weir_status outcome = WEIR_OK;
    enum weir_status status = check_completion(completion, error);
    if (status == WEIR_OK && store->driver->complete != NULL) {
        struct call call = call_begin(store, "complete", error);
        return call_end(&call, store->driver->complete(store, completion, &call.own));
    }
    for (int i = 0; i < TRIES_MAX && status == WEIR_OK; i++) {
        status = complete_once(store, completion, &outcome, error);
        if (status != WEIR_OK || outcome == WEIR_OK) {
            return status;
        }
        if (outcome == WEIR_INVALID_ARGUMENT) {
            return error_set(error, outcome, "the store does not take this result or error");
        }
    }
    return status != WEIR_OK
               ? status
               : error_set(error, WEIR_STORE_BUSY, "the execution was handed over during each try; repeat the call");
}

enum weir_status store_complete_rehearse(struct store *store, const struct completion *completion, bool *ret_has_ended,
                                         struct weir_error *error)
{
    INVARIANT(store != NULL && completion != NULL && ret_has_ended != NULL);
    json_t *execution = NULL;
    enum weir_status status = check_completion(completion, error);
    if (status == WEIR_OK) {
        status = store_show(store, completion->id, &execution, error);
    }
    if (status == WEIR_OK) {
        status = completion_may_end(store, execution, completion, ret_has_ended, error);
    }
    json_decref(execution);
    return status;
}
