/* A proof that a node has run on this machine, and whether it still runs: a locked file in memory (/dev/shm) with a random
 * name. The kernel releases the lock when the node's process dies.
 *
 * Another machine, a clone of this one or another container has no such file, even where boot id and process ids are equal.
 * Without a file nothing is proved, and only the lease decides. Threads: any. */
#ifndef WEIR_DISPATCH_LIFE_H
#define WEIR_DISPATCH_LIFE_H

#include <stdbool.h>

enum { LIFE_NAME_MAX = 48 };

struct life {
    int fd;                   /* -1: there is none */
    char name[LIFE_NAME_MAX]; /* for the node's row; "": there is none */
};

/* Makes the file and locks it. Where that fails, the name is empty. Files of nodes that are dead for ten minutes
 * are removed. */
void life_begin(struct life *life);
/* With every heartbeat: the age of the file of a dead node is the time since its death. */
void life_touch(const struct life *life);
/* Removes the file. */
void life_end(struct life *life);
/* True when this machine shows that the process of the name is dead. */
bool life_is_over(const char *name);

#endif
