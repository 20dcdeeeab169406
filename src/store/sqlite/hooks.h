/* Adds events of hooks (store/hooks.h) in the transaction of the ends. Threads: that of the write transaction. */
#ifndef WEIR_STORE_SQLITE_HOOKS_H
#define WEIR_STORE_SQLITE_HOOKS_H

#include "store/sqlite/sqlite_store.h"

/* For the rows of connection->parameter_rows, which are in the history and still in the queue. */
WEIR_MUST_CHECK enum weir_status hooks_add_events(struct write *write, struct weir_error *error);

#endif
