/* Builds the filter of system calls (classic BPF for seccomp).
 *
 *   1. Allow everything of another architecture: its numbers mean other calls (SECURITY.md names this limit).
 *   2. Refuse the x32 table, whose calls would pass the comparison of numbers.
 *   3. For each argument index that can name a process: if the call is guarded, compare its argument with the process
 *      ids of node, keeper and watcher, their groups, and -1. A match returns EPERM.
 *   4. Allow the rest.
 *
 * The filter compares the low 32 bits of an argument, because the kernel reads a process id as an int. It costs some dozen
 * instructions per system call of a step. The child of the keeper installs it just before exec; it must not allocate.
 */
#include "engine/in_process/keeper_guard.h"
#include "base/error.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define GUARD_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define GUARD_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef GUARD_ARCHITECTURE

enum { PROGRAM_MOST = 64, OTHER_TABLE = 0x40000000 /* x32: calls of another table of the same architecture */ };

/* The calls, each with the index of its argument that names the process. */
static const struct {
    uint32_t number;
    uint32_t argument;
} guarded_calls[] = {
    {SYS_kill, 0},
    {SYS_tkill, 0},
    {SYS_tgkill, 0},
    {SYS_pidfd_open, 0},
    {SYS_ptrace, 1},
    {SYS_rt_sigqueueinfo, 0},
    {SYS_prlimit64, 0},
    {SYS_rt_tgsigqueueinfo, 0},
    {SYS_process_vm_writev, 0},
};

enum { GUARDED = sizeof guarded_calls / sizeof guarded_calls[0], ARGUMENTS = 2 };

/* The low half of an argument; both architectures are little-endian, and the kernel reads a process id as an int. */
static uint32_t argument_at(uint32_t argument)
{
    return (uint32_t)(offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t));
}

struct program {
    struct sock_filter code[PROGRAM_MOST];
    unsigned short count;
};

/* A program that is too long stays at its maximum, and keeper_guard_install() refuses it. */
static void add_instruction(struct program *program, struct sock_filter instruction)
{
    if (program->count < PROGRAM_MOST) {
        program->code[program->count++] = instruction;
    }
}

/* One block per argument index:
 *
 *   call == first guarded one?  ->  compare
 *   ...
 *   jump behind the block
 *   compare: argument == first process?  ->  refuse
 *   ...
 *   allow
 *   refuse
 *
 * The accumulator still holds the number of the call behind the block. */
static void add_argument_block(struct program *program, uint32_t argument, const uint32_t *processes,
                               unsigned char process_count)
{
    size_t calls = 0;
    for (size_t i = 0; i < GUARDED; i++) {
        calls += guarded_calls[i].argument == argument ? 1U : 0U;
    }
    for (size_t i = 0, left = calls; i < GUARDED; i++) {
        if (guarded_calls[i].argument == argument) {
            left--;
            /* A match jumps over the other calls and the jump behind them. */
            add_instruction(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, guarded_calls[i].number,
                                                                  (unsigned char)(left + 1), 0));
        }
    }
    add_instruction(program, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA,
                                                          process_count + 3U)); /* no guarded call: behind the block */
    add_instruction(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument_at(argument)));
    for (unsigned char i = 0; i < process_count; i++) {
        add_instruction(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, processes[i],
                                                              (unsigned char)(process_count - i), 0));
    }
    add_instruction(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    add_instruction(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1U /* EPERM */));
}

bool keeper_guard_install(const struct keeper_guarded *guarded)
{
    INVARIANT(guarded != NULL);
    pid_t watcher = guarded->watcher > 0 ? guarded->watcher : guarded->keeper;
    const uint32_t processes[] = {(uint32_t)guarded->node,
                                  (uint32_t)guarded->keeper,
                                  (uint32_t)watcher,
                                  (uint32_t)-guarded->node,
                                  (uint32_t)-guarded->keeper,
                                  (uint32_t)-watcher,
                                  (uint32_t)-getpgid(guarded->node),
                                  (uint32_t)-1};
    struct program program = {.count = 0};
    add_instruction(&program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    add_instruction(&program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, GUARD_ARCHITECTURE, 1, 0));
    add_instruction(&program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    add_instruction(&program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    add_instruction(&program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, OTHER_TABLE, 0, 1));
    add_instruction(&program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1U));
    for (uint32_t argument = 0; argument < ARGUMENTS; argument++) {
        add_argument_block(&program, argument, processes, sizeof processes / sizeof processes[0]);
    }
    add_instruction(&program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    struct sock_fprog filter = {.len = program.count, .filter = program.code};
    return program.count < PROGRAM_MOST && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

#else

bool keeper_guard_install(const struct keeper_guarded *guarded)
{
    (void)guarded;
    return false;
}

#endif
