/* The node's end of the socket to its keeper: forks it, sends requests, receives reports, notices its death.
 *
 * Threads: the loop's only. Owner: the engine. A request that the socket has no room for is queued, because a keeper that
 * was stopped must not stop the node.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_CLIENT_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "engine/in_process/keeper.h"
#include "weir/status.h"

/* How long close waits for the keeper to have killed everything, before it is killed itself (and its children with it). */
#define KEEPER_CLOSE_WAIT_US (5 * MICROSECONDS_PER_SECOND)

/* How long open waits for a keeper to be ready. It has nothing to do but to come up. */
#define KEEPER_OPEN_WAIT_US (5 * MICROSECONDS_PER_SECOND)

struct keeper_queued; /* a request that waits for room, with its file descriptors */

struct keeper_link {
    int socket; /* -1: there is no keeper */
    pid_t pid;
    uint64_t mark;   /* of the one that was opened last; see keeper_main() */
    int wait_status; /* of the one that was closed last */
    struct keeper_queued *first;
    struct keeper_queued *last;
};

/* Forks a keeper and waits until it is ready. WEIR_SYSTEM. */
WEIR_MUST_CHECK enum weir_status keeper_link_open(struct keeper_link *link, struct weir_error *error);
/* Closes the socket, upon which the keeper kills everything and exits, and waits for that. Takes a closed one. */
void keeper_link_close(struct keeper_link *link);
/* Sends, or queues. The file descriptors are the link's from here on, whatever happens. False when there is no
 * keeper; nor is there soon when there is no memory to queue with, since a request that is lost could be one to stop. */
bool keeper_link_send(struct keeper_link *link, const struct keeper_request *request, const int *fds);
/* Sends what was queued. */
void keeper_link_flush(struct keeper_link *link);
bool keeper_link_has_queued(const struct keeper_link *link);
/* 1: *ret_report is filled; 0: nothing there; -1: the keeper is gone. */
int keeper_link_receive(struct keeper_link *link, struct keeper_report *ret_report);

#endif
