/* A list by the time since which connections are idle. Each connection that begins to wait goes to its end, so the first
 * ones are those whose time has come.
 *
 * Whether a pool begins where a request begins is decided by three numbers:
 *
 *     received by the system - not yet read by the library = read by the library >= heads and bodies of all requests
 *
 * Equal: no other byte came, so no empty line stands before a head. What is not yet read is asked first, so that bytes
 * which arrive between both questions make the sum larger, and the pool is then not known. The head of a next request that
 * was read already makes it larger as well. Bytes of TLS do so always.
 */
#include "server/idle_pools.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "server/connection_list.h"

static void idle_remove(struct connection_entry *entry)
{
    struct idle_pool *idle = &entry->idle;
    struct idle_pools *pools = idle->pools;
    INVARIANT(pools != NULL);
    *(idle->before != NULL ? &idle->before->idle.next : &pools->first) = idle->next;
    *(idle->next != NULL ? &idle->next->idle.before : &pools->last) = idle->before;
    idle->pools = NULL;
    idle->next = NULL;
    idle->before = NULL;
}

void idle_pools_begin(struct connection_entry *entry)
{
    INVARIANT(entry != NULL);
    if (entry->idle.pools != NULL) {
        idle_remove(entry);
    }
}

/* False: the socket is none of TCP, or the system is too old to count. */
static bool read_received(int fd, uint64_t *ret_bytes)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    int unread = 0;
    memset(&info, 0, sizeof info);
    if (ioctl(fd, FIONREAD, &unread) != 0 || unread < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
        length < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) {
        return false;
    }
    *ret_bytes = info.tcpi_bytes_received - (unsigned)unread;
    return true;
}

void idle_pools_count(struct connection_entry *entry, const char *start, size_t head_bytes, size_t body_bytes)
{
    INVARIANT(entry != NULL && start != NULL);
    struct idle_pool *idle = &entry->idle;
    uint64_t read = 0;
    idle->taken_bytes += head_bytes + body_bytes;
    if (idle->start == NULL && read_received(entry->fd, &read) && read == idle->taken_bytes) {
        idle->start = start;
    }
}

void idle_pools_end(struct idle_pools *pools, struct connection_entry *entry, int64_t now_us)
{
    INVARIANT(pools != NULL && entry != NULL && entry->idle.pools == NULL);
    struct idle_pool *idle = &entry->idle;
    if (idle->start == NULL) {
        return;
    }
    idle->pools = pools;
    idle->since_us = now_us;
    idle->before = pools->last;
    *(pools->last != NULL ? &pools->last->idle.next : &pools->first) = entry;
    pools->last = entry;
}

/* The first byte is zero, and each byte is that before it. */
static bool has_zeros_alone(const char *page, size_t size)
{
    return page[0] == 0 && memcmp(page, page + 1, size - 1) == 0;
}

/* Only whole pages within the pool: the rest of a page may belong to another thread. Neighbours go back in one call, since
 * each one interrupts the processors of the other threads. */
static void return_zero_pages(const char *start, size_t size)
{
    INVARIANT(start != NULL);
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)start + page_size - 1) & ~(uintptr_t)(page_size - 1);
    uintptr_t end = ((uintptr_t)start + size) & ~(uintptr_t)(page_size - 1);
    uintptr_t begin = first; /* of the pages with zeros before `at` */
    for (uintptr_t at = first; at <= end; at += page_size) {
        if (at < end && has_zeros_alone((const char *)at, page_size)) {
            continue;
        }
        if (at > begin) {
            (void)madvise((void *)begin, at - begin, MADV_DONTNEED);
        }
        begin = at + page_size;
    }
}

/* A connection may have sent a part of its next head meanwhile: that page stays. */
void idle_pools_return(struct idle_pools *pools, int64_t now_us)
{
    INVARIANT(pools != NULL);
    for (int i = 0; i < IDLE_POOLS_AT_ONCE && pools->first != NULL && now_us - pools->first->idle.since_us >= IDLE_POOL_US;
         i++) {
        struct connection_entry *entry = pools->first;
        idle_remove(entry);
        return_zero_pages(entry->idle.start, pools->pool_bytes);
    }
}
