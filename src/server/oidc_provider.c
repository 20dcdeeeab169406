/* The requests to the provider, by libcurl, one after the other.
 *
 *   1. GET ISSUER/.well-known/openid-configuration. Its `issuer` must be the one of the setting, so a document of another
 *      provider is not taken (OpenID Connect Discovery 1.0, 4.3).
 *   2. POST token_endpoint with the code and its verifier. The client shows its secret in the field Authorization, or in
 *      the body if the provider takes it only there.
 *   3. GET jwks_uri, unless the keys in memory fit.
 *
 * A redirect is not followed: it would lead the secret to an address that the issuer did not name. */
#include "server/oidc_provider.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bearer_token.h"
#include "base/error.h"
#include "base/json.h"
#include "base/libcurl.h"
#include "server/id_token.h"

#define CONFIGURATION_PATH "/.well-known/openid-configuration"
#define HTTPS "https://"
#define HTTP "http://"
enum { FORM_BYTES_MAX = 16 * 1024, SECRET_BYTES_MAX = 1024, SHOWN_CODE_MAX = 40 };

bool oidc_url_is_safe(const char *url)
{
    static const char *const own_hosts[] = {"127.0.0.1", "localhost", "[::1]"};
    size_t length = url == NULL ? 0 : strlen(url);
    bool is_safe = length > 0 && length < PROVIDER_URL_BYTES_MAX;
    for (size_t i = 0; i < length && is_safe; i++) {
        is_safe = url[i] > ' ' && url[i] < 0x7f && strchr("\"<>\\^`{|}#@", url[i]) == NULL;
    }
    if (!is_safe || strncmp(url, HTTPS, strlen(HTTPS)) == 0) {
        return is_safe && url[strlen(HTTPS)] != '\0';
    }
    bool is_own = false;
    for (size_t i = 0; i < sizeof own_hosts / sizeof own_hosts[0]; i++) {
        size_t host = strlen(own_hosts[i]);
        is_own = is_own || (strncmp(url, HTTP, strlen(HTTP)) == 0 && strncmp(url + strlen(HTTP), own_hosts[i], host) == 0 &&
                            strchr(":/?", url[strlen(HTTP) + host]) != NULL);
    }
    return is_own;
}

void oidc_provider_close(struct oidc_provider *provider)
{
    json_decref(provider->configuration);
    json_decref(provider->keys);
    provider->configuration = NULL;
    provider->keys = NULL;
}

/* --- one request --- */

struct provider_request {
    struct oidc_provider *provider;
    const char *url;
    const char *name;          /* of the document, for messages */
    const struct text *form;   /* NULL = GET */
    const char *authorization; /* the whole field; NULL = none */
    struct text answer;
    long status;
};

static size_t take_provider_answer(char *bytes, size_t size, size_t count, void *context)
{
    struct provider_request *request = context;
    return text_add(&request->answer, bytes, size * count) == WEIR_OK ? size * count : 0;
}

/* Anything but 0 ends the request. */
static int check_provider_end(void *context, curl_off_t to_read, curl_off_t read, curl_off_t to_write, curl_off_t written)
{
    struct provider_request *request = context;
    (void)to_read, (void)read, (void)to_write, (void)written;
    return atomic_load(&request->provider->is_ending);
}

static bool set_provider_options(CURL *easy, struct provider_request *request, struct curl_slist *fields)
{
    const struct oidc_provider *provider = request->provider;
    bool is_local = strncmp(request->url, HTTP, strlen(HTTP)) == 0;
    bool is_set =
        curl_easy_setopt(easy, CURLOPT_URL, request->url) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fields) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_USERAGENT, "weir/" WEIR_VERSION) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_provider_answer) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, request) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, check_provider_end) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_XFERINFODATA, request) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(PROVIDER_CONNECT_US / MICROSECONDS_PER_MS)) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(PROVIDER_REQUEST_US / MICROSECONDS_PER_MS)) == CURLE_OK &&
        (!is_local || curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK) &&
        (provider->ca_file[0] == '\0' || curl_easy_setopt(easy, CURLOPT_CAINFO, provider->ca_file) == CURLE_OK);
    if (request->form != NULL) {
        is_set = is_set &&
                 curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->form->length) == CURLE_OK &&
                 curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->form->data) == CURLE_OK;
    }
