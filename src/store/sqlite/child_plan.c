/* The plan of a step that starts children: read once, checked, and made into rows of `children`.
 *
 *   1. The record of the wait has left the plan, in the place of the variables of the step, or with the action of a state.
 *   2. A plan beyond the limits, and one that cannot be read, makes no children. The row of the step keeps a code, with
 *      which the step fails later.
 *   3. Each child gets its id and its params here, and no execution yet. The plan is dropped.
 *
 * It never enqueues, and reads no other step. Runs in the caller's thread, in its transaction.
 */
#include "store/sqlite/child_plan.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "store/driver.h"

enum { PLAN_PART_BYTES = 4096 };

/* One call of child_plan_read(). */
struct plan_call {
    struct write *write;
    const char *parent;
    const char *step;
    int64_t *plan_left;
};

/* Params without a value are stored as none. */
static bool is_empty(const json_t *params)
{
    return json_is_object(params) && json_object_size(params) == 0;
}

/* `keys`: of the children, or NULL. */
static enum weir_status insert_children(const struct plan_call *call, const json_t *children, const json_t *keys,
                                        struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    struct store *store = &call->write->store->store;
    for (size_t i = 0; i < json_array_size(children) && status == WEIR_OK; i++) {
        char id[UUID_TEXT_MAX];
        struct text params = {.max = CHILDREN_PLAN_BYTES_MAX};
        if (store->uuids != NULL) {
            uuid_make_from(store->uuids, call->write->now_us, id);
        } else {
            uuid_make(call->write->now_us, id);
        }
        const json_t *child = json_array_get(children, i);
        status = is_empty(child) ? WEIR_OK : json_write(child, &params, error);
        if (status == WEIR_OK) {
            status =
                connection_run(call->write->connection, error, NULL, QUERY_INSERT_CHILD, "ttitbt", call->parent, call->step,
                               (int64_t)i, id, params.data, params.length, json_string_value(json_array_get(keys, i)));
        }
        text_close(&params);
    }
    return status;
}

static int64_t number_of(const json_t *plan, const char *key)
{
    return json_integer_value(json_object_get(plan, key));
}

static bool params_are_within_limits(const json_t *children)
{
    for (size_t i = 0; i < json_array_size(children); i++) {
        struct text params = {.max = PARAMS_BYTES_MAX};
        const json_t *child = json_array_get(children, i);
        bool is_fine = is_empty(child) || json_write(child, &params, NULL) == WEIR_OK;
        text_close(&params);
        if (!is_fine) {
            return false;
        }
    }
    return true;
}

/* The code of the failure of the keys of the children, or NULL. A plan may have none. */
static const char *problem_of_keys(const json_t *keys, size_t count)
{
    bool is_reserved = false;
    if (keys != NULL && json_array_size(keys) != count) {
        return "children_invalid";
    }
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *key = json_string_value(json_array_get(keys, i));
        if (key == NULL || key[0] == '\0' || strlen(key) > IDEMPOTENCY_KEY_MAX) {
            return "children_invalid";
        }
        is_reserved = is_reserved || enqueue_key_is_reserved(key);
    }
    return is_reserved ? "child_key_reserved" : NULL;
}

/* The code of the failure of a plan that makes no children, or NULL. */
static const char *problem_of_plan(const json_t *plan, int64_t depth, int64_t other_children, bool is_full)
{
    const json_t *children = json_object_get(plan, "children");
    bool is_readable = json_is_array(children) && json_is_integer(json_object_get(plan, "wanted")) &&
                       json_is_integer(json_object_get(plan, "max_parallel"));
    return !is_readable                                                                             ? "children_invalid"
           : depth > CHILD_DEPTH_MOST                                                               ? "children_too_deep"
           : is_full                                                                                ? "children_queue_full"
           : (int64_t)json_array_size(children) + other_children > (int64_t)CHILDREN_OF_PARENT_MOST ? "children_too_many"
           : !params_are_within_limits(children)
               ? "children_too_large"
               : problem_of_keys(json_object_get(plan, "keys"), json_array_size(children));
}

const char *child_plan_problem_text(const char *problem)
{
    INVARIANT(problem != NULL);
    return strcmp(problem, "children_too_deep") == 0
               ? "16 parents are above each other, and that is the limit; a workflow that starts itself needs an end"
           : strcmp(problem, "children_queue_full") == 0
               ? "the workspace has 10000 pending executions more than it may have, so a child starts no children"
           : strcmp(problem, "children_too_many") == 0 ? "the steps of one execution may start 100000 children in all"
           : strcmp(problem, "child_key_reserved") == 0
               ? "the key of a child begins with \"hook/\" or \"schedule/\": begin it with another word"
           : strcmp(problem, "children_too_large") == 0 ? "the params of a child are larger than 1 MiB"
                                                        : "the plan of the children cannot be read";
}

