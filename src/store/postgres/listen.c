#include "store/postgres/listen.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "store/postgres/libpq.h"
#include "store/postgres/link.h"

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

static bool concerns(const struct subscription *subscription, const char *notice)
{
    static const char node[] = "node:";
    if (subscription->node_id == 0) {
        return true;
    }
    if (strcmp(notice, "news") == 0) {
        return subscription->schedules;
    }
    return strncmp(notice, node, sizeof node - 1) != 0 ||
           strtoll(notice + sizeof node - 1, NULL, 10) == subscription->node_id;
}

/* With listeners_lock. */
static void mark(struct listener *listener, const char *notice)
{
    for (struct subscription *at = listener->subscriptions; at != NULL; at = at->next) {
        at->is_due = at->is_due || concerns(at, notice);
    }
}

/* Once for all notices that were read. With listeners_lock. */
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
    mark(listener, "");
    wake_marked(listener);
    (void)pthread_mutex_unlock(&listeners_lock);
}

/* True when it is time to stop. */
static bool pause_or_stop(const struct listener *listener, int ms)
{
    struct pollfd stop = {.fd = listener->stop_fd, .events = POLLIN};
    return poll(&stop, 1, ms) > 0;
}

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

static void pass_on(struct listener *listener, struct link *link)
{
    (void)pthread_mutex_lock(&listeners_lock);
    for (PGnotify *notice = PQnotifies(link->connection); notice != NULL; notice = PQnotifies(link->connection)) {
        mark(listener, notice->extra);
        PQfreemem(notice);
    }
    wake_marked(listener);
    (void)pthread_mutex_unlock(&listeners_lock);
}

/* Asks for a sign of life on this connection and no other; false when there is none. */
static bool is_alive(struct link *link)
{
    PGresult *result = NULL;
    link_start(link);
    /* A reading statement would be repeated on a new connection, which does not listen. */
    enum weir_status status = link_write(link, NULL, &result, QUERY_LOOK, "");
    PQclear(result);
    return status == WEIR_OK;
}

/* Until the connection is lost or it is time to stop. */
static void pass_notices(struct listener *listener, struct link *link)
{
    for (;;) {
        struct pollfd fds[2] = {{.fd = PQsocket(link->connection), .events = POLLIN},
                                {.fd = listener->stop_fd, .events = POLLIN}};
        const PGconn *listening = link->connection;
        int ready = poll(fds, 2, SIGN_OF_LIFE_MS);
        if (fds[1].revents != 0) {
            return;
        }
        if (ready == 0 && (!is_alive(link) || link->connection != listening)) {
            return;
        }
        if (PQconsumeInput(link->connection) == 0 || PQstatus(link->connection) != CONNECTION_OK) {
            return;
        }
        pass_on(listener, link);
    }
}

static void *listen_on(void *context)
{
    struct listener *listener = context;
    struct link link;
    link_init(&link, listener->address, LISTEN_DEADLINE_US, "weir listen");
    do {
        if (start_listening(&link)) {
            wake_all(listener); /* notices of the time without a connection are lost */
            pass_notices(listener, &link);
        }
        link_drop(&link);
    } while (!pause_or_stop(listener, RETRY_MS));
    link_close(&link);
    return NULL;
}

/* --- joining and leaving --- */

static void forget_in_child(void)
{
    /* The thread does not live in a child of fork(), and the connection is the parent's. */
    listeners = NULL;
    (void)pthread_mutex_init(&listeners_lock, NULL);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forget_in_child);
}

static struct listener *listener_open(struct address *address)
{
    struct listener *listener = calloc(1, sizeof *listener);
    sigset_t all;
    sigset_t before;
    if (listener == NULL) {
        return NULL;
    }
    listener->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    listener->address = address_share(address);
    (void)sigfillset(&all); /* signals are for the program's own threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = listener->stop_fd >= 0 && pthread_create(&listener->thread, NULL, listen_on, listener) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
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

static struct listener *find_or_open(struct address *address)
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
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    if (!address->listen || address->pooled) {
        return NULL;
    }
    struct subscription *subscription = calloc(1, sizeof *subscription);
    if (subscription == NULL) {
        return NULL;
    }
    subscription->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    (void)pthread_mutex_lock(&listeners_lock);
    subscription->listener = subscription->fd < 0 ? NULL : find_or_open(address);
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
