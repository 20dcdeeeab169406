/* How a request is answered:
 *
 *   1. A connection gets an entry in the list of deadlines (notify_connection).
 *   2. The line of the request makes an exchange, which the library carries to the end of the request (begin_exchange).
 *   3. The head is checked when it is whole, and the route is found (exchange.h). A refused head ends the connection when
 *      anything may follow it.
 *   4. A route without a handler is answered there. Every other one puts the exchange into the queue, and the connection
 *      sleeps. A thread takes it, computes the answer and wakes the connection; the library calls again, and the answer is
 *      sent (answer_http_request). Enqueues that wait at the same time are taken together and become one transaction.
 *   5. A handler may leave its request held instead of answering: a claim of tasks that waits, or a request that waits for
 *      the end of an execution (held_requests.h). Then the connection sleeps on without a thread, until a caller puts the
 *      request into the queue again, and its handler is called again.
 *   6. The end of the request frees the exchange (end_exchange).
 *
 * libmicrohttpd must not be stopped while a connection sleeps. So http_server_close() first takes back the requests
 * that wait for ends. Then it lets the threads answer those in the queue. From then on a request is refused instead of
 * being queued. The owner has to wake the other held requests before.
 *
 * The thread of a listener never calls the store and never waits. */
#include "server/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"
#include "server/api.h"
#include "server/connection_list.h"
#include "server/exchange.h"
#include "server/held_requests.h"
#include "server/libmicrohttpd.h"
#include "server/listen_address.h"
#include "server/listen_checks.h"
#include "server/retired_daemons.h"
#include "server/tls_files.h"

/* Beyond HTTP_HEAD_BYTES_MAX a connection holds the head of its answer. */
enum {
    DEADLINE_CHECK_SECONDS = 1,
    SEND_SECONDS_LAST = 5, /* a busy machine may be late with a thread of a listener */
    CONNECTION_BYTES_MAX = HTTP_HEAD_BYTES_MAX + 4096,
    ADDRESSES_TEXT_MAX = LISTEN_ADDRESSES_MAX * LISTEN_ADDRESS_BYTES_MAX
};

/* A daemon of the library accepts connections on its own descriptor of the socket. After a reload of the certificate a new
 * one accepts, and those before live until their connections have ended. */
struct listener {
    struct listen_socket socket;
    struct MHD_Daemon *daemon;
    struct retired_daemons retired;
    struct idle_pools idle; /* without TLS; then there is one daemon */
};

/* So long an enqueue waits for a key, and an act for an execution, that the open transaction of another program holds. The
 * threads serve all workspaces. */
#define LOCK_WAIT_US (250 * MICROSECONDS_PER_MS)

struct http_server {
    struct store *store;
    struct api *api;
    char certificate_file[PATH_MAX];
    char key_file[PATH_MAX];
    struct listener listeners[LISTEN_ADDRESSES_MAX];
    size_t listener_count;
    struct connection_list connections;
    _Atomic size_t held; /* bytes of bodies and answers under way */

    pthread_mutex_t lock;
    pthread_cond_t filled; /* the queue has an exchange, or the server ends */
    pthread_cond_t ended;  /* the server ends */
    pthread_cond_t sent;   /* nothing is unsent any more */
    struct exchange *head;
    struct exchange **tail;
    size_t waiting;
    size_t unsent;       /* exchanges that were queued and have not ended */
    bool is_ending;      /* no request is queued any more, and none waits */
    bool is_over;        /* what is in the queue is the rest */
    size_t slow_waiting; /* of them, of slow routes */
    bool is_slow_busy;   /* a thread answers a request of a slow route */
    bool behind_proxy;

    struct held_requests *held_requests;
    struct store *stores[HTTP_THREADS];
    pthread_t threads[HTTP_THREADS];
    size_t thread_count;
    pthread_t deadline_thread;
    bool has_deadline_thread;
    char addresses[ADDRESSES_TEXT_MAX];
};

static int64_t now_boot_us(void)
{
    return clock_boot(clock_system());
}

/* --- the queue --- */

/* With the lock held. The caller signals `filled`. */
static void append_to_queue(struct http_server *server, struct exchange *exchange)
{
    exchange->next = NULL;
    *server->tail = exchange;
    server->tail = &exchange->next;
    server->waiting++;
}

/* False: it is full, or the server ends. The connection is suspended under the lock: a thread that took the exchange before
 * would wake a connection that does not sleep yet. */
