/* One execution without a script: the reason first, as everywhere, then its steps, its last events and its data.
 *
 * It is read by the two calls that GET /v1/executions/{id} and its /why make, with the same check of the caller's
 * workspaces. A page has at most STEPS_SHOWN_MOST steps, the last events and actions of the answer, and of each value the
 * first HTML_DATA_BYTES_MAX bytes. The logs of steps are left to the API: each would be a request of its own. */
#include "base/error.h"
#include "server/plain/frame.h"
#include "server/routes/execution_find.h"
#include "server/routes/routes.h"

enum { STEPS_SHOWN_MOST = 200 };

/* A row with the link to another execution, if there is one. */
static void add_execution_link(struct html *html, const char *name, const json_t *id)
{
    if (json_is_string(id)) {
        html_markup(html, "<tr><th scope=\"row\">");
        html_markup(html, name);
        html_markup(html, "</th><td><a href=\"");
        html_url(html, json_string_value(id));
        html_markup(html, "\"><code>");
        html_text(html, json_string_value(id));
        html_markup(html, "</code></a></td></tr>");
    }
}

/* A fact that the execution does not have is a dash, so the rows of two executions can be compared. */
static void add_facts(struct html *html, const struct http_request *request, const json_t *execution, const json_t *why)
{
    static const char *const facts[][2] = {{"Workflow", "workflow"},
                                           {"Version", "version"},
                                           {"State", "state"},
                                           {"Reason", "pending_reason"},
                                           {"Waiting for", "waiting_for"},
                                           {"Error code", "error_code"},
                                           {"Business key", "business_key"},
                                           {"Labels", "labels"},
                                           {"Priority", "priority"},
                                           {"Node", "node"},
                                           {"Created", "created_at"},
                                           {"Due", "run_at"},
                                           {"Started", "dispatched_at"},
                                           {"Ended", "finished_at"}};
    const char *workspace = json_string_value(json_object_get(execution, "workspace"));
    html_markup(html, "<p><strong>");
    html_member(html, execution, "status");
    html_markup(html, "</strong>: ");
    html_member(html, why, json_is_string(json_object_get(why, "error")) ? "error" : "because");
    if (json_is_string(json_object_get(why, "scheduler_error"))) {
        html_markup(html, ": ");
        html_member(html, why, "scheduler_error");
    }
    html_markup(html, "</p>\n<table><caption>The execution</caption><tbody><tr><th scope=\"row\">Id</th><td><code>");
    html_member(html, execution, "id");
    html_markup(html, "</code></td></tr><tr><th scope=\"row\">Workspace</th><td>");
    if (workspace != NULL) {
        plain_link_executions(html, request, workspace, NULL, NULL);
    }
    html_text(html, workspace);
    html_markup(html, workspace == NULL ? "</td></tr>" : "</a></td></tr>");
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        html_markup(html, "<tr><th scope=\"row\">");
        html_markup(html, facts[i][0]);
        html_markup(html, "</th>");
        html_cell(html, execution, facts[i][1]);
        html_markup(html, "</tr>");
    }
    add_execution_link(html, "Parent", json_object_get(json_object_get(execution, "parent"), "id"));
    add_execution_link(html, "Retry of", json_object_get(execution, "retry_of"));
    html_markup(html, "</tbody></table>\n");
}

struct column {
    const char *title;
    const char *key;
};

/* A table of the first `most` rows. The region scrolls on a narrow screen. It has a name, and a place in the order of the
 * keyboard, since without a script nothing else moves it. */
static void add_row_table(struct html *html, const json_t *rows, size_t most, const char *title,
                          const struct column *columns)
{
    json_t *row;
    size_t at;
    html_markup(html, "<div class=\"scroll\" role=\"region\" aria-label=\"");
    html_markup(html, title);
    html_markup(html, "\" tabindex=\"0\"><table><caption>");
    html_markup(html, title);
    html_markup(html, "</caption><thead><tr>");
    for (size_t i = 0; columns[i].title != NULL; i++) {
        html_markup(html, "<th scope=\"col\">");
        html_markup(html, columns[i].title);
        html_markup(html, "</th>");
    }
    html_markup(html, "</tr></thead><tbody>");
    json_array_foreach(rows, at, row)
    {
        if (at == most) {
            break;
        }
        html_markup(html, "<tr>");
        for (size_t i = 0; columns[i].title != NULL; i++) {
            html_cell(html, row, columns[i].key);
        }
        html_markup(html, "</tr>\n");
    }
    html_markup(html, "</tbody></table></div>\n");
    if (json_array_size(rows) > most) {
        html_markup(html, "<p>The first are shown, of ");
        html_number(html, (json_int_t)json_array_size(rows));
        html_markup(html, ".</p>\n");
    }
}

/* An execution without states has no actions. Earlier actions and events are left to the API, which has pages of them. */
static void add_tables(struct html *html, const json_t *execution)
{
    static const struct column steps[] = {{"Step", "step"},
                                          {"Status", "status"},
                                          {"Attempt", "attempt"},
                                          {"Started", "started_at"},
                                          {"Ended", "finished_at"},
                                          {"Error", "error"},
                                          {NULL, NULL}};
    static const struct column actions[] = {
        {"Action", "seq"},  {"State", "state"}, {"Outcome", "outcome"}, {"Next", "next_state"}, {"Ended", "finished_at"},
        {"Error", "error"}, {NULL, NULL}};
    static const struct column events[] = {{"At", "at"},         {"Event", "event"},   {"Node", "node"}, {"By", "actor"},
                                           {"Reason", "reason"}, {"Detail", "detail"}, {NULL, NULL}};
    const json_t *done = json_object_get(execution, "actions");
    add_row_table(html, json_object_get(execution, "steps"), STEPS_SHOWN_MOST, "Steps", steps);
    if (json_array_size(done) > 0) {
        add_row_table(html, done, SHOW_ACTIONS_MOST, "Last actions", actions);
    }
    add_row_table(html, json_object_get(execution, "events"), SHOW_EVENTS_MOST, "Last events", events);
}

/* Nothing without a value. The area scrolls, like a table. */
static void add_data(struct html *html, const char *title, const json_t *value)
{
    if (value != NULL && !json_is_null(value)) {
        html_markup(html, "<h2>");
        html_markup(html, title);
        html_markup(html, "</h2><pre class=\"data\" tabindex=\"0\">");
        html_data(html, value);
        html_markup(html, "</pre>\n");
    }
}

void answer_plain_execution(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    if (!plain_is_served(api, request, answer)) {
        return;
    }
    struct weir_error error = {.status = WEIR_OK};
    char id[UUID_TEXT_MAX];
    json_t *execution = NULL;
    json_t *why = NULL;
    enum weir_status status = execution_find(store, request, id, &execution, &error);
    status = status == WEIR_OK ? store_why(store, id, &why, &error) : status;
    if (status != WEIR_OK) {
        json_decref(execution);
        respond_error(request, answer, &error, NULL);
        return;
    }
    struct html html = plain_begin(request, answer, 200, "Execution");
    add_facts(&html, request, execution, why);
    add_tables(&html, execution);
    add_data(&html, "Variables", json_object_get(execution, "variables"));
    add_data(&html, "Params", json_object_get(execution, "params"));
    add_data(&html, "Result", store_execution_result(execution));
    plain_end(request, answer, &html);
    json_decref(execution);
    json_decref(why);
}
