/* _Fork() of the C library, or before glibc 2.34 the bare call. Sanitizers know fork() alone, and take locks of their own
 * around it. */
#include "base/bare_fork.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FORKS_WITH_HANDLERS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define FORKS_WITH_HANDLERS
#endif
#endif

pid_t bare_fork(void)
{
#if defined(FORKS_WITH_HANDLERS)
    return fork();
#elif defined(__GLIBC__) && !__GLIBC_PREREQ(2, 34)
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
#else
    return _Fork();
#endif
}
