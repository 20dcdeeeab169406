/* A public key of an OpenID provider (RFC 7517), and a signature by it (RFC 7515, 7518). OpenSSL computes; any thread. */
#ifndef WEIR_SERVER_JSON_WEB_KEY_H
#define WEIR_SERVER_JSON_WEB_KEY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Those that are read: RS256 and ES256. Never "none", and never one with a shared secret (HS256): a key that is public
 * would be that secret. */
bool json_web_key_has_algorithm(const char *algorithm);
/* Whether the key is for signatures of this algorithm, and has this id. `id` NULL: any id. */
bool json_web_key_fits(const json_t *key, const char *algorithm, const char *id);
/* Whether the signature is that of the text by this key, for which json_web_key_fits() is true. False as well: the key is
 * malformed or weak. RSA keys have 2048 to 8192 bits. */
bool json_web_key_verifies(const json_t *key, const char *algorithm, const char *text, size_t length,
                           const unsigned char *signature, size_t signature_length);

#endif
