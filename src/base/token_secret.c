/* Secrets of tokens: made from getrandom(), hashed and compared by OpenSSL.
 *
 * It keeps no secret: the caller wipes the text that it got. It never logs and never shortens a comparison.
 */
#include "base/token_secret.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/base64url.h"
#include "base/error.h"
#include "base/libssl.h"

#define PREFIX "weir_"
enum { PREFIX_LENGTH = sizeof PREFIX - 1, RANDOM_BYTES = 32 };
static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

enum weir_status token_secret_make(char *to, struct weir_error *error)
{
    INVARIANT(to != NULL);
    unsigned char bytes[RANDOM_BYTES];
    char letters[BASE64URL_BYTES(RANDOM_BYTES)];
    ssize_t got;
    do {
        got = getrandom(bytes, sizeof bytes, 0);
    } while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof bytes) {
        return error_set(error, WEIR_SYSTEM, "the system has no random numbers for a secret: %s", strerror(errno));
    }
    base64url_encode(bytes, sizeof bytes, letters);
    INVARIANT(strlen(letters) == TOKEN_SECRET_LENGTH - PREFIX_LENGTH);
    (void)memcpy(to, PREFIX, PREFIX_LENGTH);
    (void)memcpy(to + PREFIX_LENGTH, letters, TOKEN_SECRET_LENGTH - PREFIX_LENGTH + 1);
    explicit_bzero(bytes, sizeof bytes);
    explicit_bzero(letters, sizeof letters);
    return WEIR_OK;
}

static bool has_form(const char *text, size_t length)
{
    if (length != TOKEN_SECRET_LENGTH || memcmp(text, PREFIX, PREFIX_LENGTH) != 0) {
        return false;
    }
    for (size_t i = PREFIX_LENGTH; i < length; i++) {
        if (text[i] == '\0' || strchr(alphabet, text[i]) == NULL) {
            return false;
        }
    }
    return true;
}

bool token_secret_hash(const char *text, size_t length, unsigned char ret_hash[TOKEN_HASH_BYTES])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int hash_length = 0;
    if (text == NULL || !has_form(text, length) || libssl_load(NULL) != WEIR_OK ||
        EVP_Digest(text, length, hash, &hash_length, EVP_sha256(), NULL) != 1 || hash_length != TOKEN_HASH_BYTES) {
        return false;
    }
    (void)memcpy(ret_hash, hash, TOKEN_HASH_BYTES);
    return true;
}

bool token_hash_equal(const unsigned char a[TOKEN_HASH_BYTES], const unsigned char b[TOKEN_HASH_BYTES])
{
    return libssl_load(NULL) == WEIR_OK && CRYPTO_memcmp(a, b, TOKEN_HASH_BYTES) == 0;
}
