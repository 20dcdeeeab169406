/* `weir workflow list`, `show`. The lists leave out workflows that belong to another workspace, when --workspace is given.
 * One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"

/* --- list, show --- */

static void print_workflows(struct output *output, const json_t *page, int64_t now_us)
{
    static const struct column columns[] = {
        {.title = "WORKFLOW", .least = 10},
        {.title = "VERSION", .align = COLUMN_RIGHT},
        {.title = "OWNER", .least = 8},
        {.title = "GROUP", .least = 7},
        {.title = "CREATED"},
        {.title = "STATE"},
    };
    struct table table;
    size_t i;
    json_t *item;
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        const char *owner = field_text(output, item, "workspace");
        table_cell(&table, field_text(output, item, "name"));
        table_cell(&table, field_text(output, item, "version"));
        table_cell(&table, owner != NULL ? owner : "(all)");
        table_cell(&table, field_text(output, json_object_get(item, "definition"), "executor_group"));
        table_cell(&table, output_ago(output, field_text(output, item, "created_at"), now_us));
        table_cell(&table, field_is_true(item, "disabled") ? "disabled" : "");
    }
    table_close(&table);
}

/* Removes the workflows of other workspaces from the page, and turns the text of each definition into JSON. Only rows of a
 * named workflow have sources. */
static void tidy_workflows(json_t *page, const char *workspace, bool has_sources)
{
    json_t *items = json_object_get(page, "items");
    for (size_t i = json_array_size(items); i-- > 0;) {
        json_t *item = json_array_get(items, i);
        const char *owner = json_string_value(json_object_get(item, "workspace"));
        const char *text = json_string_value(json_object_get(item, "definition"));
        if (workspace != NULL && owner != NULL && strcmp(owner, workspace) != 0) {
            (void)json_array_remove(items, i);
        } else if (text != NULL) {
            json_t *definition = json_load_text(text, JSON_REJECT_DUPLICATES);
            if (definition != NULL) {
                (void)json_object_set_new(item, "definition", definition);
            }
        }
        if (!has_sources) {
            (void)json_object_del(item, "source");
        }
    }
    (void)json_object_set_new(page, "count", json_integer((json_int_t)json_array_size(items)));
}

/* Checks the names of the call, then keeps the workflows that the workspace may run. */
static enum weir_status read_workflows(const struct invocation *invocation, struct store *store, json_t **ret_page,
                                       struct weir_error *error)
{
    const char *name = invocation_argument(invocation, 0);
    const char *workspace = invocation_text(invocation, "workspace");
    enum weir_status status = WEIR_OK;
    if (workspace != NULL) {
        status = store_require_name(store, LIST_WORKSPACES, workspace, WEIR_WORKSPACE_NOT_FOUND, error);
    }
    if (status == WEIR_OK && name != NULL) {
        status = page_require_workflow(store, workspace, name, error);
    }
    if (status == WEIR_OK) {
        const struct list_options options = {
            .kind = LIST_WORKFLOWS, .name = name, .filter.workspace = workspace, .limit = LIST_LIMIT_MOST};
        status = page_read_all(store, &options, ret_page, error);
    }
    if (status == WEIR_OK) {
        tidy_workflows(*ret_page, workspace, name != NULL);
    }
    return status;
}

static enum weir_status list_workflows(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    json_t *page = NULL;
    int64_t now_us = 0;
    enum weir_status status = read_workflows(invocation, store, &page, error);
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK && !output_page(invocation->output, page)) {
        if (page_size(page) > 0) {
            print_workflows(invocation->output, page, now_us);
        } else {
            output_report(invocation->output, "no workflow yet; `weir workflow apply FILE` publishes one");
        }
    }
    json_decref(page);
    return status;
}

enum weir_status verb_workflow_list(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, list_workflows, error);
}

/* Prints line by line, because a text of the store may hold control characters. Ends the text of each line with a NUL. */
static void print_lines(struct output *output, char *text)
{
    for (char *line = text; line != NULL && *line != '\0';) {
        char *end = line + strcspn(line, "\n");
        bool is_last = *end == '\0';
        *end = '\0';
        output_print(output, "%s\n", output_safe(output, line));
        line = is_last ? end : end + 1;
    }
}

/* Prints the YAML that was published: byte for byte into a pipe or file, so that it can be published again. */
static void print_source(struct output *output, const char *source)
{
    char *copy = output->out_is_terminal ? strdup(source) : NULL;
    if (copy != NULL) {
        print_lines(output, copy);
    } else if (!output->out_is_terminal) {
        output_bytes(output, source, strlen(source));
    }
    free(copy);
}

/* Prints one version with its source, or with its definition as JSON when it has none. */
static void print_definition(struct output *output, const json_t *item)
{
    const char *owner = field_text(output, item, "workspace");
    const char *group = field_text(output, json_object_get(item, "definition"), "executor_group");
    output_print(output, "%s v%s, %s%s%s%s, published %s\n", field_text(output, item, "name"),
                 field_text(output, item, "version"), owner != NULL ? "owned by " : "for every workspace",
                 owner != NULL ? owner : "", group != NULL ? ", executor group " : "", group != NULL ? group : "",
                 field_text(output, item, "created_at"));
    const char *source = json_string_value(json_object_get(item, "source"));
    if (source != NULL) {
        print_source(output, source);
        return;
    }
    char *text = json_make_text(json_object_get(item, "definition"), JSON_INDENT(2));
    print_lines(output, text);
    free(text);
}

/* --source: nothing but the YAML of the version that was published last. */
static enum weir_status show_source(const struct invocation *invocation, const json_t *page, struct weir_error *error)
{
    const json_t *items = json_object_get(page, "items");
    const json_t *item = json_array_get(items, json_array_size(items) - 1);
    const char *source = json_string_value(json_object_get(item, "source"));
    if (source == NULL) {
        error_set(error, WEIR_NOT_FOUND, "%s v%" PRId64 " has no YAML: it was published as JSON",
                  invocation_argument(invocation, 0), field_number(item, "version", 0));
        error_hint(error, "`weir workflow show %s` prints the definition as JSON", invocation_argument(invocation, 0));
        return WEIR_NOT_FOUND;
    }
    print_source(invocation->output, source);
    return WEIR_OK;
}

static enum weir_status show_workflow(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    json_t *page = NULL;
    size_t i;
    json_t *item;
    enum weir_status status = read_workflows(invocation, store, &page, error);
    if (status == WEIR_OK && page_size(page) == 0) {
        status = error_set(error, WEIR_WORKFLOW_NOT_YOURS, "workflow %s belongs to another workspace",
                           invocation_argument(invocation, 0));
    }
    bool only_source = invocation_has(invocation, "source") && invocation->output->format == OUTPUT_TABLE;
    if (status == WEIR_OK && only_source) {
        status = show_source(invocation, page, error);
    } else if (status == WEIR_OK && !output_page(invocation->output, page)) {
        json_array_foreach(json_object_get(page, "items"), i, item)
        {
            print_definition(invocation->output, item);
        }
    }
    json_decref(page);
    return status;
}

enum weir_status verb_workflow_show(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, show_workflow, error);
}
