/* An act on all executions that match a filter.
 *
 *     read the order -> count -> expect -> dry run, or begin the act -> progress
 *
 * The rules are those of the command line (store/bulk_act.h). A filter must be there, and its upper bound of the time
 * is now. If the number differs from `expect`, nothing is changed. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "server/api.h"
#include "server/bulk_jobs.h"
#include "server/own_workspaces.h"
#include "server/routes/act_order.h"
#include "server/routes/routes.h"
#include "store/bulk_act.h"
#include "store/filter.h"

struct order_request {
    struct bulk_order order;
    bool is_dry_run;
    int64_t expected; /* -1 = any number */
    const char *reason;
};

/* --- the order --- */

/* NULL: it is no string, or has a NUL, at which the code that reads it would cut it. Takes NULL. */
static const char *bulk_text_of(const json_t *value)
{
    return json_is_string(value) && !json_string_has_nul(value) ? json_string_value(value) : NULL;
}

/* An object with the keys of a filter and texts as values. It is as long as a text of --where may be. */
static enum weir_status read_filter_object(struct http_request *request, json_t *value, int64_t now_us,
                                           struct execution_filter *filter, struct weir_error *error)
{
    const char *key;
    json_t *part;
    size_t length = 0;
    json_object_foreach(value, key, part)
    {
        const char *text = bulk_text_of(part);
        if (text == NULL || text[0] == '\0') {
            return error_set(error, WEIR_INVALID_ARGUMENT, "filter: %.64s is a text without NUL, not %s", key,
                             text == NULL ? json_type_name(part) : "empty");
        }
        length += strlen(key) + strlen(text) + 2; /* "key=text " */
        if (length > FILTER_BYTES_MAX) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "the filter is longer than %d bytes", FILTER_BYTES_MAX);
        }
        char *copy = arena_copy_string(&request->arena, text);
        const char *name = arena_copy_string(&request->arena, key); /* the condition of a label keeps its name */
        enum weir_status status =
            copy == NULL || name == NULL ? error_out_of_memory(error) : filter_set(filter, name, copy, now_us, error);
        if (status != WEIR_OK) {
            return status;
        }
    }
    return WEIR_OK;
}

/* The object, or the text of --where. */
static enum weir_status read_order_filter(struct http_request *request, json_t *value, int64_t now_us,
                                          struct execution_filter *filter, struct weir_error *error)
{
    const char *where = bulk_text_of(value);
    if (json_is_string(value) && where == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "filter contains a NUL");
    }
    if (where != NULL && where[0] != '\0') {
        return filter_parse(where, now_us, &request->arena, filter, error);
    }
    if (!json_is_object(value) || json_object_size(value) == 0) {
        error_set(error, WEIR_INVALID_ARGUMENT, "filter is missing: an object like {\"workspace\": \"acme\"}");
        error_hint(error, "the keys are those of `weir list --where`; the text of --where is accepted, too");
        return WEIR_INVALID_ARGUMENT;
    }
    return read_filter_object(request, value, now_us, filter, error);
}

/* Of a retry {"keep_finished", "from_step"}, of a wake {"waiting_for"}, of a migration {"to_version"}, of a signal
 * {"signal"}. */
static enum weir_status read_order_options(struct http_request *request, const json_t *body, struct bulk_order *order,
                                           const char **ret_key, struct weir_error *error)
{
    const char *pointer = NULL;
    enum weir_status status = act_order_read(body, order->act, &order->options, &pointer, error);
    if (status != WEIR_OK) {
        *ret_key = pointer + 1; /* the name of the key */
        return status;
    }
    status = act_order_read_signal(body, order->act, &request->arena, &order->options, &pointer, error);
    if (status != WEIR_OK) {
        *ret_key = pointer + 1;
        return status;
    }
    *ret_key = "filter";
    if (order->act == BULK_MIGRATE) {
        return bulk_act_check_migration(&order->options, &order->filter, error);
    }
    *ret_key = "waiting_for";
    return bulk_act_check_waits(order->act, &order->options, &order->filter, error);
}

/* {"action", "filter", "dry_run", "expect", "reason", "keep_finished", "from_step", "waiting_for", "to_version",
 * "signal"}. The texts live as long as `body` and the request. */
