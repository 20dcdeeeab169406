/* Executions: enqueue, list, show, and what belongs to one of them.
 *
 * A handler reads the request, makes one call of the store and answers with its JSON, so names, types and refusals are
 * those of the command line. Refusals name the part of the request that is at fault where there is one. */
#include <string.h>

#include "base/error.h"
#include "server/command_routes.h"
#include "server/entity_tag.h"
#include "server/own_workspaces.h"
#include "server/routes/execution_find.h"
#include "server/routes/routes.h"
#include "store/filter.h"
#include "store/json_line.h"

/* --- enqueue --- */

/* A full queue becomes shorter by executions that start, so a client need not ask each second. */
enum { QUEUE_FULL_RETRY_S = 5 };

/* The key may be a field of the head or of the body, for clients that can set only one of them. */
static enum weir_status read_enqueue(struct http_request *request, int64_t now_us, struct enqueue_request *enqueue,
                                     const char **ret_key, struct weir_error *error)
{
    const char *workspace = request_value(request, "workspace");
    const char *key = NULL;
    *enqueue = (struct enqueue_request){.workspace = workspace};
    if (request->body.length == 0) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the body is empty, it must be a JSON object with a workflow");
        error_hint(error, "for example {\"workflow\": \"hello\", \"params\": {\"name\": \"Ada\"}}");
        return WEIR_INVALID_ARGUMENT;
    }
    enum weir_status status =
        json_line_read(request->body.data, request->body.length, now_us, &request->arena, enqueue, ret_key, error);
    if (status == WEIR_OK) {
        status = request_key(request, &key, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (strcmp(enqueue->workspace, workspace) != 0) {
        *ret_key = "workspace";
        return error_set(error, WEIR_INVALID_ARGUMENT, "workspace of the body is not that of the path");
    }
    if (key != NULL && enqueue->idempotency_key != NULL && strcmp(key, enqueue->idempotency_key) != 0) {
        *ret_key = "idempotency_key";
        return error_set(error, WEIR_INVALID_ARGUMENT, "idempotency_key is not that of the field Idempotency-Key");
    }
    if (key != NULL) {
        enqueue->idempotency_key = key;
    }
    if (enqueue->traceparent == NULL) {
        enqueue->traceparent = request_traceparent(request);
    }
    return WEIR_OK;
}

/* 202: it was enqueued now. 200: the same request was enqueued before. */
static void answer_enqueued(struct http_request *request, struct http_answer *answer, const struct enqueue_result *result)
{
    if (result->status != WEIR_OK) {
        respond_error(request, answer, &result->error, NULL);
        answer->retry_after_s = result->status == WEIR_QUEUE_FULL ? QUEUE_FULL_RETRY_S : 0;
        return;
    }
    char location[sizeof "/v1/executions/" + UUID_TEXT_MAX] = "/v1/executions/";
    text_copy(location + strlen(location), UUID_TEXT_MAX, result->id);
    answer->location = arena_copy_string(&request->arena, location);
    /* The first one of a known key may be in any state, which no enqueue reads. */
    const char *state = result->duplicate ? NULL : item_state_name(ITEM_PENDING);
    respond_json(answer, result->duplicate ? 200 : 202,
                 json_pack("{s:s, s:s*, s:b, s:b}", "id", result->id, "status", state, "duplicate", result->duplicate,
                           "replaced", result->replaced));
}

/* The requests of a set that could be read, by their places among all. Those with a mode of their key stand at the end, the
 * last one is the first to be handled. */
struct enqueue_set {
    struct http_request *const *requests;
    struct http_answer *const *answers;
    struct enqueue_request enqueues[ROUTE_SET_MAX];
    struct enqueue_result results[ROUTE_SET_MAX];
    size_t places[ROUTE_SET_MAX];
    size_t plain;       /* those without a mode */
    size_t first_keyed; /* ROUTE_SET_MAX: none */
};

static void read_enqueue_set(struct enqueue_set *set, size_t count, int64_t now_us)
{
    set->plain = 0;
    set->first_keyed = ROUTE_SET_MAX;
    for (size_t i = 0; i < count; i++) {
        struct weir_error refusal = {.status = WEIR_OK};
        struct enqueue_request enqueue;
        const char *key = NULL;
        if (read_enqueue(set->requests[i], now_us, &enqueue, &key, &refusal) != WEIR_OK) {
            respond_body_error(set->requests[i], set->answers[i], &refusal, key);
            continue;
        }
        size_t at = enqueue.key_mode == KEY_ONCE ? set->plain++ : --set->first_keyed;
        set->enqueues[at] = enqueue;
        set->places[at] = i;
    }
}

/* One transaction. */
static enum weir_status try_part(struct store *store, struct enqueue_set *set, size_t first, size_t count,
                                 struct weir_error *error)
{
    memset(&set->results[first], 0, count * sizeof set->results[0]);
    return store_enqueue(store, &set->enqueues[first], count, &set->results[first], error);
}

/* A failure of the store is the answer to each of them: none was enqueued. */
static void answer_part(struct enqueue_set *set, size_t first, size_t count, const struct weir_error *failure)
{
    for (size_t i = first; i < first + count; i++) {
        struct http_request *request = set->requests[set->places[i]];
        struct http_answer *answer = set->answers[set->places[i]];
        if (failure->status != WEIR_OK) {
            respond_error(request, answer, failure, NULL);
        } else {
            own_workspaces_hide_refusal(request->principal, &set->enqueues[i], &set->results[i]);
            answer_enqueued(request, answer, &set->results[i]);
        }
    }
}

static enum weir_status enqueue_part(struct store *store, struct enqueue_set *set, size_t first, size_t count)
{
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status = try_part(store, set, first, count, &error);
    answer_part(set, first, count, &error);
    return status;
}

static bool has_one_workspace(const struct enqueue_set *set)
{
    bool is_one = true;
    for (size_t i = 1; i < set->plain && is_one; i++) {
        is_one = strcmp(set->enqueues[i].workspace, set->enqueues[0].workspace) == 0;
    }
    return is_one;
}

/* Moves those of the workspace of `first` behind it, among those without a mode. Returns the end of them. */
static size_t gather_workspace(struct enqueue_set *set, size_t first)
{
    size_t end = first + 1;
    for (size_t i = end; i < set->plain; i++) {
        if (strcmp(set->enqueues[i].workspace, set->enqueues[first].workspace) == 0) {
            struct enqueue_request moved = set->enqueues[i];
            size_t place = set->places[i];
            set->enqueues[i] = set->enqueues[end];
            set->places[i] = set->places[end];
            set->enqueues[end] = moved;
            set->places[end++] = place;
        }
    }
    return end;
}

/* All in one transaction. It fails while the open transaction of a program holds the key of one of them. Then each
 * workspace gets a transaction of its own, so that none waits for the program of another one. */
static void enqueue_plain_ones(struct store *store, struct enqueue_set *set)
{
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status = set->plain == 0 ? WEIR_OK : try_part(store, set, 0, set->plain, &error);
    if (status != WEIR_STORE_BUSY || has_one_workspace(set) || (store_features(store) & STORE_SHARED) == 0) {
        answer_part(set, 0, set->plain, &error);
        return;
    }
    for (size_t first = 0, end; first < set->plain; first = end) {
        end = gather_workspace(set, first);
        (void)enqueue_part(store, set, first, end - first);
    }
}

/* Each in a transaction of its own, because it may wait for its key: one that waits with the keys of others could end those
 * of other nodes. A program that holds a key for long delays one request of its workspace; the others of this workspace
 * are not tried. */
static void enqueue_keyed_ones(struct store *store, struct enqueue_set *set)
{
    const char *busy[ROUTE_SET_MAX];
    size_t busy_count = 0;
    for (size_t at = ROUTE_SET_MAX; at-- > set->first_keyed;) {
        struct http_request *request = set->requests[set->places[at]];
        struct http_answer *answer = set->answers[set->places[at]];
        struct weir_error error = {.status = WEIR_OK};
        enum weir_status status = api_set_actor(store, request, &error);
        for (size_t i = 0; i < busy_count && status == WEIR_OK; i++) {
            if (strcmp(busy[i], set->enqueues[at].workspace) == 0) {
                status = error_set(&error, WEIR_STORE_BUSY, "another request of workspace \"%s\" could not get its key",
                                   busy[i]);
                error_hint(&error, "repeat the call");
            }
        }
        if (status != WEIR_OK) {
            respond_error(request, answer, &error, NULL);
        } else if (enqueue_part(store, set, at, 1) == WEIR_STORE_BUSY) {
            busy[busy_count++] = set->enqueues[at].workspace;
        }
    }
}

void answer_enqueues(struct api *api, struct store *store, struct http_request *const *requests,
                     struct http_answer *const *answers, size_t count)
{
    (void)api;
    struct enqueue_set set;
    struct weir_error error = {.status = WEIR_OK};
    int64_t now_us = 0;
    if (store_time(store, &now_us, &error) != WEIR_OK) {
        for (size_t i = 0; i < count; i++) {
            respond_error(requests[i], answers[i], &error, NULL);
        }
        return;
    }
    set.requests = requests;
    set.answers = answers;
    read_enqueue_set(&set, count, now_us);
    enqueue_plain_ones(store, &set);
    enqueue_keyed_ones(store, &set);
}

/* --- list, show --- */

enum weir_status request_filter(struct http_request *request, struct store *store, struct execution_filter *filter,
                                const char **ret_argument, struct weir_error *error)
{
    int64_t now_us = 0;
    const char *where = request_argument(request, "where");
    enum weir_status status = store_time(store, &now_us, error);
    if (status == WEIR_OK && where != NULL) {
        *ret_argument = "where";
        status = filter_parse(where, now_us, &request->arena, filter, error);
    }
    for (size_t i = 0; i < request->target.argument_count && status == WEIR_OK; i++) {
        const struct target_argument *argument = &request->target.arguments[i];
        if (filter_has_key(argument->name)) {
            *ret_argument = argument->name;
            status = argument->value[0] == '\0'
                         ? error_set(error, WEIR_INVALID_ARGUMENT, "%s= needs a value", argument->name)
                         : filter_set(filter, argument->name, argument->value, now_us, error);
        }
    }
    return status;
}

static enum weir_status read_list_order(const struct http_request *request, enum list_order *ret_order,
                                        struct weir_error *error)
{
    const char *order = request_argument(request, "order");
    bool is_queue = order != NULL && strcmp(order, "queue") == 0;
    if (order != NULL && !is_queue && strcmp(order, "newest") != 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "order is newest or queue, not \"%.64s\"", order);
    }
    *ret_order = is_queue ? ORDER_QUEUE : ORDER_NEWEST;
    return WEIR_OK;
}

