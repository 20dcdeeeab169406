/* The lanes of a store, summed for its status: over all, per workspace, per kind of lane.
 *
 * SQL would pass the lanes anew for each of these sums, and sort them. A scrape of metrics pays for that each time. So the
 * lanes and the workspaces are read once, and summed in C.
 */
#ifndef WEIR_STORE_SQLITE_STATUS_SUMS_H
#define WEIR_STORE_SQLITE_STATUS_SUMS_H

#include "base/arena.h"
#include "store/sqlite/sqlite_store.h"

/* The counters of a workspace over its lanes. */
struct workspace_sum {
    int64_t id;
    const char *name;
    const char *plan;
    int64_t slots_max;
    bool is_paused;
    bool is_chosen;
    struct lane_delta lanes; /* no lane_id */
    int64_t oldest_us;       /* of a chosen one: since when its next item could run; INT64_MAX = it has none */
};

struct status_sums {
    struct connection *connection; /* with an open snapshot; its sums are kept (lane_counters_keep) */
    struct arena arena;
    const struct lane_sums *lanes;    /* ascending by id, so that those of a group and those of a kind are neighbours */
    struct workspace_sum *workspaces; /* ascending by id */
    size_t workspace_count;
    struct lane_delta total; /* of all lanes, also of those without a workspace */
};

/* The caller calls status_sums_close() also after a failure. */
WEIR_MUST_CHECK enum weir_status status_sums_open(struct status_sums *sums, struct connection *connection,
                                                  struct weir_error *error);
void status_sums_close(struct status_sums *sums);

/* The lanes with runnable items by their kind, for the query status_reasons, as a JSON array. Its elements are [group, on
 * Temporal, set of handlers, workspace is paused, workspace is full, runnable items]. It lives as long as the sums. */
WEIR_MUST_CHECK enum weir_status status_sums_kinds(struct status_sums *sums, const char **ret_json,
                                                   struct weir_error *error);
/* At most `most` workspaces: those with the most waiting items per slot first, those without one last, by name. */
WEIR_MUST_CHECK enum weir_status status_sums_workspaces(struct status_sums *sums, size_t most, int64_t now_us,
                                                        json_t **ret_rows, struct weir_error *error);
/* Of the lanes with the most runnable items (GROUP_LANES_LOOKED_AT), since when the next one of an item could run;
 * INT64_MAX: there is none. `group_id` 0: of all groups. *ret_sum: the counters of the lanes of
 * the group; may be NULL. */
WEIR_MUST_CHECK enum weir_status status_sums_oldest(struct status_sums *sums, int64_t group_id, int64_t *ret_oldest_us,
                                                    struct lane_delta *ret_sum, struct weir_error *error);

#endif
