/* Loads libcurl, once per process (loaded_library.h).
 *
 * A process that sends no HTTP request must not load libcurl: it brings many other libraries with it. Any thread. */
#include "base/libcurl.h"

#include <assert.h>

#include "base/error.h"
#include "base/loaded_library.h"

struct libcurl libcurl;

static const char *const names[] = {
#define NAME(name) #name,
    LIBCURL_FUNCTIONS(NAME)
#undef NAME
};
static_assert(sizeof names / sizeof names[0] == sizeof libcurl / sizeof(void *), "a pointer for each name");

static const char *begin_libcurl(void)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? NULL : "it cannot be initialised";
}

static struct loaded_library library = {.file = "libcurl.so.4",
                                        .names = names,
                                        .count = sizeof names / sizeof names[0],
                                        .functions = &libcurl,
                                        .begin = begin_libcurl};

enum weir_status libcurl_load(const char *user, struct weir_error *error)
{
    INVARIANT(user != NULL);
    char text[LOADED_LIBRARY_REASON_MAX];
    const char *reason = loaded_library_load(&library, text);
    if (reason != NULL) {
        error_set(error, WEIR_INVALID_CONFIG, "%s needs libcurl: %s", user, reason);
        error_hint(error, "install libcurl 7.68 or later (on Debian and Ubuntu: apt-get install libcurl4)");
        return WEIR_INVALID_CONFIG;
    }
    return WEIR_OK;
}
