/* `weir audit`: the acts on record, newest first.
 *
 * The store filters; this file reads the flags and prints a page. One thread.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/act_change.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"
#include "store/filter.h"

/* The change of a setting, or the number of executions, or the detail of an act that changes neither. */
static void change_of_row(struct output *output, const json_t *row, char to[ACT_CHANGE_TEXT_MAX])
{
    int64_t affected = field_number(row, "affected", 0);
    act_change_text(json_object_get(row, "before"), json_object_get(row, "after"), to);
    if (affected > 0 && to[0] == '\0') {
        (void)snprintf(to, ACT_CHANGE_TEXT_MAX, "%" PRId64 " execution%s", affected, affected == 1 ? "" : "s");
    }
    text_copy(to, ACT_CHANGE_TEXT_MAX, output_safe(output, to));
}

static void print_acts(struct output *output, const json_t *page, int64_t now_us)
{
    static const struct column columns[] = {
        {.title = "WHEN"},
        {.title = "ACTOR", .least = 8},
        {.title = "ACT", .least = 6},
        {.title = "SUBJECT", .least = 8},
        {.title = "CHANGE", .least = 8},
        {.title = "REASON", .least = 6},
    };
    struct table table;
    size_t i;
    json_t *row;
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(page, "items"), i, row)
    {
        char change[ACT_CHANGE_TEXT_MAX];
        change_of_row(output, row, change);
        table_cell(&table, output_ago(output, field_text(output, row, "at"), now_us));
        table_cell(&table, field_text(output, row, "actor"));
        table_cell(&table, field_text(output, row, "act"));
        table_cell(&table, field_text(output, row, "subject"));
        table_cell(&table, change);
        table_cell(&table, field_text(output, row, "reason"));
    }
    table_close(&table);
    const char *cursor = field_text(output, page, "next_cursor");
    if (cursor != NULL) {
        output_report(output, "next page: --cursor %s", cursor);
    }
}

static enum weir_status print_act_page(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct list_options options = {
        .kind = LIST_AUDIT,
        .name = invocation_text(invocation, "subject"),
        .actor = invocation_text(invocation, "actor"),
        .act = invocation_text(invocation, "act"),
        .cursor = invocation_text(invocation, "cursor"),
        .limit = (size_t)invocation_number(invocation, "limit", LIST_LIMIT_DEFAULT),
    };
    const char *since = invocation_text(invocation, "since");
    json_t *page = NULL;
    int64_t now_us = 0;
    enum weir_status status = store_time(store, &now_us, error);
    if (status == WEIR_OK && since != NULL) {
        status = filter_parse_time("--since", since, now_us, &options.filter.created_since_us, error);
    }
    if (status == WEIR_OK) {
        status = store_list(store, &options, &page, error);
    }
    if (status == WEIR_OK && !output_page(invocation->output, page)) {
        if (page_size(page) > 0) {
            print_acts(invocation->output, page, now_us);
        } else {
            output_report(invocation->output, "no act is on record that matches");
        }
    }
    json_decref(page);
    return status;
}

enum weir_status verb_audit(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, print_act_page, error);
}
