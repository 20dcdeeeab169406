/* Sign-in by a provider (oidc.h), in two requests of the browser:
 *
 *   1. oidc_sign_in makes the proof of a sign-in, keeps it in a cookie, and leads the browser to the provider.
 *   2. oidc_callback compares the state of the address with that of the cookie, has the code exchanged, and makes a token
 *      for the session. Its cookie is that of any other token, so all nodes know the session, and a revocation ends it.
 *
 * The handler of each runs twice: it hands the sign-in to the thread of the provider, and is called again with the result.
 * No address of the request decides where the browser goes: to the provider, or to the page of this node. A failure is a
 * page without a script, with the remedy. It never has the code, the token or the secret. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/base64url.h"
#include "base/error.h"
#include "base/token_secret.h"
#include "server/oidc_provider.h"
#include "server/plain/html.h"
#include "server/routes/routes.h"
#include "server/session_cookie.h"

#define POLICY_OF_PAGE                                                                                                     \
    "default-src 'none'; style-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
enum {
    SESSIONS_MOST = 8, /* of one person: another one ends the one that would end first */
    SESSION_TRIES = 4, /* while other sign-ins of the person take each free number */
    PERSON_BYTES_MAX = TOKEN_NAME_MAX - (int)sizeof TOKEN_PERSON - 1,
    PERSON_BYTES_KEPT = 40,
    PERSON_HASH_BYTES = 9,
    GROUPS_SHOWN = 10
};

/* --- pages --- */

/* A sentence: messages and hints begin with a small letter elsewhere. */
static void add_sentence(struct html *html, const char *text)
{
    const char first[] = {(char)(text[0] >= 'a' && text[0] <= 'z' ? text[0] - 'a' + 'A' : text[0]), '\0'};
    html_text(html, first);
    html_text(html, text[0] == '\0' ? text : text + 1);
}

/* It looks as the form of the dashboard does, whose style the path gives for any version. The addresses are relative, so
 * they are right under any prefix. The proof has served: another sign-in has its own. */
static void respond_sign_in_page(const struct api *api, struct http_request *request, struct http_answer *answer,
                                 int status, const char *message, const char *hint)
{
    struct html html = {.to = &answer->body};
    text_clear(html.to);
    html_markup(&html, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
                       "content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">"
                       "<link rel=\"stylesheet\" href=\"../assets/any/app.css\"><title>Sign-in</title>"
                       "<main class=\"sign-in\"><form><h1>You are not signed in</h1><p>");
    add_sentence(&html, message);
    html_markup(&html, ".</p><p>");
    add_sentence(&html, hint);
    html_markup(&html, ".</p><p><a href=\"oidc_sign_in\">Sign in again</a> <a href=\"../\">Dashboard</a></p><p>Request ");
    html_text(&html, request->id);
    html_markup(&html, "</p></form></main></html>\n");
    if (html.is_failed) {
        text_clear(html.to);
    }
    answer->status = html.is_failed ? 503 : status;
    answer->type = "text/html; charset=utf-8";
    answer->policy = POLICY_OF_PAGE;
    answer->cookie = api->oidc == NULL ? NULL : sign_in_cookie_of(request, NULL, oidc_has_tls(api->oidc));
}

static void respond_sign_in_error(const struct api *api, struct http_request *request, struct http_answer *answer,
                                  const struct weir_error *error)
{
    /* The browser has asked for nothing that is missing: the settings of the node are wrong. */
    bool is_of_node = error->status == WEIR_INVALID_CONFIG || error->status == WEIR_WORKSPACE_NOT_FOUND;
    int status = is_of_node ? 500 : weir_status_http(error->status);
    respond_sign_in_page(api, request, answer, status, error->message,
                         error->hint[0] == '\0' ? "Sign in again; if that does not help, ask an operator of this node"
                                                : error->hint);
}

