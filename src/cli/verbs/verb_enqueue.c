#include <string.h>

#include "base/error.h"
#include "cli/arguments/enqueue_stream.h"
#include "cli/arguments/filter.h"
#include "cli/arguments/input.h"
#include "cli/arguments/json_line.h"
#include "cli/dry_run.h"
#include "cli/wait_for_end.h"

/* What the flags say; workflow and params aside. */
static enum weir_status request_of_flags(const struct invocation *invocation, struct store *store,
                                         struct enqueue_request *request, struct weir_error *error)
{
    int64_t now_us = 0;
    enum weir_status status = store_time(store, &now_us, error);
    *request = (struct enqueue_request){
        .workspace = invocation_text(invocation, "workspace"),
        .idempotency_key = invocation_text(invocation, "idempotency-key"),
        .group = invocation_text(invocation, "group"),
        .default_group = settings_text(invocation->settings, SETTING_EXECUTOR_GROUP),
        .priority = (int)invocation_number(invocation, "priority", 0),
        .run_at_us = invocation_time(invocation, "at", now_us, 0),
    };
    return status;
}

/* --params: the text itself, @FILE, or - for stdin. */
static enum weir_status read_params(const struct invocation *invocation, struct text *to, struct enqueue_request *request,
                                    struct weir_error *error)
{
    const char *params = invocation_text(invocation, "params");
    enum weir_status status;
    if (params == NULL) {
        return WEIR_OK;
    }
    if (params[0] == '@' || strcmp(params, "-") == 0) {
        status = input_read(params[0] == '@' ? params + 1 : params, to, error);
        params = to->data != NULL ? to->data : "";
        request->params_length = to->length;
    } else {
        status = WEIR_OK;
        request->params_length = strlen(params);
    }
    if (status == WEIR_PARAMS_TOO_LARGE) {
        error_hint(error, "store the data elsewhere and pass a reference to it");
    }
    if (status == WEIR_OK) {
        status = json_line_check_params(params, request->params_length, error);
    }
    request->params = params;
    return status;
}

static enum weir_status print_result(const struct invocation *invocation, const struct enqueue_result *result,
                                     struct weir_error *error)
{
    struct output *output = invocation->output;
    json_t *answer = json_pack("{s:s, s:s, s:b}", "id", result->id, "status", item_state_name(ITEM_PENDING), "duplicate",
                               result->duplicate);
    if (answer == NULL) {
        return error_out_of_memory(error);
    }
    if (result->duplicate) {
        (void)json_object_del(answer, "status"); /* it may be anywhere on its way */
    }
    if (!output_object(output, answer)) {
        output_print(output, "%s\n", result->id);
        output_flush(output);
    }
    if (result->duplicate) {
        output_say(output, "the key is known: this is the first execution's id");
    }
    json_decref(answer);
    return WEIR_OK;
}

static enum weir_status dry_run(const struct invocation *invocation, struct store *store,
                                const struct enqueue_request *request, struct weir_error *error)
{
    struct rehearsal *rehearsal = rehearsal_open();
    enum weir_status status =
        rehearsal == NULL ? error_out_of_memory(error) : rehearsal_enqueue(rehearsal, store, request, error);
    rehearsal_close(rehearsal);
    if (status == WEIR_OK) {
        json_t *answer =
            json_pack("{s:s, s:s, s:b}", "workspace", request->workspace, "workflow", request->workflow, "dry_run", 1);
        if (answer == NULL) {
            return error_out_of_memory(error);
        }
        if (!output_object(invocation->output, answer)) {
            output_say_sign(invocation->output, SIGN_FINE, "would enqueue one execution of %s for %s", request->workflow,
                            request->workspace);
        }
        json_decref(answer);
    }
    return status;
}

static enum weir_status enqueue_one(struct invocation *invocation, struct store *store, struct enqueue_request *request,
                                    struct weir_error *error)
{
    struct enqueue_result result = {.status = WEIR_OK};
    char id[UUID_TEXT_MAX];
    int64_t now_us = 0;
    if (invocation_is_dry_run(invocation)) {
        return dry_run(invocation, store, request, error);
    }
    enum weir_status status = store_time(store, &now_us, error);
    if (status != WEIR_OK) {
        return status;
    }
    uuid_make(now_us, id); /* fixed here, so that a lost answer can be asked for again */
    request->id = id;
    status = store_enqueue(store, request, 1, &result, error);
    if (status == WEIR_COMMIT_UNKNOWN && request->idempotency_key == NULL) { /* another run would make another id */
        error_hint(error, "`weir show %s` tells whether it was done; with --idempotency-key it could be repeated", id);
    }
    request->id = NULL;
    if (status == WEIR_OK && result.status != WEIR_OK) {
        *error = result.error;
        status = result.status;
    }
    if (status == WEIR_OK) {
        status = print_result(invocation, &result, error);
    }
    if (status == WEIR_OK && invocation_has(invocation, "wait")) {
        status = await_end(invocation, store, result.id, invocation_number(invocation, "timeout", -1), false, error);
    }
    return status;
}

/* What contradicts itself, said before anything is opened. */
static enum weir_status check(const struct invocation *invocation, bool is_lines, struct weir_error *error)
{
    static const char *const one_only[] = {"params", "idempotency-key", "wait"};
    for (size_t i = 0; is_lines && i < sizeof one_only / sizeof one_only[0]; i++) {
        if (invocation_has(invocation, one_only[i])) {
            return invocation_usage_error(invocation, error, "--%s does not go with \"-\": it is part of each line",
                                          one_only[i]);
        }
    }
    if (!is_lines && !invocation_has(invocation, "workspace")) {
        return invocation_usage_error(invocation, error, "`weir enqueue` needs --workspace NAME (-w)");
    }
    return WEIR_OK;
}

enum weir_status verb_enqueue(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    struct text params = {.max = PARAMS_BYTES_MAX};
    struct enqueue_request request = {.workspace = NULL};
    const char *workflow = invocation_argument(invocation, 0);
    bool is_lines = strcmp(workflow, "-") == 0;
    enum weir_status status = check(invocation, is_lines, error);
    if (status == WEIR_OK) {
        status =
            invocation_open_store(invocation, invocation_is_dry_run(invocation) ? STORE_READ : STORE_CHANGE, &store, error);
    }
    if (status == WEIR_OK) {
        status = request_of_flags(invocation, store, &request, error);
    }
    if (status == WEIR_OK && is_lines) {
        status = enqueue_lines(invocation, store, &request, error);
    } else if (status == WEIR_OK) {
        request.workflow = workflow;
        status = read_params(invocation, &params, &request, error);
        if (status == WEIR_OK) {
            status = enqueue_one(invocation, store, &request, error);
        }
    }
    text_close(&params);
    store_close(store);
    return status;
}
