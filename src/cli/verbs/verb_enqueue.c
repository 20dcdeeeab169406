/* `weir enqueue`: one execution from flags, or a stream of them (enqueue_stream.c).
 *
 * The id is made here and sent with the request, so that the driver can repeat a call with an unknown commit without
 * making a second execution. Params are checked by the store alone. With --wait the command then polls until the
 * execution ends, and prints its end with the result. A dry run checks the names and writes nothing. One thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/traceparent.h"
#include "cli/arguments/input.h"
#include "cli/output/json_fields.h"
#include "cli/verbs/dry_run.h"
#include "cli/verbs/enqueue_stream.h"
#include "cli/verbs/no_worker.h"
#include "cli/verbs/verb.h"
#include "cli/verbs/wait_for_end.h"
#include "store/json_line.h"

/* The text of all labels. The store limits each of them, and their number; this is more than it accepts, also with escapes.
 */
enum { LABELS_BYTES_MAX = 64 * 1024 };

/* The context of the flag, else that of the environment; NULL = none. An invalid variable is no fault of this command: it
 * is reported and left out. */
static const char *choose_request_traceparent(const struct invocation *invocation)
{
    struct trace_context context;
    const char *of_flag = invocation_text(invocation, "traceparent");
    const char *inherited = getenv("TRACEPARENT");
    if (of_flag != NULL || inherited == NULL || inherited[0] == '\0') {
        return of_flag;
    }
    if (!traceparent_parse(inherited, &context)) {
        output_report_sign(invocation->output, SIGN_WARN,
                           "the variable TRACEPARENT has no trace context of version 00; the execution gets none");
        return NULL;
    }
    return inherited;
}

/* --label NAME=VALUE as the members of one object, whose text is in `to`. The store checks names and values. */
static enum weir_status read_label_flags(const struct invocation *invocation, struct text *to,
                                         struct enqueue_request *request, struct weir_error *error)
{
    size_t count = 0;
    const char *const *pairs = invocation_texts(invocation, "label", &count);
    json_t *object = count == 0 ? NULL : json_object();
    enum weir_status status = count > 0 && object == NULL ? error_out_of_memory(error) : WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        const char *equals = strchr(pairs[i], '=');
        if (equals == NULL || equals == pairs[i]) {
            status = error_set(error, WEIR_INVALID_ARGUMENT, "--label \"%s\" is not NAME=VALUE", pairs[i]);
            error_hint(error, "for example --label customer-tier=gold");
            break;
        }
        char name[LABEL_NAME_MAX + 2]; /* the store refuses one that is cut */
        (void)snprintf(name, sizeof name, "%.*s", (int)(equals - pairs[i]), pairs[i]);
        if (json_object_get(object, name) != NULL) {
            status = error_set(error, WEIR_INVALID_ARGUMENT, "the label %s is given twice", name);
        } else if (json_object_set_new(object, name, json_string(equals + 1)) != 0) {
            status = error_set(error, WEIR_INVALID_ARGUMENT, "--label \"%s\" is not UTF-8", pairs[i]);
        }
    }
    if (status == WEIR_OK && object != NULL) {
        status = json_write(object, to, error);
        request->labels = to->data;
    }
    json_decref(object);
    return status;
}

/* Reads the flags into the request, except workflow and params. */
static enum weir_status request_of_flags(const struct invocation *invocation, struct store *store, struct text *labels,
                                         struct enqueue_request *request, struct weir_error *error)
{
    int64_t now_us = 0;
    enum weir_status status = store_time(store, &now_us, error);
    *request = (struct enqueue_request){
        .workspace = invocation_text(invocation, "workspace"),
        .idempotency_key = invocation_text(invocation, "idempotency-key"),
        .group = invocation_text(invocation, "executor-group"),
        .default_group = settings_text(invocation->settings, SETTING_EXECUTOR_GROUP),
        .priority = (int)invocation_number(invocation, "priority", 0),
        .run_at_us = invocation_time(invocation, "run-at", now_us, 0),
        .traceparent = choose_request_traceparent(invocation),
        .business_key = invocation_text(invocation, "business-key"),
        .debounce_us = invocation_number(invocation, "debounce", 0),
        .debounce_most_us = invocation_number(invocation, "debounce-max", 0),
    };
    const char *mode = invocation_text(invocation, "key-mode");
    if (status == WEIR_OK && mode != NULL) {
        status = key_mode_parse(mode, &request->key_mode, error);
    }
    return status == WEIR_OK ? read_label_flags(invocation, labels, request, error) : status;
}

/* Shows the JSON of `name=Ada`, as other programs take params; else an example. `params`: as given, may be NULL. */
static void hint_at_params(const char *params, struct weir_error *error)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    json_t *number = NULL;
    size_t name = params == NULL ? 0 : strspn(params, letters);
    const char *value = name > 0 && params[name] == '=' ? params + name + 1 : NULL;
    if (value == NULL || value[strcspn(value, "\"'\\\n")] != '\0') {
        error_hint(error, "for example --params '{\"customer\":42}'");
        return;
    }
    const char *quote = json_read(value, strlen(value), &number, NULL) == WEIR_OK ? "" : "\"";
    json_decref(number);
    error_hint(error, "params are a JSON object: -p '{\"%.*s\":%s%.100s%s}'", (int)(name < 64 ? name : 64), params, quote,
               value, quote);
}

