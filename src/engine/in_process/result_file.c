/* Files for results of steps.
 *
 * The program may replace the file, so it is opened by its path at the end of the attempt. A link is not followed, and a
 * pipe is not waited for: only a regular file is read, up to the limit of the output. Short reads of local files; the
 * loop's thread.
 */
#include "engine/in_process/result_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/random.h"

enum { PATH_BYTES_MAX = 512, READ_BYTES = 64 * 1024 };

char *result_file_name(const char *directory)
{
    INVARIANT(directory != NULL);
    char path[PATH_BYTES_MAX];
    struct random random;
    random_seed_from_system(&random);
    int length = snprintf(path, sizeof path, "%s/weir-output-%016" PRIx64, directory, random_next(&random));
    return length < (int)sizeof path ? strdup(path) : NULL;
}

bool result_file_make(const char *path)
{
    INVARIANT(path != NULL);
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, S_IRUSR | S_IWUSR);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

static enum weir_status read_open_file(int fd, struct text *to, struct weir_error *error)
{
    char buffer[READ_BYTES];
    for (;;) {
        ssize_t got = read(fd, buffer, sizeof buffer);
        if (got == 0) {
            return WEIR_OK;
        }
        if (got < 0 && errno != EINTR) {
            return error_set_native(error, WEIR_SYSTEM, errno, "%s", strerror(errno));
        }
        enum weir_status status = got < 0 ? WEIR_OK : text_add(to, buffer, (size_t)got);
        if (status != WEIR_OK) {
            return status == WEIR_OUT_OF_MEMORY ? status : WEIR_FAILED;
        }
    }
}

enum weir_status result_file_read(const char *path, struct text *to, struct weir_error *error)
{
    INVARIANT(path != NULL && to != NULL && to->length == 0);
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        int native = errno;
        return native == ENOENT ? WEIR_OK : error_set_native(error, WEIR_SYSTEM, native, "%s", strerror(native));
    }
    enum weir_status status = WEIR_OK;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        status = error_set(error, WEIR_SYSTEM, "it is no regular file");
    } else {
        status = read_open_file(fd, to, error);
    }
    (void)close(fd);
    return status;
}

void result_file_remove(char **path)
{
    INVARIANT(path != NULL);
    if (*path != NULL) {
        (void)unlink(*path);
        free(*path);
        *path = NULL;
    }
}
