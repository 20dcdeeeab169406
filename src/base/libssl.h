/* OpenSSL, loaded when it is needed for the first time, so that other processes run without it. TLS of gRPC, tokens of
 * callbacks, signatures of `http` steps and base64 need it.
 *
 * Only a file that calls OpenSSL within libweir includes this header: its macros turn each call into a call of the loaded
 * function. src/server is not part of libweir and is linked with OpenSSL.
 */
#ifndef WEIR_BASE_LIBSSL_H
#define WEIR_BASE_LIBSSL_H

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "weir/status.h"

/* Every function that is called, also by the macros of OpenSSL. */
#define LIBSSL_FUNCTIONS(X)                                                                                                \
    X(BIO_clear_flags)                                                                                                     \
    X(BIO_free)                                                                                                            \
    X(BIO_get_data)                                                                                                        \
    X(BIO_get_new_index)                                                                                                   \
    X(BIO_meth_new)                                                                                                        \
    X(BIO_meth_set_ctrl)                                                                                                   \
    X(BIO_meth_set_read_ex)                                                                                                \
    X(BIO_meth_set_write_ex)                                                                                               \
    X(BIO_new)                                                                                                             \
    X(BIO_new_mem_buf)                                                                                                     \
    X(BIO_set_data)                                                                                                        \
    X(BIO_set_flags)                                                                                                       \
    X(BIO_set_init)                                                                                                        \
    X(BIO_test_flags)                                                                                                      \
    X(CRYPTO_memcmp)                                                                                                       \
    X(ERR_clear_error)                                                                                                     \
    X(ERR_get_error)                                                                                                       \
    X(ERR_reason_error_string)                                                                                             \
    X(EVP_DecodeBlock)                                                                                                     \
    X(EVP_Digest)                                                                                                          \
    X(EVP_EncodeBlock)                                                                                                     \
    X(EVP_PKEY_free)                                                                                                       \
    X(EVP_sha256)                                                                                                          \
    X(HMAC)                                                                                                                \
    X(PEM_read_bio_PrivateKey)                                                                                             \
    X(PEM_read_bio_X509)                                                                                                   \
    X(SSL_CTX_check_private_key)                                                                                           \
    X(SSL_CTX_ctrl)                                                                                                        \
    X(SSL_CTX_free)                                                                                                        \
    X(SSL_CTX_get_cert_store)                                                                                              \
    X(SSL_CTX_new)                                                                                                         \
    X(SSL_CTX_set_alpn_protos)                                                                                             \
    X(SSL_CTX_set_default_verify_paths)                                                                                    \
    X(SSL_CTX_set_options)                                                                                                 \
    X(SSL_CTX_set_verify)                                                                                                  \
    X(SSL_CTX_use_PrivateKey)                                                                                              \
    X(SSL_CTX_use_certificate)                                                                                             \
    X(SSL_ctrl)                                                                                                            \
    X(SSL_do_handshake)                                                                                                    \
    X(SSL_free)                                                                                                            \
    X(SSL_get0_alpn_selected)                                                                                              \
    X(SSL_get0_param)                                                                                                      \
    X(SSL_get_error)                                                                                                       \
    X(SSL_get_servername)                                                                                                  \
    X(SSL_get_verify_result)                                                                                               \
    X(SSL_has_pending)                                                                                                     \
    X(SSL_new)                                                                                                             \
    X(SSL_read_ex)                                                                                                         \
    X(SSL_set1_host)                                                                                                       \
    X(SSL_set_bio)                                                                                                         \
    X(SSL_set_connect_state)                                                                                               \
    X(SSL_set_hostflags)                                                                                                   \
    X(SSL_shutdown)                                                                                                        \
    X(SSL_write_ex)                                                                                                        \
    X(TLS_client_method)                                                                                                   \
    X(X509_STORE_add_cert)                                                                                                 \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                                                       \
    X(X509_free)                                                                                                           \
    X(X509_verify_cert_error_string)

#define LIBSSL_MEMBER(name) __typeof__(name) *name;
struct libssl {
    LIBSSL_FUNCTIONS(LIBSSL_MEMBER)
};
#undef LIBSSL_MEMBER

/* Empty until libssl_load() has answered WEIR_OK; never changed after that, never unloaded. */
extern struct libssl libssl;

