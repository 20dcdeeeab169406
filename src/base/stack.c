/* Checks at start that the stack limit of the process suffices for the threads of a node. New threads take the soft limit
 * as their size; below STACK_LEAST_KIB a deep expression or definition would end the process in the middle of its work.
 */
#include "base/stack.h"

#include <sys/resource.h>

enum { STACK_LEAST_KIB = 512 };

enum weir_status stack_require(struct weir_error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= (rlim_t)STACK_LEAST_KIB * 1024) {
        return WEIR_OK;
    }
    error_set(error, WEIR_SYSTEM, "the stack limit of this process is %llu KiB; the threads of a node need %d",
              (unsigned long long)limit.rlim_cur / 1024, (int)STACK_LEAST_KIB);
    error_hint(error, "raise it: ulimit -s 8192, or LimitSTACK=8M in a systemd unit");
    return WEIR_SYSTEM;
}
