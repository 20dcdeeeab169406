/* The verbs that read for people: list, show, why, status.
 *
 * A driver returns rows and JSON. The parts that need no database are added here once: the default length of a page,
 * and JSON values in place of the texts in which outputs are stored. So is the holder of the lock that may stop a node.
 * Nothing here writes. A failure to read an addition leaves it out, because the answer is useful without it. Runs in
 * the caller's thread.
 */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "store/call.h"
#include "store/queue_order.h"
#include "store/reading.h"

/* The verb has run in the server: a text that it has opened must not be opened again. */
static bool is_server(const struct store *store)
{
    return (store->driver->features & STORE_IS_SERVER) != 0;
}

/* Drivers give the output of a step as the JSON text that they keep; people and programs get the value. */
static void open_value(json_t *step, const char *key)
{
    const json_t *text = json_object_get(step, key);
    json_t *value = NULL;
    if (json_is_string(text) && json_read(json_string_value(text), json_string_length(text), &value, NULL) == WEIR_OK) {
        (void)json_object_set_new(step, key, value);
    }
}

/* Does so for the output and the variables of each step. */
static void open_outputs(json_t *steps)
{
    size_t i;
    json_t *step;
    json_array_foreach(steps, i, step)
    {
        open_value(step, "output");
        open_value(step, "variables");
    }
}

/* The state and the variables of a workflow with states, which its step has. An execution that has not begun has none. */
static void open_machine(json_t *execution)
{
    json_t *machine = json_object_get(json_array_get(json_object_get(execution, "steps"), 0), "variables");
    json_t *failure = json_object_get(machine, "failure");
    if (reading_has_machine(execution)) {
        (void)json_object_set(execution, "state", json_object_get(machine, "state"));
        (void)json_object_set(execution, "variables", json_object_get(machine, "variables"));
        (void)json_object_set_new(execution, "failure", failure == NULL ? json_null() : json_incref(failure));
    }
}

/* A server examines few windows for each request. What a call in this process returns is whole, so the rest of the page is
 * requested until it is full. */
static enum weir_status complete_page(struct store *store, struct list_options *options, json_t *page,
                                      struct weir_error *error)
{
    json_t *items = json_object_get(page, "items");
    enum weir_status status = WEIR_OK;
    size_t limit = options->limit;
    options->count = false;
    while (status == WEIR_OK && json_array_size(items) < limit && json_is_string(json_object_get(page, "next_cursor"))) {
        json_t *next = NULL;
        options->cursor = json_string_value(json_object_get(page, "next_cursor"));
        options->limit = limit - json_array_size(items);
        status = store->driver->list(store, options, &next, error);
        if (status == WEIR_OK && (json_array_extend(items, json_object_get(next, "items")) != 0 ||
                                  json_object_set(page, "next_cursor", json_object_get(next, "next_cursor")) != 0)) {
            status = error_out_of_memory(error);
        }
        json_decref(next);
    }
    return status;
}

enum weir_status store_list(struct store *store, const struct list_options *options, json_t **ret_page,
                            struct weir_error *error)
{
    INVARIANT(options != NULL && ret_page != NULL);
    if (options->limit > LIST_LIMIT_MOST) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a page has at most %d items", LIST_LIMIT_MOST);
        error_hint(error, "go on with the cursor of the page before");
        return WEIR_INVALID_ARGUMENT;
    }
    bool is_of_one = options->kind == LIST_EVENTS || options->kind == LIST_STEPS || options->kind == LIST_ACTIONS;
    if (is_of_one && options->filter.id == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT,
                         "events, steps and actions are listed of one execution: give its id");
    }
    size_t prefix_length = options->prefix == NULL ? 0 : strlen(options->prefix);
    if (prefix_length > WORKSPACE_NAME_MAX || !text_is_utf8(options->prefix, prefix_length)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the prefix of a name has at most %d bytes of UTF-8",
                         WORKSPACE_NAME_MAX);
    }
    if (options->order == ORDER_QUEUE) {
        enum weir_status refusal = queue_order_check(options, error);
        if (refusal != WEIR_OK) {
            return refusal;
        }
    }
    if (options->kind == LIST_SLOT_TIMELINE && options->name == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "slots are those of one workspace: give its name");
    }
    struct list_options checked = *options;
    checked.limit = options->limit == 0 ? LIST_LIMIT_DEFAULT : options->limit;
    struct call call = call_begin(store, "list", error);
    json_t *page = NULL;
    enum weir_status status = store->driver->list(store, &checked, &page, &call.own);
    if (status == WEIR_OK && options->kind == LIST_EXECUTIONS && options->windows_most == 0) {
        status = complete_page(store, &checked, page, &call.own);
    }
    if (status == WEIR_OK && options->kind == LIST_STEPS && !is_server(store)) {
        open_outputs(json_object_get(page, "items"));
    }
    if (status == WEIR_OK) {
        *ret_page = page;
    } else {
        json_decref(page);
    }
    return call_end(&call, status);
}

