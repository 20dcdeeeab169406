/* Files that a start or a reload can use.
 *
 * libmicrohttpd takes PEM texts and refuses bad ones without a reason. So they are checked here first, by OpenSSL, which
 * the program has anyway: a start or a reload that fails names the file and the remedy. */
#include "server/tls_files.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "server/libmicrohttpd.h"

enum { PEM_BYTES_MAX = 256 * 1024, PEM_CHUNK = 4096 };

static enum weir_status refuse_tls_file(const char *path, const char *reason, const char *hint, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_CONFIG, "%s: %s", path, reason);
    if (hint != NULL) {
        error_hint(error, "%s", hint);
    }
    return WEIR_INVALID_CONFIG;
}

/* `is_secret`: the rights of the file are checked on the open file, so nobody can put another in its place in between. */
static enum weir_status read_tls_file(const char *path, bool is_secret, struct text *to, struct weir_error *error)
{
    char chunk[PEM_CHUNK];
    struct stat found;
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        const char *reason = fd < 0 ? strerror(errno) : "it is no regular file";
        if (fd >= 0) {
            (void)close(fd);
        }
        return refuse_tls_file(path, reason, "http.tls.certificate_file and http.tls.key_file name files of PEM", error);
    }
    if (is_secret && (found.st_mode & S_IRWXO) != 0) {
        (void)close(fd);
        return refuse_tls_file(path, "every user of this machine may read this key", "chmod o= takes the right away",
                               error);
    }
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && (got = read(fd, chunk, sizeof chunk)) > 0) {
        status = text_add(to, chunk, (size_t)got);
    }
    OPENSSL_cleanse(chunk, sizeof chunk);
    (void)close(fd);
    if (status == WEIR_OUT_OF_MEMORY) {
        return error_out_of_memory(error);
    }
    return status != WEIR_OK || got < 0 || to->length == 0
               ? refuse_tls_file(path, "it cannot be read, is empty or is too large", NULL, error)
               : WEIR_OK;
}

/* A key with a passphrase is refused: a service has nobody to ask. */
static int refuse_passphrase(char *to, int size, int is_writing, void *context)
{
    (void)to;
    (void)size;
    (void)is_writing;
    (void)context;
    return -1;
}

/* The first certificate of the file is the server's own; the rest of the chain is the client's matter. */
static enum weir_status check_pair(const char *certificate_path, const char *key_path, const struct tls_files *files,
                                   struct weir_error *error)
{
    BIO *certificate_text = BIO_new_mem_buf(files->certificate.data, (int)files->certificate.length);
    BIO *key_text = BIO_new_mem_buf(files->key.data, (int)files->key.length);
    X509 *certificate =
        certificate_text == NULL ? NULL : PEM_read_bio_X509(certificate_text, NULL, refuse_passphrase, NULL);
    EVP_PKEY *key = key_text == NULL ? NULL : PEM_read_bio_PrivateKey(key_text, NULL, refuse_passphrase, NULL);
    enum weir_status status = WEIR_OK;
    if (certificate == NULL) {
        status = refuse_tls_file(certificate_path, "it has no certificate in PEM", NULL, error);
    } else if (key == NULL) {
        status = refuse_tls_file(key_path, "it has no private key in PEM, or one with a passphrase",
                                 "openssl pkey -in OLD -out NEW removes a passphrase", error);
    } else if (X509_check_private_key(certificate, key) != 1) {
        status = refuse_tls_file(key_path, "it is not the key of the certificate", NULL, error);
    } else if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
        status = refuse_tls_file(certificate_path, "the certificate has expired", "renew it, then start or reload", error);
    }
    EVP_PKEY_free(key);
    X509_free(certificate);
    BIO_free(key_text);
    BIO_free(certificate_text);
    ERR_clear_error();
    return status;
}

enum weir_status tls_files_read(const char *certificate, const char *key, struct tls_files *files, struct weir_error *error)
{
    INVARIANT(certificate != NULL && key != NULL && files != NULL);
    *files = (struct tls_files){.certificate = {.max = PEM_BYTES_MAX}, .key = {.max = PEM_BYTES_MAX, .wipes = true}};
    enum weir_status status = read_tls_file(certificate, false, &files->certificate, error);
    if (status == WEIR_OK) {
        status = read_tls_file(key, true, &files->key, error);
    }
    if (status == WEIR_OK) {
        status = check_pair(certificate, key, files, error);
    }
    if (status != WEIR_OK) {
        tls_files_close(files);
    }
    return status;
}

/* Memory that held the key is overwritten, because a core file or a swapped page would keep it. */
void tls_files_close(struct tls_files *files)
{
    INVARIANT(files != NULL);
    text_close(&files->certificate);
    text_close(&files->key);
}

enum weir_status tls_files_require(const char *certificate_file, const char *key_file, struct weir_error *error)
{
    INVARIANT(certificate_file != NULL && key_file != NULL);
    struct tls_files files;
    if (certificate_file[0] == '\0' || key_file[0] == '\0') {
        error_set(error, WEIR_INVALID_CONFIG, "http.listen: https:// needs a certificate and its key");
        error_hint(error, "set http.tls.certificate_file and http.tls.key_file");
        return WEIR_INVALID_CONFIG;
    }
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
        error_set(error, WEIR_INVALID_CONFIG, "http.listen: the libmicrohttpd of this machine was built without TLS");
        error_hint(error, "use the one of the distribution, or a proxy with TLS and http.behind_proxy: true");
        return WEIR_INVALID_CONFIG;
    }
    enum weir_status status = tls_files_read(certificate_file, key_file, &files, error);
    if (status == WEIR_OK) {
        tls_files_close(&files);
    }
    return status;
}
