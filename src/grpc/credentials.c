/* The TLS context and the API key, read from files. Called when a client is opened, and every GRPC_SECRETS_INTERVAL_US by
 * its step.
 *
 *   1. Note the metadata of every file before it is read. A change during the read is seen by the next check.
 *   2. Build a new context from authorities, certificate and key; read the key file's line as "Bearer ...".
 *   3. Replace the old ones only when all of that succeeded. Open connections hold a reference to their old context.
 *
 * Files must be regular and at most 1 MiB; O_NONBLOCK keeps a FIFO from blocking the thread. Contents are wiped before
 * their memory is freed. Nothing here may put a secret into a message, or ask for a passphrase.
 */
#include "grpc/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/libssl.h"
#include "grpc/framing.h"

enum { AUTHORITIES, CERTIFICATE, KEY, API_KEY };

static const char *const file_options[SECRET_FILES] = {"ca_file", "certificate_file", "key_file", "api_key_file"};

/* The bytes of one file, wiped before they are freed. */
struct content {
    char *bytes; /* NUL-terminated */
    size_t length;
};

static void content_close(struct content *content)
{
    if (content->bytes != NULL) {
        explicit_bzero(content->bytes, content->length);
    }
    free(content->bytes);
    *content = (struct content){.bytes = NULL};
}

static enum weir_status refuse_file(const struct credentials *credentials, int which, const char *why,
                                    struct weir_error *error)
{
    return error_set(error, WEIR_INVALID_CONFIG, "%s \"%s\" %s", file_options[which], credentials->files[which].path, why);
}

static enum weir_status refuse_unreadable_file(const struct credentials *credentials, int which, int native,
                                               struct weir_error *error)
{
    (void)error_set_native(error, WEIR_INVALID_CONFIG, native, "cannot read %s \"%s\": %s", file_options[which],
                           credentials->files[which].path, strerror(native));
    error_hint(error, "check that the file exists, and that the user of the weir process may read it");
    return WEIR_INVALID_CONFIG;
}

/* O_NONBLOCK: a FIFO in the place of a file must not block the thread. */
static enum weir_status read_secret_file(struct credentials *credentials, int which, struct content *ret_content,
                                         struct weir_error *error)
{
    struct stat facts;
    int fd = open(credentials->files[which].path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &facts) != 0) {
        int native = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return refuse_unreadable_file(credentials, which, native, error);
    }
    if (!S_ISREG(facts.st_mode) || facts.st_size > GRPC_SECRET_FILE_BYTES_MAX) {
        (void)close(fd);
        return refuse_file(credentials, which, "is no regular file of at most 1 MiB", error);
    }
    size_t size = (size_t)facts.st_size;
    struct content content = {.bytes = malloc(size + 1)};
    ssize_t got = 1;
    while (content.bytes != NULL && content.length < size && got > 0) {
        got = read(fd, content.bytes + content.length, size - content.length);
        content.length += got > 0 ? (size_t)got : 0;
    }
    int native = errno;
    (void)close(fd);
    if (content.bytes == NULL) {
        return error_out_of_memory(error);
    }
    if (got < 0) {
        content_close(&content);
        return refuse_unreadable_file(credentials, which, native, error);
    }
    content.bytes[content.length] = '\0';
    credentials->files[which].seen = facts;
    *ret_content = content;
    return WEIR_OK;
}

/* --- TLS --- */

/* An encrypted key gets no passphrase, which makes it unreadable instead of asking at a terminal. */
static int no_passphrase(char *to, int size, int writing, void *context)
{
    (void)writing;
    *(bool *)context = true;
    if (size > 0) {
        to[0] = '\0';
    }
    return -1;
}

static BIO *read_only(const struct content *content)
{
    return BIO_new_mem_buf(content->bytes, (int)content->length);
}

/* Without a file, the system's list of authorities. */
static enum weir_status use_authorities(struct credentials *credentials, SSL_CTX *context, struct weir_error *error)
{
    if (credentials->files[AUTHORITIES].path == NULL) {
        (void)SSL_CTX_set_default_verify_paths(context);
        return WEIR_OK;
    }
    struct content content = {.bytes = NULL};
    enum weir_status status = read_secret_file(credentials, AUTHORITIES, &content, error);
    if (status != WEIR_OK) {
        return status;
    }
    BIO *source = read_only(&content);
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    size_t count = 0;
    X509 *certificate;
    while (source != NULL && (certificate = PEM_read_bio_X509(source, NULL, NULL, NULL)) != NULL) {
        count += (size_t)(X509_STORE_add_cert(store, certificate) == 1);
        X509_free(certificate);
    }
    BIO_free(source);
    content_close(&content);
    return count > 0 ? WEIR_OK : refuse_file(credentials, AUTHORITIES, "holds no certificate in PEM form", error);
}

