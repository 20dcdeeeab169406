#include "base/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

enum { BURST = 4000, OBJECT = 608, THREADS = 4, ROUNDS = 200 };

/* Under a sanitizer the pool is malloc(), and has nothing of its own. */
static bool has_chunks(void)
{
    void *object = pool_allocate(OBJECT);
    bool has = pool_mapped_bytes() > 0;
    pool_free(object, OBJECT);
    return has;
}

static void objects_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 63, 64, 65, OBJECT, 2047, 2048, 2049, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *objects[50];
        for (int round = 0; round < 2; round++) {
            for (int k = 0; k < 50; k++) {
                objects[k] = pool_allocate(sizes[i]);
                assert_non_null(objects[k]);
                assert_int_equal((uintptr_t)objects[k] % 16, 0);
                for (size_t at = 0; at < sizes[i]; at++) {
                    assert_int_equal(objects[k][at], 0);
                }
                memset(objects[k], k + 1, sizes[i]);
            }
            for (int k = 0; k < 50; k++) {
                assert_int_equal(objects[k][0], k + 1);
                assert_int_equal(objects[k][sizes[i] - 1], k + 1);
                pool_free(objects[k], sizes[i]);
            }
        }
    }
    pool_free(NULL, 10);
}

static void the_memory_of_a_burst_goes_back_to_the_system(void **state)
{
    (void)state;
    static void *objects[BURST];
    if (!has_chunks()) {
        return;
    }
    size_t before = pool_mapped_bytes();
    for (int i = 0; i < BURST; i++) {
        objects[i] = pool_allocate(OBJECT);
    }
    assert_true(pool_mapped_bytes() >= before + (size_t)(BURST - 200) * OBJECT);
    for (int i = 0; i < BURST; i += 2) { /* from every chunk one half, so that none is empty yet */
        pool_free(objects[i], OBJECT);
    }
    size_t half = pool_mapped_bytes();
    for (int i = 0; i < BURST; i += 2) { /* what was freed is used again */
        objects[i] = pool_allocate(OBJECT);
    }
    assert_int_equal(pool_mapped_bytes(), half);
    for (int i = 0; i < BURST; i++) {
        pool_free(objects[i], OBJECT);
    }
    assert_true(pool_mapped_bytes() <= before + POOL_CHUNK_BYTES);
}

/* Allocates a burst, whose objects must be zero, fills it and frees it. */
static void repeat_burst(void **objects, size_t count, size_t bytes)
{
    static const unsigned char zeros[OBJECT];
    for (size_t i = 0; i < count; i++) {
        objects[i] = pool_allocate(bytes);
        assert_non_null(objects[i]);
        assert_memory_equal(objects[i], zeros, bytes);
        memset(objects[i], 0xff, bytes);
    }
    for (size_t i = 0; i < count; i++) {
        pool_free(objects[i], bytes);
    }
}

/* Pages of the object's chunk that are in memory. */
static int pages_in_memory(const void *object)
{
    unsigned char is_in_memory[POOL_CHUNK_BYTES / 4096];
    int count = 0;
    uintptr_t chunk = (uintptr_t)object / POOL_CHUNK_BYTES * POOL_CHUNK_BYTES;
    assert_int_equal(mincore((void *)chunk, POOL_CHUNK_BYTES, is_in_memory), 0);
    for (size_t i = 0; i < sizeof is_in_memory; i++) {
        count += is_in_memory[i] & 1;
    }
    return count;
}

static void a_chunk_without_objects_keeps_one_page(void **state)
{
    (void)state;
    static void *objects[BURST];
    if (!has_chunks() || sysconf(_SC_PAGESIZE) != 4096) {
        return; /* with larger pages no chunk gives any back */
    }
    for (int round = 0; round < 2; round++) {
        void *first = objects[0] = pool_allocate(OBJECT);
        for (int i = 1; i < 100; i++) {
            objects[i] = pool_allocate(OBJECT);
            memset(objects[i], 0xff, OBJECT);
        }
        assert_true(pages_in_memory(first) > 10);
        for (int i = 0; i < 100; i++) {
            pool_free(objects[i], OBJECT);
        }
        assert_int_equal(pages_in_memory(first), 1);
    }
    repeat_burst(objects, 100, OBJECT); /* and its objects are zero again */
}

