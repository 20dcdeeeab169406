/* Long polls: history calls that the service answers when a run ends (long_polls.c). The engine's loop owns them. */
#ifndef WEIR_ENGINE_TEMPORAL_LONG_POLLS_H
#define WEIR_ENGINE_TEMPORAL_LONG_POLLS_H

#include "engine/temporal/run_table.h"

#define POLL_PAUSE_US (1 * MICROSECONDS_PER_SECOND)    /* after a long poll that failed */
#define POLL_REDUCED_US (60 * MICROSECONDS_PER_SECOND) /* fewer places after the service refused one */

struct poll_queue;

/* A workspace with followed runs, or with a need for slots. It exists while either is true. */
struct poll_workspace {
    struct poll_workspace *next;      /* in its bucket */
    struct poll_workspace *turn_next; /* in its queue */
    struct poll_workspace *turn_previous;
    struct poll_queue *queue; /* NULL: it has no run without a long poll */
    struct run *first;        /* followed runs without a long poll, in their order */
    struct run **last;
    struct run *polled; /* runs with a long poll */
    size_t polls;       /* their number */
    bool wanted;        /* items of this workspace wait for its slots */
    char name[];
};
struct poll_queue {
    struct poll_workspace *first;
    struct poll_workspace *last;
};
enum { POLL_BUCKETS = 1024 };

struct long_polls {
    size_t max;      /* places, by the setting */
    size_t max_now;  /* fewer than `max` while the service refuses some */
    size_t count;    /* places in use */
    size_t lent;     /* of these: used by workspaces without a need for slots */
    size_t unpolled; /* followed runs without a long poll */
    int64_t reduced_until_us;
    int64_t paused_until_us; /* no new long polls: the last one failed */
    struct poll_workspace *workspaces[POLL_BUCKETS];
    struct poll_queue without_poll; /* their slots are wanted, and no run of them has a long poll */
    struct poll_queue with_poll;    /* their slots are wanted, and some run has one */
    struct poll_queue unwanted;
};

/* The run may have a long poll from now on; no effect when it may already. */
void long_poll_add_run(struct temporal *engine, struct run *run);
/* The run is not followed any more: its place goes to another run. No effect when it has none. */
void long_poll_remove_run(struct temporal *engine, struct run *run);
/* Items of the workspace of this name wait for its slots, or none do. */
void long_poll_want_slots(struct temporal *engine, const char *name, bool wanted);
void long_poll_want_no_slots(struct temporal *engine); /* of any workspace */
/* Sends every long poll again: those from before an outage may wait on a connection that the service has given up. */
void long_poll_restart_all(struct temporal *engine);
/* Sends long polls while there are places; returns when it wants to be called again. */
int64_t long_poll_step(struct temporal *engine, int64_t now_us);
void long_poll_init(struct long_polls *polls, size_t max);
void long_poll_close(struct temporal *engine);

#endif
