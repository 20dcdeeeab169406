/* How the sums are made:
 *
 *   1. The rows of workspaces are read in the order of their ids.
 *   2. Each lane is added to the total and to its workspace.
 *   3. Only then it is known which workspaces are full, so the kinds of lanes are summed in another pass.
 *
 * The lanes come from books and news, so all of it is the state of one snapshot. The names of workspaces are copied: a row
 * of SQLite lives until the next one. It never writes, and runs in the thread of the connection.
 */
#include "store/sqlite/status_sums.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "queue/scheduler.h"
#include "store/reading.h"
#include "store/sqlite/lane_counters.h"
#include "store/sqlite/lane_sums.h"
#include "store/sqlite/row_json.h"

enum { WORKSPACES_FIRST = 256, KINDS_BYTES_MAX = 16 * 1024 * 1024 };
#define SUMS_BYTES_MAX ((size_t)1024 * 1024 * 1024)

/* --- workspaces and lanes --- */

static enum weir_status sums_read_workspaces(struct status_sums *sums, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(sums->connection, error, QUERY_STATUS_WORKSPACES, "");
    enum weir_status status = statement == NULL ? statement_failure(error) : WEIR_OK;
    while (status == WEIR_OK && connection_step(sums->connection, statement, &status, error)) {
        struct workspace_sum *grown =
            arena_grow(&sums->arena, sums->workspaces, sums->workspace_count, WORKSPACES_FIRST, sizeof *sums->workspaces);
        if (grown == NULL) {
            status = error_out_of_memory(error);
            break;
        }
        sums->workspaces = grown;
        struct workspace_sum *workspace = &grown[sums->workspace_count++];
        *workspace = (struct workspace_sum){.id = sqlite3_column_int64(statement, 0),
                                            .name = column_text(statement, 1),
                                            .plan = column_text(statement, 2),
                                            .slots_max = sqlite3_column_int64(statement, 3),
                                            .is_paused = sqlite3_column_int(statement, 4) != 0,
                                            .oldest_us = INT64_MAX};
        if (!arena_keep_text(&sums->arena, &workspace->name) || !arena_keep_text(&sums->arena, &workspace->plan)) {
            status = error_out_of_memory(error);
        }
    }
    if (statement != NULL) {
        (void)sqlite3_reset(statement);
    }
    return status;
}

static int compare_workspace_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = ((const struct workspace_sum *)b)->id;
    return x < y ? -1 : x > y;
}

/* NULL: the workspace was deleted. The lanes of a kind come in the order of the workspaces, so the next one is nearly
 * always the one behind the last. */
static struct workspace_sum *sums_find_workspace(const struct status_sums *sums, int64_t lane_id,
                                                 struct workspace_sum **last)
{
    int64_t id = lane_workspace_id(lane_id);
    struct workspace_sum *next = *last == NULL ? sums->workspaces : *last + 1;
    if (sums->workspace_count == 0) {
        return NULL;
    }
    if (next >= sums->workspaces + sums->workspace_count || next->id != id) {
        next = bsearch(&id, sums->workspaces, sums->workspace_count, sizeof *sums->workspaces, compare_workspace_ids);
    }
    *last = next == NULL ? *last : next;
    return next;
}

/* Memory and texts of the news are no failures of the database. */
static enum weir_status lanes_failure(const struct connection *connection, int code, struct weir_error *error)
{
    if (code == SQLITE_NOMEM) {
        return error_out_of_memory(error);
    }
    if (sqlite3_errcode(connection->database) != code) {
        error_set(error, WEIR_STORE_CORRUPT, "a row of the news is damaged");
        error_hint(error, "see what is wrong with: weir store check");
        return WEIR_STORE_CORRUPT;
    }
    return connection_failure(connection, "read the counters of the lanes", error);
}

enum weir_status status_sums_open(struct status_sums *sums, struct connection *connection, struct weir_error *error)
{
    INVARIANT(sums != NULL && connection != NULL);
    *sums = (struct status_sums){.connection = connection};
    arena_init(&sums->arena, SUMS_BYTES_MAX);
    int code = lane_counters_read(&connection->lane_counters, connection->database, &sums->lanes);
    enum weir_status status =
        code == SQLITE_OK ? sums_read_workspaces(sums, error) : lanes_failure(connection, code, error);
    struct workspace_sum *last = NULL;
    for (size_t i = 0; status == WEIR_OK && i < sums->lanes->count; i++) {
        const struct lane_delta *lane = &sums->lanes->items[i];
        struct workspace_sum *workspace = sums_find_workspace(sums, lane->lane_id, &last);
        lane_delta_add(&sums->total, lane);
        if (workspace != NULL) {
            lane_delta_add(&workspace->lanes, lane);
        }
    }
    return status;
}

