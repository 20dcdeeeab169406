/* Read before each file in the build with ThreadSanitizer only (./dev check tsan). Its runtime of gcc 12 does not know
 * pthread_mutex_clocklock(), and would take the unlock for one of a mutex that nobody holds. */
#ifndef WEIR_TOOLS_TSAN_HINTS_H
#define WEIR_TOOLS_TSAN_HINTS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sanitizer/tsan_interface.h>

static inline int clocklock_with_notice(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    __tsan_mutex_pre_lock(mutex, __tsan_mutex_try_lock);
    int failed = pthread_mutex_clocklock(mutex, clock, until);
    __tsan_mutex_post_lock(mutex, failed == 0 ? __tsan_mutex_try_lock : __tsan_mutex_try_lock_failed, 0);
    return failed;
}
#define pthread_mutex_clocklock clocklock_with_notice

#endif
