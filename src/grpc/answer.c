/* One answer of a server: it takes decoded header fields, body bytes and trailers, and judges the end. Called by session.c
 * in the thread of the client.
 *
 *   1. Fields: :status, content-type, grpc-status, grpc-message and grpc-status-details-bin count; others cost header bytes
 * only.
 *   2. End of the headers: without content type application/grpc a proxy or another server has answered.
 *   3. Body: five bytes of prefix, then the message. Memory grows with bytes that have arrived, at most twofold, never with
 *      the announced length alone.
 *   4. End: a grpc-status decides. Without one, or with a broken message, the outcome is GRPC_UNKNOWN.
 *
 * The first fault ends the call and stays. Nothing here may trust a length, a number or a text of the peer.
 */
#include "grpc/answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum { BODY_FIRST_BYTES = 512 };

void grpc_answer_init(struct answer *answer, struct answer_limits *limits)
{
    *answer = (struct answer){.limits = limits};
}

void grpc_answer_close(struct answer *answer)
{
    INVARIANT(answer->limits->arriving_bytes >= answer->body_capacity);
    answer->limits->arriving_bytes -= answer->body_capacity;
    free(answer->message);
    free(answer->details);
    free(answer->body);
    grpc_answer_init(answer, answer->limits);
}

/* The caller ends the call; the fault decides its result. */
static bool set_fault(struct answer *answer, enum grpc_cause cause, const char *text)
{
    answer->fault = cause;
    answer->fault_text = text;
    return false;
}

/* --- header fields --- */

static bool field_is(const char *name, size_t length, const char *wanted)
{
    return strlen(wanted) == length && memcmp(name, wanted, length) == 0;
}

static bool take_http_status(struct answer *answer, const char *value, size_t length)
{
    int status = 0;
    for (size_t i = 0; i < length && i < 3; i++) {
        if (value[i] < '0' || value[i] > '9') {
            return set_fault(answer, GRPC_CAUSE_BAD_ANSWER, "its :status is no number");
        }
        status = status * 10 + value[i] - '0';
    }
    answer->http_status = status;
    return true;
}

static void take_content_type(struct answer *answer, const char *value, size_t length)
{
    static const char wanted[] = "application/grpc";
    size_t prefix = sizeof wanted - 1;
    /* "application/grpc-web" is something else. */
    answer->is_grpc = length >= prefix && memcmp(value, wanted, prefix) == 0 &&
                      (length == prefix || value[prefix] == '+' || value[prefix] == ';');
    size_t kept = length < sizeof answer->content_type - 1 ? length : sizeof answer->content_type - 1;
    memcpy(answer->content_type, value, kept);
    answer->content_type[kept] = '\0';
}

static bool take_message(struct answer *answer, const char *value, size_t length)
{
    char *message = malloc(length + 1);
    if (message == NULL) {
        return set_fault(answer, GRPC_CAUSE_OUT_OF_MEMORY, "out of memory");
    }
    memcpy(message, value, length);
    message[length] = '\0';
    grpc_message_decode(message);
    free(answer->message);
    answer->message = message;
    return true;
}

static bool take_details(struct answer *answer, const char *value, size_t length)
{
    uint8_t *details = malloc(length / 4 * 3 + 3);
    size_t details_length = 0;
    if (details == NULL) {
        return set_fault(answer, GRPC_CAUSE_OUT_OF_MEMORY, "out of memory");
    }
    /* Details only explain: a status with details that cannot be read is still a status. */
    if (!grpc_base64_decode(value, length, details, &details_length)) {
        free(details);
        return true;
    }
    free(answer->details);
    answer->details = details;
    answer->details_length = details_length;
    return true;
}

