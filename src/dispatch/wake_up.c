/* How a loop sleeps and is woken: an eventfd each, and for the dispatcher the store's own fd (other processes). */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "dispatch/node_internal.h"

void loop_wake(struct node *node, enum loop loop)
{
    /* One write for many wakes: the flag says that one is on its way. */
    if (!atomic_exchange(&node->woken[loop], true)) {
        uint64_t one = 1;
        ssize_t written = write(node->wake_fds[loop], &one, sizeof one);
        (void)written; /* a full counter means that it is awake anyway */
    }
}

/* A wake is the flag first and then the write: who takes the flag may find nothing to read yet. What comes late is read all
 * the same, or its loop could not sleep before somebody else wakes it. */
bool loop_take_wake(struct node *node, enum loop loop)
{
    uint64_t count;
    bool woken = atomic_exchange(&node->woken[loop], false);
    node->writes_owed[loop] += woken;
    if (node->writes_owed[loop] > 0 && read(node->wake_fds[loop], &count, sizeof count) == (ssize_t)sizeof count) {
        node->writes_owed[loop] -= (int64_t)count;
    }
    return woken;
}

static int timeout_ms(int64_t now_us, int64_t until_us)
{
    if (until_us <= now_us) {
        return 0;
    }
    return time_to_poll_ms(until_us - now_us);
}

/* While the store asks for another look this soon, its own notices are not waited for: the writes of one commit would wake
 * us, and hold up their writer, a dozen times for nothing, because before its end there is nothing to see. */
#define LOOK_SOON_US ((int64_t)500)

void loop_sleep(struct node *node, enum loop loop, int64_t until_boot_us)
{
    bool watches = loop == LOOP_DISPATCH && (store_features(node->stores[loop]) & STORE_WAKES) != 0;
    int64_t until_us = until_boot_us;
    while (!atomic_load(&node->woken[loop])) {
        int store_fd = watches ? store_wake_fd(node->stores[loop]) : -1;
        struct pollfd fds[2] = {{.fd = node->wake_fds[loop], .events = POLLIN}, {.fd = store_fd, .events = POLLIN}};
        int64_t now_us = node_now(node);
        /* Who only polls would find what others enqueue too late. */
        int64_t again_us = watches && store_fd < 0 ? STORE_WATCH_AGAIN_US : TIME_NEVER;
        if (store_fd >= 0 && store_wake_drain(node->stores[loop], &again_us)) {
            break;
        }
        int64_t look_us = earlier(until_us, time_add(now_us, again_us));
        nfds_t watched = store_fd >= 0 && again_us > LOOK_SOON_US ? 2 : 1;
        /* Below a millisecond poll() cannot sleep; a commit on its way is worth the short spin of a few looks. */
        struct timespec left = {
            .tv_sec = 0, .tv_nsec = look_us > now_us && look_us - now_us < 1000 ? (long)(look_us - now_us) * 1000 : 0};
        int ready = left.tv_nsec > 0 ? ppoll(fds, watched, &left, NULL) : poll(fds, watched, timeout_ms(now_us, look_us));
        if (atomic_load(&node->woken[loop]) || atomic_load(&node->closing) || node_now(node) >= until_us ||
            (ready < 0 && errno != EINTR) || (ready > 0 && fds[0].revents != 0)) {
            break;
        }
    }
    (void)loop_take_wake(node, loop);
}

enum weir_status loop_fds_open(struct node *node, struct weir_error *error)
{
    node->group_fd = epoll_create1(EPOLL_CLOEXEC);
    bool failed = node->group_fd < 0;
    for (int i = 0; i < LOOP_COUNT && !failed; i++) {
        struct epoll_event wanted = {.events = EPOLLIN};
        node->wake_fds[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        failed = node->wake_fds[i] < 0 || epoll_ctl(node->group_fd, EPOLL_CTL_ADD, node->wake_fds[i], &wanted) != 0;
    }
    if (failed) {
        return error_set_native(error, WEIR_SYSTEM, errno, "no file descriptor for a node: %s", strerror(errno));
    }
    return WEIR_OK;
}

void loop_fds_close(struct node *node)
{
    for (int i = 0; i < LOOP_COUNT; i++) {
        if (node->wake_fds[i] >= 0) {
            (void)close(node->wake_fds[i]);
        }
    }
    if (node->group_fd >= 0) {
        (void)close(node->group_fd);
    }
}

int node_fd(struct node *node)
{
    struct epoll_event wanted = {.events = EPOLLIN};
    int fds[2] = {store_wake_fd(node->stores[LOOP_DISPATCH]), engine_fd(node->engine)};
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0 && epoll_ctl(node->group_fd, EPOLL_CTL_ADD, fds[i], &wanted) != 0 && errno != EEXIST) {
            return -1;
        }
    }
    return node->group_fd;
}
