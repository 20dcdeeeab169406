/* Turns notifications of the server into wake-ups of store handles: one thread and one connection per process and address.
 *
 * 1. The first subscription of an address starts the thread, the last one stops it and waits for its end.
 * 2. The thread connects, sends LISTEN and wakes every subscription, because notices are lost while it has no connection.
 * 3. It waits for the socket. Of each notice it marks the subscriptions that it concerns. When all notices are read it
 *    writes once to the eventfd of each marked one: a thousand notices cost one wake-up.
 * 4. After a minute of silence it sends a statement. A half-open connection does not answer, and step 2 begins again.
 * 5. After a fork the child forgets the listener: the thread does not exist there, and the connection is the parent's.
 *
 * A missed wake-up delays and never loses work, since every loop polls as well. So this file reports no errors, and it
 * never reads or writes the store. listeners_lock protects all lists; the thread never waits for the server while it has
 * it. */
#include "store/postgres/link/listen.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/link/link.h"

#define LISTEN_DEADLINE_US (5 * MICROSECONDS_PER_SECOND)
enum { SIGN_OF_LIFE_MS = 60 * 1000, RETRY_MS = 500 };

struct subscription {
    struct subscription *next;
    struct listener *listener;
    int64_t node_id; /* 0 = every notice */
    bool schedules;
    bool is_due; /* a notice that concerns it was read, and it is not woken yet */
    int fd;
};

struct listener {
    struct listener *next;
    struct address *address;
    struct subscription *subscriptions; /* under listeners_lock, as all lists here */
    int stop_fd;
    pthread_t thread;
};

static pthread_mutex_t listeners_lock = PTHREAD_MUTEX_INITIALIZER;
static struct listener *listeners;

/* --- the thread --- */

/* A notice that this program does not know concerns every subscription. */
static bool notice_concerns(const struct subscription *subscription, const char *notice)
{
    static const char node[] = "node:";
    if (subscription->node_id == 0) {
        return true;
    }
    if (strcmp(notice, "stream") == 0) {
        return false;
    }
    if (strcmp(notice, "news") == 0) {
        return subscription->schedules;
    }
    return strncmp(notice, node, sizeof node - 1) != 0 ||
           strtoll(notice + sizeof node - 1, NULL, 10) == subscription->node_id;
}

/* Marks the subscriptions that a notice concerns. The caller has listeners_lock. */
static void mark_concerned(struct listener *listener, const char *notice)
{
    for (struct subscription *at = listener->subscriptions; at != NULL; at = at->next) {
        at->is_due = at->is_due || notice_concerns(at, notice);
    }
}

/* Wakes each marked subscription once, however many notices were read. The caller has listeners_lock. */
static void wake_marked(struct listener *listener)
{
    uint64_t one = 1;
    for (struct subscription *at = listener->subscriptions; at != NULL; at = at->next) {
        if (at->is_due) {
            ssize_t written = write(at->fd, &one, sizeof one);
            (void)written; /* a full counter is readable anyway */
            at->is_due = false;
        }
    }
}

static void wake_all(struct listener *listener)
{
    (void)pthread_mutex_lock(&listeners_lock);
    mark_concerned(listener, "");
    wake_marked(listener);
    (void)pthread_mutex_unlock(&listeners_lock);
}

/* Waits for `ms`; true when the listener must stop. */
static bool wait_for_stop(const struct listener *listener, int ms)
{
    struct pollfd stop = {.fd = listener->stop_fd, .events = POLLIN};
    return poll(&stop, 1, ms) > 0;
}

/* A connection through a pooler cannot listen: it has no session of its own. */
static bool start_listening(struct link *link)
{
    PGresult *result = NULL;
    if (link->address->pooled) {
        return false;
    }
    link_start(link);
    if (link_connect(link, NULL) != WEIR_OK || link->address->pooled) {
        return false;
    }
    enum weir_status status = link_write(link, NULL, &result, QUERY_LISTEN, "");
    PQclear(result);
    return status == WEIR_OK;
}

/* Reads all notices that libpq has received. */
static void mark_and_wake(struct listener *listener, struct link *link)
{
    (void)pthread_mutex_lock(&listeners_lock);
    for (PGnotify *notice = PQnotifies(link->connection); notice != NULL; notice = PQnotifies(link->connection)) {
        mark_concerned(listener, notice->extra);
        PQfreemem(notice);
    }
    wake_marked(listener);
    (void)pthread_mutex_unlock(&listeners_lock);
}

/* Sends a statement on this connection. False: there was no answer, or another connection answered. */
static bool probe_connection(struct link *link)
{
    PGresult *result = NULL;
    link_start(link);
    /* link_write(), because link_read() would repeat it on a new connection, which does not listen. */
    enum weir_status status = link_write(link, NULL, &result, QUERY_PROBE, "");
    PQclear(result);
    return status == WEIR_OK;
}

