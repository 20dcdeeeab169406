/* A folder of its own for a test, below TMPDIR; removed with everything in it. */
#ifndef WEIR_TESTS_SUPPORT_FOLDER_H
#define WEIR_TESTS_SUPPORT_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct folder {
    char path[256];
};

static inline int folder_make(struct folder *folder)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder->path, sizeof folder->path, "%s/weir-test-XXXXXX", base != NULL ? base : "/tmp");
    return mkdtemp(folder->path) != NULL ? 0 : -1;
}

static inline void folder_remove(const struct folder *folder)
{
    char path[600];
    DIR *entries = opendir(folder->path);
    const struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        (void)snprintf(path, sizeof path, "%s/%s", folder->path, entry->d_name);
        (void)unlink(path);
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    (void)rmdir(folder->path);
}

#endif
