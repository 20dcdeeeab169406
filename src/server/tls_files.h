/* The certificate and the key of TLS, read from files of PEM. One thread. */
#ifndef WEIR_SERVER_TLS_FILES_H
#define WEIR_SERVER_TLS_FILES_H

#include "base/text.h"

/* `certificate` is the chain, the server's own first. */
struct tls_files {
    struct text certificate;
    struct text key; /* wiped when it is closed */
};

/* Reads both files and checks that they fit together and that the certificate is valid now. Others than the owner and the
 * group must not be able to read the key. WEIR_INVALID_CONFIG with the file at fault; WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status tls_files_read(const char *certificate, const char *key, struct tls_files *files,
                                                struct weir_error *error);
void tls_files_close(struct tls_files *files);
/* The same check before a start, without the texts. It includes whether the library can do TLS, which must be loaded. */
WEIR_MUST_CHECK enum weir_status tls_files_require(const char *certificate_file, const char *key_file,
                                                   struct weir_error *error);

#endif
