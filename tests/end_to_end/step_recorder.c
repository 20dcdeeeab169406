/* A step that records its own acts: the crash tests trust no other record.
 *
 * usage: step_recorder FILE FOLDER MILLISECONDS [FAILURES]
 *
 * Appends lines "KIND ID STEP ATTEMPT FENCE BOOT_US PID" to FILE, each with one write(): `begin`, a `tick` every TICK_MS
 * while it lives, `end`; or `fail`, when its attempt number is not above FAILURES, and its exit code is 1. While it runs it
 * holds a lock on FOLDER/ID-STEP, which only its death or its end gives back; when another run of the same step holds that
 * lock the first line is `overlap`. Prints its attempt as JSON.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 10 };

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "-";
}

static int64_t boot_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int tell(int fd, const char *kind)
{
    char line[256];
    int length =
        snprintf(line, sizeof line, "%s %s %s %s %s %" PRId64 " %ld\n", kind, variable("WEIR_EXECUTION_ID"),
                 variable("WEIR_STEP"), variable("WEIR_ATTEMPT"), variable("WEIR_FENCE"), boot_us(), (long)getpid());
    return write(fd, line, (size_t)length) == length ? 0 : -1;
}

static bool lock_step(const char *folder)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s-%s", folder, variable("WEIR_EXECUTION_ID"), variable("WEIR_STEP"));
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5) {
        return 2;
    }
    int fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
    long left_ms = strtol(argv[3], NULL, 10);
    if (fd < 0 || tell(fd, lock_step(argv[2]) ? "begin" : "overlap") != 0) {
        return 3;
    }
    while (left_ms > 0) {
        long nap_ms = left_ms < TICK_MS ? left_ms : TICK_MS;
        (void)nanosleep(&(struct timespec){.tv_nsec = nap_ms * 1000000}, NULL);
        left_ms -= nap_ms;
        if (tell(fd, "tick") != 0) {
            return 3;
        }
    }
    if (argc == 5 && strtol(variable("WEIR_ATTEMPT"), NULL, 10) <= strtol(argv[4], NULL, 10)) {
        return tell(fd, "fail") == 0 ? 1 : 3;
    }
    printf("{\"attempt\": %s}", variable("WEIR_ATTEMPT"));
    return tell(fd, "end") == 0 && fflush(stdout) == 0 ? 0 : 3;
}