static enum weir_status read_order(struct http_request *request, json_t *body, int64_t now_us, struct order_request *to,
                                   const char **ret_key, struct weir_error *error)
{
    static const char *const known[] = {"action",    "filter",      "dry_run",    "expect", "reason", "keep_finished",
                                        "from_step", "waiting_for", "to_version", "signal", NULL};
    const json_t *expected = json_object_get(body, "expect");
    const json_t *is_dry_run = json_object_get(body, "dry_run");
    const json_t *reason = json_object_get(body, "reason");
    enum weir_status status = request_check_keys(body, known, ret_key, error);
    if (status == WEIR_OK) {
        *ret_key = "action";
        status = bulk_act_parse(bulk_text_of(json_object_get(body, "action")), &to->order.act, error);
    }
    if (status == WEIR_OK) {
        *ret_key = "filter";
        status = read_order_filter(request, json_object_get(body, "filter"), now_us, &to->order.filter, error);
    }
    if (status == WEIR_OK && is_dry_run != NULL && !json_is_boolean(is_dry_run)) {
        *ret_key = "dry_run";
        status = error_set(error, WEIR_INVALID_ARGUMENT, "dry_run is true or false");
    }
    if (status == WEIR_OK && expected != NULL && (!json_is_integer(expected) || json_integer_value(expected) < 0)) {
        *ret_key = "expect";
        status = error_set(error, WEIR_INVALID_ARGUMENT, "expect is the number of executions that must match");
    }
    if (status == WEIR_OK && reason != NULL && bulk_text_of(reason) == NULL) {
        *ret_key = "reason";
        status = error_set(error, WEIR_INVALID_ARGUMENT, "reason is a text without NUL");
    }
    if (status == WEIR_OK) {
        status = read_order_options(request, body, &to->order, ret_key, error);
    }
    to->is_dry_run = json_is_true(is_dry_run);
    to->expected = expected == NULL ? -1 : json_integer_value(expected);
    to->reason = bulk_text_of(reason);
    return status;
}

/* Of a token of some workspaces. What it may not see is missing. */
static enum weir_status check_own_names(struct store *store, const struct principal *principal,
                                        const struct execution_filter *filter, struct weir_error *error)
{
    if (!access_has_workspace(principal, filter->workspace)) {
        return filter->workspace == NULL
                   ? error_set(error, WEIR_NOT_PERMITTED, "the filter must name a workspace of the token")
                   : error_set(error, WEIR_WORKSPACE_NOT_FOUND, "there is no workspace \"%s\"", filter->workspace);
    }
    enum weir_status status = filter->id == NULL ? WEIR_OK : own_workspaces_check_id(store, principal, filter->id, error);
    return status == WEIR_OK && filter->workflow != NULL
               ? store_require_workflow(store, filter->workspace, filter->workflow, error)
               : status;
}

/* A misspelt name gets a suggestion and not a count of 0. */
static enum weir_status check_order_names(struct store *store, const struct http_request *request,
                                          const struct execution_filter *filter, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    if (!access_has_all_workspaces(request->principal)) {
        return check_own_names(store, request->principal, filter, error);
    }
    if (filter->workspace != NULL) {
        status = store_require_name(store, LIST_WORKSPACES, filter->workspace, WEIR_WORKSPACE_NOT_FOUND, error);
    }
    if (status == WEIR_OK && filter->workflow != NULL) {
        status = store_require_name(store, LIST_WORKFLOWS, filter->workflow, WEIR_WORKFLOW_NOT_FOUND, error);
    }
    return status;
}

/* A filter with an id names one execution, which may be given by its first characters. */
static enum weir_status complete_order(struct store *store, int64_t now_us, struct bulk_order *order, char *whole,
                                       struct weir_error *error)
{
    if (order->filter.id != NULL) {
        enum weir_status status = execution_complete_id(store, order->filter.id, whole, error);
        order->filter.id = whole;
        if (status != WEIR_OK) {
            return status;
        }
    }
    bulk_act_complete_filter(order->act, now_us, &order->filter);
    return bulk_act_count(store, &order->filter, &order->matches, error);
}

/* --- answers --- */

/* The name of the first node of the process, by which a person finds it; NULL: it has none. */
static const char *name_of_process(const struct api *api)
{
    return api->probes.node_count == 0 ? NULL : node_name(api->probes.nodes[0]);
}

/* An act belongs to its process, so its answers name the node. */
static enum weir_status add_node(const struct api *api, json_t *job, struct weir_error *error)
{
    const char *node = name_of_process(api);
    return json_object_set_new(job, "node", node == NULL ? json_null() : json_string(node)) == 0
               ? WEIR_OK
               : error_out_of_memory(error);
}

/* A dry run is answered at once; an act gets a thread, and the answer names the place of its progress. */
static void respond_order(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer,
                          struct order_request *order)
{
    struct weir_error error = {.status = WEIR_OK};
    char location[sizeof "/v1/bulk/" + UUID_TEXT_MAX] = "/v1/bulk/";
    char *id = location + strlen(location);
    json_t *job = NULL;
    enum weir_status status = WEIR_OK;
    if (order->is_dry_run) {
        status = bulk_act_rehearse(store, order->order.act, &order->order.options, &order->order.filter,
                                   &order->order.matches, &error);
        if (status == WEIR_OK) {
            respond_json(answer, 200, bulk_act_summary(order->order.act, &order->order.matches, 0, 0, true));
            return;
        }
    } else {
        status = order->reason == NULL ? WEIR_OK : store_act_for(store, store, order->reason, &error);
    }
    if (status == WEIR_OK) {
        status = bulk_jobs_begin(api->bulk, store, &order->order, id, &error);
    }
    if (status == WEIR_OK) {
        status = bulk_jobs_read(api->bulk, id, &job, &error);
    }
    if (status == WEIR_OK) {
        (void)json_object_del(job, "workspace_id");
        status = add_node(api, job, &error);
    }
    if (status != WEIR_OK) {
        json_decref(job);
        respond_error(request, answer, &error, NULL);
        return;
    }
    answer->location = arena_copy_string(&request->arena, location);
    respond_json(answer, 202, job);
}

