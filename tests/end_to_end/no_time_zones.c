/* Preloaded into a program: its machine has no database of time zones. Files below the folder of the database are refused
 * with ENOENT, and so is the folder. Needs no right to mount anything. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_of_zones(const char *path)
{
    static const char folder[] = "/usr/share/zoneinfo";
    bool is_found = strncmp(path, folder, sizeof folder - 1) == 0;
    errno = is_found ? ENOENT : errno;
    return is_found;
}

static void *original(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL) {
        abort();
    }
    return function;
}

#pragma GCC visibility push(default)

int open64(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...);
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    *(void **)&next = original("open64");
    return is_of_zones(path) ? -1 : next(path, flags, mode);
}

int stat64(const char *path, struct stat64 *facts)
{
    int (*next)(const char *, struct stat64 *);
    *(void **)&next = original("stat64");
    return is_of_zones(path) ? -1 : next(path, facts);
}

#pragma GCC visibility pop
