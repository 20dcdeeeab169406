/* Small objects that come and go in bursts: a thousand executions begin at once, and end.
 *
 * malloc() keeps the memory of such a burst for the process, because each thread frees into the middle of its own heap. A
 * pool has chunks of pages for each size. A chunk in which nothing is left becomes a spare, for any size. So do pages that
 * were allocated as such. Spares are few, and go back to the system when the pool has no object left, as in a node without
 * work.
 *
 * Owner: the whole process has one pool. Threads: any. A child of fork() may use it.
 */
#ifndef WEIR_BASE_POOL_H
#define WEIR_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>

enum {
    POOL_CHUNK_BYTES = 64 * 1024,
    POOL_SPARES_MAX = 24,         /* memory that is kept while there are objects, in chunks */
    POOL_STEP_BYTES = 64,         /* sizes are rounded up to a multiple of it */
    POOL_OBJECT_BYTES_MAX = 2048, /* larger ones come from malloc() */
};

/* Zeroed, aligned for any type; NULL when memory is short. */
void *pool_allocate(size_t bytes);
/* `bytes`: as it was allocated. Takes NULL. */
void pool_free(void *object, size_t bytes);
/* Bytes that the pool has from the system at this moment. */
size_t pool_mapped_bytes(void);

/* Whole chunks of pages, for what is large and short-lived; NULL when memory is short. *ret_is_zero: each byte is 0, and
 * what is not touched costs no memory. Else all of it may have been used before. */
void *pages_allocate(size_t bytes, bool *ret_is_zero);
/* `bytes`: as they were allocated. Takes NULL. */
void pages_free(void *pages, size_t bytes);

#endif
