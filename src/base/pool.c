/* Chunks of objects of one size, and pages of the system.
 *
 *   class -> [chunk 64 KiB | object | object | free | free | never used ...] <-> [chunk] <-> ...    chunks with room
 *
 *   1. An object comes from the first chunk with room: a freed one, else the first that was never used. A freed object is
 *      zeroed when it is taken again; a new one is zero already, unless the chunk was a spare.
 *   2. A chunk without room leaves the list, and returns to its head with the first object that is freed.
 *   3. Chunks are aligned to their size, so the address of an object leads to its chunk.
 *   4. An empty chunk becomes a spare, unless it is the only one with room. Beyond POOL_SPARES_MAX it is unmapped. A load
 * in bursts of several chunks therefore maps nothing: to map a chunk and touch its pages costs as much as many objects.
 *   5. Pages that were allocated as such become spares likewise, of their size. To unmap them would stop each thread of the
 * process for a moment: its processor has to forget the addresses.
 *   6. With the last object all spares are unmapped, so that an idle process keeps one chunk of each size at most. Of these
 * it gives back all pages that a burst has used, but the first one.
 *
 * One lock protects all chunks, and fork() holds it, so that the child finds it free. With a sanitizer every object comes
 * from malloc(), where the sanitizer sees a use after the end. Nothing here may call back into weir.
 */
#include "base/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POOL_IS_PLAIN true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define POOL_IS_PLAIN true
#endif
#endif
#ifndef POOL_IS_PLAIN
#define POOL_IS_PLAIN false
#endif

enum {
    CLASSES = POOL_OBJECT_BYTES_MAX / POOL_STEP_BYTES,
    SPARE_BYTES_MAX = POOL_SPARES_MAX * POOL_CHUNK_BYTES,
    PAGE_BYTES = 4096 /* where pages are larger, no chunk gives any back */
};

struct free_object {
    struct free_object *next;
};

struct chunk {
    struct chunk *next; /* of those with room */
    struct chunk *before;
    struct free_object *freed;
    uint32_t live;
    uint32_t used;    /* objects from the start of the chunk that were handed out at least once */
    bool was_a_spare; /* its memory is not zero */
};

/* At the start of pages that are kept. */
struct spare {
    struct spare *next;
    size_t bytes;
};

/* Objects begin behind it, aligned as malloc() aligns. */
enum { HEAD_BYTES = (sizeof(struct chunk) + POOL_STEP_BYTES - 1) / POOL_STEP_BYTES * POOL_STEP_BYTES };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct chunk *with_room[CLASSES + 1];
static struct spare *spares; /* the last one first */
static size_t spare_bytes;
static size_t live_objects; /* in all chunks */
static size_t mapped_bytes;

static void pool_lock_for_fork(void)
{
    (void)pthread_mutex_lock(&lock);
}

static void pool_unlock_after_fork(void)
{
    (void)pthread_mutex_unlock(&lock);
}

static void pool_watch_forks(void)
{
    (void)pthread_atfork(pool_lock_for_fork, pool_unlock_after_fork, pool_unlock_after_fork);
}

static void pool_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, pool_watch_forks);
    (void)pthread_mutex_lock(&lock);
}

/* --- pages and spares --- */

static size_t whole_chunks(size_t bytes)
{
    return (bytes + POOL_CHUNK_BYTES - 1) / POOL_CHUNK_BYTES * POOL_CHUNK_BYTES;
}

/* Aligned pages of the system: maps a chunk more, and gives back what lies before and behind the aligned part. */
static void *map_pages(size_t bytes)
{
    char *pages = mmap(NULL, bytes + POOL_CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        return NULL;
    }
    size_t before = (POOL_CHUNK_BYTES - (uintptr_t)pages % POOL_CHUNK_BYTES) % POOL_CHUNK_BYTES;
    char *aligned = pages + before;
    if (before > 0) {
        (void)munmap(pages, before);
    }
    (void)munmap(aligned + bytes, POOL_CHUNK_BYTES - before);
    mapped_bytes += bytes;
    return aligned;
}

static void unmap_pages(void *pages, size_t bytes)
{
    mapped_bytes -= bytes;
    (void)munmap(pages, bytes);
}

/* A spare of exactly this size, else new pages; NULL when memory is short. */
static void *take_pages(size_t bytes, bool *ret_is_zero)
{
    struct spare **place = &spares;
    while (*place != NULL && (*place)->bytes != bytes) {
        place = &(*place)->next;
    }
    struct spare *spare = *place;
    *ret_is_zero = spare == NULL;
    if (spare == NULL) {
        return map_pages(bytes);
    }
    *place = spare->next;
    spare_bytes -= bytes;
    return spare;
}

static void give_pages(void *pages, size_t bytes)
{
    if (live_objects == 0 || bytes > SPARE_BYTES_MAX - spare_bytes) {
        unmap_pages(pages, bytes);
        return;
    }
    struct spare *spare = pages;
    *spare = (struct spare){.next = spares, .bytes = bytes};
    spares = spare;
    spare_bytes += bytes;
}

static void unmap_spares(void)
{
    while (spares != NULL) {
        struct spare *spare = spares;
        spares = spare->next;
        unmap_pages(spare, spare->bytes);
    }
    spare_bytes = 0;
}

