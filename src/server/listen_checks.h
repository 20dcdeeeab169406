/* Needs of opened addresses beside their sockets, checked before a node starts, so that a mistake ends the start. */
#ifndef WEIR_SERVER_LISTEN_CHECKS_H
#define WEIR_SERVER_LISTEN_CHECKS_H

#include <stddef.h>

#include "weir/status.h"

struct access;
struct listen_socket;

/* With TLS at an address the files must be named and good. WEIR_INVALID_CONFIG, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status listen_check_tls(const struct listen_socket *sockets, size_t count,
                                                  const char *certificate_file, const char *key_file,
                                                  struct weir_error *error);
/* An address that other machines reach is of no use before there is a token, and was rather opened by mistake:
 * WEIR_INVALID_CONFIG. A token that has ended counts, because its end must not end the dispatch of a node at its next
 * start. */
WEIR_MUST_CHECK enum weir_status listen_check_tokens(const struct listen_socket *sockets, size_t count,
                                                     struct access *access, struct weir_error *error);

#endif
