/* The client of operators: `weir signal`, `weir cancel --terminate`, `weir complete`, `weir show`, `weir why`,
 * `weir doctor`, `weir temporal`.
 *
 * Each function sends calls one after the other and drives the gRPC client until the answer has come.
 *
 * A termination, with an answer that may be lost:
 *
 * 1. Find the own chain of the execution, if the definition names the workflow id.
 * 2. Terminate this chain.
 * 3. If the service does not know the workflow, its start may still be on its way; if the answer was lost, the service may
 *    have terminated it. Both are repeated each TEMPORAL_AWAIT_US while the caller allows it: a second termination does no
 *    harm.
 * 4. A workflow that has closed meanwhile is a success.
 *
 * This file must never act on the chain of another execution, nor change the store. One thread: that of the command line.
 */
#include "engine/temporal/operator_client.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/temporal/client.h"
#include "engine/temporal/operator.h"

/* --- one call and its answer --- */

/* A proxy or the service returns these codes also for a call that it has executed. */
static bool may_have_arrived(const struct grpc_result *result)
{
    return result->outcome == GRPC_UNKNOWN ||
           (result->outcome == GRPC_STATUS && (result->code == GRPC_UNAVAILABLE || result->code == GRPC_DEADLINE_EXCEEDED));
}

static void keep_answer(void *context, const struct grpc_result *result)
{
    struct waited *waited = context;
    waited->is_done = true;
    waited->reply = outcome_classify_reply(result);
    waited->is_lost = may_have_arrived(result);
    if (waited->reply == REPLY_OK) {
        waited->response.length = result->response_length;
        waited->response.data = malloc(result->response_length + 1);
        if (waited->response.data == NULL) {
            waited->reply = REPLY_FAILED;
            error_out_of_memory(&waited->error);
            return;
        }
        memcpy(waited->response.data, result->response, result->response_length);
        return;
    }
    if (result->outcome != GRPC_STATUS && result->error != NULL) {
        waited->error = *result->error;
        return;
    }
    bool refused = result->code == GRPC_PERMISSION_DENIED || result->code == GRPC_UNAUTHENTICATED;
    (void)error_set(&waited->error, refused ? WEIR_NOT_PERMITTED : WEIR_FAILED,
                    "the Temporal service refused the call: %s (%s)", outcome_text(result), grpc_code_name(result->code));
}

/* Sends and receives once, then waits for the next event, at most `most_us`. */
static void drive_client(struct temporal_operator *operator, int64_t most_us, const bool *is_done)
{
    struct pollfd wanted = {.fd = grpc_client_fd(operator->client), .events = POLLIN};
    int64_t next_us = grpc_client_step(operator->client);
    int64_t wait_us = next_us - clock_boot(operator->clock);
    wait_us = wait_us > most_us ? most_us : wait_us;
    if (!*is_done) {
        (void)poll(&wanted, 1, wait_us <= 0 ? 0 : (int)(wait_us / MICROSECONDS_PER_MS) + 1);
    }
}

enum reply_kind operator_call(struct temporal_operator *operator, enum method method, struct bytes message,
                              struct waited *waited)
{
    INVARIANT(operator!= NULL && waited != NULL && operator->timeout_us> 0);
    struct grpc_request request = {.path = method_path(method),
                                   .message = message.data,
                                   .message_length = message.length,
                                   .timeout_us = operator->timeout_us,
                                   .class = GRPC_SHORT_CALL,
                                   .done = keep_answer,
                                   .context = waited};
    *waited = (struct waited){.reply = REPLY_FAILED};
    enum weir_status status = message.data == NULL ? error_out_of_memory(&waited->error)
                                                   : grpc_client_call(operator->client, &request, NULL, &waited->error);
    free(message.data);
    while (status == WEIR_OK && !waited->is_done) {
        drive_client(operator, MICROSECONDS_PER_SECOND, &waited->is_done);
    }
    return waited->reply;
}

/* --- payloads --- */

struct coded {
    bool is_done;
    enum codec_outcome outcome;
    struct text answer;
    char text[WEIR_ERROR_MESSAGE_MAX];
};

static void store_coded(void *context, const struct codec_result *result)
{
    struct coded *coded = context;
    coded->is_done = true;
    coded->outcome = result->outcome;
    text_copy(coded->text, sizeof coded->text, result->text);
    if (result->outcome == CODEC_OK && text_add(&coded->answer, result->body, result->length) != WEIR_OK) {
        coded->outcome = CODEC_UNREACHABLE;
        text_copy(coded->text, sizeof coded->text, "there is no memory for the answer of the payload codec");
    }
}

