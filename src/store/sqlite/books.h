/* The books: counters per lane, folded from the news once the scheduler has read them (table books).
 *
 * Folding moves sums from one table to the other in one transaction, so books + news never change by it. Only rows that the
 * scheduler has read are folded; what it has not read stays.
 */
#ifndef WEIR_STORE_SQLITE_BOOKS_H
#define WEIR_STORE_SQLITE_BOOKS_H

#include "store/sqlite/sqlite_store.h"

/* Folds at most `limit` rows up to `position`; *ret_more: some are left. In the caller's write transaction. */
enum weir_status books_fold(struct connection *connection, int64_t position, size_t limit, bool *ret_more,
                            struct weir_error *error);

#endif
