/* Targets ("host:port" as a person writes them) and the addresses that they stand for. Pure.
 */
#ifndef WEIR_GRPC_TARGET_H
#define WEIR_GRPC_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "grpc/grpc_client.h"

enum { GRPC_PORT_TEXT_MAX = 6, GRPC_TARGET_TEXT_MAX = GRPC_HOST_MAX + 10, GRPC_ADDRESS_TEXT_MAX = 64 };

struct target {
    char host[GRPC_HOST_MAX + 1];    /* without brackets */
    char port[GRPC_PORT_TEXT_MAX];   /* "7233" */
    char text[GRPC_TARGET_TEXT_MAX]; /* "host:port", as :authority wants it */
    bool is_numeric;                 /* an IP address */
};

struct targets {
    size_t count;
    struct target list[GRPC_TARGETS_MAX];
};

/* Reads "host:port,[::1]:7233". WEIR_INVALID_CONFIG names the wrong part and shows the form. */
WEIR_MUST_CHECK enum weir_status grpc_targets_read(const char *text, struct targets *ret_targets, struct weir_error *error);

/* Nothing to look up. */
bool grpc_targets_are_numeric(const struct targets *targets);

struct address {
    struct sockaddr_storage socket_address;
    socklen_t length;
    char text[GRPC_ADDRESS_TEXT_MAX]; /* "127.0.0.1:7233", "[::1]:7233" */
    size_t target;                    /* which of the targets it is of */
};

struct addresses {
    size_t count;
    struct address list[GRPC_ADDRESSES_MAX];
};

bool grpc_address_equals(const struct address *a, const struct address *b);
/* Adds those of IPv4 and IPv6 in the list that are not there yet, while the list has a free entry. */
void grpc_addresses_add(struct addresses *addresses, const struct addrinfo *found, size_t target);

#endif