static bool queue_add(struct http_server *server, struct exchange *exchange)
{
    (void)pthread_mutex_lock(&server->lock);
    bool is_slow = exchange->request.route->is_slow;
    bool has_room = !server->is_ending && server->waiting < HTTP_WAITING_MAX &&
                    !(is_slow && server->slow_waiting == HTTP_SLOW_WAITING_MAX);
    if (has_room) {
        atomic_store(&exchange->entry->due_us, TIME_NEVER);
        MHD_suspend_connection(exchange->connection);
        server->unsent++;
        server->slow_waiting += is_slow;
        exchange->is_queued = true;
        exchange->request.arrived_us = now_boot_us();
        atomic_store(&server->api->requests.waiting, server->waiting + 1);
        append_to_queue(server, exchange);
    }
    (void)pthread_mutex_unlock(&server->lock);
    if (has_room) { /* without the lock: a thread that wakes before would wait for it, and be woken twice */
        (void)pthread_cond_signal(&server->filled);
    }
    return has_room;
}

/* The route of the first exchange that may be answered now, with the lock held; NULL: there is none. One slow request at a
 * time, so that a thread is left for all others. */
static const struct http_route *next_route(const struct http_server *server)
{
    const struct exchange *exchange = server->head;
    while (exchange != NULL && exchange->request.route->is_slow && server->is_slow_busy) {
        exchange = exchange->next;
    }
    return exchange == NULL ? NULL : exchange->request.route;
}

/* The first exchange of the queue that may be answered, with those of the same route if that answers sets; 0: the server
 * ends and nothing waits. */
static size_t queue_take(struct http_server *server, struct exchange **taken)
{
    const struct http_route *route;
    (void)pthread_mutex_lock(&server->lock);
    while ((route = next_route(server)) == NULL && !(server->is_over && server->head == NULL)) {
        (void)pthread_cond_wait(&server->filled, &server->lock);
    }
    size_t most = route != NULL && route->handle_set != NULL ? ROUTE_SET_MAX : 1;
    size_t count = 0;
    for (struct exchange **at = &server->head; *at != NULL && count < most;) {
        struct exchange *exchange = *at;
        if (exchange->request.route == route) {
            exchange->request.may_wait = !server->is_ending;
            taken[count++] = exchange;
            *at = exchange->next;
        } else {
            at = &exchange->next;
        }
    }
    if (route != NULL && route->is_slow) {
        server->is_slow_busy = true;
        server->slow_waiting -= count;
    }
    server->waiting -= count;
    atomic_store(&server->api->requests.waiting, server->waiting);
    server->tail = &server->head;
    while (*server->tail != NULL) {
        server->tail = &(*server->tail)->next;
    }
    (void)pthread_mutex_unlock(&server->lock);
    return count;
}

static void end_slow(struct http_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->is_slow_busy = false;
    (void)pthread_cond_broadcast(&server->filled);
    (void)pthread_mutex_unlock(&server->lock);
}

/* The bound of the queue does not count: the request was admitted before, and its client waits. The signal is sent with the
 * lock, because the server may be closed as soon as the request is answered, while the caller's thread lives on. */
static void queue_again(struct exchange *exchange)
{
    struct http_server *server = exchange->server;
    (void)pthread_mutex_lock(&server->lock);
    append_to_queue(server, exchange);
    (void)pthread_cond_signal(&server->filled);
    (void)pthread_mutex_unlock(&server->lock);
}

/* The handler has returned, or the request may go on: the later one of both queues it, and from then on it belongs to
 * another thread. */
static void close_held_end(struct exchange *exchange)
{
    if (atomic_fetch_sub(&exchange->open_ends, 1) == 1) {
        exchange->request.is_held = false;
        exchange->request.is_again = true;
        queue_again(exchange);
    }
}

/* held_request_return */
static void return_held(void *context, struct exchange *exchange)
{
    (void)context;
    close_held_end(exchange);
}

static void resume_request(struct http_request *request)
{
    close_held_end((struct exchange *)(void *)((char *)request - offsetof(struct exchange, request)));
}

struct thread_start {
    struct http_server *server;
    struct store *store;
};

