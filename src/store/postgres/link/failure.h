/* The meaning of messages of the server and of libpq. */
#ifndef WEIR_STORE_POSTGRES_LINK_FAILURE_H
#define WEIR_STORE_POSTGRES_LINK_FAILURE_H

#include <libpq-fe.h>

#include "store/postgres/link/link.h"

/* The status of a statement that the server refused, its message and a hint; notes link->sqlstate. */
enum weir_status failure_of_result(struct link *link, const PGresult *result, const char *doing, struct weir_error *error);
/* The same of a connection that is no link's; `shown` names it in messages. */
enum weir_status failure_of_answer(const PGresult *result, const char *shown, const char *doing, struct weir_error *error);
/* Why a connection could not be made; `connection` has libpq's message. */
enum weir_status failure_of_connect(struct link *link, const PGconn *connection, struct weir_error *error);
/* Whether PgBouncer refused the startup options: then it must get only the usual ones. */
bool failure_is_of_pooler(const PGconn *connection);

#endif
