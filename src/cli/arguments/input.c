#include "cli/arguments/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { INPUT_CHUNK = 64 * 1024 };

static enum weir_status read_all(int fd, const char *name, struct text *to, struct weir_error *error)
{
    char chunk[INPUT_CHUNK];
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got == 0) {
            return WEIR_OK;
        }
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            error_set_native(error, errno == EISDIR ? WEIR_INVALID_ARGUMENT : WEIR_SYSTEM, errno, "cannot read %s: %s",
                             name, strerror(errno));
            error_hint(error, "give the path of a file that you may read, or - for stdin");
            return error->status;
        }
        enum weir_status status = text_add(to, chunk, (size_t)got);
        if (status == WEIR_FAILED) {
            return error_set(error, WEIR_PARAMS_TOO_LARGE, "%s is larger than %zu bytes", name, to->max);
        }
        if (status != WEIR_OK) {
            return error_out_of_memory(error);
        }
    }
}

enum weir_status input_read(const char *path, struct text *to, struct weir_error *error)
{
    if (strcmp(path, "-") == 0) {
        return read_all(STDIN_FILENO, "stdin", to, error);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        enum weir_status status = errno == ENOENT ? WEIR_NOT_FOUND : WEIR_SYSTEM;
        error_set_native(error, status, errno, "cannot read %s: %s", path, strerror(errno));
        error_hint(error, "give the path of a file that you may read, or - for stdin");
        return status;
    }
    enum weir_status status = read_all(fd, path, to, error);
    (void)close(fd);
    return status;
}