void answer_begin_bulk(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    struct weir_error error = {.status = WEIR_OK};
    struct order_request order = {.is_dry_run = false};
    char whole[UUID_TEXT_MAX];
    json_t *body = NULL;
    const char *at_fault = NULL;
    int64_t now_us = 0;
    enum weir_status status = request_object(request, &body, &error);
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, &error);
    }
    if (status == WEIR_OK) {
        status = read_order(request, body, now_us, &order, &at_fault, &error);
    }
    if (status == WEIR_OK) {
        at_fault = "filter";
        status = check_order_names(store, request, &order.order.filter, &error);
    }
    if (status == WEIR_OK && order.order.filter.workspace != NULL) {
        order.order.filter.workspace_id = access_workspace_id(request->principal, order.order.filter.workspace);
    }
    if (status == WEIR_OK) {
        status = complete_order(store, now_us, &order.order, whole, &error);
    }
    if (status == WEIR_OK) {
        at_fault = "expect";
        status = bulk_act_expect(&order.order.matches, order.expected, &error);
    }
    if (status == WEIR_OK) {
        respond_order(api, store, request, answer, &order);
    } else {
        respond_body_error(request, answer, &error, at_fault);
    }
    json_decref(body);
}

/* One refusal for an act of another node, one that is forgotten, and one that the caller may not see. */
static enum weir_status refuse_bulk(const struct api *api, const char *id, struct weir_error *error)
{
    const char *node = name_of_process(api);
    error_set(error, WEIR_NOT_FOUND, "the node %s has no bulk act %s", node == NULL ? "that answers" : node, id);
    error_hint(error,
               "ask the node that began it (`node` of its first answer); it remembers its last %d acts until it stops",
               BULK_JOBS_REMEMBERED);
    return WEIR_NOT_FOUND;
}

/* The id is for this comparison alone: answers have names. */
static bool may_see(const struct http_request *request, json_t *job)
{
    int64_t id = json_integer_value(json_object_get(job, "workspace_id"));
    const char *name = json_string_value(json_object_get(job, "workspace"));
    (void)json_object_del(job, "workspace_id");
    return id != 0 ? access_has_workspace_id(request->principal, id) : access_has_workspace(request->principal, name);
}

/* The act {id}, unless the caller may not see its workspace. */
static enum weir_status find_bulk(struct api *api, const struct http_request *request, json_t **ret_job,
                                  struct weir_error *error)
{
    const char *id = request_value(request, "id");
    json_t *job = NULL;
    enum weir_status status = bulk_jobs_read(api->bulk, id, &job, error);
    if (status == WEIR_NOT_FOUND || (status == WEIR_OK && !may_see(request, job))) {
        json_decref(job);
        return refuse_bulk(api, id, error);
    }
    if (status == WEIR_OK) {
        status = add_node(api, job, error);
    }
    if (status == WEIR_OK) {
        *ret_job = job;
    } else {
        json_decref(job);
    }
    return status;
}

/* Those of this node alone: a client that asks another one gets the acts of that. */
void answer_list_bulk(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    struct weir_error error = {.status = WEIR_OK};
    json_t *jobs = NULL;
    json_t *items = json_array();
    size_t i;
    json_t *job;
    enum weir_status status = items == NULL ? error_out_of_memory(&error) : bulk_jobs_list(api->bulk, &jobs, &error);
    json_array_foreach(jobs, i, job)
    {
        if (status == WEIR_OK && may_see(request, job)) {
            status = add_node(api, job, &error);
            if (status == WEIR_OK && json_array_append(items, job) != 0) {
                status = error_out_of_memory(&error);
            }
        }
    }
    json_decref(jobs);
    respond_outcome(request, answer, status, &error, json_pack("{s:o}", "items", items));
}

void answer_show_bulk(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    struct weir_error error = {.status = WEIR_OK};
    json_t *job = NULL;
    if (find_bulk(api, request, &job, &error) == WEIR_OK) {
        respond_json(answer, 200, job);
    } else {
        respond_error(request, answer, &error, NULL);
    }
}

/* The answer is the progress before the end: the chunk that is under way is still done. */
void answer_stop_bulk(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    struct weir_error error = {.status = WEIR_OK};
    json_t *job = NULL;
    enum weir_status status = find_bulk(api, request, &job, &error);
    if (status == WEIR_OK) {
        status = bulk_jobs_stop(api->bulk, request_value(request, "id"), &error);
    }
    if (status == WEIR_OK) {
        respond_json(answer, 202, job);
    } else {
        json_decref(job);
        respond_error(request, answer, &error, NULL);
    }
}
