/* The cookies of the dashboard. That of a session holds the secret of a token for the pages of the dashboard, where no
 * script can read it.
 *
 * The server keeps nothing of a session, so every node answers it, and a revoked token ends it. That of a sign-in by a
 * provider (oidc.h) holds what its second request needs, so another node may answer that. Pure; any thread.
 */
#ifndef WEIR_SERVER_SESSION_COOKIE_H
#define WEIR_SERVER_SESSION_COOKIE_H

#include "server/oidc.h"
#include "server/request.h"

/* The cookie of a token is kept for so long, then the user signs in again. */
enum { SESSION_SECONDS = 12 * 60 * 60 };
/* From the button to the way back from the provider: time for a password and a second factor. */
enum { SIGN_IN_SECONDS = 10 * 60 };
enum { PAGE_KEY_BYTES = 44 }; /* 43 letters of base64url hold 256 random bits */

/* The secret in the cookie, in the arena of the request. NULL: there is none, or it does not count, because the request
 * lacks the field Weir-Session. A page of another origin cannot send that field. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status session_secret(struct http_request *request, const char **ret_secret);
/* The field Set-Cookie that keeps the secret, or removes it when it is NULL. In the arena; NULL: no memory. */
const char *session_cookie_of(struct http_request *request, const char *secret);
/* The same for the pages that need no script, with a cookie of another name: it counts without the field, and only for
 * routes that show a page (route.h). */
WEIR_MUST_CHECK enum weir_status page_secret(struct http_request *request, const char **ret_secret);
const char *page_cookie_of(struct http_request *request, const char *secret);
/* Removes the cookies of the browser at a sign-out, also that of a page without TLS. False: no memory. */
bool session_cookies_end(struct http_request *request, struct http_answer *answer);
bool page_cookies_end(struct http_request *request, struct http_answer *answer);
/* The key of the forms of this browser, in the arena; NULL: it keeps none, or there is no memory. page_key_keep() makes one
 * and lets the browser keep it until it is closed. */
const char *page_key(struct http_request *request);
const char *page_key_keep(struct http_request *request, struct http_answer *answer);
/* The same for a request of which the browser sends no Origin. */
const char *session_cookie_for(struct http_request *request, const char *secret, bool is_secure, int64_t seconds);

/* The field Set-Cookie that keeps the proof of a sign-in, or removes it when it is NULL. In the arena; NULL: no memory. */
const char *sign_in_cookie_of(struct http_request *request, const struct sign_in_proof *proof, bool is_secure);
/* False: the browser has no such cookie. */
bool sign_in_cookie_read(const struct http_request *request, bool is_secure, struct sign_in_proof *ret_proof);

#endif
