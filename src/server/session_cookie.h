/* The cookie of a session: it holds the secret of a token for the pages of the dashboard, where no script can read it.
 *
 * The server keeps nothing of a session, so every node answers it, and a revoked token ends it. Pure; any thread.
 */
#ifndef WEIR_SERVER_SESSION_COOKIE_H
#define WEIR_SERVER_SESSION_COOKIE_H

#include "server/request.h"

/* The cookie is kept for so long, then the user signs in again. */
enum { SESSION_SECONDS = 12 * 60 * 60 };

/* The secret in the cookie, in the arena of the request. NULL: there is none, or it does not count, because the request
 * lacks the field Weir-Session. A page of another origin cannot send that field. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status session_secret(struct http_request *request, const char **ret_secret);
/* The field Set-Cookie that keeps the secret, or removes it when it is NULL. In the arena; NULL: no memory. */
const char *session_cookie_of(struct http_request *request, const char *secret);

#endif
