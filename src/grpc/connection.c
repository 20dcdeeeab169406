#include "grpc/connection.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "grpc/session.h"

enum {
    OUTPUT_BYTES = 64 * 1024,
    FRAME_ROOM_BYTES = 20 * 1024, /* nghttp2 hands out at most one frame of 16 KiB at a time */
    READ_BYTES = 16 * 1024,
    READS_PER_STEP = 16, /* so that one connection does not starve the others */
    STREAMS_MAX = 100000 /* a server that names no limit still gets no more */
};

/* --- making and freeing --- */

static struct connection *make(const struct connection_settings *settings, struct call_book *book, enum grpc_class class,
                               const char *authorization, int64_t now_us)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        return NULL;
    }
    connection->settings = settings;
    connection->book = book;
    connection->class = class;
    connection->scheme = "http";
    connection->transport.fd = -1;
    connection->now_us = connection->born_us = connection->read_us = now_us;
    connection->opened_us = TIME_NEVER;
    connection->ping_us = TIME_NEVER;
    connection->pinged_us = TIME_NEVER;
    connection->unheard_us = TIME_NEVER;
    connection->give_up_us = TIME_NEVER;
    connection->patience_us = GRPC_UNHEARD_US;
    connection->output = malloc(OUTPUT_BYTES);
    connection->authorization = authorization != NULL ? strdup(authorization) : NULL;
    if (connection->output == NULL || (authorization != NULL && connection->authorization == NULL) ||
        !grpc_session_open(connection)) {
        grpc_connection_free(connection);
        return NULL;
    }
    return connection;
}

struct connection *grpc_connection_dial(const struct connection_settings *settings, struct call_book *book,
                                        enum grpc_class class, const struct address *address, const char *authority,
                                        SSL_CTX *context, const char *server_name, const char *authorization,
                                        int64_t now_us, enum grpc_cause *ret_cause, struct weir_error *error)
{
    struct connection *connection = make(settings, book, class, authorization, now_us);
    if (connection == NULL) {
        *ret_cause = GRPC_CAUSE_OUT_OF_MEMORY;
        (void)error_out_of_memory(error);
        return NULL;
    }
    int64_t silence_ms = (settings->keepalive_us + settings->keepalive_timeout_us) / MICROSECONDS_PER_MS;
    connection->address = *address;
    connection->scheme = context != NULL ? "https" : "http";
    text_copy(connection->authority, sizeof connection->authority, authority);
    if (grpc_transport_open(&connection->transport, address, context, server_name,
                            silence_ms < 3600 * 1000 ? (unsigned)silence_ms : 3600 * 1000, error) != WEIR_OK) {
        *ret_cause = GRPC_CAUSE_CONNECT;
        error_prefix(error, "cannot connect to %s", address->text);
        grpc_connection_free(connection);
        return NULL;
    }
    return connection;
}

struct connection *grpc_connection_adopt(const struct connection_settings *settings, struct call_book *book,
                                         enum grpc_class class, int fd, int64_t now_us)
{
    struct connection *connection = make(settings, book, class, NULL, now_us);
    if (connection != NULL) {
        grpc_transport_adopt(&connection->transport, fd);
        text_copy(connection->address.text, sizeof connection->address.text, "test");
        text_copy(connection->authority, sizeof connection->authority, "test");
        connection->state = CONNECTION_GREETING;
    }
    return connection;
}

void grpc_connection_free(struct connection *connection)
{
    INVARIANT(connection->call_count == 0);
    if (connection->transport.fd >= 0) {
        grpc_transport_close(&connection->transport);
    }
    if (connection->authorization != NULL) {
        explicit_bzero(connection->authorization, strlen(connection->authorization));
    }
    nghttp2_session_del(connection->session);
    free(connection->authorization);
    free(connection->output);
    free(connection);
}

/* --- the end --- */

