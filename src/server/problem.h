/* Errors of HTTP as `application/problem+json` (RFC 9457). */
#ifndef WEIR_SERVER_PROBLEM_H
#define WEIR_SERVER_PROBLEM_H

#include "server/http_server.h"

/* Makes the answer a problem: {"title", "status", "code", "detail"}. `code`: of the list in docs/http.md. An answer that
 * does not fit in memory has the status alone. */
void problem_write(struct http_answer *answer, int status, const char *code, const char *detail);

#endif
