/* The queue of sign-ins, and the thread that asks the provider.
 *
 * The thread takes the first of the queue and has the provider do its part (oidc_provider.h), without the lock. The result
 * belongs to the handler from the moment when `again` is called: the sign-in lies in the memory of its request.
 *
 * A sign-in that has waited longer than OIDC_WAIT_US is answered without a request to the provider. So a provider that
 * does not answer makes sign-ins fail one after the other, and delays no other request of the node. */
#include "server/oidc.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64url.h"
#include "base/bearer_token.h"
#include "base/error.h"
#include "base/libcurl.h"
#include "base/thread.h"
#include "base/token_secret.h"
#include "server/oidc_provider.h"
#include "server/request.h"

enum {
    OIDC_MEMORY_MAX = 256 * 1024,
    SHA256_BYTES = 32,
    SECRET_CHECK_BYTES = 1024,
    CLAIM_NAME_MAX = 128,
    SCOPES_BYTES_MAX = 500
};

struct oidc {
    struct arena arena; /* of the texts */
    struct oidc_options options;
    struct oidc_groups groups;
    struct oidc_provider provider; /* the thread's, but for is_ending */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sign_in *head;
    struct sign_in **tail;
    size_t waiting;
    bool is_at_work;
    bool has_thread;
    pthread_t thread;
};

/* --- the thread --- */

static bool write_challenge(const char *verifier, char to[BASE64URL_BYTES(SHA256_BYTES)])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    bool is_made = EVP_Digest(verifier, strlen(verifier), hash, &length, EVP_sha256(), NULL) == 1 && length == SHA256_BYTES;
    if (is_made) {
        base64url_encode(hash, length, to);
    }
    return is_made;
}

static enum weir_status run_sign_in(struct oidc *oidc, struct sign_in *sign_in)
{
    const struct sign_in_proof *proof = &sign_in->proof;
    char challenge[BASE64URL_BYTES(SHA256_BYTES)];
    struct weir_error *error = &sign_in->error;
    if (atomic_load(&oidc->provider.is_ending)) {
        error_set(error, WEIR_STOPPED, "this node stops");
        error_hint(error, "sign in again: another node answers, or this one after its restart");
        return WEIR_STOPPED;
    }
    if (clock_boot(clock_system()) - sign_in->submitted_us > OIDC_WAIT_US) {
        error_set(error, WEIR_ENGINE_UNREACHABLE, "the provider is slow, and other sign-ins wait for it as well");
        error_hint(error, "sign in again in a minute");
        return WEIR_ENGINE_UNREACHABLE;
    }
    if (sign_in->code != NULL) {
        enum weir_status status =
            oidc_provider_redeem(&oidc->provider, sign_in->code, proof->verifier, proof->nonce, &sign_in->claims, error);
        sign_in->is_wrong_code = status != WEIR_OK && oidc->provider.has_refused_code;
        return status;
    }
    if (!write_challenge(proof->verifier, challenge)) {
        return error_set(error, WEIR_SYSTEM, "OpenSSL cannot compute SHA-256");
    }
    return oidc_provider_address(&oidc->provider, oidc->options.scopes, proof->state, proof->nonce, challenge,
                                 &sign_in->address, error);
}

/* NULL: the end, and nothing waits. */
static struct sign_in *take_sign_in(struct oidc *oidc)
{
    (void)pthread_mutex_lock(&oidc->lock);
    oidc->is_at_work = false;
    while (oidc->head == NULL && !atomic_load(&oidc->provider.is_ending)) {
        (void)pthread_cond_wait(&oidc->changed, &oidc->lock);
    }
    struct sign_in *taken = oidc->head;
    if (taken != NULL) {
        oidc->head = taken->next;
        oidc->tail = oidc->head == NULL ? &oidc->head : oidc->tail;
        oidc->waiting--;
        oidc->is_at_work = true;
    }
    (void)pthread_mutex_unlock(&oidc->lock);
    return taken;
}

static void *run_oidc_thread(void *context)
{
    struct oidc *oidc = context;
    struct sign_in *sign_in;
    while ((sign_in = take_sign_in(oidc)) != NULL) {
        sign_in->status = run_sign_in(oidc, sign_in);
        sign_in->request->again(sign_in->request);
    }
    return NULL;
}