void grpc_connection_end(struct connection *connection, enum grpc_cause cause, const struct weir_error *error)
{
    if (connection->state == CONNECTION_DEAD) {
        return;
    }
    while (connection->calls != NULL) {
        struct call *call = connection->calls;
        bool left = call->written_at != CALL_NOT_WRITTEN && connection->handed_over > call->written_at;
        grpc_session_detach(connection, call);
        if (left) {
            grpc_call_finish(connection->book, call, GRPC_UNKNOWN, cause, error);
        } else {
            grpc_call_wait_again(connection->book, call);
        }
    }
    connection->state = CONNECTION_DEAD;
    connection->cause = cause;
    connection->error = *error;
    connection->output_start = connection->output_end = 0;
    grpc_transport_close(&connection->transport);
}

static void end_by_transport(struct connection *connection, struct weir_error *error)
{
    bool open = connection->state >= CONNECTION_OPEN;
    error_prefix(error, open ? "%s" : "cannot connect to %s", connection->address.text);
    grpc_connection_end(connection, connection->transport.cause, error);
}

/* What a peer that has not greeted us properly seems to be. */
static void describe_stranger(const struct connection *connection, struct weir_error *error)
{
    const uint8_t *bytes = connection->first_bytes;
    const char *where = connection->address.text;
    if (connection->first_bytes_count >= 4 && memcmp(bytes, "HTTP", 4) == 0) {
        (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "%s answers HTTP/1, not gRPC over HTTP/2", where);
        error_hint(error, "use the server's gRPC port (7233 by default), not that of a web page or an HTTP API");
    } else if (connection->first_bytes_count >= 2 && bytes[0] == 0x15 && bytes[1] == 0x03) {
        (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "%s requires TLS", where);
        error_hint(error, "switch TLS on for this address");
    } else if (connection->first_bytes_count == 0) {
        (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "%s closed the connection without a word", where);
        error_hint(error, connection->transport.tls == NULL
                              ? "it may want TLS, or be no gRPC server; a proxy that cannot reach its server does this, too"
                              : "it may refuse our certificate, or be no gRPC server");
    } else {
        (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "%s does not speak HTTP/2", where);
        error_hint(error, "check that host and port are those of the gRPC server");
    }
}

static void end_by_peer(struct connection *connection)
{
    struct weir_error error;
    if (connection->state <= CONNECTION_GREETING) {
        describe_stranger(connection, &error);
        grpc_connection_end(connection, connection->first_bytes_count == 0 ? GRPC_CAUSE_CONNECT : GRPC_CAUSE_NOT_HTTP2,
                            &error);
        return;
    }
    (void)error_set(&error, WEIR_ENGINE_UNREACHABLE, "%s closed the connection", connection->address.text);
    error_hint(&error, "the server, or something in between, was stopped or restarted");
    grpc_connection_end(connection, GRPC_CAUSE_CONNECTION_LOST, &error);
}

static void end_by_protocol(struct connection *connection, const char *why)
{
    struct weir_error error;
    if (connection->state <= CONNECTION_GREETING && !connection->flooded) {
        describe_stranger(connection, &error);
        grpc_connection_end(connection, GRPC_CAUSE_NOT_HTTP2, &error);
        return;
    }
    (void)error_set(&error, WEIR_ENGINE_UNREACHABLE, "%s broke the HTTP/2 protocol: %s", connection->address.text, why);
    error_hint(&error, "check what a proxy in front of the server does; the connection was ended");
    grpc_connection_end(connection, GRPC_CAUSE_PROTOCOL, &error);
}

/* After frames were read or written: whether nghttp2, or we ourselves, are done with it. */
static void end_if_done(struct connection *connection)
{
    if (connection->state == CONNECTION_DEAD || connection->output_start < connection->output_end) {
        return;
    }
    bool alive =
        nghttp2_session_want_read(connection->session) != 0 || nghttp2_session_want_write(connection->session) != 0;
    if (!alive && connection->goaway_sent != NGHTTP2_NO_ERROR) {
        end_by_protocol(connection, nghttp2_http2_strerror(connection->goaway_sent));
    } else if (!alive && connection->call_count > 0) {
        end_by_peer(connection);
    } else if (!alive) {
        struct weir_error fine = {.status = WEIR_OK};
        grpc_connection_end(connection, GRPC_CAUSE_NONE, &fine);
    }
}

/* --- writing --- */

