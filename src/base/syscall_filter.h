/* A filter of system calls (seccomp) for children that run foreign programs: jq expressions.
 *
 * Afterwards they may read and write open files, get and free memory that is not executable, read clocks, read and
 * lower their own limits, and end. Every other call fails with EPERM, so there is no network, no file, no process and no
 * signal to another one. A call of another architecture's table ends the process.
 *
 * Why an own list and not libseccomp: the program is forty lines, and each `weir` command would load the library. */
#ifndef WEIR_BASE_SYSCALL_FILTER_H
#define WEIR_BASE_SYSCALL_FILTER_H

#include <stdbool.h>

/* For the calling thread and all that it starts; there is no way back. False where the kernel or the architecture has no
 * filters: then nothing has changed but that the process gains no privileges any more. */
bool syscall_filter_install(void);

#endif