/* One page. A count is made only when it is asked for, because it reads the matches. */
void answer_list_executions(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct list_options options = {
        .kind = LIST_EXECUTIONS, .cursor = request_argument(request, "cursor"), .windows_most = LIST_WINDOWS_MOST};
    const char *at_fault = NULL;
    int64_t limit = LIST_LIMIT_DEFAULT;
    json_t *page = NULL;
    enum weir_status status = request_filter(request, store, &options.filter, &at_fault, &error);
    if (status == WEIR_OK) {
        at_fault = "limit";
        status = request_number(request, "limit", 1, LIST_LIMIT_MOST, LIST_LIMIT_DEFAULT, &limit, &error);
    }
    if (status == WEIR_OK) {
        at_fault = "count";
        const char *counted = request_argument(request, "count");
        options.counts_all = counted != NULL && strcmp(counted, "all") == 0;
        options.count = options.counts_all;
        status = options.counts_all ? WEIR_OK : request_switch(request, "count", &options.count, &error);
        if (status != WEIR_OK) {
            error_set(&error, WEIR_INVALID_ARGUMENT, "count is true, false or all, not \"%s\"", counted);
        }
    }
    if (status == WEIR_OK) {
        at_fault = "order";
        status = read_list_order(request, &options.order, &error);
    }
    if (status == WEIR_OK) {
        at_fault = options.order == ORDER_QUEUE ? "order" : NULL;
        options.limit = (size_t)limit;
        /* A program that asks for its key expects the execution, however old it is. */
        options.windows_most = options.filter.idempotency_key != NULL ? 0 : options.windows_most;
        status = store_list(store, &options, &page, &error);
    }
    if (status == WEIR_OK) {
        respond_page(request, answer, page);
    } else {
        respond_error(request, answer, &error, at_fault);
    }
}

