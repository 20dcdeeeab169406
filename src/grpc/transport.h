/* One TCP connection with TLS or without, never blocking.
 */
#ifndef WEIR_GRPC_TRANSPORT_H
#define WEIR_GRPC_TRANSPORT_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grpc/target.h"

enum transport_progress {
    TRANSPORT_DONE,  /* bytes moved, or the step was finished */
    TRANSPORT_WAIT,  /* nothing moves until the fd is ready, see wants_write */
    TRANSPORT_ENDED, /* the peer has closed */
    TRANSPORT_FAILED /* `cause` and `error` have the reason */
};

struct transport {
    int fd;
    bool connected;
    bool handshaken;  /* at once without TLS */
    bool wants_write; /* the waiting operation needs the fd to be writable */
    SSL *tls;         /* NULL without */
    enum grpc_cause cause;
};

/* Begins to connect. `context` NULL: no TLS; else `server_name` (a host name or an IP address) is asked for and verified.
 * `user_timeout_ms`: how long the kernel waits for acknowledgements. Reasons of the moment (no route ...) also fail here.
 */
WEIR_MUST_CHECK enum weir_status grpc_transport_open(struct transport *transport, const struct address *address,
                                                     SSL_CTX *context, const char *server_name, unsigned user_timeout_ms,
                                                     struct weir_error *error);
/* For tests and fuzzing: over a connected socket, which it owns from now on. */
void grpc_transport_adopt(struct transport *transport, int fd);
void grpc_transport_close(struct transport *transport);

/* Goes on with connecting and the handshake. TRANSPORT_DONE: bytes may be read and written. */
enum transport_progress grpc_transport_establish(struct transport *transport, struct weir_error *error);
enum transport_progress grpc_transport_read(struct transport *transport, uint8_t *to, size_t size, size_t *ret_length,
                                            struct weir_error *error);
enum transport_progress grpc_transport_write(struct transport *transport, const uint8_t *bytes, size_t length,
                                             size_t *ret_written, struct weir_error *error);
/* Decrypted bytes are unread in memory; epoll does not report them. */
bool grpc_transport_holds_bytes(const struct transport *transport);

#endif
