/* Checks of opened addresses that end the start of a node. They read, and change nothing: a node that was refused leaves no
 * trace in the store. */
#include "server/listen_checks.h"

#include "base/error.h"
#include "server/access.h"
#include "server/listen_address.h"
#include "server/tls_files.h"

enum weir_status listen_check_tls(const struct listen_socket *sockets, size_t count, const char *certificate_file,
                                  const char *key_file, struct weir_error *error)
{
    INVARIANT(sockets != NULL && certificate_file != NULL && key_file != NULL);
    bool is_wanted = false;
    for (size_t i = 0; i < count; i++) {
        is_wanted = is_wanted || sockets[i].has_tls;
    }
    return is_wanted ? tls_files_require(certificate_file, key_file, error) : WEIR_OK;
}

enum weir_status listen_check_tokens(const struct listen_socket *sockets, size_t count, struct access *access,
                                     struct weir_error *error)
{
    INVARIANT(sockets != NULL && access != NULL);
    for (size_t i = 0; i < count; i++) {
        if (!sockets[i].is_local && !access_admits_others(access)) {
            error_set(error, WEIR_INVALID_CONFIG,
                      "http.listen: \"%s\" is open to other machines, and the store has no token", sockets[i].address);
            error_hint(error, "make one first, as in `weir token create ops --role admin --all-workspaces`, or listen at "
                              "127.0.0.1");
            return WEIR_INVALID_CONFIG;
        }
    }
    return WEIR_OK;
}
