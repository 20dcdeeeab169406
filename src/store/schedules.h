/* Schedules: executions at the times of a calendar.
 *
 * A schedule names its times (calendar/recurrence.h), a workflow with params, and the workspaces to start it in: a list, or
 * all workspaces of a plan. A time that has come is due. The node that schedules advances the schedule behind its due time,
 * and the same transaction inserts a firing for each workspace. An execution is enqueued for each firing, whose idempotency
 * key names schedule and time, so a repeated enqueue makes no second one. Executions of one schedule in one workspace do
 * not overlap: a firing waits for the execution before it, or the overlap policy leaves it out. A retry of an ended
 * execution is no execution of the schedule. docs/design/schedules.md has the reasons. store/store.h includes this file.
 */
#ifndef WEIR_STORE_SCHEDULES_H
#define WEIR_STORE_SCHEDULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "calendar/recurrence.h"
#include "queue/limits.h"
#include "store/settings.h"
#include "weir/status.h"

struct store;

enum {
    SCHEDULE_NAME_MAX = 64,            /* bytes; [a-z0-9][a-z0-9_-]* */
    SCHEDULES_MOST = 10000,            /* of a store */
    SCHEDULE_WORKSPACES_MOST = 100,    /* of a list */
    SCHEDULE_PARAMS_BYTES_MAX = 65536, /* a firing is read with them */
    SCHEDULES_READ_MOST = 100,         /* due ones, of one call */
    SCHEDULE_FIRINGS_READ_MOST = 500,  /* of one call */
    SCHEDULE_CANCELS_READ_MOST = 100,  /* of these, firings that need a cancel: however many wait, others start */
    SCHEDULE_STARTS_READ_MOST = SCHEDULE_FIRINGS_READ_MOST - SCHEDULE_CANCELS_READ_MOST,
    SCHEDULE_FIRINGS_MOST = 1000, /* that wait, of one schedule and workspace; times of one advance */
    SCHEDULE_PART_MOST = 5000,    /* firings that one transaction inserts */
    SCHEDULE_BACKLOG_MOST = 10000 /* pending executions of a workspace; with so many, firings are refused */
};
/* Of the idempotency keys of executions that schedules start: schedule/NAME/TIME. */
#define SCHEDULE_KEY_PREFIX "schedule/"
enum { SCHEDULE_KEY_MAX = sizeof SCHEDULE_KEY_PREFIX "/" + SCHEDULE_NAME_MAX + TIME_TEXT_MAX };
void schedule_key(const char *schedule, int64_t due_us, char ret_key[SCHEDULE_KEY_MAX]);
/* Members of the params that each firing adds: its due time, and the name of the schedule. */
#define SCHEDULE_TIME_MEMBER "scheduled_for"
#define SCHEDULE_NAME_MEMBER "schedule"
/* A due time is fired until it is this old. */
#define SCHEDULE_CATCH_UP_DEFAULT_US (3600 * MICROSECONDS_PER_SECOND)
#define SCHEDULE_CATCH_UP_LEAST_US (10 * MICROSECONDS_PER_SECOND)
#define SCHEDULE_CATCH_UP_MOST_US (3650 * 86400 * MICROSECONDS_PER_SECOND)
#define SCHEDULE_JITTER_MOST_US (86400 * MICROSECONDS_PER_SECOND)
/* A due time that is this old was missed: a node advances a schedule within about a second. */
#define SCHEDULE_LATE_US (120 * MICROSECONDS_PER_SECOND)

/* A due time comes while an execution of the schedule in the workspace has not ended. */
enum schedule_overlap {
    OVERLAP_SKIP,          /* it is left out */
    OVERLAP_QUEUE_ONE,     /* it waits for the end, unless another one waits */
    OVERLAP_QUEUE_ALL,     /* it waits for the end, in the order of times */
    OVERLAP_CANCEL_RUNNING /* the execution is cancelled, and only the newest time waits for that */
};
const char *schedule_overlap_name(enum schedule_overlap overlap);
bool schedule_overlap_parse(const char *name, enum schedule_overlap *ret_overlap);

