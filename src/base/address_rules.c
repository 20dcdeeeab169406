/* Rules for the hosts and addresses that requests of definitions may reach.
 *
 *   1. An address is brought into one form of 16 bytes; IPv4 becomes ::ffff:a.b.c.d. So an IPv4 rule also covers the mapped
 *      spelling of its addresses.
 *   2. An address in a network of the list is right.
 *   3. Any other must be public, and the host of the URL must be listed.
 *
 * Public is decided by exclusion in IPv4 and by inclusion in IPv6. The registries of special-purpose addresses (RFC
 * 6890, IANA) name what is not public in IPv4, and in IPv6 only 2000::/3 is assigned to global unicast. Nothing here
 * resolves a name or opens a socket. Pure functions; any thread. */
#include "base/address_rules.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

/* --- addresses in one form --- */

/* False for another family than IPv4 and IPv6. */
static bool address_to_bytes(const struct sockaddr *address, size_t length, uint8_t *to)
{
    if (address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        memcpy(to, mapped_prefix, sizeof mapped_prefix);
        memcpy(to + sizeof mapped_prefix, &v4.sin_addr, 4);
        return true;
    }
    if (address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        memcpy(to, &v6.sin6_addr, ADDRESS_BYTES);
        return true;
    }
    return false;
}

static bool has_prefix(const uint8_t *bytes, const uint8_t *prefix, int bits)
{
    int whole = bits / 8;
    int rest = bits % 8;
    return memcmp(bytes, prefix, (size_t)whole) == 0 &&
           (rest == 0 || ((bytes[whole] ^ prefix[whole]) & (0xff << (8 - rest)) & 0xff) == 0);
}

static bool is_public_v4(const uint8_t *bytes)
{
    static const struct {
        uint8_t prefix[4];
        int bits;
    } special[] = {
        {{0}, 8},                 /* this host; 0.0.0.0 connects to the node itself */
        {{10}, 8},                /* private */
        {{100, 64}, 10},          /* shared by the customers of a provider (CGNAT) */
        {{127}, 8},               /* loopback */
        {{169, 254}, 16},         /* link-local: metadata services */
        {{172, 16}, 12},          /* private */
        {{192, 0, 0}, 24},        /* protocol assignments */
        {{192, 0, 2}, 24},        /* documentation */
        {{192, 88, 99}, 24},      /* relays of 6to4 */
        {{192, 168}, 16},         /* private */
        {{198, 18}, 15},          /* benchmarks */
        {{198, 51, 100}, 24},     /* documentation */
        {{203, 0, 113}, 24},      /* documentation */
        {{224}, 4},               /* multicast */
        {{240}, 4},               /* reserved, and broadcast */
        {{168, 63, 129, 16}, 32}, /* public in form; the address of Azure's own services on every machine there */
    };
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        if (has_prefix(bytes, special[i].prefix, special[i].bits)) {
            return false;
        }
    }
    return true;
}

static bool is_public_v6(const uint8_t *bytes)
{
    static const uint8_t isatap[] = {0, 0, 0x5e, 0xfe};
    static const struct {
        uint8_t prefix[4];
        int bits;
    } special[] = {
        {{0x20, 0x01}, 23},             /* protocol assignments: Teredo, ORCHID, benchmarks */
        {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
        {{0x20, 0x02}, 16},             /* 6to4: holds an IPv4 address */
        {{0x3f, 0xff}, 20},             /* documentation */
    };
    if ((bytes[0] & 0xe0) != 0x20) { /* 2000::/3 is global unicast */
        return false;
    }
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        if (has_prefix(bytes, special[i].prefix, special[i].bits)) {
            return false;
        }
    }
    /* ISATAP, with or without the bit for a unique identifier: holds an IPv4 address. */
    return (bytes[8] & ~0x02) != isatap[0] || memcmp(bytes + 9, isatap + 1, sizeof isatap - 1) != 0;
}

static bool is_public(const uint8_t *bytes)
{
    return memcmp(bytes, mapped_prefix, sizeof mapped_prefix) == 0 ? is_public_v4(bytes + sizeof mapped_prefix)
                                                                   : is_public_v6(bytes);
}

/* --- the list --- */

