/* Metrics as Prometheus text (exposition format 0.0.4); docs/metrics.md lists them with their aliases.
 *
 * Two sources, with no name in common:
 *   - the registry counts the events of this process: the acts of a node since its start (metrics_event, metrics_render);
 *   - the store's kept counters show the state of the queue, the same for each caller (metrics_render_store): one scrape of
 * any process is enough for these.
 *
 * The number of series is bounded: METRICS_WORKSPACES_MAX workspaces, or METRICS_WORKSPACES_ALL_MAX by the setting
 * metrics.workspaces, and METRICS_LABELS_MAX values of any other label. Further ones are added up under `_other`.
 *
 * Owner: metrics_open() .. metrics_close(). Threads: metrics_event() and metrics_render() from any thread.
 */
#ifndef WEIR_OBSERVE_METRICS_H
#define WEIR_OBSERVE_METRICS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/text.h"
#include "observe/event.h"
#include "weir/status.h"

enum {
    METRICS_WORKSPACES_MAX = 100,       /* those under most pressure */
    METRICS_WORKSPACES_ALL_MAX = 20000, /* with METRICS_WORKSPACES_ALL */
    METRICS_LABELS_MAX = 64,
    METRICS_TEXT_BYTES_MAX = 16 * 1024 * 1024 /* enough for every series; give it to struct text as max */
};

struct metrics;

WEIR_MUST_CHECK enum weir_status metrics_open(struct metrics **ret_metrics, struct weir_error *error);
/* Takes NULL. */
void metrics_close(struct metrics *metrics);
/* The subscriber: event_subscribe(bus, metrics_event, metrics). */
void metrics_event(void *context, const struct event *event);
/* Appends the registry. WEIR_OUT_OF_MEMORY, or WEIR_FAILED when `to` is too small. */
WEIR_MUST_CHECK enum weir_status metrics_render(struct metrics *metrics, struct text *to);
/* Which workspaces have series of their own: the setting metrics.workspaces, "top", "all" or "off". */
enum metrics_workspaces { METRICS_WORKSPACES_TOP, METRICS_WORKSPACES_ALL, METRICS_WORKSPACES_OFF };
/* False when `name` is none of these. */
bool metrics_workspaces_parse(const char *name, enum metrics_workspaces *ret_workspaces);
/* How many workspaces to request of store_status(). */
size_t metrics_workspaces_most(enum metrics_workspaces workspaces);
/* Appends the answer of store_status(). Missing keys are left out. */
WEIR_MUST_CHECK enum weir_status metrics_render_store(const json_t *status, enum metrics_workspaces workspaces,
                                                      struct text *to);

#endif