/* A list of what belongs to one execution. */
static void answer_list_of(struct store *store, struct http_request *request, struct http_answer *answer,
                           enum store_list_kind kind)
{
    struct weir_error error = {.status = WEIR_OK};
    char id[UUID_TEXT_MAX];
    struct list_options options = {.kind = kind, .filter = {.id = id}};
    const char *at_fault = NULL;
    int64_t limit = LIST_LIMIT_DEFAULT;
    json_t *page = NULL;
    enum weir_status status = execution_find(store, request, id, NULL, &error);
    if (status == WEIR_OK && kind != LIST_STEPS) {
        at_fault = "limit";
        options.cursor = request_argument(request, "cursor");
        status = request_number(request, "limit", 1, LIST_LIMIT_MOST, LIST_LIMIT_DEFAULT, &limit, &error);
    }
    if (status == WEIR_OK) {
        at_fault = NULL;
        options.limit = (size_t)limit;
        status = store_list(store, &options, &page, &error);
    }
    if (status == WEIR_OK) {
        respond_page(request, answer, page);
    } else {
        respond_error(request, answer, &error, at_fault);
    }
}

void answer_list_steps(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    answer_list_of(store, request, answer, LIST_STEPS);
}

void answer_list_events(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    answer_list_of(store, request, answer, LIST_EVENTS);
}

