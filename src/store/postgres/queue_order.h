/* The list in the order of the queue (store/queue_order.h) on PostgreSQL. It only reads, in the caller's transaction and
 * thread. */
#ifndef WEIR_STORE_POSTGRES_QUEUE_ORDER_H
#define WEIR_STORE_POSTGRES_QUEUE_ORDER_H

#include "store/postgres/link/link.h"
#include "store/reading.h"

/* One page. `counted`: as for queue_order_list(). */
WEIR_MUST_CHECK enum weir_status postgres_list_queue(struct link *link, const struct execution_rows *counted,
                                                     const struct list_options *options, json_t **ret_page,
                                                     struct weir_error *error);

#endif
