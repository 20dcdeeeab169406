/* The two marks of a step's processes, and their detection in /proc.
 *
 * A process may leave its group and its session, and its parent may end. It cannot leave its brand: a process without
 * privileges can lower a hard limit but not set another valid brand by accident. It may clear its environment, so the mark
 * there is the second choice, for systems where the limit could not be set.
 * A brand and a mark contain a random number of the keeper. A keeper in another container may have the same process id, and
 * its processes may be visible from here; they must never be killed.
 * The child of the keeper sets the marks; the keeper, the watcher and the node's loop search for them.
 */
#include "engine/in_process/keeper_mark.h"

#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/in_process/proc_file.h"

static const char mark_name[] = "WEIR_RUN=";

static const char brand_name[] = "Max file locks";

enum { LIMITS_BYTES_MAX = 4096, ENVIRONMENT_BYTES_MAX = 256 * 1024, BRAND_TICKET_BITS = 28 };

/* The part of the brand that is the same for all steps of a keeper. The brand has 62 bits: ~0 would mean no limit. */
static uint64_t make_brand(uint64_t mark)
{
    return (mark & ((UINT64_C(1) << 34) - 1)) << BRAND_TICKET_BITS;
}

/* setrlimit() fails if a parent of the node has lowered the limit. Then only the environment carries the mark. */
void keeper_mark_set_brand(uint64_t mark, uint64_t ticket)
{
    rlim_t brand = make_brand(mark) | (ticket & KEEPER_TICKET_MASK);
    struct rlimit limit = {brand, brand};
    (void)setrlimit(RLIMIT_LOCKS, &limit);
}

void keeper_mark_write_variable(char *to, uint64_t mark, uint64_t ticket)
{
    to = proc_file_add_string(to, mark_name);
    to = proc_file_add_number(to, mark);
    to = proc_file_add_string(to, ".");
    (void)proc_file_add_number(to, ticket);
}

/* The hard limit, which a process without privileges can only lower: "Max file locks   <soft>   <hard>   locks". */
static bool find_brand(pid_t pid, uint64_t mark, uint64_t *ret_ticket)
{
    char path[PROC_PATH_BYTES_MAX];
    char text[LIMITS_BYTES_MAX];
    proc_file_make_path(path, pid, "/limits");
    size_t length = proc_file_read(path, text, sizeof text - 1);
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
        (void)proc_file_parse_number(at, end, &brand);
        at += strcspn(at, " \n");
    }
    *ret_ticket = brand & KEEPER_TICKET_MASK;
    return brand != 0 && (brand & ~KEEPER_TICKET_MASK) == make_brand(mark); /* "unlimited" is 0 here */
}

/* Finds the ticket in the environment of the process at its exec. A shell may have changed the order of the variables, so
 * the search reads all of it. */
static bool find_mark(pid_t pid, uint64_t mark, uint64_t *ret_ticket)
{
    static char text[ENVIRONMENT_BYTES_MAX]; /* static: the callers have one thread each, and the stack is small */
    char path[PROC_PATH_BYTES_MAX];
    proc_file_make_path(path, pid, "/environ");
    const char *at = text;
    const char *end = text + proc_file_read(path, text, sizeof text);
    while (at < end) {
        size_t left = (size_t)(end - at);
        uint64_t number;
        if (left > sizeof mark_name && memcmp(at, mark_name, sizeof mark_name - 1) == 0) {
            const char *after = proc_file_parse_number(at + sizeof mark_name - 1, end, &number);
            if (number == mark && after < end && *after == '.') {
                (void)proc_file_parse_number(after + 1, end, &number);
                *ret_ticket = number & KEEPER_TICKET_MASK;
                return true;
            }
        }
        at += strnlen(at, left) + 1;
    }
    return false;
}

bool keeper_mark_find_ticket(pid_t pid, uint64_t mark, uint64_t *ret_ticket)
{
    return find_brand(pid, mark, ret_ticket) || find_mark(pid, mark, ret_ticket);
}
