/* The requests of a server, counted for /metrics: by the operation of their route and the status of their answer.
 *
 * A request without a route has the operation "none"; a connection that ended before its answer has the status "none".
 * Owner: struct api, zero at first. Any thread.
 */
#ifndef WEIR_SERVER_HTTP_METRICS_H
#define WEIR_SERVER_HTTP_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/text.h"
#include "server/route.h"

enum { HTTP_METRICS_ROUTES_MAX = 128, HTTP_METRICS_STATUSES_MAX = 24 };

struct http_metrics {
    _Atomic uint64_t requests[HTTP_METRICS_ROUTES_MAX + 1][HTTP_METRICS_STATUSES_MAX];
    _Atomic uint64_t refused; /* because too many waited */
    _Atomic uint64_t cut;     /* connections whose deadline was over */
    _Atomic uint64_t waiting; /* requests for a thread */
    _Atomic uint64_t connections;
    _Atomic uint64_t streams; /* that are open */
};

/* `route` NULL: it has none. `status` 0: no answer was made. */
void http_metrics_note(struct http_metrics *metrics, const struct http_route *route, int status);
WEIR_MUST_CHECK enum weir_status http_metrics_render(struct http_metrics *metrics, struct text *to);

#endif