struct plan_row {
    json_t *plan; /* NULL: it cannot be read */
    int64_t depth;
    int64_t others; /* children of other steps of the parent */
    bool is_full;   /* the parent is a child, and its workspace is far beyond its limit of pending executions */
};

/* Children are not refused one by one (docs/design/pending.md). But children that start children would fill the store from
 * one execution that was accepted. */
static enum weir_status read_fullness(const struct plan_call *call, struct plan_row *row, struct weir_error *error)
{
    struct connection *connection = call->write->connection;
    enum weir_status status = WEIR_OK;
    int64_t workspace_id = 0;
    int64_t most = 0;
    int64_t pending = 0;
    if (row->depth < 2) {
        return WEIR_OK;
    }
    sqlite3_stmt *s = connection_bind(connection, error, QUERY_LIMIT_OF_CHILD_STEP, "tt", call->parent, call->step);
    if (s == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(connection, s, &status, error)) {
        return status; /* without a limit */
    }
    workspace_id = sqlite3_column_int64(s, 0);
    most = sqlite3_column_int64(s, 1) + CHILDREN_OF_STEP_MOST;
    (void)sqlite3_reset(s);
    status = connection_read_integer(connection, error, &pending, QUERY_COUNT_PENDING, "ii", workspace_id, most);
    row->is_full = pending >= most;
    return status;
}

/* WEIR_NOT_FOUND: it is not there. A plan that was altered is no failure of the store. */
static enum weir_status read_plan_row(const struct plan_call *call, struct plan_row *row, struct weir_error *error)
{
    struct connection *connection = call->write->connection;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *s = connection_bind(connection, error, QUERY_READ_CHILD_PLAN, "tt", call->parent, call->step);
    if (s == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(connection, s, &status, error)) {
        return status == WEIR_OK ? WEIR_NOT_FOUND : status;
    }
    size_t length = (size_t)sqlite3_column_bytes(s, 0);
    status = json_read_below(sqlite3_column_blob(s, 0), length, CHILDREN_PLAN_LEVELS, &row->plan, NULL);
    row->depth = sqlite3_column_int64(s, 1);
    row->others = sqlite3_column_int64(s, 2);
    (void)sqlite3_reset(s);
    *call->plan_left -= (int64_t)length / PLAN_PART_BYTES;
    return status == WEIR_OUT_OF_MEMORY ? error_out_of_memory(error) : WEIR_OK;
}

/* Fills the row of the step, and makes those of its children. */
static enum weir_status take_plan(const struct plan_call *call, const struct plan_row *row, struct weir_error *error)
{
    const json_t *plan = row->plan;
    const char *problem = problem_of_plan(plan, row->depth, row->others, row->is_full);
    const json_t *children = problem == NULL ? json_object_get(plan, "children") : NULL;
    const json_t *priority = json_object_get(plan, "priority");
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *s = connection_bind(
        call->write->connection, error, QUERY_FILL_CHILD_STEP, "ttttiiiiiiiitt", call->parent, call->step,
        json_string_value(json_object_get(plan, "workflow")), json_string_value(json_object_get(plan, "executor_group")),
        (int64_t)json_integer_value(priority), number_of(plan, "is_single"), number_of(plan, "waits_for_all"),
        number_of(plan, "wanted"), number_of(plan, "max_parallel"), number_of(plan, "leaves"), row->depth,
        (int64_t)json_array_size(children), problem, json_string_value(json_object_get(plan, "workspace")));
    if (s == NULL) {
        return statement_failure(error);
    }
    if (!json_is_integer(priority)) {
        (void)sqlite3_bind_null(s, 5);
    }
    (void)connection_step(call->write->connection, s, &status, error);
    *call->plan_left -= (int64_t)json_array_size(children);
    return status == WEIR_OK ? insert_children(call, children, json_object_get(plan, "keys"), error) : status;
}

enum weir_status child_plan_read(struct write *write, const char *parent, const char *step, int64_t *plan_left,
                                 struct weir_error *error)
{
    INVARIANT(write != NULL && parent != NULL && step != NULL && plan_left != NULL);
    static const enum sqlite_query drops[] = {QUERY_DROP_OWN_PLAN, QUERY_DROP_CHILD_PLAN};
    const struct plan_call call = {.write = write, .parent = parent, .step = step, .plan_left = plan_left};
    struct plan_row row = {.plan = NULL};
    enum weir_status status = read_plan_row(&call, &row, error);
    status = status == WEIR_OK ? read_fullness(&call, &row, error) : status;
    status = status == WEIR_OK ? take_plan(&call, &row, error) : status;
    for (size_t i = 0; i < 2 && status == WEIR_OK; i++) {
        status = connection_run(write->connection, error, NULL, drops[i], "tt", parent, step);
    }
    json_decref(row.plan);
    return status;
}
