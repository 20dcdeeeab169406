/* A thread has the mask of signals of the one that starts it, so this one blocks them all for that moment. */
#include "base/thread.h"

#include <signal.h>

#include "base/error.h"

int thread_start(pthread_t *ret_thread, void *(*run)(void *), void *context)
{
    INVARIANT(ret_thread != NULL && run != NULL);
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int native = pthread_create(ret_thread, NULL, run, context);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return native;
}
