/* The way of a forked child to a step or an evaluator.
 *
 *   1. Own session; KILL at the keeper's death. The child compares its parent after that: the keeper may have died before.
 *   2. Brand and limits, before the program can run.
 *   3. Read the command file. argv, environment and directory point into its private mapping; nothing is copied.
 *   4. File descriptors 0, 1, 2. The rest closes at exec, so that the socket for a failure lives until then.
 *   5. Report that the program is about to begin.
 *   6. Directory and the file of WEIR_OUTPUT, then the guard. The guard is last, because its filter also applies to this
 *      child.
 *   7. execvp() with the step's own PATH. If it returns, the child reports the errno and exits.
 *
 * The child runs between fork and exec of a process whose parent may have had threads: no malloc, no stdio, no locks.
 */
#include "engine/in_process/keeper_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_limit.h"
#include "engine/in_process/evaluator_process.h"
#include "engine/in_process/keeper_mark.h"
#include "engine/in_process/keeper_protocol.h"
#include "engine/in_process/result_file.h"

/* Sends a report to the node itself. Waits while the socket is full; without a node it is lost. */
static void send_child_report(int socket, const struct keeper_report *report)
{
    while (send(socket, report, sizeof *report, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
}

/* Sends the reason: the keeper only sees an exit status. */
_Noreturn static void report_failed_start(int socket, uint64_t ticket, enum keeper_stage stage, int native)
{
    struct keeper_report report = {
        .kind = KEEPER_EXEC_FAILED, .ticket = ticket, .pid = getpid(), .stage = stage, .value = native};
    send_child_report(socket, &report);
    _exit(127);
}

/* The state that steps and evaluators share: own session, death with the keeper, default signals, no core dump. */
static void become_isolated_leader(pid_t keeper_pid)
{
    (void)setsid();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != keeper_pid) {
        _exit(127); /* the keeper died before prctl(): no signal would come */
    }
    for (int i = 1; i < NSIG; i++) {
        (void)signal(i, SIG_DFL);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
}

/* Moves three file descriptors to 0, 1, 2. Their own numbers may be among these, so it copies them up first. */
static bool place_fds(const int fds[3])
{
    int high[3];
    for (int i = 0; i < 3; i++) {
        high[i] = fcntl(fds[i], F_DUPFD, 10);
        if (high[i] < 0) {
            return false;
        }
    }
    for (int i = 0; i < 3; i++) {
        if (dup2(high[i], i) < 0) {
            return false;
        }
    }
    return true;
}

struct plan {
    char *argv[KEEPER_STRINGS_MAX + 1];
    char *envp[KEEPER_STRINGS_MAX + 2];
    uint32_t result; /* the place of WEIR_OUTPUT in envp; 0: there is none */
    const char *cwd; /* "" = stay in the keeper's, which is the node's */
    char mark[KEEPER_MARK_BYTES_MAX];
};

static struct plan plan; /* of this child; 16 KiB are too much for its stack */

static bool take_string(char **at, const char *end, char **ret_string)
{
    size_t left = (size_t)(end - *at);
    size_t length = strnlen(*at, left);
    if (length == left) {
        return false;
    }
    *ret_string = *at;
    *at += length + 1;
    return true;
}

/* Maps the command file and points argv, envp and cwd into it. */
static bool read_command(int fd)
{
    struct stat about;
    struct keeper_command command;
    if (fstat(fd, &about) != 0 || (size_t)about.st_size < sizeof command ||
        (size_t)about.st_size > sizeof command + KEEPER_COMMAND_BYTES_MAX) {
        return false;
    }
    size_t size = (size_t)about.st_size;
    char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        return false;
    }
    memcpy(&command, bytes, sizeof command);
    if (command.argc == 0 || command.argc > KEEPER_STRINGS_MAX || command.envc > KEEPER_STRINGS_MAX ||
        command.bytes != size - sizeof command) {
        return false;
    }
    char *at = bytes + sizeof command;
    const char *end = bytes + size;
    for (uint32_t i = 0; i < command.argc; i++) {
        if (!take_string(&at, end, &plan.argv[i])) {
            return false;
        }
    }
    char *cwd;
    if (!take_string(&at, end, &cwd)) {
        return false;
    }
    plan.cwd = cwd;
    plan.envp[0] = plan.mark;
    for (uint32_t i = 0; i < command.envc; i++) {
        if (!take_string(&at, end, &plan.envp[i + 1])) {
            return false;
        }
    }
    plan.result = command.result_variable <= command.envc ? command.result_variable : 0;
    return true;
}

/* Makes the file of WEIR_OUTPUT. Without it the variable is not set. */
static void make_result_file(void)
{
    const char *path = plan.result > 0 ? strchr(plan.envp[plan.result], '=') : NULL;
    if (path != NULL && !result_file_make(path + 1)) {
        for (uint32_t i = plan.result; plan.envp[i] != NULL; i++) {
            plan.envp[i] = plan.envp[i + 1];
        }
    }
}

_Noreturn void keeper_child_run_step(pid_t keeper_pid, const struct keeper_guarded *guarded, uint64_t mark, int socket,
                                     uint64_t ticket, const int *fds)
{
    become_isolated_leader(keeper_pid);
    keeper_mark_set_brand(mark, ticket);
    file_limit_restore();
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    keeper_mark_write_variable(plan.mark, mark, ticket);
    int report = fcntl(socket, F_DUPFD_CLOEXEC, 20);
    if (report < 0) {
        report = socket;
    }
    if (!read_command(fds[0]) || !place_fds(fds + 1)) {
        report_failed_start(report, ticket, KEEPER_STAGE_SETUP, errno != 0 ? errno : EINVAL);
    }
    /* Everything from 3 on is closed by the exec itself: the report socket must live until then. */
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
        report_failed_start(report, ticket, KEEPER_STAGE_SETUP, errno);
    }
    /* The node starts the next process after this. So where many processes want the processor, it starts fewer. From here
     * on a file system that does not answer may hold this child up, and must not hold up others. */
    struct keeper_report begins = {.kind = KEEPER_BEGINS, .ticket = ticket, .pid = getpid()};
    send_child_report(report, &begins);
    if (*plan.cwd != '\0' && chdir(plan.cwd) != 0) {
        report_failed_start(report, ticket, KEEPER_STAGE_CWD, errno);
    }
    make_result_file();
    if (guarded != NULL && guarded->node > 1) {
        (void)keeper_guard_install(guarded); /* a kernel without filters runs the step without a guard */
    }
    environ = plan.envp; /* execvp() looks the program up in the step's own PATH */
    (void)execvp(plan.argv[0], plan.argv);
    report_failed_start(report, ticket, KEEPER_STAGE_EXEC, errno);
}

_Noreturn void keeper_child_run_evaluator(pid_t keeper_pid, const int *fds)
{
    become_isolated_leader(keeper_pid);
    (void)prctl(PR_SET_NAME, "weir-evaluator", 0, 0, 0);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int in = fcntl(fds[0], F_DUPFD, 10);
    int out = fcntl(fds[1], F_DUPFD, 10);
    if (in < 0 || out < 0 || dup2(in, 3) < 0 || dup2(out, 4) < 0 || close_range(5, ~0U, 0) != 0) {
        _exit(1);
    }
    evaluator_main(3, 4);
}
