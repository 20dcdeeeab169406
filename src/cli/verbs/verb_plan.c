/* `weir plan list` and `weir plan set`.
 *
 * A change holds for the next assignment of the scheduler. A lower limit never stops an execution that runs: the
 * workspace gets no new slot until it is below the limit. One thread.
 */
#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/act_change.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"

static void print_plans(struct output *output, const json_t *page, int64_t now_us)
{
    static const struct column columns[] = {
        {.title = "PLAN", .least = 8},
        {.title = "MAX CONCURRENT", .align = COLUMN_RIGHT},
        {.title = "MAX PENDING", .align = COLUMN_RIGHT},
        {.title = "WEIGHT", .align = COLUMN_RIGHT},
        {.title = "WORKSPACES", .align = COLUMN_RIGHT},
    };
    struct table table;
    size_t i;
    json_t *item;
    (void)now_us; /* a plan has no times */
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        table_cell(&table, field_text(output, item, "name"));
        table_cell(&table, field_text(output, item, "max_concurrent"));
        table_cell(&table, field_number(item, "max_pending", 0) > 0 ? field_text(output, item, "max_pending") : NULL);
        table_cell(&table, field_text(output, item, "weight"));
        table_cell(&table, field_text(output, item, "workspace_count"));
    }
    table_close(&table);
}

static enum weir_status list_plans(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    static const struct list_view view = {.kind = LIST_PLANS, .print = print_plans};
    return verb_print_list(invocation, store, &view, error);
}

enum weir_status verb_plan_list(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, list_plans, error);
}

/* A value that the command does not change is null. */
static enum weir_status print_plan_change(const struct invocation *invocation, const struct plan_change *change,
                                          struct weir_error *error)
{
    json_t *limit = change->max_concurrent > 0 ? json_integer(change->max_concurrent) : json_null();
    json_t *weight = change->weight > 0 ? json_integer(change->weight) : json_null();
    return verb_print_act(invocation,
                          json_pack("{s:s, s:o, s:o, s:o}", "name", change->name, "max_concurrent", limit, "weight", weight,
                                    "max_pending", verb_pending_limit(change->max_pending)),
                          error);
}

/* Makes or changes the plan, and reports the change. */
static enum weir_status set_plan(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct plan_change change = {
        .name = invocation_argument(invocation, 0),
        .max_concurrent = invocation_number(invocation, "max-concurrent", 0),
        .weight = (int)invocation_number(invocation, "weight", 0),
        .max_pending = verb_pending_change(invocation),
    };
    bool is_dry_run = invocation_is_dry_run(invocation);
    enum weir_status status = is_dry_run ? WEIR_OK : store_set_plan(store, &change, error);
    if (status == WEIR_OK) {
        char changed[ACT_CHANGE_TEXT_MAX] = "";
        act_last_change_text(store, changed);
        output_report_sign(invocation->output, SIGN_FINE, "plan %s %s%s%s", output_safe(invocation->output, change.name),
                           is_dry_run ? "would be set" : "is set, with effect at once", changed[0] == '\0' ? "" : ": ",
                           output_safe(invocation->output, changed));
        status = print_plan_change(invocation, &change, error);
    }
    return status;
}

enum weir_status verb_plan_set(struct invocation *invocation, struct weir_error *error)
{
    if (!invocation_has(invocation, "max-concurrent") && !invocation_has(invocation, "weight") &&
        !invocation_has(invocation, "max-pending")) {
        return invocation_usage_error(invocation, error,
                                      "`weir plan set` needs --max-concurrent N, --weight W or --max-pending N");
    }
    return verb_with_store(invocation, STORE_CHANGE, set_plan, error);
}
