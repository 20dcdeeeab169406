/* What the server's and libpq's words mean to weir. */
#ifndef WEIR_STORE_POSTGRES_FAILURE_H
#define WEIR_STORE_POSTGRES_FAILURE_H

#include <libpq-fe.h>

#include "store/postgres/link.h"

/* The status of a statement that the server refused, its words and what to do; notes link->sqlstate. */
enum weir_status failure_of_result(struct link *link, const PGresult *result, const char *doing, struct weir_error *error);
/* The same of a connection that is no link's; `shown` names it in messages. */
enum weir_status failure_of_answer(const PGresult *result, const char *shown, const char *doing, struct weir_error *error);
/* Why a connection could not be made; `connection` has libpq's words. */
enum weir_status failure_of_connect(struct link *link, const PGconn *connection, struct weir_error *error);
/* Whether PgBouncer refused the startup options: then it must be told nothing but the usual. */
bool failure_is_of_pooler(const PGconn *connection);

#endif
