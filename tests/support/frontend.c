#include "support/frontend.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINKS_MAX = 128, HEADERS_MAX = 64, BUFFER_BYTES = 64 * 1024, PREFIX_BYTES = 5 };

struct buffer {
    uint8_t *bytes;
    size_t length;
    size_t capacity;
};

struct stream {
    struct stream *next;
    struct link *link;
    int32_t id;
    uint64_t token;
    char *names[HEADERS_MAX];
    char *values[HEADERS_MAX];
    size_t header_count;
    struct buffer request;
    struct buffer body; /* bytes to send */
    size_t body_sent;
    bool ends_with_body; /* no trailers */
    char status[16];
    char *message;
    char *details;
};

/* One connection of a client. */
struct link {
    struct frontend *frontend;
    int fd;
    int number;
    SSL *tls;
    nghttp2_session *session;
    struct stream *streams;
    struct buffer output;
    struct buffer sealed; /* with TLS: the output, encrypted */
    bool drips;
    bool frozen;
    bool dies; /* closed when its output is out */
    bool cut;
    bool leaves; /* a GOAWAY is on its way: streams above last_taken are ignored, as it announces */
    int32_t last_taken;
};

struct frontend {
    struct frontend_options options;
    pthread_mutex_t lock;
    pthread_t thread;
    bool has_thread;
    atomic_bool stopping;
    int wake_fd;
    int listen_fd;
    bool listening;
    int port;
    char address[32];
    SSL_CTX *context;
    unsigned char alpn[16]; /* its length, then the name */
    struct link *links[LINKS_MAX];
    size_t link_count;
    uint64_t tokens;
    struct frontend_counts counts;
};

static void must(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "frontend: %s\n", what);
        abort();
    }
}

static void add(struct buffer *buffer, const void *bytes, size_t length)
{
    if (buffer->length + length > buffer->capacity) {
        buffer->capacity = (buffer->length + length) * 2;
        buffer->bytes = realloc(buffer->bytes, buffer->capacity);
        must(buffer->bytes != NULL, "out of memory");
    }
    if (length > 0) {
        memcpy(buffer->bytes + buffer->length, bytes, length);
    }
    buffer->length += length;
}

static void drop_front(struct buffer *buffer, size_t length)
{
    memmove(buffer->bytes, buffer->bytes + length, buffer->length - length);
    buffer->length -= length;
}

size_t frontend_frame(uint8_t *to, uint8_t type, uint8_t flags, int32_t stream_id, const void *payload, size_t length)
{
    uint32_t id = (uint32_t)stream_id;
    const uint8_t head[9] = {(uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length,    type,       flags,
                             (uint8_t)(id >> 24),     (uint8_t)(id >> 16),    (uint8_t)(id >> 8), (uint8_t)id};
    memcpy(to, head, sizeof head);
    if (length > 0) {
        memcpy(to + sizeof head, payload, length);
    }
    return sizeof head + length;
}

/* --- streams --- */

static struct stream *stream_new(struct link *link, int32_t id)
{
    struct stream *stream = calloc(1, sizeof *stream);
    must(stream != NULL, "out of memory");
    stream->link = link;
    stream->id = id;
    stream->token = ++link->frontend->tokens;
    stream->next = link->streams;
    link->streams = stream;
    return stream;
}

static void stream_free(struct stream *stream)
{
    for (size_t i = 0; i < stream->header_count; i++) {
        free(stream->names[i]);
        free(stream->values[i]);
    }
    free(stream->request.bytes);
    free(stream->body.bytes);
    free(stream->message);
    free(stream->details);
    free(stream);
}

static const char *header_of(const struct stream *stream, const char *name)
{
    for (size_t i = 0; i < stream->header_count; i++) {
        if (strcmp(stream->names[i], name) == 0) {
            return stream->values[i];
        }
    }
    return NULL;
}

const char *frontend_header(const struct frontend_call *call, const char *name)
{
    return header_of(call->stream, name);
}

/* --- fates --- */

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

static size_t add_status(const struct stream *stream, nghttp2_nv *fields)
{
    size_t count = 0;
    if (stream->status[0] != '\0') {
        fields[count++] = field("grpc-status", stream->status);
    }
    if (stream->message != NULL) {
        fields[count++] = field("grpc-message", stream->message);
    }
    if (stream->details != NULL) {
        fields[count++] = field("grpc-status-details-bin", stream->details);
    }
    return count;
}

static ssize_t read_body(nghttp2_session *session, int32_t stream_id, uint8_t *to, size_t size, uint32_t *flags,
                         nghttp2_data_source *source, void *context)
{
    (void)context;
    struct stream *stream = source->ptr;
    size_t left = stream->body.length - stream->body_sent;
    size_t part = left < size ? left : size;
    if (part > 0) {
        memcpy(to, stream->body.bytes + stream->body_sent, part);
    }
    stream->body_sent += part;
    if (stream->body_sent == stream->body.length) {
        nghttp2_nv fields[4];
        size_t count = add_status(stream, fields);
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (!stream->ends_with_body && count > 0) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            (void)nghttp2_submit_trailer(session, stream_id, fields, count);
        }
    }
    return (ssize_t)part;
}

