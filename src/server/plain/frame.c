/* All addresses are relative, so a page works under the prefix of a proxy. The policy allows the styles of the node, and no
 * script at all: a text that became markup in spite of everything could not act. */
#include "server/plain/frame.h"

#include "base/error.h"
#include "server/dashboard_file.h"

#define POLICY_OF_PLAIN                                                                                                    \
    "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self';"          \
    " frame-ancestors 'none'"

const char *plain_root(const struct http_request *request)
{
    return request->target.segment_count > 2 ? "../" : "";
}

/* The files are those of the dashboard, with the version in their address, so a browser keeps them. */
static void add_file(struct html *html, const struct http_request *request, const char *kind, const char *name)
{
    html_markup(html, "<link rel=\"");
    html_markup(html, kind);
    html_markup(html, "\" href=\"");
    html_markup(html, plain_root(request));
    html_markup(html, "../assets/");
    html_markup(html, dashboard_version());
    html_markup(html, "/");
    html_markup(html, name);
    html_markup(html, "\">");
}

static void add_link(struct html *html, const struct http_request *request, const char *page, const char *text)
{
    html_markup(html, "<a href=\"");
    html_markup(html, plain_root(request));
    html_markup(html, page);
    html_markup(html, "\">");
    html_markup(html, text);
    html_markup(html, "</a> ");
}

/* A token of some workspaces has no list of all. */
void plain_link_executions(struct html *html, const struct http_request *request, const char *workspace, const char *name,
                           const char *value)
{
    const struct principal *principal = request->principal;
    bool is_limited = !access_has_all_workspaces(principal) && principal->workspace_count > 0;
    workspace = workspace == NULL && is_limited ? principal->workspaces[0] : workspace;
    html_markup(html, "<a href=\"");
    html_markup(html, plain_root(request));
    html_markup(html, "executions");
    if (workspace != NULL) {
        html_markup(html, "?workspace=");
        html_url(html, workspace);
    }
    if (name != NULL) {
        html_markup(html, workspace != NULL ? "&amp;" : "?");
        html_markup(html, name);
        html_markup(html, "=");
        html_url(html, value);
    }
    html_markup(html, "\">");
}

/* The Referrer-Policy of all other pages would make the browser send `Origin: null` with the form. */
struct html plain_begin(const struct http_request *request, struct http_answer *answer, int status, const char *title)
{
    INVARIANT(request != NULL && answer != NULL && title != NULL);
    struct html html = {.to = &answer->body};
    text_clear(&answer->body);
    answer->status = status;
    answer->type = "text/html; charset=utf-8";
    answer->policy = POLICY_OF_PLAIN;
    answer->referrer = "same-origin";
    html_markup(&html, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    html_markup(&html, title);
    html_markup(&html, " · weir</title><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
                       "<meta name=\"color-scheme\" content=\"light dark\">");
    add_file(&html, request, "icon", "icon.svg");
    add_file(&html, request, "stylesheet", "app.css");
    html_markup(&html, "</head>\n<body class=\"plain-page\"><header><nav aria-label=\"Menu\">");
    add_link(&html, request, "overview", "Overview");
    plain_link_executions(&html, request, NULL, NULL, NULL);
    html_markup(&html, "Executions</a> ");
    add_link(&html, request, "../", "With JavaScript");
    html_markup(&html, "</nav>");
    if (request->principal != NULL) {
        html_markup(&html, "<form method=\"post\" action=\"");
        html_markup(&html, plain_root(request));
        html_markup(&html, "session\"><input type=\"hidden\" name=\"end\" value=\"yes\"><button>Sign out</button></form>");
    }
    html_markup(&html, "</header>\n<main><h1>");
    html_markup(&html, title);
    html_markup(&html, "</h1>\n");
    return html;
}

/* Half a page would be believed. */
void plain_end(const struct http_request *request, struct http_answer *answer, struct html *html)
{
    html_markup(html, "</main></body></html>\n");
    if (html->is_failed) {
        answer->policy = NULL;
        answer->referrer = NULL;
        respond_problem(request, answer, 503, "out_of_memory", "there is no memory for the page", NULL, NULL);
    }
}

/* With the dashboard turned off there is nothing at these paths, as at /. */
bool plain_is_served(const struct api *api, const struct http_request *request, struct http_answer *answer)
{
    if (!api->has_dashboard) {
        respond_problem(request, answer, 404, "not_found", "there is nothing at this path", NULL, NULL);
    }
    return api->has_dashboard;
}
