#include "engine/temporal/operate.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "engine/temporal/client.h"
#include "engine/temporal/parts.h"

struct temporal_operator {
    struct grpc_client *client;
    const struct clock *clock;
    int64_t timeout_us;
    char *address;
    char *namespace_name;
    char *encoding;
    bool tls;
};

/* --- one call, waited for --- */

struct waited {
    bool is_done;
    enum look_kind look;
    struct weir_error error; /* what went wrong */
    struct bytes response;   /* LOOK_OK */
};

static void note_answer(void *context, const struct grpc_result *result)
{
    struct waited *waited = context;
    waited->is_done = true;
    waited->look = look_of(result);
    if (waited->look == LOOK_OK) {
        waited->response.length = result->response_length;
        waited->response.data = malloc(result->response_length + 1);
        if (waited->response.data == NULL) {
            waited->look = LOOK_FAILED;
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
    (void)error_set(&waited->error, refused ? WEIR_NOT_PERMITTED : WEIR_FAILED, "the Temporal service says: %s (%s)",
                    outcome_text(result), grpc_code_name(result->code));
}

/* What is under way goes on, until something happens or `most_us` are over. */
static void turn(struct temporal_operator *operator, int64_t most_us, const bool *is_done)
{
    struct pollfd wanted = {.fd = grpc_client_fd(operator->client), .events = POLLIN};
    int64_t next_us = grpc_client_step(operator->client);
    int64_t wait_us = next_us - clock_boot(operator->clock);
    wait_us = wait_us > most_us ? most_us : wait_us;
    if (!*is_done) {
        (void)poll(&wanted, 1, wait_us <= 0 ? 0 : (int)(wait_us / MICROSECONDS_PER_MS) + 1);
    }
}

/* Takes the message. What is OK is in `waited->response`, which the caller frees. */
static enum look_kind call_and_wait(struct temporal_operator *operator, enum method method, struct bytes message,
                                    struct waited *waited)
{
    struct grpc_request request = {.path = method_path(method),
                                   .message = message.data,
                                   .message_length = message.length,
                                   .timeout_us = operator->timeout_us,
                                   .class = GRPC_SHORT_CALL,
                                   .done = note_answer,
                                   .context = waited};
    *waited = (struct waited){.look = LOOK_FAILED};
    enum weir_status status = message.data == NULL ? error_out_of_memory(&waited->error)
                                                   : grpc_client_call(operator->client, &request, NULL, &waited->error);
    free(message.data);
    while (status == WEIR_OK && !waited->is_done) {
        turn(operator, MICROSECONDS_PER_SECOND, &waited->is_done);
    }
    return waited->look;
}

/* --- acting --- */

static enum weir_status act(struct temporal_operator *operator, enum method method, struct bytes message, const char *id,
                            struct weir_error *error)
{
    struct waited waited;
    enum look_kind look = call_and_wait(operator, method, message, &waited);
    free(waited.response.data);
    if (look == LOOK_OK) {
        return WEIR_OK;
    }
    if (look == LOOK_NOT_FOUND) {
        error_set(error, WEIR_EXECUTION_NOT_FOUND, "the Temporal service has no open workflow " WORKFLOW_ID_PREFIX "%s",
                  id);
        error_hint(error, "it has not been started yet, or has ended: `weir show %s`", id);
        return WEIR_EXECUTION_NOT_FOUND;
    }
    if (error != NULL) {
        *error = waited.error;
    }
    return waited.error.status == WEIR_OK ? WEIR_FAILED : waited.error.status;
}

enum weir_status temporal_signal(struct temporal_operator *operator, const char * execution_id, const char *name,
                                 const char *input, const char *request_id, struct weir_error *error)
{
    char workflow_id[WORKFLOW_ID_MAX];
    (void)snprintf(workflow_id, sizeof workflow_id, WORKFLOW_ID_PREFIX "%s", execution_id);
    return act(operator, METHOD_SIGNAL,
               message_signal(operator->namespace_name, workflow_id, name, request_id, PEOPLE_IDENTITY, operator->encoding,
                              input, input == NULL ? 0 : strlen(input)),
               execution_id, error);
}

/* Whether the service has the workflow, and its newest run has ended. */
static bool is_closed(struct temporal_operator *operator, const char * workflow_id)
{
    struct waited waited;
    struct describe_answer answer;
    struct bytes message = message_describe(operator->namespace_name, workflow_id, NULL);
    bool is_closed = call_and_wait(operator, METHOD_DESCRIBE, message, &waited) == LOOK_OK &&
                     answer_describe(waited.response.data, waited.response.length, &answer) == WEIR_OK &&
                     run_status_is_closed(answer.status);
    free(waited.response.data);
    return is_closed;
}

static void wait_a_moment(struct temporal_operator *operator)
{
    bool is_over = false;
    int64_t until_us = time_add(clock_boot(operator->clock), TEMPORAL_AWAIT_US);
    while (!is_over) {
        int64_t left_us = until_us - clock_boot(operator->clock);
        is_over = left_us <= 0;
        turn(operator, left_us, &is_over);
    }
}

enum weir_status temporal_terminate(struct temporal_operator *operator, const char * execution_id, const char *reason,
                                    temporal_awaits *awaits, void *context, struct weir_error *error)
{
    char workflow_id[WORKFLOW_ID_MAX];
    (void)snprintf(workflow_id, sizeof workflow_id, WORKFLOW_ID_PREFIX "%s", execution_id);
    for (;;) {
        struct bytes message = message_terminate(operator->namespace_name, workflow_id, PEOPLE_IDENTITY, reason);
        enum weir_status status = act(operator, METHOD_TERMINATE, message, execution_id, error);
        if (status != WEIR_EXECUTION_NOT_FOUND || !awaits(context)) {
            return status;
        }
        if (is_closed(operator, workflow_id)) { /* by an earlier try whose answer was lost, or by itself */
            error_clear(error);
            return WEIR_OK;
        }
        wait_a_moment(operator);
    }
}

/* --- what holds a workflow up --- */

/* The error of the call. A good answer that cannot be read comes from another kind of server. */
static const char *words_of(const struct waited *waited)
{
    return waited->error.message[0] == '\0' ? "the server is no Temporal service" : waited->error.message;
}

enum { EVENTS_LOOKED_AT = 10 };

const char *held_up_name(enum held_up_by by)
{
    static const char *const names[] = {[HELD_UP_BY_NOTHING] = NULL,
                                        [HELD_UP_NO_POLLER] = "no_worker_polls",
                                        [HELD_UP_TASK_FAILS] = "workflow_task_fails",
                                        [HELD_UP_BUSY] = "workers_busy"};
    return names[by];
}

static bool ask_pollers(struct temporal_operator *operator, const char * queue, struct waited *waited,
                        struct pollers_answer *ret_answer)
{
    enum look_kind look = call_and_wait(operator, METHOD_DESCRIBE_TASK_QUEUE,
                                        message_describe_task_queue(operator->namespace_name, queue), waited);
    bool is_fine = look == LOOK_OK &&
                   answer_describe_task_queue(waited->response.data, waited->response.length, ret_answer) == WEIR_OK;
    free(waited->response.data);
    return is_fine;
}

static void say_no_poller(const char *queue, const struct pollers_answer *pollers, int64_t age_us,
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

static void say_task_fails(struct temporal_operator *operator, const char * workflow_id, int attempt,
                           struct temporal_hold_up *hold_up)
{
    struct waited waited;
    char failure[WEIR_ERROR_MESSAGE_MAX / 2] = "";
    enum look_kind look =
        call_and_wait(operator, METHOD_LAST_EVENTS,
                      message_last_events(operator->namespace_name, workflow_id, EVENTS_LOOKED_AT), &waited);
    if (look == LOOK_OK &&
        answer_task_failure(waited.response.data, waited.response.length, failure, sizeof failure) != WEIR_OK) {
        failure[0] = '\0';
    }
    free(waited.response.data);
    hold_up->by = HELD_UP_TASK_FAILS;
    (void)snprintf(hold_up->text, sizeof hold_up->text, "its workflow task fails, attempt %d%s%s", attempt,
                   failure[0] == '\0' ? "" : ": ", failure);
}

enum weir_status temporal_hold_up(struct temporal_operator *operator, const char * execution_id,
                                  struct temporal_hold_up *ret_hold_up, struct weir_error *error)
{
    struct waited waited;
    struct describe_answer answer = {.status = 0};
    struct pollers_answer pollers = {.count = 0};
    char workflow_id[WORKFLOW_ID_MAX];
    *ret_hold_up = (struct temporal_hold_up){.by = HELD_UP_BY_NOTHING};
    (void)snprintf(workflow_id, sizeof workflow_id, WORKFLOW_ID_PREFIX "%s", execution_id);
    enum look_kind look =
        call_and_wait(operator, METHOD_DESCRIBE, message_describe(operator->namespace_name, workflow_id, NULL), &waited);
    bool is_read = look == LOOK_OK && answer_describe(waited.response.data, waited.response.length, &answer) == WEIR_OK;
    free(waited.response.data);
    bool is_known = is_read || look == LOOK_NOT_FOUND;
    if (is_read && answer.has_task && !run_status_is_closed(answer.status)) {
        is_known = ask_pollers(operator, answer.task_queue, &waited, &pollers);
    }
    if (!is_known) {
        return error_set(error, WEIR_ENGINE_UNREACHABLE, "%s", words_of(&waited));
    }
    if (!is_read || !answer.has_task || run_status_is_closed(answer.status)) {
        return WEIR_OK;
    }
    int64_t now_us = clock_wall(operator->clock);
    ret_hold_up->since_us = answer.task_at_us;
    if (answer.task_is_open && now_us - pollers.last_us > TEMPORAL_POLLER_LASTS_US) {
        say_no_poller(answer.task_queue, &pollers, now_us - pollers.last_us, ret_hold_up);
    } else if (answer.task_attempt > 1) {
        say_task_fails(operator, workflow_id, answer.task_attempt, ret_hold_up);
    } else if (answer.task_is_open && now_us - answer.task_at_us > TEMPORAL_BUSY_AFTER_US) {
        ret_hold_up->by = HELD_UP_BUSY;
        (void)snprintf(ret_hold_up->text, sizeof ret_hold_up->text,
                       "%zu worker%s polled its task queue '%.100s' lately, and none has taken its task", pollers.count,
                       pollers.count == 1 ? "" : "s", answer.task_queue);
    }
    return WEIR_OK;
}

/* --- examining --- */

struct teller {
    temporal_tell *tell;
    void *context;
};

static void WEIR_PRINTF(4, 5)
    say(const struct teller *teller, enum finding finding, const char *check, const char *format, ...)
{
    char text[WEIR_ERROR_MESSAGE_MAX + WEIR_ERROR_HINT_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    teller->tell(teller->context, finding, check, text);
}

static bool examine_server(struct temporal_operator *operator, const struct teller * teller)
{
    struct waited waited;
    char version[SERVER_VERSION_MAX] = "";
    int64_t began_us = clock_boot(operator->clock);
    enum look_kind look = call_and_wait(operator, METHOD_SYSTEM_INFO, message_system_info(), &waited);
    bool is_fine = look == LOOK_OK &&
                   answer_system_info(waited.response.data, waited.response.length, version, sizeof version) == WEIR_OK;
    double ms = (double)(clock_boot(operator->clock) - began_us) / 1000.0;
    free(waited.response.data);
    if (is_fine) {
        say(teller, FINDING_FINE, "temporal", "%s answers in %.1f ms, server %s, %s", operator->address, ms,
            version, operator->tls ? "over TLS" : "without TLS");
    } else {
        say(teller, FINDING_PROBLEM, "temporal", "%s: %s%s%s", operator->address, words_of(&waited),
            waited.error.hint[0] == '\0' ? "" : "; ", waited.error.hint);
    }
    return is_fine;
}

static bool examine_namespace(struct temporal_operator *operator, const struct teller * teller)
{
    struct waited waited;
    struct namespace_answer answer = {.state = 0};
    char retention[DURATION_TEXT_MAX];
    enum look_kind look =
        call_and_wait(operator, METHOD_DESCRIBE_NAMESPACE, message_describe_namespace(operator->namespace_name), &waited);
    bool is_fine =
        look == LOOK_OK && answer_describe_namespace(waited.response.data, waited.response.length, &answer) == WEIR_OK;
    free(waited.response.data);
    if (!is_fine) {
        say(teller, FINDING_PROBLEM, "namespace", "%s: %s", operator->namespace_name, words_of(&waited));
        return false;
    }
    duration_format(answer.retention_us, retention);
    if (answer.state != 1) {
        say(teller, FINDING_PROBLEM, "namespace", "%s is not registered (any more)", operator->namespace_name);
    } else if (answer.retention_us == 0) {
        say(teller, FINDING_WARNING, "namespace", "%s reports no retention of closed workflows", operator->namespace_name);
    } else {
        say(teller, FINDING_FINE, "namespace", "%s keeps closed workflows for %s", operator->namespace_name, retention);
    }
    return true;
}

static void examine_queue(struct temporal_operator *operator, const char * queue, const struct teller *teller)
{
    struct waited waited;
    struct pollers_answer answer = {.count = 0};
    bool is_fine = ask_pollers(operator, queue, &waited, &answer);
    size_t pollers = answer.count;
    if (!is_fine) {
        say(teller, FINDING_PROBLEM, "workers", "'%s': %s", queue, words_of(&waited));
    } else if (pollers == 0) {
        say(teller, FINDING_WARNING, "workers", "nobody polls '%s': its workflows are started and wait for a worker",
            queue);
    } else {
        say(teller, FINDING_FINE, "workers", "%zu worker%s poll%s '%s'", pollers, pollers == 1 ? "" : "s",
            pollers == 1 ? "s" : "", queue);
    }
}

void temporal_examine(struct temporal_operator *operator, const char * const * queues, size_t count, temporal_tell *tell,
                      void *context)
{
    struct teller teller = {.tell = tell, .context = context};
    if (!examine_server(operator, & teller) || !examine_namespace(operator, & teller)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        bool is_known = false;
        for (size_t j = 0; j < i; j++) {
            is_known = is_known || strcmp(queues[i], queues[j]) == 0;
        }
        if (!is_known) {
            examine_queue(operator, queues[i], &teller);
        }
    }
    if (count == 0) {
        say(&teller, FINDING_WARNING, "workers", "no task queue is named, neither by the node nor by a workflow");
    }
}

/* --- opening --- */

enum weir_status temporal_operator_open(const struct temporal_options *options, int64_t timeout_us,
                                        struct temporal_operator **ret_operator, struct weir_error *error)
{
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
        free(operator->address);
        free(operator->namespace_name);
        free(operator->encoding);
        free(operator);
    }
}
