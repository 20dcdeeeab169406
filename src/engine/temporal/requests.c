/* Requests of an operator about one workflow: its description, a query, an update.
 *
 * Each request first finds the own chain of the execution, because other programs may use a workflow id that a definition
 * names. The input is encoded and the answer decoded by the codec of the options, if there is one.
 *
 * An update is repeated until the service reports its end, or the operator's time is over. The same update id makes it one
 * update however often it arrives. No request may change the execution in the store.
 *
 * One thread: that of the command line. Each call waits for its answer. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/temporal/operator.h"

/* A call that has less time ends before it is sent, or with the time of the call before. */
enum { LEAST_CALL_US = 500 * MICROSECONDS_PER_MS };

/* The error of a call without a usable answer. */
static enum weir_status set_request_error(const struct waited *waited, const char *workflow_id, struct weir_error *error)
{
    if (waited->reply == REPLY_NOT_FOUND) {
        error_set(error, WEIR_EXECUTION_NOT_FOUND, "the Temporal service has no workflow %s: %s", workflow_id,
                  waited->error.message);
        error_hint(error,
                   "it has not been started yet, has ended, was deleted, or was started in another service or namespace "
                   "than the settings name: `target` of `weir why --json`");
        return WEIR_EXECUTION_NOT_FOUND;
    }
    if (error != NULL) {
        *error = waited->error;
    }
    return waited->error.status == WEIR_OK ? WEIR_FAILED : waited->error.status;
}

static enum weir_status set_unreadable_answer(struct weir_error *error)
{
    return error_set(error, WEIR_FAILED, "the answer of the Temporal service cannot be read");
}

/* NULL when the codec cannot be reached: then the memo is shown encoded. */
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

static enum weir_status request_description(struct temporal_operator *operator, const struct own_workflow * workflow,
                                            json_t **ret_answer, struct weir_error *error)
{
    struct waited waited;
    struct bytes message = encode_describe(operator->namespace_name, workflow->workflow_id, workflow->run_id);
    if (operator_call(operator, METHOD_DESCRIBE, message, &waited) != REPLY_OK) {
        return set_request_error(&waited, workflow->workflow_id, error);
    }
    struct payloads *memo = decode_memo(operator, & waited.response);
    *ret_answer = decode_description(waited.response.data, waited.response.length, memo);
    payloads_free(memo);
    free(waited.response.data);
    return *ret_answer == NULL ? set_unreadable_answer(error) : WEIR_OK;
}

/* Gives the rest of the time to the next call. False: too little is left for one, which would end before it is sent. */
static bool has_time_left(struct temporal_operator *operator, int64_t until_us)
{
    operator->timeout_us = until_us - clock_boot(operator->clock);
    return operator->timeout_us> LEAST_CALL_US;
}

/* Where no worker answers, the service resets the call when its time is over. */
static enum weir_status request_query(struct temporal_operator *operator, const struct temporal_question * question,
                                      const struct own_workflow *workflow, const struct payloads *input,
                                      json_t **ret_answer, struct weir_error *error)
{
    struct waited waited;
    struct payloads *result = NULL;
    int64_t until_us = time_add(clock_boot(operator->clock), operator->timeout_us);
    struct bytes message = encode_query(operator->namespace_name, &workflow->name, question->name, input);
    enum reply_kind reply = operator_call(operator, METHOD_QUERY, message, &waited);
    if (reply != REPLY_OK && waited.is_lost && !has_time_left(operator, until_us)) {
        error_set(error, WEIR_TIMED_OUT, "the query was not answered in the time that was given");
        error_hint(error, "a worker answers it: `weir why %s` shows whether one polls its task queue",
                   question->execution->id);
        return WEIR_TIMED_OUT;
    }
    if (reply != REPLY_OK) {
        return set_request_error(&waited, workflow->workflow_id, error);
    }
    enum weir_status status = decode_query(waited.response.data, waited.response.length, &result);
    free(waited.response.data);
    return status == WEIR_OK ? operator_decode(operator, result, ret_answer, error) : set_unreadable_answer(error);
}

/* The service answers after some seconds that it has accepted the update, and the request is repeated until its end. After
 * a lost answer it is repeated, too. */
static enum weir_status request_update(struct temporal_operator *operator, const struct temporal_question * question,
                                       const struct own_workflow *workflow, const struct payloads *input,
                                       json_t **ret_answer, struct weir_error *error)
{
    int64_t until_us = time_add(clock_boot(operator->clock), operator->timeout_us);
    for (;;) {
        struct waited waited;
        struct update_answer answer;
        struct update_message sent = {.namespace_name = operator->namespace_name,
                                      .workflow = {workflow->workflow_id, workflow->first_run_id, NULL},
                                      .update_id = question->request_id,
                                      .identity = OPERATOR_IDENTITY,
                                      .name = question->name,
                                      .input = input};
        enum reply_kind reply = operator_call(operator, METHOD_UPDATE, encode_update(&sent), &waited);
        enum weir_status status =
            reply == REPLY_OK ? decode_update(waited.response.data, waited.response.length, &answer) : WEIR_OK;
        free(waited.response.data);
        if (status != WEIR_OK) {
            return set_unreadable_answer(error);
        }
        if (reply != REPLY_OK && !waited.is_lost) {
            return set_request_error(&waited, workflow->workflow_id, error);
        }
        if (reply == REPLY_OK && answer.failure != NULL) {
            status = error_set(error, WEIR_FAILED, "the workflow refused or failed the update: %s", answer.failure);
            free(answer.failure);
            return status;
        }
        if (reply == REPLY_OK && answer.result != NULL) {
            return operator_decode(operator, answer.result, ret_answer, error);
        }
        if (!has_time_left(operator, until_us)) {
            error_set(error, WEIR_TIMED_OUT, "the update has not ended yet");
            error_hint(error, "the update may go on in the workflow: wait longer with --timeout");
            return WEIR_TIMED_OUT;
        }
    }
}

enum weir_status temporal_request(struct temporal_operator *operator, const struct temporal_question * question,
                                  json_t **ret_answer, struct weir_error *error)
{
    INVARIANT(operator!= NULL && question != NULL && question->execution != NULL && ret_answer != NULL);
    struct own_workflow workflow;
    struct payloads *input = NULL;
    enum weir_status status = operator_find_own(operator, question->execution, &workflow, error);
    status = status == WEIR_OK ? operator_encode(operator, question->input, &input, error) : status;
    if (status != WEIR_OK) {
        return status;
    }
    switch (question->kind) {
    case QUESTION_DESCRIBE:
        status = request_description(operator, & workflow, ret_answer, error);
        break;
    case QUESTION_QUERY:
        status = request_query(operator, question, &workflow, input, ret_answer, error);
        break;
    case QUESTION_UPDATE:
        status = request_update(operator, question, &workflow, input, ret_answer, error);
        break;
    }
    payloads_free(input);
    return status;
}
