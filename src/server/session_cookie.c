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
 * prefix __Secure-, which browsers accept over TLS alone, and that name is read first.
 *
 * The cookie of a sign-in comes back with a request that the provider's page has led to. So it cannot be Strict, and no
 * page can send a field with that request. Its `state` must be that of the address instead. With TLS its name has the
 * prefix __Host-, so no other host of the domain can set it. Else an attacker could end a sign-in of its own in another
 * browser. */
#include "server/session_cookie.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/token_secret.h"

#define COOKIE_NAME "weir_session"
#define COOKIE_NAME_OF_TLS "__Secure-" COOKIE_NAME
#define PAGE_COOKIE_NAME "weir_plain"
#define PAGE_COOKIE_NAME_OF_TLS "__Secure-" PAGE_COOKIE_NAME
#define PAGE_KEY_COOKIE "weir_plain_key"
#define SIGN_IN_COOKIE "weir_sign_in"
#define SIGN_IN_COOKIE_OF_TLS "__Host-" SIGN_IN_COOKIE
enum { COOKIE_BYTES_MAX = 512 };

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

/* Of the first of the two names that the request has. */
static enum weir_status read_cookie(struct http_request *request, const char *name_of_tls, const char *name,
                                    const char **ret_secret)
{
    const char *cookies = request->fields[FIELD_COOKIE];
    const char *value = cookies == NULL ? NULL : find_cookie(cookies, name_of_tls);
    value = value != NULL || cookies == NULL ? value : find_cookie(cookies, name);
    size_t length = value == NULL ? 0 : strcspn(value, "; ");
    const char *secret = length == 0 ? NULL : arena_copy(&request->arena, value, length);
    if (length > 0 && secret == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    *ret_secret = secret;
    return WEIR_OK;
}

enum weir_status session_secret(struct http_request *request, const char **ret_secret)
{
    INVARIANT(request != NULL && ret_secret != NULL);
    if (request->fields[FIELD_SESSION] == NULL) {
        *ret_secret = NULL;
        return WEIR_OK;
    }
    return read_cookie(request, COOKIE_NAME_OF_TLS, COOKIE_NAME, ret_secret);
}

enum weir_status page_secret(struct http_request *request, const char **ret_secret)
{
    INVARIANT(request != NULL && ret_secret != NULL);
    return read_cookie(request, PAGE_COOKIE_NAME_OF_TLS, PAGE_COOKIE_NAME, ret_secret);
}

static const char *make_cookie(struct http_request *request, const char *name, const char *secret, bool is_secure,
                               int64_t seconds)
{
    char cookie[COOKIE_BYTES_MAX];
    (void)snprintf(cookie, sizeof cookie, "%s=%.*s; Max-Age=%" PRId64 "; HttpOnly; SameSite=Strict%s", name,
                   TOKEN_SECRET_LENGTH, secret == NULL ? "" : secret, secret == NULL ? 0 : seconds,
                   is_secure ? "; Secure" : "");
    return arena_copy_string(&request->arena, cookie);
}

/* The browser knows whether its connection has TLS, also when a proxy ends it: its Origin shows it. */
static bool browser_has_tls(const struct http_request *request)
{
    const char *origin = request->fields[FIELD_ORIGIN];
    return origin != NULL && strncasecmp(origin, "https:", strlen("https:")) == 0;
}

const char *session_cookie_of(struct http_request *request, const char *secret)
{
    return session_cookie_for(request, secret, browser_has_tls(request), SESSION_SECONDS);
}

const char *session_cookie_for(struct http_request *request, const char *secret, bool is_secure, int64_t seconds)
{
    return make_cookie(request, is_secure ? COOKIE_NAME_OF_TLS : COOKIE_NAME, secret, is_secure, seconds);
}

const char *page_cookie_of(struct http_request *request, const char *secret)
{
    bool is_secure = browser_has_tls(request);
    return make_cookie(request, is_secure ? PAGE_COOKIE_NAME_OF_TLS : PAGE_COOKIE_NAME, secret, is_secure, SESSION_SECONDS);
}

/* The cookie of a page with TLS is read first. Without it that of a page without TLS would count again, so a sign-out
 * removes both. A page without TLS cannot remove the other one. */
static bool end_cookies(struct http_request *request, struct http_answer *answer, const char *name_of_tls, const char *name)
{
    bool is_secure = browser_has_tls(request);
    answer->cookie = make_cookie(request, name, NULL, false, 0);
    answer->cookie_2 = is_secure ? make_cookie(request, name_of_tls, NULL, true, 0) : NULL;
    return answer->cookie != NULL && (answer->cookie_2 != NULL || !is_secure);
}

bool session_cookies_end(struct http_request *request, struct http_answer *answer)
{
    INVARIANT(request != NULL && answer != NULL);
    return end_cookies(request, answer, COOKIE_NAME_OF_TLS, COOKIE_NAME);
}

bool page_cookies_end(struct http_request *request, struct http_answer *answer)
{
    INVARIANT(request != NULL && answer != NULL);
    return end_cookies(request, answer, PAGE_COOKIE_NAME_OF_TLS, PAGE_COOKIE_NAME);
}

/* --- the key of a form --- */

const char *page_key(struct http_request *request)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *cookies = request->fields[FIELD_COOKIE];
    const char *value = cookies == NULL ? NULL : find_cookie(cookies, PAGE_KEY_COOKIE);
    size_t length = value == NULL ? 0 : strspn(value, letters);
    bool is_key = length == PAGE_KEY_BYTES - 1 && (value[length] == '\0' || strchr("; ", value[length]) != NULL);
    return is_key ? arena_copy(&request->arena, value, length) : NULL;
}

