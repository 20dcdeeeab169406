/* The soft limit of open files. main() raises it before any thread starts; a child restores it before it runs a program,
 * because some programs close or scan all descriptors up to the limit. The static value is written once, so children may
 * read it.
 */
#include "base/file_limit.h"

#include <stdbool.h>
#include <sys/resource.h>

static struct rlimit before; /* all 0: it was not raised */

void file_limit_raise(void)
{
    struct rlimit limit;
    if (before.rlim_cur != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) {
        return;
    }
    struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) {
        before = limit;
    }
}

void file_limit_restore(void)
{
    struct rlimit limit;
    if (before.rlim_cur != 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = before.rlim_cur < limit.rlim_max ? before.rlim_cur : limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}
