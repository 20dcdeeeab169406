#include "grpc/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "grpc/framing.h"

enum { AUTHORITIES, CERTIFICATE, KEY, API_KEY };

static const char *const file_options[SECRET_FILES] = {"ca_file", "certificate_file", "key_file", "api_key_file"};

/* The bytes of one file, wiped when let go. */
struct content {
    char *bytes; /* NUL-terminated */
    size_t length;
};

static void content_close(struct content *content)
{
    if (content->bytes != NULL) {
        OPENSSL_cleanse(content->bytes, content->length);
    }
    free(content->bytes);
    *content = (struct content){.bytes = NULL};
}

static enum weir_status refuse(const struct secrets *secrets, int which, const char *why, struct weir_error *error)
{
    return error_set(error, WEIR_INVALID_CONFIG, "%s \"%s\" %s", file_options[which], secrets->files[which].path, why);
}

static enum weir_status refuse_native(const struct secrets *secrets, int which, int native, struct weir_error *error)
{
    (void)error_set_native(error, WEIR_INVALID_CONFIG, native, "cannot read %s \"%s\": %s", file_options[which],
                           secrets->files[which].path, strerror(native));
    error_hint(error, "check that the file exists and that the user weir runs as may read it");
    return WEIR_INVALID_CONFIG;
}

/* O_NONBLOCK: a FIFO in a file's place must not hold us up. */
static enum weir_status read_file(struct secrets *secrets, int which, struct content *ret_content, struct weir_error *error)
{
    struct stat facts;
    int fd = open(secrets->files[which].path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &facts) != 0) {
        int native = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return refuse_native(secrets, which, native, error);
    }
    if (!S_ISREG(facts.st_mode) || facts.st_size > GRPC_SECRET_FILE_BYTES_MAX) {
        (void)close(fd);
        return refuse(secrets, which, "is no regular file of at most 1 MiB", error);
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
        return refuse_native(secrets, which, native, error);
    }
    content.bytes[content.length] = '\0';
    secrets->files[which].seen = facts;
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

static enum weir_status use_authorities(struct secrets *secrets, SSL_CTX *context, struct weir_error *error)
{
    if (secrets->files[AUTHORITIES].path == NULL) {
        (void)SSL_CTX_set_default_verify_paths(context);
        return WEIR_OK;
    }
    struct content content = {.bytes = NULL};
    enum weir_status status = read_file(secrets, AUTHORITIES, &content, error);
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
    return count > 0 ? WEIR_OK : refuse(secrets, AUTHORITIES, "holds no certificate in PEM form", error);
}

static enum weir_status use_certificate(struct secrets *secrets, SSL_CTX *context, struct weir_error *error)
{
    struct content content = {.bytes = NULL};
    enum weir_status status = read_file(secrets, CERTIFICATE, &content, error);
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
    return used ? WEIR_OK : refuse(secrets, CERTIFICATE, "holds no usable certificate in PEM form", error);
}

static enum weir_status use_key(struct secrets *secrets, SSL_CTX *context, struct weir_error *error)
{
    struct content content = {.bytes = NULL};
    enum weir_status status = read_file(secrets, KEY, &content, error);
    if (status != WEIR_OK) {
        return status;
    }
    bool encrypted = false;
    BIO *source = read_only(&content);
    EVP_PKEY *key = source != NULL ? PEM_read_bio_PrivateKey(source, NULL, no_passphrase, &encrypted) : NULL;
    BIO_free(source);
    content_close(&content);
    if (key == NULL) {
        (void)refuse(secrets, KEY, encrypted ? "is encrypted" : "holds no private key in PEM form", error);
        if (encrypted) {
            error_hint(error,
                       "store it without a passphrase, readable by weir's user alone: openssl pkey -in FILE -out FILE");
        }
        return WEIR_INVALID_CONFIG;
    }
    bool used = SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1;
    EVP_PKEY_free(key);
    if (!used) {
        (void)refuse(secrets, KEY, "is not the key of the certificate", error);
        error_hint(error, "certificate_file and key_file must be of one pair");
        return WEIR_INVALID_CONFIG;
    }
    return WEIR_OK;
}

static enum weir_status make_context(struct secrets *secrets, SSL_CTX **ret_context, struct weir_error *error)
{
    static const unsigned char protocols[] = {2, 'h', '2'};
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
    enum weir_status status = use_authorities(secrets, context, error);
    if (status == WEIR_OK && secrets->files[CERTIFICATE].path != NULL) {
        status = use_certificate(secrets, context, error);
        status = status == WEIR_OK ? use_key(secrets, context, error) : status;
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
static enum weir_status read_variable(const struct secrets *secrets, const char *name, struct content *ret_content,
                                      struct weir_error *error)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0') {
        return refuse(secrets, API_KEY, "names a variable that is not set", error);
    }
    ret_content->bytes = strdup(text);
    ret_content->length = strlen(text);
    return ret_content->bytes == NULL ? error_out_of_memory(error) : WEIR_OK;
}

