/* Runs a program in its own place, as exec does, and notes every socket other than a local one (AF_UNIX) that it or any
 * process it starts asks for. Each is refused with EACCES and one line in REPORT before the program hears of it: the kernel
 * asks, so nothing that a library does goes unseen. Needs no rights.
 *
 * usage: no_network REPORT PROGRAM [ARGUMENT ...]
 *
 * io_uring, which can make sockets without a call, is refused as well. Where the kernel does not let a program filter its
 * calls it ends with 97 and a message. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT = 97 };

static _Noreturn void fail(const char *what)
{
    (void)fprintf(stderr, "no_network: %s: %s\n", what, strerror(errno));
    _exit(CANNOT);
}

/* --- the filter --- */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOW_WORD 0
#else
#define LOW_WORD 4
#endif

/* Returns the descriptor that reports the calls. */
static int install_filter(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + LOW_WORD),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
    };
    struct sock_fprog program = {.len = sizeof rules / sizeof rules[0], .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        fail("no_new_privs");
    }
    int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (fd < 0) {
        fail("this kernel lets no program filter its calls");
    }
    return fd;
}

/* --- the witness, which outlives every process that is filtered --- */

static void send_fd(int to, int fd)
{
    char byte = 'f';
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    union {
        char bytes[CMSG_SPACE(sizeof fd)];
        struct cmsghdr align;
    } control = {{0}};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(to, &message, 0) != 1) {
        fail("the witness cannot be told");
    }
}

/* -1: the program never got so far. */
static int take_fd(int from)
{
    char byte;
    int fd = -1;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    union {
        char bytes[CMSG_SPACE(sizeof fd)];
        struct cmsghdr align;
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message) != NULL) {
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    }
    return fd;
}

static void note(int report, const struct seccomp_notif *call)
{
    char line[128];
    int length = call->data.nr == SYS_socket ? snprintf(line, sizeof line, "process %u asked for a socket of family %d\n",
                                                        call->pid, (int)call->data.args[0])
                                             : snprintf(line, sizeof line, "process %u asked for io_uring\n", call->pid);
    if (write(report, line, (size_t)length) != length) {
        abort();
    }
}

static _Noreturn void witness(int from, int report)
{
    int fd = take_fd(from);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    while (fd >= 0 && poll(&polled, 1, -1) >= 0 && (polled.revents & POLLIN) != 0) {
        struct seccomp_notif call = {0};
        if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &call) == 0) {
            note(report, &call);
            struct seccomp_notif_resp answer = {.id = call.id, .error = -EACCES};
            (void)ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* it may be gone by now */
        }
    }
    _exit(0); /* the last of them has ended */
}

/* A child of no process, and without the program's pipes: the caller waits for the end of these. */
static void start_witness(const int ends[2], int report)
{
    pid_t child = fork();
    if (child < 0) {
        fail("fork");
    }
    if (child > 0) {
        int how;
        (void)waitpid(child, &how, 0);
        return;
    }
    int nothing = open("/dev/null", O_RDWR);
    if (setsid() < 0 || fork() != 0) {
        _exit(0);
    }
    for (int fd = 0; fd < 3; fd++) {
        (void)dup2(nothing, fd);
    }
    (void)close(ends[1]);
    witness(ends[0], report);
}

int main(int argc, char **argv)
{
    int ends[2];
    if (argc < 3) {
        (void)fprintf(stderr, "usage: no_network REPORT PROGRAM [ARGUMENT ...]\n");
        return CANNOT;
    }
    int report = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (report < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        fail(argv[1]);
    }
    start_witness(ends, report);
    int calls = install_filter();
    send_fd(ends[1], calls);
    (void)close(calls);
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)close(report);
    execv(argv[2], argv + 2);
    fail(argv[2]);
}
