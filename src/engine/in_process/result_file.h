/* The file named in WEIR_OUTPUT, into which a program may write the result of its step.
 *
 * It lies in the directory TMPDIR that the node had at its start, or in /tmp, readable by the node's user alone. It exists
 * from the preparation of the attempt to its end. An empty file means that the program has not used it: then stdout is the
 * result. A node that is killed leaves its files behind.
 *
 * Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_RESULT_FILE_H
#define WEIR_ENGINE_IN_PROCESS_RESULT_FILE_H

#include "base/text.h"
#include "weir/status.h"

/* Makes an empty file. Its path is the caller's, for result_file_remove(). NULL: none can be made; the attempt runs without
 * it. */
char *result_file_make(const char *directory);
/* Reads the file into `to`, which is empty and has a maximum. WEIR_OK with nothing read: the file is empty or gone.
 * WEIR_FAILED: it is larger than the maximum. WEIR_OUT_OF_MEMORY. WEIR_SYSTEM: it cannot be read. */
WEIR_MUST_CHECK enum weir_status result_file_read(const char *path, struct text *to, struct weir_error *error);
/* Removes the file and frees its path, which becomes NULL. Takes a NULL path. */
void result_file_remove(char **path);

#endif
