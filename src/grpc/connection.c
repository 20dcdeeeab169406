/* One HTTP/2 connection: dialling, bytes in and out, timers, and the end of its calls. Part of grpc_client_step().
 *
 *   socket --read_socket()--> nghttp2 (session.c: frames become answers) --> call table
 *   call table --grpc_connection_begin_call()--> nghttp2 --fill_output()--> output buffer --write_output()--> socket
 *
 * The output buffer decides whether a call has left. output_total counts the bytes that nghttp2 has made; a call notes it
 * as written_at when its HEADERS frame is made. handed_over counts the bytes that the socket took. grpc_connection_end()
 * compares the two: a call whose first byte was not handed over waits again, any other one ends as GRPC_UNKNOWN.
 *
 * Timers (grpc_connection_tick()):
 *   1. While dialling: the connect timeout.
 *   2. Open: a PING when nothing was read for `keepalive`, or soon after a call left and nothing came since (unheard_us).
 *   3. No answer to that PING within `patience_us`: the connection is silent and takes no more calls. When another
 * connection is open, its calls end as GRPC_UNKNOWN; the connection itself stays until the keepalive timeout, to learn
 * whether it lives.
 *   4. No byte until the keepalive timeout: the connection is dead.
 *
 * Nothing here may block, or keep more than OUTPUT_BYTES of output: a peer that does not read stops its own answers.
 */
#include "grpc/connection.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "grpc/examination.h"
#include "grpc/session.h"

enum {
    OUTPUT_BYTES = 64 * 1024,
    FRAME_ROOM_BYTES = 20 * 1024, /* nghttp2 hands out at most one frame of 16 KiB at a time */
    READ_BYTES = 16 * 1024,
    READS_PER_STEP = 16, /* so that one connection does not starve the others */
    STREAMS_MAX = 100000 /* a server that names no limit still gets no more */
};

/* --- making and freeing --- */

/* A connection without a socket; the caller gives it one. */
static struct connection *allocate_connection(const struct connection_settings *settings, struct call_table *table,
                                              enum grpc_class class, const char *authorization, int64_t now_us)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        return NULL;
    }
    connection->settings = settings;
    connection->table = table;
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

struct connection *grpc_connection_dial(const struct connection_settings *settings, struct call_table *table,
                                        enum grpc_class class, const struct address *address, const char *authority,
                                        SSL_CTX *context, const char *server_name, const char *authorization,
                                        int64_t now_us, enum grpc_cause *ret_cause, struct weir_error *error)
{
    INVARIANT(settings != NULL && table != NULL && ret_cause != NULL && error != NULL);
    struct connection *connection = allocate_connection(settings, table, class, authorization, now_us);
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

struct connection *grpc_connection_adopt(const struct connection_settings *settings, struct call_table *table,
                                         enum grpc_class class, int fd, int64_t now_us)
{
    struct connection *connection = allocate_connection(settings, table, class, NULL, now_us);
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
    grpc_examination_detach(connection);
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

/* The decision about each call is described in grpc_client.c ("When a call counts as unsent"). */
void grpc_connection_end(struct connection *connection, enum grpc_cause cause, const struct weir_error *error)
{
    INVARIANT(error != NULL && (unsigned)cause < GRPC_CAUSE_COUNT);
    if (connection->state == CONNECTION_DEAD) {
        return;
    }
    while (connection->calls != NULL) {
        struct call *call = connection->calls;
        bool left = call->written_at != CALL_NOT_WRITTEN && connection->handed_over > call->written_at;
        grpc_session_detach(connection, call);
        if (left) {
            grpc_call_finish(connection->table, call, GRPC_UNKNOWN, cause, error);
        } else {
            grpc_call_wait_again(connection->table, call);
        }
    }
    connection->state = CONNECTION_DEAD;
    connection->cause = cause;
    connection->error = *error;
    connection->output_start = connection->output_end = 0;
    grpc_transport_close(&connection->transport);
}

/* The socket or TLS failed. */
static void end_by_transport(struct connection *connection, struct weir_error *error)
{
    bool open = connection->state >= CONNECTION_OPEN;
    error_prefix(error, open ? "%s" : "cannot connect to %s", connection->address.text);
    grpc_connection_end(connection, connection->transport.cause, error);
}

/* The first bytes of a peer without an HTTP/2 greeting show the likely mistake, which the hint names. */
static void describe_unknown_peer(const struct connection *connection, struct weir_error *error)
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
        (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "%s closed the connection without an answer", where);
        error_hint(error,
                   connection->transport.tls == NULL
                       ? "it may require TLS, or be no gRPC server; a proxy that cannot reach its server does this, too"
                       : "it may refuse our certificate, or be no gRPC server");
    } else {
        (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "%s does not speak HTTP/2", where);
        error_hint(error, "check that host and port are those of the gRPC server");
    }
}

/* The peer closed the connection. */
static void end_by_peer(struct connection *connection)
{
    struct weir_error error;
    if (connection->state <= CONNECTION_GREETING) {
        describe_unknown_peer(connection, &error);
        grpc_connection_end(connection, connection->first_bytes_count == 0 ? GRPC_CAUSE_CONNECT : GRPC_CAUSE_NOT_HTTP2,
                            &error);
        return;
    }
    (void)error_set(&error, WEIR_ENGINE_UNREACHABLE, "%s closed the connection", connection->address.text);
    error_hint(&error, "the server, or something in between, was stopped or restarted");
    grpc_connection_end(connection, GRPC_CAUSE_CONNECTION_LOST, &error);
}

