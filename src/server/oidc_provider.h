/* An OpenID provider as a client of it sees it: its configuration, its keys, and the exchange of a code.
 *
 * Each call sends at most three requests, each with a deadline and a limit of its answer, and follows no redirect. The
 * configuration and the keys are kept for an hour; keys are read again when a token names another one. A failure is never
 * kept. No message has a secret, a code or a token.
 *
 * Owner: oidc.c. Threads: one at a time; `is_ending` may be set by any.
 */
#ifndef WEIR_SERVER_OIDC_PROVIDER_H
#define WEIR_SERVER_OIDC_PROVIDER_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/text.h"
#include "weir/status.h"

enum { PROVIDER_ANSWER_BYTES_MAX = 256 * 1024, PROVIDER_URL_BYTES_MAX = 2048 };
#define PROVIDER_CONNECT_US (3 * MICROSECONDS_PER_SECOND)
#define PROVIDER_REQUEST_US (5 * MICROSECONDS_PER_SECOND)
#define PROVIDER_KEPT_US (3600 * MICROSECONDS_PER_SECOND)

struct oidc_provider {
    const char *issuer;
    const char *client_id;
    const char *secret_file;  /* bearer_token.h; "" = a client without a secret */
    const char *redirect_url; /* of this node, where the browser comes back */
    const char *ca_file;      /* "" = those of the system */
    atomic_bool is_ending;    /* ends the request under way */
    json_t *configuration;    /* NULL = not read yet */
    json_t *keys;
    bool has_refused_code;    /* the last one: it does not know it, or not with this verifier */
    int64_t configuration_us; /* boot clock: when it was read */
    int64_t keys_us;
};

/* Whether a URL may be asked or sent to a browser: https, or http on this machine, and no character that ends a field. */
bool oidc_url_is_safe(const char *url);
void oidc_provider_close(struct oidc_provider *provider);

/* Adds the address to which the browser goes. `challenge`: of the code verifier (RFC 7636, S256). WEIR_ENGINE_UNREACHABLE:
 * the provider does not answer. WEIR_INVALID_CONFIG: its configuration is not that of the issuer. */
WEIR_MUST_CHECK enum weir_status oidc_provider_address(struct oidc_provider *provider, const char *scopes,
                                                       const char *state, const char *nonce, const char *challenge,
                                                       struct text *address, struct weir_error *error);
/* Exchanges the code for an ID token and verifies it. The caller releases *ret_claims. Beside the errors above:
 * WEIR_INVALID_ARGUMENT: the provider refuses the code, or the token must not be accepted. */
WEIR_MUST_CHECK enum weir_status oidc_provider_redeem(struct oidc_provider *provider, const char *code,
                                                      const char *verifier, const char *nonce, json_t **ret_claims,
                                                      struct weir_error *error);
/* How much of a code of OAuth may be shown: its letters and underscores, cut to a line. A provider may add anything behind
 * them. 0 for NULL. */
int oidc_code_length(const char *code);

#endif