/* Answers the exchanges that are admitted. One that is refused has its answer already. */
static void answer_taken(struct http_server *server, struct store *store, struct exchange **taken, size_t count)
{
    struct http_request *requests[ROUTE_SET_MAX];
    struct http_answer *answers[ROUTE_SET_MAX];
    const struct http_route *route = taken[0]->request.route;
    size_t admitted = 0;
    for (size_t i = 0; i < count; i++) {
        struct exchange *exchange = taken[i];
        exchange->answer.awaits = NULL;
        if (!exchange->request.is_whole) {
            respond_problem(&exchange->request, &exchange->answer, 503, "out_of_memory",
                            "there is no memory for the request", NULL, NULL);
        } else if (api_admit(server->api, store, &exchange->request, &exchange->answer)) {
            exchange->request.again = resume_request;
            atomic_store(&exchange->open_ends, 2);
            requests[admitted] = &exchange->request;
            answers[admitted++] = &exchange->answer;
        }
    }
    if (admitted > 0 && route->handle_set != NULL) {
        route->handle_set(server->api, store, requests, answers, admitted);
    } else if (admitted > 0) {
        route->handle(server->api, store, requests[0], answers[0]);
    }
}

/* Holds an exchange whose handler waits for the end of an execution. When there is no place it is refused; when the server
 * ends, its handler is called again and answers at once. */
static void hold_request(struct http_server *server, struct store *store, struct exchange *exchange)
{
    if (exchange->answer.awaits == NULL) {
        return;
    }
    exchange->request.is_held = true;
    enum hold_answer hold = held_requests_add(server->held_requests, exchange);
    if (hold == HOLD_ADDED) {
        return;
    }
    exchange->request.is_held = false;
    if (hold == HOLD_ENDED) {
        exchange->request.may_wait = false;
        answer_taken(server, store, &exchange, 1);
        INVARIANT(exchange->answer.awaits == NULL);
        return;
    }
    bool is_full = hold == HOLD_FULL;
    exchange->answer.awaits = NULL;
    respond_problem(&exchange->request, &exchange->answer, is_full ? 503 : 429, is_full ? "overloaded" : "rate_limited",
                    is_full ? "too many requests wait for ends" : "too many requests of this token wait for ends",
                    "ask without `wait`, or later", NULL);
}

/* store_progress: a long call of the store ends with the server. */
static bool may_go_on(void *context, int64_t done, int64_t total)
{
    struct http_server *server = context;
    (void)done;
    (void)total;
    (void)pthread_mutex_lock(&server->lock);
    bool is_ending = server->is_ending;
    (void)pthread_mutex_unlock(&server->lock);
    return !is_ending;
}

/* The connection is read before the answer is passed on: after MHD_resume_connection() the exchange belongs to the thread
 * of the listener, which may free it at once. */
static void *run_answering_thread(void *context)
{
    struct thread_start start = *(struct thread_start *)context;
    store_set_progress(start.store, may_go_on, start.server);
    store_limit_enqueue_wait(start.store, LOCK_WAIT_US);
    store_limit_lock_wait(start.store, LOCK_WAIT_US);
    struct exchange *taken[ROUTE_SET_MAX];
    size_t count;
    free(context);
    while ((count = queue_take(start.server, taken)) > 0) {
        bool is_slow = taken[0]->request.route->is_slow;
        answer_taken(start.server, start.store, taken, count);
        if (is_slow) {
            end_slow(start.server);
        }
        for (size_t i = 0; i < count; i++) {
            struct MHD_Connection *connection = taken[i]->connection;
            hold_request(start.server, start.store, taken[i]);
            if (taken[i]->request.is_held) {
                close_held_end(taken[i]);
                continue;
            }
            taken[i]->is_answered = true;
            MHD_resume_connection(connection);
        }
    }
    return NULL;
}

/* Stops daemons without a connection that is open. Only here, and after the end of this thread. */
static void stop_retired_daemons(struct http_server *server)
{
    for (size_t i = 0; i < server->listener_count; i++) {
        struct MHD_Daemon *daemon;
        do {
            (void)pthread_mutex_lock(&server->lock);
            daemon = retired_daemons_take(&server->listeners[i].retired, false);
            (void)pthread_mutex_unlock(&server->lock);
            if (daemon != NULL) {
                MHD_stop_daemon(daemon);
            }
        } while (daemon != NULL);
    }
}

/* Looks at all connections once a second, so a cut comes up to a second late. Ten thousand entries take less than a
 * millisecond, and the lock of the queue is not held meanwhile. */
