/* Targets ("host:port, [::1]:7233") and the addresses behind them. Pure functions; any thread.
 *
 * grpc_targets_read() checks the setting of a user: every refusal names the part and the reason, and the hint shows a
 * correct target. Hosts are names or numeric addresses; IPv6 needs brackets, because a port follows a colon.
 * grpc_addresses_add() merges the results of lookups: two names of one server lead to one connection. The address text is
 * numeric, for events.
 */
#include "grpc/target.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

/* Bounded: the part comes from a setting of any length. */
static enum weir_status refuse_target(const char *part, size_t length, const char *why, struct weir_error *error)
{
    (void)error_set(error, WEIR_INVALID_CONFIG, "the address \"%.*s\" %s", length > 200 ? 200 : (int)length, part, why);
    error_hint(error,
               "write host:port, as temporal.example.com:7233, 10.0.0.7:7233 or [::1]:7233; several with ',' between");
    return WEIR_INVALID_CONFIG;
}

/* 1 to 65535, without a leading zero. */
static bool port_is_fine(const char *port, size_t length)
{
    unsigned value = 0;
    for (size_t i = 0; i < length && i < GRPC_PORT_TEXT_MAX; i++) {
        if (port[i] < '0' || port[i] > '9') {
            return false;
        }
        value = value * 10 + (unsigned)(port[i] - '0');
    }
    return length >= 1 && length < GRPC_PORT_TEXT_MAX && value >= 1 && value <= 65535 && port[0] != '0';
}

static bool is_numeric(const char *host)
{
    struct in6_addr bytes;
    return inet_pton(AF_INET, host, &bytes) == 1 || inet_pton(AF_INET6, host, &bytes) == 1;
}

/* The last colon separates the port, so that brackets may hold more of them. */
static enum weir_status read_target(const char *part, size_t length, struct target *target, struct weir_error *error)
{
    const char *host = part;
    const char *colon = memrchr(part, ':', length);
    if (memmem(part, length, "://", 3) != NULL) {
        return refuse_target(part, length, "has a scheme; TLS is chosen by the TLS options", error);
    }
    if (colon == NULL) {
        return refuse_target(part, length, "has no port", error);
    }
    size_t host_length = (size_t)(colon - part);
    size_t port_length = length - host_length - 1;
    bool bracketed = host_length > 2 && part[0] == '[' && part[host_length - 1] == ']';
    if (bracketed) {
        host++;
        host_length -= 2;
    }
    if (!port_is_fine(colon + 1, port_length)) {
        return refuse_target(part, length, "has a port that is no number from 1 to 65535", error);
    }
    if (host_length == 0 || host_length > GRPC_HOST_MAX) {
        return refuse_target(part, length, host_length == 0 ? "has no host" : "has a host of more than 253 bytes", error);
    }
    memcpy(target->host, host, host_length);
    target->host[host_length] = '\0';
    memcpy(target->port, colon + 1, port_length);
    target->port[port_length] = '\0';
    target->is_numeric = is_numeric(target->host);
    bool is_name = strspn(target->host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == host_length;
    if (bracketed ? !target->is_numeric || strchr(target->host, ':') == NULL : !is_name) {
        return refuse_target(part, length,
                             bracketed ? "has no IPv6 address in its brackets" : "has a host that is no host name", error);
    }
    (void)snprintf(target->text, sizeof target->text, bracketed ? "[%s]:%s" : "%s:%s", target->host, target->port);
    return WEIR_OK;
}

enum weir_status grpc_targets_read(const char *text, struct targets *ret_targets, struct weir_error *error)
{
    INVARIANT(text != NULL && ret_targets != NULL);
    struct targets targets = {.count = 0};
    const char *part = text;
    for (;;) {
        part += strspn(part, " ");
        size_t length = strcspn(part, ",");
        size_t trimmed = length;
        while (trimmed > 0 && part[trimmed - 1] == ' ') {
            trimmed--;
        }
        if (targets.count == GRPC_TARGETS_MAX) {
            return error_set(error, WEIR_INVALID_CONFIG, "there are more than %d addresses", GRPC_TARGETS_MAX);
        }
        enum weir_status status = read_target(part, trimmed, &targets.list[targets.count], error);
        if (status != WEIR_OK) {
            return status;
        }
        targets.count++;
        if (part[length] == '\0') {
            break;
        }
        part += length + 1;
    }
    *ret_targets = targets;
    return WEIR_OK;
}

bool grpc_targets_are_numeric(const struct targets *targets)
{
    INVARIANT(targets->count <= GRPC_TARGETS_MAX);
    for (size_t i = 0; i < targets->count; i++) {
        if (!targets->list[i].is_numeric) {
            return false;
        }
    }
    return true;
}

bool grpc_address_equals(const struct address *a, const struct address *b)
{
    return a->target == b->target && a->length == b->length &&
           memcmp(&a->socket_address, &b->socket_address, a->length) == 0;
}

static void write_address_text(struct address *address)
{
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    if (getnameinfo((const struct sockaddr *)&address->socket_address, address->length, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        text_copy(address->text, sizeof address->text, "?");
        return;
    }
    (void)snprintf(address->text, sizeof address->text, address->socket_address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
                   host, port);
}

void grpc_addresses_add(struct addresses *addresses, const struct addrinfo *found, size_t target)
{
    INVARIANT(target < GRPC_TARGETS_MAX && addresses->count <= GRPC_ADDRESSES_MAX);
    for (; found != NULL && addresses->count < GRPC_ADDRESSES_MAX; found = found->ai_next) {
        struct address address = {.length = found->ai_addrlen, .target = target};
        if ((found->ai_family != AF_INET && found->ai_family != AF_INET6) ||
            found->ai_addrlen > sizeof address.socket_address) {
            continue;
        }
        memcpy(&address.socket_address, found->ai_addr, found->ai_addrlen);
        bool known = false;
        for (size_t i = 0; i < addresses->count && !known; i++) {
            /* Two targets may mean the same server: one connection is enough. */
            known = addresses->list[i].length == address.length &&
                    memcmp(&addresses->list[i].socket_address, &address.socket_address, address.length) == 0;
        }
        if (!known) {
            write_address_text(&address);
            addresses->list[addresses->count++] = address;
        }
    }
}
