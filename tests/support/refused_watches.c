/* Replaces inotify_init1() of the C library by a function that can refuse.
 *
 * The program exports the symbol, so that also the library under test calls it. The rest goes to the kernel by a raw system
 * call. One thread at a time.
 */
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