bool grpc_answer_take_field(struct answer *answer, const char *name, size_t name_length, const char *value,
                            size_t value_length)
{
    INVARIANT(answer->limits != NULL);
    answer->header_bytes += name_length + value_length + 32; /* the overhead that RFC 9113, 6.5.2 counts */
    if (answer->header_bytes > GRPC_ANSWER_HEADER_BYTES_MAX) {
        return set_fault(answer, GRPC_CAUSE_ANSWER_TOO_LARGE, "its headers are larger than 64 KiB");
    }
    if (field_is(name, name_length, ":status")) {
        return take_http_status(answer, value, value_length);
    }
    if (field_is(name, name_length, "content-type")) {
        take_content_type(answer, value, value_length);
    } else if (field_is(name, name_length, "grpc-status")) {
        answer->has_code = true;
        answer->code = grpc_status_read(value, value_length);
    } else if (field_is(name, name_length, "grpc-message")) {
        return take_message(answer, value, value_length);
    } else if (field_is(name, name_length, "grpc-status-details-bin")) {
        return take_details(answer, value, value_length);
    }
    return true;
}

bool grpc_answer_take_headers_end(struct answer *answer)
{
    if (answer->has_headers) {
        return true; /* trailers */
    }
    if (answer->http_status < 200) {
        answer->is_grpc = answer->has_code = false; /* 1xx: the final headers follow, and replace this block */
        return true;
    }
    answer->has_headers = true;
    if (!answer->is_grpc) {
        return answer->http_status != 200
                   ? set_fault(answer, GRPC_CAUSE_HTTP_STATUS, NULL)
                   : set_fault(answer, GRPC_CAUSE_BAD_ANSWER, "its content type is not application/grpc");
    }
    return answer->http_status == 200 || answer->has_code || set_fault(answer, GRPC_CAUSE_HTTP_STATUS, NULL);
}

/* --- the message --- */

static bool take_prefix(struct answer *answer)
{
    if (answer->prefix[0] != 0) {
        return set_fault(answer, GRPC_CAUSE_BAD_ANSWER, "its message is compressed, which was not asked for");
    }
    answer->announced = (size_t)answer->prefix[1] << 24 | (size_t)answer->prefix[2] << 16 | (size_t)answer->prefix[3] << 8 |
                        answer->prefix[4];
    if (answer->announced > answer->limits->message_bytes_max) {
        return set_fault(answer, GRPC_CAUSE_ANSWER_TOO_LARGE, "its message is larger than response_bytes_max");
    }
    return true;
}

/* At most doubles: an announced length alone must not cost memory. */
static bool reserve_body(struct answer *answer, size_t wanted)
{
    if (wanted <= answer->body_capacity) {
        return true;
    }
    size_t capacity = answer->body_capacity * 2 > BODY_FIRST_BYTES ? answer->body_capacity * 2 : BODY_FIRST_BYTES;
    capacity = capacity < wanted ? wanted : capacity;
    capacity = capacity > answer->announced ? answer->announced : capacity;
    size_t more = capacity - answer->body_capacity;
    if (more > answer->limits->arriving_bytes_max - answer->limits->arriving_bytes) {
        return set_fault(answer, GRPC_CAUSE_ANSWER_TOO_LARGE,
                         "the answers that arrive together are larger than answers_bytes_max");
    }
    uint8_t *body = realloc(answer->body, capacity);
    if (body == NULL) {
        return set_fault(answer, GRPC_CAUSE_OUT_OF_MEMORY, "out of memory");
    }
    answer->body = body;
    answer->body_capacity = capacity;
    answer->limits->arriving_bytes += more;
    return true;
}

bool grpc_answer_take_body(struct answer *answer, const uint8_t *bytes, size_t length)
{
    while (length > 0) {
        if (answer->prefix_length < GRPC_PREFIX_BYTES) {
            answer->prefix[answer->prefix_length++] = *bytes++;
            length--;
            if (answer->prefix_length == GRPC_PREFIX_BYTES && !take_prefix(answer)) {
                return false;
            }
            continue;
        }
        if (length > answer->announced - answer->body_length) {
            return set_fault(answer, GRPC_CAUSE_BAD_ANSWER, "bytes follow its message");
        }
        if (!reserve_body(answer, answer->body_length + length)) {
            return false;
        }
        memcpy(answer->body + answer->body_length, bytes, length);
        answer->body_length += length;
        length = 0;
    }
    return true;
}