static bool fill_output(struct connection *connection)
{
    if (connection->output_start == connection->output_end) {
        connection->output_start = connection->output_end = 0;
    }
    while (OUTPUT_BYTES - connection->output_end >= FRAME_ROOM_BYTES) {
        const uint8_t *bytes = NULL;
        ssize_t length = nghttp2_session_mem_send(connection->session, &bytes);
        if (length <= 0) {
            return length == 0;
        }
        INVARIANT((size_t)length <= OUTPUT_BYTES - connection->output_end);
        memcpy(connection->output + connection->output_end, bytes, (size_t)length);
        connection->output_end += (size_t)length;
        connection->output_total += (uint64_t)length;
    }
    return true;
}

/* False: nothing more can be written now. */
static bool write_output(struct connection *connection)
{
    struct weir_error error = {.status = WEIR_OK};
    size_t length = connection->output_end - connection->output_start;
    size_t written = 0;
    /* Part of a TLS record may leave even when the write is answered with "later". */
    uint64_t first = connection->output_total - length;
    bool tls = connection->transport.tls != NULL;
    connection->handed_over = tls ? connection->output_total : connection->handed_over;
    switch (grpc_transport_write(&connection->transport, connection->output + connection->output_start, length, &written,
                                 &error)) {
    case TRANSPORT_DONE:
        connection->output_start += written;
        connection->handed_over = tls ? connection->handed_over : first + written;
        return true;
    case TRANSPORT_WAIT:
        return false;
    case TRANSPORT_ENDED:
        end_by_peer(connection);
        return false;
    case TRANSPORT_FAILED:
        /* The peer may have said why before it closed: reading will tell, and finds the end. */
        if (connection->state > CONNECTION_GREETING || connection->transport.cause == GRPC_CAUSE_TLS) {
            end_by_transport(connection, &error);
        }
        return false;
    }
    return false;
}

void grpc_connection_flush(struct connection *connection, int64_t now_us)
{
    connection->now_us = now_us;
    while (connection->state > CONNECTION_ESTABLISHING && connection->state < CONNECTION_DEAD) {
        if (connection->state == CONNECTION_DRAINING && connection->call_count == 0 && !connection->is_given_up) {
            (void)nghttp2_session_terminate_session(connection->session, NGHTTP2_NO_ERROR);
        }
        if (!fill_output(connection)) {
            end_by_protocol(connection, "nghttp2 ran out of memory");
            return;
        }
        if (connection->output_start == connection->output_end || !write_output(connection)) {
            break;
        }
    }
    end_if_done(connection);
}

bool grpc_connection_wants_write(const struct connection *connection)
{
    if (connection->state == CONNECTION_ESTABLISHING) {
        return connection->transport.wants_write;
    }
    return connection->output_start < connection->output_end;
}

/* --- reading --- */

static void keep_first_bytes(struct connection *connection, const uint8_t *bytes, size_t length)
{
    size_t room = sizeof connection->first_bytes - connection->first_bytes_count;
    size_t kept = length < room ? length : room;
    memcpy(connection->first_bytes + connection->first_bytes_count, bytes, kept);
    connection->first_bytes_count += kept;
}

static void take_bytes(struct connection *connection, const uint8_t *bytes, size_t length)
{
    connection->read_us = connection->now_us;
    connection->unheard_us = TIME_NEVER;
    connection->give_up_us = TIME_NEVER;
    connection->is_silent = false;
    connection->was_alive = connection->was_alive || connection->is_given_up;
    connection->is_given_up = false;
    keep_first_bytes(connection, bytes, length);
    ssize_t used = nghttp2_session_mem_recv(connection->session, bytes, length);
    if (used < 0) {
        end_by_protocol(connection, connection->flooded           ? "it floods us with control frames"
                                    : used == NGHTTP2_ERR_FLOODED ? "it does not read what it asks for"
                                                                  : nghttp2_strerror((int)used));
    }
}

