#include "engine/in_process/keeper_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file_limit.h"
#include "engine/in_process/evaluator_process.h"
#include "engine/in_process/keeper.h"

static const char mark_name[] = "WEIR_RUN=";

static const char brand_name[] = "Max file locks";

enum {
    MARK_BYTES_MAX = 64,
    PATH_BYTES_MAX = 64,
    STAT_BYTES_MAX = 1024,
    LIMITS_BYTES_MAX = 4096,
    ENVIRONMENT_BYTES_MAX = 256 * 1024,
    BRAND_TICKET_BITS = 28,
    STAT_START = 18, /* when it started, in ticks: the field, counted from the parent's id, which follows the state */
    STAT_FIELDS = STAT_START + 1
};

/* 62 bits: the two highest are left, since ~0 means no limit. */
static uint64_t brand_of(uint64_t mark)
{
    return (mark & ((UINT64_C(1) << 34) - 1)) << BRAND_TICKET_BITS;
}

/* Appends digits and says where the text ends. snprintf() is not async-signal-safe. */
static char *write_number(char *to, uint64_t number)
{
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

static char *write_string(char *to, const char *string)
{
    while (*string != '\0') {
        *to++ = *string++;
    }
    *to = '\0';
    return to;
}

static const char *read_number(const char *from, const char *end, uint64_t *ret_number)
{
    uint64_t number = 0;
    while (from < end && *from >= '0' && *from <= '9') {
        number = number * 10 + (uint64_t)(*from++ - '0');
    }
    *ret_number = number;
    return from;
}

/* --- becoming a step --- */

_Noreturn static void fail(int socket, uint64_t ticket, enum keeper_stage stage, int native)
{
    struct keeper_report report = {
        .kind = KEEPER_EXEC_FAILED, .ticket = ticket, .pid = getpid(), .stage = stage, .value = native};
    while (send(socket, &report, sizeof report, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
    _exit(127);
}

static void become_plain(pid_t keeper_pid)
{
    (void)setsid();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != keeper_pid) {
        _exit(127); /* the keeper died before the line above: nobody would ever kill us */
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

/* Puts three file descriptors on 0, 1, 2, whatever their numbers are. */
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
    const char *cwd; /* "" = stay in the keeper's, which is the node's */
    char mark[MARK_BYTES_MAX];
};

static struct plan plan; /* of this child; 16 KiB that need not be on its stack */

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
    plan.envp[0] = plan.mark;
    for (uint32_t i = 0; i < command.envc; i++) {
        if (!take_string(&at, end, &plan.envp[i + 1])) {
            return false;
        }
    }
    char *cwd;
    if (!take_string(&at, end, &cwd)) {
        return false;
    }
    plan.cwd = cwd;
    return true;
}

/* Without privileges a limit that a program around the node has lowered cannot be raised: the environment is left then. */
static void set_brand(uint64_t mark, uint64_t ticket)
{
    rlim_t brand = brand_of(mark) | (ticket & KEEPER_TICKET_MASK);
    struct rlimit limit = {brand, brand};
    (void)setrlimit(RLIMIT_LOCKS, &limit);
}

_Noreturn void keeper_child_run_step(pid_t keeper_pid, const struct keeper_guarded *guarded, uint64_t mark, int socket,
                                     uint64_t ticket, const int *fds)
{
    become_plain(keeper_pid);
    set_brand(mark, ticket);
    file_limit_restore();
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    char *at = write_string(plan.mark, mark_name);
    at = write_number(at, mark);
    at = write_string(at, ".");
    (void)write_number(at, ticket);
    int report = fcntl(socket, F_DUPFD_CLOEXEC, 20);
    if (report < 0) {
        report = socket;
    }
    if (!read_command(fds[0]) || !place_fds(fds + 1)) {
        fail(report, ticket, KEEPER_STAGE_SETUP, errno != 0 ? errno : EINVAL);
    }
    /* Everything from 3 on is closed by the exec itself: the report socket must live until then. */
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
        fail(report, ticket, KEEPER_STAGE_SETUP, errno);
    }
    if (*plan.cwd != '\0' && chdir(plan.cwd) != 0) {
        fail(report, ticket, KEEPER_STAGE_CWD, errno);
    }
    if (guarded != NULL && guarded->node > 1) {
        (void)keeper_guard_install(guarded); /* without filters in the kernel the step runs all the same */
    }
    environ = plan.envp; /* execvp() looks the program up in the step's own PATH */
    (void)execvp(plan.argv[0], plan.argv);
    fail(report, ticket, KEEPER_STAGE_EXEC, errno);
}

_Noreturn void keeper_child_run_evaluator(pid_t keeper_pid, const int *fds)
{
    become_plain(keeper_pid);
    (void)prctl(PR_SET_NAME, "weir-evaluator", 0, 0, 0);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int in = fcntl(fds[0], F_DUPFD, 10);
    int out = fcntl(fds[1], F_DUPFD, 10);
    if (in < 0 || out < 0 || dup2(in, 3) < 0 || dup2(out, 4) < 0 || close_range(5, ~0U, 0) != 0) {
        _exit(1);
    }
    evaluator_main(3, 4);
}

/* --- looking at children --- */

static size_t read_file(const char *path, char *to, size_t size)
{
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

static void make_path(char *to, pid_t pid, const char *name)
{
    to = write_string(to, "/proc/");
    to = write_number(to, (uint64_t)pid);
    (void)write_string(to, name);
}

/* The fields behind the name, which may hold spaces and parentheses: the state, then STAT_FIELDS numbers. */
static bool read_stat(pid_t pid, char *ret_state, uint64_t ret_fields[STAT_FIELDS])
{
    char path[PATH_BYTES_MAX];
    char text[STAT_BYTES_MAX];
    make_path(path, pid, "/stat");
    size_t length = read_file(path, text, sizeof text);
    const char *end = text + length;
    const char *at = end;
    while (at > text && at[-1] != ')') {
        at--;
    }
    if (at == text || end - at < 4) {
        return false;
    }
    *ret_state = at[1];
    at += 3;
    for (int i = 0; i < STAT_FIELDS; i++) {
        (void)read_number(at, end, &ret_fields[i]);
        while (at < end && *at++ != ' ') { /* also over the sign of a negative one, which is 0 here */
        }
    }
    return true;
}

/* Calls `found` for each process, without malloc(). True when one of the calls was. */
static bool for_each_process(bool (*found)(void *context, pid_t pid), void *context)
{
    struct entry {
        uint64_t inode;
        int64_t offset;
        unsigned short record_bytes;
        unsigned char type;
        char name[];
    };
    _Alignas(struct entry) char buffer[4096];
    bool any = false;
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long got;
    while (fd >= 0 && (got = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < got;) {
            const struct entry *entry = (const struct entry *)(const void *)(buffer + at);
            uint64_t pid = 0;
            at += entry->record_bytes;
            if (*read_number(entry->name, entry->name + strlen(entry->name), &pid) == '\0' && found(context, (pid_t)pid)) {
                any = true;
            }
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return any;
}

struct child_list {
    pid_t keeper_pid;
    char *to;
    size_t size;
    size_t used;
};

static bool list_child(void *context, pid_t pid)
{
    struct child_list *list = context;
    char state;
    uint64_t fields[STAT_FIELDS];
    if (!read_stat(pid, &state, fields) || fields[0] != (uint64_t)list->keeper_pid || list->size - list->used <= 24) {
        return false;
    }
    char *end = write_string(write_number(list->to + list->used, (uint64_t)pid), " ");
    list->used = (size_t)(end - list->to);
    return true;
}

/* Kernels without /proc/<pid>/task/<tid>/children: every process whose parent is the keeper. */
static size_t list_by_scan(pid_t keeper_pid, char *to, size_t size)
{
    struct child_list list = {.keeper_pid = keeper_pid, .to = to, .size = size};
    (void)for_each_process(list_child, &list);
    return list.used;
}

size_t keeper_child_list(pid_t keeper_pid, char *to, size_t size)
{
    char path[2 * PATH_BYTES_MAX];
    char *end = write_string(path, "/proc/self/task/");
    end = write_number(end, (uint64_t)keeper_pid);
    (void)write_string(end, "/children");
    if (access(path, R_OK) != 0) {
        return list_by_scan(keeper_pid, to, size);
    }
    size_t length = read_file(path, to, size);
    if (length == size) {
        while (length > 0 && to[length - 1] != ' ') {
            length--; /* the last id may be cut */
        }
    }
    return length;
}

/* The hard limit, which a process without privileges can only lower: "Max file locks   <soft>   <hard>   locks". */
static bool find_brand(pid_t pid, uint64_t mark, uint64_t *ret_ticket)
{
    char path[PATH_BYTES_MAX];
    char text[LIMITS_BYTES_MAX];
    make_path(path, pid, "/limits");
    size_t length = read_file(path, text, sizeof text - 1);
    text[length] = '\0';
    const char *end = text + length;
    const char *at = memmem(text, length, brand_name, sizeof brand_name - 1);
    if (at == NULL) {
        return false;
    }
    at += sizeof brand_name - 1;
    uint64_t brand = 0;
    for (int column = 0; column < 2; column++) {
        at += strspn(at, " ");
        (void)read_number(at, end, &brand);
        at += strcspn(at, " \n");
    }
    *ret_ticket = brand & KEEPER_TICKET_MASK;
    return brand != 0 && (brand & ~KEEPER_TICKET_MASK) == brand_of(mark); /* "unlimited" is 0 here */
}

/* The ticket in the environment that the process was started with. Shells put variables in an order of their own, so the
 * mark may be anywhere in it. */
static bool find_mark(pid_t pid, uint64_t mark, uint64_t *ret_ticket)
{
    static char text[ENVIRONMENT_BYTES_MAX]; /* of the keeper, which has one thread */
    char path[PATH_BYTES_MAX];
    make_path(path, pid, "/environ");
    const char *at = text;
    const char *end = text + read_file(path, text, sizeof text);
    while (at < end) {
        size_t left = (size_t)(end - at);
        uint64_t number;
        if (left > sizeof mark_name && memcmp(at, mark_name, sizeof mark_name - 1) == 0) {
            const char *after = read_number(at + sizeof mark_name - 1, end, &number);
            if (number == mark && after < end && *after == '.') {
                (void)read_number(after + 1, end, &number);
                *ret_ticket = number & KEEPER_TICKET_MASK;
                return true;
            }
        }
        at += strnlen(at, left) + 1;
    }
    return false;
}

bool keeper_child_owner(pid_t pid, uint64_t mark, struct keeper_owner *ret_owner)
{
    char state;
    uint64_t fields[STAT_FIELDS];
    if (!read_stat(pid, &state, fields)) {
        return false;
    }
    long ticks = sysconf(_SC_CLK_TCK);
    *ret_owner = (struct keeper_owner){.is_zombie = state == 'Z' || state == 'X',
                                       .group = (pid_t)fields[1],
                                       .session = (pid_t)fields[2],
                                       .started_us = (int64_t)fields[STAT_START] * MICROSECONDS_PER_SECOND /
                                                     (ticks > 0 ? ticks : 100)};
    ret_owner->has_ticket = find_brand(pid, mark, &ret_owner->ticket) || find_mark(pid, mark, &ret_owner->ticket);
    return true;
}

struct left_search {
    uint64_t mark;
    bool (*is_leader)(const void *context, pid_t pid);
    const void *context;
};

static bool kill_if_left(void *context, pid_t pid)
{
    const struct left_search *search = context;
    struct keeper_owner owner;
    if (pid <= 1 || pid == getpid() || !keeper_child_owner(pid, search->mark, &owner) || owner.is_zombie) {
        return false;
    }
    if (!owner.has_ticket && !search->is_leader(search->context, owner.group) &&
        !search->is_leader(search->context, owner.session)) {
        return false;
    }
    (void)kill(pid, SIGKILL);
    return true;
}

bool keeper_child_kill_left(uint64_t mark, bool (*is_leader)(const void *context, pid_t pid), const void *context)
{
    struct left_search search = {.mark = mark, .is_leader = is_leader, .context = context};
    return for_each_process(kill_if_left, &search);
}