/* False: no provider is set, which is answered. */
static bool has_provider(const struct api *api, struct http_request *request, struct http_answer *answer)
{
    if (api->oidc == NULL || !api->has_dashboard) {
        respond_sign_in_page(api, request, answer, 404, "This node has no provider for a sign-in",
                             "Use a token, or set http.oidc.issuer");
        return false;
    }
    return true;
}

static void refuse_guesses(const struct api *api, struct http_request *request, struct http_answer *answer)
{
    respond_sign_in_page(api, request, answer, 429, "Too many codes of this address were wrong",
                         "Sign in again in a minute");
}

/* Ends the handler's first run: it is called again, or the refusal is answered. */
static void submit_sign_in(const struct api *api, struct http_request *request, struct http_answer *answer)
{
    request->sign_in->request = request;
    if (!request->may_wait || !oidc_submit(api->oidc, request->sign_in)) {
        respond_sign_in_page(api, request, answer, 503, "Too many people sign in at the moment, or this node stops",
                             "Sign in again in some seconds");
    }
}

/* NULL: there is no memory, which is answered. */
static struct sign_in *make_sign_in(const struct api *api, struct http_request *request, struct http_answer *answer)
{
    request->sign_in = arena_allocate(&request->arena, sizeof *request->sign_in);
    if (request->sign_in == NULL) {
        respond_sign_in_page(api, request, answer, 503, "There is no memory for the sign-in", "Sign in again");
    }
    return request->sign_in;
}

/* --- the button, and the way to the provider --- */

void answer_show_oidc(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    (void)request;
    bool is_set = api->oidc != NULL && api->has_dashboard;
    respond_json(answer, 200, json_pack("{s:s?}", "provider", is_set ? oidc_name(api->oidc) : NULL));
}

static void redirect(struct http_answer *answer, const char *location)
{
    answer->status = 303;
    answer->location = location;
    answer->policy = POLICY_OF_PAGE; /* with it goes the field that keeps the address from other servers */
}

void answer_begin_oidc(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    struct weir_error error = {.status = WEIR_OK};
    struct sign_in *sign_in = request->sign_in;
    if (!request->is_again) {
        if (!has_provider(api, request, answer) || (sign_in = make_sign_in(api, request, answer)) == NULL) {
            return;
        }
        if (sign_in_prove(&sign_in->proof, &error) != WEIR_OK) {
            respond_sign_in_error(api, request, answer, &error);
            return;
        }
        submit_sign_in(api, request, answer);
        return;
    }
    const char *address = sign_in->status == WEIR_OK ? arena_copy_string(&request->arena, sign_in->address.data) : NULL;
    text_close(&sign_in->address);
    if (sign_in->status != WEIR_OK || address == NULL) {
        (void)(sign_in->status == WEIR_OK ? error_out_of_memory(&sign_in->error) : sign_in->status);
        respond_sign_in_error(api, request, answer, &sign_in->error);
        return;
    }
    redirect(answer, address);
    answer->cookie = sign_in_cookie_of(request, &sign_in->proof, oidc_has_tls(api->oidc));
}

/* --- the person --- */

/* The name by which approvals and the record of acts go: an address that the provider vouches for, since many providers let
 * people type it. Each other claim has its name before it, as "sub:1234", so that it never equals an address or another
 * claim. A long name is cut, and a hash of the whole follows. So is one before a blank or "(", because `by` of an approval
 * means the part of an actor before these. */