#if LIBCURL_VERSION_NUM >= 0x075700
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https"); /* and oidc_url_is_safe() */
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    return is_set;
}

/* The list with one more field, or NULL: no memory. Takes the list over. */
static struct curl_slist *provider_add_field(struct curl_slist *fields, const char *field)
{
    struct curl_slist *longer = curl_slist_append(fields, field);
    if (longer == NULL) {
        curl_slist_free_all(fields);
    }
    return longer;
}

/* Sends the request; the caller closes request->answer. WEIR_ENGINE_UNREACHABLE: no answer, or one beyond the limits. */
static enum weir_status send_provider_request(struct provider_request *request, struct weir_error *error)
{
    CURLcode code = CURLE_OUT_OF_MEMORY;
    CURL *easy = curl_easy_init();
    struct curl_slist *fields = provider_add_field(NULL, "Accept: application/json");
    if (fields != NULL && request->authorization != NULL) {
        fields = provider_add_field(fields, request->authorization);
    }
    request->answer = (struct text){.max = PROVIDER_ANSWER_BYTES_MAX, .wipes = true};
    if (easy != NULL && fields != NULL && set_provider_options(easy, request, fields)) {
        code = curl_easy_perform(easy);
    }
    if (code == CURLE_OK) {
        (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &request->status);
    }
    curl_slist_free_all(fields);
    if (easy != NULL) {
        curl_easy_cleanup(easy);
    }
    if (code == CURLE_OK) {
        return WEIR_OK;
    }
    if (code == CURLE_ABORTED_BY_CALLBACK) {
        error_set(error, WEIR_STOPPED, "this node stops");
        error_hint(error, "sign in again: another node answers, or this one after its restart");
        return WEIR_STOPPED;
    }
    error_set(error, WEIR_ENGINE_UNREACHABLE, "the provider did not answer the request for %s: %s", request->name,
              code == CURLE_WRITE_ERROR ? "its answer is too long" : curl_easy_strerror(code));
    error_hint(error, "check that this node reaches the address of `http.oidc.issuer`; then sign in again");
    return WEIR_ENGINE_UNREACHABLE;
}

/* The answer as a JSON object, which the caller releases. */
static enum weir_status read_provider_object(const struct provider_request *request, json_t **ret_object,
                                             struct weir_error *error)
{
    struct weir_error ignored;
    json_t *object = NULL;
    const char *bytes = request->answer.data == NULL ? "" : request->answer.data;
    if (json_read(bytes, request->answer.length, &object, &ignored) != WEIR_OK || !json_is_object(object)) {
        json_decref(object);
        error_set(error, WEIR_ENGINE_UNREACHABLE, "the provider answered the request for %s with status %ld and no JSON",
                  request->name, request->status);
        error_hint(error, "check the address of `http.oidc.issuer`");
        return WEIR_ENGINE_UNREACHABLE;
    }
    *ret_object = object;
    return WEIR_OK;
}

/* A document of the provider. */
static enum weir_status get_document(struct oidc_provider *provider, const char *url, const char *name,
                                     json_t **ret_document, struct weir_error *error)
{
    struct provider_request request = {.provider = provider, .url = url, .name = name};
    json_t *document = NULL;
    enum weir_status status = send_provider_request(&request, error);
    if (status == WEIR_OK && request.status != 200) {
        status = error_set(error, WEIR_ENGINE_UNREACHABLE, "the provider answered the request for %s with status %ld", name,
                           request.status);
        error_hint(error, "check the address of `http.oidc.issuer`; then sign in again");
    }
    if (status == WEIR_OK) {
        status = read_provider_object(&request, &document, error);
    }
    text_close(&request.answer);
    if (status == WEIR_OK) {
        *ret_document = document;
    }
    return status;
}

/* --- configuration and keys --- */

static bool is_fresh(const json_t *document, int64_t read_us)
{
    return document != NULL && clock_boot(clock_system()) - read_us < PROVIDER_KEPT_US;
}

