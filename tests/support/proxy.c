/* A TCP proxy that can drop bytes and cut links.
 *
 * One thread polls the listener and all links and copies bytes between the two ends of a link. The mode and the requests of
 * the test are atomic variables; an eventfd wakes the thread. In a swallowing mode the proxy still reads, so that the
 * kernel acknowledges and both ends assume a living connection.
 */
#include "support/proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "support/test.h"

enum { LINKS_MOST = 64, CHUNK = 65536 };

struct proxy {
    int listener;
    int port;
    int server_port;
    int wake_fd;
    pthread_t thread;
    atomic_int mode;
    atomic_bool cut;
    atomic_bool closing;
    int clients[LINKS_MOST];
    int servers[LINKS_MOST];
    int count;
};

static int listen_somewhere(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, LINKS_MOST), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static int connect_to(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static void drop(struct proxy *proxy, int at)
{
    (void)close(proxy->clients[at]);
    (void)close(proxy->servers[at]);
    proxy->count--;
    proxy->clients[at] = proxy->clients[proxy->count];
    proxy->servers[at] = proxy->servers[proxy->count];
}

static void take_client(struct proxy *proxy)
{
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    int server = client < 0 || proxy->count == LINKS_MOST ? -1 : connect_to(proxy->server_port);
    if (server < 0) {
        if (client >= 0) {
            (void)close(client);
        }
        return;
    }
    proxy->clients[proxy->count] = client;
    proxy->servers[proxy->count] = server;
    proxy->count++;
}

/* False when this side has hung up. Small messages fit into the socket's buffer, so writing may block. */
static int pass_on(struct proxy *proxy, int from, int to, int is_answer)
{
    char chunk[CHUNK];
    ssize_t got = read(from, chunk, sizeof chunk);
    int mode = proxy->mode;
    if (got <= 0) {
        return 0;
    }
    if (mode == PROXY_SWALLOWS || (mode == PROXY_SWALLOWS_ANSWERS && is_answer)) {
        return 1;
    }
    for (ssize_t at = 0; at < got;) {
        ssize_t written = send(to, chunk + at, (size_t)(got - at), MSG_NOSIGNAL);
        if (written <= 0) {
            return 0;
        }
        at += written;
    }
    return 1;
}

static void serve_links(struct proxy *proxy, const struct pollfd *fds, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        const struct pollfd *client = &fds[2 + 2 * i];
        const struct pollfd *server = &fds[3 + 2 * i];
        if ((client->revents != 0 && !pass_on(proxy, client->fd, server->fd, 0)) ||
            (server->revents != 0 && !pass_on(proxy, server->fd, client->fd, 1))) {
            drop(proxy, i);
        }
    }
}

static void *run(void *context)
{
    struct proxy *proxy = context;
    while (!proxy->closing) {
        struct pollfd fds[2 + 2 * LINKS_MOST] = {{.fd = proxy->wake_fd, .events = POLLIN},
                                                 {.fd = proxy->listener, .events = POLLIN}};
        int count = proxy->count;
        for (int i = 0; i < count; i++) {
            fds[2 + 2 * i] = (struct pollfd){.fd = proxy->clients[i], .events = POLLIN};
            fds[3 + 2 * i] = (struct pollfd){.fd = proxy->servers[i], .events = POLLIN};
        }
        (void)poll(fds, (nfds_t)(2 + 2 * count), -1);
        if (fds[0].revents != 0) {
            uint64_t wakes;
            ssize_t got = read(proxy->wake_fd, &wakes, sizeof wakes);
            (void)got;
        }
        serve_links(proxy, fds, count);
        if (proxy->cut) {
            while (proxy->count > 0) {
                drop(proxy, 0);
            }
            proxy->cut = false;
        }
        if ((fds[1].revents & POLLIN) != 0) {
            take_client(proxy);
        }
    }
    return NULL;
}

static void wake(struct proxy *proxy)
{
    uint64_t one = 1;
    assert_int_equal(write(proxy->wake_fd, &one, sizeof one), sizeof one);
}

struct proxy *proxy_open(int server_port)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    assert_non_null(proxy);
    proxy->server_port = server_port;
    proxy->listener = listen_somewhere(&proxy->port);
    proxy->wake_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(proxy->wake_fd >= 0);
    assert_int_equal(pthread_create(&proxy->thread, NULL, run, proxy), 0);
    return proxy;
}

void proxy_close(struct proxy *proxy)
{
    proxy->closing = true;
    wake(proxy);
    (void)pthread_join(proxy->thread, NULL);
    while (proxy->count > 0) {
        drop(proxy, 0);
    }
    (void)close(proxy->listener);
    (void)close(proxy->wake_fd);
    free(proxy);
}

int proxy_port(const struct proxy *proxy)
{
    return proxy->port;
}

void proxy_set_mode(struct proxy *proxy, enum proxy_mode mode)
{
    proxy->mode = (int)mode;
}

static void nap(void)
{
    struct timespec pause = {.tv_sec = 0, .tv_nsec = 1000 * 1000};
    (void)nanosleep(&pause, NULL);
}

void proxy_cut(struct proxy *proxy)
{
    proxy->cut = true;
    wake(proxy);
    while (proxy->cut) {
        nap();
    }
}
