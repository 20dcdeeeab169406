/* An ID token of an OpenID provider. The first byte is the form of the rest:
 *
 *     't'   TOKEN                 any bytes as a token, checked with right keys
 *     'k'   KEYS LF TOKEN         any JSON as the keys of the provider
 *     's'   HEAD LF CLAIMS        both are signed here, so that the checks behind the signature are reached
 *     'g'   GROUPS LF CLAIMS      the same, and the setting http.oidc.groups
 *
 * A token that is accepted has a right signature, and claims of this sign-in. */
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64url.h"
#include "base/error.h"
#include "base/json.h"
#include "server/id_token.h"
#include "server/json_web_key.h"
#include "server/oidc_groups.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EC_NUMBER_BYTES = 32, SIGNATURE_DER_MAX = 80, MEMORY_MAX = 1024 * 1024 };

static const struct id_token_expected expected = {
    .issuer = "https://login.example", .client_id = "weir", .nonce = "n-0S6_WzA2Mj", .now_s = 1700000000};
static EVP_PKEY *own_key;
static json_t *own_keys;

/* A key for this run alone: the corpus needs no signature, and no secret. */
static void make_own_key(void)
{
    unsigned char point[1 + 2 * EC_NUMBER_BYTES];
    size_t length = 0;
    char x[BASE64URL_BYTES(EC_NUMBER_BYTES)];
    char y[BASE64URL_BYTES(EC_NUMBER_BYTES)];
    own_key = EVP_EC_gen("P-256");
    INVARIANT(own_key != NULL && EVP_PKEY_get_octet_string_param(own_key, "pub", point, sizeof point, &length) == 1 &&
              length == sizeof point);
    base64url_encode(point + 1, EC_NUMBER_BYTES, x);
    base64url_encode(point + 1 + EC_NUMBER_BYTES, EC_NUMBER_BYTES, y);
    own_keys = json_pack("[{s:s, s:s, s:s, s:s, s:s}]", "kty", "EC", "crv", "P-256", "kid", "own", "x", x, "y", y);
    INVARIANT(own_keys != NULL);
}

/* The signature of ES256: both numbers, without their form in DER. */
static void sign(const char *text, size_t length, unsigned char signature[2 * EC_NUMBER_BYTES])
{
    unsigned char der[SIGNATURE_DER_MAX];
    const unsigned char *at = der;
    size_t der_length = sizeof der;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    INVARIANT(EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, own_key) == 1 &&
              EVP_DigestSign(context, der, &der_length, (const unsigned char *)text, length) == 1);
    ECDSA_SIG *numbers = d2i_ECDSA_SIG(NULL, &at, (long)der_length);
    INVARIANT(numbers != NULL && BN_bn2binpad(ECDSA_SIG_get0_r(numbers), signature, EC_NUMBER_BYTES) == EC_NUMBER_BYTES &&
              BN_bn2binpad(ECDSA_SIG_get0_s(numbers), signature + EC_NUMBER_BYTES, EC_NUMBER_BYTES) == EC_NUMBER_BYTES);
    ECDSA_SIG_free(numbers);
    EVP_MD_CTX_free(context);
}

/* The caller frees it. */
static char *make_token(const char *head, size_t head_length, const char *claims, size_t claims_length)
{
    unsigned char signature[2 * EC_NUMBER_BYTES];
    char *token =
        malloc(BASE64URL_BYTES(head_length) + BASE64URL_BYTES(claims_length) + BASE64URL_BYTES(sizeof signature) + 2);
    INVARIANT(token != NULL);
    base64url_encode((const unsigned char *)head, head_length, token);
    char *at = token + strlen(token);
    *at++ = '.';
    base64url_encode((const unsigned char *)claims, claims_length, at);
    at += strlen(at);
    sign(token, (size_t)(at - token), signature);
    *at++ = '.';
    base64url_encode(signature, sizeof signature, at);
    return token;
}

static bool is_text(const json_t *claims, const char *name, const char *text)
{
    const char *claim = json_string_value(json_object_get(claims, name));
    return claim != NULL && strcmp(claim, text) == 0;
}

/* NULL: it was refused. The caller releases the claims. */
static json_t *read_token(const char *token, const json_t *keys)
{
    struct weir_error error = {.status = WEIR_OK};
    json_t *claims = NULL;
    enum weir_status status = id_token_read(token, keys, &expected, &claims, &error);
    if (status != WEIR_OK) {
        INVARIANT(claims == NULL && error.message[0] != '\0' && error.hint[0] != '\0');
        INVARIANT(status == WEIR_NOT_FOUND || status == WEIR_INVALID_ARGUMENT);
        return NULL;
    }
    INVARIANT(is_text(claims, "iss", expected.issuer) && is_text(claims, "nonce", expected.nonce) && !json_has_nul(claims));
    INVARIANT(json_number_value(json_object_get(claims, "exp")) + ID_TOKEN_LEEWAY_S > (double)expected.now_s);
    INVARIANT(json_number_value(json_object_get(claims, "iat")) <= (double)(expected.now_s + ID_TOKEN_LEEWAY_S));
    return claims;
}

/* Without the key no token can be made. */
static void try_token(const char *token)
{
    INVARIANT(read_token(token, own_keys) == NULL);
}

static void try_keys(const char *text, size_t length, const char *token)
{
    json_t *keys = NULL;
    if (json_read(text, length, &keys, NULL) == WEIR_OK && json_is_array(keys)) {
        json_decref(read_token(token, keys));
    }
    json_decref(keys);
}

/* A group of the token gives the rights of the setting, and of no other group. */
static void try_groups(const char *setting, const json_t *claims)
{
    struct arena arena;
    static struct oidc_groups groups;
    struct oidc_right right;
    arena_init(&arena, MEMORY_MAX);
    const json_t *names = json_object_get(claims, "groups");
    if (oidc_groups_read(setting, &arena, &groups, NULL) == WEIR_OK && oidc_groups_choose(&groups, names, &arena, &right)) {
        bool is_named = is_text(claims, "groups", right.group);
        for (size_t i = 0; i < json_array_size(names); i++) {
            const char *name = json_string_value(json_array_get(names, i));
            is_named = is_named || (name != NULL && strcmp(name, right.group) == 0);
        }
        INVARIANT(is_named && (right.has_all_workspaces || right.workspace_count > 0));
    }
    arena_close(&arena);
}

/* `part`: the part before the LF, with its own end. */
static void try_form(char form, char *part, size_t part_length, const char *rest, size_t rest_length)
{
    static const char head[] = "{\"alg\":\"ES256\",\"kid\":\"own\"}";
    bool is_head = form == 's';
    char *token = make_token(is_head ? part : head, is_head ? part_length : strlen(head), rest, rest_length);
    json_t *claims = read_token(token, own_keys);
    if (form == 'g' && claims != NULL) {
        try_groups(part, claims);
    }
    json_decref(claims);
    free(token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (own_key == NULL) {
        make_own_key();
    }
    char *text = size == 0 ? NULL : malloc(size);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    char *line_end = memchr(text, '\n', size - 1);
    size_t part_length = line_end == NULL ? size - 1 : (size_t)(line_end - text);
    const char *rest = line_end == NULL ? "" : line_end + 1;
    size_t rest_length = line_end == NULL ? 0 : size - 2 - part_length;
    text[part_length] = '\0';
    if (data[0] == 't') {
        try_token(text);
    } else if (data[0] == 'k') {
        try_keys(text, part_length, rest);
    } else {
        try_form((char)data[0], text, part_length, rest, rest_length);
    }
    free(text);
    return 0;
}
