/* A file system for SQLite that fails its n-th write, sync or truncation, and everything else passes on. */
#ifndef WEIR_TESTS_UNIT_STORE_SQLITE_FAILING_VFS_H
#define WEIR_TESTS_UNIT_STORE_SQLITE_FAILING_VFS_H

#include <stdbool.h>

/* Becomes the default file system of this process. */
void failing_vfs_install(void);
/* The n-th call from now on (from 1) answers `code`; `stays`: all after it, too. n 0 = none. */
void failing_vfs_arm(int n, int code, bool stays);
/* From now on a failing write has written its first half. */
void failing_vfs_write_half(bool writes_half);
/* Calls since failing_vfs_arm(). */
int failing_vfs_calls(void);
/* Whether a call was made to fail since failing_vfs_arm(). */
bool failing_vfs_has_failed(void);

#endif
