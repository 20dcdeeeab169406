/* Loads libmicrohttpd, once per process.
 *
 * The table `microhttpd` is filled only when all of its functions were found; after that it is never changed, so any thread
 * may call through it without a lock. A process without a listener must not load it: it brings GnuTLS with it. */
#include "server/libmicrohttpd.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/loaded_library.h"

#define MICROHTTPD_FILE "libmicrohttpd.so.12"

struct microhttpd microhttpd;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded;

static enum weir_status microhttpd_load_once(struct weir_error *error)
{
    static const char *const names[] = {
#define NAME(name) #name,
        MICROHTTPD_FUNCTIONS(NAME)
#undef NAME
    };
    static_assert(sizeof names / sizeof names[0] == sizeof microhttpd / sizeof(void *), "a pointer for each name");
    char text[LOADED_LIBRARY_REASON_MAX];
    const char *reason = loaded_library_open(MICROHTTPD_FILE, names, sizeof names / sizeof names[0], &microhttpd, text);
    if (reason != NULL) {
        error_set(error, WEIR_INVALID_CONFIG, "http.listen needs libmicrohttpd: %s", reason);
        error_hint(error, "install it (on Debian and Ubuntu: apt-get install libmicrohttpd12), or set no http.listen");
        return WEIR_INVALID_CONFIG;
    }
    is_loaded = true;
    return WEIR_OK;
}

enum weir_status microhttpd_load(struct weir_error *error)
{
    (void)pthread_mutex_lock(&lock);
    enum weir_status status = is_loaded ? WEIR_OK : microhttpd_load_once(error);
    (void)pthread_mutex_unlock(&lock);
    return status;
}
