/* `weir workspace list`, `show`, `set`, `pause`, `resume`, `rename`.
 *
 * `set` makes a missing workspace, so a new customer needs one command; the message reports whether it was made or changed.
 * The plan must exist. Changes hold for the next assignment of the scheduler; running executions continue. One thread.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/act_change.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"

/* With the limit, where there is one. */
static void print_pending(struct table *table, struct output *output, const json_t *item)
{
    int64_t most = field_number(item, "pending_max", 0);
    if (most > 0) {
        table_cell_format(table, "%" PRId64 "/%" PRId64 "%s", field_number(item, "pending", 0), most,
                          field_text(output, item, "max_pending") != NULL ? " own" : "");
    } else {
        table_cell(table, field_text(output, item, "pending"));
    }
}

/* How far the workspace is behind: the age of the oldest of the executions that it starts next. */
static void print_oldest(struct table *table, const json_t *item)
{
    char age[DURATION_TEXT_MAX] = "-";
    int64_t age_us = field_number(item, "oldest_pending_age_us", -1);
    if (age_us >= 0) {
        duration_format_short(age_us, age);
    }
    table_cell(table, age);
}

static void print_workspace_rows(struct output *output, const json_t *page, int64_t now_us)
{
    static const struct column columns[] = {
        {.title = "WORKSPACE", .least = 9},
        {.title = "PLAN", .least = 6},
        {.title = "SLOTS", .align = COLUMN_RIGHT},
        {.title = "PENDING", .align = COLUMN_RIGHT},
        {.title = "OLDEST", .align = COLUMN_RIGHT},
        {.title = "WAITING", .align = COLUMN_RIGHT},
        {.title = "DONE", .align = COLUMN_RIGHT},
        {.title = "FAILED", .align = COLUMN_RIGHT},
        {.title = "STATE"},
    };
    struct table table;
    size_t i;
    json_t *item;
    (void)now_us; /* no column shows a time */
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        int64_t used = field_number(item, "slots_used", 0);
        int64_t most = field_number(item, "slots_max", 0);
        bool is_paused = field_is_true(item, "paused");
        table_cell(&table, field_text(output, item, "name"));
        table_cell(&table, field_text(output, item, "plan"));
        table_cell_format(&table, "%" PRId64 "/%" PRId64 "%s", used, most,
                          field_text(output, item, "max_concurrent") != NULL ? " own" : "");
        print_pending(&table, output, item);
        print_oldest(&table, item);
        table_cell(&table, field_text(output, item, "waiting"));
        table_cell(&table, field_text(output, item, "completed"));
        table_cell(&table, field_text(output, item, "failed"));
        table_cell_sign(&table,
                        is_paused      ? SIGN_PAUSED
                        : used >= most ? SIGN_WARN
                                       : SIGN_FINE,
                        is_paused      ? "paused"
                        : used >= most ? "full"
                                       : "open");
    }
    table_close(&table);
}

static enum weir_status list_workspaces(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    const char *prefix = invocation_text(invocation, "prefix");
    const struct list_view view = {.kind = LIST_WORKSPACES,
                                   .print = print_workspace_rows,
                                   .prefix = prefix,
                                   .empty = prefix != NULL
                                                ? "no workspace has a name with this prefix; `weir workspace list` has all"
                                                : "no workspace yet; `weir workspace set NAME --plan free` makes one"};
    return verb_print_list(invocation, store, &view, error);
}

enum weir_status verb_workspace_list(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, list_workspaces, error);
}

static enum weir_status show_workspace(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    json_t *page = NULL;
    const char *name = invocation_argument(invocation, 0);
    enum weir_status status = store_require_name(store, LIST_WORKSPACES, name, WEIR_WORKSPACE_NOT_FOUND, error);
    if (status == WEIR_OK) {
        status = page_read(store, LIST_WORKSPACES, name, &page, error);
    }
    if (status == WEIR_OK && !output_object(invocation->output, page_first(page))) {
        print_workspace_rows(invocation->output, page, 0);
    }
    json_decref(page);
    return status;
}

enum weir_status verb_workspace_show(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, show_workspace, error);
}

/* --- set, pause, resume --- */

static enum weir_status workspace_exists(struct store *store, const char *name, bool *ret_exists, struct weir_error *error)
{
    json_t *page = NULL;
    enum weir_status status = page_read(store, LIST_WORKSPACES, name, &page, error);
    *ret_exists = page_size(page) > 0;
    json_decref(page);
    return status;
}

/* A value that the command does not change is null. */
static enum weir_status print_workspace_change(const struct invocation *invocation, const struct workspace_change *change,
                                               bool is_new, struct weir_error *error)
{
    const char *plan = change->plan == NULL && is_new ? "free" : change->plan;
    json_t *limit = change->max_concurrent > 0 ? json_integer(change->max_concurrent) : json_null();
    return verb_print_act(invocation,
                          json_pack("{s:s, s:b, s:s?, s:o, s:o, s:b}", "name", change->name, "is_new", is_new, "plan", plan,
                                    "max_concurrent", limit, "max_pending", verb_pending_limit(change->max_pending),
                                    "as_plan", change->max_concurrent < 0),
                          error);
}

