/* Starts threads of the library. */
#ifndef WEIR_BASE_THREAD_H
#define WEIR_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Starts a thread that takes no signal: signals are for the program's own threads. 0, or the error number of the system.
 * Any thread. */
int thread_start(pthread_t *ret_thread, void *(*run)(void *), void *context);
/* The same for a thread that nobody joins. */
int thread_start_detached(void *(*run)(void *), void *context);
/* Blocks all signals of the calling thread, and returns its mask before: for a thread that another library starts, and for
 * a child before it has put its handlers back. */
sigset_t thread_block_signals(void);

#endif