void status_sums_close(struct status_sums *sums)
{
    arena_close(&sums->arena);
}

/* --- kinds of lanes --- */

/* `runnable`: by whether the workspace is paused, and whether it is full. */
static enum weir_status add_kind(struct text *json, int64_t kind, int64_t runnable[2][2])
{
    enum weir_status status = WEIR_OK;
    int64_t lane_id = kind << LANE_DEMAND_BIT;
    for (int paused = 0; paused < 2; paused++) {
        for (int full = 0; full < 2; full++) {
            if (status == WEIR_OK && runnable[paused][full] > 0) {
                status = text_format(json, "%s[%" PRId64 ",%d,%" PRId64 ",%d,%d,%" PRId64 "]", json->length > 1 ? "," : "",
                                     lane_group_id(lane_id), lane_is_on_temporal(lane_id), lane_handler_set(lane_id),
                                     paused, full, runnable[paused][full]);
            }
            runnable[paused][full] = 0;
        }
    }
    return status;
}

enum weir_status status_sums_kinds(struct status_sums *sums, const char **ret_json, struct weir_error *error)
{
    INVARIANT(sums != NULL && sums->lanes != NULL && ret_json != NULL);
    struct text json = {.max = KINDS_BYTES_MAX};
    int64_t runnable[2][2] = {{0}};
    struct workspace_sum *last = NULL;
    enum weir_status status = text_add_string(&json, "[");
    for (size_t i = 0; i < sums->lanes->count && status == WEIR_OK; i++) {
        const struct lane_delta *lane = &sums->lanes->items[i];
        int64_t kind = lane->lane_id >> LANE_DEMAND_BIT;
        const struct workspace_sum *workspace = sums_find_workspace(sums, lane->lane_id, &last);
        bool is_paused = workspace != NULL && workspace->is_paused;
        bool is_full = workspace != NULL && workspace->lanes.held >= workspace->slots_max;
        runnable[is_paused][is_full] += lane->runnable > 0 ? lane->runnable : 0;
        if (i + 1 == sums->lanes->count || sums->lanes->items[i + 1].lane_id >> LANE_DEMAND_BIT != kind) {
            status = add_kind(&json, kind, runnable);
        }
    }
    status = status == WEIR_OK ? text_add_string(&json, "]") : status;
    *ret_json = status == WEIR_OK ? arena_copy(&sums->arena, json.data, json.length) : NULL;
    text_close(&json);
    return *ret_json == NULL ? error_out_of_memory(error) : WEIR_OK;
}

/* --- ages --- */

/* Lowers *oldest_us to the time since when the first item of the lane could run. */
static enum weir_status read_age(struct status_sums *sums, const struct lane_delta *lane, int64_t *oldest_us,
                                 struct weir_error *error)
{
    int64_t since_us = 0;
    enum weir_status status =
        connection_read_integer(sums->connection, error, &since_us, QUERY_FIRST_OF_LANE, "i", lane->lane_id);
    if (status == WEIR_OK && since_us < *oldest_us) {
        *oldest_us = since_us;
    }
    return status == WEIR_NOT_FOUND ? WEIR_OK : status;
}

/* The lane takes its place among the largest ones, which are in order. Of equal ones the first stays. */
static void keep_large_lane(const struct lane_delta **lanes, size_t *count, const struct lane_delta *lane)
{
    if (*count == GROUP_LANES_LOOKED_AT && lanes[*count - 1]->runnable >= lane->runnable) {
        return;
    }
    size_t at = *count < GROUP_LANES_LOOKED_AT ? (*count)++ : *count - 1;
    while (at > 0 && lanes[at - 1]->runnable < lane->runnable) {
        lanes[at] = lanes[at - 1];
        at--;
    }
    lanes[at] = lane;
}

enum weir_status status_sums_oldest(struct status_sums *sums, int64_t group_id, int64_t *ret_oldest_us,
                                    struct lane_delta *ret_sum, struct weir_error *error)
{
    INVARIANT(sums != NULL && sums->lanes != NULL && ret_oldest_us != NULL);
    const struct lane_delta *lanes[GROUP_LANES_LOOKED_AT];
    size_t count = 0;
    struct lane_delta sum = {.runnable = 0};
    enum weir_status status = WEIR_OK;
    size_t first = group_id == 0 ? 0 : lane_sums_find_group(sums->lanes, group_id);
    size_t end = group_id == 0 ? sums->lanes->count : lane_sums_find_group(sums->lanes, group_id + 1);
    for (size_t i = first; i < end; i++) {
        const struct lane_delta *lane = &sums->lanes->items[i];
        lane_delta_add(&sum, lane);
        if (lane->runnable > 0) {
            keep_large_lane(lanes, &count, lane);
        }
    }
    *ret_oldest_us = INT64_MAX;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = read_age(sums, lanes[i], ret_oldest_us, error);
    }
    if (ret_sum != NULL) {
        *ret_sum = sum;
    }
    return status;
}

