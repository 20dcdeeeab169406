/* Tokens of callbacks: a form around the secrets of token_secret.c. It never logs and keeps nothing. */
#include "base/callback_token.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/libssl.h"

enum { ID_LENGTH = UUID_TEXT_MAX - 1 };

static void write_hexadecimal(const unsigned char *bytes, size_t count, char *to)
{
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(to + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* The first half of the hash, as text. */
static bool write_hash(const char *secret, size_t length, char *ret_hash)
{
    unsigned char hash[TOKEN_HASH_BYTES];
    if (!token_secret_hash(secret, length, hash)) {
        return false;
    }
    write_hexadecimal(hash, CALLBACK_HASH_LENGTH / 2, ret_hash);
    return true;
}

enum weir_status callback_token_make(const char *id, char *to, char *ret_hash, struct weir_error *error)
{
    INVARIANT(id != NULL && strlen(id) == ID_LENGTH && to != NULL && ret_hash != NULL);
    (void)memcpy(to, id, ID_LENGTH);
    to[ID_LENGTH] = '.';
    enum weir_status status = libssl_load(error);
    if (status == WEIR_OK) {
        status = token_secret_make(to + ID_LENGTH + 1, error);
    }
    if (status == WEIR_OK && !write_hash(to + ID_LENGTH + 1, TOKEN_SECRET_LENGTH, ret_hash)) {
        status = error_set(error, WEIR_SYSTEM, "OpenSSL cannot compute SHA-256");
    }
    return status;
}

bool callback_token_read(const char *token, char *ret_id, char *ret_hash)
{
    INVARIANT(token != NULL && ret_id != NULL && ret_hash != NULL);
    char id[UUID_TEXT_MAX];
    if (strlen(token) != ID_LENGTH + 1 + TOKEN_SECRET_LENGTH || token[ID_LENGTH] != '.') {
        return false;
    }
    (void)memcpy(id, token, ID_LENGTH);
    id[ID_LENGTH] = '\0';
    if (!uuid_is_valid(id) || !write_hash(token + ID_LENGTH + 1, TOKEN_SECRET_LENGTH, ret_hash)) {
        return false;
    }
    (void)memcpy(ret_id, id, sizeof id);
    return true;
}

bool callback_digest(const char *report, size_t length, char *ret_digest)
{
    INVARIANT(report != NULL && ret_digest != NULL);
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int hash_length = 0;
    if (libssl_load(NULL) != WEIR_OK || EVP_Digest(report, length, hash, &hash_length, EVP_sha256(), NULL) != 1 ||
        hash_length != CALLBACK_DIGEST_LENGTH / 2) {
        return false;
    }
    write_hexadecimal(hash, hash_length, ret_digest);
    return true;
}
