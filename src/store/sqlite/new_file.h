/* The lock of the process that makes a new store, from before the file exists until its schema is committed.
 *
 * A new file has no tables for some milliseconds. Another command that opened it then would answer that the store has no
 * tables, though nobody has to do anything. So both take a lock (flock) on the folder of the file:
 *
 *     maker    exclusive: takes it, makes the file, makes the schema, releases it
 *     opener   shared: only for a file that is missing or has at most one page; waits for the maker, releases it at once
 *
 * The lock is on the folder, because it is taken before the file exists. A descriptor of the file would not do either:
 * closing it drops the locks of SQLite in this process. The kernel releases the lock when its process ends.
 *
 * A folder that cannot be opened or locked means no wait: the opener then answers what it finds. Any thread.
 */
#ifndef WEIR_STORE_SQLITE_NEW_FILE_H
#define WEIR_STORE_SQLITE_NEW_FILE_H

#include <stdbool.h>
#include <stdint.h>

enum { NEW_FILE_NO_LOCK = -1 };

/* Waits at most `deadline_us` for a maker of this file. With `create` the caller may become the maker. Then the answer is
 * the lock, which new_file_release() takes. In all other cases it is NEW_FILE_NO_LOCK. */
int new_file_await(const char *path, bool create, int64_t deadline_us);
/* Takes NEW_FILE_NO_LOCK. */
void new_file_release(int lock);

#endif
