/* The switch of tools/mutants.py: the copies of weir's files that it makes include this file, and nothing else does. A
 * copy has each line and its mutants, and a number of the environment says which of them runs. */
#ifndef WEIR_TESTS_MUTANTS_SWITCH_H
#define WEIR_TESTS_MUTANTS_SWITCH_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MUTANT_POINTS = 65536 }; /* bytes of the file of reached points: of mutants and, behind them, of queries */

static int mutant_chosen;
static unsigned char *mutant_reached;

/* The points are in a file that the process shares: they outlive kill -9, and are written where files are out of reach. */
__attribute__((constructor)) static void mutant_read_environment(void)
{
    const char *number = getenv("WEIR_MUTANT");
    const char *path = getenv("WEIR_MUTANTS_REACHED");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    mutant_chosen = number == NULL ? 0 : (int)strtol(number, NULL, 10);
    if (fd >= 0) {
        void *map = mmap(NULL, MUTANT_POINTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        mutant_reached = map == MAP_FAILED ? NULL : map;
        (void)close(fd);
    }
}

static inline bool mutant_is(int number)
{
    if (mutant_reached != NULL) {
        mutant_reached[number] = 1;
    }
    return number == mutant_chosen;
}

static inline int mutant_query(int first, int query)
{
    (void)mutant_is(first + query);
    return query;
}

#endif
