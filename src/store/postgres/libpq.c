#include "store/postgres/libpq.h"

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

static enum weir_status refuse(const char *what, struct weir_error *error)
{
    error_set(error, WEIR_STORE_UNREACHABLE, "PostgreSQL needs libpq, and %s", what);
    error_hint(error, "install libpq 14 or later (on Debian and Ubuntu: apt-get install libpq5), or use a store on SQLite");
    return WEIR_STORE_UNREACHABLE;
}

static enum weir_status load(struct weir_error *error)
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
        return refuse(what, error);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        functions[i] = dlsym(library, names[i]);
        if (functions[i] == NULL) {
            char what[256];
            (void)snprintf(what, sizeof what, LIBPQ_FILE " has no %s: it is too old", names[i]);
            (void)dlclose(library);
            return refuse(what, error);
        }
    }
    /* Standard C knows no way from an object's address to a function's; POSIX has them in one form. */
    memcpy(&libpq, functions, sizeof libpq);
    is_loaded = true;
    return WEIR_OK;
}

enum weir_status libpq_load(struct weir_error *error)
{
    (void)pthread_mutex_lock(&lock);
    enum weir_status status = is_loaded ? WEIR_OK : load(error);
    (void)pthread_mutex_unlock(&lock);
    return status;
}
