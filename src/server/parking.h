/* Requests that wait for the end of an execution, without a thread of their own.
 *
 * The handler of such a request names the execution and a time (http_answer.awaits); the exchange is parked. One thread
 * asks the store for all of them at once, ten times a second. A request whose execution has ended, or whose time has
 * come, goes back into the queue of the server, and its handler runs again.
 *
 *     parking_open() -> parking_add() ... -> parking_end() -> parking_close()
 *
 * Threads: parking_add() from any; the others from one.
 */
#ifndef WEIR_SERVER_PARKING_H
#define WEIR_SERVER_PARKING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "store/store.h"

enum { HTTP_PARKED_MAX = 8192 };
/* Between two queries: how late an end is noticed. */
#define PARKING_POLL_US (100 * MICROSECONDS_PER_MS)

struct exchange;
struct parking;

/* Takes an exchange back, in the thread of the parking. */
typedef void parking_return(void *context, struct exchange *exchange);

enum parking_answer {
    PARKING_ADDED,
    PARKING_FULL,       /* no place for anybody */
    PARKING_TOKEN_FULL, /* the token has a half of the places */
    PARKING_ENDED
};

/* Opens a handle of its own, and starts the thread. `places`: 2 to HTTP_PARKED_MAX are used. The errors of opening a
 * store, WEIR_SYSTEM, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status parking_open(const struct store *store, size_t places, parking_return *give_back,
                                              void *context, struct parking **ret_parking, struct weir_error *error);
/* Parks an exchange whose answer names what it awaits. When it is added it belongs to the parking from then on. A token
 * has at most a half of the places, so that there are some for others; requests without a token may have all. */
enum parking_answer parking_add(struct parking *parking, struct exchange *exchange);
/* Gives all exchanges back and ends the thread; none is accepted any more. Takes NULL. */
void parking_end(struct parking *parking);
/* After parking_end(). Takes NULL. */
void parking_close(struct parking *parking);

#endif
