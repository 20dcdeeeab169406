/* Reads of whole files, of stdin, and of the values of flags that may name a file.
 *
 * Bytes are appended to the caller's text in chunks, so that its maximum bounds the memory: a larger input is refused,
 * never cut. An interrupted read is repeated. A file is opened without becoming the controlling terminal. Runs in the
 * only thread of a command.
 */
#include "cli/arguments/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"

enum { INPUT_CHUNK = 64 * 1024 };

/* Appends bytes to the text, and turns its limit into a message that names the input. */
static enum weir_status append_input(struct text *to, const char *bytes, size_t length, const char *name,
                                     struct weir_error *error)
{
    enum weir_status status = text_add(to, bytes, length);
    if (status == WEIR_FAILED) {
        return error_set(error, WEIR_PARAMS_TOO_LARGE, "%s is larger than %zu bytes", name, to->max);
    }
    return status == WEIR_OK ? WEIR_OK : error_out_of_memory(error);
}

/* Reads until the end of the input. An interrupted read is repeated. */
static enum weir_status read_whole_input(int fd, const char *name, struct text *to, struct weir_error *error)
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
            bool is_folder = errno == EISDIR;
            error_set_native(error, is_folder ? WEIR_INVALID_ARGUMENT : WEIR_SYSTEM, errno, "cannot read %s: %s", name,
                             strerror(errno));
            error_hint(error, is_folder ? "give the path of a file that you may read, not that of a folder, or - for stdin"
                                        : "give the path of a file that you may read, or - for stdin");
            return error->status;
        }
        enum weir_status status = append_input(to, chunk, (size_t)got, name, error);
        if (status != WEIR_OK) {
            return status;
        }
    }
}

/* The message names the path as it was given, because a script may have made it. */
enum weir_status input_read(const char *path, struct text *to, struct weir_error *error)
{
    if (strcmp(path, "-") == 0) {
        return read_whole_input(STDIN_FILENO, "stdin", to, error);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        enum weir_status status = errno == ENOENT ? WEIR_NOT_FOUND : WEIR_SYSTEM;
        error_set_native(error, status, errno, "cannot read %s: %s", path, strerror(errno));
        error_hint(error, "give the path of a file that you may read, or - for stdin");
        return status;
    }
    enum weir_status status = read_whole_input(fd, path, to, error);
    (void)close(fd);
    return status;
}

/* "-" is stdin, "@FILE" the contents of the file, and everything else is the value itself. */
enum weir_status input_read_value(const char *value, struct text *to, struct weir_error *error)
{
    if (strcmp(value, "-") == 0) {
        return input_read(value, to, error);
    }
    return value[0] == '@' ? input_read(value + 1, to, error)
                           : append_input(to, value, strlen(value), "the text on the command line", error);
}

/* Reads the text and checks that it is JSON. The text itself is kept, not a copy that was written anew: numbers must arrive
 * as they were given. */
enum weir_status input_read_json(const char *value, const char *what, struct text *to, struct weir_error *error)
{
    json_t *json = NULL;
    enum weir_status status = input_read_value(value, to, error);
    if (status == WEIR_OK && json_read(to->data == NULL ? "" : to->data, to->length, &json, error) != WEIR_OK) {
        error_prefix(error, "%s cannot be read as JSON", what);
        status = error->status = WEIR_INVALID_PARAMS;
    }
    json_decref(json);
    return status;
}
