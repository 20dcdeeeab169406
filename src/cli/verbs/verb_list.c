/* `weir list`: executions, newest first or in the order of the queue, one page for each call.
 *
 * The filter is made of --where, --workspace and --status, and its names are checked first: an empty list never hides a
 * misspelt name. The rows are data on stdout; the cursor of the next page and the count are messages on stderr. One
 * thread.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"

/* The first one is that of the order of the queue alone. */
static const struct column columns[] = {
    {.title = "PLACE", .align = COLUMN_RIGHT},
    {.title = "ID", .least = ID_COLUMNS_LEAST, .is_id = true},
    {.title = "STATUS"},
    {.title = "WORKSPACE", .least = 9},
    {.title = "WORKFLOW", .least = 10},
    {.title = "WHY", .least = 21},
    {.title = "AGE", .align = COLUMN_RIGHT},
};

/* Why it does not run, what it waits for, or why it ended as it did. */
static const char *reason_of_item(struct output *output, const json_t *item)
{
    static const char *const keys[] = {"pending_reason", "waiting_for", "error_code"};
    const char *reason = NULL;
    for (size_t i = 0; reason == NULL && i < sizeof keys / sizeof keys[0]; i++) {
        reason = field_text(output, item, keys[i]);
    }
    return reason;
}

static void print_executions(struct output *output, const json_t *page, enum list_order order, int64_t now_us)
{
    struct table table;
    size_t i;
    json_t *item;
    bool is_queue = order == ORDER_QUEUE;
    table_open(&table, output, is_queue ? columns : columns + 1, sizeof columns / sizeof columns[0] - !is_queue);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        const char *state = field_text(output, item, "status");
        if (is_queue && json_is_null(json_object_get(item, "place"))) {
            table_cell(&table, NULL);
        } else if (is_queue) {
            table_cell_format(&table, "%" PRId64, field_number(item, "place", 0));
        }
        table_cell(&table, field_text(output, item, "id"));
        table_cell_sign(&table, output_state_sign(state), state);
        table_cell(&table, field_text(output, item, "workspace"));
        table_cell(&table, field_text(output, item, "workflow"));
        table_cell(&table, reason_of_item(output, item));
        table_cell(&table, output_age(output, field_text(output, item, "created_at"), now_us));
    }
    table_close(&table);
}

/* The count, the cursor and an empty result go to stderr, so that stdout has rows alone. */
static void print_list_notes(const struct invocation *invocation, const json_t *page, bool is_counted)
{
    struct output *output = invocation->output;
    bool is_all = !invocation_has(invocation, "where") && !invocation_has(invocation, "workspace") &&
                  !invocation_has(invocation, "status") && !invocation_has(invocation, "cursor");
    const char *cursor = field_text(output, page, "next_cursor");
    if (is_counted) {
        output_report(output, "%" PRId64 "%s match", field_number(page, "count", 0),
                      field_is_true(page, "count_is_exact") ? "" : "+");
    }
    if (cursor != NULL) {
        output_report(output, "next page: --cursor %s", cursor);
    }
    if (page_size(page) == 0) {
        output_report(output, is_all ? "the store has no execution; `weir enqueue -w WORKSPACE WORKFLOW` makes one"
                                     : "no execution matches");
    }
}

enum weir_status verb_list(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *page = NULL;
    int64_t now_us = 0;
    const char *order = invocation_text(invocation, "order");
    struct list_options options = {
        .kind = LIST_EXECUTIONS,
        .cursor = invocation_text(invocation, "cursor"),
        .limit = (size_t)invocation_number(invocation, "limit", LIST_LIMIT_DEFAULT),
        .count = invocation_has(invocation, "count"),
        .order = order != NULL && strcmp(order, "queue") == 0 ? ORDER_QUEUE : ORDER_NEWEST,
    };
    enum weir_status status = verb_open_store(invocation, STORE_READ, &store, error);
    if (status == WEIR_OK) {
        status = page_read_filter(invocation, store, &options.filter, error);
    }
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK) {
        status = store_list(store, &options, &page, error);
    }
    if (status == WEIR_OK && !output_page(invocation->output, page)) {
        if (page_size(page) > 0) {
            print_executions(invocation->output, page, options.order, now_us);
        }
        print_list_notes(invocation, page, options.count);
    }
    json_decref(page);
    store_close(store);
    return status;
}
