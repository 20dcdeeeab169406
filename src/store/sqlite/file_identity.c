/* Compares the files of a store with those that were opened, by device and inode.
 *
 *   1. The first call that finds the three files notes them: database, log and index of the log. That is the opening, or
 *      the first write transaction of a new store, whose log comes with it.
 *   2. Each later call compares. A file that was removed or replaced would be written by this process alone, and work
 *      that is acknowledged there would be lost, so the transaction must not go on.
 *   3. A file that is put back passes the check again: the data was never wrong, only its name.
 *
 * It never opens or closes a file: closing a descriptor of the database would drop the locks of SQLite in this
 * process. Runs in the thread that holds the writer.
 */
#include "store/sqlite/file_identity.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const endings[STORE_FILES] = {"", "-wal", "-shm"};

/* A name of the store that cannot be examined. */
static enum weir_status refuse_name(const char *name, int native, struct weir_error *error)
{
    return error_set_native(error, WEIR_STORE_UNREACHABLE, native, "the store's file %s was %s while it was open", name,
                            native == 0 ? "replaced" : "removed");
}

/* A name of the store that stands for another file. */
static enum weir_status refuse_replaced(const char *name, int native, struct weir_error *error)
{
    (void)refuse_name(name, native, error);
    error_hint(error, "nothing is written any more; end this program, put the files of the store back, then "
                      "`weir store check`");
    return WEIR_STORE_UNREACHABLE;
}

enum weir_status file_identity_check(struct file_identity *identity, const char *path, const char *real,
                                     struct weir_error *error)
{
    INVARIANT(identity != NULL && path != NULL);
    for (int i = 0; i < STORE_FILES; i++) {
        char name[PATH_MAX];
        struct stat facts;
        (void)snprintf(name, sizeof name, "%s%s", i == 0 ? path : real, endings[i]);
        if (stat(name, &facts) != 0) {
            return refuse_replaced(name, errno, error);
        }
        if (!identity->known) {
            identity->files[i].device = facts.st_dev;
            identity->files[i].inode = facts.st_ino;
        } else if (identity->files[i].device != facts.st_dev || identity->files[i].inode != facts.st_ino) {
            return refuse_replaced(name, 0, error);
        }
    }
    identity->known = true;
    return WEIR_OK;
}

enum weir_status file_identity_read(const char *path, dev_t device, ino_t inode, struct weir_error *error)
{
    INVARIANT(path != NULL);
    struct stat facts;
    int native = stat(path, &facts) == 0 ? 0 : errno;
    if (native == 0 && facts.st_dev == device && facts.st_ino == inode) {
        return WEIR_OK;
    }
    (void)refuse_name(path, native, error);
    error_hint(error, "start again to read the store that is there now, or put the file back");
    return WEIR_STORE_UNREACHABLE;
}
