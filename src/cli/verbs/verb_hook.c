/* `weir hook set`, `list`, `pause`, `resume`, `delete`, and `weir webhook set`.
 *
 * A webhook is a hook whose workflow weir publishes itself: one `http` step that sends the event, in a workspace of its
 * own, so that it takes no slot of a tenant. It is made of the verbs that make a workspace, publish a workflow and set a
 * hook, and each of these is on record. A repetition changes what differs. One thread.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"
#include "definition/definition.h"

/* Of a webhook. Its executions hold their slots while they wait for the next attempt, so a receiver that does not answer
 * must not fill the nodes. */
enum { WEBHOOK_SLOTS = 5 };
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
        bool is_paused = field_is_true(item, "paused");
        const char *failure = field_text(output, item, "error");
        table_cell(&table, field_text(output, item, "name"));
        table_cell_sign(&table,
                        is_paused         ? SIGN_PAUSED
                        : failure != NULL ? SIGN_WARN
                                          : SIGN_FINE,
                        is_paused         ? "paused"
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
    return status == WEIR_OK ? apply_hook(invocation, store, &request, "hook", error) : status;
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

/* The workflow as canonical text. It retries for about a day: ten waits that double from 10 s, and then one an hour. */
static enum weir_status write_webhook(const struct invocation *invocation, const char *workspace, struct text *canonical,
                                      struct weir_error *error)
{
    struct definition *definition = NULL;
    json_t *value =
        json_pack("{s:s, s:s, s:{s:{s:{s:s, s:s, s:s, s:s*}, s:s, s:{s:i, s:s, s:i, s:s}}}}", "name", WEBHOOK_WORKFLOW,
                  "workspace", workspace, "steps", "post", "http", "method", "POST", "url",
                  invocation_argument(invocation, 1), "body", "${.input}", "sign", invocation_text(invocation, "sign"),
                  "timeout", "30s", "retry", "attempts", 32, "backoff", "10s", "factor", 2, "max", "1h");
    char *bytes = json_dumps(value, JSON_COMPACT);
    json_decref(value);
    if (bytes == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = definition_read(bytes, strlen(bytes), "webhook", &definition, error);
    if (status == WEIR_OK) {
        status = definition_write(definition, canonical, error);
    }
    definition_close(definition);
    free(bytes);
    return status;
}

/* A workspace that is there keeps its plan and limit. */
static enum weir_status make_webhook_workspace(struct store *store, const char *name, struct weir_error *error)
{
    json_t *page = NULL;
    struct workspace_change change = {.name = name, .max_concurrent = WEBHOOK_SLOTS, .paused = -1, .create = true};
    enum weir_status status = page_read(store, LIST_WORKSPACES, name, &page, error);
    bool is_there = page_first(page) != NULL;
    json_decref(page);
    return status != WEIR_OK || is_there ? status : store_set_workspace(store, &change, error);
}

static enum weir_status set_webhook(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    char workspace[sizeof WEBHOOK_PREFIX + HOOK_NAME_MAX];
    struct text canonical = {.max = DEFINITION_BYTES_MAX};
    struct published published;
    struct hook_request request = {.name = invocation_argument(invocation, 0),
                                   .workspace = invocation_text(invocation, "workspace"),
                                   .workflow = invocation_text(invocation, "workflow"),
                                   .start_workspace = workspace,
                                   .start_workflow = WEBHOOK_WORKFLOW};
    if (!read_ends(invocation, &request, error)) {
        return WEIR_INVALID_ARGUMENT;
    }
    enum weir_status status = hook_name_check(request.name, error); /* before the workspace is made */
    (void)snprintf(workspace, sizeof workspace, WEBHOOK_PREFIX "%s", request.name);
    if (status == WEIR_OK && request.workspace != NULL) {
        status = store_require_name(store, LIST_WORKSPACES, request.workspace, WEIR_WORKSPACE_NOT_FOUND, error);
    }
    if (status == WEIR_OK) {
        status = write_webhook(invocation, workspace, &canonical, error);
    }
    if (status == WEIR_OK && !invocation_is_dry_run(invocation)) {
        status = make_webhook_workspace(store, workspace, error);
    }
    if (status == WEIR_OK && !invocation_is_dry_run(invocation)) {
        status = store_publish(store, WEBHOOK_WORKFLOW, workspace, canonical.data, NULL, &published, error);
    }
    text_close(&canonical);
    return status == WEIR_OK ? apply_hook(invocation, store, &request, "webhook", error) : status;
}

enum weir_status verb_webhook_set(struct invocation *invocation, struct weir_error *error)
{
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
