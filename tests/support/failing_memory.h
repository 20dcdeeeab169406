/* Memory that runs out at a place that the test chooses: for a program that links this file and whose linker redirects the
 * allocations
 * (-Wl,--wrap=malloc and so on; of strdup only if it is named as well). Allocations of libraries do not change. Any thread.
 */
#ifndef WEIR_TESTS_SUPPORT_FAILING_MEMORY_H
#define WEIR_TESTS_SUPPORT_FAILING_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct failing_memory {
    atomic_bool armed; /* only then is anything counted, or fails */
    atomic_int calls;
    atomic_int first; /* calls `first` to `last` fail; none while `last` < `first` */
    atomic_int last;
    atomic_size_t least_bytes; /* allocations of at least this size fail too; 0 = none fails for its size */
};
extern struct failing_memory failing_memory;

/* Counts anew, and lets `count` calls fail from the first-th on. Whether it is armed stays as it is. */
void failing_memory_aim(int first, int count);
/* The machine's own. */
void *failing_memory_real_malloc(size_t size);

#endif
