/* 1. The numbers of the key become parameters of OpenSSL, and these a key.
 * 2. A signature of ES256 is two numbers of 32 bytes (RFC 7518, 3.4). OpenSSL takes them in DER.
 * 3. EVP_DigestVerify() decides. Whatever fails before it is a wrong signature.
 *
 * The algorithm is that of the caller, who has it from the head of the token. So the kind of the key must fit it: a key of
 * RSA never becomes a shared secret. */
#include "server/json_web_key.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <string.h>

#include "base/base64url.h"
#include "base/error.h"

#define RSA_ALGORITHM "RS256"
#define EC_ALGORITHM "ES256"
#define CURVE "P-256"
enum { RSA_BITS_LEAST = 2048, RSA_BITS_MOST = 8192, NUMBER_BYTES_MAX = RSA_BITS_MOST / 8, EC_NUMBER_BYTES = 32 };

static bool text_is(const json_t *key, const char *member, const char *value)
{
    const char *text = json_string_value(json_object_get(key, member));
    return text != NULL && strcmp(text, value) == 0;
}

bool json_web_key_has_algorithm(const char *algorithm)
{
    return algorithm != NULL && (strcmp(algorithm, RSA_ALGORITHM) == 0 || strcmp(algorithm, EC_ALGORITHM) == 0);
}

/* A key without `use` or `alg` may be for this algorithm: both are optional. */
bool json_web_key_fits(const json_t *key, const char *algorithm, const char *id)
{
    INVARIANT(json_web_key_has_algorithm(algorithm));
    bool is_rsa = strcmp(algorithm, RSA_ALGORITHM) == 0;
    bool has_type = is_rsa ? text_is(key, "kty", "RSA") : text_is(key, "kty", "EC") && text_is(key, "crv", CURVE);
    bool is_signing = json_object_get(key, "use") == NULL || text_is(key, "use", "sig");
    bool has_algorithm = json_object_get(key, "alg") == NULL || text_is(key, "alg", algorithm);
    return has_type && is_signing && has_algorithm && (id == NULL || text_is(key, "kid", id));
}

/* The bytes of a member; 0: it has none that are right. */
static size_t read_key_number(const json_t *key, const char *member, unsigned char *to, size_t most)
{
    const json_t *text = json_object_get(key, member);
    size_t length = 0;
    bool is_read =
        json_is_string(text) && base64url_decode(json_string_value(text), json_string_length(text), to, most, &length);
    return is_read ? length : 0;
}

/* Step 1. Takes the parameters over. NULL: they make no key. */
static EVP_PKEY *key_of_parameters(const char *type, OSSL_PARAM_BLD *builder)
{
    EVP_PKEY *made = NULL;
    OSSL_PARAM *parameters = OSSL_PARAM_BLD_to_param(builder);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (parameters == NULL || context == NULL || EVP_PKEY_fromdata_init(context) != 1 ||
        EVP_PKEY_fromdata(context, &made, EVP_PKEY_PUBLIC_KEY, parameters) != 1) {
        made = NULL;
    }
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(parameters);
    OSSL_PARAM_BLD_free(builder);
    return made;
}

static EVP_PKEY *read_rsa_key(const json_t *key)
{
    unsigned char modulus[NUMBER_BYTES_MAX];
    unsigned char exponent[NUMBER_BYTES_MAX];
    size_t modulus_length = read_key_number(key, "n", modulus, sizeof modulus);
    size_t exponent_length = read_key_number(key, "e", exponent, sizeof exponent);
    BIGNUM *n = BN_bin2bn(modulus, (int)modulus_length, NULL);
    BIGNUM *e = BN_bin2bn(exponent, (int)exponent_length, NULL);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    EVP_PKEY *made = NULL;
    if (modulus_length > 0 && exponent_length > 0 && n != NULL && e != NULL && builder != NULL &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e) == 1) {
        made = key_of_parameters("RSA", builder);
    } else {
        OSSL_PARAM_BLD_free(builder);
    }
    BN_free(n);
    BN_free(e);
    if (made != NULL && (EVP_PKEY_get_bits(made) < RSA_BITS_LEAST || EVP_PKEY_get_bits(made) > RSA_BITS_MOST)) {
        EVP_PKEY_free(made);
        made = NULL;
    }
    return made;
}

/* The point of the curve without compression: 4, then both numbers. OpenSSL refuses a point that is not on the curve. */
static EVP_PKEY *read_ec_key(const json_t *key)
{
    unsigned char point[1 + 2 * EC_NUMBER_BYTES] = {4};
    size_t x = read_key_number(key, "x", point + 1, EC_NUMBER_BYTES);
    size_t y = read_key_number(key, "y", point + 1 + EC_NUMBER_BYTES, EC_NUMBER_BYTES);
    OSSL_PARAM_BLD *builder = x == EC_NUMBER_BYTES && y == EC_NUMBER_BYTES ? OSSL_PARAM_BLD_new() : NULL;
    if (builder == NULL || OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) != 1 ||
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point) != 1) {
        OSSL_PARAM_BLD_free(builder);
        return NULL;
    }
    return key_of_parameters("EC", builder);
}

/* Step 2. The caller frees *ret_der. 0: the signature is none. */
static size_t signature_in_der(const unsigned char *signature, size_t length, unsigned char **ret_der)
{
    if (length != (size_t)2 * EC_NUMBER_BYTES) {
        return 0;
    }
    ECDSA_SIG *numbers = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(signature, EC_NUMBER_BYTES, NULL);
    BIGNUM *s = BN_bin2bn(signature + EC_NUMBER_BYTES, EC_NUMBER_BYTES, NULL);
    int written = 0;
    if (numbers != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(numbers, r, s) == 1) {
        r = NULL; /* both belong to `numbers` */
        s = NULL;
        written = i2d_ECDSA_SIG(numbers, ret_der);
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(numbers);
    return written > 0 ? (size_t)written : 0;
}

bool json_web_key_verifies(const json_t *key, const char *algorithm, const char *text, size_t length,
                           const unsigned char *signature, size_t signature_length)
{
    INVARIANT(key != NULL && text != NULL && signature != NULL && json_web_key_has_algorithm(algorithm));
    bool is_rsa = strcmp(algorithm, RSA_ALGORITHM) == 0;
    unsigned char *der = NULL;
    const unsigned char *bytes = signature;
    if (!is_rsa) {
        signature_length = signature_in_der(signature, signature_length, &der);
        bytes = der;
    }
    EVP_PKEY *public = is_rsa ? read_rsa_key(key) : read_ec_key(key);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool is_right = public != NULL && context != NULL && bytes != NULL && signature_length > 0 &&
                    EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, public) == 1 &&
                    EVP_DigestVerify(context, bytes, signature_length, (const unsigned char *)text, length) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(public);
    OPENSSL_free(der);
    ERR_clear_error(); /* of a failure, which is an answer here */
    return is_right;
}
