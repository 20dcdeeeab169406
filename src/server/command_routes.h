/* Commands in texts for people, and the requests that mean the same. The store writes its hints for the command line:
 * "`weir list` shows the newest". A client of HTTP may have nothing but curl, so the text gets the request from the table
 * of routes: "`weir list` (GET /v1/executions) shows the newest". */
#ifndef WEIR_SERVER_COMMAND_ROUTES_H
#define WEIR_SERVER_COMMAND_ROUTES_H

#include <jansson.h>

#include "base/text.h"
#include "server/request.h"

/* Appends the text to `to`, with the request behind each command that has one. A text that names a path is complete. */
WEIR_MUST_CHECK enum weir_status command_routes_add(const char *text, struct text *to);
/* The text as the client of the request gets it: programs of weir print commands and know none of the requests, so they
 * get it as it is. NULL: no memory, or the text is NULL. */
json_t *command_routes_json(const struct http_request *request, const char *text);
/* Gives the answer to why the member `hint`: the command and the request that help, by its reason. None, if nothing helps,
 * or for programs of weir, which have hints of their own. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status command_routes_add_hint(const struct http_request *request, json_t *why);

#endif
