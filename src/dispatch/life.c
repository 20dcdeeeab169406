#include "dispatch/life.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "/dev/shm"
#define PREFIX "weir-node-"
enum { NONCE_BYTES = 16, PATH_SIZE = 80, OLD_SECONDS = 600 };

static bool is_name(const char *name)
{
    size_t prefix = sizeof PREFIX - 1;
    return strncmp(name, PREFIX, prefix) == 0 && strlen(name) == prefix + 2 * (size_t)NONCE_BYTES &&
           strspn(name + prefix, "0123456789abcdef") == 2 * (size_t)NONCE_BYTES;
}

static void path_of(const char *name, char path[PATH_SIZE])
{
    (void)snprintf(path, PATH_SIZE, "%s/%s", FOLDER, name);
}

bool life_is_over(const char *name)
{
    char path[PATH_SIZE];
    if (!is_name(name)) {
        return false;
    }
    path_of(name, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_over = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_over;
}

static void remove_old(void)
{
    DIR *folder = opendir(FOLDER);
    if (folder == NULL) {
        return;
    }
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[PATH_SIZE];
        struct stat facts;
        if (!is_name(entry->d_name)) {
            continue;
        }
        path_of(entry->d_name, path);
        if (stat(path, &facts) == 0 && facts.st_uid == geteuid() && facts.st_mtime < time(NULL) - OLD_SECONDS &&
            life_is_over(entry->d_name)) {
            (void)unlink(path);
        }
    }
    (void)closedir(folder);
}

void life_begin(struct life *life)
{
    uint8_t nonce[NONCE_BYTES];
    char path[PATH_SIZE];
    *life = (struct life){.fd = -1};
    remove_old();
    if (getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce) {
        return;
    }
    size_t used = (size_t)snprintf(life->name, sizeof life->name, "%s", PREFIX);
    for (size_t i = 0; i < sizeof nonce; i++) {
        used += (size_t)snprintf(life->name + used, sizeof life->name - used, "%02x", nonce[i]);
    }
    path_of(life->name, path);
    life->fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (life->fd >= 0 && flock(life->fd, LOCK_SH | LOCK_NB) != 0) {
        life_end(life);
    } else if (life->fd < 0) {
        life->name[0] = '\0';
    }
}

void life_touch(const struct life *life)
{
    if (life->fd >= 0) {
        (void)futimens(life->fd, NULL);
    }
}

void life_end(struct life *life)
{
    char path[PATH_SIZE];
    if (life->fd >= 0) {
        path_of(life->name, path);
        (void)unlink(path);
        (void)close(life->fd);
    }
    *life = (struct life){.fd = -1};
}
