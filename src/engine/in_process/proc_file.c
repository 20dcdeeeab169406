/* Text and files of /proc with async-signal-safe calls alone.
 *
 * The keeper may be forked from a node with threads, so it must not use malloc, stdio or locks: another thread may have
 * held a lock at the fork. snprintf() and strtoull() are not async-signal-safe either. These few functions replace them.
 * The keeper, its children, the watcher and the node's loop call them. They write no state.
 */
#include "engine/in_process/proc_file.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

char *proc_file_add_number(char *to, uint64_t number)
{
    INVARIANT(to != NULL);
    char digits[24];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0) {
        *to++ = digits[--count];
    }
    *to = '\0';
    return to;
}

char *proc_file_add_string(char *to, const char *string)
{
    while (*string != '\0') {
        *to++ = *string++;
    }
    *to = '\0';
    return to;
}

const char *proc_file_parse_number(const char *from, const char *end, uint64_t *ret_number)
{
    uint64_t number = 0;
    while (from < end && *from >= '0' && *from <= '9') {
        number = number * 10 + (uint64_t)(*from++ - '0');
    }
    *ret_number = number;
    return from;
}

size_t proc_file_read(const char *path, char *to, size_t size)
{
    INVARIANT(path != NULL && to != NULL && size > 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    size_t length = 0;
    while (length < size) {
        ssize_t got = read(fd, to + length, size - length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        length += (size_t)got;
    }
    (void)close(fd);
    return length;
}

void proc_file_make_path(char *to, pid_t pid, const char *name)
{
    to = proc_file_add_string(to, "/proc/");
    to = proc_file_add_number(to, (uint64_t)pid);
    (void)proc_file_add_string(to, name);
}
