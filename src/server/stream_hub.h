/* The readers of GET /v1/stream: one thread reads the changes for all of them.
 *
 * A stream is a connection whose answer has no end. It sleeps without a thread; when there is an event for it, the hub
 * wakes it, and the thread of its listener writes. Each stream has a position in the ring of the last events
 * (stream_events.h). A stream that comes back with an older position is read for from the store, a page at a time, until it
 * reaches the ring. A client that reads so slowly that the ring passes it gets a `reset`; one that does not read at all is
 * cut. Neither delays another one.
 *
 * Once a second the hub ends the streams of tokens that have ended and of clients that have gone. To those that had nothing
 * to read for STREAM_KEEP_ALIVE_US it sends a sign of life.
 *
 *     stream_hub_open() -> stream_hub_add() ... -> stream_hub_end() -> stream_hub_close()
 *
 * Threads: stream_hub_add() from any; stream_write() and stream_close() by the thread of a listener, or before that by the
 * one that added it; the others from one.
 */
#ifndef WEIR_SERVER_STREAM_HUB_H
#define WEIR_SERVER_STREAM_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/clock.h"
#include "server/request.h"
#include "server/stream_events.h"
#include "store/store.h"

enum { HTTP_STREAMS_MAX = 4096 };
/* Less than proxies wait for a silent server: 30 to 60 s. */
#define STREAM_KEEP_ALIVE_US (15 * MICROSECONDS_PER_SECOND)

struct access;
struct stream;
struct stream_hub;

/* The connection of a stream, and the functions of the listener that suspend and wake it. */
struct stream_connection {
    void *connection;
    _Atomic int64_t *due_us; /* the time at which it is cut */
    bool is_retired;         /* it is to end with this answer: so the stream ends at once, and its client connects again */
    void (*suspend)(void *connection);
    void (*resume)(void *connection);
};

/* Opens a handle of its own and starts the thread, which makes no call of the store before a stream is there. `access` and
 * `ret_open`, the number of open streams, outlive it. The errors of opening a store, WEIR_SYSTEM, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status stream_hub_open(struct access *access, const struct store *store,
                                                 _Atomic uint64_t *ret_open, struct stream_hub **ret_hub,
                                                 struct weir_error *error);
/* Ends all streams and the thread; none is added any more. Takes NULL. */
void stream_hub_end(struct stream_hub *hub);
/* After all streams are closed. Takes NULL. */
void stream_hub_close(struct stream_hub *hub);
/* Ends the streams that are open. Their clients connect again, and go on where they were. Takes NULL. */
void stream_hub_cut(struct stream_hub *hub);

enum stream_answer {
    STREAM_ADDED,
    STREAM_FULL,       /* no place for any client */
    STREAM_TOKEN_FULL, /* the token has a half of the places */
    STREAM_ENDED,      /* the hub ends */
    STREAM_NO_MEMORY
};
/* Adds a stream for an admitted request, with the position of its Last-Event-ID. The texts of the filter are copied. */
enum stream_answer stream_hub_add(struct stream_hub *hub, const struct http_request *request,
                                  const struct stream_filter *filter, struct stream **ret_stream);

/* The stream belongs to this connection from now on. Before stream_write(). */
void stream_begin(struct stream *stream, const struct stream_connection *connection);
/* Writes what is there for the client, at most `most` bytes. 0: nothing; the connection was suspended. -1: the stream has
 * ended. */
ssize_t stream_write(struct stream *stream, char *to, size_t most);
/* Takes NULL. */
void stream_close(struct stream *stream);

#endif
