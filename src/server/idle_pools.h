/* Memory of connections that wait for a next request.
 *
 * The library has one piece of memory for each connection, its pool. After each request it writes zeros over the whole
 * pool, so that all pages of it count, though nothing is in them. Pages with zeros alone go back to the system here. A page
 * that was given back reads as zeros, so the library notices nothing.
 *
 * The library does not show where a pool begins. A request begins at the begin of the pool, unless empty lines were sent
 * before it. The number of bytes that the system has received shows whether any were: then it is more than the bytes of
 * all requests. So a pool is known after the first request of a connection of TCP without TLS. All others keep their
 * memory.
 *
 * Threads: that of the listener alone, which is the one that uses the pools. So no page is written while it is looked at.
 */
#ifndef WEIR_SERVER_IDLE_POOLS_H
#define WEIR_SERVER_IDLE_POOLS_H

#include <stddef.h>
#include <stdint.h>

struct connection_entry;

/* Of one listener without TLS: its idle connections, the one that has waited longest first. Zero at first. */
struct idle_pools {
    struct connection_entry *first;
    struct connection_entry *last;
    size_t pool_bytes; /* of each pool */
};

/* Part of the entry of a connection. Zero at first. */
struct idle_pool {
    struct idle_pools *pools; /* NULL = it is in no list */
    struct connection_entry *next;
    struct connection_entry *before;
    int64_t since_us;     /* boot clock */
    const char *start;    /* NULL = not known */
    uint64_t taken_bytes; /* heads and bodies of the requests so far */
};

/* So long a connection is idle before its pages are given back: then a client with one request after the other pays
 * nothing. */
#define IDLE_POOL_US (2 * (int64_t)1000000)
/* So many give their pages back at once, because the requests of others wait meanwhile. The next request goes on. */
enum { IDLE_POOLS_AT_ONCE = 64 };

/* A request begins: the connection is idle no more. */
void idle_pools_begin(struct connection_entry *entry);
/* The whole request was read. `start`: where its head begins in the memory of the library. */
void idle_pools_count(struct connection_entry *entry, const char *start, size_t head_bytes, size_t body_bytes);
/* Its answer was sent. */
void idle_pools_end(struct idle_pools *pools, struct connection_entry *entry, int64_t now_us);
/* Gives back pages of those that have been idle for long enough, of IDLE_POOLS_AT_ONCE at most. Any event of the listener
 * is an occasion. */
void idle_pools_return(struct idle_pools *pools, int64_t now_us);

#endif
