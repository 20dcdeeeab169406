/* Text and files of /proc with async-signal-safe calls alone: for processes between fork and exec, and for the keeper.
 *
 * Threads: any.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_PROC_FILE_H
#define WEIR_ENGINE_IN_PROCESS_PROC_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROC_PATH_BYTES_MAX = 64 };

/* Appends the digits of the number, or the string, and a NUL. Returns the end of the text. The caller provides the space.
 */
char *proc_file_add_number(char *to, uint64_t number);
char *proc_file_add_string(char *to, const char *string);
/* Reads digits up to `end`; returns the first byte behind them. Without digits the number is 0. */
const char *proc_file_parse_number(const char *from, const char *end, uint64_t *ret_number);
/* "/proc/<pid><name>"; `to` holds PROC_PATH_BYTES_MAX. */
void proc_file_make_path(char *to, pid_t pid, const char *name);
/* Reads at most `size` bytes; returns their number, 0 also after an error. */
size_t proc_file_read(const char *path, char *to, size_t size);

#endif