static const char *endpoint_of(const struct oidc_provider *provider, const char *name)
{
    return json_string_value(json_object_get(provider->configuration, name));
}

/* The addresses are the provider's, but the browser and the secret go there. */
static enum weir_status check_configuration(const struct oidc_provider *provider, const json_t *document,
                                            struct weir_error *error)
{
    static const char *const endpoints[] = {"authorization_endpoint", "token_endpoint", "jwks_uri"};
    const char *issuer = json_string_value(json_object_get(document, "issuer"));
    if (issuer == NULL || strcmp(issuer, provider->issuer) != 0) {
        error_set(error, WEIR_INVALID_CONFIG, "the provider names itself \"%.200s\", and `http.oidc.issuer` another name",
                  issuer == NULL ? "" : issuer);
        error_hint(error, "set `http.oidc.issuer` to that name, letter by letter, if it is your provider");
        return WEIR_INVALID_CONFIG;
    }
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        if (!oidc_url_is_safe(json_string_value(json_object_get(document, endpoints[i])))) {
            error_set(error, WEIR_INVALID_CONFIG, "the provider has no address with https:// for its %s", endpoints[i]);
            error_hint(error, "give the provider its public address with TLS");
            return WEIR_INVALID_CONFIG;
        }
    }
    return WEIR_OK;
}

static enum weir_status need_configuration(struct oidc_provider *provider, struct weir_error *error)
{
    char url[PROVIDER_URL_BYTES_MAX + sizeof CONFIGURATION_PATH];
    json_t *document = NULL;
    if (is_fresh(provider->configuration, provider->configuration_us)) {
        return WEIR_OK;
    }
    size_t length = strlen(provider->issuer);
    length -= length > 0 && provider->issuer[length - 1] == '/' ? 1 : 0;
    (void)snprintf(url, sizeof url, "%.*s%s", (int)length, provider->issuer, CONFIGURATION_PATH);
    enum weir_status status = get_document(provider, url, "its configuration", &document, error);
    if (status == WEIR_OK) {
        status = check_configuration(provider, document, error);
    }
    if (status != WEIR_OK) {
        json_decref(document);
        return status;
    }
    json_decref(provider->configuration);
    provider->configuration = document;
    provider->configuration_us = clock_boot(clock_system());
    return WEIR_OK;
}

static enum weir_status provider_read_keys(struct oidc_provider *provider, struct weir_error *error)
{
    json_t *document = NULL;
    enum weir_status status = get_document(provider, endpoint_of(provider, "jwks_uri"), "its keys", &document, error);
    if (status == WEIR_OK) {
        json_decref(provider->keys);
        provider->keys = document;
        provider->keys_us = clock_boot(clock_system());
    }
    return status;
}

enum weir_status oidc_provider_address(struct oidc_provider *provider, const char *scopes, const char *state,
                                       const char *nonce, const char *challenge, struct text *address,
                                       struct weir_error *error)
{
    INVARIANT(provider != NULL && scopes != NULL && state != NULL && nonce != NULL && challenge != NULL && address != NULL);
    enum weir_status status = need_configuration(provider, error);
    if (status != WEIR_OK) {
        return status;
    }
    const char *endpoint = endpoint_of(provider, "authorization_endpoint");
    const char *const arguments[][2] = {{"client_id", provider->client_id},
                                        {"redirect_uri", provider->redirect_url},
                                        {"scope", scopes},
                                        {"state", state},
                                        {"nonce", nonce},
                                        {"code_challenge", challenge}};
    status = text_format(address, "%s%sresponse_type=code&code_challenge_method=S256", endpoint,
                         strchr(endpoint, '?') == NULL ? "?" : "&");
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0] && status == WEIR_OK; i++) {
        status = text_format(address, "&%s=", arguments[i][0]);
        status = status == WEIR_OK ? text_add_url_value(address, arguments[i][1], strlen(arguments[i][1])) : status;
    }
    return status == WEIR_OK ? status : error_out_of_memory(error);
}

/* --- the exchange of a code --- */

