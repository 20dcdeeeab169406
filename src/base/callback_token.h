/* The token with which a function reports the result of one attempt of an `http` step with `callback`.
 *
 * Its text is the id of the execution, a dot, and a secret (token_secret.h): the report needs no other right. The store
 * keeps a part of the hash of the secret, in the name of what the step waits for, and never the secret. 128 bits of a
 * hash of 256 random bits cannot be met by chance. Any thread; no state.
 */
#ifndef WEIR_BASE_CALLBACK_TOKEN_H
#define WEIR_BASE_CALLBACK_TOKEN_H

#include <stdbool.h>

#include "base/token_secret.h"
#include "base/uuid.h"
#include "weir/status.h"

enum {
    CALLBACK_HASH_LENGTH = 32,   /* hexadecimal digits, without the NUL */
    CALLBACK_DIGEST_LENGTH = 64, /* hexadecimal digits, without the NUL */
    CALLBACK_TOKEN_MAX = UUID_TEXT_MAX + TOKEN_SECRET_LENGTH
};

/* Makes a token for the execution `id`. `to` holds CALLBACK_TOKEN_MAX + 1 bytes, `ret_hash` CALLBACK_HASH_LENGTH + 1.
 * WEIR_SYSTEM: the system has no random numbers. */
WEIR_MUST_CHECK enum weir_status callback_token_make(const char *id, char *to, char *ret_hash, struct weir_error *error);
/* Reads a token of a caller: the id of its execution (UUID_TEXT_MAX bytes), and the hash. False: it has not the form of
 * one. */
WEIR_MUST_CHECK bool callback_token_read(const char *token, char *ret_id, char *ret_hash);
/* The SHA-256 of a report, as text: `ret_digest` holds CALLBACK_DIGEST_LENGTH + 1 bytes. False: OpenSSL cannot compute it.
 */
WEIR_MUST_CHECK bool callback_digest(const char *report, size_t length, char *ret_digest);

#endif