enum weir_status store_usage(struct store *store, const char *workspace, json_t **ret_row, struct weir_error *error)
{
    INVARIANT(workspace != NULL && ret_row != NULL);
    json_t *page = NULL;
    const struct list_options options = {.kind = LIST_WORKSPACES, .name = workspace, .limit = 1};
    enum weir_status status = store_list(store, &options, &page, error);
    if (status != WEIR_OK) {
        return status;
    }
    /* The row must outlive the page that owns it. */
    *ret_row = json_incref(json_array_get(json_object_get(page, "items"), 0));
    json_decref(page);
    return *ret_row != NULL ? WEIR_OK
                            : error_set(error, WEIR_WORKSPACE_NOT_FOUND, "there is no workspace \"%s\"", workspace);
}

enum weir_status store_list_each(struct store *store, const struct list_options *options,
                                 bool (*visit)(void *context, const json_t *row), void *context, struct weir_error *error)
{
    INVARIANT(visit != NULL);
    struct list_options page_options = *options;
    enum weir_status status;
    json_t *page = NULL;
    bool goes_on = true;
    do {
        json_t *next = NULL;
        const json_t *row;
        size_t i;
        status = store_list(store, &page_options, &next, error);
        json_decref(page); /* the cursor was its text */
        page = next;
        json_array_foreach(json_object_get(page, "items"), i, row)
        {
            goes_on = goes_on && visit(context, row);
        }
        page_options.cursor = json_string_value(json_object_get(page, "next_cursor"));
    } while (goes_on && page_options.cursor != NULL);
    json_decref(page);
    return status;
}

/* A workflow id of Temporal names its execution as well. */
static const char *id_of_workflow(const char *id)
{
    static const char prefix[] = "execution-";
    return strncmp(id, prefix, sizeof prefix - 1) == 0 ? id + sizeof prefix - 1 : id;
}

enum weir_status store_show(struct store *store, const char *id, json_t **ret_execution, struct weir_error *error)
{
    INVARIANT(id != NULL && ret_execution != NULL);
    struct call call = call_begin(store, "show", error);
    enum weir_status status = store->driver->show(store, id_of_workflow(id), ret_execution, &call.own);
    if (status == WEIR_OK && !is_server(store)) {
        open_outputs(json_object_get(*ret_execution, "steps"));
        open_machine(*ret_execution);
    }
    return call_end(&call, status);
}

const json_t *store_execution_result(const json_t *execution)
{
    INVARIANT(execution != NULL);
    const char *state = json_string_value(json_object_get(execution, "status"));
    const json_t *steps = json_object_get(execution, "steps");
    size_t count = json_array_size(steps);
    if (state == NULL || strcmp(state, item_state_name(ITEM_COMPLETED)) != 0) {
        return NULL;
    }
    /* A workflow of steps has the output of its last step; one on Temporal has the result of its run. */
    return count > 0 ? json_object_get(json_array_get(steps, count - 1), "output") : json_object_get(execution, "result");
}

/* Nodes with dispatch.exclusive start nothing while another program holds the lock; only the nodes know which of them have
 * the setting. The verbs for locks report a table that cannot be read. */
static void add_lock(struct store *store, json_t *answer)
{
    struct list_options options = {.kind = LIST_LOCKS, .name = "processExecutionQueue", .limit = 1};
    struct weir_error ignored = {.status = WEIR_OK};
    json_t *page = NULL;
    if (store->driver->list(store, &options, &page, &ignored) != WEIR_OK) {
        return;
    }
    const json_t *lock = json_array_get(json_object_get(page, "items"), 0);
    if (json_is_true(json_object_get(lock, "held"))) {
        (void)json_object_set(answer, "lock_holder", json_object_get(lock, "holder"));
        (void)json_object_set(answer, "lock_until", json_object_get(lock, "lock_until"));
    }
    json_decref(page);
}

