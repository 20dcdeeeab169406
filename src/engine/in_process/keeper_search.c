/* Searches /proc for the processes of steps.
 *
 * The keeper searches among its own children: as a subreaper it is the parent of every orphan of a step. Its list is one
 * file of /proc where the kernel has it, else a scan of all processes.
 * After the death of the keeper there is no parent to ask. keeper_search_kill_left() then scans all processes for the mark,
 * and for the groups and sessions of the known leaders. A process that forks during a scan can be missed, so its callers
 * repeat it until a scan finds nothing.
 * A process without mark, group or session of a step must never be killed here. All calls are async-signal-safe.
 */
#include "engine/in_process/keeper_search.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/in_process/keeper_mark.h"
#include "engine/in_process/proc_file.h"

enum {
    STAT_BYTES_MAX = 1024,
    STAT_START = 18, /* the start in ticks: its field, counted from the parent's id, which follows the state */
    STAT_FIELDS = STAT_START + 1
};

/* Reads the state and STAT_FIELDS numbers. They follow the name, which may contain spaces and parentheses. */
static bool read_stat(pid_t pid, char *ret_state, uint64_t ret_fields[STAT_FIELDS])
{
    char path[PROC_PATH_BYTES_MAX];
    char text[STAT_BYTES_MAX];
    proc_file_make_path(path, pid, "/stat");
    size_t length = proc_file_read(path, text, sizeof text);
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
        (void)proc_file_parse_number(at, end, &ret_fields[i]);
        while (at < end && *at++ != ' ') { /* a negative number is 0 here: this skips its sign and its digits */
        }
    }
    return true;
}

/* Calls `found` for each process, without malloc(). True if one of the calls returned true. */
static bool visit_processes(bool (*found)(void *context, pid_t pid), void *context)
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
            if (*proc_file_parse_number(entry->name, entry->name + strlen(entry->name), &pid) == '\0' &&
                found(context, (pid_t)pid)) {
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
    char *end = proc_file_add_string(proc_file_add_number(list->to + list->used, (uint64_t)pid), " ");
    list->used = (size_t)(end - list->to);
    return true;
}

/* For kernels without /proc/<pid>/task/<tid>/children: lists every process with the keeper as its parent. */
static size_t list_by_scan(pid_t keeper_pid, char *to, size_t size)
{
    struct child_list list = {.keeper_pid = keeper_pid, .to = to, .size = size};
    (void)visit_processes(list_child, &list);
    return list.used;
}

size_t keeper_search_list_children(pid_t keeper_pid, char *to, size_t size)
{
    INVARIANT(keeper_pid > 0 && to != NULL && size > 0);
    char path[2 * PROC_PATH_BYTES_MAX];
    char *end = proc_file_add_string(path, "/proc/self/task/");
    end = proc_file_add_number(end, (uint64_t)keeper_pid);
    (void)proc_file_add_string(end, "/children");
    if (access(path, R_OK) != 0) {
        return list_by_scan(keeper_pid, to, size);
    }
    size_t length = proc_file_read(path, to, size);
    if (length == size) {
        while (length > 0 && to[length - 1] != ' ') {
            length--; /* the last id may be cut */
        }
    }
    return length;
}

bool keeper_search_read_owner(pid_t pid, uint64_t mark, struct keeper_owner *ret_owner)
{
    INVARIANT(pid > 0 && ret_owner != NULL);
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
    ret_owner->has_ticket = keeper_mark_find_ticket(pid, mark, &ret_owner->ticket);
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
    if (pid <= 1 || pid == getpid() || !keeper_search_read_owner(pid, search->mark, &owner) || owner.is_zombie) {
        return false;
    }
    if (!owner.has_ticket && !search->is_leader(search->context, owner.group) &&
        !search->is_leader(search->context, owner.session)) {
        return false;
    }
    (void)kill(pid, SIGKILL);
    return true;
}

bool keeper_search_kill_left(uint64_t mark, bool (*is_leader)(const void *context, pid_t pid), const void *context)
{
    struct left_search search = {.mark = mark, .is_leader = is_leader, .context = context};
    return visit_processes(kill_if_left, &search);
}
