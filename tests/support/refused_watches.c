#include "support/refused_watches.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

int watches_to_refuse;

/* In the place of the one that a store would call. */
__attribute__((visibility("default"))) int watch_or_refuse(int flags) __asm__("inotify_init1");

int watch_or_refuse(int flags)
{
    if (watches_to_refuse > 0) {
        watches_to_refuse--;
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_inotify_init1, flags);
}
