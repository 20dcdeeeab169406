/* Opens the file descriptors of one process.
 *
 * stdin is a file in memory and not a pipe: the node never has to feed it, and a step that does not read it blocks nothing.
 * The command is a file in memory too, because argv and environment may be larger than one message of a socket.
 * The pipes of stdout and stderr are non-blocking on the node's side only; programs expect blocking ones.
 * The loop's thread runs it. Nothing here writes into a pipe, so no write can block or raise SIGPIPE.
 */
#include "engine/in_process/process_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/in_process/keeper_protocol.h"

/* --- commands --- */

void process_command_init(struct process_command *command)
{
    *command = (struct process_command){.strings = {.max = KEEPER_COMMAND_BYTES_MAX}};
}

enum weir_status process_command_add(struct process_command *command, const char *bytes, size_t length)
{
    INVARIANT(bytes != NULL);
    if (memchr(bytes, '\0', length) != NULL) {
        return WEIR_INVALID_ARGUMENT;
    }
    enum weir_status status = text_add(&command->strings, bytes, length);
    return status == WEIR_OK ? text_add(&command->strings, "", 1) : status;
}

void process_command_close(struct process_command *command)
{
    text_close(&command->strings);
}

/* --- files --- */

/* A file in memory with these two parts, read from its start. The seals keep the reader from changing it. */
static int make_memory_file(const char *name, const void *first, size_t first_length, const struct text *second)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const char *parts[] = {first, second->data};
    size_t lengths[] = {first_length, second->length};
    for (int i = 0; i < 2 && fd >= 0; i++) {
        while (lengths[i] > 0 && fd >= 0) {
            ssize_t written = write(fd, parts[i], lengths[i]);
            if (written > 0) {
                parts[i] += written;
                lengths[i] -= (size_t)written;
            } else if (written == 0 || errno != EINTR) {
                int native = errno;
                (void)close(fd);
                errno = native;
                fd = -1;
            }
        }
    }
    if (fd >= 0) {
        (void)lseek(fd, 0, SEEK_SET);
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
    }
    return fd;
}

void process_files_close(int *fds, size_t count)
{
    INVARIANT(fds != NULL);
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
}

void process_files_set_nonblocking(int fd)
{
    INVARIANT(fd >= 0);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

bool process_files_open(struct process_files *files, const struct process_command *command, const struct text *input,
                        int empty_fd)
{
    INVARIANT(command != NULL && empty_fd >= 0);
    struct keeper_command header = {.argc = command->argc,
                                    .envc = command->envc,
                                    .result_variable = command->result_variable,
                                    .bytes = command->strings.length};
    int out[2] = {-1, -1};
    int err[2] = {-1, -1};
    bool has_pipes = pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0;
    int command_fd = has_pipes ? make_memory_file("weir-command", &header, sizeof header, &command->strings) : -1;
    int input_fd = command_fd < 0  ? -1
                   : input == NULL ? fcntl(empty_fd, F_DUPFD_CLOEXEC, 3)
                                   : make_memory_file("weir-stdin", "", 0, input);
    *files = (struct process_files){.own = {out[0], err[0]}, .step = {command_fd, input_fd, out[1], err[1]}};
    if (command_fd < 0 || input_fd < 0) {
        int native = errno;
        process_files_close(files->own, PROCESS_OWN_FILES);
        process_files_close(files->step, PROCESS_STEP_FILES);
        errno = native;
        return false;
    }
    process_files_set_nonblocking(files->own[0]);
    process_files_set_nonblocking(files->own[1]);
    return true;
}
