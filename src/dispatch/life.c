/* The file of a node's life in /dev/shm, and the test of another node's file.
 *
 *   1. life_begin() creates a file with a random name of 128 bits, and takes a shared lock on it. The name goes into the
 *      row of the node.
 *   2. life_is_over() opens the file of another node and tries an exclusive lock. It succeeds only when no process holds
 *      the shared one any more.
 *   3. life_end() removes the file. After it nothing is proved.
 *
 * Files of dead nodes are removed only after ten minutes, so that the other nodes have time to find the proof. Names come
 * from rows of the store: a name of another form is never opened, and no link is followed. No function waits; any thread.
 */
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

#include "base/error.h"

#define FOLDER "/dev/shm"
#define PREFIX "weir-node-"
enum { NONCE_BYTES = 16, PATH_SIZE = 80, OLD_SECONDS = 600 };

/* Names of other forms may come from a row that another program wrote. */
static bool is_life_name(const char *name)
{
    size_t prefix = sizeof PREFIX - 1;
    return strncmp(name, PREFIX, prefix) == 0 && strlen(name) == prefix + 2 * (size_t)NONCE_BYTES &&
           strspn(name + prefix, "0123456789abcdef") == 2 * (size_t)NONCE_BYTES;
}

static void life_path(const char *name, char path[PATH_SIZE])
{
    (void)snprintf(path, PATH_SIZE, "%s/%s", FOLDER, name);
}

bool life_is_over(const char *name)
{
    INVARIANT(name != NULL);
    char path[PATH_SIZE];
    if (!is_life_name(name)) {
        return false;
    }
    life_path(name, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_over = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_over;
}

/* Of this user: a file of another user cannot be removed. */
static void remove_old_files(void)
{
    DIR *folder = opendir(FOLDER);
    if (folder == NULL) {
        return;
    }
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[PATH_SIZE];
        struct stat facts;
        if (!is_life_name(entry->d_name)) {
            continue;
        }
        life_path(entry->d_name, path);
        if (stat(path, &facts) == 0 && facts.st_uid == geteuid() && facts.st_mtime < time(NULL) - OLD_SECONDS &&
            life_is_over(entry->d_name)) {
            (void)unlink(path);
        }
    }
    (void)closedir(folder);
}

void life_begin(struct life *life)
{
    INVARIANT(life != NULL);
    uint8_t nonce[NONCE_BYTES];
    char path[PATH_SIZE];
    *life = (struct life){.fd = -1};
    remove_old_files();
    if (getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce) {
        return;
    }
    size_t used = (size_t)snprintf(life->name, sizeof life->name, "%s", PREFIX);
    for (size_t i = 0; i < sizeof nonce; i++) {
        used += (size_t)snprintf(life->name + used, sizeof life->name - used, "%02x", nonce[i]);
    }
    life_path(life->name, path);
    life->fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (life->fd >= 0 && flock(life->fd, LOCK_SH | LOCK_NB) != 0) {
        life_end(life);
    } else if (life->fd < 0) {
        life->name[0] = '\0';
    }
}

void life_touch(const struct life *life)
{
    INVARIANT(life != NULL);
    if (life->fd >= 0) {
        (void)futimens(life->fd, NULL);
    }
}

void life_end(struct life *life)
{
    INVARIANT(life != NULL);
    char path[PATH_SIZE];
    if (life->fd >= 0) {
        life_path(life->name, path);
        (void)unlink(path);
        (void)close(life->fd);
    }
    *life = (struct life){.fd = -1};
}
