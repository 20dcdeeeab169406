/* The free space where the file of a SQLite store is: one call of statvfs(), on a path that is in the URL. Keeps nothing.
 */
#include "cli/verbs/disk.h"

#include <string.h>
#include <sys/statvfs.h>

#include "base/error.h"

#define MEBIBYTE ((uint64_t)1024 * 1024)

const char *disk_store_file(const char *url)
{
    static const char scheme[] = "sqlite:";
    INVARIANT(url != NULL);
    return strncmp(url, scheme, sizeof scheme - 1) == 0 ? url + sizeof scheme - 1 : NULL;
}

bool disk_free_mib(const char *url, uint64_t *ret_mib)
{
    INVARIANT(url != NULL && ret_mib != NULL);
    struct statvfs disk;
    const char *path = disk_store_file(url);
    if (path == NULL || statvfs(path, &disk) != 0) {
        return false;
    }
    *ret_mib = (uint64_t)disk.f_bavail * disk.f_frsize / MEBIBYTE;
    return true;
}

bool disk_is_full(const char *url)
{
    uint64_t free_mib = 0;
    return disk_free_mib(url, &free_mib) && free_mib == 0;
}