struct schedule_request {
    const char *name;
    struct recurrence_text when;
    int64_t jitter_us; /* whole seconds: each execution is due at a time that is later by at most this */
    const char *workflow;
    const char *params;            /* JSON object text; NULL = {} */
    const char *const *workspaces; /* names, each once */
    size_t workspace_count;        /* 0: those of the plan */
    const char *plan;              /* NULL: those of the list */
    enum schedule_overlap overlap;
    int64_t catch_up_us; /* whole seconds; 0 = SCHEDULE_CATCH_UP_DEFAULT_US */
};
/* The checks of store_schedule_set() but for the names of workspaces and plans, for a dry run. A server as the store checks
 * the time zone itself where this machine has none. Errors as of store_schedule_set(). */
WEIR_MUST_CHECK enum weir_status store_schedule_check(struct store *store, const struct schedule_request *request,
                                                      struct weir_error *error);
/* Makes or changes a schedule. A changed one keeps its counters and its firings, and stays paused; with the same times an
 * overdue time stays due. The workflow may be published later. *ret_is_new may be NULL. Errors: WEIR_INVALID_ARGUMENT,
 * also for one without a time in the future. WEIR_INVALID_PARAMS, WEIR_PARAMS_TOO_LARGE, WEIR_WORKSPACE_NOT_FOUND,
 * WEIR_PLAN_NOT_FOUND. WEIR_ILLEGAL_STATE: the store has SCHEDULES_MOST, or the schedule is of a definition: that is
 * changed by store_publish() alone. */
WEIR_MUST_CHECK enum weir_status store_schedule_set(struct store *store, const struct schedule_request *request,
                                                    bool *ret_is_new, struct weir_error *error);
/* A paused schedule does not fire, and its waiting firings are removed, but for triggered ones. A resumed one goes on with
 * the first time after now. WEIR_NOT_FOUND. */
WEIR_MUST_CHECK enum weir_status store_schedule_pause(struct store *store, const char *name, bool paused,
                                                      struct weir_error *error);
/* WEIR_ILLEGAL_STATE: a definition sets this schedule, so it is not set or deleted otherwise. For a dry run. */
WEIR_MUST_CHECK enum weir_status store_schedule_check_owner(struct store *store, const char *name,
                                                            struct weir_error *error);
/* Removes the schedule and its waiting firings. Executions stay. WEIR_NOT_FOUND, WEIR_ILLEGAL_STATE as of
 * store_schedule_set(). */
WEIR_MUST_CHECK enum weir_status store_schedule_delete(struct store *store, const char *name, struct weir_error *error);

struct schedule_counts {
    int64_t firings;  /* that were inserted */
    int64_t skipped;  /* workspaces that the overlap policy left out, and waiting firings that it removed */
    int64_t existing; /* workspaces that have a firing or an execution of the time already */
    int64_t rest;     /* workspaces that get their firings later, by a node */
};
struct schedule_trigger {
    const char *name;              /* of the schedule */
    const char *const *workspaces; /* some of those of the schedule, each once */
    size_t workspace_count;        /* 0: all, or with a time those in which it was refused */
    int64_t at_us;                 /* a past time; 0 = now */
};
/* The checks of store_schedule_trigger(), for a dry run. */
WEIR_MUST_CHECK enum weir_status store_schedule_trigger_check(struct store *store, const struct schedule_trigger *trigger,
                                                              struct weir_error *error);
/* Fires beside the times and also when the schedule is paused; the overlap policy holds. A workspace that has an execution
 * of `at_us` is not started again, so the call can be repeated. With OVERLAP_CANCEL_RUNNING a time that is older than
 * one which waits or runs is skipped. Errors: WEIR_NOT_FOUND, WEIR_WORKSPACE_NOT_FOUND. WEIR_INVALID_ARGUMENT: a time
 * in the future, a workspace of another schedule. WEIR_ILLEGAL_STATE: firings of another time are inserted in parts. */
WEIR_MUST_CHECK enum weir_status store_schedule_trigger(struct store *store, const struct schedule_trigger *trigger,
                                                        struct schedule_counts *ret_counts, struct weir_error *error);

/* --- next times, for the command line and for HTTP: they read no store --- */

/* The times of a row of LIST_SCHEDULES. The texts belong to the row. */
struct recurrence_text schedule_row_times(const json_t *row);
/* The first `count` times after `after_us`: a list of {"at": UTC, "local_at": in the zone of the expression}, shorter when
 * no time is left. The caller releases it; NULL after an error. WEIR_INVALID_ARGUMENT; WEIR_FAILED: this machine cannot
 * read the time zone; WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status schedule_next_times(const struct recurrence_text *when, int64_t after_us, int64_t count,
                                                     json_t **ret_times, struct weir_error *error);

/* --- the duty of the node that schedules --- */

