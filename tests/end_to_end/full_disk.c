/* Preloaded into a server: its disk is full while a file orders it. A write that makes a file longer is refused with
 * ENOSPC, as a full disk does; what is there can be read and written. Needs no right to mount anything.
 *
 * WEIR_FULL_DISK names the file: "PATH.data" is for everything but the write-ahead log, "PATH.wal" is for that. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static bool exists(const char *suffix)
{
    char path[PATH_MAX];
    const char *stem = getenv("WEIR_FULL_DISK");
    return stem != NULL && snprintf(path, sizeof path, "%s.%s", stem, suffix) < (int)sizeof path && access(path, F_OK) == 0;
}

static bool is_log(int file)
{
    char link[64];
    char path[PATH_MAX] = "";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    return readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/pg_wal/") != NULL;
}

static bool refuses(int file, off_t end)
{
    struct stat facts;
    int before = errno;
    bool data = exists("data");
    bool wal = exists("wal");
    bool full = (data || wal) && fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && end > facts.st_size &&
                (is_log(file) ? wal : data);
    errno = full ? ENOSPC : before;
    return full;
}

static void *original(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL) {
        abort();
    }
    return function;
}

static off_t end_of(const struct iovec *parts, int count, off_t offset)
{
    for (int i = 0; i < count; i++) {
        offset += (off_t)parts[i].iov_len;
    }
    return offset;
}

#pragma GCC visibility push(default)

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t offset)
{
    ssize_t (*next)(int, const void *, size_t, off64_t);
    *(void **)&next = original("pwrite64");
    return refuses(file, offset + (off_t)size) ? -1 : next(file, bytes, size, offset);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset)
{
    return pwrite64(file, bytes, size, offset);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t offset)
{
    ssize_t (*next)(int, const struct iovec *, int, off64_t);
    *(void **)&next = original("pwritev64");
    return refuses(file, end_of(parts, count, offset)) ? -1 : next(file, parts, count, offset);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset)
{
    return pwritev64(file, parts, count, offset);
}

int posix_fallocate64(int file, off64_t offset, off64_t size)
{
    int (*next)(int, off64_t, off64_t);
    *(void **)&next = original("posix_fallocate64");
    return refuses(file, offset + size) ? ENOSPC : next(file, offset, size);
}

int posix_fallocate(int file, off_t offset, off_t size)
{
    return posix_fallocate64(file, offset, size);
}

#pragma GCC visibility pop
