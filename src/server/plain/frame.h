/* The frame of the pages that need no script: head, links, and the form that signs in.
 *
 * Threads: those of the server.
 */
#ifndef WEIR_SERVER_PLAIN_FRAME_H
#define WEIR_SERVER_PLAIN_FRAME_H

#include "server/api.h"
#include "server/plain/html.h"

/* The way from the page to /plain/: "" or "../". */
const char *plain_root(const struct http_request *request);
/* The beginning of the page, up to its heading. `status`: of the answer. */
struct html plain_begin(const struct http_request *request, struct http_answer *answer, int status, const char *title);
/* The end of the page. A page that has failed becomes a problem. */
void plain_end(const struct http_request *request, struct http_answer *answer, struct html *html);
/* Whether the pages are served; false: the refusal is answered. */
bool plain_is_served(const struct api *api, const struct http_request *request, struct http_answer *answer);
/* Begins a link to the executions of a workspace; NULL: of all, or of the first workspace of a token of some. `name`,
 * `value`: one more condition, of which the name is a constant; NULL = none. */
void plain_link_executions(struct html *html, const struct http_request *request, const char *workspace, const char *name,
                           const char *value);

#endif