static void read_input(struct connection *connection)
{
    uint8_t bytes[READ_BYTES];
    struct weir_error error = {.status = WEIR_OK};
    connection->has_more = false;
    for (int reads = 0; connection->state != CONNECTION_DEAD; reads++) {
        size_t length = 0;
        if (reads == READS_PER_STEP) {
            connection->has_more = true;
            return;
        }
        switch (grpc_transport_read(&connection->transport, bytes, sizeof bytes, &length, &error)) {
        case TRANSPORT_DONE:
            take_bytes(connection, bytes, length);
            break;
        case TRANSPORT_WAIT:
            return;
        case TRANSPORT_ENDED:
            end_by_peer(connection);
            return;
        case TRANSPORT_FAILED:
            end_by_transport(connection, &error);
            return;
        }
        if (connection->state != CONNECTION_DEAD && length < sizeof bytes &&
            !grpc_transport_holds_bytes(&connection->transport)) {
            return; /* the socket is empty; if it is not, the fd will say so */
        }
    }
}

void grpc_connection_step(struct connection *connection, int64_t now_us)
{
    struct weir_error error = {.status = WEIR_OK};
    connection->now_us = now_us;
    if (connection->state == CONNECTION_DEAD) {
        return;
    }
    if (connection->state == CONNECTION_ESTABLISHING) {
        switch (grpc_transport_establish(&connection->transport, &error)) {
        case TRANSPORT_DONE:
            connection->state = CONNECTION_GREETING;
            break;
        case TRANSPORT_WAIT:
            return;
        default:
            end_by_transport(connection, &error);
            return;
        }
    } else {
        grpc_session_refill_frames(connection);
        read_input(connection);
    }
    grpc_connection_flush(connection, now_us);
}

/* --- timers --- */

static int64_t tick_dialling(struct connection *connection)
{
    int64_t due_us = time_add(connection->born_us, connection->settings->connect_timeout_us);
    if (connection->now_us < due_us) {
        return due_us;
    }
    struct weir_error error;
    bool establishing = connection->state == CONNECTION_ESTABLISHING;
    (void)error_set(&error, WEIR_ENGINE_UNREACHABLE, "cannot connect to %s: no %s within %d ms", connection->address.text,
                    !establishing                     ? "HTTP/2 greeting"
                    : connection->transport.connected ? "answer to the TLS handshake"
                                                      : "answer",
                    (int)(connection->settings->connect_timeout_us / MICROSECONDS_PER_MS));
    error_hint(&error, "%s",
               connection->transport.connected
                   ? "something listens there but does not speak: frozen, overloaded, or no gRPC"
                   : "check the address and the way to it: route, firewall");
    grpc_connection_end(connection, GRPC_CAUSE_CONNECT, &error);
    return TIME_NEVER;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When nothing was read for a while, and soon when a call waits for a sign of life; never so often that servers mind. */
static int64_t next_ping(const struct connection *connection)
{
    int64_t keepalive_us = connection->settings->keepalive_us;
    int64_t idle_us = time_add(connection->read_us, keepalive_us);
    if (connection->unheard_us == TIME_NEVER) {
        return idle_us;
    }
    int64_t unheard_us = time_add(connection->unheard_us, connection->patience_us);
    int64_t distance_us = later(GRPC_KEEPALIVE_MIN_US, keepalive_us / (GRPC_KEEPALIVE_US / GRPC_KEEPALIVE_MIN_US));
    bool first = connection->pinged_us == TIME_NEVER;
    return earlier(idle_us, first ? unheard_us : later(unheard_us, time_add(connection->pinged_us, distance_us)));
}

static void describe_silence(const struct connection *connection, int64_t since_us, struct weir_error *error)
{
    (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "%s is silent: no answer to a PING within %d ms",
                    connection->address.text, (int)((connection->now_us - since_us) / MICROSECONDS_PER_MS));
    error_hint(error, "the server is frozen, or the network in between drops everything");
}

/* Nobody waits for it any more; but whether it is dead, or was only slow, is worth knowing. */
static void give_up(struct connection *connection, int64_t since_us)
{
    struct weir_error error;
    describe_silence(connection, since_us, &error);
    while (connection->calls != NULL) {
        struct call *call = connection->calls;
        bool left = call->written_at != CALL_NOT_WRITTEN;
        (void)nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, call->stream_id, NGHTTP2_CANCEL);
        grpc_session_detach(connection, call);
        if (left) {
            grpc_call_finish(connection->book, call, GRPC_UNKNOWN, GRPC_CAUSE_SILENT, &error);
        } else {
            grpc_call_wait_again(connection->book, call);
        }
    }
    connection->is_given_up = true;
}