struct due_schedule {
    int64_t id;
    const char *name;
    struct recurrence_text when;
    int64_t due_us;     /* no time before it is to fire; after a resumption it is none itself; TIME_NEVER = none is left */
    int64_t expands_us; /* the time that has not all of its firings yet; TIME_NEVER = none */
    int64_t catch_up_us;
    enum schedule_overlap overlap;
};
struct due_schedules {
    struct due_schedule *schedules; /* the longest due first */
    size_t count;
    int64_t now_us;      /* store time */
    int64_t next_due_us; /* of the first one that is not due yet; TIME_NEVER = none */
    bool firings_wait;
};
/* In the arena. At most SCHEDULES_READ_MOST. */
WEIR_MUST_CHECK enum weir_status store_read_due_schedules(struct store *store, struct arena *arena,
                                                          struct due_schedules *ret_due, struct weir_error *error);

struct schedule_advance {
    int64_t id;
    int64_t due_us;          /* as it was read: a schedule that has another one by now is left alone */
    int64_t continues_us;    /* expands_us, as it was read: the call inserts further firings of it, and no others */
    const int64_t *fires_us; /* the times that fire, ascending; several of them with OVERLAP_QUEUE_ALL only */
    size_t fire_count;       /* at most SCHEDULE_FIRINGS_MOST */
    int64_t next_us;         /* the new due time; TIME_NEVER = none is left */
    int64_t dropped;         /* times that were too old */
    int64_t passed;          /* times that a later one replaces: skipped in each workspace */
    int64_t retry_us;        /* with an error: it is not read again before; 0 = does not apply */
    const char *error_code;
    const char *error;             /* why it was not advanced; NULL */
    struct schedule_counts counts; /* filled by the call */
    bool is_done;                  /* filled by the call: it was advanced */
};
/* One transaction, which inserts about SCHEDULE_PART_MOST firings. With more workspaces the schedule is read again as one
 * with `expands_us`. Of several times those that are too many for the transaction stay due. */
WEIR_MUST_CHECK enum weir_status store_advance_schedule(struct store *store, struct schedule_advance *advance,
                                                        struct weir_error *error);

struct schedule_firing {
    int64_t schedule_id;
    int64_t workspace_id;
    const char *schedule;
    const char *workspace; /* NULL: it was deleted */
    bool is_of_plan;
    const char *workflow;
    const char *params;
    int64_t due_us;
    int64_t jitter_us;                  /* 0 for one that was triggered */
    char planned_id[UUID_TEXT_MAX];     /* of its execution */
    bool is_late;                       /* it could have started, and is older than the catch-up window */
    bool is_backlogged;                 /* SCHEDULE_BACKLOG_MOST executions wait there, without those of the last moment */
    char cancels_id[UUID_TEXT_MAX];     /* an execution to cancel first, by the overlap policy; "" = none: it may start */
    enum workflow_state workflow_state; /* beside cancels_id: of the version that it would start; WORKFLOW_DELETED: none */
};
struct schedule_firings {
    struct schedule_firing *firings; /* the oldest of each schedule and workspace */
    size_t count;
};
/* In the arena. At most SCHEDULE_FIRINGS_READ_MOST. */
WEIR_MUST_CHECK enum weir_status store_read_schedule_firings(struct store *store, struct arena *arena,
                                                             struct schedule_firings *ret_firings,
                                                             struct weir_error *error);

struct schedule_outcome {
    int64_t schedule_id;
    int64_t workspace_id;
    int64_t due_us;
    const char *execution_id; /* NULL: the enqueue was refused, or the firing is dropped; it is removed */
    bool is_dropped;
    const char *error_code; /* of a refusal; NULL with neither an execution nor a drop: the removal counts nowhere */
    const char *error;
    char settled_id[UUID_TEXT_MAX]; /* filled by the call: the execution of the firing; "" = it has none */
};
/* At most SCHEDULE_FIRINGS_READ_MOST. A repetition counts nothing again. An execution with the planned id of the firing
 * wins over a refusal: it was enqueued by a call that lost its settlement. */
WEIR_MUST_CHECK enum weir_status store_settle_schedule_firings(struct store *store, struct schedule_outcome *outcomes,
                                                               size_t count, struct weir_error *error);

#endif
