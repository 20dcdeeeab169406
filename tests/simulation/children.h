/* Executions that start others: the model of their steps with children, and its checks (children.c, child_checks.c). The
 * rest of the simulation sees it by these functions alone. */
#ifndef WEIR_TESTS_SIMULATION_CHILDREN_H
#define WEIR_TESTS_SIMULATION_CHILDREN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/uuid.h"
#include "queue/limits.h"
#include "queue/step.h"
#include "store/children.h"

struct change;
struct model_item;
struct simulation;

/* --- the model of one step with children --- */

struct model_child {
    char id[UUID_TEXT_MAX];         /* of its execution: the planned one, or that of its key */
    char planned_id[UUID_TEXT_MAX]; /* of its row when it was planned */
    char status[16];                /* its end on record, "" = none */
    char code[ERROR_CODE_MAX + 1];  /* of a refusal */
    bool is_adopted;
    bool is_begun; /* before the call that is being looked at */
};
struct model_family {
    char parent[UUID_TEXT_MAX];
    char step[STEP_ID_MAX + 1];
    json_t *plan;           /* as its record has brought it */
    bool is_there, is_gone; /* its row */
    int64_t count;          /* -1: the store has not read the plan */
    int64_t started, ended, completed, cancelled_to, depth;
    int64_t planned; /* children that have rows */
    bool has_rest;   /* the store keeps the plan of the others */
    bool is_settled;
    int64_t row_wanted, row_parallel;
    bool row_leaves, row_waits_for_all;
    char problem[32];
    struct model_child *children;
    size_t child_count; /* of `children` */
    size_t row_count;   /* those that have a row */
    /* The wait of a step; a state has its own in the model of its machine. */
    char status[16]; /* of the row of the step, "" = none */
    char code[ERROR_CODE_MAX + 1];
    int64_t due_us; /* store time */
    int signals, consumed;
    json_t *data; /* of the signal */
    int64_t undone_since_us;
    /* In the call that is being looked at. */
    int64_t batch;
    bool was_unread, was_settled, was_waiting;
    int signalled_now, consumed_now;
};
/* How a child must begin: under its own id, as an execution that is there, or refused. */
struct child_begin {
    const char *code; /* NULL: it is not refused */
    const struct model_item *adopted;
};

/* --- children.c --- */

void children_prepare(struct simulation *simulation);
void children_close(struct simulation *simulation);
/* A scripted_planner. */
char *children_draw_plan(void *context, const char *id, int *ret_awaited);
/* NULL: the execution has no such step with children. */
struct model_family *children_find(struct simulation *simulation, const char *parent, const char *step);
/* Where its children start; -1: there is no such workspace. */
int children_workspace(struct simulation *simulation, const struct model_family *family);
struct child_begin children_expected_begin(struct simulation *simulation, const struct model_family *family, size_t place);
void children_note_family(struct simulation *simulation, const struct change *change);
void children_note_child(struct simulation *simulation, const struct change *change);
void children_note_wait(struct simulation *simulation, const struct change *change);
void children_note_signal(struct simulation *simulation, const struct change *change);
/* The item has appeared in the queue. */
void children_note_item(struct simulation *simulation, struct model_item *item);
/* The duty has read the plan of the step, which may have ended by then. */
bool children_may_drop_plan(struct simulation *simulation, const char *parent, const char *step);
/* The duty cancels it, because its parent has ended. */
bool children_may_cancel(struct simulation *simulation, const struct model_item *item);
/* The duty wakes it, because the wait for its children is over. check_child_wait() follows. */
bool children_may_wake(const struct simulation *simulation, struct model_item *item);

/* --- child_checks.c --- */

void check_new_child(struct simulation *simulation, const struct model_family *family, size_t place,
                     const struct model_item *item);
void check_child_change(struct simulation *simulation, const struct model_family *family, size_t place,
                        const struct model_child *before);
/* After each call. */
void check_children(struct simulation *simulation);
void check_child_wait(struct simulation *simulation, const struct model_item *item);
/* The duty was done by a node. */
void children_check_advance(struct simulation *simulation, enum weir_status status, const struct children_advance *advance);
/* After a calm step. */
void children_check_promptness(struct simulation *simulation);

#endif
