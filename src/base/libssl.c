/* Loads OpenSSL, once per process (loaded_library.h).
 *
 * libcrypto is found as a dependency of libssl. The packages of Python and Node carry OpenSSL under names that no other
 * program has; there a library without code, the carrier, depends on them.
 *
 * A process without TLS and tokens must not load OpenSSL: it costs 2 MiB of each worker. Any thread. */
#include "base/libssl.h"

#include <assert.h>

#include "base/error.h"
#include "base/loaded_library.h"

struct libssl libssl;

static const char *const names[] = {
#define NAME(name) #name,
    LIBSSL_FUNCTIONS(NAME)
#undef NAME
};
static_assert(sizeof names / sizeof names[0] == sizeof libssl / sizeof(void *), "a pointer for each name");

static struct loaded_library library = {.file = "libssl.so.3",
                                        .names = names,
                                        .count = sizeof names / sizeof names[0],
                                        .functions = &libssl,
                                        .carrier = "libweir_ssl.so"};

enum weir_status libssl_load(struct weir_error *error)
{
    char text[LOADED_LIBRARY_REASON_MAX];
    const char *reason = loaded_library_load(&library, text);
    if (reason != NULL) {
        error_set(error, WEIR_INVALID_CONFIG, "TLS and tokens need OpenSSL: %s", reason);
        error_hint(error, "install OpenSSL 3.0 or later (on Debian and Ubuntu: apt-get install libssl3)");
        return WEIR_INVALID_CONFIG;
    }
    return WEIR_OK;
}