/* The first certificate is ours, the rest is its chain. */
static enum weir_status use_certificate(struct credentials *credentials, SSL_CTX *context, struct weir_error *error)
{
    struct content content = {.bytes = NULL};
    enum weir_status status = read_secret_file(credentials, CERTIFICATE, &content, error);
    if (status != WEIR_OK) {
        return status;
    }
    BIO *source = read_only(&content);
    X509 *certificate = source != NULL ? PEM_read_bio_X509(source, NULL, NULL, NULL) : NULL;
    bool used = certificate != NULL && SSL_CTX_use_certificate(context, certificate) == 1;
    X509_free(certificate);
    while (used && (certificate = PEM_read_bio_X509(source, NULL, NULL, NULL)) != NULL) {
        if (SSL_CTX_add0_chain_cert(context, certificate) != 1) {
            X509_free(certificate);
            used = false;
        }
    }
    BIO_free(source);
    content_close(&content);
    return used ? WEIR_OK : refuse_file(credentials, CERTIFICATE, "holds no usable certificate in PEM form", error);
}

static enum weir_status use_key(struct credentials *credentials, SSL_CTX *context, struct weir_error *error)
{
    struct content content = {.bytes = NULL};
    enum weir_status status = read_secret_file(credentials, KEY, &content, error);
    if (status != WEIR_OK) {
        return status;
    }
    bool encrypted = false;
    BIO *source = read_only(&content);
    EVP_PKEY *key = source != NULL ? PEM_read_bio_PrivateKey(source, NULL, no_passphrase, &encrypted) : NULL;
    BIO_free(source);
    content_close(&content);
    if (key == NULL) {
        (void)refuse_file(credentials, KEY, encrypted ? "is encrypted" : "holds no private key in PEM form", error);
        if (encrypted) {
            error_hint(error,
                       "store it without a passphrase, readable by weir's user alone: openssl pkey -in FILE -out FILE");
        }
        return WEIR_INVALID_CONFIG;
    }
    bool used = SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1;
    EVP_PKEY_free(key);
    if (!used) {
        (void)refuse_file(credentials, KEY, "is not the key of the certificate", error);
        error_hint(error, "certificate_file and key_file must be of one pair");
        return WEIR_INVALID_CONFIG;
    }
    return WEIR_OK;
}

/* Without TLS there is no context, and OpenSSL may not be loaded. */
static void free_context(SSL_CTX *context)
{
    if (context != NULL) {
        SSL_CTX_free(context);
    }
}

/* TLS 1.2 or newer, HTTP/2 by ALPN, the peer always verified. */
static enum weir_status make_tls_context(struct credentials *credentials, SSL_CTX **ret_context, struct weir_error *error)
{
    static const unsigned char protocols[] = {2, 'h', '2'};
    enum weir_status status = libssl_load(error);
    if (status != WEIR_OK) {
        return status;
    }
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_alpn_protos(context, protocols, sizeof protocols) != 0) {
        SSL_CTX_free(context);
        return error_out_of_memory(error);
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    (void)SSL_CTX_set_mode(context,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    status = use_authorities(credentials, context, error);
    if (status == WEIR_OK && credentials->files[CERTIFICATE].path != NULL) {
        status = use_certificate(credentials, context, error);
        status = status == WEIR_OK ? use_key(credentials, context, error) : status;
    }
    ERR_clear_error();
    if (status != WEIR_OK) {
        SSL_CTX_free(context);
        return status;
    }
    *ret_context = context;
    return WEIR_OK;
}

/* --- the API key --- */

#define VARIABLE_PREFIX "env:"

/* "env:NAME": it is in the environment, where it does not change. */
static enum weir_status read_variable(const struct credentials *credentials, const char *name, struct content *ret_content,
                                      struct weir_error *error)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0') {
        return refuse_file(credentials, API_KEY, "names a variable that is not set", error);
    }
    ret_content->bytes = strdup(text);
    ret_content->length = strlen(text);
    return ret_content->bytes == NULL ? error_out_of_memory(error) : WEIR_OK;
}

