/* Rows of a result as JSON; the column names are the keys. Shared by the verbs for people. */
#ifndef WEIR_STORE_POSTGRES_LINK_RESULT_JSON_H
#define WEIR_STORE_POSTGRES_LINK_RESULT_JSON_H

#include <jansson.h>

#include "store/postgres/link/link.h"

/* One value: integers, booleans, numbers and json by their type, anything else as text. Bytes are text when they are UTF-8.
 * NULL when memory ran out. */
json_t *result_json(const PGresult *result, int row, int column);
/* All rows, as an array of objects. Takes the result over: it is cleared in any case. */
WEIR_MUST_CHECK enum weir_status result_rows_json(PGresult *result, json_t **ret_rows, struct weir_error *error);

#endif
