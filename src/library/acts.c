/* Acts of the public interface on executions: cancel, retry, release, wake, dismiss, purge, migrate.
 *
 * The store acts on a set per call, in the order of the ids, and reports the last id of the set. weir_act() calls it until
 * no more matches. A set is one transaction, so a failure in the middle loses nothing: the acts before are durable, and a
 * repeated call finds the rest. Executions that are made during the call are left out: a retry makes new ones, which may
 * fail and match again. An empty filter is refused, because it would act on every execution of every workspace.
 *
 * A retry with options is of one execution, because its step is one of a certain workflow. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "library/library.h"

enum { ACT_SET = 500 };

/* Without a condition the store would act on every execution. */
static bool has_condition(const struct weir_filter *filter)
{
    return filter->id != NULL || filter->workspace != NULL || filter->workflow != NULL || filter->group != NULL ||
           filter->states != 0 || filter->reason != NULL || filter->waiting_for != NULL || filter->error_code != NULL ||
           filter->idempotency_key != NULL || filter->created_since_us != 0 || filter->created_before_us != 0 ||
           filter->finished_before_us != 0 || filter->business_key != NULL || filter->business_key_prefix != NULL ||
           filter->label_count != 0;
}

/* Only executions of the time before now match, so that the sets come to an end. */
static enum weir_status bound_filter(struct store *handle, struct execution_filter *filter, struct weir_error *error)
{
    int64_t now_us = 0;
    enum weir_status status = store_time(handle, &now_us, error);
    if (filter->created_before_us == 0 || filter->created_before_us > now_us + 1) {
        filter->created_before_us = now_us + 1;
    }
    return status;
}

/* Of one execution a refusal is the error of the call. */
static enum weir_status act_on_one(struct store *handle, enum bulk_act act, const struct execution_filter *filter,
                                   struct weir_acted *acted, struct weir_error *error)
{
    struct bulk_result result = {.matched = 0};
    enum weir_status status = store_bulk_one(handle, act, NULL, filter, &result, error);
    acted->matched = result.matched;
    acted->changed = result.changed;
    text_copy(acted->new_id, sizeof acted->new_id, result.new_id);
    return status;
}

/* 1. Act on the next set. 2. Add its counts. 3. Go on behind its last id, until the store reports no more. */
static enum weir_status act_in_sets(struct store *handle, enum bulk_act act, const struct execution_filter *filter,
                                    struct weir_acted *acted, struct weir_error *error)
{
    struct bulk_result result = {.more = true};
    struct execution_filter own = *filter;
    char after[UUID_TEXT_MAX] = "";
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && result.more) {
        result = (struct bulk_result){.matched = 0};
        status = store_bulk(handle, act, &own, after, ACT_SET, &result, error);
        if (status == WEIR_OK) {
            acted->matched += result.matched;
            acted->changed += result.changed;
            acted->refused += result.refused;
            text_copy(after, sizeof after, result.last_id);
            own.workspace_id = result.workspace_id;
        }
    }
    return status;
}

enum weir_status weir_act(struct weir *weir, enum weir_act act, const struct weir_filter *filter, const char *reason,
                          struct weir_acted *ret_acted, struct weir_error *error)
{
    static const enum bulk_act acts[] = {
        [WEIR_ACT_CANCEL] = BULK_CANCEL, [WEIR_ACT_RETRY] = BULK_RETRY, [WEIR_ACT_RELEASE] = BULK_RELEASE,
        [WEIR_ACT_PURGE] = BULK_PURGE,   [WEIR_ACT_WAKE] = BULK_WAKE,   [WEIR_ACT_DISMISS] = BULK_DISMISS};
    struct store *handle = NULL;
    struct weir_acted acted = {.matched = 0};
    struct execution_filter conditions;
    if (filter == NULL || !has_condition(filter)) {
        (void)error_set(error, WEIR_INVALID_ARGUMENT,
                        "the filter has no condition, so the act would change every execution");
        error_hint(error, "to change every execution, set .states = WEIR_STATE_ALL");
        return WEIR_INVALID_ARGUMENT;
    }
    if ((unsigned)act >= sizeof acts / sizeof acts[0]) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%d is no act", (int)act);
    }
    enum weir_status status = filter_of(filter, &conditions, error);
    if (status == WEIR_OK) {
        status = handle_borrow_to_act(weir, reason, &handle, error);
    }
    if (status == WEIR_OK) {
        if (conditions.id != NULL) {
            status = act_on_one(handle, acts[act], &conditions, &acted, error);
        } else {
            status = bound_filter(handle, &conditions, error);
            status = status == WEIR_OK ? act_in_sets(handle, acts[act], &conditions, &acted, error) : status;
        }
        handle_give_back(weir, handle);
        library_wake_nodes(weir);
    }
    if (status == WEIR_OK && ret_acted != NULL) {
        *ret_acted = acted;
    }
    return status;
}

enum weir_status weir_cancel(struct weir *weir, const char *id, const char *reason, struct weir_error *error)
{
    struct weir_filter filter = {.id = id};
    if (id == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_cancel needs an id");
    }
    return weir_act(weir, WEIR_ACT_CANCEL, &filter, reason, NULL, error);
}

