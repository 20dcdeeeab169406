/* dlopen() finds the library, dlsym() each function. The caller's table is filled only when all of them were found. So
 * a library that is too old is refused with a message, and not by a crash at its first use. */
#include "base/loaded_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

const char *loaded_library_open(const char *file, const char *const *names, size_t count, void *functions, char *reason)
{
    INVARIANT(file != NULL && names != NULL && functions != NULL && reason != NULL);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *problem = dlerror();
        text_copy(reason, LOADED_LIBRARY_REASON_MAX, problem == NULL ? "it cannot be loaded" : problem);
        return reason;
    }
    for (size_t i = 0; i < count; i++) {
        if (dlsym(library, names[i]) == NULL) {
            (void)snprintf(reason, LOADED_LIBRARY_REASON_MAX, "%s has no %s: it is too old", file, names[i]);
            (void)dlclose(library);
            return reason;
        }
    }
    for (size_t i = 0; i < count; i++) {
        /* Standard C converts no object pointer to a function pointer; on POSIX both have the same form. */
        void *function = dlsym(library, names[i]);
        memcpy((char *)functions + i * sizeof function, &function, sizeof function);
    }
    return NULL;
}
