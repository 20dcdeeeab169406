/* The HTTP/2 side of a connection: the callbacks of nghttp2, and the meaning of each frame for a call. Called from inside
 * connection.c, in the thread of the client.
 *
 *   frame                        meaning for its call
 *   HEADERS, DATA                a part of the answer (answer.c); END_STREAM ends the call by it
 *   RST_STREAM REFUSED_STREAM    not processed: sent again up to GRPC_RESENDS_MAX times, then GRPC_REFUSED
 *   RST_STREAM NO_ERROR          after a full status: an answer, as some servers end early
 *   RST_STREAM, any other        GRPC_UNKNOWN
 *   GOAWAY                       no new call; nghttp2 closes the streams above the last one as refused
 *   SETTINGS                     the first one opens the connection
 *
 * Each control frame costs a token of a budget (CONTROL_FRAMES_*), which time and calls refill. A peer that floods us with
 * frames empties it and loses the connection. Nothing here may touch a call after it was detached: the stream of a detached
 * call has no user data, so late frames find no call.
 */
#include "grpc/session.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "grpc/framing.h"

enum {
    STREAM_WINDOW_BYTES = 4 * 1024 * 1024, /* the default of 64 KiB stalls answers of some size */
    CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024,
    OUTBOUND_ACKNOWLEDGEMENTS_MAX = 256, /* a peer that does not read the acknowledgements of its frames */
    SETTINGS_ENTRIES_MAX = 32,
    FIELDS_MAX = 9 + 2 * GRPC_HEADERS_MAX,
    /* A server that works sends a PING, a WINDOW_UPDATE and two HEADERS for each call; more than that has a rate. */
    CONTROL_FRAMES_BURST = 2000,
    CONTROL_FRAMES_PER_SECOND = 1000,
    CONTROL_FRAMES_PER_CALL = 8
};

/* --- calls and streams --- */

/* NULL for the connection itself, and for a stream whose call has ended. */
static struct call *call_of(const struct connection *connection, int32_t stream_id)
{
    return stream_id == 0 ? NULL : nghttp2_session_get_stream_user_data(connection->session, stream_id);
}

void grpc_session_detach(struct connection *connection, struct call *call)
{
    INVARIANT(connection->call_count > 0 && call->connection == connection);
    *(call->previous_on_connection != NULL ? &call->previous_on_connection->next_on_connection : &connection->calls) =
        call->next_on_connection;
    if (call->next_on_connection != NULL) {
        call->next_on_connection->previous_on_connection = call->previous_on_connection;
    }
    call->next_on_connection = call->previous_on_connection = NULL;
    connection->call_count--;
    connection->frames_left += CONTROL_FRAMES_PER_CALL;
    (void)nghttp2_session_set_stream_user_data(connection->session, call->stream_id, NULL);
}

/* The answer is complete or faulty. A stream that goes on is reset, because no more of it is needed. */
static void end_by_answer(struct connection *connection, struct call *call, bool stream_goes_on)
{
    bool request_is_out = call->body_sent == GRPC_PREFIX_BYTES + call->message_length;
    if (stream_goes_on || !request_is_out) {
        (void)nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, call->stream_id, NGHTTP2_CANCEL);
    }
    grpc_session_detach(connection, call);
    grpc_call_finish_by_answer(connection->table, call);
    connection->answered += call->result.outcome == GRPC_STATUS && !call->is_pinned; /* an examination is no use of it */
}

/* REFUSED_STREAM proves that the server did not process the call, so it may be sent again. */
static void end_by_refusal(struct connection *connection, struct call *call)
{
    grpc_session_detach(connection, call);
    call->was_refused = true;
    if (call->resends < GRPC_RESENDS_MAX && !call->is_pinned) {
        call->resends++;
        connection->table->resent++;
        grpc_call_wait_again(connection->table, call);
        return;
    }
    struct weir_error error;
    (void)error_set(&error, WEIR_ENGINE_UNREACHABLE, "%s refused the call %d times without processing it",
                    connection->address.text, call->resends + 1);
    error_hint(&error, "the server is overloaded or stops; it is safe to send the call again later");
    grpc_call_finish(connection->table, call, GRPC_REFUSED, GRPC_CAUSE_STREAM_REFUSED, &error);
}

static void end_by_reset(struct connection *connection, struct call *call, uint32_t code)
{
    struct weir_error error;
    enum grpc_cause cause = call->was_reset ? GRPC_CAUSE_STREAM_RESET : GRPC_CAUSE_BAD_ANSWER;
    if (call->was_reset) {
        (void)error_set_native(&error, WEIR_ENGINE_UNREACHABLE, (int)code, "%s reset the call: %s",
                               connection->address.text, nghttp2_http2_strerror(code));
        error_hint(&error, "it may have been carried out; the server's logs may show more");
    } else {
        (void)error_set_native(&error, WEIR_FAILED, (int)code, "the answer of %s breaks the rules of HTTP/2",
                               connection->address.text);
        error_hint(&error, "check that the address is that of a gRPC server, and the proxy in front of it");
    }
    grpc_session_detach(connection, call);
    grpc_call_finish(connection->table, call, GRPC_UNKNOWN, cause, &error);
}

