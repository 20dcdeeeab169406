/* One TCP connection, with TLS by OpenSSL or without. Called by connection.c; never blocks and never raises SIGPIPE.
 *
 *   open: socket, connect() in progress --> establish: connected --> handshake, ALPN "h2" --> read and write bytes
 *
 * Each operation returns how far it came (enum transport_progress); with WAIT, wants_write shows which readiness is
 * missing. A TLS connection counts as established only after the certificate was verified and the server chose HTTP/2, so
 * no byte of a call reaches a server that was not verified.
 *
 * Errors of OpenSSL become messages with a hint for the usual mistakes. These are TLS on one side only, a certificate
 * for another name, an unknown authority, a certificate of ours that the server refuses. The error queue of OpenSSL is
 * per thread and is cleared before and after each use.
 */
#include "grpc/transport.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/libssl.h"

/* --- OpenSSL over a socket without SIGPIPE --- */

/* The socket BIO of OpenSSL uses write(), which raises SIGPIPE when the peer has closed. */
static int bio_write(BIO *bio, const char *bytes, size_t length, size_t *ret_written)
{
    int fd = (int)(intptr_t)BIO_get_data(bio);
    ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
    BIO_clear_retry_flags(bio);
    if (sent < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
            BIO_set_retry_write(bio);
        }
        return 0;
    }
    *ret_written = (size_t)sent;
    return 1;
}

static int bio_read(BIO *bio, char *to, size_t size, size_t *ret_length)
{
    int fd = (int)(intptr_t)BIO_get_data(bio);
    ssize_t got = recv(fd, to, size, 0);
    BIO_clear_retry_flags(bio);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        BIO_set_retry_read(bio);
    }
    if (got == 0) {
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    }
    if (got <= 0) {
        return 0;
    }
    *ret_length = (size_t)got;
    return 1;
}

/* OpenSSL asks for a flush, which a socket needs not, and for the end of input. */
static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number;
    (void)pointer;
    if (command == BIO_CTRL_EOF) {
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    }
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method;

static void make_bio_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
    if (bio_method != NULL) {
        (void)BIO_meth_set_write_ex(bio_method, bio_write);
        (void)BIO_meth_set_read_ex(bio_method, bio_read);
        (void)BIO_meth_set_ctrl(bio_method, bio_control);
    }
}

