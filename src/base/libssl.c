/* Loads OpenSSL, once per process.
 *
 * The functions are found by name and stored in one struct of pointers, under a lock. After the first success the struct is
 * never changed, and the library never unloaded, so any thread may call through it without a lock.
 *
 * libcrypto is found as a dependency of libssl. The packages of Python and Node carry OpenSSL under names that no other
 * program has; there a library without code, LIBSSL_CARRIER, depends on them.
 *
 * A process without TLS and tokens must not load OpenSSL: it costs 2 MiB of each worker. Any thread. */
#include "base/libssl.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/loaded_library.h"

#define LIBSSL_FILE "libssl.so.3"
#define LIBSSL_CARRIER "libweir_ssl.so"

struct libssl libssl;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded;

static enum weir_status libssl_load_once(struct weir_error *error)
{
    static const char *const names[] = {
#define NAME(name) #name,
        LIBSSL_FUNCTIONS(NAME)
#undef NAME
    };
    static_assert(sizeof names / sizeof names[0] == sizeof libssl / sizeof(void *), "a pointer for each name");
    char text[LOADED_LIBRARY_REASON_MAX];
    char path[LOADED_LIBRARY_PATH_MAX];
    const char *file = loaded_library_find(LIBSSL_CARRIER, LIBSSL_FILE, path);
    const char *reason = loaded_library_open(file, names, sizeof names / sizeof names[0], &libssl, text);
    if (reason != NULL) {
        error_set(error, WEIR_INVALID_CONFIG, "TLS and tokens need OpenSSL: %s", reason);
        error_hint(error, "install OpenSSL 3.0 or later (on Debian and Ubuntu: apt-get install libssl3)");
        return WEIR_INVALID_CONFIG;
    }
    is_loaded = true;
    return WEIR_OK;
}

enum weir_status libssl_load(struct weir_error *error)
{
    (void)pthread_mutex_lock(&lock);
    enum weir_status status = is_loaded ? WEIR_OK : libssl_load_once(error);
    (void)pthread_mutex_unlock(&lock);
    return status;
}
