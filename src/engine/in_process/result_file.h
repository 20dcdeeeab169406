/* The file named in WEIR_OUTPUT, into which a program may write the result of its step.
 *
 * It lies in the directory TMPDIR that the node had at its start, or in /tmp, readable by the node's user alone. The
 * process makes it just before its program runs, so a slow file system delays no other step. It exists until the end of the
 * attempt. An empty file means that the program has not used it: then stdout is the
 * result. A node that is killed leaves its files behind.
 *
 * Threads: the loop's; result_file_make(): the child of the keeper.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_RESULT_FILE_H
#define WEIR_ENGINE_IN_PROCESS_RESULT_FILE_H

#include "base/text.h"
#include "weir/status.h"

/* A new path, which is the caller's. NULL: out of memory, or the directory's path is too long. The attempt then runs
 * without the file. */
char *result_file_name(const char *directory);
/* Makes the empty file. False: none can be made. Async-signal-safe: the child of the keeper calls it. */
bool result_file_make(const char *path);
/* Reads the file into `to`, which is empty and has a maximum. WEIR_OK with nothing read: the file is empty or gone.
 * WEIR_FAILED: it is larger than the maximum. WEIR_OUT_OF_MEMORY. WEIR_SYSTEM: it cannot be read. */
WEIR_MUST_CHECK enum weir_status result_file_read(const char *path, struct text *to, struct weir_error *error);
/* Removes the file and frees its path, which becomes NULL. Takes a NULL path. */
void result_file_remove(char **path);

#endif
