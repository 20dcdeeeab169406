/* `weir hook set`, `list`, `pause`, `resume`, `delete`, and `weir webhook set`.
 *
 * A webhook is a hook with a workflow that weir publishes itself: one `http` step that sends the event. It has a workspace
 * of its own, so it takes no slot of a tenant. It is made of the verbs that make a workspace, publish a workflow and set a
 * hook, and each of these is on record. A repetition changes what it names, and keeps the rest. One thread.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"
#include "definition/definition.h"

/* Of a webhook. A delivery has a slot while its request is under way, and none while it waits for the next attempt. The
 * number bounds the requests that a receiver without answers can hold open on the nodes. */
enum { WEBHOOK_SLOTS = 20, WEBHOOK_ATTEMPTS = 10 };
#define WEBHOOK_PREFIX "webhook-"
#define WEBHOOK_WORKFLOW "deliver"

/* --- hook list --- */

/* "completed,failed". */
static const char *ends_text(struct output *output, const json_t *hook)
{
    char text[64] = "";
    size_t length = 0;
    size_t i;
    const json_t *name;
    json_array_foreach(json_object_get(hook, "on"), i, name)
    {
        for (const char *c = json_string_value(name); c != NULL && *c != '\0' && length + 2 < sizeof text; c++) {
            text[length++] = (char)(*c | 0x20);
        }
        text[length++] = ',';
    }
    text[length == 0 ? 0 : length - 1] = '\0';
    return output_safe(output, text);
}

static const char *field_or_all(struct output *output, const json_t *hook, const char *key)
{
    const char *text = field_text(output, hook, key);
    return text == NULL ? "all" : text;
}

static void print_hooks(struct output *output, const json_t *page, int64_t now_us)
{
    static const struct column columns[] = {{.title = "HOOK", .least = 8},
                                            {.title = "STATE"},
                                            {.title = "ON"},
                                            {.title = "WORKSPACE", .least = 9},
                                            {.title = "WORKFLOW", .least = 8},
                                            {.title = "STARTS", .least = 10},
                                            {.title = "WAITING", .align = COLUMN_RIGHT},
                                            {.title = "DROPPED", .align = COLUMN_RIGHT},
                                            {.title = "ERROR", .least = 10}};
    struct table table;
    size_t i;
    json_t *item;
    (void)now_us; /* no column shows a time */
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        bool is_deleted = field_is_true(item, "workspace_deleted");
        bool is_paused = field_is_true(item, "paused");
        const char *failure = field_text(output, item, "error");
        table_cell(&table, field_text(output, item, "name"));
        table_cell_sign(&table,
                        is_deleted        ? SIGN_WARN
                        : is_paused       ? SIGN_PAUSED
                        : failure != NULL ? SIGN_WARN
                                          : SIGN_FINE,
                        is_deleted        ? "deleted"
                        : is_paused       ? "paused"
                        : failure != NULL ? "refused"
                                          : "open");
        table_cell(&table, ends_text(output, item));
        table_cell(&table, field_or_all(output, item, "workspace"));
        table_cell(&table, field_or_all(output, item, "workflow"));
        table_cell_format(&table, "%s/%s", field_or_all(output, item, "start_workspace"),
                          field_or_all(output, item, "start_workflow"));
        table_cell(&table, field_text(output, item, "waiting"));
        table_cell(&table, field_text(output, item, "dropped"));
        table_cell(&table, failure);
    }
    table_close(&table);
}

static enum weir_status list_hooks(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    static const struct list_view view = {.kind = LIST_HOOKS,
                                          .print = print_hooks,
                                          .empty = "there is no hook; `weir webhook set` or `weir hook set` makes one"};
    return verb_print_list(invocation, store, &view, error);
}

enum weir_status verb_hook_list(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, list_hooks, error);
}

/* --- hook set --- */

/* The ends of --on with commas, or all of them without the flag. False: the error is filled. */
static bool read_ends(const struct invocation *invocation, struct hook_request *request, struct weir_error *error)
{
    const char *rest = invocation_text(invocation, "on");
    rest = rest == NULL ? "completed,failed,cancelled" : rest;
    do {
        char word[16] = "";
        size_t length = strcspn(rest, ",");
        if (length < sizeof word) {
            memcpy(word, rest, length);
        }
        if (request->on_count == HOOK_ENDS_MOST || !hook_end_parse(word, &request->on[request->on_count])) {
            error_set(error, WEIR_INVALID_ARGUMENT, "--on: \"%.64s\" is no list of ends",
                      invocation_text(invocation, "on"));
            error_hint(error, "name completed, failed or cancelled, with commas between them");
            return false;
        }
        request->on_count++;
        rest += length;
    } while (*rest++ == ',');
    return true;
}

