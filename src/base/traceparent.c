/* Reads and writes trace contexts, and computes the ids of spans.
 *
 * The id of a span is the FNV-1a hash of execution id and place, mixed once more so that near places have far ids. Two
 * spans of one trace are equal by chance once in 2^64 pairs. An id of zeros is invalid, so it becomes 1.
 */
#include "base/traceparent.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

/* Digits of the trace id that decide about sampling: 13, since a double holds integers of 53 bits. */
enum { SAMPLED_DIGITS = 13, PLACE_BYTES = 512 };

/* Whether the text begins with `length` lower-case hexadecimal digits. */
static bool has_digits(const char *text, size_t length)
{
    return strspn(text, "0123456789abcdef") >= length;
}

bool traceparent_parse(const char *text, struct trace_context *ret_context)
{
    INVARIANT(text != NULL && ret_context != NULL);
    if (strnlen(text, TRACEPARENT_SIZE) != TRACEPARENT_LENGTH || strncmp(text, "00-", 3) != 0) {
        return false;
    }
    const char *trace = text + 3;
    const char *span = trace + TRACE_ID_LENGTH + 1;
    const char *flags = span + SPAN_ID_LENGTH + 1;
    if (!has_digits(trace, TRACE_ID_LENGTH) || !has_digits(span, SPAN_ID_LENGTH) || !has_digits(flags, 2) ||
        span[-1] != '-' || flags[-1] != '-' || strspn(trace, "0") >= TRACE_ID_LENGTH ||
        strspn(span, "0") >= SPAN_ID_LENGTH) {
        return false;
    }
    *ret_context = (struct trace_context){.sampled = strchr("13579bdf", flags[1]) != NULL};
    memcpy(ret_context->trace_id, trace, TRACE_ID_LENGTH);
    memcpy(ret_context->span_id, span, SPAN_ID_LENGTH);
    return true;
}

enum weir_status traceparent_check(const char *text, struct weir_error *error)
{
    struct trace_context context;
    if (traceparent_parse(text, &context)) {
        return WEIR_OK;
    }
    char shown[TRACEPARENT_SIZE + 1];
    text_copy(shown, sizeof shown, text);
    text_make_safe(shown);
    error_set(error, WEIR_INVALID_ARGUMENT, "\"%s%s\" is no traceparent of version 00", shown,
              strlen(text) > TRACEPARENT_SIZE ? "..." : "");
    error_hint(error, "for example 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    return WEIR_INVALID_ARGUMENT;
}

void traceparent_write(const struct trace_context *context, char to[TRACEPARENT_SIZE])
{
    INVARIANT(context != NULL && context->span_id[0] != '\0');
    (void)snprintf(to, TRACEPARENT_SIZE, "00-%s-%s-%s", context->trace_id, context->span_id,
                   context->sampled ? "01" : "00");
}

/* The digits of an execution id, without its hyphens. */
static void write_trace_id(const char *execution_id, char to[TRACE_ID_LENGTH + 1])
{
    size_t length = 0;
    for (const char *at = execution_id; *at != '\0' && length < TRACE_ID_LENGTH; at++) {
        if (*at != '-') {
            to[length++] = *at;
        }
    }
    to[length] = '\0';
}

void traceparent_of_execution(const char *execution_id, const char *traceparent, double ratio,
                              struct trace_context *ret_context)
{
    INVARIANT(execution_id != NULL && ret_context != NULL);
    if (traceparent != NULL && traceparent_parse(traceparent, ret_context)) {
        return;
    }
    *ret_context = (struct trace_context){.sampled = false};
    write_trace_id(execution_id, ret_context->trace_id);
    const char *last = ret_context->trace_id + TRACE_ID_LENGTH - SAMPLED_DIGITS;
    ret_context->sampled = (double)strtoull(last, NULL, 16) < ratio * (double)(UINT64_C(1) << 4 * SAMPLED_DIGITS);
}

void span_id_make(const char *execution_id, const char *place, char to[SPAN_ID_LENGTH + 1])
{
    char text[PLACE_BYTES];
    INVARIANT(execution_id != NULL && place != NULL);
    (void)snprintf(text, sizeof text, "%s/%s", execution_id, place);
    uint64_t hash = text_hash(text);
    hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
    hash ^= hash >> 32;
    (void)snprintf(to, SPAN_ID_LENGTH + 1, "%016" PRIx64, hash == 0 ? 1 : hash);
}

void span_id_of_step(const char *execution_id, const char *step, int attempt, char to[SPAN_ID_LENGTH + 1])
{
    char place[PLACE_BYTES];
    (void)snprintf(place, sizeof place, "step/%s/%d", step, attempt);
    span_id_make(execution_id, place, to);
}