/* Makes or changes the workspace, and reports which. */
static enum weir_status set_workspace(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct output *output = invocation->output;
    bool was_there = false;
    struct workspace_change change = {
        .name = invocation_argument(invocation, 0),
        .plan = invocation_text(invocation, "plan"),
        .max_concurrent = invocation_has(invocation, "as-plan") ? -1 : invocation_number(invocation, "max-concurrent", 0),
        .max_pending = invocation_has(invocation, "as-plan") ? PENDING_OF_PLAN : verb_pending_change(invocation),
        .paused = -1,
        .create = true,
    };
    enum weir_status status = workspace_exists(store, change.name, &was_there, error);
    if (status == WEIR_OK && change.plan != NULL) {
        status = store_require_name(store, LIST_PLANS, change.plan, WEIR_PLAN_NOT_FOUND, error);
    }
    if (status == WEIR_OK && was_there && change.plan == NULL && change.max_concurrent == 0 && change.max_pending == 0) {
        return invocation_usage_error(
            invocation, error,
            "workspace %s exists; give --plan, --max-concurrent, --max-pending or --as-plan to change it", change.name);
    }
    if (status != WEIR_OK) {
        return status;
    }
    const char *would = invocation_is_dry_run(invocation) ? "would be " : "";
    status = invocation_is_dry_run(invocation) ? WEIR_OK : store_set_workspace(store, &change, error);
    if (status == WEIR_OK) {
        char changed[ACT_CHANGE_TEXT_MAX] = "";
        act_last_change_text(store, changed);
        if (was_there && changed[0] != '\0') {
            output_report_sign(output, SIGN_FINE, "workspace %s changed: %s", output_safe(output, change.name),
                               output_safe(output, changed));
            return print_workspace_change(invocation, &change, false, error);
        }
        output_report_sign(output, SIGN_FINE, "workspace %s %s%s%s%s", output_safe(output, change.name), would,
                           was_there ? "changed" : "made",
                           change.plan != NULL ? ", plan "
                           : was_there         ? ""
                                               : ", plan free",
                           change.plan != NULL ? output_safe(output, change.plan) : "");
        status = print_workspace_change(invocation, &change, !was_there, error);
    }
    return status;
}

enum weir_status verb_workspace_set(struct invocation *invocation, struct weir_error *error)
{
    const char *own = invocation_has(invocation, "max-concurrent") ? "max-concurrent"
                      : invocation_has(invocation, "max-pending")  ? "max-pending"
                                                                   : NULL;
    if (invocation_has(invocation, "as-plan") && own != NULL) {
        return invocation_usage_error(invocation, error, "--as-plan and --%s contradict each other", own);
    }
    return verb_with_store(invocation, STORE_CHANGE, set_workspace, error);
}

/* Sets or ends the pause of a workspace. */
static enum weir_status set_workspace_paused(struct invocation *invocation, struct store *store, bool paused,
                                             struct weir_error *error)
{
    struct output *output = invocation->output;
    struct workspace_change change = {.name = invocation_argument(invocation, 0), .paused = paused};
    bool is_dry_run = invocation_is_dry_run(invocation);
    enum weir_status status = is_dry_run
                                  ? store_require_name(store, LIST_WORKSPACES, change.name, WEIR_WORKSPACE_NOT_FOUND, error)
                                  : store_set_workspace(store, &change, error);
    if (status == WEIR_OK) {
        output_report_sign(output, paused ? SIGN_PAUSED : SIGN_FINE, "workspace %s %s%s", output_safe(output, change.name),
                           is_dry_run ? "would be " : "is ", paused ? "paused; running executions continue" : "resumed");
        status = verb_print_act(invocation, json_pack("{s:s, s:b}", "name", change.name, "paused", paused), error);
    }
    return status;
}

static enum weir_status pause_workspace(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return set_workspace_paused(invocation, store, true, error);
}

static enum weir_status resume_workspace(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return set_workspace_paused(invocation, store, false, error);
}

enum weir_status verb_workspace_pause(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, pause_workspace, error);
}

enum weir_status verb_workspace_resume(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, resume_workspace, error);
}

/* --- rename --- */

/* --dry-run: the refusals that the names alone give now. */
static enum weir_status rehearse_rename(struct store *store, const char *name, const char *new_name,
                                        struct weir_error *error)
{
    bool is_taken = false;
    enum weir_status status = store_require_name(store, LIST_WORKSPACES, name, WEIR_WORKSPACE_NOT_FOUND, error);
    if (status == WEIR_OK) {
        status = workspace_exists(store, new_name, &is_taken, error);
    }
    if (status == WEIR_OK && is_taken) {
        status = error_set(error, WEIR_CONFLICT, "a workspace \"%s\" exists already", new_name);
    }
    return status;
}

static enum weir_status rename_workspace(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct output *output = invocation->output;
    const char *name = invocation_argument(invocation, 0);
    const char *new_name = invocation_argument(invocation, 1);
    bool is_dry_run = invocation_is_dry_run(invocation);
    enum weir_status status =
        is_dry_run ? rehearse_rename(store, name, new_name, error) : store_rename_workspace(store, name, new_name, error);
    if (status == WEIR_OK) {
        output_report_sign(output, SIGN_FINE, "workspace %s %srenamed to %s", output_safe(output, name),
                           is_dry_run ? "would be " : "is ", output_safe(output, new_name));
        status = verb_print_act(invocation, json_pack("{s:s, s:s}", "name", name, "new_name", new_name), error);
    }
    return status;
}

enum weir_status verb_workspace_rename(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, rename_workspace, error);
}
