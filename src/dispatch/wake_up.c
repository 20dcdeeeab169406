/* How a loop sleeps and is woken.
 *
 * Each loop has a flag and an eventfd. A wake sets the flag, and the first one also writes to the eventfd; the loop clears
 * the flag and reads the eventfd. The dispatch loop also waits for the descriptor of the store, which becomes readable when
 * another process commits. Where the store cannot be watched, the loop polls and tries to watch again.
 *
 * loop_wake() is called from any thread and from signal handlers: it takes no lock and never waits. A wake is never lost;
 * a loop may wake once too often.
 */
#include "dispatch/wake_up.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

void loop_wake(struct node *node, enum loop loop)
{
    INVARIANT(node != NULL && loop < LOOP_COUNT);
    struct node_loop *own = &node->threads.loops[loop];
    /* One write for many wakes: the flag shows that a write is on its way. */
    if (!atomic_exchange(&own->is_woken, true)) {
        uint64_t one = 1;
        ssize_t written = write(own->wake_fd, &one, sizeof one);
        (void)written; /* a full counter means that it is awake anyway */
    }
}

void loop_request_heartbeat(struct node *node)
{
    INVARIANT(node != NULL);
    atomic_store(&node->shared.next_beat_us, 0);
    loop_wake(node, LOOP_HEARTBEAT);
}

/* A wake sets the flag before it writes, so the loop may take the flag and find nothing to read yet. It remembers the write
 * that is owed and reads it later: unread, it would keep the loop from sleeping until the next wake. */
bool loop_take_wake(struct node *node, enum loop loop)
{
    INVARIANT(node != NULL && loop < LOOP_COUNT);
    struct node_loop *own = &node->threads.loops[loop];
    uint64_t count;
    bool woken = atomic_exchange(&own->is_woken, false);
    own->writes_owed += woken;
    if (own->writes_owed > 0 && read(own->wake_fd, &count, sizeof count) == (ssize_t)sizeof count) {
        own->writes_owed -= (int64_t)count;
    }
    return woken;
}

static int timeout_ms(int64_t now_us, int64_t until_us)
{
    return until_us <= now_us ? 0 : time_to_poll_ms(until_us - now_us);
}

/* While the store asks for another check this soon, the loop does not wait for the store's own notices. The writes of one
 * commit would wake it, and delay their writer, a dozen times before there is anything to read. */
#define RECHECK_SOON_US ((int64_t)500)

/* One wait. Returns true when the loop is to run. */
static bool wait_once(struct node *node, enum loop loop, bool watches, int64_t until_us)
{
    struct node_loop *own = &node->threads.loops[loop];
    int store_fd = watches ? store_wake_fd(node->stores[loop]) : -1;
    struct pollfd fds[2] = {{.fd = own->wake_fd, .events = POLLIN}, {.fd = store_fd, .events = POLLIN}};
    int64_t now_us = node_now(node);
    /* A loop that only polls would find items of other processes too late. */
    int64_t again_us = watches && store_fd < 0 ? STORE_WATCH_AGAIN_US : TIME_NEVER;
    if (store_fd >= 0 && store_wake_drain(node->stores[loop], &again_us)) {
        return true;
    }
    int64_t check_us = earlier(until_us, time_add(now_us, again_us));
    nfds_t watched = store_fd >= 0 && again_us > RECHECK_SOON_US ? 2 : 1;
    /* poll() cannot sleep for less than a millisecond; a commit on its way is worth the short spin of a few checks. */
    struct timespec left = {
        .tv_sec = 0, .tv_nsec = check_us > now_us && check_us - now_us < 1000 ? (long)(check_us - now_us) * 1000 : 0};
    int ready = left.tv_nsec > 0 ? ppoll(fds, watched, &left, NULL) : poll(fds, watched, timeout_ms(now_us, check_us));
    return atomic_load(&own->is_woken) || atomic_load(&node->threads.closing) || node_now(node) >= until_us ||
           (ready < 0 && errno != EINTR) || (ready > 0 && fds[0].revents != 0);
}

void loop_sleep(struct node *node, enum loop loop, int64_t until_boot_us)
{
    INVARIANT(node != NULL && loop < LOOP_COUNT);
    bool watches = loop == LOOP_DISPATCH && (store_features(node->stores[loop]) & STORE_WAKES) != 0;
    bool is_over = false;
    while (!is_over && !atomic_load(&node->threads.loops[loop].is_woken)) {
        is_over = wait_once(node, loop, watches, until_boot_us);
    }
    (void)loop_take_wake(node, loop);
}

void loop_fds_init(struct node *node)
{
    INVARIANT(node != NULL);
    node->threads.group_fd = -1;
    for (int i = 0; i < LOOP_COUNT; i++) {
        node->threads.loops[i].wake_fd = -1;
    }
}

enum weir_status loop_fds_open(struct node *node, struct weir_error *error)
{
    INVARIANT(node != NULL && node->threads.group_fd < 0);
    node->threads.group_fd = epoll_create1(EPOLL_CLOEXEC);
    bool failed = node->threads.group_fd < 0;
    for (int i = 0; i < LOOP_COUNT && !failed; i++) {
        struct epoll_event wanted = {.events = EPOLLIN};
        struct node_loop *own = &node->threads.loops[i];
        own->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        failed = own->wake_fd < 0 || epoll_ctl(node->threads.group_fd, EPOLL_CTL_ADD, own->wake_fd, &wanted) != 0;
    }
    if (failed) {
        return error_set_native(error, WEIR_SYSTEM, errno, "the node cannot open a file descriptor: %s", strerror(errno));
    }
    return WEIR_OK;
}

void loop_fds_close(struct node *node)
{
    INVARIANT(node != NULL);
    for (int i = 0; i < LOOP_COUNT; i++) {
        if (node->threads.loops[i].wake_fd >= 0) {
            (void)close(node->threads.loops[i].wake_fd);
        }
    }
    if (node->threads.group_fd >= 0) {
        (void)close(node->threads.group_fd);
    }
}

int node_fd(struct node *node)
{
    INVARIANT(node != NULL);
    struct epoll_event wanted = {.events = EPOLLIN};
    int fds[2] = {store_wake_fd(node->stores[LOOP_DISPATCH]), engine_fd(node->engine)};
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0 && epoll_ctl(node->threads.group_fd, EPOLL_CTL_ADD, fds[i], &wanted) != 0 && errno != EEXIST) {
            return -1;
        }
    }
    return node->threads.group_fd;
}
