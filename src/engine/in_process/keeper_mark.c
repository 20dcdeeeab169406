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

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/in_process/proc_file.h"

static const char mark_name[] = "WEIR_RUN=";

static const char brand_name[] = "Max file locks";

enum { LIMITS_BYTES_MAX = 4096, ENVIRONMENT_PIECE_BYTES = 4096, BRAND_TICKET_BITS = 28 };

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

/* Finds "WEIR_RUN=<mark>." at the start of a variable, and reads the digits of the ticket after it. */
struct mark_reader {
    char wanted[KEEPER_MARK_BYTES_MAX];
    size_t wanted_length;
    size_t matched; /* bytes of `wanted` that the present variable begins with */
    bool differs;   /* the present variable is another one */
    uint64_t ticket;
};

/* True at the end of the ticket. */
static bool read_mark_byte(struct mark_reader *reader, char byte)
{
    if (reader->matched == reader->wanted_length) {
        if (byte < '0' || byte > '9') {
            return true;
        }
        reader->ticket = reader->ticket * 10 + (uint64_t)(byte - '0');
    } else if (byte == '\0') {
        reader->matched = 0;
        reader->differs = false;
    } else if (!reader->differs) {
        reader->differs = byte != reader->wanted[reader->matched];
        reader->matched = reader->differs ? 0 : reader->matched + 1;
    }
    return false;
}

/* Finds the ticket in the environment of the process at its exec. A shell may have changed the order of the variables,
 * so the search reads all of it. It reads pieces, because the nodes of one process search at the same time, and their
 * stacks are small. */
static bool find_mark(pid_t pid, uint64_t mark, uint64_t *ret_ticket)
{
    char path[PROC_PATH_BYTES_MAX];
    char piece[ENVIRONMENT_PIECE_BYTES];
    struct mark_reader reader = {.matched = 0};
    char *end = proc_file_add_number(proc_file_add_string(reader.wanted, mark_name), mark);
    reader.wanted_length = (size_t)(proc_file_add_string(end, ".") - reader.wanted);
    bool is_over = false;
    proc_file_make_path(path, pid, "/environ");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !is_over) {
        ssize_t got = read(fd, piece, sizeof piece);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        is_over = got <= 0;
        for (ssize_t i = 0; i < got && !is_over; i++) {
            is_over = read_mark_byte(&reader, piece[i]);
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    *ret_ticket = reader.ticket & KEEPER_TICKET_MASK;
    return reader.matched == reader.wanted_length;
}

bool keeper_mark_find_ticket(pid_t pid, uint64_t mark, uint64_t *ret_ticket)
{
    return find_brand(pid, mark, ret_ticket) || find_mark(pid, mark, ret_ticket);
}