static enum weir_status print_hook(const struct invocation *invocation, const struct hook_request *request, bool is_new,
                                   struct weir_error *error)
{
    json_t *on = json_array();
    for (size_t i = 0; i < request->on_count; i++) {
        (void)json_array_append_new(on, json_string(item_state_name(request->on[i])));
    }
    return verb_print_act(invocation,
                          json_pack("{s:s, s:b, s:o, s:s?, s:s?, s:s, s:s}", "name", request->name, "is_new", is_new, "on",
                                    on, "workspace", request->workspace, "workflow", request->workflow, "start_workspace",
                                    request->start_workspace, "start_workflow", request->start_workflow),
                          error);
}

/* Sets the hook, or checks its names in a dry run. */
static enum weir_status apply_hook(struct invocation *invocation, struct store *store, const struct hook_request *request,
                                   const char *kind, struct weir_error *error)
{
    struct output *output = invocation->output;
    bool is_dry_run = invocation_is_dry_run(invocation);
    bool is_new = false;
    enum weir_status status = WEIR_OK;
    if (!is_dry_run) {
        status = store_hook_set(store, request, &is_new, error);
    } else if (request->workspace != NULL) {
        status = store_require_name(store, LIST_WORKSPACES, request->workspace, WEIR_WORKSPACE_NOT_FOUND, error);
    }
    if (status == WEIR_OK) {
        output_report_sign(output, SIGN_FINE, "%s %s %s; it starts %s in %s", kind, output_safe(output, request->name),
                           is_dry_run ? "would be set"
                           : is_new   ? "is made"
                                      : "is changed",
                           output_safe(output, request->start_workflow), output_safe(output, request->start_workspace));
        status = print_hook(invocation, request, is_new, error);
    }
    return status;
}

/* Of a row of LIST_WORKFLOWS: a text of a store, a value of a server. The caller releases it. */
static json_t *definition_of(const json_t *row)
{
    json_t *value = json_object_get(row, "definition");
    return json_is_string(value) ? json_load_text(json_string_value(value), JSON_REJECT_DUPLICATES) : json_deep_copy(value);
}

/* In any of its sections, or in an undo. */
static bool runs_program(const json_t *definition)
{
    static const char *const sections[] = {"steps", "on_failure", "finally"};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        const char *step_name;
        const json_t *step;
        json_object_foreach(json_object_get(definition, sections[i]), step_name, step)
        {
            if (json_object_get(step, "exec") != NULL || json_object_get(json_object_get(step, "undo"), "exec") != NULL) {
                return true;
            }
        }
    }
    return false;
}

/* A started execution sets off no hook, but its program may enqueue others that do. With --workflow the hook is for those
 * of one workflow, which the user has chosen. A workflow that is published later is not seen. */
static enum weir_status warn_of_loop(const struct invocation *invocation, struct store *store,
                                     const struct hook_request *request, struct weir_error *error)
{
    struct output *output = invocation->output;
    json_t *page = NULL;
    bool has_program = false;
    size_t i;
    const json_t *row;
    if (request->workflow != NULL) {
        return WEIR_OK;
    }
    enum weir_status status = page_read(store, LIST_WORKFLOWS, request->start_workflow, &page, error);
    json_array_foreach(json_object_get(page, "items"), i, row)
    {
        json_t *definition = definition_of(row);
        has_program = has_program || runs_program(definition);
        json_decref(definition);
    }
    json_decref(page);
    if (has_program) {
        output_report_sign(output, SIGN_WARN,
                           "%s runs a program: an execution that this enqueues starts the hook again, without end, unless"
                           " --workflow excludes it",
                           output_safe(output, request->start_workflow));
    }
    return status;
}

