/* The lock of the process that makes a new store (new_file.h).
 *
 *   1. A file with more than one page has its schema: a store is made in one transaction, and its pages come to the file
 *      from the log after the commit. So an ordinary opening takes no lock.
 *   2. A smaller or missing file may be in the making: take the lock of its folder, at most until the deadline.
 *   3. An opener releases the lock at once. It then finds the schema, or a file that no process is making.
 *
 * It never blocks in flock(): the wait must end at the deadline, and a signal that ends it is not this module's to set.
 */
#include "store/sqlite/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"

enum { PAGE_BYTES_MOST = 65536, PAUSE_US = 2000 };

/* Whether the file is missing or may be without its schema. */
static bool may_be_new(const char *path, bool create)
{
    struct stat facts;
    if (stat(path, &facts) != 0) {
        return create;
    }
    return S_ISREG(facts.st_mode) && facts.st_size <= PAGE_BYTES_MOST;
}

static int open_folder(const char *path)
{
    char folder[PATH_MAX];
    int length = snprintf(folder, sizeof folder, "%s", path);
    char *end = strrchr(folder, '/');
    if (length < 0 || (size_t)length >= sizeof folder || end == NULL) {
        return NEW_FILE_NO_LOCK;
    }
    end[end == folder] = '\0';
    return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Polls, because flock() itself knows no deadline. */
static bool take_lock(int folder, int operation, int64_t deadline_us)
{
    int64_t end_us = time_add(clock_boot(clock_system()), deadline_us);
    while (flock(folder, operation | LOCK_NB) != 0) {
        const struct timespec pause = {.tv_nsec = PAUSE_US * 1000L};
        if (errno != EWOULDBLOCK || clock_boot(clock_system()) >= end_us) {
            return false;
        }
        FAILPOINT("store_awaited");
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

int new_file_await(const char *path, bool create, int64_t deadline_us)
{
    INVARIANT(path != NULL && deadline_us >= 0);
    int folder = may_be_new(path, create) ? open_folder(path) : NEW_FILE_NO_LOCK;
    if (folder < 0) {
        return NEW_FILE_NO_LOCK;
    }
    bool is_taken = take_lock(folder, create ? LOCK_EX : LOCK_SH, deadline_us);
    if (!is_taken || !create || !may_be_new(path, create)) {
        new_file_release(folder);
        return NEW_FILE_NO_LOCK;
    }
    return folder;
}

void new_file_release(int lock)
{
    if (lock >= 0) {
        (void)flock(lock, LOCK_UN); /* a child of fork() may have the descriptor, too */
        (void)close(lock);
    }
}
