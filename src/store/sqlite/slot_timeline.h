/* The timeline of slots (store/slot_timeline.h) on SQLite. It only reads, in the caller's transaction and thread. */
#ifndef WEIR_STORE_SQLITE_SLOT_TIMELINE_H
#define WEIR_STORE_SQLITE_SLOT_TIMELINE_H

#include "store/sqlite/connection.h"
#include "store/store.h"

/* The page of slot_timeline_list(). */
WEIR_MUST_CHECK enum weir_status sqlite_list_slot_timeline(struct connection *connection,
                                                           const struct list_options *options, json_t **ret_page,
                                                           struct weir_error *error);

#endif
