/* The secret of a token of the HTTP API: `weir_` and 43 characters of base64url (RFC 4648), which hold 256 random bits.
 *
 * The store keeps the SHA-256 of the whole text and never the text. A secret of 256 random bits cannot be guessed, so its
 * hash needs no salt and no slow function. Any thread; no state.
 */
#ifndef WEIR_BASE_TOKEN_SECRET_H
#define WEIR_BASE_TOKEN_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/status.h"

enum {
    TOKEN_HASH_BYTES = 32,
    TOKEN_SECRET_LENGTH = 48 /* bytes of the text, without its NUL */
};

/* Makes a secret from the random numbers of the system; `to` holds TOKEN_SECRET_LENGTH + 1 bytes. Waits only while a
 * machine that has just started has no random numbers yet. WEIR_SYSTEM: the system has none. */
WEIR_MUST_CHECK enum weir_status token_secret_make(char *to, struct weir_error *error);
/* The hash of a text of `length` bytes. False: the text has not the form of a secret, or OpenSSL cannot compute SHA-256. */
WEIR_MUST_CHECK bool token_secret_hash(const char *text, size_t length, unsigned char ret_hash[TOKEN_HASH_BYTES]);
/* Compares two hashes in a time that does not depend on them. */
bool token_hash_equal(const unsigned char a[TOKEN_HASH_BYTES], const unsigned char b[TOKEN_HASH_BYTES]);

#endif