void *pages_allocate(size_t bytes, bool *ret_is_zero)
{
    INVARIANT(bytes > 0 && bytes <= SIZE_MAX / 2 && ret_is_zero != NULL);
    if (POOL_IS_PLAIN) {
        *ret_is_zero = true;
        return calloc(1, bytes);
    }
    pool_lock();
    void *pages = take_pages(whole_chunks(bytes), ret_is_zero);
    (void)pthread_mutex_unlock(&lock);
    return pages;
}

void pages_free(void *pages, size_t bytes)
{
    if (POOL_IS_PLAIN) {
        free(pages);
    } else if (pages != NULL) {
        pool_lock();
        give_pages(pages, whole_chunks(bytes));
        (void)pthread_mutex_unlock(&lock);
    }
}

/* A spare, else a new chunk; NULL when memory is short. */
static struct chunk *pool_new_chunk(void)
{
    bool is_zero;
    struct chunk *chunk = take_pages(POOL_CHUNK_BYTES, &is_zero);
    if (chunk != NULL) {
        *chunk = (struct chunk){.was_a_spare = !is_zero};
    }
    return chunk;
}

/* --- objects --- */

/* Of an empty chunk. A process that has one object at a time never gets here. */
static void forget_use(size_t class, struct chunk *chunk)
{
    INVARIANT(chunk->live == 0);
    if (HEAD_BYTES + chunk->used * class * POOL_STEP_BYTES > PAGE_BYTES &&
        madvise((char *)chunk + PAGE_BYTES, POOL_CHUNK_BYTES - PAGE_BYTES, MADV_DONTNEED) == 0) {
        chunk->freed = NULL;
        chunk->used = 0;
        chunk->was_a_spare = true; /* its first page is not zero */
    }
}

/* No object is left. */
static void forget_burst(void)
{
    unmap_spares();
    for (size_t class = 1; class <= CLASSES; class ++) {
        for (struct chunk *chunk = with_room[class]; chunk != NULL; chunk = chunk->next) {
            forget_use(class, chunk);
        }
    }
}

static size_t pool_class_of(size_t bytes)
{
    return (bytes + POOL_STEP_BYTES - 1) / POOL_STEP_BYTES;
}

static uint32_t pool_capacity_of(size_t class)
{
    return (uint32_t)((POOL_CHUNK_BYTES - HEAD_BYTES) / (class * POOL_STEP_BYTES));
}

static void pool_list_add(size_t class, struct chunk *chunk)
{
    chunk->before = NULL;
    chunk->next = with_room[class];
    if (chunk->next != NULL) {
        chunk->next->before = chunk;
    }
    with_room[class] = chunk;
}

static void pool_list_remove(size_t class, struct chunk *chunk)
{
    if (chunk->next != NULL) {
        chunk->next->before = chunk->before;
    }
    if (chunk->before != NULL) {
        chunk->before->next = chunk->next;
    } else {
        with_room[class] = chunk->next;
    }
}

static void *pool_take(size_t class)
{
    struct chunk *chunk = with_room[class];
    if (chunk == NULL) {
        chunk = pool_new_chunk();
        if (chunk == NULL) {
            return NULL;
        }
        pool_list_add(class, chunk);
    }
    void *object = chunk->freed;
    bool is_zero = object == NULL && !chunk->was_a_spare;
    if (object != NULL) {
        chunk->freed = chunk->freed->next;
    } else {
        object = (char *)chunk + HEAD_BYTES + chunk->used * class * POOL_STEP_BYTES;
        chunk->used++;
    }
    if (!is_zero) {
        memset(object, 0, class * POOL_STEP_BYTES);
    }
    chunk->live++;
    live_objects++;
    if (chunk->live == pool_capacity_of(class)) {
        pool_list_remove(class, chunk);
    }
    return object;
}

void *pool_allocate(size_t bytes)
{
    INVARIANT(bytes > 0);
    if (POOL_IS_PLAIN || bytes > POOL_OBJECT_BYTES_MAX) {
        return calloc(1, bytes);
    }
    pool_lock();
    void *object = pool_take(pool_class_of(bytes));
    (void)pthread_mutex_unlock(&lock);
    return object;
}

void pool_free(void *object, size_t bytes)
{
    if (POOL_IS_PLAIN || bytes > POOL_OBJECT_BYTES_MAX || object == NULL) {
        free(object);
        return;
    }
    size_t class = pool_class_of(bytes);
    struct chunk *chunk = (struct chunk *)(void *)((char *)object - (uintptr_t)object % POOL_CHUNK_BYTES);
    struct free_object *freed = object;
    (void)pthread_mutex_lock(&lock);
    INVARIANT(chunk->live > 0);
    if (chunk->live == pool_capacity_of(class)) {
        pool_list_add(class, chunk);
    }
    freed->next = chunk->freed;
    chunk->freed = freed;
    chunk->live--;
    live_objects--;
    if (chunk->live == 0 && (chunk->next != NULL || chunk->before != NULL)) {
        pool_list_remove(class, chunk);
        give_pages(chunk, POOL_CHUNK_BYTES);
    }
    if (live_objects == 0) {
        forget_burst();
    }
    (void)pthread_mutex_unlock(&lock);
}

size_t pool_mapped_bytes(void)
{
    (void)pthread_mutex_lock(&lock);
    size_t bytes = mapped_bytes;
    (void)pthread_mutex_unlock(&lock);
    return bytes;
}
