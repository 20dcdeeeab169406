/* What the rest of weir needs of the PostgreSQL driver: its table, and what goes beyond it. */
#ifndef WEIR_STORE_POSTGRES_POSTGRES_H
#define WEIR_STORE_POSTGRES_POSTGRES_H

#include "store/driver.h"

extern const struct store_driver postgres_store_driver;

/* Grants `role` (must exist) exactly what a node and the command line need at run time, without rights to change the
 * schema. Repeating it changes nothing. WEIR_INVALID_ARGUMENT for a store of another driver; WEIR_NOT_FOUND without such a
 * role. */
enum weir_status postgres_store_grant(struct store *store, const char *role, struct weir_error *error);

#endif
