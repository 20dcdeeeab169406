/* A file system for SQLite that passes everything on and records what reaches the database file and its write-ahead log:
 * writes (SQLite's and those of the log-room writer alike), truncations, removals and syncs, in their order.
 *
 * One trace at a time; one thread. */
#ifndef WEIR_TESTS_POWERCUTS_RECORDING_VFS_H
#define WEIR_TESTS_POWERCUTS_RECORDING_VFS_H

#include <stdint.h>

#include "powercuts/disk.h"

/* Becomes the default file system of this process. */
void recording_vfs_install(void);
/* From now on, what happens to the database `path` and to its log is appended to the trace. */
void recording_start(struct disk_trace *trace, const char *path);
void recording_stop(void);
/* One sync of `one_in` fails; 0 = none does. */
void recording_fail_syncs(struct random *random, uint64_t one_in);

#endif
