/* `weir failures`: the failed executions that were neither retried nor dismissed, in groups.
 *
 * store/failure_groups.c reads and counts, so that the HTTP API gives the same groups. This file prints a table. The
 * count of a group ends at the newest executions that are read. Then a sentence behind the table says so, because a table
 * that looks whole would hide the rest.
 *
 * An empty table is a sentence as well: with a filter it would look like a mistake in the filter. One thread.
 */
#include <inttypes.h>

#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"
#include "store/failure_groups.h"

/* The example is the newest execution of the group: its steps and logs are kept longest. */
static void print_failure_groups(struct output *output, const json_t *page, int64_t now_us)
{
    static const struct column columns[] = {
        {.title = "COUNT"},
        {.title = "CODE", .least = 8},
        {.title = "WORKFLOW", .least = 8},
        {.title = "WORKSPACE", .least = 8},
        {.title = "OLDEST"},
        {.title = "NEWEST"},
        {.title = "EXAMPLE", .least = 8},
    };
    struct table table;
    size_t i;
    json_t *row;
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(page, "items"), i, row)
    {
        table_cell(&table, field_text(output, row, "count"));
        table_cell(&table, field_text(output, row, "error_code"));
        table_cell(&table, field_text(output, row, "workflow"));
        table_cell(&table, field_text(output, row, "workspace"));
        table_cell(&table, output_ago(output, field_text(output, row, "first_at"), now_us));
        table_cell(&table, output_ago(output, field_text(output, row, "last_at"), now_us));
        table_cell(&table, field_text(output, row, "sample_id"));
    }
    table_close(&table);
    if (!field_is_true(page, "is_whole")) {
        output_report(output, "these are the newest %" PRId64 " of them; --where narrows the choice",
                      field_number(page, "executions_read", 0));
    }
}

static enum weir_status print_failures(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct execution_filter filter = {.id = NULL};
    json_t *page = NULL;
    int64_t now_us = 0;
    enum weir_status status = page_read_filter(invocation, store, &filter, error);
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK) {
        status = failure_groups_read(store, &filter, &page, error);
    }
    if (status == WEIR_OK && !output_object(invocation->output, page)) {
        if (page_size(page) > 0) {
            print_failure_groups(invocation->output, page, now_us);
        } else {
            output_report(invocation->output, "no failed execution waits to be retried or dismissed");
        }
    }
    json_decref(page);
    return status;
}

enum weir_status verb_failures(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, print_failures, error);
}