const char *page_key_keep(struct http_request *request, struct http_answer *answer)
{
    INVARIANT(request != NULL && answer != NULL);
    char secret[TOKEN_SECRET_LENGTH + 1];
    char cookie[COOKIE_BYTES_MAX];
    struct weir_error ignored = {.status = WEIR_OK};
    const char *key = page_key(request);
    if (key != NULL || token_secret_make(secret, &ignored) != WEIR_OK) {
        return key; /* one key for all tabs */
    }
    key = arena_copy_string(&request->arena, secret + TOKEN_SECRET_LENGTH - (PAGE_KEY_BYTES - 1));
    (void)snprintf(cookie, sizeof cookie, PAGE_KEY_COOKIE "=%s; HttpOnly; SameSite=Strict", key == NULL ? "" : key);
    answer->cookie_2 = key == NULL ? NULL : arena_copy_string(&request->arena, cookie);
    return answer->cookie_2 == NULL ? NULL : key;
}

/* --- a sign-in by a provider --- */

static const char *sign_in_cookie_name(bool is_secure)
{
    return is_secure ? SIGN_IN_COOKIE_OF_TLS : SIGN_IN_COOKIE;
}

const char *sign_in_cookie_of(struct http_request *request, const struct sign_in_proof *proof, bool is_secure)
{
    char cookie[COOKIE_BYTES_MAX];
    char value[3 * SIGN_IN_PROOF_BYTES] = "";
    if (proof != NULL) {
        (void)snprintf(value, sizeof value, "%s.%s.%s", proof->state, proof->nonce, proof->verifier);
    }
    (void)snprintf(cookie, sizeof cookie, "%s=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Lax%s",
                   sign_in_cookie_name(is_secure), value, proof == NULL ? 0 : SIGN_IN_SECONDS, is_secure ? "; Secure" : "");
    return arena_copy_string(&request->arena, cookie);
}

bool sign_in_cookie_read(const struct http_request *request, bool is_secure, struct sign_in_proof *ret_proof)
{
    const char *cookies = request->fields[FIELD_COOKIE];
    const char *value = cookies == NULL ? NULL : find_cookie(cookies, sign_in_cookie_name(is_secure));
    char *const parts[] = {ret_proof->state, ret_proof->nonce, ret_proof->verifier};
    size_t each = SIGN_IN_PROOF_BYTES - 1;
    if (value == NULL || strcspn(value, "; ") != 3 * each + 2 || value[each] != '.' || value[2 * each + 1] != '.') {
        return false;
    }
    for (size_t i = 0; i < 3; i++) {
        text_copy(parts[i], SIGN_IN_PROOF_BYTES, value + i * (each + 1));
    }
    return true;
}