/* Steps 3 and 4 of the file comment: until the connection is lost or the listener must stop. */
static void pass_notices_on(struct listener *listener, struct link *link)
{
    for (;;) {
        struct pollfd fds[2] = {{.fd = PQsocket(link->connection), .events = POLLIN},
                                {.fd = listener->stop_fd, .events = POLLIN}};
        const PGconn *listening = link->connection;
        int ready = poll(fds, 2, SIGN_OF_LIFE_MS);
        if (fds[1].revents != 0) {
            return;
        }
        if (ready == 0 && (!probe_connection(link) || link->connection != listening)) {
            return;
        }
        if (PQconsumeInput(link->connection) == 0 || PQstatus(link->connection) != CONNECTION_OK) {
            return;
        }
        mark_and_wake(listener, link);
    }
}

static void *run_listener(void *context)
{
    struct listener *listener = context;
    struct link link;
    link_init(&link, listener->address, LISTEN_DEADLINE_US, "weir listen");
    do {
        if (start_listening(&link)) {
            wake_all(listener); /* notices that came without a connection are lost */
            pass_notices_on(listener, &link);
        }
        link_drop(&link);
    } while (!wait_for_stop(listener, RETRY_MS));
    link_close(&link);
    return NULL;
}

/* --- joining and leaving --- */

static void reset_after_fork(void)
{
    /* The thread does not live in a child of fork(), and the connection is the parent's. */
    listeners = NULL;
    (void)pthread_mutex_init(&listeners_lock, NULL);
}

static void register_fork_handler(void)
{
    (void)pthread_atfork(NULL, NULL, reset_after_fork);
}

/* The caller has listeners_lock. NULL: no thread or no memory. */
static struct listener *listener_open(struct address *address)
{
    struct listener *listener = calloc(1, sizeof *listener);
    if (listener == NULL) {
        return NULL;
    }
    listener->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    listener->address = address_share(address);
    bool started = listener->stop_fd >= 0 && thread_start(&listener->thread, run_listener, listener) == 0;
    if (!started) {
        if (listener->stop_fd >= 0) {
            (void)close(listener->stop_fd);
        }
        address_release(listener->address);
        free(listener);
        return NULL;
    }
    listener->next = listeners;
    listeners = listener;
    return listener;
}

static struct listener *find_or_open_listener(struct address *address)
{
    for (struct listener *at = listeners; at != NULL; at = at->next) {
        if (at->address == address) {
            return at;
        }
    }
    return listener_open(address);
}

struct subscription *listener_join(struct address *address)
{
    INVARIANT(address != NULL);
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, register_fork_handler);
    if (!address->listen || address->pooled) {
        return NULL;
    }
    struct subscription *subscription = calloc(1, sizeof *subscription);
    if (subscription == NULL) {
        return NULL;
    }
    subscription->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    (void)pthread_mutex_lock(&listeners_lock);
    subscription->listener = subscription->fd < 0 ? NULL : find_or_open_listener(address);
    if (subscription->listener != NULL) {
        subscription->next = subscription->listener->subscriptions;
        subscription->listener->subscriptions = subscription;
    }
    (void)pthread_mutex_unlock(&listeners_lock);
    if (subscription->listener == NULL) {
        if (subscription->fd >= 0) {
            (void)close(subscription->fd);
        }
        free(subscription);
        return NULL;
    }
    return subscription;
}

static void unlink_subscription(struct subscription *subscription)
{
    struct subscription **at = &subscription->listener->subscriptions;
    while (*at != NULL && *at != subscription) {
        at = &(*at)->next;
    }
    if (*at == subscription) {
        *at = subscription->next;
    }
}

static void unlink_listener(struct listener *listener)
{
    struct listener **at = &listeners;
    while (*at != NULL && *at != listener) {
        at = &(*at)->next;
    }
    if (*at == listener) {
        *at = listener->next;
    }
}

/* No subscription is left, and the listener is in no list. Waits for the end of the thread. */
static void listener_close(struct listener *listener)
{
    uint64_t one = 1;
    ssize_t written = write(listener->stop_fd, &one, sizeof one);
    (void)written;
    (void)pthread_join(listener->thread, NULL);
    (void)close(listener->stop_fd);
    address_release(listener->address);
    free(listener);
}

void listener_leave(struct subscription *subscription)
{
    if (subscription == NULL) {
        return;
    }
    struct listener *listener = subscription->listener;
    INVARIANT(listener != NULL);
    (void)pthread_mutex_lock(&listeners_lock);
    unlink_subscription(subscription);
    bool last = listener->subscriptions == NULL;
    if (last) {
        unlink_listener(listener);
    }
    (void)pthread_mutex_unlock(&listeners_lock);
    if (last) {
        listener_close(listener);
    }
    (void)close(subscription->fd);
    free(subscription);
}

void subscription_set(struct subscription *subscription, int64_t node_id, bool schedules)
{
    if (subscription != NULL) {
        INVARIANT(node_id >= 0);
        (void)pthread_mutex_lock(&listeners_lock);
        subscription->node_id = node_id;
        subscription->schedules = schedules;
        (void)pthread_mutex_unlock(&listeners_lock);
    }
}

int subscription_fd(const struct subscription *subscription)
{
    return subscription == NULL ? -1 : subscription->fd;
}

bool subscription_drain(struct subscription *subscription)
{
    uint64_t count = 0;
    return subscription != NULL && read(subscription->fd, &count, sizeof count) == (ssize_t)sizeof count;
}