/* A burst of all chunks that may be spares, again and again, also of another size, beside an object that stays. */
static void a_repeated_burst_maps_nothing_and_the_last_object_ends_the_spares(void **state)
{
    (void)state;
    static void *objects[BURST];
    if (!has_chunks()) {
        return;
    }
    const size_t burst = (size_t)POOL_SPARES_MAX * (POOL_CHUNK_BYTES / OBJECT - 6);
    void *stays = pool_allocate(OBJECT);
    size_t before = pool_mapped_bytes();
    repeat_burst(objects, burst, OBJECT);
    size_t kept = pool_mapped_bytes();
    assert_true(kept > before);
    for (int round = 0; round < 10; round++) {
        repeat_burst(objects, burst, OBJECT);
        assert_int_equal(pool_mapped_bytes(), kept);
    }
    repeat_burst(objects, burst, OBJECT / 2);
    assert_true(pool_mapped_bytes() <= kept + POOL_CHUNK_BYTES); /* the one that a size keeps */
    repeat_burst(objects, BURST, OBJECT);
    assert_true(pool_mapped_bytes() <= before + (POOL_SPARES_MAX + 1) * (size_t)POOL_CHUNK_BYTES);
    pool_free(stays, OBJECT);
    assert_true(pool_mapped_bytes() <= before + POOL_CHUNK_BYTES);
}

static void a_single_object_maps_nothing_each_time(void **state)
{
    (void)state;
    pool_free(pool_allocate(OBJECT), OBJECT);
    size_t mapped = pool_mapped_bytes();
    for (int i = 0; i < 100; i++) {
        void *object = pool_allocate(OBJECT);
        assert_int_equal(pool_mapped_bytes(), mapped);
        pool_free(object, OBJECT);
        assert_int_equal(pool_mapped_bytes(), mapped);
    }
}

struct exchange {
    pthread_mutex_t lock;
    unsigned char *objects[256];
};

/* Each thread frees what another one has allocated. */
static void *swap_objects(void *context)
{
    struct exchange *exchange = context;
    for (int i = 0; i < ROUNDS * 256; i++) {
        unsigned char *own = pool_allocate(OBJECT);
        own[0] = own[OBJECT - 1] = (unsigned char)(i % 255 + 1);
        (void)pthread_mutex_lock(&exchange->lock);
        unsigned char *other = exchange->objects[i % 256];
        exchange->objects[i % 256] = own;
        (void)pthread_mutex_unlock(&exchange->lock);
        if (other != NULL && other[0] != other[OBJECT - 1]) {
            return exchange;
        }
        pool_free(other, OBJECT);
    }
    return NULL;
}

static void threads_free_the_objects_of_each_other(void **state)
{
    (void)state;
    static struct exchange exchange = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, swap_objects, &exchange), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *fault = NULL;
        assert_int_equal(pthread_join(threads[i], &fault), 0);
        assert_null(fault);
    }
    for (int i = 0; i < 256; i++) {
        pool_free(exchange.objects[i], OBJECT);
    }
}

static void a_child_of_fork_has_a_pool_of_its_own(void **state)
{
    (void)state;
    char *kept = pool_allocate(OBJECT);
    kept[0] = 'a';
    pid_t child = test_fork();
    if (child == 0) {
        char *own = pool_allocate(OBJECT);
        bool is_fine = own != NULL && own != kept && kept[0] == 'a';
        pool_free(kept, OBJECT);
        pool_free(own, OBJECT);
        _exit(is_fine ? 0 : 1);
    }
    int end = -1;
    assert_int_equal(waitpid(child, &end, 0), child);
    assert_int_equal(end, 0);
    assert_int_equal(kept[0], 'a');
    pool_free(kept, OBJECT);
}