/* --- input --- */

/* Counts control frames; DATA with content is free of charge, since limits on answers bound it. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *header, void *context)
{
    (void)session;
    struct connection *connection = context;
    if (header->type == NGHTTP2_DATA && header->length > 0) {
        return 0;
    }
    if (--connection->frames_left < 0) {
        connection->flooded = true;
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    return 0;
}

static int on_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                    const uint8_t *value, size_t value_length, uint8_t flags, void *context)
{
    (void)session;
    (void)flags;
    struct connection *connection = context;
    struct call *call = call_of(connection, frame->hd.stream_id);
    if (call != NULL &&
        !grpc_answer_take_field(&call->answer, (const char *)name, name_length, (const char *)value, value_length)) {
        end_by_answer(connection, call, true);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes, size_t length,
                   void *context)
{
    (void)session;
    (void)flags;
    struct connection *connection = context;
    struct call *call = call_of(connection, stream_id);
    if (call != NULL && !grpc_answer_take_body(&call->answer, bytes, length)) {
        end_by_answer(connection, call, true);
    }
    return 0;
}

static void take_stream_frame(struct connection *connection, const nghttp2_frame *frame)
{
    struct call *call = call_of(connection, frame->hd.stream_id);
    if (call == NULL) {
        return;
    }
    bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        call->was_reset = true;
        call->reset_code = frame->rst_stream.error_code;
    } else if (frame->hd.type == NGHTTP2_HEADERS && !grpc_answer_take_headers_end(&call->answer)) {
        end_by_answer(connection, call, !ends);
    } else if (ends) {
        end_by_answer(connection, call, false);
    }
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    (void)session;
    struct connection *connection = context;
    bool acknowledges = (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0;
    switch (frame->hd.type) {
    case NGHTTP2_SETTINGS:
        if (!acknowledges && connection->state == CONNECTION_GREETING) {
            connection->state = CONNECTION_OPEN;
            connection->opened_us = connection->now_us;
        }
        break;
    case NGHTTP2_PING:
        connection->ping_us = acknowledges ? TIME_NEVER : connection->ping_us;
        break;
    case NGHTTP2_GOAWAY:
        connection->got_goaway = true;
        connection->was_asked_to_calm |= frame->goaway.error_code == NGHTTP2_ENHANCE_YOUR_CALM;
        if (connection->state == CONNECTION_OPEN || connection->state == CONNECTION_GREETING) {
            connection->state = CONNECTION_DRAINING;
        }
        break;
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
    case NGHTTP2_RST_STREAM:
        take_stream_frame(connection, frame);
        break;
    default:
        break;
    }
    return 0;
}

/* The last event of a stream, also after a GOAWAY of the peer and after our own reset. */
static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *context)
{
    (void)session;
    struct connection *connection = context;
    struct call *call = call_of(connection, stream_id);
    if (call == NULL) {
        return 0;
    }
    bool answered = call->answer.http_status != 0;
    if (call->written_at == CALL_NOT_WRITTEN) {
        grpc_session_detach(connection, call);
        grpc_call_wait_again(connection->table, call);
    } else if (code == NGHTTP2_REFUSED_STREAM && !answered) {
        end_by_refusal(connection, call);
    } else if (code == NGHTTP2_NO_ERROR && call->answer.has_headers && call->answer.has_code) {
        /* Some servers answer an error with one block of headers and a reset in place of END_STREAM. */
        end_by_answer(connection, call, false);
    } else {
        end_by_reset(connection, call, code);
    }
    return 0;
}

/* --- output --- */

/* Notes the place of a call in the output: from here on the call may leave. */
static int before_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    (void)session;
    struct connection *connection = context;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        connection->goaway_sent = frame->goaway.error_code;
    } else if (frame->hd.type == NGHTTP2_HEADERS) {
        struct call *call = call_of(connection, frame->hd.stream_id);
        if (call != NULL) {
            call->written_at = connection->output_total;
            call->sent_us = call->sent_us == TIME_NEVER ? connection->now_us : call->sent_us;
            connection->unheard_us = connection->unheard_us == TIME_NEVER ? connection->now_us : connection->unheard_us;
        }
    }
    return 0;
}

