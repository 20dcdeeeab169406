/* The executions that this node holds: assigned to it and not yet durably ended, put back or taken away.
 *
 * A hash table by execution id. It keeps the facts that the loops need between an assignment and its end: the fence,
 * the refused starts, and whether the start was answered. Until it is answered the table also keeps the memory of the
 * assignment, for sending the same start again.
 *
 * Threads: the node's lock protects it. Owner: the node. Bounded by the engine's capacity.
 */
#ifndef WEIR_DISPATCH_IN_FLIGHT_H
#define WEIR_DISPATCH_IN_FLIGHT_H

#include "engine/engine.h"
#include "store/store.h"

/* The memory of the items that arrived together, kept until the start of the last of them is answered. */
struct assignment_batch {
    struct arena arena;
    size_t references;
    int64_t began_us; /* when the store call began that brought the items; boot clock */
};

/* The starts of a batch that wait for their records: the batch is processed when there are none. */
struct batch_starts {
    int64_t began_us;
    size_t count;
    size_t left;
};

struct in_flight {
    struct in_flight *next; /* in its bucket */
    struct in_flight *unanswered_next;
    struct in_flight **unanswered_link; /* NULL once it was answered */
    char id[UUID_TEXT_MAX];
    int64_t fence;
    int64_t lane_id;    /* 0 = not known */
    int starts_refused; /* before this one */
    int starts_max;
    int deferrals;
    int64_t claimed_boot_us;
    int64_t assigned_boot_us; /* before it, by the way from the scheduler to this node */
    int64_t waited_us;        /* from when it could have run to its assignment */
    int64_t ran_before_us;    /* from its first start to this assignment, waits included; 0 = it was never started */
    int64_t resend_boot_us;   /* when an unanswered start is sent again */
    int sends;
    int unrecorded_reports;   /* reports of its steps and its end that are not on record yet */
    struct report *held_step; /* of them, the end of a sleep that waits for the next one; NULL = none */
    bool answer_waits;        /* a definite answer is in the recorder's queue: nothing is sent again meanwhile */
    bool started;             /* the engine has it */
    bool dispatched;          /* and that is on record */
    bool taken_over;          /* an earlier claim of it was lost or given back */
    bool ends_in_batch;       /* of the recorder: its end or its park is in the present set */
    int blocked_reports;      /* of the recorder: reports that the store left out, and those behind them */
    bool is_blocked_again;    /* of the recorder: one of them was left out in the present round */
    int64_t started_boot_us;
    int64_t slept_until_boot_us; /* until then all its steps sleep, perhaps to come; 0 = they never did */
    int64_t stuck_after_us;
    int64_t warned_boot_us;         /* of the last stuck warning; 0 = none */
    bool is_marked_stuck;           /* on record in the store */
    struct assignment_batch *batch; /* NULL once it was answered */
    struct batch_starts *starts;    /* NULL once its start is on record, or without memory for it */
    const struct claimed_item *item;
    int ended_attempt;
    char *ended_step; /* a signal has ended its wait before this claim, which no node has reported; NULL = none */
    char *workspace;  /* these four are in the same allocation */
    char *workflow;
    char *traceparent; /* NULL = none */
    size_t bytes;      /* of the allocation */
};

enum {
    IN_FLIGHT_BUCKETS = 4096,
    ASSIGNMENT_ARENA_BYTES = 256 * 1024 * 1024 /* one set of items with their params */
};

struct in_flight_table {
    struct in_flight *buckets[IN_FLIGHT_BUCKETS];
    size_t count;
    size_t unanswered; /* starts without an answer: few, however many are held */
    struct in_flight *unanswered_first;
};

/* Takes a reference on the batch. NULL when out of memory. The item must not be in the table. */
struct in_flight *in_flight_add(struct in_flight_table *table, const struct claimed_item *item,
                                struct assignment_batch *batch);
/* NULL when it is not there, or is there with another fence. */
struct in_flight *in_flight_find(const struct in_flight_table *table, const char *id, int64_t fence);
/* The newest entry of the id under an older fence than this one, or NULL: a claim that this node has lost without a
 * notice. */
struct in_flight *in_flight_find_older(const struct in_flight_table *table, const char *id, int64_t fence);
/* The record of the start of this entry is awaited, as one of `starts`. */
void in_flight_await_start(struct in_flight *entry, struct batch_starts *starts);
/* It is awaited no more. True when it was the last one of its batch, whose facts are then in *ret_starts. */
bool in_flight_start_recorded(struct in_flight *entry, struct batch_starts *ret_starts);
/* The start was answered: the memory of the assignment is not needed any more. */
void in_flight_answered(struct in_flight_table *table, struct in_flight *entry);
void in_flight_remove(struct in_flight_table *table, const char *id, int64_t fence);
void in_flight_clear(struct in_flight_table *table);
/* Calls for each; the callback must not change the table. */
void in_flight_each(const struct in_flight_table *table, void (*visit)(void *context, struct in_flight *entry),
                    void *context);
/* The same for entries without an answer to their start. */
void in_flight_each_unanswered(const struct in_flight_table *table, void (*visit)(void *context, struct in_flight *entry),
                               void *context);

/* Whether a start under a dead node's claim may have reached the engine: only an engine that outlives nodes. */
bool claimed_item_may_run(const struct claimed_item *item, const struct engine *engine);
/* Whether another request than the last one of `sends` can have reached the engine: an unanswered one under this claim, or
 * one under a dead node's claim. */
bool in_flight_may_run(const struct in_flight *entry, const struct engine *engine, int sends);

/* With one reference; NULL when out of memory. */
struct assignment_batch *assignment_batch_new(void);
/* Drops one reference; the last one frees the memory. Takes NULL. */
void assignment_batch_release(struct assignment_batch *batch);

#endif