/* The peer broke HTTP/2. Before its greeting it is more likely no HTTP/2 server at all. */
static void end_by_protocol(struct connection *connection, const char *why)
{
    struct weir_error error;
    if (connection->state <= CONNECTION_GREETING && !connection->flooded) {
        describe_unknown_peer(connection, &error);
        grpc_connection_end(connection, GRPC_CAUSE_NOT_HTTP2, &error);
        return;
    }
    (void)error_set(&error, WEIR_ENGINE_UNREACHABLE, "%s broke the HTTP/2 protocol: %s", connection->address.text, why);
    error_hint(&error, "check the proxy in front of the server; the connection was ended");
    grpc_connection_end(connection, GRPC_CAUSE_PROTOCOL, &error);
}

/* Ends the connection when nghttp2 neither reads nor writes any more: after our GOAWAY for a broken protocol, after the
 * peer closed under running calls, or in good order. */
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

/* Takes frames from nghttp2 while a whole frame fits. False: nghttp2 failed. */
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
        /* The peer may have sent the reason before it closed. The next read finds both. */
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
    size_t space = sizeof connection->first_bytes - connection->first_bytes_count;
    size_t kept = length < space ? length : space;
    memcpy(connection->first_bytes + connection->first_bytes_count, bytes, kept);
    connection->first_bytes_count += kept;
}

/* Any byte ends the suspicion that the peer is silent. nghttp2 calls the callbacks of session.c. */
static void feed_session(struct connection *connection, const uint8_t *bytes, size_t length)
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
                                    : used == NGHTTP2_ERR_FLOODED ? "it does not read the answers to its own frames"
                                                                  : nghttp2_strerror((int)used));
    }
}

/* At most READS_PER_STEP reads, so that one connection does not occupy the step. */
static void read_socket(struct connection *connection)
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
            feed_session(connection, bytes, length);
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
            return; /* the socket is empty; if not, epoll reports the fd again */
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
        read_socket(connection);
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
                   ? "a process listens there but does not answer: frozen, overloaded, or no gRPC server"
                   : "check the address and the way to it: route, firewall");
    grpc_connection_end(connection, GRPC_CAUSE_CONNECT, &error);
    return TIME_NEVER;
}

/* After `keepalive` without a byte, or after `patience_us` when a call has left and nothing came since. Never closer
 * together than GRPC_KEEPALIVE_MIN_US: servers end connections that ping more often. */
static int64_t next_ping(const struct connection *connection)
{
    int64_t keepalive_us = connection->settings->keepalive_us;
    int64_t idle_us = time_add(connection->read_us, keepalive_us);
    if (connection->unheard_us == TIME_NEVER) {
        return idle_us;
    }
    int64_t unheard_us = time_add(connection->unheard_us, connection->patience_us);
    int64_t distance_us = time_later(GRPC_KEEPALIVE_MIN_US, keepalive_us / (GRPC_KEEPALIVE_US / GRPC_KEEPALIVE_MIN_US));
    bool first = connection->pinged_us == TIME_NEVER;
    return time_earlier(idle_us, first ? unheard_us : time_later(unheard_us, time_add(connection->pinged_us, distance_us)));
}

static void describe_silence(const struct connection *connection, int64_t since_us, struct weir_error *error)
{
    (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "%s is silent: no answer to a PING within %d ms",
                    connection->address.text, (int)((connection->now_us - since_us) / MICROSECONDS_PER_MS));
    error_hint(error, "the server is frozen, or the network in between drops everything");
}

/* Ends the calls of a silent connection. The connection stays open without calls: if a byte comes later, the server was
 * only slow, and the next connections to it get more patience. */
static void give_up_calls(struct connection *connection, int64_t since_us)
{
    struct weir_error error;
    describe_silence(connection, since_us, &error);
    while (connection->calls != NULL) {
        struct call *call = connection->calls;
        bool left = call->written_at != CALL_NOT_WRITTEN;
        (void)nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, call->stream_id, NGHTTP2_CANCEL);
        grpc_session_detach(connection, call);
        if (left) {
            grpc_call_finish(connection->table, call, GRPC_UNKNOWN, GRPC_CAUSE_SILENT, &error);
        } else {
            grpc_call_wait_again(connection->table, call);
        }
    }
    connection->is_given_up = true;
}

/* Timers 2 to 4 of the overview; returns when to come again. */
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
    /* Any byte shows that the peer lives. */
    int64_t last_us = time_later(connection->ping_us, connection->read_us);
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
            return time_earlier(lost_us, connection->give_up_us);
        }
        give_up_calls(connection, last_us);
    }
    if (connection->unheard_us == TIME_NEVER || connection->is_silent) {
        return lost_us;
    }
    int64_t silent_us = time_add(last_us, connection->patience_us);
    if (connection->now_us < silent_us) {
        return time_earlier(silent_us, lost_us);
    }
    connection->is_silent = true;
    grpc_connection_retire(connection);
    return connection->now_us; /* the pool dials the next one */
}

void grpc_connection_probe(struct connection *connection, int64_t now_us)
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

size_t grpc_connection_free_streams(const struct connection *connection)
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
    INVARIANT(connection->state == CONNECTION_OPEN && call->state == CALL_WAITING);
    int32_t stream_id = grpc_session_submit(connection, call);
    if (stream_id < 0) {
        grpc_connection_retire(connection); /* its stream ids are used up, or memory is */
        return false;
    }
    grpc_call_begin(connection->table, call);
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
    INVARIANT(call->state == CALL_UNDER_WAY && call->connection == connection);
    /* The bytes in the output will leave. Only a call that nghttp2 still holds can be taken back. */
    bool left = call->written_at != CALL_NOT_WRITTEN;
    (void)nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, call->stream_id, NGHTTP2_CANCEL);
    grpc_session_detach(connection, call);
    if (left) {
        grpc_call_finish(connection->table, call, GRPC_UNKNOWN, cause, error);
    } else {
        grpc_call_finish_unsent(connection->table, call, cause, error);
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