static void *run_deadline_thread(void *context)
{
    struct http_server *server = context;
    (void)pthread_mutex_lock(&server->lock);
    while (!server->is_ending) {
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += DEADLINE_CHECK_SECONDS;
        (void)pthread_cond_timedwait(&server->ended, &server->lock, &until);
        (void)pthread_mutex_unlock(&server->lock);
        size_t cut =
            connection_list_cut(&server->connections, now_boot_us(), atomic_load(&server->held) > HTTP_HELD_BYTES_SHORT);
        atomic_fetch_add(&server->api->requests.cut, cut);
        stop_retired_daemons(server);
        (void)pthread_mutex_lock(&server->lock);
    }
    (void)pthread_mutex_unlock(&server->lock);
    return NULL;
}

/* --- calls of the library --- */

/* Without memory for an entry the connection has none: then begin_exchange() refuses its first request. The library calls
 * this with CLOSED before it closes the socket. */
static void notify_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                              enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*socket_context != NULL) {
            idle_pools_begin(*socket_context); /* it leaves the list */
            atomic_fetch_sub(&server->api->requests.connections, 1);
            connection_list_remove(&server->connections, *socket_context);
        }
        return;
    }
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *socket_context =
        info == NULL ? NULL
                     : connection_list_add(&server->connections, info->connect_fd, now_boot_us() + HTTP_HEAD_DEADLINE_US);
    atomic_fetch_add(&server->api->requests.connections, *socket_context == NULL ? 0 : 1);
}

/* The listener of a connection; *ret_is_retired (may be NULL): by the daemon of an older certificate. */
static struct listener *listener_of(struct http_server *server, struct MHD_Connection *connection, bool *ret_is_retired)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_DAEMON);
    struct listener *found = NULL;
    (void)pthread_mutex_lock(&server->lock);
    for (size_t i = 0; i < server->listener_count && info != NULL; i++) {
        struct listener *listener = &server->listeners[i];
        if (listener->daemon == info->daemon || retired_daemons_has(&listener->retired, info->daemon)) {
            found = listener;
            if (ret_is_retired != NULL) {
                *ret_is_retired = listener->daemon != info->daemon;
            }
        }
    }
    (void)pthread_mutex_unlock(&server->lock);
    return found;
}

/* The library's answer to the line of a request is the context of the request. */
static void *begin_exchange(void *context, const char *uri, struct MHD_Connection *connection)
{
    struct http_server *server = context;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection_entry *entry = info == NULL ? NULL : info->socket_context;
    struct exchange *exchange =
        entry == NULL ? NULL : exchange_open(server, server->api, connection, entry, uri, &server->held);
    if (exchange != NULL) {
        struct listener *listener = listener_of(server, connection, NULL);
        idle_pools_begin(entry);
        exchange->idle_pools = listener == NULL || listener->socket.has_tls ? NULL : &listener->idle;
        exchange->request.is_of_machine = listener != NULL && listener->socket.is_local && !server->behind_proxy;
        atomic_store(&exchange->entry->due_us, now_boot_us() + HTTP_HEAD_DEADLINE_US);
    }
    return exchange;
}

/* Also called when the connection ends in the middle of a request, but never while an answering thread has the exchange: a
 * suspended connection is not looked at. */
static void end_exchange(void *context, struct MHD_Connection *connection, void **request_context,
                         enum MHD_RequestTerminationCode code)
{
    (void)context;
    (void)connection;
    (void)code;
    struct exchange *exchange = *request_context;
    if (exchange != NULL) {
        struct http_server *server = exchange->server;
        http_metrics_note(&server->api->requests, exchange->request.route, exchange->answer.status);
        int64_t now_us = now_boot_us();
        atomic_store(&exchange->entry->due_us, now_us + HTTP_IDLE_DEADLINE_US);
        atomic_store(&exchange->entry->slow_us, TIME_NEVER);
        if (exchange->idle_pools != NULL) {
            idle_pools_end(exchange->idle_pools, exchange->entry, now_us);
            idle_pools_return(exchange->idle_pools, now_us);
        }
        (void)pthread_mutex_lock(&server->lock);
        server->unsent -= exchange->is_queued ? 1 : 0;
        if (server->unsent == 0) {
            (void)pthread_cond_signal(&server->sent);
        }
        (void)pthread_mutex_unlock(&server->lock);
        exchange_close(exchange);
        *request_context = NULL;
    }
}

