/* Whether the files of a store are still those that were opened.
 *
 * A file that was removed, renamed or replaced stays open for its openers. They would go on in a file that no other
 * process sees, and acknowledge work that is lost. The log and its index (-wal, -shm) are such files too: a process
 * that comes later makes new ones, and from then on two sets of locks guard one database. So each write transaction
 * looks at the three names first. That is three calls of stat(), nothing beside an fsync.
 */
#ifndef WEIR_STORE_SQLITE_FILE_IDENTITY_H
#define WEIR_STORE_SQLITE_FILE_IDENTITY_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

enum { STORE_FILES = 3 }; /* the database, its log, the log's index */

struct file_identity {
    bool known; /* false until the files were looked at for the first time */
    struct {
        dev_t device;
        ino_t inode;
    } files[STORE_FILES];
};

/* The first time it notes which files the names stand for, afterwards it compares. Call it inside of a write transaction:
 * then all three exist, and no process removes them in the ordinary way while this process has them open.
 * WEIR_STORE_UNREACHABLE names the file that is gone or another one; when the same file is put back, all is well again.
 * `path` is the name that was opened, `real` is SQLite's name for it (without symbolic links): beside that one the log and
 * its index are. */
enum weir_status file_identity_check(struct file_identity *identity, const char *path, const char *real,
                                     struct weir_error *error);
/* The same of one file for readers: a removed file would never change again. */
enum weir_status file_identity_read(const char *path, dev_t device, ino_t inode, struct weir_error *error);

#endif
