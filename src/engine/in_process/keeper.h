/* The keeper: the process that starts, watches and kills the processes of `exec` steps.
 *
 *      node (threads, store) <--- SOCK_SEQPACKET ---> keeper (one thread) ---> step leaders, evaluators
 *             ^------------- stdout, stderr pipes -----------------------------------'
 *
 * Why a process of its own: a step must be dead when its node's lease is over, even if the node was killed or stopped
 * (SIGSTOP). So the keeper has the end of the lease (boot clock) from each renewal. It kills all steps when the lease runs
 * out or when its socket to the node closes. It leads a session of its own, so that a signal to the node's terminal or
 * process group does not reach it. It ignores SIGINT, SIGTERM, SIGHUP: the node decides.
 *
 * It is a child subreaper: a process that a step forks, also with setsid, becomes the keeper's child when its parent ends.
 * After the end of a step's leader the keeper kills everything that belongs to the step. That is its process group, its
 * session, and the processes with its brand or its mark (keeper_mark.h). It reports the end when nothing is left. An
 * orphan with neither may belong to any step that began before it; the keeper kills it when all of these have ended.
 *
 * A threaded node may fork a new keeper after the old one was killed. So the keeper uses no memory but static tables, no
 * stdio, no locks. If it dies, its children die too (PR_SET_PDEATHSIG). If it is stopped at the end of the lease, the
 * watcher kills it (keeper_watcher.h).
 */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_H

#include <stdint.h>

/* The life of the keeper: never returns. Call it in the child of fork(). `socket` is its end of the SOCK_SEQPACKET pair.
 * `mark` is in the environment of each process that it starts. It is random: a keeper in another container may have the
 * same process id, and its processes may be visible from here. Closes every other file descriptor. Exits when the socket is
 * closed and all its processes are dead and reaped. */
_Noreturn void keeper_main(int socket, uint64_t mark);

#endif
