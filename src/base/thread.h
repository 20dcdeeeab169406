/* Starts threads of the library. */
#ifndef WEIR_BASE_THREAD_H
#define WEIR_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread that takes no signal: signals are for the program's own threads. 0, or the error number of the system.
 * Any thread. */
int thread_start(pthread_t *ret_thread, void *(*run)(void *), void *context);

#endif
