/* Single keys from the terminal.
 *
 * The terminal leaves line mode and echo while the reader is open; signals of the keyboard stay signals. A read waits for
 * a key, for the caller's wake-up descriptor, or for the end of its time. terminal_keys_close() must run on every way
 * out, or the shell is left without echo. One thread.
 */
#include "cli/output/terminal_keys.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

bool terminal_keys_open(struct terminal_keys *keys)
{
    *keys = (struct terminal_keys){.is_open = false};
    if (isatty(STDIN_FILENO) != 1 || tcgetattr(STDIN_FILENO, &keys->before) != 0) {
        return false;
    }
    struct termios raw = keys->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    keys->is_open = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    return keys->is_open;
}

int terminal_keys_read(struct terminal_keys *keys, int wake_fd, int64_t wait_us)
{
    struct pollfd ready[] = {{.fd = wake_fd, .events = POLLIN},
                             {.fd = keys->is_open ? STDIN_FILENO : -1, .events = POLLIN}};
    char bytes[8] = "";
    if (poll(ready, 2, time_to_poll_ms(wait_us)) <= 0 || (ready[1].revents & (POLLIN | POLLHUP)) == 0) {
        return 0;
    }
    ssize_t length = read(STDIN_FILENO, bytes, sizeof bytes - 1);
    if (length <= 0) {
        keys->is_open = keys->is_open && length == 0 && (ready[1].revents & POLLHUP) == 0;
        return 0;
    }
    if (strcmp(bytes, "\033[A") == 0) {
        return 'k';
    }
    if (strcmp(bytes, "\033[B") == 0) {
        return 'j';
    }
    return (unsigned char)bytes[0];
}

void terminal_keys_close(struct terminal_keys *keys)
{
    if (keys->before.c_cflag != 0) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &keys->before);
    }
    keys->is_open = false;
}
