/* A TCP proxy between a client and a server on 127.0.0.1, that fails on purpose. It runs in a thread of its own.
 *
 * A half-open link is one whose ends both assume a living connection: the proxy reads and acknowledges, and passes nothing
 * on. */
#ifndef WEIR_TESTS_SUPPORT_PROXY_H
#define WEIR_TESTS_SUPPORT_PROXY_H

struct proxy;

enum proxy_mode {
    PROXY_PASSES,
    PROXY_SWALLOWS,         /* bytes of both sides vanish */
    PROXY_SWALLOWS_ANSWERS, /* only bytes of the server vanish */
};

/* Listens on a free port. */
struct proxy *proxy_open(int server_port);
void proxy_close(struct proxy *proxy);
int proxy_port(const struct proxy *proxy);
void proxy_set_mode(struct proxy *proxy, enum proxy_mode mode);
/* Cuts every link that is open now. */
void proxy_cut(struct proxy *proxy);

#endif