static bool write_person(const struct api *api, const json_t *claims, char to[TOKEN_NAME_MAX])
{
    char marked[512];
    const char *claim = oidc_person_claim(api->oidc);
    const char *person = json_string_value(json_object_get(claims, claim));
    bool is_address = strcmp(claim, "email") == 0;
    if (person == NULL || person[0] == '\0' || (is_address && !json_is_true(json_object_get(claims, "email_verified")))) {
        claim = "sub";
        is_address = false;
        person = json_string_value(json_object_get(claims, claim));
    }
    if (person != NULL && !is_address) {
        int length = snprintf(marked, sizeof marked, "%s:%s", claim, person);
        person = person[0] == '\0' || length < 0 || (size_t)length >= sizeof marked ? NULL : marked;
    }
    unsigned char hash[EVP_MAX_MD_SIZE];
    char letters[BASE64URL_BYTES(PERSON_HASH_BYTES)];
    if (person == NULL) {
        return false;
    }
    size_t plain = strcspn(person, "( ~");
    if (strlen(person) <= PERSON_BYTES_MAX && person[plain] == '\0') {
        text_copy(to, TOKEN_NAME_MAX, person);
        return true;
    }
    size_t kept = plain < PERSON_BYTES_KEPT ? plain : PERSON_BYTES_KEPT;
    while (kept > 0 && ((unsigned char)person[kept] & 0xC0) == 0x80) { /* within a character */
        kept--;
    }
    bool is_made = EVP_Digest(person, strlen(person), hash, NULL, EVP_sha256(), NULL) == 1;
    base64url_encode(hash, is_made ? PERSON_HASH_BYTES : 0, letters);
    (void)snprintf(to, TOKEN_NAME_MAX, "%.*s~%s", (int)kept, person, letters);
    return is_made;
}

/* The account has groups of its own, which an operator needs for the setting. */
static void refuse_groups(const struct api *api, struct http_request *request, struct http_answer *answer,
                          const json_t *claims, const char *person)
{
    char message[WEIR_ERROR_MESSAGE_MAX];
    char shown[256] = "";
    const json_t *groups = oidc_groups_of(api->oidc, claims);
    bool has_some = json_is_string(groups) || json_array_size(groups) > 0;
    text_copy(shown, sizeof shown, json_is_string(groups) ? json_string_value(groups) : "");
    for (size_t i = 0; i < json_array_size(groups) && i < GROUPS_SHOWN; i++) {
        const char *group = json_string_value(json_array_get(groups, i));
        size_t used = strlen(shown);
        (void)snprintf(shown + used, sizeof shown - used, "%s%s", i == 0 ? "" : ", ", group == NULL ? "-" : group);
    }
    (void)snprintf(message, sizeof message, "%s has no group that may use this node; the groups in the token: %s", person,
                   has_some ? shown : "none");
    text_make_safe(message);
    respond_sign_in_page(api, request, answer, 403, message,
                         !has_some ? "Let the provider put the groups into the ID token (http.oidc.groups_claim and "
                                     "http.oidc.scopes name them)"
                                   : "Ask an operator to add one of them to http.oidc.groups");
}

/* --- the session --- */

/* Revokes the session of the person that would end first, by its id: its name may be that of a newer one by now. Another
 * node may have revoked it. */
static enum weir_status end_first_session(struct store *store, const char *person, struct weir_error *error)
{
    char name[TOKEN_NAME_MAX + 1];
    char first[TIME_TEXT_MAX] = "";
    char id[24] = "";
    enum weir_status status = WEIR_OK;
    for (int i = 1; i <= SESSIONS_MOST && status == WEIR_OK; i++) {
        json_t *page = NULL;
        (void)snprintf(name, sizeof name, TOKEN_PERSON "%s/%d", person, i);
        struct list_options options = {.kind = LIST_TOKENS, .name = name};
        status = store_list(store, &options, &page, error);
        const json_t *items = json_object_get(page, "items");
        for (size_t k = 0; k < json_array_size(items); k++) {
            const json_t *row = json_array_get(items, k);
            const char *expires = json_string_value(json_object_get(row, "expires_at"));
            const char *state = json_string_value(json_object_get(row, "state"));
            bool is_live = state != NULL && strcmp(state, "live") == 0 && expires != NULL;
            if (is_live && (first[0] == '\0' || strcmp(expires, first) < 0)) {
                text_copy(first, sizeof first, expires);
                (void)snprintf(id, sizeof id, "%" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(row, "id")));
            }
        }
        json_decref(page);
    }
    if (status != WEIR_OK || id[0] == '\0') {
        return status;
    }
    status = store_token_revoke(store, id, error);
    return status == WEIR_NOT_FOUND ? WEIR_OK : status;
}

