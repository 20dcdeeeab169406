/* The ID token of an OpenID provider: a JSON object that the provider has signed (OpenID Connect Core 1.0, 3.1.3.7).
 *
 * No claim counts before the signature was verified. No message has a part of the token but its algorithm. Pure; any
 * thread.
 */
#ifndef WEIR_SERVER_ID_TOKEN_H
#define WEIR_SERVER_ID_TOKEN_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

enum {
    ID_TOKEN_BYTES_MAX = 64 * 1024,
    ID_TOKEN_KEYS_MAX = 64, /* of a provider; further ones are not read */
    /* The clocks of two machines may differ by so much. */
    ID_TOKEN_LEEWAY_S = 60
};

/* The token must be for this sign-in. */
struct id_token_expected {
    const char *issuer;
    const char *client_id;
    const char *nonce;
    int64_t now_s; /* wall clock */
};

/* `keys`: the array of the provider's public keys. The caller releases *ret_claims. WEIR_NOT_FOUND: none of the keys has
 * signed it; the provider may have others by now, also under the same id. WEIR_INVALID_ARGUMENT: the token must not be
 * accepted. */
WEIR_MUST_CHECK enum weir_status id_token_read(const char *token, const json_t *keys,
                                               const struct id_token_expected *expected, json_t **ret_claims,
                                               struct weir_error *error);

#endif
