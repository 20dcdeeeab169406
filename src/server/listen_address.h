/* The addresses of `http.listen`: "127.0.0.1:7717", "[::1]:7717", "localhost:7717", "https://0.0.0.0:7717" (with TLS),
 * "unix:/run/weir/http.sock", "systemd" (the sockets that the service manager has opened); several with commas. One thread.
 */
#ifndef WEIR_SERVER_LISTEN_ADDRESS_H
#define WEIR_SERVER_LISTEN_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "weir/status.h"

enum { LISTEN_ADDRESSES_MAX = 8, LISTEN_ADDRESS_BYTES_MAX = 128 };

/* A socket that listens, and the address that it has: with the port that the system chose for port 0. */
struct listen_socket {
    int fd;
    bool has_tls;
    bool is_local; /* only this machine reaches it */
    char address[LISTEN_ADDRESS_BYTES_MAX];
    char path[LISTEN_ADDRESS_BYTES_MAX]; /* of the file of a unix socket; else empty */
    dev_t device;                        /* of that file */
    ino_t inode;
};

/* Opens the sockets of a list; all or none. Without TLS an address that other machines reach is refused, unless
 * `behind_proxy`: then a proxy in front of it has TLS. The file of a unix socket may be used by the user and the group of
 * the process; one that a dead process left is replaced. WEIR_INVALID_CONFIG: the list; WEIR_SYSTEM: it is in use, or the
 * system refuses it. */
WEIR_MUST_CHECK enum weir_status listen_address_open(const char *list, bool behind_proxy, struct listen_socket *sockets,
                                                     size_t *ret_count, struct weir_error *error);
/* Removes the file of a unix socket, unless another process has put its own in its place. */
void listen_address_remove_file(struct listen_socket *socket);
/* Removes the file and closes the socket. */
void listen_address_close(struct listen_socket *socket);

#endif
