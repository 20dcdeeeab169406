/* Reads the addresses of `http.listen` and opens their sockets.
 *
 * A host is an address in figures or "localhost": a name that a server of names could change would make the check for this
 * machine worthless. The sockets are opened before the nodes start, so that an address in use ends the start and not a node
 * that already runs executions. */
#include "server/listen_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

#define UNIX_PREFIX "unix:"
#define TLS_PREFIX "https://"
#define SYSTEMD_WORD "systemd"
enum { BACKLOG = 1024, PORT_MOST = 65535, SOCKET_FILE_MODE = 0660, SYSTEMD_FD_FIRST = 3 };

union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un file;
};

/* The hint shows every form. */
static enum weir_status refuse_address(const char *address, const char *reason, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_CONFIG, "http.listen: \"%s\" %s", address, reason);
    error_hint(error, "for example 127.0.0.1:7717, https://0.0.0.0:7717 or unix:/run/weir/http.sock; several with commas");
    return WEIR_INVALID_CONFIG;
}

/* Splits "HOST:PORT"; `host` holds LISTEN_ADDRESS_BYTES_MAX bytes and loses its brackets. -1: it is no such thing. */
static int split_port(const char *address, char *host)
{
    const char *colon = strrchr(address, ':');
    char *end = NULL;
    if (colon == NULL || colon == address || colon[1] < '0' || colon[1] > '9') {
        return -1;
    }
    long port = strtol(colon + 1, &end, 10);
    size_t length = (size_t)(colon - address);
    bool is_bracketed = address[0] == '[' && colon[-1] == ']';
    memcpy(host, address + is_bracketed, length - 2 * (size_t)is_bracketed);
    host[length - 2 * (size_t)is_bracketed] = '\0';
    bool has_colon = strchr(host, ':') != NULL;
    return *end != '\0' || port > PORT_MOST || has_colon != is_bracketed ? -1 : (int)port;
}

static enum weir_status read_ip_address(const char *address, union socket_address *to, socklen_t *ret_length,
                                        struct weir_error *error)
{
    char host[LISTEN_ADDRESS_BYTES_MAX];
    int port = split_port(address, host);
    memset(to, 0, sizeof *to);
    if (port < 0) {
        return refuse_address(address, "is no address", error);
    }
    if (inet_pton(AF_INET6, host, &to->v6.sin6_addr) == 1) {
        to->v6.sin6_family = AF_INET6;
        to->v6.sin6_port = htons((uint16_t)port);
        *ret_length = sizeof to->v6;
        return WEIR_OK;
    }
    if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &to->v4.sin_addr) != 1) {
        return refuse_address(address, "has a host that is no address in figures", error);
    }
    to->v4.sin_family = AF_INET;
    to->v4.sin_port = htons((uint16_t)port);
    *ret_length = sizeof to->v4;
    return WEIR_OK;
}

/* Whether only processes of this machine can connect. */
static bool is_local_address(const union socket_address *address)
{
    switch (address->any.sa_family) {
    case AF_UNIX:
        return true;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
    case AF_INET:
        return ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    default:
        return false;
    }
}

/* Tokens in plain text would be read on the way, so plain HTTP leaves this machine only where the user says that TLS is
 * elsewhere. */
static enum weir_status check_openness(const char *address, const struct listen_socket *socket, bool behind_proxy,
                                       struct weir_error *error)
{
    if (socket->is_local || socket->has_tls || behind_proxy) {
        return WEIR_OK;
    }
    error_set(error, WEIR_INVALID_CONFIG, "http.listen: \"%s\" is open to other machines, without TLS", address);
    error_hint(error,
               "write https://HOST:PORT, listen at 127.0.0.1, or set http.behind_proxy: true if a proxy in front has TLS");
    return WEIR_INVALID_CONFIG;
}

/* `path` is empty for an address of IP. */
static enum weir_status read_address(const char *address, union socket_address *to, socklen_t *ret_length, char *path,
                                     struct weir_error *error)
{
    path[0] = '\0';
    if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) != 0) {
        return read_ip_address(address, to, ret_length, error);
    }
    const char *name = address + strlen(UNIX_PREFIX);
    if (name[0] != '/' || strlen(name) >= sizeof to->file.sun_path) {
        return refuse_address(address, "has no absolute path of at most 107 bytes", error);
    }
    memset(to, 0, sizeof *to);
    to->file.sun_family = AF_UNIX;
    text_copy(to->file.sun_path, sizeof to->file.sun_path, name);
    text_copy(path, LISTEN_ADDRESS_BYTES_MAX, name);
    *ret_length = sizeof to->file;
    return WEIR_OK;
}