/* Hands nghttp2 the five bytes of the prefix, then the message. */
static ssize_t read_body(nghttp2_session *session, int32_t stream_id, uint8_t *to, size_t size, uint32_t *flags,
                         nghttp2_data_source *source, void *context)
{
    (void)session;
    (void)source;
    struct call *call = call_of(context, stream_id);
    if (call == NULL) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* the call has ended: a reset of its stream is under way */
    }
    size_t total = GRPC_PREFIX_BYTES + call->message_length;
    size_t used = 0;
    if (call->body_sent < GRPC_PREFIX_BYTES) {
        uint8_t prefix[GRPC_PREFIX_BYTES];
        grpc_prefix_write(prefix, call->message_length);
        used = GRPC_PREFIX_BYTES - call->body_sent;
        used = used < size ? used : size;
        memcpy(to, prefix + call->body_sent, used);
        call->body_sent += used;
    }
    if (call->body_sent >= GRPC_PREFIX_BYTES) {
        size_t left = total - call->body_sent;
        size_t part = left < size - used ? left : size - used;
        memcpy(to + used, call->message + (call->body_sent - GRPC_PREFIX_BYTES), part);
        call->body_sent += part;
        used += part;
    }
    if (call->body_sent == total) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)used;
}

/* --- requests --- */

struct fields {
    nghttp2_nv list[FIELDS_MAX];
    size_t count;
};

/* nghttp2 copies the values; the names are static or the caller's and outlive the call of submit(). */
static void add_field(struct fields *fields, const char *name, const char *value, uint8_t flags)
{
    INVARIANT(fields->count < FIELDS_MAX);
    fields->list[fields->count++] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                                                 .value = (uint8_t *)(uintptr_t)value,
                                                 .namelen = strlen(name),
                                                 .valuelen = strlen(value),
                                                 .flags = flags};
}

static void add_headers(struct fields *fields, const struct grpc_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool secret = headers[i].secret || strncmp(headers[i].name, "authorization", 13) == 0;
        add_field(fields, headers[i].name, headers[i].value, secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE);
    }
}

int32_t grpc_session_submit(struct connection *connection, const struct call *call)
{
    INVARIANT(connection->state == CONNECTION_OPEN && call->state == CALL_WAITING);
    char timeout[GRPC_TIMEOUT_TEXT_MAX];
    struct fields fields = {.count = 0};
    nghttp2_data_provider body = {.read_callback = read_body};
    grpc_timeout_write(call->deadline_us - connection->now_us, timeout);
    add_field(&fields, ":method", "POST", NGHTTP2_NV_FLAG_NONE);
    add_field(&fields, ":scheme", connection->scheme, NGHTTP2_NV_FLAG_NONE);
    add_field(&fields, ":path", call->path, NGHTTP2_NV_FLAG_NONE);
    add_field(&fields, ":authority", connection->authority, NGHTTP2_NV_FLAG_NONE);
    add_field(&fields, "te", "trailers", NGHTTP2_NV_FLAG_NONE);
    add_field(&fields, "grpc-timeout", timeout,
              NGHTTP2_NV_FLAG_NO_INDEX); /* differs each time: not worth a place in the compression table */
    add_field(&fields, "content-type", "application/grpc", NGHTTP2_NV_FLAG_NONE);
    add_field(&fields, "user-agent", connection->settings->user_agent, NGHTTP2_NV_FLAG_NONE);
    if (connection->authorization != NULL) {
        add_field(&fields, "authorization", connection->authorization, NGHTTP2_NV_FLAG_NO_INDEX);
    }
    add_headers(&fields, connection->settings->headers, connection->settings->header_count);
    add_headers(&fields, call->headers, call->header_count);
    return nghttp2_submit_request(connection->session, NULL, fields.list, fields.count, &body, (void *)(uintptr_t)call);
}

/* --- the session --- */

void grpc_session_refill_frames(struct connection *connection)
{
    int64_t passed_us = connection->now_us - connection->frames_counted_us;
    if (passed_us < MICROSECONDS_PER_MS) {
        return;
    }
    passed_us = passed_us < 10 * MICROSECONDS_PER_SECOND ? passed_us : 10 * MICROSECONDS_PER_SECOND;
    int64_t filled = connection->frames_left + passed_us * CONTROL_FRAMES_PER_SECOND / MICROSECONDS_PER_SECOND;
    connection->frames_left = filled < CONTROL_FRAMES_BURST ? filled : CONTROL_FRAMES_BURST;
    connection->frames_counted_us = connection->now_us;
}

static int make_session(struct connection *connection)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    int failed = nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0;
    if (!failed) {
        nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_field);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
        nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, before_frame_send);
        nghttp2_option_set_max_outbound_ack(option, OUTBOUND_ACKNOWLEDGEMENTS_MAX);
        nghttp2_option_set_max_settings(option, SETTINGS_ENTRIES_MAX);
        nghttp2_option_set_max_reserved_remote_streams(option, 0);
        nghttp2_option_set_no_closed_streams(option, 1);
        failed = nghttp2_session_client_new2(&connection->session, callbacks, connection, option);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return failed;
}

bool grpc_session_open(struct connection *connection)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0}, /* of pushes */
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_ANSWER_HEADER_BYTES_MAX},
    };
    connection->frames_left = CONTROL_FRAMES_BURST;
    connection->frames_counted_us = connection->now_us;
    return make_session(connection) == 0 &&
           nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof settings[0]) == 0 &&
           nghttp2_session_set_local_window_size(connection->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW_BYTES) == 0;
}