bool oidc_submit(struct oidc *oidc, struct sign_in *sign_in)
{
    INVARIANT(oidc != NULL && sign_in != NULL && sign_in->request != NULL);
    sign_in->address = (struct text){.max = OIDC_ADDRESS_BYTES_MAX};
    sign_in->submitted_us = clock_boot(clock_system());
    sign_in->next = NULL;
    (void)pthread_mutex_lock(&oidc->lock);
    bool has_room = oidc->waiting < OIDC_WAITING_MAX && !atomic_load(&oidc->provider.is_ending);
    if (has_room) {
        sign_in->request->is_held = true; /* before the thread can call it again */
        *oidc->tail = sign_in;
        oidc->tail = &sign_in->next;
        oidc->waiting++;
        (void)pthread_cond_signal(&oidc->changed);
    }
    (void)pthread_mutex_unlock(&oidc->lock);
    return has_room;
}

bool oidc_is_busy(struct oidc *oidc)
{
    INVARIANT(oidc != NULL);
    (void)pthread_mutex_lock(&oidc->lock);
    bool is_busy = oidc->is_at_work || oidc->head != NULL;
    (void)pthread_mutex_unlock(&oidc->lock);
    return is_busy;
}

/* --- opening and closing --- */

static enum weir_status refuse_setting(const char *name, const char *fault, const char *hint, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_CONFIG, "http.oidc.%s %s", name, fault);
    error_hint(error, "%s", hint);
    return WEIR_INVALID_CONFIG;
}

static bool oidc_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    return length > strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* A mistake that would only show when a person signs in is found at the start. */
static enum weir_status check_oidc_options(const struct oidc_options *options, struct weir_error *error)
{
    char secret[SECRET_CHECK_BYTES];
    if (!oidc_url_is_safe(options->issuer) || strchr(options->issuer, '?') != NULL) {
        return refuse_setting("issuer", "is no address with https://", "for example https://login.example.com/realms/work",
                              error);
    }
    if (options->client_id[0] == '\0') {
        return refuse_setting("client_id", "is missing", "register weir with the provider, and set the id of that client",
                              error);
    }
    if (!oidc_url_is_safe(options->redirect_url) || !oidc_ends_with(options->redirect_url, OIDC_CALLBACK_PATH)) {
        return refuse_setting(
            "redirect_url", "is no address with https:// that ends with " OIDC_CALLBACK_PATH,
            "for example https://weir.example.com" OIDC_CALLBACK_PATH ", as the provider has registered it", error);
    }
    char scopes[512];
    (void)snprintf(scopes, sizeof scopes, " %s ", options->scopes);
    if (strstr(scopes, " openid ") == NULL || strlen(options->scopes) > SCOPES_BYTES_MAX) {
        return refuse_setting("scopes", "lacks openid, or is too long", "for example openid email groups", error);
    }
    if (options->client_secret_file[0] != '\0') {
        bool is_read = bearer_token_read(options->client_secret_file, secret, sizeof secret);
        OPENSSL_cleanse(secret, sizeof secret);
        return is_read ? WEIR_OK
                       : refuse_setting("client_secret_file", "cannot be read, or is empty",
                                        "its first line is the secret; leave it out for a client without a secret", error);
    }
    return WEIR_OK;
}

static bool keep_options(struct oidc *oidc)
{
    struct oidc_options *options = &oidc->options;
    const char **texts[] = {&options->issuer, &options->client_id,    &options->client_secret_file, &options->redirect_url,
                            &options->scopes, &options->groups_claim, &options->person_claim,       &options->groups,
                            &options->name,   &options->ca_file};
    bool is_kept = true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        is_kept = is_kept && arena_keep_text(&oidc->arena, texts[i]);
    }
    return is_kept;
}

static enum weir_status start_oidc_thread(struct oidc *oidc, struct weir_error *error)
{
    int native = thread_start(&oidc->thread, run_oidc_thread, oidc);
    oidc->has_thread = native == 0;
    return native == 0 ? WEIR_OK
                       : error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for sign-ins: %s",
                                          strerror(native));
}

