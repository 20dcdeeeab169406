/* fork() for a process with one thread that has closed the descriptors of its parent: without the handlers of
 * pthread_atfork().
 *
 * A handler of the host's libraries believes that their descriptors still have their numbers. That of libuv (Node) closes
 * two of them in each child, and by then they may be those of somebody else. The locks that other handlers would free are
 * free, because there is no other thread.
 */
#ifndef WEIR_BASE_BARE_FORK_H
#define WEIR_BASE_BARE_FORK_H

#include <sys/types.h>

/* As fork(). Async-signal-safe. */
pid_t bare_fork(void);

#endif
