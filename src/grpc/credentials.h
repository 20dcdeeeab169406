/* The proofs of identity of both sides: the TLS context, and the API key as the header that carries it.
 *
 * Read from files when the client is opened, and again when one of the files has changed. So a rotation is seen within
 * GRPC_SECRETS_INTERVAL_US. It touches no open connection, because each holds its own reference to its context. Files
 * that cannot be used after a change leave the old secrets in use. No text that leaves this file holds a secret.
 */
#ifndef WEIR_GRPC_CREDENTIALS_H
#define WEIR_GRPC_CREDENTIALS_H

#include <openssl/types.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "grpc/grpc_client.h"

enum { SECRET_FILES = 4 };

struct secret_file {
    char *path; /* NULL: not configured */
    struct stat seen;
};

struct credentials {
    bool tls;
    struct secret_file files[SECRET_FILES]; /* authorities, certificate, key, API key */
    SSL_CTX *context;                       /* NULL without TLS */
    char *authorization;                    /* "Bearer ...", or NULL */
};

/* Checks that the options fit together and reads the files. WEIR_INVALID_CONFIG, WEIR_OUT_OF_MEMORY. After a failure there
 * is nothing to close. */
WEIR_MUST_CHECK enum weir_status grpc_credentials_open(struct credentials *credentials,
                                                       const struct grpc_client_options *options, struct weir_error *error);
void grpc_credentials_close(struct credentials *credentials);

/* True when a file has changed since it was read. */
bool grpc_credentials_have_changed(const struct credentials *credentials);
/* Reads the files anew and remembers their present state in any case. On failure the old secrets stay. */
WEIR_MUST_CHECK enum weir_status grpc_credentials_load(struct credentials *credentials, struct weir_error *error);

#endif