enum weir_status oidc_open(const struct oidc_options *options, struct oidc **ret_oidc, struct weir_error *error)
{
    INVARIANT(options != NULL && options->issuer != NULL && ret_oidc != NULL);
    *ret_oidc = NULL;
    if (options->issuer[0] == '\0') {
        return WEIR_OK;
    }
    enum weir_status status = check_oidc_options(options, error);
    if (status == WEIR_OK) {
        status = libcurl_load("http.oidc.issuer", error);
    }
    struct oidc *oidc = status == WEIR_OK ? calloc(1, sizeof *oidc) : NULL;
    if (oidc == NULL) {
        return status == WEIR_OK ? error_out_of_memory(error) : status;
    }
    oidc->options = *options;
    oidc->tail = &oidc->head;
    arena_init(&oidc->arena, OIDC_MEMORY_MAX);
    (void)pthread_mutex_init(&oidc->lock, NULL);
    (void)pthread_cond_init(&oidc->changed, NULL);
    status = keep_options(oidc) ? oidc_groups_read(oidc->options.groups, &oidc->arena, &oidc->groups, error)
                                : error_out_of_memory(error);
    oidc->provider.issuer = oidc->options.issuer;
    oidc->provider.client_id = oidc->options.client_id;
    oidc->provider.secret_file = oidc->options.client_secret_file;
    oidc->provider.redirect_url = oidc->options.redirect_url;
    oidc->provider.ca_file = oidc->options.ca_file;
    if (status == WEIR_OK) {
        status = start_oidc_thread(oidc, error);
    }
    if (status != WEIR_OK) {
        oidc_close(oidc);
        return status;
    }
    *ret_oidc = oidc;
    return WEIR_OK;
}

void oidc_end(struct oidc *oidc)
{
    if (oidc == NULL || !oidc->has_thread) {
        return;
    }
    (void)pthread_mutex_lock(&oidc->lock);
    atomic_store(&oidc->provider.is_ending, true);
    (void)pthread_cond_signal(&oidc->changed);
    (void)pthread_mutex_unlock(&oidc->lock);
    (void)pthread_join(oidc->thread, NULL);
    oidc->has_thread = false;
}

void oidc_close(struct oidc *oidc)
{
    if (oidc != NULL) {
        oidc_end(oidc);
        oidc_provider_close(&oidc->provider);
        (void)pthread_cond_destroy(&oidc->changed);
        (void)pthread_mutex_destroy(&oidc->lock);
        arena_close(&oidc->arena);
        free(oidc);
    }
}

/* --- facts --- */

const char *oidc_name(const struct oidc *oidc)
{
    INVARIANT(oidc != NULL);
    return oidc->options.name;
}

bool oidc_has_tls(const struct oidc *oidc)
{
    INVARIANT(oidc != NULL);
    return strncmp(oidc->options.redirect_url, "https:", strlen("https:")) == 0;
}

int64_t oidc_session_us(const struct oidc *oidc)
{
    INVARIANT(oidc != NULL);
    return oidc->options.session_us;
}

int64_t oidc_session_body_bytes(const struct oidc *oidc)
{
    INVARIANT(oidc != NULL);
    return oidc->options.max_body_bytes;
}

const char *oidc_issuer(const struct oidc *oidc)
{
    INVARIANT(oidc != NULL);
    return oidc->options.issuer;
}

const char *oidc_person_claim(const struct oidc *oidc)
{
    INVARIANT(oidc != NULL);
    return oidc->options.person_claim;
}

/* The whole name first: a claim may have dots in its name, as those that begin with an address. */
const json_t *oidc_groups_of(const struct oidc *oidc, const json_t *claims)
{
    INVARIANT(oidc != NULL);
    char name[CLAIM_NAME_MAX];
    const char *at = oidc->options.groups_claim;
    const json_t *found = json_object_get(claims, at);
    while (found == NULL && claims != NULL && strchr(at, '.') != NULL) {
        size_t length = strcspn(at, ".");
        if (length >= sizeof name) {
            return NULL;
        }
        text_copy(name, length + 1, at);
        claims = json_object_get(claims, name);
        at += length + 1;
        found = json_object_get(claims, at);
    }
    return found;
}

bool oidc_rights_of(const struct oidc *oidc, const json_t *claims, struct arena *arena, struct oidc_right *ret_right)
{
    return oidc_groups_choose(&oidc->groups, oidc_groups_of(oidc, claims), arena, ret_right);
}

enum weir_status sign_in_prove(struct sign_in_proof *proof, struct weir_error *error)
{
    INVARIANT(proof != NULL);
    char *const texts[] = {proof->state, proof->nonce, proof->verifier};
    char secret[TOKEN_SECRET_LENGTH + 1];
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && status == WEIR_OK; i++) {
        status = token_secret_make(secret, error);
        if (status == WEIR_OK) {
            text_copy(texts[i], SIGN_IN_PROOF_BYTES, secret + TOKEN_SECRET_LENGTH - (SIGN_IN_PROOF_BYTES - 1));
        }
    }
    OPENSSL_cleanse(secret, sizeof secret);
    return status;
}