/* "10.0.0.0/8", "::1". False: it is no address. */
static bool network_parse(const char *text, struct address_network *network)
{
    char address[INET6_ADDRSTRLEN];
    size_t length = strcspn(text, "/");
    if (length >= sizeof address) {
        return false;
    }
    memcpy(address, text, length);
    address[length] = '\0';
    bool is_v4 = inet_pton(AF_INET, address, network->bytes + sizeof mapped_prefix) == 1;
    if (is_v4) {
        memcpy(network->bytes, mapped_prefix, sizeof mapped_prefix);
    } else if (inet_pton(AF_INET6, address, network->bytes) != 1) {
        return false;
    }
    int most = is_v4 ? 32 : 128;
    long bits = most;
    if (text[length] == '/') {
        char *end = NULL;
        bits = strtol(text + length + 1, &end, 10);
        if (!isdigit((unsigned char)text[length + 1]) || *end != '\0' || bits < 0 || bits > most) {
            return false;
        }
    }
    network->bits = (int)bits + 128 - most;
    return true;
}

/* A name of letters, digits, '-', '_' and '.', whose last part is no number: those are spellings of addresses. */
static bool host_name_is_valid(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t length = strlen(name);
    const char *dot = strrchr(name, '.');
    const char *last = dot == NULL ? name : dot + 1;
    return length > 0 && length <= HOST_NAME_MAX_BYTES && name[strspn(name, letters)] == '\0' && name[0] != '.' &&
           strstr(name, "..") == NULL && isalpha((unsigned char)*last) != 0;
}

static enum weir_status add_host(struct address_rules *rules, const char *text, struct weir_error *error)
{
    bool is_below = strncmp(text, "*.", 2) == 0;
    if (!host_name_is_valid(is_below ? text + 2 : text)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%.200s\" is neither a host name nor an address nor a network", text);
        error_hint(error, "write api.example.com, *.example.com, 10.1.0.0/16, ::1, or * for every host name");
        return WEIR_INVALID_ARGUMENT;
    }
    char *host = strdup(is_below ? text + 1 : text);
    if (host == NULL) {
        return error_out_of_memory(error);
    }
    for (char *c = host; *c != '\0'; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    rules->hosts[rules->host_count++] = host;
    return WEIR_OK;
}

enum weir_status address_rules_open(struct address_rules *rules, const char *const *list, struct weir_error *error)
{
    INVARIANT(rules != NULL);
    *rules = (struct address_rules){.hosts = NULL};
    size_t count = 0;
    while (list != NULL && list[count] != NULL) {
        count++;
    }
    if (count > ADDRESS_RULES_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "more than %d hosts and networks", ADDRESS_RULES_MAX);
    }
    rules->hosts = calloc(count + 1, sizeof *rules->hosts);
    rules->networks = calloc(count + 1, sizeof *rules->networks);
    if (rules->hosts == NULL || rules->networks == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        if (strcmp(list[i], "*") == 0) {
            rules->has_every_host = true;
        } else if (network_parse(list[i], &rules->networks[rules->network_count])) {
            rules->network_count++;
        } else {
            status = add_host(rules, list[i], error);
        }
    }
    return status;
}

void address_rules_close(struct address_rules *rules)
{
    for (size_t i = 0; i < rules->host_count; i++) {
        free(rules->hosts[i]);
    }
    free(rules->hosts);
    free(rules->networks);
    *rules = (struct address_rules){.hosts = NULL};
}

/* --- decisions --- */

/* The dot at the end of an absolute name is not part of it. */
static bool host_is_listed(const struct address_rules *rules, const char *host)
{
    size_t length = strlen(host);
    length -= length > 0 && host[length - 1] == '.';
    bool is_listed = rules->has_every_host;
    for (size_t i = 0; i < rules->host_count && !is_listed; i++) {
        size_t listed = strlen(rules->hosts[i]);
        is_listed = rules->hosts[i][0] == '.'
                        ? length > listed && strncasecmp(host + length - listed, rules->hosts[i], listed) == 0
                        : length == listed && strncasecmp(host, rules->hosts[i], listed) == 0;
    }
    return is_listed;
}

bool address_rules_may_allow(const struct address_rules *rules, const char *host)
{
    INVARIANT(rules != NULL && host != NULL);
    return rules->network_count > 0 || host_is_listed(rules, host);
}

bool address_rules_allow(const struct address_rules *rules, const char *host, const struct sockaddr *address, size_t length)
{
    INVARIANT(rules != NULL && host != NULL && address != NULL);
    uint8_t bytes[ADDRESS_BYTES];
    if (!address_to_bytes(address, length, bytes)) {
        return false;
    }
    for (size_t i = 0; i < rules->network_count; i++) {
        if (has_prefix(bytes, rules->networks[i].bytes, rules->networks[i].bits)) {
            return true;
        }
    }
    return host_is_listed(rules, host) && is_public(bytes);
}
