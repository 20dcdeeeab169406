/* Loads libmicrohttpd, once per process (loaded_library.h).
 *
 * A process without a listener must not load it: it brings GnuTLS with it. Any thread. */
#include "server/libmicrohttpd.h"

#include <assert.h>

#include "base/error.h"
#include "base/loaded_library.h"

struct microhttpd microhttpd;

static const char *const names[] = {
#define NAME(name) #name,
    MICROHTTPD_FUNCTIONS(NAME)
#undef NAME
};
static_assert(sizeof names / sizeof names[0] == sizeof microhttpd / sizeof(void *), "a pointer for each name");

static struct loaded_library library = {
    .file = "libmicrohttpd.so.12", .names = names, .count = sizeof names / sizeof names[0], .functions = &microhttpd};

enum weir_status microhttpd_load(struct weir_error *error)
{
    char text[LOADED_LIBRARY_REASON_MAX];
    const char *reason = loaded_library_load(&library, text);
    if (reason != NULL) {
        error_set(error, WEIR_INVALID_CONFIG, "http.listen needs libmicrohttpd: %s", reason);
        error_hint(error, "install it (on Debian and Ubuntu: apt-get install libmicrohttpd12), or set no http.listen");
        return WEIR_INVALID_CONFIG;
    }
    return WEIR_OK;
}
