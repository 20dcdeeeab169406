/* Replaces malloc, calloc, realloc, strdup and pool_allocate by functions that fail for chosen calls.
 *
 * The linker redirects the calls of the program (--wrap); libraries keep their allocator. While `armed` is set, each
 * allocation counts, and those from `first` to `last`, and those of at least `least_bytes`, return NULL. free() is not
 * replaced: the memory of the real functions stays valid. The counter is atomic, so any thread may allocate.
 */
#include "support/failing_memory.h"

#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
void *__real_pool_allocate(size_t bytes);
void *__wrap_pool_allocate(size_t bytes);

struct failing_memory failing_memory = {.last = -1};

static bool must_fail(size_t bytes)
{
    if (!failing_memory.armed) {
        return false;
    }
    int call = atomic_fetch_add(&failing_memory.calls, 1) + 1;
    size_t least_bytes = failing_memory.least_bytes;
    return (call >= failing_memory.first && call <= failing_memory.last) || (least_bytes > 0 && bytes >= least_bytes);
}

void *__wrap_malloc(size_t size)
{
    return must_fail(size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return must_fail(count * size) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return must_fail(size) ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = must_fail(size) ? NULL : __real_malloc(size);
    return copy == NULL ? NULL : memcpy(copy, text, size);
}

void *__wrap_pool_allocate(size_t bytes)
{
    return must_fail(bytes) ? NULL : __real_pool_allocate(bytes);
}

void failing_memory_aim(int first, int count)
{
    failing_memory.calls = 0;
    failing_memory.first = first;
    failing_memory.last = first + count - 1;
}

void *failing_memory_real_malloc(size_t size)
{
    return __real_malloc(size);
}
