/* Reports of the daemon to a service manager, as sd_notify(3) specifies them, without its library.
 *
 * Each report is one datagram to the socket that NOTIFY_SOCKET names. A name that begins with "@" is an abstract socket.
 * The socket does not block, and a failed report is ignored: a service manager that is away must never stop a node. Runs
 * in the main thread.
 */
#include "cli/sd_notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void sd_notify_send(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = path == NULL ? 0 : strlen(path);
    if (length < 2 || length >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') {
        address.sun_path[0] = '\0'; /* an abstract name */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
        (void)close(fd);
    }
}

int64_t sd_notify_watchdog_us(void)
{
    const char *text = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    char *end = NULL;
    if (text == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid())) {
        return 0;
    }
    errno = 0;
    long long number = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0' && number > 1 ? (int64_t)(number / 2) : 0;
}

void sd_notify_reloading(void)
{
    char state[64];
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%lld",
                   (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    sd_notify_send(state);
}
