#include "store/sqlite/file_identity.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const endings[STORE_FILES] = {"", "-wal", "-shm"};

static enum weir_status refuse(const char *name, int native, struct weir_error *error)
{
    error_set_native(error, WEIR_STORE_UNREACHABLE, native, "the store's file %s was %s while it was open", name,
                     native == 0 ? "replaced" : "removed");
    error_hint(error, "nothing is written any more; end this program, put the files of the store back, then "
                      "`weir store check`");
    return WEIR_STORE_UNREACHABLE;
}

enum weir_status file_identity_check(struct file_identity *identity, const char *path, const char *real,
                                     struct weir_error *error)
{
    for (int i = 0; i < STORE_FILES; i++) {
        char name[PATH_MAX];
        struct stat facts;
        (void)snprintf(name, sizeof name, "%s%s", i == 0 ? path : real, endings[i]);
        if (stat(name, &facts) != 0) {
            return refuse(name, errno, error);
        }
        if (!identity->known) {
            identity->files[i].device = facts.st_dev;
            identity->files[i].inode = facts.st_ino;
        } else if (identity->files[i].device != facts.st_dev || identity->files[i].inode != facts.st_ino) {
            return refuse(name, 0, error);
        }
    }
    identity->known = true;
    return WEIR_OK;
}
