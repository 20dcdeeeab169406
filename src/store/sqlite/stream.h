/* Adds entries to the stream (store/stream.h) in the transaction of the change.
 *
 * The first entry of a transaction looks up whether the stream is read; without a reader nothing else happens. Entries get
 * their positions when they are inserted, which is the order of the commits: SQLite has one writer. Threads: that of the
 * write transaction.
 */
#ifndef WEIR_STORE_SQLITE_STREAM_H
#define WEIR_STORE_SQLITE_STREAM_H

#include "store/sqlite/news.h"
#include "store/store.h"

/* `news`: of the transaction; it keeps whether the stream is read. */
WEIR_MUST_CHECK enum weir_status stream_add(struct news *news, struct connection *connection, enum stream_kind kind,
                                            const char *id, int64_t workspace_id, struct weir_error *error);
/* For an item of the queue by its id. */
WEIR_MUST_CHECK enum weir_status stream_add_of_id(struct news *news, struct connection *connection, enum stream_kind kind,
                                                  const char *id, struct weir_error *error);
/* For an item of the queue by its number. */
WEIR_MUST_CHECK enum weir_status stream_add_item(struct news *news, struct connection *connection, enum stream_kind kind,
                                                 int64_t number, struct weir_error *error);

#endif
