/* All that the handlers of the routes can reach beside the store, and the admission of a request. */
#ifndef WEIR_SERVER_API_H
#define WEIR_SERVER_API_H

#include "server/http_metrics.h"
#include "server/probes.h"
#include "server/route.h"
#include "server/task_service.h"

enum { TASK_SERVICES_MAX = 32 };

/* Owner: the process; it outlives the server. Each member has rules of its own for threads. */
struct api {
    struct probes probes;
    struct task_service task_services[TASK_SERVICES_MAX]; /* one for each node */
    size_t task_service_count;
    struct http_metrics requests;
};

/* Whether the request may reach its handler; else the answer is filled. Makes the actor of the following calls of `store`
 * the one who asks, with the reason of the request. Any thread of the server. */
bool api_admit(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer);

#endif