/* Removes the file of a socket on which nobody listens. */
static void remove_dead_file(const union socket_address *address, const char *path)
{
    struct stat found;
    if (lstat(path, &found) != 0 || !S_ISSOCK(found.st_mode)) {
        return;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, &address->any, sizeof address->file) != 0 && errno == ECONNREFUSED) {
        (void)unlink(path);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* SO_REUSEADDR: connections of the last process in TIME_WAIT do not delay a restart. The mode of a file is set before
 * listen(), so nobody connects with rights that the process did not mean to give. */
static int bind_and_listen(const union socket_address *address, socklen_t length, const char *path)
{
    int one = 1;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    if (path[0] != '\0') {
        remove_dead_file(address, path);
    }
    if ((path[0] == '\0' && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0) ||
        bind(fd, &address->any, length) != 0 || (path[0] != '\0' && chmod(path, SOCKET_FILE_MODE) != 0) ||
        listen(fd, BACKLOG) != 0) {
        int native = errno;
        (void)close(fd);
        errno = native;
        return -1;
    }
    return fd;
}

/* Writes the address as it is now. */
static void write_address(struct listen_socket *socket, const char *address)
{
    union socket_address now;
    socklen_t length = sizeof now;
    char host[INET6_ADDRSTRLEN] = "";
    text_copy(socket->address, sizeof socket->address, address);
    if (socket->path[0] != '\0' || getsockname(socket->fd, &now.any, &length) != 0) {
        return;
    }
    if (now.any.sa_family == AF_UNIX) { /* the manager's; its file is not ours to remove, so it is no `path` */
        size_t most = length > offsetof(struct sockaddr_un, sun_path) ? length - offsetof(struct sockaddr_un, sun_path) : 0;
        (void)snprintf(socket->address, sizeof socket->address, UNIX_PREFIX "%.*s", (int)most, now.file.sun_path);
    } else {
        bool is_v6 = now.any.sa_family == AF_INET6;
        (void)inet_ntop(now.any.sa_family, is_v6 ? (void *)&now.v6.sin6_addr : (void *)&now.v4.sin_addr, host, sizeof host);
        (void)snprintf(socket->address, sizeof socket->address, is_v6 ? "%s[%s]:%u" : "%s%s:%u",
                       socket->has_tls ? TLS_PREFIX : "", host, ntohs(is_v6 ? now.v6.sin6_port : now.v4.sin_port));
    }
}

/* The prefix decides about TLS; the rest is an address as any other. */
static enum weir_status open_one(const char *address, bool behind_proxy, struct listen_socket *to, struct weir_error *error)
{
    union socket_address where;
    socklen_t length = 0;
    size_t prefix = strncmp(address, TLS_PREFIX, strlen(TLS_PREFIX)) == 0 ? strlen(TLS_PREFIX) : 0;
    *to = (struct listen_socket){.fd = -1, .has_tls = prefix > 0};
    enum weir_status status = read_address(address + prefix, &where, &length, to->path, error);
    if (status == WEIR_OK && prefix > 0 && to->path[0] != '\0') {
        status = refuse_address(address, "is a file with TLS, which no client speaks", error);
    }
    if (status == WEIR_OK) {
        to->is_local = is_local_address(&where);
        status = check_openness(address, to, behind_proxy, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    to->fd = bind_and_listen(&where, length, to->path);
    if (to->fd < 0) {
        bool is_used = errno == EADDRINUSE;
        error_set_native(error, WEIR_SYSTEM, errno, "http.listen: %s cannot be opened: %s", address, strerror(errno));
        error_hint(error, is_used ? "another process listens there: choose another address, or end it"
                                  : "choose another address, or give the process the right to it");
        return WEIR_SYSTEM;
    }
    struct stat made = {.st_dev = 0};
    if (to->path[0] != '\0' && lstat(to->path, &made) == 0) {
        to->device = made.st_dev;
        to->inode = made.st_ino;
    }
    write_address(to, address);
    return WEIR_OK;
}

/* Takes the sockets that the service manager has opened for this process, by the protocol of sd_listen_fds(3). Those with
 * the name "https" have TLS. The variables are removed, so that no child takes them for its own. */
static enum weir_status take_systemd_sockets(bool behind_proxy, struct listen_socket *sockets, size_t *count,
                                             struct weir_error *error)
{
    const char *pid = getenv("LISTEN_PID");
    const char *fds = getenv("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    long number = fds == NULL || pid == NULL || strtol(pid, NULL, 10) != (long)getpid() ? 0 : strtol(fds, NULL, 10);
    enum weir_status status = WEIR_OK;
    if (number < 1 || number > LISTEN_ADDRESSES_MAX - (long)*count) {
        error_set(error, WEIR_INVALID_CONFIG, "http.listen: the service manager has opened %ld sockets for this process",
                  number);
        error_hint(error, "systemd does so with a unit weir.socket beside weir.service; at most 8 addresses together");
        return WEIR_INVALID_CONFIG;
    }
    for (int i = 0; i < (int)number && status == WEIR_OK; i++) {
        union socket_address where = {.any.sa_family = AF_UNSPEC};
        socklen_t length = sizeof where;
        size_t name_length = names == NULL ? 0 : strcspn(names, ":");
        struct listen_socket *to = &sockets[*count];
        *to =
            (struct listen_socket){.fd = SYSTEMD_FD_FIRST + i,
                                   .has_tls = name_length == strlen("https") && strncmp(names, "https", name_length) == 0};
        names = names == NULL || names[name_length] == '\0' ? NULL : names + name_length + 1;
        if (getsockname(to->fd, &where.any, &length) != 0) {
            return error_set_native(error, WEIR_SYSTEM, errno, "http.listen: descriptor %d of the service manager: %s",
                                    to->fd, strerror(errno));
        }
        (void)fcntl(to->fd, F_SETFD, FD_CLOEXEC);
        (void)fcntl(to->fd, F_SETFL, fcntl(to->fd, F_GETFL) | O_NONBLOCK);
        to->is_local = is_local_address(&where);
        write_address(to, SYSTEMD_WORD);
        ++*count;
        status = check_openness(to->address, to, behind_proxy, error);
    }
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return status;
}

enum weir_status listen_address_open(const char *list, bool behind_proxy, struct listen_socket *sockets, size_t *ret_count,
                                     struct weir_error *error)
{
    INVARIANT(list != NULL && sockets != NULL && ret_count != NULL);
    enum weir_status status = WEIR_OK;
    *ret_count = 0;
    while (status == WEIR_OK && *list != '\0') {
        char address[LISTEN_ADDRESS_BYTES_MAX];
        list += strspn(list, " ");
        size_t length = strcspn(list, ",");
        size_t end = length;
        while (end > 0 && list[end - 1] == ' ') {
            end--;
        }
        text_copy(address, end + 1 < sizeof address ? end + 1 : sizeof address, list);
        if (end >= sizeof address || *ret_count == LISTEN_ADDRESSES_MAX) {
            status =
                refuse_address(address, end >= sizeof address ? "is too long" : "is the ninth address: at most 8", error);
        } else if (strcmp(address, SYSTEMD_WORD) == 0) {
            status = take_systemd_sockets(behind_proxy, sockets, ret_count, error);
        } else {
            status = open_one(address, behind_proxy, &sockets[*ret_count], error);
            *ret_count += status == WEIR_OK;
        }
        list += length + (list[length] == ',');
    }
    while (status != WEIR_OK && *ret_count > 0) {
        listen_address_close(&sockets[--*ret_count]);
    }
    return status;
}

void listen_address_remove_file(struct listen_socket *socket)
{
    INVARIANT(socket != NULL);
    struct stat found;
    if (socket->path[0] != '\0' && lstat(socket->path, &found) == 0 && found.st_dev == socket->device &&
        found.st_ino == socket->inode) {
        (void)unlink(socket->path);
    }
    socket->path[0] = '\0';
}

void listen_address_close(struct listen_socket *socket)
{
    listen_address_remove_file(socket);
    if (socket->fd >= 0) {
        (void)close(socket->fd);
        socket->fd = -1;
    }
}
