#include "store/postgres/first_pass.h"

#include <stdbool.h>
#include <stdlib.h>

void first_pass_forget(struct first_pass *first)
{
    *first = (struct first_pass){.pass = INT64_MIN, .aged.pass = INT64_MIN, .next_aged.pass = INT64_MIN};
}

/* Whether one was running in `seen` that began before the mark, and after the aged one. */
static bool is_waited_for(const char *seen, const struct pass_mark *aged, const struct pass_mark *mark)
{
    char *rest = NULL;
    (void)strtoull(seen, &rest, 10);
    if (*rest != ':' || strtoull(rest + 1, &rest, 10) < mark->below || *rest != ':') {
        return true;
    }
    while (*rest != '\0' && rest[1] != '\0') { /* ascending */
        char *next = NULL;
        uint64_t running = strtoull(rest + 1, &next, 10);
        if (next == rest + 1 || running >= aged->below) {
            return next == rest + 1 || running < mark->below;
        }
        rest = next;
    }
    return false;
}

/* Where what will still be opened stands at the least. */
static int64_t settled_pass(const struct first_pass *first, const char *seen)
{
    size_t oldest = first->mark_count > PASS_MARKS ? first->mark_count - PASS_MARKS : 0;
    for (size_t n = first->mark_count; n > oldest; n--) {
        const struct pass_mark *mark = &first->marks[(n - 1) % PASS_MARKS];
        if (!is_waited_for(seen, &first->aged, mark)) {
            return mark->pass;
        }
    }
    return first->aged.pass;
}

void first_pass_note(struct first_pass *first, struct pass_mark mark, const char *seen, int64_t now_boot_us)
{
    if (mark.pass < first->aged.pass) {
        first->aged = mark;
        first->next_aged = mark;
        first->mark_count = 0;
    } else if (now_boot_us >= first->next_aged_boot_us) {
        first->aged = first->next_aged;
        first->next_aged = mark;
        first->next_aged_boot_us = time_add(now_boot_us, PASS_MARK_AGES_US);
    }
    int64_t settled = settled_pass(first, seen);
    first->pass = mark.pass < settled ? mark.pass : settled;
    if (mark.below > 0) {
        first->marks[first->mark_count++ % PASS_MARKS] = mark;
    }
}
