/* The HTTP/2 side of a connection: the session of nghttp2, its callbacks, and the meaning of each frame for a call. For
 * connection.c alone.
 */
#ifndef WEIR_GRPC_SESSION_H
#define WEIR_GRPC_SESSION_H

#include "grpc/connection.h"

/* Makes the session, with the SETTINGS that open the connection queued. False: out of memory. */
WEIR_MUST_CHECK bool grpc_session_open(struct connection *connection);
/* Submits the call's request. The stream's id, or a negative error of nghttp2. */
int32_t grpc_session_submit(struct connection *connection, const struct call *call);
/* Takes the call off the connection. Later frames of its stream find no call. */
void grpc_session_detach(struct connection *connection, struct call *call);
/* Refills the budget of control frames for the time that has passed. */
void grpc_session_refill_frames(struct connection *connection);

#endif
