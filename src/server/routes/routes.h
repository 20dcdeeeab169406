/* The handlers of the routes, each a route_handler or route_set_handler (route.h) of one row of route_table.c. */
#ifndef WEIR_SERVER_ROUTES_ROUTES_H
#define WEIR_SERVER_ROUTES_ROUTES_H

#include "server/api.h"
#include "server/route.h"

/* clang-format off */
#define ROUTE_HANDLER_LIST(X)                                                                                              \
    X(readiness) X(metrics) X(openapi) X(docs) X(problems) X(problem_page)                                                 \
    X(list_executions) X(show_execution) X(enqueue_batch) X(list_steps) X(list_events) X(explain_execution)               \
    X(read_result) X(cancel_execution) X(retry_execution) X(release_execution) X(complete_execution)                      \
    X(signal_execution) X(begin_bulk) X(show_bulk) X(stop_bulk)                                                            \
    X(claim_tasks) X(heartbeat_tasks) X(complete_tasks) X(fail_tasks)
/* clang-format on */

#define ROUTE_HANDLER_DECLARE(name)                                                                                        \
    void answer_##name(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer);
ROUTE_HANDLER_LIST(ROUTE_HANDLER_DECLARE)
#undef ROUTE_HANDLER_DECLARE

/* The set of POST /v1/workspaces/{workspace}/executions. */
void answer_enqueues(struct api *api, struct store *store, struct http_request *const *requests,
                     struct http_answer *const *answers, size_t count);

#endif
