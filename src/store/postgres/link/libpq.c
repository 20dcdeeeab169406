/* Loads libpq when the first store or connection of PostgreSQL is opened.
 *
 * dlopen() finds the library, dlsym() each function of LIBPQ_FUNCTIONS; the table `libpq` is filled only when all of them
 * were found, so a library that is too old is refused with a message and not by a crash at its first use.
 *
 * The library is never unloaded and the table never changes once it is filled. The mutex makes the load safe in any thread.
 */
#include "store/postgres/link/libpq.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

#define LIBPQ_FILE "libpq.so.5"

struct libpq libpq;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded;

static enum weir_status refuse_libpq(const char *what, struct weir_error *error)
{
    error_set(error, WEIR_STORE_UNREACHABLE, "PostgreSQL needs libpq, and %s", what);
    error_hint(error, "install libpq 14 or later (on Debian and Ubuntu: apt-get install libpq5), or use a store on SQLite");
    return WEIR_STORE_UNREACHABLE;
}

static enum weir_status load_functions(struct weir_error *error)
{
    static const char *const names[] = {
#define NAME(name) #name,
        LIBPQ_FUNCTIONS(NAME)
#undef NAME
    };
    static_assert(sizeof names / sizeof names[0] == sizeof libpq / sizeof(void *), "a pointer for each name");
    void *functions[sizeof names / sizeof names[0]];
    void *library = dlopen(LIBPQ_FILE, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *reason = dlerror();
        char what[256];
        text_copy(what, sizeof what, reason == NULL ? LIBPQ_FILE " cannot be loaded" : reason);
        return refuse_libpq(what, error);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        functions[i] = dlsym(library, names[i]);
        if (functions[i] == NULL) {
            char what[256];
            (void)snprintf(what, sizeof what, LIBPQ_FILE " has no %s: it is too old", names[i]);
            (void)dlclose(library);
            return refuse_libpq(what, error);
        }
    }
    /* Standard C converts no object pointer to a function pointer; on POSIX both have the same form. */
    memcpy(&libpq, functions, sizeof libpq);
    is_loaded = true;
    return WEIR_OK;
}

enum weir_status libpq_load(struct weir_error *error)
{
    (void)pthread_mutex_lock(&lock);
    enum weir_status status = is_loaded ? WEIR_OK : load_functions(error);
    (void)pthread_mutex_unlock(&lock);
    return status;
}
