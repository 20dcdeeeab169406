/* A TCP proxy between a client and a server on 127.0.0.1, that can go wrong on purpose. It runs in a thread of its own.
 *
 * A half-open link is one whose ends both think that it lives: the proxy reads and acknowledges, and passes nothing on. */
#ifndef WEIR_TESTS_SUPPORT_PROXY_H
#define WEIR_TESTS_SUPPORT_PROXY_H

struct proxy;

enum proxy_mode {
    PROXY_PASSES,
    PROXY_SWALLOWS,         /* what comes from either side vanishes */
    PROXY_SWALLOWS_ANSWERS, /* only what the server says vanishes */
};

/* Listens on a free port. */
struct proxy *proxy_open(int server_port);
void proxy_close(struct proxy *proxy);
int proxy_port(const struct proxy *proxy);
void proxy_set_mode(struct proxy *proxy, enum proxy_mode mode);
/* Cuts every link that is open now. */
void proxy_cut(struct proxy *proxy);

#endif