static bool add_form_value(struct text *form, const char *name, const char *value)
{
    return text_format(form, "%s%s=", form->length == 0 ? "" : "&", name) == WEIR_OK &&
           text_add_url_value(form, value, strlen(value)) == WEIR_OK;
}

/* Whether the provider takes the secret in the field Authorization, which is the rule where it names nothing. */
static bool provider_takes_basic(const struct oidc_provider *provider)
{
    const json_t *methods = json_object_get(provider->configuration, "token_endpoint_auth_methods_supported");
    bool takes = methods == NULL;
    for (size_t i = 0; i < json_array_size(methods); i++) {
        const char *method = json_string_value(json_array_get(methods, i));
        takes = takes || (method != NULL && strcmp(method, "client_secret_basic") == 0);
    }
    return takes;
}

/* "Authorization: Basic ...", of both parts percent-encoded (RFC 6749, 2.3.1). */
static bool write_basic(const struct oidc_provider *provider, const char *secret, struct text *field)
{
    struct text pair = {.max = FORM_BYTES_MAX, .wipes = true};
    bool is_written = text_add_url_value(&pair, provider->client_id, strlen(provider->client_id)) == WEIR_OK &&
                      text_add_string(&pair, ":") == WEIR_OK &&
                      text_add_url_value(&pair, secret, strlen(secret)) == WEIR_OK;
    size_t size = (pair.length + 2) / 3 * 4 + 1;
    unsigned char *code = is_written ? malloc(size) : NULL;
    if (code != NULL) {
        int length = EVP_EncodeBlock(code, (const unsigned char *)pair.data, (int)pair.length);
        is_written = text_add_string(field, "Authorization: Basic ") == WEIR_OK &&
                     text_add(field, (const char *)code, (size_t)length) == WEIR_OK;
        OPENSSL_cleanse(code, size);
    }
    is_written = is_written && code != NULL;
    free(code);
    text_close(&pair);
    return is_written;
}

int oidc_code_length(const char *code)
{
    size_t length = code == NULL ? 0 : strspn(code, "abcdefghijklmnopqrstuvwxyz_");
    return (int)(length < SHOWN_CODE_MAX ? length : SHOWN_CODE_MAX);
}

static enum weir_status refuse_exchange(struct provider_request *request, const json_t *answer, struct weir_error *error)
{
    const char *code = json_string_value(json_object_get(answer, "error"));
    int length = oidc_code_length(code);
    bool is_client = length > 0 && (strncmp(code, "invalid_client", (size_t)length) == 0 ||
                                    strncmp(code, "unauthorized_client", (size_t)length) == 0);
    error_set(error, WEIR_INVALID_ARGUMENT, "the provider refused the sign-in: %.*s (status %ld)", length,
              length == 0 ? "" : code, request->status);
    request->provider->has_refused_code = code != NULL && strcmp(code, "invalid_grant") == 0;
    error_hint(error, "%s",
               is_client
                   ? "compare `http.oidc.client_id` and the secret in `http.oidc.client_secret_file` with the provider"
                   : "sign in again: a code is valid once and for a short time");
    return WEIR_INVALID_ARGUMENT;
}

/* The ID token of the answer to the code; the caller wipes it. */
static enum weir_status provider_send_code(struct provider_request *request, struct text *ret_token,
                                           struct weir_error *error)
{
    json_t *answer = NULL;
    enum weir_status status = send_provider_request(request, error);
    if (status == WEIR_OK) {
        status = read_provider_object(request, &answer, error);
    }
    text_close(&request->answer);
    const json_t *token = json_object_get(answer, "id_token");
    bool is_busy = request->status == 429 || request->status >= 500;
    if (status == WEIR_OK && is_busy) {
        status = error_set(error, WEIR_ENGINE_UNREACHABLE, "the provider answered the request for a token with status %ld",
                           request->status);
        error_hint(error, "sign in again in a minute");
    } else if (status == WEIR_OK && request->status != 200) {
        status = refuse_exchange(request, answer, error);
    } else if (status == WEIR_OK && !json_is_string(token)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the provider gave no ID token");
        error_hint(error, "`http.oidc.scopes` must have openid");
    } else if (status == WEIR_OK && json_string_length(token) > ID_TOKEN_BYTES_MAX) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the ID token has more than %d bytes", ID_TOKEN_BYTES_MAX);
        error_hint(error, "let the provider put fewer groups into it");
    } else if (status == WEIR_OK && text_add_string(ret_token, json_string_value(token)) != WEIR_OK) {
        status = error_out_of_memory(error);
    }
    json_decref(answer);
    return status;
}