/* Ends at the latest with the time-out of the codec. */
static void wait_for_codec(const struct codec_wire *codec, const struct clock *clock, const bool *is_done)
{
    struct pollfd wanted = {.fd = codec->fd(codec->context), .events = POLLIN};
    int64_t next_us = codec->step(codec->context);
    while (!*is_done) {
        int64_t wait_us = next_us - clock_boot(clock);
        wait_us = wait_us > MICROSECONDS_PER_SECOND ? MICROSECONDS_PER_SECOND : wait_us;
        (void)poll(&wanted, 1, wait_us <= 0 ? 0 : (int)(wait_us / MICROSECONDS_PER_MS) + 1);
        next_us = codec->step(codec->context);
    }
}

enum weir_status operator_code(struct temporal_operator *operator, enum codec_verb verb, struct payloads *payloads,
                               struct payloads **ret_payloads, struct weir_error *error)
{
    INVARIANT(operator!= NULL && ret_payloads != NULL);
    const struct codec_wire *codec = &operator->codec;
    struct text body = {.max = 2 * PAYLOADS_BYTES_MAX};
    struct coded coded = {.answer = {.max = CODEC_BODY_BYTES_MAX}};
    if (payloads == NULL) {
        return error_out_of_memory(error);
    }
    if (codec->call == NULL || payloads_count(payloads) == 0) {
        *ret_payloads = payloads;
        return WEIR_OK;
    }
    enum weir_status status = payloads_write(payloads, &body);
    if (status != WEIR_OK || codec->call(codec->context, verb, body.data, body.length, store_coded, &coded) == NULL) {
        status = error_out_of_memory(error);
    } else {
        wait_for_codec(codec, operator->clock, &coded.is_done);
        status = coded.outcome == CODEC_OK
                     ? WEIR_OK
                     : error_set(error, coded.outcome == CODEC_REFUSED ? WEIR_FAILED : WEIR_ENGINE_UNREACHABLE, "%s",
                                 coded.text);
    }
    struct payloads *answer = NULL;
    if (status == WEIR_OK && (payloads_read(coded.answer.data, coded.answer.length, &answer) != WEIR_OK ||
                              payloads_count(answer) != payloads_count(payloads))) {
        status = error_set(error, WEIR_FAILED, "the server is no payload codec: its answer is no list of as many payloads");
        payloads_free(answer);
    }
    text_close(&body);
    text_close(&coded.answer);
    payloads_free(payloads);
    if (status == WEIR_OK) {
        *ret_payloads = answer;
    }
    return status;
}

enum weir_status operator_encode(struct temporal_operator *operator, const char * input, struct payloads **ret_payloads,
                                 struct weir_error *error)
{
    INVARIANT(operator!= NULL && ret_payloads != NULL);
    *ret_payloads = NULL;
    return input == NULL ? WEIR_OK
                         : operator_code(operator, CODEC_ENCODE, payloads_of_text(operator->encoding, input, strlen(input)),
                                         ret_payloads, error);
}

