/* The open connections of a server, each with the time at which it is cut.
 *
 * A connection is always in one phase: it waits for a head, it waits for the next request, it is answered, or a thread
 * computes its answer. The last phase has no deadline here, because the store's calls have their own.
 * connection_list_cut() shuts the sockets of those that are late; the library then closes them as if the client had
 * gone.
 *
 * A connection that holds memory for a body or an answer has a second time: then its client has been slower than
 * HTTP_BYTES_PER_SECOND_LEAST. It is cut at that time only while memory is short, so that clients that hold memory and do
 * nothing cannot keep it from others. Threads: any.
 */
#ifndef WEIR_SERVER_CONNECTION_LIST_H
#define WEIR_SERVER_CONNECTION_LIST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/idle_pools.h"

struct connection_entry {
    struct connection_entry *next;
    struct connection_entry *before;
    int fd;
    _Atomic int64_t due_us;  /* boot clock; TIME_NEVER = none */
    _Atomic int64_t slow_us; /* boot clock: from then on the client is slow; TIME_NEVER = never */
    struct idle_pool idle;   /* of the thread of the listener */
};

struct connection_list {
    pthread_mutex_t lock;
    struct connection_entry *first;
    size_t count;
};

void connection_list_init(struct connection_list *list);
/* NULL: no memory. The entry lives until connection_list_remove(). */
struct connection_entry *connection_list_add(struct connection_list *list, int fd, int64_t due_us);
/* Before the socket is closed. Frees the entry. */
void connection_list_remove(struct connection_list *list, struct connection_entry *entry);
/* How many were late. `is_short`: those that are slow as well. */
size_t connection_list_cut(struct connection_list *list, int64_t now_us, bool is_short);
/* All of them must have been removed. */
void connection_list_close(struct connection_list *list);

#endif