void answer_list_actions(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    answer_list_of(store, request, answer, LIST_ACTIONS);
}

/* A read of one execution by its whole id. */
static enum weir_status read_execution(struct store *store, struct http_request *request,
                                       enum weir_status (*read)(struct store *, const char *, json_t **,
                                                                struct weir_error *),
                                       json_t **ret_value, struct weir_error *error)
{
    char id[UUID_TEXT_MAX];
    enum weir_status status = execution_find(store, request, id, NULL, error);
    return status == WEIR_OK ? read(store, id, ret_value, error) : status;
}

/* A client that has curl alone gets the request beside each command, and one that helps. */
void answer_explain_execution(struct api *api, struct store *store, struct http_request *request,
                              struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    json_t *why = NULL;
    enum weir_status status = read_execution(store, request, store_why, &why, &error);
    const char *because = json_string_value(json_object_get(why, "because"));
    if (status == WEIR_OK && because != NULL &&
        json_object_set_new(why, "because", command_routes_json(request, because)) != 0) {
        status = error_out_of_memory(&error);
    }
    if (status == WEIR_OK && command_routes_add_hint(request, why) != WEIR_OK) {
        status = error_out_of_memory(&error);
    }
    respond_outcome(request, answer, status, &error, why);
}

void answer_read_result(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    json_t *result = NULL;
    enum weir_status status = read_execution(store, request, store_read_result, &result, &error);
    respond_outcome(request, answer, status, &error, result);
}

/* Whether the request is to wait for the end: then the answer names it. */
static bool awaits_end(struct http_request *request, struct http_answer *answer, const json_t *execution, int64_t wait_us)
{
    enum item_state state;
    const char *name = json_string_value(json_object_get(execution, "status"));
    int64_t until_us = time_add(request->arrived_us, wait_us);
    if (!request->may_wait || clock_boot(clock_system()) >= until_us || name == NULL || !item_state_parse(name, &state) ||
        item_is_terminal(state)) {
        return false;
    }
    answer->awaits = arena_copy_string(&request->arena, json_string_value(json_object_get(execution, "id")));
    answer->wait_until_us = until_us;
    return answer->awaits != NULL;
}

/* The id may be given by its first characters, as on the command line. With `wait` the answer comes when the execution has
 * ended or the time is over: the client sees by the status which of them. */
void answer_show_execution(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    char id[UUID_TEXT_MAX];
    json_t *execution = NULL;
    int64_t wait_us = 0;
    enum weir_status status = request_duration(request, "wait", EXECUTION_WAIT_MOST_US, 0, &wait_us, &error);
    if (status != WEIR_OK) {
        respond_error(request, answer, &error, "wait");
        return;
    }
    if (execution_find(store, request, id, &execution, &error) != WEIR_OK) {
        respond_error(request, answer, &error, NULL);
        return;
    }
    if (awaits_end(request, answer, execution, wait_us)) {
        json_decref(execution);
        return;
    }
    const char *known = request->fields[FIELD_IF_NONE_MATCH];
    answer->etag = entity_tag_of(execution, &request->arena);
    if (known != NULL && answer->etag != NULL && entity_tag_is_in(known, answer->etag)) {
        answer->status = 304;
        json_decref(execution);
        return;
    }
    respond_json(answer, 200, execution);
}
