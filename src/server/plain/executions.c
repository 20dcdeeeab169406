/* The list of executions without a script: a form for the filter, and a page of at most LIST_ROWS rows with the link to the
 * next one.
 *
 * It is GET /v1/executions with the arguments of the form: the same filter, the same windows, the same cursor. It counts no
 * matches. The check of the caller's workspaces is that of the route (WORKSPACE_OF_FILTER), before this file is asked. */
#include <string.h>

#include "base/error.h"
#include "server/plain/frame.h"
#include "server/routes/routes.h"

enum { LIST_ROWS = 50 };

static const char *const form_fields[] = {"workspace", "workflow", "status", "where"};
enum { FORM_FIELDS = sizeof form_fields / sizeof form_fields[0] };

/* A field keeps the value that it was sent with. */
static void add_filter_field(struct html *html, const struct http_request *request, const char *name, const char *label)
{
    const char *value = request_argument(request, name);
    html_markup(html, "<label>");
    html_markup(html, label);
    html_markup(html, " <input name=\"");
    html_markup(html, name);
    html_markup(html, "\" value=\"");
    html_text(html, value == NULL ? "" : value);
    html_markup(html, "\"></label> ");
}

/* With an attribute, since a browser takes blanks out of the content. */
static void add_option(struct html *html, const char *value, const char *chosen)
{
    html_markup(html, chosen != NULL && strcmp(chosen, value) == 0 ? "<option selected value=\"" : "<option value=\"");
    html_text(html, value);
    html_markup(html, "\">");
    html_text(html, value);
    html_markup(html, "</option>");
}

/* A token of some workspaces must name one of them, so these are a choice. */
static void add_workspace_field(struct html *html, const struct http_request *request)
{
    const struct principal *principal = request->principal;
    if (access_has_all_workspaces(principal)) {
        add_filter_field(html, request, "workspace", "Workspace");
        return;
    }
    html_markup(html, "<label>Workspace <select name=\"workspace\">");
    for (size_t i = 0; i < principal->workspace_count; i++) {
        add_option(html, principal->workspaces[i], request_argument(request, "workspace"));
    }
    html_markup(html, "</select></label> ");
}

/* The fields are those that people use most; the last one takes each condition of the command line. */
static void add_filter(struct html *html, const struct http_request *request)
{
    const char *status = request_argument(request, "status");
    html_markup(html, "<form method=\"get\" action=\"executions\" role=\"search\" aria-label=\"Executions\">");
    add_workspace_field(html, request);
    add_filter_field(html, request, "workflow", "Workflow");
    html_markup(html, "<label>Status <select name=\"status\"><option value=\"\">all</option>");
    for (int state = 0; state < ITEM_STATE_COUNT; state++) {
        add_option(html, item_state_name((enum item_state)state), status);
    }
    html_markup(html, "</select></label> ");
    add_filter_field(html, request, "where", "Filter");
    html_markup(html, "<button class=\"main\">Show</button></form>\n");
}

/* The reason is one column: a pending execution has a pending reason, a parked one the kind of its wait. */
static void add_execution_row(struct html *html, const json_t *row)
{
    const char *id = json_string_value(json_object_get(row, "id"));
    const json_t *pending = json_object_get(row, "pending_reason");
    html_markup(html, "<tr><td><a href=\"executions/");
    html_url(html, id == NULL ? "" : id);
    html_markup(html, "\"><code>");
    html_text(html, id);
    html_markup(html, "</code></a></td>");
    html_cell(html, row, "workspace");
    html_cell(html, row, "workflow");
    html_cell(html, row, "status");
    html_cell(html, row, json_is_string(pending) ? "pending_reason" : "waiting_for");
    html_cell(html, row, "created_at");
    html_cell(html, row, "error");
    html_markup(html, "</tr>\n");
}

/* The address of a page has the whole filter, so it can be sent to others. */
static void add_pager(struct html *html, const struct http_request *request, const char *next)
{
    html_markup(html, "<nav aria-label=\"Pages\">");
    for (int page = 0; page < (next == NULL ? 1 : 2); page++) {
        html_markup(html, "<a href=\"executions?");
        for (size_t i = 0; i < FORM_FIELDS; i++) {
            const char *value = request_argument(request, form_fields[i]);
            if (value != NULL) {
                html_markup(html, form_fields[i]);
                html_markup(html, "=");
                html_url(html, value);
                html_markup(html, "&amp;");
            }
        }
        if (page == 1) {
            html_markup(html, "cursor=");
            html_url(html, next);
        }
        html_markup(html, page == 0 ? "\">First page</a> " : "\">Next page</a>");
    }
    html_markup(html, "</nav>\n");
}

/* A page may be empty and have a next one: the store examines a bounded number of rows for each request (store.h). */
static void add_page(struct html *html, const struct http_request *request, const json_t *page)
{
    const json_t *rows = json_object_get(page, "items");
    const char *next = json_string_value(json_object_get(page, "next_cursor"));
    json_t *row;
    size_t at;
    add_filter(html, request);
    html_markup(html, "<div class=\"scroll\" role=\"region\" aria-label=\"Executions\" tabindex=\"0\">"
                      "<table><caption>Executions, newest first</caption><thead><tr><th scope=\"col\">Execution</th>"
                      "<th scope=\"col\">Workspace</th><th scope=\"col\">Workflow</th><th scope=\"col\">Status</th>"
                      "<th scope=\"col\">Reason</th><th scope=\"col\">Created</th><th scope=\"col\">Error</th></tr></thead>"
                      "<tbody>");
    json_array_foreach(rows, at, row)
    {
        add_execution_row(html, row);
    }
    html_markup(html, "</tbody></table></div>\n");
    if (json_array_size(rows) == 0) {
        html_markup(html, next == NULL ? "<p>No execution matches.</p>\n" : "<p>None here matches; more may follow.</p>\n");
    }
    add_pager(html, request, next);
}

void answer_plain_executions(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    if (!plain_is_served(api, request, answer)) {
        return;
    }
    struct weir_error error = {.status = WEIR_OK};
    const char *at_fault = NULL;
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS,
                                   .cursor = request_argument(request, "cursor"),
                                   .windows_most = LIST_WINDOWS_MOST,
                                   .limit = LIST_ROWS};
    enum weir_status status = request_filter(request, store, &options.filter, &at_fault, &error);
    options.windows_most = options.filter.idempotency_key != NULL ? 0 : options.windows_most; /* as in the API */
    status = status == WEIR_OK ? store_list(store, &options, &page, &error) : status;
    if (status != WEIR_OK) {
        respond_error(request, answer, &error, NULL);
        return;
    }
    struct html html = plain_begin(request, answer, 200, "Executions");
    add_page(&html, request, page);
    plain_end(request, answer, &html);
    json_decref(page);
}