/* Takes the first free number. Several nodes may try the same one: the store lets one of them have it. */
static enum weir_status create_numbered_session(struct store *store, const char *person, const struct token_request *token,
                                                struct weir_error *error)
{
    char name[TOKEN_NAME_MAX + 1];
    struct token_request numbered = *token;
    int64_t id = 0;
    enum weir_status status = WEIR_CONFLICT;
    numbered.name = name;
    numbered.is_session = true;
    for (int number = 1; status == WEIR_CONFLICT && number <= SESSIONS_MOST; number++) {
        (void)snprintf(name, sizeof name, TOKEN_PERSON "%s/%d", person, number);
        status = store_token_create(store, &numbered, &id, error);
    }
    return status;
}

static enum weir_status create_session(struct store *store, const char *person, const struct token_request *token,
                                       struct weir_error *error)
{
    enum weir_status status = create_numbered_session(store, person, token, error);
    for (int tries = 1; status == WEIR_CONFLICT && tries < SESSION_TRIES; tries++) {
        status = end_first_session(store, person, error);
        status = status == WEIR_OK ? create_numbered_session(store, person, token, error) : status;
    }
    if (status == WEIR_CONFLICT) {
        error_set(error, WEIR_CONFLICT, "other sign-ins of the same person came between");
        error_hint(error, "sign in again");
    }
    return status;
}

/* The secret of a token with the rights, which ends with the session. */
static enum weir_status begin_person_session(const struct api *api, struct store *store, const char *person,
                                             const struct oidc_right *right, char *secret, struct weir_error *error)
{
    char actor[TOKEN_NAME_MAX + 1];
    int64_t now_us = 0;
    struct token_request token = {.role = right->role,
                                  .has_all_workspaces = right->has_all_workspaces,
                                  .workspaces = right->workspaces,
                                  .workspace_count = right->has_all_workspaces ? 0 : right->workspace_count,
                                  .max_body_bytes = oidc_session_body_bytes(api->oidc)};
    (void)snprintf(actor, sizeof actor, TOKEN_PERSON "%s", person);
    enum weir_status status = store_act_as(store, actor, "signed in by the provider", error);
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK) {
        status = token_secret_make(secret, error);
    }
    if (status == WEIR_OK && !token_secret_hash(secret, TOKEN_SECRET_LENGTH, token.hash)) {
        status = error_set(error, WEIR_SYSTEM, "OpenSSL cannot compute SHA-256");
    }
    if (status == WEIR_OK) {
        token.expires_at_us = now_us + oidc_session_us(api->oidc);
        status = create_session(store, person, &token, error);
    }
    if (status == WEIR_WORKSPACE_NOT_FOUND) { /* which the page must not name: its reader may have no right to any */
        error_set(error, status, "the workspaces of your groups do not exist on this node");
        error_hint(error, "ask an operator to make them, or to correct http.oidc.groups");
    }
    if (status == WEIR_OK) { /* so that the first request of the page finds it; else that reads the tokens */
        struct weir_error ignored;
        (void)(access_refresh(api->access, store, &ignored) == WEIR_OK);
    }
    return status;
}