/* A route without a handler needs no thread, so it is answered also when all threads wait for the store. */
static enum MHD_Result begin_answer(struct exchange *exchange)
{
    const struct http_route *route = exchange->request.route;
    if (route->handle == NULL && route->handle_set == NULL) {
        exchange->answer.status = 200;
        return text_add_string(&exchange->answer.body, "ok\n") == WEIR_OK ? exchange_send(exchange) : MHD_NO;
    }
    if (queue_add(exchange->server, exchange)) {
        return MHD_YES;
    }
    atomic_fetch_add(&exchange->server->api->requests.refused, 1);
    return exchange_refuse(exchange, 503, "overloaded", "too many requests wait; try again in a second");
}

/* Called when the head is whole, for each piece of the body, when the whole request was read, and again after the
 * connection has slept. */
static enum MHD_Result answer_http_request(void *context, struct MHD_Connection *connection, const char *path,
                                           const char *method, const char *version, const char *body, size_t *body_length,
                                           void **request_context)
{
    (void)context;
    (void)path; /* begin_exchange() has read it undecoded */
    struct exchange *exchange = *request_context;
    if (exchange == NULL) {
        return MHD_NO; /* no memory: the connection ends */
    }
    if (!exchange->is_checked) {
        exchange->is_checked = true;
        exchange->is_answered = !exchange_read_head(exchange, method, version);
        /* The library ends a connection that is answered before the request was read. */
        return exchange->is_answered && exchange->ends_connection ? exchange_send(exchange) : MHD_YES;
    }
    if (*body_length > 0) {
        exchange->body_bytes += *body_length;
        exchange_add_body(exchange, body, *body_length);
        *body_length = 0;
        return MHD_YES;
    }
    exchange_count_request(exchange, method);
    if (!exchange->is_answered) {
        exchange->is_answered = !exchange_end_body(exchange);
    }
    bool is_retired = false;
    (void)listener_of(exchange->server, connection, &is_retired);
    exchange->ends_connection = exchange->ends_connection || is_retired;
    return exchange->is_answered ? exchange_send(exchange) : begin_answer(exchange);
}

/* The library reports every request that it refuses by itself. A client's mistake is no event of the node. */
static void ignore_report(void *context, const char *format, va_list arguments)
{
    (void)context;
    (void)format;
    (void)arguments;
}

/* --- start and end --- */

enum weir_status http_server_open(const struct http_server_options *options, struct store *store, struct api *api,
                                  struct http_server **ret_server, struct weir_error *error)
{
    INVARIANT(options != NULL && store != NULL && api != NULL && ret_server != NULL);
    struct listen_socket sockets[LISTEN_ADDRESSES_MAX];
    size_t count = 0;
    *ret_server = NULL;
    enum weir_status status = microhttpd_load(error);
    if (status == WEIR_OK) {
        status = listen_address_open(options->listen, options->behind_proxy, sockets, &count, error);
    }
    if (status == WEIR_OK) {
        status = listen_check_tls(sockets, count, options->certificate_file, options->key_file, error);
    }
    if (status == WEIR_OK) {
        status = listen_check_tokens(sockets, count, api->access, error);
    }
    struct http_server *server = status == WEIR_OK ? calloc(1, sizeof *server) : NULL;
    if (server == NULL) {
        while (count > 0) {
            listen_address_close(&sockets[--count]);
        }
        return status == WEIR_OK ? error_out_of_memory(error) : status;
    }
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&server->lock, NULL);
    (void)pthread_cond_init(&server->filled, &attributes);
    (void)pthread_cond_init(&server->ended, &attributes);
    (void)pthread_cond_init(&server->sent, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    connection_list_init(&server->connections);
    server->store = store;
    server->api = api;
    server->behind_proxy = options->behind_proxy;
    text_copy(server->certificate_file, sizeof server->certificate_file, options->certificate_file);
    text_copy(server->key_file, sizeof server->key_file, options->key_file);
    server->tail = &server->head;
    server->listener_count = count;
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(server->addresses);
        server->listeners[i] = (struct listener){.socket = sockets[i], .idle.pool_bytes = CONNECTION_BYTES_MAX};
        (void)snprintf(server->addresses + used, sizeof server->addresses - used, "%s%s", i == 0 ? "" : ", ",
                       sockets[i].address);
    }
    *ret_server = server;
    return WEIR_OK;
}

