/* The hosts and addresses that a request on behalf of a definition may reach.
 *
 * A definition is written by other people than the operator of its node. Without rules its requests would reach what only
 * the node's network can: metadata services, databases without a password, the node itself (server-side request forgery).
 * So every address is checked in its binary form, after the name was resolved and just before the connection. There
 * neither another spelling (`0x7f.1`, `[::ffff:127.0.0.1]`) makes a difference, nor a name that resolves to another
 * address the second time.
 *
 * A list of rules has entries of these forms:
 *
 *     *                      every host name; public addresses only
 *     api.example.com        this host name; public addresses only
 *     *.example.com          each host name below it; public addresses only
 *     10.1.0.0/16, ::1       these addresses, public or not, whatever the name
 *
 * Threads: any, after address_rules_open(). Owner: the caller, until address_rules_close().
 */
#ifndef WEIR_BASE_ADDRESS_RULES_H
#define WEIR_BASE_ADDRESS_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "weir/status.h"

enum { ADDRESS_RULES_MAX = 256, ADDRESS_BYTES = 16, HOST_NAME_MAX_BYTES = 253 };

struct address_network {
    uint8_t bytes[ADDRESS_BYTES]; /* IPv4 as ::ffff:a.b.c.d */
    int bits;
};

struct address_rules {
    bool has_every_host;
    char **hosts; /* lower case; ".example.com" stands for each name below it */
    size_t host_count;
    struct address_network *networks;
    size_t network_count;
};

/* `list` is NULL-terminated; NULL allows nothing. WEIR_INVALID_ARGUMENT: an entry of no known form, or too many;
 * WEIR_OUT_OF_MEMORY. After an error address_rules_close() frees the parts. */
WEIR_MUST_CHECK enum weir_status address_rules_open(struct address_rules *rules, const char *const *list,
                                                    struct weir_error *error);
void address_rules_close(struct address_rules *rules);
/* False when no address makes a request to this host right, so that its name need not be resolved. `host` is the host of a
 * URL, without brackets. */
bool address_rules_may_allow(const struct address_rules *rules, const char *host);
/* Public is a unicast address that the whole internet can reach. The forms of IPv6 that hold an IPv4 address (NAT64, 6to4,
 * Teredo, ISATAP) are not, except ::ffff:a.b.c.d, which counts as a.b.c.d.
 * True when a connection to `address` for a request to `host` is right. Other families than IPv4 and IPv6 never are. */
bool address_rules_allow(const struct address_rules *rules, const char *host, const struct sockaddr *address,
                         size_t length);
#endif