static void admit_person(const struct api *api, struct store *store, struct http_request *request,
                         struct http_answer *answer, const json_t *claims)
{
    char person[TOKEN_NAME_MAX];
    char secret[TOKEN_SECRET_LENGTH + 1];
    struct weir_error error = {.status = WEIR_OK};
    struct oidc_right right;
    bool is_secure = oidc_has_tls(api->oidc);
    if (!write_person(api, claims, person)) {
        respond_sign_in_page(api, request, answer, 400, "The ID token names nobody", "Let the provider set the claim sub");
        return;
    }
    if (!oidc_rights_of(api->oidc, claims, &request->arena, &right)) {
        refuse_groups(api, request, answer, claims, person);
        return;
    }
    if (begin_person_session(api, store, person, &right, secret, &error) != WEIR_OK) {
        respond_sign_in_error(api, request, answer, &error);
        return;
    }
    redirect(answer, "../");
    answer->cookie = session_cookie_for(request, secret, is_secure, oidc_session_us(api->oidc) / MICROSECONDS_PER_SECOND);
    answer->cookie_2 = sign_in_cookie_of(request, NULL, is_secure);
    OPENSSL_cleanse(secret, sizeof secret);
}

/* --- the way back --- */

/* Whether this browser has begun the sign-in whose answer this is; else a page is answered. RFC 9207: an issuer in the
 * address must be the one of the setting. */
static bool is_own_sign_in(const struct api *api, struct http_request *request, struct http_answer *answer,
                           struct sign_in_proof *proof)
{
    const char *state = request_argument(request, "state");
    const char *issuer = request_argument(request, "iss");
    size_t length = SIGN_IN_PROOF_BYTES - 1;
    if (!sign_in_cookie_read(request, oidc_has_tls(api->oidc), proof)) {
        respond_sign_in_page(api, request, answer, 400, "This browser has begun no sign-in here in the last ten minutes",
                             "Sign in again at the address of http.oidc.redirect_url, with cookies on");
        return false;
    }
    if (state == NULL || strlen(state) != length || CRYPTO_memcmp(state, proof->state, length) != 0) {
        respond_sign_in_page(api, request, answer, 400, "The answer of the provider is not that of the last sign-in here",
                             "Sign in again, in one window");
        return false;
    }
    if (issuer != NULL && strcmp(issuer, oidc_issuer(api->oidc)) != 0) {
        respond_sign_in_page(api, request, answer, 400, "The answer is of another provider", "Sign in again");
        return false;
    }
    return true;
}

static void refuse_by_provider(const struct api *api, struct http_request *request, struct http_answer *answer,
                               const char *code)
{
    char message[128];
    int length = oidc_code_length(code);
    (void)snprintf(message, sizeof message, "The provider did not sign you in: %.*s", length, length == 0 ? "" : code);
    respond_sign_in_page(api, request, answer, 403, code == NULL ? "The answer of the provider has no code" : message,
                         "Sign in again, or ask an operator of the provider for access");
}

void answer_end_oidc(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    struct sign_in *sign_in = request->sign_in;
    if (request->is_again) {
        if (sign_in->status == WEIR_OK) {
            admit_person(api, store, request, answer, sign_in->claims);
        } else if (sign_in->is_wrong_code && api_count_guess(api, request, &answer->retry_after_s)) {
            refuse_guesses(api, request, answer);
        } else {
            respond_sign_in_error(api, request, answer, &sign_in->error);
        }
        json_decref(sign_in->claims);
        sign_in->claims = NULL;
        return;
    }
    if (!has_provider(api, request, answer) || (sign_in = make_sign_in(api, request, answer)) == NULL ||
        !is_own_sign_in(api, request, answer, &sign_in->proof)) {
        return;
    }
    const char *refusal = request_argument(request, "error");
    sign_in->code = request_argument(request, "code");
    bool has_code = sign_in->code != NULL && sign_in->code[0] != '\0' && strlen(sign_in->code) <= OIDC_CODE_BYTES_MAX;
    if (refusal != NULL || !has_code) {
        refuse_by_provider(api, request, answer, refusal);
        return;
    }
    /* The address may be a proxy's, whose people must not be locked out: when nobody else signs in, the code is sent. */
    if (api_has_guessed(api, request, &answer->retry_after_s) && oidc_is_busy(api->oidc)) {
        refuse_guesses(api, request, answer);
        return;
    }
    answer->retry_after_s = 0;
    submit_sign_in(api, request, answer);
}
