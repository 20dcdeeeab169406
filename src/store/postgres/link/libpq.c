/* Loads libpq, once per process (loaded_library.h), when the first store or connection of PostgreSQL is opened. */
#include "store/postgres/link/libpq.h"

#include <assert.h>

#include "base/error.h"
#include "base/loaded_library.h"

struct libpq libpq;

static const char *const names[] = {
#define NAME(name) #name,
    LIBPQ_FUNCTIONS(NAME)
#undef NAME
};
static_assert(sizeof names / sizeof names[0] == sizeof libpq / sizeof(void *), "a pointer for each name");

static struct loaded_library library = {
    .file = "libpq.so.5", .names = names, .count = sizeof names / sizeof names[0], .functions = &libpq};

static enum weir_status libpq_refuse(const char *reason, struct weir_error *error)
{
    error_set(error, WEIR_STORE_UNREACHABLE, "PostgreSQL needs libpq, and %s", reason);
    error_hint(error, "install libpq 14 or later (on Debian and Ubuntu: apt-get install libpq5), or use a store on SQLite");
    return WEIR_STORE_UNREACHABLE;
}

enum weir_status libpq_load(struct weir_error *error)
{
    char text[LOADED_LIBRARY_REASON_MAX];
    const char *reason = loaded_library_load(&library, text);
    return reason == NULL ? WEIR_OK : libpq_refuse(reason, error);
}