/* Any thread, any number of times; a failed load is tried again. WEIR_INVALID_CONFIG: it is not installed, or too old. */
WEIR_MUST_CHECK enum weir_status libssl_load(struct weir_error *error);

#define BIO_clear_flags libssl.BIO_clear_flags
#define BIO_free libssl.BIO_free
#define BIO_get_data libssl.BIO_get_data
#define BIO_get_new_index libssl.BIO_get_new_index
#define BIO_meth_new libssl.BIO_meth_new
#define BIO_meth_set_ctrl libssl.BIO_meth_set_ctrl
#define BIO_meth_set_read_ex libssl.BIO_meth_set_read_ex
#define BIO_meth_set_write_ex libssl.BIO_meth_set_write_ex
#define BIO_new libssl.BIO_new
#define BIO_new_mem_buf libssl.BIO_new_mem_buf
#define BIO_set_data libssl.BIO_set_data
#define BIO_set_flags libssl.BIO_set_flags
#define BIO_set_init libssl.BIO_set_init
#define BIO_test_flags libssl.BIO_test_flags
#define CRYPTO_memcmp libssl.CRYPTO_memcmp
#define ERR_clear_error libssl.ERR_clear_error
#define ERR_get_error libssl.ERR_get_error
#define ERR_reason_error_string libssl.ERR_reason_error_string
#define EVP_DecodeBlock libssl.EVP_DecodeBlock
#define EVP_Digest libssl.EVP_Digest
#define EVP_EncodeBlock libssl.EVP_EncodeBlock
#define EVP_PKEY_free libssl.EVP_PKEY_free
#define EVP_sha256 libssl.EVP_sha256
#define HMAC libssl.HMAC
#define PEM_read_bio_PrivateKey libssl.PEM_read_bio_PrivateKey
#define PEM_read_bio_X509 libssl.PEM_read_bio_X509
#define SSL_CTX_check_private_key libssl.SSL_CTX_check_private_key
#define SSL_CTX_ctrl libssl.SSL_CTX_ctrl
#define SSL_CTX_free libssl.SSL_CTX_free
#define SSL_CTX_get_cert_store libssl.SSL_CTX_get_cert_store
#define SSL_CTX_new libssl.SSL_CTX_new
#define SSL_CTX_set_alpn_protos libssl.SSL_CTX_set_alpn_protos
#define SSL_CTX_set_default_verify_paths libssl.SSL_CTX_set_default_verify_paths
#define SSL_CTX_set_options libssl.SSL_CTX_set_options
#define SSL_CTX_set_verify libssl.SSL_CTX_set_verify
#define SSL_CTX_use_PrivateKey libssl.SSL_CTX_use_PrivateKey
#define SSL_CTX_use_certificate libssl.SSL_CTX_use_certificate
#define SSL_ctrl libssl.SSL_ctrl
#define SSL_do_handshake libssl.SSL_do_handshake
#define SSL_free libssl.SSL_free
#define SSL_get0_alpn_selected libssl.SSL_get0_alpn_selected
#define SSL_get0_param libssl.SSL_get0_param
#define SSL_get_error libssl.SSL_get_error
#define SSL_get_servername libssl.SSL_get_servername
#define SSL_get_verify_result libssl.SSL_get_verify_result
#define SSL_has_pending libssl.SSL_has_pending
#define SSL_new libssl.SSL_new
#define SSL_read_ex libssl.SSL_read_ex
#define SSL_set1_host libssl.SSL_set1_host
#define SSL_set_bio libssl.SSL_set_bio
#define SSL_set_connect_state libssl.SSL_set_connect_state
#define SSL_set_hostflags libssl.SSL_set_hostflags
#define SSL_shutdown libssl.SSL_shutdown
#define SSL_write_ex libssl.SSL_write_ex
#define TLS_client_method libssl.TLS_client_method
#define X509_STORE_add_cert libssl.X509_STORE_add_cert
#define X509_VERIFY_PARAM_set1_ip_asc libssl.X509_VERIFY_PARAM_set1_ip_asc
#define X509_free libssl.X509_free
#define X509_verify_cert_error_string libssl.X509_verify_cert_error_string

#endif