static int64_t tick_open(struct connection *connection)
{
    if (connection->ping_us == TIME_NEVER) {
        int64_t due_us = next_ping(connection);
        if (connection->now_us < due_us) {
            return due_us;
        }
        (void)nghttp2_submit_ping(connection->session, NGHTTP2_FLAG_NONE, NULL);
        connection->ping_us = connection->pinged_us = connection->now_us;
        grpc_connection_flush(connection, connection->now_us);
    }
    /* Any byte shows that the peer lives, but none may come without an end to it. */
    int64_t last_us = later(connection->ping_us, connection->read_us);
    int64_t lost_us = time_add(last_us, connection->settings->keepalive_timeout_us);
    if (connection->state == CONNECTION_DEAD) {
        return TIME_NEVER;
    }
    if (connection->now_us >= lost_us) {
        struct weir_error error;
        describe_silence(connection, last_us, &error);
        grpc_connection_end(connection, GRPC_CAUSE_SILENT, &error);
        return TIME_NEVER;
    }
    if (connection->is_silent && !connection->is_given_up) {
        if (connection->now_us < connection->give_up_us) {
            return earlier(lost_us, connection->give_up_us);
        }
        give_up(connection, last_us);
    }
    if (connection->unheard_us == TIME_NEVER || connection->is_silent) {
        return lost_us;
    }
    int64_t silent_us = time_add(last_us, connection->patience_us);
    if (connection->now_us < silent_us) {
        return earlier(silent_us, lost_us);
    }
    connection->is_silent = true;
    grpc_connection_retire(connection);
    return connection->now_us; /* the next one is to be dialled */
}

void grpc_connection_doubt(struct connection *connection, int64_t now_us)
{
    if (connection->state == CONNECTION_OPEN && connection->unheard_us == TIME_NEVER) {
        connection->unheard_us = now_us;
    }
}

int64_t grpc_connection_tick(struct connection *connection, int64_t now_us)
{
    connection->now_us = now_us;
    if (connection->state == CONNECTION_DEAD) {
        return TIME_NEVER;
    }
    return connection->state <= CONNECTION_GREETING ? tick_dialling(connection) : tick_open(connection);
}

/* --- calls --- */

size_t grpc_connection_room(const struct connection *connection)
{
    if (connection->state != CONNECTION_OPEN) {
        return 0;
    }
    uint32_t streams = nghttp2_session_get_remote_settings(connection->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    size_t limit = streams < STREAMS_MAX ? streams : STREAMS_MAX;
    return limit > connection->call_count ? limit - connection->call_count : 0;
}

bool grpc_connection_begin_call(struct connection *connection, struct call *call)
{
    int32_t stream_id = grpc_session_submit(connection, call);
    if (stream_id < 0) {
        grpc_connection_retire(connection); /* its stream ids are used up, or memory is */
        return false;
    }
    grpc_call_begin(connection->book, call);
    call->connection = connection;
    call->stream_id = stream_id;
    call->previous_on_connection = NULL;
    call->next_on_connection = connection->calls;
    if (connection->calls != NULL) {
        connection->calls->previous_on_connection = call;
    }
    connection->calls = call;
    connection->call_count++;
    return true;
}

void grpc_connection_drop_call(struct connection *connection, struct call *call, enum grpc_cause cause,
                               const struct weir_error *error)
{
    /* What is in the output will leave, so only what nghttp2 still holds can be taken back. */
    bool left = call->written_at != CALL_NOT_WRITTEN;
    (void)nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, call->stream_id, NGHTTP2_CANCEL);
    grpc_session_detach(connection, call);
    if (left) {
        grpc_call_finish(connection->book, call, GRPC_UNKNOWN, cause, error);
    } else {
        grpc_call_wait_again(connection->book, call);
        grpc_call_finish_unsent(connection->book, call, cause, error);
    }
}

void grpc_connection_retire(struct connection *connection)
{
    struct weir_error fine = {.status = WEIR_OK};
    if (connection->state <= CONNECTION_GREETING) {
        grpc_connection_end(connection, GRPC_CAUSE_NONE, &fine);
    } else if (connection->state == CONNECTION_OPEN) {
        connection->state = CONNECTION_DRAINING;
    }
}
