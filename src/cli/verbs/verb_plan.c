#include "base/error.h"
#include "cli/arguments/command.h"
#include "cli/output/json_fields.h"

static void print_table(struct output *output, const json_t *page)
{
    static const struct column columns[] = {
        {.title = "PLAN", .least = 8},
        {.title = "MAX CONCURRENT", .align = COLUMN_RIGHT},
        {.title = "WEIGHT", .align = COLUMN_RIGHT},
        {.title = "WORKSPACES", .align = COLUMN_RIGHT},
    };
    struct table table;
    size_t i;
    json_t *item;
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        table_cell(&table, field_text(output, item, "name"));
        table_cell(&table, field_text(output, item, "max_concurrent"));
        table_cell(&table, field_text(output, item, "weight"));
        table_cell(&table, field_text(output, item, "workspaces"));
    }
    table_close(&table);
}

enum weir_status verb_plan_list(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *page = NULL;
    enum weir_status status = invocation_open_store(invocation, STORE_READ, &store, error);
    if (status == WEIR_OK) {
        status = page_read(store, LIST_PLANS, NULL, &page, error);
    }
    if (status == WEIR_OK && !output_page(invocation->output, page)) {
        print_table(invocation->output, page);
    }
    json_decref(page);
    store_close(store);
    return status;
}

/* What stays as it was is null. */
static enum weir_status print_change(const struct invocation *invocation, const struct plan_change *change,
                                     struct weir_error *error)
{
    json_t *limit = change->max_concurrent > 0 ? json_integer(change->max_concurrent) : json_null();
    json_t *weight = change->weight > 0 ? json_integer(change->weight) : json_null();
    return invocation_print_act(
        invocation, json_pack("{s:s, s:o, s:o}", "name", change->name, "max_concurrent", limit, "weight", weight), error);
}

enum weir_status verb_plan_set(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    struct plan_change change = {
        .name = invocation_argument(invocation, 0),
        .max_concurrent = invocation_number(invocation, "max-concurrent", 0),
        .weight = (int)invocation_number(invocation, "weight", 0),
    };
    if (change.max_concurrent == 0 && change.weight == 0) {
        return invocation_usage_error(invocation, error, "`weir plan set` needs --max-concurrent N or --weight W");
    }
    enum weir_status status = invocation_open_store(invocation, STORE_CHANGE, &store, error);
    if (status == WEIR_OK && !invocation_is_dry_run(invocation)) {
        status = store_set_plan(store, &change, error);
    }
    if (status == WEIR_OK) {
        output_say_sign(invocation->output, SIGN_FINE, "plan %s %s", output_safe(invocation->output, change.name),
                        invocation_is_dry_run(invocation) ? "would be set" : "set; it holds from now on");
        status = print_change(invocation, &change, error);
    }
    store_close(store);
    return status;
}