/* --params: the text itself, @FILE, or - for stdin. The store checks that it is a JSON object. */
static enum weir_status read_enqueue_params(const struct invocation *invocation, struct text *to,
                                            struct enqueue_request *request, struct weir_error *error)
{
    const char *params = invocation_text(invocation, "params");
    if (params == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = input_read_value(params, to, error);
    if (status == WEIR_PARAMS_TOO_LARGE) {
        error_hint(error, "store the data elsewhere and pass a reference to it");
    } else if (status == WEIR_OK && to->length == 0) { /* the store takes empty params as none */
        status = error_set(error, WEIR_INVALID_PARAMS, "--params %s is empty, it must be a JSON object", params);
        hint_at_params(NULL, error);
    }
    request->params = to->data;
    request->params_length = to->length;
    return status;
}

/* A sentence about nodes that the execution lacks; NULL = nothing, or it cannot be read. The execution is enqueued anyway.
 */
static json_t *warn_of_nodes(struct output *output, struct store *store, const char *id)
{
    json_t *why = NULL;
    json_t *warning = NULL;
    int64_t now_us = 0;
    char text[WORKER_TEXT_MAX];
    if (store_why(store, id, &why, NULL) != WEIR_OK || store_time(store, &now_us, NULL) != WEIR_OK) {
        json_decref(why);
        return NULL;
    }
    const char *reason = json_string_value(json_object_get(why, "pending_reason"));
    const char *group = json_string_value(json_object_get(why, "executor_group"));
    if (lacks_worker(why)) { /* first, because `weir serve` has no handlers */
        worker_text(output, why, now_us, text);
        warning = json_sprintf("%s; the execution waits for a worker: %s", text, worker_command(why));
    } else if (reason != NULL && strcmp(reason, pending_reason_name(REASON_NO_NODE_IN_GROUP)) == 0 && group != NULL) {
        warning = json_sprintf("no live node serves the group %s: the execution waits for one; start it with: weir serve"
                               " --executor-group %s, or a worker of this group",
                               group, group);
    }
    json_decref(why);
    return warning;
}

/* Reports the warnings on stderr; their list for the answer, [] without any. */
static json_t *report_warnings(struct output *output, struct store *store, const struct enqueue_result *result)
{
    json_t *warnings = json_array();
    json_t *warning = result->duplicate ? NULL : warn_of_nodes(output, store, result->id);
    if (warning != NULL) {
        output_report_sign(output, SIGN_WARN, "%s", output_safe(output, json_string_value(warning)));
        (void)json_array_append_new(warnings, warning);
    }
    return warnings;
}

/* Prints the id, for JSON with the state and the warnings. `item`: the row that --wait has read; NULL = there is none. For
 * a known key it reports that the id is of the first execution. */
static enum weir_status print_enqueued(const struct invocation *invocation, const struct enqueue_result *result,
                                       json_t *warnings, const json_t *item, struct weir_error *error)
{
    static const char *const of_end[] = {"status", "error_code", "error", "result"};
    struct output *output = invocation->output;
    json_t *answer = json_pack("{s:s, s:s, s:b, s:b, s:O}", "id", result->id, "status", item_state_name(ITEM_PENDING),
                               "duplicate", result->duplicate, "replaced", result->replaced, "warnings", warnings);
    if (answer == NULL) {
        return error_out_of_memory(error);
    }
    if (result->duplicate) {
        (void)json_object_del(answer, "status"); /* its state is not known here */
    }
    for (size_t i = 0; i < sizeof of_end / sizeof of_end[0]; i++) {
        json_t *value = json_object_get(item, of_end[i]);
        if (value != NULL && (i == 0 || end_is_reached(item))) {
            (void)json_object_set(answer, of_end[i], value);
        }
    }
    if (!output_object(output, answer)) {
        output_print(output, "%s\n", result->id);
        output_flush(output);
    }
    if (result->duplicate) {
        output_report(output, "the idempotency key is known: this is the id of its execution");
    } else if (result->replaced) {
        output_report(output, "an execution of the same key that had not started was cancelled");
    }
    json_decref(answer);
    return WEIR_OK;
}

/* Reports whether the store would accept the request. */
static enum weir_status dry_run_request(const struct invocation *invocation, struct store *store,
                                        const struct enqueue_request *request, struct weir_error *error)
{
    struct dry_run *dry_run = dry_run_open();
    enum weir_status status =
        dry_run == NULL ? error_out_of_memory(error) : dry_run_enqueue(dry_run, store, request, error);
    dry_run_close(dry_run);
    if (status == WEIR_OK) {
        json_t *answer =
            json_pack("{s:s, s:s, s:b}", "workspace", request->workspace, "workflow", request->workflow, "dry_run", 1);
        if (answer == NULL) {
            return error_out_of_memory(error);
        }
        if (!output_object(invocation->output, answer)) {
            output_report_sign(invocation->output, SIGN_FINE, "would enqueue one execution of %s for %s", request->workflow,
                               request->workspace);
        }
        json_decref(answer);
    }
    return status;
}

/* Waits for the end. JSON is one object, so it is printed after the wait, whatever its outcome; a text reader gets the id
 * first, alone on stdout, and the end on stderr. */
static enum weir_status await_end(const struct invocation *invocation, struct store *store,
                                  const struct enqueue_result *result, json_t *warnings, struct weir_error *error)
{
    struct output *output = invocation->output;
    bool is_text = output->format == OUTPUT_TABLE;
    json_t *item = NULL;
    struct weir_error print_error;
    error_clear(&print_error);
    enum weir_status printed = is_text ? print_enqueued(invocation, result, warnings, NULL, &print_error) : WEIR_OK;
    enum weir_status status = wait_for_execution_end(invocation, store, result->id, &item, error);
    if (!is_text) {
        printed = print_enqueued(invocation, result, warnings, item, &print_error);
    } else if (status == WEIR_OK) {
        const char *text = end_result_text(output, item);
        output_report_sign(output, SIGN_FINE, "%s%s%s", field_text(output, item, "status"), text != NULL ? ": " : "",
                           text != NULL ? text : "");
    }
    json_decref(item);
    if (status == WEIR_OK && printed != WEIR_OK) {
        *error = print_error;
        status = printed;
    }
    return status;
}

/* Enqueues one execution, and waits for its end with --wait. */
static enum weir_status enqueue_single(struct invocation *invocation, struct store *store, struct enqueue_request *request,
                                       struct weir_error *error)
{
    struct enqueue_result result = {.status = WEIR_OK};
    char id[UUID_TEXT_MAX];
    int64_t now_us = 0;
    if (invocation_is_dry_run(invocation)) {
        return dry_run_request(invocation, store, request, error);
    }
    enum weir_status status = store_time(store, &now_us, error);
    if (status != WEIR_OK) {
        return status;
    }
    uuid_make(now_us, id); /* made here, so that the same request can be sent again after a lost answer */
    request->id = id;
    request->id_is_new = true;
    status = store_enqueue(store, request, 1, &result, error);
    if (status == WEIR_COMMIT_UNKNOWN && request->idempotency_key == NULL) { /* another run would make another id */
        error_hint(error,
                   "`weir show %s` shows whether it was enqueued; with --idempotency-key the command could be repeated",
                   id);
    }
    request->id = NULL;
    if (status == WEIR_OK && result.status != WEIR_OK) {
        *error = result.error;
        status = result.status;
    }
    if (status == WEIR_OK) {
        json_t *warnings = report_warnings(invocation->output, store, &result);
        status = invocation_has(invocation, "wait") ? await_end(invocation, store, &result, warnings, error)
                                                    : print_enqueued(invocation, &result, warnings, NULL, error);
        json_decref(warnings);
    }
    return status;
}

/* Refuses contradicting flags before the store is opened. */
static enum weir_status check_enqueue_flags(const struct invocation *invocation, bool is_lines, struct weir_error *error)
{
    static const char *const one_only[] = {"params", "idempotency-key", "wait",     "business-key",
                                           "label",  "key-mode",        "debounce", "debounce-max"};
    for (size_t i = 0; is_lines && i < sizeof one_only / sizeof one_only[0]; i++) {
        if (invocation_has(invocation, one_only[i])) {
            return invocation_usage_error(invocation, error, "`weir enqueue -` does not take --%s", one_only[i]);
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
    struct text labels = {.max = LABELS_BYTES_MAX};
    struct enqueue_request request = {.workspace = NULL};
    const char *workflow = invocation_argument(invocation, 0);
    bool is_lines = strcmp(workflow, "-") == 0;
    enum weir_status status = check_enqueue_flags(invocation, is_lines, error);
    if (status == WEIR_OK) {
        status = verb_open_store(invocation, invocation_is_dry_run(invocation) ? STORE_READ : STORE_CHANGE, &store, error);
    }
    if (status == WEIR_OK) {
        status = request_of_flags(invocation, store, &labels, &request, error);
    }
    if (status == WEIR_OK && is_lines) {
        status = enqueue_stream(invocation, store, &request, error);
    } else if (status == WEIR_OK) {
        request.workflow = workflow;
        status = read_enqueue_params(invocation, &params, &request, error);
        if (status == WEIR_OK) {
            status = enqueue_single(invocation, store, &request, error);
            if (status == WEIR_INVALID_PARAMS) {
                hint_at_params(invocation_text(invocation, "params"), error);
            }
        }
    }
    text_close(&labels);
    text_close(&params);
    store_close(store);
    return status;
}