static enum weir_status start_thread(pthread_t *thread, void *(*run)(void *), void *context, struct weir_error *error)
{
    int native = pthread_create(thread, NULL, run, context);
    return native == 0 ? WEIR_OK
                       : error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for HTTP: %s",
                                          strerror(native));
}

static enum weir_status start_answering_thread(struct http_server *server, struct weir_error *error)
{
    struct thread_start *start = malloc(sizeof *start);
    size_t i = server->thread_count;
    if (start == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = store_open_again(server->store, &server->stores[i], error);
    if (status == WEIR_OK) {
        *start = (struct thread_start){server, server->stores[i]};
        status = start_thread(&server->threads[i], run_answering_thread, start, error);
    }
    if (status != WEIR_OK) {
        free(start);
        return status;
    }
    server->thread_count++;
    return WEIR_OK;
}

/* Descriptors that clients cannot take: steps and the store need some, too. */
static unsigned connections_most(const struct http_server *server)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t share = limit.rlim_cur / 4 / server->listener_count;
    return share < HTTP_CONNECTIONS_MAX ? (unsigned)(share < 1 ? 1 : share) : HTTP_CONNECTIONS_MAX;
}

/* A strict library of 0.9 ends a connection without an answer for a space in the target, and refuses a missing Host itself.
 * The checks of weir (exchange.h) answer both. From 1.0 on only a strict one keeps the rules for lines. */
static int strictness(void)
{
    return strncmp(MHD_get_version(), "0.9.", 4) == 0 ? 0 : 1;
}

/* Accepts on a descriptor of its own, with one thread: the library closes its descriptor, and the next daemon needs the
 * socket again. No time-out of the library's own: it would begin anew with each byte
 * of a slow client. Of TLS only the versions 1.2 and 1.3. NULL: errno has the reason, or the library refuses. */
static struct MHD_Daemon *start_daemon(struct http_server *server, const struct listener *listener,
                                       const struct tls_files *files)
{
    int fd = fcntl(listener->socket.fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return NULL;
    }
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, files->certificate.data},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, files->key.data},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (char *)"SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL},
    };
    errno = 0;
    struct MHD_Daemon *daemon =
        MHD_start_daemon(flags | (listener->socket.has_tls ? MHD_USE_TLS : 0), 0, NULL, NULL, answer_http_request, server,
                         MHD_OPTION_EXTERNAL_LOGGER, ignore_report, NULL, MHD_OPTION_ARRAY,
                         listener->socket.has_tls ? tls : &tls[sizeof tls / sizeof tls[0] - 1], MHD_OPTION_LISTEN_SOCKET,
                         fd, MHD_OPTION_STRICT_FOR_CLIENT, strictness(), MHD_OPTION_CONNECTION_LIMIT,
                         connections_most(server), MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES_MAX,
                         MHD_OPTION_NOTIFY_CONNECTION, notify_connection, server, MHD_OPTION_NOTIFY_COMPLETED, end_exchange,
                         server, MHD_OPTION_URI_LOG_CALLBACK, begin_exchange, server, MHD_OPTION_END);
    if (daemon == NULL) {
        int native = errno;
        (void)close(fd);
        errno = native;
    }
    return daemon;
}

/* Starts a daemon for each address, or, as a `reload`, for each with TLS beside the one that is there. */
static enum weir_status start_daemons(struct http_server *server, bool reload, struct weir_error *error)
{
    struct tls_files files = {.certificate = {.max = 0}};
    bool has_files = false;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < server->listener_count && status == WEIR_OK; i++) {
        struct listener *listener = &server->listeners[i];
        if (listener->socket.has_tls && !has_files) {
            status = tls_files_read(server->certificate_file, server->key_file, &files, error);
            has_files = status == WEIR_OK;
        }
        if (status != WEIR_OK || (reload && !listener->socket.has_tls)) {
            continue;
        }
        /* Under the lock, because a first request may come before the daemon is in its listener. */
        (void)pthread_mutex_lock(&server->lock);
        struct MHD_Daemon *daemon = start_daemon(server, listener, &files);
        int native = errno;
        if (daemon != NULL && listener->daemon != NULL) {
            /* Before it is retired: then another thread stops it as soon as it has no connection. */
            (void)close(MHD_quiesce_daemon(listener->daemon));
            retired_daemons_add(&listener->retired, listener->daemon);
        }
        listener->daemon = daemon != NULL ? daemon : listener->daemon;
        (void)pthread_mutex_unlock(&server->lock);
        if (daemon == NULL) {
            status =
                error_set_native(error, WEIR_SYSTEM, native, "http.listen: %s cannot be served%s%s",
                                 listener->socket.address, native == 0 ? "" : ": ", native == 0 ? "" : strerror(native));
            continue;
        }
    }
    if (has_files) {
        tls_files_close(&files);
    }
    return status;
}

