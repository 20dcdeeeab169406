/* The examination of connections: a call that each one answers before it carries others (grpc_client_examine()).
 *
 * Part of grpc_client_step(), for pool.c, connection.c and grpc_client.c alone. */
#ifndef WEIR_GRPC_EXAMINATION_H
#define WEIR_GRPC_EXAMINATION_H

#include "grpc/pool.h"

/* Whether it has passed the last one that was ordered; true when none was. */
bool grpc_examination_is_passed(const struct connection *connection);
/* Begins the examination of an open connection that must be examined; takes NULL. Returns when to come again. */
int64_t grpc_examination_step(struct grpc_client *client, struct connection *connection);
/* The connection is freed: the answer finds none. */
void grpc_examination_detach(struct connection *connection);
/* Frees the copies. */
void grpc_examination_close(struct grpc_client *client);

#endif
