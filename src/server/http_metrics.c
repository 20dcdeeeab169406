/* Counts of requests in a table.
 *
 *     row      a route, in the order of the table of routes; the last one is for requests without a route
 *     column   a status that the server gives; the first one is for requests without an answer
 *
 * Only counters that are not zero become series, so their number is bounded by the answers that the routes really give.
 * Each counter is an atomic integer: the thread of a listener counts, and an answering thread renders. A rendered text may
 * therefore lack the request that ends at the same moment, and never counts one twice. The texts of the labels are those of
 * the table of routes, so no text of a client becomes a label.
 */
#include "server/http_metrics.h"

#include <stdio.h>

#include "base/error.h"
#include "observe/metrics_text.h"

/* In the order of the columns; a status beside these is counted as the last one of its hundred. */
static const int statuses[] = {0,   200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 409,
                               410, 412, 413, 415, 421, 422, 429, 431, 500, 501, 503, 504};
enum { STATUS_COUNT = sizeof statuses / sizeof statuses[0] };
_Static_assert((int)STATUS_COUNT <= (int)HTTP_METRICS_STATUSES_MAX, "a column for each status");

/* The last column that is not above the status. */
static size_t column_of(int status)
{
    size_t column = 0;
    for (size_t i = 0; i < STATUS_COUNT && statuses[i] <= status; i++) {
        column = i;
    }
    return column;
}

void http_metrics_note(struct http_metrics *metrics, const struct http_route *route, int status)
{
    INVARIANT(metrics != NULL);
    size_t count = 0;
    const struct http_route *table = route_table(&count);
    INVARIANT(count <= HTTP_METRICS_ROUTES_MAX);
    size_t row = route == NULL ? count : (size_t)(route - table);
    INVARIANT(row <= count);
    atomic_fetch_add(&metrics->requests[row][column_of(status)], 1);
}

/* In the order of the table, so that two scrapes can be compared line by line. */
static void render_requests(struct metrics_text *to, struct http_metrics *metrics)
{
    size_t count = 0;
    const struct http_route *table = route_table(&count);
    const char *name = "weir_http_requests_total";
    metrics_text_head(to, name, "counter", "Requests that have ended, by the operation of their route and their status.");
    for (size_t row = 0; row <= count; row++) {
        for (size_t column = 0; column < STATUS_COUNT; column++) {
            uint64_t requests = atomic_load(&metrics->requests[row][column]);
            char status[16] = "none";
            if (column > 0) {
                (void)snprintf(status, sizeof status, "%d", statuses[column]);
            }
            const struct metrics_label labels[] = {{"operation", row == count ? "none" : table[row].operation},
                                                   {"status", status}};
            if (requests > 0) {
                metrics_text_labelled(to, name, labels, 2, (double)requests);
            }
        }
    }
}

static void render_one(struct metrics_text *to, const char *name, const char *type, const char *help, uint64_t value)
{
    metrics_text_head(to, name, type, help);
    metrics_text_sample(to, name, NULL, NULL, (double)value);
}

enum weir_status http_metrics_render(struct http_metrics *metrics, struct text *to)
{
    INVARIANT(metrics != NULL && to != NULL);
    struct metrics_text text = {.to = to};
    render_requests(&text, metrics);
    render_one(&text, "weir_http_requests_refused_total", "counter",
               "Requests that were answered 503 because too many waited for a thread.", atomic_load(&metrics->refused));
    render_one(&text, "weir_http_requests_waiting", "gauge", "Requests that wait for a thread.",
               atomic_load(&metrics->waiting));
    render_one(&text, "weir_http_connections", "gauge", "Open connections.", atomic_load(&metrics->connections));
    render_one(&text, "weir_http_streams", "gauge", "Open streams of changes.", atomic_load(&metrics->streams));
    render_one(&text, "weir_http_connections_cut_total", "counter",
               "Connections that were cut because their client was too slow or idle.", atomic_load(&metrics->cut));
    return text.status;
}
