/* Makes keys and certificates with OpenSSL at run time.
 *
 * A test makes an authority first, then certificates that it signs. Times of validity count from now, so a test can make an
 * expired certificate without a changed clock. Keys are written to files, because the client under test reads files.
 */
#include "support/certificates.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 512 };

static FILE *open_file(const char *folder, const char *name, const char *ending, const char *mode)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    return fopen(path, mode);
}

static int add_extension(X509 *certificate, X509 *issuer, int id, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, id, value);
    int added = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return added;
}

static X509 *read_certificate(const char *folder, const char *name)
{
    FILE *file = open_file(folder, name, ".pem", "r");
    X509 *certificate = file != NULL ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    return certificate;
}

static EVP_PKEY *read_key(const char *folder, const char *name)
{
    FILE *file = open_file(folder, name, ".key", "r");
    EVP_PKEY *key = file != NULL ? PEM_read_PrivateKey(file, NULL, NULL, NULL) : NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    return key;
}

static int fill(X509 *certificate, X509 *issuer, EVP_PKEY *key, const struct certificate_request *request)
{
    static long serial;
    X509_NAME *name = X509_get_subject_name(certificate);
    int fine = X509_set_version(certificate, 2) == 1 &&
               ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial + 1000) == 1 &&
               X509_gmtime_adj(X509_getm_notBefore(certificate), request->valid_from_s) != NULL &&
               X509_gmtime_adj(X509_getm_notAfter(certificate), request->valid_until_s) != NULL &&
               X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)request->name, -1, -1, 0) == 1 &&
               X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
               X509_set_pubkey(certificate, key) == 1;
    if (request->signer == NULL) {
        fine = fine && add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:TRUE") &&
               add_extension(certificate, issuer, NID_key_usage, "critical,keyCertSign,cRLSign");
    }
    return fine &&
           (request->alternative == NULL || add_extension(certificate, issuer, NID_subject_alt_name, request->alternative));
}

static int write_files(X509 *certificate, EVP_PKEY *key, const struct certificate_request *request)
{
    FILE *certificate_file = open_file(request->folder, request->name, ".pem", "w");
    FILE *key_file = open_file(request->folder, request->name, ".key", "w");
    int fine = certificate_file != NULL && key_file != NULL && PEM_write_X509(certificate_file, certificate) == 1 &&
               PEM_write_PrivateKey(key_file, key, request->passphrase != NULL ? EVP_aes_128_cbc() : NULL, NULL, 0, NULL,
                                    (void *)(uintptr_t)request->passphrase) == 1;
    if (certificate_file != NULL) {
        fine = fclose(certificate_file) == 0 && fine;
    }
    if (key_file != NULL) {
        fine = fclose(key_file) == 0 && fine;
    }
    return fine;
}

int certificate_make(const struct certificate_request *request)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509 *issuer = request->signer != NULL ? read_certificate(request->folder, request->signer) : NULL;
    EVP_PKEY *issuer_key = request->signer != NULL ? read_key(request->folder, request->signer) : NULL;
    int fine = key != NULL && certificate != NULL && (request->signer == NULL || (issuer != NULL && issuer_key != NULL)) &&
               fill(certificate, issuer != NULL ? issuer : certificate, key, request) &&
               X509_sign(certificate, issuer_key != NULL ? issuer_key : key, EVP_sha256()) > 0 &&
               write_files(certificate, key, request);
    if (!fine) {
        fprintf(stderr, "cannot make the certificate %s\n", request->name);
    }
    X509_free(certificate);
    X509_free(issuer);
    EVP_PKEY_free(key);
    EVP_PKEY_free(issuer_key);
    return fine ? 0 : -1;
}
