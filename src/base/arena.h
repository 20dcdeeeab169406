/* Memory of one batch or one request: many small allocations, one release.
 *
 * Owner: the caller of arena_init(). Threads: one at a time. Everything handed out lives until arena_reset() or
 * arena_close(). There is a ceiling, so that no input can make a batch grow without bound.
 */
#ifndef WEIR_BASE_ARENA_H
#define WEIR_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *first;
    size_t used_bytes; /* handed out since the last reset */
    size_t max_bytes;
};

void arena_init(struct arena *arena, size_t max_bytes);
/* Zeroed, aligned for any type; NULL when memory or the ceiling ran out. */
void *arena_allocate(struct arena *arena, size_t bytes);
/* A NUL-terminated copy; NULL as above. `bytes` may hold NULs. */
char *arena_copy(struct arena *arena, const char *bytes, size_t length);
char *arena_copy_string(struct arena *arena, const char *string);
/* Puts a copy in the place of the text, which may be NULL. False: memory or the ceiling ran out. */
bool arena_keep_text(struct arena *arena, const char **text);
/* Makes room for one more element behind `count` of them. The array must have been allocated by this function from the
 * start: `first` elements at first, then twice as many each time. NULL when the ceiling is reached. */
void *arena_grow(struct arena *arena, void *array, size_t count, size_t first, size_t size);
/* Forgets everything but keeps one block for the next round. */
void arena_reset(struct arena *arena);
void arena_close(struct arena *arena);

#endif
