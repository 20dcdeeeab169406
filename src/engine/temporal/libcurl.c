/* Loads libcurl, once per process.
 *
 * The functions are found by name and stored in one struct of pointers, under a lock. After the first success the struct is
 * never changed, and the library never unloaded, so any thread may call through it without a lock.
 *
 * A process without a codec must not load libcurl: it brings many other libraries with it. Any thread. */
#include "engine/temporal/libcurl.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"

#define LIBCURL_FILE "libcurl.so.4"

struct libcurl libcurl;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded;

static enum weir_status libcurl_refuse(const char *reason, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_CONFIG, "temporal.codec_url needs libcurl: %s", reason);
    error_hint(error, "install libcurl 7.58 or later (on Debian and Ubuntu: apt-get install libcurl4), or set no codec");
    return WEIR_INVALID_CONFIG;
}

static enum weir_status libcurl_load_once(struct weir_error *error)
{
    static const char *const names[] = {
#define NAME(name) #name,
        LIBCURL_FUNCTIONS(NAME)
#undef NAME
    };
    static_assert(sizeof names / sizeof names[0] == sizeof libcurl / sizeof(void *), "a pointer for each name");
    void *functions[sizeof names / sizeof names[0]];
    void *library = dlopen(LIBCURL_FILE, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *reason = dlerror();
        return libcurl_refuse(reason == NULL ? LIBCURL_FILE " cannot be loaded" : reason, error);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        functions[i] = dlsym(library, names[i]);
        if (functions[i] == NULL) {
            (void)dlclose(library);
            return libcurl_refuse(LIBCURL_FILE " lacks a function: it is too old", error);
        }
    }
    memcpy(&libcurl, functions, sizeof libcurl);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return libcurl_refuse("it cannot be initialised", error);
    }
    is_loaded = true;
    return WEIR_OK;
}

enum weir_status libcurl_load(struct weir_error *error)
{
    (void)pthread_mutex_lock(&lock);
    enum weir_status status = is_loaded ? WEIR_OK : libcurl_load_once(error);
    (void)pthread_mutex_unlock(&lock);
    return status;
}
