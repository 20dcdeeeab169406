/* The history: the points of charts, for the whole queue or for one workspace, and the timeline of a workspace's slots.
 *
 * A point is a row of the store. Percentiles are computed from its buckets. A workspace that a point does not list was idle
 * then. Rows with damaged facts are left out. Memory: at most RESPONSE_ARENA_BYTES for each request. */
#include <stdio.h>

#include "base/error.h"
#include "server/routes/routes.h"
#include "store/filter.h"

enum { RESPONSE_ARENA_BYTES = 128 * 1024 * 1024, SLOT_TIMELINE_LIMIT = 200 };

/* The median and the 95th percentile of each phase, null without a start. */
static int add_percentiles(json_t *object, const struct history_point *point)
{
    static const char *const prefixes[HISTORY_PHASES] = {
        [HISTORY_WAIT] = "wait",
        [HISTORY_CAPACITY] = "capacity_wait",
        [HISTORY_PAUSE] = "pause_wait",
        [HISTORY_DISPATCH] = "dispatch_wait",
    };
    static const int percents[] = {50, 95};
    int failed = 0;
    for (size_t i = 0; i < 2 * (size_t)HISTORY_PHASES && failed == 0; i++) {
        char name[32];
        int64_t wait_us = history_percentile(point->waits[i / 2], percents[i % 2] * 10);
        (void)snprintf(name, sizeof name, "%s_p%d_us", prefixes[i / 2], percents[i % 2]);
        failed = json_object_set_new(object, name, wait_us < 0 ? json_null() : json_integer(wait_us));
    }
    return failed;
}

static json_t *point_json(const struct history_point *point)
{
    char at[TIME_TEXT_MAX];
    time_format(point->at_us, at);
    json_t *object = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "at", at, "span_us", (json_int_t)point->span_us,
                               "starts", (json_int_t)point->starts, "completed", (json_int_t)point->completed, "failed",
                               (json_int_t)point->failed, "cancelled", (json_int_t)point->cancelled, "slots_used",
                               (json_int_t)point->slots_used, "pending", (json_int_t)point->pending);
    if (object != NULL && add_percentiles(object, point) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *workspace_point_json(const struct history_point *point, int64_t workspace_id)
{
    char at[TIME_TEXT_MAX];
    const struct history_workspace *workspace = NULL;
    for (size_t i = 0; i < point->workspace_count && workspace == NULL; i++) {
        workspace = point->workspaces[i].id == workspace_id ? &point->workspaces[i] : NULL;
    }
    time_format(point->at_us, at);
    if (workspace == NULL) {
        return json_pack("{s:s, s:I, s:i, s:n, s:i}", "at", at, "span_us", (json_int_t)point->span_us, "slots_used", 0,
                         "slots_max", "pending", 0);
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:I}", "at", at, "span_us", (json_int_t)point->span_us, "slots_used",
                     (json_int_t)workspace->slots_used, "slots_max", (json_int_t)workspace->slots_max, "pending",
                     (json_int_t)workspace->pending);
}

/* One row at a time, so that its workspaces are needed no longer than it. NULL: no memory. */
static json_t *points_json(const struct history_rows *rows)
{
    json_t *items = json_array();
    struct arena scratch;
    arena_init(&scratch, HISTORY_FACTS_MAX * 8);
    for (size_t i = 0; i < rows->count && items != NULL; i++) {
        struct history_point point = {.at_us = rows->rows[i].at_us, .span_us = rows->rows[i].span_us};
        arena_reset(&scratch);
        if (!history_decode(rows->rows[i].facts, rows->rows[i].length, &scratch, &point)) {
            continue;
        }
        json_t *object = rows->workspace_id == 0 ? point_json(&point) : workspace_point_json(&point, rows->workspace_id);
        if (json_array_append_new(items, object) != 0) {
            json_decref(items);
            items = NULL;
        }
    }
    arena_close(&scratch);
    return items;
}

/* `since` is a time or a duration back from now; without it the whole history. */
static void respond_history(struct http_request *request, struct store *store, struct http_answer *answer,
                            const char *workspace)
{
    struct weir_error error = {.status = WEIR_OK};
    struct history_query query = {.workspace = workspace, .until_us = INT64_MAX, .most = HISTORY_ROWS_MOST};
    struct history_rows rows = {.count = 0};
    struct arena arena;
    const char *since = request_argument(request, "since");
    int64_t now_us = 0;
    json_t *items = NULL;
    enum weir_status status = store_time(store, &now_us, &error);
    if (status == WEIR_OK && since != NULL) {
        status = filter_parse_time("since", since, now_us, &query.since_us, &error);
    }
    if (status != WEIR_OK) {
        respond_error(request, answer, &error, "since");
        return;
    }
    arena_init(&arena, RESPONSE_ARENA_BYTES);
    status = store_read_history(store, &query, &arena, &rows, &error);
    if (status == WEIR_OK) {
        items = points_json(&rows);
        status = items == NULL ? error_out_of_memory(&error) : WEIR_OK;
    }
    arena_close(&arena);
    respond_outcome(request, answer, status, &error, json_pack("{s:o*}", "items", items));
}

void answer_show_history(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_history(request, store, answer, NULL);
}

void answer_show_workspace_history(struct api *api, struct store *store, struct http_request *request,
                                   struct http_answer *answer)
{
    (void)api;
    respond_history(request, store, answer, request_value(request, "workspace"));
}

/* `since` as above; without it the last hour. */
void answer_show_slot_timeline(struct api *api, struct store *store, struct http_request *request,
                               struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    const char *since = request_argument(request, "since");
    struct list_options options = {.kind = LIST_SLOT_TIMELINE, .name = request_value(request, "workspace")};
    const char *at_fault = "since";
    int64_t limit = SLOT_TIMELINE_LIMIT;
    int64_t now_us = 0;
    json_t *page = NULL;
    json_t *usage = NULL;
    enum weir_status status = store_time(store, &now_us, &error);
    if (status == WEIR_OK) {
        status = filter_parse_time("since", since == NULL ? "1h" : since, now_us, &options.filter.created_since_us, &error);
    }
    if (status == WEIR_OK) {
        at_fault = "limit";
        status = request_number(request, "limit", 1, LIST_LIMIT_MOST, SLOT_TIMELINE_LIMIT, &limit, &error);
    }
    if (status == WEIR_OK) {
        at_fault = NULL;
        options.limit = (size_t)limit;
        status = store_usage(store, options.name, &usage, &error);
    }
    if (status == WEIR_OK) {
        status = store_list(store, &options, &page, &error);
    }
    json_decref(usage);
    if (status == WEIR_OK) {
        respond_json(answer, 200, page);
    } else {
        respond_error(request, answer, &error, at_fault);
    }
}