/* --- judging --- */

static const char *http_hint(int status)
{
    switch (status) {
    case 401:
    case 403:
    case 407:
        return "a proxy in front of the server requires other credentials; check the API key and the client certificate";
    case 404:
    case 405:
    case 415:
        return "check that the address is that of the gRPC port, and that a proxy in front passes gRPC on";
    case 429:
        return "a proxy in front of the server limits the rate; lower the rate or raise its limit";
    case 502:
    case 503:
    case 504:
        return "a proxy in front of the server cannot reach it; check that the server runs";
    default:
        return "read the logs of the proxy in front of the server";
    }
}

static void judge_fault(const struct answer *answer, struct weir_error *error)
{
    switch (answer->fault) {
    case GRPC_CAUSE_HTTP_STATUS:
        (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "the answer is HTTP status %d instead of gRPC",
                        answer->http_status);
        error_hint(error, "%s", http_hint(answer->http_status));
        break;
    case GRPC_CAUSE_OUT_OF_MEMORY:
        (void)error_out_of_memory(error);
        break;
    case GRPC_CAUSE_ANSWER_TOO_LARGE:
        (void)error_set(error, WEIR_FAILED, "the answer is too large: %s", answer->fault_text);
        error_hint(error, "ask for less at a time, or raise the limit");
        break;
    default:
        (void)error_set(error, WEIR_FAILED, "the answer is not valid gRPC: %s%s%s", answer->fault_text,
                        answer->is_grpc ? "" : ", but ", answer->is_grpc ? "" : answer->content_type);
        error_hint(error, "check that the address is that of a gRPC server");
        break;
    }
}

/* The prefix has arrived, and exactly as many bytes as it announces. */
static bool has_whole_message(const struct answer *answer)
{
    return answer->prefix_length == GRPC_PREFIX_BYTES && answer->body_length == answer->announced;
}

/* The order matters: a fault first, then a missing or impossible status, then a broken message of an OK. */
static enum grpc_cause judge_end(const struct answer *answer, struct weir_error *error)
{
    if (answer->fault != GRPC_CAUSE_NONE) {
        judge_fault(answer, error);
        return answer->fault;
    }
    if (!answer->has_code) {
        (void)error_set(error, WEIR_FAILED, "the answer ended without a grpc-status");
        error_hint(error, "a proxy that drops trailers, or a server that was stopped, does this");
        return GRPC_CAUSE_NO_STATUS;
    }
    if (answer->code < 0) {
        (void)error_set(error, WEIR_FAILED, "the answer's grpc-status is no code of gRPC");
        return GRPC_CAUSE_BAD_ANSWER;
    }
    if (answer->code == GRPC_OK && (!has_whole_message(answer) || answer->http_status != 200)) {
        (void)error_set(error, WEIR_FAILED, "the answer has grpc-status OK but %s",
                        answer->http_status != 200 ? "its HTTP status is an error" : "its message is not complete");
        return GRPC_CAUSE_BAD_ANSWER;
    }
    return GRPC_CAUSE_NONE;
}

void grpc_answer_judge(const struct answer *answer, struct grpc_result *result, struct weir_error *error)
{
    INVARIANT(result != NULL && error != NULL);
    result->http_status = answer->http_status;
    result->cause = judge_end(answer, error);
    result->outcome = result->cause == GRPC_CAUSE_NONE ? GRPC_STATUS : GRPC_UNKNOWN;
    if (result->outcome != GRPC_STATUS) {
        return;
    }
    result->code = answer->code;
    result->message = answer->message != NULL ? answer->message : "";
    result->details = answer->details;
    result->details_length = answer->details_length;
    if (answer->code == GRPC_OK) {
        result->response = answer->body != NULL ? answer->body : (const uint8_t *)"";
        result->response_length = answer->body_length;
    }
}
