#include "unit/store/sqlite/failing_vfs.h"

#include <sqlite3.h>
#include <stddef.h>
#include <string.h>

struct failing_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct */
};

static sqlite3_vfs failing_vfs;
static sqlite3_vfs *real_vfs;
static int fail_at;
static int fail_code;
static bool fail_stays;
static int calls;
static bool has_failed;
static bool writes_half;

void failing_vfs_arm(int n, int code, bool stays)
{
    fail_at = n;
    fail_code = code;
    fail_stays = stays;
    calls = 0;
    has_failed = false;
}

void failing_vfs_write_half(bool wanted)
{
    writes_half = wanted;
}

int failing_vfs_calls(void)
{
    return calls;
}

bool failing_vfs_has_failed(void)
{
    return has_failed;
}

static bool fails_now(void)
{
    calls++;
    bool now = fail_at > 0 && (calls == fail_at || (fail_stays && calls > fail_at));
    has_failed = has_failed || now;
    return now;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct failing_file *)(void *)file)->real;
}

static int file_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at)
{
    return real_of(file)->pMethods->xRead(real_of(file), to, size, at);
}

static int file_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 at)
{
    if (!fails_now()) {
        return real_of(file)->pMethods->xWrite(real_of(file), from, size, at);
    }
    if (writes_half) {
        (void)real_of(file)->pMethods->xWrite(real_of(file), from, size / 2, at);
    }
    return fail_code;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return fails_now() ? SQLITE_IOERR_TRUNCATE : real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
    return fails_now() ? SQLITE_IOERR_FSYNC : real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), ret_size);
}

static int file_lock(sqlite3_file *file, int lock)
{
    return real_of(file)->pMethods->xLock(real_of(file), lock);
}

static int file_unlock(sqlite3_file *file, int lock)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), lock);
}

static int file_check_lock(sqlite3_file *file, int *ret_locked)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), ret_locked);
}

static int file_control(sqlite3_file *file, int what, void *argument)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), what, argument);
}

static int file_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_characteristics(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret_map)
{
    return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, ret_map);
}

static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap(sqlite3_file *file, int remove)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
    struct failing_file *failing = (struct failing_file *)(void *)file;
    (void)vfs;
    failing->real = (sqlite3_file *)(void *)(failing + 1);
    int code = real_vfs->xOpen(real_vfs, name, failing->real, flags, ret_flags);
    failing->base.pMethods = failing->real->pMethods == NULL ? NULL : &methods;
    return code;
}

void failing_vfs_install(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    failing_vfs = *real_vfs;
    failing_vfs.zName = "failing";
    failing_vfs.szOsFile = (int)sizeof(struct failing_file) + real_vfs->szOsFile;
    failing_vfs.xOpen = open_file;
    (void)sqlite3_vfs_register(&failing_vfs, 1);
}
