/* Loads libcurl, once per process.
 *
 * The functions are found by name and stored in one struct of pointers, under a lock. After the first success the struct is
 * never changed, and the library never unloaded, so any thread may call through it without a lock.
 *
 * A process that sends no HTTP request must not load libcurl: it brings many other libraries with it. Any thread. */
#include "base/libcurl.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/loaded_library.h"

#define LIBCURL_FILE "libcurl.so.4"

struct libcurl libcurl;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded;

static enum weir_status libcurl_refuse(const char *user, const char *reason, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_CONFIG, "%s needs libcurl: %s", user, reason);
    error_hint(error, "install libcurl 7.68 or later (on Debian and Ubuntu: apt-get install libcurl4)");
    return WEIR_INVALID_CONFIG;
}

static enum weir_status libcurl_load_once(const char *user, struct weir_error *error)
{
    static const char *const names[] = {
#define NAME(name) #name,
        LIBCURL_FUNCTIONS(NAME)
#undef NAME
    };
    static_assert(sizeof names / sizeof names[0] == sizeof libcurl / sizeof(void *), "a pointer for each name");
    char text[LOADED_LIBRARY_REASON_MAX];
    const char *reason = loaded_library_open(LIBCURL_FILE, names, sizeof names / sizeof names[0], &libcurl, text);
    if (reason != NULL) {
        return libcurl_refuse(user, reason, error);
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return libcurl_refuse(user, "it cannot be initialised", error);
    }
    is_loaded = true;
    return WEIR_OK;
}

enum weir_status libcurl_load(const char *user, struct weir_error *error)
{
    INVARIANT(user != NULL);
    (void)pthread_mutex_lock(&lock);
    enum weir_status status = is_loaded ? WEIR_OK : libcurl_load_once(user, error);
    (void)pthread_mutex_unlock(&lock);
    return status;
}
