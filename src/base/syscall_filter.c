/* A seccomp filter for processes that only compute: the evaluator of expressions and the checker of jq programs.
 *
 * The program of the filter compares the architecture first (another one ends the process, because its call numbers
 * differ), then the number of the call:
 *
 *   allowed[]       memory, reading and writing of open descriptors, time, signals to itself, exit
 *   conditions[]    allowed with a certain argument: mmap and mprotect without PROT_EXEC, prlimit64 and tgkill of itself
 *   any other       fails with EPERM, so that a library can handle it
 *
 * On an architecture without a filter the function returns false; rlimits and closed descriptors remain. Irrevocable, for
 * the process alone. Nothing here may allow a call that opens a file, a socket or a process.
 */
#include "base/syscall_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define FILTER_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define FILTER_ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define FILTER_ARCHITECTURE AUDIT_ARCH_RISCV64
#endif

#ifdef FILTER_ARCHITECTURE

static const int allowed[] = {
    SYS_read,         SYS_write,          SYS_close,        SYS_lseek,           SYS_fstat,
#ifdef SYS_newfstatat
    SYS_newfstatat, /* fstat() of newer C libraries. It reads the attributes of files, and opens none */
#endif
    SYS_brk,          SYS_munmap,         SYS_mremap,       SYS_madvise,         SYS_futex,       SYS_getrandom,
    SYS_sched_yield,  SYS_clock_gettime,  SYS_clock_getres, SYS_gettimeofday,    SYS_getrusage,
#ifdef SYS_time
    SYS_time,
#endif
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall, SYS_sigaltstack, SYS_getpid,
    SYS_gettid,       SYS_exit,           SYS_exit_group,
};

/* Calls with a condition: the argument, its low half, must be this under the mask. */
struct condition {
    int call;
    unsigned argument;
    uint32_t mask;
    uint32_t value;
};

enum { ALLOWED = sizeof allowed / sizeof allowed[0], CONDITIONS = 4, PROGRAM_MAX = 8 + 2 * ALLOWED + 6 * CONDITIONS };

#define LOAD(field) (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(field))
#define RETURN(action) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, (uint32_t)(action))
/* Skips `otherwise` instructions when the value is not `k`. */
#define UNLESS(k, otherwise) (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(k), 0, otherwise)

static uint32_t low_half(unsigned argument)
{
    size_t at = offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    at += sizeof(uint32_t);
#endif
    return (uint32_t)at;
}

static size_t write_program(struct sock_filter *to, const struct condition *conditions)
{
    size_t count = 0;
    to[count++] = LOAD(offsetof(struct seccomp_data, arch));
    to[count++] = UNLESS(FILTER_ARCHITECTURE, 1);
    to[count++] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1);
    to[count++] = RETURN(SECCOMP_RET_KILL_PROCESS);
    to[count++] = LOAD(offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ALLOWED; i++) {
        to[count++] = UNLESS(allowed[i], 1);
        to[count++] = RETURN(SECCOMP_RET_ALLOW);
    }
    for (size_t i = 0; i < CONDITIONS; i++) {
        to[count++] = UNLESS(conditions[i].call, 5);
        to[count++] = LOAD(low_half(conditions[i].argument));
        to[count++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, conditions[i].mask);
        to[count++] = UNLESS(conditions[i].value, 1);
        to[count++] = RETURN(SECCOMP_RET_ALLOW);
        to[count++] = RETURN(SECCOMP_RET_ERRNO | EPERM);
    }
    to[count++] = RETURN(SECCOMP_RET_ERRNO | EPERM);
    return count;
}

bool syscall_filter_install(void)
{
    const struct condition conditions[CONDITIONS] = {{SYS_mmap, 2, PROT_EXEC, 0},
                                                     {SYS_mprotect, 2, PROT_EXEC, 0},
                                                     {SYS_prlimit64, 0, UINT32_MAX, 0},                /* 0: its own */
                                                     {SYS_tgkill, 0, UINT32_MAX, (uint32_t)getpid()}}; /* abort() */
    struct sock_filter instructions[PROGRAM_MAX];
    struct sock_fprog program = {.filter = instructions};
    program.len = (unsigned short)write_program(instructions, conditions);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#else

bool syscall_filter_install(void)
{
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return false;
}

#endif