static void fill_body(struct stream *stream, const struct frontend_answer *answer)
{
    size_t announced = answer->response_length + answer->announce_more;
    const uint8_t prefix[PREFIX_BYTES] = {answer->compressed, (uint8_t)(announced >> 24), (uint8_t)(announced >> 16),
                                          (uint8_t)(announced >> 8), (uint8_t)announced};
    for (int i = 0; i < (answer->twice ? 2 : 1); i++) {
        add(&stream->body, prefix, sizeof prefix);
        add(&stream->body, answer->response, answer->response_length);
    }
    for (size_t i = 0; i < answer->extra_bytes; i++) {
        add(&stream->body, "", 1);
    }
}

static void submit_headers(struct stream *stream, const struct frontend_answer *answer, bool with_status, bool with_body)
{
    char http_status[8];
    nghttp2_nv fields[6];
    size_t count = 0;
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = read_body};
    (void)snprintf(http_status, sizeof http_status, "%d", answer->http_status != 0 ? answer->http_status : 200);
    fields[count++] = field(":status", http_status);
    fields[count++] = field("content-type", answer->content_type != NULL ? answer->content_type : "application/grpc");
    count += with_status ? add_status(stream, fields + count) : 0;
    (void)nghttp2_submit_response(stream->link->session, stream->id, fields, count, with_body ? &provider : NULL);
}

static void answer_properly(struct stream *stream, const struct frontend_answer *answer)
{
    if (answer->status_text != NULL) {
        (void)snprintf(stream->status, sizeof stream->status, "%s", answer->status_text);
    } else if (!answer->no_grpc) {
        (void)snprintf(stream->status, sizeof stream->status, "%d", answer->code);
    }
    stream->message = answer->message != NULL ? strdup(answer->message) : NULL;
    stream->details = answer->details != NULL ? strdup(answer->details) : NULL;
    bool in_full = answer->in_full || (answer->code == 0 && !answer->no_grpc);
    if (answer->fate == FATE_HEADERS_ONLY) {
        submit_headers(stream, answer, false, false);
    } else if (answer->fate == FATE_NO_TRAILERS) {
        stream->ends_with_body = true;
        fill_body(stream, answer);
        submit_headers(stream, answer, false, true);
    } else if (in_full) {
        if (answer->code == 0) {
            fill_body(stream, answer);
        }
        submit_headers(stream, answer, false, true);
    } else {
        submit_headers(stream, answer, true, false);
    }
}

static void leave(struct link *link, int32_t last_taken, uint32_t code)
{
    link->last_taken = !link->leaves || last_taken < link->last_taken ? last_taken : link->last_taken;
    link->leaves = true;
    (void)nghttp2_submit_goaway(link->session, NGHTTP2_FLAG_NONE, link->last_taken, code, NULL, 0);
}

