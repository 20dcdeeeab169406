/* Libraries that are loaded when they are needed for the first time, so that programs run without them until then. */
#ifndef WEIR_BASE_LOADED_LIBRARY_H
#define WEIR_BASE_LOADED_LIBRARY_H

#include <stdatomic.h>
#include <stddef.h>

enum { LOADED_LIBRARY_REASON_MAX = 256, LOADED_LIBRARY_PATH_MAX = 4096 };

/* The file to open: `carrier` in the folder of libweir, if it is there, else `file`. A carrier has no code of its own. It
 * depends on the library, and the functions of its dependencies are found in it. So a package may rename what it carries.
 * A program that contains weir, as the command does, has no carrier. `path` has LOADED_LIBRARY_PATH_MAX bytes. */
const char *loaded_library_find(const char *carrier, const char *file, char *path);

/* A library that a process loads once. The first four members and `begin` are set by its owner. */
struct loaded_library {
    const char *file;
    const char *const *names; /* of its functions */
    size_t count;
    void *functions;            /* so many pointers in the order of the names; never changed once loaded */
    const char *carrier;        /* see loaded_library_find(); NULL = none */
    const char *(*begin)(void); /* prepares it, once; answers the reason of a failure, NULL = none. NULL = nothing to do */
    atomic_bool is_loaded;      /* of loaded_library_load() */
};

/* NULL once the library is loaded and all of its functions were found: any thread may call them without a lock then, and
 * the library is never unloaded. Otherwise the reason, in `reason` (LOADED_LIBRARY_REASON_MAX bytes): `functions` has not
 * changed unless `begin` failed, and the next call tries again. Any thread. */
const char *loaded_library_load(struct loaded_library *library, char *reason);

#endif