/* The actor is the one of the handle, so a program cannot decide for somebody else. The store checks it. */
enum weir_status weir_decide(struct weir *weir, const char *id, const struct weir_decision *decision,
                             struct weir_error *error)
{
    struct store *handle = NULL;
    struct sent_signal sent = {.seq = 0};
    if (id == NULL || decision == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_decide needs an id and a decision");
    }
    const struct approval approval = {
        .step = decision->step, .approved = decision->approved != 0, .comment = decision->comment};
    enum weir_status status = handle_borrow_to_act(weir, decision->reason, &handle, error);
    if (status == WEIR_OK) {
        status = store_approve(handle, id, &approval, &sent, error);
        handle_give_back(weir, handle);
        library_wake_nodes(weir);
    }
    return status;
}

/* The token is the right, so no reason and no actor go on record. */
enum weir_status weir_call_back(struct weir *weir, const struct weir_callback *callback, char *ret_id,
                                struct weir_error *error)
{
    struct store *handle = NULL;
    struct sent_signal sent = {.seq = 0};
    if (callback == NULL || callback->token == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_call_back needs a token");
    }
    const struct callback report = {.token = callback->token,
                                    .output = callback->output,
                                    .error_code = callback->error_code,
                                    .error = callback->error,
                                    .is_final = callback->is_final != 0};
    enum weir_status status = handle_borrow_to_act(weir, NULL, &handle, error);
    if (status == WEIR_OK) {
        status = store_call_back(handle, &report, &sent, error);
        handle_give_back(weir, handle);
        library_wake_nodes(weir);
    }
    if (status == WEIR_OK && ret_id != NULL) {
        text_copy(ret_id, WEIR_ID_SIZE, sent.id);
    }
    return status;
}

/* The nodes of this program look at their queue, because a parked execution may have become runnable. */
enum weir_status weir_update_execution(struct weir *weir, const char *id, const struct weir_update *update, int *ret_action,
                                       struct weir_error *error)
{
    struct store *handle = NULL;
    struct updated_state updated = {.action = 0};
    if (id == NULL || update == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_update_execution needs an id and an update");
    }
    const struct state_update change = {
        .state = update->state, .variables = update->variables, .if_state = update->if_state};
    enum weir_status status = handle_borrow_to_act(weir, update->reason, &handle, error);
    if (status == WEIR_OK) {
        status = store_update_state(handle, id, &change, &updated, error);
        handle_give_back(weir, handle);
        library_wake_nodes(weir);
    }
    if (status == WEIR_OK && ret_action != NULL) {
        *ret_action = updated.action;
    }
    return status;
}

enum weir_status weir_signal(struct weir *weir, const char *id, const struct weir_signal_request *signal,
                             int64_t *ret_number, struct weir_error *error)
{
    struct store *handle = NULL;
    struct sent_signal sent = {.seq = 0};
    if (id == NULL || signal == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_signal needs an id and a signal");
    }
    struct signal_request request = {.id = id, .name = signal->name, .data = signal->data, .key = signal->key};
    enum weir_status status = handle_borrow_to_act(weir, signal->reason, &handle, error);
    if (status == WEIR_OK) {
        status = store_signal(handle, &request, &sent, error);
        handle_give_back(weir, handle);
        library_wake_nodes(weir);
    }
    if (status == WEIR_OK && ret_number != NULL) {
        *ret_number = sent.seq;
    }
    return status;
}

/* Acts with options, which weir_act() has not. The nodes of this process are woken, because the execution may go on, or its
 * retry start, at once. */
static enum weir_status act_with_options(struct weir *weir, enum bulk_act act, const char *id,
                                         const struct act_order *order, const char *reason, struct bulk_result *ret_result,
                                         struct weir_error *error)
{
    struct store *handle = NULL;
    const struct execution_filter filter = {.id = id};
    enum weir_status status = handle_borrow_to_act(weir, reason, &handle, error);
    if (status == WEIR_OK) {
        status = store_bulk_one(handle, act, order, &filter, ret_result, error);
        handle_give_back(weir, handle);
        library_wake_nodes(weir);
    }
    return status;
}

enum weir_status weir_retry_execution(struct weir *weir, const char *id, const struct weir_retry_options *options,
                                      const char *reason, char *ret_new_id, struct weir_error *error)
{
    struct bulk_result result = {.matched = 0};
    if (id == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_retry_execution needs an id");
    }
    const struct act_order order = {
        .keeps_finished = options != NULL && (options->keep_finished != 0 || options->from != NULL),
        .from = options == NULL ? NULL : options->from,
    };
    enum weir_status status = act_with_options(weir, BULK_RETRY, id, &order, reason, &result, error);
    if (status == WEIR_OK && ret_new_id != NULL) {
        text_copy(ret_new_id, WEIR_ID_SIZE, result.new_id);
    }
    return status;
}

enum weir_status weir_migrate_execution(struct weir *weir, const char *id, int to_version, const char *reason,
                                        struct weir_error *error)
{
    struct bulk_result result = {.matched = 0};
    const struct act_order order = {.to_version = to_version};
    return id == NULL ? error_set(error, WEIR_MISUSE, "weir_migrate_execution needs an id")
                      : act_with_options(weir, BULK_MIGRATE, id, &order, reason, &result, error);
}

/* Of one execution, because a refusal is of interest then; weir_act() wakes many. */
enum weir_status weir_wake_execution(struct weir *weir, const char *id, const char *waiting_for, const char *reason,
                                     struct weir_error *error)
{
    struct bulk_result result = {.matched = 0};
    const struct act_order order = {.waits_for = waiting_for};
    return id == NULL ? error_set(error, WEIR_MISUSE, "weir_wake_execution needs an id")
                      : act_with_options(weir, BULK_WAKE, id, &order, reason, &result, error);
}
