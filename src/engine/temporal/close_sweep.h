/* The list of workflows that closed lately, and the description of each followed run now and then (close_sweep.c). The
 * engine's loop owns both.
 */
#ifndef WEIR_ENGINE_TEMPORAL_CLOSE_SWEEP_H
#define WEIR_ENGINE_TEMPORAL_CLOSE_SWEEP_H

#include "engine/temporal/run_table.h"

/* A run without a long poll is described this often, or as often as a rate allows when there are many. While the list
 * works, descriptions are a safety net and get the part of FOLLOW_CALLS_PER_SECOND that long polls and lists leave. While
 * the list fails, descriptions find the ends: within 5 s for up to two thousand runs. */
#define DESCRIBE_INTERVAL_US (30 * MICROSECONDS_PER_SECOND)
#define FOLLOW_CALLS_PER_SECOND 9.5 /* 570 a minute */
/* Of one place that is in use all the time. The service answers after 20 s, and answers of a group come together, so there
 * are up to four in a minute. */
#define POLLS_PER_SECOND (4.0 / 60)
#define DESCRIBES_PER_SECOND 2.0
#define DESCRIBES_PER_SECOND_MIN 0.5
#define DESCRIBE_ALONE_INTERVAL_US (4 * MICROSECONDS_PER_SECOND)
#define DESCRIBES_PER_SECOND_ALONE 500.0
#define DESCRIBES_SHARE 20.0  /* one in so many of the calls that a service takes is a description */
#define DESCRIBES_MARGIN 1.25 /* at most the rate above times this, in any second */
#define SWEEP_INTERVAL_US (1 * MICROSECONDS_PER_SECOND)
#define SWEEP_RETRY_US (2 * MICROSECONDS_PER_SECOND)
#define SWEEP_INTERVAL_MAX_US (300 * MICROSECONDS_PER_SECOND) /* also where every run has a long poll */
/* The list lags by up to 3 s on a busy server, and its rows come out of order. Each list reaches back further. */
#define SWEEP_OVERLAP_US (10 * MICROSECONDS_PER_SECOND)
#define SWEEP_WIDE_OVERLAP_US (120 * MICROSECONDS_PER_SECOND)
/* An end that was found by other means must appear in the list within this time. */
#define SWEEP_LAG_US (15 * MICROSECONDS_PER_SECOND)
#define SWEEP_LAG_TOLERANCE_US (1 * MICROSECONDS_PER_SECOND)
/* A list that lagged counts as sound again when no further end was missing for this long: the one that is missing may have
 * been deleted. */
#define SWEEP_LAG_FORGOTTEN_US (120 * MICROSECONDS_PER_SECOND)

enum {
    SWEEP_WIDE_EVERY = 15,  /* every so many lists reach back SWEEP_WIDE_OVERLAP_US */
    SWEEP_PAGES_MAX = 50,   /* of one list */
    SWEEP_FAILURES_MAX = 3, /* in a row while the service is up: the list is impaired. A time-out counts twice */
    QUERY_BYTES_MAX = 512
};

struct close_sweep {
    bool is_under_way;
    bool is_anchored;   /* `latest_us` is known */
    int64_t next_us;    /* boot clock */
    int64_t latest_us;  /* the latest close time in any list: the server's clock */
    int64_t since_us;   /* of the list under way: the server's clock */
    struct bytes token; /* of its next page */
    bool has_own_ids;   /* it covers workflows of any id */
    int pages;
    unsigned count;
    int64_t last_us;          /* when the last one ended: boot clock */
    int64_t calm_until_us;    /* while each run has a long poll, no list is requested before */
    int failures;             /* in a row */
    bool is_impaired;         /* it fails, or lags: reported, and descriptions do its work */
    int64_t missing_us;       /* close time of an end that the list has not shown yet: the server's clock; 0 = none */
    int64_t missing_at_us;    /* when that end was found: boot clock */
    int64_t describe_turn_us; /* the reserved time of the next description, while several wait */
};

/* Follows the run from now on: state FOLLOWED, next description, long poll. */
void close_sweep_follow_run(struct temporal *engine, struct run *run);
/* True when the description that is due must wait for a later turn; then the run is due at that turn. */
bool close_sweep_defers_describe(struct temporal *engine, struct run *run);
/* The service is back: requests a list and all long polls at once. */
void close_sweep_resume(struct temporal *engine);
/* When a run without a long poll is described next. */
int64_t close_sweep_next_describe(struct temporal *engine);
/* A run's end was read, with this close time (the server's clock): the list must show it, too. */
void close_sweep_note_close(struct temporal *engine, int64_t close_us);
/* Requests lists; returns when it wants to be called again. */
int64_t close_sweep_step(struct temporal *engine, int64_t now_us);
void close_sweep_close(struct temporal *engine);

#endif