static bool waits_for_scheduler(const json_t *why)
{
    const char *reason = json_string_value(json_object_get(why, "pending_reason"));
    return reason != NULL && (strcmp(reason, "ready") == 0 || strcmp(reason, "no_scheduler") == 0);
}

/* A held item is not due: that time was of the wait before its claim. */
static void drop_past_wait(json_t *why)
{
    if (item_state_is_held(json_string_value(json_object_get(why, "status")))) {
        (void)json_object_set_new(why, "due_at", json_null());
    }
}

enum weir_status store_why(struct store *store, const char *id, json_t **ret_why, struct weir_error *error)
{
    INVARIANT(id != NULL && ret_why != NULL);
    struct call call = call_begin(store, "why", error);
    enum weir_status status = store->driver->why(store, id_of_workflow(id), ret_why, &call.own);
    if (status == WEIR_OK && !is_server(store)) {
        if (waits_for_scheduler(*ret_why)) {
            add_lock(store, *ret_why);
        }
        drop_past_wait(*ret_why);
    }
    return call_end(&call, status);
}

enum weir_status store_find_living(struct store *store, const char *const *ids, size_t count, bool *ret_is_living,
                                   struct weir_error *error)
{
    INVARIANT(ids != NULL && ret_is_living != NULL);
    if (count > LIVING_IDS_MOST) {
        return error_set(error, WEIR_MISUSE, "a call looks for at most %d executions", LIVING_IDS_MOST);
    }
    for (size_t i = 0; i < count; i++) {
        if (!uuid_is_valid(ids[i])) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not the whole id of an execution", ids[i]);
        }
    }
    CALL(store, "find_living", error, store->driver->find_living(store, ids, count, ret_is_living, detail));
}

enum weir_status store_find_in_workspaces(struct store *store, const char *id, const char *const *workspaces, size_t count,
                                          bool *ret_is_there, struct weir_error *error)
{
    INVARIANT(id != NULL && (workspaces != NULL || count == 0) && ret_is_there != NULL);
    char small[UUID_TEXT_MAX];
    if (!uuid_is_valid(id)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not the whole id of an execution", id);
    }
    uuid_write_small(id, small);
    CALL(store, "find_in_workspaces", error,
         store->driver->find_in_workspaces(store, small, workspaces, count, ret_is_there, detail));
}

enum weir_status store_status(struct store *store, size_t workspaces_max, json_t **ret_status, struct weir_error *error)
{
    INVARIANT(ret_status != NULL);
    struct call call = call_begin(store, "status", error);
    enum weir_status status = store->driver->status(store, workspaces_max, ret_status, &call.own);
    if (status == WEIR_OK && !is_server(store)) {
        json_t *scheduler = json_object_get(*ret_status, "scheduler");
        if (json_is_string(json_object_get(scheduler, "lock_awaited_since"))) {
            add_lock(store, scheduler);
        }
    }
    return call_end(&call, status);
}

/* --- results --- */

/* The message has the state, and of a failure its code and its text, either of which may be missing. */
static enum weir_status refuse_result(const json_t *execution, struct weir_error *error)
{
    const char *state = json_string_value(json_object_get(execution, "status"));
    const char *code = json_string_value(json_object_get(execution, "error_code"));
    const char *text = json_string_value(json_object_get(execution, "error"));
    return error_set(error, WEIR_ILLEGAL_STATE, "execution %s is %s and has no result%s%s%s%s",
                     json_string_value(json_object_get(execution, "id")), state, code == NULL ? "" : ": ",
                     code == NULL ? "" : code, text == NULL ? "" : ": ", text == NULL ? "" : text);
}

enum weir_status store_read_result(struct store *store, const char *id, json_t **ret_result, struct weir_error *error)
{
    INVARIANT(id != NULL && ret_result != NULL);
    json_t *execution = NULL;
    enum weir_status status = store_show(store, id, &execution, error);
    if (status != WEIR_OK) {
        return status;
    }
    const char *state = json_string_value(json_object_get(execution, "status"));
    if (state == NULL || strcmp(state, item_state_name(ITEM_COMPLETED)) != 0) {
        status = refuse_result(execution, error);
        json_decref(execution);
        return status;
    }
    json_t *result = json_deep_copy(store_execution_result(execution));
    result = result == NULL ? json_null() : result;
    json_decref(execution);
    *ret_result = result;
    return WEIR_OK;
}