enum { PAGES = 100000, PAGES_WHOLE = 2 * POOL_CHUNK_BYTES };

static unsigned char *allocate_zero_pages(void)
{
    bool is_zero = false;
    unsigned char *pages = pages_allocate(PAGES, &is_zero);
    assert_non_null(pages);
    assert_true(is_zero);
    for (size_t i = 0; i < PAGES; i++) {
        assert_int_equal(pages[i], 0);
    }
    memset(pages, 1, PAGES);
    return pages;
}

/* Without an object nothing is kept. */
static void pages_are_zeroed_and_given_back(void **state)
{
    (void)state;
    size_t before = pool_mapped_bytes();
    for (int i = 0; i < 3; i++) {
        pages_free(allocate_zero_pages(), PAGES);
        assert_int_equal(pool_mapped_bytes(), before);
    }
    pages_free(NULL, 1);
}

static void pages_are_spares_beside_an_object_and_end_with_it(void **state)
{
    (void)state;
    if (!has_chunks()) {
        return;
    }
    void *stays = pool_allocate(OBJECT);
    size_t before = pool_mapped_bytes();
    pages_free(allocate_zero_pages(), PAGES);
    assert_int_equal(pool_mapped_bytes(), before + PAGES_WHOLE);
    for (int i = 0; i < 10; i++) { /* of the same number of chunks: they map nothing, and are not zero */
        bool is_zero = true;
        void *pages = pages_allocate(PAGES + 100 * (size_t)i, &is_zero);
        assert_non_null(pages);
        assert_false(is_zero);
        assert_int_equal(pool_mapped_bytes(), before + PAGES_WHOLE);
        pages_free(pages, PAGES + 100 * (size_t)i);
    }
    bool is_zero = false;
    void *larger = pages_allocate(PAGES_WHOLE + 1, &is_zero); /* a spare of another size does not serve it */
    assert_true(is_zero);
    pages_free(larger, PAGES_WHOLE + 1);
    pool_free(stays, OBJECT);
    assert_int_equal(pool_mapped_bytes(), before);
}

static void pages_beyond_the_bound_of_spares_are_unmapped(void **state)
{
    (void)state;
    if (!has_chunks()) {
        return;
    }
    enum { COUNT = POOL_SPARES_MAX };
    void *pages[COUNT];
    void *stays = pool_allocate(OBJECT);
    size_t before = pool_mapped_bytes();
    for (int i = 0; i < COUNT; i++) {
        pages[i] = allocate_zero_pages();
    }
    assert_int_equal(pool_mapped_bytes(), before + (size_t)COUNT * PAGES_WHOLE);
    for (int i = 0; i < COUNT; i++) {
        pages_free(pages[i], PAGES);
    }
    assert_int_equal(pool_mapped_bytes(), before + (size_t)POOL_SPARES_MAX * POOL_CHUNK_BYTES);
    pool_free(stays, OBJECT);
    assert_int_equal(pool_mapped_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_zeroed_aligned_and_apart),
        cmocka_unit_test(the_memory_of_a_burst_goes_back_to_the_system),
        cmocka_unit_test(a_repeated_burst_maps_nothing_and_the_last_object_ends_the_spares),
        cmocka_unit_test(a_chunk_without_objects_keeps_one_page),
        cmocka_unit_test(a_single_object_maps_nothing_each_time),
        cmocka_unit_test(threads_free_the_objects_of_each_other),
        cmocka_unit_test(a_child_of_fork_has_a_pool_of_its_own),
        cmocka_unit_test(pages_are_zeroed_and_given_back),
        cmocka_unit_test(pages_are_spares_beside_an_object_and_end_with_it),
        cmocka_unit_test(pages_beyond_the_bound_of_spares_are_unmapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