static void apply(struct stream *stream, const struct frontend_answer *answer)
{
    struct link *link = stream->link;
    int32_t id = stream->id; /* sending may close it, when a GOAWAY below it goes first */
    link->drips |= answer->drip;
    switch (answer->fate) {
    case FATE_ANSWER:
    case FATE_NO_TRAILERS:
    case FATE_HEADERS_ONLY:
        answer_properly(stream, answer);
        break;
    case FATE_HOLD:
        break;
    case FATE_HEADERS_THEN_RESET:
        (void)nghttp2_submit_headers(link->session, NGHTTP2_FLAG_NONE, stream->id, NULL,
                                     (nghttp2_nv[]){field(":status", "200"), field("content-type", "application/grpc")}, 2,
                                     NULL);
        (void)nghttp2_session_send(link->session); /* a reset overtakes unsent bytes */
        (void)nghttp2_submit_rst_stream(link->session, NGHTTP2_FLAG_NONE, id, answer->reset_code);
        break;
    case FATE_RESET:
        (void)nghttp2_submit_rst_stream(link->session, NGHTTP2_FLAG_NONE, stream->id, answer->reset_code);
        break;
    case FATE_CUT:
        link->cut = true;
        break;
    case FATE_CLOSE:
        link->dies = true;
        break;
    case FATE_GOAWAY_BELOW:
        leave(link, stream->id > 1 ? stream->id - 2 : 0, answer->reset_code);
        break;
    case FATE_GOAWAY_THEN_ANSWER:
        leave(link, stream->id, answer->reset_code);
        answer_properly(stream, answer);
        break;
    case FATE_RAW:
        add(&link->output, answer->raw, answer->raw_length);
        break;
    case FATE_FREEZE:
        link->frozen = true;
        break;
    }
}

static void ask(struct stream *stream)
{
    struct frontend *frontend = stream->link->frontend;
    struct frontend_answer answer = {.fate = FATE_ANSWER};
    if (stream->link->leaves && stream->id > stream->link->last_taken) {
        return;
    }
    const char *path = header_of(stream, ":path");
    struct frontend_call call = {.token = stream->token,
                                 .path = path != NULL ? path : "",
                                 .connection = stream->link->number,
                                 .stream_id = stream->id,
                                 .stream = stream};
    const uint8_t *bytes = stream->request.bytes;
    if (stream->request.length >= PREFIX_BYTES && bytes[0] == 0) {
        size_t length = (size_t)bytes[1] << 24 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 8 | bytes[4];
        if (length == stream->request.length - PREFIX_BYTES) {
            call.message = bytes + PREFIX_BYTES;
            call.message_length = length;
        }
    }
    frontend->counts.calls++;
    if (frontend->options.handler != NULL) {
        frontend->options.handler(frontend->options.context, &call, &answer);
    }
    apply(stream, &answer);
}

/* --- nghttp2 --- */