static enum weir_status set_hook(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct hook_request request = {.name = invocation_argument(invocation, 0),
                                   .workspace = invocation_text(invocation, "workspace"),
                                   .workflow = invocation_text(invocation, "workflow"),
                                   .start_workspace = invocation_text(invocation, "start-workspace"),
                                   .start_workflow = invocation_text(invocation, "start-workflow")};
    if (!read_ends(invocation, &request, error)) {
        return WEIR_INVALID_ARGUMENT;
    }
    enum weir_status status = WEIR_OK;
    if (invocation_is_dry_run(invocation)) {
        status = store_require_name(store, LIST_WORKSPACES, request.start_workspace, WEIR_WORKSPACE_NOT_FOUND, error);
    }
    if (status == WEIR_OK) {
        status = apply_hook(invocation, store, &request, "hook", error);
    }
    return status == WEIR_OK ? warn_of_loop(invocation, store, &request, error) : status;
}

enum weir_status verb_hook_set(struct invocation *invocation, struct weir_error *error)
{
    if (!invocation_has(invocation, "on") || !invocation_has(invocation, "start-workflow") ||
        !invocation_has(invocation, "start-workspace")) {
        return invocation_usage_error(invocation, error,
                                      "`weir hook set` needs --on ENDS, --start-workflow and --start-workspace");
    }
    return verb_with_store(invocation, STORE_CHANGE, set_hook, error);
}

/* --- webhook set --- */

/* The hook as it is, and what its webhook becomes. */
struct webhook {
    char workspace[sizeof WEBHOOK_PREFIX + HOOK_NAME_MAX];
    json_t *hooks;     /* the page of all hooks; texts of `request` may lie in it */
    const json_t *row; /* NULL: it is new */
    bool has_workspace;
    struct hook_request request;
    struct text canonical; /* of the workflow */
};

/* It waits 10 s after the first attempt, and twice as long after each further one, at most 10 minutes: 40 minutes in all.
 */
static json_t *new_delivery(const struct invocation *invocation)
{
    return json_pack("{s:s, s:{s:{s:{s:s, s:s, s:s}, s:s, s:{s:i, s:s, s:i, s:s}}}}", "name", WEBHOOK_WORKFLOW, "steps",
                     "post", "http", "method", "POST", "url", invocation_argument(invocation, 1), "body", "${.input}",
                     "timeout", "30s", "retry", "attempts", (int)WEBHOOK_ATTEMPTS, "backoff", "10s", "factor", 2, "max",
                     "10m");
}

/* *ret_value: the newest version of the workflow, NULL when there is none. The caller releases it. */
static enum weir_status read_delivery(struct store *store, const char *workspace, json_t **ret_value,
                                      struct weir_error *error)
{
    json_t *page = NULL;
    json_int_t newest = 0;
    size_t i;
    const json_t *row;
    enum weir_status status = page_read(store, LIST_WORKFLOWS, WEBHOOK_WORKFLOW, &page, error);
    json_array_foreach(json_object_get(page, "items"), i, row)
    {
        const char *its = json_string_value(json_object_get(row, "workspace"));
        json_int_t version = json_integer_value(json_object_get(row, "version"));
        if (its != NULL && strcmp(its, workspace) == 0 && version > newest) {
            newest = version;
            json_decref(*ret_value);
            *ret_value = definition_of(row);
        }
    }
    json_decref(page);
    return status;
}

/* Fills `canonical`: the workflow as it is, or a new one, with the address and the signature of the command. */
static enum weir_status write_delivery(const struct invocation *invocation, struct store *store, struct webhook *webhook,
                                       struct weir_error *error)
{
    struct definition *definition = NULL;
    json_t *value = NULL;
    const char *sign = invocation_text(invocation, "sign");
    enum weir_status status = webhook->row == NULL ? WEIR_OK : read_delivery(store, webhook->workspace, &value, error);
    if (status != WEIR_OK) {
        return status;
    }
    value = value == NULL ? new_delivery(invocation) : value;
    json_t *http = json_object_get(json_object_get(json_object_get(value, "steps"), "post"), "http");
    if (!json_is_object(http)) {
        json_decref(value);
        error_set(error, WEIR_CONFLICT, "the workflow %s of %s has no step \"post\" that sends a request", WEBHOOK_WORKFLOW,
                  webhook->workspace);
        error_hint(error, "change its address with `weir workflow apply`");
        return WEIR_CONFLICT;
    }
    bool is_fine = json_object_set_new(http, "url", json_string(invocation_argument(invocation, 1))) == 0 &&
                   (sign == NULL || json_object_set_new(http, "sign", json_string(sign)) == 0) &&
                   json_object_set_new(value, "workspace", json_string(webhook->workspace)) == 0;
    if (invocation_has(invocation, "no-sign")) {
        (void)json_object_del(http, "sign");
    }
    char *bytes = is_fine ? json_make_text(value, JSON_COMPACT) : NULL;
    json_decref(value);
    if (bytes == NULL) {
        return error_out_of_memory(error);
    }
    status = definition_read(bytes, strlen(bytes), "webhook", &definition, error);
    if (status == WEIR_OK) {
        status = definition_write(definition, &webhook->canonical, error);
    }
    definition_close(definition);
    free(bytes);
    return status;
}

