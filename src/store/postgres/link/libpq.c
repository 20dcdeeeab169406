/* Loads libpq when the first store or connection of PostgreSQL is opened.
 *
 * The table `libpq` is filled only when all functions of LIBPQ_FUNCTIONS were found.
 *
 * The library is never unloaded and the table never changes once it is filled. The mutex makes the load safe in any thread.
 */
#include "store/postgres/link/libpq.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/loaded_library.h"

#define LIBPQ_FILE "libpq.so.5"

struct libpq libpq;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded;

static enum weir_status load_functions(struct weir_error *error)
{
    static const char *const names[] = {
#define NAME(name) #name,
        LIBPQ_FUNCTIONS(NAME)
#undef NAME
    };
    static_assert(sizeof names / sizeof names[0] == sizeof libpq / sizeof(void *), "a pointer for each name");
    char text[LOADED_LIBRARY_REASON_MAX];
    const char *reason = loaded_library_open(LIBPQ_FILE, names, sizeof names / sizeof names[0], &libpq, text);
    if (reason != NULL) {
        error_set(error, WEIR_STORE_UNREACHABLE, "PostgreSQL needs libpq, and %s", reason);
        error_hint(error,
                   "install libpq 14 or later (on Debian and Ubuntu: apt-get install libpq5), or use a store on SQLite");
        return WEIR_STORE_UNREACHABLE;
    }
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
