/* The order in which workspaces get places of something scarce inside the node: processes, evaluators, threads.
 *
 * Each workspace has a lane at each queue. Places are given in stride order (queue/fair_share.h): the lane with the
 * smallest pass goes first, and its pass grows by STRIDE_ONE / weight. Within a lane the order is first in, first out. A
 * lane that was empty comes back at the present pass, so a workspace with one entry waits for as many others as there are
 * lanes, however long their backlogs are.
 *
 * The order alone does not help while all places are held for long. So `spare` of the places are only for lanes that hold
 * no other: one workspace can never hold everything.
 *
 * Threads: one at a time. Owner: entries and lanes are their owners'; a lane must be empty and hold no place at its end.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_FAIR_QUEUE_H
#define WEIR_ENGINE_IN_PROCESS_FAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fair_lane;

struct fair_entry {
    struct fair_entry *next;
    struct fair_lane *lane; /* NULL: it is not in a queue */
};

struct fair_lane {
    struct fair_lane *next; /* among those that have entries */
    struct fair_entry *first;
    struct fair_entry *last;
    int64_t pass;
    size_t held;     /* places */
    size_t starting; /* of these, those whose user is not at work yet; kept by the caller */
    int weight;      /* 0 stands for 1 */
};

struct fair_queue {
    struct fair_lane *first; /* lanes with entries; the one that was served last stands last */
    struct fair_lane *last;
    int64_t pass; /* of the last turn */
    size_t places;
    size_t spare;
    size_t starting_most; /* no lane has more that start; 0: no limit */
    size_t held;
    size_t holders; /* lanes that hold a place */
};

void fair_queue_init(struct fair_queue *queue, size_t places, size_t spare);
void fair_queue_add(struct fair_queue *queue, struct fair_lane *lane, struct fair_entry *entry);
/* Before all others of its lane: an entry that had its turn in vain. */
void fair_queue_put_back(struct fair_queue *queue, struct fair_lane *lane, struct fair_entry *entry);
/* Takes out an entry that waits. False when it does not. */
bool fair_queue_remove(struct fair_queue *queue, struct fair_entry *entry);
/* The entry whose turn it is, left in its place; NULL when none may have one. */
struct fair_entry *fair_queue_next(const struct fair_queue *queue);
/* Takes out what fair_queue_next() returned. Its lane's pass grows; the place is counted by fair_queue_hold(). */
void fair_queue_take(struct fair_queue *queue, struct fair_entry *entry);
void fair_queue_hold(struct fair_queue *queue, struct fair_lane *lane);
void fair_queue_release(struct fair_queue *queue, struct fair_lane *lane);

#endif
