/* 1. The token is cut at its two dots: head, claims, signature.
 * 2. The head names the algorithm and perhaps a key. Both are only a choice among the keys of the provider.
 * 3. The signature is verified with each key that fits: usually one.
 * 4. The claims are compared with what this sign-in expects.
 *
 * A head with `crit` demands an extension that is not known here, so the token is refused (RFC 7515, 4.1.11). */
#include "server/id_token.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64url.h"
#include "base/error.h"
#include "base/json.h"
#include "server/json_web_key.h"

enum { SIGNATURE_BYTES_MAX = 1024 };
/* Beyond it a number is no time, and no double is exact. */
#define SECONDS_MOST 9007199254740992.0

struct id_token_parts {
    const char *head;
    size_t head_length;
    const char *claims;
    size_t claims_length;
    size_t signed_length; /* of head, dot and claims */
    unsigned char signature[SIGNATURE_BYTES_MAX];
    size_t signature_length;
};

static enum weir_status refuse_form(struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "the ID token of the provider is not a signed JSON object");
    error_hint(error, "let the provider sign ID tokens with RS256 or ES256, and not encrypt them");
    return WEIR_INVALID_ARGUMENT;
}

/* Step 1. */
static bool cut_token(const char *token, struct id_token_parts *parts)
{
    const char *first = strchr(token, '.');
    const char *second = first == NULL ? NULL : strchr(first + 1, '.');
    if (second == NULL || strlen(token) > ID_TOKEN_BYTES_MAX) {
        return false;
    }
    *parts = (struct id_token_parts){.head = token,
                                     .head_length = (size_t)(first - token),
                                     .claims = first + 1,
                                     .claims_length = (size_t)(second - first - 1),
                                     .signed_length = (size_t)(second - token)};
    return base64url_decode(second + 1, strlen(second + 1), parts->signature, sizeof parts->signature,
                            &parts->signature_length);
}

/* NULL: it is no JSON object. */
static json_t *read_part(const char *letters, size_t length)
{
    struct weir_error ignored;
    json_t *value = NULL;
    size_t bytes_length = 0;
    unsigned char *bytes = malloc(length + 1);
    bool is_read = bytes != NULL && base64url_decode(letters, length, bytes, length, &bytes_length) &&
                   json_read((const char *)bytes, bytes_length, &value, &ignored) == WEIR_OK;
    free(bytes);
    if (is_read && !json_is_object(value)) {
        json_decref(value);
        value = NULL;
    }
    return is_read ? value : NULL;
}

/* Step 3. */
static enum weir_status check_signature(const char *token, const struct id_token_parts *parts, const json_t *head,
                                        const json_t *keys, struct weir_error *error)
{
    const char *algorithm = json_string_value(json_object_get(head, "alg"));
    const char *id = json_string_value(json_object_get(head, "kid"));
    if (!json_web_key_has_algorithm(algorithm)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the ID token is signed with \"%.16s\"",
                  algorithm == NULL ? "nothing" : algorithm);
        error_hint(error, "let the provider sign ID tokens with RS256 or ES256");
        return WEIR_INVALID_ARGUMENT;
    }
    if (json_object_get(head, "crit") != NULL) {
        return refuse_form(error);
    }
    size_t tried = 0;
    for (size_t i = 0; i < json_array_size(keys) && i < ID_TOKEN_KEYS_MAX; i++) {
        const json_t *key = json_array_get(keys, i);
        if (!json_web_key_fits(key, algorithm, id)) {
            continue;
        }
        tried++;
        if (json_web_key_verifies(key, algorithm, token, parts->signed_length, parts->signature, parts->signature_length)) {
            return WEIR_OK;
        }
    }
    error_set(error, WEIR_NOT_FOUND,
              tried == 0 ? "the provider has no key that can have signed the ID token"
                         : "the signature of the ID token is wrong");
    error_hint(error, "sign in again; if that does not help, `http.oidc.issuer` names another provider than the one that "
                      "answers");
    return WEIR_NOT_FOUND;
}

/* --- claims --- */

static bool claim_is(const json_t *claims, const char *name, const char *expected)
{
    const json_t *claim = json_object_get(claims, name);
    return json_is_string(claim) && json_string_length(claim) == strlen(expected) &&
           memcmp(json_string_value(claim), expected, strlen(expected)) == 0;
}

