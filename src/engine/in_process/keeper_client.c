/* The socket between node and keeper, on the node's side.
 *
 *   1. Open forks the keeper with all signals blocked, so no signal handler of the host runs in the child. It waits for
 *      KEEPER_READY, because the keeper is outside of the node's process group only then.
 *   2. A request is one packet with its file descriptors. If the socket is full, the request and all later ones wait in a
 *      list; their order must not change, because a kill must follow its start.
 *   3. The end of the socket means that the keeper is dead or dying.
 *   4. Close ends the connection and waits for the keeper's exit, at most KEEPER_CLOSE_WAIT_US.
 *
 * A request must never be lost in silence. If it cannot be queued, the keeper is ended with everything that it runs.
 * The thread of the engine's loop runs it; the first open happens before that thread exists.
 */
#include "engine/in_process/keeper_client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/random.h"
#include "base/thread.h"
#include "engine/in_process/keeper.h"

struct keeper_queued {
    struct keeper_queued *next;
    struct keeper_request request;
    int fds[KEEPER_FDS_MAX];
};

static void close_fds(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)close(fds[i]);
    }
}

/* Waits with a fixed end: signals of the host interrupt poll() but do not extend the wait. */
static int wait_until_readable(int fd, int64_t most_us)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    int64_t until_us = clock_boot(clock_system()) + most_us;
    int got;
    do {
        got = poll(&polled, 1, time_to_poll_ms(until_us - clock_boot(clock_system())));
    } while (got < 0 && errno == EINTR);
    return got;
}

/* Waits for KEEPER_READY. Before it the keeper would still receive the signals of the node's terminal. */
static bool is_keeper_ready(struct keeper_client *link)
{
    struct keeper_report report;
    return wait_until_readable(link->socket, KEEPER_OPEN_WAIT_US) == 1 && keeper_client_receive(link, &report) == 1 &&
           report.kind == KEEPER_READY;
}

enum weir_status keeper_client_open(struct keeper_client *link, struct weir_error *error)
{
    INVARIANT(link != NULL);
    int ends[2];
    struct random random;
    random_seed_from_system(&random);
    *link = (struct keeper_client){.socket = -1, .mark = random_next(&random)};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return error_set_native(error, WEIR_SYSTEM, errno, "the system cannot open a socket pair for the keeper: %s",
                                strerror(errno));
    }
    /* No signal handler of the node may run in the child before it has set its own. */
    sigset_t before = thread_block_signals();
    pid_t pid = fork();
    if (pid == 0) {
        keeper_main(ends[1], link->mark);
    }
    int native = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return error_set_native(error, WEIR_SYSTEM, native, "the keeper could not be forked: %s", strerror(native));
    }
    link->socket = ends[0];
    link->pid = pid;
    if (!is_keeper_ready(link)) {
        keeper_client_close(link);
        return error_set(error, WEIR_SYSTEM, "the keeper was not ready in time");
    }
    return WEIR_OK;
}

static void drop_queued(struct keeper_client *link)
{
    while (link->first != NULL) {
        struct keeper_queued *queued = link->first;
        link->first = queued->next;
        close_fds(queued->fds, queued->request.fd_count);
        free(queued);
    }
    link->last = NULL;
}

/* Reaps the keeper. Kills it if it does not exit in time. */
static int wait_for_keeper_end(pid_t pid)
{
    int wait_status = 0;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0) {
        if (wait_until_readable(fd, KEEPER_CLOSE_WAIT_US) == 0) {
            (void)kill(pid, SIGKILL);
        }
        (void)close(fd);
    }
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
    }
    return wait_status;
}

void keeper_client_close(struct keeper_client *link)
{
    INVARIANT(link != NULL);
    drop_queued(link);
    if (link->socket >= 0) {
        /* A process that the host forked may have a copy of the socket. Then close() alone would not end the connection. */
        (void)shutdown(link->socket, SHUT_RDWR);
        (void)close(link->socket);
        link->socket = -1;
    }
    if (link->pid > 0) {
        link->wait_status = wait_for_keeper_end(link->pid);
        link->pid = 0;
    }
}

/* 1: sent, 0: the socket is full, -1: the keeper is gone. */
static int send_to_keeper(const struct keeper_client *link, const struct keeper_request *request, const int *fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * KEEPER_FDS_MAX)];
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)request, .iov_len = sizeof *request};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (request->fd_count > 0) {
        size_t bytes = sizeof(int) * request->fd_count;
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(header), fds, bytes);
    }
    for (;;) {
        if (sendmsg(link->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
            return 1;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS) {
            return 0;
        }
        if (errno != EINTR) {
            return -1;
        }
    }
}

static bool queue_request(struct keeper_client *link, const struct keeper_request *request, const int *fds)
{
    struct keeper_queued *queued = calloc(1, sizeof *queued);
    if (queued == NULL) {
        return false;
    }
    queued->request = *request;
    if (request->fd_count > 0) {
        memcpy(queued->fds, fds, sizeof(int) * request->fd_count);
    }
    if (link->last != NULL) {
        link->last->next = queued;
    } else {
        link->first = queued;
    }
    link->last = queued;
    return true;
}

bool keeper_client_send(struct keeper_client *link, const struct keeper_request *request, const int *fds)
{
    INVARIANT(request->fd_count <= KEEPER_FDS_MAX && (request->fd_count == 0 || fds != NULL));
    int sent = link->socket < 0 ? -1 : link->first != NULL ? 0 : send_to_keeper(link, request, fds);
    if (sent == 0 && queue_request(link, request, fds)) {
        return true;
    }
    if (sent == 0) {
        /* The lost request may be a kill. Without its socket the keeper kills everything and exits. */
        (void)shutdown(link->socket, SHUT_RDWR);
    }
    close_fds(fds, request->fd_count);
    return sent == 1;
}

void keeper_client_flush(struct keeper_client *link)
{
    INVARIANT(link != NULL);
    while (link->first != NULL && link->socket >= 0) {
        struct keeper_queued *queued = link->first;
        if (send_to_keeper(link, &queued->request, queued->fds) != 1) {
            return;
        }
        close_fds(queued->fds, queued->request.fd_count);
        link->first = queued->next;
        if (link->first == NULL) {
            link->last = NULL;
        }
        free(queued);
    }
}

bool keeper_client_has_queued(const struct keeper_client *link)
{
    INVARIANT(link != NULL && (link->first == NULL) == (link->last == NULL));
    return link->first != NULL;
}

int keeper_client_receive(struct keeper_client *link, struct keeper_report *ret_report)
{
    INVARIANT(ret_report != NULL);
    if (link->socket < 0) {
        return -1;
    }
    for (;;) {
        ssize_t received = recv(link->socket, ret_report, sizeof *ret_report, MSG_DONTWAIT);
        if (received == (ssize_t)sizeof *ret_report) {
            return 1;
        }
        if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return 0;
        }
        /* The keeper died with unread requests. Its reports before that are still in the socket. */
        bool is_reset = received < 0 && errno == ECONNRESET;
        if (received >= 0 || (errno != EINTR && !is_reset)) {
            return -1;
        }
    }
}