static enum weir_status read_api_key(struct secrets *secrets, char **ret_authorization, struct weir_error *error)
{
    struct content content = {.bytes = NULL};
    const char *path = secrets->files[API_KEY].path;
    bool is_variable = strncmp(path, VARIABLE_PREFIX, sizeof VARIABLE_PREFIX - 1) == 0;
    enum weir_status status = is_variable ? read_variable(secrets, path + sizeof VARIABLE_PREFIX - 1, &content, error)
                                          : read_file(secrets, API_KEY, &content, error);
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
        status = refuse(secrets, API_KEY, "must hold one line of printable ASCII, of at most 8 kB", error);
    } else if (asprintf(&authorization, "Bearer %s", key) < 0) {
        status = error_out_of_memory(error);
    } else {
        *ret_authorization = authorization;
    }
    content_close(&content);
    return status;
}

static void wipe(char *text)
{
    if (text != NULL) {
        OPENSSL_cleanse(text, strlen(text));
    }
    free(text);
}

/* --- opening and changing --- */

enum weir_status grpc_secrets_load(struct secrets *secrets, struct weir_error *error)
{
    SSL_CTX *context = NULL;
    char *authorization = NULL;
    for (int i = 0; i < SECRET_FILES; i++) {
        if (secrets->files[i].path != NULL && stat(secrets->files[i].path, &secrets->files[i].seen) != 0) {
            secrets->files[i].seen = (struct stat){.st_size = -1};
        }
    }
    enum weir_status status = secrets->tls ? make_context(secrets, &context, error) : WEIR_OK;
    if (status == WEIR_OK && secrets->files[API_KEY].path != NULL) {
        status = read_api_key(secrets, &authorization, error);
    }
    if (status != WEIR_OK) {
        SSL_CTX_free(context);
        return status;
    }
    SSL_CTX_free(secrets->context);
    wipe(secrets->authorization);
    secrets->context = context;
    secrets->authorization = authorization;
    return WEIR_OK;
}

static enum weir_status check_options(const struct grpc_client_options *options, bool tls, struct weir_error *error)
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

enum weir_status grpc_secrets_open(struct secrets *secrets, const struct grpc_client_options *options,
                                   struct weir_error *error)
{
    const char *const paths[SECRET_FILES] = {options->ca_file, options->certificate_file, options->key_file,
                                             options->api_key_file};
    bool tls = options->tls || options->ca_file != NULL || options->certificate_file != NULL || options->key_file != NULL ||
               options->server_name != NULL;
    enum weir_status status = check_options(options, tls, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct secrets opened = {.tls = tls};
    for (int i = 0; i < SECRET_FILES && status == WEIR_OK; i++) {
        opened.files[i].path = paths[i] != NULL ? strdup(paths[i]) : NULL;
        status = paths[i] != NULL && opened.files[i].path == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    status = status == WEIR_OK ? grpc_secrets_load(&opened, error) : status;
    if (status != WEIR_OK) {
        grpc_secrets_close(&opened);
        return status;
    }
    *secrets = opened;
    return WEIR_OK;
}

void grpc_secrets_close(struct secrets *secrets)
{
    for (int i = 0; i < SECRET_FILES; i++) {
        free(secrets->files[i].path);
    }
    SSL_CTX_free(secrets->context);
    wipe(secrets->authorization);
    *secrets = (struct secrets){.tls = false};
}

static bool differs(const struct stat *a, const struct stat *b)
{
    return a->st_ino != b->st_ino || a->st_dev != b->st_dev || a->st_size != b->st_size ||
           a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec ||
           a->st_ctim.tv_sec != b->st_ctim.tv_sec || a->st_ctim.tv_nsec != b->st_ctim.tv_nsec;
}

bool grpc_secrets_have_changed(const struct secrets *secrets)
{
    for (int i = 0; i < SECRET_FILES; i++) {
        struct stat facts;
        if (secrets->files[i].path == NULL) {
            continue;
        }
        if (stat(secrets->files[i].path, &facts) != 0) {
            facts = (struct stat){.st_size = -1};
        }
        if (differs(&facts, &secrets->files[i].seen)) {
            return true;
        }
    }
    return false;
}