/* The audience is a text or a list. A token for several clients names in `azp` the one that it was given to. */
static bool is_for_client(const json_t *claims, const char *client_id)
{
    const json_t *audience = json_object_get(claims, "aud");
    const json_t *party = json_object_get(claims, "azp");
    bool is_named = claim_is(claims, "aud", client_id);
    for (size_t i = 0; i < json_array_size(audience); i++) {
        const char *one = json_string_value(json_array_get(audience, i));
        is_named = is_named || (one != NULL && strcmp(one, client_id) == 0);
    }
    bool needs_party = json_array_size(audience) > 1;
    return is_named && (party == NULL ? !needs_party : claim_is(claims, "azp", client_id));
}

/* False: the claim is no time. */
static bool read_seconds(const json_t *claims, const char *name, int64_t *ret_seconds)
{
    const json_t *claim = json_object_get(claims, name);
    double seconds = json_number_value(claim);
    if (!json_is_number(claim) || !(seconds >= 0 && seconds <= SECONDS_MOST)) {
        return false;
    }
    *ret_seconds = (int64_t)seconds;
    return true;
}

static enum weir_status refuse_time(const char *how, int64_t seconds, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "the ID token %s by the clock of this node, which differs by %" PRId64 " s",
              how, seconds);
    error_hint(error, "compare the clocks of this node and of the provider (NTP); at most %d s are allowed",
               ID_TOKEN_LEEWAY_S);
    return WEIR_INVALID_ARGUMENT;
}

static enum weir_status id_token_check_times(const json_t *claims, int64_t now_s, struct weir_error *error)
{
    int64_t expires_s = 0;
    int64_t issued_s = 0;
    int64_t begins_s = 0;
    bool has_begin = json_object_get(claims, "nbf") != NULL;
    if (!read_seconds(claims, "exp", &expires_s) || !read_seconds(claims, "iat", &issued_s) ||
        (has_begin && !read_seconds(claims, "nbf", &begins_s))) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the ID token has no time of its issue or of its end");
        error_hint(error, "let the provider put `iat` and `exp` into its ID tokens, in seconds");
        return WEIR_INVALID_ARGUMENT;
    }
    begins_s = has_begin && begins_s > issued_s ? begins_s : issued_s;
    if (begins_s > now_s + ID_TOKEN_LEEWAY_S) {
        return refuse_time("is of the future", begins_s - now_s, error);
    }
    if (expires_s + ID_TOKEN_LEEWAY_S <= now_s) {
        return refuse_time("has expired", now_s - expires_s, error);
    }
    return WEIR_OK;
}

/* Step 4. The nonce is compared in constant time, as all values that a client sends back. */
static enum weir_status id_token_check_claims(const json_t *claims, const struct id_token_expected *expected,
                                              struct weir_error *error)
{
    const char *nonce = json_string_value(json_object_get(claims, "nonce"));
    size_t length = strlen(expected->nonce);
    if (!claim_is(claims, "iss", expected->issuer)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the ID token is of another issuer than `http.oidc.issuer`");
        error_hint(error,
                   "set `http.oidc.issuer` to the `issuer` of the provider's openid-configuration, letter by letter");
        return WEIR_INVALID_ARGUMENT;
    }
    if (!is_for_client(claims, expected->client_id)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the ID token is for another client than `http.oidc.client_id`");
        error_hint(error, "compare `http.oidc.client_id` with the client that the provider has registered");
        return WEIR_INVALID_ARGUMENT;
    }
    if (nonce == NULL || strlen(nonce) != length || CRYPTO_memcmp(nonce, expected->nonce, length) != 0) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the ID token is of another sign-in (its nonce is wrong)");
        error_hint(error, "sign in again");
        return WEIR_INVALID_ARGUMENT;
    }
    return id_token_check_times(claims, expected->now_s, error);
}

enum weir_status id_token_read(const char *token, const json_t *keys, const struct id_token_expected *expected,
                               json_t **ret_claims, struct weir_error *error)
{
    INVARIANT(token != NULL && expected != NULL && expected->nonce != NULL && ret_claims != NULL);
    struct id_token_parts parts;
    if (!cut_token(token, &parts)) {
        return refuse_form(error);
    }
    json_t *head = read_part(parts.head, parts.head_length);
    json_t *claims = read_part(parts.claims, parts.claims_length);
    /* A text with a NUL would be cut by a comparison, and then be the name of another group. */
    bool is_whole = head != NULL && claims != NULL && !json_has_nul(head) && !json_has_nul(claims);
    enum weir_status status = is_whole ? WEIR_OK : refuse_form(error);
    if (status == WEIR_OK) {
        status = check_signature(token, &parts, head, keys, error);
    }
    if (status == WEIR_OK) {
        status = id_token_check_claims(claims, expected, error);
    }
    json_decref(head);
    if (status != WEIR_OK) {
        json_decref(claims);
        return status;
    }
    *ret_claims = claims;
    return WEIR_OK;
}