static bool row_is(const json_t *row, const char *key, const char *expected)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text != NULL && strcmp(text, expected) == 0;
}

/* Reads the hook. Another hook of the name, and a workspace that is not its own, are not taken over. A store without room
 * for another hook is refused here as well, before the workspace and the workflow are made. */
static enum weir_status read_webhook(struct store *store, struct webhook *webhook, struct weir_error *error)
{
    const char *name = webhook->request.name;
    json_t *page = NULL;
    size_t i;
    const json_t *row;
    enum weir_status status = page_read(store, LIST_HOOKS, NULL, &webhook->hooks, error);
    if (status == WEIR_OK) {
        status = page_read(store, LIST_WORKSPACES, webhook->workspace, &page, error);
    }
    webhook->has_workspace = page_first(page) != NULL;
    json_decref(page);
    json_array_foreach(json_object_get(webhook->hooks, "items"), i, row)
    {
        webhook->row = row_is(row, "name", name) ? row : webhook->row;
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (webhook->row != NULL && !(row_is(webhook->row, "start_workspace", webhook->workspace) &&
                                  row_is(webhook->row, "start_workflow", WEBHOOK_WORKFLOW))) {
        error_set(error, WEIR_CONFLICT, "the hook \"%s\" is no webhook", name);
        error_hint(error, "choose another name, or delete it: weir hook delete %s", name);
        return WEIR_CONFLICT;
    }
    if (webhook->row == NULL && webhook->has_workspace) {
        error_set(error, WEIR_CONFLICT, "the workspace \"%s\" exists, and belongs to no webhook", webhook->workspace);
        error_hint(error, "choose another name, or delete it: weir workspace delete %s", webhook->workspace);
        return WEIR_CONFLICT;
    }
    if (webhook->row == NULL && json_array_size(json_object_get(webhook->hooks, "items")) >= HOOKS_MOST) {
        error_set(error, WEIR_ILLEGAL_STATE, "the store has %d hooks, which is the most", HOOKS_MOST);
        error_hint(error, "delete those that are not used: weir hook list");
        return WEIR_ILLEGAL_STATE;
    }
    return WEIR_OK;
}

/* A flag wins, then the switch for all, then the hook as it is. */
static const char *choose_filter(const struct invocation *invocation, const struct webhook *webhook, const char *flag,
                                 const char *all)
{
    const char *text = invocation_text(invocation, flag);
    return text != NULL                      ? text
           : invocation_has(invocation, all) ? NULL
                                             : json_string_value(json_object_get(webhook->row, flag));
}

static enum weir_status choose_request(const struct invocation *invocation, struct webhook *webhook,
                                       struct weir_error *error)
{
    struct hook_request *request = &webhook->request;
    size_t i;
    const json_t *end;
    request->workspace = choose_filter(invocation, webhook, "workspace", "all-workspaces");
    request->workflow = choose_filter(invocation, webhook, "workflow", "all-workflows");
    if (webhook->row == NULL || invocation_has(invocation, "on")) {
        return read_ends(invocation, request, error) ? WEIR_OK : WEIR_INVALID_ARGUMENT;
    }
    json_array_foreach(json_object_get(webhook->row, "on"), i, end)
    {
        if (request->on_count < HOOK_ENDS_MOST && hook_end_parse(json_string_value(end), &request->on[request->on_count])) {
            request->on_count++;
        }
    }
    return WEIR_OK;
}

/* The workspace and the workflow, before the hook that starts it. A workspace that is there keeps its plan and limits. A
 * new one takes each delivery, whatever limit of pending executions the plan of its customers has. */
static enum weir_status publish_delivery(struct store *store, const struct webhook *webhook, struct weir_error *error)
{
    struct published published;
    struct workspace_change change = {.name = webhook->workspace,
                                      .max_concurrent = WEBHOOK_SLOTS,
                                      .max_pending = PENDING_UNLIMITED,
                                      .paused = -1,
                                      .create = true};
    enum weir_status status = webhook->has_workspace ? WEIR_OK : store_set_workspace(store, &change, error);
    return status == WEIR_OK ? store_publish(store, WEBHOOK_WORKFLOW, webhook->workspace, webhook->canonical.data, NULL,
                                             &published, error)
                             : status;
}

static enum weir_status set_webhook(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct webhook webhook = {.canonical = {.max = DEFINITION_BYTES_MAX},
                              .request = {.name = invocation_argument(invocation, 0), .start_workflow = WEBHOOK_WORKFLOW}};
    enum weir_status status = hook_name_check(webhook.request.name, error);
    (void)snprintf(webhook.workspace, sizeof webhook.workspace, WEBHOOK_PREFIX "%s", webhook.request.name);
    webhook.request.start_workspace = webhook.workspace;
    if (status == WEIR_OK) {
        status = read_webhook(store, &webhook, error);
    }
    if (status == WEIR_OK) {
        status = choose_request(invocation, &webhook, error);
    }
    if (status == WEIR_OK && webhook.request.workspace != NULL) {
        status = store_require_name(store, LIST_WORKSPACES, webhook.request.workspace, WEIR_WORKSPACE_NOT_FOUND, error);
    }
    if (status == WEIR_OK) {
        status = write_delivery(invocation, store, &webhook, error);
    }
    if (status == WEIR_OK && !invocation_is_dry_run(invocation)) {
        status = publish_delivery(store, &webhook, error);
    }
    if (status == WEIR_OK) {
        status = apply_hook(invocation, store, &webhook.request, "webhook", error);
    }
    text_close(&webhook.canonical);
    json_decref(webhook.hooks);
    return status;
}

enum weir_status verb_webhook_set(struct invocation *invocation, struct weir_error *error)
{
    if ((invocation_has(invocation, "all-workspaces") && invocation_has(invocation, "workspace")) ||
        (invocation_has(invocation, "all-workflows") && invocation_has(invocation, "workflow")) ||
        (invocation_has(invocation, "no-sign") && invocation_has(invocation, "sign"))) {
        return invocation_usage_error(invocation, error,
                                      "`weir webhook set` takes one of a filter or --sign, and the switch"
                                      " that removes it");
    }
    return verb_with_store(invocation, STORE_CHANGE, set_webhook, error);
}

/* --- hook pause, resume, delete --- */

static enum weir_status set_hook_paused(struct invocation *invocation, struct store *store, bool paused,
                                        struct weir_error *error)
{
    struct output *output = invocation->output;
    const char *name = invocation_argument(invocation, 0);
    bool is_dry_run = invocation_is_dry_run(invocation);
    enum weir_status status = is_dry_run ? store_require_name(store, LIST_HOOKS, name, WEIR_NOT_FOUND, error)
                                         : store_hook_pause(store, name, paused, error);
    if (status == WEIR_OK) {
        output_report_sign(output, paused ? SIGN_PAUSED : SIGN_FINE, "hook %s %s%s", output_safe(output, name),
                           is_dry_run ? "would be " : "is ", paused ? "paused; its events wait" : "resumed");
        status = verb_print_act(invocation, json_pack("{s:s, s:b}", "name", name, "paused", paused), error);
    }
    return status;
}

static enum weir_status pause_hook(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return set_hook_paused(invocation, store, true, error);
}

static enum weir_status resume_hook(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return set_hook_paused(invocation, store, false, error);
}

enum weir_status verb_hook_pause(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, pause_hook, error);
}

enum weir_status verb_hook_resume(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, resume_hook, error);
}

static enum weir_status delete_hook(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct output *output = invocation->output;
    const char *name = invocation_argument(invocation, 0);
    bool is_dry_run = invocation_is_dry_run(invocation);
    enum weir_status status = is_dry_run ? store_require_name(store, LIST_HOOKS, name, WEIR_NOT_FOUND, error)
                                         : store_hook_delete(store, name, error);
    if (status == WEIR_OK) {
        output_report_sign(output, SIGN_FINE, "hook %s %s", output_safe(output, name),
                           is_dry_run ? "would be deleted" : "is deleted");
        status = verb_print_act(invocation, json_pack("{s:s}", "name", name), error);
    }
    return status;
}

enum weir_status verb_hook_delete(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, delete_hook, error);
}
