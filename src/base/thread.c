/* A thread has the mask of signals of the one that starts it, so this one blocks them all for that moment. */
#include "base/thread.h"

#include "base/error.h"

sigset_t thread_block_signals(void)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    return before;
}

int thread_start(pthread_t *ret_thread, void *(*run)(void *), void *context)
{
    INVARIANT(ret_thread != NULL && run != NULL);
    sigset_t before = thread_block_signals();
    int native = pthread_create(ret_thread, NULL, run, context);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return native;
}

int thread_start_detached(void *(*run)(void *), void *context)
{
    INVARIANT(run != NULL);
    pthread_t thread;
    int native = thread_start(&thread, run, context);
    if (native == 0) {
        (void)pthread_detach(thread);
    }
    return native;
}
