/* Sign-in by an OpenID provider: Authorization Code with PKCE (docs/design/oidc.md).
 *
 * A thread of its own sends all requests to the provider, one sign-in after the other. The request of the browser is held
 * meanwhile (request.h) and takes none of the answering threads. What waits is bounded.
 *
 *     oidc_submit() -> the thread -> sign_in->request->again() -> the handler reads the result
 *
 * No sign-in is kept here between the two requests of a browser: a cookie has its state. So any node can end what another
 * has begun.
 *
 * Owner: the process; oidc_end() before the server ends, oidc_close() behind it. oidc_submit(): any thread.
 */
#ifndef WEIR_SERVER_OIDC_H
#define WEIR_SERVER_OIDC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/text.h"
#include "server/oidc_groups.h"
#include "weir/status.h"

struct http_request;

enum {
    OIDC_WAITING_MAX = 32,    /* sign-ins that wait for the thread */
    SIGN_IN_PROOF_BYTES = 44, /* 43 letters of base64url hold 256 random bits */
    OIDC_ADDRESS_BYTES_MAX = 8 * 1024,
    OIDC_CODE_BYTES_MAX = 4 * 1024
};
/* A sign-in that has waited for so long is given up, so that a slow provider cannot hold requests for longer. */
#define OIDC_WAIT_US (20 * MICROSECONDS_PER_SECOND)
/* The path of redirect_url, behind the prefix of a proxy. */
#define OIDC_CALLBACK_PATH "/v1/oidc_callback"

/* The settings under `http.oidc.`; "" = not set. */
struct oidc_options {
    const char *issuer;
    const char *client_id;
    const char *client_secret_file;
    const char *redirect_url;
    const char *scopes;
    const char *groups_claim;
    const char *person_claim;
    const char *groups;
    const char *name;
    const char *ca_file;
    int64_t session_us;
    int64_t max_body_bytes; /* of a request in a session; 0 = the limits of the server alone */
};

/* The part of a sign-in that both of its requests share, in the cookie of the browser. Each text is random. */
struct sign_in_proof {
    char state[SIGN_IN_PROOF_BYTES];    /* comes back with the code */
    char nonce[SIGN_IN_PROOF_BYTES];    /* comes back in the ID token */
    char verifier[SIGN_IN_PROOF_BYTES]; /* of PKCE: only its hash leaves before the code is there */
};

struct sign_in {
    struct http_request *request; /* called again with the result */
    struct sign_in_proof proof;
    const char *code; /* NULL: the sign-in begins, and `address` is wanted; else `claims` */
    enum weir_status status;
    struct weir_error error;
    bool is_wrong_code;  /* of a failure: the provider does not know the code, or it is not that of the verifier */
    struct text address; /* the handler closes it */
    json_t *claims;      /* the handler releases it */
    int64_t submitted_us;
    struct sign_in *next;
};

struct oidc;

/* Checks the settings and starts the thread. *ret_oidc is NULL when no issuer is set. WEIR_INVALID_CONFIG, WEIR_SYSTEM,
 * WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status oidc_open(const struct oidc_options *options, struct oidc **ret_oidc,
                                           struct weir_error *error);
/* From now on every sign-in fails with WEIR_STOPPED. Returns when the thread has ended. Takes NULL. */
void oidc_end(struct oidc *oidc);
void oidc_close(struct oidc *oidc);

/* Whether a sign-in waits, or is under way. */
bool oidc_is_busy(struct oidc *oidc);

/* The words of the button. */
const char *oidc_name(const struct oidc *oidc);
/* Whether the browser reaches this node by TLS. */
bool oidc_has_tls(const struct oidc *oidc);
int64_t oidc_session_us(const struct oidc *oidc);
int64_t oidc_session_body_bytes(const struct oidc *oidc);
const char *oidc_issuer(const struct oidc *oidc);
const char *oidc_person_claim(const struct oidc *oidc);
/* The groups in the claims: the claim itself, or, as "realm_access.roles", one in an object. NULL: there is none. */
const json_t *oidc_groups_of(const struct oidc *oidc, const json_t *claims);
/* The rights of a person; false: oidc_groups_choose(). */
bool oidc_rights_of(const struct oidc *oidc, const json_t *claims, struct arena *arena, struct oidc_right *ret_right);

/* Makes three random texts. WEIR_SYSTEM. */
WEIR_MUST_CHECK enum weir_status sign_in_prove(struct sign_in_proof *proof, struct weir_error *error);
/* Hands a sign-in to the thread, which sets its result and calls request->again() once. False: too many wait, or it ends;
 * then it does neither. */
bool oidc_submit(struct oidc *oidc, struct sign_in *sign_in);

#endif
