/* The overview without a script: the counters that the store keeps, and the workspaces, those in trouble first. A token of
 * some workspaces sees these alone. Nothing is counted for the page, and no list is longer than OVERVIEW_ROWS_MOST. */
#include <stdio.h>

#include "base/error.h"
#include "server/plain/frame.h"
#include "server/routes/routes.h"

enum { OVERVIEW_ROWS_MOST = 100, OWN_ROWS_MOST = 20 };

/* A number is a link to the executions that it counts, in one status; NULL: of none. */
static void add_count_cell(struct html *html, const struct http_request *request, const char *workspace, const char *status,
                           json_int_t count)
{
    html_markup(html, "<td>");
    if (status != NULL) {
        plain_link_executions(html, request, workspace, "status", status);
    }
    html_number(html, count);
    html_markup(html, status != NULL ? "</a></td>" : "</td>");
}

/* Kept by the store, however long the queue is. */
static void add_counters(struct html *html, const struct http_request *request, const json_t *status)
{
    static const struct {
        const char *title;
        const char *key;
        const char *status;
    } counters[] = {{"Running", "slots_used", "DISPATCHED"}, {"Pending", "pending", "PENDING"},
                    {"Waiting", "waiting", "WAITING"},       {"Failed", "failed", "FAILED"},
                    {"Completed", "completed", "COMPLETED"}, {"Nodes", "nodes", NULL}};
    html_markup(html, "<table><caption>The queue</caption><tbody>");
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        html_markup(html, "<tr><th scope=\"row\">");
        html_markup(html, counters[i].title);
        html_markup(html, "</th>");
        add_count_cell(html, request, NULL, counters[i].status,
                       json_integer_value(json_object_get(status, counters[i].key)));
        html_markup(html, "</tr>");
    }
    html_markup(html, "</tbody></table>\n");
}

/* The pauses that stop all work of the queue or of a group, each with its remedy. */
static void add_pauses(struct html *html, const json_t *status)
{
    json_t *group;
    size_t at;
    if (json_is_true(json_object_get(status, "queue_paused"))) {
        html_markup(html, "<p role=\"alert\" class=\"is-bad\">The queue is paused: no execution starts until "
                          "<code>weir resume</code>.</p>\n");
    }
    json_array_foreach(json_object_get(status, "executor_groups"), at, group)
    {
        if (json_is_true(json_object_get(group, "paused"))) {
            html_markup(html, "<p role=\"alert\" class=\"is-bad\">The executor group ");
            html_member(html, group, "name");
            html_markup(html, " is paused: none of its executions starts until <code>weir resume --executor-group ");
            html_member(html, group, "name");
            html_markup(html, "</code>.</p>\n");
        }
    }
}

/* Why nothing is assigned, though nodes live or executions wait. */
static void add_scheduler_trouble(struct html *html, const json_t *status)
{
    const json_t *scheduler = json_object_get(status, "scheduler");
    bool is_free = json_is_true(json_object_get(scheduler, "is_free"));
    bool fails = json_is_string(json_object_get(scheduler, "failing_since"));
    bool awaits_lock = json_is_string(json_object_get(scheduler, "lock_awaited_since"));
    if (!is_free && !fails && !awaits_lock) {
        return;
    }
    html_markup(html, "<p role=\"alert\" class=\"is-bad\">No execution starts: ");
    if (is_free) {
        html_markup(html, "no node has the role of the scheduler");
    } else {
        html_markup(html,
                    fails ? "the rounds of the scheduler fail, on node " : "the lock of dispatch.exclusive is awaited by ");
        html_member(html, scheduler, "node");
    }
    if (json_is_string(json_object_get(scheduler, "error"))) {
        html_markup(html, ": ");
        html_member(html, scheduler, "error");
    }
    html_markup(html, ". <code>weir doctor</code> names the remedy.</p>\n");
}

/* The first ones, which are stuck for the longest time. The count is a link to the list of all. */
static void add_stuck_rows(struct html *html, const struct http_request *request, const json_t *status)
{
    static const char *const keys[] = {"workspace", "workflow", "node", "stuck_since"};
    json_int_t count = json_integer_value(json_object_get(status, "stuck"));
    json_t *row;
    size_t at;
    if (count == 0) {
        return;
    }
    html_markup(html, "<table><caption>Stuck: ");
    plain_link_executions(html, request, NULL, "where", "stuck=yes");
    html_number(html, count);
    html_markup(html, "</a></caption><thead><tr><th scope=\"col\">Execution</th><th scope=\"col\">Workspace</th>"
                      "<th scope=\"col\">Workflow</th><th scope=\"col\">Node</th><th scope=\"col\">Since</th></tr></thead>"
                      "<tbody>");
    json_array_foreach(json_object_get(status, "stuck_executions"), at, row)
    {
        const char *id = json_string_value(json_object_get(row, "id"));
        html_markup(html, "<tr><td><a href=\"executions/");
        html_url(html, id == NULL ? "" : id);
        html_markup(html, "\">");
        html_text(html, id);
        html_markup(html, "</a></td>");
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
            html_cell(html, row, keys[i]);
        }
        html_markup(html, "</tr>");
    }
    html_markup(html, "</tbody></table>\n");
}

