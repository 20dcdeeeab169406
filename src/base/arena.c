/* Memory in blocks that is freed as a whole. One thread at a time.
 *
 *   first -> [block 64 KiB | used ....] -> ... -> [block 16 KiB]      a larger request gets a block of its own size
 *
 * The first block comes from malloc(). Further blocks, and larger ones, are pages of the system (base/pool.h), and return
 * to it when they are freed, or when the work ends. malloc() would keep them in the heap of the thread. Pages that are not
 * touched cost no memory.
 *
 * Every allocation is zeroed and aligned for any type. The ceiling counts requested bytes, so input cannot make an arena
 * grow without limit: NULL then, as when memory is short. arena_reset() keeps one block of ordinary size for the next use.
 */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"

struct arena_block {
    struct arena_block *next;
    size_t size;
    size_t used;
    size_t mapped_bytes; /* of pages of the system; 0 = from malloc() */
    bool is_zero;        /* what was not handed out yet */
    max_align_t data[];
};

/* With its head a block of pages fills a chunk of the pool. */
enum { ARENA_BLOCK_BYTES = 16 * 1024, ARENA_MAPPED_BYTES = POOL_CHUNK_BYTES - sizeof(struct arena_block) };

void arena_init(struct arena *arena, size_t max_bytes)
{
    *arena = (struct arena){.max_bytes = max_bytes};
}

static struct arena_block *arena_add_block(struct arena *arena, size_t bytes)
{
    size_t least = arena->first == NULL ? ARENA_BLOCK_BYTES : ARENA_MAPPED_BYTES;
    size_t size = bytes > least ? bytes : least;
    size_t whole = sizeof(struct arena_block) + size;
    bool is_mapped = size > ARENA_BLOCK_BYTES;
    bool is_zero = false;
    struct arena_block *block = is_mapped ? pages_allocate(whole, &is_zero) : malloc(whole);
    if (block != NULL) {
        block->is_zero = is_zero;
        block->size = size;
        block->used = 0;
        block->mapped_bytes = is_mapped ? whole : 0;
        block->next = arena->first;
        arena->first = block;
    }
    return block;
}

void *arena_allocate(struct arena *arena, size_t bytes)
{
    if (bytes > arena->max_bytes || arena->used_bytes > arena->max_bytes - bytes || bytes > PTRDIFF_MAX / 2) {
        return NULL;
    }
    size_t rounded = (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    struct arena_block *block = arena->first;
    if (block == NULL || block->size - block->used < rounded) {
        block = arena_add_block(arena, rounded);
        if (block == NULL) {
            return NULL;
        }
    }
    void *memory = (char *)block->data + block->used;
    block->used += rounded;
    arena->used_bytes += bytes;
    if (!block->is_zero) { /* what is not touched costs no memory */
        memset(memory, 0, rounded);
    }
    return memory;
}

char *arena_copy(struct arena *arena, const char *bytes, size_t length)
{
    char *copy = length == SIZE_MAX ? NULL : arena_allocate(arena, length + 1);
    if (copy != NULL && length > 0) {
        memcpy(copy, bytes, length);
    }
    return copy;
}

char *arena_copy_string(struct arena *arena, const char *string)
{
    return arena_copy(arena, string, strlen(string));
}

bool arena_keep_text(struct arena *arena, const char **text)
{
    const char *copy = *text == NULL ? NULL : arena_copy_string(arena, *text);
    bool is_fine = copy != NULL || *text == NULL;
    *text = copy;
    return is_fine;
}

static void free_block(struct arena_block *block)
{
    if (block->mapped_bytes > 0) {
        pages_free(block, block->mapped_bytes);
    } else {
        free(block);
    }
}

static void free_blocks(struct arena_block *block)
{
    while (block != NULL) {
        struct arena_block *next = block->next;
        free_block(block);
        block = next;
    }
}

void *arena_grow(struct arena *arena, void *array, size_t count, size_t first, size_t size)
{
    size_t capacity = first;
    while (capacity < count) {
        capacity *= 2;
    }
    if (count > 0 && count < capacity) {
        return array;
    }
    void *more = arena_allocate(arena, (count == 0 ? first : 2 * capacity) * size);
    if (more != NULL && count > 0) {
        memcpy(more, array, count * size);
    }
    return more;
}

void arena_reset(struct arena *arena)
{
    struct arena_block *keep = arena->first;
    if (keep != NULL) {
        free_blocks(keep->next);
        keep->next = NULL;
        keep->used = 0;
        if (keep->size > ARENA_BLOCK_BYTES) {
            free_block(keep);
            arena->first = NULL;
        }
    }
    arena->used_bytes = 0;
}

void arena_close(struct arena *arena)
{
    if (arena != NULL) {
        free_blocks(arena->first);
        arena->first = NULL;
        arena->used_bytes = 0;
    }
}