static BIO *socket_bio(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_bio_method);
    BIO *bio = bio_method != NULL ? BIO_new(bio_method) : NULL;
    if (bio != NULL) {
        BIO_set_data(bio, (void *)(intptr_t)fd);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* --- opening --- */

static enum weir_status begin_tls(struct transport *transport, SSL_CTX *context, const char *server_name,
                                  struct weir_error *error)
{
    BIO *bio = socket_bio(transport->fd);
    SSL *tls = bio != NULL ? SSL_new(context) : NULL;
    if (tls == NULL) {
        BIO_free(bio);
        return error_out_of_memory(error);
    }
    SSL_set_bio(tls, bio, bio);
    SSL_set_connect_state(tls);
    /* An IP address is verified as one, and is not sent as a server name (RFC 6066, 3). */
    X509_VERIFY_PARAM *rules = SSL_get0_param(tls);
    bool set = X509_VERIFY_PARAM_set1_ip_asc(rules, server_name) == 1 ||
               (SSL_set_tlsext_host_name(tls, server_name) == 1 && SSL_set1_host(tls, server_name) == 1);
    SSL_set_hostflags(tls, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    transport->tls = tls;
    ERR_clear_error();
    return set ? WEIR_OK : error_out_of_memory(error);
}

static void describe_connect(int native, struct weir_error *error)
{
    (void)error_set_native(error, WEIR_ENGINE_UNREACHABLE, native, "%s", strerror(native));
    error_hint(error, "%s",
               native == ECONNREFUSED ? "nothing listens there: check that the server runs and that host and port are right"
                                      : "check the address and the way to it: route, firewall");
}

enum weir_status grpc_transport_open(struct transport *transport, const struct address *address, SSL_CTX *context,
                                     const char *server_name, unsigned user_timeout_ms, struct weir_error *error)
{
    INVARIANT(transport != NULL && address != NULL && (context == NULL || server_name != NULL));
    int on = 1;
    struct transport opened = {.cause = GRPC_CAUSE_CONNECT, .wants_write = true};
    opened.fd = socket(address->socket_address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (opened.fd < 0) {
        return error_set_native(error, WEIR_SYSTEM, errno, "cannot make a socket: %s", strerror(errno));
    }
    (void)setsockopt(opened.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(opened.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
    if (connect(opened.fd, (const struct sockaddr *)&address->socket_address, address->length) == 0) {
        opened.connected = true;
    } else if (errno != EINPROGRESS && errno != EINTR) {
        describe_connect(errno, error);
        (void)close(opened.fd);
        return WEIR_ENGINE_UNREACHABLE;
    }
    if (context != NULL) {
        enum weir_status status = begin_tls(&opened, context, server_name, error);
        if (status != WEIR_OK) {
            grpc_transport_close(&opened);
            return status;
        }
    }
    *transport = opened;
    return WEIR_OK;
}

void grpc_transport_adopt(struct transport *transport, int fd)
{
    INVARIANT(fd >= 0);
    *transport = (struct transport){.fd = fd, .connected = true, .handshaken = true};
}

void grpc_transport_close(struct transport *transport)
{
    if (transport->tls != NULL) {
        if (transport->handshaken && transport->cause != GRPC_CAUSE_TLS) {
            (void)SSL_shutdown(transport->tls); /* close_notify leaves if the socket takes it at once */
        }
        SSL_free(transport->tls);
        ERR_clear_error();
    }
    if (transport->fd >= 0) {
        (void)close(transport->fd);
    }
    *transport = (struct transport){.fd = -1};
}

/* --- connecting and shaking hands --- */

static enum transport_progress fail_with(struct transport *transport, enum grpc_cause cause)
{
    transport->cause = cause;
    return TRANSPORT_FAILED;
}

/* The fd is ready: either the connection is there, or SO_ERROR has the reason. */
static enum transport_progress finish_connecting(struct transport *transport, struct weir_error *error)
{
    int native = 0;
    socklen_t length = sizeof native;
    struct address peer = {.length = sizeof peer.socket_address};
    (void)getsockopt(transport->fd, SOL_SOCKET, SO_ERROR, &native, &length);
    if (native != 0) {
        describe_connect(native, error);
        return fail_with(transport, GRPC_CAUSE_CONNECT);
    }
    if (getpeername(transport->fd, (struct sockaddr *)&peer.socket_address, &peer.length) != 0) {
        transport->wants_write = true;
        return TRANSPORT_WAIT; /* woken too early */
    }
    transport->connected = true;
    return TRANSPORT_DONE;
}

static void describe_certificate(SSL *tls, long result, struct weir_error *error)
{
    const char *name = SSL_get_servername(tls, TLSEXT_NAMETYPE_host_name);
    (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "the server's certificate is not accepted: %s",
                    X509_verify_cert_error_string(result));
    switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        error_hint(error, "renew the server's certificate, or set this machine's clock");
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        error_hint(error, "it is not made out to \"%s\": set server_name to a name that it has",
                   name != NULL ? name : "that IP address");
        break;
    default:
        error_hint(error, "set ca_file to the certificate of the authority that signed the server's");
        break;
    }
}

/* Alerts arrive as reasons of the library "SSL routines", from 1000 on. */
static bool is_about_our_certificate(int reason)
{
    return reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED || reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
           reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA || reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN ||
           reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED || reason == SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED ||
           reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE || reason == SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE ||
           reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR || reason == SSL_R_TLSV1_ALERT_ACCESS_DENIED;
}

/* Turns an error of OpenSSL into a message and the hint for the usual mistake. */
static enum transport_progress describe_tls(struct transport *transport, unsigned long code, struct weir_error *error)
{
    int reason = ERR_GET_REASON(code);
    long verified = SSL_get_verify_result(transport->tls);
    const char *text = ERR_reason_error_string(code);
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
        describe_certificate(transport->tls, verified, error);
        return fail_with(transport, GRPC_CAUSE_TLS);
    }
    (void)error_set_native(error, WEIR_ENGINE_UNREACHABLE, (int)(code & 0x7fffffff), "TLS failed: %s",
                           text != NULL ? text : "the connection ended during the handshake");
    if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG || reason == SSL_R_HTTP_REQUEST) {
        error_hint(error, "the server answers without TLS: switch TLS off for it, or use its TLS port");
    } else if (reason == SSL_R_NO_APPLICATION_PROTOCOL || reason == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL) {
        error_hint(error, "the server offers no HTTP/2 (ALPN \"h2\") on this port: use its gRPC port");
        return fail_with(transport, GRPC_CAUSE_NOT_HTTP2);
    } else if (is_about_our_certificate(reason)) {
        error_hint(
            error,
            "the server refuses our certificate: check certificate_file and key_file, and that it trusts their authority");
    } else {
        error_hint(error, "check that the port speaks TLS 1.2 or newer");
    }
    return fail_with(transport, GRPC_CAUSE_TLS);
}

/* The meaning of a result of SSL_read_ex(), SSL_write_ex() or SSL_do_handshake(). */
static enum transport_progress tls_progress(struct transport *transport, int result, struct weir_error *error)
{
    int native = errno;
    switch (SSL_get_error(transport->tls, result)) {
    case SSL_ERROR_WANT_READ:
        transport->wants_write = false;
        return TRANSPORT_WAIT;
    case SSL_ERROR_WANT_WRITE:
        transport->wants_write = true;
        return TRANSPORT_WAIT;
    case SSL_ERROR_ZERO_RETURN:
        return TRANSPORT_ENDED;
    case SSL_ERROR_SYSCALL:
        if (native == 0 || !transport->handshaken) {
            return TRANSPORT_ENDED;
        }
        (void)error_set_native(error, WEIR_ENGINE_UNREACHABLE, native, "the connection broke: %s", strerror(native));
        return fail_with(transport, GRPC_CAUSE_CONNECTION_LOST);
    default: {
        unsigned long code = ERR_get_error();
        ERR_clear_error();
        /* A killed peer closes without close_notify. */
        return ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING ? TRANSPORT_ENDED
                                                                          : describe_tls(transport, code, error);
    }
    }
}

/* A server without ALPN "h2" would not understand the first byte of ours. */
static enum transport_progress check_protocol(struct transport *transport, struct weir_error *error)
{
    const unsigned char *chosen = NULL;
    unsigned length = 0;
    SSL_get0_alpn_selected(transport->tls, &chosen, &length);
    if (length == 2 && memcmp(chosen, "h2", 2) == 0) {
        transport->handshaken = true;
        return TRANSPORT_DONE;
    }
    (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "the server did not choose HTTP/2 (ALPN \"h2\")");
    error_hint(error, "use its gRPC port; a proxy in front must pass HTTP/2 on");
    return fail_with(transport, GRPC_CAUSE_NOT_HTTP2);
}

enum transport_progress grpc_transport_establish(struct transport *transport, struct weir_error *error)
{
    INVARIANT(transport->fd >= 0);
    if (!transport->connected) {
        enum transport_progress progress = finish_connecting(transport, error);
        if (progress != TRANSPORT_DONE) {
            return progress;
        }
    }
    if (transport->tls == NULL) {
        transport->handshaken = true;
    }
    if (transport->handshaken) {
        transport->wants_write = false;
        return TRANSPORT_DONE;
    }
    ERR_clear_error();
    errno = 0;
    int result = SSL_do_handshake(transport->tls);
    if (result == 1) {
        transport->wants_write = false;
        return check_protocol(transport, error);
    }
    enum transport_progress progress = tls_progress(transport, result, error);
    if (progress == TRANSPORT_ENDED) {
        (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "the server closed the connection during the TLS handshake");
        error_hint(error, "check that the port speaks TLS; a proxy that cannot reach its server does this, too");
        return fail_with(transport, GRPC_CAUSE_TLS);
    }
    return progress;
}

/* --- bytes --- */

/* The meaning of a negative result of recv() or send(). */
static enum transport_progress socket_progress(struct transport *transport, bool writing, struct weir_error *error)
{
    int native = errno;
    if (native == EAGAIN || native == EWOULDBLOCK || native == EINTR) {
        transport->wants_write = writing;
        return TRANSPORT_WAIT;
    }
    (void)error_set_native(error, WEIR_ENGINE_UNREACHABLE, native, "the connection broke: %s", strerror(native));
    return fail_with(transport, GRPC_CAUSE_CONNECTION_LOST);
}

enum transport_progress grpc_transport_read(struct transport *transport, uint8_t *to, size_t size, size_t *ret_length,
                                            struct weir_error *error)
{
    if (transport->tls != NULL) {
        ERR_clear_error();
        errno = 0;
        int result = SSL_read_ex(transport->tls, to, size, ret_length);
        return result == 1 ? TRANSPORT_DONE : tls_progress(transport, result, error);
    }
    INVARIANT(transport->fd >= 0);
    ssize_t got = recv(transport->fd, to, size, 0);
    if (got > 0) {
        *ret_length = (size_t)got;
        return TRANSPORT_DONE;
    }
    return got == 0 ? TRANSPORT_ENDED : socket_progress(transport, false, error);
}

enum transport_progress grpc_transport_write(struct transport *transport, const uint8_t *bytes, size_t length,
                                             size_t *ret_written, struct weir_error *error)
{
    if (transport->tls != NULL) {
        ERR_clear_error();
        errno = 0;
        int result = SSL_write_ex(transport->tls, bytes, length, ret_written);
        return result == 1 ? TRANSPORT_DONE : tls_progress(transport, result, error);
    }
    INVARIANT(transport->fd >= 0);
    ssize_t sent = send(transport->fd, bytes, length, MSG_NOSIGNAL);
    if (sent >= 0) {
        *ret_written = (size_t)sent;
        return TRANSPORT_DONE;
    }
    return socket_progress(transport, true, error);
}

bool grpc_transport_holds_bytes(const struct transport *transport)
{
    return transport->tls != NULL && SSL_has_pending(transport->tls) == 1;
}
