/* Signals as a question of loops.
 *
 * The handler counts the signal and writes to an eventfd, so that a sleeping loop wakes up; both are safe in a handler. A
 * loop asks signals_count() between two chunks of work, so that a signal never cuts a transaction. SIGHUP asks for a
 * reload while the terminal of the process exists, and counts as a stop when the terminal is gone.
 *
 * The eventfd stays readable after a stop, so that every later sleep returns at once. After a reload it is read empty, so
 * that no loop spins. The handlers run in any thread that gets the signal; all other functions belong to the main thread.
 */
#include "cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

static volatile sig_atomic_t signal_count;
static volatile sig_atomic_t reload_wanted;
static bool had_terminal;
static int wake_fd = -1;

static void on_signal(int number)
{
    int saved = errno;
    const uint64_t one = 1;
    signal_count = signal_count + 1;
    (void)number;
    (void)!write(wake_fd, &one, sizeof one);
    errno = saved;
}

void signals_catch(void)
{
    if (wake_fd >= 0) {
        return;
    }
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    /* A closed terminal is no reason to die in the middle; nohup has it ignored, and so it stays. */
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_DFL) {
        (void)sigaction(SIGHUP, &action, NULL);
    }
}

/* Whether this process has a controlling terminal that is still there. Safe in a signal handler. */
static bool terminal_is_there(void)
{
    int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (terminal >= 0) {
        (void)close(terminal);
    }
    return terminal >= 0;
}

static void on_hangup(int number)
{
    int saved = errno;
    if (had_terminal && !terminal_is_there()) {
        on_signal(number);
    } else {
        const uint64_t one = 1;
        reload_wanted = 1;
        (void)!write(wake_fd, &one, sizeof one);
    }
    errno = saved;
}

void signals_catch_reload(void)
{
    struct sigaction now;
    had_terminal = terminal_is_there();
    if (sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == on_signal) {
        now.sa_handler = on_hangup;
        (void)sigaction(SIGHUP, &now, NULL);
    }
}

bool signals_take_reload(void)
{
    uint64_t count;
    if (reload_wanted == 0) {
        return false;
    }
    /* This order: a signal that arrives between the two is found by the next check, and the descriptor does not stay
     * readable without a reason. A stop must leave it readable. */
    reload_wanted = 0;
    (void)!read(wake_fd, &count, sizeof count);
    if (signal_count > 0) {
        const uint64_t one = 1;
        (void)!write(wake_fd, &one, sizeof one);
    }
    return true;
}

int signals_count(void)
{
    return signal_count;
}

int signals_fd(void)
{
    return wake_fd;
}

void signals_sleep(int64_t duration_us)
{
    struct pollfd wait = {.fd = wake_fd, .events = POLLIN};
    (void)poll(&wait, wake_fd >= 0 ? 1 : 0, time_to_poll_ms(duration_us));
}
