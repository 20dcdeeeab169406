/* `weir worker list`: the nodes that have handlers, with their language and their use.
 *
 * A worker is a node with handlers: those of its program in C, Python or TypeScript, or those of its workers over HTTP. The
 * rows are those of the nodes in the store. A node without handlers is left out, and a stopped or dead one too, unless
 * --all is given. One thread.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"

static void print_workers(struct output *output, const json_t *page, int64_t now_us)
{
    static const struct column columns[] = {
        {.title = "WORKER", .least = 10},
        {.title = "STATE"},
        {.title = "GROUP", .least = 7},
        {.title = "LANGUAGE"},
        {.title = "BUSY", .align = COLUMN_RIGHT},
        {.title = "SLOTS", .align = COLUMN_RIGHT},
        {.title = "SEEN"},
        {.title = "HANDLERS", .least = 10},
    };
    struct table table;
    size_t i;
    json_t *item;
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        size_t k;
        json_t *name;
        char handlers[256] = "";
        size_t used = 0;
        json_array_foreach(json_object_get(item, "handlers"), k, name)
        {
            const char *safe = output_safe(output, json_string_value(name));
            int length = snprintf(handlers + used, sizeof handlers - used, "%s%s", k == 0 ? "" : " ", safe);
            used += length > 0 ? (size_t)length : 0;
            if (used >= sizeof handlers) {
                break;
            }
        }
        table_cell(&table, field_text(output, item, "name"));
        table_cell(&table, field_text(output, item, "state"));
        table_cell(&table, field_text(output, item, "executor_group"));
        table_cell(&table, field_text(output, item, "language"));
        table_cell(&table, field_text(output, item, "running"));
        table_cell(&table, field_text(output, item, "capacity"));
        table_cell(&table, output_ago(output, field_text(output, item, "seen_at"), now_us));
        table_cell(&table, handlers);
    }
    table_close(&table);
}

/* The fields of a worker, of those of its node. NULL when out of memory. */
static json_t *worker_of(const json_t *node)
{
    const char *language = json_string_value(json_object_get(node, "language"));
    return json_pack("{s:O, s:O, s:O, s:O, s:s, s:O, s:O, s:O, s:O}", "id", json_object_get(node, "id"), "name",
                     json_object_get(node, "name"), "state", json_object_get(node, "state"), "executor_group",
                     json_object_get(node, "executor_group"), "language", language != NULL ? language : "C", "handlers",
                     json_object_get(node, "handlers"), "running", json_object_get(node, "running"), "capacity",
                     json_object_get(node, "capacity"), "seen_at", json_object_get(node, "seen_at"));
}

/* Keeps the nodes with handlers. */
static enum weir_status keep_workers(const struct invocation *invocation, struct store *store, json_t *page,
                                     struct weir_error *error)
{
    (void)store;
    size_t i;
    json_t *node;
    json_t *workers = json_array();
    enum weir_status status = workers == NULL ? error_out_of_memory(error) : WEIR_OK;
    json_array_foreach(json_object_get(page, "items"), i, node)
    {
        bool has_handlers = json_array_size(json_object_get(node, "handlers")) > 0;
        if (status == WEIR_OK && has_handlers && (invocation_has(invocation, "all") || row_node_is_live(node)) &&
            json_array_append_new(workers, worker_of(node)) != 0) {
            status = error_out_of_memory(error);
        }
    }
    if (status != WEIR_OK) {
        json_decref(workers);
        return status;
    }
    (void)json_object_set_new(page, "count", json_integer((json_int_t)json_array_size(workers)));
    return json_object_set_new(page, "items", workers) == 0 ? WEIR_OK : error_out_of_memory(error);
}

static enum weir_status list_workers(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    static const struct list_view view = {
        .kind = LIST_NODES,
        .print = print_workers,
        .adjust = keep_workers,
        .empty = "no live node has handlers; `weir worker APP` (Python) or `npx weir worker APP` starts one,"
                 " `weir worker list --all` also lists stopped ones"};
    return verb_print_list(invocation, store, &view, error);
}

enum weir_status verb_worker_list(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, list_workers, error);
}
