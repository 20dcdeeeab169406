/* The field Set-Cookie has no path: the browser takes the folder of the request as it sees it, PREFIX/v1. So no node needs
 * to know the prefix of a proxy. The cookie is then sent with requests of the API and with no others.
 *
 * A page may send requests to a server of another origin, with the cookies of that server. Three rules stop it:
 *
 *   1. SameSite=Strict: a page of another site sends no cookie.
 *   2. The field Weir-Session. A page of another origin may not send it without the permission of this server (CORS),
 *      which it never gives. Such a page may be of the same site: another port of the same host.
 *   3. The field Origin is checked for each change (exchange.c).
 *
 * Another host of the same domain, or a false answer without TLS, may set a cookie for this host, with a path for which
 * it is sent first. Then the user would act with the token of another person. So a page with TLS has a name with the
 * prefix __Secure-, which browsers accept over TLS alone, and that name is read first. */
#include "server/session_cookie.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/token_secret.h"

#define COOKIE_NAME "weir_session"
#define COOKIE_NAME_OF_TLS "__Secure-" COOKIE_NAME
enum { COOKIE_BYTES_MAX = 256 };

/* The value of the first cookie of this name, up to the next one; NULL: there is none. */
static const char *find_cookie(const char *cookies, const char *name)
{
    size_t length = strlen(name);
    const char *at = cookies;
    while (strncmp(at, name, length) != 0 || at[length] != '=') {
        at = strchr(at, ';');
        if (at == NULL) {
            return NULL;
        }
        at += 1 + strspn(at + 1, " ");
    }
    return at + length + 1;
}

enum weir_status session_secret(struct http_request *request, const char **ret_secret)
{
    INVARIANT(request != NULL && ret_secret != NULL);
    const char *cookies = request->fields[FIELD_COOKIE];
    const char *value = NULL;
    if (cookies != NULL && request->fields[FIELD_SESSION] != NULL) {
        value = find_cookie(cookies, COOKIE_NAME_OF_TLS);
        value = value != NULL ? value : find_cookie(cookies, COOKIE_NAME);
    }
    size_t length = value == NULL ? 0 : strcspn(value, "; ");
    const char *secret = length == 0 ? NULL : arena_copy(&request->arena, value, length);
    if (length > 0 && secret == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    *ret_secret = secret;
    return WEIR_OK;
}

/* The browser knows whether its connection has TLS, also when a proxy ends it: its Origin shows it. */
const char *session_cookie_of(struct http_request *request, const char *secret)
{
    char cookie[COOKIE_BYTES_MAX];
    const char *origin = request->fields[FIELD_ORIGIN];
    bool is_secure = origin != NULL && strncasecmp(origin, "https:", strlen("https:")) == 0;
    (void)snprintf(cookie, sizeof cookie, "%s=%.*s; Max-Age=%d; HttpOnly; SameSite=Strict%s",
                   is_secure ? COOKIE_NAME_OF_TLS : COOKIE_NAME, TOKEN_SECRET_LENGTH, secret == NULL ? "" : secret,
                   secret == NULL ? 0 : SESSION_SECONDS, is_secure ? "; Secure" : "");
    return arena_copy_string(&request->arena, cookie);
}
