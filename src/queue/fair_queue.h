/* The order in which workspaces get scarce places inside the node: processes, evaluators, threads,
 * workers over HTTP.
 *
 * Each workspace has a lane in each queue. The queue gives places in stride order (queue/fair_share.h): the lane with the
 * smallest pass is next, and its pass grows by STRIDE_ONE / weight. Within a lane the order is first in, first out.
 *
 * `spare` of the places are only for lanes that hold no place, so one workspace can never hold all of them.
 *
 * Threads: one at a time. Owner: entries and lanes belong to their owners. At its end a lane must be empty and hold no
 * place.
 */
#ifndef WEIR_QUEUE_FAIR_QUEUE_H
#define WEIR_QUEUE_FAIR_QUEUE_H

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
    size_t starting; /* of these, the places whose process has not started; the caller counts them */
    int weight;      /* 0 stands for 1 */
};

struct fair_queue {
    struct fair_lane *first; /* lanes with entries; the lane of the last turn is the last */
    struct fair_lane *last;
    int64_t pass;  /* of the last turn */
    int64_t least; /* no lane with entries has a smaller pass */
    size_t places;
    size_t spare;
    size_t starting_most; /* bound of `starting` for each lane; 0: no limit */
    size_t held;
    size_t holders; /* lanes that hold a place */
};

void fair_queue_init(struct fair_queue *queue, size_t places, size_t spare);
/* At the end of its lane. */
void fair_queue_add(struct fair_queue *queue, struct fair_lane *lane, struct fair_entry *entry);
/* In front of its lane: an entry that had its turn but got no service. */
void fair_queue_put_back(struct fair_queue *queue, struct fair_lane *lane, struct fair_entry *entry);
/* Removes an entry that waits. False when it does not wait. */
bool fair_queue_remove(struct fair_queue *queue, struct fair_entry *entry);
/* The entry of the next turn, which stays in the queue; NULL when no lane may have a place. */
struct fair_entry *fair_queue_next(struct fair_queue *queue);
/* Removes the entry of fair_queue_next() and advances the pass of its lane. fair_queue_hold() counts the place. */
void fair_queue_take(struct fair_queue *queue, struct fair_entry *entry);
/* A lane gets a place, or returns one. */
void fair_queue_hold(struct fair_queue *queue, struct fair_lane *lane);
void fair_queue_release(struct fair_queue *queue, struct fair_lane *lane);

#endif
