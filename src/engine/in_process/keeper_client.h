/* The node's end of the socket to its keeper: forks it, sends requests, receives reports, notices its death.
 *
 * Threads: the loop's only. Owner: the keeper's monitor. If the socket is full, a request is queued: a stopped keeper must
 * not stop the node.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_CLIENT_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "engine/in_process/keeper_protocol.h"
#include "weir/status.h"

/* Close waits so long for the keeper to kill everything. Then it kills the keeper, and the kernel kills its children. */
#define KEEPER_CLOSE_WAIT_US (5 * MICROSECONDS_PER_SECOND)

/* Open waits so long for the keeper to be ready. A keeper has no other work at its start. */
#define KEEPER_OPEN_WAIT_US (5 * MICROSECONDS_PER_SECOND)

struct keeper_queued; /* a request that waits for space in the socket, with its file descriptors */

struct keeper_client {
    int socket; /* -1: there is no keeper */
    pid_t pid;
    uint64_t mark;   /* of the last keeper; see keeper_main() */
    int wait_status; /* of the last keeper, after close */
    struct keeper_queued *first;
    struct keeper_queued *last;
};

/* Forks a keeper and waits until it is ready. WEIR_SYSTEM. */
WEIR_MUST_CHECK enum weir_status keeper_client_open(struct keeper_client *link, struct weir_error *error);
/* Closes the socket and waits: the keeper kills everything and exits. Takes a closed one. */
void keeper_client_close(struct keeper_client *link);
/* Sends or queues. The file descriptors belong to the link from here on, also after a failure. False when there is no
 * keeper. If memory for the queue is missing, it closes the socket and so ends the keeper: the lost request could be a
 * kill. */
bool keeper_client_send(struct keeper_client *link, const struct keeper_request *request, const int *fds);
/* Sends the queued requests until the socket is full. */
void keeper_client_flush(struct keeper_client *link);
bool keeper_client_has_queued(const struct keeper_client *link);
/* 1: *ret_report is filled; 0: nothing there; -1: the keeper is gone. */
int keeper_client_receive(struct keeper_client *link, struct keeper_report *ret_report);

#endif
