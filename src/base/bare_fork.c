/* _Fork() of the C library, or before glibc 2.34 the bare call. Sanitizers take locks of their own around fork(), which are
 * free where there is one thread. */
#include "base/bare_fork.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

pid_t bare_fork(void)
{
#if defined(__GLIBC__) && !__GLIBC_PREREQ(2, 34)
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
#else
    return _Fork();
#endif
}