static enum weir_status exchange_code(struct oidc_provider *provider, const char *code, const char *verifier,
                                      struct text *ret_token, struct weir_error *error)
{
    char secret[SECRET_BYTES_MAX] = "";
    struct text form = {.max = FORM_BYTES_MAX, .wipes = true};
    struct text field = {.max = FORM_BYTES_MAX, .wipes = true};
    bool has_secret = provider->secret_file[0] != '\0';
    if (has_secret && !bearer_token_read(provider->secret_file, secret, sizeof secret)) {
        error_set(error, WEIR_INVALID_CONFIG, "the secret of the client cannot be read");
        error_hint(error, "`http.oidc.client_secret_file` must name a file whose first line is the secret");
        return WEIR_INVALID_CONFIG;
    }
    bool is_basic = has_secret && provider_takes_basic(provider);
    bool is_built = add_form_value(&form, "grant_type", "authorization_code") && add_form_value(&form, "code", code) &&
                    add_form_value(&form, "redirect_uri", provider->redirect_url) &&
                    add_form_value(&form, "code_verifier", verifier) &&
                    (is_basic || add_form_value(&form, "client_id", provider->client_id)) &&
                    (!has_secret || is_basic || add_form_value(&form, "client_secret", secret)) &&
                    (!is_basic || write_basic(provider, secret, &field));
    OPENSSL_cleanse(secret, sizeof secret);
    struct provider_request request = {.provider = provider,
                                       .url = endpoint_of(provider, "token_endpoint"),
                                       .name = "a token",
                                       .form = &form,
                                       .authorization = is_basic ? field.data : NULL};
    enum weir_status status = is_built ? provider_send_code(&request, ret_token, error) : error_out_of_memory(error);
    text_close(&form);
    text_close(&field);
    return status;
}

/* A token with a key that is not in memory: the provider has changed its keys. */
static enum weir_status provider_read_token(struct oidc_provider *provider, const char *token, const char *nonce,
                                            json_t **ret_claims, struct weir_error *error)
{
    struct id_token_expected expected = {.issuer = provider->issuer,
                                         .client_id = provider->client_id,
                                         .nonce = nonce,
                                         .now_s = clock_wall(clock_system()) / MICROSECONDS_PER_SECOND};
    bool was_read = is_fresh(provider->keys, provider->keys_us);
    enum weir_status status = was_read ? WEIR_OK : provider_read_keys(provider, error);
    if (status == WEIR_OK) {
        status = id_token_read(token, json_object_get(provider->keys, "keys"), &expected, ret_claims, error);
    }
    if (status == WEIR_NOT_FOUND && was_read) {
        status = provider_read_keys(provider, error);
        status = status == WEIR_OK
                     ? id_token_read(token, json_object_get(provider->keys, "keys"), &expected, ret_claims, error)
                     : status;
    }
    if (status == WEIR_NOT_FOUND) {
        status = WEIR_INVALID_ARGUMENT;
        error->status = status;
    }
    return status;
}

enum weir_status oidc_provider_redeem(struct oidc_provider *provider, const char *code, const char *verifier,
                                      const char *nonce, json_t **ret_claims, struct weir_error *error)
{
    INVARIANT(provider != NULL && code != NULL && verifier != NULL && nonce != NULL && ret_claims != NULL);
    struct text token = {.max = ID_TOKEN_BYTES_MAX, .wipes = true};
    provider->has_refused_code = false;
    enum weir_status status = need_configuration(provider, error);
    if (status == WEIR_OK) {
        status = exchange_code(provider, code, verifier, &token, error);
    }
    if (status == WEIR_OK) {
        status = provider_read_token(provider, token.data, nonce, ret_claims, error);
    }
    text_close(&token);
    return status;
}
