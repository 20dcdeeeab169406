/* The field Set-Cookie has no path: the browser takes the folder of the request as it sees it, PREFIX/v1. So no node needs
 * to know the prefix of a proxy. The cookie is then sent with requests of the API and with no others.
 *
 * A page may send requests to a server of another origin, with the cookies of that server. Three rules stop it:
 *
 *   1. SameSite=Strict: a page of another site sends no cookie.
 *   2. The field Weir-Session: a page of another origin, which may be another port of the same host and so the same site,
 *      may not send it without the permission of this server (CORS), which it never gives.
 *   3. The field Origin is checked for each change (exchange.c). */
#include "server/session_cookie.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/token_secret.h"

#define COOKIE_NAME "weir_session"
enum { COOKIE_BYTES_MAX = 256 };

const char *session_secret(struct http_request *request)
{
    static const char name[] = COOKIE_NAME "=";
    const char *at = request->fields[FIELD_COOKIE];
    if (at == NULL || request->fields[FIELD_SESSION] == NULL) {
        return NULL;
    }
    while (strncmp(at, name, sizeof name - 1) != 0) {
        at = strchr(at, ';');
        if (at == NULL) {
            return NULL;
        }
        at += 1 + strspn(at + 1, " ");
    }
    at += sizeof name - 1;
    return arena_copy(&request->arena, at, strcspn(at, "; "));
}

/* The browser knows whether its connection has TLS, also when a proxy ends it: its Origin shows it. */
const char *session_cookie_of(struct http_request *request, const char *secret)
{
    char cookie[COOKIE_BYTES_MAX];
    const char *origin = request->fields[FIELD_ORIGIN];
    bool is_secure = origin != NULL && strncasecmp(origin, "https:", strlen("https:")) == 0;
    (void)snprintf(cookie, sizeof cookie, COOKIE_NAME "=%.*s; Max-Age=%d; HttpOnly; SameSite=Strict%s", TOKEN_SECRET_LENGTH,
                   secret == NULL ? "" : secret, secret == NULL ? 0 : SESSION_SECONDS, is_secure ? "; Secure" : "");
    return arena_copy_string(&request->arena, cookie);
}
