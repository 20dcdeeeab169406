/* Sign-in without a script, and the page of a refusal.
 *
 * The form sends the token in its body to /plain/session, which sets a cookie of its own. The path of the cookie is
 * PREFIX/plain, so it goes to these pages alone, and all of them but this one only read. A page of another origin cannot
 * read them, since no answer allows it, and cannot frame them.
 *
 * Such a page must not send the form either: its reader would see the workspaces of another person. The field Origin is
 * checked (exchange.c). Text browsers send none. So the form has a random key, which is in a cookie as well. A form
 * without Origin must have the key of the cookie, which a page of another origin does not know. */
#include <string.h>

#include "base/error.h"
#include "server/plain/frame.h"
#include "server/plain/refusal.h"
#include "server/routes/routes.h"
#include "server/session_cookie.h"

/* The fields of the form as arguments of a target, which have the same grammar. NULL: it is none. */
static char *form_value(struct http_request *request, const char *name)
{
    static const char begin[] = "/?";
    struct request_target form = {.segment_count = 0};
    size_t length = request->body.length;
    char *text = arena_allocate(&request->arena, sizeof begin + length);
    if (text == NULL || length == 0 || memchr(request->body.data, '\0', length) != NULL) {
        return NULL;
    }
    memcpy(text, begin, sizeof begin);
    memcpy(text + sizeof begin - 1, request->body.data, length);
    text[sizeof begin - 1 + length] = '\0';
    if (request_target_read(text, &request->arena, &form) != NULL) {
        return NULL;
    }
    for (size_t i = 0; i < form.argument_count; i++) {
        if (strcmp(form.arguments[i].name, name) == 0) {
            return form.arguments[i].value;
        }
    }
    return NULL;
}

/* 303: the browser reads the next page with GET, and a reload of that sends no form. */
static void go_on(struct http_request *request, struct http_answer *answer, const char *secret)
{
    answer->cookie = secret == NULL ? NULL : page_cookie_of(request, secret);
    if (secret == NULL ? !page_cookies_end(request, answer) : answer->cookie == NULL) {
        respond_problem(request, answer, 503, "out_of_memory", "there is no memory for the cookie", NULL, NULL);
        return;
    }
    answer->status = 303;
    answer->location = "overview";
}

/* Whether a page of this node has the form. False: the refusal is answered. */
static bool is_own_form(struct http_request *request, struct http_answer *answer)
{
    const char *sent = form_value(request, "key");
    const char *kept = page_key(request);
    bool is_own = request->fields[FIELD_ORIGIN] != NULL || (sent != NULL && kept != NULL && strcmp(sent, kept) == 0);
    if (!is_own) {
        respond_problem(request, answer, 403, "cross_origin", "the form has not the key that this browser keeps",
                        "allow cookies for this node, open the page again, and send the form of that", NULL);
    }
    return is_own;
}

/* The token is looked up as that of any other request. An attempt with a wrong one counts for the address of the client,
 * and the rate of a token holds. The node keeps no session. The end of one needs no token, since it only removes the cookie
 * of the browser that asks. */
void answer_plain_session(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    if (!plain_is_served(api, request, answer)) {
        return;
    }
    char *token = form_value(request, "token");
    if (form_value(request, "end") != NULL) {
        go_on(request, answer, NULL);
        return;
    }
    if (!is_own_form(request, answer)) {
        return;
    }
    /* Without a token nothing is looked up, and nothing is counted. */
    request->secret = token;
    if (token != NULL) { /* pasted ones have blanks around them */
        char *end = token + strlen(token);
        while (end > token && end[-1] == ' ') {
            *--end = '\0';
        }
        request->secret = token + strspn(token, " ");
    }
    if (api_admit_secret(api, store, request, answer)) {
        go_on(request, answer, request->secret);
    }
}

/* The hint of the API, a field that a browser cannot send, is of no use here. The browser would keep the cookie of a page
 * in a folder for that folder alone, so there the form has no key. Then a browser without Origin gets the form again. */
static void add_sign_in(struct html *html, struct http_request *request, struct http_answer *answer)
{
    bool needs_key = request->fields[FIELD_ORIGIN] == NULL; /* and a page of another origin gets no cookie */
    const char *key = needs_key && plain_root(request)[0] == '\0' ? page_key_keep(request, answer) : NULL;
    html_markup(html, "<form method=\"post\" action=\"");
    html_markup(html, plain_root(request));
    html_markup(html, "session\"><input type=\"hidden\" name=\"key\" value=\"");
    html_text(html, key == NULL ? "" : key);
    html_markup(html, "\"><p>This node needs a token. Its rights decide what you see here.</p>"
                      "<p><label>Token <input name=\"token\" type=\"password\" required autocomplete=\"current-password\">"
                      "</label> <button class=\"main\">Sign in</button></p></form>\n");
}

/* The page of the code explains it, and the remedy. */
static void add_code(struct html *html, const struct http_request *request, const char *code)
{
    if (code != NULL) {
        html_markup(html, "<p>Problem <a href=\"");
        html_markup(html, plain_root(request));
        html_markup(html, "../docs/problems/");
        html_url(html, code);
        html_markup(html, "\">");
        html_text(html, code);
        html_markup(html, "</a></p>\n");
    }
}

/* The problem is the body of the answer, as programs get it. */
void plain_refuse(struct http_request *request, struct http_answer *answer)
{
    json_t *problem = answer->body.data == NULL ? NULL : json_loadb(answer->body.data, answer->body.length, 0, NULL);
    bool needs_token = answer->status == 401;
    struct html html = plain_begin(request, answer, answer->status, needs_token ? "Sign in" : "The node refused this");
    bool has_tried = request->secret != NULL;
    if (!needs_token || has_tried) {
        html_markup(&html, "<p role=\"alert\" class=\"is-bad\">");
        html_member(&html, problem, "detail");
        html_markup(&html, "</p>\n");
    }
    if (!needs_token && json_is_string(json_object_get(problem, "hint"))) {
        html_markup(&html, "<p>");
        html_member(&html, problem, "hint");
        html_markup(&html, "</p>\n");
    }
    bool lacks_key = answer->status == 403 && request->fields[FIELD_ORIGIN] == NULL && request->route->scope == SCOPE_OPEN;
    if (needs_token || lacks_key) {
        add_sign_in(&html, request, answer);
    }
    add_code(&html, request, json_string_value(json_object_get(problem, "code")));
    plain_end(request, answer, &html);
    json_decref(problem);
}

/* The address of a form that was sent, which people keep, open again or reload. */
void answer_plain_sign_in(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    if (!plain_is_served(api, request, answer)) {
        return;
    }
    struct html html = plain_begin(request, answer, 200, "Sign in");
    add_sign_in(&html, request, answer);
    plain_end(request, answer, &html);
}
