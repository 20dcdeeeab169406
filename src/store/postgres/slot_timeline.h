/* The timeline of slots (store/slot_timeline.h) on PostgreSQL. It only reads, in the caller's transaction and thread. */
#ifndef WEIR_STORE_POSTGRES_SLOT_TIMELINE_H
#define WEIR_STORE_POSTGRES_SLOT_TIMELINE_H

#include "store/postgres/link/link.h"
#include "store/store.h"

/* The page of slot_timeline_list(); a body of snapshot_read(). `request`: the struct list_options. */
WEIR_MUST_CHECK enum weir_status postgres_list_slot_timeline(struct link *link, const void *request, json_t **ret_page,
                                                             struct weir_error *error);

#endif