/* --- the workspaces under most pressure --- */

static double pressure_of(const struct workspace_sum *workspace)
{
    int64_t pending = workspace->lanes.runnable + workspace->lanes.waiting;
    return pending <= 0 ? 0 : (double)pending / (double)(workspace->slots_max > 0 ? workspace->slots_max : 1);
}

static int compare_pressure(const void *a, const void *b)
{
    const struct workspace_sum *x = *(struct workspace_sum *const *)a;
    const struct workspace_sum *y = *(struct workspace_sum *const *)b;
    double p = pressure_of(x);
    double q = pressure_of(y);
    return p > q ? -1 : p < q ? 1 : strcmp(x->name, y->name);
}

/* A heap whose first element is the last in order: it is the next to give way. */
static void sift_down(struct workspace_sum **heap, size_t count, size_t at)
{
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && compare_pressure(&heap[child], &heap[child + 1]) < 0;
        if (compare_pressure(&heap[at], &heap[child]) >= 0) {
            return;
        }
        struct workspace_sum *moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

/* Fills `chosen`, which has `count` places, from all workspaces. */
static void sums_choose_workspaces(struct status_sums *sums, struct workspace_sum **chosen, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        chosen[i] = &sums->workspaces[i];
    }
    for (size_t i = count / 2; i > 0 && count < sums->workspace_count; i--) {
        sift_down(chosen, count, i - 1);
    }
    for (size_t i = count; i < sums->workspace_count && count > 0; i++) {
        struct workspace_sum *workspace = &sums->workspaces[i];
        if (compare_pressure(&workspace, &chosen[0]) < 0) {
            chosen[0] = workspace;
            sift_down(chosen, count, 0);
        }
    }
    if (count > 0) {
        qsort(chosen, count, sizeof *chosen, compare_pressure);
    }
    for (size_t i = 0; i < count; i++) {
        chosen[i]->is_chosen = true;
    }
}

/* The ages of the chosen ones: only their lanes are looked at. */
static enum weir_status read_ages(struct status_sums *sums, struct weir_error *error)
{
    struct workspace_sum *last = NULL;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < sums->lanes->count && status == WEIR_OK; i++) {
        const struct lane_delta *lane = &sums->lanes->items[i];
        struct workspace_sum *workspace = sums_find_workspace(sums, lane->lane_id, &last);
        if (workspace != NULL && workspace->is_chosen && lane->runnable > 0) {
            status = read_age(sums, lane, &workspace->oldest_us, error);
        }
    }
    return status;
}

static json_t *sums_workspace_row(const struct workspace_sum *workspace, int64_t now_us)
{
    const struct lane_delta *lanes = &workspace->lanes;
    json_t *age = workspace->oldest_us == INT64_MAX ? json_null() : json_integer(now_us - workspace->oldest_us);
    return json_pack("{s:s, s:s, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "name", workspace->name, "plan",
                     workspace->plan, "slots_used", (json_int_t)lanes->held, "slots_max", (json_int_t)workspace->slots_max,
                     "paused", workspace->is_paused, "pending", (json_int_t)lanes->runnable + lanes->waiting, "completed",
                     (json_int_t)lanes->completed, "failed", (json_int_t)lanes->failed, "cancelled",
                     (json_int_t)lanes->cancelled, "delayed", (json_int_t)lanes->waiting, "waiting",
                     (json_int_t)lanes->parked, "oldest_pending_age_us", age);
}

enum weir_status status_sums_workspaces(struct status_sums *sums, size_t most, int64_t now_us, json_t **ret_rows,
                                        struct weir_error *error)
{
    INVARIANT(sums != NULL && sums->lanes != NULL && ret_rows != NULL);
    size_t count = most < sums->workspace_count ? most : sums->workspace_count;
    struct workspace_sum **chosen = arena_allocate(&sums->arena, (count + 1) * sizeof(struct workspace_sum *));
    json_t *rows = json_array();
    enum weir_status status = chosen == NULL || rows == NULL ? error_out_of_memory(error) : WEIR_OK;
    if (status == WEIR_OK) {
        sums_choose_workspaces(sums, chosen, count);
        status = read_ages(sums, error);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status =
            json_array_append_new(rows, sums_workspace_row(chosen[i], now_us)) == 0 ? WEIR_OK : error_out_of_memory(error);
    }
    if (status != WEIR_OK) {
        json_decref(rows);
        return status;
    }
    *ret_rows = rows;
    return WEIR_OK;
}