enum weir_status http_server_reload(struct http_server *server, struct weir_error *error)
{
    INVARIANT(server != NULL);
    for (size_t i = 0; i < server->listener_count; i++) {
        (void)pthread_mutex_lock(&server->lock);
        bool is_full = retired_daemons_is_full(&server->listeners[i].retired);
        (void)pthread_mutex_unlock(&server->lock);
        if (is_full) {
            error_set(error, WEIR_SYSTEM, "connections of the last %d certificates are still open", RETIRED_DAEMONS_MAX);
            error_hint(error, "they end within %d s, or with their next answer; then reload again",
                       (int)(HTTP_IDLE_DEADLINE_US / MICROSECONDS_PER_SECOND));
            return WEIR_SYSTEM;
        }
    }
    sigset_t before = thread_block_signals();
    enum weir_status status = start_daemons(server, true, error);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

enum weir_status http_server_start(struct http_server *server, struct weir_error *error)
{
    INVARIANT(server != NULL && server->thread_count == 0);
    enum weir_status status = WEIR_OK;
    sigset_t before = thread_block_signals();
    while (status == WEIR_OK && server->thread_count < HTTP_THREADS) {
        status = start_answering_thread(server, error);
    }
    if (status == WEIR_OK) {
        status = held_requests_open(server->store, connections_most(server) / 2, return_held, server,
                                    &server->held_requests, error);
    }
    if (status == WEIR_OK) {
        status = start_thread(&server->deadline_thread, run_deadline_thread, server, error);
        server->has_deadline_thread = status == WEIR_OK;
    }
    if (status == WEIR_OK) {
        status = start_daemons(server, false, error);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

const char *http_server_addresses(const struct http_server *server)
{
    INVARIANT(server != NULL);
    return server->addresses;
}

/* The answers that the threads have computed leave before the library is stopped. A client that does not read them is not
 * waited for. */
static void await_answers(struct http_server *server)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += SEND_SECONDS_LAST;
    (void)pthread_mutex_lock(&server->lock);
    while (server->unsent > 0 && pthread_cond_timedwait(&server->sent, &server->lock, &until) == 0) {
    }
    (void)pthread_mutex_unlock(&server->lock);
}

void http_server_close(struct http_server *server)
{
    if (server == NULL) {
        return;
    }
    for (size_t i = 0; i < server->listener_count; i++) {
        listen_address_remove_file(&server->listeners[i].socket); /* while it still listens, it is its own */
    }
    (void)pthread_mutex_lock(&server->lock);
    server->is_ending = true;
    (void)pthread_cond_broadcast(&server->ended);
    (void)pthread_mutex_unlock(&server->lock);
    held_requests_end(server->held_requests);
    (void)pthread_mutex_lock(&server->lock);
    server->is_over = true;
    (void)pthread_cond_broadcast(&server->filled);
    (void)pthread_mutex_unlock(&server->lock);
    for (size_t i = 0; i < server->thread_count; i++) {
        (void)pthread_join(server->threads[i], NULL);
    }
    if (server->has_deadline_thread) {
        (void)pthread_join(server->deadline_thread, NULL);
    }
    await_answers(server);
    for (size_t i = 0; i < server->listener_count; i++) {
        struct MHD_Daemon *retired;
        while ((retired = retired_daemons_take(&server->listeners[i].retired, true)) != NULL) {
            MHD_stop_daemon(retired);
        }
        if (server->listeners[i].daemon != NULL) {
            MHD_stop_daemon(server->listeners[i].daemon);
        }
        listen_address_close(&server->listeners[i].socket);
    }
    for (size_t i = 0; i < HTTP_THREADS; i++) {
        store_close(server->stores[i]);
    }
    held_requests_close(server->held_requests);
    connection_list_close(&server->connections);
    (void)pthread_cond_destroy(&server->filled);
    (void)pthread_cond_destroy(&server->ended);
    (void)pthread_cond_destroy(&server->sent);
    (void)pthread_mutex_destroy(&server->lock);
    free(server);
}
