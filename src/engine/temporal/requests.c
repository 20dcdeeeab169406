/* Questions that people ask of one workflow: its description, a query, an update. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/temporal/operator.h"

/* The error of a call that gave no answer. */
static enum weir_status refuse_question(const struct waited *waited, const char *workflow_id, struct weir_error *error)
{
    if (waited->look == LOOK_NOT_FOUND) {
        error_set(error, WEIR_EXECUTION_NOT_FOUND, "the Temporal service has no such workflow: %s (%s)", workflow_id,
                  waited->error.message);
        error_hint(error, "it has not been started yet, has ended, or was deleted: `weir show` names its state");
        return WEIR_EXECUTION_NOT_FOUND;
    }
    if (error != NULL) {
        *error = waited->error;
    }
    return waited->error.status == WEIR_OK ? WEIR_FAILED : waited->error.status;
}

static enum weir_status unreadable(struct weir_error *error)
{
    return error_set(error, WEIR_FAILED, "the answer of the Temporal service could not be read");
}

/* A codec that is away does not keep the rest from being shown: then NULL, and the memo stays encoded. */
static struct payloads *decode_memo(struct temporal_operator *operator, const struct bytes * description)
{
    struct payloads *memo = NULL;
    struct payloads *decoded = NULL;
    if (operator->codec.call == NULL || payloads_of_description(description->data, description->length, &memo) != WEIR_OK ||
        operator_code(operator, CODEC_DECODE, memo, &decoded, NULL) != WEIR_OK) {
        return NULL;
    }
    return decoded;
}

static enum weir_status ask_description(struct temporal_operator *operator, const struct own_workflow * workflow,
                                        json_t **ret_answer, struct weir_error *error)
{
    struct waited waited;
    struct bytes message = message_describe(operator->namespace_name, workflow->workflow_id, workflow->run_id);
    if (operator_call(operator, METHOD_DESCRIBE, message, &waited) != LOOK_OK) {
        return refuse_question(&waited, workflow->workflow_id, error);
    }
    struct payloads *memo = decode_memo(operator, & waited.response);
    *ret_answer = answer_description(waited.response.data, waited.response.length, memo);
    payloads_free(memo);
    free(waited.response.data);
    return *ret_answer == NULL ? unreadable(error) : WEIR_OK;
}

static enum weir_status query(struct temporal_operator *operator, const struct temporal_question * question,
                              const struct own_workflow *workflow, const struct payloads *input, json_t **ret_answer,
                              struct weir_error *error)
{
    struct waited waited;
    struct payloads *result = NULL;
    struct bytes message = message_query(operator->namespace_name, &workflow->name, question->name, input);
    if (operator_call(operator, METHOD_QUERY, message, &waited) != LOOK_OK) {
        return refuse_question(&waited, workflow->workflow_id, error);
    }
    enum weir_status status = answer_query(waited.response.data, waited.response.length, &result);
    free(waited.response.data);
    return status == WEIR_OK ? operator_decode(operator, result, ret_answer, error) : unreadable(error);
}

/* Until it is done: the service answers after some seconds that it has accepted the update. The same update id makes it
 * one update, however often it is sent, so a lost answer is asked for in the same way. */
static enum weir_status update(struct temporal_operator *operator, const struct temporal_question * question,
                               const struct own_workflow *workflow, const struct payloads *input, json_t **ret_answer,
                               struct weir_error *error)
{
    int64_t until_us = time_add(clock_boot(operator->clock), operator->timeout_us);
    for (;;) {
        struct waited waited;
        struct update_answer answer;
        struct update_message sent = {.namespace_name = operator->namespace_name,
                                      .workflow = {workflow->workflow_id, workflow->first_run_id, NULL},
                                      .update_id = question->request_id,
                                      .identity = PEOPLE_IDENTITY,
                                      .name = question->name,
                                      .input = input};
        enum look_kind look = operator_call(operator, METHOD_UPDATE, message_update(&sent), &waited);
        enum weir_status status =
            look == LOOK_OK ? answer_update(waited.response.data, waited.response.length, &answer) : WEIR_OK;
        free(waited.response.data);
        if (status != WEIR_OK) {
            return unreadable(error);
        }
        if (look != LOOK_OK && !waited.is_lost) {
            return refuse_question(&waited, workflow->workflow_id, error);
        }
        if (look == LOOK_OK && answer.failure != NULL) {
            status = error_set(error, WEIR_FAILED, "the workflow refuses or fails the update: %s", answer.failure);
            free(answer.failure);
            return status;
        }
        if (look == LOOK_OK && answer.result != NULL) {
            return operator_decode(operator, answer.result, ret_answer, error);
        }
        operator->timeout_us = until_us - clock_boot(operator->clock);
        if (operator->timeout_us <= 0) {
            error_set(error, WEIR_TIMED_OUT, "the update has not ended yet");
            error_hint(error, "it may go on in the workflow; give it more time with --timeout");
            return WEIR_TIMED_OUT;
        }
    }
}

enum weir_status temporal_ask(struct temporal_operator *operator, const struct temporal_question * question,
                              json_t **ret_answer, struct weir_error *error)
{
    struct own_workflow workflow;
    struct payloads *input = NULL;
    enum weir_status status = operator_find_own(operator, question->execution, &workflow, error);
    status = status == WEIR_OK ? operator_encode(operator, question->input, &input, error) : status;
    if (status != WEIR_OK) {
        return status;
    }
    switch (question->kind) {
    case QUESTION_DESCRIBE:
        status = ask_description(operator, & workflow, ret_answer, error);
        break;
    case QUESTION_QUERY:
        status = query(operator, question, &workflow, input, ret_answer, error);
        break;
    case QUESTION_UPDATE:
        status = update(operator, question, &workflow, input, ret_answer, error);
        break;
    }
    payloads_free(input);
    return status;
}
