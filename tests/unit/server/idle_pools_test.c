#include "server/idle_pools.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/connection_list.h"
#include "support/test.h"

enum { PAGES = 6, PAGE = 4096 };

/* Both ends of a connection of TCP. */
static void connect_pair(int *ret_client, int *ret_server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret_client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(connect(*ret_client, (struct sockaddr *)&address, sizeof address), 0);
    *ret_server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(*ret_server >= 0);
    (void)close(listener);
}

static void pass_bytes(int from, int to, size_t count)
{
    char bytes[256] = {0};
    assert_int_equal(send(from, bytes, count, 0), (ssize_t)count);
    assert_int_equal(recv(to, bytes, count, MSG_WAITALL), (ssize_t)count);
}

/* A pool whose begin is a page's: its third page is in use, and all others have zeros. */
static char *make_pool(void)
{
    char *pool = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pool != MAP_FAILED);
    for (size_t i = 0; i < PAGES; i++) {
        pool[i * PAGE] = 1;
        pool[i * PAGE] = i == 2 ? 1 : 0;
    }
    return pool;
}

static size_t count_resident(char *pool)
{
    unsigned char pages[PAGES];
    size_t count = 0;
    assert_int_equal(mincore(pool, (size_t)PAGES * PAGE, pages), 0);
    for (size_t i = 0; i < PAGES; i++) {
        count += pages[i] & 1;
    }
    return count;
}

static void a_pool_begins_where_a_request_begins_without_bytes_before_it(void **state)
{
    static const char memory[1];
    struct connection_entry entry = {.fd = -1};
    int client;
    (void)state;
    connect_pair(&client, &entry.fd);
    pass_bytes(client, entry.fd, 4 + 100); /* two empty lines before the head */
    idle_pools_count(&entry, memory, 100, 0);
    assert_null(entry.idle.start);
    pass_bytes(client, entry.fd, 100 + 20);
    idle_pools_count(&entry, memory, 100, 20);
    assert_null(entry.idle.start); /* what has come once counts for ever */
    (void)close(client);
    (void)close(entry.fd);

    entry = (struct connection_entry){.fd = -1};
    connect_pair(&client, &entry.fd);
    pass_bytes(client, entry.fd, 100 + 20 + 7); /* a part of the next head was read as well */
    idle_pools_count(&entry, memory, 100, 20);
    assert_null(entry.idle.start);
    pass_bytes(client, entry.fd, 50 - 7);
    assert_int_equal(send(client, "not read yet", 12, 0), 12);
    idle_pools_count(&entry, memory, 50, 0);
    assert_ptr_equal(entry.idle.start, memory);
    (void)close(client);
    (void)close(entry.fd);
}

static void a_socket_that_is_none_of_tcp_has_no_pool(void **state)
{
    static const char memory[1];
    int fds[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    struct connection_entry entry = {.fd = fds[0]};
    struct idle_pools pools = {.pool_bytes = PAGE};
    idle_pools_count(&entry, memory, 0, 0);
    assert_null(entry.idle.start);
    idle_pools_end(&pools, &entry, 0);
    assert_null(pools.first);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void pages_with_zeros_go_back_and_keep_their_contents(void **state)
{
    char *memory = make_pool();
    struct connection_entry entry = {.idle.start = memory + 1}; /* so the first page is not wholly in the pool */
    struct idle_pools pools = {.pool_bytes = (size_t)(PAGES - 1) * PAGE};
    (void)state;
    idle_pools_end(&pools, &entry, 1000);
    idle_pools_return(&pools, 1000 + IDLE_POOL_US - 1);
    assert_int_equal(count_resident(memory), PAGES);
    idle_pools_return(&pools, 1000 + IDLE_POOL_US);
    assert_null(pools.first);
    /* The first and the last one belong to others in part, the third one is in use. */
    assert_int_equal(count_resident(memory), 3);
    for (size_t i = 0; i < (size_t)PAGES * PAGE; i++) {
        assert_int_equal(memory[i], i == (size_t)2 * PAGE);
    }
    assert_int_equal(munmap(memory, (size_t)PAGES * PAGE), 0);
}

/* Ten thousand connections may become idle together. The requests of others wait for what is done at once. */
static void many_idle_connections_give_their_pages_back_in_parts(void **state)
{
    enum { COUNT = 2 * IDLE_POOLS_AT_ONCE + 1 };
    static struct connection_entry entries[COUNT];
    char *pool_of[COUNT];
    struct idle_pools pools = {.pool_bytes = (size_t)PAGES * PAGE};
    size_t returned = 0;
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        pool_of[i] = make_pool();
        entries[i] = (struct connection_entry){.idle.start = pool_of[i]};
        idle_pools_end(&pools, &entries[i], 0);
    }
    for (size_t call = 1; call <= 3; call++) {
        idle_pools_return(&pools, IDLE_POOL_US);
        for (returned = 0; returned < COUNT && count_resident(pool_of[returned]) == 1; returned++) {
        }
        assert_int_equal(returned, call < 3 ? call * IDLE_POOLS_AT_ONCE : COUNT);
    }
    assert_null(pools.first);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(munmap(pool_of[i], (size_t)PAGES * PAGE), 0);
    }
}

static void a_connection_that_goes_on_keeps_its_pages(void **state)
{
    char *memory = make_pool();
    struct connection_entry entries[3] = {{.idle.start = memory}, {.idle.start = memory}, {.idle.start = memory}};
    struct idle_pools pools = {.pool_bytes = (size_t)PAGES * PAGE};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        idle_pools_end(&pools, &entries[i], (int64_t)i);
    }
    idle_pools_begin(&entries[1]); /* out of the middle, */
    idle_pools_begin(&entries[0]); /* of the begin */
    idle_pools_begin(&entries[2]); /* and of the end */
    idle_pools_begin(&entries[2]); /* it is in no list any more */
    assert_null(pools.first);
    assert_null(pools.last);
    idle_pools_return(&pools, 10 * IDLE_POOL_US);
    assert_int_equal(count_resident(memory), PAGES);
    assert_int_equal(munmap(memory, (size_t)PAGES * PAGE), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_begins_where_a_request_begins_without_bytes_before_it),
        cmocka_unit_test(a_socket_that_is_none_of_tcp_has_no_pool),
        cmocka_unit_test(pages_with_zeros_go_back_and_keep_their_contents),
        cmocka_unit_test(many_idle_connections_give_their_pages_back_in_parts),
        cmocka_unit_test(a_connection_that_goes_on_keeps_its_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
