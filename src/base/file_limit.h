/* The limit of file descriptors of this process (RLIMIT_NOFILE).
 *
 * The soft limit is 1,024 on most systems, for programs that use select(). A node needs some for each step that it runs, so
 * it raises the soft limit to the hard one. The programs that it starts get the former soft limit back.
 *
 * Threads: raise while there is one; the rest from any, and in a child after fork().
 */
#ifndef WEIR_BASE_FILE_LIMIT_H
#define WEIR_BASE_FILE_LIMIT_H

/* Raises the soft limit to the hard one. Where that is refused the limit stays. */
void file_limit_raise(void);
/* Sets the soft limit of before file_limit_raise() again, in this process. Async-signal-safe. */
void file_limit_restore(void);

#endif