static enum weir_status read_api_key(struct credentials *credentials, char **ret_authorization, struct weir_error *error)
{
    struct content content = {.bytes = NULL};
    const char *path = credentials->files[API_KEY].path;
    bool is_variable = strncmp(path, VARIABLE_PREFIX, sizeof VARIABLE_PREFIX - 1) == 0;
    enum weir_status status = is_variable ? read_variable(credentials, path + sizeof VARIABLE_PREFIX - 1, &content, error)
                                          : read_secret_file(credentials, API_KEY, &content, error);
    if (status != WEIR_OK) {
        return status;
    }
    char *key = content.bytes + strspn(content.bytes, " \t\r\n");
    size_t length = strlen(key);
    while (length > 0 && strchr(" \t\r\n", key[length - 1]) != NULL) {
        length--;
    }
    key[length] = '\0';
    char *authorization = NULL;
    if (length == 0 || length > GRPC_HEADER_BYTES_MAX - 16 || !grpc_header_value_is_fine(key)) {
        status = refuse_file(credentials, API_KEY, "must hold one line of printable ASCII, of at most 8 kB", error);
    } else if (asprintf(&authorization, "Bearer %s", key) < 0) {
        status = error_out_of_memory(error);
    } else {
        *ret_authorization = authorization;
    }
    content_close(&content);
    return status;
}

static void wipe_text(char *text)
{
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
    }
    free(text);
}

/* --- opening and changing --- */

enum weir_status grpc_credentials_load(struct credentials *credentials, struct weir_error *error)
{
    INVARIANT(credentials != NULL);
    SSL_CTX *context = NULL;
    char *authorization = NULL;
    for (int i = 0; i < SECRET_FILES; i++) {
        if (credentials->files[i].path != NULL && stat(credentials->files[i].path, &credentials->files[i].seen) != 0) {
            credentials->files[i].seen = (struct stat){.st_size = -1};
        }
    }
    enum weir_status status = credentials->tls ? make_tls_context(credentials, &context, error) : WEIR_OK;
    if (status == WEIR_OK && credentials->files[API_KEY].path != NULL) {
        status = read_api_key(credentials, &authorization, error);
    }
    if (status != WEIR_OK) {
        free_context(context);
        return status;
    }
    free_context(credentials->context);
    wipe_text(credentials->authorization);
    credentials->context = context;
    credentials->authorization = authorization;
    return WEIR_OK;
}

static enum weir_status check_credential_options(const struct grpc_client_options *options, bool tls,
                                                 struct weir_error *error)
{
    if ((options->certificate_file == NULL) != (options->key_file == NULL)) {
        return error_set(error, WEIR_INVALID_CONFIG, "certificate_file and key_file go together: %s is missing",
                         options->key_file == NULL ? "key_file" : "certificate_file");
    }
    if (options->api_key_file != NULL && !tls) {
        (void)error_set(error, WEIR_INVALID_CONFIG, "api_key_file without TLS would send the key in the clear");
        error_hint(error, "switch TLS on, or remove the key");
        return WEIR_INVALID_CONFIG;
    }
    return WEIR_OK;
}

enum weir_status grpc_credentials_open(struct credentials *credentials, const struct grpc_client_options *options,
                                       struct weir_error *error)
{
    INVARIANT(credentials != NULL && options != NULL);
    const char *const paths[SECRET_FILES] = {options->ca_file, options->certificate_file, options->key_file,
                                             options->api_key_file};
    bool tls = options->tls || options->ca_file != NULL || options->certificate_file != NULL || options->key_file != NULL ||
               options->server_name != NULL;
    enum weir_status status = check_credential_options(options, tls, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct credentials opened = {.tls = tls};
    for (int i = 0; i < SECRET_FILES && status == WEIR_OK; i++) {
        opened.files[i].path = paths[i] != NULL ? strdup(paths[i]) : NULL;
        status = paths[i] != NULL && opened.files[i].path == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    status = status == WEIR_OK ? grpc_credentials_load(&opened, error) : status;
    if (status != WEIR_OK) {
        grpc_credentials_close(&opened);
        return status;
    }
    *credentials = opened;
    return WEIR_OK;
}

void grpc_credentials_close(struct credentials *credentials)
{
    for (int i = 0; i < SECRET_FILES; i++) {
        free(credentials->files[i].path);
    }
    free_context(credentials->context);
    wipe_text(credentials->authorization);
    *credentials = (struct credentials){.tls = false};
}

/* Also a replaced file with the same size and time has another inode. */
static bool file_differs(const struct stat *a, const struct stat *b)
{
    return a->st_ino != b->st_ino || a->st_dev != b->st_dev || a->st_size != b->st_size ||
           a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec ||
           a->st_ctim.tv_sec != b->st_ctim.tv_sec || a->st_ctim.tv_nsec != b->st_ctim.tv_nsec;
}

bool grpc_credentials_have_changed(const struct credentials *credentials)
{
    INVARIANT(credentials != NULL);
    for (int i = 0; i < SECRET_FILES; i++) {
        struct stat facts;
        if (credentials->files[i].path == NULL) {
            continue;
        }
        if (stat(credentials->files[i].path, &facts) != 0) {
            facts = (struct stat){.st_size = -1};
        }
        if (file_differs(&facts, &credentials->files[i].seen)) {
            return true;
        }
    }
    return false;
}