/* Reasons that no execution has are left out. */
static void add_reasons(struct html *html, const struct http_request *request, json_t *reasons)
{
    char condition[64];
    const char *reason;
    json_t *number;
    html_markup(html, "<table><caption>Why executions wait</caption><thead><tr><th scope=\"col\">Reason</th>"
                      "<th scope=\"col\">Executions</th></tr></thead><tbody>");
    json_object_foreach(reasons, reason, number)
    {
        if (json_integer_value(number) > 0) {
            (void)snprintf(condition, sizeof condition, "pending_reason=%s", reason);
            html_markup(html, "<tr><td>");
            html_text(html, reason);
            html_markup(html, "</td><td>");
            plain_link_executions(html, request, NULL, "where", condition);
            html_number(html, json_integer_value(number));
            html_markup(html, "</a></td></tr>");
        }
    }
    html_markup(html, "</tbody></table>\n");
}

/* The columns are few, so that the table fits a phone. */
static void begin_workspaces(struct html *html)
{
    html_markup(html,
                "<table><caption>Workspaces</caption><thead><tr><th scope=\"col\">Workspace</th><th scope=\"col\">Plan"
                "</th><th scope=\"col\">Slots</th><th scope=\"col\">Pending</th><th scope=\"col\">Waiting</th>"
                "<th scope=\"col\">Failed</th><th scope=\"col\">State</th></tr></thead><tbody>");
}

static void add_workspace_row(struct html *html, const struct http_request *request, const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    html_markup(html, "<tr><td>");
    plain_link_executions(html, request, name == NULL ? "" : name, NULL, NULL);
    html_text(html, name);
    html_markup(html, "</a></td>");
    html_cell(html, row, "plan");
    html_markup(html, "<td>");
    html_member(html, row, "slots_used");
    html_markup(html, "/");
    html_member(html, row, "slots_max");
    html_markup(html, "</td>");
    add_count_cell(html, request, name, "PENDING", json_integer_value(json_object_get(row, "pending")));
    add_count_cell(html, request, name, "WAITING", json_integer_value(json_object_get(row, "waiting")));
    add_count_cell(html, request, name, "FAILED", json_integer_value(json_object_get(row, "failed")));
    html_markup(html, json_is_true(json_object_get(row, "paused")) ? "<td>paused</td></tr>" : "<td></td></tr>");
}

/* The rows and their order are those of GET /v1/status. */
static enum weir_status add_all(struct html *html, const struct http_request *request, struct store *store,
                                struct weir_error *error)
{
    json_t *status = NULL;
    json_t *row;
    size_t at;
    enum weir_status outcome = store_status(store, OVERVIEW_ROWS_MOST, &status, error);
    if (outcome != WEIR_OK) {
        return outcome;
    }
    json_t *rows = json_object_get(status, "workspaces");
    json_int_t count = json_integer_value(json_object_get(status, "workspace_count"));
    add_pauses(html, status);
    add_scheduler_trouble(html, status);
    add_counters(html, request, status);
    add_stuck_rows(html, request, status);
    add_reasons(html, request, json_object_get(status, "pending_reasons"));
    begin_workspaces(html);
    json_array_foreach(rows, at, row)
    {
        add_workspace_row(html, request, row);
    }
    html_markup(html, "</tbody></table>\n");
    if (count > (json_int_t)json_array_size(rows)) {
        html_markup(html, "<p>Those in trouble are shown, of ");
        html_number(html, count);
        html_markup(html, " workspaces.</p>\n");
    }
    json_decref(status);
    return WEIR_OK;
}

/* A workspace of the token may have been deleted meanwhile. Each read sums the counters of the store, so they are few, and
 * the route is one of those that are answered one after the other. */
static enum weir_status add_own(struct html *html, const struct http_request *request, struct store *store,
                                struct weir_error *error)
{
    const struct principal *principal = request->principal;
    enum weir_status status = WEIR_OK;
    begin_workspaces(html);
    for (size_t i = 0; i < principal->workspace_count && i < OWN_ROWS_MOST && status == WEIR_OK; i++) {
        json_t *row = NULL;
        status = store_usage(store, principal->workspaces[i], &row, error);
        if (status == WEIR_OK) {
            add_workspace_row(html, request, row);
        } else if (status == WEIR_WORKSPACE_NOT_FOUND) {
            error_clear(error);
            status = WEIR_OK;
        }
        json_decref(row);
    }
    html_markup(html, "</tbody></table>\n");
    if (principal->workspace_count > OWN_ROWS_MOST) {
        html_markup(html, "<p>The first are shown, of ");
        html_number(html, (json_int_t)principal->workspace_count);
        html_markup(html, " workspaces.</p>\n");
    }
    return status;
}

void answer_plain_overview(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    if (!plain_is_served(api, request, answer)) {
        return;
    }
    struct weir_error error = {.status = WEIR_OK};
    struct html html = plain_begin(request, answer, 200, "Overview");
    enum weir_status status = access_has_all_workspaces(request->principal) ? add_all(&html, request, store, &error)
                                                                            : add_own(&html, request, store, &error);
    if (status != WEIR_OK) {
        respond_error(request, answer, &error, NULL);
    } else {
        plain_end(request, answer, &html);
    }
}