enum weir_status operator_decode(struct temporal_operator *operator, struct payloads * payloads, json_t **ret_value,
                                 struct weir_error *error)
{
    INVARIANT(operator!= NULL && ret_value != NULL);
    struct payloads *decoded = NULL;
    struct text text = {.max = CODEC_BODY_BYTES_MAX};
    enum weir_status status = operator_code(operator, CODEC_DECODE, payloads, &decoded, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = payloads_value(decoded, &text);
    status = status == WEIR_OK ? json_read(text.data, text.length, ret_value, error)
                               : error_set(error, status, "the value is larger than %d bytes", STEP_OUTPUT_BYTES_MAX);
    payloads_free(decoded);
    text_close(&text);
    return status;
}

enum weir_status temporal_decode(struct temporal_operator *operator, const json_t * payloads, json_t **ret_value,
                                 struct weir_error *error)
{
    INVARIANT(operator!= NULL && payloads != NULL && ret_value != NULL);
    struct text text = {.max = CODEC_BODY_BYTES_MAX};
    struct payloads *read = NULL;
    enum weir_status status = json_write(payloads, &text, error);
    if (status == WEIR_OK && payloads_read(text.data, text.length, &read) != WEIR_OK) {
        status = error_set(error, WEIR_FAILED, "the output is no list of payloads");
    }
    text_close(&text);
    return status == WEIR_OK ? operator_decode(operator, read, ret_value, error) : status;
}

/* --- acting --- */

/* The message of a failed call. A successful answer that cannot be read comes from another kind of server. */
static const char *error_text_of(const struct waited *waited)
{
    return waited->error.message[0] == '\0' ? "the server at this address is no Temporal service" : waited->error.message;
}

static bool has_default_id(const struct temporal_execution *execution)
{
    return strncmp(execution->workflow_id, WORKFLOW_ID_PREFIX, strlen(WORKFLOW_ID_PREFIX)) == 0;
}

/* The execution with its workflow id; `own` holds WORKFLOW_ID_MAX bytes for the default one. */
static struct temporal_execution name_workflow(const struct temporal_execution *execution, char *own)
{
    const char *given = execution->workflow_id;
    return (struct temporal_execution){execution->id, given != NULL ? given : fields_default_id(execution->id, own)};
}

static enum weir_status set_not_found(const struct temporal_execution *execution, struct weir_error *error)
{
    error_set(error, WEIR_EXECUTION_NOT_FOUND, "the Temporal service has no open workflow %.255s%s", execution->workflow_id,
              has_default_id(execution) ? "" : " of this execution");
    error_hint(
        error,
        "it has not been started yet, has ended, or was started in another service or namespace than the settings name: "
        "`target` of `weir why %s --json`",
        execution->id);
    return WEIR_EXECUTION_NOT_FOUND;
}

/* `ret_is_lost` may be NULL. */
static enum weir_status call_and_check(struct temporal_operator *operator, enum method method, struct bytes message,
                                       const struct temporal_execution *execution, bool *ret_is_lost,
                                       struct weir_error *error)
{
    struct waited waited;
    enum reply_kind reply = operator_call(operator, method, message, &waited);
    free(waited.response.data);
    if (ret_is_lost != NULL) {
        *ret_is_lost = waited.is_lost;
    }
    if (reply == REPLY_OK) {
        return WEIR_OK;
    }
    if (reply == REPLY_NOT_FOUND) {
        return set_not_found(execution, error);
    }
    if (error != NULL) {
        *error = waited.error;
    }
    return waited.error.status == WEIR_OK ? WEIR_FAILED : waited.error.status;
}

/* --- the workflow of an execution --- */

/* Its newest run. WEIR_EXECUTION_NOT_FOUND: the service has no such workflow. */
static enum weir_status describe_one(struct temporal_operator *operator, const struct temporal_execution * execution,
                                     const char *run_id, struct describe_answer *ret_answer, struct weir_error *error)
{
    struct waited waited;
    struct bytes message = encode_describe(operator->namespace_name, execution->workflow_id, run_id);
    enum reply_kind reply = operator_call(operator, METHOD_DESCRIBE, message, &waited);
    bool is_read =
        reply == REPLY_OK && decode_describe(waited.response.data, waited.response.length, ret_answer) == WEIR_OK;
    free(waited.response.data);
    if (is_read) {
        return WEIR_OK;
    }
    if (reply == REPLY_NOT_FOUND) {
        return set_not_found(execution, error);
    }
    return error_set(error, WEIR_ENGINE_UNREACHABLE, "%s", error_text_of(&waited));
}

/* The newest run of the execution's own chain. No other program uses a default id; else the memo of the first run decides.
 */
static enum weir_status describe_own(struct temporal_operator *operator, const struct temporal_execution * execution,
                                     struct describe_answer *ret_answer, struct weir_error *error)
{
    struct describe_answer first;
    enum weir_status status = describe_one(operator, execution, NULL, ret_answer, error);
    if (status != WEIR_OK || has_default_id(execution) || strcmp(ret_answer->memo_execution, execution->id) == 0) {
        return status;
    }
    status = describe_one(operator, execution, ret_answer->first_run_id, &first, error);
    if (status == WEIR_OK && strcmp(first.memo_execution, execution->id) != 0) {
        return set_not_found(execution, error);
    }
    return status;
}

enum weir_status operator_find_own(struct temporal_operator *operator, const struct temporal_execution * execution,
                                   struct own_workflow *ret_workflow, struct weir_error *error)
{
    INVARIANT(operator!= NULL && execution != NULL && ret_workflow != NULL);
    char own[WORKFLOW_ID_MAX];
    struct temporal_execution named = name_workflow(execution, own);
    struct describe_answer answer = {.status = 0};
    enum weir_status status = has_default_id(&named) ? WEIR_OK : describe_own(operator, & named, &answer, error);
    if (status != WEIR_OK) {
        return status;
    }
    *ret_workflow = (struct own_workflow){.name = {.workflow_id = ret_workflow->workflow_id,
                                                   .first_run_id = ret_workflow->first_run_id,
                                                   .run_id = ret_workflow->run_id}};
    text_copy(ret_workflow->workflow_id, sizeof ret_workflow->workflow_id, named.workflow_id);
    text_copy(ret_workflow->first_run_id, sizeof ret_workflow->first_run_id, answer.first_run_id);
    text_copy(ret_workflow->run_id, sizeof ret_workflow->run_id, answer.run_id);
    return WEIR_OK;
}

enum weir_status temporal_find_execution(struct temporal_operator *operator, const char * workflow_id, char *to,
                                         struct weir_error *error)
{
    INVARIANT(operator!= NULL && workflow_id != NULL && to != NULL);
    struct temporal_execution execution = {.id = workflow_id, .workflow_id = workflow_id};
    struct describe_answer answer;
    enum weir_status status = describe_one(operator, & execution, NULL, &answer, error);
    if (status == WEIR_OK && answer.first_run_id[0] != '\0' && strcmp(answer.first_run_id, answer.run_id) != 0) {
        char first_run_id[RUN_ID_MAX]; /* a later run may have another memo */
        memcpy(first_run_id, answer.first_run_id, sizeof first_run_id);
        status = describe_one(operator, & execution, first_run_id, &answer, error);
    }
    if (status == WEIR_OK && (answer.memo_execution[0] == '\0' || strlen(answer.memo_execution) >= UUID_TEXT_MAX)) {
        status = error_set(error, WEIR_EXECUTION_NOT_FOUND, "weir did not start the workflow %.255s", workflow_id);
    }
    if (status == WEIR_OK) {
        text_copy(to, UUID_TEXT_MAX, answer.memo_execution);
    }
    return status;
}

enum weir_status temporal_signal(struct temporal_operator *operator, const struct temporal_execution * execution,
                                 const char *name, const char *input, const char *request_id, struct weir_error *error)
{
    INVARIANT(operator!= NULL && execution != NULL && name != NULL);
    char own[WORKFLOW_ID_MAX];
    struct temporal_execution named = name_workflow(execution, own);
    struct own_workflow workflow;
    struct payloads *payloads = NULL;
    enum weir_status status = operator_find_own(operator, execution, &workflow, error);
    status = status == WEIR_OK ? operator_encode(operator, input, &payloads, error) : status;
    if (status != WEIR_OK) {
        return status;
    }
    status = call_and_check(operator, METHOD_SIGNAL,
                            encode_signal(operator->namespace_name, &workflow.name, name, request_id, OPERATOR_IDENTITY,
                                          payloads),
                            &named, NULL, error);
    payloads_free(payloads);
    return status;
}

/* Step 4 of a termination. */
static bool is_closed(struct temporal_operator *operator, const struct temporal_execution * execution)
{
    struct describe_answer answer;
    return describe_own(operator, execution, &answer, NULL) == WEIR_OK && run_status_is_closed(answer.status);
}

/* Steps 1 and 2 of a termination. */
static enum weir_status terminate_once(struct temporal_operator *operator, const struct temporal_execution * execution,
                                       const char *reason, bool *ret_is_lost, struct weir_error *error)
{
    struct workflow_name workflow = {.workflow_id = execution->workflow_id};
    struct describe_answer answer;
    if (!has_default_id(execution)) {
        enum weir_status status = describe_own(operator, execution, &answer, error);
        if (status != WEIR_OK) {
            return status;
        }
        workflow.first_run_id = answer.first_run_id;
    }
    struct bytes message = encode_terminate(operator->namespace_name, &workflow, OPERATOR_IDENTITY, reason);
    return call_and_check(operator, METHOD_TERMINATE, message, execution, ret_is_lost, error);
}

/* TEMPORAL_AWAIT_US, with the client driven. */
static void wait_before_retry(struct temporal_operator *operator)
{
    bool is_over = false;
    int64_t until_us = time_add(clock_boot(operator->clock), TEMPORAL_AWAIT_US);
    while (!is_over) {
        int64_t left_us = until_us - clock_boot(operator->clock);
        is_over = left_us <= 0;
        drive_client(operator, left_us, &is_over);
    }
}

enum weir_status temporal_terminate(struct temporal_operator *operator, const struct temporal_execution * execution,
                                    const char *reason, temporal_awaits *may_retry, void *context, struct weir_error *error)
{
    INVARIANT(operator!= NULL && execution != NULL && may_retry != NULL);
    char own[WORKFLOW_ID_MAX];
    struct temporal_execution named = name_workflow(execution, own);
    for (;;) {
        bool may_have_arrived = false;
        enum weir_status status = terminate_once(operator, & named, reason, &may_have_arrived, error);
        if ((status != WEIR_EXECUTION_NOT_FOUND && !may_have_arrived) || !may_retry(context)) {
            return status;
        }
        if (!may_have_arrived && is_closed(operator, & named)) { /* by an earlier call, or by itself */
            error_clear(error);
            return WEIR_OK;
        }
        wait_before_retry(operator);
    }
}

/* --- what holds a workflow up --- */

enum { EVENTS_READ = 10 };

const char *held_up_name(enum held_up_by by)
{
    INVARIANT((unsigned)by <= HELD_UP_BUSY);
    static const char *const names[] = {[HELD_UP_BY_NOTHING] = NULL,
                                        [HELD_UP_NO_POLLER] = "no_worker_polls",
                                        [HELD_UP_TASK_FAILS] = "workflow_task_fails",
                                        [HELD_UP_BUSY] = "workers_busy"};
    return names[by];
}

static bool request_pollers(struct temporal_operator *operator, const char * queue, struct waited *waited,
                            struct pollers_answer *ret_answer)
{
    enum reply_kind reply = operator_call(operator, METHOD_DESCRIBE_TASK_QUEUE,
                                          encode_describe_task_queue(operator->namespace_name, queue), waited);
    bool is_fine =
        reply == REPLY_OK && decode_task_queue(waited->response.data, waited->response.length, ret_answer) == WEIR_OK;
    free(waited->response.data);
    return is_fine;
}

/* The task of the workflow waits, and no worker polls its task queue. */
static void explain_no_poller(const char *queue, const struct pollers_answer *pollers, int64_t age_us,
                              struct temporal_hold_up *hold_up)
{
    char age[DURATION_TEXT_MAX];
    hold_up->by = HELD_UP_NO_POLLER;
    if (pollers->count == 0) {
        (void)snprintf(hold_up->text, sizeof hold_up->text,
                       "no worker polls its task queue '%.100s', and none did in the last minutes", queue);
    } else {
        duration_format_short(age_us, age);
        (void)snprintf(hold_up->text, sizeof hold_up->text,
                       "no worker polls its task queue '%.100s'; the last one was %.100s, %s ago", queue, pollers->last,
                       age);
    }
}

/* Workers take the task, and each attempt fails: the newest failure names the reason. */
static void explain_task_failure(struct temporal_operator *operator, const char * workflow_id, int attempt,
                                 struct temporal_hold_up *hold_up)
{
    struct waited waited;
    char failure[WEIR_ERROR_MESSAGE_MAX / 2] = "";
    enum reply_kind reply = operator_call(operator, METHOD_LAST_EVENTS,
                                          encode_last_events(operator->namespace_name, workflow_id, EVENTS_READ), &waited);
    if (reply == REPLY_OK &&
        decode_task_failure(waited.response.data, waited.response.length, failure, sizeof failure) != WEIR_OK) {
        failure[0] = '\0';
    }
    free(waited.response.data);
    hold_up->by = HELD_UP_TASK_FAILS;
    (void)snprintf(hold_up->text, sizeof hold_up->text, "its workflow task fails, attempt %d%s%s", attempt,
                   failure[0] == '\0' ? "" : ": ", failure);
}

enum weir_status temporal_hold_up(struct temporal_operator *operator, const struct temporal_execution * execution,
                                  struct temporal_hold_up *ret_hold_up, struct weir_error *error)
{
    INVARIANT(operator!= NULL && execution != NULL && ret_hold_up != NULL);
    struct waited waited;
    struct describe_answer answer = {.status = 0};
    struct pollers_answer pollers = {.count = 0};
    char own[WORKFLOW_ID_MAX];
    struct temporal_execution named = name_workflow(execution, own);
    *ret_hold_up = (struct temporal_hold_up){.by = HELD_UP_BY_NOTHING};
    enum weir_status status = describe_own(operator, & named, &answer, error);
    if (status != WEIR_OK) {
        return status == WEIR_EXECUTION_NOT_FOUND ? WEIR_OK : status;
    }
    if (!answer.has_task || run_status_is_closed(answer.status)) {
        return WEIR_OK;
    }
    if (!request_pollers(operator, answer.task_queue, &waited, &pollers)) {
        return error_set(error, WEIR_ENGINE_UNREACHABLE, "%s", error_text_of(&waited));
    }
    int64_t now_us = clock_wall(operator->clock);
    ret_hold_up->since_us = answer.task_at_us;
    if (answer.task_is_open && now_us - pollers.last_us > TEMPORAL_POLLER_LASTS_US) {
        explain_no_poller(answer.task_queue, &pollers, now_us - pollers.last_us, ret_hold_up);
    } else if (answer.task_attempt > 1) {
        explain_task_failure(operator, named.workflow_id, answer.task_attempt, ret_hold_up);
    } else if (answer.task_is_open && now_us - answer.task_at_us > TEMPORAL_BUSY_AFTER_US) {
        ret_hold_up->by = HELD_UP_BUSY;
        (void)snprintf(ret_hold_up->text, sizeof ret_hold_up->text,
                       "%zu worker%s polled its task queue '%.100s' lately, and none has taken its task", pollers.count,
                       pollers.count == 1 ? "" : "s", answer.task_queue);
    }
    return WEIR_OK;
}

/* --- examining --- */

struct finding_sink {
    temporal_finding *report;
    void *context;
};

static void WEIR_PRINTF(4, 5) report_finding(const struct finding_sink *finding_sink, enum finding finding,
                                             const char *check, const char *format, ...)
{
    char text[WEIR_ERROR_MESSAGE_MAX + WEIR_ERROR_HINT_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    finding_sink->report(finding_sink->context, finding, check, text);
}

static bool examine_server(struct temporal_operator *operator, const struct finding_sink * finding_sink)
{
    struct waited waited;
    char version[SERVER_VERSION_MAX] = "";
    int64_t began_us = clock_boot(operator->clock);
    enum reply_kind reply = operator_call(operator, METHOD_SYSTEM_INFO, encode_system_info(), &waited);
    bool is_fine = reply == REPLY_OK &&
                   decode_system_info(waited.response.data, waited.response.length, version, sizeof version) == WEIR_OK;
    double ms = (double)(clock_boot(operator->clock) - began_us) / 1000.0;
    free(waited.response.data);
    if (is_fine) {
        report_finding(finding_sink, FINDING_FINE, "temporal", "%s answers in %.1f ms, server %s, %s", operator->address,
                       ms, version, operator->tls ? "over TLS" : "without TLS");
    } else {
        report_finding(finding_sink, FINDING_PROBLEM, "temporal", "%s: %s%s%s", operator->address, error_text_of(&waited),
                       waited.error.hint[0] == '\0' ? "" : "; ", waited.error.hint);
    }
    return is_fine;
}

static bool examine_namespace(struct temporal_operator *operator, const struct finding_sink * finding_sink)
{
    struct waited waited;
    struct namespace_answer answer = {.state = 0};
    char retention[DURATION_TEXT_MAX];
    enum reply_kind reply =
        operator_call(operator, METHOD_DESCRIBE_NAMESPACE, encode_describe_namespace(operator->namespace_name), &waited);
    bool is_fine = reply == REPLY_OK && decode_namespace(waited.response.data, waited.response.length, &answer) == WEIR_OK;
    free(waited.response.data);
    if (!is_fine) {
        report_finding(finding_sink, FINDING_PROBLEM, "namespace", "%s: %s", operator->namespace_name,
                       error_text_of(&waited));
        return false;
    }
    duration_format(answer.retention_us, retention);
    if (answer.state != 1) {
        report_finding(
            finding_sink, FINDING_PROBLEM, "namespace",
            "%s is not registered: register it with `temporal operator namespace create`", operator->namespace_name);
    } else if (answer.retention_us == 0) {
        report_finding(finding_sink, FINDING_WARNING, "namespace",
                       "%s reports no retention of closed workflows", operator->namespace_name);
    } else {
        report_finding(finding_sink, FINDING_FINE, "namespace",
                       "%s keeps closed workflows for %s", operator->namespace_name, retention);
    }
    return true;
}

enum { ATTRIBUTE_ABSENT, ATTRIBUTE_PRESENT, ATTRIBUTE_OTHER_TYPE };

/* *ret_found: one of the above. */
static enum reply_kind find_workspace_attribute(struct temporal_operator *operator, struct waited * waited, int *ret_found)
{
    json_t *types = NULL;
    enum reply_kind reply =
        operator_call(operator, METHOD_LIST_ATTRIBUTES, encode_list_attributes(operator->namespace_name), waited);
    if (reply == REPLY_OK && decode_attributes(waited->response.data, waited->response.length, &types) != WEIR_OK) {
        reply = REPLY_FAILED;
    }
    free(waited->response.data);
    const json_t *type = json_object_get(types, TEMPORAL_WORKSPACE_ATTRIBUTE);
    *ret_found = type == NULL                                    ? ATTRIBUTE_ABSENT
                 : json_integer_value(type) == ATTRIBUTE_KEYWORD ? ATTRIBUTE_PRESENT
                                                                 : ATTRIBUTE_OTHER_TYPE;
    json_decref(types);
    return reply;
}

/* Only lists by workspace need the attribute, so its absence is no fault. */
static void examine_attribute(struct temporal_operator *operator, const struct finding_sink * finding_sink)
{
    struct waited waited;
    int found = ATTRIBUTE_ABSENT;
    if (find_workspace_attribute(operator, & waited, &found) != REPLY_OK) {
        report_finding(finding_sink, FINDING_FINE, "attributes",
                       "the search attributes of %s, among them %s, cannot be read: %s", operator->namespace_name,
                       TEMPORAL_WORKSPACE_ATTRIBUTE, error_text_of(&waited));
    } else if (found == ATTRIBUTE_PRESENT) {
        report_finding(finding_sink, FINDING_FINE, "attributes",
                       "%s has the search attribute %s: workflows can be listed by workspace", operator->namespace_name,
                       TEMPORAL_WORKSPACE_ATTRIBUTE);
    } else if (found == ATTRIBUTE_OTHER_TYPE) {
        report_finding(finding_sink, FINDING_WARNING, "attributes",
                       "the search attribute %s of %s is not of the type Keyword: remove it, then "
                       "`weir temporal setup`",
                       TEMPORAL_WORKSPACE_ATTRIBUTE, operator->namespace_name);
    } else {
        report_finding(finding_sink, FINDING_FINE, "attributes",
                       "%s has no search attribute %s: `weir temporal setup` adds it, so that "
                       "workflows can be listed by workspace",
                       operator->namespace_name, TEMPORAL_WORKSPACE_ATTRIBUTE);
    }
}

enum weir_status temporal_add_workspace_attribute(struct temporal_operator *operator, bool * ret_was_there,
                                                  struct weir_error *error)
{
    INVARIANT(operator!= NULL && ret_was_there != NULL);
    struct waited waited;
    int found = ATTRIBUTE_ABSENT;
    enum reply_kind reply = find_workspace_attribute(operator, & waited, &found);
    *ret_was_there = reply == REPLY_OK && found == ATTRIBUTE_PRESENT;
    if (*ret_was_there) {
        return WEIR_OK;
    }
    if (reply == REPLY_OK && found == ATTRIBUTE_OTHER_TYPE) {
        error_set(error, WEIR_ILLEGAL_STATE,
                  "the namespace %s has a search attribute %s that is not of the type Keyword", operator->namespace_name,
                  TEMPORAL_WORKSPACE_ATTRIBUTE);
        error_hint(error, "remove it: `temporal operator search-attribute remove --name " TEMPORAL_WORKSPACE_ATTRIBUTE "`");
        return WEIR_ILLEGAL_STATE;
    }
    if (reply == REPLY_OK) {
        struct bytes message =
            encode_add_attribute(operator->namespace_name, TEMPORAL_WORKSPACE_ATTRIBUTE, ATTRIBUTE_KEYWORD);
        reply = operator_call(operator, METHOD_ADD_ATTRIBUTES, message, &waited);
        free(waited.response.data);
    }
    if (reply == REPLY_OK) {
        return WEIR_OK;
    }
    enum weir_status status = waited.error.status == WEIR_OK ? WEIR_FAILED : waited.error.status;
    error_set(error, status, "the search attribute was not added to %s: %s", operator->namespace_name,
              error_text_of(&waited));
    error_hint(
        error,
        "an administrator may add it: `temporal operator search-attribute create --name " TEMPORAL_WORKSPACE_ATTRIBUTE
        " --type Keyword`");
    return status;
}

/* Encodes a small value, and decodes it again. */
static void examine_codec(struct temporal_operator *operator, const struct finding_sink * finding_sink)
{
    struct payloads *encoded = NULL;
    json_t *value = NULL;
    struct weir_error error;
    if (operator->codec.call == NULL) {
        return;
    }
    error_clear(&error);
    enum weir_status status = operator_encode(operator, "\"weir\"", &encoded, &error);
    status = status == WEIR_OK ? operator_decode(operator, encoded, &value, &error) : status;
    if (status != WEIR_OK) {
        report_finding(finding_sink, FINDING_PROBLEM, "codec",
                       "%s; executions wait until it can be reached (temporal.codec_url)", error.message);
    } else if (!json_is_string(value) || strcmp(json_string_value(value), "weir") != 0) {
        report_finding(finding_sink, FINDING_PROBLEM, "codec", "it does not decode its own encoding (temporal.codec_url)");
    } else {
        report_finding(finding_sink, FINDING_FINE, "codec", "the payload codec encodes and decodes");
    }
    json_decref(value);
}

static void examine_queue(struct temporal_operator *operator, const char * queue, const struct finding_sink *finding_sink)
{
    struct waited waited;
    struct pollers_answer answer = {.count = 0};
    bool is_fine = request_pollers(operator, queue, &waited, &answer);
    size_t pollers = answer.count;
    if (!is_fine) {
        report_finding(finding_sink, FINDING_PROBLEM, "workers", "'%s': %s", queue, error_text_of(&waited));
    } else if (pollers == 0) {
        report_finding(finding_sink, FINDING_WARNING, "workers",
                       "no worker polls '%s': its workflows are started and wait for one", queue);
    } else {
        report_finding(finding_sink, FINDING_FINE, "workers", "%zu worker%s poll%s '%s'", pollers, pollers == 1 ? "" : "s",
                       pollers == 1 ? "s" : "", queue);
    }
}

void temporal_examine(struct temporal_operator *operator, const char * const * queues, size_t count,
                      temporal_finding *report, void *context)
{
    INVARIANT(operator!= NULL && report != NULL &&(count == 0 || queues != NULL));
    struct finding_sink finding_sink = {.report = report, .context = context};
    examine_codec(operator, & finding_sink);
    if (!examine_server(operator, & finding_sink) || !examine_namespace(operator, & finding_sink)) {
        return;
    }
    examine_attribute(operator, & finding_sink);
    for (size_t i = 0; i < count; i++) {
        bool is_known = false;
        for (size_t j = 0; j < i; j++) {
            is_known = is_known || strcmp(queues[i], queues[j]) == 0;
        }
        if (!is_known) {
            examine_queue(operator, queues[i], &finding_sink);
        }
    }
    if (count == 0) {
        report_finding(&finding_sink, FINDING_WARNING, "workers",
                       "no task queue is set: set temporal.task_queue for the node or in a workflow");
    }
}

/* --- opening --- */

enum weir_status temporal_operator_open(const struct temporal_options *options, int64_t timeout_us,
                                        struct temporal_operator **ret_operator, struct weir_error *error)
{
    INVARIANT(options != NULL && ret_operator != NULL);
    if (timeout_us <= 0) { /* --timeout 0 */
        return error_set(error, WEIR_INVALID_ARGUMENT, "a time-out of 0 leaves no time for a call to the Temporal service");
    }
    struct temporal_operator *operator= calloc(1, sizeof *operator);
    if (operator== NULL) {
        return error_out_of_memory(error);
    }
    operator->clock = options->clock == NULL ? clock_system() : options->clock;
    operator->timeout_us = timeout_us;
    operator->address = strdup(options->address == NULL ? TEMPORAL_ADDRESS_DEFAULT : options->address);
    operator->namespace_name =
        strdup(options->namespace_name == NULL ? TEMPORAL_NAMESPACE_DEFAULT : options->namespace_name);
    operator->encoding = strdup(options->encoding == NULL ? TEMPORAL_ENCODING_DEFAULT : options->encoding);
    operator->tls = options->tls || options->ca_file != NULL || options->certificate_file != NULL ||
        options->server_name != NULL || options->api_key_file != NULL;
    enum weir_status status = operator->address == NULL || operator->namespace_name == NULL || operator->encoding == NULL
                                  ? error_out_of_memory(error)
                                  : temporal_client_open(options, &operator->client, error);
    status = status == WEIR_OK ? temporal_codec_open(options, &operator->codec, error) : status;
    if (status != WEIR_OK) {
        temporal_operator_close(operator);
        return status;
    }
    *ret_operator = operator;
    return WEIR_OK;
}

void temporal_operator_close(struct temporal_operator *operator)
{
    if (operator!= NULL) {
        grpc_client_close(operator->client);
        if (operator->codec.close != NULL) {
            operator->codec.close(operator->codec.context);
        }
        free(operator->address);
        free(operator->namespace_name);
        free(operator->encoding);
        free(operator);
    }
}
