#include "powercuts/recording_vfs.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

struct recorded_file {
    sqlite3_file base;
    int which; /* enum disk_file, or DISK_FILES: another file */
    sqlite3_file *real;
};

static sqlite3_vfs recording_vfs;
static sqlite3_vfs *real_vfs;
static struct disk_trace *trace;
static char database_path[512];
static struct random *sync_random;
static uint64_t sync_fails_one_in;

void recording_start(struct disk_trace *to, const char *path)
{
    trace = to;
    sync_fails_one_in = 0;
    (void)snprintf(database_path, sizeof database_path, "%s", path);
}

void recording_stop(void)
{
    trace = NULL;
    sync_fails_one_in = 0;
}

void recording_fail_syncs(struct random *random, uint64_t one_in)
{
    sync_random = random;
    sync_fails_one_in = one_in;
}

/* By its name at each call: files are opened before a trace begins. */
static int which_file(const char *name)
{
    size_t length = strlen(database_path);
    if (trace == NULL || name == NULL || strncmp(name, database_path, length) != 0) {
        return DISK_FILES;
    }
    return name[length] == '\0' ? DISK_DATABASE : strcmp(name + length, "-wal") == 0 ? DISK_LOG : DISK_FILES;
}

static struct recorded_file *of(sqlite3_file *file)
{
    return (struct recorded_file *)(void *)file;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return of(file)->real;
}

static void record(sqlite3_file *file, enum disk_op_kind kind, const void *bytes, size_t length, int64_t at)
{
    if (trace != NULL && of(file)->which != DISK_FILES) {
        disk_trace_add(trace, kind, of(file)->which, bytes, length, at);
    }
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
    record(file, DISK_WRITE, from, (size_t)size, at);
    return real_of(file)->pMethods->xWrite(real_of(file), from, size, at);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    record(file, DISK_TRUNCATE, NULL, 0, size);
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
    (void)flags; /* the real disk needs no sync: it is never cut off */
    if (trace != NULL && of(file)->which != DISK_FILES && sync_fails_one_in > 0 &&
        random_below(sync_random, sync_fails_one_in) == 0) {
        record(file, DISK_FAILED_SYNC, NULL, 0, 0);
        return SQLITE_IOERR_FSYNC;
    }
    record(file, DISK_SYNC, NULL, 0, 0);
    return SQLITE_OK;
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
    struct recorded_file *recorded = of(file);
    (void)vfs;
    recorded->real = (sqlite3_file *)(void *)(recorded + 1);
    recorded->which = which_file(name);
    int code = real_vfs->xOpen(real_vfs, name, recorded->real, flags, ret_flags);
    recorded->base.pMethods = recorded->real->pMethods == NULL ? NULL : &methods;
    return code;
}

static int remove_file(sqlite3_vfs *vfs, const char *name, int syncs)
{
    int which = which_file(name);
    (void)vfs;
    if (trace != NULL && which != DISK_FILES) {
        disk_trace_add(trace, DISK_REMOVE, which, NULL, 0, 0);
    }
    return real_vfs->xDelete(real_vfs, name, syncs);
}

void recording_vfs_install(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    recording_vfs = *real_vfs;
    recording_vfs.zName = "recording";
    recording_vfs.szOsFile = (int)sizeof(struct recorded_file) + real_vfs->szOsFile;
    recording_vfs.xOpen = open_file;
    recording_vfs.xDelete = remove_file;
    (void)sqlite3_vfs_register(&recording_vfs, 1);
}