static ssize_t on_send(nghttp2_session *session, const uint8_t *bytes, size_t length, int flags, void *context)
{
    (void)session;
    (void)flags;
    struct link *link = context;
    if (link->output.length > 4 * BUFFER_BYTES) {
        return NGHTTP2_ERR_WOULDBLOCK;
    }
    add(&link->output, bytes, length);
    return (ssize_t)length;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        (void)nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream_new(context, frame->hd.stream_id));
    }
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t value_length, uint8_t flags, void *context)
{
    (void)flags;
    (void)context;
    struct stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (stream != NULL && stream->header_count < HEADERS_MAX) {
        stream->names[stream->header_count] = strndup((const char *)name, name_length);
        stream->values[stream->header_count++] = strndup((const char *)value, value_length);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes, size_t length,
                   void *context)
{
    (void)flags;
    (void)context;
    struct stream *stream = nghttp2_session_get_stream_user_data(session, stream_id);
    if (stream != NULL) {
        add(&stream->request, bytes, length);
    }
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct link *link = context;
    struct frontend_counts *counts = &link->frontend->counts;
    counts->pings += frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0;
    counts->resets += frame->hd.type == NGHTTP2_RST_STREAM;
    counts->goaways += frame->hd.type == NGHTTP2_GOAWAY;
    if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        struct stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (stream != NULL) {
            ask(stream);
        }
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *context)
{
    (void)code;
    struct link *link = context;
    struct stream *stream = nghttp2_session_get_stream_user_data(session, stream_id);
    if (stream != NULL) {
        struct stream **at = &link->streams;
        while (*at != stream) {
            at = &(*at)->next;
        }
        *at = stream->next;
        stream_free(stream);
    }
    return 0;
}

static void session_open(struct link *link)
{
    const struct frontend_options *options = &link->frontend->options;
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_settings_entry settings[2];
    size_t count = 0;
    must(nghttp2_session_callbacks_new(&callbacks) == 0, "out of memory");
    nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    must(nghttp2_session_server_new(&link->session, callbacks, link) == 0, "out of memory");
    nghttp2_session_callbacks_del(callbacks);
    if (options->streams_max > 0) {
        settings[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, options->streams_max};
    }
    if (options->window_bytes > 0) {
        settings[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, options->window_bytes};
    }
    (void)nghttp2_submit_settings(link->session, NGHTTP2_FLAG_NONE, settings, count);
}

/* --- links --- */

static void link_open(struct frontend *frontend, int fd)
{
    int on = 1;
    struct link *link = calloc(1, sizeof *link);
    must(link != NULL && frontend->link_count < LINKS_MAX, "too many connections");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    link->frontend = frontend;
    link->fd = fd;
    link->number = ++frontend->counts.connections;
    frontend->links[frontend->link_count++] = link;
    if (frontend->context != NULL) {
        link->tls = SSL_new(frontend->context);
        must(link->tls != NULL, "out of memory");
        /* Memory on both sides: sockets are written with MSG_NOSIGNAL here, never by OpenSSL. */
        SSL_set_bio(link->tls, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        SSL_set_accept_state(link->tls);
    }
    if (frontend->options.kind == FRONTEND_HTTP2) {
        session_open(link);
    } else if (frontend->options.kind == FRONTEND_CLOSES) {
        link->dies = true;
    } else if (frontend->options.kind == FRONTEND_RAW_GREETING) {
        add(&link->output, frontend->options.greeting, frontend->options.greeting_length);
    }
}

static void link_close(struct link *link)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (link->cut) {
        (void)setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    (void)close(link->fd);
    nghttp2_session_del(link->session);
    while (link->streams != NULL) {
        struct stream *stream = link->streams;
        link->streams = stream->next;
        stream_free(stream);
    }
    SSL_free(link->tls);
    free(link->output.bytes);
    free(link->sealed.bytes);
    free(link);
}

static void take_plain(struct link *link, const uint8_t *bytes, size_t length)
{
    static const char http1[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    if (link->frontend->options.kind == FRONTEND_HTTP1) {
        add(&link->output, http1, sizeof http1 - 1);
        link->dies = true;
    } else if (link->session != NULL && nghttp2_session_mem_recv(link->session, bytes, length) < 0) {
        link->dies = true;
    }
}

static void take_tls(struct link *link, const uint8_t *bytes, size_t length)
{
    uint8_t plain[BUFFER_BYTES / 4];
    size_t got = 0;
    ERR_clear_error();
    (void)BIO_write(SSL_get_rbio(link->tls), bytes, (int)length);
    if (!SSL_is_init_finished(link->tls)) {
        int result = SSL_do_handshake(link->tls);
        if (result != 1 && SSL_get_error(link->tls, result) == SSL_ERROR_SSL) {
            link->dies = true; /* the alert is in the output */
        }
    }
    while (!link->dies && SSL_is_init_finished(link->tls) && SSL_read_ex(link->tls, plain, sizeof plain, &got) == 1) {
        take_plain(link, plain, got);
    }
}

/* False: the peer is gone. */
static bool link_read(struct link *link)
{
    uint8_t bytes[BUFFER_BYTES / 2];
    ssize_t got = recv(link->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) {
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    if (link->frontend->options.kind == FRONTEND_SILENT || link->frontend->options.kind == FRONTEND_RAW_GREETING) {
        return true;
    }
    if (link->tls != NULL) {
        take_tls(link, bytes, (size_t)got);
    } else {
        take_plain(link, bytes, (size_t)got);
    }
    return true;
}

/* Encrypts the output into the bytes for the socket. */
static void seal(struct link *link)
{
    uint8_t bytes[BUFFER_BYTES / 2];
    size_t written = 0;
    int pending = 0;
    ERR_clear_error();
    if (link->output.length > 0 && link->sealed.length < BUFFER_BYTES && SSL_is_init_finished(link->tls) &&
        SSL_write_ex(link->tls, link->output.bytes, link->output.length, &written) == 1) {
        drop_front(&link->output, written);
    }
    while ((pending = BIO_read(SSL_get_wbio(link->tls), bytes, sizeof bytes)) > 0) {
        add(&link->sealed, bytes, (size_t)pending);
    }
}

static size_t unsent(const struct link *link)
{
    /* Without a handshake the output will never be encrypted. */
    bool leaves = link->tls == NULL || SSL_is_init_finished(link->tls);
    return (leaves ? link->output.length : 0) + link->sealed.length;
}

/* False: the peer is gone. */
static bool link_write(struct link *link)
{
    struct buffer *wire = link->tls != NULL ? &link->sealed : &link->output;
    for (;;) {
        if (link->session != NULL && nghttp2_session_send(link->session) != 0) {
            return false;
        }
        if (link->tls != NULL) {
            seal(link);
        }
        if (wire->length == 0) {
            return true;
        }
        ssize_t sent = send(link->fd, wire->bytes, link->drips ? 1 : wire->length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        drop_front(wire, (size_t)sent);
        if (link->drips) {
            return true;
        }
    }
}

/* False: to be closed. */
static bool link_turn(struct link *link, bool readable)
{
    if (link->frozen && !link->cut) {
        return true;
    }
    if (readable && !link->cut && !link_read(link)) {
        return false;
    }
    if (link->cut || !link_write(link) || link->cut) {
        return false;
    }
    bool over = link->session != NULL && nghttp2_session_want_read(link->session) == 0 &&
                nghttp2_session_want_write(link->session) == 0;
    return !((link->dies || over) && unsent(link) == 0);
}

/* --- the frontend --- */

static int choose_alpn(SSL *tls, const unsigned char **chosen, unsigned char *chosen_length, const unsigned char *offered,
                       unsigned offered_length, void *context)
{
    (void)tls;
    struct frontend *frontend = context;
    size_t length = frontend->alpn[0];
    if (length == 0) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    unsigned char *found = NULL;
    if (SSL_select_next_proto(&found, chosen_length, frontend->alpn, (unsigned)length + 1, offered, offered_length) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

static bool open_tls(struct frontend *frontend)
{
    const struct frontend_options *options = &frontend->options;
    const char *alpn = options->alpn != NULL ? options->alpn : "h2";
    must(strlen(alpn) < sizeof frontend->alpn, "the name of a protocol is too long");
    frontend->alpn[0] = (unsigned char)strlen(alpn);
    memcpy(frontend->alpn + 1, alpn, strlen(alpn));
    must((frontend->context = SSL_CTX_new(TLS_server_method())) != NULL, "out of memory");
    (void)SSL_CTX_set_mode(frontend->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_alpn_select_cb(frontend->context, choose_alpn, frontend);
    bool fine = SSL_CTX_set_max_proto_version(frontend->context, options->tls_version_most) == 1 &&
                SSL_CTX_use_certificate_chain_file(frontend->context, options->certificate_file) == 1 &&
                SSL_CTX_use_PrivateKey_file(frontend->context, options->key_file, SSL_FILETYPE_PEM) == 1;
    if (options->client_ca_file != NULL) {
        fine = fine && SSL_CTX_load_verify_locations(frontend->context, options->client_ca_file, NULL) == 1;
        SSL_CTX_set_verify(frontend->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    return fine;
}

static int listen_on(int port, int *ret_port)
{
    int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        fprintf(stderr, "frontend: cannot listen on port %d: %s\n", port, strerror(errno));
        return -1;
    }
    *ret_port = ntohs(address.sin_port);
    return fd;
}

struct frontend *frontend_open(const struct frontend_options *options)
{
    struct frontend *frontend = calloc(1, sizeof *frontend);
    must(frontend != NULL, "out of memory");
    frontend->options = *options;
    frontend->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    frontend->listen_fd = listen_on(options->port, &frontend->port);
    frontend->listening = true;
    (void)pthread_mutex_init(&frontend->lock, NULL);
    (void)snprintf(frontend->address, sizeof frontend->address, "127.0.0.1:%d", frontend->port);
    if (frontend->listen_fd < 0 || (options->certificate_file != NULL && !open_tls(frontend))) {
        fprintf(stderr, "frontend: cannot open\n");
        frontend_close(frontend);
        return NULL;
    }
    return frontend;
}

int frontend_port(const struct frontend *frontend)
{
    return frontend->port;
}

const char *frontend_address(const struct frontend *frontend)
{
    return frontend->address;
}

static void wake(struct frontend *frontend)
{
    uint64_t one = 1;
    ssize_t written = write(frontend->wake_fd, &one, sizeof one);
    (void)written;
}

static void drop_link(struct frontend *frontend, size_t at)
{
    link_close(frontend->links[at]);
    frontend->links[at] = frontend->links[--frontend->link_count];
}

static void accept_all(struct frontend *frontend)
{
    int fd;
    while (frontend->listening && (fd = accept4(frontend->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        link_open(frontend, fd);
    }
}

void frontend_step(struct frontend *frontend, int timeout_ms)
{
    struct pollfd polled[LINKS_MAX + 2];
    struct link *links[LINKS_MAX];
    uint64_t drained;
    (void)pthread_mutex_lock(&frontend->lock);
    size_t count = frontend->link_count;
    bool drips = false;
    polled[0] = (struct pollfd){.fd = frontend->wake_fd, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = frontend->listening ? frontend->listen_fd : -1, .events = POLLIN};
    for (size_t i = 0; i < count; i++) {
        links[i] = frontend->links[i];
        bool waits = unsent(links[i]) > 0 && !links[i]->frozen;
        drips = drips || (waits && links[i]->drips);
        polled[i + 2] = (struct pollfd){.fd = links[i]->frozen ? -1 : links[i]->fd,
                                        .events = (short)(POLLIN | (waits && !links[i]->drips ? POLLOUT : 0))};
    }
    (void)pthread_mutex_unlock(&frontend->lock);
    (void)poll(polled, count + 2, drips ? 0 : timeout_ms);
    (void)pthread_mutex_lock(&frontend->lock);
    ssize_t got = read(frontend->wake_fd, &drained, sizeof drained);
    (void)got;
    for (size_t i = count; i-- > 0;) {
        /* Only this function closes links, so that the list still begins with these. */
        if (!link_turn(links[i], (polled[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) != 0)) {
            drop_link(frontend, i);
        }
    }
    accept_all(frontend);
    for (size_t i = frontend->link_count; i-- > 0;) {
        if (!link_turn(frontend->links[i], false)) {
            drop_link(frontend, i);
        }
    }
    frontend->counts.connections_open = (int)frontend->link_count;
    (void)pthread_mutex_unlock(&frontend->lock);
}

static void *run(void *context)
{
    struct frontend *frontend = context;
    while (!atomic_load(&frontend->stopping)) {
        frontend_step(frontend, 1000);
    }
    return NULL;
}

int frontend_run(struct frontend *frontend)
{
    int failure = pthread_create(&frontend->thread, NULL, run, frontend);
    frontend->has_thread = failure == 0;
    return failure;
}

void frontend_close(struct frontend *frontend)
{
    if (frontend == NULL) {
        return;
    }
    if (frontend->has_thread) {
        atomic_store(&frontend->stopping, true);
        wake(frontend);
        (void)pthread_join(frontend->thread, NULL);
    }
    while (frontend->link_count > 0) {
        drop_link(frontend, 0);
    }
    if (frontend->listen_fd >= 0) {
        (void)close(frontend->listen_fd);
    }
    (void)close(frontend->wake_fd);
    (void)pthread_mutex_destroy(&frontend->lock);
    SSL_CTX_free(frontend->context);
    free(frontend);
}

/* --- from any thread --- */

struct frontend_counts frontend_counts(struct frontend *frontend)
{
    (void)pthread_mutex_lock(&frontend->lock);
    struct frontend_counts counts = frontend->counts;
    (void)pthread_mutex_unlock(&frontend->lock);
    return counts;
}

bool frontend_answer(struct frontend *frontend, uint64_t token, const struct frontend_answer *answer)
{
    struct stream *found = NULL;
    (void)pthread_mutex_lock(&frontend->lock);
    for (size_t i = 0; i < frontend->link_count && found == NULL; i++) {
        for (found = frontend->links[i]->streams; found != NULL && found->token != token; found = found->next) {
        }
    }
    if (found != NULL) {
        apply(found, answer);
    }
    (void)pthread_mutex_unlock(&frontend->lock);
    wake(frontend);
    return found != NULL;
}

void frontend_goaway(struct frontend *frontend, uint32_t code)
{
    (void)pthread_mutex_lock(&frontend->lock);
    for (size_t i = 0; i < frontend->link_count; i++) {
        nghttp2_session *session = frontend->links[i]->session;
        if (session != NULL) {
            (void)nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session), code,
                                        NULL, 0);
        }
    }
    (void)pthread_mutex_unlock(&frontend->lock);
    wake(frontend);
}

static void freeze_all(struct frontend *frontend, bool frozen)
{
    (void)pthread_mutex_lock(&frontend->lock);
    for (size_t i = 0; i < frontend->link_count; i++) {
        frontend->links[i]->frozen = frozen;
    }
    (void)pthread_mutex_unlock(&frontend->lock);
    wake(frontend);
}

void frontend_freeze_all(struct frontend *frontend)
{
    freeze_all(frontend, true);
}

void frontend_thaw_all(struct frontend *frontend)
{
    freeze_all(frontend, false);
}

void frontend_cut_all(struct frontend *frontend)
{
    (void)pthread_mutex_lock(&frontend->lock);
    for (size_t i = 0; i < frontend->link_count; i++) {
        frontend->links[i]->cut = true;
    }
    (void)pthread_mutex_unlock(&frontend->lock);
    wake(frontend);
}

void frontend_listen(struct frontend *frontend, bool listening)
{
    (void)pthread_mutex_lock(&frontend->lock);
    if (!listening && frontend->listen_fd >= 0) {
        (void)close(frontend->listen_fd);
        frontend->listen_fd = -1;
    } else if (listening && frontend->listen_fd < 0) {
        frontend->listen_fd = listen_on(frontend->port, &frontend->port);
        must(frontend->listen_fd >= 0, "the port was taken meanwhile");
    }
    frontend->listening = listening;
    (void)pthread_mutex_unlock(&frontend->lock);
    wake(frontend);
}
