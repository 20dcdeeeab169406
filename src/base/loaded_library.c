/* dlopen() finds the library, dlsym() each function. The caller's table is filled only when all of them were found. So
 * a library that is too old is refused with a message, and not by a crash at its first use.
 *
 * One lock protects the first load of every library. A thread that finds it loaded takes no lock. */
#include "base/loaded_library.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

/* NULL, or the reason in `reason`: then nothing is loaded or changed. */
static const char *open_library(const char *file, const struct loaded_library *wanted, char *reason)
{
    const char *const *names = wanted->names;
    size_t count = wanted->count;
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
        memcpy((char *)wanted->functions + i * sizeof function, &function, sizeof function);
    }
    return NULL;
}

const char *loaded_library_find(const char *carrier, const char *file, char *path)
{
    INVARIANT(carrier != NULL && file != NULL && path != NULL);
    static const char here;
    Dl_info place;
    struct link_map *map = NULL;
    if (dladdr1(&here, &place, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) {
        return file;
    }
    const char *end = strrchr(map->l_name, '/'); /* the program itself has an empty name */
    if (end == NULL) {
        return file;
    }
    int length = snprintf(path, LOADED_LIBRARY_PATH_MAX, "%.*s/%s", (int)(end - map->l_name), map->l_name, carrier);
    return length < LOADED_LIBRARY_PATH_MAX && access(path, R_OK) == 0 ? path : file;
}

static const char *load_locked(struct loaded_library *library, char *reason)
{
    char path[LOADED_LIBRARY_PATH_MAX];
    const char *file =
        library->carrier == NULL ? library->file : loaded_library_find(library->carrier, library->file, path);
    const char *failure = open_library(file, library, reason);
    if (failure == NULL && library->begin != NULL) {
        failure = library->begin();
    }
    atomic_store_explicit(&library->is_loaded, failure == NULL, memory_order_release);
    return failure;
}

const char *loaded_library_load(struct loaded_library *library, char *reason)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    INVARIANT(library != NULL && reason != NULL && library->names != NULL && library->functions != NULL);
    if (atomic_load_explicit(&library->is_loaded, memory_order_acquire)) {
        return NULL;
    }
    (void)pthread_mutex_lock(&lock);
    const char *failure = atomic_load(&library->is_loaded) ? NULL : load_locked(library, reason);
    (void)pthread_mutex_unlock(&lock);
    return failure;
}
