/* Requests that wait for the end of an execution, without a thread of their own.
 *
 * The handler of such a request names the execution and a time (http_answer.awaits); the exchange is held. One thread
 * asks the store for all of them at once, ten times a second. When the execution of a request has ended, or its time
 * has come, it goes back into the queue of the server, and its handler runs again.
 *
 *     held_requests_open() -> held_requests_add() ... -> held_requests_end() -> held_requests_close()
 *
 * Threads: held_requests_add() from any; the others from one.
 */
#ifndef WEIR_SERVER_HELD_REQUESTS_H
#define WEIR_SERVER_HELD_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "store/store.h"

enum { HTTP_HELD_MAX = 8192 };
/* Between two queries: how late an end is noticed. */
#define HELD_POLL_US (100 * MICROSECONDS_PER_MS)

struct exchange;
struct held_requests;

/* Takes an exchange back, in the thread of held requests. */
typedef void held_request_return(void *context, struct exchange *exchange);

enum hold_answer {
    HOLD_ADDED,
    HOLD_FULL,       /* no place for any request */
    HOLD_TOKEN_FULL, /* the token has a half of the places */
    HOLD_ENDED
};

/* Opens a handle of its own, and starts the thread. `places`: 2 to HTTP_HELD_MAX are used. The errors of opening a
 * store, WEIR_SYSTEM, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status held_requests_open(const struct store *store, size_t places,
                                                    held_request_return *give_back, void *context,
                                                    struct held_requests **ret_held, struct weir_error *error);
/* Holds an exchange whose answer names the execution that it awaits. When it is added it belongs to the struct. A token
 * has at most a half of the places, so that some are left for the other tokens; requests without a token may have all. */
enum hold_answer held_requests_add(struct held_requests *held, struct exchange *exchange);
/* Gives all exchanges back and ends the thread; none is accepted any more. Takes NULL. */
void held_requests_end(struct held_requests *held);
/* After held_requests_end(). Takes NULL. */
void held_requests_close(struct held_requests *held);

#endif
